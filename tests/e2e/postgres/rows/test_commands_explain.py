"""``fairlead postgres explain`` on real servers: how far, who is in the way, what is next."""

from __future__ import annotations

import pytest
from tests.e2e.postgres.rows.test_commands_plan import around
from tests.support.postgres import access
from tests.support.team import Team
from tests.support.waiting import eventually

from fairlead.api.links import LinkName
from fairlead.api.postgresaccess import POSTGRESACCESSES, ROTATE_ANNOTATION
from fairlead.api.postgresaccess.server import POSTGRESSERVERS
from fairlead.api.resource import SECRETS
from fairlead.postgres.commands.explain import AccessExplanation, explain
from fairlead.postgres.database.plans.attributes import GRANT_OPTIONS_VERSION


async def explained(team: Team, name: str) -> AccessExplanation:
    return await explain(await around(team), name, team.namespace)


def states(found: AccessExplanation) -> dict[LinkName, str]:
    return {step.name: step.state for step in found.steps}


def step(found: AccessExplanation, name: LinkName) -> tuple[str, str]:
    (one,) = (step for step in found.steps if step.name == name)
    return one.reason, one.message


async def test_an_access_that_is_ready(team: Team) -> None:
    await team.build("CREATE TABLE t (id int)")
    name = await team.create(grants=[team.grant("SELECT")])
    await team.ready(name)
    found = await explained(team, name)
    assert (found.ready, found.next_step, found.notes) == (True, "", ())
    assert set(states(found).values()) == {"ok"}


async def test_drift_is_not_ready(team: Team) -> None:
    await team.build("CREATE TABLE t (id int)")
    name = await team.create(grants=[team.grant("SELECT")])
    await team.ready(name)
    await team.patch(name, suspend=True)
    await team.ready(name)
    await team.build(f'REVOKE SELECT ON t FROM "{name}"')
    found = await explained(team, name)
    assert not found.ready
    assert step(found, "grants") == ("", f"1 statement to run in {team.database}")
    assert found.next_step == "set spec.suspend to false"


async def test_a_parameter_that_the_server_refuses(team: Team) -> None:
    name = await team.create(attributes={"config": {"work_mem": "a lot"}})
    await team.fails(name, "AttributeInvalid")
    found = await explained(team, name)
    assert (found.ready, found.reason) == (False, "AttributeInvalid")
    assert "spec.attributes.config.work_mem" in found.message
    assert states(found)["object"] == "failed"
    assert found.next_step == "correct the field that the message names"


async def test_a_username_that_another_access_holds(team: Team) -> None:
    holder = await team.create("holder", username=team.name("shared"))
    await team.ready(holder)
    late = await team.create("late", username=team.name("shared"))
    await team.fails(late, "UsernameConflict")
    found = await explained(team, late)
    assert found.reason == "UsernameConflict"
    (rival,) = found.in_the_way
    assert rival.name == f"{team.namespace}/{holder}"
    assert rival.how == "holds the username"
    assert step(found, "role")[0] == "UsernameConflict"
    assert states(found)["grants"] == "unknown"
    assert "another spec.username" in found.next_step


async def test_a_role_that_was_made_by_hand(team: Team) -> None:
    role = team.name("hand")
    await team.sql("CREATE ROLE {r} LOGIN", r=role)
    name = await team.create(username=role)
    await team.fails(name, "AdoptionRefused")
    found = await explained(team, name)
    assert found.reason == "AdoptionRefused"
    assert found.in_the_way == ()
    assert "adoptionPolicy" in found.next_step
    await team.sql("DROP ROLE {r}", r=role)


async def test_a_secret_that_is_anothers(team: Team) -> None:
    name = team.name()
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": f"{name}-login", "namespace": team.namespace},
    }
    await team.client.create(SECRETS, body)
    await team.create()
    await team.fails(name, "SecretConflict")
    found = await explained(team, name)
    assert found.reason == "SecretConflict"
    assert [(one.kind, one.name) for one in found.in_the_way] == [("Secret", f"{name}-login")]
    assert "generatedSecret" in found.next_step


async def test_what_keeps_a_deletion_waiting(team: Team) -> None:
    second = await team.create_database(f"more_{team.id}")
    name = await team.create()
    await team.ready(name)
    for database in (team.database, second):
        await team.sql(
            "CREATE TABLE kept (id int)",
            "ALTER TABLE kept OWNER TO {r}",
            database=database,
            r=name,
        )
    await team.delete(name)
    await team.fails(name, "OwnsObjects")
    found = await explained(team, name)
    assert {one.database: one.objects for one in found.blockers} == {
        team.database: ("table public.kept",),
        second: ("table public.kept",),
    }
    assert step(found, "role")[0] == "OwnsObjects"
    assert "may not log in any more" in step(found, "role")[1]
    assert "REASSIGN OWNED" in found.next_step
    # Its database is an administrator's, who must not have it.
    await team.patch(name, cleanupPolicy="Orphan")
    await team.fails(name, "must not inherit objects")
    assert "spec.orphanTo" in (await explained(team, name)).next_step
    for database in (team.database, second):
        await team.sql("DROP TABLE kept", database=database)
    await team.poke()
    await team.gone(name)


