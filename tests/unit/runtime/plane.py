"""An API server that is reached over no socket, so that a client of it lives in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import aiohttp
import msgspec
from multidict import CIMultiDict

from fairlead.client import Client, ClusterConfig
from fairlead.client.exchange import Outgoing


class Plane:
    """Answers each request with ``answer``: a status, or None for no answer.

    ``tries`` are the times of the writes, ``reads`` those of everything else. With ``hang`` a
    write waits in ``hanging`` for what becomes of it.
    """

    def __init__(self) -> None:
        self.answer: Callable[[Outgoing], int | None] = lambda _sent: 200
        self.tries: list[tuple[str, float]] = []
        self.reads: list[float] = []
        self.hang = False
        self.hanging: list[asyncio.Future[None]] = []

    def client(self) -> Client:
        """A client whose requests come here."""
        client = Client(ClusterConfig(server="https://plane.test"))
        client._transport._connections = self  # type: ignore[assignment]
        return client

    async def exchange(self, _origin: object, sent: Outgoing) -> Any:
        now = asyncio.get_running_loop().time()
        if sent.method == "GET":
            self.reads.append(now)
        else:
            self.tries.append((sent.target.partition("?")[0].rpartition("/")[2], now))
            if self.hang:
                self.hanging.append(asyncio.get_running_loop().create_future())
                await self.hanging[-1]
        status = self.answer(sent)
        if status is None:
            raise aiohttp.ServerDisconnectedError
        return _Answer(status)

    async def close(self) -> None:
        pass


class _Answer:
    def __init__(self, status: int) -> None:
        self.status = status
        self.headers: CIMultiDict[str] = CIMultiDict()

    async def read(self, most: int = 0) -> bytes:
        body = {"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "a"}}
        return msgspec.json.encode(body) if self.status < 300 else b""

    def end(self) -> None:
        pass
