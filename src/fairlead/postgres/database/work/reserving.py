"""Claims roles for objects that have yet to change them, as an import and a take-over do."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec
import psycopg

from fairlead.postgres.database.connections.failures import TRANSIENT_STATES, explain_statement
from fairlead.postgres.database.connections.session import Session
from fairlead.postgres.database.connections.sessions import Sessions
from fairlead.postgres.database.plans.snapshot import GroupClaim, RoleClaim, RoleFacts
from fairlead.postgres.database.plans.statements import comment_role
from fairlead.postgres.database.reading.catalog import read_snapshot
from fairlead.postgres.database.work.retries import retried
from fairlead.postgres.errors import AccessError, refusal


async def reserve(
    sessions: Sessions,
    claims: Mapping[str, RoleClaim],
    former: Mapping[str, RoleClaim] = MappingProxyType({}),
    groups: Mapping[str, GroupClaim] = MappingProxyType({}),
) -> dict[str, AccessError]:
    """Write claims into the comments of roles; the notes of users stay.

    A role that another writer has claimed meanwhile is left alone: the first claim wins.

    Args:
        sessions: the sessions of the server.
        claims: claims without a uid, by the names of the roles.
        former: claims that are replaced, by the names of the roles.
        groups: the former claims of shared groups, by their names. They become groups of the
            installation of the claims, which drops them once they have no member.

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
                names = {*claims, *groups}
                snapshot = await read_snapshot(session, names, "", groups=[*groups], whole=False)
                for name, claim in claims.items():
                    role, replaced = snapshot.roles.get(name), former.get(name)
                    problem = await _claim(session, role, name, claim, replaced)
                    if problem is not None:
                        refused[name] = problem
                for name, group in groups.items():
                    role = snapshot.roles.get(name)
                    if role is None or role.group != group or not claims:
                        continue
                    installation = next(iter(claims.values())).installation
                    claimed = msgspec.structs.replace(group, installation=installation)
                    problem = await _comment(session, role, claimed.text())
                    if problem is not None:
                        refused[name] = problem

        await retried(write, "claim roles")
    return refused


async def _claim(
    session: Session,
    role: RoleFacts | None,
    name: str,
    claim: RoleClaim,
    former: RoleClaim | None = None,
) -> AccessError | None:
    if role is None:
        return AccessError("Conflict", f"role {name} was dropped meanwhile")
    parsed = role.claim
    # A claim by an import is replaced by a later one of the same installation, whose object may
    # have another name.
    is_free = parsed is None or (parsed.is_imported and parsed.installation == claim.installation)
    if not is_free and parsed != former:
        return refusal("UsernameConflict", f"role {name} has been claimed meanwhile")
    return None if parsed == claim else await _comment(session, role, claim)


async def _comment(
    session: Session, role: RoleFacts, comment: RoleClaim | str
) -> AccessError | None:
    try:
        async with session.savepoint():
            await session.run(comment_role(role.name, comment, role.note))
    except psycopg.Error as error:
        if error.sqlstate in TRANSIENT_STATES:
            raise
        return explain_statement(error, f"claim role {role.name}", "the administrator")
    return None
