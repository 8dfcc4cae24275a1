"""Removing a role: fence it, look at what it leaves behind, clean every database, drop it.

Each part is its own transaction and may be done again. Whatever stops the rest, the fence stands:
a deletion that is stuck has taken the login away. The order is PostgreSQL's own advice
(https://www.postgresql.org/docs/current/role-removal.html).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from itertools import islice
from typing import Literal, cast

import psycopg
import structlog
from psycopg import sql

from fairlead.api.postgresaccess import CleanupPolicy
from fairlead.postgres.database.connections.session import Session
from fairlead.postgres.database.connections.sessions import Sessions
from fairlead.postgres.database.plans.attributes import GRANT_OPTIONS_VERSION
from fairlead.postgres.database.plans.names import is_group
from fairlead.postgres.database.plans.snapshot import (
    GIVEN_UP,
    Claim,
    RoleFacts,
    ServerFacts,
    parse_group,
)
from fairlead.postgres.database.plans.statements import comment_role, fence_role
from fairlead.postgres.database.reading.catalog import read_snapshot
from fairlead.postgres.database.reading.dependencies import (
    Dependent,
    check_shared,
    owns_objects,
    read_dependencies,
    read_heir,
    read_owned,
)
from fairlead.postgres.database.work.retries import retried, working
from fairlead.postgres.errors import AccessError


_TERMINATE = sql.SQL("""
SELECT pg_catalog.pg_terminate_backend(a.pid, 1000)
  FROM pg_catalog.pg_stat_activity a
 WHERE a.usesysid = %(role)s::oid AND a.pid <> pg_catalog.pg_backend_pid()
