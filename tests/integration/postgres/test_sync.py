from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from tests.integration.postgres.conftest import create_database
from tests.support.pgserver import (
    PASSWORD,
    can_login,
    claim,
    fetch,
    grant,
    login,
    privileges,
    roles,
    run,
    sync,
    wanted,
)
from tests.support.servers import OPERATOR
from tests.support.waiting import SECONDS

from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.postgres.database.connections.endpoint import Endpoint
from fairlead.postgres.database.connections.session import Patience
from fairlead.postgres.database.connections.sessions import Sessions
from fairlead.postgres.database.plans.snapshot import RoleClaim
from fairlead.postgres.database.reading.verifiers import Verifiers
from fairlead.postgres.database.work import privileges as privileges_module
from fairlead.postgres.database.work import sync as sync_module
from fairlead.postgres.database.work.drift import find_drift
from fairlead.postgres.errors import AccessError


async def test_the_password_logs_in_and_a_wrong_one_does_not(
    postgres: EmbeddedPostgres, endpoint: Endpoint, database: str
) -> None:
    result = await sync(endpoint, wanted("app", grant(database, "CONNECT")))
    assert (result.problems, result.changed) == ((), True)
    assert await can_login(postgres, "app", PASSWORD)
    assert not await can_login(postgres, "app", PASSWORD + "!")
    await sync(endpoint, wanted("app", grant(database, "CONNECT"), password="rotated"))
    assert await can_login(postgres, "app", "rotated")
    assert not await can_login(postgres, "app", PASSWORD)


async def test_no_clear_text_reaches_the_servers_log(
    postgres: EmbeddedPostgres, endpoint: Endpoint, admin: psycopg.AsyncConnection
) -> None:
    before = postgres.logged()
    await admin.execute("CREATE ROLE taken")
    await sync(endpoint, wanted("app", password="hunter2-clear"))
    with pytest.raises(AccessError) as refused:
        await sync(endpoint, wanted("taken", password="hunter2-clear"))
    log = postgres.log(before)
    assert "CREATE ROLE taken" in log
    assert "hunter2" not in log + str(refused.value) + repr(wanted("app", password="hunter2"))
    assert "SCRAM-SHA-256$" not in log


@pytest.mark.parametrize(
    "password",
    [
        pytest.param("it's", id="quote"),
        pytest.param("back\\slash", id="backslash"),
        pytest.param('dou"ble', id="double-quote"),
        pytest.param("100%s@:/ x", id="url-signs"),
        pytest.param("café\u00a0☕\u00ad", id="saslprep"),
        pytest.param("x" * 1000, id="one-kilobyte"),
        pytest.param("SCRAM-SHA-256$4096:c2FsdA==$c3RvcmVk:c2VydmVy", id="looks-like-verifier"),
        pytest.param("md5" + "0" * 32, id="looks-like-md5"),
    ],
)
async def test_any_password_works(
    postgres: EmbeddedPostgres,
    endpoint: Endpoint,
    admin: psycopg.AsyncConnection,
    password: str,
) -> None:
    await sync(endpoint, wanted("app", password=password))
    assert await can_login(postgres, "app", password)
    before = await roles(postgres)
    assert not (await sync(endpoint, wanted("app", password=password))).changed
    assert await roles(postgres) == before


async def test_old_string_rules_do_not_matter(
    postgres: EmbeddedPostgres, endpoint: Endpoint, database: str
) -> None:
    endpoint = replace(endpoint, maintenance=database)
    await run(
        postgres, database, "ALTER DATABASE {d} SET standard_conforming_strings = off", d=database
    )
    await sync(endpoint, wanted("app", grant(database, "CONNECT"), password="a\\'b"))
    assert await can_login(postgres, "app", "a\\'b")


