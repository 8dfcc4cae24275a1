"""Acts for another role, as only its members may where the administrator is no superuser."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from psycopg import sql

from fairlead.postgres.database.connections.session import Session
from fairlead.postgres.database.plans.attributes import GRANT_OPTIONS_VERSION


@asynccontextmanager
async def acting_as(session: Session, name: str, *, superuser: bool) -> AsyncIterator[None]:
    """Be a member of a role meanwhile, as only that lets a common administrator act for it.

    The membership is taken back in the same transaction, so no other session ever sees it: the
    role's groups may change how their members log in.
    """
    if superuser:
        yield
        return
    async with session.savepoint():
        await session.run(joining(session, name))
        yield
        await session.run(leaving(name))


def joining(session: Session, name: str) -> sql.Composed:
    """What makes the administrator a member of a role."""
    # Since PostgreSQL 16 a membership says for itself what comes with it.
    newer = session.server_version >= GRANT_OPTIONS_VERSION
    options = sql.SQL(" WITH INHERIT TRUE, SET TRUE" if newer else "")
    return sql.SQL("GRANT {} TO CURRENT_USER{}").format(sql.Identifier(name), options)


def leaving(name: str) -> sql.Composed:
    """What ends that."""
    return sql.SQL("REVOKE {} FROM CURRENT_USER").format(sql.Identifier(name))
