"""Rows 9 to 21, 44 and 46: grants, and what PostgreSQL makes of them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.team import Team
from tests.support.waiting import condition, is_ready

from fairlead.api.postgresaccess import POSTGRESACCESSES
from fairlead.client import Invalid
from fairlead.postgres.database.connections import startup


modest = pytest.mark.parametrize("administrator", ["createrole"], indirect=True)


async def has(team: Team, kind: str, role: str, thing: str, privilege: str) -> bool:
    query = f"SELECT pg_catalog.has_{kind}_privilege(%s, %s, %s)"
    ((found,),) = await team.sql(query, values=(role, thing, privilege))
    return bool(found)


async def test_row_09_connect_beside_another_schema_does_not_flap(team: Team) -> None:
    await team.build("CREATE SCHEMA s")
    await team.sql("REVOKE CONNECT ON DATABASE {d} FROM PUBLIC", d=team.database)
    name = await team.create(grants=[team.grant("CONNECT", "USAGE", schema="s")])
    await team.ready(name)
    for _ in range(5):
        await team.cycles(1)
        assert await has(team, "database", name, team.database, "CONNECT")
    await team.stands_still(1)
    async with team.login(name) as session:
        await session.execute("SELECT 1")


async def test_row_10_a_stale_privilege_goes_after_a_new_table_came(team: Team) -> None:
    await team.build("CREATE TABLE t (id int)")
    name = await team.create(grants=[team.grant("SELECT", "INSERT")])
    await team.ready(name)
    assert {("t", "SELECT"), ("t", "INSERT")} <= await team.privileges(name)
    await team.build("CREATE TABLE u (id int)")
    await team.patch(name, grants=[team.grant("INSERT")])
    await team.ready(name)
    assert await team.privileges(name) == {
        ("schema public", "USAGE"),
        ("t", "INSERT"),
        ("u", "INSERT"),
    }


@pytest.mark.differs("administrator")
async def test_row_11_a_new_table_gets_its_grants_by_the_next_look(team: Team) -> None:
    name = await team.create(grants=[team.grant("CONNECT", "SELECT")])
    await team.ready(name)
    await team.build("CREATE TABLE t (id int)")
    made = {("t", "SELECT")}
    if team.superuser:
        await team.sql("CREATE ROLE {r}", "CREATE TABLE u (id int)", r=team.name("dev"))
        await team.sql("ALTER TABLE u OWNER TO {r}", r=team.name("dev"))
        made.add(("u", "SELECT"))

    async def there() -> bool:
        return made <= await team.privileges(name)

    await team.healed(there)
    async with team.login(name) as session:
        await session.execute("SELECT * FROM t")


async def test_row_12_an_empty_schema_is_in_order(team: Team) -> None:
    await team.build("CREATE SCHEMA s")
    name = await team.create(grants=[team.grant("CONNECT", "SELECT", "EXECUTE", schema="s")])
    await team.ready(name)
    await team.stands_still()


@pytest.mark.differs("administrator")
async def test_row_12_a_strangers_table_stops_nothing_else(team: Team) -> None:
    """It is named, with its owner; all other tables have their grant, and nothing loops."""
    stranger = team.name("stranger")
    await team.build("CREATE TABLE a (id int)", "CREATE TABLE z (id int)")
    await team.sql("CREATE ROLE {r}", "CREATE TABLE m (id int)", r=stranger)
    await team.sql("ALTER TABLE m OWNER TO {r}", r=stranger)
    name = await team.create(grants=[team.grant("CONNECT", "SELECT")])
    if team.superuser:
        await team.ready(name)
        assert ("m", "SELECT") in await team.privileges(name)
    else:
        message = await team.fails(name, "InsufficientPrivilege")
        assert {("a", "SELECT"), ("z", "SELECT")} <= await team.privileges(name)
        assert "public.m" in message
        assert stranger in message
    await team.stands_still()


@modest
@pytest.mark.parametrize("groups", ["None", "Shared"])
async def test_row_12_an_extensions_tables_are_counted_and_stop_nothing(
    team: Team, groups: str
) -> None:
    """As PostGIS's in a cloud, whose own administrator is their owner."""

    async def add(table: str) -> None:
        await team.sql(
            "CREATE TABLE {t} (id int)", "ALTER EXTENSION plpgsql ADD TABLE {t}", t=table
        )

    await team.build("CREATE TABLE own (id int)")
    await add("spatial_one")
    asked = {"database": team.database, "schema": "public", "access": "ReadOnly"}
    create = team.create_shared if groups == "Shared" else team.create
    name = await create(grants=[asked])
    status = (await team.ready(name))["status"]
    (remark,) = [one for one in status["warnings"] if "left out" in one]
    assert remark.startswith(f"1 object is left out in database {team.database}, because operator")
    assert "SELECT on table public.spatial_one (owner postgres)" in remark
    async with team.login(name) as session:
        await session.execute("SELECT * FROM own")
    await team.stands_still()
    await add("spatial_two")
    await team.wait(name, lambda found: "2 objects are left out" in str(found["status"]))
    named = {**asked, "on": "Tables", "names": ["spatial_two"], "privileges": ["SELECT"]}
    del named["access"]
    await team.patch(name, grants=[asked, named])
    message = await team.fails(name, "InsufficientPrivilege")
    assert "public.spatial_two (owner postgres)" in message
    assert "spatial_one" not in message


