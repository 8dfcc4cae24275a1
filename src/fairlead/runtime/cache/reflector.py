"""Keeps a copy of a collection up to date: list, watch, resume, list again.

A reflector has two phases, list and watch; :data:`TRANSITIONS` gives the next phase by the end of
one. After a fault it waits for the back-off: only a finished list, and a watch that the server
closed in due time, are followed at once. Follows https://kubernetes.io/docs/reference/using-api/api-concepts/.
"""

from __future__ import annotations

import asyncio
import enum
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

import structlog

from fairlead.api.meta import Object
from fairlead.api.resource import Resource
from fairlead.client import limits
from fairlead.client.errors import (
    AnswerTooLarge,
    ApiError,
    ClientError,
    ConnectionFailed,
    Forbidden,
    Gone,
    NotFound,
    Unauthorized,
    UnexpectedAnswer,
)
from fairlead.client.wire import unchanged
from fairlead.runtime import delays
from fairlead.runtime.backoff import Backoff, BackoffPolicy
from fairlead.runtime.cache.store import Transform


if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from fairlead.client import ObjectList, WatchEvent


class Scope(NamedTuple):
    """Objects to watch: resource, namespace and selectors; equal scopes share one informer.

    ``transform`` shrinks each object before it is stored; None means the cluster's own, or with
    ``metadata_only`` the removal of the body.
    """

    resource: Resource
    namespace: str = ""
    labels: str = ""
    fields: str = ""
    metadata_only: bool = False
    transform: Transform | None = None

    def __str__(self) -> str:
        parts = [self.resource.group_resource]
        if self.namespace:
            parts.append(f"in namespace {self.namespace}")
        if self.labels:
            parts.append(f"with labels {self.labels}")
        if self.fields:
            parts.append(f"with fields {self.fields}")
        return " ".join(parts)


class ListWatch(Protocol):
    """Source of lists and watches, such as :class:`fairlead.client.Client`."""

    async def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        limit: int = 500,
        metadata_only: bool = False,
        arrived: Callable[[Sequence[Object]], None] | None = None,
        transform: Transform = unchanged,
    ) -> ObjectList:
        """Return all objects, and the resourceVersion of the collection.

        ``arrived`` is called with each page but the last, as it comes; ``transform`` with each
        object, before the next one is decoded.
        """
        ...

    def watch(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        resource_version: str,
        labels: str = "",
        fields: str = "",
        timeout_seconds: float | None = None,
        metadata_only: bool = False,
    ) -> AsyncIterator[WatchEvent]:
        """Return the changes after a version, until the server closes."""
        ...


_log = structlog.get_logger(logger_name="fairlead.runtime.reflector")


_WATCH_SECONDS = (300.0, 600.0)
"""Shortest and longest time of a watch in seconds; chosen at random, as in client-go."""


class Phase(enum.Enum):
    """Phase of a reflector."""

    LIST = "list"
    WATCH = "watch"


class PhaseEnd(enum.Enum):
    """End of a phase; the values are the reasons in metrics."""

    LISTED = "listed"
    CLOSED = "closed"
    SHORT = "short"
    EXPIRED = "expired"
    ABSENT = "absent"
    MISSED = "missed"
    REFUSED = "refused"
    CUT = "cut"
    BUSY = "busy"
    TOO_LARGE = "too-large"
    FAILED = "failed"


# After a fault in between, a watch resumes from the last version that was seen. When that version
# or the answer itself is in doubt, only a list tells the truth. A user who may list and must not
# watch lists now and then. A watch that has left out a change is not resumed.
_RESUMABLE = {PhaseEnd.CLOSED, PhaseEnd.SHORT, PhaseEnd.CUT, PhaseEnd.BUSY}
TRANSITIONS: dict[tuple[Phase, PhaseEnd], Phase] = {
    (Phase.LIST, PhaseEnd.LISTED): Phase.WATCH,
    **{(Phase.WATCH, outcome): Phase.WATCH for outcome in _RESUMABLE},
}
"""Next phase after the end of one; any end that is not listed leads to a list."""

# These happen to every watch once in a while, and are logged only if they go on. A CRD's objects
# are served a moment after the condition Established.
_ORDINARY = {PhaseEnd.SHORT, PhaseEnd.CUT, PhaseEnd.BUSY, PhaseEnd.EXPIRED, PhaseEnd.ABSENT}

_AT_ONCE = {PhaseEnd.LISTED, PhaseEnd.CLOSED, PhaseEnd.MISSED}


