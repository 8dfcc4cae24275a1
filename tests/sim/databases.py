"""Real PostgreSQL servers for simulations: started once for many runs, and swept before each.

Programs know a server as ``NAME.example``, port 5432, with the same password in every run; where
it listens on this machine they are never told, so that two runs say the same on any server.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import psycopg
from psycopg import sql
from tests.sim import entropy
from tests.support.servers import quick

from fairlead.demo.postgres.server import EmbeddedPostgres


NAMES = ("one", "two")
"""The servers' names."""
DATABASE = "shop"
SCHEMA = "sales"
TABLES = ("items", "orders")
ADMINS = {"one": "postgres", "two": "operator"}
"""Who the operator logs in as: a superuser here, a role with CREATEROLE there."""
ADMIN_PASSWORD = "the-administrators-password"
OWNER = "shop_owner"
STRANGERS = ("reporting", "billing")
"""Roles that nobody asks for, with grants of their own."""
FIXED = frozenset({"postgres", "operator", OWNER, *STRANGERS})
"""Roles that stay from one run to the next."""
SECONDS = 20.0
"""Real seconds within which a server has noted the end of a connection, or recovers."""

_SETTINGS = {
    "autovacuum": "off",
    "deadlock_timeout": "1h",
    "max_connections": "60",
    "max_wal_size": "96MB",
    # A crash of the server must lose nothing that it has confirmed.
    "synchronous_commit": "on",
}
_started: dict[str, EmbeddedPostgres] = {}

Row = tuple[Any, ...]


def prepare() -> None:
    """Start the servers, for all runs that are copies of this process."""
    for name in NAMES:
        server = EmbeddedPostgres(version=18, settings=_SETTINGS)
        server.password = ADMIN_PASSWORD
        with asyncio.Runner() as runner:
            runner.run(server.__aenter__())
        _started[name] = server
        _furnish(server)


def release() -> None:
    """Stop them; they also end when this process does."""
    for server in _started.values():
        with asyncio.Runner() as runner:
            runner.run(server.__aexit__(None, None, None))
    _started.clear()


def _furnish(server: EmbeddedPostgres) -> None:
    verifier = quick(ADMIN_PASSWORD)
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        for statement in (
            f"ALTER ROLE postgres PASSWORD '{verifier}'",
            f"CREATE ROLE operator LOGIN CREATEROLE PASSWORD '{verifier}'",
            f"CREATE ROLE {OWNER} NOLOGIN",
            f"GRANT {OWNER} TO operator WITH ADMIN TRUE, INHERIT TRUE, SET TRUE",
            "GRANT SELECT ON pg_catalog.pg_authid TO operator",
            *(f"CREATE ROLE {name} LOGIN PASSWORD '{verifier}'" for name in STRANGERS),
            f"GRANT {STRANGERS[0]} TO {STRANGERS[1]}",
            f"CREATE DATABASE {DATABASE} OWNER {OWNER}",
        ):
            connection.execute(statement.encode())


class Activity(NamedTuple):
    """A server's process: its number, its role's name, and whether it waits for a lock."""

    pid: int
    role: str
    waits: bool


