"""The limit of provider namespaces, by consumer, and who waits until there is room.

The cache counts those that exist. It lags behind what was just made, so that a namespace has its
place from the decision to make it until the cache shows it.
"""

from __future__ import annotations

from fairlead.api.meta import Key
from fairlead.provider.watches import BY_CONSUMER
from fairlead.runtime import Informer


class NamespaceLimit:
    """Counts the provider namespaces of each consumer, and knows who waits for a place.

    ``most`` is the largest number of provider namespaces of one consumer. Keys are those of
    APIServiceNamespaces, whose namespace is the consumer's cluster namespace.
    """

    def __init__(self, namespaces: Informer, most: int) -> None:
        self._namespaces = namespaces
        self._most = most
        self._unseen: dict[str, set[Key]] = {}
        self._waiting: dict[str, dict[Key, None]] = {}

    def full(self, key: Key) -> bool:
        """Whether no namespace can be made for this APIServiceNamespace now."""
        return key not in self._unseen.get(key.namespace, ()) and self._free(key.namespace) <= 0

    def take(self, key: Key) -> bool:
        """Count the namespace that is about to be made; return whether it was not counted yet."""
        self.leave_line(key)
        unseen = self._unseen.setdefault(key.namespace, set())
        taken = key not in unseen
        unseen.add(key)
        return taken

    def settle(self, key: Key) -> None:
        """Leave it to the cache to count the namespace; there may be none, too."""
        unseen = self._unseen.get(key.namespace)
        if unseen is not None:
            unseen.discard(key)
            if not unseen:
                del self._unseen[key.namespace]

    def wait(self, key: Key) -> None:
        """Have the APIServiceNamespace wait until there is room."""
        self._waiting.setdefault(key.namespace, {})[key] = None

    def leave_line(self, key: Key) -> None:
        """Have the APIServiceNamespace wait no more."""
        waiting = self._waiting.get(key.namespace)
        if waiting is not None:
            waiting.pop(key, None)
            if not waiting:
                del self._waiting[key.namespace]

    def next(self, consumer: str) -> list[Key]:
        """Return those that have waited longest, as many as there is room for.

        They do not wait any more, and have to be looked at: one that still finds no room waits
        again.
        """
        waiting = self._waiting.get(consumer)
        if waiting is None or (free := self._free(consumer)) <= 0:
            return []
        chosen = [key for key, _ in zip(waiting, range(free), strict=False)]
        for key in chosen:
            self.leave_line(key)
        return chosen

    def _free(self, consumer: str) -> int:
        used = self._namespaces.count(BY_CONSUMER, consumer)
        return self._most - used - len(self._unseen.get(consumer, ()))
