from __future__ import annotations

from datetime import timedelta

import pytest

from fairlead.api.durations import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5m0s", 300.0),
        ("1h30m0s", 5400.0),
        ("1.5s", 1.5),
        ("250ms", 0.25),
        ("-2m", -120.0),
        ("0", 0.0),
        ("+5s", 5.0),
        ("+0", 0.0),
        ("5us", 5e-6),
        ("5\u00b5s", 5e-6),
        ("5\u03bcs", 5e-6),
    ],
)
def test_durations_of_go(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text",
    [
        *("", "5", "m", "5 m", "5m later", "-", "+", "+-5s", "9999999999999999h", "9" * 400 + "h"),
        # Half a day of work, if each digit were tried as the first one.
        pytest.param("1" * 1_000_000, id="digits"),
    ],
)
def test_what_is_no_duration(text: str) -> None:
    assert parse_duration(text) is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (300, "5m0s"),
        (5400, "1h30m0s"),
        (3600, "1h0m0s"),
        (1.5, "1.5s"),
        (0, "0s"),
        (-120, "-2m0s"),
    ],
)
def test_durations_are_written_as_go_writes_them(seconds: float, text: str) -> None:
    assert format_duration(timedelta(seconds=seconds)) == text
