"""Generated Secrets of former content, which stay as long as something may still read them.

A workload says in its record which Secret it has. Of those that are rolled out, the controllers of
Kubernetes copy annotations, hence records too, to each ReplicaSet and ControllerRevision: one that
is still there may have pods, or be what a rollback goes back to. Of other kinds it is looked at
what is owned by the workload, a CronJob's Jobs or a custom kind's Deployment and its ReplicaSets:
as long as one names the Secret, it stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

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
from fairlead.binding.workloads.workload import FIXED


_BELOW = (DEPLOYMENTS, STATEFULSETS, DAEMONSETS, REPLICASETS, CONTROLLERREVISIONS, JOBS)
"""What controllers of other kinds make of a workload, and what is made of that in turn."""

_LEVELS = 2

_COPIES = {
    (DEPLOYMENTS.group, DEPLOYMENTS.plural): REPLICASETS,
    (STATEFULSETS.group, STATEFULSETS.plural): CONTROLLERREVISIONS,
    (DAEMONSETS.group, DAEMONSETS.plural): CONTROLLERREVISIONS,
}
"""What is made of a workload whenever its pods are made anew."""


def superseded(
    reader: Reader, owner: Owner, kinds: Iterable[Lookup], current: str
) -> list[tuple[str, str]]:
    """Names and uids of generated Secrets that nothing reads any more; none where that is unsure.

    ``kinds`` are those of the workloads that the binding is, or was, projected onto.
    """
    candidates = list(_generated(reader, owner, current))
    if not candidates:
        return []
    try:
        for kind in kinds:
            used = set(_used(reader, owner, kind, [name for name, _ in candidates]))
            candidates = [(name, uid) for name, uid in candidates if name not in used]
    except (ReadError, LookupError):
        return []
    return candidates


def _generated(reader: Reader, owner: Owner, current: str) -> Iterator[tuple[str, str]]:
    read = Marked(SECRETS, owner.namespace, owner=owner.uid, optional=True)
    pattern = re.compile(re.escape(owner.name) + "-[0-9a-f]{8}")
    try:
        found = reader.snapshot.list(read)
    except ReadError:
        return
    for item in found:
        meta = item.meta
        # What was projected before there were records may be in ReplicaSets that have none.
        recorded = RECORDED_ANNOTATION in meta.annotations
        if recorded and meta.name != current and pattern.fullmatch(meta.name):
            yield meta.name, meta.uid


def _used(reader: Reader, owner: Owner, kind: Lookup, names: list[str]) -> Iterator[str]:
    """The Secrets that workloads of a kind, or what is made of them, have.

    Raises:
        ReadError: they cannot be read.
        LookupError: a record cannot be read.
    """
    resource = reader.snapshot.lookup(kind)
    copies = _COPIES.get((resource.group, resource.plural))
    yield from _recorded(reader, owner, resource)
    if copies is not None:
        yield from _recorded(reader, owner, copies)
    if copies is not None or (resource.group, resource.plural) in FIXED:
        return
    for workload in _marked(reader, owner, resource):
        yield from _named_below(reader, owner, workload.meta.uid, names, _LEVELS)


def _named_below(
    reader: Reader, owner: Owner, uid: str, names: list[str], levels: int
) -> Iterator[str]:
    """Which of these Secrets are named in what belongs to an object."""
    for resource in _BELOW if levels else ():
        for item in reader.owned_by(resource, owner.namespace, uid):
            yield from (name for name in names if f'"{name}"'.encode() in item.raw)
            yield from _named_below(reader, owner, item.meta.uid, names, levels - 1)


def _recorded(reader: Reader, owner: Owner, resource: Resource) -> Iterator[str]:
    for item in _marked(reader, owner, resource):
        record = read_records(item.meta.annotations).get(owner.uid)
        if record is None:
            raise LookupError(item.meta.name)
        yield record.secret


def _marked(reader: Reader, owner: Owner, resource: Resource) -> Sequence[Object]:
    read = Marked(resource, owner.namespace, record_key(owner.uid), optional=True)
    try:
        return reader.snapshot.list(read)
    except ReadError as error:
        if error.missing:
            return ()
        raise
