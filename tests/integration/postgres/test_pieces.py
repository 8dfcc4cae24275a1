"""Removals of roles that own more than a server has locks for, with a neighbour at work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest
from tests.support.pgserver import (
    PASSWORD,
    can_login,
    claim,
    cleanup,
    endpoint_of,
    fetch,
    grant,
    login,
    run,
    sweep,
    sync,
    wanted,
)
from tests.support.servers import OPERATOR, quick, started

from fairlead.api.postgresaccess import CleanupPolicy
from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.postgres import bounds
from fairlead.postgres.database.connections.endpoint import Endpoint
from fairlead.postgres.database.work import pieces
from fairlead.postgres.errors import AccessError, UnfinishedError


TABLES = 150
"""Tables, each with nine locks: three times as many as the server has."""
OWNED = "SELECT count(*) FROM pg_class WHERE relowner = %s::regrole AND relkind = 'r'"


@pytest.fixture(scope="module")
def crowded() -> Iterator[EmbeddedPostgres]:
    """A server with room for some hundred locks."""
    settings = {"max_locks_per_transaction": "10", "max_connections": "30", "autovacuum": "off"}
    yield from started(EmbeddedPostgres(version=18, settings=settings))


BOTH = pytest.mark.parametrize("administrator", ["superuser", "operator"], indirect=True)


@pytest.fixture
async def administrator(
    crowded: EmbeddedPostgres, request: pytest.FixtureRequest
) -> AsyncIterator[Endpoint]:
    await run(
        crowded,
        "postgres",
        f"CREATE ROLE {OPERATOR} LOGIN CREATEROLE PASSWORD '{quick(OPERATOR)}'",
        "CREATE ROLE heir",
        f"GRANT heir TO {OPERATOR}",
        "CREATE DATABASE d OWNER heir",
        "CREATE DATABASE e OWNER heir",
    )
    who = () if getattr(request, "param", "") == "superuser" else (OPERATOR, OPERATOR)
    endpoint = endpoint_of(crowded, *who)
    grants = [grant(name, "CONNECT", "CREATE", "USAGE") for name in ("d", "e")]
    await sync(endpoint, wanted("app", *grants))
    await run(crowded, "postgres", "GRANT CREATE ON DATABASE d, e TO app")
    yield endpoint
    await empty(crowded)
    await run(crowded, "postgres", f"DROP OWNED BY {OPERATOR}", f"DROP ROLE {OPERATOR}")


async def empty(server: EmbeddedPostgres) -> None:
    """Remove the databases before their roles, which DROP OWNED could not clear them of."""
    await run(server, "postgres", "DROP DATABASE d WITH (FORCE)", "DROP DATABASE e WITH (FORCE)")
    await sweep(server)


async def own(server: EmbeddedPostgres, database: str = "d", tables: int = TABLES) -> None:
    """The role gets tables in a chain of foreign keys, and something of each other kind."""
    async with await login(server, "app", PASSWORD, database) as session:
        for number in range(tables):
            await session.execute(
                f'CREATE TABLE "t%{number}" (id serial PRIMARY KEY, word text NOT NULL,'
                f' before int REFERENCES "t%{max(number - 1, 0)}")'
            )
            await session.execute("SELECT lo_create(0)")
        for statement in OTHER_KINDS:
            await session.execute(statement)


OTHER_KINDS = (
    "CREATE SCHEMA s",
    "CREATE TYPE s.mood AS ENUM ('good')",
    "CREATE TYPE s.pair AS (a int, b int)",
    "CREATE TYPE s.span AS RANGE (subtype = float8)",
    "CREATE DOMAIN s.word AS text CHECK (VALUE <> '')",
    "CREATE FUNCTION s.cast_it(s.pair) RETURNS int LANGUAGE sql IMMUTABLE RETURN ($1).a",
    "CREATE CAST (s.pair AS int) WITH FUNCTION s.cast_it(s.pair)",
    "CREATE AGGREGATE s.total(int) (sfunc = int4pl, stype = int)",
    "CREATE PROCEDURE s.work() LANGUAGE sql AS 'SELECT 1'",
    "CREATE OPERATOR s.### (leftarg = int, rightarg = int, procedure = int4pl)",
    'CREATE COLLATION s.plain FROM "C"',
    "CREATE TEXT SEARCH DICTIONARY s.dict (template = simple)",
    "CREATE TEXT SEARCH CONFIGURATION s.conf (copy = simple)",
    "CREATE TABLE s.parts (id int) PARTITION BY RANGE (id)",
    "CREATE TABLE s.part PARTITION OF s.parts FOR VALUES FROM (0) TO (9)",
    "CREATE INDEX ON s.parts (id)",
    "CREATE TABLE s.kept (id int GENERATED ALWAYS AS IDENTITY, m s.mood, w s.word, p s.pair)",
    "CREATE STATISTICS s.seen ON id, m FROM s.kept",
    "CREATE VIEW s.seeing AS SELECT s.total(id) FROM s.kept",
    "CREATE MATERIALIZED VIEW s.stored AS SELECT * FROM s.seeing",
    "CREATE FUNCTION s.fires() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
    "CREATE TRIGGER fires BEFORE INSERT ON s.kept FOR EACH ROW EXECUTE FUNCTION s.fires()",
    "CREATE POLICY seen ON s.kept USING (s.cast_it(p) > 0)",
    "CREATE FUNCTION s.of_row(s.kept) RETURNS int LANGUAGE sql RETURN 1",
    "ALTER TABLE s.kept ADD CHECK (s.of_row(kept) > 0)",
    "CREATE SEQUENCE s.alone",
    "CREATE PUBLICATION telling FOR TABLE s.kept",
    "ALTER DEFAULT PRIVILEGES IN SCHEMA s GRANT SELECT ON TABLES TO PUBLIC",
)


@asynccontextmanager
async def neighbour_at_work(server: EmbeddedPostgres) -> AsyncIterator[None]:
    """A session that takes a fourth of all locks again and again, and finds room for them."""
    await run(
        server, "e", *(f"CREATE TABLE n{number} (id int PRIMARY KEY)" for number in range(40))
    )
    tables = ", ".join(f"n{number}" for number in range(40))
    over = asyncio.Event()

    async def work() -> int:
        turns = 0
        async with await psycopg.AsyncConnection.connect(server.dsn("e")) as session:
            while not over.is_set():
                await session.execute(f"LOCK TABLE {tables} IN ACCESS SHARE MODE")
                await session.commit()
                turns += 1
        return turns

    task = asyncio.create_task(work())
    try:
        yield
    finally:
        over.set()
        assert await task


async def remove(endpoint: Endpoint, policy: Any = "Cascade") -> int:
    """Remove the role, turn by turn, and count the turns that were not enough."""
    turns, before = 0, 1 << 30
    while (left := await turn(endpoint, policy)) is not None:
        assert left < before
        turns, before = turns + 1, left
    return turns


async def turn(endpoint: Endpoint, policy: Any) -> int | None:
    """The number of objects that are left after a turn, None after the last."""
    try:
        assert await cleanup(endpoint, "app", claim(), policy)
    except UnfinishedError as error:
        return error.left
    return None


@BOTH
async def test_cascade_leaves_room_for_the_locks_of_others(
    crowded: EmbeddedPostgres, administrator: Endpoint
) -> None:
    await own(crowded)
    async with neighbour_at_work(crowded):
        await remove(administrator)
    assert await fetch(crowded, "d", "SELECT FROM pg_largeobject_metadata") == []
    assert await fetch(crowded, "d", "SELECT FROM pg_roles WHERE rolname = 'app'") == []


POLICIES = """
DO $$ BEGIN
  FOR number IN 1..10 LOOP
    EXECUTE 'CREATE POLICY p' || number || ' ON {table} TO app';
  END LOOP;
