from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import psycopg
from psycopg import sql
from tests.support.servers import OPERATOR

from fairlead.api.postgresaccess import CleanupPolicy, Grant, Privilege
from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.postgres.database.connections.endpoint import Endpoint
from fairlead.postgres.database.connections.sessions import Sessions
from fairlead.postgres.database.plans.plan import Synced, WantedState
from fairlead.postgres.database.plans.snapshot import RoleClaim
from fairlead.postgres.database.reading.verifiers import Verifiers
from fairlead.postgres.database.work.cleanup import cleanup as cleanup_role
from fairlead.postgres.database.work.sync import sync as sync_all
from fairlead.postgres.errors import AccessError
from fairlead.postgres.options import PostgresOptions


PASSWORD = "correct horse battery staple"


DROP_UNMANAGED = PostgresOptions(
    unmanaged_users="Drop", excluded_users=("reporting",), excluded_user_patterns=("backup_*",)
)
"""Options by which logins that nothing speaks for are dropped."""


def claim(name: str = "access", namespace: str = "team", uid: str = "u1") -> RoleClaim:
    return RoleClaim(installation="here", namespace=namespace, name=name, uid=uid)


def grant(database: str, *privileges: str, schema: str = "public") -> Grant:
    return Grant(
        database=database, schema=schema, privileges=cast("list[Privilege]", list(privileges))
    )


def wanted(
    username: str, *grants: Grant, password: str = PASSWORD, claimed: RoleClaim | None = None
) -> WantedState:
    return WantedState(
        username=username, password=password, claim=claimed or claim(), grants=tuple(grants)
    )


def endpoint_of(server: EmbeddedPostgres, username: str = "", password: str = "") -> Endpoint:
    """How an administrator reaches the server; the superuser, unless told otherwise."""
    return Endpoint(
        host=server.host,
        port=server.port,
        username=username or server.username,
        password=password if username else server.password,
        ssl_mode="disable",
    )


class Admin:
    """An administrator with its sessions, and what it knows of passwords."""

    def __init__(self, server: EmbeddedPostgres, *, superuser: bool) -> None:
        self.server = server
        self.superuser = superuser
        who = () if superuser else (OPERATOR, OPERATOR)
        self.sessions = Sessions(endpoint_of(server, *who))
        self.verifiers = Verifiers()

    @property
    def version(self) -> int:
        return self.server.version


async def sync(endpoint: Endpoint, *accesses: WantedState) -> Synced:
    """Bring accesses into a server by sessions of their own; the first one's outcome.

    Raises:
        AccessError: the first one failed.
    """
    sessions = Sessions(endpoint)
    try:
        found = await sync_all(sessions, accesses, Verifiers())
    finally:
        await sessions.close()
    outcome = found[accesses[0].username]
    if isinstance(outcome, AccessError):
        raise outcome
    return outcome


async def cleanup(
    endpoint: Endpoint,
    username: str,
    claimed: RoleClaim,
    policy: CleanupPolicy,
    *,
    orphan_to: str = "",
) -> bool:
    """Remove a role by sessions of its own."""
    sessions = Sessions(endpoint)
    try:
        return await cleanup_role(sessions, username, claimed, policy, orphan_to=orphan_to)
    finally:
        await sessions.close()


async def run(postgres: EmbeddedPostgres, database: str, *statements: str, **names: str) -> None:
    """Statements of the superuser in a database; ``{name}`` stands for a quoted identifier."""
    identifiers = {key: sql.Identifier(value) for key, value in names.items()}
    async with await psycopg.AsyncConnection.connect(
        postgres.dsn(database), autocommit=True
    ) as connection:
        for statement in statements:
            await connection.execute(sql.SQL(cast("Any", statement)).format(**identifiers))


async def fetch(
    postgres: EmbeddedPostgres, database: str, query: str, *parameters: object
) -> list[tuple[Any, ...]]:
    async with await psycopg.AsyncConnection.connect(
        postgres.dsn(database),
        autocommit=True,
        options="-c search_path=pg_catalog,public -c role=none -c statement_timeout=0",
    ) as connection:
        cursor = await connection.execute(cast("Any", query), parameters or None)
        return await cursor.fetchall()


async def sweep(server: EmbeddedPostgres) -> None:
    """Remove all databases, and all roles but the common administrator that all tests share."""
    async with await psycopg.AsyncConnection.connect(server.dsn(), autocommit=True) as connection:
        cursor = await connection.execute("SELECT gid FROM pg_prepared_xacts")
        for (gid,) in await cursor.fetchall():
            await connection.execute(sql.SQL("ROLLBACK PREPARED {}").format(sql.Literal(gid)))
        # They keep their database from being dropped.
        cursor = await connection.execute(
            "SELECT datname, subname FROM pg_subscription JOIN pg_database d ON d.oid = subdbid"
        )
        for database, name in await cursor.fetchall():
            unslotted = "ALTER SUBSCRIPTION {s} SET (slot_name = NONE)"
            drop_it = "DROP SUBSCRIPTION {s}"
            await run(
                server, database, "ALTER SUBSCRIPTION {s} DISABLE", unslotted, drop_it, s=name
            )
        cursor = await connection.execute(
            "SELECT datname FROM pg_database WHERE NOT datistemplate AND datname <> 'postgres'"
        )
        for (name,) in await cursor.fetchall():
            drop = sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name))
            await connection.execute(drop)
        cursor = await connection.execute(
            "SELECT rolname FROM pg_roles WHERE oid >= 16384 AND rolname <> ALL (%s)",
            [[OPERATOR]],
        )
        names = [sql.Identifier(name) for (name,) in await cursor.fetchall()]
        for name in names:
            await connection.execute(sql.SQL("DROP OWNED BY {} CASCADE").format(name))
        for name in names:
            await connection.execute(sql.SQL("DROP ROLE {}").format(name))


async def login(
    postgres: EmbeddedPostgres, username: str, password: str, database: str = "postgres"
) -> psycopg.AsyncConnection[tuple[Any, ...]]:
    return await psycopg.AsyncConnection.connect(
        host=postgres.host,
        port=postgres.port,
        user=username,
        password=password,
        dbname=database,
        autocommit=True,
    )


async def can_login(postgres: EmbeddedPostgres, username: str, password: str) -> bool:
    try:
        connection = await login(postgres, username, password)
    except psycopg.OperationalError:
        return False
    await connection.close()
    return True


async def roles(postgres: EmbeddedPostgres) -> list[tuple[Any, ...]]:
    """Every role with the version of its row: equal lists prove that nothing was written."""
    return await fetch(
        postgres,
        "postgres",
        "SELECT rolname::text, xmin::text, ctid::text FROM pg_authid ORDER BY 1",
    )


async def privileges(
    postgres: EmbeddedPostgres, database: str, username: str
) -> set[tuple[str, str]]:
    """The direct privileges of a role: object and privilege."""
    rows: Sequence[tuple[Any, ...]] = await fetch(
        postgres,
        database,
        """
        SELECT o.name, a.privilege_type FROM (
          SELECT 'database ' || datname AS name, datacl AS acl FROM pg_database
          UNION ALL SELECT 'schema ' || nspname, nspacl FROM pg_namespace
          UNION ALL SELECT relname, relacl FROM pg_class
          UNION ALL SELECT proname || '()', proacl FROM pg_proc
        ) o, aclexplode(o.acl) a
        WHERE a.grantee = (SELECT oid FROM pg_roles WHERE rolname = %s)
        """,
        username,
    )
    return {(name, privilege) for name, privilege in rows}
