from __future__ import annotations

import asyncio

import pytest
from tests.support.waiting import SECONDS

from fairlead.portal.http.bounds import Deadlines


async def work(deadlines: Deadlines, done: asyncio.Event) -> str:
    task = asyncio.current_task()
    assert task is not None
    deadlines.begin(task)
    try:
        await done.wait()
    except asyncio.CancelledError:
        if not deadlines.end(task):
            raise
        assert not task.cancelling()
        return "late"
    finally:
        deadlines.end(task)
    return "done"


async def test_what_takes_too_long_is_ended_and_goes_on() -> None:
    deadlines = Deadlines(0.02)
    async with asyncio.timeout(SECONDS):
        assert await work(deadlines, asyncio.Event()) == "late"
        several = [work(deadlines, asyncio.Event()) for _ in range(3)]
        assert await asyncio.gather(*several) == ["late"] * 3
    assert not len(deadlines)


async def test_what_is_in_time_is_left_alone() -> None:
    deadlines, done = Deadlines(SECONDS), asyncio.Event()
    tasks = [asyncio.create_task(work(deadlines, done)) for _ in range(3)]
    await asyncio.sleep(0)
    assert len(deadlines) == 3
    done.set()
    assert await asyncio.gather(*tasks) == ["done"] * 3
    assert not len(deadlines)


async def test_a_cancellation_of_others_is_not_ours() -> None:
    deadlines = Deadlines(SECONDS)
    task = asyncio.create_task(work(deadlines, asyncio.Event()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not len(deadlines)
