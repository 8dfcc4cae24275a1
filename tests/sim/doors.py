"""The doors to databases, watched and broken: what the operator's sessions send, and how it ends.

All that goes to a server passes ``fairlead.postgres.database.connections.session``. Its functions
are replaced for the time of a run; the servers behind them are real.
"""

from __future__ import annotations

import asyncio
import logging
import re
import select
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

import psycopg
from psycopg import waiting
from psycopg.waiting import READY_R, READY_W
from tests.sim import entropy, processes
from tests.sim.databases import Cluster
from tests.sim.processes import Process
from tests.sim.simulation import Simulation
from tests.sim.sockets import line_of

from fairlead.postgres.database.connections import login, session, sessions, startup
from fairlead.postgres.database.connections.endpoint import Endpoint
from fairlead.postgres.database.connections.rounds import HostAddress
from fairlead.postgres.database.connections.session import Patience, Session
from fairlead.postgres.database.reading import catalog_query
from fairlead.postgres.database.work import blockers


LEAST = 0.0003
"""Simulated seconds that an answer takes at least."""
MOST = (0.004, 0.004, 0.05, 0.4)
"""Simulated seconds that an answer takes at most; each plan has one of these."""
_YEARS = 100
"""By which ends of logins are put off, for a server's own clock is not simulated."""
_UNTIL = re.compile(r"(VALID UNTIL ')(\d{4})(-)")
_LATER = re.compile(r"2[12]\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_LOCK_MILLISECONDS = 200
_KEEPS_SERVER = "0"


@dataclass(eq=False)
class Fault:
    """What becomes of statements, once ``after`` others have passed, and of how many.

    They are ``lost`` before they are sent, or ``done`` without an answer; or the process ``dies``
    before it sends one, or ``gone`` when the answer comes, or ``freezes`` before it sends one.
    ``commits`` is whether ends of transactions alone are meant. ``hit`` is the process.
    """

    kind: str
    left: int
    commits: bool
    after: int = 0
    hit: Process | None = field(default=None, repr=False)
    met: asyncio.Event = field(default_factory=asyncio.Event, repr=False)


Watch = Callable[[Cluster, str], None]
"""Called with each statement before it is sent."""


class Doors:
    """All sessions of all operators of a run."""

    def __init__(self, simulation: Simulation, clusters: dict[str, Cluster]) -> None:
        self.clusters = clusters
        self.statements: Counter[str] = Counter()
        """Statements that were sent, by server."""
        self.logins: Counter[str] = Counter()
        self.faults: dict[str, list[Fault]] = {name: [] for name in clusters}
        self.watches: list[Watch] = []
        self._simulation = simulation
        self._loop = simulation.loop
        self._seed = ""
        self._dice: Random
        self._most = 0.0
        self._by_port = {one.server.port: one for one in clusters.values()}
        self._patience: dict[int, int] = {}
        self._timers: dict[int, Any] = {}
        self._cancelled: set[int] = set()
        self._pids: dict[int, int] = {}

    # --- the loop's questions

    def install(self) -> None:
        """Replace the functions, and answer what the loop asks."""
        # It warns of connections that break, which happens all the time here.
        logging.getLogger("psycopg").setLevel(logging.ERROR)
        sockets = self._loop.sockets
        sockets.addresses.update(one.address for one in self.clusters.values())
        sockets.stuck = self._stuck
        sockets.blocked = self._blocked
        sockets.ended = self._ended
        sockets.delay = self._delay
        for name in ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"):
            startup.OPTIONS[name] = _KEEPS_SERVER
        self._replace_logins()
        self._replace_statements()
        self._replace_waits()

    def _stuck(self, port: int) -> bool:
        found = self._activity(port)
        return found is not None and found[1]

    def _activity(self, port: int) -> tuple[Cluster, bool] | None:
        cluster = self._by_port.get(port >> 16)
        found = cluster.of_port(port & 0xFFFF) if cluster else None
        return (cluster, found.waits) if cluster and found else None

    def _blocked(self, port: int) -> None:
        """A lock is waited for as long as the transaction has said, in simulated time."""
        if port not in self._timers:
            figures = self._simulation.figures
            figures["locks waited for"] = figures.get("locks waited for", 0) + 1
            seconds = self._patience.get(port, _LOCK_MILLISECONDS) / 1000
            self._timers[port] = self._loop.call_later(seconds, self._give_up, port)

    def _give_up(self, port: int) -> None:
        self._timers.pop(port, None)
        found = self._activity(port)
        if found is None or not found[1]:
            return
        self._cancelled.add(port)
        found[0].cancel(port & 0xFFFF)
        self._loop.sockets.changed()

    def _ended(self, port: int) -> None:
        cluster = self._by_port.get(port >> 16)
        if cluster is not None:
            cluster.await_end(port & 0xFFFF)
        self._calm(port)
        self._patience.pop(port, None)
        self._cancelled.discard(port)

    def _calm(self, port: int) -> None:
        timer = self._timers.pop(port, None)
        if timer is not None:
            timer.cancel()

    def _delay(self, port: int) -> float:
        if self._seed != self._simulation.seed:
            self._seed = self._simulation.seed
            self._dice = self._simulation.dice("database")
            self._most = self._dice.choice(MOST)
        taken = self._dice.uniform(LEAST, self._most)
        cluster = self._by_port.get(port >> 16)
        return taken + (cluster.slow if cluster else 0.0)

    # --- logins

    def _replace_logins(self) -> None:
        original = login._login

        async def places(endpoint: Endpoint) -> list[HostAddress]:
            cluster = self._named(endpoint)
            return [HostAddress(endpoint.host, *cluster.address)]

        async def log_in(endpoint: Endpoint, database: str, options: str) -> Any:
            cluster = self._named(endpoint)
            self.logins[cluster.name] += 1
            self._note(cluster, f"login of {endpoint.username} to {database}")
            if cluster.refusing:
                raise psycopg.OperationalError(cluster.refusing)
            return await original(endpoint, database, options)

        login._places = places
        login._login = log_in

    def _named(self, endpoint: Endpoint) -> Cluster:
        found = self.clusters.get(endpoint.host.partition(".")[0])
        if found is None:
            raise psycopg.OperationalError("could not resolve host")
        return found

    # --- statements

    def _replace_statements(self) -> None:
        exchange, limit = Session.exchange, Session.limit
        transaction = Session.transaction
        # What a message says of a process is the same in every run.
        sessions.Shutter.__str__ = self._without_pid(sessions.Shutter.__str__)  # type: ignore[method-assign]
        blockers.Blocker.__str__ = self._without_pid(blockers.Blocker.__str__)  # type: ignore[method-assign]

        async def watched_exchange(own: Session, *asked: Any) -> Any:
            sent = [self._watched(own, *one) for one in asked]
            cluster = self._by_port[own._connection.info.port]
            return [
                [self._answered(cluster, query, row) for row in found]
                for (query, _), found in zip(asked, await exchange(own, *sent), strict=True)
            ]

        def watched_limit(own: Session, patience: Patience) -> None:
            self._patience[self._port(own._connection)] = patience.lock
            limit(own, Patience(0, 0))

        @asynccontextmanager
        async def watched_transaction(
            own: Session, patience: Patience = session.PATIENT
        ) -> AsyncIterator[None]:
            port = self._port(own._connection)
            try:
                async with transaction(own, patience):
                    yield
            finally:
                self._patience.pop(port, None)

        kind: Any = Session
        kind.exchange = watched_exchange
        kind.limit, kind.transaction = watched_limit, watched_transaction

    def _watched(self, own: Session, query: Any, parameters: Any) -> tuple[Any, Any]:
        """Note a statement, and return it with a moment that is as late for the server."""
        cluster = self._sent(own, query)
        text = query.as_string()
        ends = parameters is not None and "pg_terminate_backend" in text
        if ends and (targets := self._targets(cluster, parameters)):
            # Whoever waits for one of them is not looked at before it has gone.
            self._loop.sockets.after[self._port(own._connection)] = partial(
                cluster.await_ends_of, targets
            )
        if parameters is None and _UNTIL.search(text):
            text = _UNTIL.sub(lambda one: f"{one[1]}{int(one[2]) + _YEARS}{one[3]}", text)
            return psycopg.sql.SQL(text), None
        return query, parameters

    def _answered(self, cluster: Cluster, query: Any, row: Any) -> Any:
        if query is catalog_query.SERVER:
            return (*row[:2], f"system {cluster.name}", *row[3:-1], self._now())
        return tuple(map(_earlier, row))

    def _without_pid(self, original: Callable[[Any], str]) -> Callable[[Any], str]:
        def told(one: Any) -> str:
            number = self._pids.setdefault(one.pid, len(self._pids) + 1) if one.pid else 0
            return original(one._replace(pid=number))

        return told

    def _targets(self, cluster: Cluster, parameters: Mapping[str, Any]) -> list[int]:
        """The sessions that a statement with these parameters ends."""
        if "pid" in parameters:
            return [parameters["pid"]]
        rows = cluster.ask(
            "SELECT pid FROM pg_stat_activity"
            " WHERE usesysid = %s AND (%s::int4[] IS NULL OR pid = ANY (%s::int4[]))",
            parameters["role"],
            parameters["pids"],
            parameters["pids"],
        )
        return [pid for (pid,) in rows]

    def _sent(self, own: Session, query: Any) -> Cluster:
        cluster = self._by_port[own._connection.info.port]
        self.statements[cluster.name] += 1
        text = " ".join(query.as_string().split())
        self._note(cluster, text)
        for watch in self.watches:
            watch(cluster, text)
        return cluster

    def _note(self, cluster: Cluster, text: str) -> None:
        self._simulation.trace.note(self._simulation.current_name(), cluster.name, text)

    def _now(self) -> float:
        return entropy.EPOCH + self._loop.elapsed

    def _port(self, connection: Any) -> int:
        return line_of(connection.fileno())

    # --- answers

    def _replace_waits(self) -> None:
        kind: Any = session.LimitedConnection
        wait, break_off, close = kind.wait, kind._break_off, kind.close

        async def watched_wait(
            own: Any,
            gen: Any,
            interval: float = 0.1,
            timeout: float | None = None,  # noqa: ASYNC109
        ) -> Any:
            if own.closed:
                return await wait(own, gen, interval, timeout)
            port = self._port(own)
            fault = self._fault(own, gen)
            if fault == "lost":
                gen.close()
                self._finish(own)
                raise psycopg.OperationalError("the connection is lost")
            if fault == "freezes":
                _current().freeze()
                await asyncio.sleep(0.0)
            elif fault == "dies":
                await self._die()
            try:
                answer = await wait(own, gen, interval, timeout)
            except psycopg.errors.QueryCanceled:
                if port in self._cancelled:
                    self._cancelled.discard(port)
                    raise psycopg.errors.LockNotAvailable("lock timeout") from None
                raise
            finally:
                self._calm(port)
            if fault == "gone":
                await self._die()
            if fault == "done":
                self._finish(own)
                raise psycopg.OperationalError("the connection is lost")
            return answer

        def watched_break_off(own: Any) -> None:
            with suppress(OSError, psycopg.Error):
                number = own.fileno()
                break_off(own)
                self._loop.sockets.wake(number)

        async def watched_close(own: Any) -> None:
            await close(own)
            self._loop.sockets.tidy()

        # What a server says before all has been sent to it is read afterwards.
        waiting._ready = _writable
        kind.close = watched_close
        kind.wait = watched_wait
        kind._break_off = watched_break_off

    async def _die(self) -> None:
        """End this process where it stands."""
        _current().kill()
        await self._loop.create_future()

    def _finish(self, own: Any) -> None:
        own.pgconn.finish()
        self._loop.sockets.tidy()

    def _fault(self, own: Any, gen: Any) -> str:
        cluster = self._by_port.get(own.info.port)
        waiting = self.faults[cluster.name] if cluster else []
        if not cluster or not waiting:
            return ""
        ends = getattr(gen, "__qualname__", "") == "BaseTransaction._exit_gen"
        fault = waiting[0]
        if fault.commits and not ends:
            return ""
        if fault.after:
            fault.after -= 1
            return ""
        fault.hit = _current()
        fault.met.set()
        fault.left -= 1
        if fault.left <= 0:
            waiting.pop(0)
        self._note(
            cluster, f"{fault.kind}: {'the end of a transaction' if ends else 'a statement'}"
        )
        return fault.kind


def _current() -> Process:
    process = processes.current()
    assert process is not None
    return process


def _writable(number: int, state: int) -> int:
    """Wait until a socket can be written, for whatever else its user would wait."""
    poll = select.poll()
    poll.register(number, select.POLLOUT)
    return int(READY_W) if poll.poll(1000) else int(READY_R)


def _earlier(value: Any) -> Any:
    """The end of a login as it was meant."""
    if isinstance(value, str) and _LATER.fullmatch(value):
        return f"{int(value[:4]) - _YEARS}{value[4:]}"
    return value
