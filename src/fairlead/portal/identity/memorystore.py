"""Sessions in memory: of one process, and gone with it."""

from __future__ import annotations

import time
from collections.abc import Sequence

from fairlead.portal.identity.sessions import Gone, Held


MOST = 20_000
"""What is held at a time; what ends first goes where there would be more."""


class MemoryStore:
    """A SessionStore of one process, which is never away."""

    def __init__(self, most: int = MOST) -> None:
        self.there: dict[tuple[str, str], tuple[bytes, str, float]] = {}
        """Value, owner and end of what is stored, by kind and name."""
        self._most = most
        self._listeners: list[Gone] = []

    def listen(self, gone: Gone) -> None:
        """Tell of every session that is stored no more."""
        self._listeners.append(gone)

    async def put(self, name: str, value: bytes, *, kind: str, owner: str, expires: float) -> bool:
        """Store it unless the name is taken, and tell whether it was free."""
        if self._found(kind, name) is not None:
            return False
        self.there[kind, name] = value, owner, expires
        if len(self.there) > self._most:
            self._make_room()
        return True

    async def get(self, name: str, *, kind: str) -> bytes | None:
        """The value, None where there is none or its time is over."""
        return self._found(kind, name)

    async def take(self, name: str, *, kind: str) -> bytes | None:
        """The value, for one asker alone."""
        value = self._found(kind, name)
        self.there.pop((kind, name), None)
        return value

    async def remove(self, name: str, *, kind: str) -> None:
        """Delete it, if it is there."""
        self.there.pop((kind, name), None)
        self._tell(name)

    async def remove_of(self, owner: str | None) -> int:
        """Delete all of an owner, or of every owner; how many sessions there were."""
        mine = [key for key, (_, of, _) in self.there.items() if of and owner in {None, of}]
        for key in mine:
            del self.there[key]
        self._tell(None)
        return sum(kind == "session" for kind, _ in mine)

    async def held(self, owner: str) -> Sequence[Held]:
        """The sessions of an owner, those that end first before the others."""
        found = [
            Held(name, expires)
            for (kind, name), (_, of, expires) in self.there.items()
            if kind == "session" and of == owner
        ]
        return sorted(found, key=lambda one: one.expires)

    async def count(self) -> int:
        """How many sessions there are."""
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
        """Forget what is over, and then what ends first."""
        ordered = sorted(self.there, key=lambda key: self.there[key][2])
        now = time.time()
        for key in ordered:
            if len(self.there) <= self._most and self.there[key][2] > now:
                break
            del self.there[key]
            self._tell(key[1])

    def _tell(self, name: str | None) -> None:
        for gone in self._listeners:
            gone(name)