@pytest.mark.parametrize(
    "username",
    [
        pytest.param('a"b', id="quote"),
        pytest.param("Foo", id="upper-case"),
        pytest.param("user name", id="space"),
        pytest.param("u" * 63, id="63-bytes"),
        pytest.param("x'; DROP ROLE y; --", id="injection"),
    ],
)
async def test_usernames_are_taken_as_they_are(
    postgres: EmbeddedPostgres, endpoint: Endpoint, database: str, username: str
) -> None:
    await run(postgres, database, "CREATE TABLE t (id int)")
    result = await sync(endpoint, wanted(username, grant(database, "CONNECT", "SELECT")))
    assert result.problems == ()
    assert await can_login(postgres, username, PASSWORD)
    names = [name for name, *_ in await roles(postgres) if not name.startswith("pg_")]
    assert names == sorted([OPERATOR, "postgres", username])


@pytest.mark.parametrize(
    ("username", "statement", "reason"),
    [
        pytest.param("postgres", "", "UserReserved", id="administrator"),
        pytest.param("g", "CREATE ROLE g", "AdoptionRefused", id="group"),
        pytest.param("r", "CREATE ROLE r LOGIN REPLICATION", "AdoptionRefused", id="replication"),
        pytest.param("h", "CREATE ROLE h LOGIN PASSWORD 'h'", "AdoptionRefused", id="by-hand"),
        pytest.param("s", "CREATE ROLE s SUPERUSER LOGIN", "AdoptionRefused", id="superuser"),
    ],
)
async def test_roles_of_others_are_refused_and_left_alone(
    postgres: EmbeddedPostgres,
    endpoint: Endpoint,
    admin: psycopg.AsyncConnection,
    username: str,
    statement: str,
    reason: str,
) -> None:
    if statement:
        await admin.execute(statement)
    before = await roles(postgres)
    with pytest.raises(AccessError) as refused:
        await sync(endpoint, wanted(username))
    assert (refused.value.reason, refused.value.verdict) == (reason, True)
    assert await roles(postgres) == before


async def test_a_role_given_powers_is_refused(
    endpoint: Endpoint, admin: psycopg.AsyncConnection
) -> None:
    await sync(endpoint, wanted("app"))
    await admin.execute("ALTER ROLE app SUPERUSER")
    with pytest.raises(AccessError, match="UserReserved: role app has SUPERUSER"):
        await sync(endpoint, wanted("app", password="other"))


@pytest.mark.parametrize(
    ("other", "message"),
    [
        pytest.param(
            claim(namespace="rivals", uid="u2"),
            "is taken by another PostgresAccess",
            id="other-namespace",
        ),
        pytest.param(
            claim(name="second", uid="u2"),
            "is taken by another PostgresAccess",
            id="same-namespace",
        ),
        pytest.param(
            RoleClaim(installation="there", namespace="team", name="access", uid="u1"),
            "belongs to another installation",
            id="other-cluster",
        ),
    ],
)
async def test_the_first_claim_wins(
    postgres: EmbeddedPostgres,
    endpoint: Endpoint,
    admin: psycopg.AsyncConnection,
    other: RoleClaim,
    message: str,
) -> None:
    await sync(endpoint, wanted("app"))
    before = await roles(postgres)
    elsewhere = replace(endpoint, host="localhost")
    with pytest.raises(AccessError, match=f"UsernameConflict: .*{message}"):
        await sync(elsewhere, wanted("app", password="mine now", claimed=other))
    assert await roles(postgres) == before


async def test_a_recreated_object_keeps_its_role(
    endpoint: Endpoint, admin: psycopg.AsyncConnection
) -> None:
    await sync(endpoint, wanted("app"))
    again = await sync(endpoint, wanted("app", claimed=claim(uid="u2")))
    assert again.changed
    assert not (await sync(endpoint, wanted("app", claimed=claim(uid="u2")))).changed


