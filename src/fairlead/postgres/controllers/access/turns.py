"""How many passes are under way for one owner of connections at once.

A pass that waits for its server holds its object, decoded. Where thousands come at once, all but
some of them hold nothing yet but their names: as many are under way as keep a server at work while
the API server is asked for the next.
"""

from __future__ import annotations

from collections.abc import Callable

from fairlead.runtime import Request


MOST = 250
"""A batch of a server, and its passes that write to the API server meanwhile."""
_MANY = 4
"""Where so many times more wait, two batches are under way: one of them is at the server while the
other one is at the API server. Where fewer wait it would be memory for nothing."""


class Turns:
    """Lets some passes begin, and enqueues the others when it is their turn.

    The newest are first: what changes now shall not wait for all that was there at a start.
    """

    def __init__(self, enqueue: Callable[[Request], None], most: int = MOST) -> None:
        self._enqueue = enqueue
        self._most = most
        self._under_way: dict[str, set[Request]] = {}
        self._later: dict[str, dict[Request, None]] = {}
        self._owners: dict[Request, str] = {}
        self._called: dict[Request, str] = {}
        """Requests whose turn it is, by the owner whose pass has ended."""

    def begin(self, request: Request, owner: str) -> bool:
        """Whether a pass may begin; if not, its request comes again."""
        called = self._called.pop(request, owner)
        if called != owner:
            # It has moved since: the turn is somebody else's.
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
        """The pass is over, if one was under way."""
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
        """Forget everything; returns those that wait for their turn."""
        waiting = [request for later in self._later.values() for request in later]
        for known in (self._under_way, self._later, self._owners, self._called):
            known.clear()
        return waiting
