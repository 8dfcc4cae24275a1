"""A pass over one PostgresAccess: what was read of it, and the plan of what is left to be done.

The plan is a function of two values, :class:`Desired` and :class:`Observed`. The controller takes
its first action, reads what came of that, and plans again. The flowchart is that of the
access-operator project: each of its boxes is a stage, and so is each thing that is optional. Every
edge is a row of a table test. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Literal, NamedTuple

import msgspec

from fairlead.api.postgresaccess import APPROVE_ANNOTATION, PasswordInfo
from fairlead.postgres.controllers.rules.desired import Desired, Place
from fairlead.postgres.database.plans.password import ITERATIONS
from fairlead.postgres.database.plans.plan import Planned, Synced, Wanted
from fairlead.postgres.errors import AccessError


class Action(Enum):
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


Plan = tuple[Action, ...]
"""The actions that are left, in their order, as far as that is known."""

Reason = Literal["FinalizeFailed", "SecretSyncFailed", "DatabaseSyncFailed"]

_FAILURES: dict[Action, Reason] = {
    Action.ADD_FINALIZER: "FinalizeFailed",
    Action.GIVE_UP: "FinalizeFailed",
    Action.DROP_ROLE: "FinalizeFailed",
    Action.REMOVE_FINALIZER: "FinalizeFailed",
    Action.WRITE_SECRET: "SecretSyncFailed",
}
"""The reason under which an action fails, where that is not DatabaseSyncFailed."""


class Failure(msgspec.Struct, frozen=True):
    """An action that failed, or a decision against the access."""

    reason: Reason
    error: AccessError


class Verified(NamedTuple):
    """The state in which a pass has left a server that it has read again.

    The pass that follows at once on a new password need not ask for the same a second time.
    """

    place: Place
    wanted: Wanted
    done: Synced

    def holds(self, place: Place, wanted: Wanted) -> bool:
        """Whether the same is wanted there: not where it depends on what was granted before."""
        same = msgspec.structs.replace(wanted, ledger=self.wanted.ledger) == self.wanted
        return place == self.place and wanted.policy == "Authoritative" and same

    @property
    def synced(self) -> Synced:
        """Return the answer to asking once more: nothing is changed."""
        return msgspec.structs.replace(self.done, changed=False, created=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Credentials:
    """The login and its password, and how far the Secret has them.

    ``state`` tells whether the Secret had the password already, or is to have none. Of two logins
    the next one is ``due`` in the database before the Secret has it, and then it is ``staged``. A
    password that is ``changing`` in its place is the server's before it is the Secret's, and
    neither's if one of them refuses.
    """

    state: Literal["unknown", "due", "staged", "changing", "reused", "generated", "none"] = (
        "unknown"
    )
    login: str = ""
    """The role that the password is of."""
    password: str = field(default="", repr=False)
    iterations: int = ITERATIONS
    secret_uid: str = ""
    info: PasswordInfo | None = None
    postponed: bool = False
    """Whether a new password is due that waits for an answer of the server."""
    elsewhere: bool = False
    """Whether the server was given another password of the login before the Secret had this."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Observed:
    """The Secret and the server as they were read, and how the last actions have ended.

    ``published`` says that there is a generated Secret, ``keeping`` that there is none because the
    role keeps a password that is not known here, ``rotating`` that its password may be due.
    """

    published: bool = False
    keeping: bool = False
    rotating: bool = False
    renamed: frozenset[str] = frozenset()
    """Roles that carry the claim of this access under another name."""
    unchanged: bool = False
    """Whether a suspended spec is known to ask for what its status tells of."""
    verified: Verified | None = None
    plan: Planned | None = None
    role: Literal["unknown", "silent", "free"] = "unknown"
    """Whether the server has said that the role may be the access's own, or gave no answer."""
    credentials: Credentials = Credentials()
    wanted: Wanted | None = None
    """The wishes that the last answer of the server is about."""
    synced: Synced | None = None
    released: bool = False
    """Whether the role was dropped or given up."""
    failure: Failure | None = None

    @property
    def in_sync(self) -> bool:
        """Whether the server has all that is wanted, with the password of the Secret."""
        return self.synced is not None and not self.credentials.elsewhere

    def planned(self, desired: Desired, plan: Planned) -> Observed:
        """Return the same with the statements that would be run."""
        before = desired.access.status.plan
        after = before.approved_digest if before is not None else ""
        return replace(self, plan=msgspec.structs.replace(plan, after=after))

    def checked(self, *, answered: bool) -> Observed:
        """Return the same once the role is not another's, as far as can be said."""
        return replace(self, role="free" if answered else "silent")

    def with_login(self, credentials: Credentials) -> Observed:
        """Return the same with the login and password that the Secret has, or shall have."""
        return replace(self, credentials=credentials)

    def staged(self, done: Synced) -> Observed:
        """Return the same once the server lets the next login in."""
        found = replace(self, credentials=replace(self.credentials, state="staged"))
        settled = done.is_settled and not done.problems
        return replace(found, synced=done) if settled else found

    def brought(self, done: Synced, wanted: Wanted | None) -> Observed:
        """Return the same once the server has what is wanted."""
        credentials = self.credentials
        if credentials.elsewhere:
            credentials = replace(credentials, elsewhere=False)
        return replace(self, synced=done, wanted=wanted, credentials=credentials)

    def without_role(self) -> Observed:
        """Return the same once the role was dropped or given up."""
        return replace(self, released=True)

    def failed(self, action: Action, error: AccessError) -> Observed:
        """Return the same after an action that failed."""
        reason = _FAILURES.get(action, "DatabaseSyncFailed")
        return replace(self, failure=Failure(reason, error))


