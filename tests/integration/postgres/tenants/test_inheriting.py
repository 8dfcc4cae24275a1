"""What Orphan gives to a database's owner, and what of a tenant's code would run as that owner."""

from __future__ import annotations

import msgspec
import pytest
from tests.integration.postgres.test_roles import Admin, groups, may_give, role
from tests.support.pgserver import PASSWORD, can_login, fetch, run

from fairlead.postgres.database.work.cleanup import cleanup
from fairlead.postgres.errors import AccessError


BODY = "RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 1'"
TRAPS = {
    "function trap.f()": (
        "CREATE FUNCTION f() RETURNS text SECURITY DEFINER RETURN current_user",
    ),
    "view trap.v": ("CREATE VIEW v AS SELECT * FROM theirs",),
    "materialized view trap.m": ("CREATE MATERIALIZED VIEW m AS SELECT 1 AS one",),
    "table trap.ruled": (
        "CREATE TABLE ruled (id int)",
        "CREATE RULE r AS ON INSERT TO ruled DO ALSO DELETE FROM theirs",
    ),
    # Its owner deletes from it, whoever deletes from the table that it refers to.
    "table trap.cascaded": (
        "CREATE TABLE cascaded (id int REFERENCES plain ON DELETE CASCADE)",
        "CREATE FUNCTION t() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN OLD; END'",
        "CREATE TRIGGER t BEFORE DELETE ON cascaded FOR EACH ROW EXECUTE FUNCTION t()",
    ),
    "table trap.given": ("CREATE TABLE given (id int)", "GRANT TRIGGER ON given TO neighbour"),
    "table trap.named": (
        "CREATE TABLE named (id int)",
        "GRANT REFERENCES (id) ON named TO neighbour",
    ),
    "table trap.set_by_key": (
        "CREATE TABLE set_by_key (id int DEFAULT 0 REFERENCES plain ON DELETE SET DEFAULT)",
    ),
    "table trap.cast_to": (
        "CREATE TYPE own AS ENUM ('a')",
        f"CREATE FUNCTION cast_it(own) {BODY}",
        "CREATE CAST (own AS int) WITH FUNCTION cast_it(own) AS IMPLICIT",
        "CREATE TABLE cast_to (id int PRIMARY KEY)",
        "CREATE TABLE cast_from (id own REFERENCES cast_to)",
    ),
    "table trap.checked": ("CREATE TABLE checked (id int CHECK (lo_unlink(id::oid) > 0))",),
    # Worked out by autovacuum, as the table's owner.
    "table trap.indexed": (
        f"CREATE FUNCTION i(int) {BODY}",
        "CREATE TABLE indexed (id int)",
        "CREATE INDEX ON indexed (i(id))",
    ),
    "table trap.counted": (
        f"CREATE FUNCTION o(int, int) {BODY}",
        "CREATE OPERATOR === (FUNCTION = o, LEFTARG = int, RIGHTARG = int)",
        "CREATE TABLE counted (id int)",
        "CREATE STATISTICS s ON (id === id), (id + 1) FROM counted",
    ),
    "table trap.domained": (
        "CREATE DOMAIN positive AS int CHECK (VALUE > 0)",
        "CREATE TABLE domained (id int, CHECK (id::positive > 1))",
    ),
}
PLAIN = (
    "CREATE TYPE trap.state AS ENUM ('a', 'b')",
    "CREATE DOMAIN trap.short AS text CHECK (length(VALUE) < 9)",
    """CREATE TABLE trap.plain (
         id serial PRIMARY KEY, size int, twice int GENERATED ALWAYS AS (size * 2) STORED,
         state trap.state DEFAULT 'a', of trap.state[] DEFAULT '{{}}',
         short trap.short DEFAULT 'x', at timestamptz DEFAULT now(),
         mark uuid DEFAULT gen_random_uuid(),
         CHECK (id > 0 AND state <> 'b'))""",
    "CREATE TABLE trap.child (id int REFERENCES trap.plain ON DELETE CASCADE, b text)",
    "CREATE INDEX ON trap.child (lower(b))",
    "CREATE FUNCTION trap.plain_function() RETURNS int RETURN 1",
    "CREATE VIEW trap.invoking WITH (security_invoker = true) AS SELECT 1 AS one",
    "GRANT SELECT, INSERT ON trap.plain TO neighbour",
)
OWNERS = """
SELECT DISTINCT relowner::regrole::text FROM pg_class
 WHERE relnamespace = 'trap'::regnamespace
UNION SELECT proowner::regrole::text FROM pg_proc WHERE pronamespace = 'trap'::regnamespace
"""


