"""``fairlead postgres import`` on real servers: what it makes can be adopted without a change."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import cast

import pytest
import yaml
from tests.e2e.postgres.rows.test_commands_plan import around, plan_files, plan_of, ran
from tests.e2e.postgres.rows.test_commands_plan import statements as statements_of
from tests.support.team import Team

from fairlead.api.meta import JSON
from fairlead.api.postgresaccess import POSTGRESACCESSES, ROTATE_ANNOTATION
from fairlead.api.postgresaccess.controller import CONTROLLERS
from fairlead.api.resource import SECRETS
from fairlead.cli.postgresaccess.importing import text_of
from fairlead.postgres.commands.audit import audit
from fairlead.postgres.commands.importing import Imported, ImportReport, import_roles
from fairlead.postgres.commands.plan import IN_SYNC
from fairlead.postgres.options import DEFAULT_NAMESPACE


@pytest.fixture
async def lenient(team: Team) -> AsyncIterator[Team]:
    """An operator that lets roles be members of any other."""
    body: JSON = {
        "apiVersion": CONTROLLERS.api_version,
        "kind": CONTROLLERS.kind,
        "metadata": {"name": "lenient", "namespace": DEFAULT_NAMESPACE},
        "spec": {"settings": {"postgres": {"allowedMemberOf": ["*"]}}},
    }
    await team.client.create(CONTROLLERS, body)
    yield team
    await team.client.delete(CONTROLLERS, "lenient", DEFAULT_NAMESPACE)


async def imported(team: Team, *names: str, claiming: bool = True) -> ImportReport:
    return await import_roles(
        await around(team), team.server, team.namespace, names, claiming=claiming
    )


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


async def test_the_plan_of_an_import_is_empty(lenient: Team) -> None:
    team = lenient
    role, readers = team.name("Hand Made"), team.name("readers")
    statements = [one.format(role=role, database=team.database) for one in HELD]
    await by_hand(
        team,
        role,
        f'CREATE ROLE "{readers}"',
        f'GRANT "{readers}" TO "{role}"',
        *statements,
        f"COMMENT ON ROLE \"{role}\" IS 'of sales\nask Kim'",
    )
    before = await team.privileges(role), await shared(team, role)
    (one,) = (await imported(team, role)).accesses
    assert one.comments == ()
    assert one.claimed
    body = manifest_of(one, team)
    spec = body["spec"]
    assert "grantsPolicy" not in spec
    assert spec["adoptionPolicy"] == "IfUnclaimed"
    assert spec["passwordPolicy"] == {"onAdoption": "Keep"}
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

    planned = await plan_files(team, body)
    assert statements_of(planned) == []
    assert (planned.problems, planned.exit_code) == ((), IN_SYNC)

    name = body["metadata"]["name"]
    await team.client.create(POSTGRESACCESSES, body)
    found = await team.ready(name)
    assert "binding" not in found["status"]
    assert "secret" not in found["status"]
    assert "rotate-at" in found["status"]["warnings"][0]
    assert await team.secrets() == []
    assert ran(team, role) == []
    assert (await team.privileges(role), await shared(team, role)) == before
    assert await comment(team, role) == ["of sales", "ask Kim"]
    assert (await plan_of(team, name)).exit_code == IN_SYNC
    assert await team.can_login(role, "hand", team.database)
    async with team.unwritten():
        await team.stands_still()
    await team.removed(name)
    await team.build(f'DROP ROLE "{readers}"')


async def comment(team: Team, role: str) -> list[str]:
    """What a role's comment says below its claim."""
    query = """SELECT pg_catalog.shobj_description(oid, 'pg_authid')
                 FROM pg_catalog.pg_roles WHERE rolname = %s"""
    ((text,),) = cast("list[tuple[str]]", await team.sql(query, values=(role,)))
    claim, *note = text.split("\n")
    assert claim.startswith("managed by Fairlead: {")
    return note


async def test_a_role_that_was_imported_gets_a_password_when_one_is_asked_for(team: Team) -> None:
    role = team.name("hand")
    await by_hand(team, role, f"COMMENT ON ROLE \"{role}\" IS 'of sales'")
    (one,) = (await imported(team, role)).accesses
    name = one.manifest["metadata"]["name"]
    await team.client.create(POSTGRESACCESSES, one.manifest)
    await team.ready(name)
    asked = {"metadata": {"annotations": {ROTATE_ANNOTATION: "now"}}}
    await team.client.merge_patch(POSTGRESACCESSES, name, team.namespace, asked)
    found = await team.wait(name, lambda body: "binding" in body["status"])
    assert found["status"]["binding"]["name"] == one.manifest["spec"]["generatedSecret"]
    async with team.login(name):
        pass
    assert not await team.can_login(role, "hand", team.database)
    # By now the claim is the object's own, and still below it what people wrote.
    assert await comment(team, role) == ["of sales"]
    assert (await plan_of(team, name)).exit_code == IN_SYNC
    await team.abandon(name)
    await team.delete(name)
    await team.gone(name)
    assert await team.role_exists(role)
    await team.sql("DROP OWNED BY {r}", "DROP ROLE {r}", r=role)


