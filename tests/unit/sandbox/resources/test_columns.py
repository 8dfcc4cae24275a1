from __future__ import annotations

from datetime import timedelta

import pytest

from fairlead_sandbox.resources.columns import human_duration, since


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (599, "9m59s"),
        (601, "10m"),
        (10799, "179m"),
        (10800, "3h"),
        (10860, "3h1m"),
        (8 * 3600, "8h"),
        (47 * 3600, "47h"),
        (48 * 3600, "2d"),
        (49 * 3600, "2d1h"),
        (8 * 86400, "8d"),
        (729 * 86400, "729d"),
        (731 * 86400, "2y1d"),
        (9 * 365 * 86400, "9y"),
        (-5, "<invalid>"),
    ],
)
def test_ages_are_short(seconds: int, expected: str) -> None:
    assert human_duration(timedelta(seconds=seconds)) == expected


@pytest.mark.parametrize(
    ("moment", "expected"), [(None, "<unknown>"), ("", "<unknown>"), ("soon", "<invalid>")]
)
def test_what_is_no_time_is_said_so(moment: str | None, expected: str) -> None:
    assert since(moment) == expected
