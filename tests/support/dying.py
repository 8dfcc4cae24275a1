"""A client that dies in the middle of its work, as a process that is killed does."""

from __future__ import annotations

import asyncio
from typing import Any

from fairlead.api.meta import Object
from fairlead.client import Client


class KilledError(Exception):
    """Nothing of what was begun is finished."""


class DyingClient(Client):
    """Writes so often, and then no more; ``dead`` is set when it would have to."""

    def __init__(self, *args: Any, writes: int, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.left = writes
        self.dead = asyncio.Event()

    def _spend(self) -> None:
        if not self.left:
            self.dead.set()
            raise KilledError
        self.left -= 1

    async def create(self, *args: Any, **kwargs: Any) -> Object:
        self._spend()
        return await super().create(*args, **kwargs)

    async def update(self, *args: Any, **kwargs: Any) -> Object:
        self._spend()
        return await super().update(*args, **kwargs)

    async def merge_patch(self, *args: Any, **kwargs: Any) -> Object:
        self._spend()
        return await super().merge_patch(*args, **kwargs)

    async def delete(self, *args: Any, **kwargs: Any) -> None:
        self._spend()
        await super().delete(*args, **kwargs)
