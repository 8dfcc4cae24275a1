"""What would be done in a server, without doing it: the statements, each with its reason.

Passwords are ***, so that the same plan reads the same however its verifiers are salted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import psycopg

from fairlead.postgres.database import differences
from fairlead.postgres.database.catalog import read_group_facts, read_snapshot
from fairlead.postgres.database.comparison import read_differences
from fairlead.postgres.database.grants import Desired, desired_grants
from fairlead.postgres.database.plan import (
    Change,
    DatabaseChange,
    Planned,
    Statement,
    Wanted,
    plan_databases,
    plan_role,
)
from fairlead.postgres.database.privileges import problems_of
from fairlead.postgres.database.rights import read_lacks, read_remedies
from fairlead.postgres.database.sessions import Sessions
from fairlead.postgres.database.snapshot import Snapshot
from fairlead.postgres.database.sync import databases_of, explain, role_grants, working
from fairlead.postgres.database.verifiers import Verifiers
from fairlead.postgres.errors import AccessError


async def plan_accesses(
    sessions: Sessions, wanted: Sequence[Wanted], verifiers: Verifiers
) -> Planned:
    """Plan accesses with different usernames together.

    An access without a password leaves that of a role which exists alone. A role that is yet to be
    made is compared with the databases as one that has nothing.

    Raises:
        AccessError: the server could not be asked.
    """
    planning = _Planning(sessions, {one.username: one for one in wanted})
    await planning.roles(verifiers)
    await planning.objects()
    return Planned(
        statements=tuple(planning.statements),
        refused={name: tuple(found) for name, found in planning.refused.items()},
        hindered={name: tuple(found) for name, found in planning.hindered.items()},
        remedies=tuple(planning.remedies),
    )


class _Planning:
    def __init__(self, sessions: Sessions, wanted: Mapping[str, Wanted]) -> None:
        self._sessions = sessions
        self._wanted = wanted
        self._snapshot: Snapshot | None = None
        self._desired: dict[str, Desired] = {}
        self.statements: list[Statement] = []
        self.refused: dict[str, list[AccessError]] = {}
        self.hindered: dict[str, list[AccessError]] = {}
        self.remedies: list[Statement] = []

    async def roles(self, verifiers: Verifiers) -> None:
        """What is missing in the shared catalogs."""
        wanted = self._wanted.values()
        databases = {grant.database for one in wanted for grant in one.grants}
        groups = {group.role for one in wanted for group in one.member_of or ()}
        async with working(self._sessions, "read the catalogs") as session:
            snapshot = await read_snapshot(session, self._wanted, "", databases=databases)
            facts = await read_group_facts(session, groups)
        given = [one for one in wanted if one.password or one.username not in snapshot.roles]
        missing = await verifiers.missing(self._sessions, given, snapshot)
        self._snapshot = snapshot
        changes: list[Change] = []
        for name, one in self._wanted.items():
            try:
                own, problems = plan_role(one, snapshot, missing.get(name), facts)
            except AccessError as error:
                self.refused[name] = [error]
                continue
            desired = self._desired[name] = desired_grants(one.grants, snapshot.server.version)
            changes += own
            _add(self.refused, name, [*desired.problems, *problems])
        left = [self._wanted[name] for name in self._desired]
        on_databases = plan_databases(left, self._desired, snapshot)
        await self._lacks(snapshot, changes, on_databases)
        self.statements += [
            Statement(
                database=self._sessions.endpoint.maintenance,
                text=change.shown(),
                reason=change.why,
                usernames=change.usernames,
                of_role=not isinstance(change, DatabaseChange),
            )
            for change in (*changes, *on_databases)
        ]

    async def _lacks(
        self, snapshot: Snapshot, changes: Iterable[Change], databases: Sequence[DatabaseChange]
    ) -> None:
        """Which rights the administrator would need for it and has not."""
        changed = {name: snapshot.roles.get(name) for one in changes for name in one.usernames}
        if snapshot.server.superuser or not (changed or databases):
            return
        groups: dict[str, list[str]] = {}
        for name in changed:
            role = snapshot.roles.get(name)
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
                _add(self.hindered, name, [lack.problem])

    async def objects(self) -> None:
        """What is missing in each database."""
        snapshot = self._snapshot
        if snapshot is None:
            return
        visits, missing = databases_of(self._desired, snapshot, unmade=True)
        for username, databases in missing.items():
            for found in databases.values():
                _add(self.refused, username, found)
        for database, usernames in sorted(visits.items()):
            try:
                await self._visit(database, usernames, snapshot)
            except (AccessError, psycopg.Error) as error:
                what = f"read the catalogs of database {database}"
                problem = explain(error, what, snapshot.server.admin)
                for name in usernames:
                    _add(self.refused, name, [problem])

    async def _visit(self, database: str, usernames: Iterable[str], snapshot: Snapshot) -> None:
        roles = [
            role_grants(self._wanted[name], self._desired[name].of(database), snapshot)
            for name in usernames
        ]
        async with self._sessions.use(database) as session:
            reading = await read_differences(session, database, roles)
            self.remedies += await read_remedies(
                session, snapshot.server, database, reading.differences
            )
        for name in usernames:
            problems = problems_of(reading, name, database, snapshot.server.admin)
            _add(self.hindered, name, problems)
        self.statements += [
            Statement(
                database=database,
                text=change.statement.as_string(),
                reason=change.reason,
                usernames=tuple(change.usernames),
            )
            for change in differences.plan(reading.differences)
        ]


def _add(
    problems: dict[str, list[AccessError]], username: str, found: Iterable[AccessError]
) -> None:
    for error in found:
        problems.setdefault(username, []).append(error)
