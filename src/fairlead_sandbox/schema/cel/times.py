"""Timestamps and durations with nanoseconds, as in Go.

Source: ``google.protobuf.Timestamp`` and ``Duration`` in the CEL specification. Texts have the
forms of Go's ``time.ParseDuration`` and of RFC 3339.
"""

from __future__ import annotations

import re
from calendar import timegm
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import msgspec


SECOND = 1_000_000_000
"""Nanoseconds in a second."""
_LONGEST = 2**63
"""Limit of a duration in nanoseconds, as it has 64 bits with a sign."""
_FIRST, _LAST = -62_135_596_800, 253_402_300_799
"""Seconds since 1970 of the first and the last second of the years 1 to 9999."""
_TEXT = 128
"""Maximum length of a time in a text, in characters."""


class Duration(msgspec.Struct, frozen=True, order=True):
    """A duration in nanoseconds."""

    nanoseconds: int

    def __str__(self) -> str:
        seconds, rest = divmod(abs(self.nanoseconds), SECOND)
        sign = "-" if self.nanoseconds < 0 else ""
        return f"{sign}{seconds}{_fraction(rest)}s"


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """A point in time in nanoseconds since 1970; ``offset`` is its text's zone in minutes."""

    nanoseconds: int
    offset: int = field(default=0, compare=False)

    def __str__(self) -> str:
        seconds, rest = divmod(self.nanoseconds, SECOND)
        moment = _moment(seconds, timezone(timedelta(minutes=self.offset)))
        zone = f"{moment:%z}"
        shown = f"{zone[:3]}:{zone[3:]}" if self.offset else "Z"
        # glibc does not pad years below 1000.
        return f"{moment:%Y-%m-%dT%H:%M:%S}".zfill(19) + f"{_fraction(rest)}{shown}"

    def moment(self, zone: str = "") -> datetime:
        """Return date and time of day, to the second, in a zone.

        Raises:
            ValueError: the zone is unknown.
        """
        return _moment(self.nanoseconds // SECOND, _zone(zone))


def _moment(seconds: int, zone: tzinfo) -> datetime:
    # Not fromtimestamp(), whose range is that of the C library.
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)).astimezone(zone)


def _fraction(nanoseconds: int) -> str:
    return f".{nanoseconds:09}".rstrip("0") if nanoseconds else ""


_OFFSET = re.compile(r"([+-]?)(\d{2}):(\d{2})", re.ASCII)


def _zone(name: str) -> tzinfo:
    if name in {"", "UTC"}:
        return UTC
    offset = _OFFSET.fullmatch(name)
    if offset is not None:
        minutes = int(offset[2]) * 60 + int(offset[3])
        return timezone(timedelta(minutes=-minutes if offset[1] == "-" else minutes))
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ValueError(f"unknown time zone {name}") from None


def timestamp(seconds: int, nanoseconds: int = 0, offset: int = 0) -> Timestamp:
    """Return a timestamp; ``offset`` is the zone of its text, in minutes.

    Raises:
        OverflowError: the time is outside the years 1 to 9999.
    """
    seconds += nanoseconds // SECOND
    if not _FIRST <= seconds <= _LAST:
        raise OverflowError("timestamp overflow")
    return Timestamp(seconds * SECOND + nanoseconds % SECOND, offset)


def duration(nanoseconds: int) -> Duration:
    """Return the duration of this many nanoseconds.

    Raises:
        OverflowError: they do not fit into 64 bits.
    """
    if not -_LONGEST <= nanoseconds < _LONGEST:
        raise OverflowError("integer overflow")
    return Duration(nanoseconds)


_RFC3339 = re.compile(
    # Go's parser also takes an hour of one digit, and a comma before the fraction.
    r"(\d{4})-(\d{2})-(\d{2})[Tt](\d{1,2}):(\d{2}):(\d{2})(?:[.,](\d+))?"
    r"(?:([Zz])|([+-])(\d{2}):(\d{2}))",
    re.ASCII,
)


