"""Merges the consumer's fields into a copy, so that fields which others added stay.

The owners of a copy's fields are in ``metadata.managedFields`` on the provider's server
(Kubernetes, server-side apply, "Field management"). They are read only if the copy has fields that
the consumer's object lacks: either the consumer removed them, or another writer on the provider
added them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

import msgspec

from fairlead.api.kubebind.names import ANNOTATION_CONSUMER_UID, FIELD_MANAGER
from fairlead.api.meta import JSON, Object
from fairlead.konnector.policies.copies import Metadata
from fairlead.konnector.policies.localkeys import LocalMetadataKeys


Owned = Mapping[str, Any]
"""A tree of ``fieldsV1``: ``f:name`` for members, ``k:{...}`` and ``v:...`` for items of lists."""

_NOTHING: Final = object()
_STATUS = "status"


class CrossingFields(Protocol):
    """The fields of an object that go to its copy, and those of a copy that are a konnector's."""

    def payload(self, obj: Object) -> JSON:
        """Return the part of an object that goes to its copy."""
        ...

    def owned(self, body: JSON) -> Owned:
        """Return the fields of a copy that a konnector has written."""
        ...

    def wrote(self, body: JSON) -> bool:
        """Whether a konnector has written more of a copy than its metadata."""
        ...


class BoundFields(msgspec.Struct, frozen=True):
    """The fields of kube-bind's v1alpha2: all but the ``local`` labels and annotations."""

    local: LocalMetadataKeys = LocalMetadataKeys()

    def payload(self, obj: Object) -> JSON:
        """Return the part of an object that goes to its copy."""
        return self.local.payload(obj)

    def owned(self, body: JSON) -> Owned:
        """Return the fields of a copy that a konnector has written."""
        return owned_fields(body, self.local)

    def wrote(self, body: JSON) -> bool:
        """Whether a konnector has written more of a copy than its metadata."""
        return wrote(body)


def applied_fields(body: JSON, manager: str) -> Owned:
    """Return the fields of an object that a manager owns by server-side apply.

    If a server tracks no fields, all but the metadata count as the manager's.
    """
    entries = body.get("metadata", {}).get("managedFields") or []
    if not entries:
        return {f"f:{name}": {} for name in body if name not in {"metadata", _STATUS}}
    fields = (entry.get("fieldsV1") or {} for entry in entries if _applies(entry, manager))
    result: dict[str, Any] = {}
    for owned in fields:
        result = _union(result, owned)
    return result


def owned_fields(body: JSON, local: LocalMetadataKeys) -> Owned:
    """Return the fields of an object that a konnector has written, ours or the original.

    Its entries are recognized by the manager, or by the annotation that only a konnector sets: the
    original creates copies under another name than it updates them, which it does by server-side
    apply. What it wrote of ``local`` keys stays with the copy. If a server tracks no fields, all
    but the metadata count as the consumer's.
    """
    metadata = body.get("metadata", {})
    entries = metadata.get("managedFields") or []
    if not entries:
        return {f"f:{name}": {} for name in body if name not in {"metadata", _STATUS}}
    marked = local.marks(metadata.get("labels") or {}, metadata.get("annotations") or {})
    result: dict[str, Any] = {}
    for entry in entries:
        if _by_konnector(entry):
            fields = entry.get("fieldsV1") or {}
            ours = entry.get("manager") == FIELD_MANAGER and entry.get("operation") != "Apply"
            result = _union(result, fields if ours else _unmarked(fields, marked))
    return result


def _by_konnector(entry: JSON) -> bool:
    """Whether a konnector of v1alpha2 has written the fields of an entry of managedFields."""
    annotations = (entry.get("fieldsV1") or {}).get("f:metadata", {}).get("f:annotations", {})
    managed = entry.get("manager") == FIELD_MANAGER
    return entry.get("subresource") != _STATUS and (
        managed or f"f:{ANNOTATION_CONSUMER_UID}" in annotations
    )


