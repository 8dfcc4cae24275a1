"""Metadata of Kubernetes objects, and objects as metadata beside their JSON bytes.

An :class:`Object` is typed metadata beside the immutable JSON it was decoded from. Reading its
body decodes a private copy, so that no reader can change an object in a cache.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import msgspec

from fairlead.api.decoding import field_message
from fairlead.api.nesting import NestedTooDeeply, member, without


T = TypeVar("T")

JSON = dict[str, Any]
"""A decoded JSON object."""


class Undecodable(msgspec.ValidationError):
    """The body of an object does not fit its type; ``message`` also names the object."""

    def __init__(self, obj: Object, reason: str) -> None:
        super().__init__(reason)
        self.message = f"{obj.kind} {obj.key} cannot be read: {field_message(self)}"


class Key(NamedTuple):
    """Namespace and name of an object; the namespace of cluster-scoped objects is ""."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class OwnerReference(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True):
    """``metav1.OwnerReference``."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """``metav1.ObjectMeta`` without managedFields; times are RFC 3339 strings, "" when unset."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: list[OwnerReference] = []
    finalizers: list[str] = []

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return Key(self.namespace, self.name)

    @property
    def deleting(self) -> bool:
        """Whether the object was deleted and waits for its finalizers."""
        return self.deletion_timestamp is not None

    def controller(self) -> OwnerReference | None:
        """Return the owner reference with ``controller: true``, None without one."""
        return next((owner for owner in self.owner_references if owner.controller), None)

    def with_finalizer(self, name: str) -> list[str]:
        """Return the finalizers with ``name``, which is added at the end if it is missing."""
        return self.finalizers if name in self.finalizers else [*self.finalizers, name]

    def without_finalizer(self, name: str) -> list[str]:
        """Return the finalizers without ``name``."""
        return [one for one in self.finalizers if one != name]

    def owned_by(self, uid: str) -> bool:
        """Whether any owner reference carries this uid."""
        return any(owner.uid == uid for owner in self.owner_references)


# Caches hold very many objects, which take part in no reference cycle: with gc=False the collector
# of cycles does not visit them.
class Object(msgspec.Struct, frozen=True, gc=False):
    """One object of a server: typed metadata, and the JSON bytes of the whole object."""

    api_version: str
    kind: str
    meta: ObjectMeta
    raw: bytes

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return self.meta.key

    def to_dict(self) -> JSON:
        """Return a private decoded copy.

        Raises:
            NestedTooDeeply: the body is nested too deeply.
            Undecodable: the body is not JSON after all; only its metadata was read before.
        """
        try:
            return _body.decode(self.raw)
        except RecursionError:
            raise NestedTooDeeply from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Undecodable(self, str(error)) from None

    def decode(self, type_: type[T]) -> T:
        """Decode the body as ``type_``; unknown fields are ignored.

        Raises:
            Undecodable: the body does not fit the type; the message names the path.
        """
        try:
            return msgspec.json.decode(self.raw, type=type_)
        except RecursionError:
            raise Undecodable(self, str(NestedTooDeeply())) from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Undecodable(self, str(error)) from None

    def try_decode(self, type_: type[T]) -> T | None:
        """Decode the body as ``type_``; None if it does not fit.

        For readers of many objects: the one that works on this object tells what is wrong with it.
        """
        try:
            return self.decode(type_)
        except Undecodable:
            return None

    def owner_reference(self, *, controller: bool = True) -> OwnerReference:
        """Return a reference to this object, for the metadata of objects that it owns."""
        return OwnerReference(
            api_version=self.api_version,
            kind=self.kind,
            name=self.meta.name,
            uid=self.meta.uid,
            # Both as controller-runtime sets them; a plain owner has neither.
            controller=controller or None,
            block_owner_deletion=controller or None,
        )


class _Envelope(msgspec.Struct, rename="camel", gc=False):
    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)


class _Item(msgspec.Struct, gc=False):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)


# Made once, since a new decoder has to analyze its type.
_envelope = msgspec.json.Decoder(_Envelope)
_item = msgspec.json.Decoder(_Item)
_meta = msgspec.json.Decoder(ObjectMeta)
_body = msgspec.json.Decoder(JSON)


def decode_object(raw: bytes | memoryview, *, api_version: str = "", kind: str = "") -> Object:
    """Decode an object from its JSON; the bytes are copied so that no larger buffer is kept alive.

    Items of a list carry no apiVersion and kind: give those of the list's resource.

    Raises:
        msgspec.ValidationError: the metadata is not that of a Kubernetes object.
        msgspec.DecodeError: the bytes are not JSON.
    """
    try:
        envelope = _envelope.decode(raw)
    except RecursionError:
        raw = _unmanaged(raw)
        parts = {name: member(raw, name.encode()) for name in ("apiVersion", "kind", "metadata")}
        encoded = {name: msgspec.Raw(value) for name, value in parts.items() if value}
        envelope = _envelope.decode(msgspec.json.encode(encoded))
    return Object(
        # Equal strings are replaced by the caller's, so that thousands of objects share one.
        api_version=_actual_or_expected(envelope.api_version, api_version),
        kind=_actual_or_expected(envelope.kind, kind),
        meta=envelope.metadata,
        raw=bytes(raw),
    )


def _actual_or_expected(actual: str, expected: str) -> str:
    return actual if actual and actual != expected else expected


def decode_item(raw: bytes | memoryview, api_version: str, kind: str) -> Object:
    """Decode one object of a list or a watch, under the kind of the requested resource.

    The item's own kind is not read: items of built-in lists have none, and items of metadata-only
    lists have PartialObjectMetadata. The bytes are copied, since a slice keeps the page in memory.

    Raises:
        msgspec.ValidationError: the metadata is not that of a Kubernetes object.
        msgspec.DecodeError: the bytes are not JSON.
    """
    try:
        meta = _item.decode(raw).metadata
    except RecursionError:
        raw = _unmanaged(raw)
        meta = _meta.decode(member(raw, b"metadata"))
    return Object(api_version, kind, meta, bytes(raw))


def _unmanaged(raw: bytes | memoryview) -> bytes:
    """Remove managedFields, which may be nested deeply in any kind and is never read here."""
    return without(bytes(raw), b"metadata", b"managedFields")


def object_from_dict(body: JSON) -> Object:
    """Return the object of a decoded body."""
    return decode_object(msgspec.json.encode(body))
