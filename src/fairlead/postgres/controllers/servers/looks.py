"""Looks at one server, at an interval: each compares it with all accesses that were synchronized.

An access that differs gets a pass, which syncs it. The look itself changes nothing but roles
without an object, by the sweep of :class:`LeftoverRoles`, and groups without members.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence

import structlog

from fairlead.postgres import bounds
from fairlead.postgres.controllers.rules.desired import ServerPlace
from fairlead.postgres.controllers.servers.jobs import Roles, WorkCallbacks
from fairlead.postgres.database.connections.sessions import Sessions
from fairlead.postgres.database.reading.verifiers import Verifiers
from fairlead.postgres.database.work.drift import DriftResult, Kept, find_drift
from fairlead.postgres.database.work.groups import drop_groups
from fairlead.postgres.errors import AccessError
from fairlead.runtime import Request


_log = structlog.get_logger(logger_name="fairlead.postgres")

_TOO_MUCH = frozenset({"AnswerTooLarge", "TimedOut"})
"""Reasons after which a smaller batch may succeed."""


def is_divisible(error: AccessError, begun: float) -> bool:
    """Whether halves of the batch may succeed; a late error is from a server that hangs."""
    late = asyncio.get_running_loop().time() - begun > bounds.QUICK_SECONDS
    return error.reason in _TOO_MUCH and not late


class ServerLooks:
    """Keeps the synchronized accesses of one server, and compares all with it at once."""

    def __init__(
        self,
        place: ServerPlace,
        sessions: Sessions,
        roles: Roles,
        callbacks: WorkCallbacks,
        count_failure: Callable[[Exception | None], None],
    ) -> None:
        self._place = place
        self._sessions = sessions
        self._roles = roles
        self._callbacks = callbacks
        self._count_failure = count_failure
        self._metrics = callbacks.metrics.of(place.owner)
        self._timer: asyncio.TimerHandle | None = None
        self.verifiers = Verifiers()
        self.accesses: dict[Request, Kept | None] = {}
        """Accesses in sync; None for a large one, which a pass compares with its server."""
        self.drifted: set[str] = set()
        """Usernames of accesses that have drifted and are not synchronized again yet."""

    def close(self) -> None:
        """Cancel the next look."""
        if self._timer is not None:
            self._timer.cancel()

    async def compare(self, again: Callable[[], None]) -> None:
        """Compare the kept accesses with the server, then sweep it for roles without an object.

        Args:
            again: called after the interval, for the next look.
        """
        loop = asyncio.get_running_loop()
        spread = random.uniform(1 - bounds.JITTER, 1 + bounds.JITTER)  # noqa: S311
        self.close()
        # The timer is set before the look, so that the next one follows even after a failure.
        self._timer = loop.call_later(self._callbacks.interval() * spread, again)
        # An access at work gets its own answer.
        busy = self._roles.names
        accesses = {
            request: kept_access
            for request, kept_access in self.accesses.items()
            if kept_access is not None and busy.isdisjoint(kept_access.state.names)
        }
        large = [request for request, one in self.accesses.items() if one is None]
        usernames = {one.state.username for one in accesses.values()}
        begun, failure = loop.time(), None
        try:
            async with asyncio.timeout(bounds.BATCH_SECONDS):
                drift = await self._differences(
                    [*accesses.values()], await self._callbacks.installation()
                )
        except Exception as error:  # noqa: BLE001 - each access tells what it means for itself
            _log.warning(
                "could not compare the accesses with their server",
                server=str(self._place.endpoint),
                error=str(error),
            )
            drift, failure = DriftResult(differing=frozenset(usernames), claimed={}), error
        else:
            # The drift of accesses at work is from an earlier look, and has yet to be healed.
            self.drifted = (self.drifted & busy) | (usernames & drift.differing)
            self._metrics.seconds.observe(loop.time() - begun)
        self._count_failure(failure)
        self.verifiers.keep({one.state.login for one in accesses.values()})
        for request, kept_access in accesses.items():
            at_work = not self._roles.names.isdisjoint(kept_access.state.names)
            if kept_access.state.username in drift.differing and not at_work:
                self._callbacks.differs(request)
        for request in large:
            self._callbacks.differs(request)
        try:
            async with asyncio.timeout(bounds.BATCH_SECONDS):
                await self._callbacks.sweep(self._place, self._sessions, drift.claimed)
                if drift.deserted:
                    await drop_groups(
                        self._sessions,
                        sorted(drift.deserted),
                        await self._callbacks.installation(),
                    )
        except Exception as error:  # noqa: BLE001 - no object caused it, and the work goes on
            _log.warning(
                "could not clean up a server", server=str(self._place.endpoint), error=str(error)
            )

    async def _differences(self, kept_accesses: Sequence[Kept], installation: str) -> DriftResult:
        """Return the differences of the kept accesses; halve a batch that is too large."""
        begun = asyncio.get_running_loop().time()
        try:
            return await find_drift(self._sessions, kept_accesses, self.verifiers, installation)
        except AccessError as error:
            if not is_divisible(error, begun) or not kept_accesses:
                raise
            if len(kept_accesses) == 1:
                return DriftResult(
                    differing=frozenset({kept_accesses[0].state.username}), claimed={}
                )
        middle = len(kept_accesses) // 2
        first = await self._differences(kept_accesses[:middle], installation)
        second = await self._differences(kept_accesses[middle:], installation)
        return DriftResult(
            differing=first.differing | second.differing,
            claimed={**first.claimed, **second.claimed},
            deserted=first.deserted & second.deserted,
        )
