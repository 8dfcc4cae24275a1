from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from time import thread_time

import pytest

from fairlead_sandbox.schema.effort import STEPS_PER_SECOND, Effort, ExhaustedError
from fairlead_sandbox.schema.patterns import compile_pattern


COLLECTION = 0.02
"""Seconds of processor time of a collection here, as in a process with many objects."""


@contextmanager
def slow_collections() -> Iterator[None]:
    """Have a collection of garbage begin at every few objects, and take ``COLLECTION``."""

    def collect(phase: str, _: dict[str, int]) -> None:
        ends = thread_time() + COLLECTION
        while phase == "start" and thread_time() < ends:
            pass

    thresholds = gc.get_threshold()
    gc.callbacks.append(collect)
    gc.set_threshold(20)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(collect)


class TestCollections:
    """A collection of garbage is not charged to the object that is being checked."""

    limit = int(COLLECTION * STEPS_PER_SECOND)

    def test_of_a_block(self) -> None:
        effort = Effort(self.limit)
        with slow_collections(), effort.timed():
            _ = [[number] for number in range(100)]
        assert gc.isenabled()

    def test_of_searches(self) -> None:
        pattern, effort = compile_pattern("a.", Effort()), Effort(self.limit)
        with slow_collections():
            matches = pattern.find("ab" * 50, effort)
        assert len(matches) == 50
        assert gc.isenabled()

    def test_after_an_object_that_takes_too_long(self) -> None:
        with pytest.raises(ExhaustedError), Effort(0).timed():
            _ = sum(range(10_000))
        assert gc.isenabled()
