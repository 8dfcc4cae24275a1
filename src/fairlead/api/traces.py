"""Traces of a program in a cluster: the Lease that it renews, and its Deployment."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from fairlead.api.meta import Object
from fairlead.api.timestamps import parse_time


LEASE_SECONDS = 15
"""Seconds that Kubernetes' own controllers lease for by default."""


class Renewal(NamedTuple):
    """The last renewal of a Lease; a Lease that was given back has no holder."""

    holder: str = ""
    time: datetime | None = None
    lasts: timedelta = timedelta()

    def is_valid(self, now: datetime) -> bool:
        """Whether a holder has renewed the Lease in time."""
        return bool(self.holder) and self.time is not None and self.time + self.lasts > now


def renewal(lease: Object | None) -> Renewal:
    """Return the last renewal of a Lease; an empty one for none, or one that is not valid."""
    try:
        spec = lease.decode(_Lease).spec if lease is not None else _LeaseSpec()
        time = parse_time(spec.renew_time) if spec.renew_time else None
    except (msgspec.ValidationError, ValueError):
        return Renewal()
    lasts = timedelta(seconds=spec.lease_duration_seconds or LEASE_SECONDS)
    return Renewal(spec.holder_identity or "", time, lasts)


def ready_pods(deployment: Object | None) -> int:
    """Return the number of ready Pods of a Deployment; 0 for none, or one that is not valid."""
    try:
        return deployment.decode(_Deployment).status.ready_replicas if deployment else 0
    except msgspec.ValidationError:
        return 0


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
