"""Servers of each version with both administrators, as tenants share them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.integration.postgres.test_roles import Admin
from tests.support.pgserver import sweep
from tests.support.servers import Servers
from tests.support.tiers import ADMINISTRATORS, VERSIONS

from fairlead.demo.postgres.server import EmbeddedPostgres


@pytest.fixture(params=VERSIONS)
def server(request: pytest.FixtureRequest, servers: Servers) -> EmbeddedPostgres:
    return servers.of(request.param)


@pytest.fixture(params=ADMINISTRATORS)
async def admin(request: pytest.FixtureRequest, server: EmbeddedPostgres) -> AsyncIterator[Admin]:
    made = Admin(server, superuser=request.param == "superuser")
    yield made
    await made.sessions.close()
    await sweep(server)
