"""The outcome of a pass: its conditions, log line, event and time of the next pass. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec

from fairlead.api.addresses import is_cluster_local
from fairlead.api.conditions import (
    Condition,
    ConditionStatus,
    Event,
    get_condition,
    set_condition,
)
from fairlead.api.kbind.names import COPY_MARKS
from fairlead.api.meta import JSON, Object
from fairlead.api.postgresaccess import (
    APPROVE_ANNOTATION,
    EXPIRING,
    IN_PROGRESS,
    READY,
    RECONCILING,
    ROTATE_ANNOTATION,
    STALLED,
    SUCCESS,
    Binding,
    Blockers,
    Deletion,
    Plan,
    PostgresAccessStatus,
    ReconcileState,
    SecretInfo,
    ServerInfo,
    SessionsInfo,
)
from fairlead.api.timestamps import format_time, parse_time
from fairlead.postgres import bounds
from fairlead.postgres.controllers.access.passes import (
    Action,
    Observed,
    PassFailure,
    approval_of,
)
from fairlead.postgres.controllers.rules.desired import (
    GROUPS_REMEDY,
    SHARED_GROUPS,
    TWO_ENDS,
    Desired,
    LoginEnd,
    has_two_ends,
)
from fairlead.postgres.controllers.rules.login_secret import uri_keys
from fairlead.postgres.database.plans.approvals import Approval, digest_of
from fairlead.postgres.database.plans.plan import ShownPlan, Synced
from fairlead.postgres.errors import AccessError, Retry, UnfinishedError, refusal


IN_SYNC = "PostgresAccess is in sync"
AS_LAST_SEEN = f"{IN_SYNC}, as last seen: "
"""Beginning of the message of a Ready access whose server does not let the administrator in."""
NOT_YET_IN_SYNC = "PostgresAccess is not yet in sync"
WITHOUT_SECRET = (
    "the role keeps the password that it had at its adoption; that cannot be read, so there is"
    f" no Secret; annotate the object with {ROTATE_ANNOTATION} for a new password, or name the"
    " Secret that contains the password in spec.passwordSecretRef"
)
"""Warning about an adopted role without a Secret."""
_DEMANDING = ("require", "verify-ca", "verify-full")
"""TLS modes by which a client refuses what it might connect to without a mode."""
RENAMED = "carries the claim of this object"
"""Text by which a warning is known as one about a renamed role."""
_NOT_APPLIED = "; spec.suspend is set, and nothing after generation"
"""Suffix of a message about an earlier spec than the present one."""
_PASSING = {"Locked", "Conflict", "TimedOut", "Unapproved", "Unfinished"}
"""Reasons that pass by themselves, as other sessions or writers cause them: no error is told."""
_DIGEST_SHOWN = 32
"""Characters of an approval that a message repeats."""
SHARED_ACCESS = (
    f"{SHARED_GROUPS}, and the next minor version removes it; {GROUPS_REMEDY}, then set"
    " spec.groups to None"
)
"""Warning about an access whose grants a group holds."""


_SOONEST = (Retry.GOES_ON, Retry.BACKOFF, Retry.CHANGE)


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict of a pass; ``again`` sets the delay of the next one."""

    state: ReconcileState
    reason: str
    message: str
    again: Literal["synced", "pending", "at-once", "backoff", "waiting"]
    blockers: Sequence[tuple[str, Sequence[str]]] = ()
    """Databases with the objects of a role there, which block its removal."""
    progress: tuple[int, int] | None = None
    """Objects of the role that are removed, and that it had; None where none go in pieces."""
    generation: int | None = None
    """Generation that the verdict is about; None for the present one."""


class PassReport(NamedTuple):
    """The status after a pass; ``refused`` tells of a decision against the access."""

    status: PostgresAccessStatus
    outcome: Outcome
    refused: bool


def report_of(
    desired: Desired, observed: Observed, *, now: str, approved_by: str = ""
) -> PassReport:
    """Return the report of a pass.

    Args:
        desired: the desired state.
        observed: the observed state after the last action.
        now: the present time.
        approved_by: the field manager whose approval the pass has carried out, "" for none.
    """
    outcome, old = outcome_of(desired, observed), former_status(desired, observed)
    failure, plan = observed.failure, old.plan
    # A refused grant does not take the binding of a login that works.
    verdict = failure is not None and failure.error.verdict and observed.synced is None
    refused = desired.excluded or desired.expired or verdict
    silent = desired.access.spec.suspend or desired.expired or failure is not None
    if observed.preview is not None or not silent:
        preview = observed.preview
        approval = None if preview is None else approval_of(desired, preview)
        proves = desired.held_back_by == "Manual"
        plan = plan_of(preview, plan, approved_by, approval, proves=proves)
    status = new_status(
        msgspec.structs.replace(old, plan=plan),
        outcome,
        generation=desired.obj.meta.generation,
        now=now,
        refused=refused,
    )
    if not refused:
        status = with_login(status, desired, observed)
        status = with_sessions(status, desired, observed, now)
    status = with_end(status, desired, now)
    return PassReport(status, outcome, refused and not desired.expired)


