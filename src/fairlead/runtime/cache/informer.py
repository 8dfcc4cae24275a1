"""Shared caches of a cluster's collections, and the leases of their readers."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

import msgspec
import structlog

from fairlead.api.meta import Object, Undecodable
from fairlead.api.nesting import NestedTooDeeply
from fairlead.api.resource import Resource
from fairlead.client import limits
from fairlead.client.bounds import Intake, cost
from fairlead.runtime.backoff import BackoffPolicy
from fairlead.runtime.cache.reflector import ListWatch, Reflector, Scope, differences
from fairlead.runtime.cache.store import IndexFunction, Objects, Store, Transform


DeltaType = Literal["ADDED", "MODIFIED", "DELETED"]


class Delta(msgspec.Struct, frozen=True, gc=False):
    """One change of a cache: ``old`` is None when added, ``new`` is None when deleted.

    ``initial`` marks objects that existed before the subscription or the first list.
    """

    type: DeltaType
    old: Object | None
    new: Object | None
    initial: bool = False

    @property
    def object(self) -> Object:
        """The present object, or the last state of a deleted one."""
        obj = self.new if self.new is not None else self.old
        if obj is None:
            raise ValueError("a delta without an object")
        return obj


Handler = Callable[[Delta], None]
"""A plain callback on the event loop; it must not block."""


class CacheRoom:
    """Bytes that the caches of one cluster may take together, those of its client's bounds."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._taken = 0

    def take(self, count: int) -> None:
        """Count bytes; a negative number takes back.

        Raises:
            AnswerTooLarge: there is no room for them; nothing was counted.
        """
        bounds = self._intake.bounds
        if count > 0 and bounds is not None and self._taken + count > bounds.objects:
            raise self._intake.excess("objects", bounds.objects)
        self._taken += count


_log = structlog.get_logger(logger_name="fairlead.runtime.informer")


