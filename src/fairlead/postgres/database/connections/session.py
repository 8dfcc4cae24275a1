"""Sessions of the administrator whose settings no owner of a database can change.

``startup`` has what a session is started with. Every statement goes by the extended query
protocol, which takes one statement alone. A server may be slow, or hostile: how long an answer may
take, and how large it may be, is limited on our side.
"""

from __future__ import annotations

import asyncio
import os
import select
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, TypeVar, cast

import psycopg
from psycopg import sql
from psycopg.abc import PQGen, PQGenConn
from psycopg.pq.abc import PGconn

from fairlead.postgres.database.connections.endpoint import Endpoint
from fairlead.postgres.database.connections.failures import (
    AnswerTooLargeError,
    NotLetInError,
    explain_connect,
    pooled,
)
from fairlead.postgres.database.connections.login import at, log_in
from fairlead.postgres.database.connections.rounds import Place
from fairlead.postgres.database.connections.startup import (
    APPLICATION,
    NEWEST,
    forget_environment,
    older_version,
    start_options,
)
from fairlead.postgres.database.connections.tls import settings_of
from fairlead.postgres.errors import AccessError


_CONNECT_TIMEOUT_SECONDS = 10
"""That the server may take to let the administrator in, for each address of its host."""
_LOGIN_SECONDS = 40.0
"""That all addresses of a host may take, with the name server that is asked for them."""

_LOGINS = 4
"""Tries with the options of ever older versions; there are as many kinds of versions."""
_MAX_OLDER = 1000
"""Servers that are remembered as older ones."""
_older: dict[str, int] = {}
"""``server_version_num`` of servers that do not know all options yet, by address.

Only a login that fails tells so. Without this each new connection would begin with one.
"""

ANSWER_SECONDS = 65.0
"""That any answer may take on our side; a server that works ends it before, by its own limit."""
ANSWER_BYTES = 64 << 20
"""That one answer may have, whatever it consists of; about 100,000 accesses are known by that."""
ANSWER_ROWS = 1_000_000
"""That one answer may have."""
_LOGIN_BYTES = 1 << 20
"""That a server may say before a session has begun; it takes about one thousand."""
_RECEIVE_BYTES = 64 << 10
"""That the kernel keeps of what has come in."""
_BYTES_RECEIVED = slice(128, 136)
"""tcpi_bytes_received in Linux' struct tcp_info."""
_ROWS_AT_ONCE = 5_000
"""Rows that are decoded before somebody else may work."""


class Patience(NamedTuple):
    """How long a transaction waits for each lock, and for each of its statements; milliseconds."""

    lock: int
    statement: int = 60_000


BRIEF = Patience(20)
"""Of work for many: whoever a lock is held against is tried alone later."""
BRIEF_READING = Patience(20, 500)
"""Of what such work reads: one that has any amount of something would keep all others waiting."""
PATIENT = Patience(200)
"""Of work that nobody else waits for."""
_LIMIT = sql.SQL("""
SELECT pg_catalog.set_config('lock_timeout', %(lock)s::text, true),
       pg_catalog.set_config('statement_timeout', %(statement)s::text, true)
""")

_PARAMETERS_VERSION = 150000
"""Privileges on parameters came with PostgreSQL 15."""
_HUSHED = """
SELECT pg_catalog.set_config(p.name, p.value, true)
  FROM (VALUES ('log_statement', 'none'), ('log_min_error_statement', 'panic'),
               ('log_min_duration_statement', '-1'), ('pg_stat_statements.track', 'none'))
       AS p(name, value)
"""
_HUSH_14 = sql.SQL(_HUSHED + " WHERE pg_catalog.current_setting('is_superuser') = 'on'")
_HUSH = sql.SQL(_HUSHED + " WHERE pg_catalog.has_parameter_privilege(p.name, 'SET')")

Row = tuple[Any, ...]
T = TypeVar("T")

Statement = sql.SQL | sql.Composed
Check = Callable[[], None]


