"""The bare script that the operator is measured against, the seed's loop, and bare looks.

The script writes the least that comes to the same end as the operator: for each access the
finalizer, the Secret and one status; in PostgreSQL a role with its verifier and a comment, and for
all accesses of a chunk one GRANT of each kind. It looks at nothing, tells nobody, checks nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import msgspec
import psycopg
from psycopg import sql

from bench.loading import READY, Conditioned, Side, Write, each, encoded, namespace_of, patch, post
from bench.postgres.place import (
    BARE,
    SCRIPTS,
    SEEDS,
    Server,
    create,
    databases,
    privileges,
    where,
)
from fairlead.api.meta import JSON
from fairlead.api.postgresaccess import FINALIZER
from fairlead.api.resource import SECRETS
from fairlead.postgres.database.plans.password import generate, verifier


CHUNK = 250
"""Accesses of one transaction; while it runs, the next ones are written to the API server."""
THREADS = 4
"""Threads in which verifiers are worked out."""

_LOGIN = encoded({f"key-{number}": "x" * 40 for number in range(13)})


class Cost(NamedTuple):
    """Time and effort of something; ``seconds`` are of the clock."""

    seconds: float
    statements: int
    connections: int = 0

    def __add__(self, other: Cost) -> Cost:  # type: ignore[override]
        return Cost(*(sum(pair) for pair in zip(self, other, strict=True)))  # type: ignore[arg-type]


class Script:
    """The bare script, with the number of connections to the API server that is best for it."""

    def __init__(self, side: Side, server: Server, connections: int) -> None:
        self._side = side
        self._server = server
        self._connections = connections

    async def run(self, name: str, numbers: Sequence[int]) -> Cost:
        """Make the accesses of these numbers, as users and operator do together."""
        begun = time.monotonic()
        self._statements = 0
        async with await self._server.connect("postgres") as connection:
            sessions = {"postgres": connection}
            for database in databases(SCRIPTS):
                sessions[database] = await self._server.connect(database)
            writing: asyncio.Task[None] | None = None
            for first in range(0, len(numbers), CHUNK):
                chunk = numbers[first : first + CHUNK]
                made = [f"{SCRIPTS}-{name}-{number}" for number in chunk]
                verifiers = asyncio.create_task(_verifiers(len(made)))
                pairs = zip(made, chunk, strict=True)
                await each(self._connections, self._publish, pairs)
                if writing is not None:
                    await writing
                writing = asyncio.create_task(self._finish(sessions, made, chunk, await verifiers))
            if writing is not None:
                await writing
            for session in sessions.values():
                await session.close()
        return Cost(time.monotonic() - begun, self._statements, len(sessions))

    async def _publish(self, access: tuple[str, int]) -> None:
        """Write as a user does, then the finalizer and the Secret."""
        name, number = access
        namespace = namespace_of(number)
        await self._side.send(create(BARE, name, number, SCRIPTS))
        finalizers = {"metadata": {"finalizers": [FINALIZER]}}
        await self._side.send(patch(BARE, namespace, name, finalizers))
        await self._side.send(_secret(namespace, name))

    async def _finish(
        self,
        sessions: dict[str, psycopg.AsyncConnection[Any]],
        names: Sequence[str],
        numbers: Sequence[int],
        verifiers: Sequence[str],
    ) -> None:
        await self._roles(sessions["postgres"], names, numbers, verifiers)
        places: dict[str, dict[str, list[str]]] = {}
        for name, number in zip(names, numbers, strict=True):
            database, schema = where(SCRIPTS, number)
            places.setdefault(database, {}).setdefault(schema, []).append(name)
        await asyncio.gather(
            *(self._grants(sessions[one], schemas) for one, schemas in places.items())
        )
        pairs = zip(names, numbers, strict=True)
        await each(self._connections, self._tell, pairs)

    async def _roles(
        self,
        session: psycopg.AsyncConnection[Any],
        names: Sequence[str],
        numbers: Sequence[int],
        verifiers: Sequence[str],
    ) -> None:
        statements: list[sql.Composed] = []
        of: dict[str, list[sql.Identifier]] = {}
        for name, number, verified in zip(names, numbers, verifiers, strict=True):
            role = sql.Identifier(name)
            made = sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(role, sql.Literal(verified))
            comment = sql.SQL("COMMENT ON ROLE {} IS {}").format(role, sql.Literal("x" * 80))
            statements += [made, comment]
            of.setdefault(where(SCRIPTS, number)[0], []).append(role)
        for database, roles in of.items():
            grant = sql.SQL("GRANT CONNECT ON DATABASE {} TO {}")
            statements.append(grant.format(sql.Identifier(database), sql.SQL(", ").join(roles)))
        await self._together(session, statements)

    async def _grants(
        self, session: psycopg.AsyncConnection[Any], schemas: dict[str, list[str]]
    ) -> None:
        statements: list[sql.Composed] = []
        for schema, names in schemas.items():
            roles = sql.SQL(", ").join(map(sql.Identifier, names))
            place = sql.Identifier(schema)
            statements.append(sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(place, roles))
            tables = sql.SQL("GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA {} TO {}")
            statements.append(tables.format(place, roles))
        await self._together(session, statements)

    async def _together(
        self, session: psycopg.AsyncConnection[Any], statements: Sequence[sql.Composed]
    ) -> None:
        """Execute all in one transaction, in one round trip."""
        async with session.pipeline(), session.transaction():
            for statement in statements:
                await session.execute(statement)
        self._statements += len(statements) + 2

    async def _tell(self, access: tuple[str, int]) -> None:
        name, number = access
        await self._side.send(_status(namespace_of(number), name, 1))

    async def change(self, name: str, number: int, *more: str) -> float:
        """Time the bare echo: a user's change, the GRANT that follows, and its status."""
        database, schema = where(SCRIPTS, number)
        heard, done = asyncio.Event(), asyncio.Event()

        def look(_type: str, found: Conditioned) -> None:
            if found.metadata.name == name:
                heard.set()
                if found.status.observed_generation == found.metadata.generation:
                    done.set()

        grant = sql.SQL("GRANT {} ON ALL TABLES IN SCHEMA {} TO {}").format(
            sql.SQL(", ").join(sql.SQL(cast("Any", one)) for one in more),
            sql.Identifier(schema),
            sql.Identifier(name),
        )
        async with (
            await self._server.connect(database) as session,
            self._side.watching(BARE, Conditioned, look),
        ):
            begun = time.monotonic()
            answer = await self._side.send(privileges(BARE, name, number, SCRIPTS, *more))
            await heard.wait()
            await session.execute(grant)
            generation = msgspec.json.decode(answer, type=Conditioned).metadata.generation
            await self._side.send(_status(namespace_of(number), name, generation))
            await done.wait()
            return time.monotonic() - begun


