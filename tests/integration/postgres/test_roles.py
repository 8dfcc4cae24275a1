"""Attributes, groups, claims and plans on servers of each version, with both administrators."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import psycopg
import pytest
from psycopg import sql
from tests.support import pgserver
from tests.support.pgserver import (
    PASSWORD,
    can_login,
    claim,
    fetch,
    grant,
    login,
    privileges,
    run,
    sweep,
    wanted,
)
from tests.support.servers import OPERATOR, Servers
from tests.support.tiers import ADMINISTRATORS, VERSIONS

from fairlead.api.postgresaccess import Attributes, MemberOf
from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.postgres import bounds
from fairlead.postgres.controllers.access.status import plan_of
from fairlead.postgres.database.connections.sessions import Sessions
from fairlead.postgres.database.plans.approvals import Approval
from fairlead.postgres.database.plans.differences import Actor
from fairlead.postgres.database.plans.logins import LoginTurns
from fairlead.postgres.database.plans.plan import (
    SessionsEnd,
    ShownPlan,
    Synced,
    WantedState,
)
from fairlead.postgres.database.plans.snapshot import RoleClaim
from fairlead.postgres.database.reading import verifiers as verifiers_module
from fairlead.postgres.database.reading.verifiers import Verifiers
from fairlead.postgres.database.work.blockers import end_all_sessions
from fairlead.postgres.database.work.cleanup import cleanup
from fairlead.postgres.database.work.drift import DriftResult, Kept, find_drift
from fairlead.postgres.database.work.planning import plan_accesses
from fairlead.postgres.database.work.sync import Check, check_claims, sync
from fairlead.postgres.errors import AccessError


@pytest.fixture(params=VERSIONS)
def server(request: pytest.FixtureRequest, servers: Servers) -> EmbeddedPostgres:
    return servers.of(request.param)


class Admin(pgserver.Admin):
    """What is asked of the operator by an administrator, and of the server by its superuser."""

    async def sync(self, *accesses: WantedState) -> dict[str, Synced | AccessError]:
        return await sync(self.sessions, accesses, self.verifiers)

    async def one(self, access: WantedState) -> Synced:
        found = (await self.sync(access))[access.username]
        if isinstance(found, AccessError):
            raise found
        return found

    async def settled(self, access: WantedState) -> None:
        """Nothing is missing, and nothing is written when it is done again."""
        before = await rows(self.server)
        again = await self.one(access)
        assert (again.changed, again.problems) == (False, ())
        assert await rows(self.server) == before
        plan = await self.plan(access)
        assert (plan.statements, plan.refused) == ((), {})

    async def plan(self, *accesses: WantedState) -> ShownPlan:
        return await plan_accesses(self.sessions, accesses, self.verifiers)

    async def look(self, *accesses: WantedState) -> DriftResult:
        kept = [Kept(state=replace_(one, password="")) for one in accesses]
        return await find_drift(self.sessions, kept, self.verifiers, "here")

    async def execute(self, *statements: str, **names: str) -> None:
        await run(self.server, "postgres", *statements, **names)


def replace_(access: WantedState, **fields: Any) -> WantedState:
    values = {name: getattr(access, name) for name in access.__struct_fields__}
    return WantedState(**(values | fields))


def role(username: str = "app", *, uid: str = "u1", **fields: Any) -> WantedState:
    return replace_(wanted(username, claimed=claim(name=username, uid=uid)), **fields)


async def test_a_role_is_made_only_as_it_was_approved(admin: Admin) -> None:
    """Something has come after the last look before the transaction."""
    plan = await admin.plan(role())
    approval = plan.approval
    half = Approval(place=plan.place, parts=frozenset([*approval.parts][:1]))
    for some in (Approval(), half):
        found = (await sync(admin.sessions, [role()], admin.verifiers, approval=some))["app"]
        assert isinstance(found, AccessError)
        assert found.reason == "Unapproved"
        assert await fetch(admin.server, "postgres", EXISTS, "app") == []
    done = (await sync(admin.sessions, [role()], admin.verifiers, approval=approval))["app"]
    assert isinstance(done, Synced)
    assert done.problems == ()


@pytest.mark.only(version=18, administrator="createrole")
async def test_an_approval_outlives_an_update_of_the_operator(admin: Admin) -> None:
    """The digest and the statements of a plan are those of former versions."""
    await may_give(admin, "readers")
    await admin.execute("CREATE DATABASE golden")
    owned = f"ALTER TABLE orders OWNER TO {OPERATOR}"
    await run(admin.server, "golden", "CREATE TABLE orders (id int)", owned)
    access = role(
        grants=(grant("golden", "CONNECT", "SELECT"),),
        attributes=Attributes(connection_limit=3, config={"work_mem": "8MB"}),
        member_of=groups("readers"),
        turns=LoginTurns(rotation="TwoLogins", current="app_a", grace=timedelta(hours=1)),
    )
    plan = plan_of(msgspec.structs.replace(await admin.plan(access), place="here"), None)
    assert plan is not None
    options = "WITH ADMIN FALSE, INHERIT TRUE, SET TRUE"
    managed = f"IS 'managed by Fairlead: {claim(name='app').text().partition(': ')[2]}'"
    assert plan.statements == [
        'postgres: CREATE ROLE "app" NOLOGIN CONNECTION LIMIT 3',
        f'postgres: COMMENT ON ROLE "app" {managed}',
        'postgres: ALTER ROLE "app" SET "work_mem" = \'8MB\'',
        f'postgres: GRANT "readers" TO "app" {options}',
        "postgres: CREATE ROLE \"app_a\" LOGIN PASSWORD '***' CONNECTION LIMIT 3",
        f'postgres: COMMENT ON ROLE "app_a" {managed}',
        f'postgres: GRANT "app" TO "app_a" {options}',
        "postgres: ALTER ROLE \"app_a\" SET role TO 'app'",
        'postgres: ALTER ROLE "app_a" SET "work_mem" = \'8MB\'',
        'postgres: GRANT CONNECT ON DATABASE "golden" TO "app"',
        'golden: GRANT SELECT ON TABLE "public"."orders" TO "app"',
    ]
    assert plan.digest == "5795ec0fa86bd9a02ed6c43c9a28dc4d"


EXISTS = "SELECT 1 FROM pg_roles WHERE rolname = %s"


@pytest.fixture(params=ADMINISTRATORS)
async def admin(request: pytest.FixtureRequest, server: EmbeddedPostgres) -> AsyncIterator[Admin]:
    made = Admin(server, superuser=request.param == "superuser")
    yield made
    await made.sessions.close()
    await sweep(server)


async def rows(server: EmbeddedPostgres) -> list[Any]:
    """The versions of all rows about roles: equal ones prove that nothing was written."""
    return await fetch(
        server,
        "postgres",
        """
        SELECT 'role', rolname::text, xmin::text, ctid::text FROM pg_authid
        UNION ALL SELECT 'member', roleid::text || member || grantor, xmin::text, ctid::text
                    FROM pg_auth_members
        UNION ALL SELECT 'setting', setrole::text, xmin::text, ctid::text FROM pg_db_role_setting
        UNION ALL SELECT 'comment', objoid::text, xmin::text, ctid::text FROM pg_shdescription
        ORDER BY 1, 2
        """,
    )


async def members(server: EmbeddedPostgres, username: str) -> set[tuple[Any, ...]]:
    """Groups of a role, with its options and the grantor."""
    options = "true, true" if server.version < 16 else "inherit_option, set_option"
    return set(
        await fetch(
            server,
            "postgres",
            f"""SELECT roleid::regrole::text, admin_option, {options}, grantor::regrole::text
                  FROM pg_auth_members WHERE member = %s::regrole""",
            username,
        )
    )


def groups(*names: str, **options: bool) -> tuple[MemberOf, ...]:
    return tuple(MemberOf(role=name, **options) for name in names)


async def may_give(admin: Admin, *names: str) -> None:
    """Groups that this administrator may make others members of."""
    for name in names:
        await admin.execute("CREATE ROLE {g}", g=name)
        if not admin.superuser and admin.version >= 16:
            await admin.execute("GRANT {g} TO operator WITH ADMIN OPTION", g=name)


@pytest.mark.differs("version", "administrator")
async def test_members_join_change_and_leave(admin: Admin) -> None:
    await may_give(admin, "readers", "writers")
    access = role(member_of=groups("readers", "writers"))
    assert (await admin.one(access)).problems == ()
    grantor = "postgres" if admin.superuser else "operator"
    assert await members(admin.server, "app") == {
        ("readers", False, True, True, grantor),
        ("writers", False, True, True, grantor),
    }
    await admin.settled(access)
    access = role(member_of=groups("readers", admin=True, inherit=False, set=False))
    changed = await admin.one(access)
    assert changed.problems == ()
    unheeded = "inherit: false and set: false of spec.memberOf readers has no effect"
    assert any(unheeded in one for one in changed.warnings) is (admin.version < 16)
    inherits = admin.version < 16
    assert await members(admin.server, "app") == {("readers", True, inherits, inherits, grantor)}
    await admin.settled(access)
    access = role(member_of=groups("readers"))
    assert (await admin.one(access)).problems == ()
    assert await members(admin.server, "app") == {("readers", False, True, True, grantor)}
    await admin.settled(access)
    assert (await admin.one(role(member_of=()))).problems == ()
    assert await members(admin.server, "app") == set()
    await admin.settled(role(member_of=()))


@pytest.mark.differs("version", "administrator")
@pytest.mark.parametrize("left", ["membership", "admin"])
async def test_what_a_member_granted_on_goes_with_its_right_to_do_so(
    admin: Admin, left: str
) -> None:
    await may_give(admin, "readers")
    await admin.execute("CREATE ROLE neighbor")
    await admin.one(role(member_of=groups("readers", admin=True)))
    await admin.execute("SET ROLE app", "GRANT readers TO neighbor")
    access = role(member_of=groups("readers") if left == "admin" else ())
    planned = [one.text for one in (await admin.plan(access)).statements]
    changed = await admin.one(access)
    assert changed.problems == ()
    held = [(name, option) for name, option, *_ in await members(admin.server, "app")]
    assert held == ([("readers", False)] if left == "admin" else [])
    # Before PostgreSQL 16 a membership does not depend on that of its grantor.
    has = {name for name, *_ in await members(admin.server, "neighbor")}
    assert has == ({"readers"} if admin.version < 16 else set())
    assert all(one.endswith(" CASCADE") for one in planned) is (admin.version >= 16), planned
    await admin.settled(access)


async def test_memberships_that_nobody_asks_about_stay(admin: Admin) -> None:
    await may_give(admin, "readers")
    await admin.one(role())
    await admin.execute("GRANT readers TO app")
    await admin.settled(role())
    assert {name for name, *_ in await members(admin.server, "app")} == {"readers"}


@pytest.mark.differs("version")
async def test_row_36_memberships_of_others_and_the_makers_own_stay(admin: Admin) -> None:
    await may_give(admin, "readers")
    await admin.execute("CREATE ROLE dba CREATEROLE")
    if admin.version >= 16:
        await admin.execute("GRANT readers TO dba WITH ADMIN OPTION")
    await admin.one(role(member_of=()))
    automatic = await members(admin.server, "operator")
    await admin.execute("SET ROLE dba", "GRANT readers TO app")
    result = await admin.one(role(member_of=()))
    assert result.problems == ()
    held = {name for name, *_ in await members(admin.server, "app")}
    if admin.version < 16:
        assert held == set()
    else:
        assert held == {"readers"}
        assert result.warnings == [
            "another role made app a member of readers; that role has to revoke the membership"
        ]
        await admin.settled(role(member_of=()))
    assert await members(admin.server, "operator") == automatic


@pytest.mark.only(version=(16, 18), administrator="createrole")
async def test_a_membership_that_came_by_a_group_of_the_administrator_is_its_own(
    admin: Admin,
) -> None:
    """PostgreSQL grants in the name of the group that has the right to it."""
    await admin.execute(
        "CREATE ROLE readers",
        "CREATE ROLE dba",
        "GRANT readers TO dba WITH ADMIN OPTION",
        "GRANT dba TO operator",
    )
    assert (await admin.one(role(member_of=groups("readers")))).problems == ()
    await admin.settled(role(member_of=groups("readers")))
    assert (await admin.one(role(member_of=()))).problems == ()
    assert await members(admin.server, "app") == set()


@pytest.mark.parametrize(
    ("statements", "reason"),
    [
        pytest.param(["CREATE ROLE g SUPERUSER"], "PolicyDenied", id="superuser"),
        pytest.param(["CREATE ROLE g CREATEROLE"], "PolicyDenied", id="createrole"),
        pytest.param(["CREATE ROLE g REPLICATION"], "PolicyDenied", id="replication"),
        pytest.param(["CREATE ROLE g BYPASSRLS"], "PolicyDenied", id="bypassrls"),
        pytest.param(
            ["CREATE ROLE h SUPERUSER", "CREATE ROLE g", "GRANT h TO j", "GRANT j TO g"],
            "PolicyDenied",
            id="leads-to-a-superuser",
        ),
        pytest.param(
            ["CREATE ROLE g", "GRANT pg_execute_server_program TO g"],
            "PolicyDenied",
            id="runs-programs",
        ),
        pytest.param([], "RoleNotFound", id="absent"),
    ],
)
async def test_groups_with_powers_and_absent_ones_are_refused(
    admin: Admin, statements: Sequence[str], reason: str
) -> None:
    await may_give(admin, "readers")
    await admin.execute("CREATE ROLE j", *statements)
    result = await admin.one(role(member_of=groups("g", "readers")))
    assert [one.reason for one in result.problems] == [reason]
    assert {name for name, *_ in await members(admin.server, "app")} == {"readers"}
    assert await can_login(admin.server, "app", PASSWORD)


@pytest.mark.differs("administrator")
async def test_row_45_attributes_and_settings_make_no_permanent_difference(admin: Admin) -> None:
    config = {
        "search_path": '"a,b", c, "$user", "d""e"',
        "work_mem": "8MB",
        "TimeZone": "Europe/Amsterdam",
        "DateStyle": "ISO, DMY",
        "application_name": 'it\'s a "name", with commas',
        "app.tenant": "",
    }
    if not admin.superuser:
        # What no parameter is yet only superusers may set.
        del config["app.tenant"]
    attributes = Attributes(
        connection_limit=7, valid_until="2099-01-31T12:00:00+02:00", inherit=False, config=config
    )
    access = role(attributes=attributes, valid_until="2099-01-31T10:00:00Z")
    assert (await admin.one(access)).problems == ()
    await admin.settled(access)
    async with await login(admin.server, "app", PASSWORD) as session:
        cursor = await session.execute("SHOW search_path")
        assert await cursor.fetchall() == [('"a,b", c, "$user", "d""e"',)]
        cursor = await session.execute("SHOW application_name")
        assert await cursor.fetchall() == [('it\'s a "name", with commas',)]
    ((limit, inherit, until),) = await fetch(
        admin.server,
        "postgres",
        "SELECT rolconnlimit, rolinherit, rolvaliduntil::text FROM pg_roles WHERE rolname = 'app'",
    )
    assert (limit, inherit, until[:10]) == (7, False, "2099-01-31")
    less = role(attributes=Attributes(config={"search_path": ""}), valid_until="")
    assert (await admin.one(less)).problems == ()
    await admin.settled(less)
    stored = await fetch(
        admin.server,
        "postgres",
        "SELECT setconfig FROM pg_db_role_setting WHERE setrole = 'app'::regrole",
    )
    assert stored == [(['search_path=""'],)]


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        pytest.param("session_replication_role", "replica", "PolicyDenied", id="superusers"),
        pytest.param("Log_Statement", "none", "PolicyDenied", id="superusers-other-case"),
        pytest.param("shared_buffers", "1GB", "PolicyDenied", id="the-servers"),
        pytest.param("no_such_parameter", "1", "AttributeInvalid", id="unknown"),
        pytest.param("work_mem", "a lot", "AttributeInvalid", id="no-value"),
    ],
)
async def test_a_setting_that_is_refused_stops_nothing_else(
    admin: Admin, name: str, value: str, reason: str
) -> None:
    attributes = Attributes(connection_limit=5, config={name: value, "statement_timeout": "1min"})
    result = await admin.one(role(attributes=attributes))
    assert [one.reason for one in result.problems] == [reason]
    assert name in result.problems[0].message
    async with await login(admin.server, "app", PASSWORD) as session:
        cursor = await session.execute("SHOW statement_timeout")
        assert await cursor.fetchall() == [("1min",)]


async def test_what_a_superuser_has_set_for_the_role_stays(admin: Admin) -> None:
    await admin.one(role())
    await admin.execute("ALTER ROLE app SET log_statement = 'all'")
    await admin.settled(role(attributes=Attributes()))


@pytest.mark.parametrize(
    "attributes",
    [
        pytest.param(Attributes(connection_limit=0), id="no-connection-left"),
        pytest.param(Attributes(valid_until="2020-01-01T00:00:00Z"), id="long-over"),
    ],
)
async def test_row_45_a_role_that_nobody_can_log_in_with_is_in_order(
    admin: Admin, attributes: Attributes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also for who has to log in to prove a password, and after a restart; others go on."""
    access = role(attributes=attributes, valid_until=attributes.valid_until)
    neighbour = role("neighbour", uid="u2")
    await admin.sync(access, neighbour)
    await admin.settled(access)
    admin.verifiers = Verifiers()
    before = await rows(admin.server)
    found = await admin.sync(access, neighbour)
    assert [isinstance(one, Synced) and one.problems for one in found.values()] == [(), ()]
    assert await rows(admin.server) == before
    monkeypatch.setattr(bounds, "PROBE_SECONDS", 0.0)
    assert (await admin.sync(access, neighbour)).keys() == found.keys()
    assert await rows(admin.server) == before


