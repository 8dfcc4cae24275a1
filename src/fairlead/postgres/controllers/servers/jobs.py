"""Jobs for servers, their answers, and the lines in which jobs wait for a server.

Two jobs about the same role never run at once, whatever their lines are. Namespaces take turns, so
that one with many or long jobs does not delay the others by all of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

import msgspec

from fairlead.api.postgresaccess import CleanupPolicy
from fairlead.postgres.controllers.rules.desired import ServerPlace
from fairlead.postgres.database.connections.attempts import Attempts
from fairlead.postgres.database.connections.failures import SessionEndedError
from fairlead.postgres.database.connections.rooms import SessionRooms
from fairlead.postgres.database.connections.sessions import Sessions
from fairlead.postgres.database.plans.approvals import Approval
from fairlead.postgres.database.plans.logins import family
from fairlead.postgres.database.plans.plan import ShownPlan, Synced, WantedState
from fairlead.postgres.database.plans.server_plan import CrowdedError
from fairlead.postgres.database.plans.snapshot import RoleClaim
from fairlead.postgres.database.work.sync import Check
from fairlead.postgres.errors import AccessError
from fairlead.postgres.metrics import PostgresMetrics
from fairlead.runtime import Request


Removal = CleanupPolicy | Literal["Fence"]
"""Ways to remove a role; Fence takes only its LOGIN, and keeps role and claim."""

_WORTH_ANOTHER_TRY = frozenset({"Locked", "TimedOut", "OutOfMemory"})
"""Reasons of grants that failed in a brief try and may succeed in a patient one."""
Answer = Synced | ShownPlan | AccessError | Exception | None
"""Answer to a job; each job tells its own. None is a job that is done and has nothing to tell."""


class _OfWanted(msgspec.Struct, frozen=True):
    state: WantedState

    @property
    def username(self) -> str:
        """Return the username of the role."""
        return self.state.username

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of all its roles."""
        return self.state.names


class _Approvable(_OfWanted, frozen=True, kw_only=True):
    """A job of which no statement is run if one was not ``approved``.

    Nor is any on another server than that of the plan. Then the answer is the ShownPlan of now.
    """

    approved: Approval | None = None


class Sync(_Approvable, frozen=True):
    """Bring an access into the server; the answer is a Synced with refused grants, or an error."""


class Rotate(_Approvable, frozen=True):
    """Change the password of the login; ``publish`` writes the Secret before the commit.

    The answer is None or an error, an :class:`UnpublishedError` where the Secret was refused.
    """

    publish: Callable[[], Awaitable[None]]


class UnpublishedError(Exception):
    """The Secret was not written; ``cause`` is the error."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


class Drop(NamedTuple):
    """Remove the role by the policy; ``denied`` tells why it differs from the spec's policy.

    ``databases`` are some that may let the administrator in. ``lost`` is the error in the
    credentials, where the endpoint has those that were known last. ``begun`` says that an earlier
    turn has dropped objects of the role. ``former`` is another username that the
    role may have. The answer is None, or an error. An OwnsObjects lists the objects that block the
    removal; an UnfinishedError asks for another turn.
    """

    username: str
    claim: RoleClaim
    policy: Removal
    orphan_to: str = ""
    denied: str = ""
    databases: tuple[str, ...] = ()
    lost: AccessError | None = None
    begun: bool = False
    former: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of all its roles."""
        return (*family(self.username), *(family(self.former) if self.former else ()))


class PlanOnly(_OfWanted, frozen=True, kw_only=True):
    """Plan the statements for an access; the answer is a ShownPlan or an error.

    ``parts`` has the hashes of the parts of its former plan, whose windows are looked at again.
    """

    parts: tuple[str, ...] = ()


Job = Check | Sync | Rotate | Drop | PlanOnly


def may_succeed_alone(job: Job, answer: Answer, *, own: bool) -> bool:
    """Whether a patient try of a job alone may succeed where the brief one failed.

    Args:
        job: the job of the brief try.
        answer: its answer.
        own: whether the answer is about this job, and not the failure of its whole batch.
    """
    match answer:
        case Synced():
            return any(problem.reason in _WORTH_ANOTHER_TRY for problem in answer.problems)
        case AccessError(reason="Locked"):
            # A plan takes no lock.
            return not isinstance(job, PlanOnly)
        case AccessError(reason="TimedOut"):
            # A removal never shares a batch, so that even a failure of its batch is its own. A
            # whole batch of syncs that timed out tells of a server that hangs.
            return isinstance(job, Drop) or (own and isinstance(job, Sync))
    return False


