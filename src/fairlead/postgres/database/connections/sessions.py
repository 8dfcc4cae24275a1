"""The sessions of one administrator on one server, kept from one pass to the next.

A login costs several round trips and a key derivation on both sides, so sessions are reused. Only
few idle sessions are kept, and the oldest are closed first. A session in a database that another
session drops, renames, moves or copies is closed too, at once or after its use.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import NamedTuple

import psycopg
from psycopg import sql

from fairlead.postgres import bounds
from fairlead.postgres.database.connections.acting import acting_as
from fairlead.postgres.database.connections.attempts import Attempts
from fairlead.postgres.database.connections.endpoint import Endpoint
from fairlead.postgres.database.connections.failures import (
    LoginRefusedError,
    NotLetInError,
    ServerFullError,
    explain_statement,
    shut,
)
from fairlead.postgres.database.connections.identity import identity_of
from fairlead.postgres.database.connections.login import connect, open_session
from fairlead.postgres.database.connections.rooms import SessionRoom
from fairlead.postgres.database.connections.session import PATIENT, Patience, Session, WriteCheck
from fairlead.postgres.database.plans.snapshot import ServerIdentity
from fairlead.postgres.errors import AccessError


# CREATE DATABASE takes ShareLock on the database that it copies, and any role with CREATEDB may
# copy a template.
_MAY = sql.SQL("""(u.oid IS NULL OR u.rolsuper OR (d.datistemplate AND l.mode = 'ShareLock')
                  OR pg_catalog.pg_has_role(u.oid, d.datdba, 'MEMBER'))""")
"""Whether role ``u`` has the right to the statement on database ``d`` that takes lock ``l``."""

# The comments of all roles of the operator begin so, those that were given up included.
_SHUTTING = sql.SQL("""
SELECT l.pid, COALESCE(u.rolname, '')::text,
       NOT {}
         AND NOT u.rolcreaterole
         AND pg_catalog.starts_with(
               pg_catalog.shobj_description(u.oid, 'pg_authid'), 'managed by Fairlead'),
       (SELECT m.rolsuper FROM pg_catalog.pg_roles m WHERE m.rolname = current_user)
  FROM pg_catalog.pg_locks l
  JOIN pg_catalog.pg_database d ON d.oid = l.objid
  LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
  LEFT JOIN pg_catalog.pg_roles u ON u.oid = a.usesysid
 WHERE l.locktype = 'object' AND l.classid = 'pg_catalog.pg_database'::pg_catalog.regclass
   AND d.datname = %(database)s::text::pg_catalog.name
   AND l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
 ORDER BY 1
""").format(_MAY)
_TERMINATE = sql.SQL("SELECT pg_catalog.pg_terminate_backend(%(pid)s)")
_WAITED_FOR = sql.SQL("""
SELECT DISTINCT d.datname::text
  FROM pg_catalog.pg_locks l
  JOIN pg_catalog.pg_database d ON d.oid = l.objid
  LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
  LEFT JOIN pg_catalog.pg_roles u ON u.oid = a.usesysid
 WHERE l.locktype = 'object' AND l.classid = 'pg_catalog.pg_database'::pg_catalog.regclass
   AND l.mode IN ('ShareLock', 'AccessExclusiveLock')
   AND {}
""").format(_MAY)
"""Query of the databases that a role drops, renames, moves or copies and has the right to.

Each of these statements locks the database and then waits for its sessions to end; any session may
read locks. A role without the right waits as well, but no session is closed for it.
"""
_ALWAYS = "template1"
"""A database that every server has and every role may connect to by default."""
_HOLDERS = sql.SQL("""
SELECT a.usename::text, count(*)::int, pg_catalog.current_setting('max_connections')::int
  FROM pg_catalog.pg_stat_activity a
 WHERE a.usename IS NOT NULL
 GROUP BY 1
 ORDER BY 2 DESC, 1
 LIMIT 1