class _Connection(psycopg.AsyncConnection[Row]):
    """A connection whose server may not keep us waiting.

    A server that hangs, or whoever stands in for one, heeds no statement_timeout. It may as well
    talk without end: in rows, in messages, or in one message that is as long as all memory.
    """

    _late = False
    _beginning: ClassVar[dict[asyncio.Task[Any] | None, PQGenConn[_Connection]]] = {}
    """Logins that have begun, by their tasks."""

    def __init__(self, pgconn: PGconn) -> None:
        super().__init__(pgconn)
        # What is read at once grows with what the kernel keeps, and that is looked at afterwards.
        with socket.socket(fileno=os.dup(pgconn.socket)) as own:
            own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BYTES)

    @classmethod
    async def begin(cls, **settings: Any) -> _Connection:
        """Connect; a login that fails leaves no socket open.

        psycopg keeps the one of a login that takes too long in a cycle of references, so that it
        would stay until Python's collector comes by, and count at the server for as long.
        """
        try:
            return await cls.connect(**settings)
        finally:
            login = cls._beginning.pop(asyncio.current_task(), None)
            if login is not None:
                login.close()

    @classmethod
    def _connect_gen(cls, conninfo: str = "") -> PQGenConn[_Connection]:
        """What psycopg does, with a limit on what the server may say before it lets us in."""
        login = super()._connect_gen(conninfo)
        cls._beginning[asyncio.current_task()] = login
        try:
            number, wanted = next(login)
            while True:
                ready = yield number, wanted
                if ready and _received(number) > _LOGIN_BYTES:
                    raise AnswerTooLargeError
                number, wanted = login.send(ready)
        except StopIteration as end:
            return cast("_Connection", end.value)

    async def wait(
        self,
        gen: PQGen[T],
        interval: float = 0.1,
        timeout: float | None = None,  # noqa: ASYNC109  psycopg's own
    ) -> T:
        """Wait for an answer, be it that to COMMIT.

        Raises:
            QueryCanceled: it did not come in time; the connection is broken off.
            AnswerTooLargeError: it does not end; the connection is broken off.
        """
        late = asyncio.get_running_loop().call_later(ANSWER_SECONDS, self._break_off)
        try:
            return await super().wait(self._limited(gen), interval, timeout)
        except AnswerTooLargeError:
            self.pgconn.finish()
            raise
        except psycopg.OperationalError:
            if self._late:
                self.pgconn.finish()
                raise psycopg.errors.QueryCanceled("there was no answer in time") from None
            raise
        finally:
            late.cancel()

    def _limited(self, gen: PQGen[T]) -> PQGen[T]:
        """The steps of an answer, as long as it is not too large."""
        try:
            wanted = next(gen)
            before = _received(self.pgconn.socket)
            while True:
                ready = yield wanted
                if ready and _received(self.pgconn.socket) - before > ANSWER_BYTES:
                    raise AnswerTooLargeError
                wanted = gen.send(ready)
        except StopIteration as end:
            return cast("T", end.value)

    def _break_off(self) -> None:
        """End the connection as its server would, without asking that for anything."""
        self._late = True
        with (
            suppress(OSError, psycopg.Error),
            socket.socket(fileno=os.dup(self.pgconn.socket)) as own,
        ):
            # The end of the stream wakes who waits for the socket. Closing its descriptor would
            # not.
            own.shutdown(socket.SHUT_RDWR)


class StatementFailedError(Exception):
    """One of several statements failed.

    Args:
        number: of the statement, the first being 0.
        error: why.
    """

    def __init__(self, number: int, error: psycopg.Error) -> None:
        super().__init__(number)
        self.number = number
        self.error = error


