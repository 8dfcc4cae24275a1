"""The work at servers: the jobs of one server are collected and done together.

A dead, slow or hostile server does not delay the others: each has a task of its own, and an access
that waits for its server occupies no worker. Jobs that come while a server is at work are the next
batch. Accesses share the work only where they share the connection: they name one PostgresServer,
or are of one namespace and name the same server with the same login.

Accesses that are in sync are kept, and at an interval all are compared with the server at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from typing import TypeVar

import structlog

from fairlead.postgres import bounds
from fairlead.postgres.controllers.rules.desired import ServerPlace
from fairlead.postgres.controllers.servers.jobs import (
    Answer,
    Drop,
    Job,
    Line,
    PlanOnly,
    Roles,
    Rotate,
    Sync,
    UnpublishedError,
    WorkCallbacks,
    has_lost_session,
    is_crowded,
    may_succeed_alone,
)
from fairlead.postgres.controllers.servers.looks import ServerLooks, is_divisible
from fairlead.postgres.database.connections.attempts import AttemptPace
from fairlead.postgres.database.connections.failures import SessionEndedError, refused_before
from fairlead.postgres.database.connections.rooms import SessionRoom
from fairlead.postgres.database.connections.sessions import Sessions
from fairlead.postgres.database.plans.plan import ShownPlan, Synced, WantedState
from fairlead.postgres.database.plans.server_plan import CrowdedError
from fairlead.postgres.database.work.cleanup import cleanup
from fairlead.postgres.database.work.drift import Kept
from fairlead.postgres.database.work.planning import plan_accesses
from fairlead.postgres.database.work.privileges import PiecesTurn
from fairlead.postgres.database.work.rotating import rotate
from fairlead.postgres.database.work.sync import Check, check_claims, retire, sync
from fairlead.postgres.errors import PASSWORD_REFUSED, AccessError
from fairlead.runtime import Request


_log = structlog.get_logger(logger_name="fairlead.postgres")

T = TypeVar("T", Check, Sync, Rotate, Drop, PlanOnly)
J = TypeVar("J", bound=Job)


class Work:
    """The work at all servers."""

    def __init__(self, callbacks: WorkCallbacks) -> None:
        self._callbacks = callbacks
        self._servers: dict[ServerPlace, _Server] = {}
        self._kept_at: dict[Request, _Server] = {}
        self._slots: dict[str, asyncio.Semaphore] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def submit(self, place: ServerPlace, request: Request, job: Job) -> None:
        """Enqueue a job for a server; ``answered`` gets the answer."""
        server = self._kept_at.get(request) if isinstance(job, Drop) else None
        if server is None or not server.may_remove_for(place):
            server = self._at(place)
        server.submit(request, job)

    def hurry(self, place: ServerPlace, request: Request) -> None:
        """Have a job with very many privileges end soon, because its access has changed."""
        server = self._servers.get(place)
        if server is not None:
            server.hurry(request)

    def keep(self, place: ServerPlace, request: Request, kept_access: Kept | None) -> None:
        """Keep an access that is in sync, for comparisons with its server, or by a pass each."""
        server = self._at(place)
        if self._kept_at.get(request) is not server:
            self.forget(request)
            self._kept_at[request] = server
        server.accesses[request] = kept_access

    def forget(self, request: Request, *, torn_out: bool = False) -> None:
        """Stop comparing an access; one ``torn_out`` without finalization may leave a role."""
        server = self._kept_at.pop(request, None)
        if server is None:
            return
        server.accesses.pop(request, None)
        if torn_out:
            server.look_soon()
        else:
            self._ended(server)

    def look_at(self, owner: str) -> None:
        """Mark the servers that may have a role of this owner for a look after their next work."""
        for server in self._servers.values():
            if server.place.is_trusted or server.place.owner == owner:
                server.look_is_due = True

    def look_soon(self, place: ServerPlace) -> None:
        """Start a look at a server that is in use: a role there may have no object."""
        server = self._servers.get(place)
        if server is not None:
            server.look_soon()

    def _at(self, place: ServerPlace) -> _Server:
        server = self._servers.get(place)
        if server is None:
            slot = None
            # A tenant may name any number of servers, and each of them may hang.
            if not place.is_trusted:
                slot = self._slots.setdefault(
                    place.owner, asyncio.Semaphore(bounds.NAMESPACE_SERVERS)
                )
            server = self._servers[place] = _Server(place, self._callbacks, slot, self._ended)
            self._callbacks.metrics.of(place.owner).servers.append(server)
        return server

    def _ended(self, server: _Server) -> None:
        """Close the sessions of a server after a while without work."""
        if not server.is_wanted:
            loop = asyncio.get_running_loop()
            loop.call_later(bounds.REST_SECONDS, self._dismiss, server)

    def _dismiss(self, server: _Server) -> None:
        if server.is_wanted or self._servers.get(server.place) is not server:
            return
        owner, metrics = server.place.owner, self._callbacks.metrics
        del self._servers[server.place]
        metrics.of(owner).ended(server)
        metrics.tidy(owner)
        closing = asyncio.get_running_loop().create_task(server.close())
        self._tasks.add(closing)
        closing.add_done_callback(self._tasks.discard)

    async def close(self) -> list[Request]:
        """Stop at once, and end all sessions; return the requests of the kept accesses."""
        servers, requests = list(self._servers.values()), list(self._kept_at)
        self._servers.clear()
        self._kept_at.clear()
        await asyncio.gather(*(server.close() for server in servers), *self._tasks)
        return requests


class _Server:
    """The work at one server, in lines that do not wait for one another.

    Jobs that come together are done together, with a short lock timeout: a job that a tenant's
    session blocks is done alone, in a line of such jobs. A role with very many privileges is
    worked on in another line, by turns, one in the whole process. Removals, rotations and looks
    have lines or tasks of their own.
    """

    def __init__(
        self,
        place: ServerPlace,
        callbacks: WorkCallbacks,
        slot: asyncio.Semaphore | None,
        ended: Callable[[_Server], None],
    ) -> None:
        self.place = place
        self._callbacks = callbacks
        self._slot = slot
        self._ended = ended
        self._metrics = callbacks.metrics.of(place.owner)
        tally, check = self._metrics.tally, callbacks.check
        attempts = callbacks.attempts
        self._room: SessionRoom | None = None
        if callbacks.rooms is not None:
            tenant = "" if place.is_trusted else place.owner
            self._room = callbacks.rooms.of(place.endpoint, tenant)
        self._sessions = Sessions(
            place.endpoint, tally, brief=True, check=check, attempts=attempts, room=self._room
        )
        self._alone_sessions = Sessions(
            place.endpoint, tally, check=check, attempts=attempts, room=self._room
        )
        """Sessions for jobs that are done alone, which may wait long for a login."""
        self._roles = Roles()
        self._looks = ServerLooks(
            place, self._sessions, self._roles, callbacks, self._count_failure
        )
        self.accesses = self._looks.accesses
        self._passwords: dict[str, AttemptPace] = {}
        """Paces of namespaces whose passwords the server has refused."""
        self._together = Line(self._roles)
        self._removals = Line(self._roles)
        self._rotations = Line(self._roles)
        self._alone = Line(self._roles)
        self._large = Line(self._roles)
        self._lines = (
            self._together,
            self._removals,
            self._rotations,
            self._alone,
            self._large,
        )
        self._large_turn = callbacks.large or asyncio.Semaphore()
        self._waiting_told: set[Request] = set()
        """Requests of the large line that have told that they wait."""
        self._turns: dict[Request, PiecesTurn] = {}
        """The turn at work in the large line."""
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._closed = False
        self._batches = 0
        """Number of batches since a look that was due began; other looks do not reset it."""
        self._look_again = False
        self.look_is_due = True
        """Whether the next batch is followed by a look."""

    @property
    def is_wanted(self) -> bool:
        """Whether the server has work under way or kept accesses."""
        return bool(self._tasks or self.accesses)

    def may_remove_for(self, place: ServerPlace) -> bool:
        """Whether open sessions at this server take a login away where new credentials fail.

        They were opened by the same owner of connections, as the same administrator.
        """
        mine, other = self.place.endpoint, place.endpoint
        is_same = (self.place.owner, mine.host, mine.port, mine.username) == (
            place.owner,
            other.host,
            other.port,
            other.username,
        )
        attempts = self._callbacks.attempts
        return is_same and attempts is not None and attempts.is_refused(other)

    @property
    def roles(self) -> int:
        """Number of kept accesses."""
        return len(self.accesses)

    @property
    def pending(self) -> int:
        """Number of jobs that wait or are at work."""
        return sum(map(len, self._lines))

    def submit(self, request: Request, job: Job) -> None:
        """Enqueue a job, in place of an older one of the same request."""
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
        """Start a task for each line with waiting jobs."""
        # A removal has two sessions: in the maintenance database and in the one that it clears.
        if self._removals.waiting:
            remove = partial(self._one_by_one, self._removals, partial(self._remove, brief=True))
            for number in range(max(1, (self._callbacks.connections() - 2) // 2)):
                self._start(f"removals {number}", remove)
        if self._rotations.waiting:
            change = partial(self._one_by_one, self._rotations, partial(self._rotate, brief=True))
            for number in range(bounds.ROTATIONS):
                self._start(f"rotations {number}", change)
        if self._together.waiting:
            self._start("together", self._run_batches)
        if self._alone.waiting:
            self._start("alone", partial(self._one_by_one, self._alone, self._do_alone))
        if self._large.waiting:
            self._start("large", self._run_large)

    def _start(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        if name in self._tasks or self._closed:
            return

        async def run() -> None:
            try:
                await work()
            finally:
                # No await lies between the last check of the line and this, so that no job is left
                # without a task.
                del self._tasks[name]
                self._ended(self)

        self._tasks[name] = asyncio.get_running_loop().create_task(run())

    def look_soon(self) -> None:
        """Start a comparison of the kept accesses with the server."""
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

    async def _run_batches(self) -> None:
        while self._together.waiting:
            await self._collect()
            async with self._slot or nullcontext():
                batch = self._together.take(bounds.BATCH)
                try:
                    # An empty batch must not await: it would miss a role that is freed meanwhile.
                    if batch:
                        await self._do_batch(batch)
                finally:
                    self._together.done(batch)
            if self._together.waiting and not batch:
                await self._roles.freed()
            self._batches += 1
            if not self._together.waiting or self._batches >= bounds.BATCHES:
                self._follow_up()

    def _follow_up(self) -> None:
        """Start a look at the server if one is due."""
        if self.look_is_due:
            self.look_is_due, self._batches = False, 0
            self.look_soon()

    async def _collect(self) -> None:
        """Wait a moment for more jobs, and longer as long as many come."""
        loop = asyncio.get_running_loop()
        begun, come = loop.time(), 0
        while True:
            is_large = len(self._together) > bounds.MANY_JOBS
            await asyncio.sleep(
                bounds.COLLECT_SECONDS if is_large else bounds.COLLECT_PAUSE_SECONDS
            )
            waited = loop.time() - begun
            if not come < len(self._together) < bounds.BATCH or waited >= (
                bounds.COLLECT_MOST_SECONDS if is_large else bounds.COLLECT_SECONDS
            ):
                return
            come = len(self._together)

    async def _one_by_one(
        self, line: Line, work: Callable[[Mapping[Request, Job]], Awaitable[None]]
    ) -> None:
        while line.waiting:
            async with self._slot or nullcontext():
                batch = line.take(1)
                try:
                    if batch:
                        await work(batch)
                finally:
                    line.done(batch)
            if line.waiting and not batch:
                await self._roles.freed()
        self._follow_up()

    async def _run_large(self) -> None:
        """Do the jobs of roles with very many privileges, each once it has its turn."""
        while self._large.waiting:
            # Before the turn: none may keep it who waits for the namespace's other servers.
            async with self._slot or nullcontext():
                try:
                    async with asyncio.timeout(bounds.LARGE_WAIT_SECONDS):
                        await self._large_turn.acquire()
                except TimeoutError:
                    self._tell_who_waits()
                    continue
                batch = self._large.take(1)
                try:
                    for request, job in batch.items():
                        await self._do_large(request, job)
                finally:
                    self._large.done(batch)
                    self._large_turn.release()
            if self._large.waiting and not batch:
                await self._roles.freed()

    async def _do_large(self, request: Request, job: Job) -> None:
        if isinstance(job, PlanOnly):
            await self._answer({request: job}, self._plan_large)
        if not isinstance(job, Sync):
            return
        turn = PiecesTurn(bounds.LARGE_SECONDS)
        self._turns[request] = turn
        work = partial(self._sync_with, self._alone_sessions, brief=False, turn=turn)
        try:
            await self._answer({request: job}, work)
        finally:
            del self._turns[request]
            self._waiting_told.discard(request)

    def _tell_who_waits(self) -> None:
        waiting = [request for jobs in self._large.waiting.values() for request in jobs]
        for request in waiting:
            if request not in self._waiting_told:
                self._send_back(request)

    def _send_back(self, request: Request) -> None:
        """Answer a job of the large line that it waits; its pass tells so, and comes again."""
        job = self._large.waiting.get(request.namespace, {}).get(request)
        if job is not None:
            self._large.drop(request)
            self._waiting_told.add(request)
            self._callbacks.answered(request, CrowdedError(job.username))

    def hurry(self, request: Request) -> None:
        """End the turn of a request after its present piece; one that waits is answered at once.

        Its access has changed meanwhile: it may be deleted, and then its login goes first.
        """
        if request in self._large.waiting.get(request.namespace, {}):
            self._send_back(request)
        elif request in self._turns:
            self._turns[request].end()

    async def _do_batch(self, batch: Mapping[Request, Job]) -> None:
        checks: dict[Request, Check] = {}
        syncs: dict[Request, Sync] = {}
        plans: dict[Request, PlanOnly] = {}
        for request, job in batch.items():
            match job:
                case Check():
                    checks[request] = job
                case Sync():
                    syncs[request] = job
                case PlanOnly():
                    plans[request] = job
        await asyncio.gather(
            self._answer(checks, self._check),
            self._answer(syncs, self._sync, brief=True),
            self._answer(plans, self._plan, brief=True),
        )

    async def _do_alone(self, batch: Mapping[Request, Job]) -> None:
        """Do the job of one access, with patient lock timeouts."""
        for request, job in batch.items():
            if isinstance(job, Drop):
                await self._remove({request: job}, brief=False)
            elif isinstance(job, Rotate):
                await self._rotate({request: job}, brief=False)
            elif isinstance(job, Sync):
                await self._answer({request: job}, self._sync_alone)

    async def _check(self, jobs: Iterable[Check]) -> Mapping[str, Answer]:
        """Check claims; after a refused password one access of a namespace at a time sets another.

        A namespace is no matter of the others: it may ask for a password that no policy allows.
        """
        checks = [*jobs]
        answers: dict[str, Answer] = {**await check_claims(self._sessions, checks)}
        refusal = refused_before(plain=self.place.endpoint.plain_passwords)
        tried: set[str] = set()
        for job in checks:
            namespace = job.claim.namespace
            pace = self._passwords.get(namespace)
            if pace is None or job.keeps_password or answers[job.username] is not None:
                continue
            if pace.is_early or namespace in tried:
                answers[job.username] = refusal
            tried.add(namespace)
        return answers

    def _note_password(self, namespace: str, answer: Answer) -> None:
        """Note whether the server takes the passwords of a namespace."""
        if isinstance(answer, AccessError) and answer.reason == PASSWORD_REFUSED:
            self._passwords.setdefault(namespace, AttemptPace()).refuse()
        elif isinstance(answer, Synced) and answer.created:
            self._passwords.pop(namespace, None)

    async def _sync(self, jobs: Iterable[Sync]) -> Mapping[str, Answer]:
        return await self._sync_with(self._sessions, jobs, brief=True)

    async def _sync_alone(self, jobs: Iterable[Sync]) -> Mapping[str, Answer]:
        return await self._sync_with(self._alone_sessions, jobs, brief=False)

    async def _sync_with(
        self,
        sessions: Sessions,
        jobs: Iterable[Sync],
        *,
        brief: bool,
        turn: PiecesTurn | None = None,
    ) -> Mapping[str, Answer]:
        syncs = [*jobs]
        free = [job for job in syncs if job.approved is None]
        approved = [job for job in syncs if job.approved is not None]
        synced: Mapping[str, Answer] = {}
        if free:
            synced = await self._sync_in(sessions, free, brief=brief, turn=turn)
        # Each by itself, for the statements of several accesses together were not approved.
        for job in approved:
            if brief and job.approved is not None and job.approved.has_windows:
                synced = {**synced, job.username: CrowdedError(job.username)}
                continue
            async with self._of_one_server(brief=brief) as fresh:
                answers = await self._sync_in(fresh, [job], brief=brief, turn=turn)
            synced = {**synced, **answers}
        return synced

    async def _sync_in(
        self, sessions: Sessions, syncs: Sequence[Sync], *, brief: bool, turn: PiecesTurn | None
    ) -> Mapping[str, Answer]:
        held_back = await self._held_back(sessions, syncs, most=bounds.CROWD if brief else None)
        states = [job.state for job in syncs if job.username not in held_back]
        if not states:
            return held_back
        answers = await sync(
            sessions,
            states,
            self._looks.verifiers,
            at_once=max(1, self._callbacks.connections() - 1),
            brief=brief,
            turn=turn,
            approval=syncs[0].approved,
        )
        for state in states:
            answers[state.username] = await retire(
                sessions, state, answers[state.username], brief=brief
            )
        return {**answers, **held_back}

    @asynccontextmanager
    async def _of_one_server(self, *, brief: bool) -> AsyncIterator[Sessions]:
        """Give out new sessions, all of the one server to which the address leads now.

        A session that is kept may be of the server before, and an approval is of one of them.
        """
        sessions = Sessions(
            self.place.endpoint,
            self._metrics.tally,
            brief=brief,
            check=self._callbacks.check,
            same=True,
            attempts=self._callbacks.attempts,
            room=self._room,
        )
        try:
            yield sessions
        finally:
            await sessions.close()

    async def _held_back(
        self, sessions: Sessions, jobs: Iterable[Sync | Rotate], *, most: int | None = None
    ) -> Mapping[str, Answer]:
        """Return the answers of accesses for which a statement would run without an approval.

        Their plans were approved before their Secrets were written and before this job waited for
        the server, which may have changed meanwhile.
        """
        answers: dict[str, Answer] = {}
        for job in jobs:
            if job.approved is None:
                continue
            plan = await self._planned(
                sessions,
                job.state,
                most=most,
                parts=job.approved.parts,
                # Each window is compared with the approval right before its statements.
                held_objects=not job.approved.has_windows,
            )
            if not isinstance(plan, ShownPlan) or not plan.is_within(job.approved):
                answers[job.username] = plan
        return answers

    async def _planned(
        self,
        sessions: Sessions,
        state: WantedState,
        *,
        most: int | None = None,
        parts: Collection[str] = (),
        held_objects: bool = True,
    ) -> ShownPlan | AccessError:
        verifiers = self._looks.verifiers
        try:
            return await plan_accesses(
                sessions, [state], verifiers, most=most, parts=parts, held_objects=held_objects
            )
        except AccessError as error:
            return error

    async def _plan(self, jobs: Iterable[PlanOnly]) -> Mapping[str, Answer]:
        async with self._of_one_server(brief=True) as sessions:
            return {
                job.username: await self._planned(
                    sessions, job.state, most=bounds.CROWD, parts=job.parts
                )
                for job in jobs
            }

    async def _plan_large(self, jobs: Iterable[PlanOnly]) -> Mapping[str, Answer]:
        async with self._of_one_server(brief=False) as sessions:
            return {
                job.username: await self._planned(sessions, job.state, parts=job.parts)
                for job in jobs
            }

    async def _remove(self, batch: Mapping[Request, Job], *, brief: bool) -> None:
        async def remove(drops: Iterable[Drop]) -> Mapping[str, Answer]:
            for drop in drops:
                for username in filter(None, (drop.former, drop.username)):
                    await cleanup(
                        sessions,
                        username,
                        drop.claim,
                        drop.policy,
                        orphan_to=drop.orphan_to,
                        databases=drop.databases,
                        begun=drop.begun,
                        brief=brief,
                    )
            return {}

        sessions = self._sessions if brief else self._alone_sessions
        drops = {request: job for request, job in batch.items() if isinstance(job, Drop)}
        await self._answer(drops, remove, brief=brief)

    async def _rotate(self, batch: Mapping[Request, Job], *, brief: bool) -> None:
        async def change(rotations: Iterable[Rotate]) -> Mapping[str, Answer]:
            answers: dict[str, Answer] = {}
            for job in rotations:
                answers[job.username] = None
                try:
                    if job.approved is None:
                        await rotate(sessions, job.state, verifiers, job.publish, brief=brief)
                        continue
                    async with self._of_one_server(brief=brief) as fresh:
                        held_back = await self._held_back(fresh, [job])
                        answers.update(held_back)
                        if not held_back:
                            await rotate(fresh, job.state, verifiers, job.publish, brief=brief)
                # The server is not at fault: the other jobs go on.
                except UnpublishedError as error:
                    answers[job.username] = error
            return answers

        sessions = self._sessions if brief else self._alone_sessions
        verifiers = self._looks.verifiers
        rotations = {request: job for request, job in batch.items() if isinstance(job, Rotate)}
        await self._answer(rotations, change, brief=brief)

    async def _answer(
        self,
        jobs: Mapping[Request, T],
        work: Callable[[Iterable[T]], Awaitable[Mapping[str, Answer]]],
        *,
        brief: bool = False,
    ) -> None:
        """Do jobs, and give each one its answer; a failure of the batch is the answer to all.

        After a ``brief`` try a job that another session blocks, or that takes long by itself, is
        done again alone.
        """
        if not jobs:
            return
        answers: Mapping[str, Answer] = {}
        failure: Exception | None = None
        try:
            async with asyncio.timeout(bounds.BATCH_SECONDS):
                answers = await _completed(tuple(jobs.values()), work)
        except TimeoutError:
            failure = AccessError(
                "TimedOut",
                f"the server did not finish the work in {bounds.BATCH_SECONDS:g} s; trying again",
            )
        except Exception as error:  # noqa: BLE001 - the pass that gets it tells of it
            failure = error
        if self._closed:
            # The error of a session that is lost during the cancellation hides the cancellation.
            # No pass waits for an answer any more.
            raise asyncio.CancelledError
        self._count_failure(failure)
        for request, job in jobs.items():
            username = job.username
            answer = answers.get(username, failure)
            if brief and is_crowded(answer):
                self._large.put(request, job)
                continue
            if brief and may_succeed_alone(job, answer, own=username in answers):
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
            self._note_password(request.namespace, answer)
            self._callbacks.answered(request, answer)
        self.begin()

    def _count_failure(self, failure: Exception | None) -> None:
        """Count whether the server was reached, with None for no failure."""
        # All endpoints of a PostgresServer count as one server.
        self._metrics.reached(failure, "" if self.place.is_trusted else self)

    async def _look_until_done(self) -> None:
        while self._look_again:
            self._look_again = False
            async with self._slot or nullcontext():
                await self._looks.compare(self.look_soon)


async def _completed(
    jobs: Sequence[J],
    work: Callable[[Iterable[J]], Awaitable[Mapping[str, Answer]]],
) -> Mapping[str, Answer]:
    """Do jobs, and again those whose session ended meanwhile: a new login tells why.

    Sessions that rest side by side end side by side, and the next try may get another of these.
    """
    answers: dict[str, Answer] = {}
    left = jobs
    for tries_left in reversed(range(bounds.SESSIONS_LOST)):
        try:
            answers |= await _divided(left, work)
        except AccessError as error:
            if tries_left and isinstance(error, SessionEndedError):
                continue
            if not answers:
                raise
            answers |= {job.username: error for job in left}
            break
        left = [job for job in left if has_lost_session(answers.get(job.username))]
        if not left:
            break
    return answers


async def _divided(
    jobs: Sequence[J],
    work: Callable[[Iterable[J]], Awaitable[Mapping[str, Answer]]],
) -> Mapping[str, Answer]:
    """Do jobs together, by halves where a batch is too large, so that only its cause fails."""
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
