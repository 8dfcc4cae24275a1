"""A TCP line between a client and a server that a test can break."""

from __future__ import annotations

import asyncio
from typing import Any, Self, cast


Ports = tuple[int, int]
"""A connection's ports: the client's, which alone may be in use twice, and the server's."""


class Line:
    """A TCP line to a server: it can be cut, frozen, or swallow the answers."""

    def __init__(self, target: str) -> None:
        scheme, _, address = target.partition("://")
        host, _, port = address.partition(":")
        self._target = (host, int(port))
        self._scheme = scheme
        self._gates = {"up": asyncio.Event(), "down": asyncio.Event()}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._cut = False
        self.attempts = 0
        """How often somebody has connected."""
        self._origins: dict[Ports, Ports] = {}
        self._server: asyncio.Server | None = None
        self.mend()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_exc: object) -> None:
        if self._server is not None:
            self._server.close()
        await self._end()

    @property
    def url(self) -> str:
        if self._server is None:
            raise RuntimeError("the line is not up")
        return f"{self._scheme}://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def origin(self, seen: Ports) -> Ports:
        """The client's own connection, by the one that a server sees in its place."""
        return self._origins.get(seen, seen)

    async def cut(self) -> None:
        """Cut all connections and let none through until :meth:`mend`."""
        self._cut = True
        await self._end()

    async def lead_to(self, target: str) -> None:
        """Lead to another server from now on, as a name does that is given another address."""
        _, _, address = target.partition("://")
        host, _, port = address.partition(":")
        self._target = (host, int(port))
        await self._end()

    def freeze(self) -> None:
        """Nothing flows in either direction; connections stay."""
        for gate in self._gates.values():
            gate.clear()

    def deafen(self) -> None:
        """Requests arrive, and their answers do not."""
        self._gates["down"].clear()

    def mend(self) -> None:
        self._cut = False
        for gate in self._gates.values():
            gate.set()

    async def _end(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.attempts += 1
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
        try:
            if not self._cut:
                await self._carry(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(cast("asyncio.Task[Any]", task))
            writer.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(*self._target)
        seen = ports(far_writer, client="sockname", server="peername")
        self._origins[seen] = ports(writer, client="peername", server="sockname")
        try:
            pumps = [
                asyncio.ensure_future(self._pump("up", reader, far_writer)),
                asyncio.ensure_future(self._pump("down", far_reader, writer)),
            ]
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
        finally:
            far_writer.transport.abort()

    async def _pump(
        self, direction: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while data := await reader.read(65536):
            await self._gates[direction].wait()
            writer.write(data)
            await writer.drain()


def ports(
    connection: asyncio.StreamWriter | asyncio.Transport, *, client: str, server: str
) -> Ports:
    """The ports of a connection; which end is whose depends on who asks."""
    one, other = (connection.get_extra_info(end)[1] for end in (client, server))
    return one, other
