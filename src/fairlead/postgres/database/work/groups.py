"""Takes logins out of groups whose privileges they have in another way.

Until then a login stays in its groups and keeps its own privileges, so that a change of grants
never interrupts a privilege that is granted before and after it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import psycopg

from fairlead.postgres.database.connections.failures import TRANSIENT_STATES, explain_statement
from fairlead.postgres.database.connections.session import BRIEF, PATIENT, Session
from fairlead.postgres.database.connections.sessions import Sessions
from fairlead.postgres.database.plans.groups import Sharing, plan_leaving
from fairlead.postgres.database.plans.plan import AccessStatement, SharedChange, WantedState
from fairlead.postgres.database.plans.snapshot import ServerSnapshot
from fairlead.postgres.database.reading.catalog import read_snapshot
from fairlead.postgres.database.work.cleanup import drop_groups
from fairlead.postgres.database.work.retries import retried
from fairlead.postgres.errors import AccessError


async def leave_groups(
    sessions: Sessions,
    wanted: Sequence[WantedState],
    sharing: Sharing,
    held_up: Collection[str],
    *,
    brief: bool = False,
) -> tuple[ServerSnapshot, dict[str, list[AccessError]]]:
    """Take superseded memberships and privileges from logins; see ``plan_leaving``.

    Args:
        sessions: the sessions of the server.
        wanted: the accesses.
        sharing: the owners of the grants.
        held_up: usernames of accesses that do not have all privileges yet.
        brief: whether other accesses wait; a locked role is left for later.

    Returns:
        The snapshot of the transaction, and errors by username.

    Raises:
        AccessError: the server could not be worked on.
    """
    names = [name for one in wanted for name in one.names]
    problems: dict[str, list[AccessError]] = {}
    async with sessions.working("take roles out of groups") as session:

        async def work() -> ServerSnapshot:
            # The transaction may be tried again, which voids the errors of the try before.
            problems.clear()
            async with session.transaction(BRIEF if brief else PATIENT):
                found = await read_snapshot(session, names, "", groups=sharing.groups)
                for change in plan_leaving(wanted, sharing, found, held_up):
                    await _apply(session, change, found.server.admin, problems)
            return found

        after = await retried(work, "take roles out of groups")
    # The snapshot is from before the changes, so it has the groups that were left.
    left = {
        name
        for one in wanted
        for name in after.shared(after.roles.get(one.username), one.claim.installation)
    }
    installation = next((one.claim.installation for one in wanted), "")
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
