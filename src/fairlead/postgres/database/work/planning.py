"""Plans for a server that are shown and not run: the statements, each with its reason.

Passwords are ***, so that the same plan reads the same with any salt.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec
import psycopg
from psycopg import sql

from fairlead.postgres import bounds
from fairlead.postgres.database.connections.failures import explain
from fairlead.postgres.database.connections.identity import identity_of
from fairlead.postgres.database.connections.session import Session
from fairlead.postgres.database.connections.sessions import Sessions
from fairlead.postgres.database.plans.approvals import window_ends, window_parts
from fairlead.postgres.database.plans.differences import PrivilegeChange, plan_privileges
from fairlead.postgres.database.plans.groups import Membering, plan_leaving
from fairlead.postgres.database.plans.login_statements import retired
from fairlead.postgres.database.plans.plan import (
    REVOKE_PUBLIC,
    ShownPlan,
    WantedState,
    summarized,
)
from fairlead.postgres.database.plans.server_plan import (
    BatchPlan,
    CrowdedError,
    plan_server,
    visits_of,
)
from fairlead.postgres.database.plans.snapshot import ServerIdentity, ServerSnapshot
from fairlead.postgres.database.plans.statements import AccessStatement
from fairlead.postgres.database.reading.actors import read_owning_actors
from fairlead.postgres.database.reading.catalog import observe
from fairlead.postgres.database.reading.comparison import (
    Comparison,
    Reading,
    RoleGrants,
    count_held,
    hindrances,
    read_differences,
    read_window,
    role_grants,
)
from fairlead.postgres.database.reading.verifiers import Verifiers
from fairlead.postgres.database.work.privileges import CLOSE_SCHEMA, PUBLIC_CREATES
from fairlead.postgres.database.work.rights import let_in, read_lacks, read_remedies
from fairlead.postgres.errors import AccessError


async def plan_accesses(
    sessions: Sessions,
    states: Sequence[WantedState],
    verifiers: Verifiers,
    *,
    rights: bool = False,
    most: int | None = None,
    parts: Collection[str] = (),
    held_objects: bool = True,
) -> ShownPlan:
    """Plan accesses with different usernames together.

    An access without a password leaves the password of an existing role alone.

    Args:
        sessions: the sessions of the server.
        states: the accesses.
        verifiers: the known verifiers of the server.
        rights: whether to add remedies for rights that the administrator lacks.
        most: objects and privileges of one role that are counted, None for all; then no role is
            planned in windows.
        parts: for one access, the hashes of the parts of its former plan, whose windows are looked
            at again.
        held_objects: for one access, whether to plan also what its roles have in windows.

    Raises:
        AccessError: the server could not be read; a CrowdedError if a role has too many privileges
            for ``most``.
    """
    async with sessions.working("read the catalogs") as session:
        identity = await identity_of(session)
        observed = await observe(sessions, session, states, verifiers, most=most)
    crowded = next(
        (error for error in observed.refused.values() if isinstance(error, CrowdedError)), None
    )
    if crowded is not None:
        raise crowded
    plan = plan_server(states, observed, sessions.endpoint.revoke_public)
    telling = _Telling(sessions, observed.snapshot, plan, rights=rights)
    windows = (
        _Windows(parts, held_objects=held_objects, beside=most is not None)
        if len(states) == 1
        else None
    )
    for name, error in observed.refused.items():
        telling.refuse(name, [error])
    left = observed.admits(states)
    await telling.roles(left)
    await telling.objects(windows)
    # They come last, as they would run: a login leaves a group when the new one has everything.
    leaving = plan_leaving(left, plan.sharing, observed.snapshot, foreseen=True)
    telling.statements += [telling.shared(change) for change in leaving]
    return ShownPlan(
        statements=tuple(telling.statements),
        refused={name: tuple(found) for name, found in telling.refused.items()},
        remedies=tuple(telling.remedies),
        place=_place(sessions, identity, states, observed.snapshot),
        whole=not observed.refused and telling.whole,
    )


def _place(
    sessions: Sessions,
    identity: ServerIdentity,
    states: Iterable[WantedState],
    snapshot: ServerSnapshot,
) -> str:
    """Return the server and the databases of a plan, by what no other one shares.

    A database that was dropped and restored under its name has another oid.
    """
    names = {grant.database for one in states for grant in one.grants}
    oids = {name: snapshot.databases[name].oid for name in names & snapshot.databases.keys()}
    databases = [f"{name}={oid}" for name, oid in sorted(oids.items())]
    return " ".join([str(sessions.endpoint), str(identity), *databases])


class _Windows:
    """The windows in which the privileges of roles with many are planned."""

    def __init__(self, parts: Collection[str], *, held_objects: bool, beside: bool) -> None:
        self._parts = parts
        self._beside = beside
        self.held_objects = held_objects

    async def comparison(
        self, session: Session, database: str, role: RoleGrants
    ) -> Comparison | None:
        """Return the windows of a role, None if it has few privileges in the database.

        Raises:
            CrowdedError: other accesses wait for the plan.
        """
        most = bounds.ACL_WINDOW
        ends = window_ends(self._parts, database, role.username)
        if not ends and await count_held(session, role.oid, most + 1) <= most:
            return None
        if self._beside:
            raise CrowdedError(role.username)
        return Comparison(database, [role], session.server_version, most, ends)


class _Telling:
    """Collects a plan to show: its statements, the errors of accesses, and the remedies."""

    def __init__(
        self, sessions: Sessions, snapshot: ServerSnapshot, plan: BatchPlan, *, rights: bool
    ) -> None:
        self._sessions = sessions
        self._rights = rights
        self._snapshot = snapshot
        self._plan = plan
        self.statements: list[AccessStatement] = []
        self.refused: dict[str, list[AccessError]] = {}
        self.remedies: list[AccessStatement] = []
        self.whole = True
        self._admin = snapshot.server.admin

    async def roles(self, states: Sequence[WantedState]) -> None:
        """Add the missing statements in the shared catalogs."""
        plan = self._plan
        for name, problems in plan.hindered.items():
            self.refuse(name, problems)
        for state in states:
            self.refuse(state.username, plan.sharing.own[state.username].problems)
        for name, error in plan.taken.items():
            members = [one for one, group in plan.sharing.group_of.items() if group == name]
            for username in members:
                self.refuse(username, [error])
        if self._rights and not self._snapshot.server.superuser:
            await self._lacks({one.username: one for one in states})
        changes = (*plan.on_roles, *plan.on_groups, *plan.on_public, *plan.on_databases)
        self.statements += map(self.shared, changes)
        for state in states:
            self.statements += self._retire(state)

    def _retire(self, state: WantedState) -> Iterator[AccessStatement]:
        """Yield the statements that drop the logins of a former TwoLogins."""
        logins = state.asked_logins
        if logins is None:
            return
        moment = self._snapshot.server.moment
        for name in retired(logins, state.own(self._snapshot), moment):
            yield AccessStatement(
                database=self._sessions.endpoint.maintenance,
                statement=sql.SQL("DROP ROLE {}").format(sql.Identifier(name)),
                why="its grace period is over, and the rotation is InPlace",
                usernames=(state.username,),
            )

    def shared(self, change: AccessStatement) -> AccessStatement:
        """Return a statement in the shared catalogs."""
        return msgspec.structs.replace(
            self._whose(change), database=self._sessions.endpoint.maintenance
        )

    async def _lacks(self, states: Mapping[str, WantedState]) -> None:
        """Add errors and remedies for rights that the administrator lacks."""
        snapshot, plan = self._snapshot, self._plan
        changed_names = [name for one in plan.on_roles for name in one.usernames]
        changed = {name: snapshot.roles.get(name) for name in changed_names}
        groups: dict[str, list[str]] = {}
        for name, role in changed.items():
            for group in states[name].member_of or ():
                if role is None or group.role not in role.groups:
                    groups.setdefault(group.role, []).append(name)
        # A group that does not exist yet is created by the administrator, who then has ADMIN on
        # it.
        for change in plan.on_groups:
            if isinstance(change, Membering) and change.group in snapshot.roles:
                groups.setdefault(change.group, []).extend(change.usernames)
            elif isinstance(change, Membering):
                changed[change.group] = None
        maintenance = self._sessions.endpoint.maintenance
        installation = next((one.claim.installation for one in states.values()), "")
        names = {change.on for change in plan.on_databases}
        async with self._sessions.working("read the catalogs") as session:
            actors = await read_owning_actors(session, installation, names)
            others = [change for change in plan.on_databases if change.on not in actors]
            lacks = await read_lacks(
                session, maintenance, snapshot.server, changed, groups, others
            )
        for lack in lacks:
            remedy = self._whose(lack.remedy)
            self.remedies.append(remedy)
            for name in remedy.usernames:
                self.refuse(name, [lack.problem])

    def _whose(self, statement: AccessStatement) -> AccessStatement:
        return msgspec.structs.replace(statement, usernames=self._plan.who(statement.usernames))

    async def objects(self, windows: _Windows | None) -> None:
        """Add the missing statements in each database, also for roles that do not exist yet.

        With ``windows`` each role is looked at by itself, as it is when its statements run.
        """
        snapshot, plan = self._snapshot, self._plan
        visits, missing = visits_of(plan.desired, snapshot, unborn=True)
        for username, databases in missing.items():
            for differences in databases.values():
                self.refuse(username, differences)
        for database, usernames in sorted(visits.items()):
            roles = [
                # Roles that do not exist yet need different oids in one comparison.
                role_grants(plan.roles[name], plan.desired[name].of(database), snapshot, number)
                for number, name in enumerate(usernames)
            ]
            try:
                async with self._sessions.use(database) as session:
                    await self._close(session, database, usernames)
                    for some in [roles] if windows is None else [[role] for role in roles]:
                        await self._compare(session, database, some, windows)
            except CrowdedError:
                raise
            except (AccessError, psycopg.Error) as error:
                self._not_let_in(error, database, usernames)

    async def _compare(
        self,
        session: Session,
        database: str,
        roles: Sequence[RoleGrants],
        windows: _Windows | None,
    ) -> None:
        """Add the missing statements on the objects of a database."""
        comparison = None
        if windows is not None:
            comparison = await windows.comparison(session, database, roles[0])
        if comparison is None:
            reading = await read_differences(session, database, roles)
            await self._tell(session, database, roles, reading)
            return
        parts: dict[str, list[PrivilegeChange]] = {}
        while len(parts) < bounds.WINDOW_PARTS:
            reading = await read_window(session, comparison)
            if comparison.end is None:
                await self._tell(session, database, roles, reading)
            else:
                parts |= window_parts(
                    database,
                    roles[0].username,
                    comparison.end,
                    plan_privileges(reading.differences),
                )
                # Rights that are missing are of few kinds, in very many windows.
                new = hindrances(reading, roles[0].username, database, self._admin)
                problems = self.refused.get(roles[0].username, ())
                reasons = {problem.reason for problem in problems}
                self.refuse(
                    roles[0].username,
                    (problem for problem in new if problem.reason not in reasons),
                )
            if (windows is not None and not windows.held_objects) or not comparison.go_on():
                break
        self.statements += summarized(database, parts)

    async def _tell(
        self, session: Session, database: str, roles: Sequence[RoleGrants], reading: Reading
    ) -> None:
        if self._rights:
            remedies = await read_remedies(
                session, self._snapshot.server, database, reading.differences
            )
            self.remedies += map(self._whose, remedies)
        for role in roles:
            errors = hindrances(reading, role.username, database, self._admin)
            self.refuse(role.username, errors)
        self.statements += [
            AccessStatement(
                database=database,
                on=database,
                statement=change.statement,
                why=change.reason,
                usernames=self._plan.who(change.usernames),
            )
            for change in plan_privileges(reading.differences)
        ]

    def _not_let_in(
        self, error: AccessError | psycopg.Error, database: str, usernames: Sequence[str]
    ) -> None:
        self.whole = False
        admin = self._admin
        problem = explain(error, f"read the catalogs of database {database}", admin)
        for name in usernames:
            self.refuse(name, [problem])
        if self._rights and problem.reason == "InsufficientPrivilege":
            maintenance = self._sessions.endpoint.maintenance
            who = self._plan.who(usernames)
            self.remedies.append(let_in(database, maintenance, admin, who))

    async def _close(self, session: Session, database: str, usernames: Sequence[str]) -> None:
        """Add the revocation of CREATE on schema public from PUBLIC."""
        revoked = "CREATE" in self._sessions.endpoint.revoke_public
        if revoked and await session.rows(PUBLIC_CREATES):
            closing = AccessStatement(
                database=database,
                on=database,
                statement=CLOSE_SCHEMA,
                why=REVOKE_PUBLIC,
                usernames=self._plan.who(usernames),
            )
            self.statements.append(closing)

    def refuse(self, name: str, errors: Iterable[AccessError]) -> None:
        """Add errors of an access, or of all members of a group."""
        for error in errors:
            for username in self._plan.who([name]):
                self.refused.setdefault(username, []).append(error)