def classify(error: Exception) -> PhaseEnd:
    """Classify an exception of a list or a watch by its consequence for the reflector."""
    match error:
        case Gone():
            return PhaseEnd.EXPIRED
        case NotFound():
            return PhaseEnd.ABSENT
        case Forbidden() | Unauthorized():
            return PhaseEnd.REFUSED
        case ApiError() if error.code in {429, 503, 504}:
            return PhaseEnd.BUSY
        case AnswerTooLarge():
            return PhaseEnd.TOO_LARGE
        case UnexpectedAnswer():
            # The same version would bring the same answer; a list may not.
            return PhaseEnd.FAILED
        case ConnectionFailed() | TimeoutError():
            return PhaseEnd.CUT
    return PhaseEnd.FAILED


class Sink(Protocol):
    """Destination of the objects that a reflector sees."""

    def shrink(self, object_: Object) -> Object:
        """Return an object as it is kept."""
        ...

    async def replace(self, objects: list[Object]) -> None:
        """Replace the collection by exactly these objects, as :meth:`shrink` returns them."""
        ...

    def arrived(self, objects: Sequence[Object]) -> None:
        """Take some objects of the collection, which is still being listed, as they are kept."""
        ...

    def clear(self) -> None:
        """Remove all objects, since the resource is gone."""
        ...

    def put(self, object_: Object) -> None:
        """Take an object that is new or changed."""
        ...

    def remove(self, object_: Object) -> None:
        """Remove an object, given in its last state."""
        ...


