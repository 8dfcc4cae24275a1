"""The controller of the kind Controller: its Ready condition, and a summary of the servers.

A Controller that is not in charge gets a condition that says so. No other work waits for this.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

import msgspec

from fairlead.api.conditions import Condition, Event, set_condition, turned
from fairlead.api.meta import Key, Object
from fairlead.api.postgresaccess import READY
from fairlead.api.postgresaccess.controller import (
    CONTROLLERS,
    Accesses,
    ControllerStatus,
    ServerSummary,
)
from fairlead.api.timestamps import now
from fairlead.postgres import bounds
from fairlead.postgres.controllers.settings import ReadyVerdict, in_charge, judge
from fairlead.postgres.controllers.watches import (
    AccessWatches,
    condition_of,
    server_of,
    wanted_otherwise,
)
from fairlead.postgres.options import PostgresOptions
from fairlead.runtime import Cluster, Controller, Delta, Informer, Request, StatusWriter


Counts = dict[str, Accesses]
"""Numbers of accesses by PostgresServer; "" is for own connections."""


class SingletonController:
    """Writes the status of each Controller; the one in charge gets the summary of the servers."""

    def __init__(self, cluster: Cluster, watches: AccessWatches, flags: PostgresOptions) -> None:
        self._cluster = cluster.name
        self._flags = flags
        self._controllers = watches.controllers
        self._statuses = StatusWriter(
            cluster.client, CONTROLLERS, cluster.events("fairlead-postgres"), controller_events
        )
        self.controller = Controller("controller", self.reconcile)
        self.controller.watch(watches.controllers, self._concerned, predicate=wanted_otherwise)
        self._tally = SyncTally(watches.accesses, self._count_soon)

    async def reconcile(self, request: Request) -> None:
        """Write the status of one Controller."""
        obj = self._controllers.get(request.namespace, request.name)
        if obj is None:
            return
        verdict = judge(obj, self._controllers.list(self._flags.namespace), self._flags)
        status = controller_status(
            _status(obj), verdict, obj.meta.generation, now(), self._tally.counts()
        )
        body = obj.to_dict()
        body["status"] = msgspec.to_builtins(status)
        await self._statuses.write(obj, body)

    def _concerned(self, delta: Delta) -> Iterable[Request]:
        """Yield a Controller's request, and those of all in the operator's namespace beside it."""
        meta = delta.object.meta
        yield Request(self._cluster, meta.namespace, meta.name)
        if meta.namespace == self._flags.namespace:
            for other in self._controllers.list(self._flags.namespace):
                yield Request(self._cluster, other.meta.namespace, other.meta.name)

    def _count_soon(self) -> None:
        chosen = in_charge(self._controllers.list(self._flags.namespace))
        if chosen is not None:
            request = Request(self._cluster, chosen.meta.namespace, chosen.meta.name)
            self.controller.enqueue(request, after=bounds.SUMMARY_SECONDS)


class SyncTally:
    """Counts the accesses of each server that are in sync, as they come, change and go."""

    def __init__(self, accesses: Informer, changed: Callable[[], None]) -> None:
        self._statuses: dict[Key, tuple[str, bool]] = {}
        self._counts: Counter[tuple[str, bool]] = Counter()
        self._changed = changed
        accesses.subscribe(self._heard)

    def counts(self) -> Counts:
        """Return by server how many accesses are ready, and how many are failing."""
        servers = sorted({name for (name, _), count in self._counts.items() if count})
        return {
            name: Accesses(ready=self._counts[name, True], failing=self._counts[name, False])
            for name in servers
        }

    def _heard(self, delta: Delta) -> None:
        key = delta.object.key
        before = self._statuses.pop(key, None)
        if delta.new is not None:
            after = (server_of(delta.new), condition_of(delta.new) == "True")
            self._statuses[key] = after
            if after == before:
                return
            self._counts[after] += 1
        if before is not None:
            self._counts[before] -= 1
        self._changed()


def controller_status(
    old: ControllerStatus, verdict: ReadyVerdict, generation: int, now_: str, counts: Counts
) -> ControllerStatus:
    """Return the new status; only the Controller in charge has a summary."""
    ready = verdict.reason == "Ready"
    condition = Condition(
        READY, "True" if ready else "False", verdict.reason, verdict.message, "", generation
    )
    status = ControllerStatus(
        conditions=set_condition(old.conditions, condition, now=now_),
        observed_generation=generation,
    )
    if not ready:
        return status
    status.accesses = Accesses(
        ready=sum(one.ready for one in counts.values()),
        failing=sum(one.failing for one in counts.values()),
    )
    status.own_connections = counts.get("")
    servers = sorted(name for name in counts if name)
    # A full list leaves out the servers with the fewest failures.
    worst = sorted(servers, key=lambda name: -counts[name].failing)[: bounds.SERVERS]
    status.servers = [
        ServerSummary(name=name, ready=counts[name].ready, failing=counts[name].failing)
        for name in sorted(worst)
    ]
    return status


def controller_events(old: Object, new: Object) -> list[Event]:
    """Return the events for a change of a Controller's status."""
    return turned(_status(old).conditions, _status(new).conditions, READY)


def _status(controller: Object) -> ControllerStatus:
    """Return the status, an empty one where another writer made it invalid."""
    try:
        return controller.decode(_WithStatus).status
    except msgspec.ValidationError:
        return ControllerStatus()


class _WithStatus(msgspec.Struct):
    status: ControllerStatus = msgspec.field(default_factory=ControllerStatus)
