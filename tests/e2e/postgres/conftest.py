from __future__ import annotations

import pytest
from tests.support.pgserver import sweep

from fairlead.demo.postgres.server import EmbeddedPostgres


@pytest.fixture
def shared(request: pytest.FixtureRequest) -> EmbeddedPostgres | None:
    """The server that the test shares with others."""
    used = "postgres" in request.fixturenames
    return request.getfixturevalue("postgres") if used else None


@pytest.fixture(autouse=True)
async def _swept(shared: EmbeddedPostgres | None) -> None:
    """Have a test find nothing of those before it, which each look at the server would read."""
    if shared is not None:
        await sweep(shared)
