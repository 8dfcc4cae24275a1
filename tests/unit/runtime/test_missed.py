"""What a watch leaves out without a word is found within about an hour, and nothing else is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from structlog.testing import capture_logs
from tests.unit.runtime.fakes import WIDGETS, FakeServer, refusal, widget

from fairlead.client import Client, limits
from fairlead.runtime.cache.informer import Delta, SharedInformer
from fairlead.runtime.cache.missed import _ahead, _State
from fairlead.runtime.cluster import Cluster


Run = Callable[[Awaitable[Any]], Any]

LATEST = 1.25 * limits.COMPARED_SECONDS + 2 * limits.DUE_SECONDS + limits.BEHIND_SECONDS
"""Seconds until a cache has been compared, and compared again."""


@asynccontextmanager
async def watched(server: FakeServer) -> AsyncIterator[tuple[SharedInformer, list[str]]]:
    cluster = Cluster("c", cast("Client", server))
    lease = cluster.informer(WIDGETS)
    told: list[str] = []

    def tell(delta: Delta) -> None:
        told.append(f"{delta.type} {delta.object.meta.name}")

    lease.subscribe(tell)
    task = asyncio.create_task(cluster.run())
    await lease.synced()
    await asyncio.sleep(1.0)
    told.clear()
    try:
        yield next(iter(cluster.informers())), told
    finally:
        task.cancel()
        await asyncio.wait([task])


async def change(server: FakeServer, what: str) -> None:
    match what:
        case "ADDED":
            await server.put("new")
        case "MODIFIED":
            await server.put("k7")
        case "DELETED":
            await server.delete("k7")
        case "REPLACED":
            server.lose()
            await server.delete("k7")
            await server.put("k7", uid="another")


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("ADDED", ["ADDED new"]),
        ("MODIFIED", ["MODIFIED k7"]),
        ("DELETED", ["DELETED k7"]),
        ("REPLACED", ["DELETED k7", "ADDED k7"]),
    ],
)
def test_what_a_watch_left_out_is_told(virtual: Run, what: str, expected: list[str]) -> None:
    """In a collection of several pages, and while the watch tells of all that comes after."""

    async def story() -> None:
        server = FakeServer()
        for number in range(1200):
            await server.put(f"k{number}")
        async with watched(server) as (informer, told):
            server.lose()
            await change(server, what)
            await server.put("k900")
            await asyncio.sleep(1.0)
            assert told == ["MODIFIED k900"]
            with capture_logs() as logs:
                await asyncio.sleep(LATEST)
            assert told[1:] == expected
            assert informer.missed == 1
            assert informer.reflector.restarts["missed"] == 1
            (line,) = [one for one in logs if one["log_level"] == "warning"]
            assert (line["resource"], line["objects"]) == ("widgets.example.org", 1)
            assert server.count("list") == 2

    virtual(story())


def test_an_hour_without_a_loss_costs_one_list(virtual: Run) -> None:
    async def story() -> None:
        server = FakeServer()
        for number in range(700):
            await server.put(f"k{number}")
        async with watched(server) as (informer, told):
            await asyncio.sleep(24 * 3600.0)
            assert 2 * 20 <= server.count("page") <= 2 * 32
            assert (server.count("list"), informer.missed, told) == (1, 0, [])
            times = [asked.at for asked in server.asked if asked.verb == "page"]
            gaps = {round(after - before) for before, after in zip(times, times[2:], strict=False)}
            assert len(gaps) > 10

    virtual(story())


def test_what_is_on_its_way_is_no_loss(virtual: Run) -> None:
    """Objects come, change and go all the time; a change may be told of some seconds later."""

    async def story() -> None:
        server = FakeServer()
        for number in range(1200):
            await server.put(f"k{number}")
        async with watched(server) as (informer, _):

            async def change_all_the_time() -> None:
                number = 0
                while True:
                    await server.put(f"k{number % 1200}")
                    await server.put(f"brief-{number}")
                    await asyncio.sleep(0.0)
                    await server.delete(f"brief-{number}")
                    await asyncio.sleep(1.0 if number % 50 else 0.0)
                    server.compact()
                    number += 1

            task = asyncio.create_task(change_all_the_time())
            await asyncio.sleep(4 * 3600.0)
            task.cancel()
            assert server.count("page") >= 3 * 3
            assert informer.missed == 0
            assert informer.reflector.restarts["missed"] == 0

    virtual(story())


def test_what_is_told_of_before_the_second_list_is_no_loss(virtual: Run) -> None:
    async def story() -> None:
        server = FakeServer()
        await server.put("a")
        async with watched(server) as (informer, told):
            server.lose()
            await server.put("a")
            while not server.count("page"):  # noqa: ASYNC110  the server tells nobody
                await asyncio.sleep(1.0)
            assert told == []
            await server.put("a")
            await asyncio.sleep(limits.DUE_SECONDS)
            assert told == ["MODIFIED a"]
            assert (server.count("page"), informer.missed, server.count("list")) == (1, 0, 1)

    virtual(story())


def test_a_server_that_does_not_list_for_this_is_asked_again_later(virtual: Run) -> None:
    async def story() -> None:
        server = FakeServer()
        await server.put("a")
        async with watched(server) as (informer, told):
            server.lose()
            await server.delete("a")
            server.fail_once("page", refusal("Expired"))
            while not server.count("page"):  # noqa: ASYNC110  the server tells nobody
                await asyncio.sleep(1.0)
            await asyncio.sleep(limits.DUE_SECONDS)
            assert (server.count("page"), told) == (1, [])
            await asyncio.sleep(LATEST)
            assert (informer.missed, told) == (1, ["DELETED a"])

    virtual(story())


def test_who_is_behind_and_says_so_is_not_compared(virtual: Run) -> None:
    async def story() -> None:
        server = FakeServer()
        await server.put("a")
        async with watched(server) as (informer, _):
            server.fault["watch"] = lambda: refusal("Forbidden", "not allowed")
            await server.end_watches()
            await asyncio.sleep(3 * LATEST)
            assert informer.reflector.error
            assert server.count("page") == 0

    virtual(story())


def test_a_list_that_is_asked_for_while_a_watch_cannot_begin_comes(virtual: Run) -> None:
    async def story() -> None:
        server = FakeServer()
        await server.put("a")
        async with watched(server) as (informer, told):
            server.fail_once("watch", refusal("ServiceUnavailable"))
            await server.end_watches()
            await asyncio.sleep(0.1)
            server.lose()
            await server.delete("a")
            informer.reflector.relist()
            await asyncio.sleep(5.0)
            assert told == ["DELETED a"]
            assert (server.count("list"), server.open_watches) == (2, 1)

    virtual(story())


@pytest.mark.parametrize(
    ("cached", "listed", "ahead"),
    [("10", "9", True), ("9", "10", False), ("b", "a", False), ("10", "10", False)],
)
def test_later_versions_are_greater_numbers(cached: str, listed: str, ahead: bool) -> None:
    assert _ahead(_State.of(widget("a", cached)), listed) is ahead
    assert not _ahead(None, listed)
