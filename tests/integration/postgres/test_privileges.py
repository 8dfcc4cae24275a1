"""Privileges of many roles in one database, on real servers, by both kinds of administrator."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

import msgspec
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import sql
from tests.support.pgserver import endpoint_of, fetch, run
from tests.support.servers import Servers
from tests.support.tiers import VERSIONS, variant

from fairlead.api.meta import JSON
from fairlead.api.postgresaccess import Grant
from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.postgres import bounds
from fairlead.postgres.database.connections.login import connect
from fairlead.postgres.database.connections.session import Query, Row, Session
from fairlead.postgres.database.plans.approvals import Approval, part_of, window_parts
from fairlead.postgres.database.plans.differences import plan_privileges
from fairlead.postgres.database.plans.grants import desired_grants
from fairlead.postgres.database.reading.comparison import (
    Comparison,
    RoleGrants,
    left_out,
    read_differences,
    read_window,
)
from fairlead.postgres.database.work.privileges import PiecesTurn, RoleOutcome, settle


_numbers = itertools.count(1)


@pytest.fixture(params=VERSIONS)
def server(request: pytest.FixtureRequest, servers: Servers) -> EmbeddedPostgres:
    return servers.of(request.param)


class Counted(Session):
    """A session that counts what it is asked for."""

    def __init__(self, session: Session) -> None:
        super().__init__(session._connection)
        self.asked: list[str] = []

    async def exchange(self, *asked: Query) -> list[list[Row]]:
        self.asked += (query.as_string() for query, _ in asked)
        return await super().exchange(*asked)


@dataclass
class Place:
    """A database, and the administrator who works in it and owns it."""

    server: EmbeddedPostgres
    name: str
    admin: str
    session: Counted
    superuser: psycopg.AsyncConnection[tuple[Any, ...]]

    async def run(self, *statements: str, **names: str) -> None:
        """Statements of the superuser; ``{admin}`` is the administrator."""
        identifiers = {key: sql.Identifier(name) for key, name in names.items()}
        identifiers["admin"] = sql.Identifier(self.admin)
        try:
            for statement in statements:
                composed = sql.SQL(cast("Any", statement)).format(**identifiers)
                await self.superuser.execute(composed)
        finally:
            await self.superuser.execute("RESET ROLE")

    async def role(self, username: str, *fields: JSON, **more: Any) -> RoleGrants:
        """A role, made if it is not there, and what it asks for."""
        found = await self.fetch("SELECT oid::int8 FROM pg_roles WHERE rolname = %s", username)
        if not found:
            await self.run("CREATE ROLE {role}", role=username)
            return await self.role(username, *fields, **more)
        asked = [msgspec.convert({"database": self.name} | one, Grant) for one in fields]
        wanted = desired_grants(asked, self.session.server_version).of(self.name)
        return RoleGrants(oid=found[0][0], username=username, grants=wanted, **more)

    async def settle(self, *wanted: RoleGrants) -> dict[str, RoleOutcome]:
        return await settle(self.session, self.name, wanted, self.admin)

    async def settled(self, *wanted: RoleGrants) -> None:
        """It works without a problem, and the second time there is nothing to do."""
        assert _problems(await self.settle(*wanted)) == []
        self.session.asked.clear()
        again = await self.settle(*wanted)
        assert not any(outcome.changed or outcome.problems for outcome in again.values())
        assert len(self.session.asked) == 1

    async def fetch(self, query: str, *parameters: object) -> list[tuple[Any, ...]]:
        cursor = await self.superuser.execute(cast("Any", query), parameters or None)
        return await cursor.fetchall()

    async def held(self, username: str) -> set[str]:
        """``SELECT on t``; a star is the grant option."""
        rows = await self.fetch(
            """
            SELECT a.privilege_type || CASE WHEN a.is_grantable THEN '*' ELSE '' END, o.name
              FROM (
                SELECT 'schema ' || nspname AS name, nspacl AS acl FROM pg_namespace
                UNION ALL SELECT relname, relacl FROM pg_class
                UNION ALL SELECT c.relname || '.' || attname, attacl
                            FROM pg_attribute JOIN pg_class c ON c.oid = attrelid
                UNION ALL SELECT oid::regprocedure::text, proacl FROM pg_proc
                UNION ALL SELECT 'type ' || typname, typacl FROM pg_type
                UNION ALL SELECT concat('future ', defaclobjtype, ' of ', defaclrole::regrole),
                                 defaclacl FROM pg_default_acl
              ) o, aclexplode(o.acl) a
             WHERE a.grantee = (SELECT oid FROM pg_roles WHERE rolname = %s)
            """,
            username,
        )
        return {f"{privilege} on {name}" for privilege, name in rows}


def _problems(outcomes: dict[str, RoleOutcome]) -> list[str]:
    return [str(one) for outcome in outcomes.values() for one in outcome.problems]


@asynccontextmanager
async def _place(server: EmbeddedPostgres, admin: str, options: str = "") -> AsyncIterator[Place]:
    """A database of its own, with a schema s of the administrator's, and what is made there."""
    number = next(_numbers)
    name = f"app{number}"
    before = {role for (role,) in await fetch(server, "postgres", "SELECT oid FROM pg_roles")}
    endpoint = endpoint_of(server)
    if admin == "modest":
        await run(server, "postgres", "CREATE ROLE modest LOGIN CREATEROLE PASSWORD 'modest'")
        endpoint = endpoint_of(server, "modest", "modest")
    else:
        admin = server.username
    await run(
        server,
        "postgres",
        f"CREATE DATABASE {name} OWNER {admin} STRATEGY FILE_COPY {options}",
    )
    try:
        await run(server, name, f"CREATE SCHEMA s AUTHORIZATION {admin}", "CREATE ROLE stranger")
        async with (
            connect(endpoint, name) as session,
            await psycopg.AsyncConnection.connect(server.dsn(name), autocommit=True) as superuser,
        ):
            yield Place(server, name, admin, Counted(session), superuser)
    finally:
        await run(server, "postgres", "DROP DATABASE {name} WITH (FORCE)", name=name)
        roles = await fetch(server, "postgres", "SELECT rolname, oid FROM pg_roles")
        made = {f"r{oid}": role for role, oid in roles if oid not in before}
        for words in ("DROP OWNED BY", "DROP ROLE"):
            await run(server, "postgres", *(f"{words} {{{key}}}" for key in made), **made)


