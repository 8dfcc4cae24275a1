"""After a burst of changes nothing is kept of it, not even the room that it took."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator

import pytest

from fairlead.api.meta import Key, object_from_dict
from fairlead.konnector.metrics import Way
from fairlead.runtime.cache.expectations import Expectations
from fairlead.runtime.controller.queue import WorkQueue


KEYS = [Key("team", f"widget-{number}") for number in range(20_000)]
ROOM = 200_000
"""Bytes; a table for so many keys takes more, and Python itself keeps 2,000 freed pairs."""


# Made beforehand, so that their own memory does not count.
OBJECTS = [
    object_from_dict({"metadata": {"namespace": key.namespace, "name": key.name}}) for key in KEYS
]


def way() -> Iterator[None]:
    known = Way(lambda: 1.0)
    for key in KEYS:
        known.arrived(key)
    yield
    for key in KEYS:
        known.take(key)
    for key in KEYS:
        known.looked(key)
    yield


def ahead() -> Iterator[None]:
    known = Expectations()
    for obj in OBJECTS:
        known.wrote(obj, created=True)
    yield
    for obj in OBJECTS:
        known.forget(obj.key)
    yield


@pytest.mark.parametrize("work", [way, ahead], ids=["arrivals", "writes"])
def test_room_is_given_back(work: Callable[[], Iterator[None]]) -> None:
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        burst = work()
        next(burst)
        assert tracemalloc.get_traced_memory()[0] - before > ROOM
        next(burst)
        assert tracemalloc.get_traced_memory()[0] - before < ROOM
    finally:
        tracemalloc.stop()


async def test_a_queue_gives_back_the_room_of_what_waited() -> None:
    queue: WorkQueue[Key] = WorkQueue()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for key in KEYS:
            queue.add(key)
        assert tracemalloc.get_traced_memory()[0] - before > ROOM
        for _ in KEYS:
            queue.done(await queue.get())
        assert tracemalloc.get_traced_memory()[0] - before < ROOM
    finally:
        tracemalloc.stop()
