"""A place on a control plane for one test of the PostgresAccess operator."""

from __future__ import annotations

import base64
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import psycopg
from tests.support.planes import ControlPlane
from tests.support.postgres import access, credentials, prepare, running, server_profile
from tests.support.waiting import is_ready, when

from fairlead.api.meta import JSON
from fairlead.api.postgresaccess import ABANDON_ANNOTATION, POSTGRESACCESSES
from fairlead.api.postgresaccess.server import POSTGRESSERVERS
from fairlead.api.resource import NAMESPACES, SECRETS
from fairlead.client import Client, parse_kubeconfig
from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.postgres.options import PostgresOptions


class World:
    """One test's namespace, server profile and database, of names nobody else uses."""

    def __init__(self, admin: Client, postgres: EmbeddedPostgres, *, is_real: bool) -> None:
        self.admin = admin
        self.postgres = postgres
        self.is_real = is_real
        self.id = uuid.uuid4().hex[:8]
        self.namespace = f"team-{self.id}"
        self.server = f"main-{self.id}"
        self.database = f"app_{self.id}"

    async def arrive(self, **profile: object) -> None:
        """Make the namespace, labelled as this team's, and the server's profile."""
        namespace: JSON = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": self.namespace, "labels": {"team": self.id}},
        }
        await self.admin.create(NAMESPACES, namespace)
        await self.admin.create(SECRETS, credentials(self.server, self.postgres))
        await self.admin.create(
            POSTGRESSERVERS, server_profile(self.server, self.postgres, **profile)
        )

    async def leave(self) -> None:
        """Have an operator that is at work let go of everything; the profile goes last."""
        abandon: JSON = {"metadata": {"annotations": {ABANDON_ANNOTATION: "true"}}}
        for item in (await self.admin.list(POSTGRESACCESSES, self.namespace)).items:
            name = item.meta.name
            await self.admin.merge_patch(POSTGRESACCESSES, name, self.namespace, abandon)
            await self.delete(name)
            await self.gone(name)
        await self.admin.delete(POSTGRESSERVERS, self.server)

    async def create_database(self) -> None:
        await self.fetch(
            f"CREATE DATABASE {self.database} STRATEGY FILE_COPY", database="postgres"
        )

    def name(self, suffix: str = "app") -> str:
        return f"{suffix}-{self.id}"

    async def create(self, suffix: str = "app", **spec: object) -> str:
        name = self.name(suffix)
        await self.admin.create(
            POSTGRESACCESSES, access(name, self.namespace, self.server, **spec)
        )
        return name

    async def wait(self, name: str, until: Callable[[JSON], bool]) -> JSON:
        return await when(self.admin, POSTGRESACCESSES, name, self.namespace, until=until)

    async def ready(self, name: str) -> JSON:
        return await self.wait(name, is_ready)

    async def patch(self, name: str, **spec: object) -> None:
        await self.admin.merge_patch(POSTGRESACCESSES, name, self.namespace, {"spec": spec})

    async def delete(self, name: str) -> None:
        await self.admin.delete(POSTGRESACCESSES, name, self.namespace)

    async def gone(self, name: str) -> None:
        await self.wait(name, lambda body: not body)

    async def secret(self, name: str) -> dict[str, str]:
        found = await self.admin.get(SECRETS, f"{name}-login", self.namespace)
        data: dict[str, str] = found.to_dict()["data"]
        return {key: base64.b64decode(value).decode() for key, value in data.items()}

    async def fetch(self, query: str, *parameters: object, database: str = "") -> list[Any]:
        async with await psycopg.AsyncConnection.connect(
            self.postgres.dsn(database or self.database), autocommit=True
        ) as connection:
            cursor = await connection.execute(cast("Any", query), parameters or None)
            return await cursor.fetchall() if cursor.description else []

    async def role_exists(self, name: str) -> bool:
        return bool(await self.fetch("SELECT 1 FROM pg_roles WHERE rolname = %s", name))

    async def logs_in(self, uri: str) -> bool:
        try:
            connection = await psycopg.AsyncConnection.connect(uri)
        except psycopg.OperationalError:
            return False
        await connection.close()
        return True


def grant(database: str, *privileges: str) -> JSON:
    return {"database": database, "privileges": list(privileges)}


@asynccontextmanager
async def operated(
    control_plane: ControlPlane, postgres: EmbeddedPostgres, options: PostgresOptions
) -> AsyncIterator[World]:
    """A world with a database, and an operator at work in it."""
    async with Client(parse_kubeconfig(control_plane.kubeconfig())) as admin:
        await prepare(admin)
        world = World(admin, postgres, is_real=control_plane.is_real)
        await world.arrive()
        await world.create_database()
        async with running(admin, options):
            yield world
            await world.leave()
