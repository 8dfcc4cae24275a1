from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.support.fakeserver import FakeServer
from tests.support.pki import Authority

from fairlead.client import Client, ClusterConfig, RetryPolicy


QUICK = RetryPolicy(attempts=4, budget=2.5, base=0.001)


@pytest.fixture
async def server() -> AsyncIterator[FakeServer]:
    async with FakeServer() as running:
        yield running


@pytest.fixture
async def client(server: FakeServer) -> AsyncIterator[Client]:
    async with Client(ClusterConfig(server.url), retries=QUICK) as made:
        yield made


@pytest.fixture(scope="session")
def authority() -> Authority:
    return Authority.create()