def uses_approval(desired: Desired, observed: Observed) -> bool:
    """Whether all statements of an approved plan were carried out, by this pass or before it.

    After a failure the next pass runs the rest by the same approval.
    """
    preview = observed.preview
    approval = None if preview is None else approval_of(desired, preview)
    if preview is None or approval is None or not approval.parts:
        return False
    is_done = observed.in_sync and observed.failure is None
    return is_done or (preview.whole and not preview.parts)


def is_in_sync_as_known(desired: Desired, observed: Observed) -> bool:
    """Whether an access was in sync when its server last let the administrator in.

    Refused credentials of the administrator end no login of others, and say nothing about it.
    """
    failure, status = observed.failure, desired.access.status
    ready, server = get_condition(status.conditions, READY), status.server
    if failure is None or failure.error.reason != "AuthenticationFailed" or desired.deleting:
        return False
    if ready is None or server is None or desired.place is None:
        return False
    is_ready = ready.status == "True"
    is_same = ready.observed_generation == desired.obj.meta.generation
    endpoint = desired.place.endpoint
    stays = server.host == (endpoint.public_host or endpoint.host)
    # What this pass would change is not in sync, and so is a Secret that is gone.
    left = observed.credentials.left in {None, Action.WRITE_SECRET}
    has_secret = observed.published or observed.keeps_password
    return is_ready and is_same and stays and left and has_secret and not observed.rotating


def outcome_of(desired: Desired, observed: Observed) -> Outcome:
    """Return the outcome of a pass."""
    if observed.failure is not None:
        error = observed.failure.error
        if isinstance(error, UnfinishedError):
            return removing(error, desired.access.status.deletion)
        if is_in_sync_as_known(desired, observed):
            message = f"{AS_LAST_SEEN}{error.message}"
            return Outcome(state="Success", reason="Ready", message=message, again="backoff")
        return failed(observed.failure)
    if desired.excluded:
        username, *logins = desired.names
        which = f"{username}, or one of its logins {', '.join(logins)}," if logins else username
        error = refusal(
            "UserExcluded",
            f"spec.username {which} is one of the operator's excluded users; choose another",
        )
        return failed(PassFailure("DatabaseSyncFailed", error))
    if desired.access.spec.suspend:
        generation = desired.obj.meta.generation
        return suspended(desired.access.status, generation, unchanged=observed.unchanged)
    if desired.expired:
        return expired(desired.ends)
    if observed.preview is not None and approval_of(desired, observed.preview) is None:
        return previewed(observed.preview, desired.held_back_by, _void_approval(desired))
    if observed.credentials.is_new and not _is_read_again(desired, observed):
        return generated()
    if desired.login_over and desired.end is not None:
        return login_over(desired.end)
    return success()


def _void_approval(desired: Desired) -> str:
    """Return the approval that is none of the present plan, "" without one or if it was used."""
    plan = desired.access.status.plan
    digest = desired.obj.meta.annotations.get(APPROVE_ANNOTATION, "")
    return "" if plan is not None and digest == plan.approved_digest else digest


def _is_read_again(desired: Desired, observed: Observed) -> bool:
    """Whether the second pass after a new password would find nothing new.

    Every pass reads the server again after it has written. A new object counts as in progress, so
    that its status need not say so first. Additive grants depend on the earlier ones, which the
    next pass reads from the status of this one.
    """
    access = desired.access
    is_first = not access.status.last_reconcile_state
    return is_first and observed.synced is not None and access.spec.grants_policy != "Additive"


def former_status(desired: Desired, observed: Observed) -> PostgresAccessStatus:
    """Return the status so far, without the login and the grants of an ended access."""
    old = desired.access.status
    if desired.expired and observed.released:
        old = msgspec.structs.replace(
            old, secret=None, password=None, applied_grants=[], logins=[], group=""
        )
    end = desired.end
    if end is not None or observed.in_sync:
        # Until the server has a later end, it ends the login at the earlier one.
        old = msgspec.structs.replace(old, expires_at=format_time(end.at) if end else "")
    return old


