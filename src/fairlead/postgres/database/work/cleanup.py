"""Removes roles: fence them, look for dependent objects, clear every database, drop them.

Each part is its own transaction and may be done again. The fence stands if a later part fails: a
role whose deletion is stuck has no login. The order is PostgreSQL's own advice
(https://www.postgresql.org/docs/current/role-removal.html).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import islice
from typing import Literal, NamedTuple

import psycopg
import structlog
from psycopg import sql

from fairlead.api.postgresaccess import CleanupPolicy
from fairlead.postgres.database.connections.acting import acting_as
from fairlead.postgres.database.connections.session import BRIEF, PATIENT, Patience, Session
from fairlead.postgres.database.connections.sessions import Sessions
from fairlead.postgres.database.plans.attributes import GRANT_OPTIONS_VERSION
from fairlead.postgres.database.plans.logins import family
from fairlead.postgres.database.plans.names import is_group
from fairlead.postgres.database.plans.snapshot import (
    GIVEN_UP,
    RoleClaim,
    RoleFacts,
    ServerFacts,
    parse_group,
)
from fairlead.postgres.database.plans.statements import comment_role, fence_role
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
from fairlead.postgres.database.work.blockers import (
    Actor,
    KnownBlockers,
    end_sessions,
    end_starting,
    open_sessions,
    watching,
)
from fairlead.postgres.database.work.holding import check_same, hold
from fairlead.postgres.database.work.retries import retried
from fairlead.postgres.errors import AccessError


_FIRST_TRY = Patience(BRIEF.lock, 1000)
"""Timeouts of a first, brief try; a removal that takes longer is done alone later."""
_SOME = 5_000
"""Objects and privileges of a role that are counted first; enough to explain Restrict."""
_FENCE = Patience(1000)
"""Timeouts of the fence, during which sessions that act as the role are ended."""
_GONE_MS = {True: 20, False: 200}
"""Timeout in milliseconds for the end of a session, by whether other accesses wait."""

_log = structlog.get_logger(logger_name="fairlead.postgres")

_MOST = 200
"""Groups that are dropped in one look; a hostile server may report any number of them."""

_FEW = 5
"""Groups that are dropped in one look while other accesses wait."""

_GIVEN_VERSION = 160000
"""``server_version_num`` of PostgreSQL 16; before, only superusers may own subscriptions."""
_DISABLE = sql.SQL("ALTER SUBSCRIPTION {name} DISABLE")
_GIVE = (_DISABLE, sql.SQL("ALTER SUBSCRIPTION {name} OWNER TO {heir}"))
_UNSUBSCRIBE = (
    _DISABLE,
    sql.SQL("ALTER SUBSCRIPTION {name} SET (slot_name = NONE)"),
    sql.SQL("DROP SUBSCRIPTION {name}"),
)

_UNUSED = """
SELECT r.oid::int8, d.description
  FROM pg_catalog.pg_roles r
  JOIN pg_catalog.pg_shdescription d
    ON d.objoid = r.oid AND d.classoid = 'pg_catalog.pg_authid'::pg_catalog.regclass
 WHERE r.rolname = %(name)s::text::pg_catalog.name
   AND NOT EXISTS (SELECT FROM pg_catalog.pg_auth_members m
                     JOIN pg_catalog.pg_roles a ON a.rolname = current_user
                    WHERE m.roleid = r.oid AND m.member <> a.oid {has})
