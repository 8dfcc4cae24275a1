"""What roles of the operator's own make: neighbours get privileges on it without a superuser."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, cast

import psycopg
import pytest
from psycopg import sql
from tests.integration.postgres.tenants.test_neighbours import brief, database, reason
from tests.integration.postgres.test_roles import Admin, members, role
from tests.support.pgserver import PASSWORD, claim, fetch, grant, login, privileges, run
from tests.support.waiting import SECONDS

from fairlead.api.postgresaccess import Grant, IncludeFuture
from fairlead.postgres.database.connections.acting import acting_as
from fairlead.postgres.database.connections.sessions import Sessions
from fairlead.postgres.database.plans.plan import Synced, WantedState
from fairlead.postgres.database.plans.snapshot import GIVEN_UP, GroupClaim, RoleClaim
from fairlead.postgres.database.work import privileges as module
from fairlead.postgres.database.work.cleanup import cleanup
from fairlead.postgres.database.work.planning import plan_accesses
from fairlead.postgres.database.work.sync import sync


MADE = (
    "CREATE SCHEMA own",
    "CREATE TABLE public.t (id int, hidden text)",
    "CREATE TABLE own.t (id serial)",
    "CREATE FUNCTION own.f() RETURNS int LANGUAGE sql RETURN 1",
    "CREATE TYPE own.mood AS ENUM ('glad')",
    "REVOKE ALL ON FUNCTION own.f() FROM PUBLIC",
    "REVOKE ALL ON TYPE own.mood FROM PUBLIC",
)


def on(schema: str, **fields: Any) -> Grant:
    return Grant(database="d", schema=schema, **fields)


def reader(number: int = 0, **fields: Any) -> WantedState:
    name = f"reader{number}"
    given = {"grants": (grant("d", "CONNECT"), on("public", access="ReadWrite"))} | fields
    return role(name, uid=name, **given)


MIGRATOR = role("migrator", uid="migrator", grants=(grant("d", "CONNECT"),))


async def makes(admin: Admin, username: str, *statements: str) -> None:
    """Statements of a tenant's login in the database."""
    async with await login(admin.server, username, PASSWORD, "d") as session:
        for statement in statements:
            await session.execute(sql.SQL(cast("Any", statement)))


async def place(admin: Admin) -> None:
    """A database in which the migrator may create."""
    await database(admin, "GRANT CREATE ON DATABASE d TO PUBLIC")
    assert reason((await brief(admin, MIGRATOR))["migrator"]) == ""


def who(admin: Admin) -> str:
    return "postgres" if admin.superuser else "operator"


@pytest.mark.differs("version", "administrator")
async def test_neighbours_get_what_a_role_of_ours_makes(admin: Admin) -> None:
    await place(admin)
    old, new, other = (reader(number) for number in range(3))
    await admin.one(old)
    await makes(admin, "migrator", *MADE)
    wide = (
        on("own", privileges=["ALL"], on="Tables"),
        on("own", privileges=["ALL"], on="Sequences"),
        on("own", privileges=["EXECUTE"], on="Routines"),
        on("own", privileges=["USAGE"], on="Types"),
        on("public", privileges=["SELECT"], on="Tables", names=["t"], columns=["id"]),
    )
    new = reader(1, grants=wide)
    before = await members(admin.server, who(admin))
    drift = await admin.look(old)
    assert drift.differing == {"reader0"}
    plan = await plan_accesses(admin.sessions, [old, new], admin.verifiers, rights=True)
    assert (plan.refused, plan.remedies) == ({}, ())
    assert 'GRANT DELETE, INSERT, SELECT, UPDATE ON TABLE "public"."t" TO "reader0"' in {
        one.text for one in plan.statements
    }
    found = await brief(admin, old, new, other)
    assert {name: reason(one) for name, one in found.items()} == {
        "reader0": "",
        "reader1": "",
        "reader2": "",
    }
    assert ("t", "DELETE") in await privileges(admin.server, "d", "reader0")
    assert {("schema own", "USAGE"), ("f()", "EXECUTE")} <= await privileges(
        admin.server, "d", "reader1"
    )
    # The owner is the grantor, so that the owner may revoke it as well.
    grantors = await fetch(
        admin.server,
        "d",
        """SELECT DISTINCT a.grantor::regrole::text FROM pg_class c, aclexplode(c.relacl) a
            WHERE relname = 't' AND a.grantee <> c.relowner""",
    )
    assert grantors == [("migrator",)]
    for one in (old, new, other):
        await admin.settled(one)
    # What nobody asks for any more is revoked, and its owner keeps all.
    narrow = reader(1, grants=(grant("d", "CONNECT"),))
    assert (await admin.one(narrow)).problems == ()
    assert await privileges(admin.server, "d", "reader1") == {("database d", "CONNECT")}
    await makes(admin, "migrator", "INSERT INTO public.t VALUES (1)", "DROP TABLE own.t")
    made = {f"reader{number}" for number in range(3)}
    left = {row for row in await members(admin.server, who(admin)) if row[0] not in made}
    assert left == {row for row in before if row[0] not in made}


