"""The work at servers: what the accesses of one server want of it is collected and done together.

A server that is dead, slow or hostile keeps nobody else waiting: each has a task of its own, and
an access that waits for its server takes no worker meanwhile. What comes while a server is at work
is the next batch. Accesses share the work only where they share the connection: those of one
PostgresServer, or those of one namespace that name the same server with the same login.

Accesses that are in sync are kept, and compared with the server all at once, now and then.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import NamedTuple, TypeVar

import msgspec
import structlog

from fairlead.postgres.controllers.servers.jobs import Answer, Check, Drop, Job, Look, Place, Sync
from fairlead.postgres.database.connections.sessions import Sessions
from fairlead.postgres.database.plans.plan import Synced, Wanted
from fairlead.postgres.database.plans.snapshot import Claim
from fairlead.postgres.database.reading.verifiers import Verifiers
from fairlead.postgres.database.work.cleanup import cleanup, drop_groups, drop_logins
from fairlead.postgres.database.work.drift import Found, Kept, look
from fairlead.postgres.database.work.planning import plan_accesses
from fairlead.postgres.database.work.sync import Claimed, check_claims, sync
from fairlead.postgres.errors import AccessError
from fairlead.postgres.metrics import PostgresMetrics
from fairlead.runtime import Request


_log = structlog.get_logger(logger_name="fairlead.postgres")

PASS_SECONDS = 100.0
"""That a server may take for all statements of one batch, be its single answers quick."""
_COLLECT_SECONDS = 0.02
"""In which more may come before a batch begins."""
_COLLECT_AT_MOST_SECONDS = 0.25
"""That a batch is put off while more and more come: a large one costs little more than a small."""
_MANY = 16
"""Accesses that come at once, and perhaps before others."""
_BATCH = 250
"""Accesses of one batch: a transaction of which everybody else waits for the lock."""
_PATIENCE = 10
"""Batches that a look gives way to: there may always be somebody who tries again."""
_REST_SECONDS = 30.0
"""Without anything to do, after which the sessions are closed."""
_OF_ONE_NAMESPACE = 32
"""Servers at work at once of those that the objects of one namespace name themselves."""
JITTER = 0.1
"""The part of an interval by which looks come sooner or later, so that they spread."""

T = TypeVar("T", Check, Sync, Drop, Look)

Sweep = Callable[[Place, Sessions, Mapping[str, Claim]], Awaitable[None]]
"""Looks at all claims of ours on a server, for those that no object holds."""


class WorkCallbacks(NamedTuple):
    """What the work needs of the operator.

    ``answered`` takes the answer to a job, ``differs`` a request whose access has drifted away;
    ``interval`` is in seconds, ``connections`` how many a server may have of ours at once.
    """

    answered: Callable[[Request, Answer], None]
    differs: Callable[[Request], None]
    sweep: Sweep
    installation: Callable[[], Awaitable[str]]
    interval: Callable[[], float]
    metrics: PostgresMetrics
    connections: Callable[[], int] = lambda: 4


class Work:
    """The work at all servers."""

    def __init__(self, surroundings: WorkCallbacks) -> None:
        self._surroundings = surroundings
        self._servers: dict[Place, _Server] = {}
        self._kept_at: dict[Request, _Server] = {}
        self._slots: dict[str, asyncio.Semaphore] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def submit(self, place: Place, request: Request, job: Job) -> None:
        """Have a job done; the answer comes by ``answered``."""
        server = self._at(place)
        server.jobs[request] = job
        server.begin()

    def keep(self, place: Place, request: Request, kept: Kept) -> None:
        """Compare an access that is in sync with its server from now on."""
        server = self._at(place)
        if self._kept_at.get(request) is not server:
            self.forget(request)
            self._kept_at[request] = server
        server.kept[request] = kept

    def forget(self, request: Request, *, torn_out: bool = False) -> None:
        """Compare it no more; what was ``torn_out`` without our leave may have left a role."""
        server = self._kept_at.pop(request, None)
        if server is None:
            return
        server.kept.pop(request, None)
        if torn_out:
            server.look_soon()
        else:
            self._ended(server)

    def look_at(self, owner: str) -> None:
        """Look at the servers where a role of this owner may be, when they are next worked at."""
        for server in self._servers.values():
            if server.place.is_trusted or server.place.owner == owner:
                server.look_is_due = True

    def look_soon(self, place: Place) -> None:
        """Look at a server now, if it is worked at: a role may be nobody's."""
        server = self._servers.get(place)
        if server is not None:
            server.look_soon()

    def _at(self, place: Place) -> _Server:
        server = self._servers.get(place)
        if server is None:
            slot = None
            # A tenant may name any number of servers, and each of them may hang.
            if not place.is_trusted:
                slot = self._slots.setdefault(place.owner, asyncio.Semaphore(_OF_ONE_NAMESPACE))
            server = self._servers[place] = _Server(place, self._surroundings, slot, self._ended)
            self._surroundings.metrics.of(place.owner).servers.append(server)
        return server

    def _ended(self, server: _Server) -> None:
        """A server that nobody wants anything of for a while keeps no session of ours."""
        if not server.is_wanted:
            loop = asyncio.get_running_loop()
            loop.call_later(_REST_SECONDS, self._dismiss, server)

    def _dismiss(self, server: _Server) -> None:
        if server.is_wanted or self._servers.get(server.place) is not server:
            return
        owner, metrics = server.place.owner, self._surroundings.metrics
        del self._servers[server.place]
        metrics.of(owner).ended(server)
        metrics.tidy(owner)
        closing = asyncio.get_running_loop().create_task(server.close())
        self._tasks.add(closing)
        closing.add_done_callback(self._tasks.discard)

    async def close(self) -> list[Request]:
        """Stop at once, and end all sessions; returns whose accesses nobody compares any more."""
        servers, kept = list(self._servers.values()), list(self._kept_at)
        self._servers.clear()
        self._kept_at.clear()
        await asyncio.gather(*(server.close() for server in servers), *self._tasks)
        return kept