class Session:
    """One connection in autocommit; :meth:`transaction` makes a transaction.

    ``check`` is asked before whatever writes, and raises where this process may not any more: one
    that was frozen has no transaction committed beside the next leader's.
    """

    def __init__(
        self, connection: psycopg.AsyncConnection[Row], check: Check = lambda: None
    ) -> None:
        self._connection = connection
        self._check = check
        self.server_version = connection.info.server_version
        """``server_version_num``."""
        self.statements = 0
        """That were sent so far, with those that begin and end transactions."""
        self._sent = 0
        """Those of them that give no rows, for they may write."""

    async def close(self) -> None:
        """End the connection."""
        await self._connection.close()

    def is_usable(self) -> bool:
        """Whether nothing has come unasked, as it does when a server ends a session."""
        if self._connection.closed:
            return False
        watched = select.poll()
        watched.register(self._connection.pgconn.socket, select.POLLIN)
        return not watched.poll(0)

    @property
    def pid(self) -> int:
        """Of the server's process that works for it."""
        return self._connection.info.backend_pid

    async def rows(
        self, query: Statement, parameters: Mapping[str, object] | None = None
    ) -> list[Row]:
        """The rows of one statement.

        Raises:
            AnswerTooLargeError: there are more than a server that means well would send.
        """
        self.statements += 1
        async with self._connection.cursor(binary=True) as cursor:
            await cursor.execute(query, parameters, binary=True)
            found = await cursor.fetchmany(_ROWS_AT_ONCE)
            if cursor.rowcount > ANSWER_ROWS:
                raise AnswerTooLargeError
            while len(found) < cursor.rowcount:
                await asyncio.sleep(0)
                found += await cursor.fetchmany(_ROWS_AT_ONCE)
            return found

    async def run(self, statement: Statement) -> None:
        """One statement that gives no rows."""
        await self.send(statement)

    async def send(self, statement: Statement) -> psycopg.AsyncCursor[Row]:
        """One statement that gives no rows; its cursor knows when it has been answered."""
        self._check()
        self._sent += 1
        self.statements += 1
        async with self._connection.cursor(binary=True) as cursor:
            return await cursor.execute(statement, binary=True)

    async def run_all(self, statements: Iterable[Statement]) -> None:
        """Statements that give no rows, in one round trip; the first that fails ends it.

        Inside a transaction nothing of it can go on then but a rollback, of a savepoint at least.

        Raises:
            StatementFailedError: one of them failed.
        """
        sent: list[psycopg.AsyncCursor[Row]] = []
        try:
            async with self._connection.pipeline():
                for statement in statements:
                    sent.append(await self.send(statement))  # noqa: PERF401 - kept when one fails
        except psycopg.Error as error:
            # Answers come in the order of the statements, and the first that is missing is that
            # of the one which failed.
            done = sum(cursor.pgresult is not None for cursor in sent)
            raise StatementFailedError(done, error) from error

    @asynccontextmanager
    async def transaction(self, patience: Patience = PATIENT) -> AsyncIterator[None]:
        """A transaction that waits so long for others."""
        self.statements += 2
        async with self._connection.transaction():
            await self.limit(patience)
            before = self._sent
            yield
            if self._sent != before:
                self._check()

    async def limit(self, patience: Patience) -> None:
        """Have the rest of the transaction wait so long for others."""
        await self.rows(_LIMIT, patience._asdict())

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        """A part of a transaction that may fail alone."""
        self.statements += 2
        async with self._connection.transaction():
            yield

    async def hush(self) -> None:
        """Keep the statements of this transaction out of the server's log and statistics.

        That is for superusers, and for who was granted SET on the parameters.
        """
        await self.rows(_HUSH if self.server_version >= _PARAMETERS_VERSION else _HUSH_14)


async def open_session(endpoint: Endpoint, database: str, check: Check = lambda: None) -> Session:
    """A session in one database.

    Raises:
        AccessError: ConnectionFailed, AuthenticationFailed, TLSFailed or DatabaseNotFound.
    """
    return Session(await _open(endpoint, database), check)


@asynccontextmanager
async def connect(
    endpoint: Endpoint, database: str, check: Check = lambda: None
) -> AsyncIterator[Session]:
    """A session in one database, closed at the end.

    Raises:
        AccessError: ConnectionFailed, AuthenticationFailed, TLSFailed or DatabaseNotFound.
    """
    connection = await _open(endpoint, database)
    async with connection:
        yield Session(connection, check)


