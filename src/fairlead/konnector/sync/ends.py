"""The objects of one resource on one side: where they are read, and what was written there.

With the informer scope ``Namespaced`` the konnector has rights in single namespaces of the
provider only, so there is one watch for each; they come and go with the APIServiceNamespaces.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from fairlead.api.meta import Key, Object
from fairlead.api.resource import Resource
from fairlead.konnector.files import WatchBudget
from fairlead.konnector.policies.steps import Outcome, Side
from fairlead.konnector.reports import Fault
from fairlead.runtime import Cluster, Handler, Informer, InformerClosed
from fairlead.runtime.cache.expectations import Expectations


EVERYWHERE = frozenset({""})
"""The namespaces of a collection that is watched in the whole cluster."""


class WatchedCollection:
    """One side of a resource: leases on informers while :meth:`run` runs, and what we wrote.

    ``namespaces`` gives the namespaces to watch, {""} for all; after :meth:`mark` it is asked
    again. ``expectations`` are our own writes that the informers have not told of yet.
    ``budget`` has the places for watches: a namespace without one waits, and is told of;
    ``serves`` gives the consumer's namespace for one that is watched.
    ``outcomes`` are, by the consumer's key, what came of writes where it is not what was wanted;
    they are in memory alone: after a restart such an object costs one write that changes nothing.
    """

    def __init__(
        self,
        side: Side,
        cluster: Cluster,
        resource: Resource,
        namespaces: Callable[[], frozenset[str]],
        budget: WatchBudget | None = None,
        serves: Callable[[str], str] = str,
    ) -> None:
        self.side = side
        self.client = cluster.client
        self.resource = resource
        self.expectations = Expectations()
        self.outcomes: dict[Key, Outcome] = {}
        self._cluster = cluster
        self._namespaces = namespaces
        self._leases: dict[str, Informer] = {}
        self._budget = budget or WatchBudget()
        self._serves = serves
        self._crowded: frozenset[str] = frozenset()
        self._dirty = asyncio.Event()

    def newest(self, key: Key) -> Object | None:
        """The object as it was last seen or written, whichever is later."""
        lease = self._lease(key.namespace)
        cached = lease.get(key.namespace, key.name) if lease else None
        return self.expectations.newest(key, cached)

    def seen(self, key: Key) -> bool:
        """Whether the watch has told of an object, and not that it is gone."""
        lease = self._lease(key.namespace)
        return lease is not None and lease.get(key.namespace, key.name) is not None

    def objects(self, namespace: str = "") -> list[Object]:
        """The objects of one namespace, or all that are seen."""
        return [found for lease in self._leases.values() for found in lease.list(namespace)]

    def ready(self, namespace: str) -> bool:
        """Whether the objects of a namespace are known."""
        lease = self._lease(namespace)
        return lease is not None and lease.has_synced

    def settled(self) -> bool:
        """Whether the objects of every namespace are known."""
        # A namespace that was assigned a moment ago has no lease yet, and what is in it is not
        # known.
        return self._leases.keys() == self._namespaces() and all(
            lease.has_synced for lease in self._leases.values()
        )

    def faults(self) -> list[Fault]:
        """Why watches do not work."""
        found = [faults_of(lease) for lease in self._leases.values() if lease.error]
        return [*found, *self._shortage()]

    def _shortage(self) -> list[Fault]:
        if not self._crowded:
            return []
        budget, without = self._budget, len(self._crowded)
        return [
            Fault(
                f"{self.resource.group_resource} of {without} of {without + len(self._leases)} "
                "namespaces are not watched: each namespace and kind takes an open file, and the "
                f"konnector may have {budget.limit}, {budget.reserve} of them for all else; allow "
                f"it {budget.needed} (ulimit -n, LimitNOFILE)"
            )
        ]

    def mark(self) -> None:
        """The namespaces may have changed."""
        self._dirty.set()

    async def run(
        self,
        handler: Handler,
        known: Callable[[str], None],
        opened: Callable[[Informer], None] = lambda _lease: None,
    ) -> None:
        """Follow the namespaces until cancelled, then give the leases back.

        Args:
            handler: is told of every change.
            known: is called with a namespace whose objects are known now, "" for all.
            opened: is called with each new lease.
        """
        self._dirty.set()
        self._budget.join(self, self.mark)
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    await self._dirty.wait()
                    self._dirty.clear()
                    wanted = self._allowed(self._namespaces())
                    for namespace in sorted(self._leases.keys() - wanted):
                        await self._leases.pop(namespace).close()
                    for namespace in sorted(wanted - self._leases.keys()):
                        lease = self._cluster.informer(self.resource, namespace=namespace)
                        self._leases[namespace] = lease
                        opened(lease)
                        lease.subscribe(handler)
                        group.create_task(_announce(namespace, lease, known))
        finally:
            for lease in self._leases.values():
                await lease.close()
            self._leases.clear()
            self._budget.leave(self)

    def _allowed(self, namespaces: frozenset[str]) -> frozenset[str]:
        """Those of the namespaces that may be watched; the others are told of as a fault."""
        places = {namespace: self._place(namespace) for namespace in sorted(namespaces)}
        wanted = {place: self._serves(namespace) for namespace, place in places.items()}
        self._budget.want(self, wanted)
        allowed = frozenset(one for one in namespaces if self._budget.allows(places[one]))
        self._crowded = namespaces - allowed
        return allowed

    def _place(self, namespace: str) -> str:
        return f"{self._cluster.name} {self.resource} {namespace}"

    def _lease(self, namespace: str) -> Informer | None:
        return self._leases.get("" if "" in self._leases else namespace)


def faults_of(lease: Informer) -> Fault:
    """Why the watch of a lease does not work, with "" when it does."""
    return Fault(lease.error, lease.cause)


async def _announce(namespace: str, lease: Informer, known: Callable[[str], None]) -> None:
    try:
        await lease.synced()
    except InformerClosed:
        # The namespace went before its objects were known, and nobody waits for them any more.
        return
    known(namespace)
