"""``fairlead postgres import`` on real servers: what it makes can be adopted without a change."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import pytest
import yaml
from tests.e2e.postgres.test_commands_plan import around, plan_files, plan_of, ran
from tests.e2e.postgres.test_commands_plan import statements as statements_of
from tests.support.team import Team

from fairlead.api.meta import JSON
from fairlead.api.postgresaccess import POSTGRESACCESSES
from fairlead.api.postgresaccess.controller import CONTROLLERS
from fairlead.cli.postgresaccess.importing import text_of
from fairlead.postgres.commands.importing import Imported, ImportReport, import_roles
from fairlead.postgres.commands.plan import IN_SYNC
from fairlead.postgres.options import DEFAULT_NAMESPACE


@pytest.fixture
async def adopting(team: Team) -> AsyncIterator[Team]:
    """An operator that adopts roles, and lets them be members of any other."""
    body: JSON = {
        "apiVersion": CONTROLLERS.api_version,
        "kind": CONTROLLERS.kind,
        "metadata": {"name": "adopting", "namespace": DEFAULT_NAMESPACE},
        "spec": {"settings": {"postgres": {"allowAdoption": True, "allowedMemberOf": ["*"]}}},
    }
    await team.client.create(CONTROLLERS, body)
    yield team
    await team.client.delete(CONTROLLERS, "adopting", DEFAULT_NAMESPACE)


async def imported(team: Team, *names: str) -> ImportReport:
    return await import_roles(await around(team), team.server, team.namespace, names)


def manifest_of(one: Imported, team: Team) -> JSON:
    """As a person would apply it: through YAML, with its comments."""
    found: JSON = yaml.safe_load(text_of(one, team.server))
    assert found == one.manifest
    return found


async def by_hand(team: Team, role: str, *statements: str) -> None:
    """A role of the administrator's own making: since PostgreSQL 16 others may not change it."""
    await team.build(
        f"CREATE ROLE \"{role}\" LOGIN PASSWORD 'hand' CONNECTION LIMIT 7", *statements
    )


@contextlib.asynccontextmanager
async def dropped(team: Team, *roles: str) -> AsyncIterator[None]:
    try:
        yield
    finally:
        for role in roles:
            await team.sql("DROP OWNED BY {r}", "DROP ROLE {r}", r=role)


HELD = (
    "CREATE SCHEMA s",
    "CREATE TABLE s.a (id int, n text)",
    "CREATE TABLE s.b (id int)",
    "CREATE VIEW s.v AS SELECT 1 AS one",
    "CREATE SEQUENCE s.q",
    "CREATE SEQUENCE s.r",
    "CREATE TYPE s.mood AS ENUM ('good')",
    "CREATE FUNCTION s.f(int, text) RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "CREATE FUNCTION s.f(int) RETURNS int LANGUAGE sql AS 'SELECT 1'",
    'GRANT CONNECT ON DATABASE "{database}" TO "{role}"',
    'GRANT TEMPORARY ON DATABASE "{database}" TO "{role}" WITH GRANT OPTION',
    'GRANT USAGE ON SCHEMA s, public TO "{role}"',
    'GRANT SELECT ON ALL TABLES IN SCHEMA s TO "{role}"',
    'GRANT INSERT, DELETE ON s.a TO "{role}" WITH GRANT OPTION',
    'GRANT DELETE ON s.b TO "{role}"',
    'GRANT UPDATE (n), REFERENCES (id) ON s.a TO "{role}"',
    'GRANT USAGE ON SEQUENCE s.q TO "{role}"',
    'GRANT EXECUTE ON FUNCTION s.f(int, text) TO "{role}"',
    'GRANT USAGE ON TYPE s.mood TO "{role}"',
    'ALTER DEFAULT PRIVILEGES IN SCHEMA s GRANT SELECT ON TABLES TO "{role}"',
    'ALTER ROLE "{role}" SET search_path = s, public',
    "ALTER ROLE \"{role}\" SET work_mem = '8MB'",
    "ALTER ROLE \"{role}\" VALID UNTIL '2099-01-01'",
)


async def test_an_adoption_grants_and_revokes_nothing(adopting: Team) -> None:
    team = adopting
    role, readers = team.name("Hand Made"), team.name("readers")
    statements = [one.format(role=role, database=team.database) for one in HELD]
    await by_hand(
        team, role, f'CREATE ROLE "{readers}"', f'GRANT "{readers}" TO "{role}"', *statements
    )
    before = await team.privileges(role), await shared(team, role)
    (one,) = (await imported(team, role)).accesses
    assert one.comments == ()
    body = manifest_of(one, team)
    spec = body["spec"]
    assert "grantsPolicy" not in spec
    assert spec["adoptionPolicy"] == "IfUnclaimed"
    assert spec["attributes"] == {
        "connectionLimit": 7,
        "validUntil": "2099-01-01T00:00:00Z",
        "config": {"search_path": "s, public", "work_mem": "8MB"},
    }
    assert spec["memberOf"] == [{"role": readers}]
    tables = [grant for grant in spec["grants"] if grant["on"] == "Tables"]
    assert tables[0]["privileges"] == ["SELECT"]
    assert "names" not in tables[0]
    assert tables[0]["includeFuture"] == {"ownedBy": [team.administrator.username]}
    assert {"database": team.database, "schema": "s", "on": "Routines"} | {
        "names": ["f(integer, text)"],
        "privileges": ["EXECUTE"],
    } in spec["grants"]

    planned = statements_of(await plan_files(team, body))
    assert [text.partition(' "')[0] for text in planned] == ["ALTER ROLE", "COMMENT ON ROLE"]
    assert planned[0] == f"ALTER ROLE \"{role}\" PASSWORD '***'"

    name = body["metadata"]["name"]
    await team.client.create(POSTGRESACCESSES, body)
    await team.ready(name)
    assert ran(team, role) == []
    assert (await team.privileges(role), await shared(team, role)) == before
    assert (await plan_of(team, name)).exit_code == IN_SYNC
    async with team.login(name) as session:
        await session.execute("SELECT FROM s.a")
    await team.removed(name)
    await team.build(f'DROP ROLE "{readers}"')


