"""Pauses for writes that another writer undoes again and again.

An operator that rewrites the specs of copies, or a program that strips a finalizer, would have the
same write made as fast as both can. Each object is paced by itself, and only for repeated content:
a change of the object is written at once, and deletions never wait.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, Final

import msgspec

from fairlead.api.kubebind.names import FIELD_MANAGER
from fairlead.api.meta import Key, Object
from fairlead.konnector.policies.copies import status_of
from fairlead.konnector.policies.merge import BoundFields, CrossingFields
from fairlead.konnector.policies.steps import (
    Apply,
    Create,
    Pair,
    PatchMetadata,
    Replace,
    ReplaceStatus,
    Side,
    Step,
    digest,
)


FREE: Final = 3
"""Equal writes in a row without a pause: two writers may well race, and caches lag."""
FIRST_SECONDS: Final = 1.0
"""Seconds of the first pause, which doubles each time."""
MOST_SECONDS: Final = 300.0
"""Longest pause, in seconds."""
_MOST_DOUBLINGS: Final = 16
"""Bound of the power of two: a float overflows at the 1024th, and the 9th exceeds the most."""
CALM_SECONDS: Final = 60.0
"""Seconds after which a write counts as not undone."""
DELETING_SECONDS: Final = 3600.0
"""Seconds after which a copy that was made anew counts as not deleted.

Tools that deliver compare what is there with their source every few minutes, or once an hour.
"""


class _Series(msgspec.Struct):
    content: bytes
    count: int
    last: float
    until: float
    calm: float = CALM_SECONDS

    @property
    def end(self) -> float:
        return max(self.last, self.until) + self.calm

    def over(self, now: float) -> bool:
        return now > self.end


class UndoneWrites:
    """Counts equal writes of one engine in a row, by object; ``clock`` is in seconds.

    A change of what does not cross by ``fields`` makes no other write.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        fields: CrossingFields = BoundFields(),  # noqa: B008  it is frozen
    ) -> None:
        self._payload = fields.payload
        self._clock = clock
        self._series: dict[Key, dict[str, _Series]] = {}
        # No series is over before, so that looks at many objects at rest pass none of them.
        self._soonest = math.inf

    def pause(self, pair: Pair, step: Step) -> float:
        """Return the seconds to wait before a step, 0 if it may be taken now."""
        series = self._series.get(pair.key, {}).get(_kind(step))
        if series is None or series.count < FREE:
            return 0.0
        now = self._clock()
        if series.over(now) or series.content != self._content(pair, step):
            return 0.0
        return max(series.until - now, 0.0)

    def wrote(self, pair: Pair, step: Step, *, deleted: bool = False) -> bool:
        """Count a write, and return whether equal ones are undone again and again.

        After :data:`FREE` equal writes in a row the next has to pause. ``deleted`` tells whether
        another writer deleted what is made anew.
        """
        if not (kind := _kind(step)):
            return False
        now, content = self._clock(), self._content(pair, step)
        calm = DELETING_SECONDS if deleted else CALM_SECONDS
        self._soonest = min(self._soonest, now + calm)
        by_field = self._series.setdefault(pair.key, {})
        series = by_field.get(kind)
        if series is None or series.content != content or series.over(now):
            by_field[kind] = _Series(content, 1, now, now, calm)
            return False
        series.count += 1
        series.last = now
        series.calm = calm
        longer = FIRST_SECONDS * 2.0 ** min(series.count - FREE, _MOST_DOUBLINGS)
        series.until = now + (min(longer, MOST_SECONDS) if series.count >= FREE else 0.0)
        return series.count >= FREE

    def forget(self, key: Key) -> None:
        """Forget the object, which is gone."""
        self._series.pop(key, None)

    def calmed(self) -> set[Key]:
        """Return the objects whose writes have stood for long enough, and forget them."""
        now = self._clock()
        if now <= self._soonest:
            return set()
        ends = {key: max(one.end for one in by.values()) for key, by in self._series.items()}
        calm = {key for key, end in ends.items() if now > end}
        for key in calm:
            del self._series[key], ends[key]
        self._soonest = min(ends.values(), default=math.inf)
        return calm

    def _content(self, pair: Pair, step: Step) -> bytes:
        """Return the content of a write by its source, without fields of other writers."""
        if isinstance(step, PatchMetadata):
            # After a change of the object its finalizer is restored at once, for the rest to
            # follow.
            here = None if pair.consumer is None else pair.content("consumer", self._payload).value
            return digest([step.metadata, here])
        source: Side = "consumer" if getattr(step, "side", "") == "provider" else "provider"
        if pair.at(source) is None:
            return b""
        of = status_of if isinstance(step, ReplaceStatus) else self._payload
        return pair.content(source, of).digest


def _kind(step: Step) -> str:
    """Return the kind of steps that are paced together; "" if a step never is."""
    match step:
        case Create() | Apply() | Replace() | ReplaceStatus() | PatchMetadata():
            return f"{type(step).__name__} {step.side}"
    return ""


def others(obj: Object, ours: str) -> str:
    """Return the last field manager of an object other than the konnector; "" if unknown.

    ``ours`` is the field manager of the konnector's client, whose name differs between the two
    clusters. The server's times are whole seconds: managers of the same second are all named.
    """
    entries: list[dict[str, Any]] = obj.to_dict()["metadata"].get("managedFields") or []
    names = [
        entry
        for entry in entries
        if entry.get("manager") not in {None, FIELD_MANAGER, ours} and not entry.get("subresource")
    ]
    latest = max((str(entry.get("time", "")) for entry in names), default="")
    managers = {str(it["manager"]) for it in names if str(it.get("time", "")) == latest}
    return " or ".join(sorted(managers))


def contradicts(desired: Any, current: Any) -> bool:
    """Whether a wanted value was replaced; missing or added members do not count.

    Servers add defaults and prune fields that a schema lacks, which is no rewriting.
    """
    if isinstance(desired, dict) and isinstance(current, dict):
        return any(
            name in current and contradicts(value, current[name])
            for name, value in desired.items()
        )
    if isinstance(desired, list) and isinstance(current, list):
        same = len(desired) == len(current)
        return same and any(map(contradicts, desired, current))
    return bool(desired != current)
