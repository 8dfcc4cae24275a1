"""Sessions of the administrator whose settings no owner of a database can change.

The owner of a database may set search_path, role or timeouts for everyone who connects; options
given at the start of a session win over those
(https://www.postgresql.org/docs/current/config-setting.html). Every statement goes by the extended
query protocol, which takes one statement alone.
"""

from __future__ import annotations

import asyncio
import os
import socket
import tempfile
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, TypeVar

import psycopg
from psycopg import sql
from psycopg.abc import PQGen

from fairlead.postgres.database.endpoint import Endpoint
from fairlead.postgres.database.failures import explain_connect
from fairlead.postgres.errors import AccessError


_OPTIONS = {
    "search_path": "pg_catalog,pg_temp",
    "role": "none",
    "statement_timeout": "60s",
    "lock_timeout": "5s",
    "idle_in_transaction_session_timeout": "60s",
    "default_transaction_read_only": "off",
    "default_transaction_isolation": "read\\ committed",
    "row_security": "on",
    "standard_conforming_strings": "on",
    "client_min_messages": "warning",
    # Nobody knows how many rows there are in what was sent: a loop in a loop is the worst guess.
    "enable_nestloop": "off",
}

_CONNECT_TIMEOUT_SECONDS = 10
"""That the server may take to let the administrator in, for each address of its host."""
_LOGIN_SECONDS = 40.0
"""That all addresses of a host may take, with the name server that is asked for them."""

ANSWER_SECONDS = 65.0
"""That any answer may take on our side; a server that works ends it before, by its own limit."""

_LOCK = sql.SQL(
    "SELECT pg_catalog.pg_advisory_xact_lock("
    "pg_catalog.hashtextextended('access.k8s.delta10.nl', 0))"
)
"""The same for all installations, so that they exclude one another."""

_QUIET = ("log_statement = 'none'", "log_min_error_statement = 'panic'")

Row = tuple[Any, ...]
T = TypeVar("T")

Statement = sql.SQL | sql.Composed


class _Connection(psycopg.AsyncConnection[Row]):
    """A connection whose server may not keep us waiting.

    A server that hangs, or whoever stands in for one, heeds no statement_timeout.
    """

    _late = False

    async def wait(
        self,
        gen: PQGen[T],
        interval: float = 0.1,
        timeout: float | None = None,  # noqa: ASYNC109  psycopg's own
    ) -> T:
        """Wait for an answer, be it that to COMMIT.

        Raises:
            QueryCanceled: it did not come in time; the connection is broken off.
        """
        late = asyncio.get_running_loop().call_later(ANSWER_SECONDS, self._break_off)
        try:
            return await super().wait(gen, interval, timeout)
        except psycopg.OperationalError:
            if self._late:
                raise psycopg.errors.QueryCanceled("there was no answer in time") from None
            raise
        finally:
            late.cancel()

    def _break_off(self) -> None:
        """End the connection as its server would, without asking that for anything."""
        self._late = True
        with (
            suppress(OSError, psycopg.Error),
            socket.socket(fileno=os.dup(self.pgconn.socket)) as own,
        ):
            own.shutdown(socket.SHUT_RDWR)


class Session:
    """One connection in autocommit; :meth:`transaction` makes a locked transaction."""

    def __init__(self, connection: psycopg.AsyncConnection[Row]) -> None:
        self._connection = connection

    @property
    def server_version(self) -> int:
        """``server_version_num``."""
        return self._connection.info.server_version

    async def rows(
        self, query: Statement, parameters: Mapping[str, object] | None = None
    ) -> list[Row]:
        """The rows of one statement."""
        async with self._connection.cursor(binary=True) as cursor:
            await cursor.execute(query, parameters, binary=True)
            return await cursor.fetchall()

    async def run(self, statement: Statement) -> None:
        """One statement that gives no rows."""
        async with self._connection.cursor(binary=True) as cursor:
            await cursor.execute(statement, binary=True)

    async def run_all(self, statements: Iterable[Statement]) -> None:
        """Statements that give no rows, in one round trip; the first that fails ends it.

        Inside a transaction nothing of it can go on then but a rollback, of a savepoint at least.
        """
        async with self._connection.pipeline():
            for statement in statements:
                await self.run(statement)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """A transaction that excludes all other writers of ours in this database."""
        async with self._connection.transaction():
            await self.rows(_LOCK)
            yield

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        """A part of a transaction that may fail alone."""
        async with self._connection.transaction():
            yield

    async def hush(self) -> None:
        """Keep the statements of this transaction out of the server's log; needs a superuser."""
        for setting in _QUIET:
            await self.run(sql.SQL(f"SET LOCAL {setting}"))


@asynccontextmanager
async def connect(endpoint: Endpoint, database: str) -> AsyncIterator[Session]:
    """A session in one database, closed at the end.

    Raises:
        AccessError: ConnectionFailed, AuthenticationFailed, TLSFailed or DatabaseNotFound.
    """
    connection = await _open(endpoint, database)
    async with connection:
        yield Session(connection)


async def logs_in(endpoint: Endpoint, database: str, username: str, password: str) -> bool:
    """Whether the server takes this password for this role.

    Raises:
        AccessError: the server could not be asked.
    """
    probe = Endpoint(
        host=endpoint.host,
        port=endpoint.port,
        username=username,
        password=password,
        ssl_mode=endpoint.ssl_mode,
        ca=endpoint.ca,
    )
    try:
        connection = await _open(probe, database)
    except AccessError as error:
        if error.reason == "AuthenticationFailed":
            return False
        if error.reason in {"DatabaseNotFound", "InsufficientPrivilege"}:
            return True
        raise
    await connection.close()
    return True


async def _open(endpoint: Endpoint, database: str) -> _Connection:
    with _root_certificate(endpoint) as root_certificate:
        try:
            async with asyncio.timeout(_LOGIN_SECONDS):
                connection = await _Connection.connect(
                    host=endpoint.host,
                    port=endpoint.port,
                    dbname=database,
                    user=endpoint.username,
                    password=endpoint.password,
                    sslmode=endpoint.ssl_mode,
                    sslrootcert=root_certificate,
                    sslcert="",
                    sslkey="",
                    passfile="/dev/null",
                    gssencmode="disable",
                    # A server that asks for the password in clear is an impostor, or badly set up.
                    require_auth="scram-sha-256,md5",
                    # With several hosts, the one that is the primary now.
                    target_session_attrs="read-write",
                    connect_timeout=_CONNECT_TIMEOUT_SECONDS,
                    application_name="fairlead-postgres",
                    client_encoding="UTF8",
                    options=" ".join(f"-c {name}={value}" for name, value in _OPTIONS.items()),
                    autocommit=True,
                    # Poolers between us and the server lose prepared statements.
                    prepare_threshold=None,
                )
        except (psycopg.Error, OSError, UnicodeError, ValueError) as error:
            raise explain_connect(error, str(endpoint), database, endpoint.username) from None
        return connection


@contextmanager
def _root_certificate(endpoint: Endpoint) -> Iterator[str | None]:
    """A path for libpq, which reads certificates from files alone.

    The file is in memory where there is such a thing: a container's disk may be read-only.
    """
    if not endpoint.ca:
        yield "system" if endpoint.ssl_mode == "verify-full" else None
    elif hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("ca.crt"), "w") as file:
            file.write(endpoint.ca)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
    else:
        with tempfile.NamedTemporaryFile("w", suffix=".crt") as file_:
            file_.write(endpoint.ca)
            file_.flush()
            yield file_.name
