"""Settles the privileges of many roles on the objects of one database.

All that differs is settled in one transaction, in as few statements as there can be. Only when one
of them fails is it taken apart, so that nobody goes without for a stranger's table or for somebody
else's role. What was written is read again, because PostgreSQL answers OK to grants that it did
not make.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from itertools import islice

import msgspec
import psycopg

from fairlead.postgres.database.connections.failures import LOCKED_STATE, explain_statement
from fairlead.postgres.database.connections.session import (
    BRIEF,
    PATIENT,
    Patience,
    Session,
    StatementFailedError,
)
from fairlead.postgres.database.plans.differences import (
    Difference,
    Objects,
    PrivilegeChange,
    listed,
    plan,
    words,
)
from fairlead.postgres.database.plans.targets import describe_target
from fairlead.postgres.database.reading.comparison import (
    Absence,
    Reading,
    RoleGrants,
    read_differences,
)
from fairlead.postgres.database.work.changing import AT_ONCE, WAITS, raise_what_is_nobodys
from fairlead.postgres.errors import AccessError


_ROUNDS = 16
"""Writings of one transaction; more than one is needed where a revocation takes more with it."""
_ISOLATING_SECONDS = 20.0
"""That finding out which object or which role is in the way may take."""
_BRIEF_SECONDS = 1.0
"""The same, and any one statement, in work for many."""
_FOR_MANY = Patience(BRIEF.lock, int(_BRIEF_SECONDS * 1000))
_TOLD = 3
"""Problems of one kind that one role is told of."""
_HOLDS_UP = {LOCKED_STATE, "57014", "53200"}
"""SQLSTATEs for which a role is given up in work for many: a lock of somebody else's, too much to
be done in time, or for the server's lock table. Who has that many objects is worked on alone."""
_ROLE_STATES = {"42704", "54000"}
"""SQLSTATEs that roles are the cause of rather than objects: gone, or one too many."""


class RoleOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one role's grants in one database; ``left`` differences are still there.

    ``unsettled`` are such that the administrator has the right to settle.
    """

    problems: tuple[AccessError, ...] = ()
    changed: bool = False
    left: int = 0
    unsettled: bool = False


async def settle(
    session: Session,
    database: str,
    wanted: Sequence[RoleGrants],
    admin: str,
    *,
    brief: bool = False,
) -> dict[str, RoleOutcome]:
    """Bring the roles' privileges on the objects of this database into their wanted state.

    When nothing differs that the administrator may settle, that is one statement. What it may not
    do is a problem of the role concerned, which names the objects and their owners.

    Args:
        session: in that database, in no transaction.
        database: its name.
        wanted: the roles, each once.
        admin: the session's own role, for messages.
        brief: whether a role is given up at the first lock of another session, for the others.

    Returns:
        The outcome for each username.

    Raises:
        psycopg.Error: other sessions are in the way, and all of it may be tried again
            (``TRANSIENT_STATES``); or the connection broke.
    """
    settling = _Settling(session, database, wanted, admin, brief=brief)
    try:
        # Mostly nothing differs, and then there is no transaction.
        reading = await read_differences(session, database, wanted)
        if reading.possible():
            reading = await settling.run()
    except psycopg.DataError as error:
        # A name that the database has no characters for spoils the statement for all.
        if len(wanted) > 1:
            middle = len(wanted) // 2
            first = await settle(session, database, wanted[:middle], admin, brief=brief)
            return first | await settle(session, database, wanted[middle:], admin, brief=brief)
        what = f"compare privileges in database {database}"
        problem = explain_statement(error, what, admin)
        return {role.username: RoleOutcome(problems=(problem,), unsettled=True) for role in wanted}
    return {role.username: settling.outcome(role.username, reading) for role in wanted}


class _Settling:
    """One transaction, and what fails in it."""

    def __init__(
        self,
        session: Session,
        database: str,
        wanted: Sequence[RoleGrants],
        admin: str,
        *,
        brief: bool,
    ) -> None:
        self._brief = brief
        self._waits = 0
        self._session = session
        self._database = database
        self._wanted = wanted
        self._admin = admin
        self._failed: dict[str, list[AccessError]] = {}
        self._changed: set[str] = set()
        self._until: float | None = None

    async def run(self) -> Reading:
        """Settle what can be settled; what is left is read at the end, before others may write."""
        async with self._session.transaction(_FOR_MANY if self._brief else PATIENT):
            begun = asyncio.get_running_loop().time()
            reading = await self._read()
            for _ in range(_ROUNDS):
                if not reading.possible():
                    break
                before = reading
                await self._apply(plan(before.differences))
                reading = await self._read()
                # What failed would fail again, and what PostgreSQL left without a word it would
                # leave again.
                if self._failed or (not reading.cut and _same(before, reading)):
                    break
                # The rest follows in another pass, between those of others.
                late = asyncio.get_running_loop().time() - begun > _BRIEF_SECONDS
                if self._brief and reading.cut and late:
                    break
            return reading

    async def _read(self) -> Reading:
        return await read_differences(self._session, self._database, self._wanted)

    async def _apply(self, changes: Sequence[PrivilegeChange]) -> None:
        left = list(changes)
        while left:
            failed = await self._try(left)
            if failed is None:
                return
            number, error = failed
            if not self._brief or error.sqlstate not in _HOLDS_UP:
                break
            # What came before it went well, and is done again without it.
            before, after = left[:number], left[number + 1 :]
            if before and await self._try(before) is not None:
                after = [*before, *after]
            await self._fail(left[number], error)
            left = [one for change in after if (one := self._left(change)) is not None]
        limit = _BRIEF_SECONDS if self._brief else _ISOLATING_SECONDS
        self._until = asyncio.get_running_loop().time() + limit
        for change in left:
            await self._isolate(change)

    async def _try(self, changes: Sequence[PrivilegeChange]) -> tuple[int, psycopg.Error] | None:
        """All of them or nothing; returns which one failed, and why."""
        try:
            async with self._session.savepoint():
                await self._session.run_all(change.statement for change in changes)
        except StatementFailedError as failed:
            raise_what_is_nobodys(failed.error)
            return failed.number, failed.error
        self._changed.update(name for change in changes for name in change.usernames)
        return None

    def _left(self, change: PrivilegeChange) -> PrivilegeChange | None:
        """The same for those that nothing has failed for; None where there are none."""
        names = tuple(name for name in change.usernames if name not in self._failed)
        return msgspec.structs.replace(change, usernames=names) if names else None

    async def _isolate(self, change: PrivilegeChange) -> None:
        # In work for many a role is given up with the first lock that it would have to wait for.
        found = self._left(change) if self._brief else change
        if found is None:
            return
        change = found
        try:
            async with self._session.savepoint():
                await self._session.run(change.statement)
        except psycopg.Error as error:
            raise_what_is_nobodys(error)
            halves = change.halves(by_role=error.sqlstate in _ROLE_STATES)
            # Halving finds one culprit among n in log2(n) tries; after the limit a whole part is
            # told of.
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
        what = f"{change.what} in database {self._database}"
        problem = explain_statement(error, what, self._admin)
        if self._brief and late:
            # It is not known what stands in the way, and is found out alone.
            problem = AccessError("TimedOut", problem.message)
        for username in change.usernames:
            self._failed.setdefault(username, []).append(problem)
        if error.sqlstate == LOCKED_STATE:
            self._waits += 1
            if self._waits == WAITS:
                await self._session.run(AT_ONCE)

    def outcome(self, username: str, reading: Reading) -> RoleOutcome:
        """What came of it for one role."""
        left = reading.differences.get(username, ())
        problems = _absent(reading.absent.get(username, ()), self._database)
        if username in reading.gone:
            problems.append(AccessError("Conflict", f"role {username} was dropped meanwhile"))
        problems += _refused(left, self._database, self._admin)
        # What failed for an object that is gone by now is in order.
        open_ = [one for one in left if one.possible]
        failed = self._failed.get(username, []) if open_ else []
        problems += failed[:_TOLD]
        if username in reading.cut:
            problems.append(_unfinished(self._database))
        elif open_ and not failed:
            problems.append(_silent(open_, self._database, self._admin))
        changed = username in self._changed
        return RoleOutcome(
            problems=tuple(problems),
            changed=changed,
            left=len(left),
            unsettled=bool(open_) or username in reading.cut,
        )


def hindrances(reading: Reading, username: str, database: str, admin: str) -> list[AccessError]:
    """What of a role's grants cannot be had as things are, before anything was tried."""
    absent = reading.absent.get(username, ())
    left = reading.differences.get(username, ())
    return [*_absent(absent, database), *_refused(left, database, admin)]


