"""The dependencies of bindings, and the watches of their changes.

Every object that a binding's last pass read is watched, as metadata and within its namespace, by
informers that the whole process shares. A watch starts with the first binding that needs it and
ends with the last. Each takes a connection: a resource that is read in many namespaces gets one
watch of all namespaces.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple, TypeAlias

from fairlead.api.meta import Object, ObjectMeta
from fairlead.api.resource import Resource
from fairlead.api.selectors import LabelSelector
from fairlead.api.servicebinding.mapping import CLUSTERWORKLOADRESOURCEMAPPINGS
from fairlead.binding import bounds
from fairlead.binding.reads import Get, ListAll, Marked, Read
from fairlead.binding.workloads.records import marks
from fairlead.client import Forbidden, Unauthorized
from fairlead.runtime import Cluster, Delta, Informer, Request


_MARKS, _OWNERS, _LABELS, _KEYS = "records", "owners", "labels", "keys"

Enqueue: TypeAlias = Callable[[Request], None]
_Watched: TypeAlias = Get | ListAll | Marked
_Name: TypeAlias = tuple[str, str]
"""Namespace and name of an object."""
_Topic: TypeAlias = tuple[str, str]
"""Index key of reads and changes: an object's name, a record, an owner, a label, or any."""

_ANYTHING: _Topic = ("", "")


class _Place(NamedTuple):
    resource: Resource
    namespace: str


class _Watch:
    """A lease on an informer, with the reads that rely on it by binding."""

    def __init__(self, informer: Informer) -> None:
        self.informer = informer
        self.readers: dict[Request, dict[Read, str | list[str]]] = {}
        """Reads by binding; a Get with the resourceVersion of the server's last answer.

        While the server is asked it has a list of the versions that the watch shows meanwhile.
        """
        self.blind: set[Request] = set()
        """Bindings that were answered before the first list, which is a change for them only."""
        self.written: dict[Request, dict[str, str]] = {}
        """resourceVersions before writes of bindings that the watch may not show yet."""
        self.echoes: dict[Request, dict[str, str | list[str]]] = {}
        """resourceVersions of bindings' own writes; during a write a list of those seen."""
        self._topics: dict[_Topic, dict[Request, set[Read]]] = {}
        self.rolling: dict[Request, frozenset[_Name]] = {}
        """Workloads of which changes of the status count too, by binding."""
        self._rolling_for: dict[_Name, set[Request]] = {}

    def follow(self, request: Request, names: Collection[_Name]) -> None:
        """Record of which workloads changes of the status count, instead of those before."""
        for name in self.rolling.pop(request, ()):
            self._rolling_for[name].discard(request)
            if not self._rolling_for[name]:
                del self._rolling_for[name]
        if names:
            self.rolling[request] = frozenset(names)
        for name in names:
            self._rolling_for.setdefault(name, set()).add(request)

    def rolled(self, delta: Delta) -> Collection[Request]:
        """Return the bindings that follow the status that has changed."""
        meta = delta.object.meta
        followers = self._rolling_for.get((meta.namespace, meta.name), ())
        return tuple(followers) if followers and _status_only(delta) else ()

    def add(self, request: Request, read: _Watched) -> None:
        """Record that a binding's read relies on this watch."""
        self.readers.setdefault(request, {}).setdefault(read, "")
        self._topics.setdefault(_topic(read), {}).setdefault(request, set()).add(read)

    def keep(self, request: Request, current: set[Read]) -> None:
        """Drop the reads of a binding that are no longer wanted."""
        answered = self.readers.get(request, {})
        for read in answered.keys() - current:
            del answered[read]
            topic = _topic(read)  # type: ignore[arg-type]
            reads = self._topics[topic][request]
            reads.discard(read)
            if not reads:
                del self._topics[topic][request]
            if not self._topics[topic]:
                del self._topics[topic]
        if not answered:
            self.follow(request, ())
            self.readers.pop(request, None)
            self.blind.discard(request)
            self.written.pop(request, None)
            self.echoes.pop(request, None)

    def affected(self, delta: Delta) -> Iterable[Request]:
        """Return the bindings that need a pass after a change, found by index."""
        # The first list is no change for bindings that waited for it.
        if delta.initial and not self.blind:
            return ()
        status_only = _status_only(delta)
        concerned = dict.fromkeys(
            request
            for topic in _topics(delta)
            for request, reads in self._topics.get(topic, {}).items()
            if any(
                _concerns(read, delta, status_only=status_only)
                and not self._is_answered(request, read, delta)
                for read in reads
            )
        )
        if delta.initial:
            return [request for request in concerned if request in self.blind]
        return [request for request in concerned if not self._echo(request, delta)]

    def vanished(self) -> list[Request]:
        """Return the bindings that read or wrote an object that is not there after a list.

        It came and went while the watch was interrupted, so no change tells of its end.
        """
        get = self.informer.get
        requests = []
        for request, reads in self.readers.items():
            written = [
                name
                for name, version in self.echoes.get(request, {}).items()
                if version and get(request.namespace, name) is None
            ]
            for name in written:
                del self.echoes[request][name]
            answered = (
                (read.namespace if read.resource.namespaced else "", read.name)
                for read, version in reads.items()
                if version and isinstance(read, Get)
            )
            if written or any(get(*place) is None for place in answered):
                requests.append(request)
        return requests

    def _is_answered(self, request: Request, read: Read, delta: Delta) -> bool:
        """Whether the binding has read, or may just be reading, the object as the change shows it.

        The watch may lag behind the server: an object that was created just before its binding is
        read first, and then shown.
        """
        if delta.new is None:
            return False
        before, version = self.readers[request][read], delta.new.meta.resource_version
        # The answer is on its way: `answered` decides then.
        if isinstance(before, list):
            before.append(version)
            return True
        return before == version != ""

    def _echo(self, request: Request, delta: Delta) -> bool:
        """Whether the change is, or may be, the binding's own write."""
        meta = delta.object.meta
        echoes = self.echoes.get(request, {}).get(meta.name)
        if echoes is None or delta.new is None or meta.namespace != request.namespace:
            return False
        # The write has no answer yet, so its version is unknown: `stored` decides later.
        if isinstance(echoes, list):
            echoes.append(meta.resource_version)
            return True
        return echoes == meta.resource_version


