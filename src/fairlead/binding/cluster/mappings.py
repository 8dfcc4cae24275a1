"""Workload mappings, and what they were when bindings were projected by them.

After a mapping is modified, what was projected by it has to be removed by what it was, and
attempted anew (specification 1.1). The former mapping is kept here until it is on the binding,
in the annotation that the original operator has for it.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from fairlead.api.meta import decode_object
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
        self._superseded: dict[Request, str] = {}

    async def start(self) -> None:
        """Take notice of changes, and wait until all mappings are known."""
        self._informer.subscribe(self.changed)
        await self._informer.synced()

    def changed(self, delta: Delta) -> None:
        """Remember what a mapping was, for those that were projected by it."""
        old = delta.old.to_dict().get("spec") if delta.old else {"versions": []}
        new = delta.new.to_dict().get("spec") if delta.new else {"versions": []}
        if delta.initial or old == new:
            return
        text = msgspec.json.encode({"spec": old}).decode()
        for request in self._projected_by(delta.object.meta.name):
            self._superseded.setdefault(request, text)
            self._enqueue(request)

    def answer(self, request: Request, read: Get) -> Answer:
        """The mapping for a binding: as it was, while that is not yet on the binding.

        So nothing is projected by a new mapping before it is unbound by the old one, even when
        the mapping changes in the middle of a pass.
        """
        superseded = self._superseded.get(request)
        if superseded:
            return decode_object(superseded.encode())
        missing = f'{read.resource.group_resource} "{read.name}" not found'
        return self._informer.get("", read.name) or Failure("NotFound", missing)

    def superseded(self, request: Request) -> str:
        """JSON of the former mapping, "" when there is none."""
        return self._superseded.get(request, "")

    def settled(self, request: Request, text: str) -> None:
        """Forget the former mapping, which is on the binding now."""
        if self._superseded.get(request) == text:
            del self._superseded[request]

    def forget(self, request: Request) -> None:
        """Forget the binding, which is gone."""
        self._superseded.pop(request, None)


def is_mapping(read: Get) -> bool:
    """Whether a read is one of a mapping."""
    return read.resource == CLUSTERWORKLOADRESOURCEMAPPINGS
