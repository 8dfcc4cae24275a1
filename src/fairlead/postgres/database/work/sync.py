"""Syncs the accesses of one server together: a few statements read for all of them.

It reads the server, plans, runs the plan and reads again, because PostgreSQL answers OK to grants
that it did not make. Shared catalogs are written in the maintenance database, in one
transaction for all accesses, which holds the roles that it changes; privileges on objects are
written in each database. A failed change is tried alone, so that no access waits because of an
error of another one. In work on a batch a locked access is given up at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import psycopg

from fairlead.postgres import bounds
from fairlead.postgres.database.connections.acting import acting_as
from fairlead.postgres.database.connections.failures import (
    LOCKED_STATE,
    TRANSIENT_STATES,
    not_applied,
)
from fairlead.postgres.database.connections.session import BRIEF, BRIEF_READING, PATIENT, Session
from fairlead.postgres.database.connections.sessions import Sessions
from fairlead.postgres.database.plans.approvals import Approval
from fairlead.postgres.database.plans.differences import Actor
from fairlead.postgres.database.plans.groups import joined, plan_leaving
from fairlead.postgres.database.plans.login_statements import login_infos, retired
from fairlead.postgres.database.plans.plan import (
    SessionsEnd,
    Synced,
    WantedState,
)
from fairlead.postgres.database.plans.server_plan import (
    BatchPlan,
    ObservedServer,
    plan_server,
    warnings_of,
)
from fairlead.postgres.database.plans.snapshot import (
    RoleClaim,
    RoleFacts,
    ServerSnapshot,
    check_adoption,
    check_roles,
    takes_over,
)
from fairlead.postgres.database.plans.statements import AccessStatement
from fairlead.postgres.database.reading.actors import read_owning_actors
from fairlead.postgres.database.reading.catalog import observe, read_around, read_snapshot
from fairlead.postgres.database.reading.comparison import unapproved
from fairlead.postgres.database.reading.verifiers import Verifiers
from fairlead.postgres.database.work.blockers import end_all_sessions, watching
from fairlead.postgres.database.work.changing import (
    Changing,
    HoldingStatement,
    raise_what_is_nobodys,
)
from fairlead.postgres.database.work.cleanup import drop_logins
from fairlead.postgres.database.work.groups import leave_groups
from fairlead.postgres.database.work.holding import check_held
from fairlead.postgres.database.work.privileges import PiecesTurn, Visits, visit_databases
from fairlead.postgres.database.work.retries import give_way, pause
from fairlead.postgres.errors import AccessError, PasswordForm, refusal


class Check(NamedTuple):
    """Check that a claim may have the roles, username first; the answer is None or an error.

    It is UsernameChanged if a role ``former`` has the claim already. With ``adopt`` the first role
    may be adopted if it has no claim. With ``keeps_password`` no password of the role is set.
    """

    names: tuple[str, ...]
    claim: RoleClaim
    adopt: bool = False
    former: str = ""
    keeps_password: bool = False

    @property
    def username(self) -> str:
        """Return the username of the role."""
        return self.names[0]


async def check_claims(
    sessions: Sessions, checks: Sequence[Check]
) -> dict[str, AccessError | None]:
    """Return by username why an access may not create or change its roles; None if it may.

    Args:
        sessions: the sessions of the server.
        checks: the roles and claims to check.

    Raises:
        AccessError: the server could not be read.
    """
    async with sessions.working("read the catalogs") as session:
        names = {name for one in checks for name in (*one.names, one.former) if name}
        snapshot = await read_snapshot(session, names, "", whole=False)
        taken_over = [
            check.username
            for check in checks
            if takes_over(snapshot.roles.get(check.username), adopt=check.adopt)
        ]
        around = await read_around(session, taken_over)
    refused: dict[str, AccessError | None] = {}
    for check in checks:
        username = check.username
        role, refused[username] = snapshot.roles.get(username), None
        try:
            _check_former(snapshot.roles.get(check.former), check)
            check_roles(check.names, snapshot, check.claim, adopt=check.adopt)
            check_adoption(role, around.groups, adopt=check.adopt)
        except AccessError as error:
            refused[username] = error
    return refused


def _check_former(role: RoleFacts | None, check: Check) -> None:
    if role is not None and role.claim is not None and role.claim.same_object(check.claim):
        raise refusal(
            "UsernameChanged",
            f"spec.username was {role.name} and cannot be changed; set it back, or create another"
            " PostgresAccess",
        )


async def sync(
    sessions: Sessions,
    states: Sequence[WantedState],
    verifiers: Verifiers,
    *,
    at_once: int = 3,
    brief: bool = False,
    turn: PiecesTurn | None = None,
    approval: Approval | None = None,
) -> dict[str, Synced | AccessError]:
    """Bring roles, passwords and grants into their desired state; return outcomes by username.

    Errors of single grants are among the ``problems`` of a :class:`Synced`.

    Args:
        sessions: the sessions of the server.
        states: accesses with different usernames.
        verifiers: the known verifiers of the server.
        at_once: number of databases that are worked on at the same time.
        brief: whether an access is given up at the first lock of another session (``Locked``), or
            if it has very many objects or is slow to read (``TimedOut``), to be tried alone later.
        turn: the turn of one access with very many privileges, in which its grants are settled in
            pieces, each committed; None to settle them at once.
        approval: the approval of the changes of one access, without which none is made; None if
            they need none.

    Raises:
        AccessError: the server refused or did not answer.
    """
    if brief:
        # A batch waits 20 ms for a lock, too short to look up who holds it.
        return await _sync(
            sessions, states, verifiers, at_once=at_once, brief=True, approval=approval
        )
    async with watching(sessions) as blockers:
        outcome = await _sync(
            sessions,
            states,
            verifiers,
            at_once=at_once,
            brief=False,
            turn=turn,
            approval=approval,
        )
    for username, answer in outcome.items():
        if isinstance(answer, AccessError):
            outcome[username] = blockers.named(answer)
        else:
            problems = tuple(map(blockers.named, answer.problems))
            outcome[username] = msgspec.structs.replace(answer, problems=problems)
    return outcome


async def retire(
    sessions: Sessions, state: WantedState, answer: Synced | AccessError, *, brief: bool
) -> Synced | AccessError:
    """Drop logins that have ended for good; return the answer without them."""
    if isinstance(answer, AccessError) or not answer.retired:
        return answer
    try:
        await drop_logins(sessions, state.username, answer.retired, state.claim, brief=brief)
    except AccessError as error:
        return msgspec.structs.replace(answer, problems=(*answer.problems, error))
    left = tuple(one for one in answer.logins if one.name not in answer.retired)
    # As in ``login_infos``: the current login by itself is not told of.
    if all(one.current for one in left):
        left = ()
    return msgspec.structs.replace(answer, logins=left, changed=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Batch:
    """The accesses that are synced together, by username."""

    sessions: Sessions
    states: Mapping[str, WantedState]
    verifiers: Verifiers
    brief: bool
    approval: Approval | None = None

    @property
    def installation(self) -> str:
        """The installation of the accesses, "" if there are none."""
        return next((one.claim.installation for one in self.states.values()), "")

    async def plan(self, session: Session, failed: Mapping[str, AccessError]) -> _PlannedBatch:
        """Read the server and plan, without the accesses that have failed."""
        left = [one for name, one in self.states.items() if name not in failed]
        most = bounds.CROWD if self.brief else None
        observed = await observe(self.sessions, session, left, self.verifiers, most=most)
        plan = plan_server(left, observed, self.sessions.endpoint.revoke_public)
        if not self._permits(plan):
            maintenance = self.sessions.endpoint.maintenance
            refused = {role.username: unapproved(role.username, maintenance) for role in left}
            observed = msgspec.structs.replace(observed, refused={**observed.refused, **refused})
            plan = plan_server(left, observed)
        return _PlannedBatch(observed, plan, {**failed, **observed.refused})

    def _permits(self, plan: BatchPlan) -> bool:
        """Whether all changes were approved, or need no approval."""
        database = self.sessions.endpoint.maintenance
        return self.approval is None or all(
            self.approval.allows(database, change.text) for change in plan.changes
        )


class _PlannedBatch(NamedTuple):
    """The server as it was read, the plan for it, and by username the errors of failed accesses.

    ``failed`` has those that were refused, too: the plan has nothing for either.
    """

    observed: ObservedServer
    plan: BatchPlan
    failed: Mapping[str, AccessError]


class _Written(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of the changes to roles; ``problems`` are by the names of roles and groups."""

    failed: Mapping[str, AccessError] = {}
    problems: Mapping[str, Sequence[AccessError]] = {}
    changed: frozenset[str] = frozenset()
    created: frozenset[str] = frozenset()