END $$
"""


async def name(server: EmbeddedPostgres) -> None:
    """Another tenant and the role itself name the role in entries that DROP OWNED locks."""
    await run(
        server,
        "d",
        "CREATE FOREIGN DATA WRAPPER w",
        "GRANT USAGE ON FOREIGN DATA WRAPPER w TO PUBLIC",
        "GRANT CREATE ON DATABASE d TO PUBLIC",
    )
    async with await login(server, "hostile", PASSWORD, "d") as session:
        for number in range(TABLES):
            await session.execute(f'CREATE SCHEMA "n%{number}"')
            await session.execute(f'CREATE TABLE "n%{number}".t (id int)')
            await session.execute(f'GRANT SELECT ON "n%{number}".t TO app')
            await session.execute(
                f'ALTER DEFAULT PRIVILEGES IN SCHEMA "n%{number}" GRANT SELECT ON TABLES TO app'
            )
            await session.execute(POLICIES.format(table=f'"n%{number}".t'))
            await session.execute(f'CREATE SERVER "s%{number}" FOREIGN DATA WRAPPER w')
            await session.execute(f'CREATE USER MAPPING FOR app SERVER "s%{number}"')
        await session.execute('CREATE POLICY shared ON "n%0".t TO app, hostile')
    async with await login(server, "app", PASSWORD, "d") as session:
        for number in range(TABLES):
            await session.execute(
                f'ALTER DEFAULT PRIVILEGES IN SCHEMA "n%{number}"'
                " GRANT SELECT ON TABLES TO hostile, PUBLIC"
            )


HOSTILE = claim(name="hostile", uid="u2")


@BOTH
@pytest.mark.parametrize("policy", ["Restrict", "Cascade", "Orphan"])
async def test_entries_that_name_a_role_go_in_pieces(
    crowded: EmbeddedPostgres, administrator: Endpoint, policy: CleanupPolicy
) -> None:
    await sync(administrator, wanted("hostile", grant("d", "CONNECT"), claimed=HOSTILE))
    await name(crowded)
    if policy == "Restrict":
        # It would be kept by them.
        await run(
            crowded, "d", *(f'DROP USER MAPPING FOR app SERVER "s%{n}"' for n in range(TABLES))
        )
    async with neighbour_at_work(crowded):
        await remove(administrator, policy)
    assert await fetch(crowded, "d", "SELECT FROM pg_roles WHERE rolname = 'app'") == []
    shared = "SELECT polname::text, polroles::regrole[]::text FROM pg_policy"
    assert await fetch(crowded, "d", shared) == [("shared", "{hostile}")]
    assert await fetch(crowded, "d", OWNED, "hostile") == [(TABLES,)]


async def test_entries_that_the_administrator_may_not_end(
    crowded: EmbeddedPostgres, administrator: Endpoint
) -> None:
    await run(
        crowded,
        "d",
        "CREATE ROLE owner",
        "GRANT CREATE ON DATABASE d TO owner",
        "SET ROLE owner",
        "CREATE SCHEMA theirs",
        *(f"CREATE TABLE theirs.t{number} (id int)" for number in range(TABLES)),
        *(f"CREATE POLICY p ON theirs.t{number} TO app" for number in range(TABLES)),
    )
    await own(crowded, tables=1)
    async with neighbour_at_work(crowded):
        with pytest.raises(AccessError, match="raise max_locks_per_transaction") as refused:
            await remove(administrator, "Cascade")
    assert await fetch(crowded, "d", OWNED, "app") == [(3,)]
    ((database, blockers),) = refused.value.blockers
    assert database == "d"
    assert blockers[0].startswith("policy p on theirs.t")
    await run(crowded, "d", "DROP SCHEMA theirs CASCADE")
    assert await remove(administrator, "Cascade") == 0


async def test_privileges_on_many_columns_go_in_pieces(
    crowded: EmbeddedPostgres, administrator: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DROP OWNED looks at all columns of a table for each that has a privilege."""
    monkeypatch.setattr(bounds, "TURN_SECONDS", 0.0)
    names = [f"c{number}" for number in range(1000)]
    await sync(administrator, wanted("hostile", grant("d", "CONNECT", "CREATE"), claimed=HOSTILE))
    await run(crowded, "d", "GRANT CREATE ON SCHEMA public TO hostile")
    async with await login(crowded, "hostile", PASSWORD, "d") as session:
        for table in ("a", "b", "c"):
            await session.execute(f"CREATE TABLE {table} ({', '.join(f'{c} int' for c in names)})")
            await session.execute(f"GRANT SELECT ({', '.join(names)}) ON {table} TO app")
    assert await remove(administrator, "Restrict") == 1
    assert await fetch(crowded, "d", OWNED, "hostile") == [(3,)]


