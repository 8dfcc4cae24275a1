"""What tenants' logins can hold on a server that others share, and what that does to the others.

Each test has a neighbour whose access is brought in while something is held. That nobody waits for
it is told by what is held: it is let go of only when the neighbour has been served.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgspec
import psycopg
import pytest
from tests.integration.postgres.test_roles import Admin, groups, may_give, role
from tests.support.pgserver import PASSWORD, can_login, fetch, grant, login, privileges, run

from fairlead.api.postgresaccess import Attributes, CleanupPolicy
from fairlead.postgres.database.connections.sessions import Sessions
from fairlead.postgres.database.plans.plan import Synced, WantedState
from fairlead.postgres.database.reading.verifiers import Verifiers
from fairlead.postgres.database.work.cleanup import cleanup
from fairlead.postgres.database.work.sync import sync
from fairlead.postgres.errors import AccessError


LOCK = "SELECT pg_advisory_lock(hashtextextended('access.k8s.delta10.nl', 0))"
"""What operators took before version 0.7."""
OTHERS = (Attributes(connection_limit=7), Attributes(connection_limit=8))


async def brief(admin: Admin, *accesses: WantedState) -> dict[str, Synced | AccessError]:
    """One batch of the operator's."""
    return await sync(admin.sessions, accesses, admin.verifiers, brief=True)


def reason(answer: Synced | AccessError | None) -> str:
    """Of the failure, or of the first problem; "" where there is none."""
    if isinstance(answer, AccessError):
        return answer.reason
    return answer.problems[0].reason if answer and answer.problems else ""


@asynccontextmanager
async def holding(
    admin: Admin, username: str, *statements: str, database: str = "postgres"
) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    """A transaction of a tenant's login that is left open."""
    async with await login(admin.server, username, PASSWORD, database) as session:
        await session.set_autocommit(False)
        for statement in statements:
            await session.execute(statement)
        yield session
        await session.rollback()


async def database(admin: Admin, *statements: str) -> None:
    """A database that the administrator owns, where everybody may create."""
    await admin.execute("CREATE DATABASE d")
    if not admin.superuser:
        await admin.execute("ALTER DATABASE d OWNER TO operator")
    await run(admin.server, "d", "GRANT CREATE ON SCHEMA public TO PUBLIC", *statements)


@pytest.mark.differs("version", "administrator")
async def test_an_advisory_lock_is_nobodys_business(admin: Admin) -> None:
    await database(admin)
    await admin.one(role("tenant", grants=(grant("d", "CONNECT"),)))
    async with AsyncExitStack() as stack:
        for name in ("postgres", "d"):
            await stack.enter_async_context(holding(admin, "tenant", LOCK, database=name))
        neighbour = role("neighbour", uid="u2", grants=(grant("d", "CONNECT", "TEMPORARY"),))
        found = await brief(admin, neighbour)
        assert reason(found["neighbour"]) == ""
        assert await can_login(admin.server, "neighbour", PASSWORD)
        await admin.one(role("neighbour", uid="u2", password="rotated"))
        assert await can_login(admin.server, "neighbour", "rotated")
        assert await cleanup(admin.sessions, "neighbour", neighbour.claim, "Restrict", brief=True)


@pytest.mark.differs("version", "administrator")
async def test_roles_that_hold_themselves_hold_nobody_else(admin: Admin) -> None:
    """A batch is split where one of them is held; each of them then waits alone."""
    held = [role(f"held{n}", uid=f"h{n}", attributes=OTHERS[0]) for n in range(12)]
    free = [role(f"free{n}", uid=f"f{n}", attributes=OTHERS[0]) for n in range(12)]
    mixed = [one for pair in zip(held, free, strict=True) for one in pair]
    assert {reason(one) for one in (await brief(admin, *mixed)).values()} == {""}
    async with AsyncExitStack() as stack:
        for one in held:
            own = f"ALTER ROLE {one.username}"
            statements = (f"{own} SET work_mem = '8MB'", f"{own} PASSWORD 'x'")
            await stack.enter_async_context(holding(admin, one.username, *statements))
        changed = [role(one.username, uid=one.claim.uid, attributes=OTHERS[1]) for one in mixed]
        new = role("new", uid="n")
        found = await brief(admin, *changed, new)
        assert {reason(found[one.username]) for one in held} == {"Locked"}
        assert {reason(found[one.username]) for one in (*free, new)} == {""}
        alone = (await admin.sync(changed[0]))["held0"]
        assert isinstance(alone, AccessError)
        assert alone.reason == "Locked"
        assert "of role held0" in alone.message
        assert "pg_terminate_backend(" in alone.message
    rows = await fetch(
        admin.server, "postgres", "SELECT rolname, rolconnlimit FROM pg_roles WHERE oid >= 16384"
    )
    limits = dict(rows)
    assert {limits[one.username] for one in free} == {8}
    assert {limits[one.username] for one in held} == {7}
    assert {reason(one) for one in (await brief(admin, *changed)).values()} == {""}


