"""The flowchart of a PostgresAccess as a function from what is known to what comes next.

The controller performs a step, adds what came of it and asks again; the flowchart is that of
the access-operator project, and every edge of it is a row of this function's table test.
"""

from __future__ import annotations

from enum import Enum
from typing import Literal

import msgspec

from fairlead.postgres.errors import AccessError


class AccessStep(Enum):
    """A box of the flowchart."""

    IGNORE = "nothing to do"
    ADD_FINALIZER = "add the finalizer"
    RESOLVE = "find the server and its policy"
    PLAN = "see what would be done"
    CHECK_ROLE = "see whether the role may be the access's own"
    STAGE_LOGIN = "bring the next login into the database"
    CHANGE_PASSWORD = "change the password, with the generated Secret"  # noqa: S105
    WRITE_SECRET = "write the generated Secret"  # noqa: S105
    SYNC_DATABASE = "bring role and grants into the database"
    GIVE_UP = "record that the role is given up"
    DROP_ROLE = "remove the role"
    REMOVE_FINALIZER = "remove the finalizer"
    REPORT = "write the status"


Stage = Literal["FinalizeFailed", "SecretSyncFailed", "DatabaseSyncFailed"]

STAGES: dict[AccessStep, Stage] = {
    AccessStep.ADD_FINALIZER: "FinalizeFailed",
    AccessStep.GIVE_UP: "FinalizeFailed",
    AccessStep.DROP_ROLE: "FinalizeFailed",
    AccessStep.REMOVE_FINALIZER: "FinalizeFailed",
    AccessStep.RESOLVE: "DatabaseSyncFailed",
    AccessStep.PLAN: "DatabaseSyncFailed",
    AccessStep.CHECK_ROLE: "DatabaseSyncFailed",
    AccessStep.STAGE_LOGIN: "DatabaseSyncFailed",
    AccessStep.CHANGE_PASSWORD: "DatabaseSyncFailed",
    AccessStep.WRITE_SECRET: "SecretSyncFailed",
    AccessStep.SYNC_DATABASE: "DatabaseSyncFailed",
}
"""The reason under which each step fails."""


class Failure(msgspec.Struct, frozen=True):
    """A step that failed, or a decision against the access."""

    stage: Stage
    error: AccessError


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known so far.

    ``published`` says that there is a generated Secret, ``keeping`` that there is none because the
    role keeps a password that nobody here knows, ``rotating`` that its password may be due,
    ``checked`` that the role is not another's as far as can be said, ``answers`` that the server
    has said so, ``secret`` whether the password was there already, or there is to be none. Of two
    logins the next one is ``due`` in the database before the Secret has it, and then it is
    ``staged``. A password that is ``changing`` in its place is the server's before it is the
    Secret's, and neither's if one of them refuses. ``expired`` is an access whose time is up,
    ``ended`` one whose role has gone for that. ``planning`` says why nothing is done before it was
    ``planned``: it is only observed, or has to be ``approved``.
    """

    found: bool = True
    deleting: bool = False
    finalizer: bool = False
    excluded: bool = False
    abandoned: bool = False
    suspended: bool = False
    expired: bool = False
    ended: bool = False
    resolved: bool = False
    planning: Literal["", "Observe", "Manual"] = ""
    planned: bool = False
    approved: bool = False
    published: bool = False
    keeping: bool = False
    rotating: bool = False
    checked: bool = False
    answers: bool = False
    secret: Literal["unknown", "due", "staged", "changing", "reused", "generated", "none"] = (
        "unknown"  # noqa: S105
    )
    synced: bool = False
    given_up: bool = False
    dropped: bool = False
    failure: Failure | None = None


def next_step(facts: Facts) -> AccessStep:
    """What to do next."""
    if not facts.found:
        return AccessStep.IGNORE
    if facts.deleting and not facts.finalizer:
        return AccessStep.IGNORE
    if facts.failure is not None:
        return AccessStep.REPORT
    return _finalize(facts) if facts.deleting else _live(facts)


def _finalize(facts: Facts) -> AccessStep:
    """The way of a deletion: no role is dropped that is excluded, or abandoned by its user."""
    if facts.excluded or facts.given_up or facts.dropped:
        return AccessStep.REMOVE_FINALIZER
    if facts.abandoned:
        return AccessStep.GIVE_UP
    return AccessStep.DROP_ROLE


def _live(facts: Facts) -> AccessStep:
    # Without it the object could be gone before anybody removes what is made from here on.
    if not facts.finalizer:
        return AccessStep.ADD_FINALIZER
    if facts.excluded or facts.suspended:
        return AccessStep.REPORT
    if facts.expired:
        # Who only observes removes nothing; the server itself ends the login (VALID UNTIL).
        over = facts.dropped or facts.ended or facts.planning == "Observe"
        return AccessStep.REPORT if over else AccessStep.DROP_ROLE
    if not facts.resolved:
        return AccessStep.RESOLVE
    if facts.planning and not facts.planned:
        return AccessStep.PLAN
    if facts.planning and not facts.approved:
        return AccessStep.REPORT
    if not (facts.checked or facts.keeping) and (facts.rotating or not facts.published):
        # A refused access gets no Secret, for that would log in nowhere; and no password is made
        # anew for a server that is away, for the old one still logs in there.
        return AccessStep.CHECK_ROLE
    if facts.secret == "due":  # noqa: S105
        return AccessStep.STAGE_LOGIN
    if facts.secret == "changing":  # noqa: S105
        return AccessStep.CHANGE_PASSWORD
    if facts.secret in {"unknown", "staged"}:
        return AccessStep.WRITE_SECRET
    return AccessStep.REPORT if facts.synced else AccessStep.SYNC_DATABASE
