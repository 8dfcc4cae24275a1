"""A konnector that starts where everything is in sync: how soon, and what it writes."""

from __future__ import annotations

import time
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from bench.pair import SYNCED, Pair
from bench.planes import Plane
from fairlead.api.resource import Resource
from fairlead.client import Client


class Restart(NamedTuple):
    """What a restart took and what it did."""

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
    before = [await _versions(plane) for plane in (pair.consumer, pair.provider)]
    begun = time.monotonic()
    await konnector.start()

    async def settled() -> bool:
        return _settled(await konnector.metrics(), objects)

    await konnector.until(settled)
    seconds = time.monotonic() - begun
    writes = _writes(await konnector.metrics())
    after = [await _versions(plane) for plane in (pair.consumer, pair.provider)]
    changed = sum(
        old != new[key]
        for known, new in zip(before, after, strict=True)
        for key, old in known.items()
    )
    return Restart(seconds, changed, writes, konnector.resident())


def _settled(text: str, objects: int) -> bool:
    """Whether both caches hold all objects and no object waits to be looked at."""
    cached, compared, waiting = 0.0, 0.0, 1.0
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            name, labels = sample.name, sample.labels
            if name == "fairlead_informer_objects":
                cached += sample.value * (labels["resource"] == SYNCED.group_resource)
            elif SYNCED.group_resource not in labels.get("controller", ""):
                continue
            elif name == "controller_runtime_reconcile_total":
                compared += sample.value
            elif name in {"workqueue_depth", "controller_runtime_active_workers"}:
                waiting += sample.value
    return cached >= 2 * objects and compared >= objects and waiting == 1.0


def _writes(text: str) -> float:
    return sum(
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "rest_client_requests_total" and sample.labels["method"] != "GET"
    )


async def _versions(plane: Plane, resource: Resource = SYNCED) -> dict[tuple[str, str], str]:
    async with Client(plane.admin) as client:
        listed = await client.list(resource, metadata_only=True)
    return {tuple(found.key): found.meta.resource_version for found in listed.items}  # type: ignore[misc]
