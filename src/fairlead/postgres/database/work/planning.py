"""What would be done in a server, without doing it: the statements, each with its reason.

Passwords are ***, so that the same plan reads the same however its verifiers are salted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

import psycopg
from psycopg import sql

from fairlead.postgres.database.connections.session import Session
from fairlead.postgres.database.connections.sessions import Sessions
from fairlead.postgres.database.plans import differences
from fairlead.postgres.database.plans.claiming import check_adoption, check_roles
from fairlead.postgres.database.plans.family import retired
from fairlead.postgres.database.plans.grants import Desired, desired_grants
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
from fairlead.postgres.database.work.privileges import hindrances
from fairlead.postgres.database.work.rights import let_in, read_lacks, read_remedies
from fairlead.postgres.database.work.sync import (
    CLOSE_SCHEMA,
    PUBLIC_CREATES,
    databases_of,
    explain,
    look_around,
    role_grants,
    working,
)
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
        self._desired: dict[str, Desired] = {}
        self.statements: list[Statement] = []
        self.refused: dict[str, list[AccessError]] = {}
        self.remedies: list[Statement] = []

    async def roles(self, verifiers: Verifiers) -> None:
        """What is missing in the shared catalogs."""
        wanted = self._wanted.values()
        databases = {grant.database for one in wanted for grant in one.grants}
        async with working(self._sessions, "read the catalogs") as session:
            names = [name for one in wanted for name in one.names]
            snapshot = await read_snapshot(session, names, "", databases=databases)
            around = await look_around(session, wanted, snapshot)
        for one in wanted:
            try:
                role = snapshot.roles.get(one.username)
                check_roles(one.needed, snapshot, one.claim, adopt=one.adopt)
                check_adoption(role, around.groups, adopt=one.adopt)
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
        for name, one in self._wanted.items():
            if name in self.refused:
                continue
            try:
                own, problems = plan_role(one, snapshot, missing.get(one.login), around)
            except AccessError as error:
                self.refused[name] = [error]
                continue
            desired = self._desired[name] = desired_grants(one.grants, snapshot.server.version)
            changes += own
            self._refuse(name, [*desired.problems, *problems])
        left = [self._wanted[name] for name in self._desired]
        on_databases = plan_databases(left, self._desired, snapshot)
        on_public = plan_public(self._sessions.endpoint.revoke_public, self._desired, snapshot)
        if self._rights and not snapshot.server.superuser:
            await self._lacks(snapshot, changes, on_databases)
        self.statements += [self._shared(change, of_role=True) for change in changes]
        self.statements += [self._shared(change) for change in (*on_public, *on_databases)]
        for one in left:
            self.statements += self._retire(one, snapshot)

    def _retire(self, one: Wanted, snapshot: Snapshot) -> Iterator[Statement]:
        """Logins that are nobody's turn any more."""
        asked = one.asked
        if asked is None:
            return
        for name in retired(asked, one.own(snapshot), datetime.now(UTC)):
            yield Statement(
                database=self._sessions.endpoint.maintenance,
                text=sql.SQL("DROP ROLE {}").format(sql.Identifier(name)).as_string(),
                reason="its grace is over, and the rotation is in place",
                usernames=(one.username,),
                of_role=True,
            )

    def _shared(self, change: Change, *, of_role: bool = False) -> Statement:
        """A statement in the shared catalogs."""
        return Statement(
            database=self._sessions.endpoint.maintenance,
            text=change.shown(),
            reason=change.why,
            usernames=change.usernames,
            of_role=of_role,
        )

    async def _lacks(
        self, snapshot: Snapshot, changes: Iterable[Change], databases: Sequence[DatabaseChange]
    ) -> None:
        """Which rights the administrator would need for it and has not."""
        changed = {name: snapshot.roles.get(name) for one in changes for name in one.usernames}
        groups: dict[str, list[str]] = {}
        for name, role in changed.items():
            for group in self._wanted[name].member_of or ():
                if role is None or group.role not in role.groups:
                    groups.setdefault(group.role, []).append(name)
        maintenance = self._sessions.endpoint.maintenance
        async with working(self._sessions, "read the catalogs") as session:
            lacks = await read_lacks(
                session, maintenance, snapshot.server, changed, groups, databases
            )
        for lack in lacks:
            self.remedies.append(lack.remedy)
            for name in lack.remedy.usernames:
                self._refuse(name, [lack.problem])

    async def objects(self) -> None:
        """What is missing in each database, of roles that are yet to be made too."""
        snapshot = self._snapshot
        if snapshot is None:
            return
        visits, missing = databases_of(self._desired, snapshot, unborn=True)
        for username, databases in missing.items():
            for found in databases.values():
                self._refuse(username, found)
        for database, usernames in sorted(visits.items()):
            roles = [
                role_grants(self._wanted[name], self._desired[name].of(database), snapshot, number)
                for number, name in enumerate(usernames)
            ]
            try:
                async with self._sessions.use(database) as session:
                    await self._close(session, database, usernames)
                    reading = await read_differences(session, database, roles)
                    if self._rights:
                        self.remedies += await read_remedies(
                            session, snapshot.server, database, reading.differences
                        )
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
                            usernames,
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
                    usernames=tuple(change.usernames),
                )
                for change in differences.plan(reading.differences)
            ]

    async def _close(self, session: Session, database: str, usernames: Sequence[str]) -> None:
        """What PUBLIC has to lose on schema public."""
        revoked = "CREATE" in self._sessions.endpoint.revoke_public
        if revoked and await session.rows(PUBLIC_CREATES):
            closing = Statement(
                database=database,
                text=CLOSE_SCHEMA.as_string(),
                reason=REVOKE_PUBLIC,
                usernames=tuple(usernames),
            )
            self.statements.append(closing)

    def _refuse(self, username: str, found: Iterable[AccessError]) -> None:
        for error in found:
            self.refused.setdefault(username, []).append(error)
