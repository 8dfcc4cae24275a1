"""What is known of a reason, and tables of reasons."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec


State = Literal["ok", "failed", "waiting", "unknown"]
"""How a part stands: ``waiting`` goes on without a person, ``unknown`` was not seen."""


class Reason(msgspec.Struct, frozen=True):
    """One reason: ``what`` happened, what ``helps``, and how a part stands that has it."""

    name: str
    what: str
    helps: str = ""
    state: State = "failed"


class Reasons:
    """A table of reasons by their names.

    Raises:
        ValueError: a name stands in it twice.
    """

    def __init__(self, title: str, reasons: Iterable[Reason]) -> None:
        self.title = title
        self._known: dict[str, Reason] = {}
        for one in reasons:
            if one.name in self._known:
                raise ValueError(f"reason {one.name} stands in the table twice")
            self._known[one.name] = one

    def __iter__(self) -> Iterator[Reason]:
        return iter(self._known.values())

    def __contains__(self, name: object) -> bool:
        return name in self._known

    def what(self, name: str) -> str:
        """What has happened, in words; the reason itself where it is not known."""
        found = self._known.get(name)
        return found.what if found is not None else name

    def helps(self, name: str, default: str = "correct what the message names") -> str:
        """What helps for a reason, and ``default`` for one that says nothing of it."""
        found = self._known.get(name)
        return found.helps if found is not None and found.helps else default

    def state(self, name: str) -> State:
        """How a part stands that has a reason; an unknown reason is taken for a failure."""
        found = self._known.get(name)
        return found.state if found is not None else "failed"
