"""All consumers of a provider's cluster and the numbers of their objects, from caches."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
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
from fairlead.api.meta import Object
from fairlead.api.reasons.model import State
from fairlead.api.resource import NAMESPACES
from fairlead.api.timestamps import moment
from fairlead.client import ClientError, NotServed
from fairlead.client.lookups import may
from fairlead.portal.console.consumers.standing import (
    ConsumerFault,
    ConsumerStanding,
    faults,
    standing,
)
from fairlead.portal.console.pages.live import Hub
from fairlead.portal.console.pages.viewing import of_namespace
from fairlead.provider.commands.overview import ConsumerRow, ProviderState, rows
from fairlead.provider.commands.revoke.belonging import provider_namespaces
from fairlead.provider.commands.revoke.inventory import Inventory
from fairlead.provider.controllers.clusterbinding.reconcile import health
from fairlead.provider.copies import CopyNamespaces, exported, places
from fairlead.provider.namespaces import identity_of, owner_of
from fairlead.provider.offer import record_of
from fairlead.runtime import Cluster, Delta, Informer


TOPIC = "*consumers"
"""Topic of a change of any consumer; not a possible name of a namespace."""
REST_SECONDS = 0.5
"""Shortest interval between wake-ups of this topic, in seconds; heartbeats change it often."""
AGAIN_SECONDS = 30.0
"""Delay before kinds that could not be listed are tried again, in seconds."""
_BEING_LISTED = "it is being listed for the first time"
_MAY_NOT = (
    "this program may not list them in all namespaces; `fairlead manifests provider --export {}` "
    "prints the role that allows it"
)
_AT_A_TIME = 20
"""Number of rows that are computed before other tasks get a turn."""
_HOME = "consumer-home"
"""Index of namespaces by the consumer whose objects they hold."""
_CONSUMER = "consumer"
"""Index of the cluster namespaces, all with the key :data:`_ANY`."""
_ANY = "any"


class KnownConsumer(NamedTuple):
    """A consumer: its row, its owner, its state and its faults."""

    row: ConsumerRow
    author: str
    standing: ConsumerStanding
    faults: Sequence[ConsumerFault]

    @property
    def state(self) -> State:
        """The consumer's state."""
        return self.standing.state

    @property
    def words(self) -> str:
        """The text that a search looks through."""
        row = self.row
        parts = [row.identity, row.pretty_name, row.namespace, self.author, row.konnector_version]
        return " ".join([*parts, *row.exports, *(row.templates or ()), self.standing.word]).lower()


class _Kept(NamedTuple):
    """A consumer as computed from objects with the resourceVersions ``versions``.

    It is computed again after ``until``, in seconds since 1970. Its numbers of objects are not
    set. ``kinds`` are its exported kinds.
    """

    versions: tuple[object, ...]
    until: float
    known: KnownConsumer
    kinds: frozenset[str]


class _Every(frozenset[str]):
    """A set that contains every name: rights that are not checked count as granted."""

    def __contains__(self, name: object) -> bool:
        return True


GRANTED: frozenset[str] = _Every()
"""Value of ``granted`` for consumers whose rights are not checked."""


