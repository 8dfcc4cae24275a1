from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from psycopg import sql
from tests.integration.postgres.conftest import create_database
from tests.support.pgserver import (
    PASSWORD,
    can_login,
    claim,
    cleanup,
    fetch,
    grant,
    login,
    privileges,
    roles,
    run,
    sync,
    wanted,
)

from fairlead.api.postgresaccess import CleanupPolicy
from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.postgres.database.connections.endpoint import Endpoint
from fairlead.postgres.database.connections.sessions import Sessions
from fairlead.postgres.database.plans.snapshot import RoleClaim, ServerSnapshot
from fairlead.postgres.database.plans.statements import comment_role
from fairlead.postgres.database.reading.catalog import read_snapshot
from fairlead.postgres.database.work import cleanup as cleanup_module
from fairlead.postgres.database.work.cleanup import drop_login, fence, give_up
from fairlead.postgres.database.work.removal import RoleRemoval
from fairlead.postgres.database.work.unmanaged import read_logins, unmanaged
from fairlead.postgres.errors import AccessError
from fairlead.postgres.options import PostgresOptions


POLICIES: tuple[CleanupPolicy, ...] = ("Restrict", "Cascade", "Orphan")


async def names(postgres: EmbeddedPostgres) -> set[str]:
    return {name for name, *_ in await roles(postgres)}


async def own_a_table(
    postgres: EmbeddedPostgres, endpoint: Endpoint, database: str, table: str = "mine"
) -> None:
    """The role ``app`` makes a table in the database."""
    await sync(endpoint, wanted("app", grant(database, "CONNECT", "CREATE", "USAGE")))
    async with await login(postgres, "app", PASSWORD, database) as session:
        await session.execute(f"CREATE TABLE {table} (id int)")


@pytest.mark.parametrize("policy", POLICIES)
async def test_privileges_in_three_databases_are_cleared(
    postgres: EmbeddedPostgres,
    endpoint: Endpoint,
    admin: psycopg.AsyncConnection,
    database: str,
    policy: CleanupPolicy,
) -> None:
    databases = [database, await create_database(admin), await create_database(admin)]
    for name in databases:
        await run(postgres, name, "CREATE TABLE t (id int)")
    await sync(endpoint, wanted("app", *(grant(name, "CONNECT", "SELECT") for name in databases)))
    assert await cleanup(endpoint, "app", claim(), policy)
    assert "app" not in await names(postgres)
    assert not await cleanup(endpoint, "app", claim(), policy)
    leftovers = (
        "SELECT count(*) FROM pg_class WHERE relname = 't' AND relacl::text LIKE '%%app=%%'"
    )
    assert [await fetch(postgres, name, leftovers) for name in databases] == [[(0,)]] * 3


async def test_restrict_waits_while_the_role_owns_anything_and_fences_it(
    postgres: EmbeddedPostgres, endpoint: Endpoint, database: str, admin: psycopg.AsyncConnection
) -> None:
    other = await create_database(admin)
    await own_a_table(postgres, endpoint, other)
    with pytest.raises(AccessError) as blocked:
        await cleanup(endpoint, "app", claim(), "Restrict")
    assert blocked.value.reason == "OwnsObjects"
    assert f"owns table public.mine in database {other}" in blocked.value.message
    assert not await can_login(postgres, "app", PASSWORD)
    assert "app" in await names(postgres)
    await run(postgres, other, "DROP TABLE mine")
    assert await cleanup(endpoint, "app", claim(), "Restrict")
    assert "app" not in await names(postgres)


async def test_an_open_session_in_any_database_takes_the_login_away(
    postgres: EmbeddedPostgres, endpoint: Endpoint, database: str
) -> None:
    """Also where the password of the administrator no longer logs in."""
    await sync(endpoint, wanted("app"))
    right, wrong = Sessions(endpoint), Sessions(replace(endpoint, password="wrong"))
    async with right.use(database):
        pass
    # As if the password had changed while the session was open.
    wrong._idle.update(right._idle)
    try:
        with pytest.raises(AccessError) as refused:
            await cleanup_module.cleanup(wrong, "app", claim(), "Restrict")
    finally:
        await wrong.close()
        await right.close()
    assert refused.value.reason == "AuthenticationFailed"
    assert not await can_login(postgres, "app", PASSWORD)
    assert await cleanup(endpoint, "app", claim(), "Restrict")


async def test_default_privileges_are_no_data(
    postgres: EmbeddedPostgres, endpoint: Endpoint, database: str
) -> None:
    await sync(endpoint, wanted("app", grant(database, "CONNECT")))
    async with await login(postgres, "app", PASSWORD, database) as session:
        await session.execute("ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO PUBLIC")
    await cleanup(endpoint, "app", claim(), "Restrict")
    assert "app" not in await names(postgres)