async def shared(team: Team, role: str) -> list[object]:
    """The rows of the shared catalogs that grants and attributes would write, with versions."""
    queries = [
        "SELECT rolconnlimit, rolinherit, rolvaliduntil FROM pg_roles WHERE rolname = %s",
        """SELECT d.xmin::text, d.datacl::text FROM pg_database d, pg_roles r
            WHERE r.rolname = %s AND d.datname = current_database()""",
        """SELECT m.xmin::text FROM pg_auth_members m JOIN pg_roles r ON r.oid = m.member
            WHERE r.rolname = %s""",
        """SELECT s.xmin::text, s.setconfig FROM pg_db_role_setting s
             JOIN pg_roles r ON r.oid = s.setrole WHERE r.rolname = %s""",
    ]
    return [await team.sql(query, values=(role,)) for query in queries]


async def test_what_grants_cannot_say_is_left_alone(adopting: Team) -> None:
    team = adopting
    role = team.name("odd")
    await by_hand(
        team,
        role,
        "CREATE TABLE t (id int)",
        f'GRANT USAGE ON SCHEMA public TO "{role}"',
        f'ALTER DEFAULT PRIVILEGES GRANT INSERT ON TABLES TO "{role}"',
        f'ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT UPDATE ON TABLES TO "{role}"',
    )
    (one,) = (await imported(team, role)).accesses
    body = manifest_of(one, team)
    assert body["spec"]["grantsPolicy"] == "Additive"
    text = "\n".join(one.comments)
    assert "INSERT on future table" in text
    assert "in every schema" in text
    assert "UPDATE on future tables" in text
    assert "Adoption" not in text
    query = "SELECT defaclacl::text FROM pg_catalog.pg_default_acl ORDER BY 1"
    before = await team.sql(query)
    await team.client.create(POSTGRESACCESSES, body)
    await team.ready(one.manifest["metadata"]["name"])
    assert await team.sql(query) == before
    await team.removed(one.manifest["metadata"]["name"])


async def test_an_adoption_that_changes_something_says_so(adopting: Team) -> None:
    """USAGE on a schema comes with whatever is granted in it; here it was PUBLIC's alone."""
    team = adopting
    role = team.name("open")
    await by_hand(
        team, role, "CREATE SCHEMA s", "GRANT USAGE ON SCHEMA s TO PUBLIC",
        "CREATE TABLE s.t (id int)", f'GRANT SELECT ON s.t TO "{role}"',
    )  # fmt: skip
    async with dropped(team, role):
        (one,) = (await imported(team, role)).accesses
        assert one.comments == (f'Adoption would also run: GRANT USAGE ON SCHEMA "s" TO "{role}"',)


async def test_roles_that_cannot_be_adopted_are_skipped_and_said_why(team: Team) -> None:
    claimed = await team.create()
    await team.ready(claimed)
    mighty, group = team.name("mighty"), team.name("group")
    await team.sql("CREATE ROLE {m} LOGIN CREATEROLE", "CREATE ROLE {g}", m=mighty, g=group)
    try:
        report = await imported(team)
        named = await imported(team, group, "no-such-role", "pg_monitor")
    finally:
        await team.sql("DROP ROLE {m}", "DROP ROLE {g}", m=mighty, g=group)
    why = {one.role: one.why for one in report.skipped}
    assert why[claimed] == "a PostgresAccess of this cluster claims it already"
    assert why[mighty] == "it has CREATEROLE"
    admin = team.administrator.username
    assert why[admin] == "it is the administrator's own"
    assert "SUPERUSER" in why["postgres"] or admin == "postgres"
    assert {claimed, mighty, admin}.isdisjoint(one.role for one in report.accesses)
    assert any("allowAdoption" in note for note in report.notes) or not report.accesses
    why = {one.role: one.why for one in named.skipped}
    assert why == {
        group: "it may not log in",
        "no-such-role": "there is no such role",
        "pg_monitor": "it may not log in",
    }


async def test_parameters_that_make_another_role_of_it_are_left(team: Team) -> None:
    role = team.name("setting")
    await by_hand(team, role, f'ALTER ROLE "{role}" SET role = none')
    async with dropped(team, role):
        (one,) = (await imported(team, role)).accesses
        assert "attributes" not in one.manifest["spec"]
        assert "Attributes are left as they are" in one.comments[0]
