"""Sessions of the administrator, whose transactions and answers have limits.

Every statement uses the extended query protocol, which
takes a single statement; several that do not depend on each other's answers go in one round trip
(https://www.postgresql.org/docs/current/libpq-pipeline-mode.html). A server may be slow or
hostile: the client limits time and size of each answer.
"""

from __future__ import annotations

import asyncio
import os
import select
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from typing import Any, ClassVar, NamedTuple, TypeVar, cast

import psycopg
from psycopg import pq, sql
from psycopg.abc import PQGen, PQGenConn
from psycopg.pq.abc import PGconn
from psycopg.waiting import Ready, Wait

from fairlead.postgres import bounds
from fairlead.postgres.database.connections.answers import AnswerBudget
from fairlead.postgres.database.connections.failures import AnswerTooLargeError
from fairlead.postgres.database.connections.tls import CertificateFile
from fairlead.postgres.database.plans.snapshot import ServerIdentity


ANSWER_SECONDS = bounds.STATEMENT_SECONDS + 5.0
"""Client-side timeout of an answer in seconds.

It is above statement_timeout, so that the server gives up first.
"""
_BYTES_RECEIVED = slice(128, 136)
"""Offset of tcpi_bytes_received in Linux' struct tcp_info."""


class Patience(NamedTuple):
    """lock_timeout and statement_timeout of a transaction, in milliseconds."""

    lock: int
    statement: int = 1000 * bounds.STATEMENT_SECONDS


BRIEF = Patience(20)
"""Timeouts of work on a batch; an access whose lock is held is tried alone later."""
BRIEF_READING = Patience(20, 500)
"""Timeouts of reads for a batch; one role with very many objects must not delay the others."""
PATIENT = Patience(200)
"""Timeouts of work on one access alone."""
_LIMIT = sql.SQL("""
SELECT pg_catalog.set_config('lock_timeout', %(lock)s::text, true),
       pg_catalog.set_config('statement_timeout', %(statement)s::text, true)
""")

_BEGIN, _COMMIT = sql.SQL("BEGIN"), sql.SQL("COMMIT")
_SAVEPOINT, _RELEASE = sql.SQL("SAVEPOINT {}"), sql.SQL("RELEASE {}")
_ROLLBACK_TO = sql.SQL("ROLLBACK TO {}")
_OPEN = {pq.TransactionStatus.INTRANS, pq.TransactionStatus.INERROR}

_PARAMETERS_VERSION = 150000
"""``server_version_num`` of PostgreSQL 15, the first with privileges on parameters."""
# By these a server keeps the text of a statement: of each one, of a failed one (panic turns that
# off), of a slow one, and in the statistics. That of a transaction which it has chosen at its
# begin by log_transaction_sample_rate is kept in any case
# (https://www.postgresql.org/docs/current/runtime-config-logging.html).
_HUSHED = """
SELECT pg_catalog.set_config(p.name, p.value, true)
  FROM (VALUES ('log_statement', 'none'), ('log_min_error_statement', 'panic'),
               ('log_min_duration_statement', '-1'), ('log_min_duration_sample', '-1'),
               ('pg_stat_statements.track', 'none'))
       AS p(name, value)
"""
# A password in plain text is stored as it is compared later.
_SCRAM = sql.SQL("SELECT pg_catalog.set_config('password_encryption', 'scram-sha-256', true)")
# Before PostgreSQL 15 there are no privileges on parameters, and only superusers set these.
_HUSH_14 = sql.SQL(_HUSHED + " WHERE pg_catalog.current_setting('is_superuser') = 'on'")
_HUSH = sql.SQL(_HUSHED + " WHERE pg_catalog.has_parameter_privilege(p.name, 'SET')")

Row = tuple[Any, ...]
T = TypeVar("T")

Statement = sql.SQL | sql.Composed
Query = tuple[Statement, Mapping[str, object] | None]
"""A statement with its parameters."""
WriteCheck = Callable[[], None]
"""A function that raises if this process may not write any more, for its Lease has run out."""