@pytest.mark.differs("version", "administrator")
@pytest.mark.parametrize(
    "statement",
    [
        "LOCK TABLE mine IN ACCESS EXCLUSIVE MODE",
        "GRANT SELECT ON mine TO other",
        "CREATE TRIGGER t BEFORE UPDATE ON mine FOR EACH ROW EXECUTE FUNCTION same()",
        "ALTER TABLE mine ADD COLUMN b int",
        "CREATE TABLE more (id int)",
    ],
)
async def test_who_asks_for_an_object_that_is_held_waits_alone(
    admin: Admin, statement: str
) -> None:
    await database(admin)
    owner = role("owner", grants=(grant("d", "CONNECT"),))
    other = role("other", uid="u2", grants=(grant("d", "CONNECT"),))
    await brief(admin, owner, other)
    async with await login(admin.server, "owner", PASSWORD, "d") as session:
        await session.execute("CREATE TABLE mine (id int)")
        await session.execute(
            "CREATE FUNCTION same() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'"
        )
        # An administrator who is no superuser grants what it has with its grant option.
        who = "postgres" if admin.superuser else "operator"
        await session.execute(f"GRANT SELECT ON mine TO {who} WITH GRANT OPTION")
    await run(admin.server, "d", "CREATE TABLE theirs (id int)")
    if not admin.superuser:
        await run(admin.server, "d", "ALTER TABLE theirs OWNER TO operator")

    def asking(username: str, uid: str, table: str) -> WantedState:
        one = grant("d", "CONNECT", "SELECT")
        one = msgspec.structs.replace(one, names=[table])
        return role(username, uid=uid, grants=(one,))

    reader = asking("reader", "u3", "mine")
    neighbour = asking("neighbour", "u4", "theirs")
    async with holding(admin, "owner", statement, database="d"):
        found = await brief(admin, reader, neighbour)
        assert reason(found["neighbour"]) == ""
        # Some of these PostgreSQL itself does not wait for.
        assert reason(found["reader"]) in {"", "Locked"}
        if reason(found["reader"]):
            alone = (await admin.sync(reader))["reader"]
            assert isinstance(alone, Synced)
            assert "of role owner" in alone.problems[0].message
    assert reason((await admin.sync(reader))["reader"]) == ""


async def test_a_database_that_is_being_renamed_holds_nobody_elses(admin: Admin) -> None:
    """PostgreSQL lets nobody in meanwhile, and answers to nothing."""
    await database(admin)
    await brief(admin, role("owner"), role("neighbour", uid="u2"))
    await admin.execute("ALTER ROLE owner CREATEDB", "CREATE DATABASE theirs OWNER owner")
    await admin.sessions.close()
    admin.sessions = Sessions(admin.sessions.endpoint, brief=True)
    reader = role("reader", uid="u3", grants=(grant("theirs", "USAGE"),))
    neighbour = role("neighbour", uid="u2", grants=(grant("d", "CONNECT", "USAGE"),))
    async with holding(admin, "owner", "ALTER DATABASE theirs RENAME TO other"):
        found = await brief(admin, reader, neighbour)
        assert (reason(found["reader"]), reason(found["neighbour"])) == ("Locked", "")


