"""Faults on purpose: what a test asks the server to do wrong."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass

from fairlead_sandbox import errors
from fairlead_sandbox.requests.info import RequestInfo


class Disconnect(Exception):  # noqa: N818 - no error, a wish
    """Drop the connection without an answer."""


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


class Faults:
    """Fault injection of one control plane; nothing happens until asked for.

    ``verb`` is that of RBAC (get, list, watch, create, update, patch, delete, deletecollection),
    ``resource`` a plural; "*" means any. ``times`` below 0 means until :meth:`clear`.
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
        """Answer the next ``times`` such requests with this HTTP code.

        ``retry_after`` is in seconds and sets the header of that name.
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
        """Wait before answering such requests."""
        self._rules.append(_Rule(verb, resource, times, seconds=seconds))

    def clear(self) -> None:
        """Forget every failure and delay that is still to come; what is delayed goes on."""
        self._cleared.set()
        self._cleared = asyncio.Event()
        self._rules.clear()

    def drop_watches(self, resource: str = "*") -> int:
        """Cut the connections of running watches at once; how many there were."""
        found = [watch for watch in self._watches if resource in {"*", watch.resource}]
        for watch in found:
            watch.drop()
        return len(found)

    def end_watches(self, resource: str = "*") -> int:
        """End running watches as a server does whose timeout is over; how many there were."""
        found = [watch for watch in self._watches if resource in {"*", watch.resource}]
        for watch in found:
            watch.end()
        return len(found)

    def cut_event(self, resource: str = "*") -> None:
        """Send half of the next event of running watches, then cut their connections."""
        for watch in self._watches:
            if resource in {"*", watch.resource}:
                watch.cut_next = True

    def lose(self, resource: str = "*", times: int = 1) -> int:
        """Leave out the next ``times`` events of running watches; how many watches there were.

        Each goes on with what comes after, as if nothing had happened.
        """
        found = [watch for watch in self._watches if resource in {"*", watch.resource}]
        for watch in found:
            watch.lose(times)
        return len(found)

    def partition(self) -> None:
        """Cut every connection and accept none until :meth:`heal`."""
        self._partitioned = True
        for transport in list(self._connections):
            transport.abort()

    def heal(self) -> None:
        """End the partition."""
        self._partitioned = False

    def compact(self) -> None:
        """Forget all history, so that every older resourceVersion is answered with 410."""
        self._compact()

    async def apply(self, info: RequestInfo) -> None:
        """Do to a request what was asked for.

        Raises:
            StatusError: the answer that was asked for.
            Disconnect: there is a partition.
        """
        if self._partitioned:
            raise Disconnect
        for rule in self._rules:
            if rule.take(info):
                if rule.seconds:
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self._cleared.wait(), rule.seconds)
                if rule.error is not None:
                    raise rule.error
        self._rules = [rule for rule in self._rules if rule.times]

    def connected(self, transport: asyncio.Transport) -> None:
        """Note a connection, so that a partition cuts it; each of its requests tells of it."""
        self._connections[transport] = None

    def disconnected(self, transport: asyncio.Transport) -> None:
        """Forget a connection: what holds its transport holds its buffers."""
        self._connections.pop(transport, None)

    def watching(self, watch: Droppable) -> None:
        """Note a watch."""
        self._watches[watch] = None

    def unwatching(self, watch: Droppable) -> None:
        """Forget a watch."""
        self._watches.pop(watch, None)


class Droppable:
    """A running watch that faults can break; the server's stream extends it."""

    resource = ""
    cut_next = False

    def drop(self) -> None:
        """Cut the connection."""

    def end(self) -> None:
        """End the stream in good order."""

    def lose(self, times: int) -> None:
        """Leave out the next events."""
