"""Comparison of caches with their servers, for changes that a watch has left out silently.

The API promises that a watch tells of every change. Defects of etcd have broken that promise
more than once (https://github.com/etcd-io/etcd/issues/17529, 18089 and 19179), and a cache that
has missed a deletion shows the object for ever. So the metadata of a collection is listed once an
hour, page by page, and where uid or resourceVersion is another one than in the cache, all of it is
listed anew, which tells of what was missed.

Caches are always a little behind. So a difference counts only if both sides still show it in a
second list, ``BEHIND_SECONDS`` later.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol
from weakref import WeakKeyDictionary

import msgspec
import structlog

from fairlead.api.meta import Key, Object, ObjectMeta
from fairlead.api.resource import Resource
from fairlead.client import ClientError, limits
from fairlead.client.wire import Page, unchanged
from fairlead.runtime.cache.informer import SharedInformer
from fairlead.runtime.cache.store import NO_BODY, Transform


_log = structlog.get_logger(logger_name="fairlead.runtime.missed")


class MetadataPages(Protocol):
    """Source of paged lists, such as :class:`fairlead.client.Client`."""

    async def page(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        limit: int,
        continue_: str = "",
        metadata_only: bool = False,
        transform: Transform = unchanged,
    ) -> Page:
        """Return one page of a list."""
        ...


def _identity(object_: Object) -> Object:
    """Return an object with what is compared alone; labels and their like may be large."""
    meta = object_.meta
    compared = ObjectMeta(
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        resource_version=meta.resource_version,
    )
    return msgspec.structs.replace(object_, meta=compared, raw=NO_BODY)


class _State(NamedTuple):
    uid: str
    version: str

    @classmethod
    def of(cls, object_: Object | None) -> _State | None:
        """Return uid and resourceVersion of an object; None without an object."""
        if object_ is None:
            return None
        return cls(object_.meta.uid, object_.meta.resource_version)


class _Difference(NamedTuple):
    cached: _State | None
    listed: _State | None


class Comparisons:
    """Compares the caches of one cluster with its server, one after another.

    Changes that a cache has missed are counted in the ``missed`` of its informer.
    """

    def __init__(
        self, source: MetadataPages, informers: Callable[[], Iterable[SharedInformer]]
    ) -> None:
        self._source = source
        self._informers = informers
        self._due: WeakKeyDictionary[SharedInformer, float] = WeakKeyDictionary()

    async def run(self) -> None:
        """Compare until cancelled."""
        while True:
            await asyncio.sleep(limits.DUE_SECONDS)
            for informer in list(self._informers()):
                if self._is_due(informer):
                    await self._compare(informer)

    def _is_due(self, informer: SharedInformer) -> bool:
        """Whether a comparison of the informer is due; if so, choose the time of the next."""
        now = asyncio.get_running_loop().time()
        due = self._due.get(informer)
        if due is not None and now < due:
            return False
        # Programs that were started together must not list together.
        least = 0.75 if due is not None else 0.0
        self._due[informer] = now + limits.COMPARED_SECONDS * random.uniform(least, 1.25)  # noqa: S311
        return due is not None

    async def _compare(self, informer: SharedInformer) -> None:
        try:
            differences = await self._missed(informer)
        except ClientError as error:
            # The reflector reports what keeps it from listing; this one is to compare alone.
            _log.debug("not compared", resource=str(informer.scope), error=str(error))
            return
        except Exception:  # noqa: BLE001  to compare must not end what works
            _log.exception("not compared", resource=str(informer.scope))
            return
        if not differences:
            return
        informer.missed += len(differences)
        _log.warning(
            "a watch has left out changes, and all is listed again",
            resource=str(informer.scope),
            objects=len(differences),
            one_of_them=str(next(iter(differences))),
        )
        informer.reflector.relist()

    async def _missed(self, informer: SharedInformer) -> dict[Key, _Difference]:
        first = await self._differences(informer)
        if not first:
            return {}
        await asyncio.sleep(limits.BEHIND_SECONDS)
        # Most differences are changes on their way, which the cache has by now.
        get = informer.store.get
        first = {key: one for key, one in first.items() if _State.of(get(*key)) == one.cached}
        if not first:
            return {}
        second = await self._differences(informer)
        return {key: one for key, one in second.items() if first.get(key) == one}

    async def _differences(self, informer: SharedInformer) -> dict[Key, _Difference]:
        """Return the objects in which the cache is behind the list; {} during a fault."""
        store, scope = informer.store, informer.scope
        if informer.reflector.error or not informer.synced.is_set():
            return {}
        differences: dict[Key, _Difference] = {}
        unlisted = {object_.meta.uid: object_ for object_ in store}
        version, continue_ = "", ""
        while True:
            page = await self._source.page(
                scope.resource,
                scope.namespace,
                labels=scope.labels,
                fields=scope.fields,
                limit=limits.PAGE,
                continue_=continue_,
                metadata_only=True,
                transform=_identity,
            )
            version = version or page.resource_version
            for listed in page.items:
                unlisted.pop(listed.meta.uid, None)
                present = store.get(listed.meta.namespace, listed.meta.name)
                cached, there = _State.of(present), _State.of(listed)
                if cached != there and not _ahead(cached, listed.meta.resource_version):
                    differences[listed.key] = _Difference(cached, there)
            if len(differences) >= limits.DIFFERENCES:
                return differences
            continue_ = page.continue_
            if not continue_:
                break
        for present in unlisted.values():
            # An object that came or went since the list was made is no difference.
            if store.get(*present.key) is present and not _ahead(_State.of(present), version):
                differences.setdefault(present.key, _Difference(_State.of(present), None))
        return differences


def _ahead(cached: _State | None, version: str) -> bool:
    """Whether the cached version is later; always False where versions are no numbers."""
    if cached is None:
        return False
    try:
        return int(cached.version) > int(version)
    except ValueError:
        return False