async def test_steady_state_writes_nothing(
    postgres: EmbeddedPostgres, endpoint: Endpoint, database: str
) -> None:
    await run(
        postgres,
        database,
        "CREATE SCHEMA other",
        "CREATE TABLE t (id serial)",
        "CREATE VIEW v AS SELECT 1 AS one",
        "CREATE FUNCTION f() RETURNS int LANGUAGE sql RETURN 1",
    )
    access = wanted(
        "app",
        grant(database, "CONNECT", "SELECT", "INSERT", "EXECUTE"),
        grant(database, "USAGE", "CREATE", "CONNECT", schema="other"),
    )
    assert (await sync(endpoint, access)).changed
    state = """
        SELECT (SELECT array_agg((xmin::text, ctid::text)) FROM pg_class),
               (SELECT array_agg((xmin::text, ctid::text)) FROM pg_proc),
               (SELECT array_agg((xmin::text, ctid::text)) FROM pg_namespace),
               (SELECT array_agg((xmin::text, ctid::text)) FROM pg_database),
               (SELECT array_agg((xmin::text, ctid::text)) FROM pg_shdescription)
    """
    before = (await fetch(postgres, database, state), await roles(postgres))
    for _ in range(3):
        result = await sync(endpoint, access)
        assert (result.changed, result.problems) == (False, ())
    assert (await fetch(postgres, database, state), await roles(postgres)) == before


@pytest.mark.parametrize("by", ["superuser", "itself"])
async def test_a_password_changed_by_others_is_healed_once(
    postgres: EmbeddedPostgres, endpoint: Endpoint, admin: psycopg.AsyncConnection, by: str
) -> None:
    await sync(endpoint, wanted("app"))
    if by == "superuser":
        await admin.execute("ALTER ROLE app PASSWORD 'theirs'")
    else:
        async with await login(postgres, "app", PASSWORD) as own:
            await own.execute("ALTER ROLE app PASSWORD 'theirs'")
    assert (await sync(endpoint, wanted("app"))).changed
    assert await can_login(postgres, "app", PASSWORD)
    assert not await can_login(postgres, "app", "theirs")
    assert not (await sync(endpoint, wanted("app"))).changed


async def test_a_lost_login_is_given_back(
    postgres: EmbeddedPostgres, endpoint: Endpoint, admin: psycopg.AsyncConnection
) -> None:
    await sync(endpoint, wanted("app"))
    await admin.execute("ALTER ROLE app NOLOGIN")
    await sync(endpoint, wanted("app"))
    assert await can_login(postgres, "app", PASSWORD)


async def test_exactly_the_grants_asked_for(
    postgres: EmbeddedPostgres, endpoint: Endpoint, database: str
) -> None:
    await run(postgres, database, "CREATE TABLE t (id int)", "CREATE TABLE u (id int)")
    result = await sync(endpoint, wanted("app", grant(database, "CONNECT", "SELECT", "INSERT")))
    assert await privileges(postgres, database, "app") == {
        (f"database {database}", "CONNECT"),
        ("schema public", "USAGE"),
        ("t", "SELECT"),
        ("t", "INSERT"),
        ("u", "SELECT"),
        ("u", "INSERT"),
    }
    assert result.applied == [
        f"CONNECT on database {database}",
        f"USAGE on schema {database}.public",
        f"INSERT, SELECT on all tables in {database}.public",
    ]


async def test_a_narrower_spec_revokes_also_after_new_tables_came(
    postgres: EmbeddedPostgres, endpoint: Endpoint, database: str
) -> None:
    await run(postgres, database, "CREATE TABLE t (id int)")
    await sync(endpoint, wanted("app", grant(database, "SELECT", "INSERT")))
    await run(postgres, database, "CREATE TABLE late (id int)")
    await sync(endpoint, wanted("app", grant(database, "INSERT")))
    assert await privileges(postgres, database, "app") == {
        ("schema public", "USAGE"),
        ("t", "INSERT"),
        ("late", "INSERT"),
    }


