"""Evaluation of one binding's definitions, within a budget.

Definitions come from tenants or from owners of kinds, and are not trusted. So one budget bounds
all of them, and the pass yields to others at intervals. Paths and Secrets that several definitions
use are evaluated once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from fairlead.api.jsonpath import Budget, JSONPath, JSONPathError, print_results
from fairlead.api.meta import JSON
from fairlead.binding import bounds
from fairlead.binding.services.definitions import DataReader, Definition, apply
from fairlead.binding.services.items import decode_data


_CHARACTERS = 4
"""Number of printed characters that cost as much as visiting a value."""


class Evaluations:
    """The evaluations of one pass; ``give_way`` lets other passes work."""

    def __init__(self, give_way: Callable[[], Awaitable[None]]) -> None:
        self._give_way = give_way
        self._budget = Budget(
            bounds.VALUES,
            f"the definitions of the binding read more than {bounds.VALUES:,} values together;"
            " filter and descend in fewer of them, or shorten the lists that they go through",
        )
        self._values: dict[tuple[str, ...], list[Any] | JSONPathError] = {}
        self._decoded: dict[tuple[str, ...], dict[str, bytes]] = {}
        self._given_way_at = bounds.VALUES

    async def evaluate(
        self, definition: Definition, service: JSON, reader: DataReader
    ) -> JSON | None:
        """Evaluate a definition in a service; return None if it is optional and finds nothing.

        Raises:
            CollectError: the definition does not fit the service.
            ReadError: a Secret or ConfigMap it refers to cannot be read.
            ValueError: a Secret's entry is not base64.
        """
        await self._rest()
        return await apply(definition, service, self, reader)

    async def values(self, path: str, service: JSON) -> list[Any]:
        """Return the values of a plain path; of a template with text the printed result.

        Raises:
            JSONPathError: the path is invalid, or does not fit the service.
        """
        key = (path, *_identity(service))
        if key not in self._values:
            await self._rest()
            try:
                self._values[key] = self._evaluate(path, service)
            except JSONPathError as error:
                # Errors are kept as well: a path that fails costs as much as one that does not.
                self._values[key] = error
        value = self._values[key]
        if isinstance(value, JSONPathError):
            raise value
        return value

    def decoded(self, secret: JSON) -> dict[str, bytes]:
        """Return the entries of a Secret, decoded once.

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
            BudgetExhausted: the budget is exceeded.
        """
        self._budget.spend(values + len(text) // _CHARACTERS)

    async def _rest(self) -> None:
        if self._given_way_at - self._budget.left >= bounds.VALUES_AT_ONCE:
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
