"""Claims roles made by hand for objects that are yet to be created, as an import does."""

from __future__ import annotations

from collections.abc import Mapping

import psycopg

from fairlead.postgres.database.connections.failures import TRANSIENT_STATES, explain_statement
from fairlead.postgres.database.connections.session import Session
from fairlead.postgres.database.connections.sessions import Sessions
from fairlead.postgres.database.plans.snapshot import RoleClaim, RoleFacts
from fairlead.postgres.database.plans.statements import comment_role
from fairlead.postgres.database.reading.catalog import read_snapshot
from fairlead.postgres.database.work.retries import retried
from fairlead.postgres.errors import AccessError, refusal


async def reserve(sessions: Sessions, claims: Mapping[str, RoleClaim]) -> dict[str, AccessError]:
    """Write claims into the comments of roles; the notes of users stay.

    A role that another writer has claimed meanwhile is left alone: the first claim wins.

    Args:
        sessions: the sessions of the server.
        claims: claims without a uid, by the names of the roles.

    Returns:
        The errors of roles that were not claimed, by their names.

    Raises:
        AccessError: the server could not be worked on.
    """
    refused: dict[str, AccessError] = {}
    async with sessions.working("claim roles") as session:

        async def write() -> None:
            # The transaction may be tried again, which voids the errors of the try before.
            refused.clear()
            async with session.transaction():
                found = await read_snapshot(session, claims, "", whole=False)
                for name, claim in claims.items():
                    problem = await _claim(session, found.roles.get(name), name, claim)
                    if problem is not None:
                        refused[name] = problem

        await retried(write, "claim roles")
    return refused


async def _claim(
    session: Session, role: RoleFacts | None, name: str, claim: RoleClaim
) -> AccessError | None:
    if role is None:
        return AccessError("Conflict", f"role {name} was dropped meanwhile")
    held = role.claim
    # A claim by an import is replaced by a later one of the same installation, whose object may
    # have another name.
    if held is not None and not (held.is_imported and held.installation == claim.installation):
        return refusal("UsernameConflict", f"role {name} has been claimed meanwhile")
    if held == claim:
        return None
    try:
        async with session.savepoint():
            await session.run(comment_role(name, claim, role.note))
    except psycopg.Error as error:
        if error.sqlstate in TRANSIENT_STATES:
            raise
        return explain_statement(error, f"claim role {name}", "the administrator")
    return None
