"""Benchmark results: what holds, what is printed, what is written."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.rows import Row, emit, parse, table, write


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


def test_each_section_of_the_results_is_written_alone(tmp_path: Path) -> None:
    file = tmp_path / "results.md"
    write(file, "sync", [Row("sync_a", "Sync A", 3.0)])
    write(file, "sandbox", [Row("sandbox_old", "Old", 2.0)])
    rows = [Row("sandbox_a", "A", 1.75, aim=1.5), Row("b", "B", 12345.6, "keys/s", note="fast")]
    write(file, "sandbox", rows)
    text = file.read_text()
    assert table(rows) in text
    assert "| A | 1.75 x | <= 1.5 | **no** |  |" in text
    assert "| B | 12,346 keys/s |  |  | fast |" in text
    assert text.index("## make bench\n") < text.index("| A | 1.75 x")
    assert text.index("| A | 1.75 x") < text.index("## make bench-sync\n")
    assert text.index("## make bench-sync\n") < text.index("| Sync A | 3.00 x")
    assert "Old" not in text
