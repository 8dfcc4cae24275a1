"""Names the sessions and prepared transactions that the operator waits for, and ends some.

PostgreSQL tells a waiting session that it did not get a lock, but not who holds it. So another
session looks during the wait. It also ends all that acts as a removed or ended role: otherwise a
login with an open `ALTER ROLE` of its own would stay for ever. Ending sessions before the wait
loses the race against a client that reconnects.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple

import psycopg
from psycopg import sql

from fairlead.postgres import bounds
from fairlead.postgres.database.connections.acting import acting_as, joining, leaving
from fairlead.postgres.database.connections.session import BRIEF, Session
from fairlead.postgres.database.connections.sessions import Sessions
from fairlead.postgres.database.plans.differences import Actor
from fairlead.postgres.database.plans.plan import SessionsEnd
from fairlead.postgres.errors import AccessError


_SHOWN = 60
"""Characters of a prepared transaction's name in a message."""

# pg_blocking_pids returns 0 for each prepared transaction, so these are found by their locks.
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
# A session holds the lock on its own transaction before its login is checked, and shows its user
# only at the end of its start.
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
# Parallel workers end with the session that they work for. Without pg_read_all_stats they look
# like sessions.
_PIDS = sql.SQL("""
SELECT a.pid
  FROM pg_catalog.pg_stat_activity a
 WHERE a.usesysid = ANY (%(roles)s::oid[]) AND a.pid <> pg_catalog.pg_backend_pid()
   AND a.backend_type IS DISTINCT FROM 'parallel worker'
""")
_END = sql.SQL("""
SELECT pg_catalog.pg_terminate_backend(a.pid, %(wait)s)
  FROM pg_catalog.pg_stat_activity a
 WHERE a.usesysid = %(role)s::oid AND a.pid <> pg_catalog.pg_backend_pid()
   AND (%(pids)s::int4[] IS NULL OR a.pid = ANY (%(pids)s::int4[]))
""")


