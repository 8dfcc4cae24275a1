"""Brings the accesses of one server into it together: a few statements read for all of them.

Shared catalogs are written in the maintenance database, privileges on objects in each database.
What is written goes in one transaction for all accesses, which holds the roles that it changes.
What fails in it is done alone, so that none has to wait for what another one got wrong; and what
another session has locked is given up at once in work for many. What was written is read again,
because PostgreSQL answers OK to grants it did not make.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec
import psycopg

from fairlead.postgres.database.connections.session import BRIEF, BRIEF_READING, PATIENT, Session
from fairlead.postgres.database.connections.sessions import Sessions
from fairlead.postgres.database.plans.attributes import Around
from fairlead.postgres.database.plans.claiming import (
    check_adoption,
    check_password,
    check_roles,
    takes_over,
)
from fairlead.postgres.database.plans.family import login_infos, retired
from fairlead.postgres.database.plans.grants import Desired
from fairlead.postgres.database.plans.groups import (
    Sharing,
    careful,
    joined,
    plan_groups,
    share,
)
from fairlead.postgres.database.plans.plan import (
    Change,
    Synced,
    Wanted,
    plan_databases,
    plan_public,
    plan_role,
)
from fairlead.postgres.database.plans.snapshot import Claim, Snapshot
from fairlead.postgres.database.reading.catalog import CROWD, read_around, read_snapshot
from fairlead.postgres.database.reading.comparison import RoleGrants
from fairlead.postgres.database.reading.verifiers import Verifiers
from fairlead.postgres.database.work.blockers import watching
from fairlead.postgres.database.work.changing import Changing, Hold
from fairlead.postgres.database.work.databases import (
    all_warnings,
    close_schema,
    crowds,
    databases_of,
    look_around,
    role_grants,
    too_many,
)
from fairlead.postgres.database.work.groups import leave_groups
from fairlead.postgres.database.work.holding import check_held
from fairlead.postgres.database.work.privileges import RoleOutcome, settle
from fairlead.postgres.database.work.retries import explain, not_applied, retried, working
from fairlead.postgres.errors import AccessError


_WRITES = 2
"""Before what is still missing counts as not done: another writer may have been in between.

