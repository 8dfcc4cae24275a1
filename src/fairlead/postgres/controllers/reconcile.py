"""The flowchart of a PostgresAccess as a function from what is known to what comes next.

The controller performs a step, adds what came of it and asks again; the flowchart is that of
the access-operator project, and every edge of it is a row of this function's table test.
"""

from __future__ import annotations

from enum import Enum
from typing import Literal

import msgspec

from fairlead.postgres.errors import AccessError


class Step(Enum):
    """A box of the flowchart."""

    IGNORE = "nothing to do"
    ADD_FINALIZER = "add the finalizer"
    RESOLVE = "find the server and its policy"
    WRITE_SECRET = "write the generated Secret"  # noqa: S105
    SYNC_DATABASE = "bring role and grants into the database"
    DROP_ROLE = "remove the role"
    REMOVE_FINALIZER = "remove the finalizer"
    REPORT = "write the status"


Stage = Literal["FinalizeFailed", "SecretSyncFailed", "DatabaseSyncFailed"]

STAGES: dict[Step, Stage] = {
    Step.ADD_FINALIZER: "FinalizeFailed",
    Step.DROP_ROLE: "FinalizeFailed",
    Step.REMOVE_FINALIZER: "FinalizeFailed",
    Step.RESOLVE: "DatabaseSyncFailed",
    Step.WRITE_SECRET: "SecretSyncFailed",
    Step.SYNC_DATABASE: "DatabaseSyncFailed",
}
"""The reason under which each step fails."""


class Failure(msgspec.Struct, frozen=True):
    """A step that failed, or a decision against the access."""

    stage: Stage
    error: AccessError


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known so far; ``secret`` says whether the password was there already."""

    found: bool = True
    deleting: bool = False
    finalizer: bool = False
    excluded: bool = False
    abandoned: bool = False
    resolved: bool = False
    secret: Literal["unknown", "reused", "generated"] = "unknown"  # noqa: S105
    synced: bool = False
    dropped: bool = False
    failure: Failure | None = None


def next_step(facts: Facts) -> Step:
    """What to do next."""
    if not facts.found:
        return Step.IGNORE
    if facts.deleting and not facts.finalizer:
        return Step.IGNORE
    if facts.failure is not None:
        return Step.REPORT
    return _finalize(facts) if facts.deleting else _live(facts)


def _finalize(facts: Facts) -> Step:
    """An excluded role is not ours to touch; an abandoned one was given up by its user."""
    if facts.excluded or facts.abandoned or facts.dropped:
        return Step.REMOVE_FINALIZER
    return Step.DROP_ROLE


def _live(facts: Facts) -> Step:
    if not facts.finalizer:
        return Step.ADD_FINALIZER
    if facts.excluded:
        return Step.REPORT
    if not facts.resolved:
        return Step.RESOLVE
    if facts.secret == "unknown":  # noqa: S105
        return Step.WRITE_SECRET
    return Step.REPORT if facts.synced else Step.SYNC_DATABASE
