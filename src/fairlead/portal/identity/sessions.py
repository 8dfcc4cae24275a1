"""Sessions: opaque tokens, known by their hashes."""

from __future__ import annotations

from typing import Literal, Protocol

import msgspec

from fairlead.portal.identity.people import Person


Kind = Literal["browser", "cli"]


class Session(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One sign-in. ``key`` is the SHA-256 of its token in hex; times are seconds since 1970."""

    key: str
    person: Person
    kind: Kind
    created: float
    expires: float


class SessionStore(Protocol):
    """Where replicas share sessions and what may be used once. Values are bytes.

    Names are hashes in hex; nothing that is stored lets anyone in.
    """

    async def put(self, name: str, value: bytes, *, kind: str, owner: str, expires: float) -> bool:
        """Store it unless the name is taken, and tell whether it was free."""

    async def get(self, name: str, *, kind: str) -> bytes | None:
        """The value, None where there is none or its time is over."""

    async def take(self, name: str, *, kind: str) -> bytes | None:
        """The value, for one asker alone: it is gone then."""

    async def remove(self, name: str, *, kind: str) -> None:
        """Delete it, if it is there."""

    async def remove_of(self, owner: str | None) -> int:
        """Delete all sessions of a person's author name, or everybody's; how many there were."""
