"""The rows of the benchmark of kbind v2."""

from __future__ import annotations

from bench.kbind import Crossed, rows


FORMER = Crossed(500, 5.0, 0.02, 3_000_000)
OURS = Crossed(500, 4.0, 0.01, 2_000_000)


def test_without_the_originals_konnector_there_is_nothing_about_it() -> None:
    throughput, change, memory = rows("sandbox", FORMER, OURS, None)
    assert throughput.value == 1.25
    assert (change.value, change.unit) == (10.0, "ms")
    assert round(memory.value, 2) == 0.67


def test_an_original_that_does_not_come_to_its_end_has_the_rate_so_far() -> None:
    (*_, throughput) = rows("sandbox", FORMER, OURS, Crossed(90, 90.0, 0.0, 0.0))
    assert throughput.value == 125.0
    assert "90 of 500 in 90 s" in throughput.note


def test_a_change_is_compared_with_the_originals() -> None:
    (*_, change) = rows("sandbox", FORMER, OURS, Crossed(500, 50.0, 4.0, 0.0))
    assert change.value == 0.0025
