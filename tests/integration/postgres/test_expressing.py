"""Grants that express what a role holds on a real server, and hold the same."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, cast

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import sql
from tests.integration.postgres.conftest import create_database
from tests.support.pgserver import run

from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.postgres.commands.expressing import (
    express,
    grants_problem,
)
from fairlead.postgres.database.connections.endpoint import Endpoint
from fairlead.postgres.database.connections.login import connect
from fairlead.postgres.database.plans.grants import desired_grants
from fairlead.postgres.database.reading.comparison import RoleGrants, read_differences
from fairlead.postgres.database.reading.holdings import read_holdings


_GRANTS = (
    *(
        f"GRANT {p} ON {t} TO r"
        for p in ("SELECT", "INSERT", "ALL")
        for t in ("s.a", "s.b", "s.v")
    ),
    "GRANT SELECT ON ALL TABLES IN SCHEMA s TO r",
    "GRANT SELECT ON ALL TABLES IN SCHEMA s TO r WITH GRANT OPTION",
    "GRANT DELETE ON s.a TO r WITH GRANT OPTION",
    "GRANT UPDATE (id, n) ON s.a TO r",
    "GRANT SELECT (n) ON s.a TO r WITH GRANT OPTION",
    "GRANT ALL ON SCHEMA s TO r",
    "GRANT CREATE ON SCHEMA public TO r WITH GRANT OPTION",
    "GRANT USAGE ON ALL SEQUENCES IN SCHEMA s TO r",
    "GRANT SELECT ON SEQUENCE s.q TO r",
    "GRANT EXECUTE ON FUNCTION s.f(int) TO r",
    "GRANT EXECUTE ON ALL ROUTINES IN SCHEMA s TO r",
    "GRANT EXECUTE ON PROCEDURE s.p(text[]) TO r WITH GRANT OPTION",
    "GRANT USAGE ON TYPE s.mood TO r",
    "GRANT USAGE ON TYPE s.mood, s.pair TO r",
    "ALTER DEFAULT PRIVILEGES IN SCHEMA s GRANT SELECT ON TABLES TO r",
    "ALTER DEFAULT PRIVILEGES FOR ROLE maker IN SCHEMA s GRANT ALL ON TABLES TO r",
    "ALTER DEFAULT PRIVILEGES IN SCHEMA s GRANT EXECUTE ON ROUTINES TO r WITH GRANT OPTION",
    "ALTER DEFAULT PRIVILEGES IN SCHEMA empty GRANT USAGE ON TYPES TO r",
    "ALTER TABLE s.b OWNER TO r",
    "REVOKE ALL ON ALL TABLES IN SCHEMA s FROM r",
)


@pytest.fixture
async def granted(
    postgres: EmbeddedPostgres, admin: psycopg.AsyncConnection
) -> AsyncIterator[psycopg.AsyncConnection]:
    """A database with objects of all kinds, and the superuser in it."""
    name = await create_database(admin)
    await run(
        postgres,
        name,
        "CREATE ROLE r LOGIN",
        "CREATE ROLE maker",
        "CREATE SCHEMA s",
        "CREATE SCHEMA empty",
        "GRANT USAGE ON SCHEMA s, public, empty TO r",
        "CREATE TABLE s.a (id int, n text)",
        "CREATE TABLE s.b (id int)",
        "CREATE VIEW s.v AS SELECT 1 AS one",
        "CREATE SEQUENCE s.q",
        "CREATE SEQUENCE s.z",
        "CREATE TYPE s.mood AS ENUM ('good')",
        "CREATE TYPE s.pair AS (a int)",
        "CREATE FUNCTION s.f(int) RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "CREATE FUNCTION s.f(int, s.mood) RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "CREATE PROCEDURE s.p(text[]) LANGUAGE sql AS 'SELECT 1'",
    )
    async with await psycopg.AsyncConnection.connect(
        postgres.dsn(name), autocommit=True
    ) as connection:
        yield connection


@pytest.mark.extended
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(chosen=st.lists(st.sampled_from(_GRANTS), max_size=8, unique=True))
async def test_whatever_was_granted_is_said(
    granted: psycopg.AsyncConnection, endpoint: Endpoint, chosen: list[str]
) -> None:
    try:
        for statement in chosen:
            await granted.execute(cast("Any", statement))
        await _check(endpoint, granted.info.dbname)
    finally:
        await granted.execute("REASSIGN OWNED BY r TO CURRENT_USER")
        await granted.execute("DROP OWNED BY r")
        await granted.execute("GRANT USAGE ON SCHEMA s, public, empty TO r")


async def _check(endpoint: Endpoint, database: str) -> None:
    async with connect(endpoint, database) as session:
        ((oid,),) = await session.rows(
            sql.SQL("SELECT oid::int8 FROM pg_catalog.pg_roles WHERE rolname = 'r'")
        )
        holdings = await read_holdings(session, roles=[oid], names=100)
        found = express(oid, database, {}, holdings.rows)
        assert grants_problem(found.grants) == ""
        desired = desired_grants(found.grants, session.server_version).of(database)
        role = RoleGrants(
            oid=oid,
            username="r",
            grants=desired,
            policy="Additive" if found.left else "Authoritative",
        )
        reading = await read_differences(session, database, [role])
        assert (reading.differences, reading.absent) == ({}, {})
