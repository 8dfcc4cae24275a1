"""Resident memory of an informer's cache per object, after a list and after many changes."""

from __future__ import annotations

import asyncio
import gc
import os

from bench.processes import resident
from bench.rows import Row, kibibytes, report
from bench.runtime.stream import EVENTS, OBJECTS, serving, widget
from bench.widgets import WIDGETS
from fairlead.client import Client, ClusterConfig
from fairlead.runtime import Cluster, Delta
from fairlead.runtime.controller.memory import give_back


AIM_KIB = 5.0


def held() -> int:
    """Read the bytes of memory that this process holds, when what is free was given back."""
    gc.collect()
    give_back()
    return resident(os.getpid())


async def _fill(client: Client) -> tuple[float, float, float]:
    """Measure bytes per object after the list, after the watch, and of bodies alone."""
    cluster = Cluster("bench", client)
    lease = cluster.informer(WIDGETS)
    before = held()
    running = asyncio.create_task(cluster.run())
    await lease.synced()
    listed = held() - before
    everything = asyncio.Event()
    count = 0

    def handler(delta: Delta) -> None:
        nonlocal count
        count += not delta.initial
        if count >= EVENTS:
            everything.set()

    lease.subscribe(handler)
    await everything.wait()
    followed = held() - before
    kept = lease.list()
    bodies = sum(len(object_.raw) for object_ in kept) / len(kept)
    running.cancel()
    await asyncio.wait([running])
    return listed / OBJECTS, followed / len(kept), bodies


async def compare() -> list[Row]:
    before = held()
    bare = [widget(number, number) for number in range(OBJECTS)]
    limit = (held() - before) / OBJECTS
    bare.clear()
    with serving() as url:
        async with Client(ClusterConfig(server=url, namespace="default")) as client:
            # What one request needs is there before the measurement begins.
            await client.list(WIDGETS, limit=1, namespace="")
            listed, followed, bodies = await _fill(client)
    title, note = "Memory per cached object", f"bodies of {bodies:,.0f} bytes"
    later = f"{title} after {EVENTS:,} events"
    return [
        kibibytes("memory_kib", title, listed, AIM_KIB, note),
        kibibytes("memory_kib_after_watch", later, followed, AIM_KIB),
        Row("memory_ratio", "Memory against a list of bare bytes", listed / limit),
    ]


if __name__ == "__main__":
    report(compare)