class LimitedConnection(psycopg.AsyncConnection[Row]):
    """A connection with limits on time and size of answers, which hold without the server.

    A server that hangs, or an impostor, heeds no statement_timeout. It may also send without end:
    rows, messages, or one message that is as long as all memory.
    """

    budget: AnswerBudget | None = None
    """Bound of the answers that sessions hold together; None for the server's own alone."""
    files: Sequence[CertificateFile] = ()
    """Files that the connection's parameters name, for the connection of a cancellation."""
    _late = False
    _exceeds = False
    _cancelling: PQGenConn[None] | None = None
    """The connection for the cancellation of a statement, while it is in progress."""
    _beginning: ClassVar[dict[asyncio.Task[Any] | None, PQGenConn[LimitedConnection]]] = {}
    """Logins in progress, by their tasks."""

    def __init__(self, pgconn: PGconn) -> None:
        super().__init__(pgconn)
        # One read returns up to this buffer, and only after it the limits are checked.
        try:
            # A duplicate, because the socket closes its descriptor, and the other one is libpq's.
            with socket.socket(fileno=os.dup(pgconn.socket)) as own:
                own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, bounds.RECEIVE_BYTES)
        except OSError:
            # Without a free descriptor, for example; no caller has this connection yet.
            pgconn.finish()
            raise

    @classmethod
    async def begin(cls, **settings: Any) -> LimitedConnection:
        """Connect; a failed login leaves no socket open.

        psycopg keeps the socket of a login that timed out in a cycle of references. It would stay
        open until Python's collector runs, and count at the server for as long.
        """
        try:
            return await cls.connect(**settings)
        finally:
            login = cls._beginning.pop(asyncio.current_task(), None)
            if login is not None:
                login.close()

    @classmethod
    def _connect_gen(cls, conninfo: str = "") -> PQGenConn[LimitedConnection]:
        """Log in as psycopg does, with a limit on the bytes that the server sends."""
        login = super()._connect_gen(conninfo)
        # psycopg returns no connection before the login succeeds, so its task is the key.
        cls._beginning[asyncio.current_task()] = login
        try:
            number, state = next(login)
            while True:
                ready = yield number, state
                if ready and _received(number) > bounds.LOGIN_BYTES:
                    raise AnswerTooLargeError
                number, state = login.send(ready)
        except StopIteration as end:
            return cast("LimitedConnection", end.value)

    async def wait(
        self,
        gen: PQGen[T],
        interval: float = 0.1,
        timeout: float | None = None,  # noqa: ASYNC109  psycopg's own
    ) -> T:
        """Wait for an answer, that to COMMIT included.

        Raises:
            QueryCanceled: the answer did not come in time; the connection is closed.
            AnswerTooLargeError: the answer is above the limit; the connection is closed.
        """
        late = asyncio.get_running_loop().call_later(ANSWER_SECONDS, self._break_off)
        limited = self._limited(gen)
        try:
            return await super().wait(limited, interval, timeout)
        except AnswerTooLargeError:
            self.pgconn.finish()
            raise
        except psycopg.OperationalError:
            if self._exceeds:
                self.pgconn.finish()
                raise AnswerTooLargeError from None
            # After the shutdown libpq reports a lost connection. The cause is a timeout, and its
            # SQLSTATE (57014) is reported as one.
            if self._late:
                self.pgconn.finish()
                raise psycopg.errors.QueryCanceled("there was no answer in time") from None
            raise
        finally:
            late.cancel()
            limited.close()

    async def cancel_safe(self, *, timeout: float = 30.0) -> None:  # noqa: ASYNC109  psycopg's own
        """Ask the server to cancel the statement; the connection for that is closed in any case.

        Raises:
            psycopg.Error: the server could not be asked.
        """
        try:
            await super().cancel_safe(timeout=timeout)
        finally:
            if self._cancelling is not None:
                self._cancelling.close()
                self._cancelling = None

    def _cancel_gen(self) -> PQGenConn[None]:
        self._cancelling = super()._cancel_gen()
        return self._cancelling

    def _limited(self, gen: PQGen[T]) -> PQGen[T]:
        """Yield the steps of an answer until it is above the limit.

        Left in the middle, psycopg's steps end at once. The collector would end them later, when
        the connection may be closed, and would print the traceback of a failure of theirs.
        """
        try:
            state = next(gen)
            before = _received(self.pgconn.socket)
            counted = 0
            while True:
                ready = yield state
                # libpq takes 16 KiB in one read, and a turn of a busy event loop takes longer than
                # many reads.
                for _ in range(bounds.READS_AT_ONCE):
                    size = _received(self.pgconn.socket) - before if ready else counted
                    if size > bounds.ANSWER_BYTES:
                        raise AnswerTooLargeError
                    self.take(size - counted)
                    counted = size
                    state = gen.send(ready)
                    # While there is something to send, psycopg looks at the socket itself.
                    if (ready, state) != (Ready.R, Wait.R) or not _has_arrived(self.pgconn.socket):
                        break
        except StopIteration as end:
            return cast("T", end.value)
        finally:
            with suppress(psycopg.Error, RuntimeError):
                gen.close()

    def take(self, count: int) -> None:
        """Count bytes of an answer that is kept in memory until :meth:`release`.

        Raises:
            AnswerTooLargeError: all answers exceed the budget, and this connection's are largest.
        """
        if self.budget is not None and count:
            self.budget.take(self, count)
        if self._exceeds:
            raise AnswerTooLargeError

    def release(self) -> None:
        """Count the answers so far no more, for their user is done."""
        if self.budget is not None:
            self.budget.release(self)

    async def close(self) -> None:
        """End the connection."""
        self.release()
        await super().close()

    def exceed(self) -> None:
        """Break the connection off, because of all its answers are the largest."""
        self._exceeds = True
        self._shut_down()

    def _break_off(self) -> None:
        """Shut the connection down without an answer from the server."""
        self._late = True
        self._shut_down()

    def _shut_down(self) -> None:
        with (
            suppress(OSError, psycopg.Error),
            socket.socket(fileno=os.dup(self.pgconn.socket)) as own,
        ):
            # The end of the stream wakes a task that waits for the socket. Closing its descriptor
            # would not.
            own.shutdown(socket.SHUT_RDWR)


