"""The PostgresAccess operator on one PostgreSQL and one sandbox, against a bare script.

The script writes the least that comes to the same end: for each access the finalizer, the Secret
and one status; in PostgreSQL a role with its verifier and a comment, and for all accesses of a
chunk one GRANT of each kind. It looks at nothing, tells nobody, checks nothing. The operator has
the rights of its manifests and no others.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, LiteralString, NamedTuple, cast

import msgspec
import psycopg
from psycopg import sql
from tests.support import postgres as examples

from bench.loading import (
    READY,
    Conditioned,
    Side,
    Write,
    each,
    encoded,
    fastest,
    loader,
    namespace_of,
    patch,
    post,
    regrouped,
    side,
    twin,
)
from bench.planes import Program, running, sandbox, scratch
from bench.rows import Row, against, kibibytes, milliseconds, of_echo, report, say
from bench.sizes import ACCESSES
from fairlead.api.meta import JSON
from fairlead.api.postgresaccess import FINALIZER, POSTGRESACCESSES
from fairlead.api.postgresaccess import crds as access_crds
from fairlead.api.postgresaccess.server import POSTGRESSERVERS
from fairlead.api.resource import SECRETS, Resource
from fairlead.client import Client, ClusterConfig
from fairlead.demo.identity import as_service_account, create_all
from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.postgres.app import install_crds as install_access_crds
from fairlead.postgres.database.plans.password import generate, verifier
from fairlead.postgres.manifests import NAME, manifests
from fairlead.postgres.options import DEFAULT_NAMESPACE
from fairlead.runtime import install_crds


SERVER = "main"
BARE = twin(POSTGRESACCESSES)
OURS, SCRIPTS = "ours", "bare"
"""Prefixes of the databases of the operator and of the bare script."""
DATABASES = 3
"""Databases of each."""
SCHEMAS = 8
"""Schemas of each database: PostgreSQL has no room for more than some 500 logins in the ACL of a
table."""
TABLES = 4
"""Tables of each schema."""
INTERVAL_SECONDS = 10
"""Time between two looks of the operator at what is in sync, the least that it takes."""

SETTINGS = {
    "autovacuum": "off",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "1h",
    "shared_buffers": "64MB",
}
"""Settings of a server that is measured."""


class Server:
    """PostgreSQL, as its superuser sees it."""

    def __init__(self, embedded: EmbeddedPostgres, watching: psycopg.AsyncConnection[Any]) -> None:
        self.embedded = embedded
        self._watching = watching

    async def run(self, statement: LiteralString | sql.Composed) -> None:
        await self._watching.execute(statement)

    async def connect(self, database: str) -> psycopg.AsyncConnection[Any]:
        """Log the superuser in, without anything that psycopg does for comfort."""
        return await psycopg.AsyncConnection.connect(
            self.embedded.dsn(database), autocommit=True, prepare_threshold=None
        )


class Place(NamedTuple):
    """All of it; ``side`` is the user who creates accesses, and the bare script."""

    side: Side
    server: Server
    operator: Program


def databases(prefix: str) -> list[str]:
    """Name the databases of one who takes part."""
    return [f"{prefix}_{number}" for number in range(DATABASES)]


def where(prefix: str, number: int) -> tuple[str, str]:
    """Choose database and schema of the access of this number."""
    return f"{prefix}_{number % DATABASES}", f"s{number // DATABASES % SCHEMAS}"


@asynccontextmanager
async def place() -> AsyncIterator[Place]:
    """Run everything until the context is left, the databases of all who take part included."""
    async with AsyncExitStack() as stack:
        own = stack.enter_context(scratch())
        embedded = await stack.enter_async_context(EmbeddedPostgres(settings=SETTINGS))
        connection = await psycopg.AsyncConnection.connect(embedded.dsn(), autocommit=True)
        server = Server(embedded, await stack.enter_async_context(connection))
        for prefix in (OURS, SCRIPTS):
            await create_databases(server, prefix)
        plane = await stack.enter_async_context(sandbox(own))
        admin = await stack.enter_async_context(Client(plane.admin))
        account = await prepare(admin, embedded)
        flags = (f"--synced-interval={INTERVAL_SECONDS}s", "--pending-interval=1s")
        operator = await stack.enter_async_context(running("postgres", account, own, *flags))
        config = await loader(admin, "", POSTGRESACCESSES.group, BARE.group)
        yield Place(await stack.enter_async_context(side(config)), server, operator)


async def create_databases(server: Server, prefix: str) -> None:
    """Make the databases of one who takes part."""
    for name in databases(prefix):
        await server.run(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        async with await server.connect(name) as connection:
            for schema in range(SCHEMAS):
                await connection.execute(cast("Any", f"CREATE SCHEMA s{schema}"))
                for table in range(TABLES):
                    await connection.execute(
                        cast("Any", f"CREATE TABLE s{schema}.t{table} (id int8 PRIMARY KEY)")
                    )


async def prepare(admin: Client, embedded: EmbeddedPostgres) -> ClusterConfig:
    """Install the operator and its server's profile; the credentials of the program."""
    await install_access_crds(admin)
    named = {one["metadata"]["name"]: one for one in access_crds()}
    await install_crds(admin, [regrouped(named[POSTGRESACCESSES.group_resource], BARE)])
    await create_all(admin, manifests(image="bench"))
    await admin.create(SECRETS, examples.credentials(SERVER, embedded), DEFAULT_NAMESPACE)
    await admin.create(POSTGRESSERVERS, examples.server_profile(SERVER, embedded))
    return await as_service_account(admin, DEFAULT_NAMESPACE, NAME)


