from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta, timezone

import pytest

from fairlead.api.timestamps import format_micro_time, format_time, moment, now, parse_time


MOMENT = datetime(2026, 3, 1, 12, 30, 15, 250_000, tzinfo=timezone(timedelta(hours=2)))


def test_times_are_written_in_utc() -> None:
    assert format_time(MOMENT) == "2026-03-01T10:30:15Z"
    assert format_micro_time(MOMENT) == "2026-03-01T10:30:15.250000Z"


def test_both_forms_are_read() -> None:
    assert parse_time(format_micro_time(MOMENT)) == MOMENT
    assert parse_time("2026-03-01T10:30:15Z") == datetime(2026, 3, 1, 10, 30, 15, tzinfo=UTC)


def test_what_is_no_time_is_refused() -> None:
    with pytest.raises(ValueError, match="yesterday"):
        parse_time("yesterday")


def test_now_has_whole_seconds() -> None:
    assert abs(datetime.now(UTC) - parse_time(now())) < timedelta(seconds=5)


def test_whoever_moves_the_clock_of_the_process_moves_this_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(time, "time", MOMENT.timestamp)
    assert moment() == MOMENT
    assert moment().tzinfo is UTC
    assert now() == "2026-03-01T10:30:15Z"
