"""Validation of x-kubernetes-list-type, -list-map-keys and -map-type in a schema."""

from __future__ import annotations

from fairlead.api.meta import JSON
from fairlead_sandbox.schema.effort import Report
from fairlead_sandbox.schema.errors import forbidden, invalid, not_supported, required


_LIST_TYPE = "x-kubernetes-list-type"
_MAP_KEYS = "x-kubernetes-list-map-keys"
_MAP_TYPE = "x-kubernetes-map-type"


def check_list_keywords(schema: JSON, path: str, errors: Report) -> None:
    """Report the errors in the list and map keywords of one schema."""
    _check_map_type(schema, path, errors)
    kind, keys = schema.get(_LIST_TYPE), schema.get(_MAP_KEYS) or []
    if kind is not None and schema.get("type") != "array":
        detail = f"must be array if {_LIST_TYPE} is specified"
        errors.append(invalid(f"{path}.type", schema.get("type", ""), detail))
    if kind not in {None, "atomic", "set", "map"}:
        errors.append(not_supported(f"{path}.{_LIST_TYPE}", kind, ["atomic", "set", "map"]))
    if kind == "map":
        _check_map(schema, keys, path, errors)
    elif keys:
        detail = f"must be map if {_MAP_KEYS} is non-empty"
        report = invalid(f"{path}.{_LIST_TYPE}", kind, detail)
        errors.append(report if kind else required(f"{path}.{_LIST_TYPE}", detail))
    if kind == "set":
        _check_set(schema, path, errors)


def _check_map_type(schema: JSON, path: str, errors: Report) -> None:
    kind = schema.get(_MAP_TYPE)
    if kind is None:
        return
    if schema.get("type") != "object":
        detail = f"must be object if {_MAP_TYPE} is specified"
        errors.append(invalid(f"{path}.type", schema.get("type", ""), detail))
    if kind not in {"atomic", "granular"}:
        errors.append(not_supported(f"{path}.{_MAP_TYPE}", kind, ["atomic", "granular"]))


def _check_set(schema: JSON, path: str, errors: Report) -> None:
    """Report items of a set that are not compared as a whole: they must be scalar or atomic."""
    items = _items(schema)
    detail = f"must be atomic as item of a list with {_LIST_TYPE}=set"
    # An object is granular unless it says atomic; a list is atomic unless it says otherwise.
    if items.get("type") == "object" and items.get(_MAP_TYPE) != "atomic":
        errors.append(invalid(f"{path}.items.{_MAP_TYPE}", items.get(_MAP_TYPE), detail))
    if items.get("type") == "array" and items.get(_LIST_TYPE) not in {None, "atomic"}:
        errors.append(invalid(f"{path}.items.{_LIST_TYPE}", items.get(_LIST_TYPE), detail))
    _check_nullable(items, "set", path, errors)


def _items(schema: JSON) -> JSON:
    items = schema.get("items")
    return items if isinstance(items, dict) else {}


def _check_nullable(items: JSON, kind: str, path: str, errors: Report) -> None:
    if items.get("nullable"):
        detail = f"cannot be nullable when {_LIST_TYPE} is {kind}"
        errors.append(forbidden(f"{path}.items.nullable", detail))


def _check_map(schema: JSON, keys: list[str], path: str, errors: Report) -> None:
    if not keys:
        detail = f"must not be empty if {_LIST_TYPE} is map"
        errors.append(required(f"{path}.{_MAP_KEYS}", detail))
    items = _items(schema)
    if not items:
        errors.append(required(f"{path}.items", f"must have a schema if {_LIST_TYPE} is map"))
        return
    _check_nullable(items, "map", path, errors)
    if items.get("type") != "object":
        detail = f"must be object if parent array's {_LIST_TYPE} is map"
        errors.append(invalid(f"{path}.items.type", items.get("type", ""), detail))
        return
    _check_keys(items, keys, path, errors)


def _check_keys(items: JSON, keys: list[str], path: str, errors: Report) -> None:
    properties = items.get("properties") or {}
    field = f"{path}.{_MAP_KEYS}"
    if len(set(keys)) < len(keys):
        errors.append(invalid(field, keys, "must not contain duplicate entries"))
    if set(keys) - set(properties):
        errors.append(invalid(field, keys, "entries must all be names of item properties"))
    for key in dict.fromkeys(keys):
        if key in properties:
            at = f"{path}.items.properties[{key}]"
            _check_key(properties[key], key in (items.get("required") or ()), at, errors)


def _check_key(schema: JSON, is_required: bool, field: str, errors: Report) -> None:
    if schema.get("type") in {"object", "array"}:
        detail = f"must be a scalar type if parent array's {_LIST_TYPE} is map"
        errors.append(invalid(f"{field}.type", schema["type"], detail))
    if not is_required and schema.get("default") is None:
        detail = (
            f"this property is in {_MAP_KEYS}, so it must have a default or be a required property"
        )
        errors.append(required(f"{field}.default", detail))
    if schema.get("nullable"):
        detail = f"this property is in {_MAP_KEYS}, so it cannot be nullable"
        errors.append(forbidden(f"{field}.nullable", detail))
