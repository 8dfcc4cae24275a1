"""Takes logins out of groups whose privileges they have in another way, and drops empty groups.

Until then a login stays in its groups and keeps its own privileges, so that a change of grants
never interrupts a privilege that is granted before and after it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import islice

import psycopg
import structlog
from psycopg import sql

from fairlead.postgres import bounds
from fairlead.postgres.database.connections.failures import TRANSIENT_STATES, explain_statement
from fairlead.postgres.database.connections.session import BRIEF, PATIENT, Session
from fairlead.postgres.database.connections.sessions import Sessions
from fairlead.postgres.database.plans.attributes import GRANT_OPTIONS_VERSION
from fairlead.postgres.database.plans.groups import Sharing, plan_leaving
from fairlead.postgres.database.plans.plan import WantedState
from fairlead.postgres.database.plans.snapshot import ServerSnapshot, parse_group
from fairlead.postgres.database.plans.statements import AccessStatement, SharedChange
from fairlead.postgres.database.reading.catalog import read_snapshot
from fairlead.postgres.database.work.removal import RoleRemoval, remove
from fairlead.postgres.database.work.retries import retried
from fairlead.postgres.errors import AccessError


_log = structlog.get_logger(logger_name="fairlead.postgres")


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
# Since PostgreSQL 16 the creator of a role is a member with ADMIN alone, who has no privilege of
# the group.
_UNUSED_16 = sql.SQL(_UNUSED.format(has="AND (m.inherit_option OR m.set_option)"))


async def leave_groups(
    sessions: Sessions,
    states: Sequence[WantedState],
    sharing: Sharing,
    held_up: Collection[str],
    *,
    brief: bool = False,
) -> tuple[ServerSnapshot, dict[str, list[AccessError]]]:
    """Take superseded memberships and privileges from logins; see ``plan_leaving``.

    Args:
        sessions: the sessions of the server.
        states: the accesses.
        sharing: the owners of the grants.
        held_up: usernames of accesses that do not have all privileges yet.
        brief: whether other accesses wait; a locked role is left for later.

    Returns:
        The snapshot of the transaction, and errors by username.

    Raises:
        AccessError: the server could not be worked on.
    """
    names = [name for one in states for name in one.names]
    problems: dict[str, list[AccessError]] = {}
    async with sessions.working("remove roles from groups") as session:

        async def work() -> ServerSnapshot:
            # The transaction may be tried again, which voids the errors of the try before.
            problems.clear()
            async with session.transaction(BRIEF if brief else PATIENT):
                snapshot = await read_snapshot(session, names, "", groups=sharing.groups)
                for change in plan_leaving(states, sharing, snapshot, held_up):
                    await _apply(session, change, snapshot.server.admin, problems)
            return snapshot

        after = await retried(work, "remove roles from groups")
    # The snapshot is from before the changes, so it has the groups that were left.
    left = {
        name
        for state in states
        for name in after.shared(after.roles.get(state.username), state.claim.installation)
    }
    installation = next((one.claim.installation for one in states), "")
    deserted = sorted(left - sharing.groups.keys())
    await drop_groups(sessions, deserted, installation, brief=brief)
    return after, problems


async def _apply(
    session: Session, change: AccessStatement, admin: str, problems: dict[str, list[AccessError]]
) -> None:
    """Make a change for all roles in one statement, or for each alone if that fails."""
    try:
        async with session.savepoint():
            await session.run(change.statement)
    except psycopg.Error as error:
        if error.sqlstate in TRANSIENT_STATES:
            raise
        if len(change.usernames) > 1 and isinstance(change, SharedChange):
            for username in change.usernames:
                await _apply(session, change.only([username]), admin, problems)
            return
        problem = explain_statement(error, change.what, admin)
        for username in change.usernames:
            problems.setdefault(username, []).append(problem)


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
    for name in islice(names, bounds.DROPPED_BRIEFLY if brief else bounds.DROPPED):
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

        # Between the look and the end of each transaction a login may join the group.
        async def guard(session: Session) -> None:
            if not await _is_unused(session, name, installation):
                raise _InUseError

        removal = RoleRemoval(sessions, session, role, snapshot.server, guard=guard, brief=brief)
        await remove([removal], "Restrict")
    return True


async def _is_unused(session: Session, name: str, installation: str) -> bool:
    query = _UNUSED_16 if session.server_version >= GRANT_OPTIONS_VERSION else _UNUSED_15
    rows = await session.rows(query, {"name": name})
    claim = parse_group(rows[0][1]) if rows else None
    return claim is not None and claim.installation == installation
