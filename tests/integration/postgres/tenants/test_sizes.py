"""What tenants' logins have more of than anybody else: the operator's other work goes on.

A login may give itself settings, objects and grants without any privilege. Each test has a
neighbour whose access is brought in, looked at and removed beside that.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from psycopg import sql
from tests.integration.postgres.tenants.test_neighbours import brief, database, reason
from tests.integration.postgres.test_roles import Admin, role
from tests.support.pgserver import PASSWORD, can_login, fetch, grant, login

from fairlead.api.postgresaccess import Attributes
from fairlead.postgres import bounds
from fairlead.postgres.database.connections.session import Patience
from fairlead.postgres.database.plans.logins import LoginTurns
from fairlead.postgres.database.plans.plan import Synced, WantedState
from fairlead.postgres.database.plans.server_plan import CrowdedError
from fairlead.postgres.database.reading.catalog import read_snapshot
from fairlead.postgres.database.reading.dependencies import read_dependencies, read_owned
from fairlead.postgres.database.work.cleanup import cleanup
from fairlead.postgres.database.work.rotating import rotate
from fairlead.postgres.database.work.sync import Check, check_claims
from fairlead.postgres.errors import AccessError


HUGE = "repeat('a', 33 << 20)"
"""Two of them are more than any answer may have."""
LARGE = "(SELECT string_agg(md5(n::text), '') FROM generate_series(1, 4000) n)"
"""More than is read of a role."""


async def fatten(admin: Admin, username: str, database: str = "", value: str = LARGE) -> None:
    where = f"IN DATABASE {database}" if database else ""
    async with await login(admin.server, username, PASSWORD) as session:
        await session.set_autocommit(True)
        await session.execute("SET ROLE NONE")
        for name in ("temp_tablespaces", "application_name"):
            await session.execute(
                f"""DO $$ BEGIN EXECUTE format(
                    'ALTER ROLE {username} {where} SET {name} = %L', {value}); END $$"""
            )


async def settings(admin: Admin, username: str) -> list[tuple[str, list[str]]]:
    """Its databases, "" for all, and what is set in them."""
    return await fetch(
        admin.server,
        "postgres",
        """SELECT COALESCE(d.datname, ''), s.setconfig FROM pg_db_role_setting s
             LEFT JOIN pg_database d ON d.oid = s.setdatabase
            WHERE setrole = %s::regrole""",
        username,
    )


@pytest.mark.differs("administrator")
async def test_settings_of_any_size_are_reset_and_keep_no_role(admin: Admin) -> None:
    neighbour = role("neighbour", uid="u2", grants=(grant("postgres", "CONNECT"),))
    fat, other = role("fat"), role("other", uid="u3")
    await brief(admin, fat, other, neighbour)
    await fatten(admin, "fat", value=HUGE)
    await fatten(admin, "fat", "postgres")
    await fatten(admin, "other")
    # All are looked at together, and what nobody asks about differs for nobody.
    looked = await admin.look(fat, other, neighbour)
    assert looked.differing & {"fat", "other"} == set()
    assert {*looked.claimed} >= {"fat", "other", "neighbour"}
    asking = role("fat", attributes=Attributes(config={"work_mem": "8MB"}))
    assert "fat" in (await admin.look(asking, neighbour)).differing
    changed = role("neighbour", uid="u2", attributes=Attributes(connection_limit=3))
    found = await brief(admin, asking, other, changed)
    assert {reason(one) for one in found.values()} == {""}
    assert ("", ["work_mem=8MB"]) in await settings(admin, "fat")
    assert reason((await brief(admin, asking))["fat"]) == ""
    # Whoever goes is not asked for any of it.
    assert await cleanup(admin.sessions, "other", other.claim, "Restrict", brief=True)
    assert await cleanup(admin.sessions, "neighbour", changed.claim, "Restrict", brief=True)
    assert not await can_login(admin.server, "other", PASSWORD)


@pytest.mark.differs("version", "administrator")
async def test_a_login_in_turn_is_its_owners_whatever_it_sets(admin: Admin) -> None:
    turns = LoginTurns(rotation="TwoLogins", current="app_a", grace=timedelta(hours=1))
    access = role("app", turns=turns)
    await admin.one(access)
    await fatten(admin, "app_a")
    await fatten(admin, "app_a", "postgres")
    assert "app" in (await admin.look(access)).differing
    assert reason((await brief(admin, access))["app"]) == ""
    assert await settings(admin, "app_a") == [("", ["role=app"])]


@pytest.mark.differs("administrator")
async def test_what_needs_no_settings_reads_none(admin: Admin) -> None:
    fat = role("fat")
    await admin.one(fat)
    await fatten(admin, "fat")
    async with admin.sessions.maintenance() as session:
        for whole in (True, False):
            facts = (await read_snapshot(session, ["fat"], "", whole=whole)).roles["fat"]
            assert (dict(facts.config), facts.overfull) == ({}, whole)
    assert await check_claims(admin.sessions, [Check(("fat",), fat.claim)]) == {"fat": None}

    async def publish() -> None:
        pass

    rotated: WantedState = role("fat", password="another")
    await rotate(admin.sessions, rotated, admin.verifiers, publish, brief=True)
    assert await can_login(admin.server, "fat", "another")


@pytest.mark.differs("version")
@pytest.mark.only(administrator="superuser")
async def test_a_verifier_is_as_long_as_it_likes(admin: Admin) -> None:
    """Its salt has no end before PostgreSQL 18, and only superusers read it."""
    await brief(admin, role("fat"), role("neighbour", uid="u2"))
    if admin.version < 18:
        async with await login(admin.server, "fat", PASSWORD) as session:
            await session.execute(
                """DO $$ BEGIN EXECUTE format('ALTER ROLE fat PASSWORD %L',
                   'SCRAM-SHA-256$4096:' || repeat('AAAA', 17 << 20) || '$' || repeat('A', 43)
                   || '=:' || repeat('A', 43) || '='); END $$"""
            )
            await session.commit()
    found = await brief(
        admin, role("fat"), role("neighbour", uid="u2", attributes=Attributes(connection_limit=3))
    )
    assert {reason(one) for one in found.values()} == {""}
    assert await can_login(admin.server, "fat", PASSWORD)


@asynccontextmanager
async def crowd(admin: Admin, username: str, number: int = 100_000) -> AsyncIterator[None]:
    """Large objects, for which a login needs no privilege."""
    async with await login(admin.server, username, PASSWORD) as session:
        await session.execute("SELECT count(lo_create(0)) FROM generate_series(1, %s)", [number])
        await session.commit()
    try:
        yield
    finally:
        # To drop them in one transaction takes more locks than there are.
        await admin.execute(
            "DELETE FROM pg_shdepend WHERE classid = 'pg_largeobject'::regclass",
            "DELETE FROM pg_largeobject_metadata",
        )


@pytest.mark.differs("administrator")
async def test_who_owns_a_hundred_thousand_objects_is_told_of_the_first(
    admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    crowded, neighbour = role("crowded"), role("neighbour", uid="u2")
    await brief(admin, crowded, neighbour)
    async with crowd(admin, "crowded"):
        oid = await fetch(admin.server, "postgres", "SELECT 'crowded'::regrole::oid::int8")
        async with admin.sessions.maintenance() as session:
            # To identify them all takes several times as long.
            async with session.transaction(Patience(200, 150)):
                assert len(await read_owned(session, oid[0][0])) == 4
                found = await read_dependencies(session, oid[0][0], most=1000)
            whole = await read_dependencies(session, oid[0][0])
        assert (found.cut, found.databases[0].owned) == (True, 1000)
        assert (whole.cut, whole.databases[0].owned) == (False, 100_000)
        with pytest.raises(AccessError) as blocked:
            await cleanup(admin.sessions, "crowded", crowded.claim, "Restrict", brief=True)
        assert blocked.value.reason == "OwnsObjects"
        assert "large object" in blocked.value.message
        # What has to count them all is done where no other removal waits for it.
        monkeypatch.setattr("fairlead.postgres.database.work.removal._FIRST_TRY", Patience(20, 2))
        with pytest.raises(AccessError) as slow:
            await cleanup(admin.sessions, "crowded", crowded.claim, "Orphan", brief=True)
        assert (slow.value.reason, "remove role crowded" in slow.value.message) == (
            "TimedOut",
            True,
        )
        assert await cleanup(admin.sessions, "neighbour", neighbour.claim, "Restrict")


@pytest.mark.differs("administrator")
async def test_who_has_more_than_others_is_brought_in_alone(
    admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "CROWD", 1_000)
    crowded, neighbour = role("crowded"), role("neighbour", uid="u2")
    await brief(admin, crowded, neighbour)
    # What it is granted without being asked for comes after all that it owns.
    await admin.execute("CREATE DATABASE d")
    grants = (grant("d", "CONNECT"),)
    async with crowd(admin, "crowded", 2_000):
        await admin.execute("GRANT CREATE ON DATABASE d TO crowded")
        assert (await admin.look(crowded, neighbour)).differing == {"crowded"}
        more = Attributes(connection_limit=3)
        found = await brief(
            admin,
            role("crowded", attributes=more),
            role("neighbour", uid="u2", attributes=more, grants=grants if admin.superuser else ()),
        )
        assert [reason(found[name]) for name in ("crowded", "neighbour")] == ["TimedOut", ""]
        alone = (await admin.sync(role("crowded", attributes=more)))["crowded"]
        assert isinstance(alone, Synced)
        assert alone.changed
    held = await fetch(
        admin.server,
        "postgres",
        "SELECT has_database_privilege('crowded', 'd', 'CREATE')",
    )
    assert held == [(not admin.superuser,)]


async def test_nobody_else_is_looked_for_among_the_rows_of_one(admin: Admin) -> None:
    """Where one has most rows, to read them all would be the way to any other by statistics."""
    many = [role(f"r{number}", uid=f"r{number}") for number in range(50)]
    await brief(admin, role("crowded"), *many)
    async with crowd(admin, "crowded"):
        await admin.execute("ANALYZE pg_shdepend")
        names = [one.username for one in many]
        async with admin.sessions.maintenance() as session:
            read = "SELECT COALESCE(sum(seq_tup_read), 0) FROM pg_stat_all_tables"
            where = " WHERE relname = 'pg_shdepend'"
            before = await fetch(admin.server, "postgres", read + where)
            await read_snapshot(session, ["crowded", *names], "", most=bounds.CROWD)
            await session.rows(sql.SQL("SELECT pg_catalog.pg_stat_force_next_flush()"))
        after = await fetch(admin.server, "postgres", read + where)
    assert after == before


@pytest.mark.differs("administrator")
async def test_grants_that_take_long_are_taken_apart_alone(admin: Admin) -> None:
    """Whose grants those are is given up at the first statement, for others wait meanwhile."""
    owner = "postgres" if admin.superuser else "operator"
    await database(
        admin,
        "CREATE SEQUENCE tried",
        *[
            statement
            for number in range(4)
            for statement in (
                f"CREATE TABLE t{number} ()",
                f"ALTER TABLE t{number} OWNER TO {owner}",
            )
        ],
        """CREATE FUNCTION slow() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER AS
           $$ BEGIN PERFORM pg_catalog.nextval('public.tried'); PERFORM pg_sleep(20); END $$""",
        "CREATE EVENT TRIGGER slow ON ddl_command_start WHEN TAG IN ('GRANT')"
        " EXECUTE FUNCTION slow()",
    )
    slow = role("slow", grants=(grant("d", "SELECT"),))
    neighbour = role("neighbour", uid="u2")
    found = await brief(admin, slow, neighbour)
    assert (reason(found["slow"]), reason(found["neighbour"])) == ("TimedOut", "")
    assert await fetch(admin.server, "d", "SELECT last_value FROM tried") == [(1,)]


@pytest.mark.differs("administrator")
async def test_very_many_grants_of_a_tenant_delay_no_other_access(
    admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "ACL_WINDOW", 10)
    await database(admin)
    owner = role("owner", grants=(grant("d", "CONNECT"),))
    fat = role("fat", uid="u2", grants=(grant("d", "CONNECT"),))
    await brief(admin, owner, fat)
    columns = ", ".join(f"c{number}" for number in range(20))
    async with await login(admin.server, "owner", PASSWORD, "d") as session:
        await session.execute(f"CREATE TABLE wide ({columns.replace(',', ' int,')} int)")
        await session.execute(f"GRANT SELECT ({columns}) ON wide TO fat")
    neighbour = role("neighbour", uid="u3", grants=(grant("d", "CONNECT", "SELECT"),))
    found = await brief(admin, fat, neighbour)
    answer, beside = found["fat"], found["neighbour"]
    assert isinstance(answer, Synced)
    assert [type(problem) for problem in answer.problems] == [CrowdedError]
    assert isinstance(beside, Synced)
    assert not any(isinstance(problem, CrowdedError) for problem in beside.problems)
    query = "SELECT 1 FROM pg_attribute WHERE attrelid = 'wide'::regclass AND attacl IS NOT NULL"
    assert len(await fetch(admin.server, "d", query)) == 20
    assert (await admin.one(fat)).problems == ()
    assert await fetch(admin.server, "d", query) == []
