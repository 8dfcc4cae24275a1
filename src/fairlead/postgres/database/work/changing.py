"""Makes changes to roles in one transaction, in the fewest round trips.

The position of the failure in a round trip tells the failed part: each part is tried twice at
most, so that ten times the accesses take ten times as long. A role and its claim fail together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import psycopg
from psycopg import sql

from fairlead.postgres import bounds
from fairlead.postgres.database.connections.failures import (
    LOCKED_STATE,
    TRANSIENT_STATES,
    explain_statement,
)
from fairlead.postgres.database.connections.session import Session, StatementFailedError
from fairlead.postgres.database.plans.snapshot import RoleFacts
from fairlead.postgres.database.plans.statements import AccessStatement, SharedChange
from fairlead.postgres.database.work.holding import holding
from fairlead.postgres.errors import AccessError


AT_ONCE = sql.SQL("SET LOCAL lock_timeout = '1ms'")
"""Statement after which a transaction waits for no more locks."""
# Only a role with CREATEROLE may comment on roles, since PostgreSQL 16 with ADMIN on them. One
# that lacks it may still have the right to the change, so the change is tried without the hold.
_DENIED = "42501"


class HoldingStatement(AccessStatement, frozen=True, kw_only=True):
    """A statement that holds an existing role in a transaction; see ``holding``."""

    role: RoleFacts

    @classmethod
    def of(
        cls, role: RoleFacts, usernames: tuple[str, ...], *, alone: bool = False
    ) -> HoldingStatement:
        """Return the hold of a role for these accesses."""
        return cls(
            statement=holding(role),
            what=f"change role {role.name}",
            why="no other writer changes it meanwhile",
            usernames=usernames,
            alone=alone,
            role=role,
        )


class Changing:
    """Changes in the transaction of a session, and their errors.

    Args:
        session: a session in a transaction.
        admin: the session's own role, for messages.
        brief: whether an access that waits for a lock is given up, because others wait.
    """

    def __init__(self, session: Session, admin: str, *, brief: bool) -> None:
        self._session = session
        self._admin = admin
        self._brief = brief
        self._waits = 0
        self.failed: dict[str, AccessError] = {}
        """Errors by username of accesses without a further change; earlier changes may stand."""
        self.problems: dict[str, list[AccessError]] = {}
        """Errors by username of single changes."""
        self.holds = True
        """Whether the administrator may hold roles."""

    async def run(self, changes: Iterable[AccessStatement]) -> None:
        """Make all changes that do not fail.

        Raises:
            psycopg.Error: other writers interfered, and the whole run may be tried again
                (``TRANSIENT_STATES``); or the connection broke.
        """
        parts = _parts(changes)
        at_once = len(parts)
        while parts:
            some = [left for part in parts[:at_once] if (left := self._left(part))]
            parts = parts[at_once:]
            failed = await self._try(some) if some else None
            if failed is None:
                at_once *= 2
                continue
            number, error = failed
            # The parts before it succeeded, and are done again without it.
            if number and await self._try(some[:number]) is not None:
                for part in some[:number]:
                    await self._alone(part)
            await self._alone(some[number], error)
            parts = [*some[number + 1 :], *parts]
            at_once = bounds.FAILED_PARTS

    def _left(self, part: Sequence[AccessStatement]) -> list[AccessStatement]:
        """Return the changes of a part for the accesses that have not failed."""
        left = []
        for change in part:
            names = [name for name in change.usernames if name not in self.failed]
            if not names or (isinstance(change, HoldingStatement) and not self.holds):
                continue
            left.append(change.only(names) if isinstance(change, SharedChange) else change)
        return left

    async def _try(
        self, parts: Sequence[Sequence[AccessStatement]]
    ) -> tuple[int, psycopg.Error] | None:
        """Make all parts or none in one round trip; return the failed one's number and error."""
        numbered = [(number, change) for number, part in enumerate(parts) for change in part]
        try:
            await self._session.run_all([change.statement for _, change in numbered])
        except StatementFailedError as failed:
            raise_what_is_nobodys(failed.error)
            return numbered[failed.number][0], failed.error
        return None

    async def _alone(
        self, part: Sequence[AccessStatement], error: psycopg.Error | None = None
    ) -> None:
        """Make one part alone; ``error`` is its error in the round trip before."""
        left = self._left(part)
        if not left:
            return
        if error is not None and self._brief and error.sqlstate == LOCKED_STATE:
            await self._give_up(left, error)
        elif left[0].alone or isinstance(left[0], SharedChange):
            await self._change_some(left[0])
        else:
            await self._change_role(left)

    async def _give_up(self, part: Iterable[AccessStatement], error: psycopg.Error) -> None:
        """Record accesses whose lock another session holds as failed."""
        for change in part:
            problem = explain_statement(error, change.what, self._admin)
            self.failed |= dict.fromkeys(change.usernames, problem)
        await self._waited()

    async def _waited(self) -> None:
        self._waits += 1
        if self._waits == bounds.LOCK_WAITS:
            await self._session.run(AT_ONCE)

    async def _change_role(self, changes: Sequence[AccessStatement]) -> None:
        change = changes[0]
        try:
            async with self._session.savepoint():
                for change in changes:
                    await self._session.run(change.statement)
        except psycopg.Error as error:
            raise_what_is_nobodys(error)
            if isinstance(change, HoldingStatement) and error.sqlstate == _DENIED:
                await self._without_holds(changes)
            elif self._brief and error.sqlstate == LOCKED_STATE:
                await self._give_up([change], error)
            else:
                if error.sqlstate == LOCKED_STATE:
                    await self._waited()
                problem = explain_statement(error, change.what, self._admin, sets=change.sets)
                self.failed[change.usernames[0]] = problem

    async def _change_some(self, change: AccessStatement) -> None:
        """Change all roles in one statement, or each alone if that fails."""
        try:
            async with self._session.savepoint():
                await self._session.run(change.statement)
        except psycopg.Error as error:
            raise_what_is_nobodys(error)
            if isinstance(change, HoldingStatement) and error.sqlstate == _DENIED:
                self.holds = False
            elif self._brief and error.sqlstate == LOCKED_STATE:
                await self._give_up([change], error)
            elif len(change.usernames) > 1 and isinstance(change, SharedChange):
                for username in change.usernames:
                    await self._change_some(change.only([username]))
            else:
                if error.sqlstate == LOCKED_STATE:
                    await self._waited()
                self.refuse(change, error)

    def refuse(self, change: AccessStatement, error: psycopg.Error) -> None:
        """Record the error of a change for its accesses, which go on without it."""
        problem = explain_statement(error, change.what, self._admin, change.field)
        for username in change.usernames:
            self.problems.setdefault(username, []).append(problem)

    async def _without_holds(self, changes: Sequence[AccessStatement]) -> None:
        """Make the changes without holds, as the administrator may not comment on roles."""
        self.holds = False
        left = self._left(changes)
        if left:
            await self._change_role(left)


def _parts(changes: Iterable[AccessStatement]) -> list[list[AccessStatement]]:
    """Return the parts that fail as a whole: roles with their claims, then shared changes."""
    together: dict[str, list[AccessStatement]] = {}
    others: list[list[AccessStatement]] = []
    for change in changes:
        if change.alone or isinstance(change, SharedChange):
            others.append([change])
        else:
            together.setdefault(change.usernames[0], []).append(change)
    return [*together.values(), *others]


def raise_what_is_nobodys(error: psycopg.Error) -> None:
    """Raise an error of the connection or of concurrent writers, not of a statement."""
    state = error.sqlstate or ""
    # After another writer's change the look is outdated, so not the statement but the whole
    # transaction is tried again.
    if not state or state in TRANSIENT_STATES or state.startswith(("08", "57P")):
        raise error
