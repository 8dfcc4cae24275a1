"""Workload mappings, which every binding asks for and few clusters have many of.

What was projected by a mapping is taken away by the paths in the record of it, whatever becomes
of the mapping. So bindings have only to look again when one changes.
"""

from __future__ import annotations

from collections.abc import Callable

from fairlead.api.servicebinding.mapping import CLUSTERWORKLOADRESOURCEMAPPINGS
from fairlead.binding.reads import Answer, Failure, Get
from fairlead.runtime import Cluster, Delta, Request


class Mappings:
    """The mappings of one cluster, for the bindings of one API.

    ``projected_by`` tells which bindings were computed from a mapping, ``enqueue`` has one of
    them looked at again.
    """

    def __init__(
        self,
        cluster: Cluster,
        projected_by: Callable[[str], list[Request]],
        enqueue: Callable[[Request], None],
    ) -> None:
        self._informer = cluster.informer(CLUSTERWORKLOADRESOURCEMAPPINGS)
        self._projected_by = projected_by
        self._enqueue = enqueue

    async def start(self) -> None:
        """Take notice of changes, and wait until all mappings are known."""
        self._informer.subscribe(self.changed)
        await self._informer.synced()

    def changed(self, delta: Delta) -> None:
        """Have those who were computed from a mapping look again."""
        old = delta.old.to_dict().get("spec") if delta.old else None
        new = delta.new.to_dict().get("spec") if delta.new else None
        if delta.initial or old == new:
            return
        for request in self._projected_by(delta.object.meta.name):
            self._enqueue(request)

    def answer(self, read: Get) -> Answer:
        """The mapping that a read is about."""
        missing = f'{read.resource.group_resource} "{read.name}" not found'
        return self._informer.get("", read.name) or Failure("NotFound", missing)


def is_mapping(read: Get) -> bool:
    """Whether a read is one of a mapping."""
    return read.resource == CLUSTERWORKLOADRESOURCEMAPPINGS
