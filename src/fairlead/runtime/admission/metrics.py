"""Metrics of a webhook server's reviews: by webhook, operation and answer, with durations.

Labels have only known values: a client of the server chooses the operation of its review, and any
client that reaches the server can send one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Literal

from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from fairlead.client.metrics import Histogram


Said = Literal["allowed", "changed", "warned", "refused", "failed"]

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of a review's duration in seconds; API servers wait 10 s by default, 30 at most."""
_OPERATIONS = frozenset({"CREATE", "UPDATE", "DELETE", "CONNECT"})
_UNKNOWN = "unknown"
"""Operation of a review that cannot be decoded."""


class ReviewMetrics(Collector):
    """Counts and times reviews, by the names of the webhooks that were asked.

    Failures of each given webhook begin at zero: without that, ``increase()`` of Prometheus would
    not see the first one.
    """

    def __init__(self, webhooks: Iterable[str] = ()) -> None:
        self._reviews: Counter[tuple[str, str, Said]] = Counter()
        for webhook in webhooks:
            for operation in _OPERATIONS:
                self._reviews[webhook, operation, "failed"] = 0
        self._seconds: dict[str, Histogram] = {}

    def reviewed(self, webhook: str, operation: str, said: Said, seconds: float) -> None:
        """Count a review, answered or not."""
        label = operation if operation in _OPERATIONS else _UNKNOWN
        self._reviews[webhook, label, said] += 1
        self._seconds.setdefault(webhook, Histogram(BUCKETS)).observe(seconds)

    def collect(self) -> Iterable[Metric]:
        """Yield all series; called at each scrape."""
        total = CounterMetricFamily(
            "fairlead_webhook_reviews",
            "Admission reviews by what was said",
            labels=("webhook", "operation", "verdict"),
        )
        for labels, number in sorted(self._reviews.items()):
            total.add_metric(labels, number)
        yield total
        seconds = HistogramMetricFamily(
            "fairlead_webhook_review_seconds", "Length of an admission review", labels=("webhook",)
        )
        for webhook, histogram in sorted(self._seconds.items()):
            seconds.add_metric([webhook], histogram.cumulative(), sum_value=histogram.sum)
        yield seconds