@pytest.mark.differs("version", "administrator")
async def test_what_a_role_of_ours_will_make(admin: Admin) -> None:
    await place(admin)
    future = IncludeFuture(owned_by=["migrator"])
    asked = on("public", privileges=["SELECT"], include_future=future)
    access = reader(grants=(grant("d", "CONNECT"), asked))
    assert (await admin.one(access)).problems == ()
    await admin.settled(access)
    await makes(admin, "migrator", "CREATE TABLE t (id int)")
    await makes(admin, "reader0", "SELECT * FROM t")
    await admin.one(reader(grants=(grant("d", "CONNECT"),)))
    assert await fetch(admin.server, "d", "SELECT count(*) FROM pg_default_acl") == [(0,)]


@pytest.mark.differs("version")
@pytest.mark.only(administrator="createrole")
async def test_a_database_of_a_role_of_ours(admin: Admin) -> None:
    """The schema belongs to pg_database_owner, and so to the database's owner."""
    await place(admin)
    await admin.execute("ALTER DATABASE d OWNER TO migrator")
    await admin.execute("REVOKE CONNECT ON DATABASE d FROM PUBLIC")
    await admin.execute("GRANT CONNECT ON DATABASE d TO operator")
    access = reader(grants=(grant("d", "CONNECT", "CREATE"),))
    plan = await plan_accesses(admin.sessions, [access], admin.verifiers, rights=True)
    assert (plan.refused, plan.remedies) == ({}, ())
    assert (await admin.one(access)).problems == ()
    await admin.settled(access)
    assert await privileges(admin.server, "d", "reader0") == {
        ("database d", "CONNECT"),
        ("schema public", "CREATE"),
    }
    before = await members(admin.server, "operator")
    assert (await admin.one(reader(grants=()))).problems == ()
    assert await privileges(admin.server, "d", "reader0") == set()
    assert await members(admin.server, "operator") == before


STRANGERS = {
    "by hand": lambda admin: None,
    "given up": lambda admin: GIVEN_UP,
    "another installation's": lambda admin: RoleClaim(
        installation="there", object="x", uid="u"
    ).text(),
    "another installation's group": lambda admin: GroupClaim(installation="there", set="x").text(),
    "imported": lambda admin: RoleClaim(installation="here", object="x", uid="").text(),
    "a broken claim": lambda admin: claim().text()[:-1],
    "a note": lambda admin: f"not {claim().text()}",
}


@pytest.mark.differs("version")
@pytest.mark.only(administrator="createrole")
@pytest.mark.parametrize("comment", STRANGERS.values(), ids=STRANGERS)
async def test_a_role_that_is_not_ours_stays_a_superusers(admin: Admin, comment: Any) -> None:
    """Also where the administrator has ADMIN on it; a neighbour gets its own meanwhile."""
    await place(admin)
    async with await psycopg.AsyncConnection.connect(
        host=admin.server.host,
        port=admin.server.port,
        user="operator",
        password="operator",
        dbname="postgres",
        autocommit=True,
    ) as session:
        await session.execute("CREATE ROLE stranger")
        text = sql.Literal(comment(admin))
        await session.execute(sql.SQL("COMMENT ON ROLE stranger IS {}").format(text))
    await run(admin.server, "d", *THEIRS)
    await _refused(admin)


THEIRS = ("CREATE TABLE theirs (id int)", "ALTER TABLE theirs OWNER TO stranger")


