"""What a scrape tells of the passes over bindings: of which API, where they stopped, and how.

Neither bindings nor namespaces are told, so that there are as many series as stages, not as
bindings. Numbers are counted as the passes go and read when somebody asks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Literal

from prometheus_client.metrics_core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from fairlead.binding.contexts.base import BaseContext


Outcome = Literal["bound", "unbound", "waiting", "failed", "invalid"]

_SPEC = "spec"
"""Where a binding stops that cannot be read."""
_READS = "reads"
"""Where a pass stops that does not come to an end of what it asks for."""
_WRITE = "write"
"""Where a pass stops that went through all stages, and could not write what came of it."""


class BindingMetrics(Collector):
    """Counts passes."""

    def __init__(self) -> None:
        self._passes: Counter[tuple[str, str, Outcome]] = Counter()

    def invalid(self, api: str) -> None:
        """The spec of a binding cannot be read."""
        self._passes[api, _SPEC, "invalid"] += 1

    def endless(self, api: str) -> None:
        """A pass has asked for more than a pass may."""
        self._passes[api, _READS, "failed"] += 1

    def passed(self, api: str, context: BaseContext) -> None:
        """A pass has ended, and was written."""
        flow = context.flow
        if flow.error:
            outcome: Outcome = "waiting" if flow.waiting else "failed"
            self._passes[api, flow.stage or _WRITE, outcome] += 1
        else:
            self._passes[api, "", "unbound" if context.meta.deleting else "bound"] += 1

    def collect(self) -> Iterable[Metric]:
        """All series; called at each scrape."""
        family = CounterMetricFamily(
            "fairlead_binding_passes",
            "Passes over bindings; stage is where one stopped",
            labels=("api", "stage", "outcome"),
        )
        for labels, number in sorted(self._passes.items()):
            family.add_metric(labels, number)
        yield family
