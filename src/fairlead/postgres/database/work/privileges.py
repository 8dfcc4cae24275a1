"""Settles the privileges of many roles on the objects of databases.

One transaction per database settles all differences in the fewest statements. A failed statement
is split, so that no role lacks privileges because of another one's table. Afterwards the
privileges are read again, because PostgreSQL answers OK to grants that it did not make.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial

import msgspec
import psycopg
from psycopg import sql

from fairlead.postgres import bounds
from fairlead.postgres.database.connections.acting import acting_as
from fairlead.postgres.database.connections.failures import (
    LOCKED_STATE,
    explain,
    explain_statement,
    not_applied,
)
from fairlead.postgres.database.connections.session import (
    BRIEF,
    PATIENT,
    Patience,
    Query,
    Row,
    Session,
    StatementFailedError,
)
from fairlead.postgres.database.connections.sessions import Sessions
from fairlead.postgres.database.plans.approvals import Approval, window_ends, window_parts
from fairlead.postgres.database.plans.differences import (
    Actor,
    CatalogPlace,
    Difference,
    PrivilegeChange,
    plan_privileges,
)
from fairlead.postgres.database.plans.groups import careful, joined
from fairlead.postgres.database.plans.server_plan import BatchPlan, CrowdedError, visits_of
from fairlead.postgres.database.plans.snapshot import ServerSnapshot
from fairlead.postgres.database.reading.actors import read_owning_actors
from fairlead.postgres.database.reading.comparison import (
    Comparison,
    Reading,
    RoleGrants,
    count_held,
    left_out,
    problems_of,
    read_window,
    role_grants,
    unapproved,
    unfinished,
)
from fairlead.postgres.database.work.changing import AT_ONCE, raise_what_is_nobodys
from fairlead.postgres.database.work.retries import give_way, pause
from fairlead.postgres.errors import AccessError


_FOR_MANY = Patience(BRIEF.lock, int(bounds.BRIEF_SECONDS * 1000))
_NO_WAIT = Patience(1, _FOR_MANY.statement)
_HOLDS_UP = {LOCKED_STATE, "57014", "53200"}
"""SQLSTATEs by which a role is given up in work on a batch, and worked on alone later.

These are a lock of another session, a timeout, and a full lock table of the server.
"""
_ROLE_STATES = {"42704", "54000"}
"""SQLSTATEs caused by roles and not by objects: a role is gone, or an ACL has no room for it."""


Permits = Callable[[PrivilegeChange], bool]
"""Whether a change was approved."""


class PiecesTurn:
    """The time of one role with very many privileges, which it works on in pieces.

    Each piece is committed, and what is left follows in a later turn.

    Args:
        seconds: the time after which the turn is over, once a piece has changed something.
    """

    def __init__(self, seconds: float) -> None:
        self._until = asyncio.get_running_loop().time() + seconds
        self._ended = False

    def end(self) -> None:
        """End the turn after its present piece, for other work on the role waits."""
        self._ended = True

    def is_over(self, *, changed: bool) -> bool:
        """Whether no other piece follows in this turn."""
        late = asyncio.get_running_loop().time() > self._until
        return self._ended or (changed and late)


class RoleOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one role's grants in one database; ``left`` is the number of differences.

    ``unsettled`` says that the administrator has the right to settle some of them, ``left_out``
    are those without which the grants are complete.
    """

    problems: tuple[AccessError, ...] = ()
    left_out: tuple[Difference, ...] = ()
    changed: bool = False
    left: int = 0
    unsettled: bool = False


