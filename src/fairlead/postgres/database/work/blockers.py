"""Names the sessions and prepared transactions that our work waits for, and ends some of them.

Who waits learns from PostgreSQL that a lock was not to be had, and not from whom. So another
session looks while it waits. Of a role that is removed, or has had its time, all that acts as the
role is ended meanwhile: a login that has an `ALTER ROLE` of its own left open would otherwise be
kept for ever. To end first and wait afterwards loses the race against a client that comes back.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple

import psycopg
from psycopg import sql

from fairlead.postgres.database.connections.acting import acting_as, joining, leaving
from fairlead.postgres.database.connections.session import BRIEF, Session
from fairlead.postgres.database.connections.sessions import Sessions
from fairlead.postgres.errors import AccessError


_FIRST_SECONDS = 0.02
"""Of waiting, before somebody looks for whom."""
_LOOK_SECONDS = 0.05
"""Between two looks."""
_TOLD = 3
"""Sessions that a message names."""
_SHOWN = 60
"""Characters of the name of a prepared transaction that a message has."""

_WAITED_FOR = sql.SQL("""
SELECT a.pid, u.oid::int8, COALESCE(u.rolname, '')::text,
       COALESCE(u.rolsuper OR u.rolcreaterole, true), ''::text, COALESCE(a.datname, '')::text
  FROM pg_catalog.unnest(%(pids)s::int4[]) AS w(pid)
 CROSS JOIN LATERAL pg_catalog.unnest(pg_catalog.pg_blocking_pids(w.pid)) AS b(pid)
  JOIN pg_catalog.pg_stat_activity a ON a.pid = b.pid
  LEFT JOIN pg_catalog.pg_roles u ON u.oid = a.usesysid
 UNION
SELECT 0, u.oid::int8, x.owner::text, u.rolsuper OR u.rolcreaterole, x.gid, x.database::text
  FROM pg_catalog.pg_locks l
  JOIN pg_catalog.pg_locks h
    ON h.granted AND h.pid IS NULL AND h.locktype = l.locktype
   AND (h.database, h.relation, h.page, h.tuple, h.transactionid, h.classid, h.objid, h.objsubid)
       IS NOT DISTINCT FROM
       (l.database, l.relation, l.page, l.tuple, l.transactionid, l.classid, l.objid, l.objsubid)
  -- Each transaction that writes has a lock on its own number.
  JOIN pg_catalog.pg_locks t
    ON t.pid IS NULL AND t.locktype = 'transactionid' AND t.mode = 'ExclusiveLock'
   AND t.virtualtransaction = h.virtualtransaction
  JOIN pg_catalog.pg_prepared_xacts x ON x.transaction = t.transactionid
  JOIN pg_catalog.pg_roles u ON u.rolname = x.owner
 WHERE l.pid = ANY (%(pids)s::int4[]) AND NOT l.granted
 ORDER BY 1, 5
""")
_ACTING = sql.SQL("""
SELECT u.oid::int8
  FROM pg_catalog.unnest(%(users)s::oid[]) AS u(oid)
 CROSS JOIN pg_catalog.unnest(%(roles)s::oid[]) AS r(oid)
 WHERE pg_catalog.pg_has_role(u.oid, r.oid, 'MEMBER')
""")
_OPEN = sql.SQL("""
SELECT DISTINCT a.usesysid::int8
  FROM pg_catalog.pg_stat_activity a
 WHERE a.usesysid = ANY (%(roles)s::oid[]) AND a.pid <> pg_catalog.pg_backend_pid()
""")
# From before its login is looked at a session has the lock on its own transaction, and only when
# all of its start is done does it say whose it is.
_STARTING = sql.SQL("""
SELECT l.pid
  FROM pg_catalog.pg_locks l
  LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
 WHERE l.locktype = 'virtualxid' AND l.granted AND l.pid IS NOT NULL AND a.usesysid IS NULL
 ORDER BY 1
