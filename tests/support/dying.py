"""A client that dies in the middle of its work, as a process that is killed does."""

from __future__ import annotations

import asyncio
from typing import Any

from fairlead.api.meta import Object
from fairlead.client import Client


class KilledError(Exception):
    """Nothing of what was begun is finished."""


class DyingClient(Client):
    """Writes so often, and then no more; ``dead`` is set when it would have to.

    With ``hangs`` who writes then never hears of it, instead of a KilledError.
    """

    def __init__(self, *args: Any, writes: int, hangs: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._hangs = hangs
        self.left = writes
        self.dead = asyncio.Event()

    def kill(self) -> None:
        """Let it write no more from now on."""
        self.left = 0

    async def _spend(self) -> None:
        if not self.left:
            self.dead.set()
            if self._hangs:
                await asyncio.Event().wait()
            raise KilledError
        self.left -= 1

    async def create(self, *args: Any, **kwargs: Any) -> Object:
        await self._spend()
        return await super().create(*args, **kwargs)

    async def update(self, *args: Any, **kwargs: Any) -> Object:
        await self._spend()
        return await super().update(*args, **kwargs)

    async def merge_patch(self, *args: Any, **kwargs: Any) -> Object:
        await self._spend()
        return await super().merge_patch(*args, **kwargs)

    async def json_patch(self, *args: Any, **kwargs: Any) -> Object:
        await self._spend()
        return await super().json_patch(*args, **kwargs)

    async def apply(self, *args: Any, **kwargs: Any) -> Object:
        await self._spend()
        return await super().apply(*args, **kwargs)

    async def delete(self, *args: Any, **kwargs: Any) -> None:
        await self._spend()
        await super().delete(*args, **kwargs)
