"""Time from a change until it is seen, while others are under way.

So many objects have a change under way at any time: one that is seen is followed by the next of
the same object. All pass through the same number of connections in the order in which they are
wanted, and a sample is the time from then until the change is seen. The bare echo is the same
with a watch of the server that is written to. With as many under way on both sides, both wait in
the same kind of line.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import time
from collections.abc import Callable
from typing import NamedTuple

from bench.loading import Side, Write, namespace_of
from bench.sizes import SAMPLES
from bench.sync.bare import LOADED
from bench.sync.load import Crossing, Seen, size, status
from bench.sync.pair import BARE, SYNCED, Pair
from fairlead.api.resource import Resource


OTHERS = 1000
"""Changes under way at any time."""
ALONE = 100
"""Changes one after the other."""

_values = itertools.count(2)

Key = tuple[str, str]


class Way(NamedTuple):
    """From a write to whoever sees it."""

    writer: Side
    reader: Side
    resource: Resource
    write: Callable[[Resource, str, str, int], Write]
    read: Callable[[Seen], int]


class Latency(NamedTuple):
    """Seconds of changes; ``alone`` is the median with nothing else under way."""

    p50: float
    p99: float
    alone: float


class Latencies(NamedTuple):
    """Both directions, by the konnector and by the bare echo."""

    spec: Latency
    status: Latency
    spec_echo: Latency
    status_echo: Latency


async def changes(way: Way, keys: list[Key], *, connections: int, samples: int) -> list[float]:
    """Time so many changes, without those of the first round, when the line forms."""
    wanted: asyncio.Queue[tuple[Key, int]] = asyncio.Queue()
    begun: dict[str, tuple[Key, int, float]] = {}
    found: list[float] = []
    enough = len(keys) + samples
    done = asyncio.Event()

    def want(key: Key) -> None:
        value = next(_values)
        begun[key[1]] = (key, value, time.monotonic())
        wanted.put_nowait((key, value))

    def look(_type: str, seen: Seen) -> None:
        key, value, since = begun.get(seen.metadata.name, (None, 0, 0.0))
        if key is None or way.read(seen) != value:
            return
        found.append(time.monotonic() - since)
        if len(found) < enough:
            want(key)
            return
        # What is still under way must not weigh on whatever is measured next.
        del begun[key[1]]
        if not begun:
            done.set()

    async def connection() -> None:
        while True:
            (where, name), value = await wanted.get()
            await way.writer.send(way.write(way.resource, where, name, value))

    async with way.reader.watching(way.resource, Seen, look), asyncio.TaskGroup() as group:
        workers = [group.create_task(connection()) for _ in range(connections)]
        for key in keys:
            want(key)
        await done.wait()
        for worker in workers:
            worker.cancel()
    return found[len(keys) : enough]


async def latency(way: Way, keys: list[Key], connections: int) -> Latency:
    samples = await changes(way, keys, connections=connections, samples=SAMPLES)
    alone = await changes(way, keys[:1], connections=1, samples=ALONE)
    return Latency(quantile(samples, 0.5), quantile(samples, 0.99), quantile(alone, 0.5))


async def latencies(pair: Pair, crossing: Crossing, objects: int) -> Latencies:
    """Measure all four, on the last of so many objects that have crossed and that were loaded."""
    consumer, provider, connections = pair.consumer, pair.provider, crossing.connections
    others = min(OTHERS, objects)
    copies = [(there, name) for name, there in crossing.copies.items()][-others:]
    sources = [(crossing.sources[name], name) for _, name in copies]
    loaded = [(namespace_of(number), f"{LOADED}-{number}") for number in range(others)]
    spec = Way(consumer, provider, SYNCED, size, lambda seen: seen.spec.size)
    back = Way(provider, consumer, SYNCED, status, lambda seen: seen.status.seen)
    return Latencies(
        await latency(spec, sources, connections),
        await latency(back, copies, connections),
        await latency(spec._replace(reader=consumer, resource=BARE), loaded, connections),
        await latency(back._replace(reader=provider, resource=BARE), loaded, connections),
    )


def quantile(samples: list[float], share: float) -> float:
    """Find the sample below which this share of them is."""
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)]
