from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest
import uvloop
from tests.support.fakeserver import FakeServer
from tests.support.pki import Authority

from fairlead.client import Client, ClusterConfig, RetryPolicy


QUICK = RetryPolicy(attempts=4, budget=2.5, base=0.001)


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Connections end differently on each loop, and programs run where uvloop does not."""
    return {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}


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