async def test_a_spec_that_leaves_a_database_leaves_nothing_there(
    postgres: EmbeddedPostgres, endpoint: Endpoint, database: str, admin: psycopg.AsyncConnection
) -> None:
    other = await create_database(admin)
    await run(postgres, other, "CREATE TABLE only_here (id int)", "CREATE SEQUENCE s")
    await sync(
        endpoint, wanted("app", grant(other, "CONNECT", "SELECT"), grant(database, "USAGE"))
    )
    assert ("only_here", "SELECT") in await privileges(postgres, other, "app")
    await run(postgres, other, "GRANT USAGE ON SEQUENCE s TO app")
    result = await sync(endpoint, wanted("app", grant(database, "USAGE")))
    assert result.problems == ()
    assert await privileges(postgres, other, "app") == set()


async def test_connect_with_another_schema_does_not_flap(
    postgres: EmbeddedPostgres, endpoint: Endpoint, database: str
) -> None:
    await run(postgres, database, "CREATE SCHEMA s")
    access = wanted("app", grant(database, "CONNECT", "USAGE", schema="s"))
    for cycle in range(5):
        assert (await sync(endpoint, access)).changed is (cycle == 0)
        assert (f"database {database}", "CONNECT") in await privileges(postgres, database, "app")


async def test_a_revoke_by_hand_is_healed(
    postgres: EmbeddedPostgres, endpoint: Endpoint, database: str
) -> None:
    await run(postgres, database, "CREATE TABLE t (id int)")
    access = wanted("app", grant(database, "SELECT"))
    await sync(endpoint, access)
    await run(postgres, database, "REVOKE SELECT ON t FROM app", "GRANT DELETE ON t TO app")
    assert (await sync(endpoint, access)).changed
    assert ("t", "SELECT") in await privileges(postgres, database, "app")
    assert ("t", "DELETE") not in await privileges(postgres, database, "app")


async def test_an_empty_schema_is_in_order(endpoint: Endpoint, database: str) -> None:
    access = wanted("app", grant(database, "SELECT", "EXECUTE"))
    await sync(endpoint, access)
    assert not (await sync(endpoint, access)).changed


async def test_every_kind_of_table_converges(
    postgres: EmbeddedPostgres, endpoint: Endpoint, database: str
) -> None:
    await run(
        postgres,
        database,
        "CREATE TABLE parted (id int) PARTITION BY RANGE (id)",
        "CREATE TABLE part PARTITION OF parted FOR VALUES FROM (0) TO (9)",
        "CREATE VIEW view AS SELECT 1 AS one",
        "CREATE MATERIALIZED VIEW matview AS SELECT 1 AS one",
        "CREATE TABLE with_sequence (id serial, other int GENERATED ALWAYS AS IDENTITY)",
        "CREATE FOREIGN DATA WRAPPER nothing",
        "CREATE SERVER nowhere FOREIGN DATA WRAPPER nothing",
        'CREATE FOREIGN TABLE "foreign" (id int) SERVER nowhere',
    )
    access = wanted("app", grant(database, "SELECT", "TRUNCATE"))
    assert (await sync(endpoint, access)).problems == ()
    held = await privileges(postgres, database, "app")
    names = {"parted", "part", "view", "matview", "with_sequence", "foreign"}
    assert {name for name, privilege in held if privilege == "SELECT"} == names
    assert not (await sync(endpoint, access)).changed


async def test_every_kind_of_routine_converges(
    postgres: EmbeddedPostgres, endpoint: Endpoint, database: str
) -> None:
    await run(
        postgres,
        database,
        "CREATE FUNCTION f(a int[], VARIADIC b text[]) RETURNS int LANGUAGE sql RETURN 1",
        "CREATE FUNCTION f() RETURNS int LANGUAGE sql RETURN 1",
        "CREATE PROCEDURE p(IN a int, OUT b int) LANGUAGE sql AS 'SELECT 1'",
        "CREATE AGGREGATE total(int) (SFUNC = int4pl, STYPE = int)",
        "CREATE AGGREGATE middle(float8 ORDER BY anyelement)"
        " (SFUNC = ordered_set_transition, STYPE = internal,"
        " FINALFUNC = percentile_disc_final, FINALFUNC_EXTRA)",
        "CREATE TYPE \"odd; type\" AS ENUM ('a')",
        'CREATE FUNCTION "x""; DROP ROLE y; --"("odd; type") RETURNS int LANGUAGE sql RETURN 1',
    )
    access = wanted("app", grant(database, "EXECUTE"))
    result = await sync(endpoint, access)
    assert result.problems == ()
    assert not (await sync(endpoint, access)).changed
    held = await fetch(
        postgres,
        database,
        "SELECT count(*) FROM pg_proc, aclexplode(proacl) a WHERE a.grantee = 'app'::regrole",
    )
    assert held == [(6,)]