class SharedInformer:
    """One watch, one store, any number of handlers: the sink of a reflector.

    ``missed`` counts the changes that the watch left out, found by comparison with the server.
    ``room`` is that of all caches of a server whose answers have bounds; None without any.
    """

    def __init__(
        self,
        source: ListWatch,
        scope: Scope,
        *,
        transform: Transform | None = None,
        backoff: BackoffPolicy | None = None,
        room: CacheRoom | None = None,
    ) -> None:
        self.scope = scope
        self.store = Store()
        self.reflector = Reflector(source, scope, self, backoff)
        self.synced = asyncio.Event()
        self.missed = 0
        self._transform = transform
        self._room = room
        self._size = 0
        # Replaced and never changed, so that handlers may come and go while all of them are told.
        self._handlers: tuple[Handler, ...] = ()
        self._listeners: tuple[Callable[[], None], ...] = ()
        self._indexes: Counter[IndexFunction] = Counter()

    async def run(self) -> None:
        """Keep the store up to date until cancelled."""
        await self.reflector.run()

    async def replace(self, objects: list[Object]) -> None:
        """Make the store hold exactly these objects; handlers are told only the differences."""
        # Only the first list is marked as initial: a difference in a later list is a change.
        initial = not self.synced.is_set()
        if early := self._early(objects):
            objects = objects[early:]
        elif len(self.store):
            # Most objects are as they were before the watch was lost, and handlers need not hear
            # of them.
            objects = self._news(objects)
        for number, object_ in enumerate(objects, 1):
            self._keep(object_, initial=initial)
            if number % limits.PUTS == 0:
                await asyncio.sleep(0)
        self.synced.set()
        for listener in self._listeners:
            listener()

    def arrived(self, objects: Sequence[Object]) -> None:
        """Store pages of the first list as they come, before the last one is there."""
        if self.synced.is_set():
            return
        for object_ in objects:
            self._keep(object_, initial=True)

    def _early(self, objects: list[Object]) -> int:
        """Return how many objects of the list are stored already, by :meth:`arrived`; 0 if unsure.

        Pages come in order. If the store holds n objects, and the n-th of the list is the stored
        one itself, then all before it are stored too.
        """
        number = len(self.store)
        if not 0 < number <= len(objects):
            return 0
        last = objects[number - 1]
        return number if self.store.get(last.meta.namespace, last.meta.name) is last else 0

    def _news(self, objects: list[Object]) -> list[Object]:
        """Remove stored objects that are not listed; return new and changed listed ones."""
        get = self.store.get
        position, news = 0, []
        for object_ in objects:
            cached = get(object_.meta.namespace, object_.meta.name)
            if cached is None:
                news.append(object_)
            else:
                position += 1
                if not _same(cached, object_):
                    news.append(object_)
        if position < len(self.store):
            for gone in differences(self.store, objects):
                self._drop(gone)
        return news

    def clear(self) -> None:
        """Remove every object, and tell the handlers of each deletion."""
        for object_ in self.store.list():
            self._drop(object_)

    def put(self, object_: Object) -> None:
        """Shrink and keep an object, and tell whether it was added or modified.

        Raises:
            AnswerTooLarge: the caches of the cluster have no room for it.
        """
        self._keep(self.shrink(object_))

    def _keep(self, object_: Object, *, initial: bool = False) -> None:
        if self._room is not None:
            cached = self.store.get(object_.meta.namespace, object_.meta.name)
            self._take(cost(object_) - (cost(cached) if cached is not None else 0))
        old = self.store.put(object_)
        if not self._handlers:
            return
        if old is None:
            self._tell(Delta("ADDED", None, object_, initial))
        elif initial and _same(old, object_):
            # A first list that broke off is begun anew, and brings again what has come already.
            return
        elif old.meta.uid == object_.meta.uid:
            self._tell(Delta("MODIFIED", old, object_, initial))
        else:
            # Another object has taken the name; that the first is gone must not go unsaid.
            self._tell(Delta("DELETED", old, None, initial))
            self._tell(Delta("ADDED", None, object_, initial))

    def remove(self, object_: Object) -> None:
        """Remove an object, and tell the handlers its last state."""
        self._drop(self.shrink(object_))

    def _drop(self, object_: Object) -> None:
        cached = self.store.remove(object_.meta.namespace, object_.meta.name)
        if cached is None:
            return
        if self._room is not None:
            self._take(-cost(cached))
        self._tell(Delta("DELETED", object_, None))

    def leave(self) -> None:
        """Give the room back that the store takes, since it is not read any more."""
        self._take(-self._size)

    def _take(self, count: int) -> None:
        if self._room is not None:
            self._room.take(count)
            self._size += count

    def subscribe(self, handler: Handler) -> None:
        """Call the handler with the stored objects, then with every change."""
        for object_ in self.store.list():
            delta = Delta("ADDED", None, object_, initial=True)
            try:
                handler(delta)
            except Exception as error:  # noqa: BLE001
                _complain(delta, error)
        self._handlers = (*self._handlers, handler)

    def unsubscribe(self, handler: Handler) -> None:
        """Remove a handler; it is not called any more."""
        self._handlers = tuple(other for other in self._handlers if other is not handler)

    def listen(self, listener: Callable[[], None]) -> None:
        """Call the listener after each list, once the store holds it."""
        self._listeners = (*self._listeners, listener)

    def unlisten(self, listener: Callable[[], None]) -> None:
        """Remove a listener; it is not called any more."""
        self._listeners = tuple(other for other in self._listeners if other is not listener)

    def add_index(self, function: IndexFunction) -> None:
        """Index by this function as long as one lease wants it."""
        self._indexes[function] += 1
        self.store.add_index(function)

    def remove_index(self, function: IndexFunction) -> None:
        """Release an index for one lease; it is dropped with the last lease."""
        self._indexes[function] -= 1
        if self._indexes[function] <= 0:
            del self._indexes[function]
            self.store.remove_index(function)

    def shrink(self, object_: Object) -> Object:
        """Return an object as it is kept."""
        try:
            return self._transform(object_) if self._transform is not None else object_
        except (NestedTooDeeply, RecursionError):
            return object_
        except Exception:  # noqa: BLE001
            # An object that cannot be made smaller is kept as it is; the watch must go on.
            _log.exception("transform failed", kind=object_.kind, object=str(object_.key))
            return object_

    def _tell(self, delta: Delta) -> None:
        for handler in self._handlers:
            try:
                handler(delta)
            except Exception as error:  # noqa: BLE001
                _complain(delta, error)


def _same(old: Object, new: Object) -> bool:
    return old.meta.uid == new.meta.uid and old.meta.resource_version == new.meta.resource_version