async def settle(
    session: Session,
    database: str,
    role_grants: Sequence[RoleGrants],
    admin: str,
    *,
    brief: bool = False,
    turn: PiecesTurn | None = None,
    approval: Approval | None = None,
) -> dict[str, RoleOutcome]:
    """Bring the roles' privileges on the objects of this database into their desired state.

    Without a difference that the administrator may settle, it takes one statement. A missing right
    becomes a problem of the role, which names the objects and their owners.

    Args:
        session: a session in that database, without a transaction.
        database: the name of the database.
        role_grants: the roles, each once.
        admin: the session's own role, for messages.
        brief: whether a role is given up at the first lock of another session.
        turn: the turn of one role, in which it is worked on in pieces; None for all at once.
        approval: the approval of one role's changes, without which none is made; None if they need
            none. What is approved in windows is settled in these.

    Returns:
        The outcome for each username.

    Raises:
        psycopg.Error: other sessions interfered, and the whole may be tried again
            (``TRANSIENT_STATES``); or the connection broke.
    """
    if not role_grants:
        return {}
    ends = (
        () if approval is None else window_ends(approval.parts, database, role_grants[0].username)
    )
    if len(role_grants) == 1 and (turn is not None or ends):
        pieces = _Pieces(session, database, role_grants[0], admin, approval, ends)
        return {role_grants[0].username: await pieces.settle(turn)}
    comparison = Comparison(database, role_grants, session.server_version)
    try:
        # Mostly nothing differs, and then there is no transaction.
        reading = comparison.reading(await session.rows(*comparison.query))
        if brief and (crowded := _crowded(reading)):
            rest = [role for role in role_grants if role.username not in crowded]
            return crowded | await settle(session, database, rest, admin, brief=True)
        permits = None if approval is None else partial(_allows, approval, database)
        settling = _Settling(session, database, comparison, admin, brief=brief, permits=permits)
        reading = await settling.run(reading)
    except psycopg.DataError as error:
        # A name that the database's encoding cannot represent fails the statement for all roles.
        if len(role_grants) > 1:
            middle = len(role_grants) // 2
            first = await settle(session, database, role_grants[:middle], admin, brief=brief)
            return first | await settle(
                session, database, role_grants[middle:], admin, brief=brief
            )
        what = f"compare privileges in database {database}"
        problem = explain_statement(error, what, admin)
        return {
            role.username: RoleOutcome(problems=(problem,), unsettled=True) for role in role_grants
        }
    return {role.username: settling.outcome(role.username, reading) for role in role_grants}


def _crowded(reading: Reading) -> dict[str, RoleOutcome]:
    """Return the outcomes of roles with more differences than a batch has time for.

    A tenant may give others privileges on any number of columns, each of them a difference.
    """
    return {
        name: RoleOutcome(problems=(CrowdedError(name),), unsettled=True)
        for name, some in reading.differences.items()
        if len(some) > bounds.ACL_WINDOW
    }


class _Pieces:
    """The privileges of one role, which are settled piece by piece, as far as its turn goes."""

    def __init__(
        self,
        session: Session,
        database: str,
        role: RoleGrants,
        admin: str,
        approval: Approval | None,
        ends: Sequence[CatalogPlace],
    ) -> None:
        self._session = session
        self._database = database
        self._role = role
        self._admin = admin
        self._approval = approval
        window = bounds.ACL_WINDOW
        self._comparison = Comparison(database, [role], session.server_version, window, ends)

    async def settle(self, turn: PiecesTurn | None) -> RoleOutcome:
        """Settle all pieces, or those that fit into a turn."""
        whole = RoleOutcome()
        is_changed = False
        while True:
            before, permits = await self._read()
            settling = _Settling(
                self._session,
                self._database,
                self._comparison,
                self._admin,
                brief=False,
                permits=permits,
                whole=permits is not None and self._comparison.end is not None,
            )
            reading = await settling.run(before)
            outcome = settling.outcome(self._role.username, reading)
            # The same window once more: it has more differences than one reading returns.
            settled = outcome.changed and not _same(before, reading)
            is_changed = is_changed or settled
            again = bool(reading.cut) and settled
            # What is left in this window is settled by its next piece.
            whole = _joined(whole, RoleOutcome(changed=True) if again else outcome)
            if settling.unapproved or (not again and not self._comparison.go_on()):
                return whole
            if turn is not None and turn.is_over(changed=is_changed):
                left = await count_held(self._session, self._role.oid)
                problem = unfinished(self._role.username, self._database, left)
                problems = (problem, *whole.problems)
                return msgspec.structs.replace(whole, problems=problems, unsettled=True)

    async def _read(self) -> tuple[Reading, Permits | None]:
        """Read a window; return it, and which of its changes are permitted."""
        approval, comparison = self._approval, self._comparison
        if approval is None:
            reading = comparison.reading(await self._session.rows(*comparison.query))
            comparison.stay(reading.last)
            return reading, None
        reading = await read_window(self._session, comparison)
        if comparison.end is None:
            permits = partial(_allows, approval, self._database)
        else:
            parts = window_parts(
                self._database,
                self._role.username,
                comparison.end,
                plan_privileges(reading.differences),
            )
            approved = (some for part, some in parts.items() if part in approval.parts)
            texts = {change.statement.as_string() for some in approved for change in some}
            permits = partial(_is_among, texts)
        # The administrator's own rights come first, without those of others.
        own = {
            name: [
                msgspec.structs.replace(difference, possible=False, actor=None)
                if difference.actor
                else difference
                for difference in differences
            ]
            for name, differences in reading.differences.items()
        }
        possible = any(difference.possible for found in own.values() for difference in found)
        return msgspec.structs.replace(reading, differences=own, possible=possible), permits


