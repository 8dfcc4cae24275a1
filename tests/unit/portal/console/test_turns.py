"""One person's pages leave the event loop to others."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.waiting import eventually

from fairlead.portal import bounds
from fairlead.portal.console.visits.site import PageTurns
from fairlead.portal.http.errors import Refusal


class Clock:
    """CPU seconds, which only a page takes."""

    def __init__(self) -> None:
        self.used = 0.0

    def __call__(self) -> float:
        return self.used


async def page(made: PageTurns, clock: Clock, author: str, cost: float) -> float:
    """Render a page of this cost; seconds until its turn."""
    loop = asyncio.get_running_loop()
    asked = loop.time()
    async with made.of(author):
        waited = loop.time() - asked
        clock.used += cost
    return waited


async def test_the_page_after_a_costly_one_waits_and_that_of_others_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slept: list[float] = []
    sleep = asyncio.sleep

    async def noted(seconds: float) -> None:
        slept.append(seconds)
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", noted)
    clock = Clock()
    made = PageTurns(clock)
    await page(made, clock, "ada", 0.5)
    await page(made, clock, "ada", 0.01)
    await page(made, clock, "ben", 0.01)
    await page(made, clock, "ada", 90.0)
    await page(made, clock, "ada", 0.0)
    assert [round(one, 1) for one in slept] == [0.0, 2.0, 0.0, 0.0, 5.0]


async def test_pages_of_one_person_wait_in_line_and_not_without_end() -> None:
    clock, made = Clock(), PageTurns()
    inside, gate = asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        async with made.of("ada"):
            inside.set()
            await gate.wait()

    async with asyncio.TaskGroup() as group:
        for _ in range(bounds.PAGES_WAITING):
            group.create_task(slow())
        await inside.wait()
        with pytest.raises(Refusal) as refusal:
            await page(made, clock, "ada", 0.0)
        assert refusal.value.status == 429
        await page(made, clock, "ben", 0.0)
        gate.set()

    async def forgotten() -> bool:
        # A look of another person's is when queues are dropped.
        await page(made, clock, "cem", 0.0)
        return not made._queues

    await eventually(forgotten)