@pytest.fixture(
    params=[
        variant("administrator", "superuser"),
        pytest.param("modest", marks=pytest.mark.variant("administrator", "createrole")),
    ]
)
async def place(server: EmbeddedPostgres, request: pytest.FixtureRequest) -> AsyncIterator[Place]:
    async with _place(server, request.param) as made:
        yield made


@pytest.fixture
async def modest(server: EmbeddedPostgres) -> AsyncIterator[Place]:
    async with _place(server, "modest") as made:
        yield made


@pytest.fixture
async def own(server: EmbeddedPostgres) -> AsyncIterator[Place]:
    """The superuser's."""
    async with _place(server, "superuser") as made:
        yield made


OBJECTS = (
    "SET ROLE {admin}",
    "CREATE TABLE s.t (id int, a text, b text, n int GENERATED ALWAYS AS IDENTITY)",
    "CREATE TABLE s.u (id serial)",
    "CREATE VIEW s.v AS SELECT 1 AS one",
    "CREATE SEQUENCE s.q",
    "CREATE FUNCTION s.f() RETURNS int LANGUAGE sql RETURN 1",
    "CREATE FUNCTION s.f(a int, b text[]) RETURNS int LANGUAGE sql RETURN 1",
    "CREATE PROCEDURE s.p(INOUT a int) LANGUAGE sql AS 'SELECT 1'",
    "CREATE TYPE s.mood AS ENUM ('glad')",
    "CREATE FUNCTION s.g(s.mood[], varchar) RETURNS int LANGUAGE sql RETURN 1",
    "CREATE DOMAIN s.small AS int",
    "CREATE TYPE s.pair AS (a int, b int)",
    "CREATE TYPE s.span AS RANGE (subtype = int4)",
)


@pytest.mark.parametrize(
    ("fields", "held"),
    [
        pytest.param(
            {"on": "Schema", "privileges": ["ALL"], "grantOption": True},
            {"USAGE* on schema s", "CREATE* on schema s"},
            id="schema",
        ),
        pytest.param(
            {"on": "Tables", "privileges": ["SELECT"]},
            {"USAGE on schema s", "SELECT on t", "SELECT on u", "SELECT on v"},
            id="tables",
        ),
        pytest.param(
            {
                "on": "Tables",
                "names": ["t"],
                "privileges": ["SELECT", "INSERT"],
                "grantOption": True,
            },
            {"USAGE on schema s", "SELECT* on t", "INSERT* on t"},
            id="a-table-to-pass-on",
        ),
        pytest.param(
            {"on": "Tables", "names": ["t"], "columns": ["a", "b"], "privileges": ["ALL"]},
            {"USAGE on schema s"}
            | {
                f"{privilege} on t.{column}"
                for privilege in ("SELECT", "INSERT", "UPDATE", "REFERENCES")
                for column in "ab"
            },
            id="columns",
        ),
        pytest.param(
            {"on": "Sequences", "privileges": ["USAGE"]},
            {"USAGE on schema s", "USAGE on q", "USAGE on u_id_seq", "USAGE on t_n_seq"},
            id="sequences",
        ),
        pytest.param(
            {"on": "Routines", "privileges": ["ALL"]},
            {
                "USAGE on schema s",
                "EXECUTE on s.f()",
                "EXECUTE on s.f(integer,text[])",
                "EXECUTE on s.p(integer)",
                "EXECUTE on s.g(s.mood[],character varying)",
            },
            id="routines",
        ),
        pytest.param(
            {
                "on": "Routines",
                "names": ["f(int4, text[])", "g(mood[], varchar)"],
                "privileges": ["EXECUTE"],
            },
            {
                "USAGE on schema s",
                "EXECUTE on s.f(integer,text[])",
                "EXECUTE on s.g(s.mood[],character varying)",
            },
            id="signatures",
        ),
        pytest.param(
            {
                "on": "Routines",
                "names": ["f", "f()", "g(s.mood[], varchar)"],
                "privileges": ["ALL"],
            },
            {
                "USAGE on schema s",
                "EXECUTE on s.f()",
                "EXECUTE on s.f(integer,text[])",
                "EXECUTE on s.g(s.mood[],character varying)",
            },
            id="overloads",
        ),
        pytest.param(
            {"on": "Types", "privileges": ["USAGE"]},
            {"USAGE on schema s"}
            | {f"USAGE on type {name}" for name in ("mood", "small", "pair", "span")},
            id="types",
        ),
    ],
)
async def test_every_kind_of_object(place: Place, fields: JSON, held: set[str]) -> None:
    await place.run(*OBJECTS)
    await place.settled(await place.role("app", fields | {"schema": "s"}))
    assert await place.held("app") == held
    await place.settled(await place.role("app"))
    assert await place.held("app") == set()


async def test_bundles_work_now_and_later(place: Place) -> None:
    await place.run(*OBJECTS)
    await place.settled(
        await place.role("reader", {"access": "ReadOnly", "schema": "s"}),
        await place.role("writer", {"access": "ReadWrite", "schema": "s"}),
        await place.role("owner", {"access": "Owner", "schema": "s"}),
    )
    await place.run(
        "SET ROLE {admin}",
        "CREATE TABLE s.late (id serial)",
        "RESET ROLE",
        "SET ROLE reader",
        "SELECT FROM s.t, s.late",
        "SELECT last_value FROM s.late_id_seq",
        "RESET ROLE",
        "SET ROLE writer",
        "INSERT INTO s.late VALUES (DEFAULT)",
        "SELECT s.f()",
        "RESET ROLE",
        "SET ROLE owner",
        "TRUNCATE s.late",
        "CREATE TABLE s.own (a s.mood)",
    )
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        await place.run("SET ROLE reader", "INSERT INTO s.late VALUES (DEFAULT)")
    # What it owns itself is its own affair, and the others wait for nobody.
    again = await place.settle(await place.role("owner", {"access": "Owner", "schema": "s"}))
    assert _problems(again) == []


