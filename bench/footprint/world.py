"""What is measured of programs: a world of theirs says how objects come and change in it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from bench.footprint.replicas import Replicas


CONNECTIONS = 32
"""Requests of the load under way at once."""
BULK = 10_000
"""Objects from which they are loaded in bulk, where that is quicker than to have programs work."""
REAL = 10_000
"""Objects up to which planes are real; more are on sandboxes."""


class World(Protocol):
    """Programs at work."""

    @property
    def replicas(self) -> Sequence[Replicas]:
        """Those that are measured."""
        ...

    @property
    def probes(self) -> Mapping[str, Callable[[], Awaitable[object]]]:
        """A change that one program has to do something for, by its name, until that is done."""
        ...

    async def load(self, objects: int) -> None:
        """Have so many objects there, and wait until programs have done what they have to."""
        ...

    async def change(self, changes: int) -> int:
        """Make about so many changes, and wait until all have had their effect; the number."""
        ...


Kind = Callable[[str], AbstractAsyncContextManager[World]]
"""A world on a kind of plane."""