def _complain(delta: Delta, error: Exception) -> None:
    # One handler that stumbles over an object must not keep it from the others.
    where = {"kind": delta.object.kind, "object": str(delta.object.key)}
    if isinstance(error, Undecodable | NestedTooDeeply):
        _log.warning("an object is left alone", **where, error=str(error))
    else:
        _log.exception("handler failed", **where)


class InformerClosed(RuntimeError):  # noqa: N818
    """The lease on the informer was closed, so that it will not sync any more."""


class Informer:
    """A lease on a shared informer: reads, indexes and subscriptions of one user.

    Give it back with :meth:`close`; the last one ends the watch.
    """

    def __init__(
        self,
        shared: SharedInformer,
        release: Callable[[], Awaitable[None]],
        *,
        cluster: str = "",
    ) -> None:
        self.cluster = cluster
        self._shared = shared
        self._release = release
        self._handlers: list[Handler] = []
        self._listeners: list[Callable[[], None]] = []
        self._indexes: dict[str, IndexFunction] = {}
        self._closed = asyncio.Event()
        # Every pass of every controller asks this: the store answers without a call in between.
        self.get: Callable[[str, str], Object | None] = shared.store.get
        """Returns the object as last seen, by namespace and name; "" is of cluster-scoped ones."""

    @property
    def resource(self) -> Resource:
        """The watched resource."""
        return self._shared.scope.resource

    @property
    def scope(self) -> Scope:
        """The watched resource and the part of it that is watched."""
        return self._shared.scope

    @property
    def has_synced(self) -> bool:
        """Whether the store has held the whole collection once."""
        return self._shared.synced.is_set()

    @property
    def error(self) -> str:
        """Reason why the cache is not up to date, "" if it is."""
        return self._shared.reflector.error

    @property
    def cause(self) -> Exception | None:
        """The exception that keeps the cache from being up to date, None if it is."""
        return self._shared.reflector.cause

    @property
    def restarts(self) -> Counter[str]:
        """Number of ends of the watch or the list, by reason; shared by all leases."""
        return self._shared.reflector.restarts

    @property
    def closed(self) -> bool:
        """Whether the lease was given back."""
        return self._closed.is_set()

    def list(self, namespace: str = "") -> list[Object]:
        """Return the objects of one namespace, or of all."""
        return self._shared.store.list(namespace)

    def add_index(self, name: str, function: IndexFunction) -> None:
        """Add an index under a name: objects are found by the values of the function.

        Raises:
            ValueError: this lease has another index of that name.
        """
        index = self._indexes.get(name)
        if index == function:
            return
        if index is not None:
            raise ValueError(f"the informer of {self.scope} already has an index {name}")
        self._indexes[name] = function
        self._shared.add_index(function)

    def by_index(self, name: str, value: str) -> Objects:
        """Return the objects for which the index function gave this value.

        Raises:
            KeyError: this lease has no index of that name.
        """
        return self._shared.store.by_index(self._indexes[name], value)

    def count(self, name: str, value: str) -> int:
        """Return the number of objects that :meth:`by_index` would return, without a list.

        Raises:
            KeyError: this lease has no index of that name.
        """
        return self._shared.store.count(self._indexes[name], value)

    def subscribe(self, handler: Handler) -> None:
        """Call the handler with the stored objects (as initial ADDED), then with every change."""
        self._handlers.append(handler)
        self._shared.subscribe(handler)

    def listen(self, listener: Callable[[], None]) -> None:
        """Call the listener after each list, once the store holds it.

        No change tells of an object that came and went while nothing was watched.
        """
        self._listeners.append(listener)
        self._shared.listen(listener)

    async def synced(self) -> None:
        """Wait until the store holds the whole collection.

        Raises:
            InformerClosed: the lease was closed before that.
        """
        if self.has_synced:
            return
        waits = [asyncio.ensure_future(e.wait()) for e in (self._shared.synced, self._closed)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        if not self.has_synced:
            raise InformerClosed(f"the informer of {self.scope} was closed before it had synced")

    async def close(self) -> None:
        """Close the lease; its handlers are not called any more. Closing twice is harmless."""
        if self._closed.is_set():
            return
        self._closed.set()
        for handler in self._handlers:
            self._shared.unsubscribe(handler)
        for listener in self._listeners:
            self._shared.unlisten(listener)
        for function in self._indexes.values():
            self._shared.remove_index(function)
        await self._release()
