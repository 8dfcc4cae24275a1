"""The sessions of one administrator on one server, kept from one pass to the next.

A login costs several round trips and a key derivation on both sides, so that a session is used
again while it lives. Sessions that are not used are few: the oldest go first, and those in a
database that somebody wants to himself, of which one that is used goes when its user is done.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import psycopg
from psycopg import sql

from fairlead.postgres.database.connections.endpoint import Endpoint
from fairlead.postgres.database.connections.failures import (
    ServerFullError,
    explain_statement,
    shut,
)
from fairlead.postgres.database.connections.session import (
    Check,
    Session,
    connect,
    open_session,
)
from fairlead.postgres.database.connections.shutting import MAY, Shutter, open_up, told
from fairlead.postgres.errors import AccessError


_KEPT = 8
"""Sessions with nothing to do that are kept open."""
_WATCH_SECONDS = 2.0
"""Between two looks at who waits for our idle sessions; PostgreSQL has them wait for 5 s."""
_WAITED_FOR = sql.SQL("""
SELECT DISTINCT d.datname::text
  FROM pg_catalog.pg_locks l
  JOIN pg_catalog.pg_database d ON d.oid = l.objid
  LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
  LEFT JOIN pg_catalog.pg_roles u ON u.oid = a.usesysid
 WHERE l.locktype = 'object' AND l.classid = 'pg_catalog.pg_database'::pg_catalog.regclass
   AND l.mode IN ('ShareLock', 'AccessExclusiveLock')
   AND {}
""").format(MAY)
"""The databases that somebody drops, renames, moves or copies, which takes all others to leave.

Each of these locks the database before it waits for its sessions, and everybody may see locks.
Whoever may not do it waits all the same: for those nobody leaves, and lets the door fall shut.
"""
_SHUT_SECONDS = 0.2
"""That a login takes, before somebody looks whether the database lets anybody in."""
_LOOK_SECONDS = 0.05
"""Between two looks: whoever has shut it comes back."""
_ELSEWHERE_SECONDS = 1.0
"""That the first login takes, before another database is entered for these looks alone."""
_ALWAYS = "template1"
"""A database that every server has, and everybody may enter unless it was forbidden."""
_HASTE_SECONDS = 0.5
_LOGINS = 5
"""That a hasty session may take, and as many times as long as one in the maintenance database."""
_HOLDERS = sql.SQL("""
SELECT a.usename::text, count(*)::int, pg_catalog.current_setting('max_connections')::int
  FROM pg_catalog.pg_stat_activity a
 WHERE a.usename IS NOT NULL
 GROUP BY 1
 ORDER BY 2 DESC, 1
 LIMIT 1