@BOTH
@pytest.mark.parametrize("policy", ["Cascade", "Orphan"])
async def test_publications_servers_and_statistics_go_in_pieces(
    crowded: EmbeddedPostgres, administrator: Endpoint, policy: CleanupPolicy
) -> None:
    await run(
        crowded,
        "d",
        "CREATE FOREIGN DATA WRAPPER w",
        "GRANT USAGE ON FOREIGN DATA WRAPPER w TO PUBLIC",
        "CREATE TABLE measured (a int, b int)",
        "ALTER TABLE measured OWNER TO app",
        "GRANT CREATE ON SCHEMA public TO heir",
    )
    async with await login(crowded, "app", PASSWORD, "d") as session:
        for number in range(TABLES):
            await session.execute(f'CREATE PUBLICATION "p%{number}"')
            await session.execute(f'CREATE SERVER "s%{number}" FOREIGN DATA WRAPPER w')
            await session.execute(f'CREATE USER MAPPING FOR app SERVER "s%{number}"')
            await session.execute(f'CREATE STATISTICS "m%{number}" ON a, b FROM measured')
    # Its statistics stay the role's.
    await run(crowded, "d", "ALTER TABLE measured OWNER TO heir")
    async with neighbour_at_work(crowded):
        await remove(administrator, policy)
    kept = [(TABLES if policy == "Orphan" else 0,)]
    for catalog in ("pg_publication", "pg_foreign_server", "pg_statistic_ext"):
        assert await fetch(crowded, "d", f"SELECT count(*) FROM {catalog}") == kept


