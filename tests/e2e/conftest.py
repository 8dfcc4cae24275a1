"""A PostgreSQL, and worlds for tests of the way between a consumer and a provider."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack

import pytest
from tests.support.konnector import World
from tests.support.servers import started

from fairlead.demo.postgres.server import EmbeddedPostgres


@pytest.fixture(scope="module")
def postgres() -> Iterator[EmbeddedPostgres]:
    """A server for a module's tests."""
    yield from started(EmbeddedPostgres())


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


@pytest.fixture
async def world(stack: AsyncExitStack) -> World:
    """Two sandboxes, with the provider at work."""
    world = World(stack)
    await world.start()
    return world


@pytest.fixture(
    params=["", "consumer", "provider"], ids=["sandboxes", "real-consumer", "real-provider"]
)
async def any_world(request: pytest.FixtureRequest, stack: AsyncExitStack) -> World:
    """Two sandboxes, and each side on the real server."""
    return await _world(request, stack)


@pytest.fixture(params=["", "provider"], ids=["sandboxes", "real-provider"])
async def provider_world(request: pytest.FixtureRequest, stack: AsyncExitStack) -> World:
    """Two sandboxes, and the provider on the real server."""
    return await _world(request, stack)


async def _world(request: pytest.FixtureRequest, stack: AsyncExitStack) -> World:
    plane = request.getfixturevalue("realplane") if request.param else None
    world = World(stack, real=request.param, plane=plane)
    await world.start()
    return world