async def prepare(admin: Admin, owner: str = "heir") -> None:
    """A leaver with data of its own in a database of a common owner, and a neighbour."""
    await admin.one(role("leaver"))
    await admin.one(role("neighbour", uid="u2"))
    await admin.execute("CREATE DATABASE d", f"ALTER DATABASE d OWNER TO {owner}")
    if not admin.superuser:
        await admin.execute(f"GRANT {owner} TO operator")
    await run(
        admin.server,
        "d",
        f"GRANT CREATE ON DATABASE d TO {owner}",
        "CREATE SCHEMA trap AUTHORIZATION leaver",
        "CREATE TABLE trap.theirs (id int)",
        f"ALTER TABLE trap.theirs OWNER TO {owner}",
        "SET ROLE leaver",
        *PLAIN,
    )


async def remove(admin: Admin) -> bool:
    return await cleanup(admin.sessions, "leaver", role("leaver").claim, "Orphan")


async def refused(admin: Admin) -> AccessError:
    with pytest.raises(AccessError) as found:
        await remove(admin)
    assert found.value.reason == "OwnsObjects"
    assert set(await fetch(admin.server, "d", OWNERS)) >= {("leaver",)}
    return found.value


@pytest.mark.differs("version", "administrator")
async def test_a_databases_owner_gets_data_and_nothing_that_runs_as_it(admin: Admin) -> None:
    await may_give(admin, "heir")
    await prepare(admin)
    for trap, statements in TRAPS.items():
        setting = ("SET search_path = trap, public", "SET ROLE leaver")
        await run(admin.server, "d", *setting, *statements)
        error = await refused(admin)
        ((database, objects),) = error.blockers
        assert database == "d"
        assert set(objects) - {"table trap.cast_from"} == {trap}
        assert "in database d, which would run with the rights of" in error.message
        assert "the database's owner heir, and spec.orphanTo names no" in error.message
        await run(admin.server, "d", f"DROP {trap.upper()} CASCADE".replace("()", ""))
    assert not await can_login(admin.server, "leaver", PASSWORD)
    assert await remove(admin)
    assert await fetch(admin.server, "d", OWNERS) == [("heir",)]
    assert await can_login(admin.server, "neighbour", PASSWORD)


@pytest.mark.differs("version", "administrator")
async def test_who_may_act_as_a_databases_owner_leaves_it_everything(admin: Admin) -> None:
    await may_give(admin, "heir")
    await prepare(admin)
    await admin.one(role("leaver", member_of=groups("heir")))
    for statements in TRAPS.values():
        setting = ("SET search_path = trap, public", "SET ROLE leaver")
        await run(admin.server, "d", *setting, *statements)
    assert await remove(admin)
    assert await fetch(admin.server, "d", OWNERS) == [("heir",)]


@pytest.mark.parametrize("installation", ["here", "there"])
async def test_nothing_goes_to_an_owner_that_an_access_has(
    admin: Admin, installation: str
) -> None:
    owner = role("owner", uid="u3")
    claim = msgspec.structs.replace(owner.claim, installation=installation)
    await admin.one(role("owner", claim=claim))
    if not admin.superuser and admin.version >= 16:
        await admin.execute("GRANT owner TO operator WITH ADMIN OPTION")
    await prepare(admin, "owner")
    message = (await refused(admin)).message
    assert "owner owner of database d belongs to another PostgresAccess" in message
    assert not await can_login(admin.server, "leaver", PASSWORD)
    await admin.execute("CREATE ROLE heir")
    if not admin.superuser:
        await admin.execute("GRANT heir TO operator")
    await admin.execute("GRANT CREATE ON DATABASE d TO heir")
    claim = role("leaver").claim
    assert await cleanup(admin.sessions, "leaver", claim, "Orphan", orphan_to="heir")
    assert set(await fetch(admin.server, "d", OWNERS)) == {("heir",), ("owner",)}