async def test_the_password_that_a_role_has_can_be_given(team: Team) -> None:
    role = team.name("hand")
    # Where verifiers cannot be read, the operator logs in to see.
    await by_hand(team, role, f'GRANT CONNECT ON DATABASE "{team.database}" TO "{role}"')
    (one,) = (await imported(team, role)).accesses
    body, name = one.manifest, one.manifest["metadata"]["name"]
    given: JSON = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "known", "namespace": team.namespace},
        "stringData": {"password": "hand"},
    }
    await team.client.create(SECRETS, given)
    body["spec"]["passwordSecretRef"] = {"name": "known"}
    assert statements_of(await plan_files(team, body)) == []
    await team.client.create(POSTGRESACCESSES, body)
    found = await team.ready(name)
    assert not any("rotate-at" in line for line in found["status"]["warnings"])
    assert ran(team, role) == []
    assert (await team.secret(name))["password"] == "hand"
    await team.removed(name)


async def test_an_adopted_role_keeps_the_password_of_its_own_secret(team: Team) -> None:
    """access-operator made role and Secret: without a label, and the status has no password."""
    role = team.name("hand")
    await by_hand(team, role, f'GRANT CONNECT ON DATABASE "{team.database}" TO "{role}"')
    (one,) = (await imported(team, role)).accesses
    body, name = one.manifest, one.manifest["metadata"]["name"]
    body["spec"]["suspend"] = True
    await team.client.create(POSTGRESACCESSES, body)
    found = await team.client.get(POSTGRESACCESSES, name, team.namespace)
    secret: JSON = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": body["spec"]["generatedSecret"],
            "namespace": team.namespace,
            "ownerReferences": [
                {
                    "apiVersion": POSTGRESACCESSES.api_version,
                    "kind": POSTGRESACCESSES.kind,
                    "name": name,
                    "uid": found.meta.uid,
                    "controller": True,
                }
            ],
        },
        "stringData": {"username": role, "password": "hand"},
    }
    await team.client.create(SECRETS, secret)
    await team.patch(name, suspend=False)
    ready = await team.ready(name)
    assert ready["status"]["binding"]["name"] == secret["metadata"]["name"]
    assert not any("rotate-at" in line for line in ready["status"].get("warnings", []))
    assert (await team.secret(name))["password"] == "hand"
    assert await team.can_login(role, "hand", team.database)
    await team.removed(name)


async def test_a_role_that_shall_keep_its_password_is_not_made(team: Team) -> None:
    name = await team.create(passwordPolicy={"onAdoption": "Keep"})
    await team.fails(
        name, "role " + name + " does not exist, and with spec.passwordPolicy.onAdoption"
    )
    assert await team.secrets() == []
    await team.build(f"CREATE ROLE \"{name}\" LOGIN PASSWORD 'hand'")
    await team.poke()
    await team.fails(name, "Fairlead did not create it")
    await team.delete(name)
    await team.gone(name)
    await team.sql("DROP ROLE {r}", r=name)


async def test_a_dry_run_leaves_the_server_as_it_is(team: Team) -> None:
    role = team.name("hand")
    await by_hand(team, role)
    async with dropped(team, role):
        before = await team.xid()
        (one,) = (await imported(team, role, claiming=False)).accesses
        assert await team.xid() == before
        assert not one.claimed
        assert "Adoption will write" in text_of(one, team.server)
        planned = await plan_files(team, one.manifest)
        assert [(one.reason) for one in planned.problems] == ["AdoptionRefused"]


async def test_what_was_imported_waits_for_its_object(team: Team) -> None:
    """It is no leftover, and can be imported again for another one."""
    role, other = team.name("hand"), "elsewhere"
    await by_hand(team, role)
    async with dropped(team, role):
        (first,) = (await imported(team, role)).accesses
        await team.create("busy")
        await team.ready(team.name("busy"))
        await team.cycles()
        assert await team.can_login(role, "hand", team.database)
        (found,) = (await audit(await around(team), team.server, [role])).roles
        assert found.kind == "imported"
        look = await around(team)
        (second,) = (await import_roles(look, team.server, other, [role])).accesses
        assert second.claimed
        planned = await plan_files(team, first.manifest)
        assert [one.reason for one in planned.problems] == ["UsernameConflict"]
        assert statements_of(await plan_files(team, second.manifest)) == []


async def test_an_import_claims_nothing_that_others_have(team: Team) -> None:
    role = team.name("hand")
    await by_hand(team, role)
    (one,) = (await imported(team, role)).accesses
    await team.client.create(POSTGRESACCESSES, one.manifest)
    await team.ready(one.manifest["metadata"]["name"])
    (left,) = (await imported(team, role)).skipped
    assert left.why == "a PostgresAccess of this cluster claims it already"
    await team.removed(one.manifest["metadata"]["name"])


