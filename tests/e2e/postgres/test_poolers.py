"""Logins that change and end behind a real PgBouncer, as docs/how-to/poolers.md says."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from tests.e2e.postgres.test_secrets import annotate, operator, world
from tests.support.image import ROOT
from tests.support.pages import fences_of
from tests.support.pgbouncer import PgBouncer, pgbouncer
from tests.support.pgworld import World, grant

from fairlead.api.meta import JSON
from fairlead.api.postgresaccess import END_SESSIONS_ANNOTATION, ROTATE_ANNOTATION


__all__ = ["operator", "world"]

PAGE = ROOT / "docs" / "how-to" / "poolers.md"
MODES = ("session", "transaction")


def fence(language: str) -> str:
    (text,) = [one.text for one in fences_of(PAGE) if one.language == language]
    return text


def settings(mode: str, *, looks_up: bool) -> str:
    """The section of the page, in this mode."""
    lines = fence("ini").partition("[pgbouncer]\n")[2].splitlines()
    left = [line for line in lines if looks_up or not line.startswith(("auth_user", "auth_query"))]
    text = "\n".join(["[pgbouncer]", *(line for line in left if "auth_file" not in line)])
    return text.replace("pool_mode = session", f"pool_mode = {mode}")


async def connected(pooler: PgBouncer, world: World, name: str) -> psycopg.AsyncConnection:
    password = (await world.secret(name))["password"]
    connection = await psycopg.AsyncConnection.connect(
        pooler.uri(name, password, world.database), autocommit=True
    )
    await connection.execute("SELECT 1")
    return connection


async def rotated(world: World, name: str) -> JSON:
    await annotate(world, name, **{ROTATE_ANNOTATION: "leaked"})
    return await world.wait(name, lambda body: body["status"]["password"].get("openSessions"))


async def ended(world: World, name: str, request: str) -> JSON:
    await annotate(world, name, **{END_SESSIONS_ANNOTATION: request})
    body = await world.wait(
        name, lambda body: body["status"].get("sessions", {}).get("request") == request
    )
    sessions: JSON = body["status"]["sessions"]
    return sessions


async def sessions_of(world: World, name: str) -> int:
    query = "SELECT count(*) FROM pg_stat_activity WHERE usename = %s"
    count: int = (await world.fetch(query, name))[0][0]
    return count


@pytest.mark.usefixtures("operator")
@pytest.mark.parametrize("mode", MODES)
async def test_a_pooler_that_looks_logins_up_keeps_those_that_it_has(
    world: World, tmp_path: Path, mode: str
) -> None:
    name = await world.create(grants=[grant(world.database, "CONNECT")])
    await world.ready(name)
    await world.fetch(fence("sql"))
    users = {"pgbouncer": "change-me"}
    async with pgbouncer(tmp_path, world.postgres, settings(mode, looks_up=True), users) as pooler:
        old = (await world.secret(name))["password"]
        client = await connected(pooler, world, name)
        body = await rotated(world, name)
        assert body["status"]["password"]["openSessions"] == 1
        new = (await world.secret(name))["password"]
        assert not await pooler.logs_in(name, old, world.database)
        assert await pooler.logs_in(name, new, world.database)
        await client.execute("SELECT 1")
        sessions = await ended(world, name, "first")
        assert (sessions["ended"], sessions.get("left", 0)) == (2 if mode == "session" else 1, 0)
        if mode == "session":
            with pytest.raises(psycopg.OperationalError):
                await client.execute("SELECT 1")
            client = await connected(pooler, world, name)
        else:
            # Its client gets a session that was opened with the password of another client.
            await client.execute("SELECT 1")

        await world.patch(name, attributes={"validUntil": "2026-01-01T00:00:00Z"})
        warning = f"open sessions of role {name}, which may not log in any more: 1;"
        await world.wait(
            name,
            lambda body: any(
                one.startswith(warning) for one in body["status"].get("warnings", ())
            ),
        )
        assert not await pooler.logs_in(name, new, world.database)
        await client.execute("SELECT 1")
        sessions = await ended(world, name, "second")
        assert (sessions["ended"], sessions.get("left", 0)) == (1, 0)
        assert await sessions_of(world, name) == 0
        await client.close()

        await world.delete(name)
        await world.gone(name)
        assert not await pooler.logs_in(name, new, world.database)


@pytest.mark.usefixtures("operator")
@pytest.mark.parametrize("mode", MODES)
async def test_a_pooler_with_a_list_of_users_takes_the_old_password(
    world: World, tmp_path: Path, mode: str
) -> None:
    name = await world.create(grants=[grant(world.database, "CONNECT")])
    await world.ready(name)
    old = (await world.secret(name))["password"]
    async with pgbouncer(
        tmp_path, world.postgres, settings(mode, looks_up=False), {name: old}
    ) as pooler:
        assert await pooler.logs_in(name, old, world.database)
        await rotated(world, name)
        new = (await world.secret(name))["password"]
        assert not await pooler.logs_in(name, new, world.database)
        assert await pooler.logs_in(name, old, world.database)
        sessions = await ended(world, name, "first")
        assert (sessions["ended"], sessions.get("left", 0)) == (1, 0)
        assert await sessions_of(world, name) == 0
