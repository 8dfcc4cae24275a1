"""``groups: Shared`` through the API, on servers of each version with both administrators."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest
from tests.e2e.postgres.rows.test_commands_plan import around, plan_of, statements
from tests.support.team import FORMER_GROUP, Team, leave_to_group, say_group
from tests.support.waiting import condition, eventually, failed_with, is_ready, when

from fairlead.api.meta import JSON
from fairlead.api.postgresaccess import APPROVE_ANNOTATION, POSTGRESACCESSES
from fairlead.api.postgresaccess.server import POSTGRESSERVERS
from fairlead.client import Invalid
from fairlead.postgres.commands.accesses import given_of
from fairlead.postgres.commands.audit import audit
from fairlead.postgres.commands.importing import import_roles
from fairlead.postgres.commands.plan import CHANGES, FAILED, IN_SYNC, plan
from fairlead.postgres.controllers.access.status import SHARED_ACCESS
from fairlead.postgres.controllers.servers.controller import SHARED_SERVER


async def group_of(team: Team, name: str, *, namespace: str = "") -> str:
    """The group that the status names, of which the role is a member."""
    body = await team.wait(
        name,
        lambda body: is_ready(body) and body["status"].get("group") != FORMER_GROUP,
        namespace=namespace,
    )
    group: str = body["status"].get("group", "")
    assert (await members(team, group)).count(name) == (1 if group else 0)
    return group


async def members(team: Team, group: str) -> list[str]:
    rows = await team.sql(
        "SELECT x.rolname::text FROM pg_auth_members m JOIN pg_roles x ON x.oid = m.member"
        " JOIN pg_roles g ON g.oid = m.roleid WHERE g.rolname = %s"
        " AND x.rolname NOT IN ('operator', 'postgres')",
        values=(group,),
        database="postgres",
    )
    return sorted(name for (name,) in rows)


async def dropped(team: Team, group: str) -> None:
    """Wait until a group is gone, which is left to a later look where others hold a lock."""

    async def gone() -> bool:
        return not await team.role_exists(group)

    await team.healed(gone)


def read(team: Team) -> JSON:
    return {"grants": [team.grant("CONNECT", "SELECT")]}


async def test_who_shares_with_whom(team: Team) -> None:
    await team.build("CREATE TABLE t (id int)")
    other = f"others-{team.id}"
    await team.create_namespace(other)
    one = await team.create_shared("one", **read(team))
    two = await team.create_shared("two", namespace=other, **read(team))
    # The same server by a tenant's own connection, which others' accesses never go through.
    direct = [
        await team.create_shared(name, connection=team.directly(), **read(team))
        for name in ("three", "four")
    ]
    five = await team.create_shared(
        "five", namespace=other, connection=team.directly(), **read(team)
    )
    group = await group_of(team, one)
    assert await group_of(team, two, namespace=other) == group
    own = {await group_of(team, name) for name in direct}
    theirs = await group_of(team, five, namespace=other)
    assert len({group, *own, theirs}) == 3
    assert await team.privileges(one) == set()
    assert ("t", "SELECT") in await team.privileges(group)
    async with team.login(one) as session:
        await session.execute("SELECT FROM t")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            await session.execute("INSERT INTO t VALUES (1)")
    await team.removed(one)
    assert await team.role_exists(group)
    await team.delete(two, namespace=other)
    await team.gone(two, namespace=other)
    await dropped(team, group)
    for name in direct:
        await team.removed(name)
    await dropped(team, own.pop())


async def test_on_and_off_while_an_app_reads(team: Team) -> None:
    await team.build("CREATE TABLE t (id int)", "CREATE SEQUENCE q")
    name = await team.create(grants=[team.grant("CONNECT", "SELECT")])
    await team.ready(name)
    before = await team.privileges(name)
    done = asyncio.Event()

    async def reads() -> int:
        count = 0
        async with team.login(name) as session:
            while not done.is_set():
                await session.execute("SELECT FROM t")
                count += 1
        return count

    async with asyncio.TaskGroup() as tasks:
        reading = tasks.create_task(reads())
        await say_group(team.client, name, team.namespace)
        await team.patch(name, groups="Shared")
        first = await group_of(team, name)
        assert first
        assert await team.privileges(name) == set()
        await team.patch(name, grants=[team.grant("CONNECT", "SELECT", "INSERT")])
        await team.wait(name, lambda body: body["status"].get("group", first) != first)
        await dropped(team, first)
        second = await group_of(team, name)
        await team.patch(name, groups="None", grants=[team.grant("CONNECT", "SELECT")])
        assert await group_of(team, name) == ""
        await dropped(team, second)
        done.set()
    assert reading.result() > 10
    assert await team.privileges(name) == before


async def test_the_default_of_a_former_versions_server(team: Team) -> None:
    former = f"{team.server}-former"
    await team.offer(former, groups="Shared")
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "Ready",
        "message": "the administrator can log in",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status = {"status": {"conditions": [ready]}}
    await team.client.merge_patch(POSTGRESSERVERS, former, "", status, subresource="status")
    there = {"serverRef": {"name": former}}
    grants = [team.grant("CONNECT")]
    name = await team.create(connection=there, grants=grants, suspend=True)
    await leave_to_group(team.client, name, team.namespace)
    assert await group_of(team, name)
    body = await team.ready(name)
    assert SHARED_ACCESS in body["status"]["warnings"]
    new = await team.create("new", connection=there, grants=grants)
    assert await group_of(team, new) == ""
    served = await when(
        team.client,
        POSTGRESSERVERS,
        former,
        until=lambda body: SHARED_SERVER in condition(body, "Ready")["message"],
    )
    assert condition(served, "Ready")["status"] == "True"
    await team.client.merge_patch(POSTGRESSERVERS, former, "", {"spec": {"groups": "None"}})
    await team.wait(name, lambda body: not body["status"].get("group"))
    assert (team.database, "CONNECT") in {
        (what.removeprefix("database "), privilege)
        for what, privilege in await team.privileges(name)
    }
    with pytest.raises(Invalid, match="groups Shared is deprecated"):
        await team.client.merge_patch(POSTGRESSERVERS, former, "", {"spec": {"groups": "Shared"}})
    for one in (name, new):
        await team.removed(one)
    await team.client.delete(POSTGRESSERVERS, former)


async def test_only_words_that_mean_something(team: Team) -> None:
    with pytest.raises(Invalid):
        await team.create(groups="All")


async def test_new_uses_are_refused(team: Team) -> None:
    name = await team.create(groups="Shared", **read(team))
    message = await team.fails(name, "spec.groups Shared is deprecated")
    assert message.startswith(f"InvalidSpec: PostgresAccess {team.namespace}/{name}: ")
    assert "spec.memberOf" in message
    await team.patch(name, groups=None)
    await team.ready(name)
    await team.patch(name, groups="Shared")
    await team.fails(name, "spec.groups Shared is deprecated")
    await team.offer(f"{team.server}-new", groups="Shared")
    server = await when(
        team.client,
        POSTGRESSERVERS,
        f"{team.server}-new",
        until=failed_with("spec.groups Shared is deprecated"),
    )
    assert "spec.memberOf" in condition(server, "Ready")["message"]
    await team.client.delete(POSTGRESSERVERS, f"{team.server}-new")


@pytest.mark.differs("administrator")
async def test_drift_of_a_group_is_mended(team: Team) -> None:
    await team.build("CREATE TABLE t (id int)")
    one, two = (
        await team.create_shared("one", **read(team)),
        await team.create_shared("two", **read(team)),
    )
    group = await group_of(team, one)
    assert await group_of(team, two) == group
    table = {("t", "SELECT")}
    await team.build(f"REVOKE SELECT ON t FROM {group}", f"GRANT INSERT ON t TO {group}")

    async def holds() -> bool:
        held = {one for one in await team.privileges(group) if one[0] == "t"}
        return held == table

    await team.healed(holds)
    stranger = team.name("stranger")
    await team.sql("CREATE ROLE {s}", s=stranger)
    if team.superuser:
        await team.sql("GRANT {g} TO {s} WITH ADMIN OPTION", g=group, s=stranger)

        async def expelled() -> bool:
            return await members(team, group) == sorted([one, two])

        await team.healed(expelled)
    await team.sql("REVOKE {g} FROM {o} CASCADE", "ALTER ROLE {g} LOGIN", g=group, o=one)

    async def back() -> bool:
        query = "SELECT rolcanlogin FROM pg_roles WHERE rolname = %s"
        return one in await members(team, group) and (
            await team.sql(query, values=(group,)) == [(False,)]
        )

    if team.superuser:
        await team.healed(back)
    await team.sql("DROP ROLE {s}", s=stranger)


async def test_a_role_of_the_groups_name(team: Team) -> None:
    one = await team.create_shared("one", **read(team))
    group = await group_of(team, one)
    await team.sql("COMMENT ON ROLE {g} IS 'mine'", g=group)
    two = await team.create_shared("two", **read(team))
    assert group in await team.fails(two, "GroupConflict")
    assert await members(team, group) == [one]
    await team.sql("ALTER ROLE {g} RENAME TO {n}", g=group, n=f"theirs_{team.id}")
    await team.ready(two)
    await team.removed(one)
    await team.removed(two)

    # A group that another session holds at that moment is left to the next look at the server.
    async def swept() -> bool:
        return not await team.role_exists(group)

    await team.healed(swept)
    assert await team.role_exists(f"theirs_{team.id}")
    await team.sql("DROP OWNED BY {n}", "DROP ROLE {n}", n=f"theirs_{team.id}")


async def test_a_deletion_torn_out_leaves_no_group(team: Team) -> None:
    name = await team.create_shared(**read(team))
    group = await group_of(team, name)
    await team.client.merge_patch(
        POSTGRESACCESSES, name, team.namespace, {"metadata": {"finalizers": []}}
    )
    await team.delete(name)
    await team.gone(name)

    async def swept() -> bool:
        return not await team.role_exists(group) and not await team.role_exists(name)

    await team.healed(swept)


async def test_plans_audits_and_approvals(team: Team) -> None:
    await team.build("CREATE TABLE t (id int)")
    one = await team.create_shared("one", **read(team))
    group = await group_of(team, one)
    two = await team.create_shared("two", approval="Manual", **read(team))
    body = await team.wait(two, lambda body: bool(body["status"].get("plan")))
    proposed: Any = body["status"]["plan"]
    joins = [text for text in proposed["statements"] if group in text]
    assert len(joins) == 1
    assert joins[0].split(": ", 1)[-1].startswith("GRANT ")
    report = await plan_of(team, two)
    assert report.exit_code == CHANGES
    assert next(text for text in statements(report) if group in text).startswith(
        f'GRANT "{group}" TO "{two}"'
    )
    annotations = {"metadata": {"annotations": {APPROVE_ANNOTATION: proposed["digest"]}}}
    await team.client.merge_patch(POSTGRESACCESSES, two, team.namespace, annotations)
    assert await group_of(team, two) == group
    report = await plan_of(team, one, two)
    assert (report.exit_code, statements(report)) == (IN_SYNC, [])
    found = await audit(await around(team), team.server, ())
    roles = {role.role: role for role in found.roles}
    assert roles[group].kind == "group"
    assert roles[group].members == tuple(sorted([one, two]))
    assert [one.name for one in roles[two].groups] == [group]
    (through,) = roles[two].groups
    assert through.inherited
    assert any("SELECT" in held.privileges for held in through.privileges)
    assert (roles[one].direct, roles[one].drift) == ((), ())
    # By somebody who may not read the installation's key, grants are not compared.
    look = await around(team)
    look._key = b""
    body_of = await team.client.get(POSTGRESACCESSES, one, team.namespace)
    blind = await plan(look, [given_of(body_of)])
    assert statements(blind) == []
    assert any("does not compare" in note for note in blind.notes)
    assert blind.exit_code != FAILED


async def test_what_was_abandoned_is_imported_as_it_is(team: Team) -> None:
    await team.build("CREATE TABLE t (id int)")
    name = await team.create_shared(**read(team))
    group = await group_of(team, name)
    await team.abandon(name)
    await team.delete(name)
    await team.gone(name)

    async def given_up() -> bool:
        await team.poke()
        rows = await team.sql(
            "SELECT shobj_description(oid, 'pg_authid') FROM pg_roles WHERE rolname = %s",
            values=(name,),
        )
        return "given up" in str(rows)

    keeper = await team.create("keeper", grants=[])
    await team.ready(keeper)
    await eventually(given_up)
    assert await members(team, group) == [name]
    found = await import_roles(await around(team), team.server, team.namespace, [name])
    (one,) = found.accesses
    assert "groups" not in one.manifest["spec"]
    (left,) = [text for text in one.comments if "REVOKE" in text]
    assert group in left
    await team.sql(
        "DROP OWNED BY {r}", "DROP OWNED BY {g}", "DROP ROLE {r}", "DROP ROLE {g}", r=name, g=group
    )


async def test_one_failure_is_told_on_all_who_share_it(team: Team) -> None:
    grants = [team.grant("CONNECT"), team.grant("SELECT", schema="nowhere")]
    bad = [await team.create_shared(name, grants=grants) for name in ("a", "b")]
    good = await team.create_shared("good", **read(team))
    for name in bad:
        await team.fails(name, "SchemaNotFound")
    await team.ready(good)
    await team.build("CREATE SCHEMA nowhere")
    for name in bad:
        await team.ready(name)
    body = await team.client.get(POSTGRESACCESSES, good, team.namespace)
    assert condition(body.to_dict(), "Ready")["status"] == "True"


async def test_two_logins_share_through_their_owner(team: Team) -> None:
    await team.build("CREATE TABLE t (id int)")
    name = await team.create_shared(passwordPolicy={"rotation": "TwoLogins"}, **read(team))
    other = await team.create_shared("other", **read(team))
    group = await group_of(team, name)
    assert await group_of(team, other) == group
    assert await members(team, group) == sorted([name, other])
    async with team.login(name) as session:
        await session.execute("SELECT FROM t")
    await team.removed(name)
    assert await members(team, group) == [other]
    await team.removed(other)
    await dropped(team, group)