def create(resource: Resource, name: str, number: int, prefix: str, server: str = SERVER) -> Write:
    """Create an access, as a user does."""
    namespace = namespace_of(number)
    grants = [_grant(prefix, number)]
    return post(resource, namespace, examples.access(name, namespace, server, grants=grants))


def privileges(resource: Resource, name: str, number: int, prefix: str, *more: str) -> Write:
    """Ask for more privileges than an access was created with."""
    body = {"spec": {"grants": [_grant(prefix, number, *more)]}}
    return patch(resource, namespace_of(number), name, body)


def _grant(prefix: str, number: int, *more: str) -> JSON:
    """Grant reading and adding to one schema, and ``more``."""
    database, schema = where(prefix, number)
    privileges = ["CONNECT", "USAGE", "SELECT", "INSERT", *more]
    return {"database": database, "schema": schema, "privileges": privileges}


class Users:
    """Users of the operator."""

    def __init__(self, side: Side, connections: int) -> None:
        self.side = side
        self._connections = connections

    async def create(self, prefix: str, numbers: Iterable[int]) -> float:
        """Time from the first access created until all are ready."""
        names = {f"{prefix}-{number}": number for number in numbers}
        writes = [create(POSTGRESACCESSES, name, number, OURS) for name, number in names.items()]
        return await self.write(names, writes)

    async def delete(self, prefix: str, numbers: Iterable[int]) -> None:
        """Delete accesses and wait until they are gone."""
        places = [(namespace_of(number), f"{prefix}-{number}") for number in numbers]
        await self.side.until_gone(POSTGRESACCESSES, places, self._connections)

    async def change(self, names: Mapping[str, int], *more: str) -> float:
        """Time from the first change until all are in force."""
        writes = [
            privileges(POSTGRESACCESSES, name, number, OURS, *more)
            for name, number in names.items()
        ]
        return await self.write(names, writes)

    async def write(self, names: Mapping[str, int], writes: Sequence[Write]) -> float:
        """Time the writes of accesses, given by name and number, until all are ready."""
        places = [(namespace_of(number), name) for name, number in names.items()]
        return await self.side.until_ready(POSTGRESACCESSES, places, writes, self._connections)


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


AIM_FIRST = 1.5
AIM_CPU_MS = 8.0
AIM_STATEMENTS = 6 + 3 * DATABASES
AIM_CYCLE_SECONDS = 0.5
"""Bound at 1,000 accesses."""
AIM_CHANGE_MS = 300.0
AIM_MEMORY_KIB = 12.0


class Numbers(NamedTuple):
    """Numbers that the operator tells of itself, and seconds of its CPU."""

    statements: float
    logins: float
    cycles: float
    seconds: float
    requests: float
    writes: float
    cpu: float

    @classmethod
    async def of(cls, operator: Program) -> Numbers:
        """Read them."""
        metrics, cpu = await operator.metrics(), operator.cpu()
        names = ("statements_total", "logins_total", "cycle_seconds_count", "cycle_seconds_sum")
        owner = f"PostgresServer {SERVER}"
        ours = (metrics.total(f"fairlead_postgres_{name}", owner=owner) for name in names)
        return cls._make([*ours, metrics.requests, metrics.writes, cpu])

    def since(self, before: Numbers) -> Numbers:
        """Return what has come since."""
        return Numbers._make(now - then for now, then in zip(self, before, strict=True))


class Figures(NamedTuple):
    """One number of accesses."""

    accesses: int
    connections: int
    seconds: float
    """Seconds from the first access created until all are ready."""
    bare: Cost
    """Cost of the script, before and after."""
    first: Numbers
    memory: float
    """Bytes that the operator's memory has grown by."""
    steady: Numbers
    """The best of a few cycles in which nothing differs."""
    changes: list[float]
    """Seconds of changes, and of the bare echo's."""
    echo: list[float]