async def test_the_future_of_a_schema_is_its_owners(place: Place) -> None:
    """Of schema public, which is pg_database_owner's, that is the database's owner."""
    await place.settled(
        await place.role("app", {"privileges": ["SELECT"], "includeFuture": {}}),
        await place.role("other", {"privileges": ["SELECT"], "schema": "s", "includeFuture": {}}),
    )
    await place.run("SET ROLE {admin}", "CREATE TABLE public.a ()", "CREATE TABLE s.b ()")
    assert "SELECT on a" in await place.held("app")
    assert "SELECT on b" in await place.held("other")
    await place.settled(await place.role("app"), await place.role("other"))
    assert await place.fetch("SELECT FROM pg_default_acl") == []


async def test_the_future_of_one_schema_is_not_that_of_another(place: Place) -> None:
    """Be they of one creator, who may also have default privileges for every schema."""
    await place.run(
        "ALTER DEFAULT PRIVILEGES FOR ROLE {admin} GRANT SELECT ON TABLES TO stranger",
    )
    await place.settled(
        await place.role("app", {"privileges": ["SELECT"], "includeFuture": {}}),
        await place.role("other", {"privileges": ["INSERT"], "schema": "s", "includeFuture": {}}),
    )
    rows = await place.fetch(
        "SELECT COALESCE(n.nspname, ''), r.rolname, e.privilege_type"
        " FROM pg_default_acl d"
        " LEFT JOIN pg_namespace n ON n.oid = d.defaclnamespace,"
        " aclexplode(d.defaclacl) e"
        " JOIN pg_roles r ON r.oid = e.grantee WHERE e.grantee <> d.defaclrole ORDER BY 1"
    )
    assert rows == [
        ("", "stranger", "SELECT"),
        ("public", "app", "SELECT"),
        ("s", "other", "INSERT"),
    ]


async def test_the_future_of_each_creating_role(own: Place) -> None:
    await own.run("CREATE ROLE maker", "GRANT CREATE, USAGE ON SCHEMA s TO maker, stranger")
    future = {"ownedBy": ["maker", "stranger"]}
    await own.settled(
        await own.role(
            "app",
            {
                "on": "Sequences",
                "schema": "s",
                "privileges": ["ALL"],
                "includeFuture": future,
                "grantOption": True,
            },
        )
    )
    for creator in ("maker", "stranger"):
        await own.run(f"SET ROLE {creator}", f"CREATE SEQUENCE s.by_{creator}")
        assert f"USAGE* on by_{creator}" in await own.held("app")
    await own.settled(
        await own.role(
            "app",
            {
                "on": "Sequences",
                "schema": "s",
                "privileges": ["USAGE"],
                "includeFuture": {"ownedBy": ["maker"]},
            },
        )
    )
    assert await own.held("app") == {
        "USAGE on schema s",
        "USAGE on by_maker",
        "USAGE on by_stranger",
        "USAGE on future S of maker",
    }


async def test_a_creating_role_that_the_administrator_is_no_member_of(modest: Place) -> None:
    await modest.run("SET ROLE {admin}", "CREATE TABLE s.t (id int)")
    asked = {
        "schema": "s",
        "privileges": ["SELECT"],
        "includeFuture": {"ownedBy": ["stranger", "nobody"]},
    }
    for _ in range(2):
        outcomes = await modest.settle(await modest.role("app", asked))
        absent, refused = outcomes["app"].problems
        assert (absent.reason, refused.reason) == ("RoleNotFound", "InsufficientPrivilege")
        assert "role nobody" in absent.message
        assert "is not a member of stranger" in refused.message
        assert "future tables of stranger in schema s" in refused.message
        assert await modest.held("app") == {"USAGE on schema s", "SELECT on t"}
    await modest.run("GRANT stranger TO modest")
    outcomes = await modest.settle(await modest.role("app", asked))
    assert [problem.reason for problem in outcomes["app"].problems] == ["RoleNotFound"]


async def test_a_strangers_table_is_named_and_the_rest_granted(modest: Place) -> None:
    await modest.run(
        "SET ROLE {admin}",
        *(f"CREATE TABLE s.own{number} (id int)" for number in range(3)),
        "RESET ROLE",
        "CREATE TABLE s.theirs (id int)",
        "ALTER TABLE s.theirs OWNER TO stranger",
    )
    role = await modest.role("app", {"schema": "s", "privileges": ["SELECT", "INSERT"]})
    outcome = (await modest.settle(role))["app"]
    assert await modest.held("app") == {
        "USAGE on schema s",
        *(f"{name} on own{number}" for name in ("SELECT", "INSERT") for number in range(3)),
    }
    (problem,) = outcome.problems
    assert problem.reason == "InsufficientPrivilege"
    assert "modest may not grant INSERT, SELECT on table s.theirs (owner stranger)" in (
        problem.message
    )
    assert (outcome.changed, outcome.left) == (True, 2)
    modest.session.asked.clear()
    again = (await modest.settle(role))["app"]
    assert (again.changed, _problems({"app": again})) == (False, [str(problem)])
    assert len(modest.session.asked) == 1


_EXTENSION = (
    "SET ROLE {admin}",
    "CREATE TABLE s.own (id int)",
    "RESET ROLE",
    *(f"CREATE TABLE s.cloud{number} (id int)" for number in range(3)),
    "CREATE SEQUENCE s.counter",
    "CREATE FUNCTION s.locate() RETURNS int LANGUAGE sql RETURN 1",
    "REVOKE EXECUTE ON FUNCTION s.locate() FROM PUBLIC",
    *(f"ALTER EXTENSION plpgsql ADD TABLE s.cloud{number}" for number in range(3)),
    "ALTER EXTENSION plpgsql ADD SEQUENCE s.counter",
    "ALTER EXTENSION plpgsql ADD FUNCTION s.locate()",
)
"""Objects of an extension that another role owns, as a cloud's administrator does PostGIS's."""


