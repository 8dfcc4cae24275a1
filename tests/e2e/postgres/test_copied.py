"""A server restored from a dump of another one: its roles carry the claims of the former one's."""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.support.commands import fairlead
from tests.support.e2e import Database
from tests.support.postgres import access, credentials, prepare, running, server_profile
from tests.support.servers import embedded
from tests.support.team import leave_to_group
from tests.support.waiting import failed_with, is_ready, when

from fairlead.api.postgresaccess import POSTGRESACCESSES
from fairlead.api.postgresaccess.server import POSTGRESSERVERS
from fairlead.api.resource import NAMESPACES, SECRETS
from fairlead.client import Client, parse_kubeconfig
from fairlead.demo.postgres.binaries import find_install
from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.postgres.commands.audit import audit
from fairlead.postgres.commands.surroundings import Surroundings
from fairlead.postgres.options import DEFAULT_NAMESPACE, PostgresOptions
from fairlead_sandbox import Sandbox


OPTIONS = PostgresOptions(pending_interval=0.5)
NAMES = [f"app{number:03}" for number in range(100)]
TURNING = NAMES[0]
"""An access with two logins in turn."""
SHARING = NAMES[-3:]
"""Accesses whose privileges are a group's."""
STAGING = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["staging"]}
COPIED = "role {} is taken by another PostgresAccess; choose another spec.username. If this server"


class Plane:
    """A cluster, and what a person does there."""

    def __init__(self, sandbox: Sandbox, admin: Client, folder: Path) -> None:
        self.admin = admin
        self._sandbox = sandbox
        self._folder = folder

    async def offer(
        self, name: str, server: EmbeddedPostgres, password: str, **spec: object
    ) -> None:
        secret = credentials(name, server)
        secret["stringData"]["password"] = password
        await self.admin.create(SECRETS, secret)
        await self.admin.create(POSTGRESSERVERS, server_profile(name, server, **spec))

    async def order(self, name: str, namespace: str, server: str, database: str) -> None:
        grants = [{"database": database, "schema": "public", "access": "ReadWrite"}]
        spec: dict[str, object] = {"grants": grants}
        if name == TURNING:
            spec["passwordPolicy"] = {"rotation": "TwoLogins"}
        if name in SHARING:
            spec |= {"groups": "Shared", "suspend": True}
        body = access(name, namespace, server, **spec)
        await self.admin.create(POSTGRESACCESSES, body)
        if name in SHARING:
            await leave_to_group(self.admin, name, namespace)

    async def ready(self, name: str, namespace: str) -> Any:
        return await when(self.admin, POSTGRESACCESSES, name, namespace, until=is_ready)

    async def uri(self, name: str, namespace: str) -> str:
        found = await self.admin.get(SECRETS, f"{name}-login", namespace)
        return base64.b64decode(found.to_dict()["data"]["uri"]).decode()

    async def take_over(self, server: str, *words: str) -> tuple[int, str, str]:
        command = ("postgres", "take-over", "--server", server, *words)
        return await fairlead(self._sandbox, self._folder, *command)

    async def surroundings(self) -> Surroundings:
        return await Surroundings.of(self.admin, DEFAULT_NAMESPACE)


async def plane(stack: AsyncExitStack, folder: Path, name: str, *namespaces: str) -> Plane:
    sandbox = await stack.enter_async_context(Sandbox(name=name))
    admin = await stack.enter_async_context(Client(parse_kubeconfig(sandbox.kubeconfig())))
    await prepare(admin)
    for namespace in namespaces:
        await admin.create(NAMESPACES, {"metadata": {"name": namespace}})
    return Plane(sandbox, admin, folder)


async def run_program(
    program: str, server: EmbeddedPostgres, password: str, *words: str, given: bytes = b""
) -> bytes:
    """One of PostgreSQL's own programs, as the superuser of a server."""
    process = await asyncio.create_subprocess_exec(
        str(find_install(18) / "bin" / program),
        *("-h", server.host, "-p", str(server.port), "-U", server.username, *words),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PGPASSWORD": password},
    )
    output, errors = await process.communicate(given)
    assert process.returncode == 0, errors.decode()
    return output


