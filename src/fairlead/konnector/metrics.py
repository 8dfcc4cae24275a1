"""Metrics of synchronisation, by binding and resource.

Numbers are counted here as syncers work, and a scrape collects them. They outlive a syncer that is
started again, and go with their binding.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from types import TracebackType
from typing import Literal, NamedTuple, Self

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from fairlead.api.conditions import get_condition, is_true, stored_conditions
from fairlead.api.kbind import Binding
from fairlead.api.kbind.names import READY
from fairlead.api.meta import Key, Object
from fairlead.api.reasons.verdict import verdict_of
from fairlead.client.metrics import Histogram
from fairlead.konnector import bounds
from fairlead.runtime import Informer, Metrics


LATENCY_BUCKETS = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0),
)
"""Buckets of the latency histogram, in seconds."""

Side = Literal["consumer", "provider"]
Clock = Callable[[], float]

_LABELS = ("binding", "resource")


class _Watch(NamedTuple):
    informer: Informer
    side: Side
    before: Counter[str]
    """Restarts of the informer before this binding used it."""

    def restarts(self) -> Counter[str]:
        return self.informer.restarts - self.before


class Way:
    """One direction of synchronisation: when changes arrived, and how long they took to cross."""

    def __init__(self, clock: Clock) -> None:
        self.seconds = Histogram(LATENCY_BUCKETS)
        self._clock = clock
        self._since: dict[Key, float] = {}
        self._looked: dict[Key, float] = {}

    @property
    def pending(self) -> int:
        """Number of objects that have changed since a pass last worked on them."""
        return len(self._since)

    @property
    def uncrossed(self) -> int:
        """Number of objects with a change that has not crossed, also during a pass over them."""
        return len(self._since.keys() | self._looked.keys())

    @property
    def oldest(self) -> float:
        """Time since the oldest change that has not crossed arrived, in seconds; 0 without one."""
        moments = [min(since.values()) for since in (self._since, self._looked) if since]
        return self._clock() - min(moments) if moments else 0.0

    def arrived(self, key: Key, since: float | None = None) -> None:
        """Record the arrival of an object's change; the earliest pending arrival counts."""
        self._since.setdefault(key, self._clock() if since is None else since)

    def take(self, key: Key) -> float | None:
        """Return when the next change to work on arrived; later ones count anew."""
        since = _popped(self._since, key)
        if since is not None:
            # A server may take long, or for ever.
            self._looked[key] = since
        return since

    def looked(self, key: Key) -> None:
        """Remove the object's change from the changes that a pass works on."""
        _popped(self._looked, key)

    def give_back(self, key: Key, since: float | None) -> None:
        """Make a change pending again that has not crossed, with its time of arrival."""
        if since is not None:
            self._since[key] = since

    def observe(self, since: float) -> None:
        """Count the latency of a change that has crossed."""
        self.seconds.observe(self._clock() - since)


def _popped(moments: dict[Key, float], key: Key) -> float | None:
    moment = moments.pop(key, None)
    if not moments:
        # A dict keeps its largest table until it is cleared.
        moments.clear()
    return moment


class SyncLook:
    """Context of one pass over one object: takes the pending changes of both directions.

    Changes for which the pass writes count by their latency, and those that need no write count no
    more. Changes that the pass does not finish, or fails at, stay pending.
    """

    def __init__(self, metrics: SyncMetrics, key: Key) -> None:
        self._ways = (metrics.spec, metrics.status)
        self._key = key
        self._since: list[float | None] = []
        self._unfinished = False

    def __enter__(self) -> Self:
        self._since = [way.take(self._key) for way in self._ways]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for way in self._ways:
            way.looked(self._key)
        if kind is None and not self._unfinished:
            return
        for way, since in zip(self._ways, self._since, strict=True):
            way.give_back(self._key, since)

    def spec_crossed(self) -> None:
        """Count the latency of the consumer's change: the provider has answered its write."""
        self._crossed(0)

    def status_crossed(self) -> None:
        """Count the latency of the provider's change: the consumer has answered its write."""
        self._crossed(1)

    def unfinished(self) -> None:
        """Keep the changes pending after the pass, such as while no namespace is assigned."""
        self._unfinished = True

    def _crossed(self, number: int) -> None:
        since = self._since[number]
        if since is not None:
            self._ways[number].observe(since)
            self._ways[number].looked(self._key)
            self._since[number] = None