async def test_a_password_changed_while_nobody_can_log_in_is_stored(admin: Admin) -> None:
    over = {"valid_until": "2020-01-01T00:00:00Z"}
    await admin.one(role(**over))
    assert (await admin.one(role(password="another", **over))).changed
    await admin.one(role(password="another", valid_until=""))
    assert await can_login(admin.server, "app", "another")


async def test_a_role_that_may_log_in_from_elsewhere_alone_is_stored_once(
    admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(*_: object) -> None:
        """As an hba file does that has no line for the operator's address."""

    monkeypatch.setattr(verifiers_module, "logs_in", refused)
    monkeypatch.setattr(bounds, "PROBE_SECONDS", 0.0)
    assert (await admin.one(role())).changed
    before = await rows(admin.server)
    assert not (await admin.one(role())).changed
    assert await rows(admin.server) == before
    assert (await admin.one(role(password="another"))).changed
    assert await can_login(admin.server, "app", "another")


async def adopting(admin: Admin, *statements: str) -> AccessError | None:
    await admin.execute("CREATE ROLE app LOGIN PASSWORD 'by hand'", *statements)
    if not admin.superuser and admin.version >= 16:
        await admin.execute("GRANT app TO operator WITH ADMIN OPTION")
    before = await rows(admin.server)
    access = role(adopt=True)
    refused = await check_claims(admin.sessions, [Check(("app",), access.claim, True)])
    found = (await admin.sync(access))["app"]
    plan = await admin.plan(access)
    if isinstance(found, AccessError):
        assert await rows(admin.server) == before
        assert str(refused["app"]) == str(found) == str(plan.refused["app"][0])
        assert plan.statements == ()
        return found
    assert refused["app"] is None
    return None


@pytest.mark.differs("version", "administrator")
async def test_adoption_takes_a_role_over_as_it_is(admin: Admin) -> None:
    await admin.execute("CREATE ROLE other LOGIN PASSWORD 'by hand'")
    with pytest.raises(AccessError, match="AdoptionRefused"):
        await admin.one(role("other", uid="u2"))
    assert await adopting(admin) is None
    assert await can_login(admin.server, "app", PASSWORD)
    assert not await can_login(admin.server, "app", "by hand")
    await admin.settled(role())


@pytest.mark.differs("version", "administrator")
@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        pytest.param("ALTER ROLE app SUPERUSER", "UserReserved", id="superuser"),
        pytest.param("ALTER ROLE app CREATEROLE", "UserReserved", id="createrole"),
        pytest.param("GRANT postgres TO app", "AdoptionRefused", id="member-of-a-superuser"),
        pytest.param(
            "GRANT pg_read_server_files TO app", "AdoptionRefused", id="reads-the-servers-files"
        ),
    ],
)
async def test_what_has_powers_is_never_adopted(admin: Admin, statement: str, reason: str) -> None:
    refused = await adopting(admin, statement)
    assert refused is not None
    assert (refused.reason, refused.verdict) == (reason, True)


