"""What can go wrong, as reasons and fixed sentences.

An error never carries the text of an exception: the server's messages may quote a statement, and
libpq's a connection string.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum


class Retry(Enum):
    """When to look again at what failed."""

    BACKOFF = "backoff"
    """Soon, then ever later: what is wrong may pass by itself."""
    CHANGE = "change"
    """At ``pendingInterval``: somebody has to change an object, or something in the server."""


class AccessError(Exception):
    """Why an access cannot be brought into its wanted state.

    Args:
        reason: one CamelCase word.
        message: one sentence that names object, field and remedy; no secret is in it.
        retry: when to look again.
        verdict: whether ``reason`` is a decision about this access, which then stands as the
            condition's own reason, rather than a step that failed.
        blockers: databases, and what in them is in the way.
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


def refusal(reason: str, message: str) -> AccessError:
    """A decision against this access that only a change of an object can turn."""
    return AccessError(reason, message, retry=Retry.CHANGE, verdict=True)


def invalid(reason: str, message: str) -> AccessError:
    """A step that cannot work with the objects as they are."""
    return AccessError(reason, message, retry=Retry.CHANGE)
