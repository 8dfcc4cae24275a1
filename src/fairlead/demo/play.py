"""Start of the story's world: embedded control planes, an embedded PostgreSQL, the programs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

from fairlead.demo import story
from fairlead.demo.postgres.database import DatabaseServer
from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.demo.steps import Narrator, Screen, StoryReport
from fairlead.demo.world import Plane, World, open_world
from fairlead_sandbox import Sandbox


Keep = Callable[[Plane, Plane, DatabaseServer], Awaitable[None]]


async def play(screen: Screen, *, keep: Keep | None = None) -> StoryReport:
    """Start clusters, database and programs, run the story, and remove all of them.

    With ``keep`` the story stops after the app has run; all parts go on until ``keep`` returns.

    Returns:
        the report, which ends with the first failed step.
    """
    narrator = Narrator(screen)
    try:
        await _play(narrator, keep)
    except Exception as error:
        # A step's own error is in the report. This one comes from outside of the steps, such as
        # from the end of the programs.
        if not narrator.report.steps or narrator.report.ok:
            with narrator.step("stop everything"):
                raise error from None
    return narrator.report


async def _play(narrator: Narrator, keep: Keep | None) -> None:
    async with AsyncExitStack() as stack:
        with narrator.step("Start two control planes, PostgreSQL and the programs") as saw:
            provider = await stack.enter_async_context(Sandbox(name="provider"))
            consumer = await stack.enter_async_context(Sandbox(name="consumer"))
            database = await stack.enter_async_context(EmbeddedPostgres())
            world = await stack.enter_async_context(open_world(provider, consumer, database))
            await story.ready(world)
            saw(f"provider {provider.url}, consumer {consumer.url}")
            saw(f"PostgreSQL on {database.host}:{database.port}, scram-sha-256 only")
        await tell(narrator, world, to_the_end=keep is None)
        if keep is not None:
            await keep(provider, consumer, database)


async def tell(narrator: Narrator, world: World, *, to_the_end: bool = True) -> None:
    """Run the steps of the story in a world whose programs run.

    Raises:
        StoryError: a step has failed; the narrator has recorded it.
    """
    with narrator.step("1. The provider offers PostgresAccess") as saw:
        await story.offer(world, saw)
    with narrator.step("2. Two people sign in") as saw:
        await story.sign_in(world, saw)
    with narrator.step("3. One of them binds over HTTP") as saw:
        await story.bind(world, saw)
    with narrator.step("4. The app team creates three objects") as saw:
        await story.create(world, saw)
    with narrator.step("5. Role, Secret and projection arrive") as saw:
        await story.arrive(world, saw)
    with narrator.step("6. The app logs in") as saw:
        await story.run_app(world, saw, story.FIRST_PRIVILEGES)
    if not to_the_end:
        return
    with narrator.step("7. The grants change") as saw:
        await story.change(world, saw)
        await story.run_app(world, saw, story.LATER_PRIVILEGES)
    with narrator.step("8. Everything is deleted") as saw:
        await story.clean_up(world, saw)
