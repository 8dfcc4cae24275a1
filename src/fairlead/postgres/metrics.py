"""Metrics of the work at PostgreSQL servers, by the owner of the connection.

The label ``owner`` is a PostgresServer, or the namespace whose accesses bring connections of their
own. No series names a host or a role, and there are no more series than PostgresServers and
namespaces. Logins that end are counted for all owners together. Numbers are counted during the
work and read at each scrape.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Protocol

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from fairlead.api.conditions import Condition
from fairlead.api.reasons.postgres import POSTGRES, finer
from fairlead.api.timestamps import moment
from fairlead.client.metrics import Histogram
from fairlead.postgres.database.connections.sessions import SessionCosts
from fairlead.postgres.errors import AccessError


CYCLE_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 100.0)
"""Upper bounds of the histogram of cycles, in seconds."""

ENDING = {"1d": timedelta(days=1), "7d": timedelta(days=7), "30d": timedelta(days=30)}
"""Times within which logins that end are counted, by the label's value."""

_LABELS = ("owner",)
_UNREACHABLE = frozenset({"ConnectionFailed", "TLSFailed", "TimedOut"})
"""Reasons of errors by which a server counts as unreachable."""
_ELSEWHERE = _UNREACHABLE | {"AuthenticationFailed", "Expired", "LoginEnded"}
"""Reasons of accesses that fail with their server, or whose end was asked for."""


class Worked(Protocol):
    """The counts of the work at one server."""

    @property
    def roles(self) -> int:
        """Number of roles that are in sync and compared with the server at intervals."""
        ...

    @property
    def pending(self) -> int:
        """Number of accesses that are being worked on or wait for their turn."""
        ...


class OwnerMetrics:
    """The metrics of the servers of one owner."""

    def __init__(self) -> None:
        self.tally = SessionCosts()
        self.healed = 0
        self.seconds = Histogram(CYCLE_BUCKETS)
        self.servers: list[Worked] = []
        self.is_known = False
        """Whether the owner's PostgresServer exists, with or without accesses."""
        self.administrator_refused: bool | None = None
        """Whether the last login of a PostgresServer's administrator was refused; None unknown."""
        self._reached: dict[object, bool] = {}

    @property
    def reachable(self) -> float | None:
        """1 if all servers answered the last time, otherwise 0; None before the first question."""
        return float(all(self._reached.values())) if self._reached else None

    def reached(self, error: Exception | None = None, server: object = "") -> None:
        """Record whether a server answered; ``server`` tells servers of one namespace apart."""
        away = isinstance(error, TimeoutError) or (
            isinstance(error, AccessError) and error.reason in _UNREACHABLE
        )
        self._reached[server] = not away

    def ended(self, server: Worked) -> None:
        """Remove a server without accesses."""
        self.servers.remove(server)
        self._reached.pop(server, None)


class PostgresMetrics(Collector):
    """The metrics of all servers, for the manager's registry."""

    def __init__(self) -> None:
        self._owners: dict[str, OwnerMetrics] = {}
        self._refused: dict[Hashable, tuple[str, str]] = {}
        self._locked: dict[Hashable, str] = {}
        self._failing: dict[Hashable, str] = {}
        self._ends: dict[Hashable, datetime] = {}

    def of(self, owner: str) -> OwnerMetrics:
        """Return the owner's metrics, created on first use."""
        return self._owners.setdefault(owner, OwnerMetrics())

    def tidy(self, owner: str) -> None:
        """Forget an owner that does not exist any more and has no servers."""
        metrics = self._owners.get(owner)
        if metrics is not None and not metrics.servers and not metrics.is_known:
            del self._owners[owner]

    def refused(self, access: Hashable, owner: str, reason: str) -> None:
        """Count an access as refused until :meth:`accepted`; "" is a missing owner."""
        self._refused[access] = (owner, reason)
        self._locked.pop(access, None)

    def accepted(self, access: Hashable) -> None:
        """Count an access as neither refused nor locked, or as gone."""
        self._refused.pop(access, None)
        self._locked.pop(access, None)

    def lock(self, access: Hashable, owner: str) -> None:
        """Count an access as locked by another session until :meth:`accepted`."""
        self._refused.pop(access, None)
        self._locked[access] = owner

    def judged(self, access: Hashable, owner: str, ready: Condition | None) -> None:
        """Count an access as failing, or not, by its condition Ready; None for one that is gone.

        Other metrics stand for those that fail with their server, and for logins that end.
        """
        self._failing.pop(access, None)
        if ready is None or ready.status == "True":
            return
        reason, _ = finer(ready.reason, ready.message)
        if POSTGRES.state(reason) == "failed" and reason not in _ELSEWHERE:
            self._failing[access] = owner

    def ends(self, access: Hashable, at: datetime | None) -> None:
        """Count the login of an access among those that end; None for one that does not."""
        if at is None:
            self._ends.pop(access, None)
        else:
            self._ends[access] = at

    def collect(self) -> Iterable[Metric]:
        """Yield all series; called at each scrape."""
        yield self._gauge(
            "reachable",
            "1 if all servers of the owner answered the last connection attempt, otherwise 0",
            _reachable,
        )
        yield self._gauge(
            "administrator_refused",
            "1 if the server refused the last login of its administrator, otherwise 0",
            _refused,
        )
        yield self._gauge("roles", "Roles that the operator keeps in sync", _roles)
        yield self._gauge(
            "changes_pending", "Accesses that wait for work on their server", _pending
        )
        yield self._numbers(
            "locked", "Accesses that wait for a lock that another session holds", self._locked
        )
        yield self._numbers(
            "failing", "Accesses that have failed although their server answers", self._failing
        )
        yield self._counter(
            "drift_healed", "Times that the operator restored an access after drift", _healed
        )
        yield self._counter(
            "statements",
            "Statements sent to the servers, including COMMIT and similar ones",
            _statements,
        )
        yield self._counter("logins", "Connections that the operator opened", _logins)
        yield self._cycles()
        yield self._refusals()
        yield self._endings()

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
            "Time to compare all accesses in sync with their server",
            labels=_LABELS,
        )
        for owner, metrics in self._owners.items():
            seconds = metrics.seconds
            family.add_metric([owner], seconds.cumulative(), sum_value=seconds.sum)
        return family

    def _numbers(self, name: str, help_: str, owners: Mapping[Hashable, str]) -> Metric:
        family = GaugeMetricFamily(f"fairlead_postgres_{name}", help_, labels=_LABELS)
        numbers = Counter(owners.values())
        for owner in {**self._owners, **numbers}:
            family.add_metric([owner], numbers[owner])
        return family

    def _endings(self) -> Metric:
        family = GaugeMetricFamily(
            "fairlead_postgres_logins_ending",
            (
                "Logins that end within this time, except those with a lifetime of less than 28"
                " days"
            ),
            labels=("within",),
        )
        left = [end - moment() for end in self._ends.values()]
        for within, longest in ENDING.items():
            count = sum(timedelta() < one <= longest for one in left)
            family.add_metric([within], count)
        return family

    def _refusals(self) -> Metric:
        family = GaugeMetricFamily(
            "fairlead_postgres_refused",
            "Accesses that the operator refuses",
            labels=(*_LABELS, ("reason")),
        )
        for (owner, reason), count in Counter(self._refused.values()).items():
            family.add_metric([owner, reason], count)
        return family


_Reader = Callable[[OwnerMetrics], float | None]


def _reachable(metrics: OwnerMetrics) -> float | None:
    return metrics.reachable


def _refused(metrics: OwnerMetrics) -> float | None:
    refused = metrics.administrator_refused
    return None if refused is None else float(refused)


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
