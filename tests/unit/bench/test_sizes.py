"""Sizes of the benchmarks: the short form, the long one, and what is kept."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

import pytest
from bench import sizes


@pytest.fixture(autouse=True)
def afterwards(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing of the environment counts, and the module is as it was when a test is over."""
    for name in ("BENCH_LONG", *sizes.CHOICES):
        monkeypatch.delenv(name, raising=False)
    yield
    monkeypatch.undo()
    importlib.reload(sizes)


@pytest.mark.parametrize(
    ("chosen", "objects", "bindings", "kept"),
    [
        pytest.param({}, (1000,), 200, False, id="short"),
        pytest.param({"BENCH_LONG": "0"}, (1000,), 200, False, id="not-long"),
        pytest.param({"BENCH_LONG": "1"}, (1000, 10_000), 500, True, id="long"),
        pytest.param({"BENCH_OBJECTS": "60"}, (60,), 200, False, id="a-size"),
        pytest.param(
            {"BENCH_LONG": "1", "BENCH_BINDINGS": "50"}, (1000, 10_000), 50, False, id="part"
        ),
    ],
)
def test_a_size_that_is_chosen_wins_and_the_long_form_alone_is_kept(
    monkeypatch: pytest.MonkeyPatch,
    chosen: dict[str, str],
    objects: tuple[int, ...],
    bindings: int,
    *,
    kept: bool,
) -> None:
    for name, value in chosen.items():
        monkeypatch.setenv(name, value)
    importlib.reload(sizes)
    assert (objects, bindings, kept) == (sizes.OBJECTS, sizes.BINDINGS, sizes.KEPT)