async def test_a_turn_that_is_over_is_continued(
    crowded: EmbeddedPostgres, administrator: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "TURN_SECONDS", 0.0)
    await own(crowded, tables=60)
    with pytest.raises(UnfinishedError) as unfinished:
        await cleanup(administrator, "app", claim(), "Cascade")
    assert 0 < unfinished.value.left < unfinished.value.total
    assert not await can_login(crowded, "app", PASSWORD)
    assert await remove(administrator) > 1


async def test_nothing_is_dropped_while_another_role_needs_some_of_it(
    crowded: EmbeddedPostgres, administrator: Endpoint
) -> None:
    await own(crowded)
    await own(crowded, "e", tables=1)
    await run(
        crowded,
        "e",
        "CREATE ROLE owner",
        "CREATE VIEW theirs AS SELECT id FROM s.part",
        "ALTER VIEW theirs OWNER TO owner",
        'CREATE TABLE refers (id int REFERENCES "t%0")',
    )
    with pytest.raises(AccessError, match="Cascade drops no objects of other roles") as refused:
        await cleanup(administrator, "app", claim(), "Cascade")
    assert refused.value.reason == "OwnsObjects"
    ((database, blockers),) = refused.value.blockers
    assert database == "e"
    assert any("theirs" in one for one in blockers)
    assert any("refers" in one for one in blockers)
    assert await fetch(crowded, "d", OWNED, "app") == [(TABLES + 2,)]
    await run(crowded, "e", "DROP VIEW theirs", "DROP TABLE refers")
    await remove(administrator)


@pytest.mark.parametrize("tables", [1, 60])
async def test_a_view_that_comes_after_the_look_stays(
    crowded: EmbeddedPostgres,
    administrator: Endpoint,
    monkeypatch: pytest.MonkeyPatch,
    tables: int,
) -> None:
    await own(crowded, tables=tables)
    look = pieces.Clearing._strangers

    async def late(self: pieces.Clearing, database: str) -> list[str]:
        found = await look(self, database)
        await run(crowded, database, 'CREATE OR REPLACE VIEW late AS SELECT id FROM "t%0"')
        return found

    monkeypatch.setattr(pieces.Clearing, "_strangers", late)
    with pytest.raises(AccessError, match=r"view public\.late"):
        await remove(administrator)
    assert await fetch(crowded, "d", "SELECT FROM late") == []
    monkeypatch.undo()
    await run(crowded, "d", "DROP VIEW late")
    await remove(administrator)


async def test_a_circle_of_tables_with_more_locks_than_there_are(
    crowded: EmbeddedPostgres, administrator: Endpoint
) -> None:
    await own(crowded)
    await run(crowded, "d", f'ALTER TABLE "t%0" ADD FOREIGN KEY (id) REFERENCES "t%{TABLES - 1}"')
    await remove(administrator)


@pytest.mark.parametrize("policy", ["Cascade", "Orphan"])
async def test_parts_of_older_objects_fill_a_reading(
    crowded: EmbeddedPostgres,
    administrator: Endpoint,
    monkeypatch: pytest.MonkeyPatch,
    policy: CleanupPolicy,
) -> None:
    monkeypatch.setattr(bounds, "ESTATE_WINDOW", 40)
    async with await login(crowded, "app", PASSWORD, "d") as session:
        await session.execute("CREATE TABLE counted (id int)")
        for number in range(50):
            await session.execute(f'CREATE SEQUENCE "q%{number}" OWNED BY counted.id')
    await run(crowded, "d", "GRANT CREATE ON SCHEMA public TO heir")
    await remove(administrator, policy)
    kept = [("heir",)] if policy == "Orphan" else []
    owner = "SELECT tableowner::text FROM pg_tables WHERE tablename = 'counted'"
    assert await fetch(crowded, "d", owner) == kept


@BOTH
async def test_heirs_get_much_in_pieces(
    crowded: EmbeddedPostgres, administrator: Endpoint
) -> None:
    await own(crowded, tables=2 * TABLES)
    await run(
        crowded,
        "d",
        "DROP SCHEMA s CASCADE",
        "CREATE SCHEMA s AUTHORIZATION app",
        "CREATE TABLE s.t (id int)",
        "ALTER TABLE s.t OWNER TO app",
    )
    async with neighbour_at_work(crowded):
        await remove(administrator, "Orphan")
    assert await fetch(crowded, "d", OWNED, "heir") == [(2 * TABLES + 1,)]
