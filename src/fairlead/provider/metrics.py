"""Metrics of the provider's consumers: heartbeats, refusals, token ages and copies.

A consumer's label is its identity, the name that the commands take. The first
by age have series of their own; all others share ``other``, which has their greatest age and the
sum of their other values. Ages and refusals are read from caches at a scrape. Copies are not
watched here: they are counted from time to time.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

import msgspec
import structlog
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from fairlead.api.kubebind import (
    APISERVICEEXPORTREQUESTS,
    APISERVICEEXPORTS,
    CLUSTER_BINDING_NAME,
    CLUSTERBINDINGS,
    ClusterBinding,
)
from fairlead.api.meta import Object
from fairlead.api.reasons.conditions import state_of
from fairlead.api.resource import NAMESPACES
from fairlead.api.timestamps import moment, parse_time
from fairlead.client import ClientError
from fairlead.provider import bounds
from fairlead.provider.controllers.clusterbinding.reconcile import health
from fairlead.provider.copies import places, tally
from fairlead.provider.namespaces import identity_of
from fairlead.provider.tokens import made_at
from fairlead.runtime import Cluster


OTHER = "other"
"""Label of all consumers without series of their own."""
_VERSION = re.compile(r"v?[0-9][0-9A-Za-z.+-]{0,62}")
_LABELS = ("consumer",)

_log = structlog.get_logger(logger_name="fairlead.provider.metrics")


class ToldConsumer(NamedTuple):
    """Values of one consumer; ages are in seconds, None if there is none."""

    heartbeat_age: float | None
    silent: bool
    token_age: float | None
    version: str
    refused: int


class ConsumerMetrics(Collector):
    """The series of a provider's consumers, and the count of their copies; a runnable.

    ``interval`` is the seconds between two counts.
    """

    name = "objects of consumers"

    def __init__(self, cluster: Cluster, *, interval: float = bounds.COUNT_SECONDS) -> None:
        self._client = cluster.client
        self._interval = interval
        self._namespaces = cluster.informer(NAMESPACES)
        self._bindings = cluster.informer(CLUSTERBINDINGS)
        self._exports = cluster.informer(APISERVICEEXPORTS)
        self._requests = cluster.informer(APISERVICEEXPORTREQUESTS)
        self._objects: Counter[str] | None = None
        self._uncounted = 0

    async def run(self) -> None:
        """Count the copies every ``interval`` seconds, until cancelled."""
        for informer in (self._namespaces, self._exports):
            await informer.synced()
        while True:
            try:
                await self.count()
            except ClientError as error:
                _log.info("cannot count the objects of consumers", reason=str(error))
            await asyncio.sleep(self._interval)

    async def count(self) -> None:
        """Count the copies of all consumers.

        Raises:
            ClientError: the server does not say which kinds it has, or who asks.
        """
        exports = self._exports.list()
        counted = await tally(self._client, exports, places(self._namespaces.list(), exports))
        self._objects, self._uncounted = counted.counts, len(counted.unseen)

    def collect(self) -> Iterable[Metric]:
        """Yield all series; called at each scrape."""
        consumers = self._consumers()
        now = moment()
        states = {name: self._state(name, now) for name in consumers}
        yield GaugeMetricFamily(
            "fairlead_provider_consumers", "Invited consumers", value=len(consumers)
        )
        yield _gauge(
            "heartbeat_age_seconds",
            "Time since the last heartbeat of the konnector; no value before the first one",
            ((label, states[name].heartbeat_age) for name, label in consumers.items()),
            max,
        )
        yield _gauge(
            "heartbeat_overdue",
            "1 if the konnector has missed two heartbeats, or its clock is ahead, otherwise 0",
            ((label, float(states[name].silent)) for name, label in consumers.items()),
        )
        yield _gauge(
            "token_age_seconds",
            "Time since the consumer's present token was made",
            ((label, states[name].token_age) for name, label in consumers.items()),
            max,
        )
        yield _gauge(
            "requests_refused",
            "APIServiceExportRequests in phase Failed",
            ((label, states[name].refused) for name, label in consumers.items()),
        )
        yield _gauge(
            "objects",
            "Copies of exported kinds at the last count",
            ((label, self._number(name)) for name, label in consumers.items()),
        )
        yield GaugeMetricFamily(
            "fairlead_provider_uncounted_kinds",
            "Exported kinds that the provider could not list at the last count",
            value=self._uncounted,
        )
        yield _versions((label, states[name].version) for name, label in consumers.items())

    def _consumers(self) -> dict[str, str]:
        """Return the consumers' labels by cluster namespace, the oldest consumers first."""
        namespaces = sorted(
            (one for one in self._namespaces.list() if identity_of(one)),
            key=lambda namespace: (namespace.meta.creation_timestamp or "", namespace.meta.name),
        )
        return {
            namespace.meta.name: identity_of(namespace)[: bounds.NAME_CHARACTERS]
            if number < bounds.CONSUMERS
            else OTHER
            for number, namespace in enumerate(namespaces)
        }

    def _number(self, namespace: str) -> float | None:
        return None if self._objects is None else self._objects[namespace]

    def _state(self, namespace: str, now: datetime) -> ToldConsumer:
        refused = sum(map(_is_refused, self._requests.list(namespace)))
        binding = self._bindings.get(namespace, CLUSTER_BINDING_NAME)
        if binding is None:
            return ToldConsumer(None, False, None, "", refused)
        token_age = _age(made_at(binding), now)
        try:
            status = binding.decode(ClusterBinding).status
        except msgspec.ValidationError:
            return ToldConsumer(None, False, token_age, "", refused)
        condition, _ = health(status, now=now)
        version = status.konnector_version
        return ToldConsumer(
            heartbeat_age=_age(status.last_heartbeat_time, now),
            silent=state_of(condition) == "failed",
            token_age=token_age,
            # Consumers write the field, and the label takes only a valid version.
            version=version if _VERSION.fullmatch(version) else OTHER if version else "",
            refused=refused,
        )


class _Status(msgspec.Struct):
    phase: str = ""


class _WithPhase(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


def _is_refused(request: Object) -> bool:
    try:
        return request.decode(_WithPhase).status.phase == "Failed"
    except msgspec.ValidationError:
        return False


def _age(since: str, now: datetime) -> float | None:
    if not since:
        return None
    try:
        return (now - parse_time(since)).total_seconds()
    except (ValueError, OverflowError):
        # Consumers write heartbeats, and may write times that no clock shows.
        return None


def _gauge(
    name: str,
    help_: str,
    rows: Iterator[tuple[str, float | None]],
    together: Callable[[Iterable[float]], float] = sum,
) -> Metric:
    """Return a gauge by consumer, where those without series of their own are combined."""
    family = GaugeMetricFamily(f"fairlead_provider_{name}", help_, labels=_LABELS)
    values: dict[str, list[float]] = {}
    for label, value in rows:
        if value is not None:
            values.setdefault(label, []).append(value)
    for label, several in values.items():
        family.add_metric([label], together(several))
    return family


def _versions(rows: Iterator[tuple[str, str]]) -> Metric:
    family = GaugeMetricFamily(
        "fairlead_provider_konnector_info",
        "1 for each consumer, with the version that its konnector reports",
        labels=(*_LABELS, "version"),
    )
    counts: Counter[tuple[str, str]] = Counter()
    for label, version in rows:
        if version:
            counts[label, version if label != OTHER else OTHER] += 1
    for labels, number in counts.items():
        family.add_metric(labels, number)
    return family
