"""Acts for another role; an administrator without superuser has to be its member for that."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from psycopg import sql

from fairlead.postgres.database.connections.session import Session
from fairlead.postgres.database.plans.attributes import GRANT_OPTIONS_VERSION


@asynccontextmanager
async def acting_as(session: Session, name: str, *, superuser: bool) -> AsyncIterator[None]:
    """Make an administrator without superuser a member of a role while the block runs.

    The same transaction revokes the membership, so that no other session sees it: groups of the
    role may change how their members log in.
    """
    if superuser:
        yield
        return
    async with session.savepoint():
        await session.run(joining(session, name))
        yield
        await session.run(leaving(name))


def joining(session: Session, name: str) -> sql.Composed:
    """Return the statement that makes the administrator a member of a role."""
    # Since PostgreSQL 16 each membership has options of its own. The creator of a role has ADMIN
    # alone, which is not enough for SET ROLE, REASSIGN OWNED and DROP OWNED.
    newer = session.server_version >= GRANT_OPTIONS_VERSION
    options = sql.SQL(" WITH INHERIT TRUE, SET TRUE" if newer else "")
    return sql.SQL("GRANT {} TO CURRENT_USER{}").format(sql.Identifier(name), options)


def leaving(name: str) -> sql.Composed:
    """Return the statement that ends the administrator's membership in a role."""
    return sql.SQL("REVOKE {} FROM CURRENT_USER").format(sql.Identifier(name))