"""
_UNUSED_15 = sql.SQL(_UNUSED.format(has=""))
_UNUSED_16 = sql.SQL(_UNUSED.format(has="AND (m.inherit_option OR m.set_option)"))


async def cleanup(
    sessions: Sessions,
    username: str,
    claim: RoleClaim,
    policy: CleanupPolicy | Literal["Fence"],
    *,
    orphan_to: str = "",
    brief: bool = False,
) -> bool:
    """Remove a role by its policy; a role without this claim is left alone.

    The logins that act as the role are removed with it, and all are fenced before anything else.
    Fence only takes LOGIN. Retain also takes the claim, and drops the logins beside the role,
    which gets their objects. Orphan gives the objects to ``orphan_to``, by default to the owner of
    each database.

    Args:
        sessions: the sessions of the server.
        username: the name of the role.
        claim: the claim that the role must have.
        policy: the cleanupPolicy, or Fence.
        orphan_to: the role that gets the objects, "" for the owner of each database.
        brief: whether other accesses wait; a locked or slow removal is then given up with
            ``Locked`` or ``TimedOut``, to be tried again without it.

    Returns:
        Whether a role with this claim was found.

    Raises:
        AccessError: OwnsObjects if Restrict or Orphan is impossible; another reason if the server
            refused or did not answer.
    """
    async with sessions.working(f"remove role {username}") as session:
        owner, logins = await _read(sessions, session, username, claim, orphan_to, brief=brief)
        found = [*logins, *([owner] if owner is not None else [])]
        async with _fenced(sessions, session, found, username, brief=brief):
            if policy == "Retain":
                for login in logins:
                    login.heir = username if owner is not None else orphan_to
                await _run(logins, "Orphan")
                if owner is not None:
                    await owner.release()
            elif policy != "Fence":
                await _run(found, policy)
    # A group is dropped with its last member, which may have been one of these.
    groups = {name for one in found for name in one.role.groups if is_group(name)}
    await drop_groups(sessions, sorted(groups), claim.installation, brief=brief)
    return bool(found)


async def drop_logins(
    sessions: Sessions,
    username: str,
    names: Collection[str],
    claim: RoleClaim,
    *,
    brief: bool = False,
) -> None:
    """Drop logins of a role that stays, and gets their objects.

    Raises:
        AccessError: the server refused or did not answer.
    """
    async with sessions.working(f"drop logins of role {username}") as session:
        _, logins = await _read(sessions, session, username, claim, username, brief=brief)
        ended = [one for one in logins if one.role.name in names and not one.role.login]
        async with _fenced(sessions, session, ended, username, brief=brief):
            await _run(ended, "Orphan")


async def _read(
    sessions: Sessions,
    session: Session,
    username: str,
    claim: RoleClaim,
    heir: str,
    *,
    brief: bool,
) -> tuple[_Removal | None, list[_Removal]]:
    """Read the role and its logins; those without this claim are left out."""
    names = family(username)
    snapshot = await read_snapshot(session, names, "", whole=False)
    found = {
        name: _Removal(sessions, session, role, snapshot.server, heir, brief=brief)
        for name, role in snapshot.roles.items()
        if role.claim is not None and role.claim.same_object(claim)
    }
    return found.get(username), [found[name] for name in names[1:] if name in found]


@asynccontextmanager
async def _fenced(
    sessions: Sessions,
    session: Session,
    removals: Sequence[_Removal],
    username: str,
    *,
    brief: bool = False,
) -> AsyncIterator[None]:
    """Take LOGIN from all roles in one transaction, end their sessions, then run the block.

    Unless ``brief``, blocking sessions that act as one of the roles are ended all the while.
    Errors about locks name other blockers.
    """
    actors = [Actor(one.role.oid, one.role.name) for one in removals]
    superuser = any(one.superuser for one in removals)
    able = [one.role for one in removals if one.role.login]

    async def fence() -> None:
        async with session.transaction(BRIEF if brief else _FENCE):
            for role in able:
                await session.run(fence_role(role.name))
            await check_same(session, able)

    async with AsyncExitStack() as stack:
        blockers = KnownBlockers()
        if actors and not brief:
            watch = watching(sessions, actors, superuser=superuser)
            blockers = await stack.enter_async_context(watch)
        try:
            if able:
                await retried(fence, f"take the login of role {username} away")
            for actor in actors:
                await end_starting(session, actor, superuser=superuser)
            # Only after the fence: before, a client could log in again.
            for actor in await open_sessions(session, actors) if actors else ():
                await end_sessions(session, actor, superuser=superuser, wait=_GONE_MS[brief])
            yield
        except AccessError as error:
            raise blockers.named(error) from None


async def _run(removals: Sequence[_Removal], policy: CleanupPolicy) -> None:
    """Remove roles, or none of them if one cannot be removed.

    Raises:
        AccessError: OwnsObjects, with the objects of all roles.
    """
    blockers: dict[str, list[str]] = {}
    found = [await one.look(policy) for one in removals]
    for one in found:
        for database, owned in one.blockers:
            blockers.setdefault(database, []).extend(owned)
    if blockers:
        raise owns_objects(removals[-1].role.name, list(blockers.items()))
    for removal, one in zip(removals, found, strict=True):
        await removal.run(policy, one.databases)


class _Look(NamedTuple):
    """Databases with a role's objects or privileges, and the objects that block its removal."""

    databases: tuple[Dependent, ...]
    blockers: list[tuple[str, list[str]]]