class BindingDependencies:
    """The watches of one controller's bindings.

    ``enqueue`` requests a pass of a binding. ``enqueue_later``, by default the same, does so after
    a change of the status of a workload that rolls out: such changes come in numbers.
    """

    def __init__(
        self, cluster: Cluster, enqueue: Enqueue, enqueue_later: Enqueue | None = None
    ) -> None:
        self._cluster = cluster
        self._enqueue = enqueue
        self._enqueue_later = enqueue_later or enqueue
        self._watches: dict[_Place, _Watch] = {}
        self._unwatched: dict[Request, set[Read]] = {}
        self._places: dict[Request, dict[_Place, None]] = {}
        self._namespaces: Counter[Resource] = Counter()
        self._narrow: set[Resource] = set()
        """Resources that may not be watched in all namespaces."""

    async def watch(self, request: Request, reads: Iterable[Read]) -> set[Read]:
        """Watch what reads ask for; return the reads whose changes may be missed for now.

        Changes of mappings, kinds and rights come another way: their reads are only recorded.
        """
        watched: list[tuple[_Watched, _Watch]] = []
        for read in reads:
            if isinstance(read, _Watched) and read.resource != CLUSTERWORKLOADRESOURCEMAPPINGS:
                watched.append((read, self._add(request, read)[1]))
            else:
                self.add_unwatched(request, read)
        late: list[_Watched] = []
        for read, watch in watched:
            if watch.informer.has_synced:
                watch.blind.discard(request)
            else:
                late.append(read)
        # Together: a watch that is refused, or whose first list is large, may take seconds.
        synced = await asyncio.gather(*(self.join(request, read) for read in late)) if late else ()
        return {read for read, is_synced in zip(late, synced, strict=True) if not is_synced}

    async def join(self, request: Request, read: _Watched) -> bool:
        """Watch the objects of a read; return False if changes may be missed for now."""
        place, watch = self._add(request, read)
        synced = await _synced(watch.informer)
        # Another binding was refused this watch meanwhile: `keep_only` will leave it.
        if self._place(read) != place:
            return await self.join(request, read)
        if synced:
            watch.blind.discard(request)
            return True
        watch.blind.add(request)
        if not place.namespace and read.resource.namespaced and _refused(watch.informer):
            # The rights may be limited to single namespaces: watch only this one.
            self._narrow.add(read.resource)
            return await self.join(request, read)
        return False

    def _add(self, request: Request, read: _Watched) -> tuple[_Place, _Watch]:
        place = self._place(read)
        watch = self._watch(place)
        # Added before the first list, so that no event before the answer is missed.
        watch.add(request, read)
        self._places.setdefault(request, {})[place] = None
        return place, watch

    def asking(self, request: Request, read: Get) -> None:
        """Record that the server is asked for the object of a watched read."""
        watch = self._watches.get(self._place(read))
        if watch is not None and read in watch.readers.get(request, ()):
            watch.readers[request][read] = []

    def answered(self, request: Request, read: Get, version: str) -> None:
        """Record the resourceVersion of the server's answer to a read, "" if it has no object.

        Other versions that were seen meanwhile are changes.
        """
        watch = self._watches.get(self._place(read))
        if watch is None or read not in watch.readers.get(request, ()):
            return
        before = watch.readers[request][read]
        watch.readers[request][read] = version
        if isinstance(before, list) and any(one != version for one in before):
            self._enqueue(request)

    def marked(self, request: Request, read: Marked) -> tuple[list[Object], list[str]]:
        """Return the answer to a joined read, from cached metadata.

        Also return the names of objects that the binding wrote and its watch does not show yet.
        """
        watch = self._watch(self._place(read))
        informer = watch.informer
        index, function = (_OWNERS, _owners) if read.owner else (_MARKS, _marks)
        # Added on first use: most watches need no such index.
        informer.add_index(index, function)
        objects = [
            item
            for item in informer.by_index(index, read.owner or read.annotation)
            if _within(read, item.meta)
        ]
        for name, version in list(watch.written.get(request, {}).items()):
            if _shows(informer.get(read.namespace, name), version):
                del watch.written[request][name]
        return objects, list(watch.written.get(request, ()))

    def selected(self, read: ListAll) -> list[Object]:
        """Return the objects of a joined list, from cached metadata.

        Return none if the server has to be asked.
        """
        informer = self._watch(self._place(read)).informer
        if informer.error or not read.labels.requirements:
            return []
        pair = _pair(read.labels)
        if pair:
            informer.add_index(_LABELS, _labels)
            objects = informer.by_index(_LABELS, pair)
        else:
            objects = informer.list(read.namespace)
        return [
            item
            for item in objects
            if _within(read, item.meta) and read.matcher.matches(item.meta.labels)
        ]

    def expect_newer(
        self, request: Request, place: tuple[Resource, str, str], before: str
    ) -> None:
        """Record before a write that the watch lags until it shows a newer version.

        Until then :meth:`marked` names the object, so that the server is asked about it. ``place``
        is its resource, namespace and name, ``before`` the version before the write; "" for none.
        """
        resource, namespace, name = place
        watch = self._watches.get(self._placed(resource, namespace))
        if watch is not None:
            watch.written.setdefault(request, {})[name] = before

    def is_gone(self, request: Request, read: Marked, name: str) -> None:
        """Record that the server has no object of a name that :meth:`marked` gave.

        A watch that never showed it will not show it any more.
        """
        watch = self._watches.get(self._place(read))
        if watch is not None and watch.informer.get(read.namespace, name) is None:
            watch.written.get(request, {}).pop(name, None)

    def follow(self, request: Request, workloads: Iterable[tuple[Resource, Object]]) -> None:
        """Have changes of the status of these workloads count too, until the next call.

        Args:
            request: the binding.
            workloads: resources and objects, which the pass has read.
        """
        names: dict[_Place, dict[_Name, str]] = {}
        for resource, workload in workloads:
            meta = workload.meta
            place = self._placed(resource, meta.namespace)
            versions = names.setdefault(place, {})
            versions[meta.namespace, meta.name] = meta.resource_version
        for place in self._places.get(request, ()):
            watch, versions = self._watches.get(place), names.get(place, {})
            if watch is None:
                continue
            watch.follow(request, versions)
            # A change between the read and this call counted for nothing.
            if any(
                _shows(cached, version)
                for key, version in versions.items()
                if (cached := watch.informer.get(*key)) is not None
            ):
                self._enqueue_later(request)

    def writing(self, request: Request, resource: Resource, namespace: str, name: str) -> None:
        """Record before a write that the object's next changes may be our own."""
        watch = self._watches.get(self._placed(resource, namespace))
        if watch is not None:
            watch.echoes.setdefault(request, {})[name] = []

    def stored(self, request: Request, place: tuple[Resource, str, str], version: str) -> None:
        """Record after a write the object's version, "" if the binding needs another pass.

        ``place`` is its resource, namespace and name. Other versions that were seen during the
        write are changes by others.
        """
        watch = self._watches.get(self._placed(*place[:2]))
        echoes = watch.echoes.get(request, {}) if watch is not None else {}
        versions = echoes.pop(place[2], [])
        # Another client wrote the object between the request and its answer.
        if any(one != version for one in versions):
            self._enqueue(request)
        # The event comes after the answer, and has to be recognized as our own.
        if version and not versions:
            echoes[place[2]] = version

    def add_unwatched(self, request: Request, read: Read) -> None:
        """Record a read without a watch here: the controller learns its changes by another way."""
        self._unwatched.setdefault(request, set()).add(read)

    def unwatched_readers(self, matches: Callable[[Read], bool]) -> list[Request]:
        """Return the bindings with an unwatched read that ``matches``."""
        return [request for request, reads in self._unwatched.items() if any(map(matches, reads))]

    async def keep_only(self, request: Request, reads: Iterable[Read]) -> None:
        """Keep only the watches of these reads; no reads mean that the binding is deleted."""
        current = set(reads)
        unwatched = self._unwatched.pop(request, set()) & current
        if unwatched:
            self._unwatched[request] = unwatched
        unused: list[Informer] = []
        places: dict[_Place, None] = {}
        for place in self._places.pop(request, {}):
            watch = self._watches.get(place)
            if watch is None:
                continue
            # A refused watch of all namespaces is replaced by watches of single ones.
            given_up = not place.namespace and place.resource in self._narrow
            watch.keep(request, set() if given_up else current)
            if request in watch.readers:
                places[place] = None
            elif not watch.readers:
                del self._watches[place]
                self._namespaces[place.resource] -= bool(place.namespace)
                unused.append(watch.informer)
        if places:
            self._places[request] = places
        # Closed at the end: during the await other workers join and settle.
        for informer in unused:
            await informer.close()

    async def close(self) -> None:
        """Close all watches."""
        watches, self._watches = self._watches, {}
        for watch in watches.values():
            await watch.informer.close()

    def _place(self, read: _Watched) -> _Place:
        if not read.resource.namespaced:
            return _Place(read.resource, "")
        return self._placed(read.resource, read.namespace)

    def _placed(self, resource: Resource, namespace: str) -> _Place:
        """Return the place of the watch: the namespace, or all namespaces."""
        own, wide = _Place(resource, namespace), _Place(resource, "")
        # An existing watch of the namespace is used even if there are too many for a new one.
        if own in self._watches or resource in self._narrow:
            return own
        crowded = self._namespaces[resource] >= bounds.NAMESPACES
        return wide if crowded or wide in self._watches else own

    def _watch(self, place: _Place) -> _Watch:
        existing = self._watches.get(place)
        if existing is not None:
            return existing
        informer = self._cluster.informer(
            place.resource, namespace=place.namespace, metadata_only=True
        )
        watch = self._watches[place] = _Watch(informer)
        self._namespaces[place.resource] += bool(place.namespace)

        def tell(delta: Delta) -> None:
            for request in watch.affected(delta):
                self._enqueue(request)
            for request in watch.rolled(delta):
                self._enqueue_later(request)

        def enqueue_vanished() -> None:
            for request in watch.vanished():
                self._enqueue(request)

        informer.subscribe(tell)
        informer.listen(enqueue_vanished)
        return watch