@pytest.mark.differs("administrator")
async def test_row_12_what_a_login_makes_reaches_its_neighbours(team: Team) -> None:
    """As a migration makes it: by a login of its own, which the administrator has made."""
    migrator = await team.create("migrator", grants=[team.grant("CONNECT", "CREATE")])
    await team.ready(migrator)
    asked = {
        "database": team.database,
        "schema": "public",
        "privileges": ["SELECT"],
        "includeFuture": {"ownedBy": [migrator]},
    }
    old = await team.create("old", grants=[team.grant("CONNECT"), asked])
    await team.ready(old)
    async with team.login(migrator) as session:
        await session.execute("CREATE TABLE t (id int)")
        async with team.login(old) as reading:
            await reading.execute("SELECT * FROM t")
        await session.execute("CREATE SEQUENCE q")
    wide = {"database": team.database, "schema": "public", "access": "ReadWrite"}
    new = await team.create("new", grants=[team.grant("CONNECT"), wide])
    await team.ready(new)
    assert {("t", "DELETE"), ("q", "USAGE")} <= await team.privileges(new)
    await team.ready(old)
    await team.stands_still()


@modest
async def test_row_13_a_grant_that_does_nothing_is_found_out(team: Team) -> None:
    """PostgreSQL answers OK, with a warning, to who holds the privilege without the option."""
    await team.sql("CREATE TABLE t (id int)", "GRANT SELECT ON t TO operator")
    name = await team.create(grants=[team.grant("SELECT")])
    await team.fails(name, "InsufficientPrivilege")
    assert ("t", "SELECT") not in await team.privileges(name)
    await team.sql("GRANT SELECT ON t TO operator WITH GRANT OPTION")
    await team.ready(name)
    assert ("t", "SELECT") in await team.privileges(name)


async def test_row_14_a_revoke_that_does_nothing_is_found_out(team: Team) -> None:
    """PostgreSQL answers OK although another role granted it."""
    between = team.name("between")
    await team.build("CREATE TABLE t (id int)")
    name = await team.create(grants=[team.grant("CONNECT", "USAGE")])
    await team.ready(name)
    await team.sql(
        "CREATE ROLE {b}",
        "GRANT SELECT ON t TO {b} WITH GRANT OPTION",
        "SET ROLE {b}",
        "GRANT SELECT ON t TO {r}",
        b=between,
        r=name,
    )
    await team.poke()
    await team.fails(name, "InsufficientPrivilege")
    assert ("t", "SELECT") in await team.privileges(name)
    await team.sql("SET ROLE {b}", "REVOKE SELECT ON t FROM {r}", b=between, r=name)
    await team.ready(name)


async def test_row_15_what_public_has_is_told_and_does_not_loop(team: Team) -> None:
    name = await team.create(grants=[team.grant("CONNECT", "TEMPORARY")])
    await team.ready(name)
    await team.patch(name, grants=[team.grant("USAGE")])
    body = await team.ready(name)
    assert ("database " + team.database, "CONNECT") not in await team.privileges(name)
    assert any("PUBLIC has CONNECT" in warning for warning in body["status"]["warnings"])
    assert await has(team, "database", name, team.database, "CONNECT")
    await team.stands_still()


