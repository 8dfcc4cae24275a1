"""The queue's promises: every key once, one worker per key, nothing lost, live first."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest
import uvloop
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.sim.loop import SimLoop

from fairlead.runtime.backoff import BackoffPolicy
from fairlead.runtime.controller.queue import Band, QueueClosed, WorkQueue


Run = Callable[[Awaitable[Any]], Any]


async def drain(queue: WorkQueue[str]) -> list[str]:
    keys = []
    while len(queue):
        keys.append(await queue.get())
        queue.done(keys[-1])
    return keys


def test_groups_take_turns(virtual: Run) -> None:
    """However many keys one has, and in both bands."""

    async def story() -> None:
        queue = WorkQueue[str](group=lambda key: key[0])
        for key in ("a1", "a2", "a3", "a4", "b1", "c1", "b2"):
            queue.add(key)
        for key in ("a5", "a6", "b3"):
            queue.add(key, Band.INITIAL)
        expected = ["a1", "b1", "c1", "a2", "b2", "a3", "a4", "a5", "b3", "a6"]
        assert await drain(queue) == expected

    virtual(story())


def test_a_key_waits_once(virtual: Run) -> None:
    async def story() -> None:
        queue = WorkQueue[str]()
        for key in "abab":
            queue.add(key)
        assert await drain(queue) == ["a", "b"]
        assert queue.stats.adds == 2

    virtual(story())


def test_what_failed_is_hurried_and_forgiven_and_nothing_else(virtual: Run) -> None:
    async def story() -> None:
        queue = WorkQueue[str]()
        for _ in range(9):
            queue.retry("failed")
        queue.add_after("due later", 60.0)
        queue.hurry()
        assert await drain(queue) == ["failed"]
        assert queue.failures("failed") == 0
        assert queue.delayed == 1
        await asyncio.sleep(59.0)
        assert len(queue) == 0
        await asyncio.sleep(2.0)
        assert await drain(queue) == ["due later"]

    virtual(story())


def test_what_has_failed_is_hurried_by_name_and_within_a_time(virtual: Run) -> None:
    async def story() -> None:
        queue = WorkQueue[str]()
        keys = [f"k{number}" for number in range(100)]
        for key in ["other", *keys]:
            queue.retry(key, BackoffPolicy(initial=600.0))
        queue.hurry(["unknown", *keys], spread=2.0)
        assert len(queue) == 0
        await asyncio.sleep(1.0)
        assert 20 < len(queue) < 80
        await asyncio.sleep(1.0)
        assert sorted(await drain(queue)) == sorted(keys)
        assert (queue.failures("k1"), queue.failures("other")) == (0, 1)

    virtual(story())


def test_very_short_delays_work_on_the_loop_that_programs_run_on() -> None:
    async def story() -> list[str]:
        queue = WorkQueue[str]()
        for key, delay in (("a", 2e-4), ("b", 1e-4), ("c", 1e-6)):
            queue.add_after(key, delay)
        return sorted([await queue.get() for _ in "abc"])

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(story()) == ["a", "b", "c"]


def test_a_key_added_while_worked_on_comes_again_afterwards(virtual: Run) -> None:
    async def story() -> None:
        queue = WorkQueue[str]()
        queue.add("a")
        key = await queue.get()
        queue.add("a")
        assert len(queue) == 0
        queue.done(key)
        assert await drain(queue) == ["a"]

    virtual(story())


def test_live_goes_before_initial_and_lifts_it(virtual: Run) -> None:
    async def story() -> None:
        queue = WorkQueue[str]()
        for key in "abc":
            queue.add(key, Band.INITIAL)
        queue.add("live")
        queue.add("c")
        queue.add("live", Band.INITIAL)
        assert (queue.depth(Band.LIVE), queue.depth(Band.INITIAL)) == (2, 2)
        assert await drain(queue) == ["live", "c", "a", "b"]

    virtual(story())


def test_the_band_of_a_key_that_comes_again_is_the_best_asked_for(virtual: Run) -> None:
    async def story() -> None:
        queue = WorkQueue[str]()
        queue.add("a")
        await queue.get()
        queue.add("a")
        queue.add("a", Band.INITIAL)
        queue.done("a")
        assert queue.depth(Band.LIVE) == 1

    virtual(story())


def test_delays_end_in_order_and_the_first_counts(virtual: Run) -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        queue = WorkQueue[str]()
        queue.add_after("late", 30)
        queue.add_after("soon", 10)
        queue.add_after("late", 20)
        queue.add_after("soon", 15)
        begun = loop.time()
        seen = []
        for _ in range(2):
            key = await queue.get()
            seen.append((key, round(loop.time() - begun, 3)))
            queue.done(key)
        await asyncio.sleep(100)
        assert seen == [("soon", 10), ("late", 20)]
        assert (len(queue), queue.delayed) == (0, 0)

    virtual(story())


@pytest.mark.parametrize(
    ("failures", "delay"),
    [
        pytest.param(0, 0.005, id="first"),
        pytest.param(1, 0.01, id="doubles"),
        pytest.param(10, 5.12, id="tenth"),
        pytest.param(17, 655.36, id="below-the-maximum"),
        pytest.param(18, 1000.0, id="at-the-maximum"),
        pytest.param(5000, 1000.0, id="no-overflow"),
    ],
)
def test_retries_double_up_to_the_maximum(virtual: Run, failures: int, delay: float) -> None:
    async def story() -> None:
        queue = WorkQueue[str]()
        for _ in range(failures):
            queue.retry("a")
        assert queue.retry("a") == pytest.approx(delay)
        assert queue.failures("a") == failures + 1
        queue.forget("a")
        assert queue.retry("a") == 0.005

    virtual(story())


def test_a_waiting_worker_that_is_cancelled_hands_its_call_on(virtual: Run) -> None:
    async def story() -> None:
        queue = WorkQueue[str]()
        first = asyncio.create_task(queue.get())
        second = asyncio.create_task(queue.get())
        await asyncio.sleep(0)
        queue.add("a")
        first.cancel()
        assert await second == "a"

    virtual(story())


def test_closing_wakes_workers_and_keeps_keys(virtual: Run) -> None:
    async def story() -> None:
        queue = WorkQueue[str]()
        worker = asyncio.create_task(queue.get())
        await asyncio.sleep(0)
        queue.close()
        with pytest.raises(QueueClosed):
            await worker
        queue.add("a")
        queue.add_after("b", 5)
        with pytest.raises(QueueClosed):
            await queue.get()
        queue.open()
        await asyncio.sleep(10)
        assert await drain(queue) == ["a", "b"]

    virtual(story())


def test_what_is_put_back_comes_again(virtual: Run) -> None:
    async def story() -> None:
        queue = WorkQueue[str]()
        queue.add("a", Band.INITIAL)
        key = await queue.get()
        queue.put_back(key)
        queue.done(key)
        assert await drain(queue) == ["a"]

    virtual(story())


KEYS = st.sampled_from("abcd")
BANDS = st.sampled_from(list(Band))


class QueueMachine(RuleBasedStateMachine):
    """Against a model: what must still be worked on, and when at the latest."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = SimLoop(Random(0))
        self.owed: set[str] = set()
        self.due: dict[str, float] = {}
        self.working: set[str] = set()
        self.queue: WorkQueue[str] = self.call(WorkQueue[str])

    def teardown(self) -> None:
        self.loop.close()

    def call(self, function: Callable[[], Any]) -> Any:
        async def body() -> Any:
            return function()

        return self.loop.run_until_complete(body())

    @rule(key=KEYS, band=BANDS)
    def add(self, key: str, band: Band) -> None:
        self.call(lambda: self.queue.add(key, band))
        self.owed.add(key)

    @rule(key=KEYS, band=BANDS, delay=st.sampled_from([0.5, 3.0, 60.0]))
    def add_after(self, key: str, band: Band, delay: float) -> None:
        self.call(lambda: self.queue.add_after(key, delay, band))
        due = self.loop.time() + delay
        self.due[key] = min(self.due.get(key, due), due)

    @rule(key=KEYS)
    def retry(self, key: str) -> None:
        delay = self.call(lambda: self.queue.retry(key))
        due = self.loop.time() + delay
        self.due[key] = min(self.due.get(key, due), due)

    @rule()
    def get(self) -> None:
        if not len(self.queue):
            return
        key = self.loop.run_until_complete(self.queue.get())
        assert key not in self.working
        assert key in self.owed
        self.owed.discard(key)
        self.working.add(key)

    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        if not self.working:
            return
        key = data.draw(st.sampled_from(sorted(self.working)))
        self.call(lambda: self.queue.done(key))
        self.working.discard(key)

    # Exact in binary: the queue takes what is due within a millionth of a second for due.
    @rule(seconds=st.sampled_from([0.125, 1.0, 10.0]))
    def wait(self, seconds: float) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))
        now = self.loop.time()
        for key in [key for key, due in self.due.items() if due <= now]:
            del self.due[key]
            self.owed.add(key)

    @invariant()
    def nothing_is_lost_nor_doubled(self) -> None:
        assert len(self.queue) == len(self.owed - self.working)
        assert self.queue.delayed == len(self.due)
        assert self.queue.idle == (not self.working and not len(self.queue))

    @invariant()
    def never_empty_handed_while_a_live_key_waits(self) -> None:
        total = self.queue.depth(Band.LIVE) + self.queue.depth(Band.INITIAL)
        assert total == len(self.queue)


QueueMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestQueueMachine = QueueMachine.TestCase