async def _sync(
    sessions: Sessions,
    states: Sequence[WantedState],
    verifiers: Verifiers,
    *,
    at_once: int,
    brief: bool,
    turn: PiecesTurn | None = None,
    approval: Approval | None = None,
) -> dict[str, Synced | AccessError]:
    batch = _Batch(
        sessions=sessions,
        states={one.username: one for one in states},
        verifiers=verifiers,
        brief=brief,
        approval=approval,
    )
    last, written = await _bring_roles(batch)
    snapshot, plan = last.observed.snapshot, last.plan
    failed = {**last.failed, **_dropped(plan, snapshot)}
    problems = _unmade(last, written)
    visits = await visit_databases(
        sessions,
        snapshot,
        plan,
        at_once=at_once,
        brief=brief,
        turn=turn,
        approval=approval,
    )
    # A login keeps its old group until the new one has all privileges.
    left = [one for name, one in batch.states.items() if name in plan.sharing.grants]
    snapshot, unleft = await _leave(batch, left, plan, snapshot, visits)
    for name, more in (*visits.problems.items(), *unleft.items()):
        problems.setdefault(name, []).extend(more)
    # Last, so that none is ended before the roles are as they shall be.
    ends = await _end_sessions(
        batch, [one for one in left if one.username not in failed], snapshot
    )
    brought = _Brought(plan, snapshot, visits, problems, written, ends)
    done = {one.username: brought.of(one) for one in left if one.username not in failed}
    return {**failed, **done}


