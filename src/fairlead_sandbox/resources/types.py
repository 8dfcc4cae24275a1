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
    """How objects of a kind are made, changed and checked; kinds override what differs."""

    generation = False
    """Whether metadata.generation counts changes of what is not status or metadata."""
    status = False
    """Whether status is written through its subresource alone."""
    unconditional_update = True
    """Whether an update may come without a resourceVersion."""
    allocated: Sequence[str] = ()
    """Paths, with slashes, that the server fills in for a new object: its writer owns only those
    that it has sent."""
    selectable_fields: Sequence[str] = ()
    """Field selectors beyond metadata.name and metadata.namespace."""
    graceful = True
    """Whether a delete that has to wait notes a grace period."""
    creates_on_update = False
    """Whether a PUT of what does not exist creates it."""
    returns_deleted = False
    """Whether a delete is answered with the object instead of a Status."""
    openapi: JSON | None = None
    """The schema that OpenAPI shows; None for built-in kinds, whose message says it."""
    name_rule: metadata.NameRule = staticmethod(subdomain_errors)

    def prune(self, body: JSON) -> None:
        """Drop what the kind does not have."""

    def default(self, body: JSON) -> None:
        """Write the defaults of decoding, which webhooks and checks already see.

        The status stays as the writer sent it: only storing leaves it out.
        """
        status = body.get("status")
        self.prepare_create(body)
        body.pop("status", None)
        if status is not None:
            body["status"] = status

    def prepare_create(self, body: JSON) -> None:
        """Write defaults into a new object."""

    def prepare_update(self, body: JSON, old: JSON) -> None:
        """Write defaults into an update."""

    def validate(self, body: JSON, old: JSON | None) -> list[FieldError]:
        """Return the faults of the body; ``old`` is None for a new object."""
        return []

    def prepare_delete(self, body: JSON) -> None:
        """Note in the body that its deletion was asked for, just before it is stamped."""

    def held(self, body: JSON) -> bool:
        """Whether something keeps a deleted object from going."""
        return bool(body["metadata"].get("finalizers"))

    def field(self, body: JSON, path: str) -> str:
        """The text of a selectable field, "" when it is not set."""
        value: Any = body
        for name in path.split("."):
            value = value.get(name) if isinstance(value, dict) else None
        return "" if value is None else str(value)


@dataclass(frozen=True)
class Scale:
    """Where a kind keeps what its scale subresource shows, as paths of member names."""

    spec: tuple[str, ...]
    status: tuple[str, ...]
    selector: tuple[str, ...] = ()


@dataclass(frozen=True)
class ResourceType:
    """One resource of one served API version.

    Raises:
        IncompleteModelError: it is built in, and nothing says which fields it has.
    """

    resource: Resource
    singular: str
    collection: str
    """Where its objects are stored; all versions of a resource share one."""
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
    """False while the CRD is being deleted."""
    warning: str = ""
    """Sent with every answer of a deprecated version."""
    stored_as: str = ""
    """The apiVersion of stored objects; "" when it is the resource's own."""
    encode: Callable[[JSON], JSON] | None = None
    """From the stored form to this version's, where apiVersion is not all that differs."""
    decode: Callable[[JSON], JSON] | None = None
    """From this version's form to the stored one."""
    message: kinds.Message | None = field(init=False, default=None)
    """The fields of a built-in kind; None for a custom one, which has a schema."""
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
        """The shape of its objects: the parts that have owners of their own."""
        if self.message is not None:
            return shapes.of_kind(self.message)
        return shapes.of_schema(self.strategy.openapi or _ANYTHING)

    @cached_property
    def empty(self) -> JSON:
        """An object of the kind that says nothing, as a Go client would send it."""
        body: JSON = kinds.empty(self.message) if self.message is not None else {}
        return {"metadata": {}, **body}

    @property
    def group_resource(self) -> QualifiedResource:
        """The plural and group by which errors name it."""
        return QualifiedResource(self.resource.group, self.resource.plural)

    @property
    def storage_version(self) -> str:
        """The apiVersion that stored objects carry."""
        return self.stored_as or self.resource.api_version

    def served(self, record: Record) -> bytes:
        """The object's JSON in this version."""
        raw = record.raw
        if raw.startswith(self._prefix):
            return raw
        if self.encode is not None:
            return msgspec.json.encode(self.encode(record.to_dict()))
        # stored() puts apiVersion first, so that another one takes its place without any decoding.
        return self._prefix + raw[raw.index(b",") + 1 :]

    def to_dict(self, record: Record) -> JSON:
        """The object's body in this version, a private copy."""
        return msgspec.json.decode(self.served(record), type=JSON)

    def misfit(self, body: JSON) -> str:
        """Where a member of the body has a wrong type, "" when none has or a schema says."""
        return kinds.misfit(self.message, body) if self.message else ""

    def known(self, body: JSON) -> JSON:
        """The body without what a built-in kind does not have or leaves out when it is empty."""
        if self.custom:
            return body
        given = {name: value for name, value in body.items() if value is not None}
        return kinds.prune(self.message, given) if self.message else given

    def unknown_fields(self, body: JSON) -> list[str]:
        """The paths of what a write of this body would drop; [] for a body that does not fit."""
        if self.misfit(body):
            return []
        rest = {name: value for name, value in body.items() if name not in _ENVELOPE}
        if self.message:
            found = list(kinds.unknown(self.message, rest))
        else:
            kept = copy.deepcopy(body)
            self.strategy.prune(kept)
            found = list(_dropped(rest, kept, ""))
        return sorted([*found, *_unknown_metadata(body.get("metadata"))])

    def record(self, key: Key, body: JSON) -> Record:
        """A record that is not stored, as a dry run answers with."""
        version = body["metadata"].get("resourceVersion", "")
        return Record(key, int(version or 0), msgspec.json.encode(self.stored(body)))

    def completed(self, record: Record) -> bytes:
        """The stored form of an object with the defaults of this version's schema."""
        body = self.to_dict(record)
        self.strategy.prepare_create(body)
        return msgspec.json.encode(self.stored(body))

    def stored(self, body: JSON) -> JSON:
        """The form in which a body of this version is stored; apiVersion and kind come first."""
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
        for index, (old, new) in enumerate(zip(before, after, strict=False)):
            yield from _dropped(old, new, f"{path}[{index}]")
