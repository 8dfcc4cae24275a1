"""The sessions of one administrator on one server, kept from one pass to the next.

A login costs several round trips and a key derivation on both sides, so that a session is used
again while it lives. Sessions that are not used are few: the oldest go first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fairlead.postgres.database.connections.endpoint import Endpoint
from fairlead.postgres.database.connections.session import Session, open_session
from fairlead.postgres.errors import AccessError


_KEPT = 8
"""Sessions with nothing to do that are kept open."""
_ELSEWHERE = {"DatabaseNotFound", "InsufficientPrivilege"}
"""Why another database may let the administrator in."""


class Tally:
    """What sessions have cost so far."""

    def __init__(self) -> None:
        self.logins = 0
        self.statements = 0


class Sessions:
    """Gives out sessions, each to one user at a time; ``tally`` counts what they cost."""

    def __init__(self, endpoint: Endpoint, tally: Tally | None = None) -> None:
        self.endpoint = endpoint
        self.tally = tally or Tally()
        self._idle: OrderedDict[Session, str] = OrderedDict()
        self._maintenance = endpoint.maintenance

    @asynccontextmanager
    async def use(self, database: str) -> AsyncIterator[Session]:
        """A session in one database; one in which something failed is not used again.

        Raises:
            AccessError: there is no connection.
        """
        session = await self._idle_in(database)
        if session is None:
            session = await open_session(self.endpoint, database)
            self.tally.logins += 1
        before = session.statements
        try:
            yield session
        except BaseException:
            await session.close()
            raise
        finally:
            self.tally.statements += session.statements - before
        self._idle[session] = database
        while len(self._idle) > _KEPT:
            oldest, _ = self._idle.popitem(last=False)
            await oldest.close()

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
            del self._idle[session]
            if session.is_usable():
                return session
            await session.close()
        return None

    async def close(self) -> None:
        """End the sessions that nobody uses."""
        while self._idle:
            session, _ = self._idle.popitem()
            await session.close()
