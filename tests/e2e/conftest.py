"""A PostgreSQL, and worlds for tests of the way between a consumer and a provider."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
from tests.support.konnector import World
from tests.support.servers import Servers
from tests.support.tiers import real

from fairlead.demo.postgres.server import EmbeddedPostgres


@pytest.fixture(scope="session")
def postgres(servers: Servers) -> EmbeddedPostgres:
    """The newest server."""
    return servers.of(18)


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
    params=[
        pytest.param("", id="sandboxes"),
        real("consumer", id="real-consumer"),
        real("provider", id="real-provider"),
    ]
)
async def any_world(request: pytest.FixtureRequest, stack: AsyncExitStack) -> World:
    """Two sandboxes, and each side on the real server."""
    return await _world(request, stack)


@pytest.fixture(params=[pytest.param("", id="sandboxes"), real("provider", id="real-provider")])
async def provider_world(request: pytest.FixtureRequest, stack: AsyncExitStack) -> World:
    """Two sandboxes, and the provider on the real server."""
    return await _world(request, stack)


async def _world(request: pytest.FixtureRequest, stack: AsyncExitStack) -> World:
    plane = request.getfixturevalue("realplane") if request.param else None
    world = World(stack, real=request.param, plane=plane)
    await world.start()
    return world