@pytest.mark.parametrize("policy", POLICIES)
async def test_an_owned_database_is_never_dropped(
    postgres: EmbeddedPostgres,
    endpoint: Endpoint,
    database: str,
    policy: CleanupPolicy,
) -> None:
    await sync(endpoint, wanted("app"))
    await run(postgres, "postgres", "ALTER DATABASE {d} OWNER TO app", d=database)
    with pytest.raises(AccessError, match=f"OwnsObjects: role app owns database {database}"):
        await cleanup(endpoint, "app", claim(), policy)
    assert await fetch(
        postgres, "postgres", "SELECT 1 FROM pg_database WHERE datname = %s", database
    )


async def test_a_large_object_and_a_policy(
    postgres: EmbeddedPostgres, endpoint: Endpoint, database: str
) -> None:
    await sync(endpoint, wanted("app", grant(database, "CONNECT")))
    await run(
        postgres,
        database,
        "CREATE TABLE t (id int)",
        "CREATE POLICY only_app ON t TO app USING (true)",
        "SELECT lo_create(4711)",
        "ALTER LARGE OBJECT 4711 OWNER TO app",
    )
    with pytest.raises(AccessError, match="owns large object 4711"):
        await cleanup(endpoint, "app", claim(), "Restrict")
    await run(postgres, database, "SELECT lo_unlink(4711)")
    await cleanup(endpoint, "app", claim(), "Restrict")
    assert "app" not in await names(postgres)


async def test_cascade_drops_what_the_role_owns(
    postgres: EmbeddedPostgres, endpoint: Endpoint, database: str
) -> None:
    await own_a_table(postgres, endpoint, database)
    async with await login(postgres, "app", PASSWORD, database) as session:
        await session.execute("CREATE VIEW on_it AS SELECT * FROM mine")
    await cleanup(endpoint, "app", claim(), "Cascade")
    assert "app" not in await names(postgres)
    tables = "SELECT 1 FROM pg_class WHERE relname IN ('mine', 'on_it')"
    assert await fetch(postgres, database, tables) == []


async def test_orphan_gives_objects_to_the_databases_owner(
    postgres: EmbeddedPostgres, endpoint: Endpoint, database: str
) -> None:
    await run(
        postgres, "postgres", "CREATE ROLE owner", "ALTER DATABASE {d} OWNER TO owner", d=database
    )
    await own_a_table(postgres, endpoint, database)
    await cleanup(endpoint, "app", claim(), "Orphan")
    assert "app" not in await names(postgres)
    owner = "SELECT tableowner::text FROM pg_tables WHERE tablename = 'mine'"
    assert await fetch(postgres, database, owner) == [("owner",)]


@pytest.mark.parametrize(
    "statement",
    [
        pytest.param("SELECT 1", id="superuser"),
        pytest.param(
            "CREATE ROLE boss SUPERUSER; CREATE ROLE owner IN ROLE boss;"
            "ALTER DATABASE {d} OWNER TO owner",
            id="member-of-a-superuser",
        ),
        pytest.param(
            "CREATE ROLE owner CREATEROLE; ALTER DATABASE {d} OWNER TO owner", id="createrole"
        ),
        pytest.param(
            "CREATE ROLE owner IN ROLE pg_execute_server_program;"
            "ALTER DATABASE {d} OWNER TO owner",
            id="runs-programs",
        ),
    ],
)
async def test_orphan_gives_nothing_to_who_has_powers(
    postgres: EmbeddedPostgres, endpoint: Endpoint, database: str, statement: str
) -> None:
    await run(postgres, "postgres", *statement.split(";"), d=database)
    await own_a_table(postgres, endpoint, database)
    async with await login(postgres, "app", PASSWORD, database) as session:
        await session.execute(
            "CREATE FUNCTION trap() RETURNS int LANGUAGE sql SECURITY DEFINER RETURN 1"
        )
    with pytest.raises(AccessError, match="inherit objects"):
        await cleanup(endpoint, "app", claim(), "Orphan")
    owner = "SELECT proowner::regrole::text FROM pg_proc WHERE proname = 'trap'"
    assert await fetch(postgres, database, owner) == [("app",)]
    assert not await can_login(postgres, "app", PASSWORD)


