"""Fault injection: answers, delays and broken connections that a test asks for."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass

from fairlead_sandbox import errors
from fairlead_sandbox.requests.info import RequestInfo


class Disconnect(Exception):  # noqa: N818 - asked for by a test, no error of the server
    """Makes the server abort the connection without an answer."""


@dataclass
class _Rule:
    verb: str
    resource: str
    times: int
    error: errors.StatusError | None = None
    seconds: float = 0.0

    def take(self, info: RequestInfo) -> bool:
        if self.times == 0:
            return False
        if self.verb not in {"*", info.verb} or self.resource not in {"*", info.resource}:
            return False
        # A negative number never reaches 0, so the rule matches until it is cleared.
        self.times -= 1
        return True


_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}
"""The ``reason`` of a Status by its HTTP code."""


class Faults:
    """Fault injection of one control plane; without a call of its methods nothing happens.

    ``verb`` is RBAC's (get, list, watch, create, update, patch, delete, deletecollection),
    ``resource`` a plural; "*" matches any. ``times`` is how many requests a rule hits; a negative
    number means all of them until :meth:`clear`.
    """

    def __init__(self, compact: Callable[[], None]) -> None:
        self._compact = compact
        self._rules: list[_Rule] = []
        self._partitioned = False
        self._cleared = asyncio.Event()
        self._watches: dict[Droppable, None] = {}
        self._connections: dict[asyncio.Transport, None] = {}

    def fail(
        self,
        verb: str = "*",
        resource: str = "*",
        code: int = 500,
        times: int = 1,
        retry_after: int = 0,
    ) -> None:
        """Answer the next ``times`` matching requests with this HTTP code.

        ``retry_after`` is in seconds and sets the header of that name, unless it is 0.
        """
        error = errors.StatusError(
            code,
            _REASONS.get(code, "InternalError"),
            f"injected fault: HTTP {code}",
            details={"retryAfterSeconds": retry_after} if retry_after else None,
            headers={"Retry-After": str(retry_after)} if retry_after else None,
        )
        self._rules.append(_Rule(verb, resource, times, error=error))

    def delay(self, seconds: float, verb: str = "*", resource: str = "*", times: int = -1) -> None:
        """Wait ``seconds`` before each of the next ``times`` matching requests is answered."""
        self._rules.append(_Rule(verb, resource, times, seconds=seconds))

    def clear(self) -> None:
        """Delete all rules; requests that are being delayed go on at once."""
        self._cleared.set()
        # Requests that wait hold the old event; a later delay needs one that is not set.
        self._cleared = asyncio.Event()
        self._rules.clear()

    def drop_watches(self, resource: str = "*") -> int:
        """Abort the connections of running watches at once; return their number."""
        watches = [watch for watch in self._watches if resource in {"*", watch.resource}]
        for watch in watches:
            watch.drop()
        return len(watches)

    def end_watches(self, resource: str = "*") -> int:
        """End running watches with a complete stream, as at their timeout; return their number."""
        watches = [watch for watch in self._watches if resource in {"*", watch.resource}]
        for watch in watches:
            watch.end()
        return len(watches)

    def cut_event(self, resource: str = "*") -> None:
        """Send half of the next event of each running watch, then abort its connection."""
        for watch in self._watches:
            if resource in {"*", watch.resource}:
                watch.cut_next = True

    def lose(self, resource: str = "*", times: int = 1) -> int:
        """Leave out the next ``times`` events of each running watch; return the number of watches.

        Each watch goes on with the events after them, so its client misses changes without a sign.
        """
        watches = [watch for watch in self._watches if resource in {"*", watch.resource}]
        for watch in watches:
            watch.lose(times)
        return len(watches)

    def partition(self) -> None:
        """Abort every connection and refuse each request until :meth:`heal`."""
        self._partitioned = True
        for transport in list(self._connections):
            transport.abort()

    def heal(self) -> None:
        """End the partition: answer requests again."""
        self._partitioned = False

    def compact(self) -> None:
        """Delete all history: watches from older resourceVersions are answered with 410."""
        self._compact()

    async def apply(self, info: RequestInfo) -> None:
        """Delay or fail a request as the first matching rules say.

        Raises:
            StatusError: a rule of :meth:`fail` matches.
            Disconnect: there is a partition.
        """
        if self._partitioned:
            raise Disconnect
        # Matching delays are waited out one after another, until a failure ends the request.
        for rule in self._rules:
            if rule.take(info):
                if rule.seconds:
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self._cleared.wait(), rule.seconds)
                if rule.error is not None:
                    raise rule.error
        self._rules = [rule for rule in self._rules if rule.times]

    def connected(self, transport: asyncio.Transport) -> None:
        """Register a connection, so that a partition aborts it; each of its requests does."""
        self._connections[transport] = None

    def disconnected(self, transport: asyncio.Transport) -> None:
        """Forget a closed connection; a reference to its transport would keep its buffers."""
        self._connections.pop(transport, None)

    def watching(self, watch: Droppable) -> None:
        """Register a running watch."""
        self._watches[watch] = None

    def unwatching(self, watch: Droppable) -> None:
        """Forget a watch that has ended."""
        self._watches.pop(watch, None)


class Droppable:
    """Base of a running watch that faults can break; ``server.WatchStream`` extends it."""

    resource = ""
    cut_next = False

    def drop(self) -> None:
        """Abort the connection."""

    def end(self) -> None:
        """End the stream with its last chunk."""

    def lose(self, times: int) -> None:
        """Leave out the next ``times`` events."""
