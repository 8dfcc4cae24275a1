"""A team that asks for accesses: its namespace, its database, and a server that it may use.

All of it speaks through the Kubernetes API and plain logins alone.
"""

from __future__ import annotations

import base64
import contextlib
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple, cast

import psycopg
from psycopg import sql
from tests.support.postgres import access, credentials, server_profile
from tests.support.waiting import condition, eventually, failed_with, is_ready, when

from fairlead.api.meta import JSON
from fairlead.api.postgresaccess import ABANDON_ANNOTATION, POSTGRESACCESSES
from fairlead.api.postgresaccess.server import POSTGRESSERVERS
from fairlead.api.resource import CONFIGMAPS, EVENTS, NAMESPACES, SECRETS
from fairlead.client import Client, NotFound
from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.postgres.database.plans.snapshot import GIVEN_UP
from fairlead.postgres.options import DEFAULT_NAMESPACE


FORMER_GROUP = "fairlead_group_former"
"""Group in the status of an access that a former version has made."""


class Administrator(NamedTuple):
    """Who the operator is on a server, and whether that is a superuser."""

    username: str
    password: str
    superuser: bool


Connection = psycopg.AsyncConnection[tuple[Any, ...]]


async def say_group(client: Client, name: str, namespace: str) -> None:
    """Have the status of an access say that a group has its grants."""
    status = {"status": {"group": FORMER_GROUP}}
    await client.merge_patch(POSTGRESACCESSES, name, namespace, status, subresource="status")


async def leave_to_group(client: Client, name: str, namespace: str) -> None:
    """Have an access that was made suspended go on as one whose grants a group has."""
    await say_group(client, name, namespace)
    await client.merge_patch(POSTGRESACCESSES, name, namespace, {"spec": {"suspend": False}})