async def test_public_is_reported_and_does_not_loop(
    postgres: EmbeddedPostgres, endpoint: Endpoint, database: str
) -> None:
    await sync(endpoint, wanted("app", grant(database, "CONNECT", "USAGE")))
    result = await sync(endpoint, wanted("app", grant(database, "USAGE")))
    assert result.warnings == [
        f"PUBLIC has CONNECT, TEMPORARY on database {database}, so this role has it too"
    ]
    again = await sync(endpoint, wanted("app", grant(database, "USAGE")))
    assert (again.changed, again.problems) == (False, ())


async def test_an_owners_own_privileges_are_left_alone(
    postgres: EmbeddedPostgres, endpoint: Endpoint, database: str
) -> None:
    await sync(endpoint, wanted("app", grant(database, "CREATE", "USAGE")))
    async with await login(postgres, "app", PASSWORD, database) as own:
        await own.execute("CREATE TABLE mine (id int)")
        await own.execute("GRANT SELECT ON mine TO PUBLIC")
    result = await sync(endpoint, wanted("app", grant(database, "SELECT")))
    assert result.problems == ()
    async with await login(postgres, "app", PASSWORD, database) as own:
        await own.execute("INSERT INTO mine VALUES (1)")
    assert not (await sync(endpoint, wanted("app", grant(database, "SELECT")))).changed


@pytest.mark.parametrize(
    ("privilege", "message"),
    [
        pytest.param("SET", "privilege on server parameters", id="set"),
        pytest.param("ALTER SYSTEM", "privilege on server parameters", id="alter-system"),
    ],
)
async def test_what_cannot_be_granted_does_not_stop_the_rest(
    postgres: EmbeddedPostgres, endpoint: Endpoint, database: str, privilege: str, message: str
) -> None:
    result = await sync(endpoint, wanted("app", grant(database, privilege, "CONNECT")))
    assert [problem.reason for problem in result.problems] == ["UnsupportedPrivilege"]
    assert message in str(result.problems[0])
    assert (f"database {database}", "CONNECT") in await privileges(postgres, database, "app")


async def test_a_missing_database_or_schema_is_named_and_awaited(
    postgres: EmbeddedPostgres, endpoint: Endpoint, admin: psycopg.AsyncConnection, database: str
) -> None:
    access = wanted("app", grant("later", "CONNECT"), grant(database, "USAGE", schema="not here"))
    result = await sync(endpoint, access)
    assert [problem.reason for problem in result.problems] == [
        "SchemaNotFound",
        "DatabaseNotFound",
    ]
    assert await can_login(postgres, "app", PASSWORD)
    await admin.execute("CREATE DATABASE later")
    await run(postgres, database, 'CREATE SCHEMA "not here"')
    assert (await sync(endpoint, access)).problems == ()
    assert ("database later", "CONNECT") in await privileges(postgres, "later", "app")