def _shows(cached: Object | None, before: str) -> bool:
    """Whether the watch shows the write over the version ``before``."""
    try:
        return cached is not None and int(cached.meta.resource_version) > int(before)
    except ValueError:
        return cached is not None and cached.meta.resource_version != before


def _marks(obj: Object) -> list[str]:
    return marks(obj.meta.annotations)


def _owners(obj: Object) -> list[str]:
    return [owner.uid for owner in obj.meta.owner_references]


def _labels(obj: Object) -> list[str]:
    return [f"{name}={value}" for name, value in obj.meta.labels.items()]


def _pair(selector: LabelSelector) -> str:
    """Return a label that all selected objects have; "" if there is none."""
    for term in selector.requirements:
        if term.operator in {"=", "in"} and len(term.values) == 1:
            return f"{term.key}={term.values[0]}"
    return ""


def _topic(read: _Watched) -> _Topic:
    """Return the topic of the changes that concern a read."""
    match read:
        case Get():
            return "name", f"{read.namespace if read.resource.namespaced else ''}/{read.name}"
        case Marked():
            return (_OWNERS, read.owner) if read.owner else (_MARKS, read.annotation)
        case ListAll():
            pair = _pair(read.labels)
            if pair:
                return _LABELS, pair
            key = next(iter(read.matcher.keys), None)
            return _ANYTHING if key is None else (_KEYS, key)