class Team:
    """One test's own names, and what it does with them."""

    def __init__(
        self, client: Client, postgres: EmbeddedPostgres, administrator: Administrator
    ) -> None:
        self.client = client
        self.postgres = postgres
        self.administrator = administrator
        self.id = uuid.uuid4().hex[:8]
        self.namespace = f"team-{self.id}"
        self.server = f"main-{self.id}"
        self.database = f"app_{self.id}"
        self._databases: list[str] = []
        self._namespaces: list[str] = []

    @property
    def superuser(self) -> bool:
        return self.administrator.superuser

    def name(self, suffix: str = "app") -> str:
        return f"{suffix}-{self.id}"

    # What the platform's team makes.

    async def arrive(self) -> None:
        """Make namespace, database and server profile."""
        await self.create_namespace(self.namespace)
        await self.offer(self.server)
        await self.create_database(self.database)

    async def leave(self, *, server: bool = True) -> None:
        """Give up what is left, and remove the databases; without the ``server`` nothing of it."""
        for namespace in self._namespaces:
            for item in (await self.client.list(POSTGRESACCESSES, namespace)).items:
                await self.abandon(item.meta.name, namespace=namespace)
                if not item.meta.deleting:
                    await self.delete(item.meta.name, namespace=namespace)
                await self.gone(item.meta.name, namespace=namespace)
        await self.client.delete(POSTGRESSERVERS, self.server)
        if not server:
            return
        for name in self._databases:
            await self.sql("DROP DATABASE IF EXISTS {d} WITH (FORCE)", database="postgres", d=name)
        await eventually(self._is_settled)

    async def _is_settled(self) -> bool:
        """Take what this team has left out of the operator's reach.

        It goes on looking at servers that nobody names any more, for a while, and would write for
        this team while the next one counts what is written.
        """
        if (await self.client.list(POSTGRESACCESSES)).items:
            return True
        rows = await self.sql(_CLAIMED, database="postgres")
        for (role,) in rows:
            # The operator may be doing the same.
            with contextlib.suppress(psycopg.Error):
                await self.sql(_GIVE_UP, database="postgres", r=role)
        for record in (await self.client.list(CONFIGMAPS, DEFAULT_NAMESPACE)).items:
            if record.meta.name.startswith("given-up-"):
                with contextlib.suppress(NotFound):
                    await self.client.delete(CONFIGMAPS, record.meta.name, DEFAULT_NAMESPACE)
        return not rows

    async def create_namespace(self, name: str) -> None:
        body: JSON = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await self.client.create(NAMESPACES, body)
        self._namespaces.append(name)

    def forget(self, namespace: str) -> None:
        """It is gone already."""
        self._namespaces.remove(namespace)

    async def create_database(self, name: str, *, owner: str = "") -> str:
        self._databases.append(name)
        await self.sql(
            "CREATE DATABASE {d} OWNER {o} STRATEGY FILE_COPY",
            database="postgres",
            d=name,
            o=owner or self.administrator.username,
        )
        return name

    async def offer(self, name: str, **spec: object) -> None:
        """Have the operator know the server under a name."""
        secret = credentials(name, self.postgres)
        secret["stringData"] = {
            "username": self.administrator.username,
            "password": self.administrator.password,
        }
        await self.client.create(SECRETS, secret)
        profile = server_profile(
            name, self.postgres, **{"allowedMemberOf": ["heir-*", "readers-*"], **spec}
        )
        await self.client.create(POSTGRESSERVERS, profile)

    # What the team does.

    def grant(self, *privileges: str, database: str = "", schema: str = "public") -> JSON:
        return {
            "database": database or self.database,
            "schema": schema,
            "privileges": list(privileges),
        }

    def directly(self, **fields: object) -> JSON:
        """A connection that is written out."""
        return {
            "host": self.postgres.host,
            "port": self.postgres.port,
            "sslMode": "disable",
            "username": {"value": self.administrator.username},
            "password": {"value": self.administrator.password},
            **fields,
        }

    async def create(self, suffix: str = "app", *, namespace: str = "", **spec: object) -> str:
        name = self.name(suffix)
        there = namespace or self.namespace
        await self.client.create(POSTGRESACCESSES, access(name, there, self.server, **spec))
        return name

    async def create_shared(
        self, suffix: str = "app", *, namespace: str = "", **spec: object
    ) -> str:
        """An access whose grants a former version has left to a group."""
        name = await self.create(
            suffix, namespace=namespace, **{**spec, "groups": "Shared", "suspend": True}
        )
        await leave_to_group(self.client, name, namespace or self.namespace)
        return name

    async def patch(self, name: str, **spec: object) -> None:
        await self.client.merge_patch(POSTGRESACCESSES, name, self.namespace, {"spec": spec})

    async def abandon(self, name: str, *, namespace: str = "") -> None:
        annotation = {"metadata": {"annotations": {ABANDON_ANNOTATION: "true"}}}
        await self.client.merge_patch(
            POSTGRESACCESSES, name, namespace or self.namespace, annotation
        )

    async def delete(self, name: str, *, namespace: str = "") -> None:
        await self.client.delete(POSTGRESACCESSES, name, namespace or self.namespace)

    async def edit_secret(self, name: str, **values: str) -> None:
        await self.client.merge_patch(
            SECRETS, f"{name}-login", self.namespace, {"stringData": values}
        )

    # What it waits for.

    async def wait(self, name: str, until: Callable[[JSON], bool], *, namespace: str = "") -> JSON:
        there = namespace or self.namespace
        return await when(self.client, POSTGRESACCESSES, name, there, until=until)

    async def ready(self, name: str, *, namespace: str = "") -> JSON:
        return await self.wait(name, is_ready, namespace=namespace)

    async def fails(self, name: str, text: str, *, namespace: str = "") -> str:
        """The message of a Ready that is False, once it tells of this."""
        body = await self.wait(name, failed_with(text), namespace=namespace)
        message: str = condition(body, "Ready")["message"]
        return message

    async def gone(self, name: str, *, namespace: str = "") -> None:
        await self.wait(name, lambda body: not body, namespace=namespace)

    async def removed(self, name: str) -> None:
        """Delete it, and wait until neither object nor role are there."""
        await self.delete(name)
        await self.gone(name)
        assert not await self.role_exists(name)

    async def cycles(self, count: int = 3) -> None:
        """Have the operator look at the server so often at least.

        That is, until it has sent so many statements as it would, were it as talkative as allowed.
        """
        accesses = 0
        for namespace in self._namespaces:
            accesses += len((await self.client.list(POSTGRESACCESSES, namespace)).items)
        begun = self.postgres.logged()
        enough = count * _STATEMENTS_OF_A_CYCLE * accesses

        async def looked() -> bool:
            await self.poke()
            return self.postgres.log(begun).count(f"\n{OPERATOR}|") >= enough

        await eventually(looked)

    async def poke(self) -> None:
        """Have the operator look at the server now, and not when its time has come."""
        annotations = {"poked": uuid.uuid4().hex}
        body = {"metadata": {"annotations": annotations}}
        await self.client.merge_patch(POSTGRESSERVERS, self.server, "", body)

    async def healed(self, holds: Callable[[], Awaitable[bool]]) -> None:
        """Wait until it holds, with an operator that looks at the server again and again."""

        async def looked() -> bool:
            if await holds():
                return True
            await self.poke()
            return False

        await eventually(looked)

    # What is there.

    async def secret(self, name: str, *, namespace: str = "") -> dict[str, str]:
        found = await self.client.get(SECRETS, f"{name}-login", namespace or self.namespace)
        data: dict[str, str] = found.to_dict()["data"]
        return {key: base64.b64decode(value).decode() for key, value in data.items()}

    async def secrets(self) -> list[str]:
        """The names of all Secrets but the tokens that older servers make for ServiceAccounts."""
        found = (await self.client.list(SECRETS, self.namespace)).items
        return [
            one.meta.name
            for one in found
            if one.to_dict().get("type") != "kubernetes.io/service-account-token"
        ]

    async def events(self, name: str) -> list[JSON]:
        found = [one.to_dict() for one in (await self.client.list(EVENTS, self.namespace)).items]
        return [one for one in found if one["involvedObject"]["name"] == name]

    async def sql(
        self, *statements: str, database: str = "", values: tuple[object, ...] = (), **names: str
    ) -> list[Any]:
        """Statements of the superuser; ``{name}`` is a quoted identifier; rows of the last."""
        identifiers = {key: sql.Identifier(value) for key, value in names.items()}
        rows: list[Any] = []
        async with await psycopg.AsyncConnection.connect(
            self.postgres.dsn(database or self.database),
            autocommit=True,
            options="-c role=none -c default_transaction_read_only=off -c statement_timeout=0"
            " -c search_path=public",
        ) as connection:
            for statement in statements:
                query = sql.SQL(cast("Any", statement)).format(**identifiers)
                cursor = await connection.execute(query, values or None)
                rows = await cursor.fetchall() if cursor.description else []
        return rows

    async def build(self, *statements: str, database: str = "") -> None:
        """Statements of the administrator, who owns the databases, as a migration runs them."""
        who = self.administrator
        async with await psycopg.AsyncConnection.connect(
            self.postgres.dsn(database or self.database, who.username, who.password),
            autocommit=True,
        ) as connection:
            for statement in statements:
                await connection.execute(cast("Any", statement))

    async def xid(self) -> int:
        """How many transactions have written anything so far, on the whole server."""
        ((number,),) = await self.sql(
            "SELECT pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())::text::int8",
            database="postgres",
        )
        return int(number)

    @contextlib.asynccontextmanager
    async def unwritten(self) -> AsyncIterator[None]:
        """Nobody writes anything on the server meanwhile."""
        before, begun = await self.xid(), self.postgres.logged()
        yield
        after = await self.xid()
        lines = [one.split("LOG:", 1)[-1] for one in self.postgres.log(begun).splitlines()]
        assert after == before, [
            one for one in lines if not one.split(": ")[-1].startswith(_READS)
        ]

    async def stands_still(self, cycles: int = 3) -> None:
        """Nobody writes anything on the server any more, however often the operator looks."""
        await self.cycles(1)
        async with self.unwritten():
            await self.cycles(cycles)

    async def role_exists(self, name: str) -> bool:
        query = "SELECT 1 FROM pg_catalog.pg_roles WHERE rolname = %s"
        return bool(await self.sql(query, values=(name,), database="postgres"))

    async def roles(self) -> list[Any]:
        """All roles with the version of their rows: equal lists prove that nothing was written."""
        query = "SELECT rolname::text, xmin::text, ctid::text FROM pg_catalog.pg_authid ORDER BY 1"
        return await self.sql(query, database="postgres")

    async def privileges(self, role: str, database: str = "") -> set[tuple[str, str]]:
        """What a role has itself, in one database and on it: object and privilege."""
        rows = await self.sql(_PRIVILEGES, database=database, values=(role,))
        return {(name, privilege) for name, privilege in rows}

    @contextlib.asynccontextmanager
    async def login(
        self, name: str, *, password: str = "", database: str = ""
    ) -> AsyncIterator[Connection]:
        """A session of an access' own, with the password of its Secret."""
        secret = await self.secret(name)
        async with await psycopg.AsyncConnection.connect(
            host=self.postgres.host,
            port=self.postgres.port,
            user=secret["username"],
            password=password or secret["password"],
            dbname=database or self.database,
            autocommit=True,
        ) as connection:
            yield connection

    async def can_login(self, username: str, password: str, database: str = "postgres") -> bool:
        try:
            connection = await psycopg.AsyncConnection.connect(
                host=self.postgres.host,
                port=self.postgres.port,
                user=username,
                password=password,
                dbname=database,
            )
        except psycopg.OperationalError:
            return False
        await connection.close()
        return True

    async def logs_in(self, username: str, password: str, expected: bool = True) -> None:
        """Wait until it does, or until it does no more."""

        async def as_expected() -> bool:
            return await self.can_login(username, password) is expected

        await eventually(as_expected)

    @contextlib.asynccontextmanager
    async def locked(self, table: str, mode: str, database: str = "") -> AsyncIterator[None]:
        """Hold a lock that others come to wait for; the name is SQL."""
        async with await psycopg.AsyncConnection.connect(
            self.postgres.dsn(database or self.database)
        ) as connection:
            await connection.execute(cast("Any", f"LOCK TABLE {table} IN {mode} MODE"))
            yield