async def test_a_claim_of_somebody_else_is_never_adopted(admin: Admin) -> None:
    await admin.one(role(claim=RoleClaim(installation="there", uid="u9")))
    with pytest.raises(AccessError, match="UsernameConflict"):
        await admin.one(role(adopt=True))


@pytest.mark.differs("administrator")
@pytest.mark.parametrize(
    ("heir", "message"),
    [
        pytest.param("mighty", "is a superuser, has powers", id="superuser"),
        pytest.param("operator", "has powers", id="administrator"),
        pytest.param("taken", "belongs to another PostgresAccess", id="another-s"),
        pytest.param("nobody", "does not exist", id="absent"),
        pytest.param("heir", "", id="as-asked"),
    ],
)
async def test_orphans_go_to_whom_they_shall_and_to_nobody_with_powers(
    admin: Admin, heir: str, message: str
) -> None:
    await admin.execute("CREATE ROLE heir", "CREATE ROLE mighty SUPERUSER", "CREATE DATABASE d")
    await admin.one(role("taken", uid="u2"))
    if not admin.superuser:
        await admin.execute("ALTER DATABASE d OWNER TO operator", "GRANT heir TO operator")
    await admin.one(role())
    await run(admin.server, "d", "CREATE TABLE t (id int)", "ALTER TABLE t OWNER TO app")
    await run(admin.server, "d", "GRANT CREATE ON SCHEMA public TO heir")
    removing = cleanup(admin.sessions, "app", role().claim, "Orphan", orphan_to=heir)
    if message:
        with pytest.raises(AccessError, match=f"OwnsObjects: role {heir} .*{message}"):
            await removing
        assert not await can_login(admin.server, "app", PASSWORD)
        return
    assert await removing
    query = "SELECT relowner::regrole::text FROM pg_class WHERE relname = 't'"
    assert await fetch(admin.server, "d", query) == [("heir",)]