class Cluster:
    """One server as a run has it, asked by its superuser beside all that is simulated."""

    def __init__(self, name: str, server: EmbeddedPostgres) -> None:
        self.name = name
        self.host = f"{name}.example"
        self.server = server
        self.refusing = ""
        """Why it lets nobody in, in libpq's words; "" when it does."""
        self.slow = 0.0
        """Simulated seconds that each answer takes more."""
        self._connections: dict[str, psycopg.Connection[Row]] = {}
        self._takes: dict[tuple[object, ...], bool] = {}

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        return self.server.host, self.server.port

    def ask(self, query: str, *parameters: object, database: str = "postgres") -> list[Row]:
        """The rows of a statement of the superuser's, at once."""
        connection = self._connections.get(database)
        if connection is None or connection.closed:
            connection = psycopg.connect(self.server.dsn(database), autocommit=True)
            self._connections[database] = connection
        cursor = connection.execute(query.encode(), parameters or None)
        return cursor.fetchall() if cursor.description else []

    def log_in(self, role: str, password: str, database: str) -> psycopg.Connection[Row]:
        """A session of somebody else's, in which locks are not waited for.

        Raises:
            psycopg.OperationalError: it is refused.
        """
        return psycopg.connect(
            host=self.server.host,
            port=self.server.port,
            user=role,
            password=password,
            dbname=database,
            autocommit=True,
            options="-c lock_timeout=20ms -c statement_timeout=0",
        )

    def takes(self, role: str, password: str, database: str = DATABASE) -> bool:
        """Whether a login with this password goes well now.

        As long as nothing of the role changes it goes as it went before.
        """
        rows = self.ask(
            "SELECT rolpassword, rolcanlogin, rolconnlimit FROM pg_authid WHERE rolname = %s", role
        )
        known = (role, password, database, *rows)
        if known not in self._takes:
            self._takes[known] = self._takes_now(role, password, database)
        return self._takes[known]

    def _takes_now(self, role: str, password: str, database: str) -> bool:
        try:
            connection = self.log_in(role, password, database)
        except psycopg.OperationalError:
            return False
        port = _port(connection)
        connection.close()
        self.await_end(port)
        return True

    def of_port(self, port: int) -> Activity | None:
        """The process that serves a local port."""
        rows = self.ask(
            "SELECT pid, coalesce(usename, '')::text, cardinality(pg_blocking_pids(pid)) > 0"
            " FROM pg_stat_activity WHERE client_port = %s",
            port,
        )
        return Activity(*rows[0]) if rows else None

    def cancel(self, port: int) -> None:
        """Cancel what the process that serves a local port waits for; it has noted it then."""
        self.ask(
            "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE client_port = %s", port
        )
        end = entropy.real_monotonic() + SECONDS
        while (found := self.of_port(port)) is not None and found.waits:
            if entropy.real_monotonic() > end:
                raise TimeoutError(f"{self.name} does not cancel the session at port {port}")
            time.sleep(0.0003)

    def await_end(self, port: int) -> None:
        """Wait until nobody serves a local port any more; what waits for a lock is ended."""
        end = entropy.real_monotonic() + SECONDS
        while (found := self.of_port(port)) is not None:
            if found.waits:
                self.ask("SELECT pg_terminate_backend(%s, 5000)", found.pid)
            if entropy.real_monotonic() > end:
                raise TimeoutError(f"{self.name} does not end the session at port {port}")
            time.sleep(0.0003)

    def await_ends_of(self, pids: Sequence[int]) -> None:
        """Wait until these processes have gone that somebody has ended."""
        end = entropy.real_monotonic() + SECONDS
        while self.ask("SELECT 1 FROM pg_stat_activity WHERE pid = ANY (%s)", list(pids)):
            if entropy.real_monotonic() > end:
                raise TimeoutError(f"{self.name} does not end the sessions {pids}")
            time.sleep(0.0003)

    def crash(self) -> None:
        """Have the server lose a process, upon which it ends all sessions and recovers."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
        with psycopg.connect(self.server.dsn(), autocommit=True) as connection:
            os.kill(connection.info.backend_pid, signal.SIGKILL)
            with suppress(psycopg.OperationalError):
                while True:
                    connection.execute("SELECT 1")
                    time.sleep(0.001)
        end = entropy.real_monotonic() + SECONDS
        while entropy.real_monotonic() < end:
            try:
                self.ask("SELECT 1")
            except psycopg.OperationalError:
                time.sleep(0.005)
            else:
                return
        raise TimeoutError(f"{self.name} does not recover")

    # --- between runs

    def sweep(self) -> None:
        """Take away what former runs have left, and make the tables anew."""
        self.ask(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
        names = [name for name in self.roles() if name not in FIXED]
        for database in (DATABASE, "postgres"):
            for name in names:
                owned = sql.SQL("DROP OWNED BY {} CASCADE").format(sql.Identifier(name))
                self.ask(owned.as_string(), database=database)
        for name in names:
            self.ask(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)).as_string())
        for statement in (
            f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE",
            f"CREATE SCHEMA {SCHEMA} AUTHORIZATION {OWNER}",
            *(f"CREATE TABLE {SCHEMA}.{name} (id int)" for name in TABLES),
            *(f"ALTER TABLE {SCHEMA}.{name} OWNER TO {OWNER}" for name in TABLES),
            f"GRANT USAGE ON SCHEMA {SCHEMA} TO {', '.join(STRANGERS)}",
            f"GRANT SELECT ON {SCHEMA}.items TO {STRANGERS[0]} WITH GRANT OPTION",
            f"GRANT INSERT ON {SCHEMA}.orders TO {STRANGERS[1]}",
        ):
            self.ask(statement, database=DATABASE)

    def roles(self) -> list[str]:
        """All roles but PostgreSQL's own."""
        rows = self.ask("SELECT rolname::text FROM pg_roles WHERE oid >= 16384 ORDER BY 1")
        return [name for (name,) in rows] + ["postgres"]

    def comment(self, role: str) -> str | None:
        """A role's comment, None where there is no such role."""
        rows = self.ask(
            "SELECT coalesce(shobj_description(oid, 'pg_authid'), '') FROM pg_roles"
            " WHERE rolname = %s",
            role,
        )
        return rows[0][0] if rows else None

    def sessions(self) -> list[str]:
        """Whose sessions are open, ours excepted."""
        ours = [connection.info.backend_pid for connection in self._connections.values()]
        rows = self.ask(
            "SELECT coalesce(usename, '')::text FROM pg_stat_activity"
            " WHERE backend_type = 'client backend' AND pid <> ALL (%s) ORDER BY 1",
            ours,
        )
        return [name for (name,) in rows]

    def strangers(self) -> list[Row]:
        """All that the roles of others have and are."""
        roles = self.ask(
            "SELECT r.*, shobj_description(r.oid, 'pg_authid') FROM pg_authid r"
            " WHERE rolname = ANY (%s) ORDER BY rolname",
            [*STRANGERS, OWNER],
        )
        members = self.ask(
            "SELECT m.roleid::regrole::text, m.member::regrole::text, m.admin_option"
            " FROM pg_auth_members m JOIN pg_roles r ON r.oid = m.roleid"
            " JOIN pg_roles u ON u.oid = m.member"
            " WHERE r.rolname = ANY (%s) AND u.rolname = ANY (%s) ORDER BY 1, 2",
            [*FIXED],
            [*FIXED],
        )
        acls = self.ask(
            "SELECT c.oid::regclass::text, a.grantor::regrole::text, a.grantee::regrole::text,"
            " a.privilege_type, a.is_grantable"
            " FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a"
            " JOIN pg_roles g ON g.oid = a.grantor JOIN pg_roles r ON r.oid = a.grantee"
            " WHERE g.rolname = ANY (%s) AND r.rolname = ANY (%s) AND c.relkind = 'r'"
            " AND c.relnamespace = to_regnamespace(%s) ORDER BY 1, 2, 3, 4",
            [*FIXED],
            [*FIXED],
            SCHEMA,
            database=DATABASE,
        )
        return [*roles, *members, *acls]


def _port(connection: psycopg.Connection[Row]) -> int:
    with socket.socket(fileno=os.dup(connection.fileno())) as own:
        return int(own.getsockname()[1])


def clusters() -> dict[str, Cluster]:
    """The servers, as this run has them.

    Raises:
        RuntimeError: nobody has started them.
    """
    if not _started:
        raise RuntimeError("the servers were not started")
    return {name: Cluster(name, server) for name, server in _started.items()}