class Directory:
    """Finds consumers, and wakes the streams of pages about them.

    Its task computes rows in advance, once after each change.
    """

    name = "directory of consumers"

    def __init__(self, cluster: Cluster, hub: Hub) -> None:
        self._hub = hub
        self._namespaces = hub.informer(
            cluster, NAMESPACES, topics=of_namespace, metadata_only=True
        )
        self._namespaces.add_index(_HOME, _home)
        self._namespaces.add_index(_CONSUMER, _consumer)
        self._bindings = hub.informer(cluster, CLUSTERBINDINGS)
        self._exports = hub.informer(cluster, APISERVICEEXPORTS)
        self._templates = hub.informer(cluster, APISERVICEEXPORTTEMPLATES)
        self._changes = 0
        self._due: asyncio.TimerHandle | None = None
        self._changed: set[str] = set()
        self._stirred = asyncio.Event()
        self._kept: dict[str, _Kept] = {}
        for informer in (self._namespaces, self._bindings, self._exports, self._templates):
            informer.subscribe(self._heard)
        self._templates.subscribe(self._offered)
        self._counting = _Counting(cluster, self._namespaces, self._exports, self._copied)

    async def run(self) -> None:
        """Follow exported kinds and changes of consumers, until canceled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._counting.run(), name="counting copies")
            group.create_task(self._prepare(), name=self.name)

    def consumer(self, namespace: str) -> Object | None:
        """Return the cluster namespace of this name, None if it is not a consumer's."""
        found = self._namespaces.get("", namespace)
        return found if found is not None and identity_of(found) else None

    def binding(self, namespace: str) -> Object | None:
        """Return a consumer's ClusterBinding."""
        return self._bindings.get(namespace, CLUSTER_BINDING_NAME)

    def exports(self, namespace: str) -> list[Object]:
        """Return a consumer's exports, ordered by name."""
        return sorted(self._exports.list(namespace), key=lambda one: one.meta.name)

    def provider_namespaces(self, namespace: str) -> list[Object]:
        """Return the namespaces with a consumer's objects, ordered by name."""
        found = provider_namespaces(self._namespaces.by_index(_HOME, namespace), namespace)
        return sorted(found, key=lambda one: one.meta.name)

    def copies(self, namespace: str) -> dict[str, int]:
        """Return the numbers of a consumer's copies, by plural and group."""
        homes = [one.meta.name for one in self._namespaces.by_index(_HOME, namespace)]
        return dict(sorted(self._counting.of(namespace, homes).items()))

    def not_counted(self, namespace: str) -> dict[str, str]:
        """Return why some of a consumer's exported kinds are not counted, by plural and group."""
        kinds = {kind for one in self.exports(namespace) for kind in exported(one)}
        unseen = self._counting.unseen()
        return {kind: unseen[kind] for kind in sorted(kinds & unseen.keys())}

    def inventory(self, namespace: str) -> Inventory | None:
        """Return the numbers of a consumer's objects; None without such a consumer."""
        found = self.consumer(namespace)
        if found is None:
            return None
        return Inventory(
            identity_of(found),
            namespace,
            len(self.exports(namespace)),
            len(self.provider_namespaces(namespace)),
            sum(self.copies(namespace).values()),
            self.not_counted(namespace),
        )

    def all(self) -> list[KnownConsumer]:
        """Return all consumers, ordered by identity.

        Missing rights of kube-bind's konnectors are left out: each would need a review.
        """
        found = self._namespaces.by_index(_CONSUMER, _ANY)
        here = {one.meta.name for one in found}
        # Consumers that are gone.
        for name in self._kept.keys() - here:
            del self._kept[name]
        now, unseen = moment(), self._counting.unseen()
        known = [self._counted(self._known(one, now), unseen) for one in found]
        return sorted(known, key=lambda one: (one.row.identity, one.row.namespace))

    def one(self, namespace: str, granted: frozenset[str] = GRANTED) -> KnownConsumer | None:
        """Return a consumer; ``granted`` names the ClusterRoleBindings whose rights it has."""
        found = self.consumer(namespace)
        if found is None:
            return None
        return self._counted(self._make(found, moment(), granted, ()), self._counting.unseen())

    def _known(self, namespace: Object, now: datetime) -> _Kept:
        name = namespace.meta.name
        binding, exports = self.binding(name), self._exports.list(name)
        versions = (
            namespace.meta.resource_version,
            binding.meta.resource_version if binding is not None else "",
            *sorted(one.meta.resource_version for one in exports),
            self._changes,
        )
        kept = self._kept.get(name)
        if kept is None or kept.versions != versions or kept.until <= now.timestamp():
            kept = self._kept[name] = self._make(namespace, now, GRANTED, versions)
        return kept

    def _make(
        self,
        namespace: Object,
        now: datetime,
        granted: frozenset[str],
        versions: tuple[object, ...],
    ) -> _Kept:
        name = namespace.meta.name
        binding, exports = self.binding(name), self.exports(name)
        state = ProviderState(
            [namespace],
            [binding] if binding is not None else [],
            exports,
            self._invited(binding),
            granted=granted,
        )
        (row,) = rows(state, now=now)
        wrong = [fault for export in exports for fault in faults(export)]
        author = namespace.meta.annotations.get(ANNOTATION_AUTHOR, "")
        known = KnownConsumer(row, author, standing(row), wrong)
        kinds = frozenset(kind for export in exports for kind in exported(export))
        return _Kept(versions, _until(binding, now), known, kinds)

    def _counted(self, kept: _Kept, unseen: Mapping[str, str]) -> KnownConsumer:
        row = kept.known.row
        counted = msgspec.structs.replace(
            row,
            objects=sum(self.copies(row.namespace).values()),
            not_counted={kind: unseen[kind] for kind in sorted(kept.kinds & unseen.keys())},
        )
        return kept.known._replace(row=counted)

    def _invited(self, binding: Object | None) -> list[Object]:
        names = record_of(binding).templates or ()
        return [found for name in names if (found := self._templates.get("", name)) is not None]

    async def _prepare(self) -> None:
        """Recompute changed rows, yielding to the event loop after every few."""
        while True:
            await self._stirred.wait()
            self._stirred.clear()
            names, self._changed = self._changed, set()
            for number, name in enumerate(names, 1):
                found = self.consumer(name)
                if found is not None:
                    self._known(found, moment())
                if number % _AT_A_TIME == 0:
                    await asyncio.sleep(0)
            await asyncio.sleep(REST_SECONDS)

    def _heard(self, delta: Delta) -> None:
        self._changed.add(delta.object.meta.namespace or delta.object.meta.name)
        self._stirred.set()
        self._stir()

    def _offered(self, delta: Delta) -> None:
        # Any row may name the template, so all are computed again.
        self._changes += 1
        self._changed.update(self._kept)
        self._stirred.set()

    def _copied(self, copy: Object) -> None:
        home = self._namespaces.get("", copy.meta.namespace) if copy.meta.namespace else None
        if home is not None:
            self._hub.changed(*_home(home))
        self._stir()

    def _stir(self) -> None:
        if self._due is None:
            self._due = asyncio.get_running_loop().call_later(REST_SECONDS, self._tell)

    def _tell(self) -> None:
        self._due = None
        self._hub.changed(TOPIC)


