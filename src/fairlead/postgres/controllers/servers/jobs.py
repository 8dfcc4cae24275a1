"""What servers are asked to do, where, and what they answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal, NamedTuple

import msgspec

from fairlead.api.postgresaccess import CleanupPolicy
from fairlead.postgres.database.plans.logins import family
from fairlead.postgres.database.plans.plan import Planned, Synced, Wanted
from fairlead.postgres.database.plans.snapshot import Claim
from fairlead.postgres.errors import AccessError


Removal = CleanupPolicy | Literal["Fence"]
"""What becomes of a role; Fence takes its login, and leaves it and its claim."""

Answer = Synced | Planned | AccessError | Exception | None


class Check(NamedTuple):
    """May this claim have these roles, the username first? The answer is None, or why not."""

    names: tuple[str, ...]
    claim: Claim
    adopt: bool = False

    @property
    def username(self) -> str:
        """Of the role."""
        return self.names[0]


class _OfWanted(msgspec.Struct, frozen=True):
    wanted: Wanted

    @property
    def username(self) -> str:
        """Of the role."""
        return self.wanted.username

    @property
    def names(self) -> tuple[str, ...]:
        """Of all its roles."""
        return self.wanted.names


class Sync(_OfWanted, frozen=True):
    """Bring it into the server."""


class Rotate(_OfWanted, frozen=True):
    """Change the password of the login, and ``publish`` it before that holds.

    The answer is None, or why not: an :class:`UnpublishedError` where the Secret was the reason.
    """

    publish: Callable[[], Awaitable[None]]


class UnpublishedError(Exception):
    """The Secret could not be written; the ``cause`` says why."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


class Drop(NamedTuple):
    """Remove the role as the policy says; ``denied`` is why that is not the one of the spec."""

    username: str
    claim: Claim
    policy: Removal
    orphan_to: str = ""
    denied: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """Of all its roles."""
        return family(self.username)


class Look(_OfWanted, frozen=True):
    """Say what would be done for it; the answer is a plan."""


Job = Check | Sync | Rotate | Drop | Look
