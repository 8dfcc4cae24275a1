"""Consumers with their exports and connections, from caches, and states of their bindings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from fairlead.api.kubebind import (
    ANNOTATION_CLUSTER_PRETTY_NAME,
    APISERVICEEXPORTS,
    CLUSTER_BINDING_NAME,
    CLUSTERBINDINGS,
    APIServiceExport,
    ClusterBinding,
    ClusterBindingStatus,
)
from fairlead.api.meta import Key, Object
from fairlead.api.reasons.verdict import Judgement, short, verdict_of
from fairlead.api.resource import NAMESPACES
from fairlead.api.timestamps import moment
from fairlead.portal.console.objects.kinds import FollowedKind, Kinds, spec_of
from fairlead.portal.console.pages.live import Hub
from fairlead.portal.console.pages.rendering import legible
from fairlead.portal.console.pages.viewing import (
    of_namespace,
)
from fairlead.portal.model.lists import (
    Counts,
    ObjectRow,
    badness,
)
from fairlead.provider.commands.overview import connection_verdict
from fairlead.provider.controllers.clusterbinding.reconcile import health
from fairlead.provider.identity import title_of
from fairlead.provider.namespaces import identity_of
from fairlead.provider.offer import record_of
from fairlead.runtime import Cluster, Delta


AT_CLUSTER_SCOPE = "-"
"""Segment of a path in place of the namespace of cluster-scoped objects."""


class ConsumerConnection(NamedTuple):
    """A consumer's ClusterBinding, with the heartbeat judged as of now."""

    status: ClusterBindingStatus
    verdict: Judgement
    templates: tuple[str, ...] = ()


class _Export(NamedTuple):
    """An export's kinds and state, decoded once per resourceVersion."""

    kinds: tuple[str, ...]
    verdict: Judgement


class _Beat(NamedTuple):
    """A decoded ClusterBinding; the heartbeat is judged later, since it depends on the time."""

    status: ClusterBindingStatus
    templates: tuple[str, ...]


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
        self._exports.subscribe(self._exported)
        self._connections.subscribe(self._beaten)

    def exported(self) -> dict[str, frozenset[str]]:
        """Return the kinds exported to each consumer, by cluster namespace."""
        found: dict[str, set[str]] = {
            one.meta.name: set() for one in self._namespaces.list() if identity_of(one)
        }
        for export in self._exports.list():
            if export.meta.namespace in found:
                found[export.meta.namespace].update(self.read(export).kinds)
        return {name: frozenset(kinds) for name, kinds in found.items()}

    def export(self, consumer: str, name: str) -> Object | None:
        """Return the cached export of this name; None without it or without the consumer."""
        return self._exports.get(consumer, name) if self.title(consumer) else None

    def exports(self, consumer: str) -> list[Object]:
        """Return the exports of a consumer, ordered by name."""
        return sorted(self._exports.list(consumer), key=lambda one: one.meta.name)

    def title(self, consumer: str) -> str:
        """Return name and identity of a consumer's cluster; "" without such a consumer."""
        namespace = self._namespaces.get("", consumer)
        if namespace is None or not identity_of(namespace):
            return ""
        connection = self._connections.get(consumer, CLUSTER_BINDING_NAME)
        told = connection.meta.annotations if connection is not None else {}
        title = title_of(identity_of(namespace), told.get(ANNOTATION_CLUSTER_PRETTY_NAME, ""))
        return short(legible(title))

    def connection(self, consumer: str) -> ConsumerConnection | None:
        """Return a consumer's connection; None without a valid ClusterBinding."""
        found = self._beats.get(consumer)
        if found is None:
            return None
        # At each call: a heartbeat becomes late without a change of its object.
        judged, _ = health(found.status, now=moment())
        verdict = connection_verdict(judged, found.status.conditions)
        return ConsumerConnection(found.status, verdict, found.templates)

    def read(self, export: Object) -> _Export:
        """Return the kinds and the state of a cached export."""
        known = self._read.get(export.key)
        return known if known is not None else _read(export)

    def _exported(self, delta: Delta) -> None:
        if delta.new is None:
            self._read.pop(delta.object.key, None)
        else:
            # Once per change: pages read each export many times.
            self._read[delta.new.key] = _read(delta.new)

    def _beaten(self, delta: Delta) -> None:
        namespace, name = delta.object.key
        beat = _beat(delta.new) if delta.new is not None else None
        if name != CLUSTER_BINDING_NAME:
            return
        if beat is None:
            self._beats.pop(namespace, None)
        else:
            self._beats[namespace] = beat


def kinds_of(export: Object) -> tuple[str, ...]:
    """Return the kinds that an export names, each as ``plural.group``."""
    return tuple(dict.fromkeys(one.name for one in spec_of(export).resources))


def _read(export: Object) -> _Export:
    try:
        spec = export.decode(APIServiceExport).spec
    except msgspec.ValidationError as error:
        return _Export((), Judgement("failed", "Invalid", short(str(error))))
    kinds = tuple(dict.fromkeys(one.name for one in spec.resources))
    return _Export(kinds, verdict_of(export))


def _beat(found: Object) -> _Beat | None:
    try:
        status = found.decode(ClusterBinding).status
        templates = record_of(found).templates or ()
    except msgspec.ValidationError:
        return None
    return _Beat(status, templates)


def object_row(kinds: Kinds, kind: FollowedKind, found: Object) -> ObjectRow:
    """Return the row of a cached object."""
    verdict = kind.verdict(found)
    whose = kinds.whose(kind, found)
    return ObjectRow(
        kind=found.kind,
        resource=kind.name,
        namespace=found.meta.namespace,
        name=found.meta.name,
        where=whose.namespace if whose is not None else "",
        state=verdict.state,
        about=verdict.text,
        helps=verdict.remedy,
        since=verdict.since,
    )


def together(verdict: Judgement, known: ConsumerConnection | None) -> Judgement:
    """Return the worse of the export's state and the connection's."""
    if known is None or badness(verdict.state) <= badness(known.verdict.state):
        return verdict
    return known.verdict


def with_objects(verdict: Judgement, counts: Counts) -> tuple[Judgement, str]:
    """Return a binding's state with its objects', and the remedy."""
    if verdict.state != "ok" or not counts.failed:
        return verdict, verdict.remedy
    about = f"{counts.failed} of {counts.total} objects fail"
    return Judgement("failed", message=about), "see what each of its objects needs"


def problems(kinds: Kinds, names: Iterable[str]) -> list[str]:
    """Return a sentence for each named kind whose objects cannot be listed."""
    return [problem for name in names if (problem := kinds.problem(name))]