""")
_OURS = "postgres"
"""The database that PostgreSQL has for administrators: no owner drops it."""
_ELSEWHERE = {"DatabaseNotFound", "InsufficientPrivilege"}
"""Why another database may let the administrator in."""


class SessionCosts:
    """What sessions have cost so far."""

    def __init__(self) -> None:
        self.logins = 0
        self.statements = 0


class Sessions:
    """Gives out sessions, each to one user at a time.

    Args:
        endpoint: of the server, and its administrator.
        tally: counts what they cost.
        hasty: whether others wait for their users: a database that lets nobody in for now, as one
            that is being renamed, is ``Locked`` then.
        check: raises where this process may not write any more.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        tally: SessionCosts | None = None,
        *,
        hasty: bool = False,
        check: Check = lambda: None,
    ) -> None:
        self.endpoint = endpoint
        self.tally = tally or SessionCosts()
        self._hasty = hasty
        self._check = check
        self._login_seconds: float | None = None
        """That the last login in the maintenance database took."""
        self._idle: OrderedDict[Session, str] = OrderedDict()
        self._used: dict[Session, str] = {}
        self._unwelcome: set[Session] = set()
        """Those in use that are not kept afterwards."""
        self._maintenance = endpoint.maintenance
        self._watcher: asyncio.Task[None] | None = None
        self._asked: Session | None = None
        self._asking = asyncio.Lock()

    @asynccontextmanager
    async def use(self, database: str) -> AsyncIterator[Session]:
        """A session in one database; one in which something failed is not used again.

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
            yield session
        # It may be in the middle of a transaction or of an answer, be it by a cancellation.
        except BaseException:
            await session.close()
            raise
        finally:
            self.tally.statements += session.statements - before
            del self._used[session]
            unwelcome = session in self._unwelcome
            self._unwelcome.discard(session)
        if unwelcome:
            await session.close()
            return
        self._idle[session] = database
        while len(self._idle) > _KEPT:
            # One that is in the maintenance database goes on when that lets nobody in.
            inside = [one for one, name in self._idle.items() if name == self._maintenance]
            kept = inside[0] if len(inside) == 1 else None
            oldest = next(one for one in self._idle if one is not kept)
            await self._end(oldest)
        if self._watcher is None:
            self._watcher = asyncio.get_running_loop().create_task(self._watch())

    @property
    def pids(self) -> list[int]:
        """Of the server's processes that work for sessions in use."""
        return [session.pid for session in self._used]

    @asynccontextmanager
    async def maintenance(self) -> AsyncIterator[Session]:
        """A session in the maintenance database, or in the one named where that is closed to us.

        Raises:
            AccessError: there is no connection.
        """
        fallback = self.endpoint.fallback
        if fallback and not await self._lets_in(self._maintenance):
            # Once for all, so that it is always the same lock that keeps writers apart.
            self._maintenance = fallback
        async with self.use(self._maintenance) as session:
            yield session

    @asynccontextmanager
    async def working(self, what: str) -> AsyncIterator[Session]:
        """A session in the maintenance database; ``what`` completes "could not ...".

        Raises:
            AccessError: there is no connection, or a statement failed.
        """
        try:
            async with self.maintenance() as session:
                yield session
        except psycopg.Error as error:
            raise explain_statement(error, what, self.endpoint.username) from None

    @property
    def haste(self) -> float | None:
        """Seconds that a login may take; None where only the usual limits hold."""
        if not self._hasty or self._login_seconds is None:
            return None
        return _HASTE_SECONDS + _LOGINS * self._login_seconds

    async def _open(self, database: str) -> Session:
        limit = self.haste if database != self._maintenance else None
        begun = asyncio.get_running_loop().time()
        session: Session | None = None
        try:
            async with self.entering(database, limit):
                session = await open_session(self.endpoint, database, self._check)
        except ServerFullError as error:
            raise await self._who_fills_it(error) from None
        except BaseException:
            # A caller that is cancelled, or too late, while the help for its login ends gets none.
            if session is not None:
                await session.close()
            raise
        if database == self._maintenance:
            self._login_seconds = asyncio.get_running_loop().time() - begun
        return session

    @asynccontextmanager
    async def entering(self, database: str, limit: float | None) -> AsyncIterator[None]:
        """While somebody logs in to a database, for so many seconds, see that it lets him in.

        Raises:
            AccessError: Locked, with who it is that keeps everybody out.
        """
        found: list[Shutter] = []
        opening = asyncio.create_task(self._open_up(database, found))
        try:
            async with asyncio.timeout(limit):
                yield
        except TimeoutError:
            raise shut(database, told(found)) from None
        except AccessError as error:
            if found and error.reason == "ConnectionFailed":
                raise shut(database, told(found)) from None
            raise
        finally:
            opening.cancel()
            await asyncio.wait([opening])

    async def _open_up(self, database: str, found: list[Shutter]) -> None:
        """While a login lasts, end the sessions that shut its database and may not."""
        await asyncio.sleep(_SHUT_SECONDS)
        usual = self._login_seconds
        patience = _ELSEWHERE_SECONDS if usual is None else 2 * usual
        # Without a session to look with, the login has its own limits.
        with suppress(AccessError, psycopg.Error, ValueError, TypeError):
            begun = asyncio.get_running_loop().time()
            while asyncio.get_running_loop().time() - begun < patience:
                async with self._any_idle() as session:
                    if session is not None:
                        found[:] = await open_up(session, database)
                await asyncio.sleep(_LOOK_SECONDS)
            elsewhere = self._maintenance if database == _ALWAYS else _ALWAYS
            async with connect(self.endpoint, elsewhere, self._check) as session:
                self.tally.logins += 1
                while True:
                    found[:] = await open_up(session, database)
                    await asyncio.sleep(_LOOK_SECONDS)

    @asynccontextmanager
    async def _any_idle(self) -> AsyncIterator[Session | None]:
        """A session of any database, if there is one with nothing to do."""
        session = next((one for one in reversed(self._idle) if one is not self._asked), None)
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
        self._idle[session] = database

    async def _who_fills_it(self, error: AccessError) -> AccessError:
        """The error, with the role that has most connections, where a session is left to ask."""
        session = await self._idle_in(self._maintenance)
        if session is None:
            return error
        try:
            ((role, count, all_),) = await session.rows(_HOLDERS)
        except (psycopg.Error, ValueError):
            await session.close()
            return error
        self._idle[session] = self._maintenance
        return AccessError(
            error.reason,
            f"{error.message}. Role {role} has {count} of {all_}; give it a CONNECTION LIMIT"
            f" (attributes.connectionLimit)",
        )

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
        """The session that was used last, for the others may be let go."""
        for session in reversed([one for one, name in self._idle.items() if name == database]):
            # The watcher asks through this session just now. It is done soon, and may have ended
            # it.
            if session is self._asked:
                async with self._asking:
                    pass
            if self._idle.pop(session, None) is None:
                continue
            if session.is_usable():
                return session
            await session.close()
        return None

    async def _watch(self) -> None:
        """Look after the sessions while there are any."""
        while self._idle or self._used:
            # While all are in use there is none to ask, but soon.
            await asyncio.sleep(_WATCH_SECONDS if self._idle else _WATCH_SECONDS / 20)
            await self._leave()
        self._watcher = None

    async def _leave(self) -> None:
        """End the sessions in databases that somebody waits to have to himself."""
        # Any session sees the locks of all databases.
        asked = next(iter(self._idle), None)
        names = (*self._idle.values(), *self._used.values())
        # Whoever has sessions in no other database is in nobody's way, and need not ask.
        if asked is None or all(name == _OURS for name in names):
            return
        wanted = await self._wanted(asked)
        for session, database in list(self._idle.items()):
            if database in wanted:
                await self._end(session)
        self._unwelcome.update(one for one, name in self._used.items() if name in wanted)

    async def _end(self, session: Session) -> None:
        self._idle.pop(session, None)
        await session.close()

    async def _wanted(self, asked: Session) -> set[str]:
        """The databases that somebody waits for; a session that cannot say so is ended."""
        async with self._asking:
            self._asked = asked
            try:
                self.tally.statements += 1
                return {name for (name,) in await asked.rows(_WAITED_FOR)}
            except asyncio.CancelledError:
                await self._end(asked)
                raise
            except Exception:  # noqa: BLE001 - whoever needs a session tells why there is none
                await self._end(asked)
                return set()
            finally:
                self._asked = None

    async def close(self) -> None:
        """End the sessions that nobody uses."""
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.cancel()
            await asyncio.wait([watcher])
        while self._idle:
            session, _ = self._idle.popitem()
            await session.close()