def rows(one: Figures) -> Iterator[Row]:
    """Print the figures of one number of accesses."""
    key, count = f"postgres_{one.accesses}", one.accesses
    title = f"First convergence, {count:,} accesses"
    yield Row(
        f"{key}_first_of_bare",
        f"{title}: time of the bare script's",
        one.seconds / one.bare.seconds,
        aim=AIM_FIRST,
        note=f"{against(one.seconds, one.bare.seconds)} with {one.connections} connections "
        "to the API server",
    )
    aim = AIM_CPU_MS if count >= MANY else None
    yield milliseconds(
        f"{key}_first_cpu_ms", f"{title}: our CPU per access", one.first.cpu / count, aim
    )
    yield Row(
        f"{key}_first_statements",
        f"{title}: statements per access",
        one.first.statements / count,
        "",
        note=f"bare script {one.bare.statements / count:.1f}; {one.first.logins:.0f} new "
        f"connections in all, bare script {one.bare.connections}",
    )
    yield Row(
        f"{key}_first_requests",
        f"{title}: requests to the API server per access",
        one.first.requests / count,
        "",
        note="bare script 3; an Event is told besides",
    )
    if count >= 1000:
        memory = f"{title}: our memory per access"
        yield kibibytes(f"{key}_first_memory_kib", memory, one.memory / count, AIM_MEMORY_KIB)
    steady, title = one.steady, f"Steady cycle, {count:,} accesses"
    yield Row(
        f"{key}_steady_statements",
        f"{title}: statements",
        steady.statements,
        "",
        AIM_STATEMENTS,
        note=f"{DATABASES} databases",
    )
    yield Row(f"{key}_steady_connections", f"{title}: new connections", steady.logins, "", 0.0)
    yield Row(f"{key}_steady_written", f"{title}: requests but GET", steady.writes, "", 0.0)
    yield Row(
        f"{key}_steady_seconds",
        f"{title}: time",
        steady.seconds,
        "s",
        AIM_CYCLE_SECONDS if count == 1000 else None,
        note=f"{1000 * steady.cpu:.0f} ms of our CPU, in {INTERVAL_SECONDS} s",
    )
    if one.changes:
        title = f"One change among {count:,}, until it is Ready"
        ours, echo = statistics.median(one.changes), statistics.median(one.echo)
        worst = f"worst of {len(one.changes)}: {1000 * max(one.changes):.0f} ms"
        yield milliseconds("postgres_change_ms", f"{title}, p50", ours, AIM_CHANGE_MS, worst)
        yield of_echo("postgres_change_of_echo", title, ours, echo)


CONNECTIONS = (8, 16, 32)
"""Numbers of connections of which the bare script takes the best."""
TUNING = 60
"""Accesses with which the best number of connections is found, and with which all get warm."""
MANY = 100
"""Accesses from which a share of what is done once does not count."""
CHANGES = 20
CYCLES = 2
ALIGNMENT_SECONDS = 0.25
_CYCLE_SECONDS = 120.0


class Bench:
    """All that is measured in one place, with this number of connections, 0 for the best."""

    def __init__(self, place: Place, connections: int) -> None:
        self._side, self._server, self._operator = place
        self._connections = connections

    async def measure(self, accesses: int, *, changes: bool) -> Figures:
        """Let operator and script take turns, then look at cycles, and at changes if asked."""
        connections = self._connections or await fastest(CONNECTIONS, self._tune)
        users = Users(self._side, connections)
        script = Script(self._side, self._server, connections)
        # Connections, sessions and code are there before anything is measured.
        await users.create("warm", range(TUNING))
        await users.delete("warm", range(TUNING))
        await script.run("warm-up", range(TUNING))
        resident = await self._operator.resident_at_rest()
        half = accesses // 2
        bare = await script.run("before", range(half))
        before = await Numbers.of(self._operator)
        seconds = await users.create("access", range(accesses))
        first = (await Numbers.of(self._operator)).since(before)
        bare += await script.run("after", range(half, accesses))
        memory = await self._operator.resident_at_rest() - resident
        await self._cycle()
        cycles = [await self._cycle() for _ in range(CYCLES)]
        # Without what is done besides once a minute.
        steady = Numbers._make(min(values) for values in zip(*cycles, strict=True))
        ours, echo = [], []
        for number in range(min(CHANGES, half)) if changes else ():
            ours.append(await users.change({f"access-{number}": number}, "UPDATE"))
            echo.append(await script.change(f"{SCRIPTS}-before-{number}", number, "UPDATE"))
        return Figures(accesses, connections, seconds, bare, first, memory, steady, ours, echo)

    async def _tune(self, connections: int) -> float:
        script = Script(self._side, self._server, connections)
        return (await script.run(f"tune-{connections}", range(TUNING))).seconds

    async def _cycle(self) -> Numbers:
        """Wait for the end of the next cycle; to ask often would be work for the operator."""
        before = after = await Numbers.of(self._operator)
        async with asyncio.timeout(_CYCLE_SECONDS):
            while after.cycles == before.cycles:
                await asyncio.sleep(ALIGNMENT_SECONDS)
                after = await Numbers.of(self._operator)
        return after.since(before)


async def compare() -> list[Row]:
    """Measure all sizes, each in a place of its own."""
    printed: list[Row] = []
    connections = 0
    special = 1000 if 1000 in ACCESSES else ACCESSES[-1]
    for accesses in ACCESSES:
        async with place() as parts:
            bench = Bench(parts, connections)
            one = await bench.measure(accesses, changes=accesses == special)
        connections = one.connections
        printed += rows(one)
        say(str(one))
    return printed


if __name__ == "__main__":
    report(compare)
