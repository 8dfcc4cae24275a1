"""``fairlead postgres plan`` on real servers: it tells what is done, and does nothing."""

from __future__ import annotations

import uuid
from typing import Any

import msgspec
import pytest
import yaml
from tests.support.postgres import access
from tests.support.team import Team

from fairlead.api.meta import JSON
from fairlead.api.postgresaccess import POSTGRESACCESSES, ROTATE_ANNOTATION
from fairlead.postgres.commands.accesses import Given, as_applied, given_of, read_manifests
from fairlead.postgres.commands.plan import CHANGES, FAILED, IN_SYNC, PlanReport, plan
from fairlead.postgres.commands.surroundings import Surroundings
from fairlead.postgres.options import DEFAULT_NAMESPACE


async def around(team: Team) -> Surroundings:
    return await Surroundings.of(team.client, DEFAULT_NAMESPACE)


async def plan_files(team: Team, *bodies: JSON) -> PlanReport:
    look = await around(team)
    manifests = read_manifests(yaml.safe_dump_all(bodies).encode(), team.namespace)
    return await plan(look, await as_applied(look, manifests.accesses))


async def plan_of(team: Team, *names: str) -> PlanReport:
    found = [await team.client.get(POSTGRESACCESSES, name, team.namespace) for name in names]
    return await plan(await around(team), map(given_of, found))


def statements(report: PlanReport, database: str = "") -> list[str]:
    return [
        one.sql
        for server in report.servers
        for there in server.databases
        for one in there.statements
        if database in {"", there.database}
    ]


GRANTS: list[JSON] = [
    {"schema": "s", "access": "ReadWrite"},
    {"schema": "s", "on": "Tables", "names": ["t"], "columns": ["id"], "privileges": ["UPDATE"]},
    {"schema": "s", "on": "Types", "privileges": ["USAGE"]},
    {"schema": "s", "on": "Routines", "names": ["f(int)"], "privileges": ["EXECUTE"]},
    {"schema": "public", "privileges": ["CREATE"], "grantOption": True},
]


async def objects(team: Team) -> None:
    await team.build(
        "CREATE SCHEMA s",
        "CREATE TABLE s.t (id int, name text)",
        "CREATE VIEW s.v AS SELECT 1 AS one",
        "CREATE SEQUENCE s.q",
        "CREATE TYPE s.mood AS ENUM ('good')",
        "CREATE FUNCTION s.f(int) RETURNS int LANGUAGE sql AS 'SELECT 1'",
    )


async def test_a_plan_for_a_new_role_is_whole_and_is_what_is_done(team: Team) -> None:
    await objects(team)
    grants = [{"database": team.database, **one} for one in GRANTS]
    name = team.name()
    body = access(
        name,
        team.namespace,
        team.server,
        grants=grants,
        attributes={"connectionLimit": 3, "config": {"search_path": "s, public"}},
    )
    before = await team.roles()
    planned = await plan_files(team, body)
    assert await team.roles() == before
    assert planned.problems == ()
    assert planned.exit_code == CHANGES
    texts = statements(planned)
    assert texts[0] == f"CREATE ROLE \"{name}\" LOGIN PASSWORD '***' CONNECTION LIMIT 3"
    assert f'GRANT USAGE ON TYPE "s"."mood" TO "{name}"' in texts
    assert f'GRANT UPDATE ("id") ON TABLE "s"."t" TO "{name}"' in texts
    assert not any("SCRAM" in text for text in texts)
    assert all(
        one.reason and one.accesses == (f"{team.namespace}/{name}",)
        for server in planned.servers
        for database in server.databases
        for one in database.statements
    )

    again = await plan_files(team, body)
    assert statements(again) == texts

    await team.client.create(POSTGRESACCESSES, body)
    await team.ready(name)
    # A superuser keeps statements with passwords, and what goes with them, out of the log.
    assert sorted(ran(team, name)) == sorted(statements(planned, team.database))

    in_sync = await plan_of(team, name)
    assert (statements(in_sync), in_sync.problems) == ([], ())
    assert in_sync.exit_code == IN_SYNC
    applied = await plan_files(team, body)
    assert applied.exit_code == IN_SYNC