def _same(before: Reading, after: Reading) -> bool:
    """Whether nothing came of it: PostgreSQL had no right to it, and did not say so."""
    if not after.possible():
        return False
    first, second = (
        {
            (username, one.action, one.objects.level, one.objects.items, one.privilege)
            for username, found in reading.differences.items()
            for one in found
            if one.possible
        }
        for reading in (before, after)
    )
    return second == first


def _absent(found: Sequence[Absence], database: str) -> list[AccessError]:
    problems = [
        AccessError(
            "SchemaNotFound",
            f"schema {schema} of spec.grants does not exist in database {database};"
            " create it, or correct the name",
        )
        for schema in sorted({one.target.schema for one in found if one.schema})
    ]
    objects = [one.target for one in found if not one.schema]
    future = sorted({target.name for target in objects if target.level.startswith("future")})
    problems += [
        AccessError(
            "RoleNotFound",
            f"role {name}, in includeFuture.ownedBy of spec.grants, does not exist;"
            " create it, or correct the name",
        )
        for name in future[:_TOLD]
    ]
    named = [target for target in objects if not target.level.startswith("future")]
    if named:
        names = listed([describe_target(target, database) for target in named])
        message = f"spec.grants names what does not exist: {names}; create it, or correct the name"
        problems.append(AccessError("ObjectNotFound", message))
    return problems


def _refused(left: Iterable[Difference], database: str, admin: str) -> list[AccessError]:
    """What the administrator has no right to, by what would give it the right."""
    future: list[Difference] = []
    grants: list[Difference] = []
    revocations: list[Difference] = []
    for one in left:
        if one.possible:
            continue
        if one.objects.level.startswith("future"):
            future.append(one)
        else:
            (grants if one.action == "grant" else revocations).append(one)
    messages = []
    if grants:
        messages.append(
            f"{admin} may not grant {_told(grants)} in database {database};"
            f" grant {admin} the role of the owner, or let the owner grant it"
        )
    if revocations:
        messages.append(
            f"{admin} cannot revoke {_told(revocations)} in database {database}:"
            " another role granted it, and has to revoke it"
        )
    if future:
        creators = listed(sorted({one.objects.owner for one in future}))
        messages.append(
            f"{admin} is no member of {creators} and cannot change the default privileges of what"
            f" that creates in database {database}: {_told(future)}; grant {admin} that role, or"
            " name others in includeFuture.ownedBy"
        )
    return [AccessError("InsufficientPrivilege", message) for message in messages]


def _silent(left: Iterable[Difference], database: str, admin: str) -> AccessError:
    ways = sorted({one.action.split()[0] for one in left})
    return AccessError(
        "InsufficientPrivilege",
        f"PostgreSQL did not {' or '.join(ways)} {_told(left)} in database {database}, without"
        f" saying so; {admin} lacks the grant option, or another role granted it",
    )


def _unfinished(database: str) -> AccessError:
    return AccessError(
        "Unfinished",
        f"more privileges differ in database {database} than are settled at once;"
        " the rest follows in the next pass",
    )


def _told(differences: Iterable[Difference]) -> str:
    """Privileges and objects, each with its owner or with who granted it."""
    privileges: dict[tuple[Objects, str], set[str]] = {}
    for one in differences:
        whose = f"owner {one.objects.owner}"
        if one.action != "grant":
            whose = f"granted by {one.grantor}"
        privileges.setdefault((one.objects, whose), set()).add(one.privilege)
    total = sum(objects.total for objects, _ in privileges)
    every = (
        f"{', '.join(sorted(names))} on {words(objects.level, item, objects.table)} ({whose})"
        for (objects, whose), names in privileges.items()
        for item in objects.items
    )
    return listed(list(islice(every, 64)), total)