@pytest.mark.differs("administrator")
async def test_rights_that_the_administrator_lacks(team: Team) -> None:
    await team.sql("CREATE SCHEMA s", "CREATE TABLE s.t (id int)")
    grants = [{"database": team.database, "schema": "s", "privileges": ["SELECT"]}]
    name = await team.create(grants=grants)
    if team.superuser:
        await team.ready(name)
        assert (await explained(team, name)).rights == ()
        return
    await team.fails(name, "InsufficientPrivilege")
    found = await explained(team, name)
    assert step(found, "grants")[0] == "InsufficientPrivilege"
    assert "fairlead postgres plan prints the SQL" in found.next_step
    for there in found.rights:
        for one in there.statements:
            assert "SUPERUSER" not in one.sql
            await team.sql(one.sql, database=there.database)

    async def healed() -> bool:
        await team.poke()
        return (await explained(team, name)).ready

    await eventually(healed)


@pytest.mark.differs("administrator")
@pytest.mark.parametrize("work", ["new password", "deletion"])
async def test_admin_on_a_role_that_was_revoked(team: Team, work: str) -> None:
    """CloudNativePG revokes it from an administrator that it manages."""
    name = await team.create()
    await team.ready(name)
    ((version,),) = await team.sql("SELECT pg_catalog.current_setting('server_version_num')::int")
    if team.superuser or version < GRANT_OPTIONS_VERSION:
        return
    who = team.administrator.username
    await team.sql("REVOKE {r} FROM {a}", r=name, a=who)
    if work == "deletion":
        await team.delete(name)
    else:
        asked = {"metadata": {"annotations": {ROTATE_ANNOTATION: "now"}}}
        await team.client.merge_patch(POSTGRESACCESSES, name, team.namespace, asked)
    await team.fails(name, "InsufficientPrivilege")
    found = await explained(team, name)
    assert step(found, "role")[0] == "InsufficientPrivilege"
    (right,) = [one.sql for there in found.rights for one in there.statements]
    assert right == f'GRANT "{name}" TO "{who}" WITH ADMIN OPTION'
    await team.sql(right)
    if work == "deletion":
        await team.poke()
        await team.gone(name)
        return

    async def healed() -> bool:
        await team.poke()
        return (await explained(team, name)).ready

    await eventually(healed)


async def test_a_server_that_is_away(team: Team) -> None:
    away = f"away-{team.id}"
    await team.offer(away, port=1)
    name = team.name()
    body = access(name, team.namespace, away)
    await team.client.create(POSTGRESACCESSES, body)
    await team.fails(name, "ConnectionFailed")
    found = await explained(team, name)
    assert step(found, "server")[0] == "ConnectionFailed"
    assert states(found)["policy"] == "ok"
    await team.abandon(name)
    await team.delete(name)
    await team.gone(name)
    await team.client.delete(POSTGRESSERVERS, away)


async def test_what_the_policy_refuses(team: Team) -> None:
    strict = f"strict-{team.id}"
    await team.offer(strict, allowedDatabases=["other"])
    name = team.name()
    grants = [team.grant("SELECT")]
    await team.client.create(POSTGRESACCESSES, access(name, team.namespace, strict, grants=grants))
    await team.fails(name, "PolicyDenied")
    found = await explained(team, name)
    assert found.reason == "PolicyDenied"
    assert "allowedDatabases" in step(found, "policy")[1]
    assert "ask the team that runs the server" in found.next_step
    await team.delete(name)
    await team.gone(name)
    await team.client.delete(POSTGRESSERVERS, strict)


async def test_an_approval_that_is_pending(team: Team) -> None:
    name = await team.create(approval="Manual")
    await team.fails(name, "ApprovalPending")
    found = await explained(team, name)
    assert found.reason == "ApprovalPending"
    assert "access.k8s.delta10.nl/approve=" in found.next_step


async def test_an_access_that_the_operator_leaves_alone(team: Team) -> None:
    name = await team.create(username="excluded")
    await team.fails(name, "UserExcluded")
    found = await explained(team, name)
    assert found.reason == "UserExcluded"
    helps = found.next_step
    await team.patch(name, suspend=True)
    await team.fails(name, "UserExcluded")
    assert (await explained(team, name)).next_step == helps != ""
