"""Consumers with their exports and connections, from caches, and states of their bindings."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from fairlead.api.decoding import field_message
from fairlead.api.kubebind import (
    ANNOTATION_CLUSTER_PRETTY_NAME,
    APISERVICEEXPORTS,
    CLUSTER_BINDING_NAME,
    CLUSTERBINDINGS,
    APIServiceExport,
    ClusterBinding,
    ClusterBindingStatus,
)
from fairlead.api.kubebind.conditions import HEARTBEAT_TIMEOUT
from fairlead.api.meta import Key, Object
from fairlead.api.reasons.verdict import Judgement, short, verdict_of
from fairlead.api.resource import NAMESPACES
from fairlead.api.timestamps import moment
from fairlead.portal.console.pages.live import Hub
from fairlead.portal.console.pages.rendering import legible
from fairlead.portal.console.pages.viewing import of_namespace
from fairlead.portal.console.sources.kinds import Kinds, spec_of
from fairlead.portal.model.thing import RANKS
from fairlead.provider.commands.overview import connection_verdict
from fairlead.provider.controllers.clusterbinding.reconcile import health
from fairlead.provider.identity import title_of
from fairlead.provider.namespaces import identity_of
from fairlead.provider.offer import record_of
from fairlead.runtime import Cluster, Delta


class ConsumerConnection(NamedTuple):
    """A consumer's ClusterBinding, with the heartbeat judged as of now."""

    status: ClusterBindingStatus
    verdict: Judgement
    templates: tuple[str, ...] = ()


class KnownCluster(NamedTuple):
    """A consumer's cluster: its cluster namespace, its identity, and its name for people.

    ``title`` is the name with the identity, since several clusters may have one name.
    """

    namespace: str
    identity: str
    name: str
    title: str


class _Export(NamedTuple):
    """An export's kinds and state, decoded once per resourceVersion."""

    kinds: tuple[str, ...]
    verdict: Judgement


class _Beat(NamedTuple):
    """A connection as judged until a time, in seconds since 1970: then the heartbeat is late."""

    connection: ConsumerConnection
    until: float


class Consumers:
    """The consumers in the caches, shared by the views of bindings and objects."""

    def __init__(self, cluster: Cluster, hub: Hub, kinds: Kinds) -> None:
        self.kinds = kinds
        self._namespaces = hub.informer(
            cluster, NAMESPACES, topics=of_namespace, metadata_only=True
        )
        self._exports = hub.informer(cluster, APISERVICEEXPORTS)
        self._connections = hub.informer(cluster, CLUSTERBINDINGS)
        self._read: dict[Key, _Export] = {}
        self._beats: dict[str, _Beat] = {}
        self._clusters: dict[str, KnownCluster] = {}
        self._namespaces.subscribe(self._named)
        self._exports.subscribe(self._exported)
        self._connections.subscribe(self._beaten)

    def exported(self) -> dict[str, frozenset[str]]:
        """Return the kinds exported to each consumer, by cluster namespace."""
        exported: dict[str, set[str]] = {consumer: set() for consumer in self._clusters}
        for key, export in self._read.items():
            if key.namespace in exported:
                exported[key.namespace].update(export.kinds)
        return {name: frozenset(kinds) for name, kinds in exported.items()}

    def export(self, consumer: str, name: str) -> Object | None:
        """Return the cached export of this name; None without it or without the consumer."""
        return self._exports.get(consumer, name) if self.title(consumer) else None

    def exports(self, consumer: str) -> list[Object]:
        """Return the exports of a consumer, ordered by name."""
        return sorted(self._exports.list(consumer), key=lambda export: export.meta.name)

    def title(self, consumer: str) -> str:
        """Return name and identity of a consumer's cluster; "" without such a consumer."""
        cluster = self._clusters.get(consumer)
        return cluster.title if cluster is not None else ""

    def cluster(self, consumer: str) -> KnownCluster | None:
        """Return a consumer's cluster; None without such a consumer."""
        return self._clusters.get(consumer)

    def connection(self, consumer: str) -> ConsumerConnection | None:
        """Return a consumer's connection; None without a valid ClusterBinding."""
        beat = self._beats.get(consumer)
        if beat is None:
            return None
        if beat.until <= time.time():
            # A heartbeat becomes late without a change of its object.
            connection = beat.connection
            beat = self._beats[consumer] = _judged(connection.status, connection.templates)
        return beat.connection

    def read(self, export: Object) -> _Export:
        """Return the kinds and the state of a cached export."""
        cached = self._read.get(export.key)
        return cached if cached is not None else _read(export)

    def _named(self, delta: Delta) -> None:
        self._entitle(delta.object.meta.name)

    def _entitle(self, consumer: str) -> None:
        """Read a consumer's names, once per change of its namespace or its connection."""
        namespace = self._namespaces.get("", consumer)
        identity = identity_of(namespace) if namespace is not None else ""
        if not identity:
            self._clusters.pop(consumer, None)
            return
        connection = self._connections.get(consumer, CLUSTER_BINDING_NAME)
        annotations = connection.meta.annotations if connection is not None else {}
        name = annotations.get(ANNOTATION_CLUSTER_PRETTY_NAME) or identity
        title = short(legible(title_of(identity, name)))
        self._clusters[consumer] = KnownCluster(consumer, identity, name, title)

    def _exported(self, delta: Delta) -> None:
        if delta.new is None:
            self._read.pop(delta.object.key, None)
        else:
            # Once per change: pages read each export many times.
            self._read[delta.new.key] = _read(delta.new)

    def _beaten(self, delta: Delta) -> None:
        namespace, name = delta.object.key
        if name != CLUSTER_BINDING_NAME:
            return
        self._entitle(namespace)
        beat = _beat(delta.new) if delta.new is not None else None
        if beat is None:
            self._beats.pop(namespace, None)
        else:
            self._beats[namespace] = beat


