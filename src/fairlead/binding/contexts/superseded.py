"""Generated Secrets of former content, which are kept while something may read them.

A workload's record names its Secret. For Deployments, StatefulSets and DaemonSets the controllers
of Kubernetes copy annotations, and with them records, to each ReplicaSet or ControllerRevision:
an existing one may have pods, or be the target of a rollback. For other kinds the objects that the
workload owns are checked, such as a CronJob's Jobs or a custom kind's Deployment and ReplicaSets:
a Secret that one of them names is kept. A custom kind may also own objects of unknown kinds, as
Knative's Service owns Revisions: unless a workload of a custom kind owns an object of a known
kind, all its former Secrets are kept.
"""

from __future__ import annotations

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
from fairlead.api.servicebinding.generated import is_generated
from fairlead.binding import bounds
from fairlead.binding.contexts.reader import Reader
from fairlead.binding.reads import Lookup, Marked, ReadError
from fairlead.binding.workloads.projection import ProjectionOwner
from fairlead.binding.workloads.records import RECORDED_ANNOTATION, read_records, record_key
from fairlead.binding.workloads.workload import FIXED, Workload


_BELOW = (DEPLOYMENTS, STATEFULSETS, DAEMONSETS, REPLICASETS, CONTROLLERREVISIONS, JOBS)
"""Kinds of objects that workloads of other kinds own, directly or through another object."""


_BUILT_IN = {"", "apps", "batch"}
"""API groups of kinds whose controllers only create objects of the checked kinds."""

_COPIES = {
    (DEPLOYMENTS.group, DEPLOYMENTS.plural): REPLICASETS,
    (STATEFULSETS.group, STATEFULSETS.plural): CONTROLLERREVISIONS,
    (DAEMONSETS.group, DAEMONSETS.plural): CONTROLLERREVISIONS,
}
"""Kind of the revision that each rollout of a workload creates."""

_Place: TypeAlias = tuple[str, str, str]
"""Group, plural and name of a workload; not its version, since all share the objects."""


class Superseded(NamedTuple):
    """Names and uids of unread former Secrets, and whether others may still be read."""

    free: list[tuple[str, str]]
    read: bool = False


async def superseded(
    reader: Reader,
    owner: ProjectionOwner,
    kinds: Iterable[Lookup],
    current: str,
    changing: Iterable[Workload] = (),
) -> Superseded:
    """Return the generated Secrets that nothing reads; if that is uncertain, none.

    ``kinds`` are those of workloads that the binding is or was projected onto. Workloads that
    are ``changing`` in this pass do not count: they stop to read former Secrets.
    """
    places = {_place(one.resource, one.original.meta.name) for one in changing}
    candidates = await _former(reader, owner, current)
    if not candidates:
        return Superseded([])
    free = candidates
    try:
        # Several lookups may lead to one kind, whose records are read once.
        resources = [await reader.snapshot.lookup(kind) for kind in kinds]
        for resource in {(one.group, one.plural): one for one in resources}.values():
            names = [name for name, _ in free]
            used = await _used(reader, owner, resource, names, places)
            free = [(name, uid) for name, uid in free if name not in used]
    except (ReadError, LookupError):
        return Superseded([], read=True)
    return Superseded(free, read=len(free) < len(candidates))


async def generated(reader: Reader, owner: ProjectionOwner) -> list[Object]:
    """Return the metadata of the owner's generated Secrets.

    Raises:
        ReadError: the Secrets cannot be listed.
    """
    read = Marked(SECRETS, owner.namespace, owner=owner.uid, optional=True)
    secrets = await reader.snapshot.list(read)
    return [one for one in secrets if is_generated(one.meta.name, owner.name)]


async def _former(reader: Reader, owner: ProjectionOwner, current: str) -> list[tuple[str, str]]:
    """Return names and uids of the owner's generated Secrets except ``current``.

    Secrets from before there were records are left out, and all if the list fails.
    """
    try:
        secrets = await generated(reader, owner)
    except ReadError:
        return []
    # Without this annotation the Secret is from before records, and ReplicaSets without a record
    # may read it.
    return [
        (secret.meta.name, secret.meta.uid)
        for secret in secrets
        if RECORDED_ANNOTATION in secret.meta.annotations and secret.meta.name != current
    ]


async def _used(
    reader: Reader,
    owner: ProjectionOwner,
    resource: Resource,
    names: list[str],
    changing: Collection[_Place],
) -> set[str]:
    """Return the Secrets that workloads of a kind, or objects that they own, use.

    Raises:
        ReadError: the objects cannot be read.
        LookupError: a record is malformed.
    """
    copies = _COPIES.get((resource.group, resource.plural))
    used = await _recorded(reader, owner, resource, changing)
    if copies is not None:
        used |= await _recorded(reader, owner, copies, ())
    if copies is not None or (resource.group, resource.plural) in FIXED:
        return used
    workloads = await _marked(reader, owner, resource)
    await _read_levels(
        reader, owner, [workload.meta.uid for workload in workloads], bounds.OWNER_LEVELS
    )
    for workload in workloads:
        objects = await _below(reader, owner, workload.meta.uid, bounds.OWNER_LEVELS)
        # Its controller may have created objects of an unknown kind.
        if not objects and resource.group not in _BUILT_IN:
            used.update(names)
        for item in objects:
            used.update(name for name in names if f'"{name}"'.encode() in item.raw)
    return used


async def _read_levels(
    reader: Reader, owner: ProjectionOwner, uids: list[str], levels: int
) -> None:
    """Read the objects that :func:`_below` needs, level by level, each level at once."""
    if not levels or not uids:
        return
    await reader.read_owned(_BELOW, owner.namespace, uids)
    below = [
        item.meta.uid
        for uid in uids
        for resource in _BELOW
        for item in await reader.owned_by(resource, owner.namespace, uid)
    ]
    await _read_levels(reader, owner, below, levels - 1)


async def _below(reader: Reader, owner: ProjectionOwner, uid: str, levels: int) -> list[Object]:
    """Return the objects that an object owns, down to a number of levels."""
    objects: list[Object] = []
    for resource in _BELOW if levels else ():
        for item in await reader.owned_by(resource, owner.namespace, uid):
            objects += [item, *await _below(reader, owner, item.meta.uid, levels - 1)]
    return objects


async def _recorded(
    reader: Reader, owner: ProjectionOwner, resource: Resource, changing: Collection[_Place]
) -> set[str]:
    """Return the Secrets that the records of a kind's objects name.

    Raises:
        ReadError: the objects cannot be read.
        LookupError: a record is malformed.
    """
    secrets: set[str] = set()
    for item in await _marked(reader, owner, resource):
        if _place(resource, item.meta.name) in changing:
            continue
        record = read_records(item.meta.annotations).get(owner.uid)
        # A malformed record may name any of the Secrets.
        if record is None:
            raise LookupError(item.meta.name)
        secrets.add(record.secret)
    return secrets


def _place(resource: Resource, name: str) -> _Place:
    return resource.group, resource.plural, name


async def _marked(reader: Reader, owner: ProjectionOwner, resource: Resource) -> Sequence[Object]:
    read = Marked(resource, owner.namespace, record_key(owner.uid), optional=True)
    try:
        return await reader.snapshot.list(read)
    except ReadError as error:
        if error.missing:
            return ()
        raise
