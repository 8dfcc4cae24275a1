"""Uniqueness of items in lists of x-kubernetes-list-type ``set`` and ``map``."""

from __future__ import annotations

from typing import Any

import msgspec

from fairlead.api.meta import JSON
from fairlead_sandbox.schema.effort import Report
from fairlead_sandbox.schema.errors import duplicate, invalid
from fairlead_sandbox.schema.objects.scalars import Check


_encoder = msgspec.json.Encoder(order="deterministic")


def compile_list_check(schema: JSON) -> Check | None:
    """Return the check of all lists of a schema; None if none is a set or a map."""
    own = _own(schema)
    items = compile_list_check(schema["items"]) if schema.get("items") else None
    members = {
        name: inner
        for name, member in (schema.get("properties") or {}).items()
        if (inner := compile_list_check(member))
    }
    additional = schema.get("additionalProperties")
    other = compile_list_check(additional) if isinstance(additional, dict) else None
    if not (own or items or members or other):
        return None

    def check(value: Any, path: str, errors: Report) -> None:
        if type(value) is list:
            if own is not None:
                own(value, path, errors)
            if items is not None:
                for index, item in enumerate(value):
                    items(item, f"{path}[{index}]", errors)
        elif type(value) is dict:
            for name, member in value.items():
                check_member = members.get(name, other)
                if check_member is not None:
                    check_member(member, f"{path}.{name}" if path else name, errors)

    return check


def _own(schema: JSON) -> Check | None:
    kind = schema.get("x-kubernetes-list-type")
    if kind == "set":
        return _set_check
    if kind == "map":
        return _map_check(schema)
    return None


def _set_check(value: list[Any], path: str, errors: Report) -> None:
    _report_repeated([_encoder.encode(item) for item in value], value, path, errors)


def _report_repeated(
    identities: list[bytes | None], shown: list[Any], path: str, errors: Report
) -> None:
    """Report each repeated identity once, at its second place; None is never repeated."""
    counts: dict[bytes, int] = {}
    for index, identity in enumerate(identities):
        if identity is None:
            continue
        counts[identity] = counts.get(identity, 0) + 1
        if counts[identity] == 2:
            errors.append(duplicate(f"{path}[{index}]", shown[index]))


def _map_check(schema: JSON) -> Check:
    keys: list[str] = schema.get("x-kubernetes-list-map-keys") or []
    properties = (schema.get("items") or {}).get("properties") or {}
    fallbacks = {key: (properties.get(key) or {}).get("default") for key in keys}

    def check(value: list[Any], path: str, errors: Report) -> None:
        identities: list[bytes | None] = []
        shown: list[JSON] = []
        for index, item in enumerate(value):
            if type(item) is not dict:
                detail = "must be an object for an array of list-type map"
                errors.append(invalid(f"{path}[{index}]", item, detail))
                return
            key = _key_of(item, fallbacks)
            shown.append(key)
            # An item without any key is no duplicate of another one.
            identities.append(_encoder.encode(key) if key else None)
        _report_repeated(identities, shown, path, errors)

    return check


def _key_of(item: JSON, fallbacks: JSON) -> JSON:
    values = {key: item.get(key, fallback) for key, fallback in fallbacks.items()}
    return {key: value for key, value in values.items() if value is not None}