@pytest.mark.differs("version", "administrator")
async def test_a_login_that_is_removed_cannot_hold_its_own_row(admin: Admin) -> None:
    """It comes back as often as it is ended, until it may not log in any more."""
    await admin.one(role("tenant"))

    async def insist() -> None:
        while True:
            try:
                async with holding(admin, "tenant", "ALTER ROLE tenant PASSWORD 'x'") as session:
                    await session.execute("SELECT pg_sleep(3600)")
            except psycopg.Error:
                await asyncio.sleep(0)

    clients = [asyncio.create_task(insist()) for _ in range(3)]
    try:
        while not await fetch(admin.server, "postgres", OPEN):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        with pytest.raises(AccessError) as held:
            await cleanup(admin.sessions, "tenant", role("tenant").claim, "Restrict", brief=True)
        assert held.value.reason == "Locked"
        neighbour = role("neighbour", uid="u2")
        assert reason((await brief(admin, neighbour))["neighbour"]) == ""
        assert await cleanup(admin.sessions, "tenant", role("tenant").claim, "Restrict")
    finally:
        for client in clients:
            client.cancel()
        await asyncio.wait(clients)
    exists = "SELECT 1 FROM pg_roles WHERE rolname = 'tenant'"
    assert await fetch(admin.server, "postgres", exists) == []
    assert await can_login(admin.server, "neighbour", PASSWORD)


OPEN = "SELECT 1 FROM pg_stat_activity WHERE usename = 'tenant' AND state LIKE '%%active%%'"


@pytest.mark.differs("version", "administrator")
async def test_a_login_that_has_all_its_connections_is_changed_and_removed(admin: Admin) -> None:
    """A password is told by a login where nobody may read verifiers; that is full here."""
    few = Attributes(connection_limit=2)
    neighbour = role("neighbour", uid="u2")
    await brief(admin, role("tenant", attributes=few), neighbour)
    async with AsyncExitStack() as stack:
        for _ in range(2):
            session = await login(admin.server, "tenant", PASSWORD)
            stack.push_async_callback(session.close)
        # As an operator that has just begun knows nothing of passwords.
        admin.verifiers = Verifiers()
        found = await brief(admin, role("tenant", attributes=few), neighbour)
        assert {reason(one) for one in found.values()} == {""}
        changed = role("tenant", attributes=few, password="another")
        assert {reason(one) for one in (await brief(admin, changed)).values()} == {""}
        assert await cleanup(admin.sessions, "tenant", changed.claim, "Restrict", brief=True)
    assert await can_login(admin.server, "neighbour", PASSWORD)


@pytest.mark.differs("version", "administrator")
async def test_somebody_who_grants_to_a_role_keeps_it_there_but_fenced(admin: Admin) -> None:
    await database(admin)
    await brief(admin, role("holder"), role("victim", uid="u2"), role("neighbour", uid="u3"))
    async with await login(admin.server, "holder", PASSWORD, "d") as session:
        await session.execute("CREATE TABLE mine (id int)")
    claim = role("victim", uid="u2").claim
    async with (
        await login(admin.server, "victim", PASSWORD) as open_,
        holding(admin, "holder", "GRANT SELECT ON mine TO victim", database="d"),
    ):
        for way in (True, False):
            with pytest.raises(AccessError) as held:
                await cleanup(admin.sessions, "victim", claim, "Restrict", brief=way)
            assert held.value.reason == "Locked"
        assert "of role holder" in held.value.message
        assert "drop role victim" in held.value.message
        with pytest.raises(psycopg.OperationalError):
            await open_.execute("SELECT 1")
        assert not await can_login(admin.server, "victim", PASSWORD)
        # Nobody ends the sessions of a login that keeps its own.
        assert await can_login(admin.server, "holder", PASSWORD)
        found = await brief(admin, role("neighbour", uid="u3", password="another"))
        assert reason(found["neighbour"]) == ""
    assert await cleanup(admin.sessions, "victim", claim, "Restrict")


@pytest.mark.differs("version", "administrator")
async def test_a_prepared_transaction_of_a_role_that_is_removed_is_ended(admin: Admin) -> None:
    await admin.one(role("tenant"))
    async with await login(admin.server, "tenant", PASSWORD) as session:
        await session.execute("BEGIN")
        await session.execute("ALTER ROLE tenant PASSWORD 'x'")
        await session.execute("PREPARE TRANSACTION 'kept for ever'")
    neighbour = role("neighbour", uid="u2")
    changed = role("tenant", attributes=OTHERS[0])
    found = await brief(admin, changed, neighbour)
    assert [reason(found[name]) for name in ("tenant", "neighbour")] == ["Locked", ""]
    alone = (await admin.sync(changed))["tenant"]
    assert isinstance(alone, AccessError)
    assert "'kept for ever' of role tenant in database postgres" in alone.message
    assert await cleanup(admin.sessions, "tenant", role("tenant").claim, "Restrict")
    left = (
        "SELECT 1 FROM pg_prepared_xacts UNION ALL SELECT 1 FROM pg_roles WHERE rolname = 'tenant'"
    )
    assert await fetch(admin.server, "postgres", left) == []


