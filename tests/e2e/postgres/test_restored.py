"""Yesterday's accesses, restored into an empty cluster beside the roles that they had."""

from __future__ import annotations

import base64
import uuid
from contextlib import AsyncExitStack
from typing import Any

import pytest
from tests.support.backups import dump, restore
from tests.support.e2e import Database
from tests.support.postgres import access, prepare, running
from tests.support.waiting import failed_with, gone, idle, is_ready, when

from fairlead.api.meta import JSON
from fairlead.api.postgresaccess import POSTGRESACCESSES
from fairlead.api.postgresaccess.controller import CONTROLLERS
from fairlead.api.postgresaccess.server import POSTGRESSERVERS
from fairlead.api.resource import NAMESPACES, SECRETS
from fairlead.client import Client, parse_kubeconfig
from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.postgres.commands.surroundings import Surroundings
from fairlead.postgres.commands.takingover import find_candidates, take_over
from fairlead.postgres.options import DEFAULT_NAMESPACE
from fairlead_sandbox import Sandbox


NAMES = ("reads", "owns")


class Cluster:
    """A cluster with an operator, of which a backup is made and into which one is restored."""

    def __init__(self, admin: Client, database: Database) -> None:
        self.admin = admin
        self.database = database
        self.id = uuid.uuid4().hex[:6]

    def role(self, name: str) -> str:
        return f"{name}-{self.id}"

    async def order(self, name: str) -> None:
        grants = [{"database": self.database.name, "privileges": ["CONNECT", "CREATE"]}]
        body = access(name, "team", "main", username=self.role(name), grants=grants)
        await self.admin.create(POSTGRESACCESSES, body)
        await when(self.admin, POSTGRESACCESSES, name, "team", until=is_ready)

    async def backup(self) -> list[JSON]:
        """What docs/backup.md has an operator's cluster keep, and the generated Secrets too."""
        admin = self.admin
        return [
            *await dump(admin, NAMESPACES, only=lambda one: one["metadata"]["name"] == "team"),
            *await dump(admin, POSTGRESSERVERS, CONTROLLERS, POSTGRESACCESSES),
            *await dump(admin, SECRETS, only=_kept),
        ]

    async def logins(self) -> dict[str, str]:
        """The URIs of all accesses, with their passwords."""
        found = {name: await self.admin.get(SECRETS, f"{name}-login", "team") for name in NAMES}
        data = {name: one.to_dict()["data"]["uri"] for name, one in found.items()}
        return {name: base64.b64decode(uri).decode() for name, uri in data.items()}

    async def roles(self) -> list[Any]:
        text = """SELECT oid::text, rolname::text, rolpassword, rolcanlogin FROM pg_authid
                  WHERE rolname LIKE %s ORDER BY 2"""
        return await self.database.query(text, f"%-{self.id}", database="postgres")


def _kept(body: JSON) -> bool:
    place, kind = body["metadata"]["namespace"], body.get("type", "")
    return place in {"team", DEFAULT_NAMESPACE} and not kind.startswith("kubernetes.io/")


async def cluster(stack: AsyncExitStack, name: str) -> Client:
    plane = await stack.enter_async_context(Sandbox(name=name))
    admin = await stack.enter_async_context(Client(parse_kubeconfig(plane.kubeconfig())))
    await prepare(admin)
    return admin


@pytest.fixture
async def before(postgres: EmbeddedPostgres, stack: AsyncExitStack) -> Cluster:
    """The cluster that is lost, with accesses at work."""
    database = Database(postgres)
    await database.create()
    before = Cluster(await cluster(stack, "before"), database)
    await database.offer(before.admin)
    await before.admin.create(NAMESPACES, {"metadata": {"name": "team"}})
    async with running(before.admin):
        for name in NAMES:
            await before.order(name)
    return before


async def test_accesses_that_are_restored_take_their_roles_up_with_their_passwords(
    before: Cluster, stack: AsyncExitStack
) -> None:
    backup, roles, logins = await before.backup(), await before.roles(), await before.logins()
    database = before.database
    after = Cluster(await cluster(stack, "after"), database)
    after.id = before.id
    first = [one for one in backup if one["kind"] == "Namespace"]
    await restore(after.admin, first, "stripped")
    await restore(after.admin, [one for one in backup if one not in first], "stripped", seed=1)
    async with running(after.admin):
        told = failed_with("another installation of Fairlead")
        for name in NAMES:
            await when(after.admin, POSTGRESACCESSES, name, "team", until=told)
        # Nothing is touched before an administrator says that the other cluster is gone.
        await idle(0.3)
        assert (await after.roles(), await after.logins()) == (roles, logins)
        around = await Surroundings.of(after.admin, DEFAULT_NAMESPACE)
        taken, failed = await take_over(around, await find_candidates(around, "main"))
        assert ({one.role for one in taken}, failed) == ({*map(after.role, NAMES)}, ())
        for name in NAMES:
            await when(after.admin, POSTGRESACCESSES, name, "team", until=is_ready)
        assert await after.roles() == roles
        assert await after.logins() == logins
        for name in NAMES:
            assert await database.logs_in(logins[name]) == after.role(name)
            await after.admin.delete(POSTGRESACCESSES, name, "team")
            await gone(after.admin, POSTGRESACCESSES, name, "team")
            await gone(after.admin, SECRETS, f"{name}-login", "team")
    assert await after.roles() == []
