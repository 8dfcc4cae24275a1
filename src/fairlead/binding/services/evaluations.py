"""What the paths of one binding's definitions find, worked out once in a pass and within bounds.

Definitions are a tenant's, or those of the owner of a kind, and a pass begins anew with each read
that has no answer yet. So one budget holds for all of them, what was found is kept for the rest of
the pass, and the pass gives way to others now and then by asking for no read at all.
"""

from __future__ import annotations

from typing import Any

from fairlead.api.meta import JSON
from fairlead.binding.expressions import Budget, JSONPath, JSONPathError, print_results
from fairlead.binding.reads import Need


MOST_VALUES = 2_000_000
"""Values that all definitions of one binding look at together: less than a second of work."""
AT_ONCE = 50_000
"""Values after which others may work: some 20 ms."""


class Evaluations:
    """The evaluations of one pass over one binding."""

    def __init__(self) -> None:
        self._budget = Budget(
            MOST_VALUES,
            f"the definitions of the binding look at more than {MOST_VALUES:,} values together;"
            " have fewer of them filter or descend, or shorten the lists that they go through",
        )
        self._known: dict[tuple[str, ...], list[Any] | JSONPathError] = {}
        self._given_way = MOST_VALUES

    def values(self, path: str, service: JSON) -> list[Any]:
        """The values of a path alone; of a template with more in it, the one printed text.

        Raises:
            JSONPathError: the path cannot be read, or does not fit the service.
            Need: others are to work first.
        """
        meta = service.get("metadata") or {}
        names = (meta.get("namespace"), meta.get("name"), meta.get("uid"))
        kind = (service.get("apiVersion"), service.get("kind"))
        key = (path, *map(str, (*kind, *names)))
        if key not in self._known:
            self._give_way()
            try:
                self._known[key] = self._evaluate(path, service)
            except JSONPathError as error:
                self._known[key] = error
        found = self._known[key]
        if isinstance(found, JSONPathError):
            raise found
        return found

    def _give_way(self) -> None:
        if self._given_way - self._budget.left >= AT_ONCE:
            self._given_way = self._budget.left
            raise Need

    def _evaluate(self, path: str, service: JSON) -> list[Any]:
        results = JSONPath(path).find(service, self._budget)
        if len(results) == 1:
            return results[0]
        return [print_results(results)]
