"""What would be done in a server, without doing it: the statements, each with its reason.

Passwords are ***, so that the same plan reads the same however its verifiers are salted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
import psycopg
from psycopg import sql

from fairlead.postgres.database.connections.session import Session
from fairlead.postgres.database.connections.sessions import Sessions
from fairlead.postgres.database.plans import differences
from fairlead.postgres.database.plans.claiming import (
    check_adoption,
    check_password,
    check_roles,
)
from fairlead.postgres.database.plans.family import retired
from fairlead.postgres.database.plans.groups import (
    Membering,
    Sharing,
    careful,
    plan_groups,
    plan_leaving,
    share,
)
from fairlead.postgres.database.plans.plan import (
    REVOKE_PUBLIC,
    Change,
    DatabaseChange,
    Planned,
    Statement,
    Wanted,
    plan_databases,
    plan_public,
    plan_role,
)
from fairlead.postgres.database.plans.snapshot import Snapshot
from fairlead.postgres.database.reading.catalog import read_snapshot
from fairlead.postgres.database.reading.comparison import read_differences
from fairlead.postgres.database.reading.verifiers import Verifiers
from fairlead.postgres.database.work.databases import (
    CLOSE_SCHEMA,
    PUBLIC_CREATES,
    databases_of,
    look_around,
    role_grants,
)
from fairlead.postgres.database.work.privileges import hindrances
from fairlead.postgres.database.work.retries import explain, working
from fairlead.postgres.database.work.rights import let_in, read_lacks, read_remedies
from fairlead.postgres.errors import AccessError


async def plan_accesses(
    sessions: Sessions, wanted: Sequence[Wanted], verifiers: Verifiers, *, rights: bool = False
) -> Planned:
    """Plan accesses with different usernames together.

    An access without a password leaves that of a role which exists alone.

    Args:
        sessions: of the server.
        wanted: the accesses.
        verifiers: what is known of the server's passwords.
        rights: whether to find out what the administrator lacks for it.

    Raises:
        AccessError: the server could not be asked.
    """
    planning = _Planning(sessions, {one.username: one for one in wanted}, rights=rights)
    await planning.roles(verifiers)
    await planning.objects()
    return Planned(
        statements=tuple(planning.statements),
        refused={name: tuple(found) for name, found in planning.refused.items()},
        remedies=tuple(planning.remedies),
    )


class _Planning:
    def __init__(self, sessions: Sessions, wanted: Mapping[str, Wanted], *, rights: bool) -> None:
        self._sessions = sessions
        self._rights = rights
        self._wanted = wanted
        self._snapshot: Snapshot | None = None
        self._sharing = Sharing()
        self._roles: dict[str, Wanted] = {}
        self._leaving: list[Change] = []
        self.statements: list[Statement] = []
        self.refused: dict[str, list[AccessError]] = {}
        self.remedies: list[Statement] = []

    async def roles(self, verifiers: Verifiers) -> None:
        """What is missing in the shared catalogs."""
        wanted = self._wanted.values()
        databases = {grant.database for one in wanted for grant in one.grants}
        async with working(self._sessions, "read the catalogs") as session:
            names = [name for one in wanted for name in one.names]
            groups = share(list(wanted), session.server_version).groups
            snapshot = await read_snapshot(session, names, "", databases=databases, groups=groups)
            around = await look_around(session, wanted, snapshot)
        for one in wanted:
            try:
                role = snapshot.roles.get(one.username)
                check_roles(one.needed, snapshot, one.claim, adopt=one.adopt)
                check_adoption(role, around.groups, adopt=one.adopt)
                check_password(role, one.username, keeps=one.keeps)
            except AccessError as error:
                self._refuse(one.username, [error])
        given = [
            one
            for one in wanted
            if one.username not in self.refused
            and (one.password or one.login not in snapshot.roles)
        ]
        missing, unknown = await verifiers.missing(self._sessions, given, snapshot)
        for username, why in unknown.items():
            self._refuse(username, [why])
        self._snapshot = snapshot
        changes: list[Change] = []
        left: list[Wanted] = []
        for name, one in self._wanted.items():
            if name in self.refused:
                continue
            try:
                own, problems = plan_role(one, snapshot, missing.get(one.login), around)
            except AccessError as error:
                self.refused[name] = [error]
                continue
            changes += own
            left.append(one)
            self._refuse(name, problems)
        on_groups, on_databases = self._share(left, snapshot)
        sharing = self._sharing
        on_public = plan_public(self._sessions.endpoint.revoke_public, sharing.asked, snapshot)
        if self._rights and not snapshot.server.superuser:
            await self._lacks(snapshot, changes, on_groups, on_databases)
        of_roles = (*changes, *on_groups)
        self.statements += [self._shared(change, of_role=True) for change in of_roles]
        self.statements += [self._shared(change) for change in (*on_public, *on_databases)]
        for one in left:
            self.statements += self._retire(one, snapshot)

    def _retire(self, one: Wanted, snapshot: Snapshot) -> Iterator[Statement]:
        """Logins that are nobody's turn any more."""
        asked = one.asked
        if asked is None:
            return
        for name in retired(asked, one.own(snapshot), snapshot.server.moment):
            yield Statement(
                database=self._sessions.endpoint.maintenance,
                text=sql.SQL("DROP ROLE {}").format(sql.Identifier(name)).as_string(),
                reason="its grace is over, and the rotation is in place",
                usernames=(one.username,),
                of_role=True,
            )

    def _share(
        self, wanted: Sequence[Wanted], snapshot: Snapshot
    ) -> tuple[list[Change], list[DatabaseChange]]:
        """What is missing of groups, and of privileges on databases."""
        sharing = share(wanted, snapshot.server.version, snapshot.roles)
        groups = plan_groups(sharing, snapshot)
        for one in wanted:
            self._refuse(one.username, sharing.own[one.username].problems)
        for name, error in groups.taken.items():
            self._refuse(name, [error], sharing)
        self._sharing = sharing = sharing.without(groups.taken)
        self._roles = sharing.roles(
            careful(one) if sharing.keeps(one.username) else one for one in wanted
        )
        self._leaving = plan_leaving(wanted, sharing, snapshot, foreseen=True)
        # Those who share lose what they have themselves last.
        now = sharing.roles(
            careful(one) if one.username in sharing.group_of else one
            for one in self._roles.values()
            if one.username in sharing.asked
        )
        return groups.changes, plan_databases(now.values(), sharing.desired, snapshot)

    def _who(self, names: Iterable[str], sharing: Sharing | None = None) -> tuple[str, ...]:
        """The usernames, with those that share a group in its place."""
        groups = (sharing or self._sharing).groups
        found = (groups[name].members if name in groups else [name] for name in names)
        return tuple(dict.fromkeys(name for some in found for name in some))

    def _shared(self, change: Change, *, of_role: bool = False) -> Statement:
        """A statement in the shared catalogs."""
        return Statement(
            database=self._sessions.endpoint.maintenance,
            text=change.shown(),
            reason=change.why,
            usernames=self._who(change.usernames),
            of_role=of_role,
        )

    async def _lacks(
        self,
        snapshot: Snapshot,
        changes: Iterable[Change],
        on_groups: Iterable[Change],
        databases: Sequence[DatabaseChange],
    ) -> None:
        """Which rights the administrator would need for it and has not."""
        changed = {name: snapshot.roles.get(name) for one in changes for name in one.usernames}
        groups: dict[str, list[str]] = {}
        for name, role in changed.items():
            for group in self._wanted[name].member_of or ():
                if role is None or group.role not in role.groups:
                    groups.setdefault(group.role, []).append(name)
        for change in on_groups:
            if isinstance(change, Membering) and change.group in snapshot.roles:
                groups.setdefault(change.group, []).extend(change.usernames)
            elif isinstance(change, Membering):
                changed[change.group] = None
        maintenance = self._sessions.endpoint.maintenance
        async with working(self._sessions, "read the catalogs") as session:
            lacks = await read_lacks(
                session, maintenance, snapshot.server, changed, groups, databases
            )
        for lack in lacks:
            remedy = msgspec.structs.replace(
                lack.remedy, usernames=self._who(lack.remedy.usernames)
            )
            self.remedies.append(remedy)
            for name in remedy.usernames:
                self._refuse(name, [lack.problem])

    async def objects(self) -> None:
        """What is missing in each database, of roles that are yet to be made too."""
        snapshot = self._snapshot
        if snapshot is None:
            return
        desired = self._sharing.desired
        visits, missing = databases_of(desired, snapshot, unborn=True)
        for username, databases in missing.items():
            for found in databases.values():
                self._refuse(username, found)
        for database, usernames in sorted(visits.items()):
            roles = [
                role_grants(self._roles[name], desired[name].of(database), snapshot, number)
                for number, name in enumerate(usernames)
            ]
            try:
                async with self._sessions.use(database) as session:
                    await self._close(session, database, usernames)
                    reading = await read_differences(session, database, roles)
                    if self._rights:
                        self.remedies += [
                            msgspec.structs.replace(one, usernames=self._who(one.usernames))
                            for one in await read_remedies(
                                session, snapshot.server, database, reading.differences
                            )
                        ]
            except (AccessError, psycopg.Error) as error:
                what = f"read the catalogs of database {database}"
                problem = explain(error, what, snapshot.server.admin)
                for name in usernames:
                    self._refuse(name, [problem])
                if self._rights and problem.reason == "InsufficientPrivilege":
                    self.remedies.append(
                        let_in(
                            database,
                            self._sessions.endpoint.maintenance,
                            snapshot.server.admin,
                            self._who(usernames),
                        )
                    )
                continue
            for name in usernames:
                self._refuse(name, hindrances(reading, name, database, snapshot.server.admin))
            self.statements += [
                Statement(
                    database=database,
                    text=change.statement.as_string(),
                    reason=change.reason,
                    usernames=self._who(change.usernames),
                )
                for change in differences.plan(reading.differences)
            ]
        # They come last, as they would run: a login leaves a group when another has all of it.
        self.statements += [
            self._shared(change, of_role=isinstance(change, Membering)) for change in self._leaving
        ]

    async def _close(self, session: Session, database: str, usernames: Sequence[str]) -> None:
        """What PUBLIC has to lose on schema public."""
        revoked = "CREATE" in self._sessions.endpoint.revoke_public
        if revoked and await session.rows(PUBLIC_CREATES):
            closing = Statement(
                database=database,
                text=CLOSE_SCHEMA.as_string(),
                reason=REVOKE_PUBLIC,
                usernames=self._who(usernames),
            )
            self.statements.append(closing)

    def _refuse(
        self, name: str, found: Iterable[AccessError], sharing: Sharing | None = None
    ) -> None:
        for error in found:
            for username in self._who([name], sharing):
                self.refused.setdefault(username, []).append(error)
