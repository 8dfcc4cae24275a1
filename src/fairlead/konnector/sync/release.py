"""Release of deleted objects without waiting for their copies: export or provider is gone."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack

from fairlead.api.kubebind import FINALIZER_SYNCER
from fairlead.api.meta import Key
from fairlead.api.resource import Resource
from fairlead.client import ApiError, Conflict, NotFound
from fairlead.konnector.consumer import Consumer
from fairlead.runtime import Delta, Request, remove_finalizer


class Releaser:
    """Takes the syncer's finalizer off objects of one resource that are being deleted.

    ``released`` is called after each removal. What this cluster's server refuses is reported among
    the ``binding``'s objects that fail, and tried again with growing pauses. With ``lossy`` it is
    the last one to let go: a write in this version takes fields from an object that others still
    hold.
    """

    def __init__(
        self,
        consumer: Consumer,
        binding: str,
        resource: Resource,
        *,
        lossy: bool = False,
        released: Callable[[], None] = lambda: None,
    ) -> None:
        self._consumer = consumer
        self._binding = binding
        self._resource = resource
        self._lossy = lossy
        self._released = released

    async def run(self) -> None:
        """Work until cancelled."""
        objects = self._consumer.cluster.informer(self._resource)
        source = f"the release of {self._resource.group_resource}"
        report = self._consumer.reports.of(self._binding, source, self._resource.kind)

        async def reconcile(request: Request) -> None:
            obj = objects.get(request.namespace, request.name)
            key = Key(request.namespace, request.name)
            if obj is None or not self._waits(Delta("MODIFIED", obj, obj)):
                report.well(key)
                return
            client = self._consumer.client
            try:
                if await remove_finalizer(client, self._resource, obj, FINALIZER_SYNCER):
                    self._released()
            except (Conflict, NotFound):
                # The server refuses nothing: the object has changed, or its kind is not served.
                raise
            except ApiError as error:
                report.failed(key, error, obj.meta.generation, ours=True)
                raise
            report.well(key)

        async with AsyncExitStack() as stack:
            stack.push_async_callback(objects.close)
            stack.callback(report.clear)
            controller = self._consumer.controller(
                f"release-{self._resource.group_resource}", reconcile
            )
            controller.watch(objects, predicate=self._waits)
            await controller.run()

    def _waits(self, delta: Delta) -> bool:
        meta = delta.object.meta
        ours = meta.finalizers == [FINALIZER_SYNCER] if self._lossy else True
        return meta.deleting and FINALIZER_SYNCER in meta.finalizers and ours
