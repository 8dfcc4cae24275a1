"""The PostgresAccess operator for tests, run as the ServiceAccount of its manifests."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Self

from tests.support.dying import DyingClient

from fairlead.api.meta import JSON
from fairlead.api.resource import CLUSTERROLES
from fairlead.client import Client, NotFound
from fairlead.demo.identity import as_service_account, create_all
from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.postgres.app import controllers, install_crds
from fairlead.postgres.manifests import NAME, manifests
from fairlead.postgres.metrics import PostgresMetrics
from fairlead.postgres.options import DEFAULT_NAMESPACE, PostgresOptions
from fairlead.runtime import Cluster, Metrics


async def prepare(admin: Client) -> None:
    """CRDs and manifests; whoever kept an older role of another run gets the new one."""
    await install_crds(admin, exported=True)
    with contextlib.suppress(NotFound):
        await admin.delete(CLUSTERROLES, NAME)
    await create_all(admin, manifests(image="fairlead", exported=True))


@contextlib.asynccontextmanager
async def running(
    admin: Client,
    options: PostgresOptions | None = None,
    metrics: Metrics | None = None,
    *,
    writes: int | None = None,
) -> AsyncIterator[Client]:
    """The operator at work, with the rights of the manifests and no others, and its client.

    With ``writes`` it can write so often, and then no more.
    """
    config = await as_service_account(admin, DEFAULT_NAMESPACE, NAME)
    read, counted = metrics or Metrics(), PostgresMetrics()
    read.registry.register(counted)
    made = Client(config, metrics=read.requests)
    if writes is not None:
        made = DyingClient(config, metrics=read.requests, writes=writes, hangs=True)
    async with made as client:
        cluster = Cluster("provider", client)
        read.clusters.append(cluster)
        chosen = controllers(cluster, options, counted)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one.run()) for one in chosen]
            tasks.append(group.create_task(cluster.run()))
            try:
                yield client
            finally:
                for task in tasks:
                    task.cancel()


def credentials(name: str, server: EmbeddedPostgres) -> JSON:
    """The administrator's Secret, in the operator's namespace."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": DEFAULT_NAMESPACE},
        "stringData": {"username": server.username, "password": server.password},
    }


def server_profile(name: str, server: EmbeddedPostgres, **spec: object) -> JSON:
    """A PostgresServer open to all namespaces and databases unless told otherwise."""
    return {
        "apiVersion": "access.k8s.delta10.nl/v1",
        "kind": "PostgresServer",
        "metadata": {"name": name},
        "spec": {
            "host": server.host,
            "port": server.port,
            "sslMode": "disable",
            "credentialsSecretRef": {"name": name},
            "allowedNamespaces": {},
            "allowedDatabases": ["*"],
            **spec,
        },
    }


def access(name: str, namespace: str, server: str, **spec: object) -> JSON:
    """A PostgresAccess whose role and Secret are named after it."""
    return {
        "apiVersion": "access.k8s.delta10.nl/v1",
        "kind": "PostgresAccess",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "connection": {"serverRef": {"name": server}},
            "username": name,
            "generatedSecret": f"{name}-login",
            "grants": [],
            **spec,
        },
    }


class Hanging:
    """A server that hangs for ever: at once, or when a login has gone well, at the first query.

    ``held`` counts the connections that hang, and a test may wait for its next change.
    """

    def __init__(self, server: EmbeddedPostgres, *, after_login: bool) -> None:
        self._target = (server.host, server.port)
        self._after_login = after_login
        self._tasks: set[asyncio.Task[None]] = set()
        self._listener: asyncio.Server | None = None
        self.held = 0
        self._changed = asyncio.Condition()

    async def __aenter__(self) -> Self:
        self._listener = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_exc: object) -> None:
        if self._listener is not None:
            self._listener.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def port(self) -> int:
        assert self._listener is not None
        port: int = self._listener.sockets[0].getsockname()[1]
        return port

    async def holds(self, count: int) -> None:
        """Wait until so many connections hang."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.held >= count)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            if self._after_login and not await self._carry(reader, writer):
                return
            async with self._changed:
                self.held += 1
                self._changed.notify_all()
            await asyncio.Event().wait()
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Let the login pass; a Query or Parse message is the first thing after it.

        False where none comes, for the client has gone.
        """
        far_reader, far_writer = await asyncio.open_connection(*self._target)
        try:
            answers = asyncio.create_task(self._answer(far_reader, writer))
            while (data := await reader.read(1 << 16)) and data[:1] not in {b"P", b"Q"}:
                far_writer.write(data)
            answers.cancel()
            return bool(data)
        finally:
            far_writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            writer.write(data)
