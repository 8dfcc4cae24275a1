"""Functions for parts of timestamps and durations.

Source: "List of Standard Definitions" of the CEL specification.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime

from fairlead_sandbox.schema.cel.library.overloads import PARSING, Overload, function, in_words
from fairlead_sandbox.schema.cel.times import SECOND, Duration, Timestamp


# CEL counts months, days of a month and days of a year from 0, but getDate() from 1; Sunday is day
# 0.
_OF_MOMENTS: dict[str, Callable[[datetime], int]] = {
    "getFullYear": lambda moment: moment.year,
    "getMonth": lambda moment: moment.month - 1,
    "getDate": lambda moment: moment.day,
    "getDayOfMonth": lambda moment: moment.day - 1,
    "getDayOfWeek": lambda moment: moment.isoweekday() % 7,
    "getDayOfYear": lambda moment: moment.timetuple().tm_yday - 1,
    "getHours": lambda moment: moment.hour,
    "getMinutes": lambda moment: moment.minute,
    "getSeconds": lambda moment: moment.second,
}
_OF_DURATIONS = {
    "getHours": 3600 * SECOND,
    "getMinutes": 60 * SECOND,
    "getSeconds": SECOND,
    "getMilliseconds": SECOND // 1000,
}
"""Nanoseconds of the unit that each function of a duration counts."""


_ZONE = 500
"""Steps of effort to find a time zone, which may have to be read from a file."""


def _part(part: Callable[[datetime], int]) -> Callable[..., int]:
    def find(time: Timestamp, zone: str = "") -> int:
        with in_words():
            return part(time.moment(zone))

    return find


def _milliseconds(time: Timestamp, zone: str = "") -> int:
    with in_words():
        time.moment(zone)
    return time.nanoseconds % SECOND // 1_000_000


def _whole(unit: int) -> Callable[[Duration], int]:
    def find(length: Duration) -> int:
        whole = abs(length.nanoseconds) // unit
        return whole if length.nanoseconds >= 0 else -whole

    return find


def _overloads() -> Iterator[Overload]:
    parts = {name: _part(part) for name, part in _OF_MOMENTS.items()}
    for name, run in {**parts, "getMilliseconds": _milliseconds}.items():
        yield function(f"<timestamp>.{name}() -> int", run, steps=PARSING)
        yield function(f"<timestamp>.{name}(string) -> int", run, steps=_ZONE)
    for name, unit in _OF_DURATIONS.items():
        yield function(f"<duration>.{name}() -> int", _whole(unit))


OVERLOADS = list(_overloads())
