"""Resident memory of an informer's cache per object, after a list and after many changes."""

from __future__ import annotations

import asyncio
import ctypes
import ctypes.util
import gc
import os
from pathlib import Path

from bench.rows import Row, emit
from bench.stream import EVENTS, OBJECTS, WIDGETS, serving, widget
from fairlead.client import Client, ClusterConfig
from fairlead.process import run
from fairlead.runtime import Cluster, Delta


AIM_KIB = 5.0


def resident() -> int:
    """Bytes of memory that this process holds, what can be given back given back."""
    gc.collect()
    libc = ctypes.util.find_library("c")
    if libc:
        trim = getattr(ctypes.CDLL(libc), "malloc_trim", None)
        if trim is not None:
            trim(0)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


async def _fill(client: Client) -> tuple[float, float, float]:
    """Bytes per object after the list, after the watch, and of bodies alone."""
    cluster = Cluster("bench", client)
    lease = cluster.informer(WIDGETS)
    before = resident()
    running = asyncio.create_task(cluster.run())
    await lease.synced()
    listed = resident() - before
    everything = asyncio.Event()
    count = 0

    def handler(delta: Delta) -> None:
        nonlocal count
        count += not delta.initial
        if count >= EVENTS:
            everything.set()

    lease.subscribe(handler)
    await everything.wait()
    followed = resident() - before
    kept = lease.list()
    bodies = sum(len(object_.raw) for object_ in kept) / len(kept)
    running.cancel()
    await asyncio.wait([running])
    return listed / OBJECTS, followed / len(kept), bodies


async def main(stop: asyncio.Event) -> None:
    before = resident()
    bare = [widget(number, number) for number in range(OBJECTS)]
    limit = (resident() - before) / OBJECTS
    bare.clear()
    with serving() as url:
        async with Client(ClusterConfig(server=url, namespace="default")) as client:
            # What one request needs is there before the measurement begins.
            await client.list(WIDGETS, limit=1, namespace="")
            listed, followed, bodies = await _fill(client)
    note = f"bodies of {bodies:,.0f} bytes"
    emit(
        [
            Row(
                "memory_kib", "Memory per cached object", listed / 1024, "KiB", AIM_KIB, note=note
            ),
            Row(
                "memory_kib_after_watch",
                f"Memory per cached object after {EVENTS:,} events",
                followed / 1024,
                "KiB",
                AIM_KIB,
            ),
            Row("memory_ratio", "Memory against a list of bare bytes", listed / limit),
        ]
    )


if __name__ == "__main__":
    run(main)
