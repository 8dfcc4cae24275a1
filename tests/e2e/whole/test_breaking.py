"""The demo's three things to break: what the console shows of each, and when it is mended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tests.support.ownconsole import Page, Shown, console
from tests.support.pairs import fresh_planes
from tests.support.waiting import SECONDS

from fairlead.demo import play, story
from fairlead.demo.breaking import breakages
from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.demo.screen import SilentScreen
from fairlead.demo.steps import Narrator
from fairlead.demo.world import open_world


async def test_the_console_shows_what_is_broken_and_what_helps() -> None:
    async with (
        fresh_planes("sandbox", "provider", "consumer") as (provider, consumer),
        EmbeddedPostgres() as database,
        open_world(provider, consumer, database) as world,
    ):
        await story.ready(world)
        await play.tell(Narrator(SilentScreen()), world, to_the_end=False)
        async with console(world.consumer) as shown:
            await well(shown)
            await drawn_well(shown)
            for one in breakages(database.port):
                there = world.provider if one.side == "provider" else world.consumer
                await there.merge_patch(one.resource, one.name, one.namespace, one.change)
                page = await shown.once(one.page, "It waits for", one.says, "Remedy:")
                assert database.password not in page.body
                name = one.page.rpartition("/")[2]
                await until(
                    shown,
                    lambda page, name=name: any(  # type: ignore[misc]
                        row[0].endswith(f"/{name}") and row[1] != "healthy" for row in page.rows
                    ),
                )
                drawn = await shown.once("/topology?shown=problems", one.says)
                assert "data-cause" in drawn.body
                assert {row[1].split()[0] for row in drawn.rows[1:]} & {"failed", "waiting"}
                await there.merge_patch(one.resource, one.name, one.namespace, one.mend)
                await well(shown)


async def until(shown: Shown, so: Callable[[Page], bool]) -> None:
    """Wait until the first page is as wanted."""
    async with asyncio.timeout(SECONDS):
        while not so(await shown.get("/")):  # noqa: ASYNC110  pages are asked for
            await asyncio.sleep(0.1)


async def well(shown: Shown) -> None:
    """Wait until all four objects of the story are healthy."""
    await until(shown, lambda page: len(page.rows) == 5 and states(page) == {"healthy"})


async def drawn_well(shown: Shown) -> None:
    """The topology has all six links of the story, and each part's own page is there."""
    page = await shown.get("/topology")
    parts = [row[0] for row in page.rows[1:]]
    kinds = ("Deployment", "ServiceBinding", "Secret", "PostgresAccess", "PostgresAccess", "role")
    assert sorted(part.split()[0] for part in parts) == sorted(kinds)
    for path in {one for one in page.links if one.startswith(("/objects/", "/bindings/"))}:
        assert (await shown.get(path)).status == 200


def states(page: Page) -> set[str]:
    return {row[1] for row in page.rows[1:]}