@pytest.mark.parametrize(
    ("asked", "count", "left"),
    [
        pytest.param({"access": "ReadOnly"}, 4, "SELECT on table s.cloud0", id="read-only"),
        pytest.param(
            {"access": "ReadWrite"},
            5,
            "DELETE, INSERT, SELECT, UPDATE on table s.cloud0",
            id="read-write",
        ),
        pytest.param(
            {"privileges": ["SELECT"], "includeFuture": {}},
            3,
            "SELECT on table s.cloud0",
            id="include-future",
        ),
    ],
)
async def test_an_access_to_a_schema_is_complete_without_objects_of_extensions(
    modest: Place, asked: JSON, count: int, left: str
) -> None:
    await modest.run(*_EXTENSION)
    role = await modest.role("app", {"schema": "s", **asked})
    outcome = (await modest.settle(role))["app"]
    assert (_problems({"app": outcome}), outcome.unsettled) == ([], False)
    assert "SELECT on own" in await modest.held("app")
    remark = left_out(outcome.left_out, modest.name, modest.admin)
    assert f"{count} objects are left out in database {modest.name}, because modest" in remark
    assert f"{left} (owner postgres)" in remark
    await modest.settled(role)


async def test_an_object_that_a_grant_names_is_not_left_out(modest: Place) -> None:
    """Whether or not an extension has it, the grant asks for just this one."""
    await modest.run(*_EXTENSION, "CREATE TABLE s.theirs (id int)")
    named = {"schema": "s", "on": "Tables", "names": ["cloud1"], "privileges": ["SELECT"]}
    role = await modest.role("app", {"schema": "s", "access": "ReadOnly"}, named)
    outcome = (await modest.settle(role))["app"]
    (problem,) = outcome.problems
    assert "SELECT on table s.cloud1 (owner postgres)" in problem.message
    assert "SELECT on table s.theirs (owner postgres)" in problem.message
    assert "cloud0" not in problem.message
    await modest.run("GRANT SELECT ON s.cloud1, s.theirs TO PUBLIC")
    outcome = (await modest.settle(role))["app"]
    assert _problems({"app": outcome}) == []
    remark = left_out(outcome.left_out, modest.name, modest.admin)
    assert "5 objects are left out" in remark
    passed_on = await modest.role("app", {**named, "grantOption": True})
    (problem,) = (await modest.settle(passed_on))["app"].problems
    assert "may not grant SELECT on table s.cloud1 (owner postgres)" in problem.message


async def test_a_column_that_public_may_read_is_left_out(modest: Place) -> None:
    await modest.run("CREATE TABLE s.theirs (id int, name text)")
    asked = {"schema": "s", "on": "Tables", "names": ["theirs"], "columns": ["name"]}
    role = await modest.role("app", {**asked, "privileges": ["SELECT"]})
    assert "column s.theirs.name" in _problems(await modest.settle(role))[0]
    await modest.run("GRANT SELECT ON s.theirs TO PUBLIC")
    outcome = (await modest.settle(role))["app"]
    assert (_problems({"app": outcome}), len(outcome.left_out)) == ([], 1)


async def test_future_objects_of_an_extensions_schema_are_left_out(modest: Place) -> None:
    await modest.run(
        "CREATE SCHEMA layers",
        "CREATE TABLE layers.t (id int)",
        "ALTER EXTENSION plpgsql ADD SCHEMA layers",
        "ALTER EXTENSION plpgsql ADD TABLE layers.t",
        "GRANT USAGE ON SCHEMA layers TO PUBLIC",
    )
    role = await modest.role("app", {"schema": "layers", "access": "ReadOnly"})
    assert _problems(await modest.settle(role)) == []
    await modest.run("REVOKE USAGE ON SCHEMA layers FROM PUBLIC")
    (problem,) = _problems(await modest.settle(role))
    assert "USAGE on schema layers" in problem
    await modest.run(
        "GRANT USAGE ON SCHEMA layers TO PUBLIC", "ALTER EXTENSION plpgsql DROP SCHEMA layers"
    )
    (problem,) = _problems(await modest.settle(role))
    assert "default privileges" in problem


async def test_very_many_refusals_are_counted(modest: Place) -> None:
    await modest.run(*(f"CREATE TABLE s.t{number} (id int)" for number in range(40)))
    outcome = await modest.settle(
        await modest.role("app", {"schema": "s", "privileges": ["ALL"], "on": "Tables"})
    )
    (problem,) = outcome["app"].problems
    assert "table s.t0 (owner postgres)" in problem.message
    assert "and 3" in problem.message
    assert len(problem.message) < 900


async def test_a_privilege_that_somebody_else_granted(place: Place) -> None:
    await place.run(
        "SET ROLE {admin}",
        "CREATE TABLE s.t (id int)",
        "GRANT USAGE ON SCHEMA s TO stranger",
        "GRANT DELETE ON s.t TO stranger WITH GRANT OPTION",
    )
    role = await place.role("app", {"schema": "s", "privileges": ["SELECT"]})
    await place.settled(role)
    await place.run("SET ROLE stranger", "GRANT DELETE ON s.t TO app")
    for _ in range(2):
        place.session.asked.clear()
        (problem,) = (await place.settle(role))["app"].problems
        assert "cannot revoke DELETE on table s.t (granted by stranger)" in problem.message
        assert len(place.session.asked) == 1


async def test_rights_that_come_by_two_roles(modest: Place) -> None:
    """PostgreSQL grants as one role at a time."""
    await modest.run(
        "CREATE TABLE s.t (id int)",
        "CREATE ROLE reads ROLE modest",
        "CREATE ROLE writes ROLE modest",
        "GRANT SELECT ON s.t TO reads WITH GRANT OPTION",
        "GRANT INSERT ON s.t TO writes WITH GRANT OPTION",
    )
    asked = {"schema": "s", "privileges": ["SELECT", "INSERT"]}
    await modest.settled(await modest.role("app", asked))
    await modest.settled(await modest.role("app"))