class _Kind:
    """The cached objects of a kind, with numbers per namespace if it is namespaced."""

    def __init__(self, informer: Informer, heard: Callable[[Object], None]) -> None:
        self.informer = informer
        self.numbers: Counter[str] = Counter()
        self._whose: tuple[object, Counter[str]] | None = None
        self._heard = heard
        informer.subscribe(self._take)

    def _take(self, delta: Delta) -> None:
        self._whose = None
        if delta.old is None:
            self.numbers[delta.object.meta.namespace] += 1
        elif delta.new is None:
            self.numbers[delta.object.meta.namespace] -= 1
        # An update changes no number; but a cluster-scoped object may change its consumer.
        elif self.informer.resource.namespaced:
            return
        self._heard(delta.object)

    @property
    def is_known(self) -> bool:
        """Whether the kind's cache is up to date."""
        return self.informer.has_synced and not self.informer.error

    def of(
        self, consumer: str, homes: Sequence[str], places_now: Callable[[], CopyNamespaces]
    ) -> int:
        """Return the number of a consumer's objects; ``homes`` are namespaces of its copies."""
        if self.informer.resource.namespaced:
            return sum(self.numbers[home] for home in homes)
        where = places_now()
        if self._whose is None or self._whose[0] is not where:
            resource = self.informer.resource
            found = Counter(where.whose(resource, one.meta) for one in self.informer.list())
            self._whose = where, found
        return self._whose[1][consumer]


