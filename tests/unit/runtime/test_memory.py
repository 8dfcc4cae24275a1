from __future__ import annotations

import asyncio

import pytest

from fairlead.client import limits
from fairlead.runtime.controller import memory
from fairlead.runtime.controller.memory import Bursts, give_back


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "QUIET_SECONDS", 0.01)
    monkeypatch.setattr(memory, "REST_SECONDS", 0.01)


def work(bursts: Bursts, passes: int) -> None:
    for _ in range(passes):
        bursts.worked()


async def test_a_burst_gives_back_once_it_is_over() -> None:
    trimmed = asyncio.Event()
    bursts = Bursts(trimmed.set)
    work(bursts, limits.BURST)
    assert not trimmed.is_set()
    await asyncio.wait_for(trimmed.wait(), 10)
    trimmed.clear()
    work(bursts, limits.BURST)
    await asyncio.wait_for(trimmed.wait(), 10)


async def test_what_its_connections_held_is_given_back_too() -> None:
    trims: asyncio.Queue[None] = asyncio.Queue()
    bursts = Bursts(lambda: trims.put_nowait(None))
    work(bursts, limits.BURST)
    for _ in range(2):
        await asyncio.wait_for(trims.get(), 10)
    assert bursts._timer is None


async def test_the_next_burst_ends_with_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "REST_SECONDS", 3600)
    trims: list[None] = []
    bursts = Bursts(lambda: trims.append(None))
    work(bursts, limits.BURST)
    bursts._release()
    last = bursts._last
    assert last is not None
    work(bursts, limits.BURST)
    assert last.cancelled()
    assert bursts._last is None
    bursts.close()
    assert len(trims) == 1


async def test_a_start_is_a_burst() -> None:
    trimmed = asyncio.Event()
    bursts = Bursts(trimmed.set)
    bursts.begin()
    bursts.begin()
    await asyncio.wait_for(trimmed.wait(), 10)


async def test_what_goes_on_is_not_over() -> None:
    trims: list[None] = []
    bursts = Bursts(lambda: trims.append(None))
    work(bursts, limits.BURST)
    for _ in range(3):
        work(bursts, limits.BURST // 10 + 1)
        bursts._release()
        assert not trims
    work(bursts, limits.BURST // 10)
    bursts._release()
    assert len(trims) == 1


async def test_a_few_passes_are_no_burst_and_a_closed_one_is_over() -> None:
    trims: list[None] = []
    bursts = Bursts(lambda: trims.append(None))
    work(bursts, limits.BURST - 1)
    assert bursts._timer is None
    work(bursts, 1)
    assert bursts._timer is not None
    bursts.close()
    bursts.close()
    assert bursts._timer is None
    assert not trims


async def test_one_that_is_closed_gives_nothing_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "REST_SECONDS", 3600)
    bursts = Bursts(lambda: None)
    work(bursts, limits.BURST)
    bursts._release()
    last = bursts._last
    bursts.close()
    assert last is not None
    assert last.cancelled()


def test_the_system_takes_it() -> None:
    give_back()
