"""Brings one access into the database; when nothing is missing that is two round trips to read.

Shared catalogs are written in the maintenance database, where one advisory lock holds all writers
apart; privileges on objects are written in each database under its own lock, never both at once.
What was written is read again, because PostgreSQL answers OK to grants it did not make.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TypeVar

import psycopg

from fairlead.postgres.database import password
from fairlead.postgres.database.catalog import read_snapshot
from fairlead.postgres.database.comparison import RoleGrants
from fairlead.postgres.database.endpoint import Endpoint
from fairlead.postgres.database.failures import TRANSIENT_STATES, explain_statement
from fairlead.postgres.database.grants import Desired, desired_grants
from fairlead.postgres.database.plan import (
    Change,
    Synced,
    Wanted,
    check_role,
    databases_to_visit,
    missing_database,
    plan_role,
    public_warnings,
)
from fairlead.postgres.database.privileges import RoleOutcome, settle
from fairlead.postgres.database.session import Session, connect, logs_in
from fairlead.postgres.database.snapshot import Claim, ServerFacts, Snapshot
from fairlead.postgres.database.targets import DatabaseGrants
from fairlead.postgres.errors import AccessError


_ATTEMPTS = 6
"""Tries of one transaction while other sessions are in its way."""

_PAUSE_SECONDS = (0.02, 0.2)
"""The shortest and the longest pause between them, chosen at random."""

T = TypeVar("T")


@asynccontextmanager
async def maintenance(endpoint: Endpoint) -> AsyncIterator[Session]:
    """A session in the maintenance database, or in the one named where that one is closed to us.

    Raises:
        AccessError: there is no connection.
    """
    async with AsyncExitStack() as stack:
        try:
            session = await stack.enter_async_context(connect(endpoint, endpoint.maintenance))
        except AccessError as error:
            elsewhere = endpoint.fallback not in {"", endpoint.maintenance}
            if not elsewhere or error.reason not in {"DatabaseNotFound", "InsufficientPrivilege"}:
                raise
            session = await stack.enter_async_context(connect(endpoint, endpoint.fallback))
        yield session


async def check_claim(endpoint: Endpoint, username: str, claim: Claim) -> None:
    """Refuse a role that is not this access's to make or to change.

    Raises:
        AccessError: UserReserved, AdoptionRefused or UsernameConflict; or why the server cannot
            be asked.
    """
    try:
        async with maintenance(endpoint) as session:
            snapshot = await read_snapshot(session, username, claim.installation)
    except psycopg.Error as error:
        raise explain_statement(error, "read the catalogs", endpoint.username) from None
    check_role(snapshot.role, claim, snapshot.server.admin)


async def sync(endpoint: Endpoint, wanted: Wanted) -> Synced:
    """Bring role, password and grants into their wanted state.

    Raises:
        AccessError: the role could not be brought there; what concerns single grants is in
            ``problems`` instead.
    """
    try:
        return await _sync(endpoint, wanted)
    except psycopg.Error as error:
        raise explain_statement(error, "read the catalogs", endpoint.username) from None


async def _sync(endpoint: Endpoint, wanted: Wanted) -> Synced:
    async with maintenance(endpoint) as session:
        snapshot, changed, problems = await _RolePass(endpoint, wanted, session).run()
    desired = desired_grants(wanted.grants, snapshot.server.version)
    problems = [*desired.problems, *problems]
    if snapshot.role is None:
        raise AccessError("Conflict", f"role {wanted.username} was dropped meanwhile")
    role = snapshot.role.oid
    for name in databases_to_visit(desired, snapshot):
        missing = missing_database(name, snapshot)
        if missing is not None:
            problems.append(missing)
            continue
        database = _DatabasePass(name, role, wanted.username, desired.of(name), snapshot.server)
        changed |= await database.run(endpoint)
        problems += database.problems
    return Synced(
        server=snapshot.server,
        applied=desired.describe(),
        warnings=public_warnings(desired, snapshot),
        problems=tuple(problems),
        changed=changed,
        claimed=snapshot.claimed,
    )


class _RolePass:
    """Brings the role and its rights on databases, which are in the shared catalogs."""

    def __init__(self, endpoint: Endpoint, wanted: Wanted, session: Session) -> None:
        self._endpoint = endpoint
        self._wanted = wanted
        self._session = session
        self._problems: list[AccessError] = []

    async def run(self) -> tuple[Snapshot, bool, list[AccessError]]:
        snapshot, steps = await self._look()
        if not steps:
            return snapshot, False, []
        await retried(self._write, "change role " + self._wanted.username)
        snapshot, left = await self._look()
        if left and not self._problems:
            self._problems.append(_not_applied(left[0].what, snapshot.server.admin))
        return snapshot, True, self._problems

    async def _look(self) -> tuple[Snapshot, list[Change]]:
        wanted = self._wanted
        snapshot = await read_snapshot(self._session, wanted.username, wanted.claim.installation)
        desired = desired_grants(wanted.grants, snapshot.server.version)
        matches = await self._password_matches(snapshot, desired)
        return snapshot, plan_role(wanted, desired, snapshot, password_matches=matches)

    async def _password_matches(self, snapshot: Snapshot, desired: Desired) -> bool:
        """Without the right to read verifiers, logging in is the only way to know."""
        role = snapshot.role
        if role is None or role.claim is None:
            return False
        if snapshot.server.reads_verifiers:
            return password.verifies(self._wanted.password, role.verifier)
        if not role.login or not role.claim.same_object(self._wanted.claim):
            return False
        database = next(iter(sorted(desired.databases)), self._endpoint.maintenance)
        return await logs_in(self._endpoint, database, role.name, self._wanted.password)

    async def _write(self) -> None:
        self._problems = []
        async with self._session.transaction():
            snapshot, steps = await self._look()
            if snapshot.server.superuser:
                # The verifier of a password is in one of these statements, and log_statement would
                # keep it.
                await self._session.hush()
            for step in steps:
                await self._step(step, snapshot.server.admin)

    async def _step(self, step: Change, admin: str) -> None:
        try:
            async with self._session.savepoint():
                await self._session.run(step.statement)
        except psycopg.Error as error:
            if error.sqlstate in TRANSIENT_STATES:
                raise
            explained = explain_statement(error, step.what, admin)
            if not step.isolated:
                raise explained from None
            self._problems.append(explained)


class _DatabasePass:
    """Brings the privileges on the objects of one database."""

    def __init__(
        self, name: str, role: int, username: str, wanted: DatabaseGrants, server: ServerFacts
    ) -> None:
        self._name = name
        self._role = role
        self._username = username
        self._wanted = wanted
        self._server = server
        self.problems: list[AccessError] = []

    async def run(self, endpoint: Endpoint) -> bool:
        """Do it; returns whether anything was changed."""
        try:
            async with connect(endpoint, self._name) as session:
                return await self._run(session)
        except AccessError as error:
            self.problems.append(error)
        except psycopg.Error as error:
            what = f"read the catalogs of database {self._name}"
            self.problems.append(explain_statement(error, what, self._server.admin))
        return False

    async def _run(self, session: Session) -> bool:
        role = RoleGrants(oid=self._role, username=self._username, grants=self._wanted)

        async def work() -> dict[str, RoleOutcome]:
            return await settle(session, self._name, [role], self._server.admin)

        outcomes = await retried(work, f"change privileges in database {self._name}")
        outcome = outcomes[self._username]
        self.problems += outcome.problems
        return outcome.changed


def _not_applied(what: str, admin: str) -> AccessError:
    return AccessError(
        "InsufficientPrivilege",
        f"PostgreSQL did not {what}, without saying so; {admin} lacks the grant option, or another"
        " role granted it",
    )


async def retried(work: Callable[[], Awaitable[T]], what: str) -> T:
    """Do the work, and again after a moment when another session was in its way.

    Raises:
        AccessError: the connection broke, or the others would not give way.
    """
    for attempt in range(_ATTEMPTS):
        try:
            return await work()
        except psycopg.Error as error:
            last = attempt + 1 == _ATTEMPTS
            if last or error.sqlstate not in TRANSIENT_STATES:
                raise explain_statement(error, what, "the administrator") from None
        await asyncio.sleep(random.uniform(*_PAUSE_SECONDS))  # noqa: S311 - spreads, hides nothing
    raise AssertionError
