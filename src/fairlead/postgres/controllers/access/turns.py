"""Limit of the passes that are under way at once for one owner of connections.

A pass that waits for its server keeps its decoded object in memory. Of thousands that begin at
once, only as many are under way as keep a server busy while the API server answers the next; the
others hold their names alone.
"""

from __future__ import annotations

from collections.abc import Callable

from fairlead.runtime import Request


MOST = 250
"""Number of passes at once for one owner: a batch at the server, and writes of the one before."""
_MANY = 4
"""Factor by which waiting passes exceed the limit before it doubles: then one batch is at the
server while another one is at the API server. With fewer the memory would buy nothing."""


class PassTurns:
    """Lets some passes begin, and enqueues the others when it is their turn.

    The newest request is first: a change must not wait for the passes of a start.
    """

    def __init__(self, enqueue: Callable[[Request], None], most: int = MOST) -> None:
        self._enqueue = enqueue
        self._most = most
        self._under_way: dict[str, set[Request]] = {}
        self._later: dict[str, dict[Request, None]] = {}
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
        under_way = self._under_way.setdefault(owner, set())
        later = self._later.setdefault(owner, {})
        later.pop(request, None)
        most = self._most * (2 if len(later) > _MANY * self._most else 1)
        if len(under_way) >= most:
            later[request] = None
            return False
        under_way.add(request)
        self._owners[request] = owner
        return True

    def end(self, request: Request) -> None:
        """Note the end of a request's pass, and call the next request."""
        owner = self._owners.pop(request, None)
        if owner is None:
            return
        self._under_way[owner].discard(request)
        self._call(owner)

    def _call(self, owner: str) -> None:
        later = self._later.get(owner)
        if later:
            request, _ = later.popitem()
            self._called[request] = owner
            self._enqueue(request)
        elif not self._under_way.get(owner):
            self._under_way.pop(owner, None)
            self._later.pop(owner, None)

    def clear(self) -> list[Request]:
        """Forget all passes; return the requests that wait for their turn."""
        waiting = [request for later in self._later.values() for request in later]
        for known in (self._under_way, self._later, self._owners, self._called):
            known.clear()
        return waiting
