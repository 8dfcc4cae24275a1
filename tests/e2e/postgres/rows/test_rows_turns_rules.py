"""Two logins in turn beside the rest: commands, approvals, ends, names, and who has a login."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import sql
from tests.e2e.postgres.rows.test_commands_audit import audited
from tests.e2e.postgres.rows.test_commands_plan import around, plan_files, plan_of, statements
from tests.e2e.postgres.rows.test_rows_turns import TURNS, can_login, is_current, made, rotate
from tests.support.postgres import access
from tests.support.team import Team
from tests.support.waiting import condition

from fairlead.api.meta import JSON
from fairlead.api.postgresaccess import (
    APPROVE_ANNOTATION,
    POSTGRESACCESSES,
    ROTATE_ANNOTATION,
)
from fairlead.postgres.commands.explain import explain
from fairlead.postgres.commands.importing import import_roles


async def test_row_55_the_commands_know_the_logins(team: Team) -> None:
    name = await made(team)
    first, second = f"{name}_a", f"{name}_b"
    await rotate(team, name, "1", second)
    await team.patch(name, suspend=True)
    await team.ready(name)
    report = await audited(team)
    kinds = {one.role: (one.kind, one.asked_by) for one in report.roles}
    me = f"{team.namespace}/{name}"
    assert [kinds[role] for role in (name, first, second)] == [("asked", me)] * 3
    assert report.absent == ()
    await team.patch(name, suspend=False)
    assert statements(await plan_of(team, name)) == []
    await team.patch(name, suspend=True)
    await team.ready(name)
    await team.sql("ALTER ROLE {b} RESET role", "ALTER ROLE {o} LOGIN", b=second, o=name)
    body = (await team.client.get(POSTGRESACCESSES, name, team.namespace)).to_dict()
    body["spec"]["suspend"] = False
    report_ = await plan_files(team, body)
    assert statements(report_) == [
        f"""ALTER ROLE "{second}" SET role TO '{name}'""",
        f'ALTER ROLE "{name}" NOLOGIN',
    ]
    told = await explain(await around(team), name, team.namespace)
    assert {one.name: one.state for one in told.steps}["role"] == "waiting"
    imported = await import_roles(await around(team), team.server, team.namespace)
    left = {one.role: one.why for one in imported.skipped}
    assert "claims it already" in left[second]
    await team.delete(name)
    await team.gone(name)


async def test_row_56_one_approval_is_good_for_one_rotation(team: Team) -> None:
    name = await made(team, passwordPolicy={"rotation": "TwoLogins", "gracePeriod": "2s"})
    first, second = f"{name}_a", f"{name}_b"
    old = await team.secret(name)
    await team.patch(name, approval="Manual")
    await team.ready(name)

    async def pending(value: str) -> JSON:
        body = {"metadata": {"annotations": {ROTATE_ANNOTATION: value}}}
        await team.client.merge_patch(POSTGRESACCESSES, name, team.namespace, body)
        return await team.wait(
            name, lambda body: condition(body, "Ready").get("reason") == "ApprovalPending"
        )

    async def approve(body: JSON) -> None:
        digest = body["status"]["plan"]["digest"]
        annotation = {"metadata": {"annotations": {APPROVE_ANNOTATION: digest}}}
        await team.client.merge_patch(POSTGRESACCESSES, name, team.namespace, annotation)

    body = await pending("1")
    plan = body["status"]["plan"]["statements"]
    assert any(f'ROLE "{second}"' in one and "PASSWORD '***'" in one for one in plan)
    assert any(f"""ROLE "{first}" VALID UNTIL '2 s from then'""" in one for one in plan)
    assert await team.secret(name) == old
    await team.cycles(1)
    found = (await team.client.get(POSTGRESACCESSES, name, team.namespace)).to_dict()
    assert found["status"]["plan"]["digest"] == body["status"]["plan"]["digest"]
    await approve(body)
    await team.wait(name, is_current(second))
    assert (await team.secret(name))["username"] == second
    await team.logs_in(first, old["password"], False)
    await team.cycles(1)
    # The end is the server's own, and asks for no approval.
    await team.ready(name)
    await approve(await pending("2"))
    await team.wait(name, is_current(first))
    secret = await team.secret(name)
    assert await team.can_login(first, secret["password"])
    await team.ready(name)


async def test_row_57_an_end_of_the_access_is_that_of_its_logins(team: Team) -> None:
    name = await made(team, expiresAfter="1h")
    first, second = f"{name}_a", f"{name}_b"
    await rotate(team, name, "1", second)
    rows = await team.sql(
        "SELECT rolvaliduntil <= now() + interval '1 h' FROM pg_catalog.pg_roles"
        " WHERE rolname = ANY (%s)",
        values=([first, second],),
        database="postgres",
    )
    assert rows == [(True,), (True,)]
    await team.patch(name, expiresAfter="1s")
    await team.fails(name, "Expired")
    for role in (name, first, second):
        assert not await team.role_exists(role)
    assert await team.secrets() == []
    # Raised, it comes back.
    await team.patch(name, expiresAfter="2h")
    await team.ready(name)
    secret = await team.secret(name)
    assert await team.can_login(secret["username"], secret["password"])


async def test_row_58_a_tenant_turns_its_logins_to_nothing_else(team: Team) -> None:
    """Whoever has a login may change what is its own, and no end and no other login."""
    name = await made(team)
    first, second = f"{name}_a", f"{name}_b"
    await rotate(team, name, "1", second)
    async with team.login(name) as session:
        for role in ("", "SET ROLE NONE"):
            if role:
                await session.execute("SET ROLE NONE")
            for statement in (
                "ALTER ROLE {a} VALID UNTIL 'infinity'",
                "ALTER ROLE {b} VALID UNTIL 'infinity'",
                "ALTER ROLE {a} PASSWORD 'mine'",
                "ALTER ROLE {o} LOGIN",
                "COMMENT ON ROLE {b} IS 'mine'",
                "DROP ROLE {a}",
            ):
                query = sql.SQL(statement).format(
                    a=sql.Identifier(first), b=sql.Identifier(second), o=sql.Identifier(name)
                )
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    await session.execute(query)


async def test_row_59_a_renamed_login_is_fenced_and_told_of(team: Team) -> None:
    name = await made(team)
    first, other = f"{name}_a", team.name("elsewhere")
    password = (await team.secret(name))["password"]
    await team.sql("ALTER ROLE {a} RENAME TO {o}", a=first, o=other, database="postgres")

    async def healed() -> bool:
        return await team.can_login(first, password) and not await can_login(team, other)

    await team.healed(healed)
    body = await team.wait(name, lambda body: other in str(body["status"].get("warnings")))
    assert body["status"]["lastReconcileState"] == "Success"


async def test_row_60_names_that_leave_no_room(team: Team) -> None:
    long = f"{team.id:x<63}"
    name = await team.create(username=long, passwordPolicy=TURNS)
    await team.ready(name)
    secret = await team.secret(name)
    assert secret["username"].endswith("_a")
    assert len(secret["username"].encode()) == 63
    async with team.login(name, database="postgres") as session:
        cursor = await session.execute("SELECT current_user::text")
        assert await cursor.fetchall() == [(long,)]


async def test_row_61_the_commands_tell_who_is_in_the_way_of_a_login(team: Team) -> None:
    files = [
        access(name, team.namespace, team.server, **spec)
        for name, spec in (
            (team.name("plan"), {"passwordPolicy": TURNS}),
            (team.name("plan") + "-x", {"username": team.name("plan") + "_b"}),
        )
    ]
    report = await plan_files(team, *files)
    assert [(one.access, one.reason) for one in report.problems] == [
        (f"{team.namespace}/{team.name('plan')}-x", "UsernameConflict")
    ]
    owner, login = team.name("plan"), team.name("plan") + "_a"
    created = [one for one in statements(report) if "CREATE ROLE" in one]
    assert created == [
        f'CREATE ROLE "{owner}" NOLOGIN',
        f"""CREATE ROLE "{login}" LOGIN PASSWORD '***'""",
    ]
    one = await made(team)
    other = await team.create("other", username=f"{one}_a")
    await team.fails(other, "UsernameConflict")
    told = await explain(await around(team), other, team.namespace)
    assert [(each.name, each.how) for each in told.in_the_way] == [
        (f"{team.namespace}/{one}", f"holds role {one}_a")
    ]