def ran(team: Team, name: str) -> list[str]:
    """The statements about privileges in a database in the server's log that name a role."""
    words = ("GRANT", "REVOKE", "ALTER DEFAULT")
    found = []
    for line in team.postgres.log().splitlines():
        _, mark, text = line.partition("execute <unnamed>: ")
        if mark and text.startswith(words) and f'"{name}"' in text and " ON DATABASE " not in text:
            found.append(text)
    return found


async def test_drift_is_planned_and_not_mended(team: Team) -> None:
    await team.build("CREATE TABLE t (id int)", "CREATE TABLE u (id int)")
    name = await team.create(grants=[team.grant("SELECT")])
    await team.ready(name)
    await team.patch(name, suspend=True)
    await team.ready(name)
    await team.build(f'GRANT INSERT ON t TO "{name}"', f'REVOKE SELECT ON u FROM "{name}"')
    skipped = await plan_of(team, name)
    assert skipped.exit_code == IN_SYNC
    assert "suspend" in skipped.skipped[0].why
    body = (await team.client.get(POSTGRESACCESSES, name, team.namespace)).to_dict()
    body["spec"]["suspend"] = False
    planned = await plan_files(team, body)
    assert statements(planned) == [
        f'REVOKE INSERT ON TABLE "public"."t" FROM "{name}"',
        f'GRANT SELECT ON TABLE "public"."u" TO "{name}"',
    ]
    reasons = [one.reason for one in planned.servers[0].databases[0].statements]
    assert reasons == [
        "it is there, and no grant in spec.grants asks for it",
        "spec.grants ask for it, and it is not there",
    ]
    assert planned.exit_code == CHANGES


async def test_a_suspended_access_is_refused_as_the_operator_does(team: Team) -> None:
    name = await team.create(username="excluded", suspend=True)
    await team.fails(name, "UserExcluded")
    look = await around(team)
    # The operator of these tests has it from a flag, which no command can read.
    look.settings = msgspec.structs.replace(look.settings, excluded_users=("excluded",))
    found = await team.client.get(POSTGRESACCESSES, name, team.namespace)
    planned = await plan(look, [given_of(found)])
    assert [one.reason for one in planned.problems] == ["UserExcluded"]
    assert (planned.skipped, planned.exit_code) == ((), FAILED)


@pytest.mark.differs("administrator")
async def test_rights_that_are_missing_come_with_what_gives_them(team: Team) -> None:
    other = f"other_{uuid.uuid4().hex[:8]}"
    await team.sql(
        "CREATE ROLE {o}", "CREATE SCHEMA s AUTHORIZATION {o}", "CREATE TABLE s.t (id int)",
        "ALTER TABLE s.t OWNER TO {o}", o=other,
    )  # fmt: skip
    body = access(
        team.name(),
        team.namespace,
        team.server,
        grants=[{"database": team.database, "schema": "s", "privileges": ["SELECT"]}],
    )
    planned = await plan_files(team, body)
    if team.superuser:
        assert (planned.problems, planned.servers[0].remedies) == ((), ())
        return
    assert {one.reason for one in planned.problems} == {"InsufficientPrivilege"}
    assert planned.exit_code == FAILED
    (database,) = planned.servers[0].remedies
    (remedy,) = database.statements
    assert database.database == team.database
    assert remedy.sql.startswith(f'GRANT "{other}" TO "operator"')
    await team.sql(remedy.sql)
    healed = await plan_files(team, body)
    assert healed.problems == ()
    assert f'GRANT SELECT ON TABLE "s"."t" TO "{team.name()}"' in statements(healed)


async def test_one_username_is_planned_once(team: Team) -> None:
    bodies = [
        access(name, team.namespace, team.server, username="shared")
        for name in ("first", "second")
    ]
    planned = await plan_files(team, *bodies)
    assert [one.reason for one in planned.problems] == ["UsernameConflict"]
    assert planned.problems[0].access.endswith("/second")
    assert len([one for one in statements(planned) if one.startswith("CREATE")]) == 1


