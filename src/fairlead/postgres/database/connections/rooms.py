"""Bounds of the sessions at one address, over all pools that lead there.

Several PostgresServers may name one PostgreSQL, each with pools of its own, and its
``max_connections`` counts all of them. The bound is never a reason to fail or to wait for long:
the user of a session may need another one to end its work, and a tenant's lock may keep any number
of sessions in use. So a full room closes idle sessions, then waits a moment, then lets the session
in.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol
from weakref import WeakSet, WeakValueDictionary

from fairlead.postgres import bounds
from fairlead.postgres.database.connections.endpoint import Endpoint


class SessionPool(Protocol):
    """A pool of sessions that can do without some."""

    @property
    def spared(self) -> int:
        """Number of idle sessions that the pool cannot do without."""
        ...

    def idle_since(self) -> float | None:
        """Return when its oldest other idle session came to rest, None if there is no other."""
        ...

    async def close_oldest(self) -> None:
        """Close that session."""
        ...


class SessionRoom:
    """The sessions at one address.

    ``most`` returns how many there should be at most, beside those that pools cannot do without.
    """

    def __init__(self, most: Callable[[], int]) -> None:
        self._most = most
        self._pools: WeakSet[SessionPool] = WeakSet()
        self._open = 0
        self._changed = asyncio.Event()

    def join(self, pool: SessionPool) -> None:
        """Add a pool, whose idle sessions are closed where others need the room."""
        self._pools.add(pool)

    async def enter(self) -> None:
        """Count a session that is about to be opened, at the latest after a moment."""
        try:
            async with asyncio.timeout(bounds.ROOM_SECONDS):
                while self._open - self._spared >= self._most():
                    if not await self._close_idle():
                        await self._changed.wait()
        except TimeoutError:
            pass
        self._open += 1

    def leave(self) -> None:
        """Count a session as closed."""
        self._open -= 1
        self.rested()

    def rested(self) -> None:
        """Wake those who wait, as a session has ended or become idle."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    @property
    def _spared(self) -> int:
        return sum(pool.spared for pool in self._pools)

    async def _close_idle(self) -> bool:
        """Close the session that is idle for longest; return whether there was one."""
        idle = [(since, pool) for pool in self._pools if (since := pool.idle_since()) is not None]
        if not idle:
            return False
        _, pool = min(idle, key=lambda pair: pair[0])
        await pool.close_oldest()
        return True


class SessionRooms:
    """The rooms of all addresses.

    Args:
        work: returns the number of sessions for work on the databases of one server.
    """

    def __init__(self, work: Callable[[], int]) -> None:
        self._work = work
        self._rooms: WeakValueDictionary[tuple[str, str, int], SessionRoom] = WeakValueDictionary()

    def of(self, endpoint: Endpoint, tenant: str = "") -> SessionRoom:
        """Return the room of an address; ``tenant`` owns the connection, "" the platform team.

        No tenant's sessions take the room of others: the address is the tenant's choice.
        """
        key = (tenant, endpoint.host.lower(), endpoint.port)
        room = self._rooms.get(key)
        if room is None:
            room = self._rooms[key] = SessionRoom(lambda: self._work() + bounds.SESSIONS_BESIDE)
        return room
