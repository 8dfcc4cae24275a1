"""Holds roles: no other operator changes them until a transaction ends.

A session holds a role by writing its comment unchanged. PostgreSQL lets one session at a time
write a role's comment, until the end of its transaction, and a login may not write that of its own
role: so a tenant cannot block the operator. Advisory locks could be taken by any role, and the
rows of pg_authid are locked by each `ALTER ROLE` of the role itself.

Another writer may have claimed or recreated a role just before it was held. A second look finds
that: then the transaction is rolled back, and everything is read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import psycopg
from psycopg import sql

from fairlead.postgres.database.connections.session import Session
from fairlead.postgres.database.connections.sessions import Sessions
from fairlead.postgres.database.plans.snapshot import RoleFacts


_IDENTITIES = sql.SQL("""
SELECT r.rolname::text, r.oid::int8, d.description
  FROM pg_catalog.pg_roles r
  LEFT JOIN pg_catalog.pg_shdescription d
    ON d.objoid = r.oid AND d.classoid = 'pg_catalog.pg_authid'::pg_catalog.regclass
 WHERE r.rolname = ANY (%(names)s::text[]::pg_catalog.name[])
""")


def holding(role: RoleFacts) -> sql.Composed:
    """Return the statement that holds a role; it changes nothing."""
    return sql.SQL("COMMENT ON ROLE {} IS {}").format(
        sql.Identifier(role.name), sql.Literal(role.comment)
    )


async def hold(sessions: Sessions, session: Session, roles: Sequence[RoleFacts]) -> None:
    """Hold roles until the session's transaction ends.

    Raises:
        psycopg.Error: another session holds a role (55P03) or has changed one meanwhile (40001),
            or the administrator may not comment on it.
    """
    for role in roles:
        await session.run(holding(role))
    await check_held(sessions, session, roles)


async def check_held(sessions: Sessions, session: Session, roles: Iterable[RoleFacts]) -> None:
    """Check that held roles are unchanged since they were read.

    Raises:
        psycopg.errors.SerializationFailure: a role has changed.
        AccessError: there is no session to read the claims of roles.
    """
    by_name = {role.name: role for role in roles}
    if not by_name:
        return
    # The oid, and not the name alone: the role may have been dropped and made anew by another
    # writer.
    oids = {
        name: oid for name, oid, _ in await session.rows(_IDENTITIES, {"names": list(by_name)})
    }
    if any(oids.get(name) != role.oid for name, role in by_name.items()):
        raise _changed()
    # This transaction has overwritten the comment, so only another one sees the committed text.
    # Other operators leave a role with a claim alone, but may have claimed one without.
    unclaimed = [role for role in by_name.values() if role.group is None and not _is_ours(role)]
    if not unclaimed:
        return
    async with sessions.maintenance() as other:
        names = [role.name for role in unclaimed]
        comments = {
            name: text for name, _, text in await other.rows(_IDENTITIES, {"names": names})
        }
    if any(comments.get(role.name) != role.comment for role in unclaimed):
        raise _changed()


async def check_same(session: Session, roles: Iterable[RoleFacts]) -> None:
    """Check that roles without a hold are unchanged since they were read.

    Raises:
        psycopg.errors.SerializationFailure: a role has changed.
    """
    by_name = {role.name: (role.oid, role.comment) for role in roles}
    rows = await session.rows(_IDENTITIES, {"names": list(by_name)}) if by_name else []
    if {name: (oid, comment) for name, oid, comment in rows} != by_name:
        raise _changed()


def _is_ours(role: RoleFacts) -> bool:
    return role.claim is not None and not role.claim.is_imported


def _changed() -> psycopg.Error:
    return psycopg.errors.SerializationFailure("another writer has changed a role meanwhile")