@pytest.mark.differs("version")
async def test_row_16_what_owners_and_public_have_by_default_stays(team: Team) -> None:
    """The first grant writes entries for them where there was nothing."""
    await team.build("CREATE FUNCTION f() RETURNS int RETURN 1", "CREATE TABLE t (id int)")
    acls = """
        SELECT datname, datdba::regrole::text, datacl::text FROM pg_catalog.pg_database
         WHERE datname = pg_catalog.current_database()
        UNION ALL SELECT 'f', proowner::regrole::text, proacl::text FROM pg_catalog.pg_proc
         WHERE proname = 'f' AND pronamespace = 'public'::regnamespace
        UNION ALL SELECT 't', relowner::regrole::text, relacl::text FROM pg_catalog.pg_class
         WHERE relname = 't' AND relnamespace = 'public'::regnamespace"""
    before = await team.sql(acls)
    assert {acl for _, _, acl in before} == {None}
    name = await team.create(grants=[team.grant("CONNECT", "EXECUTE", "SELECT")])
    await team.ready(name)
    await team.stands_still()
    await team.patch(name, grants=[])
    await team.ready(name)
    owner = team.administrator.username
    inherent = "arwdDxtm" if await _version(team) >= 170000 else "arwdDxt"
    defaults = {
        team.database: f"{{=Tc/{owner},{owner}=CTc/{owner}}}",
        "f": f"{{=X/{owner},{owner}=X/{owner}}}",
        "t": f"{{{owner}={inherent}/{owner}}}",
    }
    assert {name: acl for name, _, acl in await team.sql(acls)} == defaults
    await team.stands_still()


@pytest.mark.differs("administrator")
async def test_row_17_every_kind_of_routine(team: Team) -> None:
    await team.build(
        "CREATE SCHEMA s",
        'CREATE TYPE s."odd type" AS (a int)',
        "CREATE FUNCTION s.f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "CREATE FUNCTION s.f(int, VARIADIC text[]) RETURNS int LANGUAGE sql AS 'SELECT 1'",
        'CREATE FUNCTION s."F f"(IN a s."odd type", OUT b int, INOUT c int) LANGUAGE sql'
        " AS 'SELECT 1, 2'",
        "CREATE PROCEDURE s.p(x int DEFAULT 1) LANGUAGE sql AS 'SELECT 1'",
        "CREATE AGGREGATE s.a(int) (SFUNC = int4pl, STYPE = int)",
        "CREATE AGGREGATE s.a(*) (SFUNC = int8inc, STYPE = bigint, INITCOND = '0')",
        "CREATE FUNCTION s.w() RETURNS bigint LANGUAGE internal WINDOW AS 'window_row_number'"
        if team.superuser
        else "SELECT 1",
        "REVOKE ALL ON ALL ROUTINES IN SCHEMA s FROM PUBLIC",
    )
    name = await team.create(grants=[team.grant("CONNECT", "EXECUTE", schema="s")])
    await team.ready(name)
    query = """SELECT p.oid::regprocedure::text FROM pg_catalog.pg_proc p
               WHERE p.pronamespace = 's'::regnamespace
                 AND NOT pg_catalog.has_function_privilege(%s, p.oid, 'EXECUTE')"""
    assert await team.sql(query, values=(name,)) == []
    async with team.login(name) as session:
        await session.execute("CALL s.p()")
    await team.stands_still()


@pytest.mark.differs("administrator")
async def test_row_18_every_kind_of_table(team: Team) -> None:
    if team.superuser:
        await team.sql(
            "CREATE SCHEMA s",
            "CREATE FOREIGN DATA WRAPPER w",
            "CREATE SERVER far FOREIGN DATA WRAPPER w",
            "CREATE FOREIGN TABLE s.remote (id int) SERVER far",
        )
        available = await team.sql(
            "SELECT name FROM pg_catalog.pg_available_extensions"
            " WHERE name IN ('hstore', 'vector') ORDER BY 1 LIMIT 1"
        )
        for (extension,) in available:
            await team.sql("CREATE EXTENSION {e} SCHEMA s", e=extension)
        assert available
    else:
        await team.build("CREATE SCHEMA s")
    await team.build(
        "CREATE TABLE s.plain (id serial, again int GENERATED ALWAYS AS IDENTITY)",
        "CREATE TABLE s.parts (id int) PARTITION BY LIST (id)",
        "CREATE TABLE s.one PARTITION OF s.parts FOR VALUES IN (1)",
        "CREATE VIEW s.seen AS SELECT 1 AS id",
        "CREATE MATERIALIZED VIEW s.kept AS SELECT 1 AS id",
        "CREATE UNLOGGED TABLE s.light (id int)",
        "CREATE TYPE s.pair AS (a int)",
        "CREATE INDEX ON s.plain (id)",
    )
    name = await team.create(
        grants=[team.grant("CONNECT", "SELECT", "INSERT", "EXECUTE", schema="s")]
    )
    await team.ready(name)
    tables = {"plain", "parts", "one", "seen", "kept", "light"}
    tables |= {"remote"} if team.superuser else set()
    found = await team.privileges(name)
    for privilege in ("SELECT", "INSERT"):
        assert {thing for thing, one in found if one == privilege} == tables
    await team.stands_still()