class Blocker(NamedTuple):
    """A session that blocks another one, or with the pid 0 a prepared transaction, and its role.

    ``powerful`` are superusers, roles with CREATEROLE, and the server's own processes.
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


class KnownBlockers:
    """The blockers that were found last."""

    def __init__(self) -> None:
        self.blockers: list[Blocker] = []

    def named(self, error: AccessError) -> AccessError:
        """Return the error; one about a lock gets the names of the blockers."""
        if error.reason != "Locked" or not self.blockers:
            return error
        names = "; ".join(str(one) for one in self.blockers[: bounds.NAMED])
        return AccessError("Locked", f"{error.message.partition('; ')[0]}; {names}")


@asynccontextmanager
async def watching(
    sessions: Sessions, ending: Sequence[Actor] = (), *, superuser: bool = False
) -> AsyncIterator[KnownBlockers]:
    """Record the blockers of the sessions in use while the block runs.

    Args:
        sessions: the sessions of the server; one more is used for the looks.
        ending: roles whose blocking sessions and prepared transactions are ended, as are those of
            their members that act as one of them.
        superuser: whether the administrator is a superuser and needs no membership for that.
    """
    blockers, over = KnownBlockers(), asyncio.Event()
    task = asyncio.create_task(_watch(sessions, blockers, over, ending, superuser=superuser))
    try:
        yield blockers
    finally:
        over.set()
        try:
            # A look in the middle of an answer gets time to end, so that its session stays usable.
            await asyncio.wait([task], timeout=bounds.BLOCKED_END_SECONDS)
        finally:
            task.cancel()
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError:
                # It ends at once, and its session is in use until then.
                await asyncio.wait([task])
                raise


async def _watch(
    sessions: Sessions,
    blockers: KnownBlockers,
    over: asyncio.Event,
    ending: Sequence[Actor],
    *,
    superuser: bool,
) -> None:
    if await _is_set(over, bounds.BLOCKED_SECONDS):
        return
    # Without a look, the waiting sessions still have their lock_timeout.
    with suppress(AccessError, psycopg.Error):
        async with sessions.maintenance() as session:
            while not over.is_set():
                pids = [pid for pid in sessions.pids if pid != session.pid]
                present = await read_blockers(session, pids)
                if present:
                    blockers.blockers = present
                    if ending:
                        await _end(sessions, session, present, ending, superuser=superuser)
                # A client whose session was ended connects again at once, and may get the lock
                # first.
                pause = bounds.BLOCKED_SECONDS if present and ending else bounds.LOCK_LOOK_SECONDS
                if await _is_set(over, pause):
                    return


async def _is_set(over: asyncio.Event, seconds: float) -> bool:
    """Whether ``over`` is set within so many seconds."""
    try:
        await asyncio.wait_for(over.wait(), seconds)
    except TimeoutError:
        return False
    return True


async def read_blockers(session: Session, pids: Collection[int]) -> list[Blocker]:
    """Read the blockers of the sessions with these pids."""
    rows = await session.rows(_WAITED_FOR, {"pids": list(pids)})
    return [Blocker(*row) for row in rows]


async def _end(
    sessions: Sessions,
    session: Session,
    blockers: Sequence[Blocker],
    ending: Sequence[Actor],
    *,
    superuser: bool,
) -> None:
    """End the blockers that act as one of the roles, unless they are ``powerful``."""
    owners = {one.oid: one for one in blockers if one.oid is not None and not one.powerful}
    parameters = {"users": list(owners), "roles": [actor.oid for actor in ending]}
    acting = {oid for (oid,) in await session.rows(_ACTING, parameters)}
    for oid in sorted(acting):
        actor = Actor(oid, owners[oid].role)
        own = any(actor.oid == one.oid for one in ending)
        pids = [one.pid for one in blockers if one.oid == oid and one.pid]
        if pids:
            # All sessions of the role itself, so that none of them gets the lock next.
            only = None if own else pids
            await end_sessions(session, actor, only, superuser=superuser)
        for blocker in blockers:
            if blocker.oid == oid and not blocker.pid:
                # A cancellation in the middle would leave the administrator a member of the role.
                rolling = asyncio.ensure_future(
                    _roll_back(sessions, actor, blocker, superuser=superuser)
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
    """End the sessions of a role, all or those of ``pids``.

    ``wait`` is the timeout in milliseconds for the end of each. An administrator without the right
    leaves them.
    """
    parameters = {"role": actor.oid, "pids": None if pids is None else list(pids), "wait": wait}
    try:
        async with acting_as(session, actor.name, superuser=superuser, oid=actor.oid):
            await session.rows(_END, parameters)
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.LockNotAvailable):
        return


async def end_starting(session: Session, actor: Actor, *, superuser: bool) -> None:
    """End the sessions of a role that are still starting, and may have passed its fence.

    A client decides how long its login takes. PostgreSQL does not show the role of such a session,
    but lets the role itself end it; so the administrator acts as the role, which has no LOGIN any
    more. A role with the rights of another login, as one of two logins may have them, would end
    the other's sessions too: then none is ended.
    """
    pids = [pid for (pid,) in await session.rows(_STARTING)]
    if not pids or (await session.rows(_OTHERS, {"role": actor.oid}))[0][0]:
        return
    try:
        async with (
            session.transaction(BRIEF),
            acting_as(session, actor.name, superuser=superuser, oid=actor.oid),
        ):
            await session.run(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(actor.name)))
            for pid in pids:
                with suppress(psycopg.errors.InsufficientPrivilege):
                    async with session.savepoint():
                        await session.rows(_END_ONE, {"pid": pid})
            await session.run(sql.SQL("RESET ROLE"))
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.LockNotAvailable):
        return


async def end_all_sessions(
    session: Session, actors: Mapping[str, Sequence[Actor]], *, superuser: bool, wait: int
) -> dict[str, SessionsEnd]:
    """End the sessions of roles that may log in again; return how many were ended and left.

    Args:
        session: a session of the administrator outside of transactions.
        actors: the roles of accesses by username.
        superuser: whether the administrator is a superuser.
        wait: timeout in milliseconds for the end of all: a session ends only between two steps of
            its work, and an access may have very many that take their time.
    """
    before: dict[str, set[int]] = {}
    for username, own in actors.items():
        for actor in own:
            # One that has begun to log in with a former password may take its time.
            await end_starting(session, actor, superuser=superuser)
        before[username] = await _pids_of(session, own)
        for actor in own if before[username] else ():
            await end_sessions(session, actor, before[username], superuser=superuser)
    all_ = [actor for own in actors.values() for actor in own]
    clock = asyncio.get_running_loop().time
    deadline = clock() + wait / 1000
    left = set[int]().union(*before.values())
    while left:
        left &= await _pids_of(session, all_)
        if not left or clock() >= deadline:
            break
        await asyncio.sleep(bounds.BLOCKED_SECONDS)
    return {
        username: SessionsEnd(ended=len(pids - left), left=len(pids & left))
        for username, pids in before.items()
    }


async def _pids_of(session: Session, actors: Sequence[Actor]) -> set[int]:
    rows = await session.rows(_PIDS, {"roles": [actor.oid for actor in actors]})
    return {pid for (pid,) in rows}


async def open_sessions(session: Session, actors: Sequence[Actor]) -> list[Actor]:
    """Return the roles that have sessions."""
    rows = await session.rows(_OPEN, {"roles": [actor.oid for actor in actors]})
    oids = {oid for (oid,) in rows}
    return [actor for actor in actors if actor.oid in oids]


async def _roll_back(
    sessions: Sessions, actor: Actor, blocker: Blocker, *, superuser: bool
) -> None:
    """Roll a prepared transaction back, in its database and as its owner.

    PostgreSQL allows that only outside of transactions, so for a moment other sessions may see the
    administrator among the role's members.
    """
    roll_back = sql.SQL("ROLLBACK PREPARED {}").format(sql.Literal(blocker.transaction))
    with suppress(AccessError, psycopg.Error):
        async with sessions.use(blocker.database) as session:
            if superuser:
                await session.run(roll_back)
                return
            await session.run(joining(session, actor.name))
            try:
                await session.run(sql.SQL("SET ROLE {}").format(sql.Identifier(actor.name)))
                await session.run(roll_back)
            finally:
                # First, for CURRENT_USER in the next statement means the administrator.
                await session.run(sql.SQL("RESET ROLE"))
                await session.run(leaving(actor.name))
