"""Consumers of kbind v2, which leave nothing at a provider but copies and a Lease each."""

from __future__ import annotations

import asyncio
from datetime import datetime

import msgspec

from fairlead.api.kbind.names import (
    CONSUMER_CLUSTER_UID,
    LEASE_NAMESPACE,
    LEASE_SECONDS,
    lease_name,
)
from fairlead.api.kubebind import ClusterBindingStatus
from fairlead.api.kubebind.conditions import HEARTBEAT_TIMEOUT
from fairlead.api.meta import Object
from fairlead.api.reasons.verdict import short
from fairlead.api.resource import LEASES, NAMESPACES
from fairlead.api.timestamps import moment
from fairlead.client import Forbidden
from fairlead.konnector.v2.renewals import LeaseRenewal
from fairlead.portal import bounds
from fairlead.portal.console.consumers.directory import KnownConsumer
from fairlead.portal.console.pages.live import Hub
from fairlead.portal.console.pages.viewing import of_namespace
from fairlead.provider.commands.overview import ConsumerRow, connection_verdict
from fairlead.provider.controllers.clusterbinding.reconcile import health
from fairlead.runtime import Cluster, Delta, Informer


LEASES_TOPIC = LEASE_NAMESPACE
"""Topic of changes of the Leases."""
PROTOCOL = "kbind v2"
_FORBIDDEN = (
    f"Consumers of {PROTOCOL} are not shown: list and watch on leases.coordination.k8s.io in"
    f" namespace {LEASE_NAMESPACE} are not granted. A Role and a RoleBinding there grant them"
)


class KbindConsumers:
    """The consumers of kbind v2 that have a Lease, from a cache.

    The Leases are watched once their namespace is there, so that nothing is asked of a provider
    that has no such consumer.
    """

    name = "consumers of kbind v2"

    def __init__(self, cluster: Cluster, hub: Hub) -> None:
        self._cluster = cluster
        self._hub = hub
        self._leases: Informer | None = None
        self._there = asyncio.Event()
        self._namespaces = hub.informer(
            cluster, NAMESPACES, topics=of_namespace, metadata_only=True
        )
        self._namespaces.subscribe(self._placed)

    @property
    def problem(self) -> str:
        """Why the Leases are unknown or stale; "" if they are current, or there is none."""
        leases = self._leases
        if leases is None or self._namespaces.get("", LEASE_NAMESPACE) is None:
            return ""
        if isinstance(leases.cause, Forbidden):
            return _FORBIDDEN
        if leases.error:
            return f"Consumers of {PROTOCOL} are not up to date: {short(leases.error)}"
        if not leases.has_synced:
            return f"Consumers of {PROTOCOL} are being read"
        if len(leases.list()) > bounds.OBJECTS:
            return (
                f"Of the Leases in namespace {LEASE_NAMESPACE} the first {bounds.OBJECTS} are read"
            )
        return ""

    def all(self) -> list[KnownConsumer]:
        """Return the consumers, ordered by the uids of their clusters."""
        now, leases = moment(), self._leases.list() if self._leases is not None else ()
        # Who may write Leases there may write any number of them.
        first = sorted(leases, key=lambda lease: lease.meta.name)[: bounds.OBJECTS]
        return [consumer for lease in first if (consumer := leased_consumer(lease, now))]

    async def run(self) -> None:
        """Watch the Leases once their namespace is there, until canceled."""
        await self._there.wait()
        self._leases = self._hub.informer(
            self._cluster, LEASES, topics=lambda _: (LEASES_TOPIC,), namespace=LEASE_NAMESPACE
        )
        # Pages show whether the Leases have been read.
        self._hub.changed(LEASES_TOPIC)
        await asyncio.Event().wait()

    def _placed(self, delta: Delta) -> None:
        if delta.object.meta.name == LEASE_NAMESPACE:
            self._there.set()
            self._hub.changed(LEASES_TOPIC)


def leased_consumer(lease: Object, now: datetime) -> KnownConsumer | None:
    """Return the consumer of a Lease, judged as of now; None if the Lease is of another kind.

    Its sign of life is judged as a heartbeat of a v1alpha2 consumer: late after the duration of
    the Lease, which is twice the interval of its renewals.
    """
    uid = lease.meta.annotations.get(CONSUMER_CLUSTER_UID, "")
    # The name decides, so that no consumer's Lease shows another one's cluster.
    if not uid or lease.meta.name != lease_name(uid):
        return None
    try:
        renewal = LeaseRenewal.of(lease)
    except msgspec.ValidationError:
        renewal = LeaseRenewal()
    seconds = renewal.duration if renewal.duration >= 2 else LEASE_SECONDS
    status = ClusterBindingStatus(
        last_heartbeat_time=short(renewal.time), heartbeat_interval=f"{int(seconds) // 2}s"
    )
    healthy, _ = health(status, now=now)
    verdict = connection_verdict(healthy)
    is_late = verdict.reason == HEARTBEAT_TIMEOUT
    since = verdict.since or (status.last_heartbeat_time if is_late else "")
    row = ConsumerRow(
        identity=uid,
        pretty_name="",
        namespace="",
        exports=[],
        objects=0,
        konnector_version="" if renewal.process else "not Fairlead's",
        last_heartbeat_time=status.last_heartbeat_time,
        healthy=healthy,
        state=verdict.state,
        reason=verdict.reason,
        message=verdict.message if verdict.state != "ok" else "",
        since=since if verdict.state != "ok" else "",
        remedy=verdict.remedy,
    )
    return KnownConsumer(row, "", PROTOCOL)
