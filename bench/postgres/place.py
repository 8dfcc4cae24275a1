"""A control plane, a PostgreSQL and the operator of PostgresAccess, each in processes of its own.

The operator has the rights of its manifests and no others, and the loader is a ServiceAccount too.
Bare script, seed's loop and operator have databases of their own that look alike.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, LiteralString, NamedTuple, cast

import psycopg
from psycopg import sql
from tests.support import postgres as examples

from bench import planes
from bench.loading import Side, Write, loader, namespace_of, patch, post, regrouped, side, twin
from bench.processes import Program, running
from fairlead.api.meta import JSON
from fairlead.api.postgresaccess import POSTGRESACCESSES
from fairlead.api.postgresaccess import crds as access_crds
from fairlead.api.postgresaccess.server import POSTGRESSERVERS
from fairlead.api.resource import SECRETS, Resource
from fairlead.client import Client, ClusterConfig
from fairlead.demo.identity import as_service_account, create_all
from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.postgres.app import install_crds as install_access_crds
from fairlead.postgres.manifests import NAME, manifests
from fairlead.postgres.options import DEFAULT_NAMESPACE
from fairlead.runtime import install_crds


SERVER = "main"
BARE = twin(POSTGRESACCESSES)
OURS, SCRIPTS, SEEDS = "ours", "bare", "seed"
"""Prefixes of the databases of the operator, of the bare script and of the seed's loop."""
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
    "log_connections": "on",
    "log_line_prefix": "%a|",
    # What is written without our doing would be counted.
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "autovacuum": "off",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "1h",
    "shared_buffers": "64MB",
}
"""Settings of a server that is measured."""

_COUNTED = """
SELECT COALESCE(sum(s.n_tup_ins + s.n_tup_upd + s.n_tup_del), 0)::int8
  FROM pg_stat_all_tables s JOIN pg_class c ON c.oid = s.relid
 WHERE s.schemaname = 'pg_catalog' AND c.relisshared
"""
_SHARED = sql.SQL(_COUNTED)
_INSIDE = sql.SQL(_COUNTED.replace("AND c.relisshared", "AND NOT c.relisshared"))


class Server:
    """PostgreSQL, as its superuser sees it."""

    def __init__(self, embedded: EmbeddedPostgres, watching: psycopg.AsyncConnection[Any]) -> None:
        self.embedded = embedded
        self._watching = watching

    async def rows(self, query: LiteralString) -> list[tuple[Any, ...]]:
        cursor = await self._watching.execute(query)
        return await cursor.fetchall()

    async def run(self, statement: LiteralString | sql.Composed) -> None:
        await self._watching.execute(statement)

    async def wal(self) -> int:
        """Ask for the bytes of WAL that were written so far."""
        ((size,),) = await self.rows(
            "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::int8"
        )
        return cast("int", size)

    async def written(self, prefix: str) -> int:
        """Count the rows of catalogs that were written so far, shared ones and the databases'."""
        found = 0
        for name in ("postgres", *databases(prefix)):
            async with await self.connect(name) as session:
                cursor = await session.execute(_SHARED if name == "postgres" else _INSIDE)
                ((count,),) = await cursor.fetchall()
                found += count
        return found

    async def log_statements(self, *, wanted: bool) -> None:
        """Have all statements written into the log that sessions do not keep out of it."""
        await self.run("ALTER SYSTEM SET log_statement = 'all'") if wanted else await self.run(
            "ALTER SYSTEM RESET log_statement"
        )
        await self.run("SELECT pg_reload_conf()")

    def log(self) -> Log:
        """Begin to read the log from here on."""
        return Log(self.embedded.folder / "log")

    async def connect(self, database: str) -> psycopg.AsyncConnection[Any]:
        """Log the superuser in, without anything that psycopg does for comfort."""
        return await psycopg.AsyncConnection.connect(
            self.embedded.dsn(database), autocommit=True, prepare_threshold=None
        )


class Log:
    """The log of a server from now on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._begin = path.stat().st_size

    def lines(self, application: str) -> Iterator[str]:
        """Read the lines about the sessions of one program."""
        with self._path.open("rb") as file:
            file.seek(self._begin)
            for line in file:
                text = line.decode(errors="replace")
                if text.startswith(f"{application}|"):
                    yield text.removeprefix(f"{application}|")

    def statements(self, application: str) -> int:
        """Count the statements that were executed."""
        begins = ("LOG:  execute ", "LOG:  statement: ")
        return sum(line.startswith(begins) for line in self.lines(application))

    def connections(self) -> int:
        """Count all logins."""
        with self._path.open("rb") as file:
            file.seek(self._begin)
            return sum(b"LOG:  connection authorized" in line for line in file)


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
        own = stack.enter_context(planes.scratch())
        embedded = await stack.enter_async_context(EmbeddedPostgres(settings=SETTINGS))
        connection = await psycopg.AsyncConnection.connect(embedded.dsn(), autocommit=True)
        server = Server(embedded, await stack.enter_async_context(connection))
        for prefix in (OURS, SCRIPTS, SEEDS):
            await create_databases(server, prefix)
        plane = await stack.enter_async_context(planes.sandbox(own))
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


def profile(name: str, embedded: EmbeddedPostgres, port: int) -> Write:
    """Create a PostgresServer at another port, with the same credentials."""
    credentials = {"name": SERVER}
    body = examples.server_profile(name, embedded, port=port, credentialsSecretRef=credentials)
    return post(POSTGRESSERVERS, "", body)


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
