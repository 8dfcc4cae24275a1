"""A control plane that is prepared for bindings, and a team on it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.support.binding import Team, administrator
from tests.support.planes import ControlPlane

from fairlead.client import Client


@pytest.fixture
async def admin(control_plane: ControlPlane) -> AsyncIterator[Client]:
    async with administrator(control_plane) as client:
        yield client


@pytest.fixture
async def team(admin: Client) -> Team:
    """Has Secret login."""
    return await Team.arrive(admin)
