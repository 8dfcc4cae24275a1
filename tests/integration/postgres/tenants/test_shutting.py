"""Logins that shut databases which are not theirs: PostgreSQL asks too late whose they are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest
from psycopg import sql
from tests.integration.postgres.tenants.test_neighbours import (
    OTHERS,
    brief,
    database,
    holding,
    reason,
)
from tests.integration.postgres.test_roles import Admin, role
from tests.support.pgserver import PASSWORD, can_login, fetch, grant, login
from tests.support.waiting import SECONDS

from fairlead.postgres import bounds
from fairlead.postgres.database.connections import sessions as module
from fairlead.postgres.database.connections.login import open_session
from fairlead.postgres.database.connections.session import Session
from fairlead.postgres.database.connections.sessions import Sessions
from fairlead.postgres.database.plans.plan import WantedState
from fairlead.postgres.database.reading.verifiers import Verifiers
from fairlead.postgres.database.work.cleanup import cleanup
from fairlead.postgres.errors import AccessError


WAITING = """
SELECT 1 FROM pg_locks l JOIN pg_stat_activity a USING (pid)
 WHERE NOT l.granted AND l.mode = 'AccessExclusiveLock' AND a.usename = 'hostile'
"""


@asynccontextmanager
async def shutting(admin: Admin, name: str) -> AsyncIterator[None]:
    """A login keeps a database shut, and comes back as often as it is ended."""
    await admin.execute("CREATE DATABASE elsewhere")
    rename = sql.SQL("ALTER DATABASE {} RENAME TO other").format(sql.Identifier(name))

    async def insist() -> None:
        while True:
            try:
                async with await login(admin.server, "hostile", PASSWORD, "elsewhere") as session:
                    await session.execute(rename)
            except psycopg.Error:
                await asyncio.sleep(0.01)

    held = f"ALTER ROLE hostile IN DATABASE {name} SET work_mem = '8MB'"
    async with holding(admin, "hostile", held, database="elsewhere"):
        client = asyncio.create_task(insist())
        try:
            async with asyncio.timeout(30):
                while not await fetch(admin.server, "template1", WAITING):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            yield
        finally:
            client.cancel()
            await asyncio.wait([client])


async def written(admin: Admin, wanted: WantedState) -> None:
    """Write a role; what is Locked for the moment, on a busy machine, the operator tries again."""
    async with asyncio.timeout(SECONDS):
        while (found := reason((await brief(admin, wanted))["neighbour"])) == "Locked":
            pass
    assert found == ""


@pytest.mark.differs("version", "administrator")
@pytest.mark.parametrize("name", ["postgres", "d"])
async def test_a_login_shuts_no_database_that_is_not_its_own(
    admin: Admin, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "ELSEWHERE_SECONDS", 0.1)
    await database(admin)
    await brief(admin, role("hostile"), role("neighbour", uid="u2"))
    endpoint = admin.sessions.endpoint
    for hasty in (True, False):
        await admin.sessions.close()
        # As of an operator that has just begun: there is no session to look by.
        admin.sessions = Sessions(endpoint, brief=hasty)
        async with shutting(admin, name):
            grants = (grant("d", "USAGE"),)
            await written(admin, role("neighbour", uid="u2", grants=grants))
            # Where nobody may read verifiers a login in the database of its grants tells.
            admin.verifiers = Verifiers()
            again = role("neighbour", uid="u2", grants=grants, attributes=OTHERS[0])
            await written(admin, again)
            assert await cleanup(
                admin.sessions, "neighbour", role("neighbour", uid="u2").claim, "Restrict"
            )
        await admin.execute("DROP DATABASE elsewhere")
    # The login that goes takes its sessions with it.
    with pytest.raises(psycopg.OperationalError):  # noqa: PT012 - when the transaction ends
        async with shutting(admin, name):
            await admin.sessions.close()
            assert await cleanup(admin.sessions, "hostile", role("hostile").claim, "Restrict")
    assert not await can_login(admin.server, "hostile", PASSWORD)


async def test_nobody_leaves_for_a_login_that_may_not_have_the_database(
    admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "WATCH_SECONDS", 3600)
    await database(admin)
    await brief(admin, role("hostile"))
    async with admin.sessions.use("d") as first:
        pass
    async with shutting(admin, "d"):
        await admin.sessions._leave()
        async with admin.sessions.use("d") as again:
            assert again is first


async def test_who_keeps_everybody_out_is_named(admin: Admin) -> None:
    """Sessions of roles that are nobody's are not ended."""
    await database(admin)
    await admin.execute(f"CREATE ROLE hostile LOGIN PASSWORD '{PASSWORD}'")
    async with admin.sessions.maintenance():
        pass
    admin.sessions._brief = True
    async with shutting(admin, "d"):
        with pytest.raises(AccessError, match=r"database d; pid \d+ of role hostile") as found:
            async with admin.sessions.use("d"):
                pass
        assert found.value.reason == "Locked"


@pytest.mark.differs("administrator")
async def test_whoever_is_cancelled_when_it_is_let_in_leaves_no_session(
    admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The help for a login takes a moment to end, and the session is open by then."""
    opened: list[Session] = []
    ending = asyncio.Event()

    async def noted(*about: Any) -> Session:
        opened.append(await open_session(*about))
        return opened[-1]

    async def stubborn(*_: object) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ending.set()
            await asyncio.sleep(0.05)

    monkeypatch.setattr(module, "open_session", noted)
    monkeypatch.setattr(Sessions, "_open_up", stubborn)
    opening = asyncio.create_task(admin.sessions._open("postgres"))
    await asyncio.wait_for(ending.wait(), 30)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert [one.is_usable() for one in opened] == [False]