async def test_a_hostile_owner_bends_nothing(
    postgres: EmbeddedPostgres, endpoint: Endpoint, database: str, admin: psycopg.AsyncConnection
) -> None:
    await admin.execute("CREATE ROLE hostile")
    await run(
        postgres,
        database,
        "CREATE SCHEMA evil",
        "CREATE FUNCTION evil.unnest(text[]) RETURNS SETOF text LANGUAGE sql RETURN (1/0)::text",
        "CREATE FUNCTION evil.same(oid, oid) RETURNS bool LANGUAGE sql RETURN 1/0 = 1",
        "CREATE OPERATOR evil.= (LEFTARG = oid, RIGHTARG = oid, FUNCTION = evil.same)",
        "CREATE TABLE t (id int)",
        "ALTER DATABASE {d} SET search_path = evil, pg_catalog",
        "ALTER DATABASE {d} SET role = hostile",
        "ALTER DATABASE {d} SET statement_timeout = 1",
        "ALTER DATABASE {d} SET default_transaction_read_only = on",
        d=database,
    )
    endpoint = replace(endpoint, maintenance=database)
    result = await sync(endpoint, wanted("app", grant(database, "SELECT")))
    assert (result.problems, result.server.admin) == ((), "postgres")
    assert ("t", "SELECT") in await privileges(postgres, database, "app")


