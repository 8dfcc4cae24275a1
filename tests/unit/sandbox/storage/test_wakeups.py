"""Watches that are woken together."""

from __future__ import annotations

import asyncio

from tests.support.waiting import SECONDS

from fairlead_sandbox.storage.store import TURNS, Wakeups


async def turns(number: int) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


async def test_all_that_is_due_within_some_turns_is_woken_at_once() -> None:
    wakeups, first, second = Wakeups(), asyncio.Event(), asyncio.Event()
    wakeups.add(first)
    await turns(TURNS // 2)
    wakeups.add(second)
    wakeups.add(first)
    assert not first.is_set()
    assert not second.is_set()
    async with asyncio.timeout(SECONDS):
        await first.wait()
    assert second.is_set()


async def test_what_is_due_later_is_woken_later() -> None:
    wakeups, first, second = Wakeups(), asyncio.Event(), asyncio.Event()
    wakeups.add(first)
    async with asyncio.timeout(SECONDS):
        await first.wait()
    wakeups.add(second)
    await turns(TURNS // 2)
    assert not second.is_set()
    async with asyncio.timeout(SECONDS):
        await second.wait()


async def test_who_waits_first_is_woken_first() -> None:
    wakeups, woken = Wakeups(), list[int]()

    async def watch(number: int) -> None:
        wakeup = asyncio.Event()
        wakeups.add(wakeup)
        await wakeup.wait()
        woken.append(number)

    async with asyncio.timeout(SECONDS), asyncio.TaskGroup() as group:
        for number in range(50):
            group.create_task(watch(number))
    assert woken == list(range(50))