@pytest.mark.differs("version")
async def test_row_19_a_privilege_that_the_server_does_not_know(team: Team) -> None:
    await team.build("CREATE TABLE t (id int)")
    with pytest.raises(Invalid):
        await team.create("unknown", grants=[team.grant("FLY")])
    name = await team.create(grants=[team.grant("MAINTAIN", "SELECT")])
    if await _version(team) < 170000:
        message = await team.fails(name, "UnsupportedPrivilege")
        assert "MAINTAIN in spec.grants needs PostgreSQL 17" in message
        assert ("t", "MAINTAIN") not in await team.privileges(name)
    else:
        await team.ready(name)
        assert ("t", "MAINTAIN") in await team.privileges(name)
    assert ("t", "SELECT") in await team.privileges(name)
    await team.stands_still()


async def test_row_20_grants_in_another_database_than_the_connections(team: Team) -> None:
    other = await team.create_database(f"other_{team.id}")
    await team.build("CREATE TABLE only_there (id int)", database=other)
    name = await team.create(
        connection=team.directly(database=team.database),
        grants=[team.grant("CONNECT", "SELECT", database=other)],
    )
    await team.ready(name)
    assert ("only_there", "SELECT") in await team.privileges(name, other)
    assert (f"database {other}", "CONNECT") in await team.privileges(name)
    assert (f"database {team.database}", "CONNECT") not in await team.privileges(name)
    await team.stands_still()


async def test_row_21_a_database_that_comes_later(team: Team) -> None:
    later = f"later_{team.id}"
    name = await team.create(grants=[team.grant("CONNECT", database=later), team.grant("CONNECT")])
    message = await team.fails(name, "DatabaseNotFound")
    assert later in message
    assert (f"database {team.database}", "CONNECT") in await team.privileges(name)
    await team.create_database(later)
    await team.ready(name)
    assert (f"database {later}", "CONNECT") in await team.privileges(name)


async def test_row_44_a_spec_that_leaves_a_database_leaves_nothing_there(team: Team) -> None:
    other = await team.create_database(f"other_{team.id}")
    for database in (team.database, other):
        await team.build(
            "CREATE TABLE t (id int)",
            "CREATE FUNCTION f() RETURNS int RETURN 1",
            database=database,
        )
    everything = ("CONNECT", "TEMPORARY", "CREATE", "SELECT", "EXECUTE")
    name = await team.create(
        grants=[team.grant(*everything), team.grant(*everything, database=other)]
    )
    await team.ready(name)
    assert ("f()", "EXECUTE") in await team.privileges(name)
    await team.patch(name, grants=[team.grant("SELECT", database=other)])
    await team.ready(name)
    assert await team.privileges(name) == set()
    assert await team.privileges(name, other) == {("schema public", "USAGE"), ("t", "SELECT")}
    await team.stands_still()


async def test_row_46_a_lock_that_is_held_delays_nobody_else(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A migration holds a table of one team; the other's access is ready meanwhile."""
    monkeypatch.setitem(startup.OPTIONS, "lock_timeout", "200ms")
    other = await team.create_database(f"other_{team.id}")
    await team.build("CREATE TABLE t (id int)")
    await team.build("CREATE TABLE t (id int)", database=other)
    before = await team.create("before", grants=[team.grant("CONNECT", "SELECT")])
    await team.ready(before)
    async with team.locked("t", "ACCESS EXCLUSIVE"):
        waits = await team.create("waits", grants=[team.grant("CONNECT", "SELECT")])
        free = await team.create("free", grants=[team.grant("SELECT", database=other)])
        await team.ready(free)
        if await _waits_for_tables(team):
            await team.wait(waits, in_progress)
        assert is_ready(
            (await team.client.get(POSTGRESACCESSES, before, team.namespace)).to_dict()
        )
    await team.ready(waits)
    assert ("t", "SELECT") in await team.privileges(waits)


def in_progress(body: dict[str, Any]) -> bool:
    found = condition(body, "InProgress")
    return found.get("status") == "True" and "holds a lock" in found["message"]


async def _version(team: Team) -> int:
    ((number,),) = await team.sql("SELECT pg_catalog.current_setting('server_version_num')::int")
    return int(number)


async def _waits_for_tables(team: Team) -> bool:
    """Up to PostgreSQL 16 a GRANT does not wait for who holds the table."""
    return await _version(team) >= 170000