async def test_many_at_once_do_not_disturb_one_another(
    postgres: EmbeddedPostgres,
    endpoint: Endpoint,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # They stand in one line, which moves as fast as the machine does.
    monkeypatch.setattr(sync_module, "PATIENT", Patience(round(SECONDS * 1000)))
    monkeypatch.setattr(privileges_module, "PATIENT", Patience(round(SECONDS * 1000)))
    await run(postgres, database, "CREATE TABLE t (id int)")
    results = await asyncio.gather(
        *(
            sync(
                endpoint,
                wanted(
                    f"app{number}",
                    grant(database, "CONNECT", "SELECT"),
                    claimed=claim(f"access{number}"),
                ),
            )
            for number in range(6)
            for _replica in range(2)
        )
    )
    assert [problem for result in results for problem in result.problems] == []
    for number in range(6):
        assert len(await privileges(postgres, database, f"app{number}")) == 3


async def test_hostile_names_stay_names(
    postgres: EmbeddedPostgres, endpoint: Endpoint, admin: psycopg.AsyncConnection
) -> None:
    evil = "x'; DROP ROLE victim; --"
    worse = 'y"; DROP ROLE victim; --'
    await admin.execute("CREATE ROLE victim")
    await run(postgres, "postgres", "CREATE DATABASE {d}", d=evil)
    await run(postgres, evil, "CREATE SCHEMA {s}", "CREATE TABLE {s}.{s} (id int)", s=worse)
    access = wanted(
        worse,
        grant(evil, "CONNECT", "USAGE", "SELECT", schema=worse),
        claimed=claim(name=evil, namespace=worse),
    )
    result = await sync(endpoint, access)
    assert result.problems == ()
    assert "victim" in {name for name, *_ in await roles(postgres)}
    assert (worse, "SELECT") in await privileges(postgres, evil, worse)


async def test_an_administrator_without_superpowers(
    postgres: EmbeddedPostgres, modest: Endpoint, database: str
) -> None:
    await run(
        postgres, database, "SET ROLE modest", "CREATE SCHEMA s", "CREATE TABLE s.t (id int)"
    )
    access = wanted("app", grant(database, "CONNECT", "SELECT", schema="s"))
    result = await sync(modest, access)
    assert (result.problems, result.server.superuser) == ((), False)
    assert await can_login(postgres, "app", PASSWORD)
    before = await roles(postgres)
    assert not (await sync(modest, access)).changed
    assert await roles(postgres) == before
    await run(postgres, database, "ALTER ROLE app PASSWORD 'theirs'")
    assert (await sync(modest, access)).changed
    assert await can_login(postgres, "app", PASSWORD)


async def test_a_grant_that_does_nothing_is_found_out(
    postgres: EmbeddedPostgres, modest: Endpoint, database: str
) -> None:
    await run(
        postgres,
        database,
        "CREATE SCHEMA s",
        "CREATE TABLE s.t (id int)",
        "GRANT USAGE ON SCHEMA s TO modest WITH GRANT OPTION",
        "GRANT SELECT ON s.t TO modest",
    )
    result = await sync(modest, wanted("app", grant(database, "SELECT", schema="s")))
    assert "may not grant SELECT on table s.t (owner postgres)" in str(result.problems[0])


async def test_what_another_writer_takes_meanwhile_is_granted_again(
    postgres: EmbeddedPostgres, endpoint: Endpoint, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the removal of a group does, in which a role is by now."""
    write, written = sync_module._write, []

    async def disturbed(*given: Any) -> Any:
        done = await write(*given)
        written.append(True)
        if len(written) == 1:
            revoke = "REVOKE CONNECT ON DATABASE {d} FROM {r}"
            await run(postgres, "postgres", revoke, d=database, r="app")
        return done

    monkeypatch.setattr(sync_module, "_write", disturbed)
    result = await sync(endpoint, wanted("app", grant(database, "CONNECT")))
    assert result.problems == ()
    assert await privileges(postgres, database, "app") == {(f"database {database}", "CONNECT")}


async def test_a_revoke_that_does_nothing_is_found_out(
    postgres: EmbeddedPostgres, endpoint: Endpoint, database: str
) -> None:
    await run(
        postgres,
        database,
        "CREATE ROLE granter",
        "CREATE TABLE t (id int)",
        "GRANT DELETE ON t TO granter WITH GRANT OPTION",
    )
    access = wanted("app", grant(database, "SELECT"))
    await sync(endpoint, access)
    await run(postgres, database, "SET ROLE granter", "GRANT DELETE ON t TO app")
    result = await sync(endpoint, access)
    message = "cannot revoke DELETE on table public.t (granted by granter)"
    assert message in str(result.problems[0])


async def test_a_lock_that_is_held_is_waited_for_a_while(
    postgres: EmbeddedPostgres, endpoint: Endpoint, database: str
) -> None:
    await run(postgres, database, "CREATE TABLE t (id int)")
    access = wanted("app", grant(database, "SELECT"))
    async with (
        await login(postgres, "postgres", postgres.password, database) as holder,
        holder.transaction(),
    ):
        await holder.execute("LOCK TABLE t")
        result = await sync(endpoint, access)
        other = wanted("other", grant(database, "CONNECT"), claimed=claim("other"))
        assert (await sync(endpoint, other)).problems == ()
    assert [problem.reason for problem in result.problems] == ["Locked"]
    assert (await sync(endpoint, access)).problems == ()


async def test_the_claims_of_this_installation_are_listed(
    endpoint: Endpoint, admin: psycopg.AsyncConnection
) -> None:
    foreign = RoleClaim(installation="there", namespace="a", name="b", uid="c")
    await sync(endpoint, wanted("foreign", claimed=foreign))
    await sync(endpoint, wanted("first", claimed=claim("first")))
    await sync(endpoint, wanted("second", claimed=claim("second")))
    sessions = Sessions(endpoint)
    found = await find_drift(sessions, [], Verifiers(), "here")
    await sessions.close()
    assert found.claimed == {"first": claim("first"), "second": claim("second")}


async def test_a_profile_takes_from_public_what_it_says(
    postgres: EmbeddedPostgres, endpoint: Endpoint, admin: psycopg.AsyncConnection, database: str
) -> None:
    other = await create_database(admin)
    await run(postgres, database, "GRANT CREATE ON SCHEMA public TO PUBLIC")
    strict = replace(endpoint, revoke_public=frozenset({"CONNECT", "CREATE"}))
    access = wanted("app", grant(database, "CONNECT"))
    assert (await sync(endpoint, access)).changed
    assert (await sync(strict, access)).changed
    result = await sync(strict, access)
    assert not result.changed
    assert result.warnings == [
        f"PUBLIC has TEMPORARY on database {database}, so this role has it too"
    ]
    query = "SELECT has_database_privilege('stranger', %s, 'CONNECT')"
    await admin.execute("CREATE ROLE stranger LOGIN")
    assert await fetch(postgres, database, query, database) == [(False,)]
    assert await fetch(postgres, database, query, other) == [(True,)]
    creates = "SELECT has_schema_privilege('stranger', 'public', 'CREATE')"
    assert await fetch(postgres, database, creates) == [(False,)]
