"""One resource of one API version: its names, its fields, and the strategy of its writes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec

from fairlead.api.label_names import subdomain_errors
from fairlead.api.meta import JSON, Key
from fairlead.api.resource import Resource
from fairlead_sandbox import kinds
from fairlead_sandbox.errors import QualifiedResource
from fairlead_sandbox.patches.apply import shapes
from fairlead_sandbox.resources import metadata
from fairlead_sandbox.resources.columns import Column
from fairlead_sandbox.schema.errors import FieldError
from fairlead_sandbox.storage.records import Record


_ANYTHING: JSON = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_ENVELOPE = frozenset({"apiVersion", "kind", "metadata"})
"""Members that every kind has."""
ALL_VERBS = (
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
)


class Strategy:
    """Defaults, validation and other rules of a kind's writes; kinds override some of them."""

    generation = False
    """Whether metadata.generation counts changes outside of metadata and status."""
    status = False
    """Whether status is written only through its subresource."""
    unconditional_update = True
    """Whether an update may omit the resourceVersion."""
    allocated: Sequence[str] = ()
    """Paths, with slashes, of fields that the server allocates for a new object.

    The writer owns such a field only if it has sent it.
    """
    selectable_fields: Sequence[str] = ()
    """Field selectors beyond metadata.name and metadata.namespace."""
    graceful = True
    """Whether a delete that finalizers hold sets deletionGracePeriodSeconds."""
    creates_on_update = False
    """Whether a PUT of a missing object creates it."""
    returns_deleted = False
    """Whether the answer to a delete is the object instead of a Status."""
    openapi: JSON | None = None
    """The kind's schema in OpenAPI; None for built-in kinds, whose message type has it."""
    name_rule: metadata.NameRule = staticmethod(subdomain_errors)

    def prune(self, body: JSON) -> None:
        """Remove the fields that the kind does not have."""

    def default(self, body: JSON) -> None:
        """Set the defaults that decoding sets, before webhooks and checks see the body.

        The status stays as the writer sent it; it is dropped only when the object is stored.
        """
        status = body.get("status")
        self.prepare_create(body)
        body.pop("status", None)
        if status is not None:
            body["status"] = status

    def prepare_create(self, body: JSON) -> None:
        """Set the defaults of a new object."""

    def prepare_update(self, body: JSON, old: JSON) -> None:
        """Set the defaults of an update."""

    def validate(self, body: JSON, old: JSON | None) -> list[FieldError]:
        """Return the errors of the body; ``old`` is None for a new object."""
        return []

    def prepare_delete(self, body: JSON) -> None:
        """Change the body for a first delete, before deletionTimestamp is set."""

    def stays(self, body: JSON) -> bool:
        """Whether a deleted object has finalizers left, and so stays."""
        return bool(body["metadata"].get("finalizers"))

    def field(self, body: JSON, path: str) -> str:
        """Return the value of a selectable field as text, "" if it is not set."""
        value: Any = body
        for name in path.split("."):
            value = value.get(name) if isinstance(value, dict) else None
        return "" if value is None else str(value)


@dataclass(frozen=True)
class Scale:
    """Paths of the fields that the scale subresource shows, as member names."""

    spec: tuple[str, ...]
    status: tuple[str, ...]
    selector: tuple[str, ...] = ()


