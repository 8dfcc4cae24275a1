"""The PostgresAccess operator for tests, run as the ServiceAccount of its manifests."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from fairlead.api.meta import JSON
from fairlead.api.resource import CLUSTERROLES
from fairlead.client import Client, NotFound
from fairlead.demo.identity import as_service_account, create_all
from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.postgres.app import controllers, install_crds
from fairlead.postgres.manifests import NAME, manifests
from fairlead.postgres.options import DEFAULT_NAMESPACE, PostgresOptions
from fairlead.runtime import Cluster


async def prepare(admin: Client) -> None:
    """CRDs and manifests; whoever kept an older role of another run gets the new one."""
    await install_crds(admin, exported=True)
    with contextlib.suppress(NotFound):
        await admin.delete(CLUSTERROLES, NAME)
    await create_all(admin, manifests(image="fairlead", exported=True))


@contextlib.asynccontextmanager
async def running(admin: Client, options: PostgresOptions | None = None) -> AsyncIterator[None]:
    """The operator at work, with the rights of the manifests and no others."""
    config = await as_service_account(admin, DEFAULT_NAMESPACE, NAME)
    async with Client(config) as client:
        cluster = Cluster("provider", client)
        chosen = controllers(cluster, options)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one.run()) for one in chosen]
            tasks.append(group.create_task(cluster.run()))
            try:
                yield
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