async def shared(team: Team, role: str) -> list[object]:
    """The rows of the shared catalogs that grants and attributes would write, with versions."""
    queries = [
        "SELECT rolconnlimit, rolinherit, rolvaliduntil::text FROM pg_roles WHERE rolname = %s",
        """SELECT d.xmin::text, d.datacl::text FROM pg_database d, pg_roles r
            WHERE r.rolname = %s AND d.datname = current_database()""",
        """SELECT m.xmin::text FROM pg_auth_members m JOIN pg_roles r ON r.oid = m.member
            WHERE r.rolname = %s""",
        """SELECT s.xmin::text, s.setconfig FROM pg_db_role_setting s
             JOIN pg_roles r ON r.oid = s.setrole WHERE r.rolname = %s""",
    ]
    return [await team.sql(query, values=(role,)) for query in queries]


async def test_what_grants_cannot_say_is_left_alone(team: Team) -> None:
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


async def test_what_public_has_on_a_schema_is_not_granted_anew(team: Team) -> None:
    """As on schema public, where every database lets everybody in."""
    role = team.name("open")
    await by_hand(
        team, role, "CREATE SCHEMA s", "GRANT USAGE ON SCHEMA s TO PUBLIC",
        "CREATE TABLE s.t (id int)", f'GRANT SELECT ON s.t TO "{role}"',
        "CREATE TABLE public.u (id int, n int)", f'GRANT UPDATE (n) ON public.u TO "{role}"',
    )  # fmt: skip
    async with dropped(team, role):
        (one,) = (await imported(team, role)).accesses
        assert one.comments == ()
        assert all(grant["schemaUsage"] is False for grant in one.manifest["spec"]["grants"])
        assert statements_of(await plan_files(team, one.manifest)) == []


async def test_an_adoption_that_changes_something_says_so(team: Team) -> None:
    role = team.name("open")
    await by_hand(team, role, f'GRANT CONNECT ON DATABASE "{team.database}" TO "{role}"')
    closed = team.name("closed")
    await team.offer(closed, revokePublic=["TEMPORARY"])
    async with dropped(team, role):
        report = await import_roles(await around(team), closed, "x", [role])
        (one,) = report.accesses
        (comment_,) = one.comments
        assert comment_.startswith("Adoption would also run: REVOKE TEMPORARY ON DATABASE")


async def test_roles_that_cannot_be_adopted_are_skipped_and_said_why(team: Team) -> None:
    claimed = await team.create()
    await team.ready(claimed)
    mighty, group = team.name("mighty"), team.name("group")
    await team.sql("CREATE ROLE {m} LOGIN CREATEROLE", "CREATE ROLE {g}", m=mighty, g=group)
    try:
        report = await imported(team, claiming=False)
        named = await imported(team, group, "no-such-role", "pg_monitor")
    finally:
        await team.sql("DROP ROLE {m}", "DROP ROLE {g}", m=mighty, g=group)
    why = {one.role: one.why for one in report.skipped}
    assert why[claimed] == "a PostgresAccess of this cluster claims it already"
    assert why[mighty] == "it has CREATEROLE"
    admin = team.administrator.username
    assert why[admin] == "it is the administrator itself"
    assert "SUPERUSER" in why["postgres"] or admin == "postgres"
    assert {claimed, mighty, admin}.isdisjoint(one.role for one in report.accesses)
    assert any("allowAdoption" in note for note in report.notes) or not report.accesses
    why = {one.role: one.why for one in named.skipped}
    assert why == {
        group: "it may not log in",
        "no-such-role": "there is no such role",
        "pg_monitor": "it may not log in",
    }


@pytest.mark.differs("version", "administrator")
async def test_a_role_that_the_administrator_may_not_change_is_not_claimed(team: Team) -> None:
    """Since PostgreSQL 16 a role's maker alone may, unless a superuser is asked."""
    role = team.name("theirs")
    await team.sql("CREATE ROLE {r} LOGIN", r=role)
    ((version,),) = await team.sql("SHOW server_version_num")
    may = team.superuser or int(version) < 160000
    async with dropped(team, role):
        report = await imported(team, role)
        (one,) = report.accesses
        assert one.claimed is may
        said = [note for note in report.notes if "not claimed" in note]
        assert (
            len(said) == len([line for line in one.comments if "would fail" in line]) == (not may)
        )


async def test_parameters_that_make_another_role_of_it_are_left(team: Team) -> None:
    role = team.name("setting")
    await by_hand(team, role, f'ALTER ROLE "{role}" SET role = none')
    async with dropped(team, role):
        (one,) = (await imported(team, role)).accesses
        assert "attributes" not in one.manifest["spec"]
        assert "Attributes are left as they are" in one.comments[0]
