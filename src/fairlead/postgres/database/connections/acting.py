"""Acts for another role; an administrator without superuser has to be its member for that."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

import psycopg
from psycopg import sql

from fairlead.postgres.database.connections.session import (
    Query,
    Row,
    Session,
    StatementFailedError,
)
from fairlead.postgres.database.plans.attributes import GRANT_OPTIONS_VERSION


_MEMBERSHIPS = """
SELECT r.oid::int8, COALESCE(m.grantor, 0)::int8, {options}
  FROM pg_catalog.pg_roles r
  LEFT JOIN pg_catalog.pg_auth_members m
    ON m.roleid = r.oid
   AND m.member = (SELECT a.oid FROM pg_catalog.pg_roles a WHERE a.rolname = current_user)
 WHERE r.rolname = %(name)s::text::pg_catalog.name
"""
_MEMBERSHIPS_15 = sql.SQL(_MEMBERSHIPS.format(options="true, true"))
_MEMBERSHIPS_16 = sql.SQL(
    _MEMBERSHIPS.format(options="COALESCE(m.inherit_option, false), COALESCE(m.set_option, false)")
)


class _Options(NamedTuple):
    """Options of a membership."""

    inherit: bool
    set: bool


class _Memberships(NamedTuple):
    """The oid of a role, and the administrator's memberships in it by the oid of their grantor.

    Before PostgreSQL 16 there is one membership at most, and 0 stands for its grantor.
    """

    oid: int
    options: dict[int, _Options]


@asynccontextmanager
async def acting_as(
    session: Session, name: str, *, superuser: bool, oid: int | None = None
) -> AsyncIterator[None]:
    """Make an administrator without superuser a member of a role while the block runs.

    The same transaction takes the membership back, so that no other session sees it: groups of the
    role may change how their members log in. A membership that the administrator had before stays
    as it was. Since PostgreSQL 16 two transactions that act as one role wait for each other, and
    before they wait for the other's row, both up to lock_timeout.

    Args:
        session: a session of the administrator.
        name: the name of the role.
        superuser: whether the administrator is a superuser, who needs no membership.
        oid: the oid of the role, None if any role of the name is meant.

    Raises:
        psycopg.errors.SerializationFailure: the name has become another role's.
    """
    if superuser:
        yield
        return
    async with session.savepoint():
        before = await _read(session, name)
        if before is None or before.oid != (oid or before.oid):
            raise _changed(name)
        after = await _change(session, name, joining(session, name))
        # The name may have become another role's after the first look.
        if after is None or after.oid != before.oid:
            raise _changed(name)
        yield
        changed = [
            grantor
            for grantor, options in after.options.items()
            if options != before.options.get(grantor)
        ]
        for grantor in changed:
            had = before.options.get(grantor)
            undoing = leaving(name) if had is None else joining(session, name, had)
            left = await _change(session, name, undoing)
            if left is None or (left.oid, left.options.get(grantor)) != (before.oid, had):
                raise _changed(name)


def joining(session: Session, name: str, options: _Options | None = None) -> sql.Composed:
    """Return the statement that makes the administrator a member of a role.

    By default the administrator gets all rights of the role.
    """
    # Since PostgreSQL 16 each membership has options of its own. The creator of a role has ADMIN
    # alone, which is not enough for SET ROLE, REASSIGN OWNED and DROP OWNED.
    with_: sql.Composable = sql.SQL("")
    if session.server_version >= GRANT_OPTIONS_VERSION:
        words = (sql.SQL("TRUE" if one else "FALSE") for one in options or (True, True))
        with_ = sql.SQL(" WITH INHERIT {}, SET {}").format(*words)
    return sql.SQL("GRANT {} TO CURRENT_USER{}").format(sql.Identifier(name), with_)


def leaving(name: str) -> sql.Composed:
    """Return the statement that ends the administrator's membership in a role."""
    return sql.SQL("REVOKE {} FROM CURRENT_USER").format(sql.Identifier(name))


def _question(session: Session, name: str) -> Query:
    newer = session.server_version >= GRANT_OPTIONS_VERSION
    return _MEMBERSHIPS_16 if newer else _MEMBERSHIPS_15, {"name": name}


async def _read(session: Session, name: str) -> _Memberships | None:
    return _memberships(session, await session.rows(*_question(session, name)))


async def _change(session: Session, name: str, statement: sql.Composed) -> _Memberships | None:
    """Run a statement, and return the memberships after it."""
    try:
        rows = await session.run_all([statement], _question(session, name))
    except StatementFailedError as failed:
        raise failed.error from None
    return _memberships(session, rows)


def _memberships(session: Session, rows: Sequence[Row]) -> _Memberships | None:
    if not rows:
        return None
    newer = session.server_version >= GRANT_OPTIONS_VERSION
    options = {
        (grantor if newer else 0): _Options(inherit, set_)
        for _, grantor, inherit, set_ in rows
        if grantor
    }
    return _Memberships(rows[0][0], options)


def _changed(name: str) -> psycopg.Error:
    return psycopg.errors.SerializationFailure(f"role {name} has changed meanwhile")
