"""What others grant to a role that goes: PostgreSQL drops no role that an ACL names."""

from __future__ import annotations

import pytest
from psycopg import sql
from tests.integration.postgres.tenants.test_neighbours import brief, database, reason
from tests.integration.postgres.test_roles import Admin, members, role
from tests.support.pgserver import PASSWORD, can_login, fetch, grant, login, run

from fairlead.postgres.database.work.cleanup import cleanup
from fairlead.postgres.errors import AccessError


WAYS = {
    "large object": ["SELECT lo_create(4242)", "GRANT SELECT ON LARGE OBJECT 4242 TO victim"],
    "table": ["CREATE TABLE a (id int)", "GRANT SELECT ON a TO victim"],
    "columns": ["CREATE TABLE b (id int)", "GRANT SELECT (id) ON b TO victim"],
    "temporary table": ["CREATE TEMP TABLE c (id int)", "GRANT SELECT (id) ON c TO victim"],
    "out of sight": [
        "CREATE SCHEMA own",
        "CREATE TABLE own.d (id int)",
        "GRANT SELECT ON own.d TO victim",
        "REVOKE ALL ON SCHEMA own FROM hostile",
    ],
    "routine": [
        "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "GRANT EXECUTE ON FUNCTION f() TO victim WITH GRANT OPTION",
    ],
    "type": ["CREATE TYPE t AS (a int)", "GRANT USAGE ON TYPE t TO victim"],
    "default privileges": ["ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO victim"],
    "policy": ["CREATE TABLE e (id int)", "CREATE POLICY p ON e TO victim"],
}


async def roles(admin: Admin, *more: str) -> None:
    await database(admin, "GRANT CREATE ON DATABASE d TO PUBLIC")
    names = ("hostile", "victim", "neighbour", *more)
    await brief(admin, *(role(name, uid=name) for name in names))


async def exists(admin: Admin, name: str) -> bool:
    query = "SELECT 1 FROM pg_roles WHERE rolname = %s"
    return bool(await fetch(admin.server, "postgres", query, name))


@pytest.mark.differs("version", "administrator")
async def test_no_grant_of_a_tenants_keeps_another_role(admin: Admin) -> None:
    """All of them at once, by two logins, of which neither may touch what is the other's."""
    await roles(admin, "other")
    claim = role("victim", uid="victim").claim
    before = await members(admin.server, "operator" if not admin.superuser else "postgres")
    async with await login(admin.server, "hostile", PASSWORD, "d") as session:
        await session.set_autocommit(True)
        for statements in WAYS.values():
            for statement in statements:
                await session.execute(sql.SQL(statement))
        async with await login(admin.server, "other", PASSWORD, "d") as second:
            await second.execute("CREATE TEMP TABLE g (id int)")
            await second.execute("GRANT SELECT (id) ON g TO victim, neighbour")
            await second.commit()
            assert await cleanup(admin.sessions, "victim", claim, "Restrict", brief=True)
            # What is the hostile's own stays, and so do grants to others.
            found = await second.execute(
                "SELECT has_column_privilege('neighbour', 'g', 'id', 'SELECT')"
            )
            assert await found.fetchone() == (True,)
        await session.execute("SELECT * FROM a, b, c")
    assert not await exists(admin, "victim")
    assert await can_login(admin.server, "neighbour", PASSWORD)
    # The administrator is a member of nobody for that any more.
    who = "operator" if not admin.superuser else "postgres"
    left = {row for row in await members(admin.server, who) if row[0] != "victim"}
    assert left == {row for row in before if row[0] != "victim"}


@pytest.mark.differs("version", "administrator")
async def test_what_was_passed_on_is_taken_in_the_name_of_who_did(admin: Admin) -> None:
    await roles(admin, "other")
    claim = role("victim", uid="victim").claim
    async with await login(admin.server, "hostile", PASSWORD, "d") as session:
        await session.execute("CREATE TABLE a (id int)")
        await session.execute("GRANT SELECT ON a TO other WITH GRANT OPTION")
        await session.commit()
    async with await login(admin.server, "other", PASSWORD, "d") as session:
        await session.execute("GRANT SELECT ON a TO victim, neighbour")
        await session.commit()
    assert await cleanup(admin.sessions, "victim", claim, "Restrict", brief=True)
    assert not await exists(admin, "victim")
    rows = await fetch(admin.server, "d", "SELECT has_table_privilege('neighbour', 'a', 'SELECT')")
    assert rows == [(True,)]


@pytest.mark.differs("version")
@pytest.mark.only(administrator="createrole")
@pytest.mark.parametrize("granted", ["SELECT", "SELECT (id)"])
async def test_what_the_administrator_may_not_take_is_named(admin: Admin, granted: str) -> None:
    await roles(admin)
    await run(
        admin.server, "d", "CREATE TABLE kept (id int)", f"GRANT {granted} ON kept TO victim"
    )
    claim = role("victim", uid="victim").claim
    for way in (True, False):
        with pytest.raises(AccessError) as held:
            await cleanup(admin.sessions, "victim", claim, "Restrict", brief=way)
        assert held.value.reason == "OwnsObjects"
        assert "public.kept" in held.value.message
        assert "in database d" in held.value.message
        assert held.value.blockers
        assert held.value.blockers[0][0] == "d"
    # It is as good as gone, and nobody else waits for it.
    assert not await can_login(admin.server, "victim", PASSWORD)
    found = await brief(admin, role("neighbour", uid="neighbour", grants=(grant("d", "CONNECT"),)))
    assert reason(found["neighbour"]) == ""
    await run(admin.server, "d", "REVOKE ALL ON kept FROM victim")
    assert await cleanup(admin.sessions, "victim", claim, "Restrict", brief=True)


@pytest.mark.differs("administrator")
async def test_a_membership_of_the_administrators_own_stays(admin: Admin) -> None:
    """It acts as nobody whom it has not made, and takes no membership that was there before."""
    await roles(admin)
    who = "operator" if not admin.superuser else "postgres"
    await admin.execute("CREATE ROLE person LOGIN", f"GRANT hostile, person TO {who}")
    async with await login(admin.server, "hostile", PASSWORD, "d") as session:
        await session.execute("CREATE TABLE a (id int)")
        await session.execute("GRANT SELECT ON a TO victim")
        await session.commit()
    before = await members(admin.server, who)
    claim = role("victim", uid="victim").claim
    assert await cleanup(admin.sessions, "victim", claim, "Restrict", brief=True)
    after = await members(admin.server, who)
    assert {row for row in before if row[0] != "victim"} == after