async def fence(sessions: Sessions, username: str, claim: RoleClaim) -> bool:
    """Take LOGIN from a role and end its sessions; return whether it had LOGIN.

    Raises:
        AccessError: the server refused or did not answer.
    """
    async with sessions.working(f"take the login of role {username} away") as session:
        snapshot = await read_snapshot(session, [username], "", whole=False)
        role = snapshot.roles.get(username)
        if role is None or role.claim is None or not role.claim.same_object(claim):
            return False
        if not role.login:
            return False
        removal = _Removal(sessions, session, role, snapshot.server)
        async with _fenced(sessions, session, [removal], username):
            return True


async def drop_login(sessions: Sessions, username: str) -> None:
    """Drop a role without a claim, as Restrict does; a role with a claim stays.

    Raises:
        AccessError: the role owns objects, or the server refused or did not answer.
    """
    async with sessions.working(f"drop role {username}") as session:
        snapshot = await read_snapshot(session, [username], "", whole=False)
        role = snapshot.roles.get(username)
        if role is None or role.claim is not None or role.powers:
            return
        removal = _Removal(sessions, session, role, snapshot.server)
        async with _fenced(sessions, session, [removal], username):
            await _run([removal], "Restrict")


async def give_up(sessions: Sessions, username: str, claim: RoleClaim, *, fence: bool) -> None:
    """Take the claim off a role that stays, with ``fence`` its LOGIN too; all else is unchanged.

    Raises:
        AccessError: the server refused or did not answer.
    """
    if fence:
        await cleanup(sessions, username, claim, "Retain")
        return
    what = f"take the claim off role {username}"
    async with sessions.working(what) as session:

        async def release() -> None:
            async with session.transaction():
                role = (await read_snapshot(session, [username], "", whole=False)).roles.get(
                    username
                )
                if role is not None and role.claim == claim:
                    await hold(sessions, session, [role])
                    # Without any comment of the operator, unmanagedUsers Drop would take the role
                    # for a foreign login.
                    await session.run(comment_role(username, GIVEN_UP, role.note))

        await retried(release, what)


