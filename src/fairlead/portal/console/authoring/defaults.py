"""Removal of fields that repeat their schema's defaults."""

from __future__ import annotations

from typing import Any

from fairlead.api.meta import JSON
from fairlead.portal.console.authoring import facts
from fairlead.portal.console.authoring.facts import UNSET


def without_defaults(schema: JSON, value: Any) -> Any:
    """Remove fields that equal their defaults, which the API server fills in.

    The keys of a list's items are kept, since server-side apply finds items by them.
    """
    if isinstance(value, list):
        items = facts.inner(schema, "items")
        return [_item(schema, items, one) for one in value] if items else value
    if not isinstance(value, dict):
        return value
    fields, others = facts.properties(schema), facts.inner(schema, "additionalProperties")
    kept: JSON = {}
    for name, one in value.items():
        inner = fields.get(name, others)
        if inner is None:
            kept[name] = one
            continue
        less = without_defaults(inner, one)
        default = facts.default(inner) if name in fields else UNSET
        if default is UNSET or not facts.same(less, without_defaults(inner, default)):
            kept[name] = less
    return kept


def _item(schema: JSON, items: JSON, value: Any) -> Any:
    less = without_defaults(items, value)
    keys = schema.get("x-kubernetes-list-map-keys")
    if isinstance(value, dict) and isinstance(keys, list):
        return {
            name: value[name] if name in keys else less[name]
            for name in value
            if name in keys or name in less
        }
    return less
