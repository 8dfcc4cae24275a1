"""Benchmark results: what holds, what is printed, what is written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bench.rows import Row, emit, parse, table, write
from bench.runtime.stream import EVENTS, OBJECTS, events, widget


@pytest.mark.parametrize(
    ("row", "holds"),
    [
        pytest.param(Row("k", "t", 1.4, aim=1.5), True, id="below"),
        pytest.param(Row("k", "t", 1.6, aim=1.5), False, id="above"),
        pytest.param(Row("k", "t", 8.1, aim=8, smaller_is_better=False), True, id="faster"),
        pytest.param(Row("k", "t", 7.9, aim=8, smaller_is_better=False), False, id="slower"),
        pytest.param(Row("k", "t", 1.0), None, id="no-aim"),
    ],
)
def test_whether_an_aim_holds(row: Row, *, holds: bool | None) -> None:
    assert row.holds is holds


def test_rows_pass_between_processes(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [Row("a", "A", 1.25, "x", 1.5, note="n"), Row("b", "B", 12345.6, "keys/s")]
    emit(rows)
    assert parse("noise\n" + capsys.readouterr().out) == rows


def test_results_are_written_for_people_and_flat_for_machines(tmp_path: Path) -> None:
    rows = [Row("a", "A", 1.75, aim=1.5), Row("b", "B", 12345.6, "keys/s", note="fast")]
    write(tmp_path, rows)
    assert json.loads((tmp_path / "results.json").read_text()) == {"a": 1.75, "b": 12345.6}
    text = (tmp_path / "results.md").read_text()
    assert table(rows) in text
    assert "| A | 1.75 x | <= 1.5 | **no** |  |" in text
    assert "| B | 12,346 keys/s |  |  | fast |" in text


def test_the_stream_is_what_the_issue_says() -> None:
    sizes = [len(widget(number, number)) for number in range(0, OBJECTS, 500)]
    assert 2350 <= sum(sizes) / len(sizes) <= 2450
    lines = list(events(2000, 500))
    assert len(lines) == 2000
    assert EVENTS == 20_000
    there = set(range(500))
    for line in lines:
        event = json.loads(line)
        number = int(event["object"]["metadata"]["name"].removeprefix("widget-"))
        assert (number in there) == (event["type"] != "ADDED")
        (there.discard if event["type"] == "DELETED" else there.add)(number)