def _allows(approval: Approval, database: str, change: PrivilegeChange) -> bool:
    return approval.allows(database, change.statement.as_string())


def _is_among(texts: Collection[str], change: PrivilegeChange) -> bool:
    return change.statement.as_string() in texts


def _joined(whole: RoleOutcome, piece: RoleOutcome) -> RoleOutcome:
    """Return the outcome with that of another piece; each kind of problem is told once."""
    reasons = {one.reason for one in whole.problems}
    return RoleOutcome(
        problems=(*whole.problems, *(one for one in piece.problems if one.reason not in reasons)),
        left_out=(*whole.left_out, *piece.left_out),
        changed=whole.changed or piece.changed,
        left=whole.left + piece.left,
        unsettled=whole.unsettled or piece.unsettled,
    )


class _Settling:
    """The changes of privileges in one database, in one transaction, and their errors."""

    def __init__(
        self,
        session: Session,
        database: str,
        comparison: Comparison,
        admin: str,
        *,
        brief: bool,
        permits: Permits | None = None,
        whole: bool = False,
    ) -> None:
        self._brief = brief
        self._permits = permits
        # The rest of a piece would not be what was approved.
        self._whole = whole
        self.unapproved = False
        self._waits = 0
        self._session = session
        self._database = database
        self._comparison = comparison
        self._admin = admin
        self._failed: dict[str, list[AccessError]] = {}
        self._changed: set[str] = set()
        self._until: float | None = None
        self._limit = bounds.BRIEF_SECONDS if brief else bounds.ISOLATING_SECONDS

    async def run(self, reading: Reading) -> Reading:
        """Run the missing grants and revocations; return what still differs.

        What the administrator's own rights suffice for goes first, all in one transaction.
        """
        acted: Reading | None = None
        for _ in range(bounds.WRITES_MOST):
            if reading.possible and not (acted and self._failed):
                reading = await self._run_own(reading)
            reading = await self._comparison.with_actors(self._session, reading)
            # A failed statement would fail again, and so would one that was silently skipped.
            if not reading.actors or (acted and (self._failed or _same(acted, reading))):
                break
            acted = reading
            await self._act(reading)
            reading = self._comparison.reading(await self._session.rows(*self._comparison.query))
        return reading

    def _planned(self, reading: Reading) -> list[PrivilegeChange]:
        """Return the changes that are permitted."""
        changes = plan_privileges(reading.differences)
        permits = self._permits
        if permits is None:
            return changes
        permitted = [change for change in changes if permits(change)]
        self.unapproved = self.unapproved or len(permitted) < len(changes)
        return permitted

    async def _act(self, reading: Reading) -> None:
        """Run what the rights of other roles of the operator's suffice for.

        Each role has a transaction of its own, as short as can be: others that act as it wait.
        """
        changes: dict[Actor, list[PrivilegeChange]] = {}
        for change in self._planned(reading):
            if change.actor is not None:
                changes.setdefault(change.actor, []).append(change)
        until = asyncio.get_running_loop().time() + self._limit
        for actor, some in sorted(changes.items()):
            # In work on a batch a role is given up at the first lock of another session.
            left = [*filter(None, map(self._left, some))] if self._brief else some
            if left:
                await self._act_as(actor, left, until)

    async def _act_as(
        self, actor: Actor, changes: Sequence[PrivilegeChange], until: float
    ) -> None:
        error: psycopg.Error = psycopg.errors.QueryCanceled()
        for _ in range(bounds.JOINS):
            if asyncio.get_running_loop().time() > until:
                break
            failed = {name: [*some] for name, some in self._failed.items()}
            changed = set(self._changed)
            # A transaction waits for a few locks of others, and so do all of them together.
            waits = self._waits < bounds.LOCK_WAITS
            patience = (_FOR_MANY if self._brief else PATIENT) if waits else _NO_WAIT
            try:
                async with (
                    self._session.transaction(patience),
                    acting_as(self._session, actor.name, superuser=False, oid=actor.oid),
                ):
                    await self._apply(changes)
            except psycopg.Error as raised:
                # Without its membership a transaction has changed nothing.
                self._failed, self._changed = failed, changed
                raise_what_is_nobodys(raised)
                error = raised
                if error.sqlstate != LOCKED_STATE:
                    break
                # Another pass acts as the role just now.
                await pause()
            else:
                return
        for change in changes:
            self._record(change, error)

    async def _run_own(self, reading: Reading) -> Reading:
        """Run what the administrator's own rights suffice for; return what then differs."""
        if not self._whole:
            return await self._run_some(reading)
        changed = set(self._changed)
        try:
            return await self._run_some(reading)
        except psycopg.Error as error:
            raise_what_is_nobodys(error)
            self._changed = changed
            for change in self._planned(reading):
                self._record(change, error)
            return reading

    async def _run_some(self, reading: Reading) -> Reading:
        # To read again inside the transaction would be no safer: READ COMMITTED locks nothing that
        # is only read.
        async with self._session.transaction(_FOR_MANY if self._brief else PATIENT):
            begun = asyncio.get_running_loop().time()
            for _ in range(bounds.WRITES_MOST):
                before = reading
                rows = await self._apply(self._planned(before), self._comparison.query)
                reading = self._comparison.reading(rows)
                if not reading.possible:
                    break
                # A failed statement would fail again, and PostgreSQL would silently skip the same
                # grants again.
                if self._failed or (not reading.cut and _same(before, reading)):
                    break
                # The rest follows in another pass, so that other accesses get their turn.
                late = asyncio.get_running_loop().time() - begun > bounds.BRIEF_SECONDS
                if self._brief and reading.cut and late:
                    break
                # A piece is committed before the next one.
                if self._comparison.window is not None and reading.cut:
                    break
            return reading

    async def _apply(
        self, changes: Sequence[PrivilegeChange], then: Query | None = None
    ) -> list[Row]:
        """Make changes without those that fail; return the rows of the query after them."""
        left = list(changes)
        while left:
            outcome = await self._try(left, then)
            if not isinstance(outcome, StatementFailedError):
                return outcome
            number, error = outcome.number, outcome.error
            if self._whole:
                raise error
            if not self._brief or error.sqlstate not in _HOLDS_UP:
                break
            # The statements before it succeeded, and are run again without it.
            before, after = left[:number], left[number + 1 :]
            if before and isinstance(await self._try(before), StatementFailedError):
                after = [*before, *after]
            await self._fail(left[number], error)
            left = [
                change_left for change in after if (change_left := self._left(change)) is not None
            ]
        self._until = asyncio.get_running_loop().time() + self._limit
        for change in left:
            await self._isolate(change)
        return await self._session.rows(*then) if then else []

    async def _try(
        self, changes: Sequence[PrivilegeChange], then: Query | None = None
    ) -> list[Row] | StatementFailedError:
        """Make all changes or none; return the rows of the query after them, or the failure."""
        try:
            rows = await self._session.run_all([one.statement for one in changes], then)
        except StatementFailedError as failed:
            raise_what_is_nobodys(failed.error)
            return failed
        self._changed.update(name for change in changes for name in change.usernames)
        return rows

    def _left(self, change: PrivilegeChange) -> PrivilegeChange | None:
        """Return the change for the roles without errors; None if there are none."""
        names = tuple(name for name in change.usernames if name not in self._failed)
        return msgspec.structs.replace(change, usernames=names) if names else None

    async def _isolate(self, change: PrivilegeChange) -> None:
        # In work on a batch a role is given up at the first lock of another session.
        change_left = self._left(change) if self._brief else change
        if change_left is None:
            return
        change = change_left
        try:
            async with self._session.savepoint():
                await self._session.run(change.statement)
        except psycopg.Error as error:
            raise_what_is_nobodys(error)
            halves = change.halves(by_role=error.sqlstate in _ROLE_STATES)
            # Halving finds one culprit among n in log2(n) tries; after the limit a whole part is
            # reported.
            given_up = self._brief and error.sqlstate in _HOLDS_UP
            late = bool(halves) and self._late()
            if not halves or given_up or late:
                await self._fail(change, error, late=late)
                return
            for half in halves:
                await self._isolate(half)
        else:
            self._changed.update(change.usernames)

    def _late(self) -> bool:
        return self._until is not None and asyncio.get_running_loop().time() > self._until

    async def _fail(
        self, change: PrivilegeChange, error: psycopg.Error, *, late: bool = False
    ) -> None:
        self._record(change, error, late=late)
        if error.sqlstate == LOCKED_STATE:
            self._waits += 1
            if self._waits == bounds.LOCK_WAITS:
                await self._session.run(AT_ONCE)

    def _record(
        self, change: PrivilegeChange, error: psycopg.Error, *, late: bool = False
    ) -> None:
        what = f"{change.what} in database {self._database}"
        problem = explain_statement(error, what, self._admin)
        if self._brief and late:
            # The culprit is unknown; work on the access alone finds it.
            problem = AccessError("TimedOut", problem.message)
        for username in change.usernames:
            self._failed.setdefault(username, []).append(problem)

    def outcome(self, username: str, reading: Reading) -> RoleOutcome:
        """Return the outcome for one role."""
        left = reading.differences.get(username, ())
        # An error about an object that was dropped since does not count.
        is_open = any(one.possible for one in left)
        failed = self._failed.get(username, []) if is_open else []
        if self.unapproved:
            failed = [unapproved(username, self._database), *failed]
        return RoleOutcome(
            problems=tuple(
                problems_of(reading, username, self._database, self._admin, failed[: bounds.NAMED])
            ),
            left_out=tuple(difference for difference in left if difference.is_left_out),
            changed=username in self._changed,
            left=len(left),
            unsettled=is_open or username in reading.cut,
        )


