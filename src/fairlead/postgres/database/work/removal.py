"""The removal of one role: every database is cleared of it, then it is dropped.

Each part is its own transaction and may be done again. ``cleanup`` fences the role before.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Literal, NamedTuple

import psycopg
from psycopg import sql

from fairlead.api.postgresaccess import CleanupPolicy
from fairlead.postgres import bounds
from fairlead.postgres.database.connections.acting import acting_as
from fairlead.postgres.database.connections.session import BRIEF, PATIENT, Patience, Session
from fairlead.postgres.database.connections.sessions import Sessions
from fairlead.postgres.database.plans.names import is_group
from fairlead.postgres.database.plans.snapshot import GIVEN_UP, RoleFacts, ServerFacts
from fairlead.postgres.database.plans.statements import comment_role
from fairlead.postgres.database.reading.catalog import read_snapshot
from fairlead.postgres.database.reading.dependencies import (
    Dependent,
    check_shared,
    closed_database,
    keeps_subscription,
    owns_objects,
    read_dependencies,
    read_heir,
    read_owned,
    read_owner,
    read_subscriptions,
    runs_as_owner,
    strangers_grants,
)
from fairlead.postgres.database.reading.inheriting import read_running, transaction_id
from fairlead.postgres.database.reading.strangers import (
    Left,
    read_grantors,
    read_left,
    read_owners,
)
from fairlead.postgres.database.work.holding import hold
from fairlead.postgres.database.work.pieces import Clearing
from fairlead.postgres.database.work.retries import retried
from fairlead.postgres.errors import AccessError


_FIRST_TRY = Patience(BRIEF.lock, 1000)
"""Timeouts of a first, brief try; a removal that takes longer is done alone later."""

_GIVEN_VERSION = 160000
"""``server_version_num`` of PostgreSQL 16; before, only superusers may own subscriptions."""
_DISABLE = sql.SQL("ALTER SUBSCRIPTION {name} DISABLE")
_GIVE = (_DISABLE, sql.SQL("ALTER SUBSCRIPTION {name} OWNER TO {heir}"))
# DROP SUBSCRIPTION drops the slot at the publisher, outside of any transaction, unless the
# subscription has none; that takes a disabled one
# (https://www.postgresql.org/docs/current/sql-dropsubscription.html).
_UNSUBSCRIBE = (
    _DISABLE,
    sql.SQL("ALTER SUBSCRIPTION {name} SET (slot_name = NONE)"),
    sql.SQL("DROP SUBSCRIPTION {name}"),
)


async def remove(
    removals: Sequence[RoleRemoval], policy: CleanupPolicy, *, begun: bool = False
) -> None:
    """Remove roles, or none of them if one cannot be removed.

    ``begun`` says that an earlier turn has dropped objects of theirs.

    Raises:
        AccessError: OwnsObjects, with the objects of all roles.
        UnfinishedError: the roles own much, and another turn has to follow.
    """
    blockers: dict[str, list[str]] = {}
    dependents = [await one.dependents(policy) for one in removals]
    for part in dependents:
        for database, owned in part.blockers:
            blockers.setdefault(database, []).extend(owned)
    if blockers:
        raise owns_objects(removals[-1].role.name, list(blockers.items()))
    if removals:
        await removals[-1].clear(removals, policy, dependents, begun=begun)
    for removal, part in zip(removals, dependents, strict=True):
        await removal.run(policy, part.databases)


class _Dependents(NamedTuple):
    """Databases with a role's objects or privileges, and the objects that block its removal."""

    databases: tuple[Dependent, ...]
    blockers: list[tuple[str, list[str]]]


