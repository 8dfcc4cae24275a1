"""Whether a program runs, by its Deployment and its Lease."""

from __future__ import annotations

from fairlead.api.resource import DEPLOYMENTS, LEASES
from fairlead.api.timestamps import moment
from fairlead.api.traces import ready_pods, renewal
from fairlead.client import Client
from fairlead.client.lookups import find
from fairlead.uninstall.footprints import Footprint


async def runs(client: Client, footprint: Footprint) -> bool:
    """Whether the program runs, here or with a Lease from elsewhere."""
    deployment = await find(client, DEPLOYMENTS, footprint.name, footprint.namespace)
    return bool(ready_pods(deployment) or await holder(client, footprint))


async def holder(client: Client, footprint: Footprint) -> str:
    """Return the identity that holds the program's Lease and renews it, "" for none."""
    if not footprint.lease:
        return ""
    last = renewal(await find(client, LEASES, footprint.lease, footprint.namespace))
    return last.holder if last.is_valid(moment()) else ""
