"""Prometheus metrics under controller-runtime's names, read from the counters of controllers.

No metric is written into the registry while controllers work: a scrape collects the numbers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from importlib.metadata import version
from platform import python_version
from typing import Protocol, runtime_checkable

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from fairlead.api.timestamps import moment
from fairlead.client import RequestMetrics, limits
from fairlead.runtime.cluster import Cluster
from fairlead.runtime.controller.controller import ControllerStats
from fairlead.runtime.controller.queue import Band, QueueStats
from fairlead.runtime.manager.lease import LeaderElection


_PREFIX = "controller_runtime"
_RESULTS = ("success", "error", "requeue", "requeue_after")
_QUEUE_LABELS = ("name", "controller")


@runtime_checkable
class Instrumented(Protocol):
    """A runnable that counts what it does."""

    name: str

    def adopt(self, stats: ControllerStats) -> None:
        """Count into these numbers from now on."""
        ...


class Metrics:
    """The metrics of one manager, in a registry of their own.

    Give ``requests`` to the clients whose requests are to be counted.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = RequestMetrics(self.registry)
        self.clusters: list[Cluster] = []
        self.elections: list[LeaderElection] = []
        self.certificates: dict[str, Callable[[], datetime | None]] = {}
        """Functions that return the end of a serving certificate, by its purpose."""
        self.lag = 0.0
        self._controllers: dict[str, ControllerStats] = {}
        self.registry.register(_ControllerCollector(self._controllers))
        self.registry.register(_StateCollector(self))
        # Memory, CPU and open files, for clusters whose kubelets are not scraped.
        ProcessCollector(registry=self.registry)

    def instrument(self, runnable: object) -> None:
        """Collect the counters of a controller, added to earlier ones of its name."""
        if isinstance(runnable, Instrumented):
            runnable.adopt(self._controllers.setdefault(runnable.name, ControllerStats()))

    def forget(self, controller: str) -> None:
        """Drop the numbers of the controllers of this name, which will not run again."""
        self._controllers.pop(controller, None)

    def render(self) -> tuple[bytes, str]:
        """Return the text for a scrape and its content type."""
        return generate_latest(self.registry), CONTENT_TYPE_LATEST

    async def measure_lag(self) -> None:
        """Measure how late the event loop is, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + limits.LOOP_SECONDS
            await asyncio.sleep(limits.LOOP_SECONDS)
            self.lag = max(0.0, loop.time() - due)


class _ControllerCollector(Collector):
    def __init__(self, controllers: dict[str, ControllerStats]) -> None:
        self._controllers = controllers

    def collect(self) -> Iterable[Metric]:
        yield from self._reconciles()
        for name, help_, read in (
            ("reconcile_errors", "Failed reconciles", _errors),
            ("terminal_reconcile_errors", "Failed reconciles that are not retried", _terminal),
            ("reconcile_panics", "Reconciles that failed with an unexpected exception", _panics),
            ("reconcile_timeouts", "Reconciles that exceeded their time limit", _timeouts),
        ):
            family = CounterMetricFamily(f"{_PREFIX}_{name}", help_, labels=["controller"])
            for controller, stats in self._controllers.items():
                family.add_metric([controller], read(stats))
            yield family
        yield self._gauge("max_concurrent_reconciles", "Largest number of workers", _workers)
        yield self._gauge("active_workers", "Busy workers", _active)
        yield from _queues({name: stats.queue for name, stats in self._controllers.items()})

    def _reconciles(self) -> Iterator[Metric]:
        labels = ["controller", "result"]
        total = CounterMetricFamily(f"{_PREFIX}_reconcile", "Reconciles", labels=labels)
        seconds = HistogramMetricFamily(
            f"{_PREFIX}_reconcile_time_seconds", "Duration of a reconcile", labels=["controller"]
        )
        for controller, stats in self._controllers.items():
            for result in _RESULTS:
                total.add_metric([controller, result], stats.results[result])
            histogram = stats.seconds
            seconds.add_metric([controller], histogram.cumulative(), sum_value=histogram.sum)
        yield total
        yield seconds

    def _gauge(self, name: str, help_: str, read: _Reader) -> Metric:
        family = GaugeMetricFamily(f"{_PREFIX}_{name}", help_, labels=["controller"])
        for controller, stats in self._controllers.items():
            family.add_metric([controller], read(stats))
        return family


class _Reader(Protocol):
    """Function that reads one number of a controller's counters."""

    def __call__(self, stats: ControllerStats) -> float:
        """Return the number."""
        ...


def _errors(stats: ControllerStats) -> float:
    return stats.results["error"]


def _terminal(stats: ControllerStats) -> float:
    return stats.terminal_errors


def _panics(stats: ControllerStats) -> float:
    return stats.panics


def _timeouts(stats: ControllerStats) -> float:
    return stats.timeouts


def _workers(stats: ControllerStats) -> float:
    return stats.workers


def _active(stats: ControllerStats) -> float:
    return stats.active


