"""Takes one object and its copy step by step to where they should be, and tells on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from fairlead.api.meta import Key
from fairlead.api.resource import Resource
from fairlead.konnector.conflicts import Conflicts
from fairlead.konnector.metrics import Pass, SyncMetrics
from fairlead.konnector.policies import bound as spec
from fairlead.konnector.policies.steps import (
    TERMINAL,
    AskNamespace,
    CreateProvider,
    Done,
    Refuse,
    Sides,
    Step,
    UpdateProvider,
    UpdateStatus,
    Wait,
)
from fairlead.konnector.sync.execution import Executor
from fairlead.konnector.syncer import status
from fairlead.runtime import Result


_MOST_STEPS = 12
"""More than any object needs in one pass."""
LONG = 10.0
"""Seconds after which a deletion says what it waits for."""


class Walker:
    """What happens to the objects of one resource of one binding.

    ``tell`` makes an Event of a reason and a message on the consumer's object.
    """

    def __init__(
        self,
        executor: Executor,
        resource: Resource,
        metrics: SyncMetrics,
        *,
        conflicts: Conflicts,
        source: str,
        tell: Callable[[Sides, str, str], None],
    ) -> None:
        self._executor = executor
        self._resource = resource
        self._metrics = metrics
        self._conflicts = conflicts
        self._source = source
        self._tell = tell
        self._waiting: dict[Key, float] = {}
        self._in_sync: set[Key] = set()

    async def walk(self, key: Key, sides: Sides) -> Result | None:
        """Do what can be done now; the result says when to look again.

        Raises:
            ClientError: a server refused or cannot be reached.
        """
        self._in_sync.discard(key)
        with self._metrics.looking(key) as look:
            return await self._steps(key, sides, look)

    def count(self) -> None:
        """Have the metrics say how many objects are in sync, and in conflict."""
        self._metrics.in_sync(len(self._in_sync))
        self._metrics.conflicts(self._conflicts.count(self._metrics.binding, self._source))

    async def _steps(self, key: Key, sides: Sides, look: Pass) -> Result | None:
        waits = False
        for _ in range(_MOST_STEPS):
            compared = self._executor.compare(key, sides)
            step = spec.next_step(compared)
            self._note(key, step)
            if isinstance(step, Refuse):
                self._tell(sides, step.reason, step.message)
                return None
            if isinstance(step, TERMINAL):
                waits = isinstance(step, Wait)
                step = status.next_step(compared)
            if isinstance(step, Done):
                break
            after = await self._executor.carry_out(key, step, compared)
            _crossed(step, look)
            if after is None:
                return None
            sides = after
        else:
            raise RuntimeError(f"{self._resource} {key} does not settle")
        return self._settled(key, sides, look, waits=waits)

    def _settled(self, key: Key, sides: Sides, look: Pass, *, waits: bool) -> Result | None:
        """There is nothing more to do until something happens."""
        if waits:
            look.unfinished()
            return self._wait(key, sides) if sides.provider is not None else None
        self._waiting.pop(key, None)
        if sides.consumer is None and sides.provider is None:
            self._executor.forget(key)
        if sides.consumer is not None and sides.provider is not None:
            self._in_sync.add(key)
        return None

    def _note(self, key: Key, step: Step) -> None:
        """Keep the binding's list of conflicts."""
        reason = step.reason if isinstance(step, Refuse) else ""
        name = f"{self._resource.kind} {key}"
        self._conflicts.report(self._metrics.binding, self._source, name, reason)

    def _wait(self, key: Key, sides: Sides) -> Result:
        """A deletion over there that takes long is told on the object, once."""
        now = asyncio.get_running_loop().time()
        since = self._waiting.setdefault(key, now)
        if now - since < LONG or sides.provider is None:
            return Result(LONG)
        finalizers = ", ".join(sides.provider.meta.finalizers) or "none"
        self._tell(
            sides,
            "DeletionPending",
            f"waiting until {sides.provider.kind} {sides.provider.key} on the provider is gone; "
            f"it is being deleted and has these finalizers: {finalizers}",
        )
        return Result()


def _crossed(step: Step, look: Pass) -> None:
    match step:
        case CreateProvider() | UpdateProvider():
            look.spec_crossed()
        case UpdateStatus():
            look.status_crossed()
        case AskNamespace():
            look.unfinished()
