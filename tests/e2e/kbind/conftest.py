"""Worlds of kbind v2."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest
from tests.support.kbindworld import KbindWorld
from tests.support.tiers import real


@pytest.fixture
async def kbind(stack: AsyncExitStack) -> KbindWorld:
    """A consumer and a provider, both sandboxes."""
    world = KbindWorld(stack)
    await world.start()
    return world


@pytest.fixture(
    params=[
        pytest.param("", id="sandboxes"),
        real("consumer", id="real-consumer"),
        real("provider", id="real-provider"),
    ]
)
async def any_kbind(request: pytest.FixtureRequest, stack: AsyncExitStack) -> KbindWorld:
    """A consumer and a provider, and each side on the real server."""
    plane = request.getfixturevalue("realplane") if request.param else None
    world = KbindWorld(stack, real=request.param, plane=plane)
    await world.start()
    return world
