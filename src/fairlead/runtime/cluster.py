"""A cluster as a value: its client, the informers that are shared on it, its events."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

from fairlead.api.resource import Resource
from fairlead.runtime.backoff import BackoffPolicy
from fairlead.runtime.cache.informer import CacheRoom, Informer, SharedInformer
from fairlead.runtime.cache.missed import Comparisons
from fairlead.runtime.cache.reflector import Scope
from fairlead.runtime.cache.store import Transform, metadata_alone
from fairlead.runtime.events import EventRecorder, EventWriter


if TYPE_CHECKING:
    from fairlead.client import Client


class _Shared:
    """A shared informer, the number of its leases, and the task that feeds it."""

    def __init__(self, informer: SharedInformer) -> None:
        self.informer = informer
        self.essential = False
        self.leases = 0
        self.task: asyncio.Task[None] | None = None


class Cluster:
    """One API server for controllers: its client, shared informers and Events.

    ``transform`` shrinks every object that informers keep whole, unless the scope has a transform
    of its own; ``backoff`` gives the delays after faults of their watches.
    The caller closes the client.
    """

    def __init__(
        self,
        name: str,
        client: Client,
        *,
        transform: Transform | None = None,
        backoff: BackoffPolicy | None = None,
    ) -> None:
        self.name = name
        self.client = client
        self._transform = transform
        self._backoff = backoff
        self._shared: dict[Scope, _Shared] = {}
        self._room = None if client.intake.bounds is None else CacheRoom(client.intake)
        self._events = EventWriter(client)
        self._comparisons = Comparisons(client, self.informers)
        self._group: asyncio.TaskGroup | None = None

    def informer(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        metadata_only: bool = False,
        transform: Transform | None = None,
        essential: bool = True,
    ) -> Informer:
        """Lease the informer of this scope; it watches from now on if the cluster runs.

        The cluster is not up to date without an ``essential`` one that was leased before it runs.
        """
        scope = Scope(resource, namespace, labels, fields, metadata_only, transform)
        shared = self._shared.get(scope)
        if shared is None:
            shared = self._shared[scope] = _Shared(self._make(scope))
            self._start(shared)
        shared.essential |= essential and self._group is None
        shared.leases += 1
        return Informer(shared.informer, lambda: self._release(scope, shared), cluster=self.name)

    def take_room(self, count: int) -> None:
        """Count bytes that are kept of the server beside its caches; a negative number takes back.

        Raises:
            AnswerTooLarge: the bounds of the server leave no room for them.
        """
        if self._room is not None:
            self._room.take(count)

    def informers(self) -> Iterator[SharedInformer]:
        """Return the informers that have a lease."""
        return (shared.informer for shared in self._shared.values())

    @property
    def running(self) -> bool:
        """Whether :meth:`run` is running."""
        return self._group is not None

    def unsynced(self) -> str:
        """Return which informers from before the start are not up to date, and why; "" if none.

        Informers that joined later do not count, and are reported by their owners: one that waits
        for its CRD must not make the whole process unready.
        """
        waiting = [
            shared.informer.reflector.error or f"waiting for {shared.informer.scope}"
            for shared in self._shared.values()
            if shared.essential
            and (shared.informer.reflector.error or not shared.informer.synced.is_set())
        ]
        return "; ".join(waiting)

    def events(self, component: str) -> EventRecorder:
        """Return a recorder of events that name this component as their source."""
        return EventRecorder(self._events, component)

    async def run(self) -> None:
        """Watch and write events until cancelled; the tasks end with this one.

        Raises:
            RuntimeError: the cluster is running already.
        """
        if self._group is not None:
            raise RuntimeError(f"cluster {self.name} is running already")
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                try:
                    for shared in self._shared.values():
                        self._start(shared)
                    group.create_task(self._comparisons.run(), name=f"{self.name}: comparisons")
                    await self._events.run()
                finally:
                    # From here on the group takes no new task.
                    self._group = None
        finally:
            for shared in self._shared.values():
                shared.task = None

    def _make(self, scope: Scope) -> SharedInformer:
        transform = metadata_alone if scope.metadata_only else self._transform
        transform = scope.transform or transform
        return SharedInformer(
            self.client,
            scope,
            transform=transform,
            backoff=self._backoff,
            room=self._room,
        )

    def _start(self, shared: _Shared) -> None:
        if self._group is not None:
            name = f"{self.name}: {shared.informer.scope}"
            shared.task = self._group.create_task(shared.informer.run(), name=name)

    async def _release(self, scope: Scope, shared: _Shared) -> None:
        shared.leases -= 1
        if shared.leases:
            return
        # Before the wait: a request for the same scope meanwhile gets an informer of its own, not
        # the ending one.
        del self._shared[scope]
        if shared.task is not None:
            shared.task.cancel()
            # Awaited, so that no handler is called after the lease was given back.
            await asyncio.wait([shared.task])
        shared.informer.leave()
