"""A loop of virtual time for stories about the runtime."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from random import Random
from typing import Any, TypeVar

import pytest
import structlog
from tests.sim.loop import SimLoop


T = TypeVar("T")

Virtual = Callable[[Coroutine[Any, Any, T]], T]


@pytest.fixture
def virtual() -> Iterator[Callable[[Coroutine[Any, Any, Any]], Any]]:
    """Runs a coroutine in virtual time."""
    with asyncio.Runner(loop_factory=lambda: SimLoop(Random(0))) as runner:
        yield runner.run


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Logs are captured, so that a test's output is its own."""
    with structlog.testing.capture_logs():
        yield
