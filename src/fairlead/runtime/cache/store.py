"""Objects by namespace and name, with indexes, as an informer keeps them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec
import structlog

from fairlead.api.meta import JSON, Key, Object, ObjectMeta, OwnerReference
from fairlead.client import limits


IndexFunction = Callable[[Object], Iterable[str]]
"""Function that returns the index values of an object; called once for each of its versions."""

Objects = list[Object]
"""Alias, since classes here have a method named ``list``."""

_log = structlog.get_logger(logger_name="fairlead.runtime.store")


class Index:
    """An index: the keys of objects by the values that a function gives for each object."""

    def __init__(self, function: IndexFunction) -> None:
        self._function = function
        self._keys: dict[str, dict[Key, None]] = {}
        # The values are stored per key, so that removal does not depend on the function's next
        # answer.
        self._values: dict[Key, tuple[str, ...]] = {}

    def keys(self, value: str) -> Iterable[Key]:
        """Return the keys of the objects that have this value."""
        return self._keys.get(value, ())

    def count(self, value: str) -> int:
        """Return the number of objects that have this value."""
        return len(self._keys.get(value, ()))

    def put(self, key: Key, object_: Object) -> None:
        """Replace the entries of this key."""
        values = self._compute(object_)
        if self._values.get(key, ()) == values:
            return
        self.remove(key)
        if values:
            self._values[key] = values
            for value in values:
                self._keys.setdefault(value, {})[key] = None

    def remove(self, key: Key) -> None:
        """Forget this key."""
        for value in self._values.pop(key, ()):
            # Empty entries are removed, or former values would fill the memory.
            keys = self._keys[value]
            del keys[key]
            if not keys:
                del self._keys[value]

    def _compute(self, object_: Object) -> tuple[str, ...]:
        try:
            return tuple(dict.fromkeys(self._function(object_)))
        except Exception:  # noqa: BLE001
            # One object that an index cannot read must not stop the others from being seen.
            _log.exception("index function failed", kind=object_.kind, object=str(object_.key))
            return ()


class Store:
    """The objects of one informer: keyed, counted, indexed.

    Namespaces hold names, so that listing one namespace does not walk the others.
    """

    def __init__(self) -> None:
        self._namespaces: dict[str, dict[str, Object]] = {}
        self._indexes: dict[IndexFunction, Index] = {}
        self._strings = SharedStrings()
        self._count = 0
        self._bytes = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Object]:
        for names in self._namespaces.values():
            yield from names.values()

    @property
    def size(self) -> int:
        """Size of the bodies of all objects, in bytes."""
        return self._bytes

    def get(self, namespace: str, name: str) -> Object | None:
        """Return the object, or None."""
        names = self._namespaces.get(namespace)
        return names.get(name) if names is not None else None

    def list(self, namespace: str = "") -> list[Object]:
        """Return the objects of a namespace, or all."""
        if namespace:
            return list(self._namespaces.get(namespace, {}).values())
        return list(self)

    def put(self, object_: Object) -> Object | None:
        """Store an object; return the one that it replaces."""
        meta = object_.meta
        names = self._namespaces.get(meta.namespace)
        if names is None:
            names = self._namespaces[meta.namespace] = {}
        name = meta.name
        old = names.get(name)
        if old is None:
            self._strings.share(meta)
        else:
            self._strings.inherit(meta, old.meta)
        names[name] = object_
        if old is None:
            self._count += 1
            self._bytes += len(object_.raw)
        else:
            self._bytes += len(object_.raw) - len(old.raw)
        if self._indexes:
            for index in self._indexes.values():
                index.put(meta.key, object_)
        return old

    def remove(self, namespace: str, name: str) -> Object | None:
        """Remove an object; return it, or None if it was not stored."""
        names = self._namespaces.get(namespace)
        old = names.pop(name, None) if names is not None else None
        if old is None or names is None:
            return None
        if not names:
            del self._namespaces[namespace]
        self._count -= 1
        self._bytes -= len(old.raw)
        for index in self._indexes.values():
            index.remove(old.meta.key)
        return old

    def add_index(self, function: IndexFunction) -> None:
        """Index all objects, present and future; adding a function again has no effect."""
        if function in self._indexes:
            return
        index = Index(function)
        for object_ in self:
            index.put(object_.meta.key, object_)
        self._indexes[function] = index

    def remove_index(self, function: IndexFunction) -> None:
        """Drop an index."""
        self._indexes.pop(function, None)

    def by_index(self, function: IndexFunction, value: str) -> Objects:
        """Return the objects for which the function gave this value.

        Raises:
            KeyError: the function was never added.
        """
        objects = (self.get(*key) for key in self._indexes[function].keys(value))
        return [object_ for object_ in objects if object_ is not None]

    def count(self, function: IndexFunction, value: str) -> int:
        """Return the number of objects for which the function gave this value.

        Raises:
            KeyError: the function was never added.
        """
        return self._indexes[function].count(value)


_NO_STRINGS: dict[str, str] = {}
_NO_OWNERS: list[OwnerReference] = []
_NO_FINALIZERS: list[str] = []
"""Shared empty list of finalizers, since most objects have none."""


class SharedStrings:
    """Memory of recent strings, so that equal strings of many objects are stored once."""

    def __init__(self) -> None:
        self._shared: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._shared)

    def share(self, meta: ObjectMeta) -> None:
        """Have the metadata of a new object hold known strings in place of its own equal ones."""
        shared = self._shared.setdefault
        namespace, created = meta.namespace, meta.creation_timestamp
        meta.namespace = shared(namespace, namespace)
        if created is not None:
            meta.creation_timestamp = shared(created, created)
        # Empty collections are shared by all objects, which is safe because readers never change
        # them.
        if not meta.owner_references:
            meta.owner_references = _NO_OWNERS
        meta.finalizers = self._strings(meta.finalizers)
        meta.labels = self._values(meta.labels)
        meta.annotations = self._values(meta.annotations)

    def inherit(self, meta: ObjectMeta, old: ObjectMeta) -> None:
        """Share the equal parts of an object's metadata with the version that it replaces.

        Namespace and name are those of both. To compare the rest costs less than to look up each
        string. Annotations are looked up all the same: they are often one object's own, and the
        old ones have long left the processor's caches.
        """
        meta.namespace, meta.name = old.namespace, old.name
        labels, finalizers, created = old.labels, old.finalizers, old.creation_timestamp
        if meta.creation_timestamp == created:
            meta.creation_timestamp = created
        if not meta.owner_references:
            meta.owner_references = _NO_OWNERS
        same = meta.finalizers == finalizers
        meta.finalizers = finalizers if same else self._strings(meta.finalizers)
        meta.labels = labels if meta.labels == labels else self._values(meta.labels)
        meta.annotations = self._values(meta.annotations)

    def _strings(self, strings: list[str]) -> list[str]:
        if not strings:
            return _NO_FINALIZERS
        shared = self._shared
        for number, text in enumerate(strings):
            strings[number] = shared.setdefault(text, text)
        return strings

    def _values(self, values: dict[str, str]) -> dict[str, str]:
        if not values:
            return _NO_STRINGS
        shared = self._shared
        if len(shared) >= limits.STRINGS:
            # Strings of one object alone, such as uids, fill the table too; repeated ones come
            # back.
            shared.clear()
        for name, value in values.items():
            if len(value) <= limits.STRING_CHARACTERS:
                values[name] = shared.setdefault(value, value)
        return values


Transform = Callable[[Object], Object]
"""Function that shrinks an object before it is stored; its key, uid and version must stay."""

_MARK = b'"managedFields":'


class _Metadata(msgspec.Struct, rename="camel"):
    managed_fields: msgspec.Raw = msgspec.Raw()


class _Envelope(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


_envelope = msgspec.json.Decoder(_Envelope)


NO_BODY = b"{}"
"""Bytes of an object whose metadata alone is kept."""
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def metadata_alone(object_: Object) -> Object:
    """Return the object without its bytes; its metadata is decoded already.

    The annotation in which kubectl keeps the whole object goes, too: it is no metadata.
    """
    object_.meta.annotations.pop(_LAST_APPLIED, None)
    return msgspec.structs.replace(object_, raw=NO_BODY)


def strip_managed_fields(object_: Object) -> Object:
    """Return the object without ``metadata.managedFields``, often a third of its bytes."""
    raw = object_.raw
    start = raw.find(_MARK)
    if start < 0:
        return object_
    value = bytes(_envelope.decode(raw).metadata.managed_fields)
    if not value:
        return object_
    end = start + len(_MARK) + len(value)
    # If the name occurs twice, the first one may be a field of the spec: then the slow way is
    # safe.
    if not raw.startswith(value, start + len(_MARK)) or raw.find(_MARK, end) >= 0:
        return _strip_slowly(object_)
    if raw[end : end + 1] == b",":
        end += 1
    elif raw[start - 1 : start] == b",":
        start -= 1
    return msgspec.structs.replace(object_, raw=raw[:start] + raw[end:])


def _strip_slowly(object_: Object) -> Object:
    body: JSON = object_.to_dict()
    del body["metadata"]["managedFields"]
    return msgspec.structs.replace(object_, raw=msgspec.json.encode(body))
