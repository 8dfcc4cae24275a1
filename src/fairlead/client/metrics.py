"""Counters that are updated as work is done, and collected by a scrape.

Counting in prometheus_client's own metrics takes a lock and some ten calls each time.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector


REQUEST_BUCKETS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
"""Upper bounds of the request duration in seconds, those of client-go."""


class Histogram:
    """Counts of values by bucket; ``bounds`` are the buckets' limits, ``sum`` the total."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def cumulative(self) -> list[tuple[str, float]]:
        """Return the bounds and cumulative counts in the form of Prometheus."""
        total = 0
        rows: list[tuple[str, float]] = []
        for bound, count in zip((*self.bounds, "+Inf"), self.counts, strict=True):
            total += count
            rows.append((str(bound), total))
        return rows


class RequestMetrics(Collector):
    """Counts and times requests; one may serve the clients of several clusters."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._counts: Counter[tuple[str, str, str]] = Counter()
        self._seconds: dict[tuple[str, str], Histogram] = {}
        registry.register(self)

    def observe(self, method: str, host: str, code: str, seconds: float) -> None:
        """Record one request; the code of one without an answer is ``<error>``."""
        self._counts[code, method, host] += 1
        times = self._seconds.get((method, host))
        if times is None:
            times = self._seconds[method, host] = Histogram(REQUEST_BUCKETS)
        times.observe(seconds)

    def collect(self) -> Iterable[Metric]:
        """Yield both series, under client-go's names; called at each scrape."""
        requests = CounterMetricFamily(
            "rest_client_requests",
            "Number of HTTP requests, partitioned by status code, method, and host.",
            labels=("code", "method", "host"),
        )
        for labels, count in self._counts.items():
            requests.add_metric(labels, count)
        yield requests
        duration = HistogramMetricFamily(
            "rest_client_request_duration_seconds",
            "Request latency in seconds until the headers of the response, by verb and host.",
            labels=("verb", "host"),
        )
        for verb, times in self._seconds.items():
            duration.add_metric(verb, times.cumulative(), sum_value=times.sum)
        yield duration
