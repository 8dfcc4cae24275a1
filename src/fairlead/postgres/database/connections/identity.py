"""The identity of the server behind a session.

An address may lead to another server from one login to the next: DNS moves, a proxy turns, a copy
takes the place of the original.
"""

from __future__ import annotations

import psycopg
from psycopg import sql

from fairlead.postgres.database.connections.session import Session
from fairlead.postgres.database.plans.snapshot import ServerIdentity


_IDENTITY = """
SELECT (SELECT s.system_identifier::text FROM pg_catalog.pg_control_system() s),
       {},
       COALESCE(pg_catalog.host(pg_catalog.inet_server_addr()), ''),
       COALESCE(pg_catalog.inet_server_port()::text, '')
"""
# The control file has the timeline of a promotion only after the next checkpoint.
_WRITTEN = sql.SQL(
    _IDENTITY.format(
        "pg_catalog.left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 8)"
    )
)
# Where storage is not PostgreSQL's own, there may be no such functions.
_CHECKPOINT = sql.SQL(
    _IDENTITY.format(
        "(SELECT pg_catalog.lpad(pg_catalog.to_hex(c.timeline_id), 8, '0')"
        " FROM pg_catalog.pg_control_checkpoint() c)"
    )
)
_START = sql.SQL(
    "SELECT (EXTRACT(EPOCH FROM pg_catalog.pg_postmaster_start_time()) * 1000000)::int8::text"
)


async def identity_of(session: Session) -> ServerIdentity:
    """Return the identity of the server behind a session, which is read once.

    Raises:
        psycopg.Error: the server did not tell.
    """
    if session.identity is None:
        try:
            (row,) = await session.rows(_WRITTEN)
        except psycopg.Error:
            (row,) = await session.rows(_CHECKPOINT)
        system, timeline, host, port = row
        session.identity = ServerIdentity(
            system_identifier=system, timeline=timeline, address=f"{host}:{port}"
        )
    return session.identity


async def start_of(session: Session) -> str:
    """Return the time at which the server behind a session was started, in microseconds.

    With its system identifier it tells a server from its copies, by whichever address one asks.

    Raises:
        psycopg.Error: the server did not tell.
    """
    ((start,),) = await session.rows(_START)
    return str(start)