async def _verifiers(count: int) -> list[str]:
    places = asyncio.Semaphore(THREADS)

    async def one() -> str:
        async with places:
            return await asyncio.to_thread(verifier, generate())

    return await asyncio.gather(*(one() for _ in range(count)))


def _secret(namespace: str, name: str) -> Write:
    """Create a Secret with as many keys as the operator's, and as long ones."""
    return post(SECRETS, namespace, {"metadata": {"name": f"{name}-login"}, "data": _LOGIN})


def _status(namespace: str, name: str, generation: int) -> Write:
    """Write a status as long as the operator's."""
    conditions = [READY | {"type": type_} for type_ in ("Ready", "Success", "InProgress")]
    status: JSON = {
        "observedGeneration": generation,
        "conditions": conditions,
        "lastReconcileState": "Success",
        "lastLog": "PostgresAccess is in sync",
        "username": name,
        "binding": {"name": f"{name}-login"},
        "secret": {"name": f"{name}-login", "uid": "00000000-0000-0000-0000-000000000000"},
        "server": {"host": "127.0.0.1", "version": "18", "systemIdentifier": "0" * 19},
        "appliedGrants": ["x" * 40] * 5,
    }
    return patch(BARE, namespace, name, {"status": status}, "status")


_USERS = "SELECT rolname FROM pg_roles WHERE rolcanlogin AND NOT rolsuper"
_GRANTS = """
SELECT r.rolname, n.nspname, c.relname, a.privilege_type
  FROM pg_class c
  JOIN pg_namespace n ON n.oid = c.relnamespace, aclexplode(c.relacl) a
  JOIN pg_roles r ON r.oid = a.grantee
 WHERE c.relkind = 'r' AND r.rolcanlogin AND NOT r.rolsuper
"""


async def seed_roles(server: Server, count: int) -> list[str]:
    """Make the users of the seed's loop."""
    names = [f"{SEEDS}-{number}" for number in range(count)]
    for name in names:
        await server.run(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(name)))
    return names


async def seed_loop(server: Server, names: Sequence[str]) -> Cost:
    """Run a cycle of the seed's loop as drawn, without what it asks of the API server.

    Each access is reconciled by itself: it connects, reads users and grants, and sets the password
    of every user anew, for it never knows whether that is right.
    """
    begun = time.monotonic()
    statements = 0
    for _ in names:
        async with await server.connect(databases(SEEDS)[0]) as session:
            for query in (_USERS, _GRANTS):
                cursor = await session.execute(query)
                await cursor.fetchall()
            for name in names:
                await session.execute(
                    sql.SQL("ALTER ROLE {} WITH LOGIN PASSWORD {}").format(
                        sql.Identifier(name), sql.Literal("p" * 26)
                    )
                )
            statements += 2 + len(names)
    return Cost(time.monotonic() - begun, statements, len(names))


_LOOKS = (
    """
    SELECT r.oid, r.rolname, r.rolcanlogin, r.rolsuper, r.rolpassword, d.description
      FROM pg_authid r
      LEFT JOIN pg_shdescription d
        ON d.objoid = r.oid AND d.classoid = 'pg_authid'::regclass
    """,
    "SELECT roleid, member, grantor FROM pg_auth_members",
    "SELECT datname, datdba, datacl::text[] FROM pg_database",
    """
    SELECT DISTINCT refobjid, dbid FROM pg_shdepend WHERE refclassid = 'pg_authid'::regclass
    """,
)
_LOOKS_INSIDE = (
    """
    SELECT nspname, c.relname, relowner, relacl::text[]
      FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
     WHERE relacl IS NOT NULL AND relkind IN ('r', 'v', 'm', 'p', 'f', 'S')
    """,
    "SELECT nspname, nspowner, nspacl::text[] FROM pg_namespace",
)


async def bare_look(server: Server, prefix: str) -> float:
    """Time a reading of all that tells whether roles and grants are as they were left.

    Nothing is compared with anything. Of a few turns the median counts.
    """
    sessions = {name: await server.connect(name) for name in ("postgres", *databases(prefix))}
    found = []
    for _ in range(5):
        begun = time.monotonic()
        for name, session in sessions.items():
            for query in _LOOKS if name == "postgres" else _LOOKS_INSIDE:
                cursor = await session.execute(cast("Any", query))
                await cursor.fetchall()
        found.append(time.monotonic() - begun)
    for session in sessions.values():
        await session.close()
    return sorted(found)[len(found) // 2]
