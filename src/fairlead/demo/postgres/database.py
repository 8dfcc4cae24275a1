"""The database server of the story: its database, PostgresServer, and queries of its catalog."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

import psycopg
from psycopg import sql

from fairlead.api.meta import JSON
from fairlead.api.postgresaccess.server import POSTGRESSERVERS
from fairlead.api.resource import NAMESPACES, SECRETS
from fairlead.client import Client
from fairlead.demo import objects
from fairlead.postgres.app import install_crds
from fairlead.postgres.options import DEFAULT_NAMESPACE


class DatabaseServer(Protocol):
    """A PostgreSQL and its administrator's password."""

    host: str
    port: int
    username: str
    password: str


_TABLES = sql.SQL(
    # An identity column needs no grant on its sequence, as serial would.
    "CREATE TABLE orders (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, item text NOT NULL);"
    "INSERT INTO orders (item) VALUES ('anchor'), ('lantern')"
)

# An ACL that is NULL stands for the default privileges of the owner and of PUBLIC: it has nothing
# of another role.
_GRANTS = sql.SQL("""
SELECT 'database', d.datname::text, a.privilege_type
  FROM pg_catalog.pg_database d, pg_catalog.aclexplode(d.datacl) a
 WHERE a.grantee = (SELECT oid FROM pg_catalog.pg_roles WHERE rolname = {role})
UNION ALL
SELECT 'schema', n.nspname::text, a.privilege_type
  FROM pg_catalog.pg_namespace n, pg_catalog.aclexplode(n.nspacl) a
 WHERE a.grantee = (SELECT oid FROM pg_catalog.pg_roles WHERE rolname = {role})
UNION ALL
SELECT 'table', c.relname::text, a.privilege_type
  FROM pg_catalog.pg_class c, pg_catalog.aclexplode(c.relacl) a
 WHERE a.grantee = (SELECT oid FROM pg_catalog.pg_roles WHERE rolname = {role})
UNION ALL
SELECT 'routine', p.proname::text, a.privilege_type
  FROM pg_catalog.pg_proc p, pg_catalog.aclexplode(p.proacl) a
 WHERE a.grantee = (SELECT oid FROM pg_catalog.pg_roles WHERE rolname = {role})
""")

_ATTRIBUTES = sql.SQL("""
SELECT rolcanlogin AND NOT (rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication
       OR rolbypassrls)
   AND NOT EXISTS (SELECT FROM pg_catalog.pg_auth_members m WHERE m.member = r.oid)
  FROM pg_catalog.pg_roles r WHERE rolname = {role}
""")

Grant = tuple[str, str, str]
"""Kind of an object, its name, and the privilege on it."""


@asynccontextmanager
async def administrator(
    server: DatabaseServer, database: str = "postgres"
) -> AsyncIterator[psycopg.AsyncConnection[tuple[object, ...]]]:
    """Open a session of the administrator, in autocommit."""
    connection = await psycopg.AsyncConnection.connect(
        host=server.host,
        port=server.port,
        user=server.username,
        password=server.password,
        dbname=database,
        autocommit=True,
        connect_timeout=5,
    )
    async with connection:
        yield connection


async def prepare(server: DatabaseServer, database: str) -> None:
    """Create the platform team's database, with a table of orders."""
    async with administrator(server) as connection:
        await connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(database)))
        await connection.execute(
            # By default PostgreSQL lets every role connect to a new database, so that a grant of
            # CONNECT would prove nothing.
            sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(sql.Identifier(database))
        )
    async with administrator(server, database) as connection:
        await connection.execute(_TABLES)


async def introduce(server: DatabaseServer, admin: Client) -> None:
    """Add a server to a cluster as PostgresServer ``main``; the operator need not run yet.

    Creates or replaces the CRDs, the Secret ``main-admin`` in the operator's namespace and the
    PostgresServer.

    Raises:
        ClientError: the cluster refuses one of them.
    """
    await install_crds(admin)
    body: JSON = {"apiVersion": "v1", "kind": "Namespace"}
    await admin.apply(NAMESPACES, body | {"metadata": {"name": DEFAULT_NAMESPACE}})
    secret = objects.server_secret(DEFAULT_NAMESPACE, server.username, server.password)
    await admin.apply(SECRETS, secret)
    # It is a person's own server: no database in it has to be protected from them.
    profile = objects.server(server.host, server.port, databases=["*"])
    await admin.apply(POSTGRESSERVERS, profile)


async def role_exists(server: DatabaseServer, role: str) -> bool:
    """Whether the server knows the role at all."""
    async with administrator(server) as connection:
        cursor = await connection.execute(
            "SELECT FROM pg_catalog.pg_roles WHERE rolname = %s", (role,)
        )
        return await cursor.fetchone() is not None


async def is_plain_login(server: DatabaseServer, role: str) -> bool:
    """Whether the role may log in, without any attribute or membership."""
    async with administrator(server) as connection:
        cursor = await connection.execute(_ATTRIBUTES.format(role=sql.Literal(role)))
        row = await cursor.fetchone()
        return bool(row and row[0])


async def grants_of(server: DatabaseServer, database: str, role: str) -> set[Grant]:
    """Return every privilege that was granted to the role itself, seen from one database."""
    async with administrator(server, database) as connection:
        cursor = await connection.execute(_GRANTS.format(role=sql.Literal(role)))
        return {(str(kind), str(name), str(what)) async for kind, name, what in cursor}