def _topics(delta: Delta) -> Iterator[_Topic]:
    meta = delta.object.meta
    yield "name", f"{meta.namespace}/{meta.name}"
    yield _ANYTHING
    # Both states: an object that loses a label concerns the bindings that selected it.
    for state in (delta.old, delta.new):
        if state is not None:
            yield from ((_MARKS, name) for name in state.meta.annotations)
            yield from ((_OWNERS, uid) for uid in _owners(state))
            yield from ((_LABELS, pair) for pair in _labels(state))
            yield from ((_KEYS, key) for key in state.meta.labels)


def _within(read: _Watched, meta: ObjectMeta) -> bool:
    """Whether the object is in the namespace of the read."""
    return not read.resource.namespaced or read.namespace == meta.namespace


def _refused(informer: Informer) -> bool:
    return isinstance(informer.cause, Forbidden | Unauthorized)


def _concerns(read: Read, delta: Delta, *, status_only: bool) -> bool:
    if not isinstance(read, _Watched) or not _within(read, delta.object.meta):
        return False
    if status_only and read.spec_only:
        return False
    states = [state.meta for state in (delta.old, delta.new) if state is not None]
    match read:
        case Get():
            return read.name == delta.object.meta.name
        case ListAll():
            return any(read.matcher.matches(meta.labels) for meta in states)
        case Marked(optional=True):
            return _lets_go(read, delta)
        case Marked():
            return any(map(read.matches, states))
    return False