class RoleRemoval:
    """The removal of one role.

    ``guard`` is called in each transaction, and may raise to end the removal.
    """

    def __init__(
        self,
        sessions: Sessions,
        session: Session,
        role: RoleFacts,
        server: ServerFacts,
        heir: str = "",
        guard: Callable[[Session], Awaitable[None]] | None = None,
        *,
        brief: bool = False,
    ) -> None:
        self.heir = heir
        self._brief = brief
        self._patience = _FIRST_TRY if brief else PATIENT
        self._guard = guard
        self._sessions = sessions
        self._session = session
        self.role = role
        self._server = server
        self._name = sql.Identifier(role.name)

    @property
    def superuser(self) -> bool:
        """Whether the administrator is a superuser."""
        return self._server.superuser

    async def release(self) -> None:
        """Take the claim off the role."""

        async def release() -> None:
            async with self._session.transaction(self._patience):
                # A role that stays in a shared group without a comment would be a foreign member.
                comment = GIVEN_UP if any(map(is_group, self.role.groups)) else ""
                await self._session.run(comment_role(self.role.name, comment, self.role.note))

        await retried(release, f"remove the claim from role {self.role.name}")

    async def dependents(self, policy: CleanupPolicy) -> _Dependents:
        """Read the databases to clear, and the objects that block Restrict."""
        async with self._session.transaction(self._patience):
            restricted = policy == "Restrict"
            most = bounds.REMOVAL_OBJECTS if restricted else None
            dependencies = await read_dependencies(self._session, self.role.oid, most=most)
            blockers = await self._owned(dependencies.databases) if restricted else []
            # The first objects of a role suffice to refuse; without any, all are read.
            if dependencies.cut and not blockers:
                dependencies = await read_dependencies(self._session, self.role.oid)
                blockers = await self._owned(dependencies.databases)
            check_shared(self.role.name, dependencies, policy)
        return _Dependents(dependencies.databases, blockers)

    async def clear(
        self,
        removals: Sequence[RoleRemoval],
        policy: CleanupPolicy,
        dependents: Sequence[_Dependents],
        *,
        begun: bool,
    ) -> None:
        """Drop what all these roles own, or give it to the heir, and end references to them.

        What is no more than one transaction's work may stay.

        They go together, for an object of one may depend on one of another.
        """
        owned: dict[str, int] = {}
        references: dict[str, int] = {}
        for part in dependents:
            for some in part.databases:
                if some.connectable:
                    count = references.get(some.database, 0) + some.references
                    references[some.database] = count
                if some.owned > some.subscriptions:
                    count = some.owned - some.subscriptions
                    owned[some.database] = owned.get(some.database, 0) + count
        clearing = Clearing(
            self._sessions,
            [one.role for one in removals],
            superuser=self.superuser,
            patience=self._patience,
            heir=self.heir,
            references=references,
            guard=self._guard,
            brief=self._brief,
        )
        if not begun:
            await clearing.check()
        if policy == "Cascade":
            await clearing.drop(owned, begun=begun)
        elif policy == "Orphan":
            await clearing.give(owned)
        await clearing.release()

    async def run(self, policy: CleanupPolicy, databases: Sequence[Dependent]) -> None:
        """Clear the databases with the role's objects or privileges, and drop the role."""
        if policy != "Restrict":
            # Before anything is reassigned: REASSIGN OWNED gives the subscriptions of all
            # databases to the heir of the one that it runs in.
            for database in databases:
                if database.subscriptions:
                    await self._unsubscribe(database.database, policy)
        # DROP OWNED also takes privileges on shared objects, and needs one database to run in.
        names = {one.database: one.owned for one in databases if one.connectable}
        names = names or {self._sessions.endpoint.maintenance: 0}
        left = {
            name: granted
            for name, owned in names.items()
            if (granted := await self._clean(name, policy, owned=owned))
        }
        for database in databases:
            if not database.connectable and (
                granted := await self._clean_closed(database.database, policy)
            ):
                left[database.database] = granted
        if left:
            raise strangers_grants(self.role.name, left)
        await self._drop()

    async def _clean_closed(self, database: str, policy: CleanupPolicy) -> list[Left]:
        """Clear a database that takes no connections, by opening it for that time.

        Otherwise its owner could keep any role for ever by a grant there. It needs a superuser. A
        database of an owner with powers was closed by an administrator, and stays closed.
        """
        database_owner = await read_owner(self._session, database)
        if database_owner is None:
            return []
        owner, unsafe = database_owner
        closed = closed_database(self.role.name, database, owner)
        if unsafe or not self.superuser:
            raise closed
        await self._allow(database, "true")
        try:
            return await self._clean(database, policy, owned=0)
        except AccessError as error:
            # The owner closed the database again before the session was open.
            raise closed if error.reason == "DatabaseNotFound" else error from None
        finally:
            await self._allow(database, "false")

    async def _allow(self, database: str, allowed: Literal["true", "false"]) -> None:
        statement = sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS {}").format(
            sql.Identifier(database), sql.SQL(allowed)
        )

        async def allow() -> None:
            async with self._session.transaction(self._patience):
                await self._session.run(statement)

        await retried(allow, f"open database {database} to clear it")

    async def _check(self, session: Session) -> None:
        if self._guard is not None:
            await self._guard(session)

    def _acting(self, session: Session) -> AbstractAsyncContextManager[None]:
        role = self.role
        return acting_as(session, role.name, superuser=self.superuser, oid=role.oid)

    async def _owned(self, databases: Iterable[Dependent]) -> list[tuple[str, list[str]]]:
        blockers = []
        for database in databases:
            if database.owned:
                async with (
                    self._sessions.use(database.database) as session,
                    session.transaction(self._patience),
                ):
                    owned = await read_owned(session, self.role.oid)
                blockers.append((database.database, owned))
        return blockers if any(owned for _, owned in blockers) else []

    async def _clean(self, database: str, policy: CleanupPolicy, *, owned: int) -> list[Left]:
        """Remove the role's objects and privileges in a database; return the ones that stay."""
        async with self._sessions.use(database) as session:

            async def clean() -> list[Left]:
                await self._check(session)
                async with self._acting(session):
                    if policy == "Restrict":
                        # DROP OWNED also drops objects of the role that are newer than the first
                        # look.
                        left = await read_owned(session, self.role.oid)
                        if left:
                            raise owns_objects(self.role.name, [(database, left)])
                    if policy == "Orphan" and owned:
                        await self._reassign(session, database)
                    # It fails (2BP01) if an object of another role depends on these.
                    drop = sql.SQL("DROP OWNED BY {} RESTRICT").format(self._name)
                    async with self._acting_as_owners(session):
                        await session.run(drop)
                    await self._drop_as_grantors(session)
                return await read_left(session, self.role.oid)

            async def alone() -> list[Left]:
                async with session.transaction(self._patience):
                    return await clean()

            try:
                return await retried(alone, f"clear database {database} of role {self.role.name}")
            except AccessError as error:
                left = await read_left(session, self.role.oid)
                if error.reason != "InsufficientPrivilege" or not left:
                    raise
                # PostgreSQL raises on privileges on columns of other grantors, and skips others.
                return left

    @asynccontextmanager
    async def _acting_as_owners(self, session: Session) -> AsyncIterator[None]:
        """Make the administrator a member of the owners of objects that the role has grants on.

        DROP OWNED then revokes the grants of these owners to the role, and changes nothing else of
        theirs.
        """
        async with AsyncExitStack() as stack:
            if not self.superuser:
                for owner in await read_owners(session, self.role.oid):
                    await stack.enter_async_context(
                        acting_as(session, owner.name, superuser=False, oid=owner.oid)
                    )
            yield

    async def _drop_as_grantors(self, session: Session) -> None:
        """Revoke the grants of roles that are not the owners, each in the name of its grantor.

        The role owns nothing here any more. The grantor becomes its member for DROP OWNED.
        """
        for grantor in await read_grantors(session, self.role.oid):
            name = sql.Identifier(grantor.name)
            try:
                async with (
                    session.savepoint(),
                    acting_as(session, grantor.name, superuser=self.superuser, oid=grantor.oid),
                ):
                    await session.run(sql.SQL("GRANT {} TO {}").format(self._name, name))
                    await session.run(sql.SQL("SET LOCAL ROLE {}").format(name))
                    await session.run(sql.SQL("DROP OWNED BY {}").format(self._name))
                    await session.run(sql.SQL("RESET ROLE"))
                    await session.run(sql.SQL("REVOKE {} FROM {}").format(self._name, name))
            except (psycopg.errors.InsufficientPrivilege, psycopg.errors.InvalidGrantOperation):
                # The privileges that stay are reported with their owners.
                continue

    async def _unsubscribe(self, database: str, policy: CleanupPolicy) -> None:
        """Drop the subscriptions of a database, or give them to the heir, disabled.

        An enabled one would go on to write its publisher's data with the heir's rights. The slot
        at the publisher stays: the publisher may be away, and the tenant can drop the slot.
        """
        async with self._sessions.use(database) as session:

            async def unsubscribe() -> None:
                async with (
                    session.transaction(self._patience),
                    self._acting(session),
                ):
                    await self._check(session)
                    names = await read_subscriptions(session, self.role.oid)
                    if names and policy == "Orphan" and session.server_version < _GIVEN_VERSION:
                        raise keeps_subscription(names[0], database)
                    heir = sql.Identifier(
                        await read_heir(session, self.heir, database, self.role.claim)
                        if names and policy == "Orphan"
                        else self.role.name
                    )
                    for name in map(sql.Identifier, names):
                        for statement in _GIVE if policy == "Orphan" else _UNSUBSCRIBE:
                            await session.run(statement.format(name=name, heir=heir))

            what = f"clear database {database} of subscriptions of role {self.role.name}"
            await retried(unsubscribe, what)

    async def _reassign(self, session: Session, database: str) -> None:
        owner = await read_heir(session, self.heir, database, self.role.claim)
        begun = "" if self.heir else await transaction_id(session)
        await session.run(
            sql.SQL("REASSIGN OWNED BY {} TO {}").format(self._name, sql.Identifier(owner))
        )
        # An heir by default gets data, but no objects that would run with its rights.
        running = await read_running(session, self.role.oid, owner, begun) if begun else []
        if running:
            raise runs_as_owner(self.role.name, database, owner, running)

    async def _drop(self) -> None:
        async def drop() -> None:
            async with self._session.transaction(self._patience):
                snapshot = await read_snapshot(self._session, [self.role.name], "", whole=False)
                role = snapshot.roles.get(self.role.name)
                # Read again inside the transaction: another access may have the name by now.
                if role is None or role.claim != self.role.claim:
                    return
                await hold(self._sessions, self._session, [role])
                await self._check(self._session)
                await self._session.run(sql.SQL("DROP ROLE {}").format(self._name))

        await retried(drop, f"drop role {self.role.name}")
