"""A loop whose time is made up, and a server that lives in memory."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

import pytest
import structlog


T = TypeVar("T")

Virtual = Callable[[Coroutine[Any, Any, T]], T]


class _Selector(selectors.DefaultSelector):
    """Where the loop would wait, time passes instead."""

    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> list[Any]:
        ready: list[Any] = super().select(0)
        if ready:
            return ready
        if timeout is None:
            raise RuntimeError("everything waits and nothing will ever happen")
        self.loop.now += max(timeout, 0.0)
        self.loop.jumps += 1
        if self.loop.jumps > 200_000:
            raise RuntimeError("this story does not end")
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """Never sleeps: when all tasks wait, its clock jumps to the next timer."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.jumps = 0
        selector = _Selector()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self.now


@pytest.fixture
def virtual() -> Iterator[Callable[[Coroutine[Any, Any, Any]], Any]]:
    """Runs a coroutine in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        yield runner.run


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Logs are captured, so that a test's output is its own."""
    with structlog.testing.capture_logs():
        yield
