"""Objects of one resource in single namespaces, or in all, as one cache.

With the informer scope ``Namespaced`` the konnector has rights in single namespaces of the
provider only, so there is one watch for each; they come and go with the APIServiceNamespaces.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from fairlead.api.meta import Key, Object
from fairlead.api.resource import Resource
from fairlead.runtime import Cluster, Handler, Informer, InformerClosed


EVERYWHERE = frozenset({""})
"""The namespaces of a view of a whole cluster."""


class View:
    """Leases on informers, opened and closed while :meth:`run` runs.

    ``namespaces`` gives the namespaces to watch, {""} for all; after :meth:`mark` it is asked
    again. ``on_synced`` is called with a namespace whose objects are known now, "" for all, and
    ``opened`` with each new lease.
    """

    def __init__(
        self,
        cluster: Cluster,
        resource: Resource,
        namespaces: Callable[[], frozenset[str]],
        *,
        handler: Handler,
        on_synced: Callable[[str], None],
        opened: Callable[[Informer], None] = lambda _lease: None,
    ) -> None:
        self._cluster = cluster
        self._resource = resource
        self._namespaces = namespaces
        self._handler = handler
        self._on_synced = on_synced
        self._opened = opened
        self._leases: dict[str, Informer] = {}
        self._dirty = asyncio.Event()

    def get(self, key: Key) -> Object | None:
        """The object as last seen."""
        lease = self._lease(key.namespace)
        return lease.get(key.namespace, key.name) if lease else None

    def objects(self, namespace: str = "") -> list[Object]:
        """The objects of one namespace, or all that are seen."""
        return [found for lease in self._leases.values() for found in lease.list(namespace)]

    def ready(self, namespace: str) -> bool:
        """Whether the objects of a namespace are known."""
        lease = self._lease(namespace)
        return lease is not None and lease.has_synced

    def settled(self) -> bool:
        """Whether the objects of every namespace are known."""
        return self._leases.keys() == self._namespaces() and all(
            lease.has_synced for lease in self._leases.values()
        )

    def errors(self) -> list[str]:
        """Why watches do not work."""
        return [lease.error for lease in self._leases.values() if lease.error]

    def mark(self) -> None:
        """The namespaces may have changed."""
        self._dirty.set()

    async def run(self) -> None:
        """Follow the namespaces until cancelled, then give the leases back."""
        self._dirty.set()
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    await self._dirty.wait()
                    self._dirty.clear()
                    await self._follow(group)
        finally:
            for lease in self._leases.values():
                await lease.close()
            self._leases.clear()

    async def _follow(self, group: asyncio.TaskGroup) -> None:
        wanted = self._namespaces()
        for namespace in wanted - self._leases.keys():
            lease = self._cluster.informer(self._resource, namespace=namespace)
            self._leases[namespace] = lease
            self._opened(lease)
            lease.subscribe(self._handler)
            group.create_task(self._announce(namespace, lease))
        for namespace in self._leases.keys() - wanted:
            await self._leases.pop(namespace).close()

    async def _announce(self, namespace: str, lease: Informer) -> None:
        try:
            await lease.synced()
        except InformerClosed:
            return
        self._on_synced(namespace)

    def _lease(self, namespace: str) -> Informer | None:
        return self._leases.get("" if "" in self._leases else namespace)