async def _refused(admin: Admin) -> None:
    """The stranger's table is refused with the message that there always was."""
    await makes(admin, "migrator", "CREATE TABLE t (id int)")
    before = await members(admin.server, "operator")
    found = await admin.sync(reader(), MIGRATOR)
    (problem,) = cast("Synced", found["reader0"]).problems
    assert "operator may not grant DELETE, INSERT, SELECT, UPDATE on table public.theirs" in (
        problem.message
    )
    assert ("t", "SELECT") in await privileges(admin.server, "d", "reader0")
    assert ("theirs", "SELECT") not in await privileges(admin.server, "d", "reader0")
    left = {row for row in await members(admin.server, "operator") if row[0] != "reader0"}
    assert left <= before
    plan = await plan_accesses(admin.sessions, [reader()], admin.verifiers, rights=True)
    assert [one.text.partition(" WITH")[0] for one in plan.remedies] == [
        'GRANT "stranger" TO "operator"'
    ]


@pytest.mark.only(version=(16, 18), administrator="createrole")
@pytest.mark.differs("version")
async def test_a_claim_on_a_role_of_anothers_is_no_right(admin: Admin) -> None:
    """Adopted with ADMIN that another role has given: it made the role, and may take that back."""
    await place(admin)
    await admin.execute(
        "CREATE ROLE person CREATEROLE",
        "SET ROLE person",
        "CREATE ROLE stranger",
        "GRANT stranger TO operator WITH ADMIN TRUE, INHERIT FALSE, SET FALSE",
        "RESET ROLE",
        "COMMENT ON ROLE stranger IS '{text}'".replace(
            "{text}", claim().text().replace("{", "{{").replace("}", "}}")
        ),
    )
    await run(admin.server, "d", *THEIRS)
    await _refused(admin)


