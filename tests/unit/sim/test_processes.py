"""Simulated processes and connections: what death, sleep and silence do to them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest
from tests.sim.loop import HotLoopError, SimLoop, StuckError
from tests.sim.network import Network
from tests.sim.processes import Process
from tests.sim.trace import Trace


class World:
    def __init__(self) -> None:
        self.loop = SimLoop(Random(1))
        self.trace = Trace(lambda: self.loop.elapsed, keeping=True)
        self.network = Network(self.loop, Random(2), self.trace)

    def process(self, name: str) -> Process:
        return Process(self.loop, name)

    def run(self, main: Coroutine[Any, Any, None]) -> None:
        asyncio.set_event_loop(None)
        self.loop.run_until_complete(main)


@pytest.fixture
def world() -> World:
    return World()


async def forever(said: list[str]) -> None:
    try:
        while True:
            await asyncio.sleep(1.0)
            said.append("still here")
    finally:
        said.append("finally")


def test_time_jumps_to_the_next_timer(world: World) -> None:
    world.run(asyncio.sleep(3600.0))
    assert world.loop.elapsed == 3600.0


def test_a_killed_process_runs_nothing_any_more_and_no_finally(world: World) -> None:
    said: list[str] = []
    process = world.process("one")

    async def main() -> None:
        process.spawn(forever(said))
        await asyncio.sleep(2.5)
        process.kill()
        await asyncio.sleep(60.0)

    world.run(main())
    assert said == ["still here"] * 2


def test_a_frozen_process_goes_on_where_it_was(world: World) -> None:
    said: list[str] = []
    process = world.process("one")

    async def main() -> None:
        process.spawn(forever(said))
        await asyncio.sleep(2.5)
        process.freeze()
        await asyncio.sleep(60.0)
        assert said == ["still here"] * 2
        process.thaw()
        await asyncio.sleep(2.1)

    world.run(main())
    # What came due while it slept comes once, as a timer does.
    assert said[:5] == ["still here"] * 5


def test_what_never_lets_time_pass_is_a_hot_loop(world: World) -> None:
    async def main() -> None:
        while True:  # noqa: ASYNC110
            await asyncio.sleep(0)

    with pytest.raises(HotLoopError):
        world.run(main())


def test_what_waits_for_nothing_is_stuck(world: World) -> None:
    async def main() -> None:
        await asyncio.Event().wait()

    with pytest.raises(StuckError):
        world.run(main())


class Echo(asyncio.Protocol):
    """Answers what it hears; ``log`` notes what happens to it."""

    def __init__(self, log: list[str]) -> None:
        self.log = log

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.log.append(data.decode())
        if data != b"quiet":
            self.transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.log.append(f"lost {type(exc).__name__}" if exc else "closed")


class Pair:
    """A server's process and a client's, connected."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.server, self.client = world.process("server"), world.process("client")
        self.heard: list[str] = []
        self.answers: list[str] = []
        self.transport: Any = None

    async def connect(self) -> None:
        loop = self.world.loop

        async def serve() -> None:
            await loop.create_server(lambda: Echo(self.heard), "127.0.0.1", 7)

        async def dial() -> None:
            self.transport, _ = await loop.create_connection(
                lambda: Echo(self.answers), "127.0.0.1", 7
            )
            self.transport.write(b"hello")

        await self.server.spawn(serve())
        await self.client.spawn(dial())


def in_pair(story: Callable[[Pair], Coroutine[Any, Any, None]]) -> Pair:
    pair = Pair(World())

    async def main() -> None:
        await pair.connect()
        await story(pair)

    pair.world.run(main())
    return pair


def test_bytes_arrive_in_order_whatever_is_split() -> None:
    async def story(pair: Pair) -> None:
        pair.world.network.weather.splits = 0.9
        pair.answers.clear()
        for word in ("one", "two", "three"):
            pair.transport.write(word.encode())
        await asyncio.sleep(1.0)
        pair.transport.close()
        await asyncio.sleep(1.0)

    pair = in_pair(story)
    assert "".join(pair.heard).startswith("helloonetwothree")


def test_a_peer_that_is_killed_resets_its_connections() -> None:
    async def story(pair: Pair) -> None:
        pair.server.kill()
        await asyncio.sleep(1.0)

    assert in_pair(story).answers[-1] == "lost ConnectionResetError"


def test_what_is_sent_in_a_silence_arrives_when_it_is_over() -> None:
    async def story(pair: Pair) -> None:
        await asyncio.sleep(1.0)
        link = pair.world.network.weather.link("client", "server")
        link.silent = True
        pair.transport.write(b"quiet")
        await asyncio.sleep(100.0)
        assert "quiet" not in pair.heard
        link.silent = False
        pair.world.network.changed()
        await asyncio.sleep(1.0)
        assert "quiet" in pair.heard

    in_pair(story)


def test_what_was_sent_before_a_close_arrives() -> None:
    async def story(pair: Pair) -> None:
        pair.transport.write(b"quiet")
        pair.transport.close()
        await asyncio.sleep(1.0)

    pair = in_pair(story)
    assert pair.heard[-1] == "closed"
    assert "quiet" in "".join(pair.heard)