async def logs_in(endpoint: Endpoint, database: str, username: str, password: str) -> bool | None:
    """Whether the server takes this password for this role; None where it lets nobody try.

    Raises:
        AccessError: the server could not be asked.
    """
    probe = replace(endpoint, username=username, password=password)
    try:
        connection = await _open(probe, database)
    except NotLetInError:
        return None
    except AccessError as error:
        # A password that is refused is an answer to the question, and no failure.
        if error.reason == "AuthenticationFailed":
            return False
        # Told only to who has proven the password.
        if error.reason in {"DatabaseNotFound", "InsufficientPrivilege", "RoleIsFull"}:
            return True
        raise
    await connection.close()
    return True


async def _open(endpoint: Endpoint, database: str) -> _Connection:
    try:
        # libpq's connect_timeout holds for each address of a host by itself, and the name of a
        # tenant's host may have many of them.
        async with asyncio.timeout(_LOGIN_SECONDS):
            connection = await _login_as_known(endpoint, database)
    except (psycopg.Error, OSError, UnicodeError, ValueError) as error:
        raise explain_connect(
            error, str(endpoint), database, endpoint.username, discreet=endpoint.discreet
        ) from None
    # Without the options each statement would run under settings that a database's owner
    # may choose.
    if connection.info.parameter_status("application_name") != APPLICATION:
        await connection.close()
        raise pooled(str(endpoint))
    return connection


async def _login_as_known(endpoint: Endpoint, database: str) -> _Connection:
    """Log in with the options that the server knows, and all of them."""
    server = str(endpoint)
    version = _older.get(server, NEWEST)
    for _ in range(_LOGINS):
        # A server refuses a login with an option that it does not know, and tells its version only
        # to who is logged in. So the most options are tried first.
        options = start_options(version)
        try:
            connection = await _login(endpoint, database, options)
        except psycopg.Error as error:
            older = older_version(str(error), version)
            if older is None:
                raise
            version = older
            continue
        version = connection.info.server_version
        if start_options(version) == options:
            _remember(server, version)
            return connection
        # It was told to be an older one, and has been upgraded since.
        await connection.close()
    raise psycopg.OperationalError("the server does not say which version it is")


def _remember(server: str, version: int) -> None:
    if version >= NEWEST:
        _older.pop(server, None)
        return
    # Tenants may name any number of addresses. What is forgotten costs one failed login.
    if len(_older) >= _MAX_OLDER:
        _older.clear()
    _older[server] = version


async def _login(endpoint: Endpoint, database: str, options: str) -> _Connection:
    forget_environment()

    async def connect(place: Place, settings: Mapping[str, Any]) -> _Connection:
        with settings_of(endpoint) as tls:
            return await _Connection.begin(
                **at(place),
                dbname=database,
                user=endpoint.username,
                **settings,
                **tls,
                # There is no such file. libpq would print a warning about one that is a device.
                passfile="/dev/null/none",
                gssencmode="disable",
                # With several hosts, the one that is the primary now.
                target_session_attrs="read-write",
                connect_timeout=_CONNECT_TIMEOUT_SECONDS,
                application_name="",
                client_encoding="UTF8",
                options=options,
                autocommit=True,
                # Poolers between us and the server lose prepared statements.
                prepare_threshold=None,
            )

    return await log_in(endpoint, database, _CONNECT_TIMEOUT_SECONDS, connect)


def _received(number: int) -> int:
    """How many bytes have come in over a TCP socket so far, 0 where the system does not count."""
    if not hasattr(socket, "TCP_INFO"):
        return 0
    with socket.socket(fileno=os.dup(number)) as own, suppress(OSError):
        told = own.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _BYTES_RECEIVED.stop)
        return int.from_bytes(told[_BYTES_RECEIVED], sys.byteorder)
    return 0