def transferred(body: JSON, manager: str, metadata: Owned) -> list[JSON] | None:
    """Return managedFields in which a manager has applied the spec that a konnector has written.

    All else that the konnector of v1alpha2 has written of the copy belongs to no manager then.
    None if the server tracks no fields.

    Args:
        body: the copy.
        manager: the manager that gets the fields.
        metadata: what it has applied of the metadata.
    """
    entries: list[JSON] = body.get("metadata", {}).get("managedFields") or []
    former = [entry for entry in entries if _by_konnector(entry)]
    if not former:
        return None
    applied = [entry for entry in entries if _applies(entry, manager)]
    fields: dict[str, Any] = {"f:metadata": metadata}
    for entry in former:
        spec = (entry.get("fieldsV1") or {}).get("f:spec")
        fields = _union(fields, {} if spec is None else {"f:spec": spec})
    for entry in applied:
        fields = _union(fields, entry.get("fieldsV1") or {})
    latest = max((*former, *applied), key=lambda entry: str(entry.get("time", "")))
    own = {
        "manager": manager,
        "operation": "Apply",
        "apiVersion": latest["apiVersion"],
        "time": latest.get("time"),
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
    return [own, *(entry for entry in entries if entry not in former and entry not in applied)]


def _applies(entry: JSON, manager: str) -> bool:
    """Whether an entry of managedFields is what a manager has applied of the object itself."""
    by = (entry.get("manager"), entry.get("operation"))
    return by == (manager, "Apply") and not entry.get("subresource")


def _unmarked(fields: Owned, marked: Metadata) -> Owned:
    """Return fields without the labels and annotations that are marked."""
    if not any(marked) or "f:metadata" not in fields:
        return fields
    metadata = dict(fields["f:metadata"])
    for member, keys in (("f:labels", marked.labels), ("f:annotations", marked.annotations)):
        if member in metadata:
            dropped = {f"f:{name}" for name in keys}
            metadata[member] = {
                name: owned for name, owned in metadata[member].items() if name not in dropped
            }
    return {**fields, "f:metadata": metadata}


def wrote(body: JSON) -> bool:
    """Whether a server says that a konnector has written more of an object than its metadata.

    An entry that lost its annotations is still there; a server that tracks nothing says nothing.
    """
    entries = body.get("metadata", {}).get("managedFields") or []
    return any(
        entry.get("manager") == FIELD_MANAGER
        and not entry.get("subresource")
        and (entry.get("fieldsV1") or {}).keys() - {"f:metadata", "f:status"}
        for entry in entries
    )


def merged(target: JSON, source: JSON, owned: Owned) -> JSON:
    """Return the target with all fields of the source, without former fields of ours."""
    result: JSON = {}
    for name, value in target.items():
        ours = owned.get(f"f:{name}")
        if name in source:
            result[name] = _value(value, source[name], ours)
        elif (rest := _others(value, ours)) is not _NOTHING:
            result[name] = rest
    return {**result, **{name: value for name, value in source.items() if name not in target}}


def _value(target: Any, source: Any, owned: Owned | None) -> Any:
    if isinstance(target, dict) and isinstance(source, dict):
        # A leaf is a map that is owned as a whole, or one that was empty when we wrote it.
        whole = owned is not None and not owned and source
        return source if whole else merged(target, source, owned or {})
    if isinstance(target, list) and isinstance(source, list) and owned:
        return _items(target, source, owned)
    return source


def _others(value: Any, owned: Owned | None) -> Any:
    """Return the part of a value that is not ours, for a value that the source lacks."""
    if owned is None:
        return value
    if isinstance(value, dict) and owned:
        others = {
            name: rest
            for name, item in value.items()
            if (rest := _others(item, owned.get(f"f:{name}"))) is not _NOTHING
        }
        return others or _NOTHING
    if isinstance(value, list) and owned:
        return _items(value, [], owned) or _NOTHING
    return _NOTHING


def _items(target: list[Any], source: list[Any], owned: Owned) -> list[Any]:
    """Return the source's items, merged with the target's of equal keys; then others' items."""
    keys = _keys(owned)
    if keys is None:
        return [*source, *(item for item in target if not _ours(item, owned, source))]
    there = {_key(item, keys): item for item in target if isinstance(item, dict)}
    result: list[Any] = []
    for item in source:
        counterpart = there.pop(_key(item, keys), None) if isinstance(item, dict) else None
        result.append(
            item
            if counterpart is None
            else merged(counterpart, item, _item(owned, counterpart, keys))
        )
    return [*result, *(item for key, item in there.items() if _marker(item, keys) not in owned)]


def _keys(owned: Owned) -> list[str] | None:
    """Return the names of the key fields of a list's items; None for a list of scalars."""
    for name in owned:
        if name.startswith("k:"):
            return sorted(msgspec.json.decode(name[2:]))
    return None


def _key(item: JSON, keys: list[str]) -> bytes:
    return msgspec.json.encode([item.get(name) for name in keys])


def _marker(item: JSON, keys: list[str]) -> str:
    """Return the item's name in a tree of fields, whose keys are in alphabetical order."""
    return "k:" + msgspec.json.encode({name: item.get(name) for name in keys}).decode()


def _item(owned: Owned, item: JSON, keys: list[str]) -> Owned:
    owners: Owned = owned.get(_marker(item, keys)) or {}
    return owners


def _ours(item: Any, owned: Owned, source: list[Any]) -> bool:
    return item in source or f"v:{msgspec.json.encode(item).decode()}" in owned


def _union(left: Owned, right: Owned) -> dict[str, Any]:
    result = dict(left)
    for name, fields in right.items():
        result[name] = _union(result[name], fields) if name in result else fields
    return result
