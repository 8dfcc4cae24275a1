"""Times in the forms of ``metav1.Time`` and ``metav1.MicroTime``."""

from __future__ import annotations

import time
from datetime import UTC, datetime


def format_time(moment: datetime) -> str:
    """Format a time as RFC 3339 in UTC with whole seconds, the form of ``metav1.Time``."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_micro_time(moment: datetime) -> str:
    """Format a time as RFC 3339 in UTC with microseconds, the form of ``metav1.MicroTime``."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_time(text: str) -> datetime:
    """Parse a time of either form.

    Raises:
        ValueError: the text is no RFC 3339 time.
    """
    # From Python 3.11 on this also takes Z and fractions of any length.
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except OverflowError as error:
        raise ValueError(f"{text!r}: {error}") from None


def moment() -> datetime:
    """Return the current time, aware and in UTC."""
    # Not datetime.now(): a test that replaces time.time() moves all clocks of the process.
    return datetime.fromtimestamp(time.time(), UTC)


def now() -> str:
    """Return the current time in RFC 3339 with whole seconds."""
    return format_time(moment())
