"""Who keeps everybody from logging in to a database, and an end to that where it is no right.

Whoever renames, moves or drops a database waits for a lock on it, and who logs in to it waits
behind. PostgreSQL asks only afterwards whether it is the waiting role's to rename. So a login
without any privilege shuts a database for as long as another of its sessions has any lock on it,
as ALTER ROLE ... IN DATABASE takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import psycopg
from psycopg import sql

from fairlead.postgres.database.connections.acting import acting_as
from fairlead.postgres.database.connections.session import PATIENT, Session


MAY = sql.SQL("""(u.oid IS NULL OR u.rolsuper OR (d.datistemplate AND l.mode = 'ShareLock')
                  OR pg_catalog.pg_has_role(u.oid, d.datdba, 'MEMBER'))""")
"""Whether role ``u`` may do to database ``d`` what it has or waits for lock ``l`` for."""
_TOLD = 3
"""Sessions that a message names."""

# What all roles of ours have in front of their comments, those that were given up too.
_SHUTTING = sql.SQL("""
SELECT l.pid, COALESCE(u.rolname, '')::text,
       NOT {}
         AND NOT u.rolcreaterole
         AND pg_catalog.starts_with(
               pg_catalog.shobj_description(u.oid, 'pg_authid'), 'managed by Fairlead'),
       (SELECT m.rolsuper FROM pg_catalog.pg_roles m WHERE m.rolname = current_user)
  FROM pg_catalog.pg_locks l
  JOIN pg_catalog.pg_database d ON d.oid = l.objid
  LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
  LEFT JOIN pg_catalog.pg_roles u ON u.oid = a.usesysid
 WHERE l.locktype = 'object' AND l.classid = 'pg_catalog.pg_database'::pg_catalog.regclass
   AND d.datname = %(database)s::text::pg_catalog.name
   AND l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
 ORDER BY 1
""").format(MAY)
_END = sql.SQL("SELECT pg_catalog.pg_terminate_backend(%(pid)s)")


class Shutter(NamedTuple):
    """A session whose lock keeps all logins out of a database."""

    pid: int
    role: str
    endable: bool
    superuser: bool

    def __str__(self) -> str:
        whose = f"of role {self.role}" if self.role else "of the server itself"
        return f"pid {self.pid} {whose}"


async def open_up(session: Session, database: str) -> list[Shutter]:
    """End the sessions of roles of ours that shut a database which is not theirs.

    Returns:
        All that shut it, be it that they are ended now.
    """
    rows = await session.rows(_SHUTTING, {"database": database})
    found = [Shutter(*row) for row in rows]
    for one in found:
        if one.endable:
            await _end(session, one)
    return found


async def _end(session: Session, one: Shutter) -> None:
    try:
        async with (
            session.transaction(PATIENT),
            acting_as(session, one.role, superuser=one.superuser),
        ):
            await session.rows(_END, {"pid": one.pid})
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.LockNotAvailable):
        return


def told(found: Sequence[Shutter]) -> str:
    """Who they are, in words."""
    return ", ".join(str(one) for one in found[:_TOLD])
