"""All consumers of a provider's cluster and the numbers of their objects, from caches."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from fairlead.api.kubebind import (
    ANNOTATION_AUTHOR,
    APISERVICEEXPORTS,
    APISERVICEEXPORTTEMPLATES,
    CLUSTER_BINDING_NAME,
    CLUSTERBINDINGS,
    ClusterBinding,
)
from fairlead.api.kubebind.conditions import HEARTBEAT_TIMEOUT
from fairlead.api.meta import Object
from fairlead.api.reasons.model import State
from fairlead.api.remains import count
from fairlead.api.resource import NAMESPACES
from fairlead.api.timestamps import moment
from fairlead.portal import bounds
from fairlead.portal.console.pages.live import Hub
from fairlead.portal.console.pages.viewing import of_namespace
from fairlead.portal.console.sources.kinds import Kinds
from fairlead.portal.model.thing import WORDS, PageAnswer
from fairlead.provider.commands.overview import ConsumerRow, ProviderState, rows
from fairlead.provider.controllers.clusterbinding.reconcile import health
from fairlead.provider.copies import exported
from fairlead.provider.namespaces import identity_of
from fairlead.provider.offer import record_of
from fairlead.runtime import Cluster, Delta


_CONSUMER = "cluster-namespace"
"""Index of the cluster namespaces, all with the key :data:`_ANY`."""
_ANY = "any"


class KnownConsumer(NamedTuple):
    """A consumer: its row, its owner, and with kbind v2 the uids of its clusters."""

    row: ConsumerRow
    author: str
    clusters: tuple[str, ...] = ()

    @property
    def state(self) -> State:
        """The consumer's state, by the verdict on it and its warnings."""
        if self.row.deleting:
            return "waiting"
        return "failed" if self.row.warnings else self.row.state

    @property
    def word(self) -> str:
        """The reason of the state."""
        row = self.row
        if row.deleting:
            return "being revoked"
        if row.warnings and row.state != "failed":
            return count(len(row.warnings), "warning")
        return WORDS["ok"] if row.state == "ok" else row.reason

    @property
    def answer(self) -> PageAnswer:
        """The first words of the consumer's page."""
        row = self.row
        # A heartbeat is judged as of now, and its verdict has no time of its own.
        silent = row.last_heartbeat_time if row.reason == HEARTBEAT_TIMEOUT else ""
        return PageAnswer(
            state=self.state,
            message=row.message,
            reason=row.reason if row.state != "ok" else "",
            since=row.since or silent,
            remedy=row.remedy,
        )

    @property
    def words(self) -> str:
        """The text that a search looks through."""
        row = self.row
        parts = [row.identity, row.pretty_name, row.namespace, self.author, row.konnector_version]
        parts += [*row.exports, *(row.templates or ()), self.word, *self.clusters]
        parts += ["kbind v2"] if row.protocol == "v2" else []
        return " ".join(parts).lower()


class _Kept(NamedTuple):
    """A consumer without its numbers of objects, until a time in seconds since 1970.

    ``kinds`` are its exported kinds.
    """

    until: float
    known: KnownConsumer
    kinds: tuple[str, ...]


class _Every(frozenset[str]):
    """A set that contains every name: rights that are not checked count as granted."""

    def __contains__(self, name: object) -> bool:
        return True


GRANTED: frozenset[str] = _Every()
"""Value of ``granted`` for consumers whose rights are not checked."""


