"""Limit of watches, so that they fit into the open files of this process.

Every watch is a connection, and every connection an open file. Where the rights on the provider
are per namespace there is one watch for each namespace and kind. Watches that took all files would
leave none for writes, so that some are kept for everything else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping


_FEW = 64


class WatchBudget:
    """Decides which watches may be open; ``limit`` is the number of open files, 0 for no limit.

    Each user names the watches that it wants, each with the consumer's namespace that it serves.
    Where not all fit, namespaces are served one after the other as they came, each by all watches
    that it needs: an object needs that of its own kind and those of its claims. A watch that
    several want together is one.
    """

    def __init__(self, limit: int = 0) -> None:
        self.limit = limit
        self.reserve = max(limit // 4, min(_FEW, limit // 2))
        """Files for all but these watches: requests, other watches, logs."""
        self._wants: dict[Hashable, Mapping[str, str]] = {}
        self._users: Counter[str] = Counter()
        self._order: dict[str, int] = {}
        self._refused: frozenset[str] = frozenset()
        self._listeners: dict[Hashable, Callable[[], None]] = {}

    @property
    def needed(self) -> int:
        """The number of open files that suffices for all wanted watches."""
        return 4 * len(self._users) // 3 + _FEW

    def join(self, who: Hashable, changed: Callable[[], None]) -> None:
        """Call ``changed`` when the set of watches that may be open has changed."""
        self._listeners[who] = changed

    def leave(self, who: Hashable) -> None:
        """Remove a user and its watches."""
        self._listeners.pop(who, None)
        self.want(who, {})

    def want(self, who: Hashable, watches: Mapping[str, str]) -> None:
        """Replace the watches of one user, each with the namespace that it serves."""
        before = self._wants.pop(who, {})
        for watch in before:
            self._users[watch] -= 1
            if not self._users[watch]:
                del self._users[watch]
        if watches:
            self._wants[who] = watches
            self._users.update(watches.keys())
            for namespace in watches.values():
                self._order.setdefault(namespace, len(self._order))
        refused = self._choose()
        if refused != self._refused:
            self._refused = refused
            for other, changed in list(self._listeners.items()):
                if other != who:
                    changed()

    def allows(self, watch: str) -> bool:
        """Whether the budget lets a wanted watch be open."""
        return watch not in self._refused

    def _choose(self) -> frozenset[str]:
        places = self.limit - self.reserve
        if not self.limit or len(self._users) <= places:
            return frozenset()
        ranks: dict[str, int] = {}
        for watches in self._wants.values():
            for watch, namespace in watches.items():
                rank = self._order[namespace]
                ranks[watch] = min(rank, ranks.get(watch, rank))
        return frozenset(sorted(ranks, key=lambda watch: (ranks[watch], watch))[places:])