def first_look(
    desired: Desired,
    *,
    published: bool = False,
    keeping: bool = False,
    rotating: bool = False,
    renamed: frozenset[str] = frozenset(),
    unchanged: bool = False,
    verified: Verified | None = None,
) -> Observed:
    """Return what is known of a PostgresAccess before anything was done; see :class:`Observed`."""
    found = Observed(
        published=published,
        keeping=keeping,
        rotating=rotating,
        renamed=renamed,
        unchanged=unchanged,
        verified=verified,
    )
    # An object that cannot be decoded can still be let go of.
    if desired.refused is None or (desired.deleting and desired.abandoned):
        return found
    action = Action.DROP_ROLE if desired.deleting else Action.RESOLVE
    return found.failed(action, desired.refused)


def is_approved(desired: Desired, plan: Planned | None) -> bool:
    """Whether the plan of an access was approved, where that is asked for."""
    if plan is None or desired.planning != "Manual":
        return False
    asked = desired.found.meta.annotations.get(APPROVE_ANNOTATION, "")
    # What cannot be had does not hinder an approval of the rest.
    return asked == plan.digest() if plan.statements else not plan.refused


Stage = Callable[[Desired, Observed], Plan]
"""From what is desired and observed to actions; REPORT is the last one of a plan."""


def _finalizer(desired: Desired, _: Observed) -> Plan:
    # Without it the object could be gone before anybody removes what is made from here on.
    return () if desired.finalized else (Action.ADD_FINALIZER,)


def _exclusion(desired: Desired, _: Observed) -> Plan:
    return (Action.REPORT,) if desired.excluded else ()


def _suspension(desired: Desired, _: Observed) -> Plan:
    return (Action.REPORT,) if desired.access.spec.suspend else ()


def _expiry(desired: Desired, observed: Observed) -> Plan:
    if not desired.expired:
        return ()
    # Who only observes removes nothing; the server itself ends the login (VALID UNTIL).
    over = observed.released or desired.ended or desired.planning == "Observe"
    return (Action.REPORT,) if over else (Action.DROP_ROLE, Action.REPORT)


def _server(desired: Desired, _: Observed) -> Plan:
    return () if desired.place is not None else (Action.RESOLVE,)


def _approval(desired: Desired, observed: Observed) -> Plan:
    if not desired.planning:
        return ()
    if observed.plan is None:
        return (Action.PLAN, Action.REPORT)
    return () if is_approved(desired, observed.plan) else (Action.REPORT,)


def _ownership(_: Desired, observed: Observed) -> Plan:
    # A refused access gets no Secret, for that would log in nowhere; and no password is made anew
    # for a server that is away, for the old one still logs in there.
    asked = observed.role != "unknown" or observed.keeping
    needed = observed.rotating or not observed.published
    return (Action.CHECK_ROLE,) if needed and not asked else ()


def _two_logins(_: Desired, observed: Observed) -> Plan:
    return (Action.STAGE_LOGIN,) if observed.credentials.state == "due" else ()


def _change_in_place(_: Desired, observed: Observed) -> Plan:
    return (Action.CHANGE_PASSWORD,) if observed.credentials.state == "changing" else ()


def _secret(_: Desired, observed: Observed) -> Plan:
    open_ = observed.credentials.state in {"unknown", "due", "staged"}
    return (Action.WRITE_SECRET,) if open_ else ()


def _statements(_: Desired, observed: Observed) -> Plan:
    return () if observed.in_sync else (Action.SYNC_DATABASE,)


def _report(_: Desired, __: Observed) -> Plan:
    return (Action.REPORT,)


STAGES: tuple[Stage, ...] = (
    _finalizer,
    _exclusion,
    _suspension,  # spec.suspend
    _expiry,  # spec.expiresAfter
    _server,
    _approval,  # spec.mode and spec.approval
    _ownership,  # spec.adoptionPolicy decides in it
    _two_logins,  # spec.passwordPolicy.rotation
    _change_in_place,
    _secret,
    _statements,
    _report,
)
"""The stages of an object that is there, in their order; those with a field are optional."""


def _role(desired: Desired, observed: Observed) -> Plan:
    # No role is dropped that is excluded, or given up by its user.
    if desired.excluded or observed.released:
        return ()
    return (Action.GIVE_UP,) if desired.abandoned else (Action.DROP_ROLE,)


def _end(_: Desired, __: Observed) -> Plan:
    return (Action.REMOVE_FINALIZER,)


FINALIZING: tuple[Stage, ...] = (_role, _end)
"""The stages of an object that is being deleted, in their order."""


def plan(desired: Desired, observed: Observed) -> Plan:
    """Return the actions that are left; the first is to be taken, and what came of it read."""
    if desired.deleting and not desired.finalized:
        return (Action.IGNORE,)
    if observed.failure is not None:
        return (Action.REPORT,)
    actions: list[Action] = []
    for stage in FINALIZING if desired.deleting else STAGES:
        actions += stage(desired, observed)
        if Action.REPORT in actions:
            break
    return tuple(actions)
