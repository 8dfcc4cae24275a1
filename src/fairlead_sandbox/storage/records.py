"""Objects, changes and collections in memory.

An object is kept as the JSON bytes that are sent; only metadata that selectors and the garbage
collector need is decoded.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Callable, Iterator

import msgspec

from fairlead.api.meta import JSON, Key
from fairlead_sandbox.storage.log import ChangeType


class Owner(msgspec.Struct, rename="camel", frozen=True):
    """The part of an owner reference that the garbage collector needs."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    block_owner_deletion: bool = False


class _Meta(msgspec.Struct, rename="camel"):
    uid: str = ""
    labels: dict[str, str] | None = None
    owner_references: list[Owner] | None = None
    finalizers: list[str] | None = None
    deletion_timestamp: str | None = None


class _Envelope(msgspec.Struct):
    metadata: _Meta


_decode_envelope = msgspec.json.Decoder(_Envelope).decode
_decode_dict = msgspec.json.Decoder(JSON).decode
_NOTHING: dict[str, str] = {}


class Record:
    """One version of one object; ``raw`` is its JSON in the storage version."""

    __slots__ = ("_meta", "key", "raw", "rv")

    def __init__(self, key: Key, rv: int, raw: bytes) -> None:
        self.key = key
        self.rv = rv
        self.raw = raw
        self._meta: _Meta | None = None

    @property
    def meta(self) -> _Meta:
        """The metadata, decoded at first use."""
        if self._meta is None:
            self._meta = _decode_envelope(self.raw).metadata
        return self._meta

    @property
    def labels(self) -> dict[str, str]:
        """The object's labels."""
        return self.meta.labels or _NOTHING

    def to_dict(self) -> JSON:
        """Return a decoded copy, which the caller may change."""
        return _decode_dict(self.raw)


class Change:
    """One change of an object, shared by all watches.

    ``encoded`` caches the events that were made from it, by their form.
    """

    __slots__ = ("collection", "encoded", "old", "record", "type")

    def __init__(
        self, collection: str, type_: ChangeType, record: Record, old: Record | None
    ) -> None:
        self.collection = collection
        self.type = type_
        self.record = record
        self.old = old
        self.encoded: dict[object, bytes] = {}

    @property
    def rv(self) -> int:
        """The resourceVersion of the change."""
        return self.record.rv


class Collection:
    """The current objects of one resource, in the order of namespace and name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.objects: dict[Key, Record] = {}
        self._namespaces: dict[str, dict[str, Record]] = defaultdict(dict)
        self._order: list[Key] | None = None
        self.subscribers: dict[Callable[[Change], None], None] = {}
        """Functions called with each change, in the order of their registration."""
        self.closers: dict[Callable[[], None], None] = {}
        """Functions that end the watches, called when the resource is no longer served."""

    def get(self, key: Key) -> Record | None:
        """Return the object, None if it does not exist."""
        return self.objects.get(key)

    def put(self, record: Record) -> None:
        """Set the current version of an object."""
        # Only a new key changes the order; it is sorted again by the next list.
        if record.key not in self.objects:
            self._order = None
        self.objects[record.key] = record
        self._namespaces[record.key.namespace][record.key.name] = record

    def remove(self, key: Key) -> None:
        """Delete an object from memory."""
        del self.objects[key]
        names = self._namespaces[key.namespace]
        del names[key.name]
        if not names:
            del self._namespaces[key.namespace]
        self._order = None

    def close_watches(self) -> None:
        """End every watch after its pending events."""
        for close in tuple(self.closers):
            close()

    def list(self, namespace: str = "", after: Key | None = None) -> Iterator[Record]:
        """Return the objects of a namespace, or of all, sorted; ``after`` skips keys up to it."""
        if namespace and after is None:
            # Sorts one namespace alone: every create discards the order of all objects, and most
            # lists are of one namespace.
            names = self._namespaces.get(namespace) or {}
            return iter([names[name] for name in sorted(names)])
        if self._order is None:
            self._order = sorted(self.objects)
        keys = self._order
        if after is not None:
            keys = keys[bisect.bisect_right(keys, after) :]
        return (self.objects[key] for key in keys if not namespace or key.namespace == namespace)

    def count(self, namespace: str = "") -> int:
        """Return the number of objects in a namespace, or in all."""
        if not namespace:
            return len(self.objects)
        return len(self._namespaces.get(namespace) or ())