async def _end_sessions(
    batch: _Batch, states: Sequence[WantedState], snapshot: ServerSnapshot
) -> dict[str, SessionsEnd]:
    """End the open sessions of accesses that want it; return the ends by username."""
    actors = {
        state.username: [Actor(role.oid, name) for name, role in state.own(snapshot).items()]
        for state in states
        if state.ends_sessions
    }
    if not actors:
        return {}
    async with batch.sessions.working("end sessions of roles") as session:
        return await end_all_sessions(
            session, actors, superuser=snapshot.server.superuser, wait=bounds.GONE_MS
        )


async def _bring_roles(batch: _Batch) -> tuple[_PlannedBatch, _Written]:
    """Bring roles and claims into their desired state; return the last plan, and what was done."""
    written = _Written()
    patience = BRIEF_READING if batch.brief else None
    async with batch.sessions.working("read the catalogs", patience) as session:
        planned = await batch.plan(session, {})
        # Another writer may be in between, such as the removal of a group that a role joins.
        for _ in range(bounds.WRITES):
            # Changes that the server refused are not tried again at once.
            names = {name for change in planned.plan.changes for name in change.usernames}
            if names <= written.problems.keys():
                break
            written = await _write(batch, session, planned, written)
            planned = await batch.plan(session, {**planned.failed, **written.failed})
    return planned, written


def _unmade(last: _PlannedBatch, written: _Written) -> dict[str, list[AccessError]]:
    """Return the errors of changes that were refused, or not made in spite of an OK, by name."""
    problems = {name: list(found) for name, found in written.problems.items()}
    for change in last.plan.changes:
        for name in change.usernames:
            # An error from the server tells more than this one.
            problem = not_applied(change.what, last.observed.snapshot.server.admin)
            problems.setdefault(name, [problem])
    return problems


def _dropped(plan: BatchPlan, snapshot: ServerSnapshot) -> dict[str, AccessError]:
    return {
        name: AccessError("Conflict", f"role {name} was dropped meanwhile")
        for name in plan.sharing.grants
        if name not in snapshot.roles
    }


class _Brought(NamedTuple):
    """Everything that became of a batch; ``problems`` are by the names of roles and groups."""

    plan: BatchPlan
    snapshot: ServerSnapshot
    visits: Visits
    problems: Mapping[str, Sequence[AccessError]]
    written: _Written
    ends: Mapping[str, SessionsEnd]

    def of(self, state: WantedState) -> Synced:
        """Return the outcome of one access."""
        plan, snapshot, username = self.plan, self.snapshot, state.username
        both, warnings = (
            plan.sharing.names_of(username),
            warnings_of(state, plan.sharing, snapshot),
        )
        logins, own, grants = (
            state.asked_logins,
            state.own(snapshot),
            plan.sharing.grants[username],
        )
        return Synced(
            server=snapshot.server,
            applied=grants.describe(),
            warnings=warnings,
            left_out=tuple(
                remark for name in both for remark in self.visits.left_out.get(name, ())
            ),
            logins=() if logins is None else login_infos(logins, own),
            retired=() if logins is None else retired(logins, own),
            problems=(
                *grants.problems,
                *plan.hindered.get(username, ()),
                *(plan.taken[name] for name in both if name in plan.taken),
                *(problem for name in both for problem in self.problems.get(name, ())),
            ),
            changed=not (self.written.changed | self.visits.changed).isdisjoint(both),
            created=username in self.written.created,
            group=_group_of(username, plan, snapshot, self.visits),
            open_sessions=snapshot.roles[state.login].sessions
            if state.login in snapshot.roles
            else 0,
            sessions=self.ends.get(username),
        )


def _group_of(username: str, plan: BatchPlan, snapshot: ServerSnapshot, visits: Visits) -> str:
    """Return the group with all shared grants of the access, "" until it has them."""
    name = plan.sharing.group_of.get(username, "")
    if not name or username in visits.held_up:
        return ""
    role, version = snapshot.roles.get(username), snapshot.server.version
    return name if joined(role, name, version) else ""