""")
_OTHERS = sql.SQL("""
SELECT EXISTS (
       SELECT FROM pg_catalog.pg_roles r
        WHERE r.oid <> %(role)s::oid
          AND (r.rolcanlogin OR r.rolname = 'pg_signal_backend')
          AND pg_catalog.pg_has_role(%(role)s::oid, r.oid, 'USAGE'))
""")
_END_ONE = sql.SQL("SELECT pg_catalog.pg_terminate_backend(%(pid)s)")
_END = sql.SQL("""
SELECT pg_catalog.pg_terminate_backend(a.pid, %(wait)s)
  FROM pg_catalog.pg_stat_activity a
 WHERE a.usesysid = %(role)s::oid AND a.pid <> pg_catalog.pg_backend_pid()
   AND (%(pids)s::int4[] IS NULL OR a.pid = ANY (%(pids)s::int4[]))
""")


class Blocker(NamedTuple):
    """A session that is waited for, or with the pid 0 a prepared transaction; and whose it is.

    ``powerful`` are superusers, roles that may create roles, and the server's own processes.
    """

    pid: int
    oid: int | None
    role: str
    powerful: bool
    transaction: str
    database: str

    def __str__(self) -> str:
        whose = f"of role {self.role}" if self.role else "of the server itself"
        if not self.pid:
            shown = self.transaction[:_SHOWN]
            return (
                f"the prepared transaction {shown!r} {whose} in database {self.database} holds it;"
                " its owner or a superuser ends it with ROLLBACK PREPARED"
            )
        return (
            f"pid {self.pid} {whose} holds it;"
            f" its owner or an administrator ends it with pg_terminate_backend({self.pid})"
        )


class Actor(NamedTuple):
    """A role whose sessions may be ended."""

    oid: int
    name: str


class Blockers:
    """Who was waited for last."""

    def __init__(self) -> None:
        self.found: list[Blocker] = []

    def named(self, error: AccessError) -> AccessError:
        """The error, which says who holds the lock when it is about one."""
        if error.reason != "Locked" or not self.found:
            return error
        told = "; ".join(str(one) for one in self.found[:_TOLD])
        return AccessError("Locked", f"{error.message.partition('; ')[0]}; {told}")


@asynccontextmanager
async def watching(
    sessions: Sessions, ending: Sequence[Actor] = (), *, superuser: bool = False
) -> AsyncIterator[Blockers]:
    """Know who sessions of ours wait for meanwhile.

    Args:
        sessions: all that are in use are looked at, by one more.
        ending: roles whose sessions and prepared transactions are ended when they are in the way,
            and so are those of members that act as one of them.
        superuser: whether the administrator needs no membership for that.
    """
    found, over = Blockers(), asyncio.Event()
    task = asyncio.create_task(_watch(sessions, found, over, ending, superuser=superuser))
    try:
        yield found
    finally:
        over.set()
        # In the middle of an answer it is only broken off where none comes.
        await asyncio.wait([task], timeout=_LOOK_SECONDS)
        task.cancel()
        await asyncio.wait([task])


async def _watch(
    sessions: Sessions,
    found: Blockers,
    over: asyncio.Event,
    ending: Sequence[Actor],
    *,
    superuser: bool,
) -> None:
    if await _is_set(over, _FIRST_SECONDS):
        return
    # Whoever cannot look leaves the others to their limits.
    with suppress(AccessError, psycopg.Error):
        async with sessions.maintenance() as session:
            while not over.is_set():
                pids = [pid for pid in sessions.pids if pid != session.pid]
                seen = await read_blockers(session, pids)
                if seen:
                    found.found = seen
                    if ending:
                        await _end(sessions, session, seen, ending, superuser=superuser)
                pause = _FIRST_SECONDS if seen and ending else _LOOK_SECONDS
                if await _is_set(over, pause):
                    return


async def _is_set(over: asyncio.Event, seconds: float) -> bool:
    """Whether it is set within so many seconds."""
    try:
        await asyncio.wait_for(over.wait(), seconds)
    except TimeoutError:
        return False
    return True


async def read_blockers(session: Session, pids: Collection[int]) -> list[Blocker]:
    """Those that other sessions wait for, by the pids of those other sessions."""
    rows = await session.rows(_WAITED_FOR, {"pids": list(pids)})
    return [Blocker(*row) for row in rows]


async def _end(
    sessions: Sessions,
    session: Session,
    seen: Sequence[Blocker],
    ending: Sequence[Actor],
    *,
    superuser: bool,
) -> None:
    """End those that act as one of the roles; nobody else, and no administrator."""
    owners = {one.oid: one for one in seen if one.oid is not None and not one.powerful}
    parameters = {"users": list(owners), "roles": [actor.oid for actor in ending]}
    acting = {oid for (oid,) in await session.rows(_ACTING, parameters)}
    for oid in sorted(acting):
        actor = Actor(oid, owners[oid].role)
        own = any(actor.oid == one.oid for one in ending)
        pids = [one.pid for one in seen if one.oid == oid and one.pid]
        if pids:
            # All that the role itself has, so that none of them is next in line.
            only = None if own else pids
            await end_sessions(session, actor, only, superuser=superuser)
        for one in seen:
            if one.oid == oid and not one.pid:
                # Cut off in the middle it would leave the administrator among the role's members.
                rolling = asyncio.ensure_future(
                    _roll_back(sessions, actor, one, superuser=superuser)
                )
                try:
                    await asyncio.shield(rolling)
                finally:
                    await rolling


async def end_sessions(
    session: Session,
    actor: Actor,
    pids: Collection[int] | None = None,
    *,
    superuser: bool,
    wait: int = 0,
) -> None:
    """End the sessions of a role, all or those named, and wait for each so many milliseconds.

    An administrator that may not leaves them.
    """
    parameters = {"role": actor.oid, "pids": None if pids is None else list(pids), "wait": wait}
    try:
        async with acting_as(session, actor.name, superuser=superuser):
            await session.rows(_END, parameters)
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.LockNotAvailable):
        return


async def end_starting(session: Session, actor: Actor, *, superuser: bool) -> None:
    """End the sessions of a role that are still being started, and may have passed its fence.

    A start takes as long as whoever logs in likes. Whose it is PostgreSQL knows and does not say,
    but it has only the role itself end it; so we ask as the role, which has a login no more. A
    role with the rights of another login, as the two logins of one role may have them, would end
    that one's too: then none is ended.
    """
    pids = [pid for (pid,) in await session.rows(_STARTING)]
    if not pids or (await session.rows(_OTHERS, {"role": actor.oid}))[0][0]:
        return
    try:
        async with session.transaction(BRIEF), acting_as(session, actor.name, superuser=superuser):
            await session.run(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(actor.name)))
            for pid in pids:
                with suppress(psycopg.errors.InsufficientPrivilege):
                    async with session.savepoint():
                        await session.rows(_END_ONE, {"pid": pid})
            await session.run(sql.SQL("RESET ROLE"))
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.LockNotAvailable):
        return


async def open_sessions(session: Session, actors: Sequence[Actor]) -> list[Actor]:
    """Those of the roles that have sessions."""
    rows = await session.rows(_OPEN, {"roles": [actor.oid for actor in actors]})
    oids = {oid for (oid,) in rows}
    return [actor for actor in actors if actor.oid in oids]


async def _roll_back(sessions: Sessions, actor: Actor, one: Blocker, *, superuser: bool) -> None:
    """Roll a prepared transaction back, in its database and as its owner.

    PostgreSQL has that done outside of transactions alone, so that for a moment everybody may see
    the administrator among the role's members.
    """
    roll_back = sql.SQL("ROLLBACK PREPARED {}").format(sql.Literal(one.transaction))
    with suppress(AccessError, psycopg.Error):
        async with sessions.use(one.database) as session:
            if superuser:
                await session.run(roll_back)
                return
            await session.run(joining(session, actor.name))
            try:
                await session.run(sql.SQL("SET ROLE {}").format(sql.Identifier(actor.name)))
                await session.run(roll_back)
            finally:
                await session.run(sql.SQL("RESET ROLE"))
                await session.run(leaving(actor.name))