async def test_retain_keeps_the_role_without_its_login_and_claim(
    postgres: EmbeddedPostgres, endpoint: Endpoint, database: str
) -> None:
    await own_a_table(postgres, endpoint, database)
    assert await cleanup(endpoint, "app", claim(), "Retain")
    assert not await can_login(postgres, "app", PASSWORD)
    kept = (
        "SELECT rolcanlogin, shobj_description(oid, 'pg_authid') FROM pg_roles WHERE rolname = %s"
    )
    assert await fetch(postgres, "postgres", kept, "app") == [(False, None)]
    assert await privileges(postgres, database, "app")


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(claim(namespace="rivals", uid="u2"), id="other-namespace"),
        pytest.param(
            RoleClaim(installation="there", namespace="team", name="access", uid="u1"),
            id="other-cluster",
        ),
    ],
)
async def test_a_loser_leaves_the_winners_role(
    postgres: EmbeddedPostgres,
    endpoint: Endpoint,
    admin: psycopg.AsyncConnection,
    other: RoleClaim,
) -> None:
    await sync(endpoint, wanted("app"))
    before = await roles(postgres)
    assert not await cleanup(endpoint, "app", other, "Cascade")
    assert await roles(postgres) == before


async def test_a_role_of_nobodys_is_never_dropped(
    postgres: EmbeddedPostgres, endpoint: Endpoint, admin: psycopg.AsyncConnection
) -> None:
    await admin.execute("CREATE ROLE app LOGIN")
    assert not await cleanup(endpoint, "app", claim(), "Cascade")
    assert "app" in await names(postgres)


async def test_open_sessions_are_ended(
    postgres: EmbeddedPostgres, endpoint: Endpoint, database: str
) -> None:
    await sync(endpoint, wanted("app", grant(database, "CONNECT", "TEMPORARY")))
    async with await login(postgres, "app", PASSWORD, database) as session:
        await session.execute("CREATE TEMP TABLE held (id int)")
        await cleanup(endpoint, "app", claim(), "Restrict")
        with pytest.raises(psycopg.OperationalError):
            await session.execute("SELECT 1")
    assert "app" not in await names(postgres)


async def test_a_closed_database_is_named(
    postgres: EmbeddedPostgres, endpoint: Endpoint, database: str
) -> None:
    await sync(endpoint, wanted("app", grant(database, "USAGE")))
    await run(postgres, "postgres", "ALTER DATABASE {d} ALLOW_CONNECTIONS false", d=database)
    with pytest.raises(AccessError, match=f"{database}, where owner .* allows no connections"):
        await cleanup(endpoint, "app", claim(), "Cascade")
    await run(postgres, "postgres", "ALTER DATABASE {d} ALLOW_CONNECTIONS true", d=database)
    await cleanup(endpoint, "app", claim(), "Cascade")
    assert "app" not in await names(postgres)


async def test_an_administrator_without_superpowers_cleans_up(
    postgres: EmbeddedPostgres, modest: Endpoint, database: str
) -> None:
    await run(
        postgres,
        database,
        "SET ROLE modest",
        "CREATE SCHEMA s",
        "CREATE TABLE s.t (id int)",
        "RESET ROLE",
        "CREATE ROLE rds_iam",
    )
    await sync(modest, wanted("app", grant(database, "CONNECT", "SELECT", "CREATE", schema="s")))
    await run(postgres, "postgres", "GRANT rds_iam TO app", "CREATE ROLE heir")
    await run(postgres, "postgres", "GRANT heir TO modest")
    async with await login(postgres, "app", PASSWORD, database) as session:
        await session.execute("CREATE TABLE s.mine (id int)")
        await cleanup(modest, "app", claim(), "Orphan", orphan_to="heir")
        with pytest.raises(psycopg.OperationalError):
            await session.execute("SELECT 1")
    assert "app" not in await names(postgres)
    owner = "SELECT tableowner::text FROM pg_tables WHERE tablename = 'mine'"
    assert await fetch(postgres, database, owner) == [("heir",)]
    member = "SELECT roleid::regrole::text FROM pg_auth_members WHERE member = 'modest'::regrole"
    assert await fetch(postgres, "postgres", member) == [("heir",)]


async def test_restrict_clears_nothing_anywhere_while_one_database_blocks(
    postgres: EmbeddedPostgres, endpoint: Endpoint, database: str, admin: psycopg.AsyncConnection
) -> None:
    later = await create_database(admin)
    await own_a_table(postgres, endpoint, later)
    await sync(endpoint, wanted("app", grant(database, "CONNECT", "USAGE")))
    with pytest.raises(AccessError, match="OwnsObjects"):
        await cleanup(endpoint, "app", claim(), "Restrict")
    assert await privileges(postgres, database, "app")