async def test_what_was_passed_on_goes_with_the_right_to_pass_it_on(place: Place) -> None:
    await place.run("SET ROLE {admin}", "CREATE TABLE s.t (id int)")
    asked = {"schema": "s", "privileges": ["SELECT"]}
    await place.settled(await place.role("app", asked | {"grantOption": True}))
    await place.run("SET ROLE app", "GRANT SELECT ON s.t TO stranger")
    await place.settled(await place.role("app", asked))
    assert await place.held("app") == {"USAGE on schema s", "SELECT on t"}
    assert await place.held("stranger") == set()


async def test_columns_survive_that_the_table_is_revoked(place: Place) -> None:
    """PostgreSQL takes a privilege on a table from its columns too."""
    await place.run(*OBJECTS)
    table = {"on": "Tables", "schema": "s", "names": ["t"], "privileges": ["SELECT"]}
    await place.settled(await place.role("app", table, table | {"columns": ["a"]}))
    await place.settled(await place.role("app", table | {"columns": ["a"]}))
    assert await place.held("app") == {"USAGE on schema s", "SELECT on t.a"}


async def test_what_is_named_and_not_there(place: Place) -> None:
    await place.run(*OBJECTS)
    one = {"schema": "s", "privileges": ["ALL"]}
    role = await place.role(
        "app",
        one | {"on": "Tables", "names": ["t", "missing", "q"]},
        one | {"on": "Tables", "names": ["t"], "columns": ["a", "missing"]},
        one | {"on": "Routines", "names": ["f(text)", "p(int)"]},
        {"schema": "missing", "privileges": ["SELECT", "EXECUTE"], "includeFuture": {}},
    )
    schema, objects = (await place.settle(role))["app"].problems
    assert (schema.reason, objects.reason) == ("SchemaNotFound", "ObjectNotFound")
    for words in (
        f"table {place.name}.s.missing",
        f"table {place.name}.s.q",
        f"column {place.name}.s.t.missing",
        f"routine {place.name}.s.f(text)",
    ):
        assert words in objects.message
    assert "EXECUTE on s.p(integer)" in await place.held("app")


@pytest.mark.differs("version")
async def test_an_additive_access_revokes_what_it_granted_alone(place: Place) -> None:
    await place.run(*OBJECTS)
    await place.role("app")
    await place.run(
        "SET ROLE {admin}",
        "GRANT SELECT, DELETE ON s.u TO app",
        "GRANT USAGE ON TYPE s.mood TO app",
    )
    asked: list[JSON] = [
        {"schema": "s", "privileges": ["SELECT"]},
        {
            "schema": "s",
            "on": "Tables",
            "names": ["t"],
            "columns": ["a"],
            "privileges": ["UPDATE"],
        },
        {"schema": "s", "privileges": ["EXECUTE"], "includeFuture": {}},
    ]
    wanted = [msgspec.convert({"database": place.name} | one, Grant) for one in asked]
    ledger = frozenset(desired_grants(wanted, place.session.server_version).describe())
    more: dict[str, Any] = {"policy": "Additive", "ledger": ledger}
    await place.settled(await place.role("app", *asked, **more))
    kept = {"SELECT on u", "DELETE on u", "USAGE on type mood"}
    assert await place.held("app") > kept
    await place.settled(await place.role("app", **more))
    assert await place.held("app") == kept - {"SELECT on u"}
    await place.settled(await place.role("app"))
    assert await place.held("app") == set()


async def test_what_a_role_owns_and_what_everybody_has_is_no_difference(place: Place) -> None:
    await place.run(
        *OBJECTS,
        "GRANT SELECT ON s.t TO PUBLIC",
        "RESET ROLE",
        "CREATE ROLE app",
        "CREATE TABLE s.own (id int)",
        "ALTER TABLE s.own OWNER TO app",
        "GRANT SELECT ON s.own TO stranger",
        "ALTER DEFAULT PRIVILEGES FOR ROLE app GRANT SELECT ON TABLES TO PUBLIC",
    )
    await place.settled(
        await place.role(
            "app", {"schema": "s", "on": "Tables", "names": ["t", "own"], "privileges": ["SELECT"]}
        )
    )
    assert "SELECT on t" in await place.held("app")
    before = await place.held("app")
    assert {"DELETE on own", "SELECT on own"} <= before


@pytest.mark.only(version=15)
async def test_objects_of_extensions_count(own: Place) -> None:
    await own.run("CREATE EXTENSION IF NOT EXISTS plpgsql", "CREATE SCHEMA e")
    await own.run("CREATE EXTENSION pg_stat_statements SCHEMA e")
    await own.settled(await own.role("app", {"schema": "e", "privileges": ["SELECT", "EXECUTE"]}))
    assert "SELECT on pg_stat_statements" in await own.held("app")


@pytest.mark.differs("version")
async def test_global_default_privileges_are_revoked(own: Place) -> None:
    await own.role("app")
    await own.run(
        "ALTER DEFAULT PRIVILEGES FOR ROLE stranger GRANT SELECT ON TABLES TO app",
        "ALTER DEFAULT PRIVILEGES FOR ROLE stranger GRANT USAGE ON SCHEMAS TO app",
        "ALTER DEFAULT PRIVILEGES FOR ROLE app GRANT SELECT ON TABLES TO stranger",
    )
    if own.session.server_version >= 180000:
        await own.run("ALTER DEFAULT PRIVILEGES GRANT SELECT ON LARGE OBJECTS TO app")
    await own.settled(await own.role("app"))
    assert {one for one in await own.held("app") if not one.endswith("of app")} == set()
    assert await own.held("stranger") == {"SELECT on future r of app"}


