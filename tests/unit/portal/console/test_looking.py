"""Looks: shared, made anew while a stream waits, and told when they find something else."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from tests.support.waiting import SECONDS, idle

from fairlead.client import ConfigError
from fairlead.portal import bounds
from fairlead.portal.console.pages.live import Hub
from fairlead.portal.console.pages.looking import Looks


class Found:
    """What there is to be found, and how often it was looked for."""

    def __init__(self) -> None:
        self.value: object = 1
        self.looks = 0

    async def __call__(self) -> object:
        self.looks += 1
        await asyncio.sleep(0)
        if isinstance(self.value, Exception):
            raise self.value
        return self.value


@contextlib.asynccontextmanager
async def running(hub: Hub) -> AsyncIterator[Looks]:
    looks = Looks(hub, every=0.01)
    task = asyncio.create_task(looks.run())
    try:
        yield looks
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_pages_that_are_loaded_together_share_a_look() -> None:
    looks, found = Looks(Hub()), Found()
    seen = await asyncio.gather(*(looks.see("all", found) for _ in range(20)))
    assert {one.value for one in seen} == {1}
    assert found.looks == 1
    looks.again("all")
    found.value = 2
    assert (await looks.see("all", found)).value == 2


async def test_a_look_that_fails_leaves_what_was_seen_before() -> None:
    looks, found = Looks(Hub()), Found()
    before = await looks.see("all", found)
    for error in (ConfigError("no way"), ExceptionGroup("", [ConfigError("no way")])):
        found.value = error
        looks.again("all")
        seen = await looks.see("all", found)
        assert (seen.value, seen.problem, seen.at) == (1, "no way", before.at)
    found.value = ValueError("a secret")
    looks.again("all")
    assert "a secret" not in (await looks.see("all", found)).problem


async def test_open_pages_are_looked_at_again_and_others_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bounds, "LOOK_TICK_SECONDS", 0.01)
    hub, found, other = Hub(), Found(), Found()
    async with running(hub) as looks:
        await looks.see("all", found)
        await looks.see("other", other)
        with hub.subscribed("ada") as subscription:
            subscription.take(frozenset({"all"}))
            before = hub.version(["all"])
            async with asyncio.timeout(SECONDS):
                while found.looks < 3:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            # Nothing else was found: no stream is woken.
            assert hub.version(["all"]) == before
            found.value = 2
            async with asyncio.timeout(SECONDS):
                while hub.version(["all"]) == before:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
        assert other.looks == 1
        count = found.looks
        await idle(0.2)
        assert found.looks <= count + 1


async def test_a_page_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "FIRST_LOOK_SECONDS", 0.01)
    over = asyncio.Event()

    async def slow() -> int:
        await over.wait()
        return 1

    looks = Looks(Hub())
    seen = await looks.see("all", slow)
    assert (seen.value, seen.problem, seen.at) == (None, "", None)
    over.set()
    monkeypatch.setattr(bounds, "FIRST_LOOK_SECONDS", SECONDS)
    assert (await looks.see("all", slow)).value == 1


async def test_looks_that_no_page_shows_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "LOOKS_KEPT", 2)
    looks, found = Looks(Hub()), Found()
    for topic in ("a", "b", "c"):
        await looks.see(topic, found)
    assert found.looks == 3
    await looks.see("c", found)
    assert found.looks == 3
    await looks.see("a", found)
    assert found.looks == 4
