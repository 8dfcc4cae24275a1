"""Lets the objects of a binding go whose provider counts as gone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from fairlead.api.meta import Object
from fairlead.api.resource import Resource
from fairlead.konnector.consumer import Consumer
from fairlead.konnector.crds import served_resource
from fairlead.konnector.policies.work import WorkKey
from fairlead.konnector.supervisor import Supervisor
from fairlead.konnector.sync.release import Releaser


class Releases:
    """One releaser for each CRD of a binding; counts what they have let go."""

    def __init__(self, consumer: Consumer) -> None:
        self.supervisor = Supervisor[WorkKey]("unbind")
        self._consumer = consumer
        self._counts: Counter[str] = Counter()

    def count(self, binding: str) -> int:
        """How many objects were let go for a binding."""
        return self._counts[binding]

    async def follow(self, binding: str, crds: Sequence[Object]) -> None:
        """Let go the objects of these CRDs, and of no others of the binding any more."""
        found = {WorkKey(binding, "release", crd.meta.name): served_resource(crd) for crd in crds}
        wanted = {key: resource for key, resource in found.items() if resource is not None}
        for key in self.supervisor.keys - wanted.keys():
            if key.binding == binding:
                await self.supervisor.stop(key)
        for key in wanted.keys() - self.supervisor.keys:
            self.supervisor.start(key, self._releaser(binding, wanted[key]))

    async def forget(self, binding: str) -> None:
        """The binding is gone, or its provider is back."""
        await self.follow(binding, ())
        self._counts.pop(binding, None)

    def _releaser(self, binding: str, resource: Resource) -> Releaser:
        def released() -> None:
            self._counts[binding] += 1

        return Releaser(self._consumer, resource, released=released)
