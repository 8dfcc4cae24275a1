"""After an outage of a server: who waited for it comes soon, whatever the length, and nobody else.

A real client, real controllers and reads that go on as a reflector's do; the time is made up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Self

import aiohttp
import pytest
from tests.unit.runtime.plane import Plane

from fairlead.api.resource import SECRETS
from fairlead.client import AlreadyExists, Client, ClientError, Outages, limits, outages_of
from fairlead.client.exchange import Outgoing
from fairlead.runtime import BackoffPolicy, Controller, Request, Result
from fairlead.runtime.controller import queue
from fairlead.runtime.controller.queue import WorkQueue


Run = Callable[[Awaitable[Any]], Any]

POLL = BackoffPolicy(jitter=0.0)
"""Between reads of a server that is away, as a reflector's."""


class Story:
    """A controller that writes an object of each key to the server, and somebody who reads."""

    def __init__(self, keys: int) -> None:
        self.plane = Plane()
        self.client = self.plane.client()
        self.controller = Controller("writer", self._reconcile, workers=8)
        self.requests = [Request("", "ns", f"k{number}") for number in range(keys)]
        self.done: dict[str, float] = {}
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._tasks = [
            asyncio.create_task(self.controller.run()),
            asyncio.create_task(read_on(self.client)),
        ]
        return self

    async def __aexit__(self, *_exc: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)

    def write(self) -> None:
        """Have all keys written."""
        for request in self.requests:
            self.controller.enqueue(request)

    async def _reconcile(self, request: Request) -> Result | None:
        body = {"metadata": {"name": request.name, "namespace": "ns"}}
        await self.client.merge_patch(SECRETS, request.name, "ns", body)
        self.done[request.name] = now()
        return None


def now() -> float:
    return asyncio.get_running_loop().time()


async def read_on(client: Client) -> None:
    failures = 0
    while True:
        try:
            await client.request("GET", "/api/v1/secrets")
            failures = 0
            await asyncio.sleep(10.0)
        except ClientError:
            await asyncio.sleep(POLL.delay(failures))
            failures += 1


def gone(_sent: Outgoing) -> None:
    return None


@pytest.mark.parametrize("seconds", [6.0, 90.0, 900.0, 7200.0])
@pytest.mark.parametrize("status", [None, 401, 500, 502, 503])
def test_all_is_written_soon_after_an_outage_however_long(
    virtual: Run, seconds: float, status: int | None
) -> None:
    async def story() -> None:
        async with Story(200) as one:
            one.plane.answer = lambda _sent: status
            one.write()
            await asyncio.sleep(seconds)
            one.plane.answer, over = lambda _sent: 200, now()
            await asyncio.sleep(60.0)
            assert len(one.done) == 200
            assert max(one.done.values()) - over < 60.0

    virtual(story())


def test_the_server_is_not_asked_for_all_at_once(virtual: Run) -> None:
    async def story() -> None:
        async with Story(1000) as one:
            one.plane.answer = gone
            one.write()
            await asyncio.sleep(900.0)
            one.plane.answer = lambda _sent: 200
            await asyncio.sleep(60.0)
            times = sorted(one.done.values())
            assert len(times) == 1000
            most = max(sum(at <= other < at + 1.0 for other in times) for at in times)
            assert most < 180

    virtual(story())


def test_a_server_that_refuses_for_a_moment_as_it_comes_up_is_asked_again(virtual: Run) -> None:
    """As one whose authorizer has not read its roles yet."""

    async def story() -> None:
        async with Story(50) as one:
            one.plane.answer = gone
            one.write()
            await asyncio.sleep(900.0)
            up = now() + 33.0
            one.plane.answer = lambda _sent: 403 if now() < up else 200
            await asyncio.sleep(60.0)
            assert len(one.done) == 50

    virtual(story())


def test_what_is_refused_for_its_own_sake_waits_as_long_as_without_an_outage(
    virtual: Run,
) -> None:
    """Its failures from before go on to count, and no outage makes it come twice."""

    async def story() -> None:
        async with Story(1) as one:
            one.plane.answer = lambda sent: 422 if sent.method == "PATCH" else 200
            one.write()
            await asyncio.sleep(100.0)
            before = one.controller.queue.failures(one.requests[0])
            assert before == 15
            one.plane.answer = gone
            await asyncio.sleep(300.0)
            one.plane.answer = lambda sent: 422 if sent.method == "PATCH" else 200
            one.plane.tries.clear()
            await asyncio.sleep(200.0)
            assert len(one.plane.tries) <= 2
            assert one.controller.queue.failures(one.requests[0]) >= before

    virtual(story())


