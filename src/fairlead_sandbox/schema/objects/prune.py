"""Pruning: removal of fields that a structural schema does not specify."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairlead.api.meta import JSON


Pruner = Callable[[Any], None]
"""Removes unspecified fields from a value."""

_SCALARS = frozenset({"string", "integer", "number", "boolean", "array"})
_ENVELOPE = frozenset({"apiVersion", "kind", "metadata"})


def compile_pruner(schema: JSON, *, root: bool = False) -> Pruner | None:
    """Return a function that prunes a value in place; None if nothing below could be removed.

    ``x-kubernetes-preserve-unknown-fields`` keeps the unknown fields of its own level; specified
    fields are still pruned by their own schemas.
    """
    for_object = _object_pruner(schema, root=root or bool(_embedded(schema)))
    items = compile_pruner(schema["items"]) if isinstance(schema.get("items"), dict) else None
    if for_object is None and items is None:
        return None

    def prune(value: Any) -> None:
        if type(value) is dict:
            if for_object is not None:
                for_object(value)
        elif type(value) is list and items is not None:
            for item in value:
                items(item)

    return prune


def _embedded(schema: JSON) -> Any:
    return schema.get("x-kubernetes-embedded-resource")


def _object_pruner(schema: JSON, *, root: bool) -> Callable[[JSON], None] | None:
    if schema.get("type") in _SCALARS or schema.get("x-kubernetes-int-or-string"):
        return None
    properties: JSON = schema.get("properties") or {}
    declared = frozenset(properties) | (_ENVELOPE if root else frozenset())
    members = {
        name: pruner
        for name, member in properties.items()
        if not (root and name in _ENVELOPE) and (pruner := compile_pruner(member))
    }
    additional = schema.get("additionalProperties")
    # additionalProperties: true allows any key, but says nothing about what is inside of the
    # values: that is pruned, as in kube-apiserver.
    described = additional is not None and additional is not False
    other = (
        compile_pruner(additional if isinstance(additional, dict) else {}) if described else None
    )
    keep = described or bool(schema.get("x-kubernetes-preserve-unknown-fields"))

    def prune(value: JSON) -> None:
        if not keep and not value.keys() <= declared:
            for name in [name for name in value if name not in declared]:
                del value[name]
        for name, pruner in members.items():
            if name in value:
                pruner(value[name])
        if other is not None:
            for name, member in value.items():
                if name not in declared:
                    other(member)

    return prune