def with_login(
    status: PostgresAccessStatus, desired: Desired, observed: Observed
) -> PostgresAccessStatus:
    """Return the status with the state of the login, where this pass has synchronized it."""
    synced = observed.synced
    if synced is None or desired.place is None:
        return status
    endpoint = desired.place.endpoint
    name = "" if observed.keeps_password else desired.access.spec.generated_secret
    remarks = [WITHOUT_SECRET] if observed.keeps_password else plain_uris(desired, observed)
    if has_two_ends(desired.access.spec):
        remarks.append(TWO_ENDS)
    if desired.shares_groups:
        remarks.append(SHARED_ACCESS)
    warnings = [
        *remarks,
        *unreachable_host(desired),
        *synced.warnings,
        *synced.left_out,
        *map(renamed, sorted(observed.renamed)),
    ]
    return msgspec.structs.replace(
        status,
        binding=Binding(name=name) if name else None,
        username=desired.access.spec.username,
        secret=SecretInfo(
            name=name,
            uid=observed.credentials.secret_uid,
            uris=observed.credentials.uris,
        )
        if name
        else None,
        password=observed.credentials.info,
        logins=list(synced.logins),
        server=ServerInfo(
            host=endpoint.public_host or endpoint.host,
            version=synced.server.version_text,
            system_identifier=synced.server.system_identifier,
        ),
        applied_grants=_ledger(status.applied_grants, synced)[: bounds.STATUS_GRANTS],
        group=synced.group or (status.group if synced.problems else ""),
        warnings=warnings[: bounds.STATUS_ITEMS],
    )


def unreachable_host(desired: Desired) -> list[str]:
    """Return the warning that a consumer's apps do not find the host in the Secret, if so.

    The access is then a konnector's copy of a consumer's object, and no one has said where clients
    reach the server.
    """
    spec, place = desired.access.spec, desired.place
    if COPY_MARKS.isdisjoint(desired.obj.meta.annotations) or place is None:
        return []
    template, host = spec.secret_template, place.endpoint.host
    given = place.endpoint.public_host or (template is not None and "host" in template.data)
    hosts = [name for name in host.split(",") if is_cluster_local(name)]
    if given or not hosts:
        return []
    reference = spec.connection.server_ref
    remedy = (
        f"set spec.externalHost of PostgresServer {reference.name}"
        if reference is not None
        else "use a PostgresServer with spec.externalHost"
    )
    warning = (
        f"the Secret names host {', '.join(hosts)}, a name of the provider's cluster that apps in"
        f" the consumer's cluster cannot resolve; {remedy}, the address at which they reach the"
        " server"
    )
    return [warning]


def plain_uris(desired: Desired, observed: Observed) -> list[str]:
    """Return the warning about a Secret whose URIs have no TLS mode, none where that is asked for.

    Ready stays: the login works, and a client that reads the other keys too verifies its server.
    """
    spec, mode = desired.access.spec, desired.known_place.endpoint.ssl_mode
    template = spec.secret_template
    keys = uri_keys(template)
    is_asked_for = template is not None and template.uris is not None
    is_plain = observed.credentials.uris == "Plain" and mode in _DEMANDING
    if is_asked_for or not (is_plain and keys):
        return []
    message = (
        f"Secret {spec.generated_secret} has no TLS mode in {' and '.join(keys)}, because a"
        " former version wrote it: clients that read only these keys connect without"
        f" sslmode={mode}. Set spec.secretTemplate.uris to Verified once all clients know the"
        " server's CA, or to Plain to keep the URIs as they are"
    )
    return [message]


def with_end(status: PostgresAccessStatus, desired: Desired, now: str) -> PostgresAccessStatus:
    """Return the status with a condition about the end of the login, while it is near or over."""
    if desired.refused is not None:
        return status
    end, others = desired.end, [one for one in status.conditions if one.type != EXPIRING]
    if end is None or parse_time(now) < end.remark:
        return msgspec.structs.replace(status, conditions=others)
    at, over = format_time(end.at), end.at <= parse_time(now)
    new = Condition(
        EXPIRING,
        "True",
        "Ended" if over else "EndsSoon",
        f"the login {'ended' if over else 'ends'} at {at}, as {end.field} says; set a later end"
        " to keep the login",
        "",
        desired.obj.meta.generation,
    )
    return msgspec.structs.replace(
        status, conditions=set_condition(status.conditions, new, now=now)
    )


