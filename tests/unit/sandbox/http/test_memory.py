"""Memory is given back when many connections have come and gone, and no sooner."""

from __future__ import annotations

import asyncio

import pytest

from fairlead_sandbox.http import memory
from fairlead_sandbox.http.memory import MANY, Connections, give_back


def count(connections: Connections, number: int) -> None:
    for _ in range(number):
        connections.count()


async def test_it_is_given_back_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second time is for handshakes that nobody ended."""
    monkeypatch.setattr(memory, "QUIET_SECONDS", 0.01)
    monkeypatch.setattr(memory, "REST_SECONDS", 0.01)
    trims: asyncio.Queue[None] = asyncio.Queue()
    connections = Connections(lambda: trims.put_nowait(None))
    count(connections, MANY)
    for _ in range(2):
        await asyncio.wait_for(trims.get(), 10)


async def test_what_goes_on_is_not_over() -> None:
    trims: list[None] = []
    connections = Connections(lambda: trims.append(None))
    count(connections, MANY)
    for _ in range(3):
        count(connections, MANY // 10 + 1)
        connections._release()
        assert not trims
    count(connections, MANY // 10)
    connections._release()
    assert len(trims) == 1
    connections.close()


async def test_a_few_are_not_many() -> None:
    connections = Connections(lambda: None)
    count(connections, MANY - 1)
    assert connections._timer is None
    count(connections, 1)
    assert connections._timer is not None
    connections.close()
    assert connections._timer is None


def test_giving_back_works_here_or_is_left_alone() -> None:
    give_back()
