"""A control plane, a PostgreSQL and the operator of PostgresAccess, each in processes of its own.

The operator has the rights of its manifests and no others, and the loader is a ServiceAccount too.
Bare script, seed's loop and operator have databases of their own that look alike.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, LiteralString, cast

import psycopg
from psycopg import sql

from bench import planes
from bench.pair import NAMESPACES, Program, loader
from bench.planes import Plane
from fairlead.api.meta import JSON
from fairlead.api.postgresaccess import POSTGRESACCESSES
from fairlead.api.postgresaccess import crds as access_crds
from fairlead.api.postgresaccess.server import POSTGRESSERVERS
from fairlead.api.resource import NAMESPACES as NAMESPACE_KIND
from fairlead.api.resource import SECRETS, Resource
from fairlead.client import Client, ClusterConfig
from fairlead.demo.identity import as_service_account, create_all
from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.postgres.app import install_crds as install_access_crds
from fairlead.postgres.manifests import NAME, manifests
from fairlead.postgres.options import DEFAULT_NAMESPACE
from fairlead.runtime import install_crds


SERVER = "main"
BARE = Resource("bare.bench", "v1", "postgresaccesses", "PostgresAccess")
"""The same kind once more, which only the bare script writes."""
DATABASES = 3
SCHEMAS = 8
"""Of each database: PostgreSQL has no room for more than some 500 logins in a table's ACL."""
TABLES = 4
"""Of each schema."""
INTERVAL_SECONDS = 10
"""Between two looks of the operator at what is in sync, the least that it takes."""

_SETTINGS = {
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


_COUNTED = """
SELECT COALESCE(sum(s.n_tup_ins + s.n_tup_upd + s.n_tup_del), 0)::int8
  FROM pg_stat_all_tables s JOIN pg_class c ON c.oid = s.relid
 WHERE s.schemaname = 'pg_catalog' AND c.relisshared
"""
_SHARED = sql.SQL(_COUNTED)
_INSIDE = sql.SQL(_COUNTED.replace("AND c.relisshared", "AND NOT c.relisshared"))


class Server:
    """PostgreSQL, and what its superuser sees of it."""

    def __init__(self, embedded: EmbeddedPostgres, watching: psycopg.AsyncConnection[Any]) -> None:
        self.embedded = embedded
        self._watching = watching

    async def rows(self, query: LiteralString) -> list[tuple[Any, ...]]:
        cursor = await self._watching.execute(query)
        return await cursor.fetchall()

    async def run(self, statement: LiteralString | sql.Composed) -> None:
        await self._watching.execute(statement)

    async def wal(self) -> int:
        """Bytes of WAL that were written so far."""
        ((size,),) = await self.rows(
            "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::int8"
        )
        return cast("int", size)

    async def written(self, prefix: str) -> int:
        """Rows of catalogs that were written so far, shared ones and those of databases."""
        found = 0
        for name in ("postgres", *databases(prefix)):
            async with await self.connect(name) as session:
                cursor = await session.execute(_SHARED if name == "postgres" else _INSIDE)
                ((count,),) = await cursor.fetchall()
                found += count
        return found

    async def log_statements(self, *, wanted: bool) -> None:
        """Write all statements into the log, those that sessions do not keep out of it."""
        await self.run("ALTER SYSTEM SET log_statement = 'all'") if wanted else await self.run(
            "ALTER SYSTEM RESET log_statement"
        )
        await self.run("SELECT pg_reload_conf()")

    def log(self) -> Log:
        """The log from here on."""
        return Log(self.embedded.folder / "log")

    async def connect(self, database: str) -> psycopg.AsyncConnection[Any]:
        """The superuser, in a session without anything that psycopg does for comfort."""
        return await psycopg.AsyncConnection.connect(
            self.embedded.dsn(database), autocommit=True, prepare_threshold=None
        )


class Log:
    """What a server writes into its log from now on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._begin = path.stat().st_size

    def lines(self, application: str) -> Iterator[str]:
        """What it said of the sessions of one program."""
        with self._path.open("rb") as file:
            file.seek(self._begin)
            for line in file:
                text = line.decode(errors="replace")
                if text.startswith(f"{application}|"):
                    yield text.removeprefix(f"{application}|")

    def statements(self, application: str) -> int:
        """How many were executed."""
        begins = ("LOG:  execute ", "LOG:  statement: ")
        return sum(line.startswith(begins) for line in self.lines(application))

    def connections(self) -> int:
        """How many logins there were, whoever's."""
        with self._path.open("rb") as file:
            file.seek(self._begin)
            return sum(b"LOG:  connection authorized" in line for line in file)


class Place:
    """All of it; ``loader`` is who creates accesses, and stands for the bare script."""

    def __init__(
        self, plane: Plane, server: Server, operator: Program, loading: ClusterConfig
    ) -> None:
        self.plane = plane
        self.server = server
        self.operator = operator
        self.loader = loading


def databases(prefix: str) -> list[str]:
    """The names of the databases of one who takes part."""
    return [f"{prefix}_{number}" for number in range(DATABASES)]


def where(prefix: str, number: int) -> tuple[str, str]:
    """Database and schema of the access of this number."""
    return f"{prefix}_{number % DATABASES}", f"s{number // DATABASES % SCHEMAS}"


@asynccontextmanager
async def place(folder: Path, *prefixes: str) -> AsyncIterator[Place]:
    """Everything, until the context is left; the databases of each prefix are there."""
    async with AsyncExitStack() as stack:
        own = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=folder)))
        embedded = await stack.enter_async_context(EmbeddedPostgres(settings=_SETTINGS))
        connection = await psycopg.AsyncConnection.connect(embedded.dsn(), autocommit=True)
        server = Server(embedded, await stack.enter_async_context(connection))
        for prefix in prefixes:
            await _create_databases(server, prefix)
        plane = await stack.enter_async_context(planes.sandbox(own))
        admin = await stack.enter_async_context(Client(plane.admin))
        account = await _prepare(admin, embedded)
        flags = (f"--synced-interval={INTERVAL_SECONDS}s", "--pending-interval=1s")
        operator = Program("postgres", account, own, *flags)
        stack.push_async_callback(operator.stop)
        await operator.start()
        yield Place(plane, server, operator, await _loader(admin))


