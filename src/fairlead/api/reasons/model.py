"""Reasons of conditions and Events, and tables of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec


Place = Literal["", "consumer", "provider"]
"""The cluster in which the reader of a remedy is; "" where it is both, or not known."""

State = Literal["ok", "failed", "waiting", "unknown"]
"""State of an object or a step: ``waiting`` ends by itself, ``unknown`` could not be read."""


class Reason(msgspec.Struct, frozen=True):
    """A reason: its explanation, the remedy, and the state of an object that shows it.

    ``consumer`` and ``provider`` are the remedies for who reads the reason in that cluster, where
    they can do something else than ``helps`` says.
    """

    name: str
    what: str
    helps: str = ""
    state: State = "failed"
    consumer: str = ""
    provider: str = ""

    def remedy(self, place: Place = "") -> str:
        """Return the remedy for a reader in a cluster."""
        return self.of_place(place) or self.helps

    def of_place(self, place: Place) -> str:
        """Return the remedy for this place alone, "" where ``helps`` is for all."""
        return {"consumer": self.consumer, "provider": self.provider}.get(place, "")


class Reasons:
    """A table of reasons by their names.

    Raises:
        ValueError: a name stands in it twice.
    """

    def __init__(self, title: str, reasons: Iterable[Reason]) -> None:
        self.title = title
        self._by_name: dict[str, Reason] = {}
        for entry in reasons:
            if entry.name in self._by_name:
                raise ValueError(f"reason {entry.name} stands in the table twice")
            self._by_name[entry.name] = entry

    def __iter__(self) -> Iterator[Reason]:
        return iter(self._by_name.values())

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def what(self, name: str) -> str:
        """Return the explanation of a reason; the reason itself if the table lacks it."""
        entry = self._by_name.get(name)
        return entry.what if entry is not None else name

    def helps(
        self, name: str, default: str = "correct what the message names", place: Place = ""
    ) -> str:
        """Return the remedy for a reason; ``default`` if the table has none."""
        entry = self._by_name.get(name)
        return (entry.remedy(place) if entry is not None else "") or default

    def knows_place(self, name: str, place: Place) -> bool:
        """Whether a reason has a remedy of its own for who reads it in this cluster."""
        entry = self._by_name.get(name)
        return entry is not None and bool(entry.of_place(place))

    def state(self, name: str) -> State:
        """Return the state that a reason stands for; ``failed`` for a reason not in the table."""
        entry = self._by_name.get(name)
        return entry.state if entry is not None else "failed"