async def test_claims_show_no_names_and_older_ones_are_rewritten_once(admin: Admin) -> None:
    old = RoleClaim(installation="here", namespace="secret-team", name="secret-app", uid="u1")
    new = replace_claim(old, object="0123456789abcdef")
    await admin.one(role(claim=old))
    query = "SELECT description FROM pg_shdescription WHERE objoid = 'app'::regrole"
    ((text,),) = await fetch(admin.server, "postgres", query)
    assert "secret-team" in text
    result = await admin.one(role(claim=new))
    assert (result.changed, result.problems) == (True, ())
    everything = str(await fetch(admin.server, "postgres", "SELECT * FROM pg_shdescription"))
    assert "0123456789abcdef" in everything
    assert "secret" not in everything
    await admin.settled(role(claim=new))
    again = replace_claim(new, uid="u2")
    await admin.one(role(claim=again))
    with pytest.raises(AccessError, match="UsernameConflict"):
        await admin.one(role(claim=replace_claim(old, uid="u3", name="another", object="fedc")))


def replace_claim(one: RoleClaim, **fields: str) -> RoleClaim:
    values = {name: getattr(one, name) for name in one.__struct_fields__}
    return RoleClaim(**(values | fields))


async def has_table(admin: Admin) -> None:
    """A database d with a table s.t, all of it the administrator's."""
    owner = admin.server.username if admin.superuser else "operator"
    await admin.execute("CREATE DATABASE d OWNER {owner}", owner=owner)
    mine = ("SET ROLE {owner}", "CREATE SCHEMA s", "CREATE TABLE s.t (id int)")
    await run(admin.server, "d", *mine, owner=owner)


