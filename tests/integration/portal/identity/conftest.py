"""A control plane for each test, and stores of sessions on it, as replicas have them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
import structlog
from tests.support.redisserver import RedisServer, redis_server
from tests.support.waiting import SECONDS

from fairlead.api.resource import NAMESPACES
from fairlead.client import Client, parse_kubeconfig
from fairlead.portal.identity.secretstore import SecretStore
from fairlead.portal.identity.sessions import SessionStore
from fairlead.runtime import Cluster
from fairlead_sandbox import Sandbox


NAMESPACE = "fairlead-portal"


class Store(SessionStore, Protocol):
    """What replicas have: a store that runs."""

    async def run(self) -> None: ...

    def not_ready(self) -> str: ...


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Logs are captured, so that a test's output is its own."""
    with structlog.testing.capture_logs():
        yield


@pytest.fixture
async def plane() -> AsyncIterator[Sandbox]:
    async with Sandbox(tls=False, rbac=False) as plane:
        yield plane


@pytest.fixture
async def client(plane: Sandbox) -> AsyncIterator[Client]:
    async with Client(parse_kubeconfig(plane.kubeconfig())) as client:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        await client.create(NAMESPACES, body)
        yield client


@pytest.fixture
async def redis(tmp_path: Path) -> AsyncIterator[RedisServer]:
    async with redis_server(tmp_path) as server:
        yield server


@contextlib.asynccontextmanager
async def secret_replica(client: Client) -> AsyncIterator[SecretStore]:
    """A store in Secrets, with a cluster of its own: another replica of the server."""
    cluster = Cluster("portal", client)
    store = SecretStore(cluster, NAMESPACE, sweep_seconds=0.05)
    tasks = [asyncio.create_task(one) for one in (cluster.run(), store.run())]
    try:
        await until(lambda: not store.not_ready())
        yield store
    finally:
        await ended(tasks)


@contextlib.asynccontextmanager
async def redis_replica(server: RedisServer) -> AsyncIterator[Store]:
    from fairlead.portal.identity.redisstore import RedisStore

    store = RedisStore.at(server.options)
    task = asyncio.create_task(store.run())
    try:
        await until(lambda: not store.not_ready())
        yield store
    finally:
        await ended([task])
        await store.close()


@pytest.fixture(params=["client", "redis"])
def place(request: pytest.FixtureRequest) -> Any:
    """Where sessions are kept, either way."""
    return request.getfixturevalue(request.param)


@pytest.fixture
async def replicas(place: Client | RedisServer) -> AsyncIterator[tuple[Store, Store]]:
    """Two replicas' stores, of either kind."""
    async with contextlib.AsyncExitStack() as stack:
        pair: list[Store] = []
        for _ in range(2):
            if isinstance(place, RedisServer):
                pair.append(await stack.enter_async_context(redis_replica(place)))
            else:
                pair.append(await stack.enter_async_context(secret_replica(place)))
        yield pair[0], pair[1]


async def ended(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def until(condition: Callable[[], Any]) -> None:
    """Let others work until this holds."""
    async with asyncio.timeout(SECONDS):
        while not condition():  # noqa: ASYNC110  what is awaited has no event
            await asyncio.sleep(0.005)
