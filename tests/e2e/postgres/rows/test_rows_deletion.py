"""Rows 22 to 27, 36, 37 and 43: how roles go, and how they are lost."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest
from tests.support.team import Team
from tests.support.waiting import condition, eventually, failed_with, when

from fairlead.api.postgresaccess import FINALIZER, POSTGRESACCESSES
from fairlead.api.postgresaccess.server import POSTGRESSERVERS
from fairlead.api.resource import SECRETS
from fairlead.postgres.options import DEFAULT_NAMESPACE


async def test_row_22_privileges_in_three_databases_go(team: Team) -> None:
    others = [await team.create_database(f"other{number}_{team.id}") for number in range(2)]
    closed = await team.create_database(f"closed_{team.id}")
    await team.sql("ALTER DATABASE {d} ALLOW_CONNECTIONS false", d=closed)
    databases = [team.database, *others]
    for database in databases:
        await team.build(
            "CREATE TABLE t (id int)",
            "CREATE FUNCTION f() RETURNS int RETURN 1",
            "ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO PUBLIC",
            database=database,
        )
    name = await team.create(
        grants=[
            team.grant("CONNECT", "CREATE", "SELECT", "EXECUTE", database=database)
            for database in databases
        ]
    )
    await team.ready(name)
    for database in databases:
        assert ("f()", "EXECUTE") in await team.privileges(name, database)
    await team.removed(name)
    query = "SELECT relacl::text FROM pg_catalog.pg_class WHERE relname = 't'"
    for database in databases:
        ((acl,),) = await team.sql(query, database=database)
        assert acl is None or name not in acl


async def test_row_23_what_restrict_waits_for_and_what_it_takes_along(team: Team) -> None:
    other = await team.create_database(f"other_{team.id}")
    await team.build("CREATE TABLE guarded (id int)")
    grants = [team.grant("CONNECT", "TEMPORARY", "CREATE")]
    grants += [team.grant("CONNECT", "CREATE", database=other)]
    kinds = ("table", "blob", "database", "defaults", "temporary", "policy", "nothing")
    names = {kind: await team.create(kind, grants=grants) for kind in kinds}
    await asyncio.gather(*map(team.ready, names.values()))
    async with team.login(names["table"], database=other) as session:
        await session.execute("CREATE TABLE mine (id int)")
    async with team.login(names["blob"]) as session:
        await session.execute("SELECT lo_create(0)")
    owned = await team.create_database(f"owned_{team.id}")
    await team.sql("ALTER DATABASE {d} OWNER TO {r}", d=owned, r=names["database"])
    async with team.login(names["defaults"]) as session:
        await session.execute("ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO PUBLIC")
    await team.sql("CREATE POLICY p ON guarded TO {r} USING (true)", r=names["policy"])
    async with team.login(names["temporary"]) as session:
        await session.execute("CREATE TEMP TABLE held (id int)")
        for name in names.values():
            await team.delete(name)
        blocked = {
            "table": f"table public.mine in database {other}",
            "blob": f"in database {team.database}",
            "database": f"database {owned}",
        }
        told = await asyncio.gather(*(team.fails(names[kind], "OwnsObjects") for kind in blocked))
        for message, part in zip(told, blocked.values(), strict=True):
            assert part in message
        await asyncio.gather(*(team.gone(names[kind]) for kind in kinds if kind not in blocked))
    for kind, name in names.items():
        assert await team.role_exists(name) is (kind in blocked)
    query = "SELECT polname::text FROM pg_catalog.pg_policy"
    assert await team.sql(query) == []
    for kind in blocked:
        assert not await team.can_login(names[kind], (await team.secret(names[kind]))["password"])


async def test_row_24_cascade_drops_no_database(team: Team) -> None:
    name = await team.create(
        cleanupPolicy="Cascade", grants=[team.grant("CONNECT", "CREATE", "USAGE")]
    )
    await team.ready(name)
    async with team.login(name) as session:
        await session.execute("CREATE TABLE mine (id int)")
    owned = await team.create_database(f"owned_{team.id}")
    await team.sql("ALTER DATABASE {d} OWNER TO {r}", d=owned, r=name)
    await team.delete(name)
    assert f"database {owned}" in await team.fails(name, "OwnsObjects")
    await team.sql(
        "ALTER DATABASE {d} OWNER TO {r}",
        d=owned,
        r=team.administrator.username,
        database="postgres",
    )
    await team.gone(name)
    assert not await team.role_exists(name)
    assert await team.sql("SELECT pg_catalog.to_regclass('public.mine')") == [(None,)]


async def test_row_24_orphan_gives_nothing_to_who_has_powers(team: Team) -> None:
    """Where an administrator owns the database; and anybody else gets no code that runs as it."""
    heir = team.name("heir")
    await team.sql("CREATE ROLE {r}", r=heir)
    await team.sql("GRANT {r} TO {a}", r=heir, a=team.administrator.username)
    name = await team.create(
        cleanupPolicy="Orphan", grants=[team.grant("CONNECT", "CREATE", "USAGE")]
    )
    await team.ready(name)
    async with team.login(name) as session:
        await session.execute(
            "CREATE FUNCTION risky() RETURNS text SECURITY DEFINER RETURN current_user"
        )
    owner = "SELECT proowner::regrole::text FROM pg_catalog.pg_proc WHERE proname = 'risky'"
    await team.delete(name)
    message = await team.fails(name, "OwnsObjects")
    assert (
        f"owner {team.administrator.username} of database {team.database} is a superuser"
        in message
    )
    assert await team.sql(owner) == [(f'"{name}"',)]
    await team.sql("ALTER DATABASE {d} OWNER TO {r}", d=team.database, r=heir)

    def blocked(body: dict[str, Any]) -> bool:
        blockers = body.get("status", {}).get("deletion", {}).get("blockers", [])
        return [one["objects"] for one in blockers] == [["function public.risky()"]]

    await team.wait(name, blocked)
    assert await team.sql(owner) == [(f'"{name}"',)]
    await team.sql("ALTER FUNCTION risky() SECURITY INVOKER")
    await team.gone(name)
    assert not await team.role_exists(name)
    assert await team.sql(owner) == [(f'"{heir}"',)]


async def test_row_25_the_finalizer_stays_and_the_login_goes(team: Team) -> None:
    name = await team.create(grants=[team.grant("CONNECT", "CREATE", "USAGE")])
    await team.ready(name)
    password = (await team.secret(name))["password"]
    async with team.login(name) as session:
        await session.execute("CREATE TABLE mine (id int)")
    await team.delete(name)
    await team.fails(name, "FinalizeFailed")
    body = (await team.client.get(POSTGRESACCESSES, name, team.namespace)).to_dict()
    assert FINALIZER in body["metadata"]["finalizers"]
    assert body["status"]["lastReconcileState"] == "Error"
    assert not await team.can_login(name, password, team.database)
    warnings = [one for one in await team.events(name) if one["type"] == "Warning"]
    assert [one["reason"] for one in warnings] == ["FinalizeFailed"]
    await team.sql("DROP TABLE mine")
    await team.gone(name)
    assert not await team.role_exists(name)


async def test_row_26_a_deletion_while_the_server_is_down(team: Team) -> None:
    names = [await team.create("waits"), await team.create("abandoned")]
    await asyncio.gather(*map(team.ready, names))
    await team.postgres.stop_server()
    try:
        for name in names:
            await team.delete(name)
        for name in names:
            await team.fails(name, "ConnectionFailed")
        await team.abandon(names[1])
        await team.gone(names[1])
    finally:
        await team.postgres.start_server()
    await team.gone(names[0])
    assert not await team.role_exists(names[0])


async def test_row_26_withdrawn_credentials_end_a_login_and_no_more(team: Team) -> None:
    grants = [team.grant("CONNECT", "CREATE", "USAGE")]
    names = [
        await team.create(suffix, grants=grants, cleanupPolicy="Cascade")
        for suffix in ("waits", "abandoned")
    ]
    empty = await team.create("empty", cleanupPolicy="Cascade")
    await asyncio.gather(*map(team.ready, (*names, empty)))
    passwords = [(await team.secret(name))["password"] for name in names]
    for name in names:
        async with team.login(name) as session:
            await session.execute(f'CREATE TABLE "{name}" (id int)')
    kept = (await team.client.get(SECRETS, team.server, DEFAULT_NAMESPACE)).to_dict()
    await team.client.delete(SECRETS, team.server, DEFAULT_NAMESPACE)
    for name in (*names, empty):
        await team.delete(name)
    await team.gone(empty)
    assert not await team.role_exists(empty)
    for name, password in zip(names, passwords, strict=True):
        message = await team.fails(name, "OwnsObjects")
        assert (
            f"{team.server} of PostgresServer {team.server} does not exist; create it" in message
        )
        assert not await team.can_login(name, password)
        assert len(await team.sql("SELECT FROM {t}", t=name)) == 0
    await team.abandon(names[1])
    await team.gone(names[1])
    assert await team.role_exists(names[1])
    kept["metadata"] = {"name": team.server, "namespace": DEFAULT_NAMESPACE}
    await team.client.create(SECRETS, kept)
    await team.gone(names[0])
    assert not await team.role_exists(names[0])


async def test_row_26_a_fence_needs_one_database_whichever(team: Team) -> None:
    """A neighbour at the same server, whose own database is open, notices nothing."""
    own = await team.create_database(f"own_{team.id}")
    aside = f"aside-{team.id}"
    await team.offer(aside, database=own)
    neighbour = await team.create("neighbour")
    name = await team.create(connection={"serverRef": {"name": aside}})
    await asyncio.gather(team.ready(name), team.ready(neighbour))
    password = (await team.secret(name))["password"]
    await team.sql("ALTER DATABASE {d} ALLOW_CONNECTIONS false", d=own, database="postgres")
    body = await when(team.client, POSTGRESSERVERS, aside, until=failed_with("DatabaseNotFound"))
    assert "or name another one in spec.database" in condition(body, "Ready")["message"]
    assert condition(body, "Reachable")["status"] == "True"
    ending = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
    await team.sql(ending, values=(own,), database="postgres")
    await team.delete(name)
    assert own in await team.fails(name, "DatabaseNotFound")
    await team.logs_in(name, password, expected=False)
    await team.ready(neighbour)
    await team.sql("ALTER DATABASE {d} ALLOW_CONNECTIONS true", d=own, database="postgres")
    await team.gone(name)
    await team.client.delete(POSTGRESSERVERS, aside)


async def test_row_27_open_sessions_are_ended(team: Team) -> None:
    name = await team.create(grants=[team.grant("CONNECT")])
    await team.ready(name)
    async with team.login(name) as idle, team.login(name) as busy:
        await busy.execute("BEGIN")
        await busy.execute("SELECT 1")
        await team.removed(name)
        for session in (idle, busy):
            with pytest.raises(psycopg.OperationalError):
                await session.execute("SELECT 1")


async def members(team: Team, role: str) -> list[tuple[Any, ...]]:
    """Who is a member of a role, and by whose grant; options came with PostgreSQL 16."""
    query = """SELECT m.member::regrole::text, m.grantor::regrole::text, pg_catalog.to_json(m)
               FROM pg_catalog.pg_auth_members m
               JOIN pg_catalog.pg_roles r ON r.oid = m.roleid WHERE r.rolname = %s"""
    return [
        (member, grantor, body["admin_option"], body.get("inherit_option"), body.get("set_option"))
        for member, grantor, body in await team.sql(query, values=(role,), database="postgres")
    ]


@pytest.mark.differs("version", "administrator")
async def test_row_36_the_makers_own_membership_stays(team: Team) -> None:
    name = await team.create(grants=[team.grant("CONNECT")])
    await team.ready(name)
    first = (await team.secret(name))["password"]
    before = await members(team, name)
    ((version,),) = await team.sql("SELECT pg_catalog.current_setting('server_version_num')::int")
    automatic = not team.superuser and version >= 160000
    assert before == ([("operator", "postgres", True, False, False)] if automatic else [])
    await team.client.delete(SECRETS, f"{name}-login", team.namespace)
    await team.logs_in(name, first, expected=False)
    await team.ready(name)
    await team.cycles(1)
    assert await members(team, name) == before


async def test_row_37_the_administrator_never_joins_the_groups_of_a_role(team: Team) -> None:
    """Members of rds_iam log in by another way, so who joins it is locked out."""
    await team.sql(
        "DO $$ BEGIN CREATE ROLE rds_iam; EXCEPTION WHEN duplicate_object THEN NULL; END $$"
    )
    name = await team.create(
        cleanupPolicy="Cascade", grants=[team.grant("CONNECT", "CREATE", "USAGE")]
    )
    await team.ready(name)
    await team.sql("GRANT rds_iam TO {r}", r=name)
    async with team.login(name) as session:
        await session.execute("CREATE TABLE mine (id int)")
    seen: set[str] = set()
    query = """SELECT rolname::text FROM pg_catalog.pg_roles
               WHERE pg_catalog.pg_has_role('operator', oid, 'USAGE')
                 AND rolname IN ('rds_iam', %s)"""

    async def watch() -> None:
        async with await psycopg.AsyncConnection.connect(
            team.postgres.dsn(), autocommit=True
        ) as connection:
            while True:
                cursor = await connection.execute(query, (name,))
                seen.update(role for (role,) in await cursor.fetchall())

    async with asyncio.TaskGroup() as group:
        watching = group.create_task(watch())
        await team.removed(name)
        watching.cancel()
    assert seen == set()
    assert {member for member, *_ in await members(team, "rds_iam")} == set()


async def test_row_43_a_role_that_was_dropped_comes_back_as_it_was(team: Team) -> None:
    await team.build("CREATE TABLE t (id int)")
    name = await team.create(grants=[team.grant("CONNECT", "SELECT")])
    await team.ready(name)
    password = (await team.secret(name))["password"]
    before = await team.privileges(name)
    await team.sql("DROP OWNED BY {r}", "DROP ROLE {r}", r=name)

    async def restored() -> bool:
        return await team.privileges(name) == before

    await team.healed(restored)
    assert await team.can_login(name, password)
    assert (await team.secret(name))["password"] == password
    await team.ready(name)


async def test_row_43_a_role_that_was_renamed_is_fenced_and_told(team: Team) -> None:
    old = team.name("renamed")
    name = await team.create(grants=[team.grant("CONNECT")])
    await team.ready(name)
    password = (await team.secret(name))["password"]
    await team.sql("ALTER ROLE {r} RENAME TO {o}", r=name, o=old)
    await team.healed(lambda: team.can_login(name, password))
    await team.logs_in(old, password, False)
    body = await team.wait(name, lambda body: old in str(body["status"].get("warnings")))
    assert condition(body, "Ready")["status"] == "True"

    async def told() -> bool:
        return "RoleRenamed" in [one["reason"] for one in await team.events(name)]

    await eventually(told)


async def test_a_database_may_be_dropped_while_the_operator_is_at_work(team: Team) -> None:
    """By its owner, who cannot end the sessions of a superuser."""
    await team.build("CREATE TABLE t (id int)")
    name = await team.create(grants=[team.grant("CONNECT", "SELECT")])
    await team.ready(name)
    await team.cycles(1)
    # PostgreSQL waits 5 s for sessions to end before it refuses.
    await team.sql("DROP DATABASE {d}", d=team.database, database="postgres")
    await team.fails(name, "DatabaseNotFound")