async def test_row_41_one_bad_access_among_fifty_takes_nobody_along(admin: Admin) -> None:
    await has_table(admin)
    # VALID UNTIL of no time at all fails inside the transaction that is for all of them.
    accesses = [
        role(f"app{n}", uid=f"u{n}", grants=(grant("d", "CONNECT", "SELECT", schema="s"),))
        for n in range(50)
    ]
    accesses[20] = replace_(accesses[20], valid_until="no time")
    found = await admin.sync(*accesses)
    bad = found.pop("app20")
    assert isinstance(bad, AccessError)
    assert len(found) == 49
    assert all(isinstance(one, Synced) and one.problems == () for one in found.values())
    for name in ("app0", "app49"):
        assert ("t", "SELECT") in await privileges(admin.server, "d", name)
        assert await can_login(admin.server, name, PASSWORD)
    assert "app20" not in {name for _, name, *_ in await rows(admin.server)}


@pytest.mark.differs("administrator")
async def test_the_plan_of_a_new_role_is_all_that_is_done_then(admin: Admin) -> None:
    await may_give(admin, "readers")
    await has_table(admin)
    access = role(
        grants=(grant("d", "CONNECT", "SELECT", schema="s"),), member_of=groups("readers")
    )
    before = await rows(admin.server)
    plan = await admin.plan(access)
    assert await rows(admin.server) == before
    assert plan.refused == {}
    text = "\n".join(f"{one.database}: {one.text}" for one in plan.statements)
    assert "SCRAM" not in text
    assert "PASSWORD '***'" in text
    assert "d: GRANT SELECT ON " in text
    # Another salt, the same digest; another password too, for it is hidden.
    admin.verifiers = Verifiers()
    assert (await admin.plan(replace_(access, password="x"))).digest() == plan.digest()
    begun = admin.server.logged()
    assert (await admin.one(access)).problems == ()
    log = admin.server.log(begun)
    for one in plan.statements:
        # A superuser keeps its statements on roles out of the log.
        if one.database == "d" or (not admin.superuser and "PASSWORD" not in one.text):
            assert one.text in log
    await admin.settled(access)