@pytest.mark.differs("version", "administrator")
async def test_two_installations_that_adopt_one_role_leave_it_to_the_first(admin: Admin) -> None:
    """However close the other has come: it has looked before the first one has committed."""
    await admin.execute("CREATE ROLE legacy LOGIN")
    if not admin.superuser and admin.version >= 16:
        await admin.execute("GRANT legacy TO operator WITH ADMIN OPTION")
    there = msgspec.structs.replace(role("legacy").claim, installation="there")
    first, second = role("legacy", adopt=True), role("legacy", adopt=True, claim=there)
    other = Admin(admin.server, superuser=admin.superuser)
    found = await asyncio.gather(admin.sync(first), other.sync(second))
    await other.sessions.close()
    assert sorted(reason(one["legacy"]) for one in found) == ["", "UsernameConflict"]


@pytest.mark.differs("version", "administrator")
@pytest.mark.parametrize("policy", ["Restrict", "Retain"])
async def test_a_login_that_was_starting_outlives_no_removal(
    admin: Admin, policy: CleanupPolicy
) -> None:
    """Its role may log in by then, and no session tells of it: that takes as long as it likes."""
    await database(admin)
    await admin.one(role("tenant"))
    await admin.one(role("neighbour", uid="u2"))
    async with await psycopg.AsyncConnection.connect(admin.server.dsn("template1")) as holder:
        # Whoever logs in to the database waits, and has shown its password.
        await holder.execute("ALTER DATABASE d RENAME TO shut")
        starting = [
            asyncio.create_task(login(admin.server, who, PASSWORD, "d"))
            for who in ("tenant", "neighbour", "tenant")
        ]
        while await fetch(admin.server, "postgres", STARTING) != [(3,)]:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert await cleanup(admin.sessions, "tenant", role("tenant").claim, policy)
        await holder.rollback()
    first, beside, second = await asyncio.gather(*starting, return_exceptions=True)
    assert [type(one) for one in (first, second)] == [psycopg.OperationalError] * 2
    assert isinstance(beside, psycopg.AsyncConnection)
    await beside.execute("SELECT 1")
    await beside.close()


STARTING = """
SELECT count(*) FROM pg_locks l
 WHERE l.classid = 'pg_database'::regclass AND l.mode = 'RowExclusiveLock' AND NOT l.granted
"""


@pytest.mark.differs("version", "administrator")
async def test_who_closes_its_database_keeps_nobody_elses_role(admin: Admin) -> None:
    await database(admin)
    await may_give(admin, "team")
    await admin.execute("CREATE DATABASE theirs OWNER team")
    await brief(admin, role("hostile", member_of=groups("team")), role("neighbour", uid="u3"))
    await admin.one(role("victim", uid="u2", grants=(grant("d", "CONNECT"),)))
    async with await login(admin.server, "hostile", PASSWORD, "theirs") as session:
        for statement in (
            "SET ROLE team",
            "GRANT TEMPORARY ON DATABASE theirs TO victim",
            "CREATE SCHEMA x",
            "GRANT USAGE ON SCHEMA x TO victim",
        ):
            await session.execute(statement)
    await admin.execute("ALTER DATABASE theirs ALLOW_CONNECTIONS false")
    claim = role("victim", uid="u2").claim
    # What an administrator has closed stays closed, and who is no superuser cannot go on.
    for owner in ("postgres",) if admin.superuser else ("postgres", "team"):
        await admin.execute(f"ALTER DATABASE theirs OWNER TO {owner}")
        with pytest.raises(
            AccessError, match=f"where owner {owner} allows no connections"
        ) as closed:
            await cleanup(admin.sessions, "victim", claim, "Restrict")
        assert "role victim has privileges in theirs" in closed.value.message
        assert not await can_login(admin.server, "victim", PASSWORD)
        assert ("database d", "CONNECT") not in await privileges(admin.server, "d", "victim")
    if admin.superuser:
        await admin.execute("ALTER DATABASE theirs OWNER TO team")
        assert await cleanup(admin.sessions, "victim", claim, "Restrict")
        found = "SELECT datallowconn FROM pg_database WHERE datname = 'theirs'"
        assert await fetch(admin.server, "postgres", found) == [(False,)]
    assert await can_login(admin.server, "neighbour", PASSWORD)
