"""Limit of the passes that are under way at once for one owner of connections.

A pass that waits for its server keeps its decoded object in memory. Of thousands that begin at
once, only as many are under way as keep a server busy while the API server answers the next; the
others hold their names alone. Large accesses are one owner's, whatever their server, with a few
passes at once: a bound for each server would be none for all. Namespaces take turns, and none has
all of them: its passes may wait for long where its own sessions hold what they need.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from fairlead.postgres import bounds
from fairlead.runtime import Request


LARGE = "large accesses"
"""The owner of large accesses."""


class _Owner:
    """The passes of one owner of connections; ``most`` is the limit of each namespace."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.under_way: set[Request] = set()
        self.of_namespace: Counter[str] = Counter()
        self.later: dict[str, dict[Request, None]] = {}
        """Requests that wait, by namespace; the namespace whose turn it is comes first."""

    @property
    def waiting(self) -> list[Request]:
        """All requests that wait."""
        return [request for requests in self.later.values() for request in requests]

    def add(self, request: Request) -> None:
        self.under_way.add(request)
        self.of_namespace[request.namespace] += 1

    def discard(self, request: Request) -> None:
        self.under_way.discard(request)
        self.of_namespace[request.namespace] -= 1
        if not self.of_namespace[request.namespace]:
            del self.of_namespace[request.namespace]

    def put_off(self, request: Request) -> None:
        self.later.setdefault(request.namespace, {})[request] = None

    def drop(self, request: Request) -> None:
        requests = self.later.get(request.namespace, {})
        requests.pop(request, None)
        if not requests:
            self.later.pop(request.namespace, None)

    def has_room(self, namespace: str) -> bool:
        """Whether one more pass of a namespace may begin."""
        most = self._most
        if sum(map(len, self.later.values())) > bounds.PASSES_WAITING * most:
            most *= 2
        own, all_ = self.of_namespace[namespace], len(self.under_way)
        return own < most and all_ < most + most // bounds.OTHERS_SHARE

    def next(self) -> Request | None:
        """Take the newest request of the first namespace that has room, which is last then."""
        for namespace in self.later:
            if self.has_room(namespace):
                requests = self.later.pop(namespace)
                request, _ = requests.popitem()
                if requests:
                    self.later[namespace] = requests
                return request
        return None


class PassTurns:
    """Lets some passes begin, and enqueues the others when it is their turn.

    The newest request of a namespace is first: a change must not wait for the passes of a start.
    """

    def __init__(self, enqueue: Callable[[Request], None], most: int = bounds.PASSES) -> None:
        self._enqueue = enqueue
        self._most = most
        self._of: dict[str, _Owner] = {}
        self._owners: dict[Request, str] = {}
        self._called: dict[Request, str] = {}
        """Owner whose ended pass has freed a turn, by the request that got the turn."""

    def begin(self, request: Request, owner: str) -> bool:
        """Whether the pass of a request may begin; if not, the request is enqueued at its turn."""
        called = self._called.pop(request, owner)
        if called != owner:
            # The access has another owner now: its turn goes to the next request of the old one.
            self._call(called)
        self.end(request)
        most = bounds.LARGE_PASSES if owner == LARGE else self._most
        passes = self._of.setdefault(owner, _Owner(most))
        passes.drop(request)
        if not passes.has_room(request.namespace):
            passes.put_off(request)
            return False
        passes.add(request)
        self._owners[request] = owner
        return True

    def end(self, request: Request) -> None:
        """Note the end of a request's pass, and call the next request."""
        owner = self._owners.pop(request, None)
        if owner is None:
            return
        self._of[owner].discard(request)
        self._call(owner)

    def _call(self, owner: str) -> None:
        passes = self._of.get(owner)
        if passes is None:
            return
        request = passes.next()
        if request is not None:
            self._called[request] = owner
            self._enqueue(request)
        elif not passes.under_way:
            del self._of[owner]

    def clear(self) -> list[Request]:
        """Forget all passes; return the requests that wait for their turn."""
        waiting = [request for passes in self._of.values() for request in passes.waiting]
        for register in (self._of, self._owners, self._called):
            register.clear()
        return waiting
