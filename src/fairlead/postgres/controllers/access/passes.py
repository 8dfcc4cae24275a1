"""A pass over one PostgresAccess: its observed state, and the actions that are left.

:func:`plan_pass` plans them from two values alone, :class:`Desired` and :class:`Observed`. The
controller takes the first action and goes on with the others, and plans again where
:func:`plan_on` sees another result than the plan foresaw. (The statements for a
server are another plan, by ``plan_server`` of ``database/plans``.)

Each box of access-operator's flowchart is an action or a stage here, and so is each optional
feature; without the stages that a comment marks by a field, the rest is that flowchart: finalizer,
Secret, database, status. Every edge is a row of a table test. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Literal, NamedTuple

import msgspec

from fairlead.api.postgresaccess import APPROVE_ANNOTATION, PasswordInfo, Uris
from fairlead.postgres.controllers.rules.desired import Desired, ServerPlace
from fairlead.postgres.database.plans.approvals import Approval, digest_of
from fairlead.postgres.database.plans.password import ITERATIONS
from fairlead.postgres.database.plans.plan import ShownPlan, Synced, WantedState
from fairlead.postgres.errors import AccessError


class Action(Enum):
    """An action of a pass, as a box of the flowchart tells it."""

    IGNORE = "nothing to do"
    ADD_FINALIZER = "add the finalizer"
    RESOLVE = "find the server and its policy"
    PREVIEW = "see what would be done"
    CHECK_ROLE = "see whether the role may be the access's own"
    STAGE_LOGIN = "bring the next login into the database"
    CHANGE_PASSWORD = "change the password, with the generated Secret"  # noqa: S105
    WRITE_SECRET = "write the generated Secret"  # noqa: S105
    SYNC_DATABASE = "bring role and grants into the database"
    GIVE_UP = "record that the role is given up"
    DROP_ROLE = "remove the role"
    REMOVE_FINALIZER = "remove the finalizer"
    REPORT = "write the status"


ActionsLeft = tuple[Action, ...]
"""Actions of a pass that are left, in their order, as far as they are known."""

Reason = Literal["FinalizeFailed", "SecretSyncFailed", "DatabaseSyncFailed"]

_FAILURES: dict[Action, Reason] = {
    Action.ADD_FINALIZER: "FinalizeFailed",
    Action.GIVE_UP: "FinalizeFailed",
    Action.DROP_ROLE: "FinalizeFailed",
    Action.REMOVE_FINALIZER: "FinalizeFailed",
    Action.WRITE_SECRET: "SecretSyncFailed",
}
"""Reasons of failed actions, other than DatabaseSyncFailed."""


class PassFailure(msgspec.Struct, frozen=True):
    """An action that failed, or a decision against the access."""

    reason: Reason
    error: AccessError


class ServerOutcome(NamedTuple):
    """The state in which a pass has left a server that it has read again.

    The pass right after a new password need not ask the server for the same state again.
    """

    place: ServerPlace
    state: WantedState
    done: Synced

    def holds(self, place: ServerPlace, state: WantedState) -> bool:
        """Whether an access with Authoritative grants wants the same state of the same server."""
        same = msgspec.structs.replace(state, ledger=self.state.ledger) == self.state
        return place == self.place and state.policy == "Authoritative" and same

    @property
    def synced(self) -> Synced:
        """Return the answer to the same request once more, without changes."""
        return msgspec.structs.replace(self.done, changed=False, created=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Credentials:
    """The login and its password, on their way into the generated Secret.

    Most passes find the password in the Secret, or write a first one, and nothing is ``left``. A
    password that replaces another one must work before a client reads it. The next one of two
    logins is staged: the server has it first, and then the Secret. A change in place is one
    transaction of the server, with the Secret written before its commit: both have it, or none.
    Another server gets the role before the Secret sends clients there.
    """

    left: Action | None = Action.WRITE_SECRET
    """Next action: one at the server before the Secret is written, None once it is written."""
    is_staged: bool = False
    """Whether the login works on the server already, and the Secret follows."""
    is_new: bool = False
    """Whether the password was generated in this pass."""
    login: str = ""
    """Name of the role that has the password."""
    password: str = field(default="", repr=False)
    iterations: int = ITERATIONS
    secret_uid: str = ""
    uris: Uris = "Verified"
    """Form of the URIs in the Secret."""
    info: PasswordInfo | None = None
    postponed: bool = False
    """Whether a due change of the password waits for an answer of the server."""
    elsewhere: bool = False
    """Whether the server has another password of the login than the Secret."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Observed:
    """The Secret and the server as they were read, and the results of the last actions.

    ``published`` tells that the generated Secret exists, ``keeps_password`` that it does not
    because the role keeps its unknown password, ``rotating`` that a new password may be due.
    """

    published: bool = False
    keeps_password: bool = False
    rotating: bool = False
    renamed: frozenset[str] = frozenset()
    """Names of renamed roles that carry the claim of this access."""
    unchanged: bool = False
    """Whether a suspended spec is known to be the one that its status is about."""
    verified: ServerOutcome | None = None
    preview: ShownPlan | None = None
    """Statements that would run, where spec.mode or spec.approval holds them back."""
    role: Literal["unknown", "silent", "free"] = "unknown"
    """The server's answer: the role is ``free`` for the access; ``silent`` is no answer."""
    credentials: Credentials = Credentials()
    state: WantedState | None = None
    """Wanted state that the last answer of the server is about."""
    synced: Synced | None = None
    released: bool = False
    """Whether the role was dropped or given up."""
    failure: PassFailure | None = None

    @property
    def in_sync(self) -> bool:
        """Whether the server has the wanted state, with the password of the Secret."""
        return self.synced is not None and not self.credentials.elsewhere

    def previewed(self, desired: Desired, plan: ShownPlan) -> Observed:
        """Return the observed state with the statements that would run."""
        before = desired.access.status.plan
        after = before.approved_digest if before is not None else ""
        return replace(self, preview=msgspec.structs.replace(plan, after=after))

    def checked(self, *, answered: bool) -> Observed:
        """Return the observed state after the check of the role's owner, ``answered`` or not."""
        return replace(self, role="free" if answered else "silent")

    def with_secret(self) -> Observed:
        """Return the observed state of an access whose role keeps the password of its Secret."""
        return replace(self, keeps_password=False)

    def as_published(self) -> Observed:
        """Return the observed state of an access whose Secret exists, which the cache lacks."""
        return replace(self, published=True)

    def with_login(self, credentials: Credentials) -> Observed:
        """Return the observed state with login and password of the present or the next Secret."""
        return replace(self, credentials=credentials)

    def staged(self, done: Synced) -> Observed:
        """Return the observed state once the next login works on the server."""
        staged = replace(self.credentials, left=Action.WRITE_SECRET, is_staged=True)
        observed = replace(self, credentials=staged)
        # Without a former login that has yet to end, this was all that a sync would do.
        settled = done.has_one_login and not done.problems
        return replace(observed, synced=done) if settled else observed

    def brought(self, done: Synced, state: WantedState | None) -> Observed:
        """Return the observed state once the server has the wanted state."""
        credentials = self.credentials
        if credentials.elsewhere:
            credentials = replace(credentials, elsewhere=False)
        return replace(self, synced=done, state=state, credentials=credentials)

    def without_role(self) -> Observed:
        """Return the observed state once the role was dropped or given up."""
        return replace(self, released=True)

    def failed(self, action: Action, error: AccessError) -> Observed:
        """Return the observed state after a failed action."""
        reason = _FAILURES.get(action, "DatabaseSyncFailed")
        return replace(self, failure=PassFailure(reason, error))


