"""Removes roles: fence them, look for dependent objects, clear every database, drop them.

Each part is its own transaction and may be done again. The fence stands if a later part fails: a
role whose deletion is stuck has no login. The order is PostgreSQL's own advice
(https://www.postgresql.org/docs/current/role-removal.html).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Literal

import psycopg

from fairlead.api.postgresaccess import CleanupPolicy
from fairlead.postgres import bounds
from fairlead.postgres.database.connections.session import BRIEF, Patience, Session
from fairlead.postgres.database.connections.sessions import Sessions
from fairlead.postgres.database.plans.differences import Actor
from fairlead.postgres.database.plans.logins import family
from fairlead.postgres.database.plans.names import is_group
from fairlead.postgres.database.plans.snapshot import (
    GIVEN_UP,
    RoleClaim,
)
from fairlead.postgres.database.plans.statements import comment_role, fence_role
from fairlead.postgres.database.reading.catalog import read_snapshot
from fairlead.postgres.database.work.blockers import (
    KnownBlockers,
    end_sessions,
    end_starting,
    open_sessions,
    watching,
)
from fairlead.postgres.database.work.groups import drop_groups
from fairlead.postgres.database.work.holding import check_same, hold
from fairlead.postgres.database.work.removal import RoleRemoval, remove
from fairlead.postgres.database.work.retries import retried
from fairlead.postgres.errors import AccessError


_FENCE = Patience(1000)
"""Timeouts of the fence, during which sessions that act as the role are ended."""


async def cleanup(
    sessions: Sessions,
    username: str,
    claim: RoleClaim,
    policy: CleanupPolicy | Literal["Fence"],
    *,
    orphan_to: str = "",
    databases: Collection[str] = (),
    begun: bool = False,
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
        databases: some that may let the administrator in where the maintenance database does not;
            the fence needs one, whichever.
        begun: whether an earlier turn has dropped objects of the role.
        brief: whether other accesses wait; a locked or slow removal is then given up with
            ``Locked`` or ``TimedOut``, to be tried again without it.

    Returns:
        Whether a role with this claim was found.

    Raises:
        AccessError: OwnsObjects if Restrict or Orphan is impossible; another reason if the server
            refused or did not answer.
        UnfinishedError: the role owns much, and another turn has to follow.
    """
    async with _let_in(sessions, username, claim, databases, brief=brief) as session:

        async def read() -> list[RoleRemoval]:
            return await _read(sessions, session, username, claim, orphan_to, brief=brief)

        async with _fenced(sessions, session, read, username, brief=brief) as roles:
            if policy == "Retain":
                owner = next((one for one in roles if one.role.name == username), None)
                logins = [one for one in roles if one is not owner]
                for login in logins:
                    login.heir = username if owner is not None else orphan_to
                await remove(logins, "Orphan")
                if owner is not None:
                    await owner.release()
            elif policy != "Fence":
                await remove(roles, policy, begun=begun)
    # A group is dropped with its last member, which may have been one of these.
    groups = {name for one in roles for name in one.role.groups if is_group(name)}
    await drop_groups(sessions, sorted(groups), claim.installation, brief=brief)
    return bool(roles)


@asynccontextmanager
async def _let_in(
    sessions: Sessions,
    username: str,
    claim: RoleClaim,
    databases: Collection[str],
    *,
    brief: bool,
) -> AsyncIterator[Session]:
    """Give out a session in the maintenance database; without one, fence the roles elsewhere.

    Raises:
        AccessError: there is no such session, or a statement failed.
    """
    is_inside = False
    try:
        async with sessions.working(f"remove role {username}") as session:
            is_inside = True
            yield session
    except AccessError as refusal:
        if not is_inside:
            # The refusal stays the error of the removal, whatever comes of the fence.
            with suppress(AccessError, psycopg.Error):
                async with sessions.elsewhere(refusal, databases) as session:
                    await _fence_all(sessions, session, username, claim, brief=brief)
        raise


async def _fence_all(
    sessions: Sessions, session: Session, username: str, claim: RoleClaim, *, brief: bool
) -> None:
    """Take LOGIN from a role and its logins, by a session in any database."""

    async def read() -> list[RoleRemoval]:
        return await _read(sessions, session, username, claim, "", brief=brief)

    async with _fenced(sessions, session, read, username, brief=brief):
        pass


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

        async def read() -> list[RoleRemoval]:
            roles = await _read(sessions, session, username, claim, username, brief=brief)
            logins = [one for one in roles if one.role.name != username]
            # One that has LOGIN again was given another turn since the plan.
            return [one for one in logins if one.role.name in names and not one.role.login]

        async with _fenced(sessions, session, read, username, brief=brief) as ended:
            await remove(ended, "Orphan")