class Reflector:
    """Feeds a sink with the objects of one scope until it is cancelled.

    ``error`` says why the sink is not up to date, "" if it is; ``cause`` is the exception.
    ``restarts`` counts the ends of lists and watches by reason.
    """

    def __init__(
        self, source: ListWatch, scope: Scope, sink: Sink, policy: BackoffPolicy | None = None
    ) -> None:
        self.error = ""
        self.cause: Exception | None = None
        self.restarts: Counter[str] = Counter()
        self._source = source
        self._scope = scope
        self._sink = sink
        self._backoff = Backoff(policy or delays.WATCH)
        self._phase = Phase.LIST
        self._version = ""
        self._absent = 0
        self._expired = False
        self._unwatched = False
        self._announced = False
        self._stood = 0.0
        self._limit: asyncio.Timeout | None = None
        self._missed = False
        self._log = _log.bind(resource=str(scope))

    async def run(self) -> None:
        """List and watch until cancelled; no fault ends it."""
        # What happened since an earlier run is unknown, and a list tells it soonest.
        self._phase = Phase.LIST
        while True:
            outcome, error = await self._attempt()
            delay = self._conclude(outcome, error)
            follows = TRANSITIONS.get((self._phase, outcome), Phase.LIST)
            self._phase = Phase.LIST if self._missed else follows
            if delay:
                await asyncio.sleep(delay)

    def relist(self) -> None:
        """End the watch and list again, since the watch has left out a change."""
        self._missed = True
        if self._limit is not None:
            # A limit that is over ends the running watch; the next phase is a list.
            self._limit.reschedule(asyncio.get_running_loop().time())

    async def _attempt(self) -> tuple[PhaseEnd, Exception | None]:
        try:
            if self._phase is Phase.LIST:
                return await self._list(), None
            return await self._watch(), None
        except Exception as error:  # noqa: BLE001
            return classify(error), error

    async def _list(self) -> PhaseEnd:
        scope, self._missed = self._scope, False
        # A server may send page after page without an end, or a byte now and then.
        unfinished = TimeoutError(
            f"the list is not complete after {limits.UNFINISHED_SECONDS:g} s"
        )
        overdue = asyncio.get_running_loop().call_later(
            limits.UNFINISHED_SECONDS, self._report, PhaseEnd.CUT, unfinished
        )
        try:
            listed = await self._source.list(
                scope.resource,
                scope.namespace,
                labels=scope.labels,
                fields=scope.fields,
                metadata_only=scope.metadata_only,
                arrived=self._sink.arrived,
                # All of a list is held until its last page is there.
                transform=self._sink.shrink,
            )
        finally:
            overdue.cancel()
        await self._sink.replace(listed.items)
        # Watching from the list's own version leaves no gap between the two.
        self._version = listed.resource_version
        # A list that works does not clear the fault of a refused watch: it stays reported.
        if not self._unwatched:
            self._progress()
        return PhaseEnd.LISTED

    async def _watch(self) -> PhaseEnd:
        loop = asyncio.get_running_loop()
        begun, self._announced = loop.time(), False
        # Watches that began together, after a restart of the server, must not all end together.
        seconds = random.uniform(*_WATCH_SECONDS)  # noqa: S311
        # Many watches hear nothing for hours: to have stood for a while counts as an answer.
        settled = loop.call_later(limits.SETTLED_SECONDS, self._settle)
        try:
            async with asyncio.timeout(seconds + limits.OVERDUE_SECONDS) as self._limit:
                await self._follow(seconds)
        except TimeoutError:
            if not self._missed:
                raise
            return PhaseEnd.MISSED
        finally:
            self._limit = None
            settled.cancel()
        self._stood = loop.time() - begun
        soon = self._stood < limits.SHORT_SECONDS
        return PhaseEnd.SHORT if soon and not self._announced else PhaseEnd.CLOSED

    async def _follow(self, seconds: float) -> None:
        scope = self._scope
        # The version is the last event's, not the list's: a resumed watch repeats no change.
        events = self._source.watch(
            scope.resource,
            scope.namespace,
            resource_version=self._version,
            labels=scope.labels,
            fields=scope.fields,
            timeout_seconds=seconds,
            metadata_only=scope.metadata_only,
        )
        async with aclosing(cast("AsyncGenerator[WatchEvent]", events)):
            await self._consume(events)

    async def _consume(self, events: AsyncIterator[WatchEvent]) -> None:
        put = self._sink.put
        first = True
        async for event in events:
            type_, object_ = event.type, event.object
            if type_ in {"ADDED", "MODIFIED"}:
                put(object_)
            elif type_ == "DELETED":
                self._sink.remove(object_)
            version = object_.meta.resource_version
            # Every event, bookmarks included, moves the version from which the next watch resumes.
            if version and version != self._version:
                self._version = version
                # Neither a bookmark nor an event that is repeated at each watch counts as a
                # change.
                self._announced = self._announced or type_ != "BOOKMARK"
            if first:
                first = False
                self._settle()

    def _settle(self) -> None:
        self._expired = self._unwatched = False
        self._progress()

    def _progress(self) -> None:
        self._absent = 0
        self._backoff.good(asyncio.get_running_loop().time())
        if self.error:
            self._log.info("informer has recovered")
        self.error, self.cause = "", None

    def _conclude(self, outcome: PhaseEnd, error: Exception | None) -> float:
        """Count and report the end of a phase; return the seconds to wait before the next one."""
        if outcome is not PhaseEnd.LISTED:
            self.restarts[outcome.value] += 1
        if outcome in _AT_ONCE:
            return 0.0
        # The server accepted this watch and closed it early: a short pause, which does not grow.
        if outcome is PhaseEnd.SHORT and self._stood >= limits.STOOD_SECONDS:
            return self._backoff.policy.delay(0)
        if self._phase is Phase.WATCH and outcome is PhaseEnd.REFUSED:
            # Lists go on, but slowly, and what the cache lacks is still said.
            self._unwatched = True
        delay = self._backoff.failed(asyncio.get_running_loop().time())
        if outcome is PhaseEnd.EXPIRED and not self._expired:
            # A server that has restarted remembers no version from before; that is no new fault.
            self._expired = True
            delay = min(delay, self._backoff.policy.initial)
        listing = self._phase is Phase.LIST and outcome is not PhaseEnd.ABSENT
        if listing or outcome not in _ORDINARY or self._backoff.failures > 1:
            self._report(outcome, error or ConnectionFailed("the server closes the watch at once"))
        self._absent = self._absent + 1 if outcome is PhaseEnd.ABSENT else 0
        # A starting server may answer 404: only after several the cached objects are dropped.
        if self._absent == limits.ABSENT_ANSWERS:
            self._sink.clear()
        # A server that says how long to stay away knows better than our back-off.
        return max(delay, getattr(error, "retry_after", None) or 0.0)

    def _report(self, outcome: PhaseEnd, error: Exception) -> None:
        if outcome is PhaseEnd.ABSENT:
            reason = "the server does not serve this resource"
        else:
            reason = str(error) or type(error).__name__
        text = f"cannot {self._phase.value} {self._scope}: {reason}"
        if text != self.error:
            unexpected = outcome is PhaseEnd.FAILED and not isinstance(error, ClientError)
            self._log.warning("informer is stuck", error=text, exc_info=unexpected and error)
        self.error, self.cause = text, error


def differences(cached: Iterable[Object], listed: list[Object]) -> list[Object]:
    """Return the known objects that are no longer listed."""
    names = {(object_.meta.namespace, object_.meta.name) for object_ in listed}
    return [
        object_ for object_ in cached if (object_.meta.namespace, object_.meta.name) not in names
    ]
