"""What a login that goes leaves behind: no session, be it one that is only being started."""

from __future__ import annotations

import asyncio

import psycopg
import pytest
from tests.integration.postgres.tenants.test_neighbours import brief, database, holding
from tests.integration.postgres.test_roles import Admin, role
from tests.support.pgserver import PASSWORD, fetch, login

from fairlead.postgres.controllers.servers.jobs import Removal
from fairlead.postgres.database.work.blockers import _STARTING
from fairlead.postgres.database.work.cleanup import cleanup


@pytest.mark.differs("version", "administrator")
@pytest.mark.parametrize("policy", ["Retain", "Fence", "Restrict"])
async def test_a_session_that_is_being_started_does_not_outlive_its_login(
    admin: Admin, policy: Removal
) -> None:
    """It has passed the look at its login, and waits for its database."""
    await database(admin)
    await brief(admin, role("tenant"), role("helper", uid="u2"), role("neighbour", uid="u3"))
    claim = role("tenant").claim
    alter = "ALTER ROLE helper IN DATABASE d SET work_mem = '8MB'"
    async with (
        await login(admin.server, "helper", PASSWORD) as waiting,
        holding(admin, "helper", alter),
    ):
        renaming = asyncio.create_task(waiting.execute("ALTER DATABASE d RENAME TO e"))
        await seen(admin, "SELECT 1 FROM pg_locks WHERE NOT granted AND locktype = 'object'")
        late = asyncio.create_task(login(admin.server, "tenant", PASSWORD, "d"))
        others = asyncio.create_task(login(admin.server, "neighbour", PASSWORD, "d"))
        async with admin.sessions.maintenance() as session:
            async with asyncio.timeout(30):
                while len(await session.rows(_STARTING)) < 2:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
        assert await cleanup(admin.sessions, "tenant", claim, policy, brief=True)
    with pytest.raises(psycopg.Error):
        await renaming
    with pytest.raises(psycopg.OperationalError):
        await late
    await (await others).close()


@pytest.mark.differs("version", "administrator")
async def test_a_login_whose_rights_another_has_starts_while_that_one_goes(admin: Admin) -> None:
    """As the role of two logins does when it is its own login again, and they go."""
    await database(admin)
    await brief(admin, role("beside", uid="u2"), role("tenant"))
    await admin.execute("GRANT beside TO tenant")
    async with await psycopg.AsyncConnection.connect(admin.server.dsn("template1")) as holder:
        await holder.execute("ALTER DATABASE d RENAME TO shut")
        starting = asyncio.create_task(login(admin.server, "beside", PASSWORD, "d"))
        async with admin.sessions.maintenance() as session, asyncio.timeout(30):
            while not await session.rows(_STARTING):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert await cleanup(admin.sessions, "tenant", role("tenant").claim, "Retain")
        await holder.rollback()
    async with await starting as session:
        await session.execute("SELECT 1")


async def seen(admin: Admin, query: str) -> None:
    async with asyncio.timeout(30):
        while not await fetch(admin.server, "postgres", query):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
