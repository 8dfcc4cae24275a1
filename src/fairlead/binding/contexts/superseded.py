"""Generated Secrets of former content, which stay as long as something may still read them.

A workload says in its record which Secret it has. Of those that are rolled out, the controllers of
Kubernetes copy annotations, hence records too, to each ReplicaSet and ControllerRevision: one that
is still there may have pods, or be what a rollback goes back to. Of other kinds it is looked at
what is owned by the workload, a CronJob's Jobs or a custom kind's Deployment and its ReplicaSets:
as long as one names the Secret, it stays. A custom kind may also have things made that nobody here
knows, as Knative's Service has Revisions: unless something that is known belongs to a workload of
such a kind, all its former Secrets stay.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple, TypeAlias

from fairlead.api.meta import Object
from fairlead.api.resource import (
    CONTROLLERREVISIONS,
    DAEMONSETS,
    DEPLOYMENTS,
    JOBS,
    REPLICASETS,
    SECRETS,
    STATEFULSETS,
    Resource,
)
from fairlead.binding.contexts.reader import Reader
from fairlead.binding.reads import Lookup, Marked, ReadError
from fairlead.binding.workloads.projection import Owner
from fairlead.binding.workloads.records import RECORDED_ANNOTATION, read_records, record_key
from fairlead.binding.workloads.workload import FIXED, Workload


_BELOW = (DEPLOYMENTS, STATEFULSETS, DAEMONSETS, REPLICASETS, CONTROLLERREVISIONS, JOBS)
"""What controllers of other kinds make of a workload, and what is made of that in turn."""

_LEVELS = 2

_BUILT_IN = {"", "apps", "batch"}
"""The groups of those kinds whose controllers make nothing but what is looked at."""

_COPIES = {
    (DEPLOYMENTS.group, DEPLOYMENTS.plural): REPLICASETS,
    (STATEFULSETS.group, STATEFULSETS.plural): CONTROLLERREVISIONS,
    (DAEMONSETS.group, DAEMONSETS.plural): CONTROLLERREVISIONS,
}
"""What is made of a workload whenever its pods are made anew."""

_Place: TypeAlias = tuple[str, str, str]
"""Group and plural of a workload, and its name: two versions of a kind have the same objects."""


class Superseded(NamedTuple):
    """Names and uids of former Secrets that nothing reads; whether others may still be read."""

    free: list[tuple[str, str]]
    read: bool = False


async def superseded(
    reader: Reader,
    owner: Owner,
    kinds: Iterable[Lookup],
    current: str,
    changing: Iterable[Workload] = (),
) -> Superseded:
    """Which generated Secrets nothing reads any more; where that is unsure all may be read.

    ``kinds`` are those of the workloads that the binding is, or was, projected onto. What is
    ``changing`` in this pass does not count: it will not read a former Secret any more.
    """
    places = {_place(one.resource, one.original.meta.name) for one in changing}
    candidates = await _generated(reader, owner, current)
    if not candidates:
        return Superseded([])
    free = candidates
    try:
        # Many a lookup may lead to one kind, whose records are read once.
        found = [await reader.snapshot.lookup(kind) for kind in kinds]
        for resource in {(one.group, one.plural): one for one in found}.values():
            names = [name for name, _ in free]
            used = await _used(reader, owner, resource, names, places)
            free = [(name, uid) for name, uid in free if name not in used]
    except (ReadError, LookupError):
        return Superseded([], read=True)
    return Superseded(free, read=len(free) < len(candidates))


async def _generated(reader: Reader, owner: Owner, current: str) -> list[tuple[str, str]]:
    """Names and uids of the former Secrets that are there."""
    read = Marked(SECRETS, owner.namespace, owner=owner.uid, optional=True)
    pattern = re.compile(re.escape(owner.name) + "-[0-9a-f]{8}")
    try:
        found = await reader.snapshot.list(read)
    except ReadError:
        return []
    generated: list[tuple[str, str]] = []
    for item in found:
        meta = item.meta
        # What was projected before there were records may be in ReplicaSets that have none.
        recorded = RECORDED_ANNOTATION in meta.annotations
        if recorded and meta.name != current and pattern.fullmatch(meta.name):
            generated.append((meta.name, meta.uid))
    return generated


async def _used(
    reader: Reader,
    owner: Owner,
    resource: Resource,
    names: list[str],
    changing: Collection[_Place],
) -> set[str]:
    """The Secrets that workloads of a kind, or what is made of them, have.

    Raises:
        ReadError: they cannot be read.
        LookupError: a record cannot be read.
    """
    copies = _COPIES.get((resource.group, resource.plural))
    used = await _recorded(reader, owner, resource, changing)
    if copies is not None:
        used |= await _recorded(reader, owner, copies, ())
    if copies is not None or (resource.group, resource.plural) in FIXED:
        return used
    workloads = await _marked(reader, owner, resource)
    await _look_ahead(reader, owner, [workload.meta.uid for workload in workloads], _LEVELS)
    for workload in workloads:
        made = await _below(reader, owner, workload.meta.uid, _LEVELS)
        # Its controller has made something unknown, or nothing yet; nobody can tell which.
        if not made and resource.group not in _BUILT_IN:
            used.update(names)
        for item in made:
            used.update(name for name in names if f'"{name}"'.encode() in item.raw)
    return used


async def _look_ahead(reader: Reader, owner: Owner, uids: list[str], levels: int) -> None:
    """Read what :func:`_below` looks at of several objects, level by level and each at once."""
    if not levels or not uids:
        return
    await reader.look_ahead(_BELOW, owner.namespace, uids)
    below = [
        item.meta.uid
        for uid in uids
        for resource in _BELOW
        for item in await reader.owned_by(resource, owner.namespace, uid)
    ]
    await _look_ahead(reader, owner, below, levels - 1)


async def _below(reader: Reader, owner: Owner, uid: str, levels: int) -> list[Object]:
    """What belongs to an object, and what belongs to that."""
    found: list[Object] = []
    for resource in _BELOW if levels else ():
        for item in await reader.owned_by(resource, owner.namespace, uid):
            found += [item, *await _below(reader, owner, item.meta.uid, levels - 1)]
    return found


async def _recorded(
    reader: Reader, owner: Owner, resource: Resource, changing: Collection[_Place]
) -> set[str]:
    """The Secrets that the records of a kind's objects name.

    Raises:
        ReadError: they cannot be read.
        LookupError: a record cannot be read.
    """
    secrets: set[str] = set()
    for item in await _marked(reader, owner, resource):
        if _place(resource, item.meta.name) in changing:
            continue
        record = read_records(item.meta.annotations).get(owner.uid)
        # The key is there and cannot be read: it may name any of them.
        if record is None:
            raise LookupError(item.meta.name)
        secrets.add(record.secret)
    return secrets


def _place(resource: Resource, name: str) -> _Place:
    return resource.group, resource.plural, name


async def _marked(reader: Reader, owner: Owner, resource: Resource) -> Sequence[Object]:
    read = Marked(resource, owner.namespace, record_key(owner.uid), optional=True)
    try:
        return await reader.snapshot.list(read)
    except ReadError as error:
        if error.missing:
            return ()
        raise
