"""What is printed of the benchmarks of the operator and of the binding controllers."""

from __future__ import annotations

import pytest
from bench import postgres
from bench.binding import Kept, Turn, rows
from bench.planes import Scrape


def test_bindings_are_compared_with_the_bare_loader() -> None:
    turn = Turn(500, seconds=10.0, bare=7.0, cpu=3.0, requests=4000.0)
    printed = {row.key: row for row in rows("x", (turn, turn), Kept(100, 1 << 20))}
    assert printed["binding_many_pace"].value == 0.7
    assert printed["binding_many_pace"].holds
    assert printed["binding_unmany_cpu_ms"].value == 6.0
    assert printed["binding_spread_memory"].value == 10.24
    assert "binding_unrelated_memory" not in printed


def test_accesses_are_compared_with_the_bare_script() -> None:
    first = postgres.Numbers(2000.0, 1.0, 3.0, 0.3, 4000.0, 9.0, 5.0)
    steady = postgres.Numbers(14.0, 0.0, 1.0, 0.1, 0.0, 0.0, 0.3)
    cost = postgres.Cost(10.0, 2200, 4)
    figures = postgres.Figures(1000, 16, 12.0, cost, first, 11e6, steady, [0.1, 0.2], [0.05] * 2)
    printed = {row.key: row for row in postgres.rows(figures)}
    assert {key: row.holds for key, row in printed.items() if row.aim is not None} == {
        "postgres_1000_first_of_bare": True,
        "postgres_1000_first_cpu_ms": True,
        "postgres_1000_first_memory_kib": True,
        "postgres_1000_steady_statements": True,
        "postgres_1000_steady_connections": True,
        "postgres_1000_steady_written": True,
        "postgres_1000_steady_seconds": True,
        "postgres_change_ms": True,
    }
    assert printed["postgres_change_of_echo"].value == pytest.approx(3.0)
    assert first.since(steady).statements == 1986.0


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