def observed_of(
    desired: Desired,
    *,
    published: bool = False,
    keeps_password: bool = False,
    rotating: bool = False,
    renamed: frozenset[str] = frozenset(),
    unchanged: bool = False,
    verified: ServerOutcome | None = None,
) -> Observed:
    """Return the observed state of a PostgresAccess before the first action."""
    observed = Observed(
        published=published,
        keeps_password=keeps_password,
        rotating=rotating,
        renamed=renamed,
        unchanged=unchanged,
        verified=verified,
    )
    # The finalizer of an abandoned object goes even if the object cannot be decoded.
    if desired.refused is None or (desired.deleting and desired.abandoned):
        return observed
    action = Action.DROP_ROLE if desired.deleting else Action.RESOLVE
    return observed.failed(action, desired.refused)


def approval_of(desired: Desired, plan: ShownPlan | None) -> Approval | None:
    """Return the approval by which a plan is carried out; None if the plan waits for one.

    The plan may be the rest of the approved one, whose hashes the status has.
    """
    if plan is None or desired.held_back_by != "Manual":
        return None
    digest = desired.obj.meta.annotations.get(APPROVE_ANNOTATION, "")
    # Refused statements do not block approval of the others.
    if plan.parts and digest == plan.digest():
        return plan.approval
    former = desired.access.status.plan
    if former is not None and former.parts:
        is_proven = digest_of([*former.parts, *former.done], plan.place, plan.after) == digest
        approval = Approval(place=plan.place, parts=frozenset(former.parts))
        if is_proven and plan.is_within(approval):
            return approval
    return None if plan.parts or plan.refused else plan.approval


Stage = Callable[[Desired, Observed], ActionsLeft]
"""A function from desired and observed state to actions; REPORT ends a plan."""


def _finalizer(desired: Desired, _: Observed) -> ActionsLeft:
    # Without the finalizer the object could go before its role and Secret are removed.
    return () if desired.finalized else (Action.ADD_FINALIZER,)


def _exclusion(desired: Desired, _: Observed) -> ActionsLeft:
    return (Action.REPORT,) if desired.excluded else ()


def _suspension(desired: Desired, _: Observed) -> ActionsLeft:
    return (Action.REPORT,) if desired.access.spec.suspend else ()


def _expiry(desired: Desired, observed: Observed) -> ActionsLeft:
    if not desired.expired:
        return ()
    # In mode Observe nothing is removed; the server itself ends the login (VALID UNTIL).
    over = observed.released or desired.ended or desired.held_back_by == "Observe"
    return (Action.REPORT,) if over else (Action.DROP_ROLE, Action.REPORT)