def _same(before: Reading, after: Reading) -> bool:
    """Whether the differences are the same after a write, which PostgreSQL skipped silently."""
    first, second = (
        {
            (
                username,
                difference.action,
                difference.objects.level,
                difference.objects.items,
                difference.privilege,
            )
            for username, differences in reading.differences.items()
            for difference in differences
            if difference.possible
        }
        for reading in (before, after)
    )
    return bool(second) and second == first


# PostgreSQL 15 took CREATE on schema public from PUBLIC, but in new databases alone: upgraded ones
# keep it.
PUBLIC_CREATES = sql.SQL("""
SELECT 1
  FROM pg_catalog.pg_namespace n
 WHERE n.nspname = 'public' AND pg_catalog.has_schema_privilege('public', n.oid, 'CREATE')
""")
CLOSE_SCHEMA = sql.SQL("REVOKE CREATE ON SCHEMA public FROM PUBLIC")


class Visits(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of privileges in databases, by the names of roles and groups.

    ``left_out`` are the remarks on grants without which the others are complete, ``held_up`` are
    usernames that lack privileges which they could have.
    """

    problems: Mapping[str, Sequence[AccessError]]
    left_out: Mapping[str, Sequence[str]]
    changed: frozenset[str]
    held_up: frozenset[str]


async def visit_databases(
    sessions: Sessions,
    snapshot: ServerSnapshot,
    plan: BatchPlan,
    *,
    at_once: int = 3,
    brief: bool = False,
    turn: PiecesTurn | None = None,
    approval: Approval | None = None,
) -> Visits:
    """Bring the privileges on the objects of each database into their desired state.

    Args:
        sessions: the sessions of the server.
        snapshot: the snapshot of its catalogs, after the roles were created.
        plan: the plan with the desired grants.
        at_once: number of databases that are worked on at the same time.
        brief: whether other accesses wait; a locked role is left for later.
        turn: the turn of one access with very many privileges, None for all at once.
        approval: the approval of one access, None if the changes need none.
    """
    visits, missing = visits_of(plan.desired, snapshot)
    visiting = _Visiting(sessions, snapshot, plan, brief=brief, turn=turn, approval=approval)
    places = asyncio.Semaphore(at_once if turn is None else 1)

    async def visit(database: str, names: Sequence[str]) -> Mapping[str, RoleOutcome]:
        async with places:
            return await visiting.run(database, names)

    results = await asyncio.gather(*(visit(name, names) for name, names in visits.items()))
    by_role: dict[str, dict[str, Sequence[AccessError]]] = {
        name: {**databases} for name, databases in missing.items()
    }
    changed: set[str] = set()
    remarks: dict[str, list[str]] = {}
    admin = snapshot.server.admin
    for database, outcomes in sorted(zip(visits, results, strict=True)):
        for name, outcome in outcomes.items():
            if remark := left_out(outcome.left_out, database, admin):
                remarks.setdefault(name, []).append(remark)
            by_role.setdefault(name, {})[database] = outcome.problems
            if outcome.changed:
                changed.add(name)
    return Visits(
        # Sorted by the databases' names, so that the same problems have the same order.
        problems={
            name: [one for _, some in sorted(databases.items()) for one in some]
            for name, databases in by_role.items()
        },
        left_out=remarks,
        changed=frozenset(changed),
        held_up=frozenset(visiting.held_up),
    )


class _Visiting:
    """The visits to the databases of a server, one to each."""

    def __init__(
        self,
        sessions: Sessions,
        snapshot: ServerSnapshot,
        plan: BatchPlan,
        *,
        brief: bool,
        turn: PiecesTurn | None,
        approval: Approval | None,
    ) -> None:
        self._turn = turn
        self._approval = approval
        self._sessions = sessions
        self._snapshot = snapshot
        self._plan = plan
        self._admin = snapshot.server.admin
        self._brief = brief
        self.held_up: set[str] = set()

    async def run(self, database: str, names: Sequence[str]) -> Mapping[str, RoleOutcome]:
        """Settle the privileges in one database; return the outcomes by name."""
        outcomes: dict[str, RoleOutcome] = {}
        try:
            async with self._sessions.use(database) as session:
                if "CREATE" in self._sessions.endpoint.revoke_public:
                    await self._close_schema(session, database)
                await self._settle(session, database, names, outcomes)
        except (AccessError, psycopg.Error) as error:
            what = f"read the catalogs of database {database}"
            problem = explain(error, what, self._admin)
            # Without a look a group may lack privileges, so its members keep their own ones and
            # their other groups.
            self._hold_up(names)
            for name in names:
                before = outcomes.get(name, RoleOutcome())
                outcomes[name] = msgspec.structs.replace(before, problems=(problem,))
        return outcomes

    async def _close_schema(self, session: Session, database: str) -> None:
        """Revoke CREATE on schema public from PUBLIC, if PUBLIC has it.

        Raises:
            AccessError: the administrator lacks the right.
        """
        if not await session.rows(PUBLIC_CREATES):
            return
        what = f"revoke CREATE on schema public of database {database} from PUBLIC"
        if self._approval and not self._approval.allows(database, CLOSE_SCHEMA.as_string()):
            raise unapproved(", ".join(self._plan.roles), database)
        try:
            installation = next((one.claim.installation for one in self._plan.roles.values()), "")
            actors = await read_owning_actors(session, installation, [database])
            actor = actors.get(database)
            as_owner: AbstractAsyncContextManager[None] = nullcontext()
            if actor is not None:
                as_owner = acting_as(session, actor.name, superuser=False, oid=actor.oid)
            async with session.transaction(BRIEF if self._brief else PATIENT), as_owner:
                await session.run(CLOSE_SCHEMA)
                # PostgreSQL answers OK to a REVOKE of another role's grant, and revokes nothing.
                left = await session.rows(PUBLIC_CREATES)
        except psycopg.Error as error:
            raise explain_statement(error, what, self._admin) from None
        if left:
            raise not_applied(what, self._admin)

    async def _settle(
        self,
        session: Session,
        database: str,
        names: Sequence[str],
        outcomes: dict[str, RoleOutcome],
    ) -> None:
        """Settle the groups, then the logins; add their outcomes to ``outcomes``."""
        groups = self._plan.sharing.groups
        # Groups first: logins lose their own privileges only once their groups have them.
        shared = [name for name in names if name in groups]
        if shared:
            outcomes |= await self._bring(session, database, shared)
            for name in shared:
                # An ACL has no room for one more.
                if any(one.reason == "TooManyGrantees" for one in outcomes[name].problems):
                    outcomes[name] = await self._make_room(
                        session, database, name, names, outcomes
                    )
        logins = [name for name in names if name not in groups]
        if logins:
            outcomes |= await self._bring(session, database, logins)

    async def _bring(
        self, session: Session, database: str, names: Sequence[str]
    ) -> dict[str, RoleOutcome]:
        roles = [self._role(name, database) for name in names]
        for attempt in range(bounds.TRANSACTION_TRIES):
            try:
                outcomes: dict[str, RoleOutcome] = {}
                # Each role by itself, as its statements were approved.
                for some in [roles] if self._approval is None else [[role] for role in roles]:
                    outcomes |= await settle(
                        session,
                        database,
                        some,
                        self._admin,
                        brief=self._brief,
                        turn=self._turn,
                        approval=self._approval,
                    )
            except psycopg.Error as error:
                await give_way(error, attempt, f"change privileges in database {database}")
            else:
                self._hold_up(name for name, outcome in outcomes.items() if outcome.unsettled)
                return outcomes
        raise AssertionError

    async def _make_room(
        self,
        session: Session,
        database: str,
        name: str,
        names: Collection[str],
        before: Mapping[str, RoleOutcome],
    ) -> RoleOutcome:
        """Have members give up their own entries in an ACL that has no room for their group."""
        members = [one for one in self._plan.sharing.groups[name].members if one in names]
        # Members that are held up would keep their own entries, which are the room for the group.
        self.held_up.difference_update(members)
        roles = [self._role(one, database) for one in (name, *members)]
        outcomes: dict[str, RoleOutcome] = {}
        # In one transaction, so that no other session sees a part of it.
        async with session.transaction(BRIEF if self._brief else PATIENT):
            outcomes = await settle(
                session,
                database,
                roles,
                self._admin,
                brief=self._brief,
                approval=self._approval,
            )
            if outcomes[name].unsettled:
                raise psycopg.Rollback
        outcome = outcomes.get(name, RoleOutcome(unsettled=True))
        if outcome.unsettled:
            self._hold_up([name])
            return before[name]
        return msgspec.structs.replace(outcome, changed=True)

    def _hold_up(self, names: Iterable[str]) -> None:
        groups = self._plan.sharing.groups
        for name in names:
            self.held_up.update(groups[name].members if name in groups else [name])

    def _role(self, name: str, database: str) -> RoleGrants:
        plan, snapshot = self._plan, self._snapshot
        state, group = plan.roles[name], plan.sharing.group_of.get(name)
        if group is not None:
            role, version = snapshot.roles.get(name), snapshot.server.version
            settled = group in plan.sharing.groups and joined(role, group, version)
            # The login keeps its own privileges until the group has all of them and the login is
            # its member.
            if name in self.held_up or not settled:
                state = careful(state)
        return role_grants(state, plan.desired[name].of(database), snapshot)
