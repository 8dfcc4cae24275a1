"""Workload mappings, which every binding reads; clusters have few.

A projection is removed by the paths in its record, independently of the mapping. So a change of a
mapping only requires a new pass of its bindings.
"""

from __future__ import annotations

from collections.abc import Callable

from fairlead.api.servicebinding.mapping import CLUSTERWORKLOADRESOURCEMAPPINGS
from fairlead.binding.reads import Answer, Get, ReadFailure
from fairlead.runtime import Cluster, Delta, Request


class Mappings:
    """The mappings of one cluster, for the bindings of one API.

    ``projected_by`` returns the bindings that read a mapping, ``enqueue`` requests a pass of
    one.
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
        """Subscribe to changes, and wait until all mappings are known."""
        self._informer.subscribe(self.changed)
        await self._informer.synced()

    def changed(self, delta: Delta) -> None:
        """Request a pass of the bindings that read a changed mapping."""
        old = delta.old.to_dict().get("spec") if delta.old else None
        new = delta.new.to_dict().get("spec") if delta.new else None
        if delta.initial or old == new:
            return
        for request in self._projected_by(delta.object.meta.name):
            self._enqueue(request)

    def answer(self, read: Get) -> Answer:
        """Return the mapping of a read."""
        missing = f'{read.resource.group_resource} "{read.name}" not found'
        return self._informer.get("", read.name) or ReadFailure("NotFound", missing)


def is_mapping(read: Get) -> bool:
    """Whether ``read`` is for a mapping."""
    return read.resource == CLUSTERWORKLOADRESOURCEMAPPINGS