def _server(desired: Desired, _: Observed) -> ActionsLeft:
    return () if desired.place is not None else (Action.RESOLVE,)


def _former(desired: Desired, observed: Observed) -> ActionsLeft:
    # A role of another username would be the second one of this object.
    return (Action.CHECK_ROLE,) if desired.former and observed.role == "unknown" else ()


def _approval(desired: Desired, observed: Observed) -> ActionsLeft:
    if not desired.held_back_by:
        return ()
    if observed.preview is None:
        return (Action.PREVIEW, Action.REPORT)
    return () if approval_of(desired, observed.preview) is not None else (Action.REPORT,)


def _ownership(_: Desired, observed: Observed) -> ActionsLeft:
    # A refused access gets no Secret, for its login would not work. An unreachable server gets no
    # new password, for the old one still works there.
    is_checked = observed.role != "unknown" or observed.keeps_password
    needed = observed.rotating or not observed.published
    return (Action.CHECK_ROLE,) if needed and not is_checked else ()


def _two_logins(_: Desired, observed: Observed) -> ActionsLeft:
    left = observed.credentials.left
    return (Action.STAGE_LOGIN,) if left is Action.STAGE_LOGIN else ()


def _change_in_place(_: Desired, observed: Observed) -> ActionsLeft:
    left = observed.credentials.left
    return (Action.CHANGE_PASSWORD,) if left is Action.CHANGE_PASSWORD else ()


def _secret(_: Desired, observed: Observed) -> ActionsLeft:
    left = observed.credentials.left
    # A change in place writes the Secret itself.
    done = left in {None, Action.CHANGE_PASSWORD}
    first_synced = left is Action.SYNC_DATABASE and not observed.in_sync
    return () if done or first_synced else (Action.WRITE_SECRET,)


def _statements(_: Desired, observed: Observed) -> ActionsLeft:
    if observed.in_sync:
        return ()
    moves = observed.credentials.left is Action.SYNC_DATABASE
    return (Action.SYNC_DATABASE, Action.WRITE_SECRET) if moves else (Action.SYNC_DATABASE,)


def _report(_: Desired, __: Observed) -> ActionsLeft:
    return (Action.REPORT,)


STAGES: tuple[Stage, ...] = (
    _finalizer,
    _exclusion,
    _suspension,  # spec.suspend
    _expiry,  # spec.expiresAfter
    _server,
    _former,  # spec.username
    _approval,  # spec.mode and spec.approval
    _ownership,  # spec.adoptionPolicy
    _two_logins,  # spec.passwordPolicy.rotation
    _change_in_place,  # spec.passwordPolicy.rotateEvery, the annotation rotate-at, a given one
    _secret,
    _statements,
    _report,
)
"""Stages of an object that is not being deleted, in their order; a comment names the field."""


def _role(desired: Desired, observed: Observed) -> ActionsLeft:
    # An excluded role stays, and so does one that its user abandons.
    if desired.excluded or observed.released:
        return ()
    return (Action.GIVE_UP,) if desired.abandoned else (Action.DROP_ROLE,)


def _end(_: Desired, __: Observed) -> ActionsLeft:
    return (Action.REMOVE_FINALIZER,)


FINALIZING: tuple[Stage, ...] = (_role, _end)
"""Stages of an object that is being deleted, in their order."""


def plan_pass(desired: Desired, observed: Observed) -> ActionsLeft:
    """Return the actions that are left, without a repetition."""
    if desired.deleting and not desired.finalized:
        return (Action.IGNORE,)
    if observed.failure is not None:
        return (Action.REPORT,)
    actions: list[Action] = []
    for stage in FINALIZING if desired.deleting else STAGES:
        # One check answers for a former username and for the role.
        actions += [action for action in stage(desired, observed) if action not in actions]
        # What would come after a report is planned by a later pass.
        if Action.REPORT in actions:
            break
    return tuple(actions)


def plan_on(plan: ActionsLeft, before: Observed, desired: Desired, after: Observed) -> ActionsLeft:
    """Return the actions that are left after the first one of a plan.

    They are the rest of the plan, unless the result is another one than it foresaw.

    Args:
        plan: the actions that were left before the first one was taken.
        before: the observed state before that action.
        desired: the desired state after it.
        after: the observed state after it.
    """
    if after.failure is not None:
        return (Action.REPORT,)
    match plan[0]:
        case Action.ADD_FINALIZER | Action.CHECK_ROLE:
            foreseen = True
        case Action.RESOLVE:
            foreseen = after.keeps_password == before.keeps_password
        case Action.WRITE_SECRET:
            foreseen = after.credentials.left is None and after.in_sync == before.in_sync
        case Action.SYNC_DATABASE:
            foreseen = after.in_sync
        case Action.GIVE_UP | Action.DROP_ROLE:
            foreseen = after.released
        case _:
            # A preview may be approved, and a changed password may be all that a sync would do.
            foreseen = False
    return plan[1:] if foreseen else plan_pass(desired, after)
