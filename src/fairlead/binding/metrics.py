"""Metrics of bindings and of the passes over them, by API and by outcome.

Neither bindings nor namespaces are told, so that there are as many series as stages, not as
bindings. Numbers are counted as the passes go and read when somebody asks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Literal, get_args

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from fairlead.binding.contexts.base import BaseContext


Outcome = Literal["bound", "unbound", "waiting", "failed", "invalid"]

_LASTING: tuple[Outcome, ...] = tuple(one for one in get_args(Outcome) if one != "unbound")
"""How the last pass over a binding ends that is there: what was unbound goes."""
_SPEC = "spec"
"""Where a binding stops that cannot be read."""
_READS = "reads"
"""Where a pass stops that does not come to an end of what it asks for."""
_WRITE = "write"
"""Where a pass stops that went through all stages, and could not write what came of it."""


class BindingMetrics(Collector):
    """Counts passes, and bindings by how their last pass ended."""

    def __init__(self) -> None:
        self._passes: Counter[tuple[str, str, Outcome]] = Counter()
        self._bindings: dict[str, dict[Hashable, Outcome]] = {}

    def invalid(self, api: str, binding: Hashable) -> None:
        """The spec of a binding cannot be read."""
        self._ended(api, binding, _SPEC, "invalid")

    def endless(self, api: str, binding: Hashable) -> None:
        """A pass has asked for more than a pass may."""
        self._ended(api, binding, _READS, "failed")

    def passed(self, api: str, binding: Hashable, context: BaseContext) -> None:
        """A pass has ended, and was written."""
        flow = context.flow
        if flow.error:
            outcome: Outcome = "waiting" if flow.waiting else "failed"
            self._ended(api, binding, flow.stage or _WRITE, outcome)
        else:
            self._ended(api, binding, "", "unbound" if context.meta.deleting else "bound")

    def gone(self, api: str, binding: Hashable) -> None:
        """There is no such binding any more."""
        self._bindings.get(api, {}).pop(binding, None)

    def _ended(self, api: str, binding: Hashable, stage: str, outcome: Outcome) -> None:
        self._passes[api, stage, outcome] += 1
        self._bindings.setdefault(api, {})[binding] = outcome

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
        yield self._now()

    def _now(self) -> Metric:
        family = GaugeMetricFamily(
            "fairlead_bindings",
            "Bindings by how their last pass ended",
            labels=("api", "outcome"),
        )
        for api, bindings in self._bindings.items():
            counts = Counter(bindings.values())
            for outcome in _LASTING:
                family.add_metric((api, outcome), counts[outcome])
        return family
