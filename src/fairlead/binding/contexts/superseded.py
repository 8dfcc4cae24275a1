"""Generated Secrets of former content, which stay as long as something may still read them.

A workload says in its record which Secret it has. Of those that are rolled out, the controllers of
Kubernetes copy annotations, hence records too, to each ReplicaSet and ControllerRevision: one that
is still there may have pods, or be what a rollback goes back to. Of other kinds of workloads
nobody can tell what they have made, so their former Secrets stay until the binding goes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from fairlead.api.resource import (
    CONTROLLERREVISIONS,
    DAEMONSETS,
    DEPLOYMENTS,
    REPLICASETS,
    SECRETS,
    STATEFULSETS,
    Resource,
)
from fairlead.binding.contexts.reader import Reader
from fairlead.binding.projection import Owner
from fairlead.binding.reads import Lookup, Marked, ReadError
from fairlead.binding.records import RECORDED_ANNOTATION, read_records, record_key


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
        used = {secret for kind in kinds for secret in _used(reader, owner, kind)}
    except (ReadError, LookupError):
        return []
    return [(name, uid) for name, uid in candidates if name not in used]


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


def _used(reader: Reader, owner: Owner, kind: Lookup) -> Iterator[str]:
    """The Secrets in the records on workloads of a kind and on what is made of them.

    Raises:
        ReadError: they cannot be read.
        LookupError: what is made of them is not known.
    """
    resource = reader.snapshot.lookup(kind)
    copies = _COPIES.get((resource.group, resource.plural))
    if copies is None:
        raise LookupError(resource.group_resource)
    for place in (resource, copies):
        yield from _recorded(reader, owner, place)


def _recorded(reader: Reader, owner: Owner, resource: Resource) -> Iterator[str]:
    read = Marked(resource, owner.namespace, record_key(owner.uid), optional=True)
    try:
        found = reader.snapshot.list(read)
    except ReadError as error:
        if error.missing:
            return
        raise
    for item in found:
        record = read_records(item.meta.annotations).get(owner.uid)
        if record is None:
            raise LookupError(item.meta.name)
        yield record.secret