class _Removal:
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

        await retried(release, f"take the claim off role {self.role.name}")

    async def look(self, policy: CleanupPolicy) -> _Look:
        """Read the databases to clear, and the objects that block Restrict."""
        async with self._session.transaction(self._patience):
            restricted = policy == "Restrict"
            most = _SOME if restricted else None
            found = await read_dependencies(self._session, self.role.oid, most=most)
            blockers = await self._owned(found.databases) if restricted else []
            # The first objects of a role suffice to refuse; without any, all are read.
            if found.cut and not blockers:
                found = await read_dependencies(self._session, self.role.oid)
                blockers = await self._owned(found.databases)
            check_shared(self.role.name, found, policy)
        return _Look(found.databases, blockers)

    async def run(self, policy: CleanupPolicy, databases: Sequence[Dependent]) -> None:
        """Clear the databases with the role's objects or privileges, and drop the role."""
        if policy != "Restrict":
            # Before anything is reassigned: REASSIGN OWNED gives the subscriptions of all
            # databases to the heir of the one that it runs in.
            for one in databases:
                if one.subscriptions:
                    await self._unsubscribe(one.database, policy)
        # DROP OWNED also takes privileges on shared objects, and needs one database to run in.
        names = {one.database: one.owned for one in databases if one.connectable}
        names = names or {self._sessions.endpoint.maintenance: 0}
        left = {
            name: granted
            for name, owned in names.items()
            if (granted := await self._clean(name, policy, owned=owned))
        }
        for one in databases:
            if not one.connectable and (granted := await self._clean_closed(one.database, policy)):
                left[one.database] = granted
        if left:
            raise strangers_grants(self.role.name, left)
        await self._drop()

    async def _clean_closed(self, database: str, policy: CleanupPolicy) -> list[Left]:
        """Clear a database that takes no connections, by opening it for that time.

        Otherwise its owner could keep any role for ever by a grant there. It needs a superuser. A
        database of an owner with powers was closed by an administrator, and stays closed.
        """
        found = await read_owner(self._session, database)
        if found is None:
            return []
        owner, unsafe = found
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

    async def _owned(self, databases: Iterable[Dependent]) -> list[tuple[str, list[str]]]:
        blockers = []
        for one in databases:
            if one.owned:
                async with (
                    self._sessions.use(one.database) as session,
                    session.transaction(self._patience),
                ):
                    owned = await read_owned(session, self.role.oid)
                blockers.append((one.database, owned))
        return blockers if any(owned for _, owned in blockers) else []

    async def _clean(self, database: str, policy: CleanupPolicy, *, owned: int) -> list[Left]:
        """Remove the role's objects and privileges in a database; return the ones that stay."""
        async with self._sessions.use(database) as session:

            async def clean() -> list[Left]:
                await self._check(session)
                async with acting_as(session, self.role.name, superuser=self.superuser):
                    if policy == "Restrict":
                        # DROP OWNED also drops objects of the role that are newer than the first
                        # look.
                        left = await read_owned(session, self.role.oid)
                        if left:
                            raise owns_objects(self.role.name, [(database, left)])
                    if policy == "Orphan" and owned:
                        await self._reassign(session, database)
                    how = sql.SQL("CASCADE" if policy == "Cascade" else "RESTRICT")
                    drop = sql.SQL("DROP OWNED BY {} {}").format(self._name, how)
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
                        acting_as(session, owner.name, superuser=False)
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
                    acting_as(session, grantor.name, superuser=self.superuser),
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
                    acting_as(session, self.role.name, superuser=self.superuser),
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
                found = await read_snapshot(self._session, [self.role.name], "", whole=False)
                role = found.roles.get(self.role.name)
                # Read again inside the transaction: another access may have the name by now.
                if role is None or role.claim != self.role.claim:
                    return
                await hold(self._sessions, self._session, [role])
                await self._check(self._session)
                await self._session.run(sql.SQL("DROP ROLE {}").format(self._name))

        await retried(drop, f"drop role {self.role.name}")


class _InUseError(AccessError):
    """A group that has got a member during its removal."""

    def __init__(self) -> None:
        super().__init__("Conflict", "a role has joined the group meanwhile")


async def drop_groups(
    sessions: Sessions, names: Iterable[str], installation: str, *, brief: bool = False
) -> None:
    """Drop groups of this installation without members; the next look tries failed ones again.

    Args:
        sessions: the sessions of the server.
        names: the names of the groups; names of other roles are left alone.
        installation: the installation that the groups must belong to.
        brief: whether other accesses wait; a locked group is left to the next look.
    """
    for name in islice(names, _FEW if brief else _MOST):
        try:
            if await _drop(sessions, name, installation, brief=brief):
                _log.info("a group without members was dropped", role=name)
        # The new member's own pass grants the privileges again that the group has lost.
        except _InUseError:
            continue
        except AccessError as error:
            _log.warning("a group without members stays", role=name, error=str(error))


async def _drop(sessions: Sessions, name: str, installation: str, *, brief: bool) -> bool:
    async with sessions.working(f"drop group {name}") as session:
        if not await _is_unused(session, name, installation):
            return False
        snapshot = await read_snapshot(session, [], "", groups=[name], whole=False)
        role = snapshot.roles.get(name)
        if role is None:
            return False

        async def guard(session: Session) -> None:
            if not await _is_unused(session, name, installation):
                raise _InUseError

        removal = _Removal(sessions, session, role, snapshot.server, guard=guard, brief=brief)
        await _run([removal], "Restrict")
    return True


async def _is_unused(session: Session, name: str, installation: str) -> bool:
    query = _UNUSED_16 if session.server_version >= GRANT_OPTIONS_VERSION else _UNUSED_15
    rows = await session.rows(query, {"name": name})
    claim = parse_group(rows[0][1]) if rows else None
    return claim is not None and claim.installation == installation
