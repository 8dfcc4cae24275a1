"""Which events are worth a write: repetitions counted, floods combined, a budget per object.

The numbers are those of client-go's event correlator.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import NamedTuple, TypeVar


K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

SERIES_SECONDS = 600.0
"""Within this time the same event again is counted on the first one."""

SIMILAR_LIMIT = 10
"""So many events that differ only in their message are written, then they are combined."""

BURST = 25
"""So many events about one object are written at once."""

REFILL_SECONDS = 300.0
"""After the burst one more is written in this time."""

_REMEMBERED = 4096
_COMBINED = "(combined from similar events): "


class Happening(NamedTuple):
    """What makes two events the same."""

    component: str
    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    type: str
    reason: str
    action: str
    message: str


class Series(NamedTuple):
    """An event that was written, how many times it has happened, and when last in seconds."""

    namespace: str
    name: str
    times: int
    last: float


class _Similar(NamedTuple):
    messages: set[str]
    since: float
    combined: Happening | None


class Correlator:
    """What was written lately, in bounded memory. Times are seconds of the caller's clock."""

    def __init__(self) -> None:
        self._series: OrderedDict[Happening, Series] = OrderedDict()
        self._similar: OrderedDict[Happening, _Similar] = OrderedDict()
        self._budgets: OrderedDict[tuple[str, str], tuple[float, float]] = OrderedDict()

    def admit(self, happening: Happening, now: float) -> Happening | None:
        """The event to write for this one, which may stand for several; None for none."""
        happening = self._combine(happening, now)
        source = (happening.component, happening.uid or happening.name)
        tokens, since = self._budgets.pop(source, (float(BURST), now))
        tokens = min(float(BURST), tokens + (now - since) / REFILL_SECONDS)
        enough = tokens >= 1
        _remember(self._budgets, source, (tokens - enough, now))
        return happening if enough else None

    def series(self, happening: Happening, now: float) -> Series | None:
        """The event on which this one is to be counted, if it is recent."""
        series = self._series.get(happening)
        return series if series and now - series.last <= SERIES_SECONDS else None

    def written(self, happening: Happening, series: Series) -> None:
        """Remember what was written."""
        _remember(self._series, happening, series)

    def _combine(self, happening: Happening, now: float) -> Happening:
        common = happening._replace(message="")
        known = self._similar.pop(common, _Similar(set(), now, None))
        if now - known.since > SERIES_SECONDS:
            known = _Similar(set(), now, None)
        if happening.message not in known.messages:
            if len(known.messages) < SIMILAR_LIMIT:
                known.messages.add(happening.message)
            else:
                combined = happening._replace(message=_COMBINED + happening.message)
                known = known._replace(combined=known.combined or combined)
                happening = known.combined or combined
        _remember(self._similar, common, known)
        return happening


def _remember(memory: OrderedDict[K, V], key: K, value: V) -> None:
    memory[key] = value
    memory.move_to_end(key)
    while len(memory) > _REMEMBERED:
        memory.popitem(last=False)
