"""Finds sessions that block all logins to a database, and ends those without the right to.

A session that renames, moves or drops a database waits for a lock on it, and logins to it wait
behind. PostgreSQL checks the role's right only afterwards. So a login without any privilege
shuts a database for as long as another of its sessions has any lock on it, such as that of ALTER
ROLE ... IN DATABASE.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import psycopg
from psycopg import sql

from fairlead.postgres.database.connections.acting import acting_as
from fairlead.postgres.database.connections.session import PATIENT, Session


# CREATE DATABASE takes ShareLock on the database that it copies, and any role with CREATEDB may
# copy a template.
MAY = sql.SQL("""(u.oid IS NULL OR u.rolsuper OR (d.datistemplate AND l.mode = 'ShareLock')
                  OR pg_catalog.pg_has_role(u.oid, d.datdba, 'MEMBER'))""")
"""Whether role ``u`` has the right to the statement on database ``d`` that takes lock ``l``."""
_TOLD = 3
"""Number of sessions that a message names."""

# The comments of all roles of the operator begin so, those that were given up included.
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
    """A session whose lock blocks all logins to a database."""

    pid: int
    role: str
    endable: bool
    superuser: bool

    def __str__(self) -> str:
        whose = f"of role {self.role}" if self.role else "of the server itself"
        return f"pid {self.pid} {whose}"


async def open_up(session: Session, database: str) -> list[Shutter]:
    """End the sessions that shut a database which is not theirs, if the operator made their role.

    Returns:
        All sessions that shut it, the ended ones included.
    """
    rows = await session.rows(_SHUTTING, {"database": database})
    found = [Shutter(*row) for row in rows]
    for one in found:
        if one.endable:
            await _end(session, one)
    return found


async def _end(session: Session, one: Shutter) -> None:
    try:
        # pg_terminate_backend needs the rights of the session's role, which a membership gives.
        async with (
            session.transaction(PATIENT),
            acting_as(session, one.role, superuser=one.superuser),
        ):
            await session.rows(_END, {"pid": one.pid})
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.LockNotAvailable):
        return


def told(found: Sequence[Shutter]) -> str:
    """Return the first sessions in words, for a message."""
    return ", ".join(str(one) for one in found[:_TOLD])