class SyncMetrics:
    """Metrics of one resource of one binding; ``clock`` is in seconds."""

    def __init__(self, binding: str, resource: str, clock: Clock = time.monotonic) -> None:
        self.binding = binding
        self.resource = resource
        self.controller = ""
        self._clock = clock
        self.spec = Way(clock)
        self.status = Way(clock)
        self.objects_in_sync = 0
        self.objects_in_conflict = 0
        self.objects_failing = 0
        self._depth: Callable[[], int] = int
        self._watches: list[_Watch] = []
        self._ended: Counter[tuple[Side, str]] = Counter()

    def now(self) -> float:
        """Return the time in seconds, by the clock of both directions."""
        return self._clock()

    def counted(self, *, in_sync: int, conflicts: int, failing: int) -> None:
        """Set the numbers of objects that equal their copies, need a person, or are refused."""
        self.objects_in_sync = in_sync
        self.objects_in_conflict = conflicts
        self.objects_failing = failing

    def looking(self, key: Key) -> SyncLook:
        """Return a context for one look at one object."""
        return SyncLook(self, key)

    def queue(self, depth: Callable[[], int]) -> None:
        """Set the function that returns the number of objects in the engine's queue."""
        self._depth = depth

    def watch(self, informer: Informer, side: Side) -> None:
        """Count the restarts of this informer's watch until it is closed."""
        self._fold()
        self._watches.append(_Watch(informer, side, Counter(informer.restarts)))

    def stopped(self) -> None:
        """Set the numbers of objects to 0, because their engine has stopped."""
        self.counted(in_sync=0, conflicts=0, failing=0)
        self._depth = int

    @property
    def works(self) -> bool:
        """Whether an engine is at work."""
        return self._depth is not int

    @property
    def depth(self) -> int:
        """The number of objects in the engine's queue."""
        return self._depth()

    def restarts(self) -> Counter[tuple[Side, str]]:
        """Ends of watches and lists by side and reason."""
        self._fold()
        total = Counter(self._ended)
        for watch in self._watches:
            _add(total, watch)
        return total

    def _fold(self) -> None:
        """Keep the numbers of informers that are closed, and drop the informers."""
        for watch in self._watches:
            if watch.informer.closed:
                _add(self._ended, watch)
        self._watches = [one for one in self._watches if not one.informer.closed]


def _add(total: Counter[tuple[Side, str]], watch: _Watch) -> None:
    for reason, count in watch.restarts().items():
        total[watch.side, reason] += count


class Syncs(Collector):
    """Metrics of all bindings, a part of the manager's registry."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._by_kind: dict[tuple[str, str], SyncMetrics] = {}
        metrics.registry.register(self)

    def of(self, binding: str, resource: str, controller: str) -> SyncMetrics:
        """Return the metrics of a resource of a binding, created on first use.

        ``controller`` is the name of the controller that does the work.
        """
        metrics = self._by_kind.get((binding, resource))
        if metrics is None:
            metrics = self._by_kind[binding, resource] = SyncMetrics(binding, resource)
        metrics.controller = controller
        return metrics

    def forget(self, binding: str, resource: str = "") -> None:
        """Drop the series of a binding that is gone, with its controllers' series.

        With ``resource`` they are those of a resource that the binding has no more.
        """
        gone = [
            self._by_kind.pop(key)
            for key in list(self._by_kind)
            if key[0] == binding and resource in {"", key[1]}
        ]
        # Claims of several bindings on one resource have controllers of the same name.
        controllers = {metrics.controller for metrics in self._by_kind.values()}
        for controller in {metrics.controller for metrics in gone} - controllers:
            self._metrics.forget(controller)

    def collect(self) -> Iterable[Metric]:
        """Yield all series; called at each scrape."""
        yield self._gauge("objects_in_sync", "Objects that equal their copies", _in_sync)
        yield self._gauge(
            "conflicts",
            "Objects in conflict with another object, which wait for a person",
            _in_conflict,
        )
        yield self._gauge(
            "failing", "Objects for which an API server refused the last write", _failing
        )
        yield self._gauge("queue_depth", "Objects that wait in the queue", _depth)
        yield self._ways("pending", "Objects with a change that has not crossed", _pending)
        yield self._ways(
            "oldest_pending_seconds",
            "Time since the arrival of the oldest change that has not crossed",
            _oldest,
        )
        yield self._latency()
        yield self._restarts()

    def _rows(self) -> Iterator[tuple[list[str], SyncMetrics]]:
        for (binding, resource), metrics in self._by_kind.items():
            yield [binding, resource], metrics

    def _gauge(self, name: str, help_: str, read: Callable[[SyncMetrics], int]) -> Metric:
        family = GaugeMetricFamily(f"fairlead_sync_{name}", help_, labels=_LABELS)
        for row, metrics in self._rows():
            family.add_metric(row, read(metrics))
        return family

    def _ways(self, name: str, help_: str, read: Callable[[Way], float]) -> Metric:
        family = GaugeMetricFamily(f"fairlead_sync_{name}", help_, labels=(*_LABELS, "direction"))
        for row, metrics in self._rows():
            for direction, way in (("spec", metrics.spec), ("status", metrics.status)):
                # The unfinished changes of a stopped syncer, as after an unbinding, do not wait; a
                # syncer that is started again counts them from their arrival.
                family.add_metric([*row, direction], read(way) if metrics.works else 0.0)
        return family

    def _latency(self) -> Metric:
        family = HistogramMetricFamily(
            "fairlead_sync_latency_seconds",
            "Time from the watch event of a change until the other side answers the write",
            labels=(*_LABELS, "direction"),
        )
        for row, metrics in self._rows():
            for direction, way in (("spec", metrics.spec), ("status", metrics.status)):
                seconds = way.seconds
                family.add_metric([*row, direction], seconds.cumulative(), sum_value=seconds.sum)
        return family

    def _restarts(self) -> Metric:
        family = CounterMetricFamily(
            "fairlead_sync_watch_restarts",
            "Watches and lists that ended",
            labels=(*_LABELS, "side", "reason"),
        )
        for row, metrics in self._rows():
            for (side, reason), count in metrics.restarts().items():
                family.add_metric([*row, side, reason], count)
        return family


def _pending(way: Way) -> float:
    return way.uncrossed


def _oldest(way: Way) -> float:
    return way.oldest


def _in_sync(metrics: SyncMetrics) -> int:
    return metrics.objects_in_sync


def _in_conflict(metrics: SyncMetrics) -> int:
    return metrics.objects_in_conflict


def _failing(metrics: SyncMetrics) -> int:
    return metrics.objects_failing


def _depth(metrics: SyncMetrics) -> int:
    return metrics.depth


class KbindInformers(NamedTuple):
    """The kinds of kbind v2 in the consumer's cluster."""

    connections: Informer
    cluster_bindings: Informer
    bindings: Informer