A group that nobody shares any more loses its privileges in each database under that one's lock.
"""


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
        snapshot = await read_snapshot(session, names, "", whole=False)
        taken_over = [
            one.username
            for one in asked
            if takes_over(snapshot.roles.get(one.username), adopt=one.adopt)
        ]
        around = await read_around(session, taken_over)
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
    sessions: Sessions,
    wanted: Sequence[Wanted],
    verifiers: Verifiers,
    *,
    at_once: int = 3,
    brief: bool = False,
) -> dict[str, Synced | AccessError]:
    """Bring roles, passwords and grants into their wanted state; what came of it, by username.

    What concerns single grants is among the ``problems`` of a :class:`Synced`.

    Args:
        sessions: of the server.
        wanted: accesses with different usernames.
        verifiers: what is known of the server's passwords.
        at_once: databases that are worked on at the same time.
        brief: whether whatever another session has locked is given up at once, for the sake of
            the others: those accesses come out ``Locked``, and are to be tried alone. So is what
            has very many objects, or is slow to read: ``TimedOut``.

    Raises:
        AccessError: the server could not be worked on.
    """
    if brief:
        return await _sync(sessions, wanted, verifiers, at_once=at_once, brief=True)
    async with watching(sessions) as blockers:
        found = await _sync(sessions, wanted, verifiers, at_once=at_once, brief=False)
    for username, answer in found.items():
        if isinstance(answer, AccessError):
            found[username] = blockers.named(answer)
        else:
            problems = tuple(map(blockers.named, answer.problems))
            found[username] = msgspec.structs.replace(answer, problems=problems)
    return found


async def _sync(
    sessions: Sessions,
    wanted: Sequence[Wanted],
    verifiers: Verifiers,
    *,
    at_once: int,
    brief: bool,
) -> dict[str, Synced | AccessError]:
    async with working(sessions, "read the catalogs") as session:
        roles = _RolePass(sessions, session, wanted, verifiers, brief=brief)
        snapshot = await roles.run()
    for username in roles.desired:
        if username not in snapshot.roles:
            error = AccessError("Conflict", f"role {username} was dropped meanwhile")
            roles.failed[username] = error
    visits = _Visits(sessions, snapshot, roles, at_once)
    await visits.run()
    # Until its new group has everything, the old one is where a login has its privileges from.
    snapshot = await roles.leave(snapshot, visits.held_up)
    results: dict[str, Synced | AccessError] = {**roles.failed}
    for username, desired in roles.desired.items():
        if username not in results:
            wanted_, asked = roles.wanted[username], roles.wanted[username].asked
            results[username] = Synced(
                server=snapshot.server,
                applied=desired.describe(),
                warnings=all_warnings(wanted_, roles.sharing, snapshot),
                logins=() if asked is None else login_infos(asked, wanted_.own(snapshot)),
                retired=() if asked is None else retired(asked, wanted_.own(snapshot)),
                problems=roles.problems_of(username),
                changed=not roles.changed.isdisjoint(roles.names_of(username)),
                created=username in roles.created,
                group=roles.group_of(username, snapshot, visits.held_up),
            )
    return results


class _RolePass:
    """Brings roles and their rights on databases, which are in the shared catalogs."""

    def __init__(
        self,
        sessions: Sessions,
        session: Session,
        wanted: Sequence[Wanted],
        verifiers: Verifiers,
        *,
        brief: bool,
    ) -> None:
        self._sessions = sessions
        self._session = session
        self.brief = brief
        self.wanted = {one.username: one for one in wanted}
        self._databases = {grant.database for one in wanted for grant in one.grants}
        self._verifiers = verifiers
        self.sharing = Sharing()
        self.taken: Mapping[str, AccessError] = {}
        """Groups whose names somebody else's roles have."""
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
        snapshot, changes = await self._look_apart()
        for _ in range(_WRITES):
            # What is refused is known by now, and not tried again at once.
            if all(name in self.problems for change in changes for name in change.usernames):
                break
            # It looks again within its transaction: what was seen before is a guess there.
            await retried(self._write, "change roles")
            snapshot, changes = await self._look_apart()
        for change in changes:
            for username in change.usernames:
                # Where the server has refused something in words, those tell more than this.
                problem = not_applied(change.what, snapshot.server.admin)
                self.problems.setdefault(username, [problem])
        return snapshot

    async def _look_apart(self) -> tuple[Snapshot, list[Change]]:
        """Look in no transaction, or where others wait in one that ends what takes long."""
        if not self.brief:
            return await self._look()
        async with self._session.transaction(BRIEF_READING):
            return await self._look()

    async def _look(self) -> tuple[Snapshot, list[Change]]:
        wanted = [one for name, one in self.wanted.items() if name not in self.failed]
        version = self._session.server_version
        names = [name for one in wanted for name in one.names]
        shared = share(wanted, version)
        snapshot = await read_snapshot(
            self._session,
            names,
            "",
            databases=self._databases,
            groups=shared.groups,
            most=CROWD if self.brief else None,
        )
        for one in wanted:
            if crowds(one, shared, snapshot):
                self.failed[one.username] = too_many(one.username)
        wanted = [one for one in wanted if one.username not in self.failed]
        # This comes before the passwords: to compare one takes thousands of rounds, or a login
        # where nobody may read verifiers.
        self._refuse(wanted, snapshot)
        wanted = [one for one in wanted if one.username not in self.failed]
        known_here = [one for one in wanted if not one.keeps]
        missing, unknown = await self._verifiers.missing(self._sessions, known_here, snapshot)
        self.failed |= unknown
        wanted = [one for one in wanted if one.username not in unknown]
        self._stored = missing.keys()
        around = await look_around(self._session, wanted, snapshot)
        wanted = [one for one in wanted if self._may_adopt(one, snapshot, around)]
        changes: list[Change] = []
        self.hindered = {}
        for one in wanted:
            verifier = missing.get(one.login)
            own, problems = plan_role(one, snapshot, verifier, around)
            changes += own
            if problems:
                self.hindered[one.username] = problems
        sharing = share(wanted, version, snapshot.roles)
        groups = plan_groups(sharing, snapshot)
        self.taken = groups.taken
        self.sharing = sharing = sharing.without(groups.taken)
        self.desired = dict(sharing.asked)
        # What those who share hold themselves is looked at once their groups have it.
        both = sharing.roles(
            careful(one) if one.username in sharing.group_of else one for one in wanted
        )
        return snapshot, [
            *changes,
            *groups.changes,
            *plan_databases(both.values(), sharing.desired, snapshot),
            *plan_public(self._sessions.endpoint.revoke_public, self.desired, snapshot),
        ]

    def names_of(self, username: str) -> list[str]:
        """The names of the role and of its group, if it has one."""
        return [username, *filter(None, [self.sharing.group_of.get(username)])]

    def problems_of(self, username: str) -> tuple[AccessError, ...]:
        """What stands in the way of single parts of an access, some of it of its whole group."""
        names = self.names_of(username)
        return (
            *self.desired[username].problems,
            *self.hindered.get(username, ()),
            *(self.taken[name] for name in names if name in self.taken),
            *(problem for name in names for problem in self.problems.get(name, ())),
        )

    def group_of(self, username: str, snapshot: Snapshot, held_up: Collection[str]) -> str:
        """The group which has what the access asks for, "" while it is on its way there."""
        name = self.sharing.group_of.get(username, "")
        role, version = snapshot.roles.get(username), snapshot.server.version
        return name if name and username not in held_up and joined(role, name, version) else ""

    async def leave(self, snapshot: Snapshot, held_up: Collection[str]) -> Snapshot:
        """Leave the groups that are not needed any more; returns what the catalogs say then."""
        left = [one for name, one in self.wanted.items() if name in self.desired]
        try:
            snapshot, problems = await leave_groups(
                self._sessions, left, self.sharing, snapshot, held_up, brief=self.brief
            )
        except AccessError as error:
            problems = {name: [error] for name in self.desired}
        for name, found in problems.items():
            self.problems.setdefault(name, []).extend(found)
        return snapshot

    def _refuse(self, wanted: Iterable[Wanted], snapshot: Snapshot) -> None:
        for one in wanted:
            try:
                check_roles(one.needed, snapshot, one.claim, adopt=one.adopt)
                role = snapshot.roles.get(one.username)
                check_password(role, one.username, keeps=one.keeps)
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
        # A try that is repeated begins with what was known before it.
        failed = dict(self.failed)
        self.problems = {}
        try:
            async with self._session.transaction(BRIEF_READING if self.brief else PATIENT):
                # Another writer may have taken a name, or changed a role, since the last look.
                snapshot, changes = await self._look()
                stored = set(self._stored)
                if self.brief:
                    await self._session.limit(BRIEF)
                # Verifiers of passwords are in these statements, and log_statement and
                # pg_stat_statements would keep them.
                await self._session.hush()
                await self._change(snapshot, changes)
        except BaseException:
            # The transaction is rolled back, and perhaps tried again: what it has found about
            # single accesses goes with it.
            self.failed = failed
            raise
        # Only after the commit does the server have the roles, and the verifiers.
        self.created |= self.desired.keys() - snapshot.roles.keys() - self.failed.keys()
        self.changed |= {name for change in changes for name in change.usernames}
        self._verifiers.stored(
            one.login
            for name, one in self.wanted.items()
            if one.login in stored and name not in self.failed
        )

    async def _change(self, snapshot: Snapshot, changes: Sequence[Change]) -> None:
        """Hold the roles, then change them."""
        holds = self._holds(snapshot, changes)
        changing = Changing(self._session, snapshot.server.admin, brief=self.brief)
        await changing.run([*holds, *changes])
        self.failed |= changing.failed
        self.problems = changing.problems
        held = [
            hold.role
            for hold in holds
            if not changing.failed.keys() >= set(hold.usernames) and changing.holds
        ]
        await check_held(self._sessions, self._session, held)

    def _holds(self, snapshot: Snapshot, changes: Iterable[Change]) -> list[Hold]:
        """One for each role that there is and that these changes are about."""
        users = {name for change in changes for name in change.usernames}
        found: list[Hold] = []
        for name, one in self.wanted.items():
            if name in users:
                found += (Hold.of(role, (name,)) for role in one.own(snapshot).values())
        for name, group in self.sharing.groups.items():
            role = snapshot.roles.get(name)
            if role is not None and (name in users or not users.isdisjoint(group.members)):
                found.append(Hold.of(role, tuple(group.members), alone=True))
        return found


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
        self._all = roles.sharing.roles(roles.wanted.values())
        self.held_up: set[str] = set()
        """Usernames of those that have not everything which they could have."""

    async def run(self) -> None:
        visits, self._problems = databases_of(self._roles.sharing.desired, self._snapshot)
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
            # Where nobody could look a group may lack something, so that its members lose nothing
            # yet which they have otherwise.
            self._hold_up(usernames)

    async def _settle(self, session: Session, database: str, usernames: Sequence[str]) -> None:
        admin, groups = self._snapshot.server.admin, self._roles.sharing.groups
        if "CREATE" in self._sessions.endpoint.revoke_public:
            await close_schema(session, database, admin, brief=self._roles.brief)

        async def bring(some: Sequence[str]) -> None:
            roles = [self._role(username, database) for username in some]

            async def work() -> dict[str, RoleOutcome]:
                return await settle(session, database, roles, admin, brief=self._roles.brief)

            outcomes = await retried(work, f"change privileges in database {database}")
            for username, outcome in outcomes.items():
                self._problems.setdefault(username, {})[database] = list(outcome.problems)
                if outcome.changed:
                    self._roles.changed.add(username)
                if outcome.unsettled:
                    self._hold_up([username])

        # What logins have themselves is taken only once their groups have it.
        shared = [name for name in usernames if name in groups]
        if shared:
            await bring(shared)
            full = [name for name in shared if _is_full(self._problems[name][database])]
            await self._make_room(session, database, full, usernames)
        logins = [name for name in usernames if name not in groups]
        if logins:
            await bring(logins)

    async def _make_room(
        self, session: Session, database: str, full: Iterable[str], usernames: Collection[str]
    ) -> None:
        """Where an ACL has no room for a group, members give up their own entries for it."""
        sharing, admin = self._roles.sharing, self._snapshot.server.admin
        for name in full:
            members = [one for one in sharing.groups[name].members if one in usernames]
            # Who is held up keeps its own entries, and those are the room that the group needs.
            self.held_up.difference_update(members)
            roles = [self._role(one, database) for one in (name, *members)]
            outcomes: dict[str, RoleOutcome] = {}
            # All of it or nothing, for whoever looks meanwhile.
            brief = self._roles.brief
            async with session.transaction(BRIEF if brief else PATIENT):
                outcomes = await settle(session, database, roles, admin, brief=brief)
                if outcomes[name].unsettled:
                    raise psycopg.Rollback
            outcome = outcomes.get(name, RoleOutcome(unsettled=True))
            if outcome.unsettled:
                self._hold_up([name])
            else:
                self._problems[name][database] = list(outcome.problems)
                self._roles.changed.add(name)

    def _hold_up(self, names: Iterable[str]) -> None:
        groups = self._roles.sharing.groups
        for name in names:
            self.held_up.update(groups[name].members if name in groups else [name])

    def _role(self, username: str, database: str) -> RoleGrants:
        wanted = self._all[username]
        group = self._roles.sharing.group_of.get(username)
        if group is not None:
            role, version = self._snapshot.roles.get(username), self._snapshot.server.version
            settled = group in self._roles.sharing.groups and joined(role, group, version)
            # Until the group has it all, and the login is in there, the login loses nothing of its
            # own.
            if username in self.held_up or not settled:
                wanted = careful(wanted)
        grants = self._roles.sharing.desired[username].of(database)
        return role_grants(wanted, grants, self._snapshot)


def _is_full(problems: Iterable[AccessError]) -> bool:
    """Whether an ACL has no room for one more."""
    return any(problem.reason == "TooManyGrantees" for problem in problems)
