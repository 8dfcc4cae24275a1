"""CPU of an informer against a bare loop that reads the same list and the same watch.

The bare loop reads with aiohttp and decodes every object to (metadata struct, copied bytes); it
stores nothing and tells nobody.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import aiohttp
import msgspec

from bench.rows import Row, ratio, report
from bench.runtime.stream import EVENTS, OBJECTS, serving
from bench.widgets import WIDGETS
from fairlead.api.meta import ObjectMeta
from fairlead.client import Client, ClusterConfig
from fairlead.runtime import Cluster, Delta


AIM = 1.3
ROUNDS = 20


class Cost(NamedTuple):
    """CPU seconds of the list and of the watch."""

    list: float
    watch: float


class _Metadata(msgspec.Struct):
    metadata: ObjectMeta


class _ListMeta(msgspec.Struct):
    continue_: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw]


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


_metadata = msgspec.json.Decoder(_Metadata)
_list = msgspec.json.Decoder(_List)
_event = msgspec.json.Decoder(_Event)


def _decode(raw: msgspec.Raw) -> tuple[ObjectMeta, bytes]:
    return _metadata.decode(raw).metadata, bytes(raw)


async def bare(url: str) -> Cost:
    async with aiohttp.ClientSession(url) as session:
        begun = time.process_time()
        params = {"limit": "500"}
        while True:
            async with session.get(WIDGETS.path(), params=params) as answer:
                page = _list.decode(await answer.read())
            for raw in page.items:
                _decode(raw)
            if not page.metadata.continue_:
                break
            params["continue"] = page.metadata.continue_
        listed = time.process_time()
        params = {"watch": "1", "resourceVersion": str(OBJECTS)}
        async with session.get(WIDGETS.path(), params=params) as answer:
            await _follow(answer.content)
        return Cost(listed - begun, time.process_time() - listed)


async def _follow(content: aiohttp.StreamReader) -> None:
    pending = b""
    count = 0
    while count < EVENTS:
        head, newline, rest = (await content.readany()).rpartition(b"\n")
        if not newline:
            pending += rest
            continue
        lines = (pending + head).split(b"\n")
        pending = rest
        for line in lines:
            _decode(_event.decode(line).object)
        count += len(lines)


async def informer(url: str) -> Cost:
    async with Client(ClusterConfig(server=url, namespace="default")) as client:
        cluster = Cluster("bench", client)
        begun = time.process_time()
        lease = cluster.informer(WIDGETS)
        everything = asyncio.Event()
        count = 0

        def handler(delta: Delta) -> None:
            nonlocal count
            count += 1
            if count >= OBJECTS + EVENTS:
                everything.set()

        lease.subscribe(handler)
        running = asyncio.create_task(cluster.run())
        await lease.synced()
        listed = time.process_time()
        await everything.wait()
        cost = Cost(listed - begun, time.process_time() - listed)
        running.cancel()
        await asyncio.wait([running])
        return cost


async def _measure(url: str, work: Callable[[str], Awaitable[Cost]]) -> Cost:
    gc.collect()
    return await work(url)


async def compare() -> list[Row]:
    costs: dict[str, list[Cost]] = {"bare": [], "informer": []}
    with serving() as url:
        for _ in range(ROUNDS):
            costs["bare"].append(await _measure(url, bare))
            costs["informer"].append(await _measure(url, informer))
    # The least is what the work costs; the rest is what the machine did besides.
    limit, ours = (Cost(*map(min, zip(*costs[name], strict=True))) for name in costs)
    listed, watched = f"Ingest, list of {OBJECTS:,}", f"Ingest, watch of {EVENTS:,} events"
    whole = "Ingest: informer against a bare loop"
    return [
        ratio("ingest", whole, sum(ours), sum(limit), AIM, " CPU"),
        ratio("ingest_list", listed, ours.list, limit.list, of=" CPU"),
        ratio("ingest_watch", watched, ours.watch, limit.watch, of=" CPU"),
        Row("ingest_event_us", "Ingest, CPU per event", ours.watch / EVENTS * 1e6, "us"),
    ]


if __name__ == "__main__":
    report(compare)
