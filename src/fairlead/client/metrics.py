"""Request metrics under client-go's names, in whatever registry the owner gives."""

from __future__ import annotations

from functools import cache

from prometheus_client import CollectorRegistry, Counter, Histogram


class RequestMetrics:
    """Counts and times requests; one may serve the clients of several clusters."""

    def __init__(self, registry: CollectorRegistry) -> None:
        requests = Counter(
            "rest_client_requests_total",
            "Number of HTTP requests, partitioned by status code, method, and host.",
            ("code", "method", "host"),
            registry=registry,
        )
        duration = Histogram(
            "rest_client_request_duration_seconds",
            "Request latency in seconds, until the answer's headers, by verb and host.",
            ("verb", "host"),
            buckets=(0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0),
            registry=registry,
        )
        # Looking up a series costs more than counting in it, and there are few.
        self._count = cache(requests.labels)
        self._time = cache(duration.labels)

    def observe(self, method: str, host: str, code: str, seconds: float) -> None:
        """Records one request; the code of one without an answer is ``<error>``."""
        self._count(code, method, host).inc()
        self._time(method, host).observe(seconds)