def with_sessions(
    status: PostgresAccessStatus, desired: Desired, observed: Observed, now: str
) -> PostgresAccessStatus:
    """Return the status with the open sessions that outlast a password, and those ended.

    Both are written once, so that sessions which come and go do not change the status.
    """
    synced, password = observed.synced, status.password
    if synced is None:
        return status
    before = desired.access.status.password
    if password and before and password.fingerprint != before.fingerprint:
        password = msgspec.structs.replace(password, open_sessions=synced.open_sessions)
    sessions = status.sessions
    if synced.sessions is not None and desired.ending:
        ends = synced.sessions
        sessions = SessionsInfo(
            request=desired.ending, ended_at=now, ended=ends.ended, left=ends.left
        )
    return msgspec.structs.replace(status, password=password, sessions=sessions)


def _ledger(before: Sequence[str], synced: Synced) -> list[str]:
    """Return the applied grants; with problems also earlier ones, which are not revoked yet."""
    left = before if synced.problems else []
    return [*synced.applied, *(one for one in left if one not in synced.applied)]


def success() -> Outcome:
    """Return the outcome of a pass whose server has all that is wanted."""
    return Outcome(state="Success", reason="Ready", message=IN_SYNC, again="synced")


def generated() -> Outcome:
    """Return the outcome of a pass with a new password: access-operator calls it in progress.

    The next pass comes at once instead of after 30 s: this pass has verified its writes.
    """
    return Outcome(
        state="InProgress", reason="Reconciling", message=NOT_YET_IN_SYNC, again="at-once"
    )


def suspended(old: PostgresAccessStatus, generation: int, *, unchanged: bool) -> Outcome:
    """Return the outcome of a suspended access: its last verdict, about the spec of then.

    Args:
        old: the status so far.
        generation: the present generation of the object.
        unchanged: whether the spec is known to differ from that of then in ``suspend`` alone.
    """
    ready = get_condition(old.conditions, READY)
    if ready is None or ready.reason == "Suspended":
        return Outcome(
            state="InProgress",
            reason="Suspended",
            message="spec.suspend is set; the operator does nothing",
            again="waiting",
        )
    message, _, _ = ready.message.partition(_NOT_APPLIED)
    seen_generation = ready.observed_generation
    if unchanged or seen_generation == generation:
        seen_generation = generation
    else:
        mark = f"{_NOT_APPLIED} {seen_generation} is applied"
        message = f"{message[: bounds.STATUS_CHARACTERS - len(mark)]}{mark}"
    return Outcome(
        state=old.last_reconcile_state or "InProgress",
        reason=ready.reason,
        message=message,
        again="waiting",
        generation=seen_generation,
    )


def expired(expires_at: str) -> Outcome:
    """Return the outcome of an access whose role was removed at its end."""
    return Outcome(
        state="Error",
        reason="Expired",
        message=f"the access ended at {expires_at}, as spec.expiresAfter says; raise that, or"
        " create another PostgresAccess",
        again="waiting",
    )


def login_over(end: LoginEnd) -> Outcome:
    """Return the outcome of an access that is in sync, and whose password logs in no more."""
    return Outcome(
        state="Error",
        reason="LoginEnded",
        message=(
            f"the login ended at {format_time(end.at)}, as {end.field} says; role, Secret and"
            " grants still exist; set a later end, or delete the object"
        ),
        again="synced",
    )


def previewed(plan: ShownPlan, why: Literal["", "Observe", "Manual"], void: str = "") -> Outcome:
    """Return the outcome of a pass that only plans its statements.

    Args:
        plan: the statements.
        why: the field that holds them back.
        void: an approval that is none of this plan, "" without one.
    """
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
                message=f"{IN_SYNC}; the operator would change nothing",
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
    if void:
        message += (
            f"; the approval {void[:_DIGEST_SHOWN]} is void because it approves other statements,"
            " or another server or database"
        )
    return Outcome(state="InProgress", reason="ApprovalPending", message=message, again="synced")


