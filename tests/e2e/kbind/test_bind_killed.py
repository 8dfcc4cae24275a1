"""``fairlead bind`` and ``unbind`` by kbind v2 that are killed between two writes are repeated."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.support.dying import DyingClient, KilledError
from tests.support.kbindcommands import WHOLE, BindWorld
from tests.support.kbindworld import KbindWorld
from tests.support.waiting import SECONDS

from fairlead.api.kbind.bindfile import BindFile
from fairlead.api.meta import Object
from fairlead.api.resource import SELFSUBJECTACCESSREVIEWS
from fairlead.client import Client
from fairlead.konnector.commands.unbind import UnbindError
from fairlead.konnector.commands.v2.bind import KbindOptions, bind_kbind
from fairlead.konnector.commands.v2.plan import BindWish, bind_file
from fairlead.konnector.commands.v2.targets import parse_target
from fairlead.konnector.commands.v2.unbind import unbind_kbind


OPTIONS = KbindOptions(timeout=SECONDS)
WRITES = 12
"""Writes of a bind or an unbind, and more."""


class DyingBinder(DyingClient):
    """Counts writes that are stored alone."""

    async def create(self, *args: Any, **more: Any) -> Object:
        if more.get("dry_run") or args[0] == SELFSUBJECTACCESSREVIEWS:
            return await Client.create(self, *args, **more)
        return await super().create(*args, **more)


class KilledWorld:
    """A world in which a command of the consumer is killed after some writes."""

    def __init__(self, world: BindWorld) -> None:
        self.world = world
        self.client = world.world.consumer

    def file(self, place: str = "") -> BindFile:
        kubeconfig = self.world.file.read_bytes()
        wish = BindWish(
            connection="acme", apis=[self.world.api], kubeconfig=kubeconfig, namespace=place
        )
        return bind_file(wish)

    def dying(self, writes: int) -> DyingBinder:
        return DyingBinder(self.client.config, writes=writes)

    async def killed(self, work: Any) -> bool:
        """Whether the work was killed before its end."""
        try:
            await work
        except KilledError:
            return True
        return False


@pytest.fixture
async def killed(kbind: KbindWorld, tmp_path: Path) -> KilledWorld:
    world = BindWorld(kbind, tmp_path)
    await world.start()
    return KilledWorld(world)


@pytest.mark.extended
@pytest.mark.parametrize("place", ["", "shop"], ids=["ClusterBinding", "Binding"])
async def test_a_killed_bind_is_mended_by_the_next(killed: KilledWorld, place: str) -> None:
    target = parse_target(f"binding/{place}/acme" if place else "clusterbinding/acme")
    ended = 0
    for writes in range(WRITES + 2):
        async with killed.dying(writes) as client:
            died = await killed.killed(bind_kbind(client, killed.file(place), OPTIONS))
        ended += not died
        await bind_kbind(killed.client, killed.file(place), OPTIONS)
        left = await killed.world.left()
        if not place:
            assert left == WHOLE
        await unbind_kbind(killed.client, target, timeout=SECONDS)
        assert await killed.world.left() == set()
    assert ended, "more writes than this test kills at"


@pytest.mark.extended
@pytest.mark.parametrize("name", ["clusterbinding/acme", "connection/acme"])
async def test_a_killed_unbind_is_mended_by_the_next(killed: KilledWorld, name: str) -> None:
    target, ended = parse_target(name), 0
    for writes in range(WRITES + 2):
        await bind_kbind(killed.client, killed.file(), OPTIONS)
        async with killed.dying(writes) as client:
            died = await killed.killed(unbind_kbind(client, target, timeout=SECONDS))
        ended += not died
        # Where the target itself is gone, the garbage collector does the rest.
        with suppress(UnbindError):
            await unbind_kbind(killed.client, target, timeout=SECONDS)
        async with asyncio.timeout(SECONDS):
            while await killed.world.left():  # noqa: ASYNC110  several kinds have no common watch
                await asyncio.sleep(0.05)
    assert ended, "more writes than this test kills at"


@pytest.mark.extended
async def test_what_a_killed_bind_leaves_is_unbound(killed: KilledWorld) -> None:
    for writes in range(1, WRITES):
        async with killed.dying(writes) as client:
            if not await killed.killed(bind_kbind(client, killed.file(), OPTIONS)):
                break
        for name in ("clusterbinding/acme", "connection/acme"):
            with suppress(UnbindError):
                await unbind_kbind(killed.client, parse_target(name), timeout=SECONDS)
        assert await killed.world.left() == set()
