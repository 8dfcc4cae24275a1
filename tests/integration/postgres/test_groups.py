"""Groups that logins share, on servers of each version, with both administrators."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
from tests.support.pgserver import (
    PASSWORD,
    Admin,
    claim,
    fetch,
    grant,
    login,
    run,
    sweep,
    wanted,
)
from tests.support.servers import Servers
from tests.support.tiers import ADMINISTRATORS, VERSIONS

from fairlead.api.postgresaccess import Attributes, Grant, MemberOf
from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.postgres.database.connections.session import Session
from fairlead.postgres.database.plans.groups import share
from fairlead.postgres.database.plans.names import check_username, is_group
from fairlead.postgres.database.plans.plan import ShownPlan, Synced, WantedState
from fairlead.postgres.database.work import removal
from fairlead.postgres.database.work.cleanup import cleanup, give_up
from fairlead.postgres.database.work.drift import DriftResult, Kept, find_drift
from fairlead.postgres.database.work.groups import drop_groups
from fairlead.postgres.database.work.planning import plan_accesses
from fairlead.postgres.database.work.sync import sync
from fairlead.postgres.errors import AccessError


@pytest.fixture(params=VERSIONS)
def server(request: pytest.FixtureRequest, servers: Servers) -> EmbeddedPostgres:
    return servers.of(request.param)


class Place(Admin):
    """A database ``app`` with schema ``s`` and tables ``t`` and ``u``, and an administrator."""

    def __init__(self, server: EmbeddedPostgres, *, superuser: bool) -> None:
        super().__init__(server, superuser=superuser)
        self.warnings: dict[str, list[str]] = {}

    async def run(self, *statements: str, database: str = "app", **names: str) -> None:
        await run(self.server, database, *statements, **names)

    async def sync(self, *accesses: WantedState) -> dict[str, Synced]:
        found = await sync(self.sessions, accesses, self.verifiers)
        made: dict[str, Synced] = {}
        for name, one in found.items():
            assert isinstance(one, Synced), one
            made[name] = one
            self.warnings[name] = one.warnings
        return made

    async def bring(self, *accesses: WantedState) -> None:
        for one in (await self.sync(*accesses)).values():
            assert one.problems == ()

    async def look(self, *accesses: WantedState) -> DriftResult:
        kept = [Kept.of(one, self.warnings.get(one.username, ())) for one in accesses]
        return await find_drift(self.sessions, kept, self.verifiers, "here")

    async def plan(self, *accesses: WantedState) -> ShownPlan:
        return await plan_accesses(self.sessions, accesses, self.verifiers, rights=True)

    async def settled(self, *accesses: WantedState) -> None:
        assert (await self.look(*accesses)).differing == frozenset()
        plan = await self.plan(*accesses)
        assert (plan.statements, plan.refused, plan.remedies) == ((), {}, ())

    async def groups(self) -> list[str]:
        found = await fetch(self.server, "postgres", "SELECT rolname FROM pg_roles ORDER BY 1")
        return [name for (name,) in found if is_group(name)]

    async def members(self, group: str) -> dict[str, tuple[bool, ...]]:
        options = "m.admin_option, m.inherit_option, m.set_option"
        if self.version < 16:
            options = "m.admin_option, true, false"
        found = await fetch(
            self.server,
            "postgres",
            f"SELECT x.rolname, {options} FROM pg_auth_members m"
            " JOIN pg_roles x ON x.oid = m.member JOIN pg_roles g ON g.oid = m.roleid"
            " WHERE g.rolname = %s AND x.rolname NOT IN ('operator', 'postgres')",
            group,
        )
        return {name: tuple(options) for name, *options in found}

    async def direct(self, role: str, database: str = "app") -> set[str]:
        """What the role itself holds: privileges by object."""
        found = await fetch(
            self.server,
            database,
            """
            SELECT a.privilege_type || ' ' || o.name FROM (
              SELECT 'database ' || datname AS name, datacl AS acl FROM pg_database
              UNION ALL SELECT 'schema ' || nspname, nspacl FROM pg_namespace
              UNION ALL SELECT relname, relacl FROM pg_class
              UNION ALL SELECT 'future', defaclacl FROM pg_default_acl
            ) o, aclexplode(o.acl) a
            WHERE a.grantee = (SELECT oid FROM pg_roles WHERE rolname = %s)
            """,
            role,
        )
        return {text for (text,) in found}

    async def may(self, role: str, privilege: str, table: str = "s.t") -> bool:
        ((has,),) = await fetch(
            self.server,
            "app",
            "SELECT has_table_privilege(%s, %s, %s)",
            role,
            table,
            privilege,
        )
        return bool(has)


@pytest.fixture(params=ADMINISTRATORS)
async def place(request: pytest.FixtureRequest, server: EmbeddedPostgres) -> AsyncIterator[Place]:
    made = Place(server, superuser=request.param == "superuser")
    await made.run("CREATE DATABASE app OWNER operator STRATEGY FILE_COPY", database="postgres")
    await made.run(
        "SET ROLE operator",
        "CREATE SCHEMA s",
        "CREATE TABLE s.t (id int)",
        "CREATE TABLE s.u (id int)",
    )
    yield made
    await made.sessions.close()
    await sweep(server)


def replaced(access: WantedState, **fields: Any) -> WantedState:
    values = {name: getattr(access, name) for name in access.__struct_fields__}
    return WantedState(**(values | fields))


READ = (grant("app", "CONNECT", "SELECT", schema="s"),)
WRITE = (grant("app", "CONNECT", "SELECT", "INSERT", schema="s"),)


def sharer(username: str, *grants: Grant, scope: str | None = "k", **fields: Any) -> WantedState:
    made = wanted(username, *(grants or READ), claimed=claim(name=username, uid=username))
    return replaced(made, scope=scope, **fields)


# What the set is.


def _group(*grants: Grant, scope: str = "k", version: int = 160000) -> str:
    (name,) = share([sharer("a", *grants, scope=scope)], version).groups
    return name


SAME: dict[str, tuple[tuple[Grant, ...], tuple[Grant, ...]]] = {
    "order": (
        (grant("app", "SELECT"), grant("app", "INSERT")),
        (grant("app", "INSERT", "SELECT"),),
    ),
    "duplicates": ((grant("app", "SELECT"),), (grant("app", "SELECT"), grant("app", "SELECT"))),
    "implied USAGE": ((grant("app", "SELECT"),), (grant("app", "SELECT", "USAGE"),)),
    "ALL": (
        (Grant(database="app", on="Sequences", privileges=["ALL"]),),
        (Grant(database="app", on="Sequences", privileges=["USAGE", "SELECT", "UPDATE"]),),
    ),
    "a grant option beside": (
        (grant("app", "SELECT"),),
        (grant("app", "SELECT"), Grant(database="app", privileges=["INSERT"], grant_option=True)),
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_sets_that_are_the_same(name: str) -> None:
    first, second = SAME[name]
    assert _group(*first) == _group(*second)


def test_a_bundle_is_what_it_stands_for() -> None:
    bundle = share([sharer("a", Grant(database="app", schema="s", access="ReadOnly"))], 160000)
    ((group,),) = [tuple(bundle.groups.values())]
    assert "SELECT on all tables in app.s" in group.grants.describe()
    assert bundle.own["a"].databases == {}


def test_sets_that_differ() -> None:
    names = {
        _group(*READ),
        _group(*WRITE),
        _group(*READ, scope="other"),
        _group(grant("other", "CONNECT", "SELECT", schema="s")),
        _group(grant("app", "SELECT", schema="s")),
    }
    assert len(names) == 5
    assert all(map(is_group, names))


def test_what_may_be_passed_on_stays_the_logins_own() -> None:
    grants = (Grant(database="app", privileges=["CREATE"], grant_option=True),)
    alone = share([sharer("a", *grants)], 160000)
    assert (alone.groups, alone.group_of) == ({}, {})
    assert alone.own["a"].describe() == ["CREATE with grant option on schema app.public"]
    both = share([sharer("a", *grants, *READ)], 160000)
    assert both.own["a"].describe() == ["CREATE with grant option on schema app.public"]
    (group,) = both.groups.values()
    assert not [line for line in group.grants.describe() if "option" in line]


def test_a_login_that_inherits_nothing_shares_nothing_before_16() -> None:
    one = sharer("a", attributes=Attributes(inherit=False))
    assert share([one], 150000).groups == {}
    assert len(share([one], 160000).groups) == 1


def test_nobody_gets_the_name_of_a_group() -> None:
    with pytest.raises(AccessError, match="reserved"):
        check_username(_group())
    check_username("fairlead_group_of_ours")


# What is done.


async def test_logins_share_what_they_ask_for(place: Place) -> None:
    one, two, alone = sharer("one"), sharer("two"), sharer("alone", scope="")
    await place.bring(one, two, alone)
    (group,) = await place.groups()
    assert await place.members(group) == {
        "one": (False, True, False),
        "two": (False, True, False),
    }
    assert await place.direct(group) == await place.direct("alone")
    assert await place.direct("one") == set()
    assert await place.may("one", "SELECT")
    await place.settled(one, two, alone)
    found = await place.sync(one)
    assert (found["one"].group, found["one"].changed) == (group, False)
    assert found["one"].applied == (await place.sync(alone))["alone"].applied
    async with await login(place.server, "one", PASSWORD, "app") as session:
        await session.execute("SELECT FROM s.t")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            await session.execute("INSERT INTO s.t VALUES (1)")


async def test_a_group_goes_with_its_last_member(place: Place) -> None:
    future = Grant(database="app", schema="s", access="ReadOnly")
    one, two = sharer("one", future), sharer("two", future)
    await place.bring(one, two)
    (group,) = await place.groups()
    assert "SELECT future" in await place.direct(group)
    await cleanup(place.sessions, "one", one.claim, "Restrict")
    assert await place.groups() == [group]
    assert await place.may("two", "SELECT")
    await cleanup(place.sessions, "two", two.claim, "Cascade")
    assert await place.groups() == []


async def test_on_and_off_again(place: Place) -> None:
    plain, shared = sharer("one", scope=""), sharer("one")
    await place.bring(plain)
    before = await place.direct("one")
    planned = await place.plan(shared)
    assert planned.refused == {}
    texts = [one.text for one in planned.statements]
    assert texts[0].startswith("CREATE ROLE ")
    assert all(one.usernames == ("one",) for one in planned.statements)
    await place.bring(shared)
    (group,) = await place.groups()
    assert (await place.direct("one"), await place.direct(group)) == (set(), before)
    await place.settled(shared)
    back = await place.plan(plain)
    assert back.statements[-1].text.startswith(f'REVOKE "{group}" FROM "one"')
    await place.bring(plain)
    assert await place.direct("one") == before
    assert await place.groups() == []
    await place.settled(plain)


async def test_other_grants_are_another_group(place: Place) -> None:
    reader, writer = sharer("one"), sharer("one", *WRITE)
    await place.bring(reader, sharer("two"))
    (before,) = await place.groups()
    await place.bring(writer)
    after = [name for name in await place.groups() if name != before]
    assert (await place.sync(writer))["one"].group == after[0]
    assert (await place.members(before)).keys() == {"two"}
    assert await place.may("one", "INSERT")
    await place.bring(reader)
    assert await place.groups() == [before]
    assert not await place.may("one", "INSERT")


def asked_in_turn() -> dict[str, WantedState]:
    """One access in a group that others share, with privileges of its own, in another group."""
    return {
        "shared": sharer("one"),
        "own": sharer("one", *WRITE, scope=""),
        "other": sharer("one", *WRITE),
    }


@pytest.mark.parametrize("first", ["shared", "own", "other"])
@pytest.mark.parametrize("then", ["shared", "own", "other"])
async def test_what_is_asked_for_before_and_after_is_never_missing(
    place: Place, first: str, then: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looked at by another session after each statement, however it is committed."""
    accesses = asked_in_turn()
    await place.bring(accesses[first])
    missing = []
    run_all = Session.run_all

    async def watched(session: Session, *asked: Any) -> Any:
        found = await run_all(session, *asked)
        if not await place.may("one", "SELECT"):
            missing.append(asked)
        return found

    exchange = Session.exchange

    async def looked(session: Session, *args: Any) -> Any:
        found = await exchange(session, *args)
        ((usable,),) = await fetch(
            place.server,
            "app",
            "SELECT has_table_privilege('one', 's.t', 'SELECT')"
            " AND has_schema_privilege('one', 's', 'USAGE')",
        )
        if not usable:
            missing.append(args)
        return found

    monkeypatch.setattr(Session, "run_all", watched)
    monkeypatch.setattr(Session, "exchange", looked)
    await place.bring(accesses[then])
    assert missing == []
    monkeypatch.undo()
    await place.settled(accesses[then])