async def test_a_plan_names_what_cannot_be_had(admin: Admin) -> None:
    await admin.execute("CREATE DATABASE d")
    access = role(grants=(grant("d", "SELECT", schema="nowhere"), grant("absent", "CONNECT")))
    found = (await admin.plan(access)).refused["app"]
    assert {"SchemaNotFound", "DatabaseNotFound"} <= {one.reason for one in found}
    await admin.one(access)
    found = (await admin.plan(access)).refused["app"]
    assert {"SchemaNotFound", "DatabaseNotFound"} <= {one.reason for one in found}


async def test_a_plan_about_anothers_role_disturbs_nobody(admin: Admin) -> None:
    await admin.one(role())
    other = role(claim=RoleClaim(installation="here", object="other", uid="u2"), password="theirs")
    assert [one.reason for one in (await admin.plan(other)).refused["app"]] == ["UsernameConflict"]
    assert (await admin.look(role())).differing == frozenset()


@pytest.mark.differs("administrator")
async def test_a_look_finds_what_others_changed_and_nothing_else(admin: Admin) -> None:
    await may_give(admin, "readers")
    access = role(
        member_of=groups("readers"),
        attributes=Attributes(connection_limit=3, config={"work_mem": "8MB"}),
        valid_until="2099-01-01T00:00:00Z",
    )
    await admin.one(access)
    for statement in (
        "REVOKE readers FROM app" + (" GRANTED BY operator" * (not admin.superuser)),
        "ALTER ROLE app CONNECTION LIMIT 9",
        "ALTER ROLE app RESET work_mem",
        "ALTER ROLE app SET statement_timeout = 1",
        "ALTER ROLE app VALID UNTIL '2099-01-01T00:00:01Z'",
        "ALTER ROLE app NOLOGIN",
        "COMMENT ON ROLE app IS NULL",
        "ALTER ROLE app RENAME TO other",
    ):
        assert (await admin.look(access)).differing == frozenset(), statement
        await admin.execute(statement)
        assert (await admin.look(access)).differing == {"app"}, statement
        if "COMMENT" in statement:
            text = sql.Literal(access.claim.text()).as_string()
            await admin.execute(
                f"COMMENT ON ROLE app IS {text}".replace("{", "{{").replace("}", "}}")
            )
        elif "RENAME" not in statement:
            assert (await admin.one(access)).problems == ()