""")
_OURS = "postgres"
"""The database for administrators; it belongs to no tenant who may drop it."""
_ELSEWHERE = {"DatabaseNotFound", "InsufficientPrivilege"}
"""Reasons of a refusal that concern one database alone."""


class SessionCosts:
    """Counts of logins and statements of sessions."""

    def __init__(self) -> None:
        self.logins = 0
        self.statements = 0


class Sessions:
    """Pool of sessions, each for one user at a time.

    Args:
        endpoint: the server and its administrator.
        tally: counts logins and statements.
        brief: whether other accesses wait for the users of the sessions; a database that accepts
            no login for now, for example because it is being renamed, is ``Locked`` then.
        check: raises if this process may not write any more.
        same: whether a session of another server than the first one's is refused.
        attempts: the attempts at logins that the pool shares with others.
        room: bounds the sessions of all pools at the address; None without a bound.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        tally: SessionCosts | None = None,
        *,
        brief: bool = False,
        check: WriteCheck = lambda: None,
        same: bool = False,
        attempts: Attempts | None = None,
        room: SessionRoom | None = None,
    ) -> None:
        self._room = room
        if room is not None:
            room.join(self)
        self._same = same
        self._identity: ServerIdentity | None = None
        """Identity of the first session's server, if all must be of the same one."""
        self.endpoint = endpoint
        self._attempts = attempts or Attempts()
        self.tally = tally or SessionCosts()
        self._brief = brief
        self._check = check
        self._login_seconds: float | None = None
        """Duration in seconds of the last login in the maintenance database."""
        self._idle: OrderedDict[Session, str] = OrderedDict()
        self._used: dict[Session, str] = {}
        self._unwelcome: set[Session] = set()
        """Sessions in use that are closed after their use."""
        self._maintenance = endpoint.maintenance
        self._watcher: asyncio.Task[None] | None = None
        self._in_question: Session | None = None
        self._asking = asyncio.Lock()
        self._closed = False

    @asynccontextmanager
    async def use(self, database: str) -> AsyncIterator[Session]:
        """Give out a session in one database; a session with an error is not used again.

        Raises:
            AccessError: there is no connection.
        """
        session = await self._idle_in(database)
        if session is None:
            session = await self._open(database)
            self.tally.logins += 1
        before = session.statements
        self._used[session] = database
        try:
            if self._same:
                await self._check_identity(session)
            yield session
        except LoginRefusedError:
            # Another login was refused, and this session may be the last to take a login away by.
            if session.is_at_rest() and session not in self._unwelcome and not self._closed:
                session.patience = None
                self._rest(session, database)
            else:
                await session.close()
            raise
        # A cancelled or failed session may be in the middle of a transaction or of an answer.
        except BaseException:
            await session.close()
            raise
        finally:
            self.tally.statements += session.statements - before
            del self._used[session]
            unwelcome = session in self._unwelcome
            self._unwelcome.discard(session)
        if unwelcome or self._closed:
            await session.close()
            return
        self._rest(session, database)
        while len(self._idle) > bounds.IDLE_SESSIONS:
            await self.close_oldest()
        if self._watcher is None:
            self._watcher = asyncio.get_running_loop().create_task(self._watch())

    def _rest(self, session: Session, database: str) -> None:
        session.rest()
        self._idle[session] = database
        if self._room is not None:
            self._room.rested()

    def _needed(self) -> Session | None:
        # The last session in the maintenance database stays useful if that accepts no login.
        inside = [session for session, name in self._idle.items() if name == self._maintenance]
        return inside[0] if len(inside) == 1 else None

    def _oldest(self) -> Session | None:
        # The watcher waits for an answer on ``_asked``.
        exempt = {self._in_question, self._needed()}
        return next((session for session in self._idle if session not in exempt), None)

    @property
    def spared(self) -> int:
        """Number of idle sessions that stay wherever others need room."""
        return int(self._needed() is not None)

    def idle_since(self) -> float | None:
        """Return when the oldest other idle session came to rest, None if there is no other."""
        oldest = self._oldest()
        return None if oldest is None else oldest.idle_since

    async def close_oldest(self) -> None:
        """Close that session."""
        oldest = self._oldest()
        if oldest is not None:
            await self._end(oldest)

    async def _check_identity(self, session: Session) -> None:
        identity = await identity_of(session)
        self._identity = self._identity or identity
        if identity != self._identity:
            raise AccessError(
                "ConnectionFailed",
                f"the server at {self.endpoint} is another one than a moment ago; trying again",
            )

    @property
    def pids(self) -> list[int]:
        """Process ids at the server of the sessions in use."""
        return [session.pid for session in self._used]

    @asynccontextmanager
    async def maintenance(self) -> AsyncIterator[Session]:
        """Give out a session in the maintenance database, or in the fallback if that is closed.

        Raises:
            AccessError: there is no connection.
        """
        fallback = self.endpoint.fallback
        if fallback and not await self._lets_in(self._maintenance):
            # The choice stays, so that all writers take the same lock.
            self._maintenance = fallback
        async with self.use(self._maintenance) as session:
            yield session

    @asynccontextmanager
    async def working(self, what: str, patience: Patience | None = None) -> AsyncIterator[Session]:
        """Give out a session in the maintenance database; ``what`` completes "could not ...".

        ``patience`` has the timeouts of statements outside of transactions.

        Raises:
            AccessError: there is no connection, or a statement failed.
        """
        try:
            async with self.maintenance() as session:
                session.patience = patience
                yield session
                # A session with an error does not come here, but is closed.
                session.patience = None
        except psycopg.Error as error:
            raise explain_statement(error, what, self.endpoint.username) from None

    async def renew(self) -> None:
        """Log in to the maintenance database anew, in place of the idle sessions there.

        Raises:
            AccessError: there is no connection; the idle sessions stay.
        """
        session = await self._open(self._maintenance)
        self.tally.logins += 1
        for idle, name in list(self._idle.items()):
            if name == self._maintenance and idle is not self._in_question:
                await self._end(idle)
        await self._put_back(session, self._maintenance)

    @asynccontextmanager
    async def elsewhere(
        self, why: AccessError, databases: Iterable[str] = ()
    ) -> AsyncIterator[Session]:
        """Give out a session in any database, for statements on roles alone.

        An open session serves in any case. Other databases are tried only where the refusal
        concerns one database: a wrong password is wrong everywhere.

        Args:
            why: the refusal by the maintenance database.
            databases: databases to try, beside those that every server has.

        Raises:
            AccessError: no database lets the administrator in.
        """
        names = [*reversed(self._idle.values())]
        if _concerns_one(why):
            names += [self.endpoint.fallback, _ALWAYS, _OURS, *databases]
        async with AsyncExitStack() as stack:
            session: Session | None = None
            with suppress(TimeoutError):
                async with asyncio.timeout(bounds.SEARCH_SECONDS):
                    for database in dict.fromkeys(filter(None, names)):
                        try:
                            session = await stack.enter_async_context(self.use(database))
                            break
                        except AccessError as error:
                            if not _concerns_one(error):
                                break
            if session is None:
                raise why
            yield session

    @property
    def haste(self) -> float | None:
        """Timeout of a login in seconds; None if only the usual limits hold."""
        if not self._brief or self._login_seconds is None:
            return None
        return bounds.HASTE_SECONDS + bounds.HASTE_LOGINS * self._login_seconds

    async def _open(self, database: str) -> Session:
        room = self._room
        if room is None:
            return await self._log_in(database)
        # Before the login, whose own limits are about the server.
        await room.enter()
        try:
            session = await self._log_in(database)
        except BaseException:
            room.leave()
            raise
        session.closed = room.leave
        return session

    async def _log_in(self, database: str) -> Session:
        # Logins in the maintenance database are the measure of the others, and have the usual
        # limits.
        limit = self.haste if database != self._maintenance else None
        session: Session | None = None
        try:
            async with self._attempts.attempt(self.endpoint):
                begun = asyncio.get_running_loop().time()
                async with self.entering(database, limit):
                    session = await open_session(self.endpoint, database, self._check)
        except ServerFullError as error:
            raise await self._who_fills_it(error) from None
        except BaseException:
            # A caller that is cancelled or timed out at the end of the block gets no session.
            if session is not None:
                await session.close()
            raise
        if database == self._maintenance:
            self._login_seconds = asyncio.get_running_loop().time() - begun
        return session

    @asynccontextmanager
    async def entering(self, database: str, limit: float | None) -> AsyncIterator[None]:
        """Keep a database open for the login in the block, which has ``limit`` seconds.

        Raises:
            AccessError: Locked; the text names the sessions that shut the database.
        """
        shutters: list[Shutter] = []
        opening = asyncio.create_task(self._open_up(database, shutters))
        try:
            async with asyncio.timeout(limit):
                yield
        except TimeoutError:
            raise shut(database, _listed(shutters)) from None
        except AccessError as error:
            if shutters and error.reason == "ConnectionFailed":
                raise shut(database, _listed(shutters)) from None
            raise
        finally:
            opening.cancel()
            await asyncio.wait([opening])

    async def _open_up(self, database: str, shutters: list[Shutter]) -> None:
        """End the sessions that shut a database without the right to, until cancelled."""
        await asyncio.sleep(bounds.SHUT_SECONDS)
        usual = self._login_seconds
        patience = bounds.ELSEWHERE_SECONDS if usual is None else 2 * usual
        # Without a session for the looks, the login still has its own timeout.
        with suppress(AccessError, psycopg.Error, ValueError, TypeError):
            begun = asyncio.get_running_loop().time()
            while asyncio.get_running_loop().time() - begun < patience:
                async with self._any_idle() as session:
                    if session is not None:
                        shutters[:] = await _open_up(session, database)
                await asyncio.sleep(bounds.LOCK_LOOK_SECONDS)
            # A login in the database itself would hang as well.
            elsewhere = self._maintenance if database == _ALWAYS else _ALWAYS
            if self._attempts.is_refused(self.endpoint):
                return
            async with connect(self.endpoint, elsewhere, self._check) as session:
                self.tally.logins += 1
                while True:
                    shutters[:] = await _open_up(session, database)
                    await asyncio.sleep(bounds.LOCK_LOOK_SECONDS)

    @asynccontextmanager
    async def _any_idle(self) -> AsyncIterator[Session | None]:
        """Give out an idle session in any database, or None."""
        # The watcher waits for an answer on ``_asked``; a session has one user at a time.
        session = next((one for one in reversed(self._idle) if one is not self._in_question), None)
        if session is None:
            yield None
            return
        database = self._idle.pop(session)
        before = session.statements
        try:
            yield session
        except BaseException:
            await session.close()
            raise
        finally:
            self.tally.statements += session.statements - before
        await self._put_back(session, database)

    async def _who_fills_it(self, error: AccessError) -> AccessError:
        """Add the role with most connections to the error, if an idle session can ask for it."""
        session = await self._idle_in(self._maintenance)
        if session is None:
            return error
        try:
            ((role, count, all_),) = await session.rows(_HOLDERS)
        except (psycopg.Error, ValueError):
            await session.close()
            return error
        except BaseException:
            await session.close()
            raise
        await self._put_back(session, self._maintenance)
        return AccessError(
            error.reason,
            f"{error.message}. Role {role} has {count} of {all_} connections; give it a"
            " CONNECTION LIMIT (attributes.connectionLimit)",
        )

    async def _put_back(self, session: Session, database: str) -> None:
        if self._closed:
            await session.close()
        else:
            self._rest(session, database)

    async def _lets_in(self, database: str) -> bool:
        if database == self.endpoint.fallback:
            return True
        try:
            async with self.use(database):
                return True
        except AccessError as error:
            if error.reason in _ELSEWHERE:
                return False
            raise

    async def _idle_in(self, database: str) -> Session | None:
        """Return the idle session that was used last, so that the older ones can be closed."""
        for session in reversed([one for one, name in self._idle.items() if name == database]):
            # The watcher uses this session just now. It is done soon, and may have closed it.
            if session is self._in_question:
                async with self._asking:
                    pass
            if self._idle.pop(session, None) is None:
                continue
            if session.is_usable():
                return session
            await session.close()
        return None

    async def _watch(self) -> None:
        """Look for waiting sessions of others while this pool has sessions."""
        while self._idle or self._used:
            # While all sessions are in use, none can ask; one is idle soon.
            await asyncio.sleep(bounds.WATCH_SECONDS if self._idle else bounds.WATCH_SECONDS / 20)
            await self._leave()
        self._watcher = None

    async def _leave(self) -> None:
        """Close the sessions in databases that another session waits for."""
        # Any session sees the locks of all databases.
        idle = next(iter(self._idle), None)
        names = (*self._idle.values(), *self._used.values())
        # Sessions in the administrators' database alone are in no tenant's way.
        if idle is None or all(name == _OURS for name in names):
            return
        databases = await self._awaited_databases(idle)
        for session, database in list(self._idle.items()):
            if database in databases:
                await self._end(session)
        self._unwelcome.update(one for one, name in self._used.items() if name in databases)

    async def _end(self, session: Session) -> None:
        self._idle.pop(session, None)
        await session.close()

    async def _awaited_databases(self, session: Session) -> set[str]:
        """Return the databases that other sessions wait for; a session that fails is closed."""
        async with self._asking:
            self._in_question = session
            try:
                self.tally.statements += 1
                return {name for (name,) in await session.rows(_WAITED_FOR)}
            except asyncio.CancelledError:
                await self._end(session)
                raise
            except Exception:  # noqa: BLE001 - the next user of a session tells why there is none
                await self._end(session)
                return set()
            finally:
                self._in_question = None

    async def close(self) -> None:
        """Close the idle sessions at once, and those in use after their use."""
        self._closed = True
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.cancel()
        # The watcher ends the session that it asks: asyncio still waits for an answer on it.
        for session in [one for one in self._idle if one is not self._in_question]:
            await self._end(session)
        if watcher is not None:
            await asyncio.wait([watcher])


