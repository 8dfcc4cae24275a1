"""``fairlead postgres audit`` on real servers: what everybody has, and what nobody asked for."""

from __future__ import annotations

import psycopg
from tests.e2e.postgres.rows.test_commands_plan import around
from tests.support.team import Team
from tests.support.waiting import eventually

from fairlead.postgres.commands.audit import AuditReport, Privilege, RoleAudit, audit


async def audited(team: Team, *names: str) -> AuditReport:
    return await audit(await around(team), team.server, names)


async def role_of(team: Team, name: str) -> RoleAudit:
    (found,) = (await audited(team, name)).roles
    return found


def here(team: Team, privileges: tuple[Privilege, ...]) -> set[str]:
    return {
        f"{','.join(one.privileges)}{'*' if one.grant_option else ''} on"
        f" {one.total}/{one.of} {one.on} {one.schema} {','.join(one.names)}"
        for one in privileges
        if one.database == team.database
    }


async def test_an_access_and_what_its_role_has(team: Team) -> None:
    await team.build("CREATE TABLE t (id int)", "CREATE TABLE u (id int)")
    name = await team.create(grants=[team.grant("SELECT", "CONNECT")])
    await team.ready(name)
    await team.patch(name, suspend=True)
    await team.ready(name)
    found = await role_of(team, name)
    assert (found.kind, found.login) == ("asked", True)
    assert found.asked_by == f"{team.namespace}/{name}"
    assert here(team, found.direct) == {
        "CONNECT on 1/1 database  ",
        "USAGE on 1/1 schema public public",
        "SELECT on 2/2 table public t,u",
    }
    assert (found.drift, found.owns, found.problems) == ((), (), ())


async def test_public_has_the_defaults_of_routines_and_of_types(team: Team) -> None:
    await team.build(
        "CREATE TYPE mood AS ENUM ('good')",
        "CREATE DOMAIN small AS int",
        "CREATE TYPE closed AS (id int)",
        "REVOKE USAGE ON TYPE closed FROM PUBLIC",
        "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "CREATE TABLE t (id int)",
        "CREATE TABLE wide (a int, b int, c int)",
        "GRANT SELECT (a, b) ON wide TO PUBLIC",
    )
    assert here(team, (await audited(team)).everybody) >= {
        "SELECT on 2/0 column public a,b",
        "EXECUTE on 1/1 routine public f()",
        "USAGE on 2/3 type public mood,small",
    }


async def test_drift_of_an_access(team: Team) -> None:
    await team.build("CREATE TABLE t (id int)")
    name = await team.create(grants=[team.grant("SELECT")], mode="Observe")
    role = team.name()
    await team.fails(name, "Observed")
    report = await audited(team)
    assert f"{team.namespace}/{name}" in report.absent
    await team.patch(name, mode="Enforce")
    await team.ready(name)
    await team.patch(name, mode="Observe")
    await team.ready(name)
    await team.build(f'GRANT INSERT ON t TO "{role}"')
    found = await role_of(team, role)
    assert [one.sql for one in found.drift] == [
        f'REVOKE INSERT ON TABLE "public"."t" FROM "{role}"'
    ]


async def test_strangers_their_groups_and_what_they_own(team: Team) -> None:
    stranger, group, outer = team.name("stranger"), team.name("group"), team.name("outer")
    await team.sql(
        "CREATE ROLE {s} LOGIN",
        "CREATE ROLE {g}",
        "CREATE ROLE {o}",
        "GRANT {o} TO {g}",
        "GRANT {g} TO {s}",
        "CREATE TABLE t (id int)",
        "CREATE TABLE mine (id int)",
        "ALTER TABLE mine OWNER TO {s}",
        "GRANT SELECT ON t TO {s} WITH GRANT OPTION",
        "GRANT INSERT ON t TO {g}",
        "GRANT UPDATE ON t TO {o}",
        "GRANT DELETE ON t TO PUBLIC",
        s=stranger,
        g=group,
        o=outer,
    )
    try:
        report = await audited(team, stranger)
        (found,) = report.roles
        assert (found.kind, found.asked_by) == ("stranger", "")
        assert here(team, found.direct) == {"SELECT* on 1/2 table public t"}
        assert [(one.on, one.names) for one in found.owns] == [("table", ("mine",))]
        through = {one.name: (one.inherited, here(team, one.privileges)) for one in found.groups}
        assert through == {
            group: (True, {"INSERT on 1/2 table public t"}),
            outer: (True, {"UPDATE on 1/2 table public t"}),
        }
        assert "DELETE on 1/2 table public t" in here(team, report.everybody)
        await team.sql("ALTER ROLE {s} NOINHERIT", s=stranger)
        if report.version.startswith("15"):
            (again,) = (await audited(team, stranger)).roles
            assert not any(one.inherited for one in again.groups)
    finally:
        await team.sql("DROP TABLE mine, t")
        await team.sql("DROP ROLE {s}, {g}, {o}", s=stranger, g=group, o=outer)


async def test_a_role_of_which_the_access_is_gone_is_a_leftover(team: Team) -> None:
    """And one that another installation claims is foreign."""
    left, foreign = team.name("left"), team.name("foreign")
    installation = (await around(team)).installation
    for role, whose in ((left, installation), (foreign, "another")):
        comment = f'managed by Fairlead: {{"installation":"{whose}","object":"x","uid":"gone"}}'
        await team.sql("CREATE ROLE {r} LOGIN", r=role)
        await team.sql(
            f"COMMENT ON ROLE {{r}} IS '{comment.replace('{', '{{').replace('}', '}}')}'", r=role
        )
    report = await audited(team)
    kinds = {one.role: one.kind for one in report.roles}
    # The operator may have removed it already, which it does with leftovers.
    assert kinds.get(left, "leftover") == "leftover"
    assert kinds[foreign] == "foreign"
    assert kinds[team.administrator.username] == "administrator"
    assert report.version
    await team.sql("DROP ROLE {f}", f=foreign)

    async def is_gone() -> bool:
        try:
            await team.sql("DROP ROLE IF EXISTS {l}", l=left)
        except psycopg.errors.InternalError_:
            return False  # The operator is removing it.
        return True

    await eventually(is_gone)


async def test_nothing_is_written(team: Team) -> None:
    await team.create(suspend=True)
    async with team.unwritten():
        await audited(team)
