"""The work at servers: what the accesses of one server want of it is collected and done together.

A server that is dead, slow or hostile keeps no other waiting: each has a task of its own, and
an access that waits for its server takes no worker meanwhile. What comes while a server is at work
is the next batch. Accesses share the work only where they share the connection: those of one
PostgresServer, or those of one namespace that name the same server with the same login.

Accesses that are in sync are kept, and compared with the server all at once, now and then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import TypeVar

import structlog

from fairlead.postgres.controllers.rules.desired import Place
from fairlead.postgres.controllers.servers.jobs import (
    Answer,
    Check,
    Drop,
    Job,
    Line,
    Look,
    Roles,
    Rotate,
    Sync,
    UnpublishedError,
    WorkCallbacks,
)
from fairlead.postgres.controllers.servers.looks import PASS_SECONDS, ServerLooks, is_divisible
from fairlead.postgres.database.connections.sessions import Sessions
from fairlead.postgres.database.plans.plan import Synced
from fairlead.postgres.database.work.cleanup import cleanup
from fairlead.postgres.database.work.drift import Kept
from fairlead.postgres.database.work.planning import plan_accesses
from fairlead.postgres.database.work.rotating import rotate
from fairlead.postgres.database.work.sync import Claimed, check_claims, retire, sync
from fairlead.postgres.errors import AccessError
from fairlead.runtime import Request


_log = structlog.get_logger(logger_name="fairlead.postgres")

_COLLECT_SECONDS = 0.02
"""In which more may come before a batch begins."""
_COLLECT_AT_MOST_SECONDS = 0.25
"""Seconds that a batch is put off while more come: a large one costs little more than a small."""
_MANY = 16
"""Accesses that come at once, and perhaps before others."""
_ROTATIONS = 2
"""Passwords that are changed in their place at once: each waits for its Secret meanwhile."""
_BATCH = 250
"""Accesses of one batch, for which whatever comes meanwhile has to wait."""
_PATIENCE = 10
"""Batches that a look gives way to: another access may always try again."""
_HELD_UP = frozenset({"Locked", "TimedOut", "OutOfMemory"})
"""Reasons for which an access is worked on alone, where others would wait for it."""
_REST_SECONDS = 30.0
"""Without anything to do, after which the sessions are closed."""
_OF_ONE_NAMESPACE = 32
"""Servers at work at once of those that the objects of one namespace name themselves."""
T = TypeVar("T", Check, Sync, Rotate, Drop, Look)
J = TypeVar("J", bound=Job)


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
        self._at(place).submit(request, job)

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
        """Look at a server now, if it is worked at: a role may have no object."""
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
        """Dismiss a server after a while without work, so that it keeps no session of ours."""
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
        """Stop at once, and end all sessions; return the requests that are compared no more."""
        servers, kept = list(self._servers.values()), list(self._kept_at)
        self._servers.clear()
        self._kept_at.clear()
        await asyncio.gather(*(server.close() for server in servers), *self._tasks)
        return kept


class _Server:
    """The work at one server, in lines that do not wait for one another.

    What comes together is done together, and gives way to the sessions of tenants: what one of
    them has locked is done alone, where only others wait for whom the same holds. Removals
    and looks take their time elsewhere too.
    """

    def __init__(
        self,
        place: Place,
        surroundings: WorkCallbacks,
        slot: asyncio.Semaphore | None,
        ended: Callable[[_Server], None],
    ) -> None:
        self.place = place
        self._surroundings = surroundings
        self._slot = slot
        self._ended = ended
        self._metrics = surroundings.metrics.of(place.owner)
        tally, check = self._metrics.tally, surroundings.check
        self._sessions = Sessions(place.endpoint, tally, hasty=True, check=check)
        self._alone_sessions = Sessions(place.endpoint, tally, check=check)
        """Sessions of which it is known who they wait for."""
        self._roles = Roles()
        self._looks = ServerLooks(place, self._sessions, self._roles, surroundings, self._reached)
        self.kept = self._looks.kept
        self._together = Line(self._roles)
        self._removals = Line(self._roles)
        self._rotations = Line(self._roles)
        self._alone = Line(self._roles)
        self._lines = (self._together, self._removals, self._rotations, self._alone)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._closed = False
        self._batches = 0
        """Since the last look."""
        self._look_again = False
        self.look_is_due = True
        """Whether the next batch is followed by a look."""

    @property
    def is_wanted(self) -> bool:
        """Whether something is being done, or kept."""
        return bool(self._tasks or self.kept)

    @property
    def roles(self) -> int:
        """How many accesses are kept."""
        return len(self.kept)

    @property
    def pending(self) -> int:
        """How many accesses want something of the server."""
        return sum(map(len, self._lines))

    def submit(self, request: Request, job: Job) -> None:
        """Have a job done, in place of an older one of the same request."""
        for line in self._lines:
            line.drop(request)
        match job:
            case Drop():
                self._removals.put(request, job)
            case Rotate():
                self._rotations.put(request, job)
            case _:
                self._together.put(request, job)
        self.begin()

    def begin(self) -> None:
        """Work until nothing is left to be done."""
        # A removal has a session in the maintenance database and one in that which it clears.
        if self._removals.waiting:
            remove = partial(self._one_by_one, self._removals, partial(self._remove, brief=True))
            for number in range(max(1, (self._surroundings.connections() - 2) // 2)):
                self._start(f"removals {number}", remove)
        if self._rotations.waiting:
            change = partial(self._one_by_one, self._rotations, partial(self._rotate, brief=True))
            for number in range(_ROTATIONS):
                self._start(f"rotations {number}", change)
        if self._together.waiting:
            self._start("together", self._run)
        if self._alone.waiting:
            self._start("alone", partial(self._one_by_one, self._alone, self._at_leisure))

    def _start(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        if name in self._tasks or self._closed:
            return

        async def run() -> None:
            try:
                await work()
            finally:
                # Nothing is awaited since the last look at the jobs, so that none is left without
                # a task.
                del self._tasks[name]
                self._ended(self)

        self._tasks[name] = asyncio.get_running_loop().create_task(run())

    def look_soon(self) -> None:
        """Compare what is kept with the server now."""
        self._look_again = True
        self._start("look", self._look_until_done)

    async def close(self) -> None:
        """Stop at once, and end the sessions."""
        self._closed = True
        self._looks.close()
        tasks = [*self._tasks.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._sessions.close()
        await self._alone_sessions.close()

    async def _run(self) -> None:
        while self._together.waiting:
            await self._collect()
            async with self._slot or nullcontext():
                batch = self._together.take(_BATCH)
                try:
                    # Where all roles are busy nothing is awaited, or one that is freed meanwhile
                    # would be missed.
                    if batch:
                        await self._batch(batch)
                finally:
                    self._together.done(batch)
            if self._together.waiting and not batch:
                await self._roles.freed()
            self._batches += 1
            if not self._together.waiting or self._batches >= _PATIENCE:
                self._follow_up()

    def _follow_up(self) -> None:
        """Look at the server, where that is due."""
        if self.look_is_due:
            self.look_is_due, self._batches = False, 0
            self.look_soon()

    async def _collect(self) -> None:
        """Wait a moment, and where many come until no more do."""
        loop = asyncio.get_running_loop()
        latest, come = loop.time() + _COLLECT_AT_MOST_SECONDS, 0
        await asyncio.sleep(_COLLECT_SECONDS)
        while max(come, _MANY) < len(self._together) < _BATCH and loop.time() < latest:
            come = len(self._together)
            await asyncio.sleep(_COLLECT_SECONDS)

    async def _one_by_one(
        self, line: Line, work: Callable[[Mapping[Request, Job]], Awaitable[None]]
    ) -> None:
        while line.waiting:
            async with self._slot or nullcontext():
                one = line.take(1)
                try:
                    if one:
                        await work(one)
                finally:
                    line.done(one)
            if line.waiting and not one:
                await self._roles.freed()
        self._follow_up()

    async def _batch(self, batch: Mapping[Request, Job]) -> None:
        checks: dict[Request, Check] = {}
        syncs: dict[Request, Sync] = {}
        looks: dict[Request, Look] = {}
        for request, job in batch.items():
            match job:
                case Check():
                    checks[request] = job
                case Sync():
                    syncs[request] = job
                case Look():
                    looks[request] = job
        await asyncio.gather(
            self._answer(checks, self._check),
            self._answer(syncs, self._sync, brief=True),
            self._answer(looks, self._plan),
        )

    async def _at_leisure(self, one: Mapping[Request, Job]) -> None:
        """Do the job of one access, and wait for others as long as they may be waited for."""
        for request, job in one.items():
            if isinstance(job, Drop):
                await self._remove({request: job}, brief=False)
            elif isinstance(job, Rotate):
                await self._rotate({request: job}, brief=False)
            elif isinstance(job, Sync):
                await self._answer({request: job}, self._sync_alone)

    async def _check(self, jobs: Iterable[Check]) -> Mapping[str, Answer]:
        return await check_claims(
            self._sessions, [Claimed(job.names, job.claim, job.adopt) for job in jobs]
        )

    async def _sync(self, jobs: Iterable[Sync]) -> Mapping[str, Answer]:
        return await self._bring(self._sessions, jobs, brief=True)

    async def _sync_alone(self, jobs: Iterable[Sync]) -> Mapping[str, Answer]:
        return await self._bring(self._alone_sessions, jobs, brief=False)

    async def _bring(
        self, sessions: Sessions, jobs: Iterable[Sync], *, brief: bool
    ) -> Mapping[str, Answer]:
        wanted = [job.wanted for job in jobs]
        at_once = max(1, self._surroundings.connections() - 1)
        verifiers = self._looks.verifiers
        found = await sync(sessions, wanted, verifiers, at_once=at_once, brief=brief)
        for one in wanted:
            found[one.username] = await retire(sessions, one, found[one.username], brief=brief)
        return found

    async def _plan(self, jobs: Iterable[Look]) -> Mapping[str, Answer]:
        found: dict[str, Answer] = {}
        for job in jobs:
            try:
                plan = await plan_accesses(self._sessions, [job.wanted], self._looks.verifiers)
                found[job.username] = plan
            except AccessError as error:
                found[job.username] = error
        return found

    async def _remove(self, one: Mapping[Request, Job], *, brief: bool) -> None:
        async def remove(drops: Iterable[Drop]) -> Mapping[str, Answer]:
            for drop in drops:
                name, claim, policy, heir, _ = drop
                await cleanup(sessions, name, claim, policy, orphan_to=heir, brief=brief)
            return {}

        sessions = self._sessions if brief else self._alone_sessions
        drops = {request: job for request, job in one.items() if isinstance(job, Drop)}
        await self._answer(drops, remove, brief=brief)

    async def _rotate(self, one: Mapping[Request, Job], *, brief: bool) -> None:
        async def change(rotations: Iterable[Rotate]) -> Mapping[str, Answer]:
            answers: dict[str, Answer] = {}
            for job in rotations:
                answers[job.username] = None
                try:
                    await rotate(sessions, job.wanted, verifiers, job.publish, brief=brief)
                # Of the server this says nothing.
                except UnpublishedError as error:
                    answers[job.username] = error
            return answers

        sessions = self._sessions if brief else self._alone_sessions
        verifiers = self._looks.verifiers
        rotations = {request: job for request, job in one.items() if isinstance(job, Rotate)}
        await self._answer(rotations, change, brief=brief)

    async def _answer(
        self,
        jobs: Mapping[Request, T],
        work: Callable[[Iterable[T]], Awaitable[Mapping[str, Answer]]],
        *,
        brief: bool = False,
    ) -> None:
        """Do jobs, and give each its answer: what failed for all of them is that of each.

        After a ``brief`` try what another session is in the way of is done alone, and so
        is what takes long by itself.
        """
        if not jobs:
            return
        answers: Mapping[str, Answer] = {}
        failure: Exception | None = None
        try:
            async with asyncio.timeout(PASS_SECONDS):
                answers = await _divided(tuple(jobs.values()), work)
        except TimeoutError:
            failure = AccessError(
                "TimedOut", f"the server has not done it all in {PASS_SECONDS:g} s; trying again"
            )
        except Exception as error:  # noqa: BLE001 - the pass that gets it tells of it
            failure = error
        if self._closed:
            # A session that is lost while its statement is cancelled raises that it is lost, and
            # the cancelling is lost with it. No pass waits for an answer any more.
            raise asyncio.CancelledError
        self._reached(failure)
        for request, job in jobs.items():
            username = job.username
            answer = answers.get(username, failure)
            slow = username in answers and _is_slow(job, answer)
            if brief and (slow or _is_held_up(job, answer)):
                self._alone.put(request, job)
                continue
            if isinstance(answer, Synced) and username in self._looks.drifted:
                self._looks.drifted.discard(username)
                self._metrics.healed += answer.changed
                if answer.changed:
                    _log.info(
                        "drift was healed",
                        access=str(request),
                        role=username,
                        server=str(self.place.endpoint),
                    )
            self._surroundings.answered(request, answer)
        self.begin()

    def _reached(self, failure: Exception | None) -> None:
        # A PostgresServer is one, whichever of its endpoints was asked.
        self._metrics.reached(failure, "" if self.place.is_trusted else self)

    async def _look_until_done(self) -> None:
        while self._look_again:
            self._look_again = False
            async with self._slot or nullcontext():
                await self._looks.look(self.look_soon)


def _is_held_up(job: Job, answer: Answer) -> bool:
    """Whether a try that waits longer for others may do what a brief one could not."""
    if isinstance(answer, Synced):
        return any(problem.reason in _HELD_UP for problem in answer.problems)
    if not isinstance(answer, AccessError):
        return False
    return answer.reason == "Locked" or (isinstance(job, Drop) and answer.reason == "TimedOut")


async def _divided(
    jobs: Sequence[J],
    work: Callable[[Iterable[J]], Awaitable[Mapping[str, Answer]]],
) -> Mapping[str, Answer]:
    """Do jobs together, and by halves where that is too much, so that but the guilty fail."""
    begun = asyncio.get_running_loop().time()
    try:
        return await work(jobs)
    except AccessError as error:
        if not is_divisible(error, begun):
            raise
        if len(jobs) == 1:
            return {jobs[0].username: error}
    middle = len(jobs) // 2
    first = await _divided(jobs[:middle], work)
    return {**first, **await _divided(jobs[middle:], work)}


def _is_slow(job: Job, answer: Answer) -> bool:
    """Whether an access by itself takes longer than others may be kept waiting."""
    if not isinstance(job, Sync) or not isinstance(answer, AccessError):
        return False
    return answer.reason == "TimedOut"