async def test_many_roles_share_statements(place: Place) -> None:
    await place.run(
        *(f"CREATE TABLE s.t{number} (id int)" for number in range(30)),
        *(f"ALTER TABLE s.t{number} OWNER TO {{admin}}" for number in range(30)),
    )
    roles = [
        await place.role(f"app{number}", {"schema": "s", "privileges": ["SELECT", "INSERT"]})
        for number in range(12)
    ]
    assert _problems(await place.settle(*roles)) == []
    grants = [one for one in place.session.asked if one.startswith("GRANT")]
    assert len(grants) == 2
    assert grants[1].startswith('GRANT INSERT, SELECT ON TABLE "s"."t0", ')
    place.session.asked.clear()
    await place.settled(*roles[:-1], await place.role("app11"))
    assert await place.held("app11") == set()


async def test_a_role_that_is_gone_keeps_nobody_from_theirs(place: Place) -> None:
    await place.run("SET ROLE {admin}", "CREATE TABLE s.t (id int)")
    asked = {"schema": "s", "privileges": ["SELECT"]}
    gone = replace_role(await place.role("gone", asked), oid=1)
    renamed = replace_role(await place.role("was", asked), username="is")
    outcomes = await place.settle(gone, await place.role("app", asked), renamed)
    assert [outcomes[name].problems[0].reason for name in ("gone", "is")] == ["Conflict"] * 2
    assert await place.held("gone") == await place.held("was") == set()
    assert "SELECT on t" in await place.held("app")


def replace_role(role: RoleGrants, **changes: Any) -> RoleGrants:
    return msgspec.structs.replace(role, **changes)


@pytest.mark.parametrize(
    ("meanwhile", "hit", "message"),
    [
        pytest.param("DROP ROLE app7", {"app7"}, "was dropped meanwhile", id="a-role-goes"),
        pytest.param("DROP TABLE s.t7", set(), "", id="a-table-goes"),
        pytest.param("DROP SCHEMA s CASCADE", None, "does not exist", id="the-schema-goes"),
    ],
)
async def test_what_goes_between_reading_and_writing(
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
    meanwhile: str,
    hit: set[str] | None,
    message: str,
) -> None:
    await place.run("SET ROLE {admin}", *(f"CREATE TABLE s.t{n} (id int)" for n in range(10)))
    asked = {"schema": "s", "privileges": ["SELECT"]}
    roles = [await place.role(f"app{number}", asked) for number in range(10)]
    original = Session.run_all

    async def late(session: Session, *asked: Any) -> Any:
        monkeypatch.setattr(Session, "run_all", original)
        await place.run(meanwhile)
        return await original(session, *asked)

    monkeypatch.setattr(Session, "run_all", late)
    outcomes = await place.settle(*roles)
    hurt = {name for name, outcome in outcomes.items() if outcome.problems}
    assert hurt == ({role.username for role in roles} if hit is None else hit)
    assert all(message in problem for problem in _problems(outcomes))
    for name in outcomes.keys() - hurt:
        assert len(await place.held(name)) == (10 if "t7" in meanwhile else 11)


@pytest.mark.differs("version")
async def test_a_table_that_is_locked_keeps_nobody_from_theirs(own: Place) -> None:
    await own.run(*(f"CREATE TABLE s.t{number} (id int)" for number in range(5)))
    asked = {"schema": "s", "privileges": ["SELECT"]}
    roles = [await own.role(name, asked) for name in ("a", "b")]
    await own.session.run(sql.SQL("SET lock_timeout = '100ms'"))
    async with await psycopg.AsyncConnection.connect(own.server.dsn(own.name)) as holder:
        await holder.execute("LOCK TABLE s.t3")
        outcomes = await own.settle(*roles)
        for role in ("a", "b"):
            held = await own.held(role)
            assert {f"SELECT on t{number}" for number in (0, 1, 2, 4)} <= held
            if own.session.server_version >= 180000:  # older ones do not wait
                assert [one.reason for one in outcomes[role].problems] == ["Locked"]
                assert "SELECT on table s.t3" in outcomes[role].problems[0].message
    await own.settled(*roles)


@pytest.mark.extended
@pytest.mark.only(version=18)
async def test_too_many_grantees_of_one_table(own: Place) -> None:
    await own.run(
        "CREATE TABLE s.full (id int)",
        "CREATE TABLE s.other (id int)",
        "DO $$ BEGIN FOR n IN 1..2700 LOOP EXECUTE format('CREATE ROLE crowd%s', n);"
        " END LOOP; END $$",
    )
    rows = await own.fetch("SELECT rolname, oid::int8 FROM pg_roles WHERE rolname ~ '^crowd'")
    one = await own.role(
        "app", {"schema": "s", "on": "Tables", "names": ["full"], "privileges": ["SELECT"]}
    )
    crowd = [replace_role(one, username=name, oid=oid) for name, oid in rows]
    other = await own.role(
        "late", {"schema": "s", "on": "Tables", "names": ["other"], "privileges": ["SELECT"]}
    )
    outcomes = await own.settle(*crowd, other)
    reasons = {one.reason for outcome in outcomes.values() for one in outcome.problems}
    assert reasons == {"TooManyGrantees"}
    assert outcomes["late"].problems == ()
    assert "SELECT on other" in await own.held("late")
    granted = sum(not outcome.problems for outcome in outcomes.values())
    assert 1500 < granted < 2700


