"""Users of the PostgresAccess operator: they create and change accesses, and wait for them."""

from __future__ import annotations

import time
from collections.abc import Iterable

import msgspec

from bench.loading import Awaited, Conditioned, Side, Watched, Write, delete, each, namespace_of
from bench.postgres.place import OURS, create, privileges
from fairlead.api.postgresaccess import POSTGRESACCESSES


class Users:
    """Users of the operator."""

    def __init__(self, side: Side, connections: int) -> None:
        self._side = side
        self._connections = connections

    async def create(self, prefix: str, numbers: Iterable[int]) -> float:
        """Time from the first access created until all are ready."""
        names = {f"{prefix}-{number}": number for number in numbers}
        writes = [create(POSTGRESACCESSES, name, number, OURS) for name, number in names.items()]
        return await self.until_ready(writes, names, self._connections)

    async def create_at(self, servers: Iterable[str]) -> None:
        """Create an access on each of these servers, and do not wait until it is ready."""
        writes = [
            create(POSTGRESACCESSES, f"at-{server}", number, OURS, server)
            for number, server in enumerate(servers)
        ]
        await each(self._connections, self._side.send, writes)

    async def delete(self, prefix: str, numbers: Iterable[int]) -> None:
        """Delete accesses and wait until they are gone."""
        names = {f"{prefix}-{number}": number for number in numbers}
        missing = Awaited(names)

        def look(type_: str, found: Watched) -> None:
            if type_ == "DELETED":
                missing.told(found.metadata.name)

        writes = [
            delete(POSTGRESACCESSES, namespace_of(number), name) for name, number in names.items()
        ]
        async with self._side.watching(POSTGRESACCESSES, Watched, look):
            await each(self._connections, self._side.send, writes)
            await missing.wait()

    async def change(self, name: str, number: int, *more: str) -> float:
        """Time from a change until it is in force."""
        write = privileges(POSTGRESACCESSES, name, number, OURS, *more)
        return await self.until_ready([write], [name], 1)

    async def until_ready(
        self, writes: list[Write], names: Iterable[str], connections: int
    ) -> float:
        """Time from the first of some writes until all these accesses are ready as written."""
        missing = Awaited(names)
        answers: dict[str, int] = {}
        ready: dict[str, int] = {}

        def settle(name: str) -> None:
            # The watch may tell of an object before its write is answered.
            if name in answers and ready.get(name, 0) >= answers[name]:
                missing.told(name)

        def look(_type: str, found: Conditioned) -> None:
            if found.ready:
                ready[found.metadata.name] = found.metadata.generation
                settle(found.metadata.name)

        async def send(write: Write) -> None:
            stored = msgspec.json.decode(await self._side.send(write), type=Conditioned)
            answers[stored.metadata.name] = stored.metadata.generation
            settle(stored.metadata.name)

        async with self._side.watching(POSTGRESACCESSES, Conditioned, look):
            begun = time.monotonic()
            await each(connections, send, writes)
            await missing.wait()
            return time.monotonic() - begun