class _Counting:
    """Counts copies of each kind that an export names and that may be listed.

    Args:
        cluster: the provider's cluster.
        namespaces: the informer of all namespaces.
        exports: the informer of all exports.
        changed: called with each new or deleted copy.
    """

    def __init__(
        self,
        cluster: Cluster,
        namespaces: Informer,
        exports: Informer,
        changed: Callable[[Object], None],
    ) -> None:
        self._cluster = cluster
        self._namespaces = namespaces
        self._exports = exports
        self._changed = changed
        self._kinds: dict[str, _Kind] = {}
        self._refused: dict[str, str] = {}
        self._gone: set[str] = set()
        self._wanted: frozenset[str] | None = None
        self._turned = asyncio.Event()
        self._places: CopyNamespaces | None = None
        namespaces.subscribe(self._moved)
        exports.subscribe(self._offered)

    def of(self, consumer: str, homes: Sequence[str]) -> Mapping[str, int]:
        """Return a consumer's numbers of copies by plural and group, without zeros.

        ``homes`` are the namespaces of its namespaced copies.
        """
        found = {
            name: kind.of(consumer, homes, self._where)
            for name, kind in self._kinds.items()
            if kind.is_known
        }
        return {name: number for name, number in found.items() if number}

    def _where(self) -> CopyNamespaces:
        """Return the places of copies, needed only for cluster-scoped kinds."""
        if self._places is None:
            self._places = places(self._namespaces.list(), self._exports.list())
        return self._places

    def unseen(self) -> Mapping[str, str]:
        """Return why kinds are not counted, by plural and group."""
        known = self._refused.keys() | self._kinds.keys() | self._gone
        found = self._refused | dict.fromkeys(self._exported() - known, _BEING_LISTED)
        for name, kind in self._kinds.items():
            if kind.informer.error:
                found[name] = " ".join(kind.informer.error.split())
            elif not kind.informer.has_synced:
                found[name] = _BEING_LISTED
        return found

    async def run(self) -> None:
        """Watch the exported kinds that may be listed, until canceled."""
        try:
            while True:
                self._turned.clear()
                await self._follow()
                with suppress(TimeoutError):
                    async with asyncio.timeout(AGAIN_SECONDS):
                        await self._turned.wait()
        finally:
            for name in list(self._kinds):
                await self._kinds.pop(name).informer.close()

    def _moved(self, delta: Delta) -> None:
        self._places = None

    def _offered(self, delta: Delta) -> None:
        self._moved(delta)
        self._wanted = None
        self._turned.set()

    def _exported(self) -> frozenset[str]:
        if self._wanted is None:
            self._wanted = frozenset().union(*map(exported, self._exports.list()))
        return self._wanted

    async def _follow(self) -> None:
        wanted = self._exported()
        for name in [*self._kinds, *self._refused, *self._gone]:
            if name not in wanted:
                await self._drop(name)
        for name in sorted(wanted):
            kind = self._kinds.get(name)
            # A kind whose watch fails is reviewed again: the right may have been revoked.
            if kind is not None and not kind.informer.error:
                continue
            plural, _, group = name.partition(".")
            try:
                resource = await self._cluster.client.discovery.resource_by_plural(group, plural)
                # Asked before, since an informer would retry.
                allowed = await may(self._cluster.client, resource, "list")
                refused = "" if allowed else _MAY_NOT.format(name)
            except NotServed:
                # Without its CRD the kind has no objects.
                await self._drop(name)
                self._gone.add(name)
                continue
            except ClientError as error:
                refused = " ".join(str(error).split())
            if refused:
                await self._drop(name)
                self._refused[name] = refused
            elif kind is None:
                self._refused.pop(name, None)
                self._gone.discard(name)
                # Metadata alone: numbers need no spec, and a provider may have many thousands of
                # objects.
                informer = self._cluster.informer(resource, metadata_only=True)
                self._kinds[name] = _Kind(informer, self._changed)

    async def _drop(self, name: str) -> None:
        self._refused.pop(name, None)
        self._gone.discard(name)
        kind = self._kinds.pop(name, None)
        if kind is not None:
            await kind.informer.close()


def _home(namespace: Object) -> list[str]:
    """Return the consumer of the copies in a namespace, as an index key."""
    if identity_of(namespace):
        return [namespace.meta.name]
    owner = owner_of(namespace)
    return [owner.namespace] if owner is not None else []


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
