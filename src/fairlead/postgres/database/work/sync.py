"""Brings the accesses of one server into it together: a few statements read for all of them.

Shared catalogs are written in the maintenance database, where one advisory lock holds all writers
apart; privileges on objects are written in each database under its own lock, never both at once.
What is written goes in one transaction for all accesses. When something in it fails it is done
anew for each access alone, so that none has to wait for what another one got wrong. What was
written is read again, because PostgreSQL answers OK to grants it did not make.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import NamedTuple, TypeVar

import psycopg
from psycopg import sql

from fairlead.postgres.database.connections.failures import TRANSIENT_STATES, explain_statement
from fairlead.postgres.database.connections.session import Session
from fairlead.postgres.database.connections.sessions import Sessions
from fairlead.postgres.database.plans.attributes import Around
from fairlead.postgres.database.plans.claiming import check_adoption, check_roles
from fairlead.postgres.database.plans.family import login_infos, retired
from fairlead.postgres.database.plans.grants import Desired, desired_grants
from fairlead.postgres.database.plans.plan import (
    Change,
    DatabaseChange,
    Synced,
    Wanted,
    databases_to_visit,
    missing_database,
    plan_databases,
    plan_public,
    plan_role,
    warnings_of,
)
from fairlead.postgres.database.plans.snapshot import Claim, Snapshot
from fairlead.postgres.database.plans.targets import DatabaseGrants
from fairlead.postgres.database.reading.catalog import read_around, read_snapshot
from fairlead.postgres.database.reading.comparison import RoleGrants, unborn_oid
from fairlead.postgres.database.reading.verifiers import Verifiers
from fairlead.postgres.database.work.privileges import RoleOutcome, settle
from fairlead.postgres.errors import AccessError


_ATTEMPTS = 6
"""Tries of one transaction while other sessions are in its way."""
_PAUSE_SECONDS = (0.02, 0.2)
"""The shortest and the longest pause between them, chosen at random."""

PUBLIC_CREATES = sql.SQL("""
SELECT 1
  FROM pg_catalog.pg_namespace n, pg_catalog.aclexplode(n.nspacl) a
 WHERE n.nspname = 'public' AND a.grantee = 0 AND a.privilege_type = 'CREATE'