@pytest.mark.differs("version")
@pytest.mark.only(administrator="createrole")
async def test_a_role_made_anew_under_the_name_of_ours_is_not_ours(
    admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look and the grant."""
    await place(admin)
    await admin.one(role("stranger", uid="s"))
    await run(admin.server, "d", *THEIRS)

    @asynccontextmanager
    async def later(*given: Any, **named: Any) -> AsyncIterator[None]:
        monkeypatch.setattr(module, "acting_as", acting_as)
        await run(
            admin.server,
            "d",
            "ALTER TABLE theirs OWNER TO postgres",
            "DROP OWNED BY stranger",
            "DROP ROLE stranger",
            "CREATE ROLE stranger",
            "ALTER TABLE theirs OWNER TO stranger",
        )
        async with acting_as(*given, **named):
            yield

    monkeypatch.setattr(module, "acting_as", later)
    await _refused(admin)


@pytest.mark.differs("version")
@pytest.mark.only(administrator="createrole")
async def test_a_membership_by_hand_stays_as_it_was(admin: Admin) -> None:
    await place(admin)
    if admin.version >= 16:
        await admin.execute(
            "SET ROLE operator", "GRANT migrator TO operator WITH INHERIT FALSE, SET TRUE"
        )
    before = await members(admin.server, "operator")
    await makes(admin, "migrator", "CREATE TABLE t (id int)")
    assert (await admin.one(reader())).problems == ()
    assert ("t", "SELECT") in await privileges(admin.server, "d", "reader0")
    assert before <= await members(admin.server, "operator")


@pytest.mark.differs("version")
@pytest.mark.only(administrator="createrole")
async def test_what_a_role_of_ours_passed_on_is_revoked_in_its_name(admin: Admin) -> None:
    """The owner is none of ours: it let the migrator pass its table on."""
    await place(admin)
    await run(
        admin.server,
        "d",
        "CREATE TABLE theirs (id int)",
        "GRANT SELECT ON theirs TO migrator WITH GRANT OPTION",
    )
    asked = (*MIGRATOR.grants, on("public", privileges=["SELECT"], grant_option=True))
    await admin.one(role("migrator", uid="migrator", grants=asked))
    access = reader(grants=(grant("d", "CONNECT"),))
    await admin.one(access)
    await makes(admin, "migrator", "GRANT SELECT ON theirs TO reader0")
    assert ("theirs", "SELECT") in await privileges(admin.server, "d", "reader0")
    assert (await admin.one(access)).problems == ()
    assert ("theirs", "SELECT") not in await privileges(admin.server, "d", "reader0")


@pytest.mark.differs("version")
@pytest.mark.only(administrator="createrole")
async def test_two_passes_that_act_as_one_role_do_not_collide(
    admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second waits for the first, and a neighbour for neither."""
    await place(admin)
    await admin.one(reader(1, grants=()))
    await makes(admin, "migrator", "CREATE TABLE t (id int)")
    waited, ended = asyncio.Event(), asyncio.Event()

    async def pause() -> None:
        waited.set()
        await ended.wait()

    monkeypatch.setattr(module, "pause", pause)
    async with admin.sessions.use("postgres") as session:
        async with session.transaction(), acting_as(session, "migrator", superuser=False):
            second = asyncio.create_task(brief(admin, reader()))
            async with asyncio.timeout(SECONDS):
                await waited.wait()
            other = Admin(admin.server, superuser=False)
            found = await brief(other, reader(1, grants=(grant("d", "CONNECT"),)))
            await other.sessions.close()
            assert reason(found["reader1"]) == ""
        ended.set()
    assert reason((await second)["reader0"]) == ""
    await admin.settled(reader())


@pytest.mark.extended
@pytest.mark.only(administrator="createrole")
async def test_many_passes_among_many_owners_at_work(admin: Admin) -> None:
    """Owners make tables all the while, and one is removed."""
    await place(admin)
    owners = [role(f"owner{n}", uid=f"o{n}", grants=MIGRATOR.grants) for n in range(10)]
    assert {reason(one) for one in (await brief(admin, *owners)).values()} == {""}
    for one in owners:
        await makes(admin, one.username, f"CREATE TABLE of_{one.username} (id int)")
    before = await members(admin.server, "operator")

    async def works(number: int) -> None:
        async with await login(admin.server, f"owner{number}", PASSWORD, "d") as session:
            for made in range(20):
                await session.execute(f"CREATE TABLE made_{number}_{made} (id serial)")

    async def converges(number: int) -> None:
        own = Admin(admin.server, superuser=False)
        problem = "never tried"
        for _ in range(40):
            problem = reason((await brief(own, reader(number)))[f"reader{number}"])
            if not problem:
                break
            assert problem in {"Locked", "Conflict", "TimedOut"}
        await own.sessions.close()
        assert problem == ""

    async def goes() -> None:
        leaving = Admin(admin.server, superuser=False)
        claimed = owners[9].claim
        assert await cleanup(leaving.sessions, "owner9", claimed, "Cascade")
        await leaving.sessions.close()

    working = [asyncio.create_task(works(number)) for number in range(2)]
    await asyncio.gather(goes(), *map(converges, range(20)))
    await asyncio.gather(*working)
    readers = [reader(number) for number in range(20)]
    assert {reason(one) for one in (await admin.sync(*readers)).values()} == {""}
    for one in readers:
        held = await privileges(admin.server, "d", one.username)
        assert {(f"of_owner{number}", "SELECT") for number in range(9)} <= held
    gone = {"owner9", *(one.username for one in readers)}
    left = {row for row in await members(admin.server, "operator") if row[0] not in gone}
    assert left == {row for row in before if row[0] not in gone}


@pytest.mark.differs("version")
@pytest.mark.only(administrator="createrole")
async def test_a_database_of_a_role_of_ours_is_closed_to_public(admin: Admin) -> None:
    await place(admin)
    await admin.execute("ALTER DATABASE d OWNER TO migrator")
    await admin.execute("GRANT CONNECT ON DATABASE d TO operator")
    closed = replace(admin.sessions.endpoint, revoke_public=frozenset({"CONNECT", "CREATE"}))
    sessions = Sessions(closed)
    found = await sync(sessions, [reader(grants=(grant("d", "CONNECT"),))], admin.verifiers)
    await sessions.close()
    assert reason(found["reader0"]) == ""
    query = """SELECT has_database_privilege('public', 'd', 'CONNECT'),
                      has_schema_privilege('public', 'public', 'CREATE')"""
    assert await fetch(admin.server, "d", query) == [(False, False)]
