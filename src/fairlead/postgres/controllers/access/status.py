"""The outcome of a pass, as conditions, one log line, an event and when to look again. Pure."""

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
from fairlead.api.meta import JSON, Object
from fairlead.api.postgresaccess import (
    APPROVE_ANNOTATION,
    IN_PROGRESS,
    READY,
    RECONCILING,
    ROTATE_ANNOTATION,
    STALLED,
    SUCCESS,
    Binding,
    Blockers,
    Deletion,
    LoginInfo,
    PasswordInfo,
    Plan,
    PostgresAccessStatus,
    ReconcileState,
    SecretInfo,
    ServerInfo,
)
from fairlead.postgres.controllers.access.passes import Failure, Observed, is_approved
from fairlead.postgres.controllers.rules.desired import Desired
from fairlead.postgres.database.plans.plan import Planned, Synced
from fairlead.postgres.errors import AccessError, Retry, refusal


IN_SYNC = "PostgresAccess is in sync"
NOT_YET_IN_SYNC = "PostgresAccess is not yet in sync"
WITHOUT_SECRET = (
    "the role keeps the password that it was made with, which cannot be read, so that there is no"
    f" Secret; annotate the object with {ROTATE_ANNOTATION} for a new one, or name the Secret that"
    " has it in spec.passwordSecretRef"
)
"""What the warning about an adopted role says."""
MAX_LOG = 1024
"""Characters of a message in the status."""
RENAMED = "carries the claim of this object"
"""What the warning about a renamed role says."""
_NOT_APPLIED = "; spec.suspend is set, and nothing after generation"
"""How a message goes on that is about an earlier spec than the one that is there."""
_WAITING = {"Locked", "Conflict", "TimedOut"}
_MAX_GRANTED = 512
_MAX_BLOCKERS = 3
_MAX_WARNINGS = 64
"""Lines of what was granted, of objects of a database, and of others that a status lists."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict of a pass; ``again`` says how soon to look again."""

    state: ReconcileState
    reason: str
    message: str
    again: Literal["synced", "pending", "at-once", "backoff", "waiting"]
    blockers: Sequence[tuple[str, Sequence[str]]] = ()
    """Databases, and what a role owns there that keeps it from being removed."""
    generation: int | None = None
    """The generation that the verdict is about; None for that of the object as it is."""


