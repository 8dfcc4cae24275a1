"""What is printed of the binding controllers' benchmark."""

from __future__ import annotations

from pathlib import Path

from bench.binding.figures import Bound, Figures, Restart, Spread, Turn, Unrelated, rows
from bench.processes import Scrape
from bench.rows import BINDING, Row, write


def turn(number: int, cpu: float) -> Turn:
    return Turn(number, seconds=10.0, bare=7.0, cpu=cpu, requests=8.0 * number)


FIGURES = Figures(
    "real",
    bind=Bound(turn(200, 1.0), turn(200, 0.5), turn(500, 3.0), turn(500, 1.25)),
    change=turn(500, 5.0),
    selector=turn(500, 1.0),
    namespaces=Spread(100, 34, 4.0 * 1024 * 1024),
    restart=Restart(2000, 8.0, 6.0, 0, 1.0, 0.05),
    unrelated=Unrelated(20_000, 2e7, 0.001, 0.001, 0.0, 0.08, 0.07, 0.02, 0.02),
)


def test_every_row_is_of_the_section_and_compares_with_the_bare_loader(tmp_path: Path) -> None:
    found = {row.key: row for row in rows(FIGURES)}
    assert all(key.startswith(f"{BINDING}_") for key in found)
    assert found["binding_many_pace"].value == 0.7
    assert found["binding_many_pace"].holds
    assert found["binding_burst_seconds"].holds is False
    assert found["binding_growth_bind"].value == (3.0 / 500) / (1.0 / 200)
    assert found["binding_restart_new"].value == 0.125
    write(tmp_path, [Row("a", "A", 1.0)])
    write(tmp_path, list(found.values()), BINDING)
    text = (tmp_path / "results.md").read_text()
    assert "## make bench\n" in text
    assert "## make bench-binding\n" in text


def test_what_was_left_out_is_not_printed() -> None:
    assert not list(rows(Figures("sandbox")))


def test_requests_other_than_get_are_writes() -> None:
    text = (
        'rest_client_requests_total{method="GET",code="200"} 5\n'
        'rest_client_requests_total{method="PATCH",code="200"} 2\n'
        'controller_runtime_reconcile_total{controller="servicebinding",result="success"} 3\n'
    )
    told = Scrape(text)
    assert (told.requests, told.writes) == (7.0, 2.0)
    assert told.total("controller_runtime_reconcile_total", result="success") == 3.0
    assert told.total("controller_runtime_reconcile_total", result="error") == 0.0
