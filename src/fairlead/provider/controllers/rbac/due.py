"""Namespaces in which the rights of an export are still to be compared with what exists."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

from fairlead.api.meta import Key
from fairlead.client import Forbidden, Invalid


LOT = 100
"""Largest number of namespaces in one turn, which bounds the cost of the turn.

They may need more writes than one turn makes, but in most of them nothing is to be written.
"""


class Lot(NamedTuple):
    """Namespaces of one turn: obsolete rights go in all, missing ones are given in ``grant``."""

    all: frozenset[str]
    grant: frozenset[str]


class DueComparisons:
    """Comparisons of an export's rights that events have asked for, by namespace.

    The namespace "" stands for the rights in the whole cluster. ``everywhere`` says that all
    namespaces are to be compared, which are not listed yet; ``refused`` are the objects that the
    server refused to write since the last condition was told.
    """

    def __init__(self, *, everywhere: bool = False) -> None:
        self.everywhere = everywhere
        self.refused: dict[Key, Forbidden | Invalid] = {}
        # Obsolete rights go in every namespace before any is given, so that no failed write delays
        # their end.
        self._unpruned: dict[str, None] = {}
        self._ungranted: dict[str, None] = {}

    def __bool__(self) -> bool:
        return self.everywhere or bool(self._unpruned or self._ungranted)

    def add(self, namespace: str) -> None:
        """Queue one namespace for comparison."""
        if not self.everywhere:
            self._ungranted.pop(namespace, None)
            self._unpruned[namespace] = None

    def add_all(self) -> None:
        """Queue all namespaces for comparison."""
        self.everywhere = True
        self._unpruned.clear()
        self._ungranted.clear()

    def begin(self, namespaces: Iterable[str]) -> None:
        """Replace ``everywhere`` by the names of all namespaces."""
        self.everywhere = False
        self._unpruned = dict.fromkeys(namespaces)

    def take(self) -> Lot:
        """Remove the namespaces of the next turn from the queue and return them."""
        pruned = _take(self._unpruned)
        if self._unpruned:
            return Lot(frozenset(pruned), frozenset())
        grant = frozenset([*_take(self._ungranted), *pruned])
        return Lot(grant, grant)

    def put_back(self, lot: Lot) -> None:
        """Queue the namespaces of an unfinished turn again."""
        for namespace in lot.all:
            self.add(namespace)

    def finish(self, lot: Lot) -> None:
        """Mark the obsolete rights of a turn as removed; a later turn grants the missing ones."""
        # What an event has named meanwhile waits among the others.
        waiting = lot.all - lot.grant - self._unpruned.keys()
        if not self.everywhere:
            self._ungranted.update(dict.fromkeys(waiting))

    def retry_refused(self) -> None:
        """Queue the namespaces of refused objects again."""
        for key in self.refused:
            self.add(key.namespace)
        self.refused = {}


def _take(names: dict[str, None]) -> list[str]:
    taken = list(islice(names, LOT))
    for name in taken:
        del names[name]
    return taken