OPERATOR = "fairlead-postgres"
_STATEMENTS_OF_A_CYCLE = 9

_READS = ("SELECT", "WITH", "BEGIN", "COMMIT", "SET", "RELEASE")

_CLAIMED = """
SELECT r.rolname::text
  FROM pg_catalog.pg_roles r
  JOIN pg_catalog.pg_shdescription d ON d.objoid = r.oid
 WHERE d.classoid = 'pg_catalog.pg_authid'::pg_catalog.regclass
   AND d.description LIKE 'managed by Fairlead%{{%'
"""

_GIVE_UP = f"COMMENT ON ROLE {{r}} IS '{GIVEN_UP}'"

_PRIVILEGES = """
SELECT o.name, a.privilege_type FROM (
  SELECT 'database ' || datname AS name, datacl AS acl FROM pg_catalog.pg_database
  UNION ALL SELECT 'schema ' || nspname, nspacl FROM pg_catalog.pg_namespace
  UNION ALL SELECT relname, relacl FROM pg_catalog.pg_class
  UNION ALL SELECT proname || '()', proacl FROM pg_catalog.pg_proc
) o, pg_catalog.aclexplode(o.acl) a
WHERE a.grantee = (SELECT oid FROM pg_catalog.pg_roles WHERE rolname = %s)
"""