class StatementFailedError(Exception):
    """The failure of one of several statements.

    Args:
        number: the position of the statement, from 0.
        error: the error of the statement.
    """

    def __init__(self, number: int, error: psycopg.Error) -> None:
        super().__init__(number)
        self.number = number
        self.error = error


class Session:
    """One connection in autocommit; :meth:`transaction` begins a transaction.

    ``check`` is called before each write, and raises if this process may not write any more: a
    process that was frozen must not commit beside the next leader.
    """

    def __init__(
        self, connection: psycopg.AsyncConnection[Row], check: WriteCheck = lambda: None
    ) -> None:
        self._connection = connection
        self._check = check
        self.server_version = connection.info.server_version
        """``server_version_num`` of the server."""
        self.identity: ServerIdentity | None = None
        """The server's identity, None before it was read."""
        self.statements = 0
        """Number of statements sent so far, BEGIN, COMMIT and the like included."""
        self._sent = 0
        """Number of statements without rows, which may write."""
        self._ahead: list[Query] = []
        """Statements without a result of use, which go ahead of the next one."""
        self._depth = 0
        """Number of blocks of a transaction and its savepoints around the next statement."""
        self._done = 0
        """Position of the statement that failed in a round trip, below 0 for one ahead."""
        self.patience: Patience | None = None
        """Timeouts of each round trip outside of a transaction; None for those of the session."""
        self.idle_since = 0.0
        """Time of the event loop since which the session has no user."""
        self.closed: Callable[[], None] | None = None
        """Called once when the session is closed."""

    def rest(self) -> None:
        """Note that the session has no user, and forget its answers."""
        self.idle_since = asyncio.get_running_loop().time()
        if isinstance(self._connection, LimitedConnection):
            self._connection.release()

    async def close(self) -> None:
        """End the connection."""
        closed, self.closed = self.closed, None
        try:
            await self._connection.close()
        finally:
            if closed is not None:
                closed()

    def is_usable(self) -> bool:
        """Whether the session is open and the server has not ended it since the last answer."""
        if self._connection.closed:
            return False
        # No answer is outstanding, so bytes to read are the end of the session, or seldom a
        # notice, after which a new session does as well.
        return not _has_arrived(self._connection.pgconn.socket)

    def is_at_rest(self) -> bool:
        """Whether the session is open, outside of any transaction, with nothing left to send."""
        status = self._connection.info.transaction_status
        return not self._ahead and status == pq.TransactionStatus.IDLE

    @property
    def pid(self) -> int:
        """Process id of the session at the server."""
        return self._connection.info.backend_pid

    async def rows(
        self, query: Statement, parameters: Mapping[str, object] | None = None
    ) -> list[Row]:
        """Run one statement and return its rows.

        Raises:
            AnswerTooLargeError: there are more than bounds.ANSWER_ROWS.
        """
        (rows,) = await self.exchange((query, parameters))
        return rows

    async def run(self, statement: Statement) -> None:
        """Run one statement that returns no rows."""
        self._check()
        self._sent += 1
        await self.exchange((statement, None))

    async def run_all(
        self, statements: Iterable[Statement], then: Query | None = None
    ) -> list[Row]:
        """Run all statements of a transaction in one round trip, or none if one of them fails.

        Returns:
            The rows of the query ``then``, which sees what the statements did.

        Raises:
            StatementFailedError: one of the statements failed.
        """
        queries: list[Query] = [(statement, None) for statement in statements]
        self._check()
        self._sent += len(queries)
        try:
            async with self.savepoint():
                *_, rows = [[], *await self.exchange(*queries, *([then] if then else ()))]
                return rows
        except psycopg.Error as error:
            # No statement of the caller failed, but one ahead of them, such as BEGIN, or ``then``.
            if not 0 <= self._done < len(queries):
                raise
            raise StatementFailedError(self._done, error) from error

    async def exchange(self, *queries: Query) -> list[list[Row]]:
        """Run statements in one round trip and return the rows of each.

        Raises:
            AnswerTooLargeError: one of them has more than bounds.ANSWER_ROWS.
        """
        if self.patience is not None and not self._depth:
            # Statements of one round trip without BEGIN are one transaction up to its end, to
            # which the timeouts are local.
            self.limit(self.patience)
        ahead, self._ahead = self._ahead, []
        every = [*ahead, *queries]
        answers = [self._connection.cursor(binary=True) for _ in every]
        together = self._connection.pipeline() if len(every) > 1 else nullcontext()
        self.statements += len(every)
        try:
            async with together:
                for answer, (statement, parameters) in zip(answers, every, strict=True):
                    # With binary=True psycopg takes the extended protocol also without parameters.
                    # There a second statement in the text, from a slip in quoting, is a syntax
                    # error.
                    await answer.execute(statement, parameters, binary=True)
        except psycopg.Error:
            # Answers come in the order of the statements, so the first missing one belongs to the
            # failed statement.
            self._done = sum(answer.pgresult is not None for answer in answers) - len(ahead)
            raise
        return [await _rows_of(answer) for answer in answers[len(ahead) :]]

    @asynccontextmanager
    async def transaction(self, patience: Patience = PATIENT) -> AsyncIterator[None]:
        """Run the block in a transaction with the timeouts of ``patience``."""
        async with self.savepoint():
            self.limit(patience)
            before = self._sent
            yield
            # Again before COMMIT: the Lease may have been lost during the block, which may have
            # waited for locks or for a Secret. A block without writes has nothing to protect.
            if self._sent != before:
                self._check()

    def limit(self, patience: Patience) -> None:
        """Set the timeouts of the rest of the transaction, from the next statement on."""
        self._ahead.append((_LIMIT, patience._asdict()))

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        """Run the block in a savepoint, so that it may fail alone; the outermost is a transaction.

        It begins in the round trip of its first statement. The end of a savepoint goes with the
        next statement after it, so it costs no round trip.
        """
        name = sql.Identifier(f"s{self._depth}")
        begin = _SAVEPOINT.format(name) if self._depth else _BEGIN
        self._ahead.append((begin, None))
        self._depth += 1
        try:
            yield
        except BaseException as error:
            await self._undo(begin, name)
            if not isinstance(error, psycopg.Rollback):
                raise
        else:
            await self._end(begin, name)

    async def _end(self, begin: Statement, name: sql.Identifier) -> None:
        self._depth -= 1
        if self._takes_back(begin):
            return
        if self._depth:
            self._ahead.append((_RELEASE.format(name), None))
        else:
            await self.exchange((_COMMIT, None))

    async def _undo(self, begin: Statement, name: sql.Identifier) -> None:
        self._depth -= 1
        if self._takes_back(begin):
            return
        # The begin of the block was sent with all before it, so what still waits is of the block.
        self._ahead.clear()
        # The locks of the block are held until the next statement comes, which takes this along.
        if self._depth:
            self._ahead += [(_ROLLBACK_TO.format(name), None), (_RELEASE.format(name), None)]
        # In any other state the connection is lost, or a cancelled statement still runs: the user
        # of the session closes it, and its transaction ends with it.
        elif self._connection.info.transaction_status in _OPEN:
            self.statements += 1
            with suppress(psycopg.Error):
                await self._connection.rollback()

    def _takes_back(self, begin: Statement) -> bool:
        """Whether a block has sent nothing, so that its begin need not be sent either."""
        statements = [statement for statement, _ in self._ahead]
        if begin not in statements:
            return False
        del self._ahead[statements.index(begin) :]
        return True

    def hush(self) -> None:
        """Keep the next statements of this transaction out of the server's log and statistics.

        It works for superusers, and for roles with SET on the parameters.
        """
        # Even in the same round trip: the server parses a statement after the one before has run.
        self._ahead.append(
            (_HUSH if self.server_version >= _PARAMETERS_VERSION else _HUSH_14, None)
        )
        self._ahead.append((_SCRAM, None))