@pytest.mark.only(version=15)
async def test_pg_stat_statements_keeps_no_verifier_where_that_may_be_told(admin: Admin) -> None:
    await admin.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
    if not admin.superuser:
        for name in ("pg_stat_statements.track", "log_statement", "log_min_duration_statement"):
            await admin.execute(f"GRANT SET ON PARAMETER {name} TO operator")
    await admin.execute("SELECT pg_stat_statements_reset()")
    begun = admin.server.logged()
    await admin.one(role())
    await admin.one(role(password="another"))
    seen = str(
        await fetch(admin.server, "postgres", "SELECT query FROM public.pg_stat_statements")
    )
    log = admin.server.log(begun)
    if not admin.superuser:
        await admin.execute(
            *(
                f"REVOKE SET ON PARAMETER {name} FROM operator"
                for name in (
                    "pg_stat_statements.track",
                    "log_statement",
                    "log_min_duration_statement",
                )
            )
        )
    assert "lock_timeout" in seen or "set_config" in seen
    assert "SCRAM" not in seen + log
    assert await can_login(admin.server, "app", "another")


async def test_fencing_alone_leaves_the_role_and_its_claim(admin: Admin) -> None:
    await admin.one(role())
    async with await login(admin.server, "app", PASSWORD) as session:
        assert await cleanup(admin.sessions, "app", role().claim, "Fence")
        with pytest.raises(psycopg.OperationalError):
            await session.execute("SELECT 1")
    assert not await can_login(admin.server, "app", PASSWORD)
    assert (await admin.one(role())).problems == ()
    assert await can_login(admin.server, "app", PASSWORD)


@pytest.mark.differs("version", "administrator")
async def test_the_sessions_of_one_role_are_counted_and_ended(admin: Admin) -> None:
    other = role("other", uid="u2")
    await admin.sync(role(), other)
    async with (
        await login(admin.server, "app", PASSWORD) as first,
        await login(admin.server, "app", PASSWORD) as second,
        await login(admin.server, "other", PASSWORD) as stays,
    ):
        found = await admin.one(role())
        assert (found.open_sessions, found.sessions, found.changed) == (2, None, False)
        found = await admin.one(role(ends_sessions=True))
        assert (found.sessions, found.changed) == (SessionsEnd(ended=2), False)
        for session in (first, second):
            with pytest.raises(psycopg.OperationalError):
                await session.execute("SELECT 1")
        await stays.execute("SELECT 1")
    async with await login(admin.server, "app", PASSWORD):
        over = role(valid_until="2026-01-01T00:00:00Z")
        (warning,) = (await admin.one(over)).warnings
        assert warning.startswith("open sessions of role app, which may not log in any more: 1;")
        kept = [Kept.of(over, [warning])]
        looked = await find_drift(admin.sessions, kept, admin.verifiers, "here")
        assert looked.differing == frozenset()
    await admin.execute(f"DO $$ BEGIN {_GONE} END $$")
    looked = await find_drift(admin.sessions, kept, admin.verifiers, "here")
    assert looked.differing == {"app"}