async def roles_of(server: EmbeddedPostgres, password: str) -> list[Any]:
    text = """SELECT rolname::text, rolpassword, rolcanlogin, shobj_description(oid, 'pg_authid')
                FROM pg_authid WHERE rolname LIKE 'app%' OR rolname LIKE 'fairlead%' ORDER BY 1"""
    dsn = f"host={server.host} port={server.port} user=postgres password={password}"
    async with await psycopg.AsyncConnection.connect(f"{dsn} dbname=postgres") as connection:
        return await (await connection.execute(text)).fetchall()


@pytest.fixture
async def copy() -> AsyncIterator[EmbeddedPostgres]:
    """A second server."""
    async with embedded(18) as server:
        yield server


@pytest.mark.extended
async def test_a_hundred_roles_of_a_copy_are_taken_over_in_one_step(
    postgres: EmbeddedPostgres, copy: EmbeddedPostgres, stack: AsyncExitStack, tmp_path: Path
) -> None:
    database = Database(postgres)
    await database.create()
    await database.query("INSERT INTO orders VALUES (1)")
    cluster = await plane(stack, tmp_path, "one", "team", "staging")
    await cluster.offer("main", postgres, postgres.password)
    async with running(cluster.admin, OPTIONS):
        for name in NAMES:
            await cluster.order(name, "team", "main", database.name)
        for name in NAMES:
            await cluster.ready(name, "team")
        # The dump has the password of the superuser, too, and connects anew after that.
        password = postgres.password
        statement = f"ALTER ROLE postgres PASSWORD '{password}'".encode()
        await run_program("psql", copy, copy.password, "-d", "postgres", given=statement)
        dump = await run_program("pg_dumpall", postgres, password)
        await run_program("psql", copy, password, "-q", "-d", "postgres", given=dump)
        before = await roles_of(postgres, password)
        assert len(before) == 102
        assert await roles_of(copy, password) == before
        await cluster.offer(
            "copy", copy, password, allowedNamespaces={"matchExpressions": [STAGING]}
        )
        for name in NAMES:
            await cluster.order(name, "staging", "copy", database.name)
        for name in NAMES:
            conflict = failed_with(COPIED.format(name))
            found = await when(cluster.admin, POSTGRESACCESSES, name, "staging", until=conflict)
            assert "fairlead postgres take-over" in str(found["status"])
        report = await audit(await cluster.surroundings(), "copy")
        kinds = {role.role: role.kind for role in report.roles if role.role in NAMES}
        assert kinds == dict.fromkeys(NAMES, "conflict")
        assert "101 roles carry the claim" in " ".join(report.notes)
        assert await roles_of(copy, password) == before

        code, _, errors = await cluster.take_over("main", "--yes")
        assert (code, errors) == (0, "no role of PostgresServer main can be taken over\n")
        code, _, errors = await cluster.take_over("copy")
        assert (code, "give --yes" in errors) == (2, True)
        code, output, errors = await cluster.take_over("copy", "--yes")
        assert (code, output.count(" belongs to PostgresAccess staging/app")) == (0, 101)
        former = f"from PostgresAccess team/{TURNING} on another server to PostgresAccess staging/"
        assert f"role {TURNING}_a: {former}{TURNING}\n" in errors
        for name in NAMES:
            await cluster.ready(name, "staging")
            uri = await cluster.uri(name, "staging")
            async with await psycopg.AsyncConnection.connect(uri) as session:
                assert session.info.port == copy.port
                rows = await (await session.execute("SELECT id FROM orders")).fetchall()
                assert rows == [(1,)]
        report = await audit(await cluster.surroundings(), "copy")
        assert {role.kind for role in report.roles if role.role in NAMES} == {"asked"}
        # The former server has no part in it.
        assert await roles_of(postgres, password) == before
        for name in (TURNING, NAMES[1], SHARING[0]):
            assert await database.logs_in(await cluster.uri(name, "team")) == name
        code, _, errors = await cluster.take_over("copy", "--yes")
        assert (code, errors) == (0, "no role of PostgresServer copy can be taken over\n")


