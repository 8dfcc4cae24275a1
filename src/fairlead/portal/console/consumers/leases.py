"""Consumers of kbind v2, of which a provider has a Lease each, and a home of those it invited."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec

from fairlead.api.kbind.names import LEASE_ACCOUNT_PREFIX, LEASE_NAMESPACE, LEASE_SECONDS
from fairlead.api.kubebind import ClusterBindingStatus
from fairlead.api.kubebind.conditions import HEARTBEAT_TIMEOUT
from fairlead.api.meta import Object
from fairlead.api.reasons.verdict import Judgement, short
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
from fairlead.provider.v2.reading import cluster_uids
from fairlead.provider.v2.record import consumer_of, is_home
from fairlead.runtime import Cluster, Delta, Informer


LEASES_TOPIC = LEASE_NAMESPACE
"""Topic of changes of the Leases and of homes."""
_HOME = "home"
"""Index of the homes of invited consumers, all with the key :data:`_ANY`."""
_ANY = "any"
_FORBIDDEN = (
    "The server cannot see which konnectors of kbind v2 are running: it may not list and watch"
    f" leases.coordination.k8s.io in namespace {LEASE_NAMESPACE}. A Role and a RoleBinding there"
    " grant it"
)


class KbindConsumers:
    """The consumers of kbind v2: those that renew a Lease, and those that were invited.

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
        self._namespaces.add_index(_HOME, _home)
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
            return f"Leases of kbind v2 are not up to date: {short(leases.error)}"
        if not leases.has_synced:
            return "Leases of kbind v2 are being read"
        if len(leases.list()) > bounds.OBJECTS:
            return (
                f"Only the first {bounds.OBJECTS} Leases in namespace {LEASE_NAMESPACE} are read"
            )
        return ""

    def all(self) -> list[KnownConsumer]:
        """Return the consumers: first those that were invited, by name, then others, by uid."""
        homes = self._namespaces.by_index(_HOME, _ANY)
        leases = self._leases.list() if self._leases is not None else ()
        # Who may write Leases there may write any number of them.
        first = sorted(leases, key=lambda lease: lease.meta.name)[: bounds.OBJECTS]
        readable = self._leases is None or self._leases.has_synced
        return consumers_of(homes, first, moment(), readable=readable)

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
        elif any(is_home(one) for one in (delta.old, delta.new) if one is not None):
            self._hub.changed(LEASES_TOPIC)


def _home(namespace: Object) -> list[str]:
    return [_ANY] if is_home(namespace) else []


def consumers_of(
    homes: Iterable[Object], leases: Iterable[Object], now: datetime, *, readable: bool = True
) -> list[KnownConsumer]:
    """Return the consumers of homes and Leases, judged as of now.

    A Lease says by an annotation which account writes it, and so which home it belongs to. Its
    writer could name another's, so each row has the uids of the clusters.

    Args:
        homes: namespaces that are homes of consumers.
        leases: Leases; those of other kinds count for nothing.
        now: the time as of which they are judged.
        readable: whether the Leases are known; without them no state of an invited one is.
    """
    every = list(homes)
    by_home: dict[str, list[Object]] = {home.meta.name: [] for home in every}
    rest: list[KnownConsumer] = []
    for lease in leases:
        uids = cluster_uids([lease])
        claimed = [
            name.removeprefix(LEASE_ACCOUNT_PREFIX)
            for name in lease.meta.annotations
            if name.startswith(LEASE_ACCOUNT_PREFIX)
        ]
        places = [by_home[home] for home in claimed if home in by_home]
        for place in places if uids else ():
            place.append(lease)
        if uids and not places:
            (uid,) = uids
            rest.append(_consumer(uid, [lease], now))
    invited = [
        _consumer(consumer_of(home), by_home[home.meta.name], now, home, readable=readable)
        for home in every
    ]
    by_name = sorted(invited, key=lambda consumer: consumer.row.identity)
    return [*by_name, *sorted(rest, key=lambda consumer: consumer.row.identity)]


def _consumer(
    name: str,
    leases: Sequence[Object],
    now: datetime,
    home: Object | None = None,
    *,
    readable: bool = True,
) -> KnownConsumer:
    """Return a consumer with its latest renewal.

    It is judged as the heartbeat of a v1alpha2 consumer: late after the duration of the Lease,
    which is twice the interval of renewals.
    """
    renewal = max(map(_renewal, leases), key=lambda one: one.time, default=LeaseRenewal())
    interval = max(int(renewal.duration) // 2, 0) or LEASE_SECONDS // 2
    status = ClusterBindingStatus(
        last_heartbeat_time=short(renewal.time), heartbeat_interval=f"{interval}s"
    )
    healthy, _ = health(status, now=now)
    verdict = connection_verdict(healthy)
    if not readable:
        verdict = Judgement("unknown", message="its Leases cannot be read")
    is_late = verdict.reason == HEARTBEAT_TIMEOUT
    since = verdict.since or (status.last_heartbeat_time if is_late else "")
    row = ConsumerRow(
        identity=name,
        pretty_name="",
        namespace=home.meta.name if home is not None else "",
        exports=[],
        objects=0,
        konnector_version=_KONNECTORS[bool(renewal.process)] if renewal.time else "",
        last_heartbeat_time=status.last_heartbeat_time,
        healthy=healthy,
        state=verdict.state,
        reason=verdict.reason,
        message=verdict.message if verdict.state != "ok" else "",
        since=since if verdict.state != "ok" else "",
        remedy=verdict.remedy,
        deleting=home is not None and home.meta.deleting,
        protocol="v2",
    )
    return KnownConsumer(row, "", tuple(sorted(cluster_uids(leases))))


_KONNECTORS = {True: "Fairlead's", False: "not Fairlead's"}
"""Words for a konnector, by whether Fairlead's note is on its Lease."""


def _renewal(lease: Object) -> LeaseRenewal:
    try:
        return LeaseRenewal.of(lease)
    except msgspec.ValidationError:
        return LeaseRenewal()
