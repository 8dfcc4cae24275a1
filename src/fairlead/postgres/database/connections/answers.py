"""Memory that the answers of tenants' servers take together.

Each answer has a bound of its own, but a tenant may name any number of servers, and each of them
may send what the bound allows and then hang. So the answers have a bound together. Beyond it the
session that has taken most is broken off, so that servers with small answers notice nothing.
"""

from __future__ import annotations

from typing import Protocol

from fairlead.postgres import bounds


class AnswerTaker(Protocol):
    """A connection whose answers count."""

    def exceed(self) -> None:
        """Break the connection off, because its answers are the largest."""
        ...


class AnswerBudget:
    """Bytes of answers that connections may hold together until they are released."""

    def __init__(self, most: int = bounds.TENANTS_BYTES) -> None:
        self._most = most
        self._taken: dict[AnswerTaker, int] = {}

    def take(self, connection: AnswerTaker, count: int) -> None:
        """Count bytes of a connection, and break off the largest where all exceed the bound."""
        self._taken[connection] = self._taken.get(connection, 0) + count
        while sum(self._taken.values()) > self._most:
            largest = max(self._taken, key=self._taken.__getitem__)
            del self._taken[largest]
            largest.exceed()

    def release(self, connection: AnswerTaker) -> None:
        """Forget the bytes of a connection that has no user any more."""
        self._taken.pop(connection, None)


OF_TENANTS = AnswerBudget()
"""The budget of this process for tenants' servers."""