async def _read(
    sessions: Sessions,
    session: Session,
    username: str,
    claim: RoleClaim,
    heir: str,
    *,
    brief: bool,
) -> list[RoleRemoval]:
    """Read the logins and then their role; those without this claim are left out."""
    names = family(username)
    snapshot = await read_snapshot(session, names, "", whole=False)
    roles = {
        name: RoleRemoval(sessions, session, role, snapshot.server, heir, brief=brief)
        for name, role in snapshot.roles.items()
        if role.claim is not None and role.claim.same_object(claim)
    }
    return [roles[name] for name in (*names[1:], username) if name in roles]


@asynccontextmanager
async def _fenced(
    sessions: Sessions,
    session: Session,
    read: Callable[[], Awaitable[list[RoleRemoval]]],
    username: str,
    *,
    brief: bool = False,
) -> AsyncIterator[list[RoleRemoval]]:
    """Take LOGIN from all roles in one transaction, end their sessions, then run the block.

    The block gets the roles as they were when they lost LOGIN. Unless ``brief``, blocking
    sessions that act as one of the roles are ended all the while. Errors about locks name other
    blockers.
    """
    removals = await read()
    actors = [Actor(one.role.oid, one.role.name) for one in removals]
    superuser = any(one.superuser for one in removals)
    is_fresh = True

    async def fence() -> None:
        nonlocal removals, is_fresh
        if not is_fresh:
            # Roles that changed since the look fail the check at each try. The watch has the same
            # list, and has to spare the sessions of a role that is another's by now.
            removals = await read()
            actors[:] = [Actor(one.role.oid, one.role.name) for one in removals]
        is_fresh = False
        able = [one.role for one in removals if one.role.login]
        if not able:
            return
        async with session.transaction(BRIEF if brief else _FENCE):
            for role in able:
                await session.run(fence_role(role.name))
            # After ALTER ROLE, which keeps others from these roles until the commit: a role that
            # was dropped and made anew since the look keeps its LOGIN (40001).
            await check_same(session, able)

    async with AsyncExitStack() as stack:
        blockers = KnownBlockers()
        if actors and not brief:
            watch = watching(sessions, actors, superuser=superuser)
            blockers = await stack.enter_async_context(watch)
        try:
            await retried(fence, f"remove the login of role {username}")
            for actor in actors:
                await end_starting(session, actor, superuser=superuser)
            # Only after the fence: before, a client could log in again.
            wait = bounds.GONE_BRIEFLY_MS if brief else bounds.GONE_MS
            for actor in await open_sessions(session, actors) if actors else ():
                await end_sessions(session, actor, superuser=superuser, wait=wait)
            yield removals
        except AccessError as error:
            raise blockers.named(error) from None


async def fence(sessions: Sessions, username: str, claim: RoleClaim) -> bool:
    """Take LOGIN from a role and end its sessions; return whether it had LOGIN.

    Raises:
        AccessError: the server refused or did not answer.
    """
    async with sessions.working(f"remove the login of role {username}") as session:

        async def read() -> list[RoleRemoval]:
            roles = await _read_one(sessions, session, username)
            return [
                role
                for role in roles
                if role.role.login
                and role.role.claim is not None
                and role.role.claim.same_object(claim)
            ]

        async with _fenced(sessions, session, read, username) as fenced:
            return bool(fenced)


async def drop_login(sessions: Sessions, username: str) -> None:
    """Drop a role without a claim, as Restrict does; a role with a claim stays.

    Raises:
        AccessError: the role owns objects, or the server refused or did not answer.
    """
    async with sessions.working(f"drop role {username}") as session:

        async def read() -> list[RoleRemoval]:
            roles = await _read_one(sessions, session, username)
            # The list of logins is older than this look: the role may have a claim or powers by
            # now.
            return [one for one in roles if one.role.claim is None and not one.role.powers]

        async with _fenced(sessions, session, read, username) as roles:
            await remove(roles, "Restrict")


async def _read_one(sessions: Sessions, session: Session, username: str) -> list[RoleRemoval]:
    """Read one role; return none if there is no such role."""
    snapshot = await read_snapshot(session, [username], "", whole=False)
    role = snapshot.roles.get(username)
    return [RoleRemoval(sessions, session, role, snapshot.server)] if role is not None else []


async def give_up(sessions: Sessions, username: str, claim: RoleClaim, *, fence: bool) -> None:
    """Take the claim off a role that stays, with ``fence`` its LOGIN too; all else is unchanged.

    Raises:
        AccessError: the server refused or did not answer.
    """
    if fence:
        await cleanup(sessions, username, claim, "Retain")
        return
    what = f"remove the claim from role {username}"
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