def parse_timestamp(text: str, *, strict: bool = True) -> Timestamp:
    """Return the timestamp of an RFC 3339 text; ``strict`` requires capital ``T`` and ``Z``.

    Raises:
        ValueError: the text is no timestamp.
        OverflowError: the time is outside the years 1 to 9999.
    """
    match = _RFC3339.fullmatch(text[:_TEXT])
    if match is None or (strict and ("t" in text or "z" in text)):
        raise ValueError(text[:_TEXT])
    *date, fraction, _, sign, hours, minutes = match.groups()
    moment = datetime(*map(int, date), tzinfo=UTC)  # type: ignore[arg-type, misc]
    offset = 0
    if sign:
        if int(hours) > 23 or int(minutes) > 59:
            raise ValueError(text)
        offset = (int(hours) * 60 + int(minutes)) * (-1 if sign == "-" else 1)
    seconds = timegm(moment.timetuple()) - offset * 60
    return timestamp(seconds, int((fraction or "0")[:9].ljust(9, "0")), offset)


def parse_date(text: str) -> Timestamp:
    """Return the midnight at which a date (``2024-01-31``) begins, in UTC.

    Raises:
        ValueError: the text is no date.
    """
    return parse_timestamp(f"{text[:_TEXT]}T00:00:00Z")


_UNITS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": SECOND,
    "m": 60 * SECOND,
    "h": 3600 * SECOND,
}
"""Nanoseconds by unit, as Go writes it."""
_PART = re.compile(r"(\d*)(?:\.(\d*))?(ns|us|µs|μs|ms|s|m|h)", re.ASCII)


def parse_duration(text: str) -> Duration:
    """Return the duration of a text in Go's form (``1h30m``, ``-1.5s``, ``0``).

    Raises:
        ValueError: the text is no duration, or too long.
    """
    rest = text[1:] if text[:1] in {"+", "-"} else text
    if len(text) > _TEXT or not rest:
        raise ValueError(text[:_TEXT])
    total, position = 0, 0
    while position < len(rest) and rest != "0":
        part = _PART.match(rest, position)
        if part is None or not (part[1] or part[2]):
            raise ValueError(text)
        unit, fraction = _UNITS[part[3]], part[2] or ""
        total += int(part[1] or 0) * unit + int(fraction or 0) * unit // 10 ** len(fraction)
        position = part.end()
    # A signed integer reaches one further below zero.
    if total >= _LONGEST + (text[0] == "-"):
        raise ValueError(text)
    return Duration(-total if text[0] == "-" else total)


_DAYS = {"d": 24, "day": 24, "w": 168, "week": 168, "wk": 168}
"""Hours in each unit that is longer than an hour."""
_LONG_PART = re.compile(r"(\d+)\s*([a-zµ]+)", re.ASCII | re.IGNORECASE)
_LONG_UNITS = {
    **_UNITS,
    **{name: hours * _UNITS["h"] for name, hours in _DAYS.items()},
    **dict.fromkeys(("hour", "hr"), _UNITS["h"]),
    **dict.fromkeys(("minute", "min"), _UNITS["m"]),
    **dict.fromkeys(("second", "sec"), SECOND),
    **dict.fromkeys(("millisecond", "milli"), _UNITS["ms"]),
    **dict.fromkeys(("microsecond", "micro"), _UNITS["us"]),
    **dict.fromkeys(("nanosecond", "nano"), 1),
}


def parse_format_duration(text: str) -> Duration:
    """Return the duration of a text with ``format: duration``: Go's form, or ``3 days``.

    Raises:
        ValueError: the text is no duration.
    """
    try:
        return parse_duration(text)
    except ValueError:
        parts = _LONG_PART.findall(text[:_TEXT])
    units = [_LONG_UNITS.get(unit.lower().removesuffix("s") or "s") for _, unit in parts]
    if not parts or None in units:
        raise ValueError(text[:_TEXT])
    pairs = zip(parts, units, strict=True)
    return Duration(sum(int(count) * (unit or 0) for (count, _), unit in pairs))
