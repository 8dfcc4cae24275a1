"""Takes one claimed object and its copy step by step to where they should be."""

from __future__ import annotations

from collections.abc import Callable

from fairlead.api.meta import Key, Object
from fairlead.konnector.claims.execution import Executor
from fairlead.konnector.claims.steps import Create, Replace, Sides
from fairlead.konnector.conflicts import Conflicts
from fairlead.konnector.metrics import Pass, SyncMetrics
from fairlead.konnector.policies.claims import next_step
from fairlead.konnector.policies.steps import Done, Refuse, Step, Wait


_MOST_STEPS = 12
"""More than any object needs in one pass."""


class Walker:
    """What happens to the objects of one claim.

    ``selected`` says anew which sides are claimed, after one of them was read or written;
    ``tell`` makes an Event of a reason and a message on an object.
    """

    def __init__(
        self,
        executor: Executor,
        metrics: SyncMetrics,
        *,
        kind: str,
        conflicts: Conflicts,
        source: str,
        selected: Callable[[Sides], Sides],
        tell: Callable[[Object | None, str, str], None],
    ) -> None:
        self._executor = executor
        self._metrics = metrics
        self._kind = kind
        self._conflicts = conflicts
        self._source = source
        self._selected = selected
        self._tell = tell
        self._in_sync: set[Key] = set()

    async def walk(self, sides: Sides) -> None:
        """Do what can be done now.

        Raises:
            ClientError: a server refused or cannot be reached.
        """
        self._in_sync.discard(sides.key)
        with self._metrics.looking(sides.key) as look:
            await self._steps(sides, look)

    def count(self) -> None:
        """Have the metrics say how many objects are in sync, and in conflict."""
        self._metrics.in_sync(len(self._in_sync))
        self._metrics.conflicts(self._conflicts.count(self._metrics.binding, self._source))

    async def _steps(self, sides: Sides, look: Pass) -> None:
        for _ in range(_MOST_STEPS):
            compared = self._executor.compare(sides)
            step = next_step(compared)
            self._note(sides, step)
            if isinstance(step, Done | Wait | Refuse):
                break
            after = await self._executor.carry_out(step, compared)
            _crossed(step, look)
            if after is None:
                return
            sides = self._selected(after)
        else:
            raise RuntimeError(f"{self._source} {sides.key} does not settle")
        if isinstance(step, Wait):
            look.unfinished()
        if sides.consumer is None and sides.provider is None:
            self._executor.forget(sides.key)
        elif isinstance(step, Done) and _copied(sides):
            self._in_sync.add(sides.key)

    def _note(self, sides: Sides, step: Step) -> None:
        refused = step if isinstance(step, Refuse) else None
        name = f"{self._kind} {sides.key}"
        reason = refused.reason if refused else ""
        self._conflicts.report(self._metrics.binding, self._source, name, reason)
        if refused is not None:
            self._tell(sides.consumer, refused.reason, refused.message)


def _copied(sides: Sides) -> bool:
    both = sides.consumer is not None and sides.provider is not None
    return both and (sides.consumer_claimed or sides.provider_claimed)


def _crossed(step: Step, look: Pass) -> None:
    if isinstance(step, Create | Replace):
        if step.side == "provider":
            look.spec_crossed()
        else:
            look.status_crossed()