async def test_sessions_that_do_not_end_hold_others_up_for_one_wait_alone(admin: Admin) -> None:
    count = 6
    await admin.sync(role(), role("other", uid="u2"))
    async with AsyncExitStack() as stack:
        for name in ("app", "other") * count:
            await stack.enter_async_context(await login(admin.server, name, PASSWORD))
        pids = await fetch(
            admin.server,
            "postgres",
            "SELECT pid, usesysid::int8, usename::text FROM pg_stat_activity"
            " WHERE usename IN ('app', 'other')",
        )
        actors = {name: [Actor(oid, name)] for _, oid, name in pids}
        stopped = [pid for pid, _, name in pids if name == "app"]
        for pid in stopped:
            stack.callback(os.kill, pid, signal.SIGCONT)
            os.kill(pid, signal.SIGSTOP)
        async with admin.sessions.working("end sessions") as session:
            await session.run(sql.SQL("SET statement_timeout = 700"))
            ends = await end_all_sessions(
                session, actors, superuser=admin.superuser, wait=bounds.GONE_MS
            )
            await session.run(sql.SQL("RESET statement_timeout"))
        assert ends["app"] == SessionsEnd(ended=0, left=count)
        assert ends["other"] == SessionsEnd(ended=count)


async def test_parallel_workers_are_no_sessions(server: EmbeddedPostgres) -> None:
    """They come and go, and each change of the number would be another status."""
    admin = Admin(server, superuser=True)
    try:
        await admin.one(role())
        async with await login(server, "app", PASSWORD) as session:
            version = session.info.server_version
            forced = "debug_parallel_query" if version >= 160000 else "force_parallel_mode"
            await session.execute(f"SET {forced} = on")
            query = asyncio.create_task(session.execute("SELECT pg_sleep(600)"))
            await admin.execute(f"DO $$ BEGIN {_AT_WORK} END $$")
            opened = (await admin.one(role())).open_sessions
            found = await admin.one(role(ends_sessions=True))
            with pytest.raises(psycopg.OperationalError):
                await query
            assert (opened, found.sessions) == (1, SessionsEnd(ended=1))
    finally:
        await admin.sessions.close()
        await sweep(server)


_AT_WORK = """
    WHILE NOT EXISTS (SELECT FROM pg_stat_activity
                       WHERE usename = 'app' AND backend_type = 'parallel worker') LOOP
        PERFORM pg_sleep(0.01), pg_stat_clear_snapshot();
    END LOOP;
"""
_GONE = """
    WHILE EXISTS (SELECT FROM pg_stat_activity WHERE usename = 'app') LOOP
        PERFORM pg_sleep(0.01), pg_stat_clear_snapshot();
    END LOOP;
"""


@pytest.mark.differs("administrator")
async def test_many_writers_at_once_do_not_disturb_one_another(admin: Admin) -> None:
    """Two installations' worth of sessions, and a look at the same time."""
    other = Admin(admin.server, superuser=admin.superuser)
    first = [role(f"a{n}", uid=f"a{n}") for n in range(10)]
    second = [role(f"b{n}", uid=f"b{n}") for n in range(10)]
    await asyncio.gather(admin.sync(*first), other.sync(*second), admin.look(), other.look())
    assert (await admin.look(*first)).differing == frozenset()
    assert (await other.look(*second)).differing == frozenset()
    await other.sessions.close()


@pytest.mark.differs("administrator")
async def test_a_plan_has_what_public_loses(admin: Admin) -> None:
    await admin.execute("CREATE DATABASE d")
    await run(admin.server, "d", "GRANT CREATE ON SCHEMA public TO PUBLIC")
    if not admin.superuser:
        await admin.execute("ALTER DATABASE d OWNER TO operator")
    endpoint = replace(
        admin.sessions.endpoint, revoke_public=frozenset({"CONNECT", "TEMPORARY", "CREATE"})
    )
    await admin.sessions.close()
    admin.sessions = Sessions(endpoint)
    access = role(grants=(grant("d", "CONNECT"),))
    plan = await admin.plan(access)
    texts = [one.text for one in plan.statements if "FROM PUBLIC" in one.text]
    assert len(texts) == 2
    assert (await admin.one(access)).problems == ()
    await admin.settled(access)