def short_names(clusters: Iterable[KnownCluster]) -> dict[str, str]:
    """Return names by cluster namespace; clusters that share one have their identity in it."""
    named = list(clusters)
    shared = Counter(cluster.name for cluster in named)
    return {
        cluster.namespace: cluster.title
        if shared[cluster.name] > 1
        else short(legible(cluster.name))
        for cluster in named
    }


def kinds_of(export: Object) -> tuple[str, ...]:
    """Return the kinds that an export names, each as ``plural.group``."""
    return tuple(dict.fromkeys(one.name for one in spec_of(export).resources))


def _read(export: Object) -> _Export:
    try:
        spec = export.decode(APIServiceExport).spec
    except msgspec.ValidationError as error:
        return _Export((), Judgement("failed", "Invalid", short(field_message(error))))
    kinds = tuple(dict.fromkeys(one.name for one in spec.resources))
    return _Export(kinds, verdict_of(export))


def _beat(obj: Object) -> _Beat | None:
    try:
        status = obj.decode(ClusterBinding).status
        templates = record_of(obj).templates or ()
    except msgspec.ValidationError:
        return None
    return _judged(
        msgspec.structs.replace(
            status,
            last_heartbeat_time=short(status.last_heartbeat_time),
            konnector_version=short(status.konnector_version),
        ),
        templates,
    )


def _judged(status: ClusterBindingStatus, templates: tuple[str, ...]) -> _Beat:
    now = moment()
    judged, wait = health(status, now=now)
    verdict = connection_verdict(judged, status.conditions)
    if verdict.reason == HEARTBEAT_TIMEOUT:
        # It is judged as of now, and has no time of its own.
        verdict = msgspec.structs.replace(verdict, since=status.last_heartbeat_time)
    until = now.timestamp() + wait if wait is not None else math.inf
    return _Beat(ConsumerConnection(status, verdict, templates), until)


def together(verdict: Judgement, connection: ConsumerConnection | None) -> Judgement:
    """Return the worse of the export's state and the connection's."""
    if connection is None or RANKS[verdict.state] <= RANKS[connection.verdict.state]:
        return verdict
    return connection.verdict


def problems(kinds: Kinds, names: Iterable[str]) -> tuple[str, ...]:
    """Return a sentence for each named kind whose objects cannot be listed."""
    return tuple(f"{problem}." for name in names if (problem := kinds.problem(name)))
