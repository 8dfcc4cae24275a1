"""Durations on the command line."""

from __future__ import annotations

import click

from fairlead.api import durations


def parse_duration(text: str, *, option: str = "", least: str = "") -> float:
    """Seconds of a duration such as 90s, 2m or 1h30m; a bare number is in seconds.

    Args:
        text: what was given.
        option: by which option; the message names it.
        least: the shortest that is taken, a duration too; "" takes all above zero.

    Raises:
        click.UsageError: it is none, not above zero, or shorter than the least.
    """
    seconds = _seconds(text)
    prefix = f"{option}: " if option else ""
    if seconds is None:
        raise click.UsageError(f"{prefix}{text!r} is no duration: say for example 90s or 2m")
    if least and seconds < parse_duration(least):
        raise click.UsageError(f"{prefix}{text} is too short: {least} is the least")
    return seconds


def _seconds(text: str) -> float | None:
    found = durations.parse_duration(text)
    if found is not None:
        result = found.total_seconds()
    elif text.isascii() and text.replace(".", "", 1).isdigit():
        result = float(text)
    else:
        return None
    return result if 0 < result < float("inf") else None
