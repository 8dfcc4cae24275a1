"""Sessions in the memory of one process, lost when it ends."""

from __future__ import annotations

import time
from collections.abc import Sequence

from fairlead.portal.identity.sessions import HeldSession, SessionStore


MOST = 20_000
"""Largest number of stored values; the one that expires first is dropped."""


class MemoryStore(SessionStore):
    """A SessionStore in memory, which is always available."""

    def __init__(self, most: int = MOST) -> None:
        super().__init__()
        self.there: dict[tuple[str, str], tuple[bytes, str, float]] = {}
        """Value, owner and expiry in seconds since 1970, by kind and name."""
        self._most = most

    async def put(self, name: str, value: bytes, *, kind: str, owner: str, expires: float) -> bool:
        """Store a value; return False if the name is taken."""
        if self._found(kind, name) is not None:
            return False
        self.there[kind, name] = value, owner, expires
        if len(self.there) > self._most:
            self._make_room()
        return True

    async def get(self, name: str, *, kind: str) -> bytes | None:
        """Return the value, None if it is missing or expired."""
        return self._found(kind, name)

    async def take(self, name: str, *, kind: str) -> bytes | None:
        """Remove the value and return it, so that only one caller gets it."""
        value = self._found(kind, name)
        self.there.pop((kind, name), None)
        return value

    async def remove(self, name: str, *, kind: str) -> None:
        """Delete the value if it exists."""
        self.there.pop((kind, name), None)
        self.tell(name)

    async def held(self, owner: str) -> Sequence[HeldSession]:
        """Return the sessions of an owner, ordered by expiry."""
        found = [
            HeldSession(name, expires)
            for (kind, name), (_, of, expires) in self.there.items()
            if kind == "session" and of == owner
        ]
        return sorted(found, key=lambda one: one.expires)

    async def count(self) -> int:
        """Return the number of sessions."""
        return sum(kind == "session" for kind, _ in self.there)

    def _found(self, kind: str, name: str) -> bytes | None:
        found = self.there.get((kind, name))
        if found is None:
            return None
        if found[2] > time.time():
            return found[0]
        del self.there[kind, name]
        return None

    def _make_room(self) -> None:
        """Delete expired values, and then those that expire first."""
        ordered = sorted(self.there, key=lambda key: self.there[key][2])
        now = time.time()
        for key in ordered:
            if len(self.there) <= self._most and self.there[key][2] > now:
                break
            del self.there[key]
            self.tell(key[1])