class _Server:
    """The work at one server."""

    def __init__(
        self,
        place: Place,
        surroundings: WorkCallbacks,
        slot: asyncio.Semaphore | None,
        ended: Callable[[_Server], None],
    ) -> None:
        self.place = place
        self.jobs: dict[Request, Job] = {}
        self.kept: dict[Request, Kept] = {}
        self._surroundings = surroundings
        self._slot = slot
        self._ended = ended
        self._metrics = surroundings.metrics.of(place.owner)
        self._sessions = Sessions(place.endpoint, self._metrics.tally)
        self._verifiers = Verifiers()
        self._at_work = 0
        self._batches = 0
        """Since the last look."""
        self._drifted: set[str] = set()
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.look_is_due = True
        """Whether the next batch is followed by a look."""

    @property
    def is_wanted(self) -> bool:
        """Whether something is being done, or kept."""
        return self._task is not None or bool(self.kept)

    @property
    def roles(self) -> int:
        """How many accesses are kept."""
        return len(self.kept)

    @property
    def pending(self) -> int:
        """How many accesses want something of the server."""
        return len(self.jobs) + self._at_work

    def begin(self) -> None:
        """Work until nothing is left to be done."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def look_soon(self) -> None:
        """Compare what is kept with the server now."""
        self.look_is_due = True
        self.begin()

    async def close(self) -> None:
        """Stop at once, and end the sessions."""
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        await self._sessions.close()

    async def _run(self) -> None:
        try:
            while self.jobs or self.look_is_due:
                await self._collect()
                if self._slot is None:
                    await self._step()
                else:
                    async with self._slot:
                        await self._step()
        finally:
            # Nothing is awaited since the last look at the jobs, so that none is left without a
            # task.
            self._task = None
            self._ended(self)

    async def _collect(self) -> None:
        """Wait a moment, and where many come until no more do."""
        loop = asyncio.get_running_loop()
        latest, come = loop.time() + _COLLECT_AT_MOST_SECONDS, 0
        await asyncio.sleep(_COLLECT_SECONDS)
        while max(come, _MANY) < len(self.jobs) < _BATCH and loop.time() < latest:
            come = len(self.jobs)
            await asyncio.sleep(_COLLECT_SECONDS)

    async def _step(self) -> None:
        batch = self._take()
        if batch:
            self._at_work = len(batch)
            try:
                await self._batch(batch)
            finally:
                self._at_work = 0
        self._batches += 1
        if self.look_is_due and (not self.jobs or self._batches >= _PATIENCE):
            self.look_is_due, self._batches = False, 0
            await self._look()

    def _take(self) -> dict[Request, Job]:
        """The next batch: what has waited longest, one job for each role."""
        # The jobs of a batch are done at the same time and answered by username: two about one
        # role would be in each other's way.
        batch: dict[Request, Job] = {}
        usernames: set[str] = set()
        for request, job in self.jobs.items():
            if len(batch) < _BATCH and usernames.isdisjoint(job.names):
                batch[request] = job
                usernames.update(job.names)
        for request in batch:
            del self.jobs[request]
        return batch

    async def _batch(self, batch: Mapping[Request, Job]) -> None:
        checks: dict[Request, Check] = {}
        syncs: dict[Request, Sync] = {}
        drops: dict[Request, Drop] = {}
        looks: dict[Request, Look] = {}
        for request, job in batch.items():
            match job:
                case Check():
                    checks[request] = job
                case Sync():
                    syncs[request] = job
                case Drop():
                    drops[request] = job
                case Look():
                    looks[request] = job
        # A removal has a session in the maintenance database and one in that which it clears.
        connections = self._surroundings.connections()
        removals = asyncio.Semaphore(max(1, (connections - 2) // 2))
        await asyncio.gather(
            self._answer(checks, self._check),
            self._answer(syncs, self._sync),
            self._answer(looks, self._plan),
            *(self._remove(request, drop, removals) for request, drop in drops.items()),
        )

    async def _check(self, jobs: Iterable[Check]) -> Mapping[str, Answer]:
        return await check_claims(
            self._sessions, [Claimed(job.names, job.claim, job.adopt) for job in jobs]
        )

    async def _sync(self, jobs: Iterable[Sync]) -> Mapping[str, Answer]:
        wanted = [job.wanted for job in jobs]
        found = await sync(
            self._sessions,
            wanted,
            self._verifiers,
            at_once=max(1, self._surroundings.connections() - 1),
        )
        return {**found, **{one.username: await self._retire(one, found) for one in wanted}}

    async def _retire(self, wanted: Wanted, found: Mapping[str, Synced | AccessError]) -> Answer:
        """Drop logins that have ended for good."""
        answer = found[wanted.username]
        if isinstance(answer, AccessError) or not answer.retired:
            return answer
        try:
            await drop_logins(self._sessions, wanted.username, answer.retired, wanted.claim)
        except AccessError as error:
            return msgspec.structs.replace(answer, problems=(*answer.problems, error))
        left = tuple(one for one in answer.logins if one.name not in answer.retired)
        if all(one.current for one in left):
            left = ()
        return msgspec.structs.replace(answer, logins=left, changed=True)

    async def _plan(self, jobs: Iterable[Look]) -> Mapping[str, Answer]:
        found: dict[str, Answer] = {}
        for job in jobs:
            try:
                plan = await plan_accesses(self._sessions, [job.wanted], self._verifiers)
                found[job.username] = plan
            except AccessError as error:
                found[job.username] = error
        return found

    async def _remove(self, request: Request, drop: Drop, places: asyncio.Semaphore) -> None:
        async def remove(_: Iterable[Drop]) -> Mapping[str, Answer]:
            await cleanup(
                self._sessions,
                drop.username,
                drop.claim,
                drop.policy,
                orphan_to=drop.orphan_to,
            )
            return {}

        async with places:
            await self._answer({request: drop}, remove)

    async def _answer(
        self,
        jobs: Mapping[Request, T],
        work: Callable[[Iterable[T]], Awaitable[Mapping[str, Answer]]],
    ) -> None:
        """Do jobs, and give each its answer: what failed for all of them is that of each."""
        if not jobs:
            return
        answers: Mapping[str, Answer] = {}
        failure: Exception | None = None
        try:
            async with asyncio.timeout(PASS_SECONDS):
                answers = await work(jobs.values())
        except TimeoutError:
            failure = AccessError(
                "TimedOut", f"the server has not done it all in {PASS_SECONDS:g} s; trying again"
            )
        except Exception as error:  # noqa: BLE001 - the pass that gets it tells of it
            failure = error
        self._reached(failure)
        for request, job in jobs.items():
            answer = answers.get(job.username, failure)
            if isinstance(answer, Synced) and job.username in self._drifted:
                self._drifted.discard(job.username)
                self._metrics.healed += answer.changed
            self._surroundings.answered(request, answer)

    def _reached(self, failure: Exception | None) -> None:
        # A PostgresServer is one, whichever of its endpoints was asked.
        self._metrics.reached(failure, "" if self.place.is_trusted else self)

    async def _look(self) -> None:
        spread = random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        # Set before the look, so that another one follows whatever becomes of this.
        self._timer = loop.call_later(self._surroundings.interval() * spread, self.look_soon)
        kept = dict(self.kept)
        usernames = {one.wanted.username for one in kept.values()}
        begun, failure = loop.time(), None
        try:
            async with asyncio.timeout(PASS_SECONDS):
                found = await look(
                    self._sessions,
                    list(kept.values()),
                    self._verifiers,
                    await self._surroundings.installation(),
                )
        except Exception as error:  # noqa: BLE001 - each access tells what it means for itself
            _log.warning("no look at a server", server=str(self.place.endpoint), error=str(error))
            found, failure = Found(differing=frozenset(usernames), claimed={}), error
        else:
            self._drifted = usernames & found.differing
            self._metrics.seconds.observe(loop.time() - begun)
        self._reached(failure)
        self._verifiers.keep({one.wanted.login for one in kept.values()})
        for request, one in kept.items():
            if one.wanted.username in found.differing:
                self._surroundings.differs(request)
        try:
            async with asyncio.timeout(PASS_SECONDS):
                await self._surroundings.sweep(self.place, self._sessions, found.claimed)
                if found.deserted:
                    await drop_groups(
                        self._sessions,
                        sorted(found.deserted),
                        await self._surroundings.installation(),
                    )
        except Exception as error:  # noqa: BLE001 - no object caused it, and the work goes on
            _log.warning("no sweep of a server", server=str(self.place.endpoint), error=str(error))