@dataclass(frozen=True)
class ResourceType:
    """One resource of one served API version.

    Raises:
        IncompleteModelError: the kind is built in, but the model lacks its fields.
    """

    resource: Resource
    singular: str
    collection: str
    """Collection that stores the objects; all versions of a resource share one."""
    strategy: Strategy
    list_kind: str = ""
    short_names: Sequence[str] = ()
    categories: Sequence[str] = ()
    verbs: Sequence[str] = ALL_VERBS
    subresources: Sequence[str] = ()
    columns: Sequence[Column] = ()
    scale: Scale | None = None
    custom: bool = False
    accepts_create: bool = True
    """Whether objects can be created; False while the CRD is being deleted."""
    warning: str = ""
    """Warning in every answer of a deprecated version; "" for none."""
    stored_as: str = ""
    """The apiVersion of stored objects; "" if it is the resource's own."""
    encode: Callable[[JSON], JSON] | None = None
    """Converts a body stored in another version to this one; None if only apiVersion differs."""
    decode: Callable[[JSON], JSON] | None = None
    """Converts a body of this version to the stored form; None if only apiVersion differs."""
    message: kinds.Message | None = field(init=False, default=None)
    """Message type of a built-in kind; None for a custom kind, which has a schema."""
    _prefix: bytes = field(init=False, default=b"")

    def __post_init__(self) -> None:
        if not self.custom:
            message = kinds.load().kind(self.resource.api_version, self.resource.kind)
            if message is None:
                raise kinds.IncompleteModelError(
                    f"{self.resource.kind} in {self.resource.api_version} is built in, but "
                    "fairlead_sandbox/kinds/types.txt does not say which fields it has: add a "
                    "line with its type, and the type"
                )
            object.__setattr__(self, "message", message)
        prefix = b'{"apiVersion":' + msgspec.json.encode(self.resource.api_version) + b","
        object.__setattr__(self, "_prefix", prefix)

    @cached_property
    def shape(self) -> shapes.Shape:
        """The shape of the objects, which tells the parts that have owners of their own."""
        if self.message is not None:
            return shapes.of_kind(self.message)
        return shapes.of_schema(self.strategy.openapi or _ANYTHING)

    @cached_property
    def empty(self) -> JSON:
        """An object without content, with the members that a Go client always sends."""
        body: JSON = kinds.empty(self.message) if self.message is not None else {}
        return {"metadata": {}, **body}

    @property
    def group_resource(self) -> QualifiedResource:
        """Plural and group, as error messages name the resource."""
        return QualifiedResource(self.resource.group, self.resource.plural)

    @property
    def storage_version(self) -> str:
        """The apiVersion of stored objects."""
        return self.stored_as or self.resource.api_version

    def served(self, record: Record) -> bytes:
        """Return the object's JSON in this version."""
        raw = record.raw
        # The common case, a read in the storage version, sends the stored bytes as they are.
        if raw.startswith(self._prefix):
            return raw
        if self.encode is not None:
            return msgspec.json.encode(self.encode(record.to_dict()))
        # stored() puts apiVersion first, so that it can be replaced without decoding the object.
        return self._prefix + raw[raw.index(b",") + 1 :]

    def to_dict(self, record: Record) -> JSON:
        """Return the object's body in this version, a copy that the caller may change."""
        return msgspec.json.decode(self.served(record), type=JSON)

    def misfit(self, body: JSON) -> str:
        """Return the type error of a built-in kind's body, "" for none or for a custom kind."""
        return kinds.misfit(self.message, body) if self.message else ""

    def readable(self, body: JSON) -> JSON:
        """Return the body without fields that a built-in kind lacks or, being empty, omits."""
        if self.custom:
            return body
        given = {name: value for name, value in body.items() if value is not None}
        return kinds.prune(self.message, given) if self.message else given

    def unknown_fields(self, body: JSON) -> list[str]:
        """Return the paths that a write of this body would drop; [] for a body of wrong types."""
        if self.misfit(body):
            return []
        rest = {name: value for name, value in body.items() if name not in _ENVELOPE}
        if self.message:
            paths = list(kinds.unknown(self.message, rest))
        else:
            copied = copy.deepcopy(body)
            self.strategy.prune(copied)
            paths = list(_dropped(rest, copied, ""))
        return sorted([*paths, *_unknown_metadata(body.get("metadata"))])

    def record(self, key: Key, body: JSON) -> Record:
        """Return a record of the body that is not stored, for the answer to a dry run."""
        version = body["metadata"].get("resourceVersion", "")
        return Record(key, int(version or 0), msgspec.json.encode(self.stored(body)))

    def completed(self, record: Record) -> bytes:
        """Return an object's stored form with the defaults of this version's schema."""
        body = self.to_dict(record)
        self.strategy.prepare_create(body)
        return msgspec.json.encode(self.stored(body))

    def stored(self, body: JSON) -> JSON:
        """Return the stored form of a body of this version; apiVersion and kind come first."""
        if self.decode is not None:
            body = self.decode(body)
        rest = {key: value for key, value in body.items() if key not in {"apiVersion", "kind"}}
        return {"apiVersion": self.storage_version, "kind": body["kind"], **rest}


def _unknown_metadata(metadata: Any) -> Iterator[str]:
    message = kinds.load().messages["ObjectMeta"]
    if isinstance(metadata, dict) and not kinds.misfit(message, metadata):
        yield from kinds.unknown(message, metadata, "metadata")


def _dropped(before: Any, after: Any, path: str) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        for name, value in before.items():
            here = f"{path}.{name}" if path else name
            if name not in after:
                yield here
            else:
                yield from _dropped(value, after[name], here)
    elif isinstance(before, list) and isinstance(after, list):
        # Pruning removes members of objects, never items of lists, so the indices match.
        for index, (old, new) in enumerate(zip(before, after, strict=False)):
            yield from _dropped(old, new, f"{path}[{index}]")