async def _leave(
    batch: _Batch,
    states: Sequence[WantedState],
    plan: BatchPlan,
    snapshot: ServerSnapshot,
    visits: Visits,
) -> tuple[ServerSnapshot, Mapping[str, Sequence[AccessError]]]:
    """Leave superseded groups; return the new snapshot, and errors by username."""
    # Mostly no login has to leave a group, and then there is no transaction.
    if not plan_leaving(states, plan.sharing, snapshot, visits.held_up):
        return snapshot, {}
    try:
        return await leave_groups(
            batch.sessions, states, plan.sharing, visits.held_up, brief=batch.brief
        )
    except AccessError as error:
        return snapshot, {one.username: [error] for one in states}


async def _write(
    batch: _Batch,
    session: Session,
    planned: _PlannedBatch,
    before: _Written,
) -> _Written:
    """Run the plan in a transaction, and again if another session interfered."""
    sets: PasswordForm = ""
    for change in planned.plan.changes:
        sets = sets or change.sets
    for attempt in range(bounds.TRANSACTION_TRIES):
        try:
            return await _run(batch, session, planned.failed, before)
        except psycopg.Error as error:
            await give_way(error, attempt, "change roles", sets)
    raise AssertionError


async def _run(
    batch: _Batch, session: Session, failed: Mapping[str, AccessError], before: _Written
) -> _Written:
    async with session.transaction(BRIEF_READING if batch.brief else PATIENT):
        # The last reading may be outdated: another writer may have taken a name or changed a role.
        observed, plan, failed = await batch.plan(session, failed)
        if batch.brief:
            # The 500 ms of BRIEF_READING are for the look alone. One statement of the changes may
            # be about all accesses of the batch.
            session.limit(BRIEF)
        # Verifiers of passwords are in these statements, and log_statement and pg_stat_statements
        # would keep them.
        session.hush()
        # Holds come first, so that no other operator changes these roles in between.
        holds = _holds(batch, observed.snapshot, plan)
        server = observed.snapshot.server
        changing = Changing(session, server.admin, brief=batch.brief)
        actors: Mapping[str, Actor] = {}
        if not server.superuser:
            names = {change.on for change in plan.changes} - {""}
            actors = await read_owning_actors(session, batch.installation, names)
        own = [change for change in plan.changes if change.on not in actors]
        await changing.run([*holds, *own])
        failed = {**failed, **changing.failed}
        held_statements = [
            hold.role
            for hold in holds
            if not changing.failed.keys() >= set(hold.usernames) and changing.holds
        ]
        await check_held(batch.sessions, session, held_statements)
    # Only after the commit does the server have the roles, and the verifiers.
    batch.verifiers.stored(
        [
            state.login
            for name, state in batch.states.items()
            if state.login in observed.verifiers and name not in failed
        ]
    )
    acting = Changing(session, server.admin, brief=batch.brief)
    acting.failed |= failed
    acting.problems |= changing.problems
    for actor in sorted(set(actors.values())):
        some = [one for one in plan.changes if actors.get(one.on) == actor]
        await _act_as(session, actor, some, acting)
    failed = acting.failed
    created = plan.sharing.grants.keys() - observed.snapshot.roles.keys() - failed.keys()
    return _Written(
        failed=failed,
        problems=acting.problems,
        # ``before`` is of the first of two writes; a change of either is one of the pass.
        changed=before.changed.union(*(change.usernames for change in plan.changes)),
        created=before.created | created,
    )


async def _act_as(
    session: Session, actor: Actor, changes: Sequence[AccessStatement], acting: Changing
) -> None:
    """Make changes by the rights of the owner of databases, in a transaction of their own."""
    for left in reversed(range(bounds.JOINS)):
        try:
            async with (
                session.transaction(BRIEF),
                acting_as(session, actor.name, superuser=False, oid=actor.oid),
            ):
                await acting.run(changes)
        except psycopg.Error as error:
            if error.sqlstate not in {LOCKED_STATE, *TRANSIENT_STATES}:
                raise_what_is_nobodys(error)
            elif left:
                await pause()
                continue
            for change in changes:
                acting.refuse(change, error)
        return


def _holds(batch: _Batch, snapshot: ServerSnapshot, plan: BatchPlan) -> list[HoldingStatement]:
    """Return one hold for each existing role that the plan changes."""
    # A role that does not exist yet needs no hold: another session that creates the same name
    # waits for the index, and fails then (23505).
    users = {name for change in plan.changes for name in change.usernames}
    statements: list[HoldingStatement] = []
    for name, state in batch.states.items():
        if name in users:
            statements += (
                HoldingStatement.of(role, (name,)) for role in state.own(snapshot).values()
            )
    for name, group in plan.sharing.groups.items():
        role = snapshot.roles.get(name)
        if role is not None and (name in users or not users.isdisjoint(group.members)):
            statements.append(HoldingStatement.of(role, tuple(group.members), alone=True))
    return statements
