"""Objects, changes and collections in memory.

Objects are kept as the bytes that are sent; only what selection and collection need is decoded.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Callable, Iterator

import msgspec

from fairlead.api.meta import JSON, Key
from fairlead_sandbox.storage.log import ChangeType


class Owner(msgspec.Struct, rename="camel", frozen=True):
    """The part of an owner reference that collection needs."""

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
    """One version of one object; ``raw`` is its JSON in the version it is stored in."""

    __slots__ = ("_meta", "key", "raw", "rv")

    def __init__(self, key: Key, rv: int, raw: bytes) -> None:
        self.key = key
        self.rv = rv
        self.raw = raw
        self._meta: _Meta | None = None

    @property
    def meta(self) -> _Meta:
        """The metadata, decoded on first use."""
        if self._meta is None:
            self._meta = _decode_envelope(self.raw).metadata
        return self._meta

    @property
    def labels(self) -> dict[str, str]:
        """The object's labels."""
        return self.meta.labels or _NOTHING

    def to_dict(self) -> JSON:
        """A private decoded copy."""
        return _decode_dict(self.raw)


class Change:
    """One change, shared by all who watch; ``encoded`` keeps what was once made of it."""

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
        """The version that the change made."""
        return self.record.rv


class Collection:
    """The current objects of one resource, in the order of namespace and name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.objects: dict[Key, Record] = {}
        self._namespaces: dict[str, dict[str, Record]] = defaultdict(dict)
        self._order: list[Key] | None = None
        self.subscribers: dict[Callable[[Change], None], None] = {}
        """Functions that are called with each change, in the order in which they came."""
        self.closers: dict[Callable[[], None], None] = {}
        """Functions that end each watch, for when the resource is no longer served."""

    def get(self, key: Key) -> Record | None:
        """The object, if it exists."""
        return self.objects.get(key)

    def put(self, record: Record) -> None:
        """Make this the current version of its object."""
        if record.key not in self.objects:
            self._order = None
        self.objects[record.key] = record
        self._namespaces[record.key.namespace][record.key.name] = record

    def remove(self, key: Key) -> None:
        """Forget the object."""
        del self.objects[key]
        names = self._namespaces[key.namespace]
        del names[key.name]
        if not names:
            del self._namespaces[key.namespace]
        self._order = None

    def close_watches(self) -> None:
        """End every watch, after what it has still to send."""
        for close in tuple(self.closers):
            close()

    def list(self, namespace: str = "", after: Key | None = None) -> Iterator[Record]:
        """The objects of a namespace, or all, in order; ``after`` skips up to that key."""
        if namespace and after is None:
            names = self._namespaces.get(namespace) or {}
            return iter([names[name] for name in sorted(names)])
        if self._order is None:
            self._order = sorted(self.objects)
        keys = self._order
        if after is not None:
            keys = keys[bisect.bisect_right(keys, after) :]
        return (self.objects[key] for key in keys if not namespace or key.namespace == namespace)

    def count(self, namespace: str = "") -> int:
        """Return the number of objects."""
        if not namespace:
            return len(self.objects)
        return len(self._namespaces.get(namespace) or ())