async def _rows_of(answer: psycopg.AsyncCursor[Row]) -> list[Row]:
    if answer.description is None:
        return []
    rows = await answer.fetchmany(bounds.ROWS_AT_ONCE)
    # libpq has the whole answer by now; this limit is on the Python objects of its rows.
    if answer.rowcount > bounds.ANSWER_ROWS:
        raise AnswerTooLargeError
    if isinstance(answer.connection, LimitedConnection):
        answer.connection.take(bounds.ROW_BYTES * answer.rowcount)
    while len(rows) < answer.rowcount:
        await asyncio.sleep(0)
        rows += await answer.fetchmany(bounds.ROWS_AT_ONCE)
    return rows


def _has_arrived(number: int) -> bool:
    """Whether a read of the socket would return at once."""
    poll = select.poll()
    poll.register(number, select.POLLIN)
    return bool(poll.poll(0))


def _received(number: int) -> int:
    """Return the bytes received over a TCP socket so far, 0 if the system does not count."""
    if not hasattr(socket, "TCP_INFO"):
        return 0
    # A Unix socket has no TCP_INFO, so answers over it are limited in rows alone.
    with socket.socket(fileno=os.dup(number)) as own, suppress(OSError):
        info = own.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _BYTES_RECEIVED.stop)
        return int.from_bytes(info[_BYTES_RECEIVED], sys.byteorder)
    return 0