@pytest.mark.differs("administrator")
async def test_what_is_refused_is_a_problem_and_the_rest_is_planned(team: Team) -> None:
    good = access("good", team.namespace, team.server)
    missing = access("missing", team.namespace, "no-such-server")
    named = access("named", team.namespace, team.server, username="postgres")
    absent = access(
        "absent", team.namespace, team.server, grants=[team.grant("SELECT", schema="x")]
    )
    pointed = access("pointed", team.namespace, team.server, generatedSecret="../x")
    given = access("given", team.namespace, team.server, passwordSecretRef={"name": "../x"})
    own = access("own", team.namespace, team.server, passwordSecretRef={"name": "own-login"})
    planned = await plan_files(team, good, missing, named, absent, pointed, given, own)
    found = {one.access.partition("/")[2]: one.reason for one in planned.problems}
    assert found == {
        "missing": "ServerNotFound",
        "named": "UserReserved" if team.superuser else "AdoptionRefused",
        "absent": "SchemaNotFound",
        "pointed": "NameInvalid",
        "given": "NameInvalid",
        "own": "PasswordInvalid",
    }
    assert any(text.startswith('CREATE ROLE "good"') for text in statements(planned))
    assert planned.exit_code == FAILED


async def test_a_password_that_is_due_is_planned_as_the_operator_plans_it(team: Team) -> None:
    name = await team.create()
    await team.ready(name)
    await team.patch(name, approval="Manual")
    await team.ready(name)
    asked = {"metadata": {"annotations": {ROTATE_ANNOTATION: "now"}}}
    await team.client.merge_patch(POSTGRESACCESSES, name, team.namespace, asked)
    found = await team.wait(name, lambda body: body["status"]["plan"].get("total", 0) > 0)
    planned = await plan_of(team, name)
    (digest,) = planned.servers[0].digests.values()
    assert found["status"]["plan"]["digest"] == digest
    assert "PASSWORD '***'" in statements(planned)[0]


async def test_the_digest_of_an_approval_is_the_operators(team: Team) -> None:
    await team.build("CREATE TABLE t (id int)")
    name = await team.create(grants=[team.grant("SELECT")], approval="Manual")
    body = await team.fails(name, "ApprovalPending")
    planned = await plan_of(team, name)
    (digest,) = planned.servers[0].digests.values()
    assert f"={digest}" in body
    await team.client.merge_patch(
        POSTGRESACCESSES,
        name,
        team.namespace,
        {"metadata": {"annotations": {"access.k8s.delta10.nl/approve": digest}}},
    )
    await team.ready(name)
    assert (await plan_of(team, name)).exit_code == IN_SYNC


async def test_claims_are_compared_without_the_key_and_the_installation(team: Team) -> None:
    name = await team.create()
    await team.ready(name)
    found = given_of(await team.client.get(POSTGRESACCESSES, name, team.namespace))
    look = await around(team)
    blind = Surroundings(team.client, look.settings, "", b"")
    assert (await plan(blind, [found])).exit_code == IN_SYNC


async def test_a_server_that_is_away_is_told_for_each_of_its_accesses(team: Team) -> None:
    away = f"away-{team.id}"
    await team.offer(away, port=1)
    try:
        bodies = [access(name, team.namespace, away) for name in ("one", "two")]
        planned = await plan_files(team, *bodies, access("good", team.namespace, team.server))
    finally:
        await team.client.delete(_servers(), away)
    assert [one.reason for one in planned.problems] == ["ConnectionFailed"] * 2
    assert statements(planned)


def _servers() -> Any:
    from fairlead.api.postgresaccess.server import POSTGRESSERVERS

    return POSTGRESSERVERS


async def test_nothing_to_plan_is_in_sync(team: Team) -> None:
    assert (await plan(await around(team), list[Given]())).exit_code == IN_SYNC
