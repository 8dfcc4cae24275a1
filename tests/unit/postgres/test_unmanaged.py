"""What ``unmanagedUsers: Drop`` may drop: nothing that anything speaks for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from tests.support.servers import VERSIONS, embedded, started
from tests.unit.postgres.helpers import claim, endpoint_of, run

from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.postgres.database.connections.session import connect
from fairlead.postgres.database.work.unmanaged import LoginFacts, read_logins, unmanaged, why_kept
from fairlead.postgres.options import PostgresOptions


DROP = PostgresOptions(
    unmanaged_users="Drop", excluded_users=("reporting",), excluded_user_patterns=("backup_*",)
)


@pytest.mark.parametrize(
    ("name", "facts", "reason"),
    [
        pytest.param("stray", {}, "", id="nothing-speaks-for-it"),
        pytest.param("stray", {"login": False}, "is no login", id="group"),
        pytest.param("stray", {"ours": True}, "is the operator's own", id="ours"),
        pytest.param("stray", {"superuser": True}, "is a superuser", id="superuser"),
        pytest.param("stray", {"replication": True}, "may replicate", id="replication"),
        pytest.param("stray", {"createrole": True}, "may create roles", id="createrole"),
        pytest.param("stray", {"claimed": True}, "is claimed", id="another-installation"),
        pytest.param("stray", {"members": True}, "has members", id="members"),
        pytest.param("stray", {"owns": True}, "owns something", id="owner"),
        pytest.param(
            "stray", {"groups": ["x", "reporting"]}, "belongs to an excluded role", id="belonging"
        ),
        pytest.param("stray", {"groups": ["x"]}, "", id="belonging-elsewhere"),
        pytest.param("app", {}, "is asked for", id="wanted"),
        pytest.param("App", {}, "", id="case-counts"),
        pytest.param("reporting", {}, "is excluded", id="excluded"),
        pytest.param("backup_daily", {}, "is excluded", id="excluded-by-pattern"),
        pytest.param("pg_something", {}, "is reserved", id="postgresql-s"),
        pytest.param("rdsadmin", {}, "is reserved", id="amazon-s"),
        pytest.param("cloudsqlimportexport", {}, "is reserved", id="google-s"),
        pytest.param("azuresu", {}, "is reserved", id="microsoft-s"),
        pytest.param("streaming_replica", {}, "is reserved", id="cloudnativepg-s"),
    ],
)
def test_what_speaks_for_a_role(name: str, facts: dict[str, Any], reason: str) -> None:
    role = LoginFacts(name=name, **facts)
    found = why_kept(role, {"app"}, DROP)
    assert found.startswith(reason)
    assert bool(found) is bool(reason)
    assert unmanaged([role], {"app"}, DROP) == ([] if reason else [name])


@pytest.mark.parametrize("policy", ["Report", "Owned"])
def test_nothing_is_unmanaged_unless_that_is_asked_for(policy: Any) -> None:
    settings = PostgresOptions(unmanaged_users=policy)
    assert unmanaged([LoginFacts(name="stray")], (), settings) == []


@pytest.fixture(scope="module", params=VERSIONS)
def server(request: pytest.FixtureRequest) -> Iterator[EmbeddedPostgres]:
    for one in started(embedded(request.param)):
        with psycopg.connect(one.dsn(), autocommit=True) as admin:
            for statement in ZOO:
                admin.execute(statement)
        yield one


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