""")
CLOSE_SCHEMA = sql.SQL("REVOKE CREATE ON SCHEMA public FROM PUBLIC")

T = TypeVar("T")


@asynccontextmanager
async def working(sessions: Sessions, what: str) -> AsyncIterator[Session]:
    """A session in the maintenance database; ``what`` completes "could not ...".

    Raises:
        AccessError: there is no connection, or a statement failed.
    """
    try:
        async with sessions.maintenance() as session:
            yield session
    except psycopg.Error as error:
        raise explain_statement(error, what, sessions.endpoint.username) from None


class Claimed(NamedTuple):
    """The roles that an access would have, its username first, and its claim.

    With ``adopt`` the first may be taken over when nobody claims it.
    """

    names: tuple[str, ...]
    claim: Claim
    adopt: bool = False

    @property
    def username(self) -> str:
        """Of the access."""
        return self.names[0]


async def check_claims(
    sessions: Sessions, asked: Sequence[Claimed]
) -> dict[str, AccessError | None]:
    """Why roles are not those claims' to make or to change, by username; None where they are.

    Args:
        sessions: of the server.
        asked: what is to be checked.

    Raises:
        AccessError: the server could not be asked.
    """
    async with working(sessions, "read the catalogs") as session:
        names = {name for one in asked for name in one.names}
        snapshot = await read_snapshot(session, names, "")
        around = await read_around(session, [one.username for one in asked if one.adopt])
    refused: dict[str, AccessError | None] = {}
    for one in asked:
        refused[one.username] = None
        try:
            check_roles(one.names, snapshot, one.claim, adopt=one.adopt)
            role = snapshot.roles.get(one.username)
            check_adoption(role, around.groups, adopt=one.adopt)
        except AccessError as error:
            refused[one.username] = error
    return refused


async def sync(
    sessions: Sessions, wanted: Sequence[Wanted], verifiers: Verifiers, *, at_once: int = 3
) -> dict[str, Synced | AccessError]:
    """Bring roles, passwords and grants into their wanted state; what came of it, by username.

    What concerns single grants is among the ``problems`` of a :class:`Synced`.

    Args:
        sessions: of the server.
        wanted: accesses with different usernames.
        verifiers: what is known of the server's passwords.
        at_once: databases that are worked on at the same time.

    Raises:
        AccessError: the server could not be worked on.
    """
    async with working(sessions, "read the catalogs") as session:
        roles = _RolePass(sessions, session, wanted, verifiers)
        snapshot = await roles.run()
    for username in roles.desired:
        if username not in snapshot.roles:
            error = AccessError("Conflict", f"role {username} was dropped meanwhile")
            roles.failed[username] = error
    visits = _Visits(sessions, snapshot, roles, at_once)
    await visits.run()
    results: dict[str, Synced | AccessError] = {**roles.failed}
    for username, desired in roles.desired.items():
        if username not in results:
            wanted_, asked = roles.wanted[username], roles.wanted[username].asked
            results[username] = Synced(
                server=snapshot.server,
                applied=desired.describe(),
                warnings=warnings_of(wanted_, desired, snapshot),
                logins=() if asked is None else login_infos(asked, wanted_.own(snapshot)),
                retired=() if asked is None else retired(asked, wanted_.own(snapshot)),
                problems=(
                    *desired.problems,
                    *roles.hindered.get(username, ()),
                    *roles.problems.get(username, ()),
                ),
                changed=username in roles.changed,
                created=username in roles.created,
            )
    return results


async def look_around(session: Session, wanted: Iterable[Wanted], snapshot: Snapshot) -> Around:
    """What has to be known beside the roles themselves."""
    groups: set[str] = set()
    parameters: set[str] = set()
    for one in wanted:
        groups |= {group.role for group in one.member_of or ()}
        role = snapshot.roles.get(one.username)
        if one.adopt and role is not None and role.claim is None:
            groups.add(one.username)
        if one.attributes is not None:
            stored = [name for known in one.names for name in _config(snapshot, known)]
            parameters |= {name.lower() for name in (*one.attributes.config, *stored)}
    return await read_around(session, groups, parameters)


def _config(snapshot: Snapshot, name: str) -> Iterable[str]:
    role = snapshot.roles.get(name)
    return role.config if role is not None else ()


class _RolePass:
    """Brings roles and their rights on databases, which are in the shared catalogs."""

    def __init__(
        self,
        sessions: Sessions,
        session: Session,
        wanted: Sequence[Wanted],
        verifiers: Verifiers,
    ) -> None:
        self._sessions = sessions
        self._session = session
        self.wanted = {one.username: one for one in wanted}
        self._databases = {grant.database for one in wanted for grant in one.grants}
        self._verifiers = verifiers
        self.desired: dict[str, Desired] = {}
        self.failed: dict[str, AccessError] = {}
        self.problems: dict[str, list[AccessError]] = {}
        self.hindered: dict[str, list[AccessError]] = {}
        """By username, what of the role itself cannot be had."""
        self.changed: set[str] = set()
        self.created: set[str] = set()
        self._stored: Collection[str] = ()
        """Of whom the last look would store a verifier."""

    async def run(self) -> Snapshot:
        """Do it; returns what the catalogs say then."""
        snapshot, changes = await self._look()
        if not changes:
            return snapshot
        await retried(self._write, "change roles")
        snapshot, left = await self._look()
        for change in left:
            for username in change.usernames:
                problem = not_applied(change.what, snapshot.server.admin)
                self.problems.setdefault(username, [problem])
        return snapshot

    async def _look(self) -> tuple[Snapshot, list[Change]]:
        wanted = [one for name, one in self.wanted.items() if name not in self.failed]
        names = [name for one in wanted for name in one.names]
        snapshot = await read_snapshot(self._session, names, "", databases=self._databases)
        self._refuse(wanted, snapshot)
        wanted = [one for one in wanted if one.username not in self.failed]
        missing, unknown = await self._verifiers.missing(self._sessions, wanted, snapshot)
        self.failed |= unknown
        wanted = [one for one in wanted if one.username not in unknown]
        self._stored = missing.keys()
        around = await look_around(self._session, wanted, snapshot)
        wanted = [one for one in wanted if self._may_adopt(one, snapshot, around)]
        changes: list[Change] = []
        self.hindered = {}
        now = datetime.now(UTC)
        for one in wanted:
            verifier = missing.get(one.login)
            own, problems = plan_role(one, snapshot, verifier, around, now=now)
            changes += own
            if problems:
                self.hindered[one.username] = problems
        self.desired = {
            one.username: desired_grants(one.grants, snapshot.server.version) for one in wanted
        }
        return snapshot, [
            *changes,
            *plan_databases(wanted, self.desired, snapshot),
            *plan_public(self._sessions.endpoint.revoke_public, self.desired, snapshot),
        ]

    def _refuse(self, wanted: Iterable[Wanted], snapshot: Snapshot) -> None:
        for one in wanted:
            try:
                check_roles(one.needed, snapshot, one.claim, adopt=one.adopt)
            except AccessError as error:
                self.failed[one.username] = error

    def _may_adopt(self, one: Wanted, snapshot: Snapshot, around: Around) -> bool:
        try:
            check_adoption(snapshot.roles.get(one.username), around.groups, adopt=one.adopt)
        except AccessError as error:
            self.failed[one.username] = error
            return False
        return True

    async def _write(self) -> None:
        failed = dict(self.failed)
        self.problems = {}
        try:
            async with self._session.transaction():
                snapshot, changes = await self._look()
                stored = set(self._stored)
                # Verifiers of passwords are in these statements, and log_statement and
                # pg_stat_statements would keep them.
                await self._session.hush()
                await self._apply(changes, snapshot.server.admin)
        except BaseException:
            self.failed = failed
            raise
        self.created |= self.desired.keys() - snapshot.roles.keys()
        self.changed |= {name for change in changes for name in change.usernames}
        self._verifiers.stored(
            one.login
            for name, one in self.wanted.items()
            if one.login in stored and name not in self.failed
        )

    async def _apply(self, changes: Sequence[Change], admin: str) -> None:
        """All of them in one round trip; each access alone when that fails."""
        try:
            async with self._session.savepoint():
                await self._session.run_all(change.statement for change in changes)
        except psycopg.Error as error:
            if error.sqlstate in TRANSIENT_STATES:
                raise
        else:
            return
        together: dict[str, list[Change]] = {}
        for change in changes:
            if not (change.alone or isinstance(change, DatabaseChange)):
                together.setdefault(change.usernames[0], []).append(change)
        for username, own in together.items():
            await self._change_role(username, own, admin)
        for change in changes:
            left = [name for name in change.usernames if name not in self.failed]
            if isinstance(change, DatabaseChange) and left:
                await self._change_some(change.only(left), admin)
            elif change.alone and left:
                await self._change_some(change, admin)

    async def _change_role(self, username: str, changes: Iterable[Change], admin: str) -> None:
        what = ""
        try:
            async with self._session.savepoint():
                for change in changes:
                    what = change.what
                    await self._session.run(change.statement)
        except psycopg.Error as error:
            if error.sqlstate in TRANSIENT_STATES:
                raise
            self.failed[username] = explain_statement(error, what, admin)

    async def _change_some(self, change: Change, admin: str) -> None:
        """All roles in one statement; each alone when that fails."""
        try:
            async with self._session.savepoint():
                await self._session.run(change.statement)
        except psycopg.Error as error:
            if error.sqlstate in TRANSIENT_STATES:
                raise
            if len(change.usernames) > 1 and isinstance(change, DatabaseChange):
                for username in change.usernames:
                    await self._change_some(change.only([username]), admin)
                return
            problem = explain_statement(error, change.what, admin)
            for username in change.usernames:
                self.problems.setdefault(username, []).append(problem)


class _Visits:
    """Brings the privileges on the objects of each database."""

    def __init__(
        self, sessions: Sessions, snapshot: Snapshot, roles: _RolePass, at_once: int
    ) -> None:
        self._sessions = sessions
        self._snapshot = snapshot
        self._roles = roles
        self._places = asyncio.Semaphore(at_once)
        self._problems: dict[str, dict[str, list[AccessError]]] = {}

    async def run(self) -> None:
        visits, self._problems = databases_of(self._roles.desired, self._snapshot)
        await asyncio.gather(*(self._visit(name, names) for name, names in visits.items()))
        # By the databases' names, so that the same problems are always told alike.
        for username, databases in self._problems.items():
            for _, found in sorted(databases.items()):
                self._roles.problems.setdefault(username, []).extend(found)

    async def _visit(self, database: str, usernames: Sequence[str]) -> None:
        try:
            async with self._places, self._sessions.use(database) as session:
                await self._settle(session, database, usernames)
        except (AccessError, psycopg.Error) as error:
            what = f"read the catalogs of database {database}"
            problem = explain(error, what, self._snapshot.server.admin)
            for username in usernames:
                self._problems.setdefault(username, {})[database] = [problem]

    async def _settle(self, session: Session, database: str, usernames: Sequence[str]) -> None:
        roles = [self._role(username, database) for username in usernames]
        admin = self._snapshot.server.admin
        if "CREATE" in self._sessions.endpoint.revoke_public:
            await close_schema(session, database, admin)

        async def work() -> dict[str, RoleOutcome]:
            return await settle(session, database, roles, admin)

        outcomes = await retried(work, f"change privileges in database {database}")
        for username, outcome in outcomes.items():
            self._problems.setdefault(username, {})[database] = list(outcome.problems)
            if outcome.changed:
                self._roles.changed.add(username)

    def _role(self, username: str, database: str) -> RoleGrants:
        wanted = self._roles.wanted[username]
        grants = self._roles.desired[username].of(database)
        return role_grants(wanted, grants, self._snapshot)


async def close_schema(session: Session, database: str, admin: str) -> None:
    """Take CREATE on schema public from PUBLIC, where it has it.

    Raises:
        AccessError: the administrator may not.
    """
    if not await session.rows(PUBLIC_CREATES):
        return
    try:
        async with session.transaction():
            await session.run(CLOSE_SCHEMA)
            left = await session.rows(PUBLIC_CREATES)
    except psycopg.Error as error:
        what = f"revoke CREATE on schema public of database {database} from PUBLIC"
        raise explain_statement(error, what, admin) from None
    if left:
        what = f"revoke CREATE on schema public of database {database} from PUBLIC"
        raise not_applied(what, admin)


def role_grants(
    wanted: Wanted, grants: DatabaseGrants, snapshot: Snapshot, number: int = 0
) -> RoleGrants:
    """What a role shall have in one database; ``number`` tells those that do not exist apart."""
    role = snapshot.roles.get(wanted.username)
    return RoleGrants(
        oid=unborn_oid(number) if role is None else role.oid,
        unborn=role is None,
        username=wanted.username,
        grants=grants,
        policy=wanted.policy,
        ledger=wanted.ledger,
    )


def databases_of(
    desired: Mapping[str, Desired], snapshot: Snapshot, *, unborn: bool = False
) -> tuple[dict[str, list[str]], dict[str, dict[str, list[AccessError]]]]:
    """The usernames to look at in each database; and by username and name what is not there.

    Roles that do not exist are left out, unless ``unborn`` ones are asked for too.
    """
    visits: dict[str, list[str]] = {}
    problems: dict[str, dict[str, list[AccessError]]] = {}
    for username, wanted in desired.items():
        if username not in snapshot.roles and not unborn:
            continue
        for name in databases_to_visit(username, wanted, snapshot):
            missing = missing_database(name, snapshot)
            if missing is not None:
                problems.setdefault(username, {})[name] = [missing]
            else:
                visits.setdefault(name, []).append(username)
    return visits, problems


def explain(error: AccessError | psycopg.Error, what: str, admin: str) -> AccessError:
    """The error in our words; ``what`` completes "could not ..."."""
    return error if isinstance(error, AccessError) else explain_statement(error, what, admin)


def not_applied(what: str, admin: str) -> AccessError:
    """What PostgreSQL answered OK to, and did not do."""
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
