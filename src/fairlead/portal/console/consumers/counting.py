"""Numbers of copies per exported kind, from metadata caches of the kinds that may be listed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import msgspec

from fairlead.api.kubebind import APIServiceExport
from fairlead.api.meta import Object
from fairlead.client import ClientError, NotServed
from fairlead.portal.handshake.reviews import ReviewedAction as Review
from fairlead.portal.handshake.reviews import client_may
from fairlead.provider.copies import CopyNamespaces, places
from fairlead.runtime import Cluster, Delta, Informer


AGAIN_SECONDS = 30.0
"""Delay before kinds that could not be listed are tried again, in seconds."""
_BEING_LISTED = "it is being listed for the first time"


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


class Counting:
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
        self._wanted: dict[str, tuple[str, str]] | None = None
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
        found = self._refused | dict.fromkeys(self._exported().keys() - known, _BEING_LISTED)
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

    def _exported(self) -> dict[str, tuple[str, str]]:
        """Return group and plural of all exported kinds, by their name ``plural.group``."""
        if self._wanted is None:
            pairs = (pair for one in self._exports.list() for pair in _pairs(one))
            self._wanted = {_name(*pair): pair for pair in pairs}
        return self._wanted

    async def _follow(self) -> None:
        """Watch newly exported kinds, and drop those that are no longer exported."""
        wanted = dict(self._exported())
        for name in [*self._kinds, *self._refused, *self._gone]:
            if name not in wanted:
                await self._drop(name)
        for name, (group, plural) in sorted(wanted.items()):
            kind = self._kinds.get(name)
            # A kind whose watch fails is reviewed again: the right may have been revoked.
            if kind is not None and not kind.informer.error:
                continue
            try:
                resource = await self._cluster.client.discovery.resource_by_plural(group, plural)
                # Asked before, since an informer would retry.
                may = await client_may(self._cluster.client, Review.on(resource, "list"))
                refused = "" if may else _MAY_NOT.format(name)
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


_MAY_NOT = (
    "this program may not list them in all namespaces; `fairlead manifests provider --export {}` "
    "prints the role that allows it"
)


def _pairs(export: Object) -> list[tuple[str, str]]:
    try:
        return [one.group_resource for one in export.decode(APIServiceExport).spec.resources]
    except msgspec.ValidationError:
        return []


def _name(group: str, plural: str) -> str:
    return f"{plural}.{group}" if group else plural