def plan_of(
    plan: ShownPlan | None,
    old: Plan | None,
    approved_by: str = "",
    approval: Approval | None = None,
    *,
    proves: bool = False,
) -> Plan | None:
    """Return the status.plan of a plan: its first statements, and the last approval.

    Args:
        plan: the statements that would run; with ``approved_by``, those that have run.
        old: the status.plan so far.
        approved_by: the field manager that has approved this plan, "" while it is not carried out.
        approval: the approval by which the plan is carried out, None without one.
        proves: whether to keep the hashes by which the rest of an approved plan is known.
    """
    before = Plan() if old is None else old
    if plan is None:
        approved = before.approved_digest
        return Plan(approved_digest=approved, approved_by=before.approved_by) if approved else None
    parts, done = plan.parts, [*before.done]
    digest = plan.digest() if parts else ""
    if approval is not None and approval.parts == frozenset(before.parts):
        # The rest of the plan that the status has, whose hashes are all of its digest.
        digest = digest_of([*before.parts, *before.done], plan.place, plan.after)
        parts = parts if plan.whole else approval.parts
        done += sorted(approval.parts - parts)
    else:
        done = []
    shown = Plan(
        digest=digest,
        statements=[
            f"{statement.database}: {statement.text}"[: bounds.STATUS_CHARACTERS]
            for statement in plan.statements[: bounds.STATUS_ITEMS]
        ],
        total=len(plan.statements),
        approved_digest=before.approved_digest,
        approved_by=before.approved_by,
    )
    if approved_by:
        return msgspec.structs.replace(shown, approved_digest=digest, approved_by=approved_by)
    parts_shown = parts if proves and len(parts) + len(done) <= bounds.STATUS_PARTS else ()
    return msgspec.structs.replace(
        shown, parts=sorted(parts_shown), done=done if parts_shown else []
    )


def approver_of(metadata: JSON) -> str:
    """Return the field manager of the last approval, and its time; "" where none is recorded."""
    field = f"f:{APPROVE_ANNOTATION}"
    approvals: list[tuple[str, str]] = []
    for entry in metadata.get("managedFields") or []:
        fields = (entry.get("fieldsV1") or {}).get("f:metadata") or {}
        if field in (fields.get("f:annotations") or {}):
            approvals.append((entry.get("time") or "", entry.get("manager") or "unknown"))
    if not approvals:
        return ""
    # The API server writes these times in UTC, so that they are in order as texts.
    time, manager = max(approvals)
    return f"{manager} at {time}" if time else manager


def failed(failure: PassFailure) -> Outcome:
    """Return the outcome of a failed action, or of a decision against an access."""
    error = failure.error
    goes_on = error.retry is Retry.GOES_ON
    if error.reason in _PASSING:
        return Outcome(
            state="InProgress",
            reason="Reconciling",
            message=f"{NOT_YET_IN_SYNC}: {error.message}",
            again="at-once" if goes_on else "pending",
        )
    if goes_on:
        return Outcome(state="Error", reason=failure.reason, message=str(error), again="at-once")
    return Outcome(
        state="Error",
        reason=error.reason if error.verdict else failure.reason,
        message=error.message if error.verdict else str(error),
        again="pending" if error.retry is Retry.CHANGE else "backoff",
        blockers=error.blockers,
    )


def removing(error: UnfinishedError, old: Deletion | None) -> Outcome:
    """Return the outcome of a removal in pieces that goes on, after ``old`` in the status."""
    # An earlier turn, maybe of a former process, has counted the objects before the first piece.
    total = max(error.total, old.total if old is not None else 0)
    gone = total - error.left
    message = (
        f"the operator has removed {gone:,} of {total:,} objects and privileges of the role; it"
        " removes the rest in pieces that leave room in the server's lock table"
    )
    return Outcome(
        state="InProgress",
        reason="Removing",
        message=message,
        again="at-once",
        progress=(gone, total),
    )


def deletion_of(
    blockers: Sequence[tuple[str, Sequence[str]]], progress: tuple[int, int] | None = None
) -> Deletion | None:
    """Return the status.deletion of a role's blockers and of its progress, None without any."""
    if not blockers and progress is None:
        return None
    removed, total = progress or (0, 0)
    return Deletion(
        removed=removed,
        total=total,
        blockers=[
            Blockers(database=name, objects=list(objects[: bounds.NAMED]))
            for name, objects in blockers[: bounds.STATUS_ITEMS]
        ],
        truncated=len(blockers) > bounds.STATUS_ITEMS
        or any(len(objects) > bounds.NAMED for _, objects in blockers),
    )


def problems(errors: Sequence[AccessError]) -> PassFailure:
    """Return several refused grants as one failure."""
    first = errors[0]
    if len(errors) == 1:
        return PassFailure("DatabaseSyncFailed", first)
    retries = {error.retry for error in errors}
    listed = "; ".join(dict.fromkeys(str(error) for error in errors[1:]))
    return PassFailure(
        "DatabaseSyncFailed",
        AccessError(
            first.reason,
            f"{first.message}; {listed}",
            retry=next(one for one in _SOONEST if one in retries),
        ),
    )