async def test_more_than_one_reading_gives_back(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    await place.run("SET ROLE {admin}", *(f"CREATE TABLE s.t{n} (id int)" for n in range(6)))
    monkeypatch.setattr(bounds, "DIFFERENCES", 3)
    monkeypatch.setattr(bounds, "ACL_OBJECTS", 4)
    asked = {"schema": "s", "privileges": ["SELECT", "INSERT"]}
    roles = [await place.role(name, asked) for name in ("a", "b", "c")]
    reading = await read_differences(place.session, place.name, roles)
    assert reading.cut == {"a", "b", "c"}
    await place.settled(*roles)
    for role in roles:
        assert len(await place.held(role.username)) == 13


_WIDE = ", ".join(f"c{number} int" for number in range(5))
_ALL = ", ".join(f"c{number}" for number in range(5))


async def test_columns_of_others_are_not_read(own: Place) -> None:
    """A tenant may give a million privileges on columns; the others are compared as before."""
    role = await own.role("app", {"schema": "s", "privileges": ["SELECT"]})
    await own.role("crowd")
    for number in range(20):
        await own.run(
            f"CREATE TABLE s.t{number} ({_WIDE})", f"GRANT SELECT ({_ALL}) ON s.t{number} TO crowd"
        )
    await own.run(f"GRANT INSERT ({_ALL}) ON s.t7 TO app")

    async def scanned() -> int:
        await own.session.rows(sql.SQL("SELECT pg_catalog.pg_stat_force_next_flush()"))
        ((count,),) = await own.fetch(
            "SELECT seq_tup_read FROM pg_stat_all_tables WHERE relid = 'pg_attribute'::regclass"
        )
        return int(count)

    before = await scanned()
    reading = await read_differences(own.session, own.name, [role])
    # A join with nothing reads one row to see that.
    assert await scanned() - before < 20
    revoked = [one for one in reading.differences["app"] if one.action == "revoke"]
    assert {one.objects.table for one in revoked} == {"t7"}
    assert len(revoked) == 5
    await own.settled(role)


async def test_columns_are_settled_in_pieces_each_committed(
    own: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "ACL_WINDOW", 10)
    for number in range(5):
        await own.run(f"CREATE TABLE s.t{number} ({_WIDE})")
    role = await own.role(
        "app",
        {
            "schema": "s",
            "on": "Tables",
            "names": ["t0", "t3"],
            "columns": ["c1"],
            "privileges": ["SELECT"],
        },
    )
    for number in range(5):
        await own.run(f"GRANT SELECT ({_ALL}) ON s.t{number} TO app")

    async def held() -> int:
        return len([one for one in await own.held("app") if "." in one])

    left = []
    while True:
        # Each turn is over after its first piece, as if the operator were killed there.
        turn = PiecesTurn(0)
        outcome = (await settle(own.session, own.name, [role], own.admin, turn=turn))["app"]
        left.append(await held())
        if not outcome.problems:
            break
        (problem,) = outcome.problems
        assert problem.reason == "Unfinished"
        # Beside the columns it holds the schema.
        assert f"{left[-1] + 1} objects and columns are left" in problem.message
        assert outcome.changed
        assert outcome.unsettled
    assert left == [25, 16, 8, 2]
    assert await own.held("app") >= {"SELECT on t0.c1", "SELECT on t3.c1"}
    await own.settled(role)


@pytest.mark.parametrize("window", [1000, 1])
async def test_what_was_not_approved_is_left(
    own: Place, monkeypatch: pytest.MonkeyPatch, window: int
) -> None:
    """Whatever came after the last look before the statements, in windows and without."""
    monkeypatch.setattr(bounds, "ACL_WINDOW", window)
    await own.run("CREATE TABLE s.a ()", "CREATE TABLE s.b ()", "CREATE TABLE s.c ()")
    role = await own.role(
        "app", {"schema": "s", "on": "Tables", "names": ["a"], "privileges": ["SELECT"]}
    )
    await own.run("GRANT SELECT ON s.b TO app")
    reading = await read_differences(own.session, own.name, [role])
    texts = [one.statement.as_string() for one in plan_privileges(reading.differences)]
    parts = [part_of(own.name, text) for text in texts]
    if window == 1:
        asked = Comparison(own.name, [role], own.session.server_version, window)
        while asked.go_on():
            seen = await read_window(own.session, asked)
            assert asked.end is not None
            parts += window_parts(own.name, "app", asked.end, plan_privileges(seen.differences))
    await own.run("GRANT INSERT ON s.c TO app")
    approval = Approval(parts=frozenset(parts))
    outcomes = await settle(own.session, own.name, [role], own.admin, approval=approval)
    assert {one.reason for one in outcomes["app"].problems} == {"Unapproved"}
    assert await own.held("app") == {"USAGE on schema s", "SELECT on a", "INSERT on c"}


async def test_objects_of_every_kind_are_settled_in_pieces(
    own: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tenant may give as many tables or routines as columns, each with another ACL."""
    monkeypatch.setattr(bounds, "ACL_WINDOW", 3)
    await own.run(*OBJECTS, *(f"CREATE TABLE s.t{number} ({_WIDE})" for number in range(6)))
    one = {"schema": "s", "privileges": ["SELECT"], "on": "Tables", "names": ["t2", "u"]}
    role = await own.role("app", one)
    await own.run(
        *(f"GRANT SELECT, INSERT ON s.t{number} TO app" for number in range(4)),
        "GRANT CREATE ON SCHEMA s TO app",
        "GRANT USAGE ON s.q TO app",
        "GRANT EXECUTE ON ROUTINE s.f(), s.f(int, text[]), s.p(int) TO app",
        "GRANT EXECUTE ON ROUTINE s.g(s.mood[], varchar) TO app",
        "GRANT USAGE ON TYPE s.mood, s.small TO app",
        "GRANT SELECT (c1, c2) ON s.t5 TO app",
        "ALTER DEFAULT PRIVILEGES IN SCHEMA s GRANT SELECT ON TABLES TO app",
        "ALTER DEFAULT PRIVILEGES GRANT EXECUTE ON ROUTINES TO app",
    )
    wished = {"USAGE on schema s", "SELECT on t2", "SELECT on u"}
    left = [len(await own.held("app") - wished)]
    assert left[0] > 15
    while True:
        turn = PiecesTurn(0)
        outcome = (await settle(own.session, own.name, [role], own.admin, turn=turn))["app"]
        left.append(len(await own.held("app") - wished))
        if not outcome.problems:
            break
        assert {one.reason for one in outcome.problems} == {"Unfinished"}
    # A piece takes at most two privileges on each of three objects.
    assert all(0 <= before - after <= 6 for before, after in itertools.pairwise(left))
    assert await own.held("app") == wished
    await own.settled(role)


async def test_a_locked_table_does_not_keep_the_pieces_after_it(
    own: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "ACL_WINDOW", 5)
    role = await own.role("app")
    for number in range(4):
        await own.run(f"CREATE TABLE s.t{number} ({_WIDE})")
    for number in range(4):
        await own.run(f"GRANT SELECT ({_ALL}) ON s.t{number} TO app")
    async with await psycopg.AsyncConnection.connect(own.server.dsn(own.name)) as holder:
        await holder.execute("LOCK TABLE s.t1")
        turn = PiecesTurn(60)
        outcome = (await settle(own.session, own.name, [role], own.admin, turn=turn))["app"]
    held = await own.held("app")
    assert {name.split(" on ")[1].split(".")[0] for name in held} <= {"t1"}
    assert {one.reason for one in outcome.problems} <= {"Locked"}


async def test_an_approved_piece_goes_as_a_whole_or_waits(
    own: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left of a piece would need another approval."""
    monkeypatch.setattr(bounds, "ACL_WINDOW", 10)
    role = await own.role("app")
    for number in range(4):
        await own.run(
            f"CREATE TABLE s.t{number} ({_WIDE})", f"GRANT SELECT ({_ALL}) ON s.t{number} TO app"
        )
    parts: list[str] = []
    asked = Comparison(own.name, [role], own.session.server_version, 10)
    while asked.go_on():
        seen = await read_window(own.session, asked)
        assert asked.end is not None
        parts += window_parts(own.name, "app", asked.end, plan_privileges(seen.differences))
    approval = Approval(parts=frozenset(parts))

    async def settled() -> RoleOutcome:
        found = await settle(own.session, own.name, [role], own.admin, approval=approval)
        return found["app"]

    async with await psycopg.AsyncConnection.connect(own.server.dsn(own.name)) as holder:
        # Its row of the catalog is held, on all versions.
        await holder.execute("GRANT INSERT (c0) ON s.t1 TO PUBLIC")
        outcome = await settled()
        await holder.rollback()
    assert {one.reason for one in outcome.problems} == {"Locked"}
    left = {name.split(" on ")[1].split(".")[0] for name in await own.held("app")}
    assert left == {"t0", "t1"}
    assert (await settled()).problems == ()
    assert await own.held("app") == set()


async def test_roles_take_turns_in_what_one_reading_gives_back(
    own: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"t{number}" for number in range(9)]
    await own.run(*(f"CREATE TABLE s.{name} (id int)" for name in names))
    monkeypatch.setattr(bounds, "DIFFERENCES", 10)
    one = {"on": "Tables", "schema": "s", "privileges": ["SELECT"]}
    greedy = await own.role("greedy", one | {"names": names})
    modest = [await own.role(name, one | {"names": ["t0"]}) for name in ("a", "b")]
    reading = await read_differences(own.session, own.name, [greedy, *modest])
    assert {name: len(found) for name, found in reading.differences.items()} == {
        "greedy": 6,
        "a": 2,
        "b": 2,
    }
    assert reading.cut == {"greedy"}
    await own.settled(greedy, *modest)


async def test_a_name_that_the_database_cannot_write_is_its_askers_problem(
    server: EmbeddedPostgres,
) -> None:
    latin = "ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
    async with _place(server, "superuser", latin) as place:
        await place.run("CREATE TABLE s.t (id int)")
        asked = {"schema": "s", "privileges": ["SELECT"]}
        roles = [await place.role(f"app{number}", asked) for number in range(5)]
        odd = await place.role("odd", {"schema": "☕", "privileges": ["SELECT"]})
        outcomes = await place.settle(*roles, odd)
        assert {name for name, outcome in outcomes.items() if outcome.problems} == {"odd"}
        assert "SELECT on t" in await place.held("app4")


ODD = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"])
    | st.sampled_from("\"';()-. \\%{}$"),
    min_size=1,
    max_size=15,
).filter(lambda name: not name.lower().startswith("pg_"))


@pytest.mark.extended
@given(ODD, ODD, ODD, ODD)
@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
async def test_odd_names_stay_names(
    own: Place, schema: str, table: str, column: str, username: str
) -> None:
    names = {"s": schema + "1", "t": table, "c": column, "r": username + "1"}
    await own.run("CREATE ROLE {r}", "CREATE SCHEMA {s}", **names)
    await own.run(
        "CREATE TABLE {s}.{t} ({c} int)",
        "CREATE SEQUENCE {s}.{q}",
        "CREATE DOMAIN {s}.{d} AS int",
        "CREATE FUNCTION {s}.{t}({s}.{d}) RETURNS int LANGUAGE sql RETURN 1",
        q=table + "2",
        d=table + "3",
        **names,
    )
    everything = [
        {"on": level, "schema": names["s"], "privileges": ["ALL"], "grantOption": True}
        for level in ("Schema", "Tables", "Sequences", "Routines", "Types")
    ]
    named: JSON = {"schema": names["s"], "privileges": ["ALL"], "on": "Tables", "names": [table]}
    before = await own.fetch("SELECT count(*) FROM pg_roles")
    await own.settled(
        await own.role(names["r"], *everything, named, named | {"columns": [column]})
    )
    assert len(await own.held(names["r"])) >= 15
    assert await own.fetch("SELECT count(*) FROM pg_roles") == before
    await own.settled(await own.role(names["r"]))
    assert await own.held(names["r"]) == set()
    await own.run("DROP SCHEMA {s} CASCADE", "DROP ROLE {r}", **names)


async def test_transient_errors_are_the_callers_to_retry(
    own: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    await own.run("CREATE TABLE s.t (id int)")
    role = await own.role("app", {"schema": "s", "privileges": ["SELECT"]})

    async def fail(_session: Session, *_asked: object) -> None:
        raise psycopg.errors.DeadlockDetected

    monkeypatch.setattr(Session, "run_all", cast("Any", fail))
    with pytest.raises(psycopg.errors.DeadlockDetected):
        await own.settle(role)
    monkeypatch.undo()
    assert await own.held("app") == set()
    await own.settled(role)