@pytest.mark.extended
@pytest.mark.parametrize(("first", "then"), [("own", "shared"), ("shared", "other")])
async def test_killed_in_the_middle(
    place: Place, first: str, then: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends at each step in turn: nothing that is kept is missing, and the next pass ends it."""
    accesses = asked_in_turn()
    exchange, steps = Session.exchange, 0
    for limit in range(1, 200):
        await place.bring(accesses[first])
        steps = 0

        async def dying(session: Session, *args: Any, limit: int = limit) -> Any:
            nonlocal steps
            steps += 1
            if steps == limit:
                raise AccessError("Killed", "at this step")
            return await exchange(session, *args)

        with monkeypatch.context() as patched:
            patched.setattr(Session, "exchange", dying)
            with contextlib.suppress(AccessError):
                await sync(place.sessions, [accesses[then]], place.verifiers)
        assert await place.may("one", "SELECT")
        found = await place.look(accesses[then])
        await drop_groups(place.sessions, found.deserted, "here")
        await place.bring(accesses[then])
        await place.settled(accesses[then])
        if steps < limit:
            break
    assert steps > 10
    assert len(await place.groups()) == 1


# What others do.


DRIFT = {
    "a privilege less": "REVOKE SELECT ON s.t FROM {group}",
    "a privilege more": "GRANT INSERT ON s.t TO {group}",
    "CONNECT": "REVOKE CONNECT ON DATABASE app FROM {group}",
    "TEMPORARY": "GRANT TEMPORARY ON DATABASE app TO {group}",
    "out of the group": "REVOKE {group} FROM one",
    "a member more": "GRANT {group} TO stranger",
    "ADMIN": "GRANT {group} TO one WITH ADMIN OPTION",
    "a login": "ALTER ROLE {group} LOGIN PASSWORD 'x'",
    "powers": "ALTER ROLE {group} CREATEROLE",
    "a group of its own": "GRANT writers TO {group}",
    "directly": "GRANT INSERT ON s.t TO one",
    "directly on the database": "GRANT TEMPORARY ON DATABASE app TO one",
    "another name": "ALTER ROLE {group} RENAME TO renamed",
}


@pytest.mark.differs("version", "administrator")
@pytest.mark.parametrize("name", DRIFT)
async def test_drift_is_found_and_mended(place: Place, name: str) -> None:
    one, two = sharer("one"), sharer("two")
    await place.bring(one, two)
    (group,) = await place.groups()
    await place.run("CREATE ROLE stranger", "CREATE ROLE writers")
    if not place.superuser and place.version >= 16:
        await place.run("GRANT stranger, writers TO operator WITH ADMIN OPTION")
    own = "directly" in name or name in {"out of the group", "ADMIN"}
    statements = [] if place.superuser else ["SET ROLE operator"]
    await place.run(*statements, DRIFT[name].format(group=group))
    found = await place.look(one, two)
    assert found.differing == ({"one"} if own else {"one", "two"})
    planned = await place.plan(one)
    assert planned.statements
    await place.bring(one, two)
    await place.settled(one, two)
    (now,) = await place.groups()
    assert now == group
    assert (await place.members(group)).keys() == {"one", "two"}
    assert not (await place.members(group))["one"][0]
    rows = await fetch(
        place.server,
        "app",
        "SELECT rolcanlogin, rolcreaterole FROM pg_roles WHERE rolname = %s",
        group,
    )
    assert rows == [(False, False)]


@pytest.mark.differs("version")
async def test_a_role_of_that_name_is_never_taken(place: Place) -> None:
    one = sharer("one")
    name = _group(*READ, version=place.version * 10000)
    await place.run("CREATE ROLE {r} LOGIN", r=name)
    row = "SELECT xmin::text FROM pg_authid WHERE rolname = %s"
    before = await fetch(place.server, "app", row, name)
    found = await place.sync(one, sharer("other", *WRITE))
    (problem,) = found["one"].problems
    assert (problem.reason, name in problem.message) == ("GroupConflict", True)
    assert (found["other"].problems, found["one"].group) == ((), "")
    planned = await place.plan(one)
    assert [error.reason for error in planned.refused["one"]] == ["GroupConflict"]
    assert await place.members(name) == {}
    assert await place.direct(name) == set()
    await drop_groups(place.sessions, [name], "here")
    assert before == await fetch(place.server, "app", row, name)
    # What the login has by itself stays, for nobody else gives it.
    await place.bring(sharer("one", scope=""))
    held = await place.direct("one")
    await place.sync(one)
    assert await place.direct("one") == held
    await place.run("DROP ROLE {r}", r=name)
    await place.bring(one)
    await place.settled(one)


async def test_another_installations_group_is_not_ours(place: Place) -> None:
    one = sharer("one")
    await place.bring(one)
    (group,) = await place.groups()
    await drop_groups(place.sessions, [group], "elsewhere")
    theirs = replaced(sharer("two"), claim=claim(name="two", uid="two"))
    await cleanup(place.sessions, "one", one.claim, "Restrict")
    assert await place.groups() == []
    await place.bring(theirs)


async def test_one_failure_is_told_on_each_that_shares_it(place: Place) -> None:
    nowhere = (*READ, grant("app", "SELECT", schema="nowhere"))
    found = await place.sync(sharer("one", *nowhere), sharer("two", *nowhere), sharer("good"))
    for name in ("one", "two"):
        assert [problem.reason for problem in found[name].problems] == ["SchemaNotFound"]
    assert found["good"].problems == ()
    assert await place.may("one", "SELECT")


async def test_a_database_that_is_not_there(place: Place) -> None:
    found = await place.sync(sharer("one", *READ, grant("nowhere", "CONNECT")), sharer("good"))
    assert [problem.reason for problem in found["one"].problems] == ["DatabaseNotFound"]
    assert found["good"].problems == ()


@pytest.mark.differs("version", "administrator")
async def test_groups_of_ours_are_no_concern_of_member_of(place: Place) -> None:
    one = sharer("one", member_of=())
    await place.bring(one)
    await place.settled(one)
    await place.run("CREATE ROLE readers")
    if not place.superuser and place.version >= 16:
        await place.run("GRANT readers TO operator WITH ADMIN OPTION")
    both = sharer("one", member_of=(MemberOf(role="readers"),))
    await place.bring(both)
    await place.settled(both)
    assert await place.may("one", "SELECT")


async def test_a_retained_role_keeps_what_it_has(place: Place) -> None:
    one, two = sharer("one"), sharer("two")
    await place.bring(one, two)
    (group,) = await place.groups()
    await cleanup(place.sessions, "one", one.claim, "Retain")
    await give_up(place.sessions, "two", two.claim, fence=False)
    three = sharer("three")
    await place.bring(three)
    await place.settled(three)
    assert (await place.members(group)).keys() == {"one", "two", "three"}
    await cleanup(place.sessions, "three", three.claim, "Restrict")
    assert (await place.look()).deserted == frozenset()
    await place.run("DROP ROLE one", "DROP ROLE two")
    found = await place.look()
    assert found.deserted == {group}
    await drop_groups(place.sessions, found.deserted, "here")
    assert await place.groups() == []


async def test_a_group_that_owns_something_stays(place: Place) -> None:
    one = sharer("one")
    await place.bring(one)
    (group,) = await place.groups()
    await place.run("ALTER TABLE s.u OWNER TO {r}", r=group)
    await cleanup(place.sessions, "one", one.claim, "Cascade")
    assert await place.groups() == [group]
    await fetch(place.server, "app", "SELECT FROM s.u")
    await place.run("ALTER TABLE s.u OWNER TO operator")
    await drop_groups(place.sessions, (await place.look()).deserted, "here")
    assert await place.groups() == []


@pytest.mark.parametrize("at", ["run", "_drop"])
async def test_who_joins_while_a_group_is_dropped(
    place: Place, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    """Before its databases are cleared, and between that and its end."""
    one, two = sharer("one"), sharer("two")
    await place.bring(one)
    original = getattr(removal.RoleRemoval, at)
    joined: list[bool] = []

    async def joins(self: Any, *args: Any) -> None:
        if is_group(self.role.name) and not joined:
            joined.append(True)
            await place.bring(two)
        await original(self, *args)

    with monkeypatch.context() as patched:
        patched.setattr(removal.RoleRemoval, at, joins)
        await cleanup(place.sessions, "one", one.claim, "Restrict")
    assert joined == [True]
    assert await place.may("two", "SELECT")
    await place.settled(two)


async def test_two_who_come_and_go_at_once(place: Place) -> None:
    names = [f"r{number}" for number in range(4)]

    async def visit(name: str) -> None:
        access = sharer(name)
        for _ in range(3):
            await place.bring(access)
            assert await place.may(name, "SELECT")
            await cleanup(place.sessions, name, access.claim, "Restrict")

    await asyncio.gather(*map(visit, names))
    assert await place.groups() == []


@pytest.mark.only(version=(16, 18), administrator="createrole")
async def test_who_was_let_in_by_another_is_told(place: Place) -> None:
    one = sharer("one")
    await place.bring(one)
    (group,) = await place.groups()
    await place.run("CREATE ROLE stranger", "GRANT {r} TO stranger", r=group)
    found = (await place.sync(one))["one"]
    assert sum(f"stranger a member of {group}" in text for text in found.warnings) == 1
    assert found.problems == ()


async def test_an_additive_access_leaves_what_others_granted(place: Place) -> None:
    one = sharer("one", scope="", policy="Additive")
    before = (await place.sync(one))["one"]
    await place.run("GRANT INSERT ON s.t TO one")
    ledger = frozenset(before.applied)
    await place.bring(sharer("one", policy="Additive", ledger=ledger))
    assert await place.direct("one") == {"INSERT t"}
    # The ledger is the group's by now.
    await place.run("GRANT SELECT ON s.t TO one")
    await place.bring(sharer("one", policy="Additive"))
    assert await place.direct("one") == {"INSERT t", "SELECT t"}


@pytest.mark.extended
@pytest.mark.only(version=18, administrator="superuser")
async def test_more_logins_than_an_acl_has_room_for(place: Place) -> None:
    only = (Grant(database="app", schema="s", on="Tables", names=["t"], privileges=["SELECT"]),)
    accesses = [replaced(sharer(f"crowd{number}", *only), iterations=1) for number in range(2700)]
    for start in range(0, len(accesses), 250):
        await place.bring(*accesses[start : start + 250])
    (group,) = await place.groups()
    assert len(await place.members(group)) == 2700
    ((entries,),) = await fetch(
        place.server, "app", "SELECT cardinality(relacl) FROM pg_class WHERE relname = 't'"
    )
    assert entries == 2
    assert await place.may("crowd2699", "SELECT")


@pytest.mark.extended
@pytest.mark.only(version=18)
async def test_turned_on_where_an_acl_is_full_already(place: Place) -> None:
    """Its own members make room for the group, and nobody sees a moment without."""
    names = [f"one{number}" for number in range(3)]
    await place.bring(*(sharer(name, scope="") for name in names))
    await place.run(*(f"CREATE ROLE crowd{n}" for n in range(2700)))
    async with await psycopg.AsyncConnection.connect(
        place.server.dsn("app"), autocommit=True
    ) as connection:
        await connection.execute("SET ROLE operator")
        with contextlib.suppress(psycopg.errors.ProgramLimitExceeded):
            for number in range(2700):
                await connection.execute(f"GRANT SELECT ON s.t TO crowd{number}")
    found = await place.sync(sharer("late", scope=""))
    assert [one.reason for one in found["late"].problems] == ["TooManyGrantees"]
    await place.bring(*(sharer(name) for name in names))
    (group,) = await place.groups()
    assert await place.direct(names[0]) == set()
    assert await place.may(names[0], "SELECT")
    await place.settled(*(sharer(name) for name in names))
    assert (await place.members(group)).keys() == set(names)


async def test_nothing_is_taken_while_a_group_cannot_have_it(place: Place) -> None:
    """Another session holds the row of a table whose ACL is to be written."""
    plain, shared, other = sharer("one", scope=""), sharer("one"), sharer("one", *WRITE)
    await place.bring(plain)
    await place.run("CREATE ROLE someone")
    held = await place.direct("one")

    async def hindered(access: WantedState) -> list[str]:
        async with await psycopg.AsyncConnection.connect(place.server.dsn("app")) as connection:
            await connection.execute("GRANT TRIGGER ON s.t TO someone")
            found = (await place.sync(access))["one"]
            await connection.rollback()
            assert found.group == ""
            return [problem.reason for problem in found.problems]

    assert await hindered(shared) == ["Locked"]
    assert await place.direct("one") == held
    await place.bring(shared)
    assert await place.direct("one") == set()
    (before,) = await place.groups()
    assert await hindered(other) == ["Locked"]
    assert (await place.members(before)).keys() == {"one"}
    await place.bring(other)
    assert before not in await place.groups()
    (after,) = await place.groups()
    assert await hindered(plain) == ["Locked"]
    assert (await place.members(after)).keys() == {"one"}
    await place.bring(plain)
    assert (await place.direct("one"), await place.groups()) == (held, [])


async def test_a_cycle_has_no_more_statements_than_without(place: Place) -> None:
    async def statements(*accesses: WantedState) -> int:
        await place.bring(*accesses)
        async with place.sessions.maintenance() as first, place.sessions.use("app") as second:
            before = first.statements + second.statements
        assert (await place.look(*accesses)).differing == frozenset()
        async with place.sessions.maintenance() as first, place.sessions.use("app") as second:
            return first.statements + second.statements - before

    plain = await statements(*(sharer(f"p{number}", scope="") for number in range(20)))
    shared = await statements(*(sharer(f"s{number}") for number in range(20)))
    # Three of them are of the transaction whose limit ends what takes long.
    assert shared <= plain <= 12
