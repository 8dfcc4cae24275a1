"""Errors of accesses, as reasons and fixed sentences.

An error never carries the text of an exception: messages of the server may quote a statement, and
messages of libpq a connection string.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Literal


class Retry(Enum):
    """Kind of delay before a failed access is tried again."""

    BACKOFF = "backoff"
    """Soon, then ever later: the cause may pass by itself."""
    CHANGE = "change"
    """At ``pendingInterval``: a user has to change an object, or something in the server."""
    GOES_ON = "goes on"
    """At once: a part was done, and the rest follows."""


PasswordForm = Literal["", "verifier", "plain"]
"""Form in which a statement sets a password, "" if it sets none."""


PASSWORD_REFUSED = "PasswordRefused"  # noqa: S105 - a reason
"""Reason of a password that the server's own policy refuses."""


class AccessError(Exception):
    """An access that cannot be brought into its desired state.

    Args:
        reason: one CamelCase word.
        message: one sentence that names object, field and remedy, and contains no secret.
        retry: the delay before the next try.
        verdict: whether ``reason`` is a decision about this access, which then stands as the
            condition's own reason, rather than a step that failed.
        blockers: databases, and the objects in them that are in the way.
    """

    def __init__(
        self,
        reason: str,
        message: str,
        *,
        retry: Retry = Retry.BACKOFF,
        verdict: bool = False,
        blockers: Sequence[tuple[str, Sequence[str]]] = (),
    ) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.message = message
        self.retry = retry
        self.verdict = verdict
        self.blockers = blockers


class UnfinishedError(AccessError):
    """A removal in pieces whose turn is over.

    ``left`` of ``total`` objects and privileges that go in pieces are still there.
    """

    def __init__(self, username: str, left: int, total: int) -> None:
        super().__init__("Removing", f"{left} objects and privileges of role {username} are left")
        self.left = left
        self.total = total


def refusal(reason: str, message: str) -> AccessError:
    """Return a decision against an access; it stands until an object or the server changes."""
    return AccessError(reason, message, retry=Retry.CHANGE, verdict=True)


def invalid(reason: str, message: str) -> AccessError:
    """Return the failure of a step that cannot work until an object changes."""
    return AccessError(reason, message, retry=Retry.CHANGE)