def _queues(queues: dict[str, QueueStats]) -> Iterator[Metric]:
    labels = list(_QUEUE_LABELS)
    depth = GaugeMetricFamily(
        "workqueue_depth", "Objects that wait for a worker", labels=[*labels, "priority"]
    )
    adds = CounterMetricFamily("workqueue_adds", "Objects added to the queue", labels=labels)
    retries = CounterMetricFamily(
        "workqueue_retries", "Objects that the controller tried again", labels=labels
    )
    waited = HistogramMetricFamily(
        "workqueue_queue_duration_seconds", "Time that an object waits in the queue", labels=labels
    )
    worked = HistogramMetricFamily(
        "workqueue_work_duration_seconds", "Time that a worker needs for an object", labels=labels
    )
    unfinished = GaugeMetricFamily(
        "workqueue_unfinished_work_seconds",
        "Sum of the durations of all work in progress",
        labels=labels,
    )
    longest = GaugeMetricFamily(
        "workqueue_longest_running_processor_seconds",
        "Duration of the oldest work in progress",
        labels=labels,
    )
    now = asyncio.get_running_loop().time()
    for name, stats in queues.items():
        row = [name, name]
        for band in Band:
            waiting = sum(queue.depth(band) for queue in stats.queues)
            depth.add_metric([*row, band.name.lower()], waiting)
        ages = [now - begun for queue in stats.queues for begun in queue.started()]
        adds.add_metric(row, stats.adds)
        retries.add_metric(row, stats.retries)
        waited.add_metric(row, stats.waited.cumulative(), sum_value=stats.waited.sum)
        worked.add_metric(row, stats.worked.cumulative(), sum_value=stats.worked.sum)
        unfinished.add_metric(row, sum(ages))
        longest.add_metric(row, max(ages, default=0.0))
    yield from (depth, adds, retries, waited, worked, unfinished, longest)


class _StateCollector(Collector):
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        labels = ["cluster", "resource"]
        objects = GaugeMetricFamily(
            "fairlead_informer_objects", "Objects in caches", labels=labels
        )
        size = GaugeMetricFamily(
            "fairlead_informer_bytes", "Bytes of the objects in caches", labels=labels
        )
        restarts = CounterMetricFamily(
            "fairlead_watch_restarts",
            "Watches and lists that ended",
            labels=[*labels, "reason"],
        )
        missed = CounterMetricFamily(
            "fairlead_watch_missed", "Objects with a change that a watch omitted", labels=labels
        )
        refused = CounterMetricFamily(
            "fairlead_answers_too_large",
            "Responses that the program stopped reading, by the bound that they exceeded",
            labels=["cluster", "bound"],
        )
        for cluster_ in self._metrics.clusters:
            for bound, count in cluster_.client.intake.refused.items():
                refused.add_metric([cluster_.name, bound], count)
        for (cluster, resource, reason), count in self._restarts().items():
            restarts.add_metric([cluster, resource, reason], count)
        for row, count in self._missed().items():
            missed.add_metric(row, count)
        for (cluster, resource), (count, bytes_) in self._objects().items():
            objects.add_metric([cluster, resource], count)
            size.add_metric([cluster, resource], bytes_)
        yield from (objects, size, restarts, missed, refused)
        yield self._leading()
        yield self._certificates()
        yield self._build()
        yield GaugeMetricFamily(
            "fairlead_event_loop_lag_seconds",
            "Delay of the event loop at the last measurement",
            self._metrics.lag,
        )

    def _objects(self) -> dict[tuple[str, str], tuple[int, int]]:
        rows: dict[tuple[str, str], tuple[int, int]] = {}
        for cluster in self._metrics.clusters:
            # Informers of one resource may differ in namespace and selectors, which are no labels:
            # their numbers are added, for a series must not come twice.
            for informer in cluster.informers():
                row = (cluster.name, informer.scope.resource.group_resource)
                count, size = rows.get(row, (0, 0))
                rows[row] = (count + len(informer.store), size + informer.store.size)
        return rows

    def _missed(self) -> dict[tuple[str, str], int]:
        rows: dict[tuple[str, str], int] = {}
        for cluster in self._metrics.clusters:
            for informer in cluster.informers():
                row = (cluster.name, informer.scope.resource.group_resource)
                rows[row] = rows.get(row, 0) + informer.missed
        return rows

    def _restarts(self) -> dict[tuple[str, str, str], int]:
        rows: dict[tuple[str, str, str], int] = {}
        for cluster in self._metrics.clusters:
            for informer in cluster.informers():
                resource = informer.scope.resource.group_resource
                for reason, count in informer.reflector.restarts.items():
                    row = (cluster.name, resource, reason)
                    rows[row] = rows.get(row, 0) + count
        return rows

    def _leading(self) -> Metric:
        family = GaugeMetricFamily(
            "leader_election_master_status",
            "1 if this replica is the leader, otherwise 0",
            labels=[("name")],
        )
        for election in self._metrics.elections:
            family.add_metric([election.name], float(election.is_leader))
        return family

    def _certificates(self) -> Metric:
        family = GaugeMetricFamily(
            "fairlead_certificate_remaining_seconds",
            "Time until a serving certificate of this program expires",
            labels=["certificate"],
        )
        now = moment()
        for name, ends in self._metrics.certificates.items():
            if (end := ends()) is not None:
                family.add_metric([name], (end - now).total_seconds())
        return family

    def _build(self) -> Metric:
        family = GaugeMetricFamily(
            "fairlead_build_info",
            "Always 1; the labels have the running versions",
            labels=["version", ("python")],
        )
        family.add_metric([version("fairlead"), python_version()], 1)
        return family
