"""Evaluation of one binding's definitions, within bounds.

Definitions are a tenant's, or those of the owner of a kind. So one budget holds for all of them,
and the pass gives way to others now and then. Several definitions may have one path, or read one
Secret: that is worked out once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from fairlead.api.jsonpath import Budget, JSONPath, JSONPathError, print_results
from fairlead.api.meta import JSON
from fairlead.binding.services.definitions import DataReader, Definition, apply
from fairlead.binding.services.items import decode_data


MOST_VALUES = 2_000_000
"""Values that all definitions of one binding look at together: less than a second of work."""
AT_ONCE = 50_000
"""Values after which others may work: some 20 ms."""
_CHARACTERS = 4
"""Characters of printed text that take as long as looking at a value."""


class Evaluations:
    """The evaluations of one pass over one binding; ``give_way`` lets others work."""

    def __init__(self, give_way: Callable[[], Awaitable[None]]) -> None:
        self._give_way = give_way
        self._budget = Budget(
            MOST_VALUES,
            f"the definitions of the binding look at more than {MOST_VALUES:,} values together;"
            " have fewer of them filter or descend, or shorten the lists that they go through",
        )
        self._values: dict[tuple[str, ...], list[Any] | JSONPathError] = {}
        self._decoded: dict[tuple[str, ...], dict[str, bytes]] = {}
        self._given_way_at = MOST_VALUES

    async def found(
        self, definition: Definition, service: JSON, reader: DataReader
    ) -> JSON | None:
        """What a definition finds in a service, None where it is optional and finds nothing.

        Raises:
            CollectError: it does not fit the service.
            ReadError: a Secret or ConfigMap it refers to cannot be read.
            ValueError: a Secret's entry is not base64.
        """
        await self._rest()
        return await apply(definition, service, self, reader)

    async def values(self, path: str, service: JSON) -> list[Any]:
        """The values of a path alone; of a template with more in it, the one printed text.

        Raises:
            JSONPathError: the path cannot be read, or does not fit the service.
        """
        key = (path, *_identity(service))
        if key not in self._values:
            await self._rest()
            try:
                self._values[key] = self._evaluate(path, service)
            except JSONPathError as error:
                self._values[key] = error
        found = self._values[key]
        if isinstance(found, JSONPathError):
            raise found
        return found

    def decoded(self, secret: JSON) -> dict[str, bytes]:
        """The entries of a Secret, decoded once.

        Raises:
            ValueError: an entry is not base64.
        """
        key = _identity(secret)
        if key not in self._decoded:
            self._decoded[key] = decode_data(secret)
        return self._decoded[key]

    def spend(self, values: int = 0, text: str = "") -> None:
        """Look at so many values, or print a text.

        Raises:
            BudgetExhausted: there are no more to look at.
        """
        self._budget.spend(values + len(text) // _CHARACTERS)

    async def _rest(self) -> None:
        if self._given_way_at - self._budget.left >= AT_ONCE:
            self._given_way_at = self._budget.left
            await self._give_way()

    def _evaluate(self, path: str, service: JSON) -> list[Any]:
        results = JSONPath(path).find(service, self._budget)
        if len(results) == 1:
            return results[0]
        text = print_results(results)
        self.spend(text=text)
        return [text]


def _identity(service: JSON) -> tuple[str, ...]:
    meta = service.get("metadata") or {}
    names = (meta.get("namespace"), meta.get("name"), meta.get("uid"))
    return tuple(map(str, (service.get("apiVersion"), service.get("kind"), *names)))
