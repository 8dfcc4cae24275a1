"""Two logins of one owner, on servers of each version."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from psycopg import sql
from tests.support.pgserver import can_login, fetch, login, run, sweep
from tests.support.servers import Servers
from tests.support.tiers import VERSIONS

from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.postgres.database.plans import logins
from fairlead.postgres.database.plans.logins import (
    login_names,
)
from fairlead.postgres.database.plans.password import verifier
from fairlead.postgres.database.plans.statements import create_role, fence_role


@pytest.fixture(params=VERSIONS)
def server(request: pytest.FixtureRequest, servers: Servers) -> EmbeddedPostgres:
    return servers.of(request.param)


@pytest.fixture(autouse=True)
async def _swept(server: EmbeddedPostgres) -> AsyncIterator[None]:
    yield
    await sweep(server)


async def do(server: EmbeddedPostgres, admin: str, *statements: sql.Composed) -> None:
    async with await psycopg.AsyncConnection.connect(
        server.dsn(username="modest", password="modest") if admin == "modest" else server.dsn(),
        autocommit=True,
    ) as connection:
        for statement in statements:
            await connection.execute(statement)


@pytest.mark.parametrize("admin", ["superuser", "modest"])
async def test_no_login_fails_and_all_belongs_to_the_owner(
    server: EmbeddedPostgres, admin: str
) -> None:
    owner = f"ow'n\"er {admin}"
    first, second = login_names(owner)
    await run(
        server,
        "postgres",
        "DO $$ BEGIN CREATE ROLE modest LOGIN CREATEROLE PASSWORD 'modest';"
        " EXCEPTION WHEN duplicate_object THEN NULL; END $$",
    )
    await do(server, admin, logins.create_owner(owner))
    await run(server, "postgres", "GRANT CREATE ON SCHEMA public TO {owner}", owner=owner)

    async def made(name: str, password: str) -> None:
        await do(
            server,
            admin,
            create_role(name, verifier(password)),
            sql.SQL("GRANT {} TO {}").format(sql.Identifier(owner), sql.Identifier(name)),
            logins.act_as_owner(name, owner),
        )

    async def work(name: str, password: str, table: str) -> None:
        async with await login(server, name, password) as connection:
            cursor = await connection.execute("SELECT current_user::text, session_user::text")
            assert await cursor.fetchall() == [(owner, name)]
            await connection.execute(
                sql.SQL("CREATE TABLE public.{} (id int)").format(sql.Identifier(table))
            )
            # What poolers do between clients leads back to the owner.
            await connection.execute("DISCARD ALL")
            cursor = await connection.execute("SELECT current_user::text")
            assert await cursor.fetchall() == [(owner,)]

    await made(first, "one")
    await work(first, "one", f"by first {admin}")
    await made(second, "two")
    await do(server, admin, logins.end_login(first, datetime.now(UTC) + timedelta(hours=1)))
    assert await can_login(server, first, "one")
    await work(second, "two", f"by second {admin}")
    async with await login(server, second, "two") as connection:
        await connection.execute(
            sql.SQL("DROP TABLE public.{}").format(sql.Identifier(f"by first {admin}"))
        )
    assert not await can_login(server, owner, "one")

    await do(server, admin, logins.end_login(first, datetime.now(UTC) - timedelta(hours=1)))
    assert not await can_login(server, first, "one")
    await do(server, admin, logins.end_login(first, None))
    assert await can_login(server, first, "one")
    await do(server, admin, fence_role(first))
    assert not await can_login(server, first, "one")
    assert await can_login(server, second, "two")
    owners = await fetch(
        server,
        "postgres",
        "SELECT DISTINCT tableowner::text FROM pg_tables WHERE tablename LIKE %s",
        f"by % {admin}",
    )
    assert owners == [(owner,)]