async def _create_databases(server: Server, prefix: str) -> None:
    for name in databases(prefix):
        await server.run(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        async with await server.connect(name) as connection:
            for schema in range(SCHEMAS):
                await connection.execute(cast("Any", f"CREATE SCHEMA s{schema}"))
                for table in range(TABLES):
                    await connection.execute(
                        cast("Any", f"CREATE TABLE s{schema}.t{table} (id int8 PRIMARY KEY)")
                    )


async def _prepare(admin: Client, embedded: EmbeddedPostgres) -> ClusterConfig:
    await install_access_crds(admin)
    await install_crds(admin, [bare_crd()])
    await create_all(admin, manifests(image="bench"))
    await admin.create(SECRETS, credentials(SERVER, embedded), DEFAULT_NAMESPACE)
    await admin.create(POSTGRESSERVERS, profile(SERVER, embedded.host, embedded.port))
    return await as_service_account(admin, DEFAULT_NAMESPACE, NAME)


async def _loader(admin: Client) -> ClusterConfig:
    groups = [POSTGRESACCESSES.group, BARE.group]
    return await loader(
        admin,
        {"apiGroups": groups, "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": [SECRETS.plural, NAMESPACE_KIND.plural], "verbs": ["*"]},
    )


def bare_crd() -> JSON:
    """PostgresAccess in another group."""
    body = next(
        one for one in access_crds() if one["metadata"]["name"] == POSTGRESACCESSES.group_resource
    )
    body["metadata"] = {"name": BARE.group_resource}
    body["spec"]["group"] = BARE.group
    body["spec"]["names"].pop("shortNames", None)
    return body


def credentials(name: str, embedded: EmbeddedPostgres) -> JSON:
    """The administrator's Secret."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": DEFAULT_NAMESPACE},
        "stringData": {"username": embedded.username, "password": embedded.password},
    }


def profile(name: str, host: str, port: int, secret: str = SERVER) -> JSON:
    """A PostgresServer open to everybody."""
    return {
        "apiVersion": POSTGRESSERVERS.api_version,
        "kind": POSTGRESSERVERS.kind,
        "metadata": {"name": name},
        "spec": {
            "host": host,
            "port": port,
            "sslMode": "disable",
            "credentialsSecretRef": {"name": secret},
            "allowedNamespaces": {},
            "allowedDatabases": ["*"],
        },
    }


def access(
    resource: Resource, name: str, number: int, prefix: str, server: str = SERVER
) -> tuple[str, JSON]:
    """A namespace, and a PostgresAccess in it for reading and adding to one schema."""
    namespace = NAMESPACES[number % len(NAMESPACES)]
    database, schema = where(prefix, number)
    privileges = ["CONNECT", "USAGE", "SELECT", "INSERT"]
    return namespace, {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "connection": {"serverRef": {"name": server}},
            "username": name,
            "generatedSecret": f"{name}-login",
            "grants": [{"database": database, "schema": schema, "privileges": privileges}],
        },
    }