def _concerns_one(error: AccessError) -> bool:
    """Whether the refusal of a login may concern one database alone."""
    # Lines of pg_hba.conf may be about one database.
    return error.reason in {*_ELSEWHERE, "Locked"} or isinstance(error, NotLetInError)


class Shutter(NamedTuple):
    """A session whose lock blocks all logins to a database.

    A session that renames, moves or drops a database waits for a lock on it, and logins to it wait
    behind. PostgreSQL checks the role's right only afterwards. So a login without any privilege
    shuts a database for as long as another of its sessions has any lock on it, such as that of
    ALTER ROLE ... IN DATABASE.
    """

    pid: int
    role: str
    endable: bool
    superuser: bool

    def __str__(self) -> str:
        whose = f"of role {self.role}" if self.role else "of the server itself"
        return f"pid {self.pid} {whose}"


async def _open_up(session: Session, database: str) -> list[Shutter]:
    """End the sessions that shut a database which is not theirs, if the operator made their role.

    Returns:
        All sessions that shut it, the ended ones included.
    """
    rows = await session.rows(_SHUTTING, {"database": database})
    shutters = [Shutter(*row) for row in rows]
    for shutter in shutters:
        if shutter.endable:
            await _terminate(session, shutter)
    return shutters


async def _terminate(session: Session, shutter: Shutter) -> None:
    try:
        # pg_terminate_backend needs the rights of the session's role, which a membership gives.
        async with (
            session.transaction(PATIENT),
            acting_as(session, shutter.role, superuser=shutter.superuser),
        ):
            await session.rows(_TERMINATE, {"pid": shutter.pid})
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.LockNotAvailable):
        return


def _listed(shutters: Sequence[Shutter]) -> str:
    """Return the first sessions in words, for a message."""
    return ", ".join(str(one) for one in shutters[: bounds.NAMED])