@pytest.mark.parametrize("status", [403, 409, 422, 500])
def test_a_server_that_comes_and_goes_hurries_nothing_that_it_refuses(
    virtual: Run, status: int
) -> None:
    async def story() -> None:
        async with Story(1) as one:
            one.plane.answer = lambda sent: status if sent.method == "PATCH" else 200
            one.write()
            await asyncio.sleep(20.0)
            one.plane.tries.clear()
            # Reads fail and work again; the write always meets a server that is there.
            one.plane.answer = lambda sent: (
                status if sent.method == "PATCH" else None if now() % 40 < 20 else 200
            )
            await asyncio.sleep(3600.0)
            # Its own back-off brings it once each 60 s in the end, or each 1000 s.
            assert len(one.plane.tries) < (70 if status in {403, 409, 500} else 20)

    virtual(story())


def test_a_server_that_comes_and_goes_is_asked_ever_less_often(virtual: Run) -> None:
    async def story() -> None:
        async with Story(1) as one:
            one.plane.answer = lambda sent: (
                None if sent.method == "PATCH" or now() % 20 < 10 else 200
            )
            one.write()
            await asyncio.sleep(1200.0)
            one.plane.tries.clear()
            await asyncio.sleep(3600.0)
            assert len(one.plane.tries) < 60

    virtual(story())


def test_who_fails_alone_is_in_no_outage(virtual: Run) -> None:
    """A proxy breaks off one object's write each time, and answers everybody else."""

    async def story() -> None:
        async with Story(1) as one:
            one.plane.answer = lambda sent: None if sent.method == "PATCH" else 200
            reader = asyncio.create_task(every_second(one.client))
            one.write()
            await asyncio.sleep(3000.0)
            one.plane.tries.clear()
            await asyncio.sleep(3000.0)
            assert len(one.plane.tries) <= 4
            reader.cancel()

    virtual(story())


async def every_second(client: Client) -> None:
    while True:
        await client.request("GET", "/version")
        await asyncio.sleep(1.0)


def test_ends_are_told_apart_and_the_next_one_counts_for_both(virtual: Run) -> None:
    async def story() -> None:
        told: list[float] = []

        class Ear:
            def recovered(self, _outages: Outages) -> None:
                told.append(now() - begun)

        ear, outages, begun = Ear(), Outages(), now()
        outages.listen(ear)
        for _ in range(4):
            outages.failed()
            await asyncio.sleep(6.0)
            outages.failed()
            outages.answered("GET", 200)
            await asyncio.sleep(1.1)
        assert told == [pytest.approx(7.0)]
        await asyncio.sleep(60.0)
        assert told[1:] == [pytest.approx(7.0 + limits.APART_SECONDS)]

    virtual(story())


def test_who_hears_only_later_that_there_is_no_answer_is_told_once_more(virtual: Run) -> None:
    """Its request was sent into the outage, and ends after that as one without an answer."""

    async def story() -> None:
        async with Story(1) as one:
            one.plane.answer = gone
            one.write()
            await asyncio.sleep(900.0)
            # The next try goes out while nobody answers, and hangs.
            while len(one.plane.hanging) == 0:
                one.plane.hang = True
                await asyncio.sleep(1.0)
            one.plane.hang = False
            one.plane.answer = lambda _sent: 200
            await asyncio.sleep(40.0)
            assert not one.done
            one.plane.hanging.pop().set_exception(aiohttp.ServerDisconnectedError())
            await asyncio.sleep(60.0)
            assert one.done

    virtual(story())


def test_keys_of_another_server_go_on_to_wait(virtual: Run) -> None:
    async def story() -> None:
        keys = WorkQueue[str]()
        here, there = Outages(), Outages()
        slow = BackoffPolicy(initial=600.0)
        for _ in range(16):
            keys.retry("here", slow, outages=here)
            keys.retry("there", slow, outages=there)
            keys.retry("neither", slow)
        keys.retry("well", slow, outages=here)
        keys.forget("well")
        keys.recovered(here)
        await asyncio.sleep(queue._SPREAD_LEAST)
        waiting = [await keys.get() for _ in range(len(keys))]
        assert waiting == ["here"]
        assert keys.failures("here") == limits.RECOVERED_FAILURES
        assert (keys.failures("there"), keys.failures("neither")) == (16, 16)

    virtual(story())


def test_what_was_raised_from_an_outage_is_of_it() -> None:
    outages = Outages()
    cause = ClientError("away")
    cause.outages = outages
    wrapped = ValueError("because")
    wrapped.__cause__ = cause
    assert outages_of(wrapped) is outages
    assert outages_of(ExceptionGroup("both", [ValueError(), wrapped])) is outages
    assert outages_of(AlreadyExists.__new__(AlreadyExists)) is None
