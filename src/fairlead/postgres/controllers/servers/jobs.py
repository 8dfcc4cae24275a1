"""Jobs for servers, their answers, and the lines in which jobs wait for a server.

Two jobs that may want the same role are never done at once, in whatever lines they are. Namespaces
take turns, so that one with many jobs, or with jobs that take long, keeps no other waiting for all
of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

import msgspec

from fairlead.api.postgresaccess import CleanupPolicy
from fairlead.postgres.controllers.rules.desired import Place
from fairlead.postgres.database.connections.sessions import Sessions
from fairlead.postgres.database.plans.logins import family
from fairlead.postgres.database.plans.plan import Planned, Synced, Wanted
from fairlead.postgres.database.plans.snapshot import Claim
from fairlead.postgres.errors import AccessError
from fairlead.postgres.metrics import PostgresMetrics
from fairlead.runtime import Request


Removal = CleanupPolicy | Literal["Fence"]
"""The fate of a role; Fence takes its login, and leaves it and its claim."""

Answer = Synced | Planned | AccessError | Exception | None


class Check(NamedTuple):
    """May this claim have these roles, the username first? The answer is None, or why not."""

    names: tuple[str, ...]
    claim: Claim
    adopt: bool = False

    @property
    def username(self) -> str:
        """Return the username of the role."""
        return self.names[0]


class _OfWanted(msgspec.Struct, frozen=True):
    wanted: Wanted

    @property
    def username(self) -> str:
        """Return the username of the role."""
        return self.wanted.username

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of all its roles."""
        return self.wanted.names


class Sync(_OfWanted, frozen=True):
    """Bring it into the server."""


class Rotate(_OfWanted, frozen=True):
    """Change the password of the login, and ``publish`` it before that holds.

    The answer is None, or why not: an :class:`UnpublishedError` where the Secret was the reason.
    """

    publish: Callable[[], Awaitable[None]]


class UnpublishedError(Exception):
    """The Secret could not be written; the ``cause`` says why."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


class Drop(NamedTuple):
    """Remove the role as the policy says; ``denied`` is why that is not the one of the spec."""

    username: str
    claim: Claim
    policy: Removal
    orphan_to: str = ""
    denied: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of all its roles."""
        return family(self.username)


class Look(_OfWanted, frozen=True):
    """Say what would be done for it; the answer is a plan."""


Job = Check | Sync | Rotate | Drop | Look


class Roles:
    """The names of roles that are being worked on."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._freed = asyncio.Event()

    def are_free(self, job: Job) -> bool:
        """Whether no role of the job is being worked on."""
        return self._names.isdisjoint(job.names)

    def begin(self, job: Job) -> None:
        """Note that the roles of the job are being worked on."""
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
        """All of them, as they are now."""
        return frozenset(self._names)


class Line:
    """Jobs that wait for the same kind of work, one for each request."""

    def __init__(self, roles: Roles) -> None:
        self._roles = roles
        self.waiting: dict[str, dict[Request, Job]] = {}
        """Jobs that wait, by namespace."""
        self._at_work = 0

    def __len__(self) -> int:
        """How many wait or are at work."""
        return sum(map(len, self.waiting.values())) + self._at_work

    def put(self, request: Request, job: Job) -> None:
        """Have a job wait; a newer one of the same request takes the place of the older."""
        self.waiting.setdefault(request.namespace, {})[request] = job

    def drop(self, request: Request) -> None:
        """Have the job of a request wait no more."""
        jobs = self.waiting.get(request.namespace, {})
        jobs.pop(request, None)
        if not jobs:
            self.waiting.pop(request.namespace, None)

    def take(self, most: int) -> dict[Request, Job]:
        """The next jobs, whose roles are at work until :meth:`done`."""
        batch: dict[Request, Job] = {}
        turns = {namespace: iter(jobs.items()) for namespace, jobs in self.waiting.items()}
        while turns and len(batch) < most:
            for namespace, jobs in list(turns.items()):
                found = self._next(jobs) if len(batch) < most else None
                if found is None:
                    del turns[namespace]
                    continue
                request, job = found
                batch[request] = job
                self._roles.begin(job)
        for request in batch:
            # Who was served is last in the next turn.
            left = self.waiting.pop(request.namespace)
            del left[request]
            if left:
                self.waiting[request.namespace] = left
        self._at_work += len(batch)
        return batch

    def _next(self, jobs: Iterator[tuple[Request, Job]]) -> tuple[Request, Job] | None:
        return next((one for one in jobs if self._roles.are_free(one[1])), None)

    def done(self, batch: dict[Request, Job]) -> None:
        """The jobs are done, or are put into another line."""
        self._at_work -= len(batch)
        self._roles.end(batch.values())


Sweep = Callable[[Place, Sessions, Mapping[str, Claim]], Awaitable[None]]
"""Looks at all claims of ours on a server, for those that no object holds."""


class WorkCallbacks(NamedTuple):
    """The callbacks of the work into the operator.

    ``answered`` takes the answer to a job, ``differs`` a request whose access has drifted away;
    ``interval`` is in seconds, ``connections`` how many a server may have of ours at once.
    ``check`` raises where this process may not write any more.
    """

    answered: Callable[[Request, Answer], None]
    differs: Callable[[Request], None]
    sweep: Sweep
    installation: Callable[[], Awaitable[str]]
    interval: Callable[[], float]
    metrics: PostgresMetrics
    connections: Callable[[], int] = lambda: 4
    check: Callable[[], None] = lambda: None
