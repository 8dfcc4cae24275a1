"""What a scrape tells of the work at PostgreSQL servers, by whose connection it is.

The label is the owner of the connections: a PostgresServer, or the namespace whose accesses bring
connections of their own. Neither hosts nor roles are told, and there are no more series than
PostgresServers and namespaces. Numbers are counted as the work goes and read when somebody asks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import Protocol

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from fairlead.client.metrics import Histogram
from fairlead.postgres.database.connections.sessions import SessionCosts
from fairlead.postgres.errors import AccessError


CYCLE_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 100.0)
"""Seconds."""

_LABELS = ("owner",)
_UNREACHABLE = frozenset({"ConnectionFailed", "TLSFailed", "TimedOut"})
"""Reasons by which nobody has answered, or not in time."""


class Worked(Protocol):
    """The work at one server, as far as it is counted."""

    @property
    def roles(self) -> int:
        """Roles that are in sync, and compared with the server now and then."""
        ...

    @property
    def pending(self) -> int:
        """Accesses that the server is at work for, or will be."""
        ...


class OwnerMetrics:
    """What is known of the servers of one owner."""

    def __init__(self) -> None:
        self.tally = SessionCosts()
        self.healed = 0
        self.seconds = Histogram(CYCLE_BUCKETS)
        self.servers: list[Worked] = []
        self.is_known = False
        """Whether there is a PostgresServer, be it that nobody uses it."""
        self._reached: dict[object, bool] = {}

    @property
    def reachable(self) -> float | None:
        """1 when all servers have answered last time, None when none was asked yet."""
        return float(all(self._reached.values())) if self._reached else None

    def reached(self, error: Exception | None = None, server: object = "") -> None:
        """A server has answered, or has not; ``server`` tells those of one namespace apart."""
        away = isinstance(error, TimeoutError) or (
            isinstance(error, AccessError) and error.reason in _UNREACHABLE
        )
        self._reached[server] = not away

    def ended(self, server: Worked) -> None:
        """Nobody wants anything of this server any more."""
        self.servers.remove(server)
        self._reached.pop(server, None)


class PostgresMetrics(Collector):
    """The metrics of all servers, to be registered with the manager's."""

    def __init__(self) -> None:
        self._owners: dict[str, OwnerMetrics] = {}
        self._refused: dict[Hashable, tuple[str, str]] = {}
        self._held: dict[Hashable, str] = {}

    def of(self, owner: str) -> OwnerMetrics:
        """Those of one owner, the same whenever they are asked for."""
        return self._owners.setdefault(owner, OwnerMetrics())

    def tidy(self, owner: str) -> None:
        """Forget an owner that there is not, and that has no servers."""
        known = self._owners.get(owner)
        if known is not None and not known.servers and not known.is_known:
            del self._owners[owner]

    def refused(self, access: Hashable, owner: str, reason: str) -> None:
        """An access is refused, until :meth:`accepted`; "" is an owner that there is not."""
        self._refused[access] = (owner, reason)
        self._held.pop(access, None)

    def accepted(self, access: Hashable) -> None:
        """An access is neither refused nor held up, or is gone."""
        self._refused.pop(access, None)
        self._held.pop(access, None)

    def held(self, access: Hashable, owner: str) -> None:
        """What an access needs is locked by another session, until :meth:`accepted`."""
        self._refused.pop(access, None)
        self._held[access] = owner

    def collect(self) -> Iterable[Metric]:
        """All series; called at each scrape."""
        yield self._gauge("reachable", "1 when the servers answered last time", _reachable)
        yield self._gauge("roles", "Roles that are kept in sync", _roles)
        yield self._gauge("changes_pending", "Accesses waiting for their server", _pending)
        yield self._lockings()
        yield self._counter("drift_healed", "Accesses brought back after they drifted", _healed)
        yield self._counter("statements", "Statements sent, COMMIT and its like too", _statements)
        yield self._counter("logins", "Connections made", _logins)
        yield self._cycles()
        yield self._refusals()

    def _gauge(self, name: str, help_: str, read: _Reader) -> Metric:
        family = GaugeMetricFamily(f"fairlead_postgres_{name}", help_, labels=_LABELS)
        for owner, metrics in self._owners.items():
            value = read(metrics)
            if value is not None:
                family.add_metric([owner], value)
        return family

    def _counter(self, name: str, help_: str, read: Callable[[OwnerMetrics], float]) -> Metric:
        family = CounterMetricFamily(f"fairlead_postgres_{name}", help_, labels=_LABELS)
        for owner, metrics in self._owners.items():
            family.add_metric([owner], read(metrics))
        return family

    def _cycles(self) -> Metric:
        family = HistogramMetricFamily(
            "fairlead_postgres_cycle_seconds",
            "Comparing all that is in sync with a server",
            labels=_LABELS,
        )
        for owner, metrics in self._owners.items():
            seconds = metrics.seconds
            family.add_metric([owner], seconds.cumulative(), sum_value=seconds.sum)
        return family

    def _lockings(self) -> Metric:
        family = GaugeMetricFamily(
            "fairlead_postgres_locked",
            "Accesses that wait for a lock of another session",
            labels=_LABELS,
        )
        held = Counter(self._held.values())
        for owner in {**self._owners, **held}:
            family.add_metric([owner], held[owner])
        return family

    def _refusals(self) -> Metric:
        family = GaugeMetricFamily(
            "fairlead_postgres_refused", "Accesses that are refused", labels=(*_LABELS, "reason")
        )
        for (owner, reason), count in Counter(self._refused.values()).items():
            family.add_metric([owner, reason], count)
        return family


_Reader = Callable[[OwnerMetrics], float | None]


def _reachable(metrics: OwnerMetrics) -> float | None:
    return metrics.reachable


def _roles(metrics: OwnerMetrics) -> float:
    return sum(server.roles for server in metrics.servers)


def _pending(metrics: OwnerMetrics) -> float:
    return sum(server.pending for server in metrics.servers)


def _healed(metrics: OwnerMetrics) -> float:
    return metrics.healed


def _statements(metrics: OwnerMetrics) -> float:
    return metrics.tally.statements


def _logins(metrics: OwnerMetrics) -> float:
    return metrics.tally.logins
