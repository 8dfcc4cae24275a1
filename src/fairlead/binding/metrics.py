"""Metrics of bindings and of passes, by API and outcome.

No label names a binding or namespace, so the number of series depends on the stages only. Counters
are updated by the passes and read at each scrape.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Literal, get_args

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from fairlead.api.meta import Object
from fairlead.api.reasons.verdict import verdict_of
from fairlead.binding.contexts.base import BaseContext


Outcome = Literal["bound", "unbound", "waiting", "failed", "invalid"]

_LASTING: tuple[Outcome, ...] = tuple(one for one in get_args(Outcome) if one != "unbound")
"""Outcomes of existing bindings: an unbound one is deleted."""
_SPEC = "spec"
"""Stage label of a binding with an invalid spec."""
_READS = "reads"
"""Stage label of a pass with too many reads."""
_WRITE = "write"
"""Stage label of a pass whose result could not be written."""


class BindingMetrics(Collector):
    """Counts passes, and bindings by the outcome of their last pass."""

    def __init__(self) -> None:
        self._passes: Counter[tuple[str, str, Outcome]] = Counter()
        self._bindings: dict[str, dict[Hashable, Outcome]] = {}

    def invalid(self, api: str, binding: Hashable) -> None:
        """Count a binding with an invalid spec."""
        self._ended(api, binding, _SPEC, "invalid")

    def endless(self, api: str, binding: Hashable) -> None:
        """Count a pass with too many reads."""
        self._ended(api, binding, _READS, "failed")

    def passed(
        self, api: str, binding: Hashable, context: BaseContext, written: Object | None
    ) -> None:
        """Count a finished pass.

        Args:
            api: the name of the API.
            binding: the binding.
            context: the pass.
            written: the binding with the status that the pass has written; None if it is gone.
        """
        if written is None:
            self._ended(api, binding, "", "unbound")
            return
        state = verdict_of(written).state
        if state == "ok":
            self._ended(api, binding, "", "bound")
            return
        outcome: Outcome = "waiting" if state == "waiting" else "failed"
        self._ended(api, binding, context.flow.stage or _WRITE, outcome)

    def gone(self, api: str, binding: Hashable) -> None:
        """Drop a deleted binding."""
        self._bindings.get(api, {}).pop(binding, None)

    def _ended(self, api: str, binding: Hashable, stage: str, outcome: Outcome) -> None:
        self._passes[api, stage, outcome] += 1
        self._bindings.setdefault(api, {})[binding] = outcome

    def collect(self) -> Iterable[Metric]:
        """Return all series; called at each scrape."""
        family = CounterMetricFamily(
            "fairlead_binding_passes",
            "Passes over bindings, by the stage at which they stopped",
            labels=("api", "stage", "outcome"),
        )
        for labels, number in sorted(self._passes.items()):
            family.add_metric(labels, number)
        yield family
        yield self._now()

    def _now(self) -> Metric:
        family = GaugeMetricFamily(
            "fairlead_bindings",
            "Bindings, by the outcome of their last pass",
            labels=("api", "outcome"),
        )
        for api, bindings in self._bindings.items():
            counts = Counter(bindings.values())
            for outcome in _LASTING:
                family.add_metric((api, outcome), counts[outcome])
        return family