class BindingStates(Collector):
    """States of bindings of both protocols and of Connections, by their conditions at a scrape.

    A protocol that is not served has no informers. The first Bindings by age have series of their
    own, since tenants create them; all others share one, which has the sum of their values.
    """

    def __init__(
        self, metrics: Metrics, bindings: Informer | None, kbind: KbindInformers | None = None
    ) -> None:
        self._bindings = bindings
        self._kbind = kbind
        metrics.registry.register(self)

    def collect(self) -> Iterable[Metric]:
        """Yield the series; called at each scrape."""
        family = GaugeMetricFamily(
            "fairlead_konnector_binding_failed",
            (
                "1 if the state of the binding is failed, or if a binding of kbind v2 is not"
                " Ready although its Connection is; otherwise 0"
            ),
            labels=("binding",),
        )
        if self._bindings is not None:
            for binding in sorted(self._bindings.list(), key=lambda obj: obj.meta.name):
                family.add_metric([binding.meta.name], verdict_of(binding).state == "failed")
        if self._kbind is None:
            yield family
            return
        connections = {obj.meta.name: obj for obj in self._kbind.connections.list()}
        ready = {
            name
            for name, obj in connections.items()
            if is_true(stored_conditions(obj.to_dict()), READY)
        }
        for label, failed in _kbind_rows(self._kbind, ready):
            family.add_metric([label], failed)
        yield family
        family = GaugeMetricFamily(
            "fairlead_konnector_connection_ready",
            (
                "1 if the Connection of kbind v2 is Ready, otherwise 0; no value during its"
                " deletion"
            ),
            labels=("binding",),
        )
        for name, connection in sorted(connections.items()):
            if not connection.meta.deleting:
                family.add_metric([connection_label(name)], name in ready)
        yield family


def connection_label(name: str) -> str:
    """Return the label of a Connection; no APIServiceBinding has such a name."""
    return f"connection/{name}"


def _kbind_rows(kbind: KbindInformers, ready: Collection[str]) -> Iterator[tuple[str, int]]:
    """Yield the label of each binding, and whether it has failed."""
    for binding in sorted(kbind.cluster_bindings.list(), key=lambda obj: obj.meta.name):
        yield f"clusterbinding/{binding.meta.name}", _has_failed(binding, ready)
    in_order = sorted(
        kbind.bindings.list(), key=lambda obj: (obj.meta.creation_timestamp or "", obj.key)
    )
    for binding in in_order[: bounds.BINDING_SERIES]:
        yield f"binding/{binding.key}", _has_failed(binding, ready)
    if others := in_order[bounds.BINDING_SERIES :]:
        yield "binding/other", sum(_has_failed(binding, ready) for binding in others)


def _has_failed(obj: Object, ready: Collection[str]) -> bool:
    """Whether a binding of kbind v2 needs a person.

    One that waits for its Connection does not, and one that waits for something else while its
    Connection is ready does, if that lasts.
    """
    if verdict_of(obj).state == "failed":
        return True
    binding = obj.try_decode(Binding)
    if binding is None or obj.meta.deleting:
        return False
    condition = get_condition(binding.status.conditions, READY)
    is_unready = condition is not None and condition.status == "False"
    return is_unready and binding.spec.connection_ref.name in ready
