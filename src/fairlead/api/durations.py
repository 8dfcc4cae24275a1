"""Durations as Go writes them, such as ``1h30m0s``: the form of ``metav1.Duration``."""

from __future__ import annotations

import re
from datetime import timedelta


_UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
# Go takes both the micro sign and the Greek letter, which look the same.
_UNITS |= {"\u00b5s": 1e-6, "\u03bcs": 1e-6}
# As time.ParseDuration of Go (https://pkg.go.dev/time#ParseDuration): 1.5h, .5s and 1.s are valid.
# The order counts: m before ms would take its first letter.
_TERM = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|\u00b5s|\u03bcs|ms|s|m|h)")
_LONGEST = 128
"""Maximum length of a duration, in characters: digits without a unit take quadratic time."""


def parse_duration(text: str) -> timedelta | None:
    """Parse a duration; return None if the text is empty, no duration, or infinite."""
    if len(text) > _LONGEST:
        return None
    sign, body = (-1 if text[:1] == "-" else 1), text[1:] if text[:1] in ("-", "+") else text
    # Go takes 0 without a unit, and no other number.
    if body == "0":
        return timedelta()
    terms = _TERM.findall(body)
    if not terms or "".join(number + unit for number, unit in terms) != body:
        return None
    seconds = sum(float(number) * _UNITS[unit] for number, unit in terms)
    try:
        # Enough digits are infinity as a float, which a timedelta refuses.
        return sign * timedelta(seconds=seconds)
    except OverflowError:
        return None


def format_duration(duration: timedelta) -> str:
    """Format a duration in hours, minutes and seconds, as Go prints it: ``5m0s``."""
    total = duration.total_seconds()
    hours, rest = divmod(abs(total), 3600)
    minutes, seconds = divmod(rest, 60)
    text = f"{seconds:.9f}".rstrip("0").rstrip(".") + "s"
    if hours or minutes:
        text = f"{int(minutes)}m{text}"
    if hours:
        text = f"{int(hours)}h{text}"
    return f"-{text}" if total < 0 else text


def rough_duration(duration: timedelta) -> str:
    """Format a duration in its largest unit, such as ``42s``, ``7m``, ``3h`` or ``12d``."""
    seconds = max(duration.total_seconds(), 0.0)
    # A unit begins at twice its length: 119s says more than 1m.
    for unit, length, limit in (("s", 1, 120), ("m", 60, 7200), ("h", 3600, 172_800)):
        if seconds < limit:
            return f"{int(seconds // length)}{unit}"
    return f"{int(seconds // 86_400)}d"