""")

_log = structlog.get_logger(logger_name="fairlead.postgres")

_MOST = 200
"""Groups of one server that are dropped in one look; whoever answers may claim anything."""

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
    claim: Claim,
    policy: CleanupPolicy | Literal["Fence"],
    *,
    orphan_to: str = "",
) -> bool:
    """Remove a role by its policy; one that is gone or was never this claim's is left alone.

    Fence takes the login alone, Retain also the claim. Orphan gives what it owns to ``orphan_to``,
    or else to the owner of each database.

    Returns:
        Whether there was anything to do.

    Raises:
        AccessError: OwnsObjects while Restrict or Orphan cannot be carried out, or why the
            server could not be worked on.
    """
    async with working(sessions, f"remove role {username}") as session:
        snapshot = await read_snapshot(session, [username], "")
        role = snapshot.roles.get(username)
        if role is None or role.claim is None or not role.claim.same_object(claim):
            return False
        removal = _Removal(sessions, session, role, snapshot.server, orphan_to)
        await removal.fence(retain=policy == "Retain")
        if policy not in {"Retain", "Fence"}:
            await removal.run(cast("CleanupPolicy", policy))
    await drop_groups(sessions, filter(is_group, role.groups), role.claim.installation)
    return True


async def fence(sessions: Sessions, username: str, claim: Claim) -> bool:
    """Take the login of a role away and end its sessions; returns whether it had one.

    Raises:
        AccessError: the server could not be worked on.
    """
    async with working(sessions, f"take the login of role {username} away") as session:
        snapshot = await read_snapshot(session, [username], "")
        role = snapshot.roles.get(username)
        if role is None or role.claim is None or not role.claim.same_object(claim):
            return False
        if not role.login:
            return False
        await _Removal(sessions, session, role, snapshot.server).fence(retain=False)
    return True


async def drop_login(sessions: Sessions, username: str) -> None:
    """Drop a role that nobody has claimed, as Restrict does; one that is claimed by now stays.

    Raises:
        AccessError: it owns something, or the server could not be worked on.
    """
    async with working(sessions, f"drop role {username}") as session:
        snapshot = await read_snapshot(session, [username], "")
        role = snapshot.roles.get(username)
        if role is None or role.claim is not None or role.powers:
            return
        removal = _Removal(sessions, session, role, snapshot.server)
        await removal.fence(retain=False)
        await removal.run("Restrict")


async def give_up(sessions: Sessions, username: str, claim: Claim, *, fence: bool) -> None:
    """Take the claim off a role that stays, and with ``fence`` its login; nothing else changes.

    Raises:
        AccessError: the server could not be worked on, or it is not allowed.
    """
    if fence:
        await cleanup(sessions, username, claim, "Retain")
        return
    what = f"take the claim off role {username}"
    async with working(sessions, what) as session:

        async def release() -> None:
            async with session.transaction():
                role = (await read_snapshot(session, [username], "")).roles.get(username)
                if role is not None and role.claim == claim:
                    # Not nothing, for unmanagedUsers Drop takes a login without a word for a
                    # stranger's.
                    await session.run(comment_role(username, GIVEN_UP))

        await retried(release, what)


class _Removal:
    """The removal of one role.

    A ``guard`` is asked in each transaction, and may raise to end the removal.
    """

    def __init__(
        self,
        sessions: Sessions,
        session: Session,
        role: RoleFacts,
        server: ServerFacts,
        heir: str = "",
        guard: Callable[[Session], Awaitable[None]] | None = None,
    ) -> None:
        self._heir = heir
        self._guard = guard
        self._sessions = sessions
        self._session = session
        self._role = role
        self._server = server
        self._name = sql.Identifier(role.name)

    async def fence(self, *, retain: bool) -> None:
        """Take the login away, and end the sessions that are open."""

        async def fence() -> None:
            async with self._session.transaction():
                if self._role.login:
                    await self._session.run(fence_role(self._role.name))
                if retain:
                    # Whoever stays in a group of ours stays known as one of its members.
                    shares = any(map(is_group, self._role.groups))
                    comment = GIVEN_UP if shares else None
                    await self._session.run(comment_role(self._role.name, comment))

        if self._role.login or retain:
            await retried(fence, f"take the login of role {self._role.name} away")
        try:
            async with self._membership(self._session):
                await self._session.rows(_TERMINATE, {"role": self._role.oid})
        except psycopg.errors.InsufficientPrivilege:
            return

    async def run(self, policy: CleanupPolicy) -> None:
        found = await read_dependencies(self._session, self._role.oid)
        check_shared(self._role.name, found, policy)
        if policy == "Restrict":
            await self._check_nothing_owned(found.databases)
        # DROP OWNED also takes privileges on shared objects, and needs one database to run in.
        names = {self._sessions.endpoint.maintenance: 0} if not found.databases else {}
        names |= {one.database: one.owned for one in found.databases}
        for name, owned in names.items():
            await self._clean(name, policy, owned=owned)
        await self._drop()

    async def _check(self, session: Session) -> None:
        if self._guard is not None:
            await self._guard(session)

    async def _check_nothing_owned(self, databases: tuple[Dependent, ...]) -> None:
        blockers = []
        for one in databases:
            if one.owned:
                async with self._sessions.use(one.database) as session:
                    owned = await read_owned(session, self._role.oid)
                blockers.append((one.database, owned))
        if any(owned for _, owned in blockers):
            raise owns_objects(self._role.name, blockers)

    async def _clean(self, database: str, policy: CleanupPolicy, *, owned: int) -> None:
        async with self._sessions.use(database) as session:

            async def clean() -> None:
                await self._check(session)
                async with self._membership(session):
                    if policy == "Restrict":
                        left = await read_owned(session, self._role.oid)
                        if left:
                            raise owns_objects(self._role.name, [(database, left)])
                    if policy == "Orphan" and owned:
                        await self._reassign(session, database)
                    how = sql.SQL("CASCADE" if policy == "Cascade" else "RESTRICT")
                    await session.run(sql.SQL("DROP OWNED BY {} {}").format(self._name, how))

            async def alone() -> None:
                async with session.transaction():
                    await clean()

            await retried(alone, f"clear database {database} of role {self._role.name}")

    async def _reassign(self, session: Session, database: str) -> None:
        owner = await read_heir(session, self._heir, database)
        await session.run(
            sql.SQL("REASSIGN OWNED BY {} TO {}").format(self._name, sql.Identifier(owner))
        )

    async def _drop(self) -> None:
        async def drop() -> None:
            async with self._session.transaction():
                await self._check(self._session)
                found = await read_snapshot(self._session, [self._role.name], "")
                role = found.roles.get(self._role.name)
                # Looked at again inside the transaction: the name may be another access's by now.
                if role is None or role.claim != self._role.claim:
                    return
                await self._session.run(sql.SQL("DROP ROLE {}").format(self._name))

        await retried(drop, f"drop role {self._role.name}")

    @asynccontextmanager
    async def _membership(self, session: Session) -> AsyncIterator[None]:
        """Be a member of the role meanwhile, as only that lets a common administrator act for it.

        The membership is taken back in the same transaction, so no other session ever sees it:
        the role's groups may change how their members log in.
        """
        if self._server.superuser:
            yield
            return
        # Since PostgreSQL 16 a membership says for itself what comes with it.
        options = " WITH INHERIT TRUE, SET TRUE" if self._server.version >= 160000 else ""
        async with session.savepoint():
            await session.run(
                sql.SQL("GRANT {} TO CURRENT_USER{}").format(self._name, sql.SQL(options))
            )
            yield
            await session.run(sql.SQL("REVOKE {} FROM CURRENT_USER").format(self._name))


class _InUseError(AccessError):
    """Somebody is a member again."""

    def __init__(self) -> None:
        super().__init__("Conflict", "somebody has joined the group meanwhile")


async def drop_groups(sessions: Sessions, names: Iterable[str], installation: str) -> None:
    """Drop groups of this installation that have no members; what fails is tried again.

    Args:
        sessions: of the server.
        names: of the groups; others, and those that are gone, are left alone.
        installation: whose groups they are.
    """
    for name in islice(names, _MOST):
        try:
            if await _drop(sessions, name, installation):
                _log.info("a group that nobody shares was dropped", role=name)
        except _InUseError:
            continue
        except AccessError as error:
            _log.warning("a group that nobody shares stays", role=name, error=str(error))


async def _drop(sessions: Sessions, name: str, installation: str) -> bool:
    async with working(sessions, f"drop group {name}") as session:
        if not await _is_unused(session, name, installation):
            return False
        snapshot = await read_snapshot(session, [], "", groups=[name])
        role = snapshot.roles.get(name)
        if role is None:
            return False

        async def guard(session: Session) -> None:
            if not await _is_unused(session, name, installation):
                raise _InUseError

        removal = _Removal(sessions, session, role, snapshot.server, guard=guard)
        await removal.run("Restrict")
    return True


async def _is_unused(session: Session, name: str, installation: str) -> bool:
    query = _UNUSED_16 if session.server_version >= GRANT_OPTIONS_VERSION else _UNUSED_15
    rows = await session.rows(query, {"name": name})
    claim = parse_group(rows[0][1]) if rows else None
    return claim is not None and claim.installation == installation
