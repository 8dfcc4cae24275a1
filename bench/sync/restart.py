"""A konnector that starts where everything is in sync: how soon, and what it writes."""

from __future__ import annotations

import time
from typing import NamedTuple

from bench.processes import Scrape
from bench.sync.pair import SYNCED, Pair


class Restart(NamedTuple):
    """Figures of a restart."""

    seconds: float
    """Until it is ready, both caches are filled and every object was compared."""
    changed: int
    """Objects, on both sides, that are of another version now."""
    writes: float
    """Requests other than GET, of whatever kind, as the konnector counts them."""
    resident: int
    """Bytes of memory that it holds then."""


async def restart(pair: Pair, objects: int) -> Restart:
    """Stop the konnector and start it again."""
    konnector = pair.konnector
    await konnector.stop()
    before = [await side.versions(SYNCED) for side in (pair.consumer, pair.provider)]
    begun = time.monotonic()
    await konnector.start()

    async def settled() -> bool:
        return all_compared(await konnector.metrics(), objects)

    await konnector.until(settled)
    seconds = time.monotonic() - begun
    writes = (await konnector.metrics()).writes
    after = [await side.versions(SYNCED) for side in (pair.consumer, pair.provider)]
    changed = sum(
        old != new[key]
        for known, new in zip(before, after, strict=True)
        for key, old in known.items()
    )
    return Restart(seconds, changed, writes, konnector.resident())


def all_compared(told: Scrape, objects: int) -> bool:
    """Whether both caches hold all objects and no object waits to be looked at."""

    def controllers(name: str) -> float:
        return sum(
            sample.value
            for sample in told.samples(name)
            if SYNCED.group_resource in sample.labels.get("controller", "")
        )

    return (
        told.total("fairlead_informer_objects", resource=SYNCED.group_resource) >= 2 * objects
        and controllers("controller_runtime_reconcile_total") >= objects
        and controllers("workqueue_depth") == 0
        and controllers("controller_runtime_active_workers") == 0
    )
