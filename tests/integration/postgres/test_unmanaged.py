"""A zoo of roles, read from servers of each version: which of them ``unmanagedUsers`` means."""

from __future__ import annotations

from collections.abc import AsyncIterator

import psycopg
import pytest
from tests.support.pgserver import DROP_UNMANAGED as DROP
from tests.support.pgserver import claim, endpoint_of, run, sweep
from tests.support.servers import Servers
from tests.support.tiers import VERSIONS

from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.postgres.database.connections.login import connect
from fairlead.postgres.database.work.unmanaged import read_logins, unmanaged


@pytest.fixture(params=VERSIONS)
def server(request: pytest.FixtureRequest, servers: Servers) -> EmbeddedPostgres:
    return servers.of(request.param)


@pytest.fixture(autouse=True)
async def _zoo(server: EmbeddedPostgres) -> AsyncIterator[None]:
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        for statement in ZOO:
            admin.execute(statement)
    yield
    await sweep(server)


ZOO = (
    "CREATE ROLE modest LOGIN CREATEROLE PASSWORD 'modest'",
    "CREATE ROLE grp",
    "CREATE ROLE streamer LOGIN REPLICATION",
    "CREATE ROLE boss LOGIN SUPERUSER",
    "CREATE ROLE rds_something LOGIN",
    "CREATE ROLE reporting LOGIN",
    "CREATE ROLE backup_daily LOGIN",
    "CREATE ROLE reader LOGIN",
    "GRANT reporting TO reader",
    "CREATE ROLE app LOGIN",
    "CREATE ROLE stray LOGIN",
    "CREATE ROLE granted LOGIN",
    "GRANT grp TO granted",
    "CREATE ROLE parent LOGIN",
    "CREATE ROLE child LOGIN",
    "GRANT parent TO child",
    "CREATE ROLE claimed LOGIN",
    "COMMENT ON ROLE claimed IS '" + claim().text() + "'",
    "CREATE ROLE told LOGIN",
    "COMMENT ON ROLE told IS 'the reporting team'",
    "CREATE ROLE tables LOGIN",
    "CREATE ROLE databases LOGIN",
    "CREATE DATABASE elsewhere",
    "CREATE DATABASE owned OWNER databases",
)


@pytest.mark.parametrize("superuser", [True, False], ids=["superuser", "modest"])
async def test_of_a_zoo_of_roles_only_strays_are_unmanaged(
    server: EmbeddedPostgres, superuser: bool
) -> None:
    await run(
        server, "elsewhere", "CREATE TABLE IF NOT EXISTS t ()", "ALTER TABLE t OWNER TO tables"
    )
    endpoint = endpoint_of(server) if superuser else endpoint_of(server, "modest", "modest")
    async with connect(endpoint, "postgres") as session:
        found = await read_logins(session)
        names = {role.name for role in found}
        assert {"stray", "boss", "modest"} <= names
        assert "grp" not in names
        assert unmanaged(found, {"app"}, DROP) == ["child", "granted", "stray", "told"]


async def test_the_administrator_s_own_membership_in_what_it_made_counts_for_nothing(
    server: EmbeddedPostgres,
) -> None:
    """Since PostgreSQL 16 whoever creates a role without being a superuser is a member of it."""
    with psycopg.connect(server.dsn("postgres", "modest", "modest"), autocommit=True) as modest:
        modest.execute("CREATE ROLE made LOGIN")
        try:
            endpoint = endpoint_of(server, "modest", "modest")
            async with connect(endpoint, "postgres") as session:
                assert "made" in unmanaged(await read_logins(session), (), DROP)
        finally:
            modest.execute("DROP ROLE made")
