"""What a pass came to, as conditions, one log line, an event and when to look again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from fairlead.api.conditions import (
    Condition,
    ConditionStatus,
    Event,
    get_condition,
    set_condition,
)
from fairlead.api.meta import Object
from fairlead.api.postgresaccess import (
    IN_PROGRESS,
    READY,
    SUCCESS,
    Binding,
    PasswordInfo,
    PostgresAccessStatus,
    ReconcileState,
    SecretInfo,
    ServerInfo,
)
from fairlead.postgres.controllers.reconcile import Failure
from fairlead.postgres.errors import AccessError, Retry


IN_SYNC = "PostgresAccess is in sync"
NOT_YET_IN_SYNC = "PostgresAccess is not yet in sync"
MAX_LOG = 1024
"""Characters of a message in the status."""
_WAITING = {"Locked", "Conflict", "TimedOut"}
_MAX_GRANTED = 512
_MAX_WARNINGS = 64
"""Lines of what was granted, and of warnings, that a status lists."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict of a pass; ``again`` says how soon to look again."""

    state: ReconcileState
    reason: str
    message: str
    again: Literal["synced", "pending", "at-once", "backoff"]


class Login(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the database once the login works."""

    username: str
    secret: str
    server: ServerInfo
    secret_uid: str = ""
    password: PasswordInfo | None = None
    applied: Sequence[str] = ()
    warnings: Sequence[str] = ()


def success() -> Outcome:
    """Step 35: everything is as wanted."""
    return Outcome(state="Success", reason="Ready", message=IN_SYNC, again="synced")


def generated() -> Outcome:
    """Step 36: a new password makes one pass that is in progress.

    The next one comes at once instead of after 30 s: this pass has verified what it wrote.
    """
    return Outcome(
        state="InProgress", reason="Reconciling", message=NOT_YET_IN_SYNC, again="at-once"
    )


def failed(failure: Failure) -> Outcome:
    """The three error boxes, and decisions against an access."""
    error = failure.error
    if error.reason in _WAITING:
        return Outcome(
            state="InProgress",
            reason="Reconciling",
            message=f"{NOT_YET_IN_SYNC}: {error.message}",
            again="pending",
        )
    return Outcome(
        state="Error",
        reason=error.reason if error.verdict else failure.stage,
        message=error.message if error.verdict else str(error),
        again="synced" if error.retry is Retry.CHANGE else "backoff",
    )


def problems(found: Sequence[AccessError]) -> Failure:
    """Several grants that do not hold, as one failure."""
    first = found[0]
    if len(found) == 1:
        return Failure("DatabaseSyncFailed", first)
    heal = any(error.retry is Retry.BACKOFF for error in found)
    listed = "; ".join(dict.fromkeys(str(error) for error in found[1:]))
    return Failure(
        "DatabaseSyncFailed",
        AccessError(
            first.reason,
            f"{first.message}; {listed}",
            retry=Retry.BACKOFF if heal else Retry.CHANGE,
        ),
    )


def new_status(
    old: PostgresAccessStatus,
    outcome: Outcome,
    *,
    generation: int,
    now: str,
    login: Login | None,
    refused: bool,
) -> PostgresAccessStatus:
    """The status after a pass; equal to the old one when nothing has turned.

    What was known of the login stays through a failure; a decision against the access
    (``refused``) takes the binding back.
    """
    conditions = old.conditions
    message = " ".join(outcome.message.split())[:MAX_LOG]
    for type_, holds in (
        (READY, outcome.state == "Success"),
        (SUCCESS, outcome.state == "Success"),
        (IN_PROGRESS, outcome.state == "InProgress"),
    ):
        status: ConditionStatus = "True" if holds else "False"
        new = Condition(type_, status, outcome.reason, message, "", generation)
        conditions = set_condition(conditions, new, now=now)
    status_ = msgspec.structs.replace(
        old,
        conditions=conditions,
        last_reconcile_state=outcome.state,
        last_log=message,
        observed_generation=generation,
    )
    if refused:
        return msgspec.structs.replace(status_, binding=None)
    if login is None:
        return status_
    return msgspec.structs.replace(
        status_,
        binding=Binding(name=login.secret),
        username=login.username,
        secret=SecretInfo(name=login.secret, uid=login.secret_uid),
        password=login.password,
        server=login.server,
        applied_grants=list(login.applied[:_MAX_GRANTED]),
        warnings=list(login.warnings[:_MAX_WARNINGS]),
    )


def access_events(old: Object, new: Object) -> list[Event]:
    """What to tell about a PostgresAccess whose status has changed."""
    told = event(_status(old), _status(new))
    return [] if told is None else [told]


def _status(access: Object) -> PostgresAccessStatus:
    """The status; an empty one where others wrote what cannot be read."""
    try:
        return access.decode(_WithStatus).status
    except msgspec.ValidationError:
        return PostgresAccessStatus()


class _WithStatus(msgspec.Struct):
    status: PostgresAccessStatus = msgspec.field(default_factory=PostgresAccessStatus)


def event(old: PostgresAccessStatus, new: PostgresAccessStatus) -> Event | None:
    """What to tell, on transitions only."""
    before, after = get_condition(old.conditions, READY), get_condition(new.conditions, READY)
    if after is None or new.last_reconcile_state == "InProgress":
        return None
    if before is not None and (before.status, before.reason, before.message) == (
        after.status,
        after.reason,
        after.message,
    ):
        return None
    if after.status == "True":
        return Event("Normal", "ReconcileSuccess", f"{IN_SYNC} and ready")
    return Event("Warning", after.reason, after.message)