async def test_nothing_is_taken_from_who_uses_the_server_or_given_to_one_of_several(
    postgres: EmbeddedPostgres, stack: AsyncExitStack, tmp_path: Path
) -> None:
    """A PostgresServer with another name does not make another server of it."""
    database = Database(postgres)
    await database.create()
    cluster = await plane(stack, tmp_path, "one", "team", "staging", "thieves")
    await cluster.offer("main", postgres, postgres.password)
    await cluster.offer("again", postgres, postgres.password)
    await cluster.offer(
        "closed", postgres, postgres.password, allowedNamespaces={"matchExpressions": [STAGING]}
    )
    hashed, clear = '"object":"x"', '"namespace":"team","name":"older"'
    marks = {"lost": hashed, "older": clear, "rivals": hashed, "denied": hashed}
    async with running(cluster.admin, OPTIONS):
        await cluster.order("app", "team", "main", database.name)
        await cluster.ready("app", "team")
        for name, mark in marks.items():
            await database.query(f"CREATE ROLE {name} LOGIN", database="postgres")
            claim = f'managed by Fairlead: {{"installation":"c1u5ter",{mark},"uid":"y"}}'
            await database.query(f"COMMENT ON ROLE {name} IS '{claim}\nof sales'")
        before = await roles_of(postgres, postgres.password)
        for name, namespace, server in (
            ("app", "staging", "again"),
            ("lost", "staging", "again"),
            ("older", "staging", "again"),
            ("rivals", "staging", "again"),
            ("rivals", "thieves", "again"),
            ("denied", "thieves", "closed"),
        ):
            await cluster.order(name, namespace, server, database.name)
        conflict = failed_with(
            "another installation of Fairlead; choose another spec.username. If"
        )
        await when(cluster.admin, POSTGRESACCESSES, "lost", "staging", until=conflict)

        code, output, errors = await cluster.take_over("again", "--yes")
        assert (code, output.splitlines()) == (
            1,
            [f"role {name} now belongs to PostgresAccess staging/{name}" for name in marks][:2],
        )
        older = "from PostgresAccess team/older of installation c1u5ter to PostgresAccess staging/"
        assert f"role older: {older}older\n" in errors
        assert (
            "role app: it belongs to PostgresAccess team/app, which uses this server too" in errors
        )
        assert "role rivals: several PostgresAccesses ask for it: " in errors
        assert "role lost: from installation c1u5ter to PostgresAccess staging/lost\n" in errors
        code, output, errors = await cluster.take_over("closed", "--yes", "--role", "denied")
        assert (code, output) == (1, "")
        assert "role denied: " in errors
        assert "allowedNamespaces" in errors
        await cluster.ready("lost", "staging")
        await cluster.ready("older", "staging")
        assert await database.logs_in(await cluster.uri("lost", "staging")) == "lost"
        (comment,) = await database.query(
            "SELECT shobj_description('lost'::regrole, 'pg_authid')", database="postgres"
        )
        assert comment[0].endswith("\nof sales")
        after = await roles_of(postgres, postgres.password)
        assert after == before


async def test_another_address_is_no_other_server(stack: AsyncExitStack, tmp_path: Path) -> None:
    settings = {"listen_addresses": "127.0.0.1,127.0.0.2"}
    server = await stack.enter_async_context(EmbeddedPostgres(version=18, settings=settings))
    database = Database(server)
    await database.create()
    cluster = await plane(stack, tmp_path, "one", "team", "thieves")
    await cluster.offer("main", server, server.password)
    await cluster.offer("public", server, server.password, host="127.0.0.2")
    async with running(cluster.admin, OPTIONS):
        await cluster.order("app", "team", "main", database.name)
        await cluster.ready("app", "team")
        await cluster.order("app", "thieves", "public", database.name)
        conflict = failed_with(COPIED.format("app"))
        await when(cluster.admin, POSTGRESACCESSES, "app", "thieves", until=conflict)
        code, output, errors = await cluster.take_over("public", "--yes")
    assert (code, output) == (1, "")
    assert "it belongs to PostgresAccess team/app, which uses this server too" in errors