class Login(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the database once the login works; ``secret`` is "" where there is none."""

    username: str
    secret: str
    server: ServerInfo
    secret_uid: str = ""
    password: PasswordInfo | None = None
    logins: Sequence[LoginInfo] = ()
    applied: Sequence[str] = ()
    group: str = ""
    warnings: Sequence[str] = ()


def outcome_of(desired: Desired, observed: Observed) -> Outcome:
    """Return the outcome of a pass."""
    if observed.failure is not None:
        return failed(observed.failure)
    if desired.excluded:
        username, *logins = desired.names
        which = f"{username}, or one of its logins {', '.join(logins)}," if logins else username
        error = refusal(
            "UserExcluded",
            f"spec.username {which} is one of the operator's excluded users; choose another",
        )
        return failed(Failure("DatabaseSyncFailed", error))
    if desired.access.spec.suspend:
        generation = desired.found.meta.generation
        return suspended(desired.access.status, generation, unchanged=observed.unchanged)
    if desired.expired:
        return expired(desired.ends)
    if observed.plan is not None and not is_approved(desired, observed.plan):
        return planned(observed.plan, desired.planning)
    is_new = observed.credentials.state == "generated"
    return generated() if is_new and not _is_read_again(desired, observed) else success()


def _is_read_again(desired: Desired, observed: Observed) -> bool:
    """Whether the second look that a new password asks for would come to what is known already.

    Every pass reads the server again after it has written. An object that has said nothing so far
    is in progress as it was created, and so that need not be written first. Additive grants depend
    on what was granted before, which the next pass reads from the status of this one.
    """
    access = desired.access
    is_first = not access.status.last_reconcile_state
    return is_first and observed.synced is not None and access.spec.grants_policy != "Additive"


def former_status(desired: Desired, observed: Observed) -> PostgresAccessStatus:
    """Return the status so far, without what has gone meanwhile."""
    old = desired.access.status
    if desired.expired and observed.released:
        old = msgspec.structs.replace(
            old, secret=None, password=None, applied_grants=[], logins=[], group=""
        )
    if desired.ends or observed.in_sync:
        # Until the server knows otherwise it is to end when it was told.
        old = msgspec.structs.replace(old, expires_at=desired.ends)
    return old


def login_of(desired: Desired, observed: Observed) -> Login | None:
    """Return what is known of the login, if this pass has brought it about."""
    synced = observed.synced
    if synced is None or desired.place is None:
        return None
    spec, status, endpoint = desired.access.spec, desired.access.status, desired.place.endpoint
    kept = [WITHOUT_SECRET] if observed.keeping else []
    return Login(
        username=spec.username,
        secret="" if observed.keeping else spec.generated_secret,
        secret_uid=observed.credentials.secret_uid,
        password=observed.credentials.info,
        logins=synced.logins,
        server=ServerInfo(
            host=endpoint.public_host or endpoint.host,
            version=synced.server.version_text,
            system_identifier=synced.server.system_identifier,
        ),
        applied=_ledger(status.applied_grants, synced),
        group=synced.group or (status.group if synced.problems else ""),
        warnings=[*kept, *synced.warnings, *map(renamed, sorted(observed.renamed))],
    )


def _ledger(before: Sequence[str], synced: Synced) -> list[str]:
    """Return what was granted, and what may not be revoked yet while there are problems."""
    left = before if synced.problems else []
    return [*synced.applied, *(one for one in left if one not in synced.applied)]


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


def suspended(old: PostgresAccessStatus, generation: int, *, unchanged: bool) -> Outcome:
    """Nothing is done: what was said last stands, of the spec that it was said of.

    Args:
        old: the status so far.
        generation: of the object as it is.
        unchanged: whether the spec is known to ask for what it asked for then.
    """
    ready = get_condition(old.conditions, READY)
    if ready is None or ready.reason == "Suspended":
        return Outcome(
            state="InProgress",
            reason="Suspended",
            message="spec.suspend is set; nothing is done",
            again="waiting",
        )
    message, _, _ = ready.message.partition(_NOT_APPLIED)
    told = ready.observed_generation
    if unchanged or told == generation:
        told = generation
    else:
        mark = f"{_NOT_APPLIED} {told} is applied"
        message = f"{message[: MAX_LOG - len(mark)]}{mark}"
    return Outcome(
        state=old.last_reconcile_state or "InProgress",
        reason=ready.reason,
        message=message,
        again="waiting",
        generation=told,
    )


def expired(expires_at: str) -> Outcome:
    """The role has gone, for its time was up."""
    return Outcome(
        state="Error",
        reason="Expired",
        message=f"the access ended at {expires_at}, as spec.expiresAfter says; raise that, or"
        " create another PostgresAccess",
        again="waiting",
    )


def planned(plan: Planned, why: Literal["", "Observe", "Manual"]) -> Outcome:
    """Nothing is done but to say what would be."""
    refused = [error for errors in plan.refused.values() for error in errors]
    if refused:
        return failed(problems(refused))
    count = len(plan.statements)
    if not count:
        return (
            success()
            if why == "Manual"
            else Outcome(
                state="Success",
                reason="Ready",
                message=f"{IN_SYNC}; nothing would be done",
                again="synced",
            )
        )
    if why == "Observe":
        message = f"{count} statements would run, see status.plan; spec.mode is Observe"
        return Outcome(state="InProgress", reason="Observed", message=message, again="synced")
    message = (
        f"{count} statements wait for an approval, see status.plan: annotate the object with"
        f" {APPROVE_ANNOTATION}={plan.digest()}"
    )
    return Outcome(state="InProgress", reason="ApprovalPending", message=message, again="synced")


def plan_of(plan: Planned | None, old: Plan | None, approved_by: str = "") -> Plan | None:
    """A plan as the status tells it: as many statements as fit, and what was approved last.

    Args:
        plan: what would be done; with ``approved_by``, what has been done.
        old: what the status said before.
        approved_by: who has approved this plan; "" when nobody has.
    """
    approved = Plan() if old is None else old
    digest, by = approved.approved_digest, approved.approved_by
    if plan is None:
        return Plan(approved_digest=digest, approved_by=by) if digest else None
    if approved_by:
        digest, by = plan.digest(), approved_by
    return Plan(
        digest=plan.digest() if plan.statements else "",
        statements=[
            f"{one.database}: {one.text}"[:MAX_LOG] for one in plan.statements[:_MAX_WARNINGS]
        ],
        total=len(plan.statements),
        approved_digest=digest,
        approved_by=by,
    )


def approver_of(metadata: JSON) -> str:
    """The manager of fields that wrote the approval last, and when; "" when nobody says."""
    field = f"f:{APPROVE_ANNOTATION}"
    found: list[tuple[str, str]] = []
    for entry in metadata.get("managedFields") or []:
        fields = (entry.get("fieldsV1") or {}).get("f:metadata") or {}
        if field in (fields.get("f:annotations") or {}):
            found.append((entry.get("time") or "", entry.get("manager") or "unknown"))
    if not found:
        return ""
    # The API server writes these times in UTC, so that they are in order as texts.
    time, manager = max(found)
    return f"{manager} at {time}" if time else manager


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
        reason=error.reason if error.verdict else failure.reason,
        message=error.message if error.verdict else str(error),
        again="pending" if error.retry is Retry.CHANGE else "backoff",
        blockers=error.blockers,
    )


def deletion_of(blockers: Sequence[tuple[str, Sequence[str]]]) -> Deletion | None:
    """What a deletion waits for."""
    if not blockers:
        return None
    return Deletion(
        blockers=[
            Blockers(database=name, objects=list(objects[:_MAX_BLOCKERS]))
            for name, objects in blockers[:_MAX_WARNINGS]
        ],
        truncated=len(blockers) > _MAX_WARNINGS
        or any(len(objects) > _MAX_BLOCKERS for _, objects in blockers),
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
    generation = generation if outcome.generation is None else outcome.generation
    message = " ".join(outcome.message.split())[:MAX_LOG]
    stalled = outcome.state == "Error" and outcome.again in {"pending", "waiting"}
    for type_, holds in (
        (READY, outcome.state == "Success"),
        (SUCCESS, outcome.state == "Success"),
        (IN_PROGRESS, outcome.state == "InProgress"),
        (RECONCILING, outcome.state != "Success" and not stalled),
        (STALLED, stalled),
    ):
        if type_ in {RECONCILING, STALLED} and not holds:
            # kstatus takes these to be there only while they hold.
            conditions = [one for one in conditions if one.type != type_]
            continue
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
    deletion = deletion_of(outcome.blockers)
    if deletion != old.deletion:
        status_ = msgspec.structs.replace(status_, deletion=deletion)
    if refused:
        return msgspec.structs.replace(status_, binding=None)
    if login is None:
        return status_
    return msgspec.structs.replace(
        status_,
        binding=Binding(name=login.secret) if login.secret else None,
        username=login.username,
        secret=SecretInfo(name=login.secret, uid=login.secret_uid) if login.secret else None,
        password=login.password,
        logins=list(login.logins),
        server=login.server,
        applied_grants=list(login.applied[:_MAX_GRANTED]),
        group=login.group,
        warnings=list(login.warnings[:_MAX_WARNINGS]),
    )


def access_events(old: Object, new: Object) -> list[Event]:
    """What to tell about a PostgresAccess whose status has changed."""
    before, after = _status(old), _status(new)
    told = event(before, after)
    return [*([] if told is None else [told]), *turns(before, after)]


def _status(access: Object) -> PostgresAccessStatus:
    """The status; an empty one where others wrote what cannot be read."""
    try:
        return access.decode(_WithStatus).status
    except msgspec.ValidationError:
        return PostgresAccessStatus()


class _WithStatus(msgspec.Struct):
    status: PostgresAccessStatus = msgspec.field(default_factory=PostgresAccessStatus)


def turns(old: PostgresAccessStatus, new: PostgresAccessStatus) -> list[Event]:
    """What to tell whatever the verdict: roles that are elsewhere than their object says."""
    found = [
        Event("Warning", "RoleRenamed", one)
        for one in new.warnings
        if RENAMED in one and one not in old.warnings
    ]
    before, after = old.server, new.server
    if before is None or after is None or not before.system_identifier:
        return found
    if before.system_identifier != after.system_identifier:
        text = (
            f"the object's server was {before.host} and is {after.host}, which is another one:"
            f" role {new.username} stays on the old one with its login; drop it there"
        )
        found.append(Event("Warning", "ServerChanged", text))
    return found


def renamed(role: str) -> str:
    """The warning about a role that carries an access's claim under another name."""
    return (
        f"role {role} {RENAMED}: it was renamed by hand, and has lost its login; drop it, or"
        " give it its name back"
    )


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