class Directory:
    """Finds consumers; its task computes rows in advance, once after each change."""

    name = "directory of consumers"

    def __init__(self, cluster: Cluster, hub: Hub, kinds: Kinds) -> None:
        self._kinds = kinds
        self._namespaces = hub.informer(
            cluster, NAMESPACES, topics=of_namespace, metadata_only=True
        )
        self._namespaces.add_index(_CONSUMER, _consumer)
        self._bindings = hub.informer(cluster, CLUSTERBINDINGS)
        self._exports = hub.informer(cluster, APISERVICEEXPORTS)
        self._templates = hub.informer(cluster, APISERVICEEXPORTTEMPLATES)
        self._kept: dict[str, _Kept] = {}
        self._changed: set[str] = set()
        self._stirred = asyncio.Event()
        for informer in (self._namespaces, self._bindings, self._exports):
            informer.subscribe(self._heard)
        self._templates.subscribe(self._offered)

    def consumer(self, namespace: str) -> Object | None:
        """Return the cluster namespace of this name, None if it is not a consumer's."""
        obj = self._namespaces.get("", namespace)
        return obj if obj is not None and identity_of(obj) else None

    def names(self) -> list[str]:
        """Return the names of all cluster namespaces."""
        return [namespace.meta.name for namespace in self._namespaces.by_index(_CONSUMER, _ANY)]

    def binding(self, namespace: str) -> Object | None:
        """Return a consumer's ClusterBinding."""
        return self._bindings.get(namespace, CLUSTER_BINDING_NAME)

    def exports(self, namespace: str) -> list[Object]:
        """Return a consumer's exports, ordered by name."""
        return sorted(self._exports.list(namespace), key=lambda export: export.meta.name)

    def provider_namespaces(self, namespace: str) -> list[str]:
        """Return the names of the namespaces with a consumer's objects."""
        return self._kinds.namespaces(namespace)[1:]

    def copies(self, namespace: str) -> dict[str, int]:
        """Return the numbers of a consumer's copies by plural and group, without zeros."""
        spaces = self._kinds.namespaces(namespace)
        numbers = {
            kind.name: sum(len(kind.verdicts(space)) for space in spaces)
            if kind.resource.namespaced
            else sum(1 for _ in self._kinds.objects(kind, namespace))
            for kind in self._kinds
            if not kind.problem
        }
        return {name: number for name, number in sorted(numbers.items()) if number}

    def all(self) -> list[KnownConsumer]:
        """Return all consumers, ordered by identity.

        Missing rights of kube-bind's konnectors are left out: each would need a review.
        """
        now = moment()
        consumers = [
            self._counted(self._known(namespace, now))
            for namespace in self._namespaces.by_index(_CONSUMER, _ANY)
        ]
        return sorted(
            consumers, key=lambda consumer: (consumer.row.identity, consumer.row.namespace)
        )

    def get(self, namespace: str, granted: frozenset[str] = GRANTED) -> KnownConsumer | None:
        """Return a consumer; ``granted`` names the ClusterRoleBindings whose rights it has."""
        consumer = self.consumer(namespace)
        if consumer is None:
            return None
        return self._counted(self._make(consumer, moment(), granted))

    async def run(self) -> None:
        """Recompute changed rows, yielding to the event loop after every few, until canceled."""
        while True:
            await self._stirred.wait()
            self._stirred.clear()
            names, self._changed = self._changed, set()
            for number, name in enumerate(names, 1):
                if (consumer := self.consumer(name)) is not None:
                    self._known(consumer, moment())
                if number % 20 == 0:
                    await asyncio.sleep(0)
            await asyncio.sleep(bounds.ROWS_REST_SECONDS)

    def _known(self, consumer: Object, now: datetime) -> _Kept:
        cached = self._kept.get(consumer.meta.name)
        # A heartbeat becomes late without a change of its object.
        if cached is None or cached.until <= now.timestamp():
            cached = self._kept[consumer.meta.name] = self._make(consumer, now, GRANTED)
        return cached

    def _make(self, consumer: Object, now: datetime, granted: frozenset[str]) -> _Kept:
        binding, exports = self.binding(consumer.meta.name), self.exports(consumer.meta.name)
        invited = [self._templates.get("", name) for name in record_of(binding).templates or ()]
        state = ProviderState(
            [consumer],
            [binding] if binding is not None else [],
            exports,
            [template for template in invited if template is not None],
            granted=granted,
        )
        (row,) = rows(state, now=now)
        known_consumer = KnownConsumer(row, consumer.meta.annotations.get(ANNOTATION_AUTHOR, ""))
        kinds = sorted({kind for export in exports for kind in exported(export)})
        return _Kept(_until(binding, now), known_consumer, tuple(kinds))

    def _counted(self, cached: _Kept) -> KnownConsumer:
        problems = {kind: self._kinds.problem(kind) for kind in cached.kinds}
        row = msgspec.structs.replace(
            cached.known.row,
            objects=sum(self.copies(cached.known.row.namespace).values()),
            not_counted={kind: problem for kind, problem in problems.items() if problem},
        )
        return cached.known._replace(row=row)

    def _heard(self, delta: Delta) -> None:
        self._stir(delta.object.meta.namespace or delta.object.meta.name)

    def _offered(self, delta: Delta) -> None:
        # Any row may name the template, so all are computed again.
        self._stir(*self._kept)

    def _stir(self, *consumers: str) -> None:
        for consumer in consumers:
            self._kept.pop(consumer, None)
        self._changed.update(consumers)
        self._stirred.set()


def _consumer(namespace: Object) -> list[str]:
    return [_ANY] if identity_of(namespace) else []


def _until(binding: Object | None, now: datetime) -> float:
    """Return when a consumer's health has to be judged again, in seconds since 1970."""
    try:
        status = binding.decode(ClusterBinding).status if binding is not None else None
    except msgspec.ValidationError:
        status = None
    wait = health(status, now=now)[1] if status is not None else None
    return (now + timedelta(seconds=wait)).timestamp() if wait is not None else float("inf")
