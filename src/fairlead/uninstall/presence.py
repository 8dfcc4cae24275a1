"""Whether a program runs, by its Deployment and its Lease."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from fairlead.api.meta import Object
from fairlead.api.resource import DEPLOYMENTS, LEASES
from fairlead.api.timestamps import moment, parse_time
from fairlead.client import Client
from fairlead.client.lookups import find
from fairlead.uninstall.footprints import Footprint


class _LeaseSpec(msgspec.Struct, rename="camel"):
    holder_identity: str | None = None
    renew_time: str | None = None
    lease_duration_seconds: int | None = None


class _Lease(msgspec.Struct):
    spec: _LeaseSpec = msgspec.field(default_factory=_LeaseSpec)


class _DeploymentStatus(msgspec.Struct, rename="camel"):
    ready_replicas: int = 0


class _Deployment(msgspec.Struct):
    status: _DeploymentStatus = msgspec.field(default_factory=_DeploymentStatus)


async def runs(client: Client, footprint: Footprint) -> bool:
    """Whether the program runs, here or with a Lease from elsewhere."""
    deployment = await find(client, DEPLOYMENTS, footprint.name, footprint.namespace)
    return ready(deployment) or bool(await holder(client, footprint))


def ready(deployment: Object | None) -> bool:
    """Whether a Deployment has a Pod that is ready."""
    try:
        return deployment is not None and deployment.decode(_Deployment).status.ready_replicas > 0
    except msgspec.ValidationError:
        return False


async def holder(client: Client, footprint: Footprint) -> str:
    """Return the identity that holds the program's Lease and renews it, "" for none."""
    if not footprint.lease:
        return ""
    lease = await find(client, LEASES, footprint.lease, footprint.namespace)
    return holding(lease)


def holding(lease: Object | None) -> str:
    """Return the identity that holds a Lease and has renewed it in time, "" for none."""
    if lease is None:
        return ""
    try:
        spec = lease.decode(_Lease).spec
        if not (spec.holder_identity and spec.renew_time):
            return ""
        # 15 s is the default of leader election, here as in client-go.
        ends = parse_time(spec.renew_time) + timedelta(seconds=spec.lease_duration_seconds or 15)
    except (msgspec.ValidationError, ValueError):
        return ""
    return spec.holder_identity if ends > moment() else ""