def _lets_go(read: Marked, delta: Delta) -> bool:
    """Whether the change may end the need for the Secret that a binding used before.

    The read is of such Secrets, by owner, or of objects with an annotation that keeps them. An
    object that gets the annotation, and a change that leaves the annotation as it is, need no
    pass.
    """
    old, new = (None if one is None else one.meta for one in (delta.old, delta.new))
    if read.owner:
        # The Secrets themselves: their deletion needs no pass.
        return new is not None and new.owned_by(read.owner)
    if old is None or read.annotation not in old.annotations:
        return False
    return new is None or new.annotations.get(read.annotation) != old.annotations[read.annotation]


def _status_only(delta: Delta) -> bool:
    """Whether only status or managed fields changed, by the metadata."""
    if delta.old is None or delta.new is None:
        return False
    old, new = delta.old.meta, delta.new.meta
    # Kinds without a generation, such as Secrets, may have changed their content.
    same_generation = new.generation != 0 and old.generation == new.generation
    return (
        same_generation
        and old.labels == new.labels
        # A workload without its controller may be bound.
        and old.owner_references == new.owner_references
        and _relevant_annotations(old) == _relevant_annotations(new)
        and old.deletion_timestamp == new.deletion_timestamp
    )


def _relevant_annotations(meta: ObjectMeta) -> dict[str, str]:
    """Return annotations without those that the Deployment controller updates."""
    return {
        name: text
        for name, text in meta.annotations.items()
        if not name.startswith("deployment.kubernetes.io/")
    }


async def _synced(informer: Informer) -> bool:
    """Wait for the first list; return False if it is refused or late."""
    deadline = asyncio.get_running_loop().time() + bounds.SYNC_SECONDS
    while not informer.has_synced:
        if informer.error or asyncio.get_running_loop().time() > deadline:
            return False
        await asyncio.sleep(bounds.SYNC_LOOK_SECONDS)
    return True