async def test_restrict_looks_again_before_it_clears_a_database(
    postgres: EmbeddedPostgres,
    endpoint: Endpoint,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """DROP OWNED takes tables too: one that came after the first look must be seen."""
    await sync(endpoint, wanted("app", grant(database, "CONNECT", "USAGE")))

    async def late(*_: object) -> list[tuple[str, list[str]]]:
        await run(
            postgres, database, "CREATE TABLE late (id int)", "ALTER TABLE late OWNER TO app"
        )
        return []

    monkeypatch.setattr(RoleRemoval, "_owned", late)
    with pytest.raises(AccessError, match=r"role app owns table public\.late"):
        await cleanup(endpoint, "app", claim(), "Restrict")
    assert await fetch(postgres, database, "SELECT 1 FROM pg_class WHERE relname = 'late'")


async def test_a_role_that_was_made_anew_by_another_meanwhile_stays(
    postgres: EmbeddedPostgres,
    endpoint: Endpoint,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await sync(endpoint, wanted("app"))
    theirs = comment_role("app", claim(namespace="other"), "")

    async def replaced(*_: object, **__: object) -> None:
        async with await psycopg.AsyncConnection.connect(postgres.dsn(), autocommit=True) as other:
            await other.execute("DROP ROLE app")
            await other.execute("CREATE ROLE app")
            await other.execute(theirs)

    monkeypatch.setattr(RoleRemoval, "_clean", replaced)
    await cleanup(endpoint, "app", claim(), "Cascade")
    assert "app" in await names(postgres)


@pytest.fixture
def changed_after_the_look(
    postgres: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., None]:
    """Have another writer run statements after the first look at the roles."""

    def change(*statements: sql.Composed | str) -> None:
        left = list(statements)

        async def late(*args: Any, **options: Any) -> ServerSnapshot:
            found = await read_snapshot(*args, **options)
            async with await psycopg.AsyncConnection.connect(
                postgres.dsn(), autocommit=True
            ) as other:
                while left:
                    await other.execute(left.pop(0))
            return found

        monkeypatch.setattr(cleanup_module, "read_snapshot", late)

    return change


async def test_a_role_whose_comment_changed_after_the_look_is_removed_at_once(
    postgres: EmbeddedPostgres, endpoint: Endpoint, changed_after_the_look: Callable[..., None]
) -> None:
    await sync(endpoint, wanted("app"))
    changed_after_the_look(comment_role("app", claim(), "of the team"))
    assert await cleanup(endpoint, "app", claim(), "Cascade")
    assert "app" not in await names(postgres)


@pytest.mark.parametrize("how", ["cleanup", "fence"])
async def test_a_role_that_is_anothers_after_the_look_keeps_its_login(
    postgres: EmbeddedPostgres,
    endpoint: Endpoint,
    changed_after_the_look: Callable[..., None],
    how: str,
) -> None:
    await sync(endpoint, wanted("app"))
    changed_after_the_look(
        "DROP ROLE app",
        f"CREATE ROLE app LOGIN PASSWORD '{PASSWORD}'",
        comment_role("app", claim(name="other", uid="u2"), ""),
    )
    if how == "fence":
        sessions = Sessions(endpoint)
        assert not await fence(sessions, "app", claim())
        await sessions.close()
    else:
        assert not await cleanup(endpoint, "app", claim(), "Cascade")
    assert await can_login(postgres, "app", PASSWORD)


async def test_a_strangers_login_that_was_claimed_after_the_look_stays(
    postgres: EmbeddedPostgres,
    endpoint: Endpoint,
    admin: psycopg.AsyncConnection,
    changed_after_the_look: Callable[..., None],
) -> None:
    await admin.execute(f"CREATE ROLE stranger LOGIN PASSWORD '{PASSWORD}'")
    changed_after_the_look(comment_role("stranger", claim(), ""))
    sessions = Sessions(endpoint)
    await drop_login(sessions, "stranger")
    await sessions.close()
    assert await can_login(postgres, "stranger", PASSWORD)


async def test_a_login_of_nobody_is_dropped_and_a_claimed_one_is_not(
    postgres: EmbeddedPostgres, endpoint: Endpoint, database: str, admin: psycopg.AsyncConnection
) -> None:
    await sync(endpoint, wanted("app", grant(database, "CONNECT")))
    await admin.execute("CREATE ROLE stranger LOGIN PASSWORD 's'")
    await run(postgres, database, "GRANT CONNECT ON DATABASE {d} TO stranger", d=database)
    sessions = Sessions(endpoint)
    for username in ("app", "stranger", "absent", "postgres"):
        await drop_login(sessions, username)
    await sessions.close()
    assert await names(postgres) >= {"app", "postgres"}
    assert "stranger" not in await names(postgres)


async def test_a_role_that_was_given_up_is_no_strangers(
    postgres: EmbeddedPostgres, endpoint: Endpoint, admin: psycopg.AsyncConnection
) -> None:
    await sync(endpoint, wanted("app"))
    sessions = Sessions(endpoint)
    await give_up(sessions, "app", claim(), fence=False)
    async with sessions.maintenance() as session:
        logins = await read_logins(session)
    await sessions.close()
    assert unmanaged(logins, [], PostgresOptions(unmanaged_users="Drop")) == []
    assert await can_login(postgres, "app", PASSWORD)