def new_status(
    old: PostgresAccessStatus,
    outcome: Outcome,
    *,
    generation: int,
    now: str,
    refused: bool,
) -> PostgresAccessStatus:
    """Return the status after a pass, equal to the old one where nothing has changed.

    The state of the login stays; a decision against the access (``refused``) removes the binding.
    """
    conditions = old.conditions
    generation = generation if outcome.generation is None else outcome.generation
    message = " ".join(outcome.message.split())[: bounds.STATUS_CHARACTERS]
    stalled = outcome.state == "Error" and outcome.again in {"pending", "waiting", "synced"}
    progress = outcome.progress
    if progress is None and old.deletion is not None and outcome.state != "Success":
        # What keeps the next piece does not take back the others.
        progress = (old.deletion.removed, old.deletion.total) if old.deletion.total else None
    for type_, holds in (
        (READY, outcome.state == "Success"),
        (SUCCESS, outcome.state == "Success"),
        (IN_PROGRESS, outcome.state == "InProgress"),
        (RECONCILING, outcome.state != "Success" and not stalled),
        (STALLED, stalled),
    ):
        if type_ in {RECONCILING, STALLED} and not holds:
            # kstatus expects these two conditions only while they hold.
            conditions = [one for one in conditions if one.type != type_]
            continue
        status: ConditionStatus = "True" if holds else "False"
        new = Condition(type_, status, outcome.reason, message, "", generation)
        conditions = set_condition(conditions, new, now=now)
    return msgspec.structs.replace(
        old,
        conditions=conditions,
        last_reconcile_state=outcome.state,
        last_log=message,
        observed_generation=generation,
        deletion=deletion_of(outcome.blockers, progress),
        binding=None if refused else old.binding,
    )


def access_events(old: Object, new: Object) -> list[Event]:
    """Return the events for a change of a PostgresAccess's status."""
    before, after = _status(old), _status(new)
    event = ready_event(before, after)
    return [*([] if event is None else [event]), *change_events(before, after)]


def _status(access: Object) -> PostgresAccessStatus:
    """Return the status, an empty one where another writer made it invalid."""
    try:
        return access.decode(_WithStatus).status
    except msgspec.ValidationError:
        return PostgresAccessStatus()


class _WithStatus(msgspec.Struct):
    status: PostgresAccessStatus = msgspec.field(default_factory=PostgresAccessStatus)


def change_events(old: PostgresAccessStatus, new: PostgresAccessStatus) -> list[Event]:
    """Return the events beside that of the verdict: renamed roles, and a change of the server."""
    events = [
        Event("Warning", "RoleRenamed", warning)
        for warning in new.warnings
        if RENAMED in warning and warning not in old.warnings
    ]
    near, former = get_condition(new.conditions, EXPIRING), get_condition(old.conditions, EXPIRING)
    if (
        near is not None
        and near.reason == "EndsSoon"
        and (former is None or former.message != near.message)
    ):
        events.append(Event("Warning", near.reason, near.message))
    before, after = old.server, new.server
    if before is None or after is None or not before.system_identifier:
        return events
    if before.system_identifier != after.system_identifier:
        text = (
            f"the object's server was {before.host}, and is now another server, {after.host}:"
            f" role {new.username} stays on the former server and can still log in; drop it there"
        )
        events.append(Event("Warning", "ServerChanged", text))
    return events


def renamed(role: str) -> str:
    """Return the warning about a role that carries an access's claim under another name."""
    return (
        f"role {role} {RENAMED}: it was renamed, so the operator removed its login; drop the"
        " role, or rename it back"
    )


def ready_event(old: PostgresAccessStatus, new: PostgresAccessStatus) -> Event | None:
    """Return the event for a change of the Ready condition, None without one."""
    before, after = get_condition(old.conditions, READY), get_condition(new.conditions, READY)
    if after is None or new.last_reconcile_state == "InProgress":
        return None
    if before is not None and (before.status, before.reason, before.message) == (
        after.status,
        after.reason,
        after.message,
    ):
        return None
    if after.status == "True" and after.message.startswith(AS_LAST_SEEN):
        return Event("Warning", "AuthenticationFailed", after.message)
    if after.status == "True":
        return Event("Normal", "ReconcileSuccess", f"{IN_SYNC} and ready")
    return Event("Warning", after.reason, after.message)