def is_crowded(answer: Answer) -> bool:
    """Whether an access has more objects or privileges than a batch has time for."""
    errors = answer.problems if isinstance(answer, Synced) else (answer,)
    return any(isinstance(error, CrowdedError) for error in errors)


def has_lost_session(answer: Answer) -> bool:
    """Whether a session ended in the middle of a job, so that a new one may do the rest."""
    errors = answer.problems if isinstance(answer, Synced) else (answer,)
    return any(isinstance(error, SessionEndedError) for error in errors)


class Roles:
    """The names of roles under work."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._freed = asyncio.Event()

    def are_free(self, job: Job) -> bool:
        """Whether no role of the job is under work."""
        return self._names.isdisjoint(job.names)

    def begin(self, job: Job) -> None:
        """Note that the roles of the job are under work."""
        self._names.update(job.names)

    def end(self, jobs: Iterable[Job]) -> None:
        """Note that the work on the roles of jobs has ended, and wake the lines that wait."""
        jobs = list(jobs)
        if not jobs:
            return
        for job in jobs:
            self._names.difference_update(job.names)
        freed, self._freed = self._freed, asyncio.Event()
        freed.set()

    async def freed(self) -> None:
        """Wait until some work has ended."""
        await self._freed.wait()

    @property
    def names(self) -> frozenset[str]:
        """Names of the roles that are under work now."""
        return frozenset(self._names)


class Line:
    """Jobs that wait for the same kind of work, one for each request."""

    def __init__(self, roles: Roles) -> None:
        self._roles = roles
        self.waiting: dict[str, dict[Request, Job]] = {}
        """Jobs that wait, by namespace."""
        self._at_work = 0

    def __len__(self) -> int:
        """Return the number of jobs that wait or are at work."""
        return sum(map(len, self.waiting.values())) + self._at_work

    def put(self, request: Request, job: Job) -> None:
        """Add a job, in place of an older one of the same request."""
        self.waiting.setdefault(request.namespace, {})[request] = job

    def drop(self, request: Request) -> None:
        """Remove the job of a request."""
        jobs = self.waiting.get(request.namespace, {})
        jobs.pop(request, None)
        if not jobs:
            self.waiting.pop(request.namespace, None)

    def take(self, most: int) -> dict[Request, Job]:
        """Return the next jobs, whose roles are under work until :meth:`done`."""
        batch: dict[Request, Job] = {}
        turns = {namespace: iter(jobs.items()) for namespace, jobs in self.waiting.items()}
        while turns and len(batch) < most:
            for namespace, jobs in list(turns.items()):
                next_request = self._next(jobs) if len(batch) < most else None
                if next_request is None:
                    del turns[namespace]
                    continue
                request, job = next_request
                batch[request] = job
                self._roles.begin(job)
        for request in batch:
            # A namespace that was served comes last in the next turn.
            left = self.waiting.pop(request.namespace)
            del left[request]
            if left:
                self.waiting[request.namespace] = left
        self._at_work += len(batch)
        return batch

    def _next(self, jobs: Iterator[tuple[Request, Job]]) -> tuple[Request, Job] | None:
        return next((one for one in jobs if self._roles.are_free(one[1])), None)

    def done(self, batch: dict[Request, Job]) -> None:
        """Free the roles of jobs that are done or go into another line."""
        self._at_work -= len(batch)
        self._roles.end(batch.values())


Sweep = Callable[[ServerPlace, Sessions, Mapping[str, RoleClaim]], Awaitable[None]]
"""A function that checks the installation's claims on a server for those without an object."""


class WorkCallbacks(NamedTuple):
    """The callbacks of the work into the operator.

    ``answered`` takes the answer to a job, ``differs`` the request of an access that has drifted.
    ``interval`` returns seconds, ``connections`` the limit of connections to one server. ``check``
    raises where this process may not write any more. ``large`` lets one role with very many
    privileges be worked on at a time, whatever its server; None for one at each server.
    ``attempts`` are those at all servers, and ``rooms`` bound the sessions at each address.
    """

    answered: Callable[[Request, Answer], None]
    differs: Callable[[Request], None]
    sweep: Sweep
    installation: Callable[[], Awaitable[str]]
    interval: Callable[[], float]
    metrics: PostgresMetrics
    connections: Callable[[], int] = lambda: 4
    large: asyncio.Semaphore | None = None
    check: Callable[[], None] = lambda: None
    attempts: Attempts | None = None
    rooms: SessionRooms | None = None
