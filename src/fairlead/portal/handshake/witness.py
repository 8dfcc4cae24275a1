"""Audit lines of consumers that administrators hand over or revoke, by commands or kubectl.

Every replica writes a line; lines of one event have the same namespace and version.
"""

from __future__ import annotations

from typing import Any

from fairlead.api.kubebind import ANNOTATION_AUTHOR
from fairlead.api.meta import Object
from fairlead.api.resource import NAMESPACES
from fairlead.portal.http.audit import audit
from fairlead.provider.namespaces import identity_of
from fairlead.runtime import Cluster, Delta


class Witness:
    """Writes audit lines when consumers' namespaces change owner or are deleted."""

    def __init__(self, cluster: Cluster) -> None:
        self._namespaces = cluster.informer(NAMESPACES, metadata_only=True)
        self._namespaces.subscribe(_changed)


def _changed(delta: Delta) -> None:
    old, new = delta.old, delta.new
    if old is None or not _is_consumer(old):
        return
    if new is None or not _is_consumer(new):
        # A deletion is told at its beginning, and not again when the namespace is gone: old is
        # then deleting.
        _tell("revoke", old, new or old)
    elif _author(old) != _author(new):
        _tell("hand-over", old, new, to=_author(new))


def _is_consumer(namespace: Object) -> bool:
    """Whether the namespace is a consumer's that is not being deleted."""
    return bool(identity_of(namespace)) and not namespace.meta.deleting


def _tell(event: str, old: Object, new: Object, **more: Any) -> None:
    audit(
        event,
        what=identity_of(old),
        author=_author(old),
        namespace=new.meta.name,
        version=new.meta.resource_version,
        **more,
    )


def _author(namespace: Object) -> str:
    return namespace.meta.annotations.get(ANNOTATION_AUTHOR, "")
