"""Type checks of built-in kinds' bodies, and removal of fields that the kind lacks.

The messages are those of Go's JSON decoder, which users search for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from fairlead.api.meta import JSON
from fairlead.api.timestamps import parse_time
from fairlead_sandbox.kinds.model import Field, FieldType, Message, load


_JSON_NAMES = {bool: "bool", int: "number", float: "number", str: "string", list: "array"}
_GO_NAMES = {
    "bytes": "uint8",
    "time": "v1.Time",
    "microtime": "v1.MicroTime",
    "quantity": "resource.Quantity",
    "intstr": "intstr.IntOrString",
    "raw": "runtime.RawExtension",
    "items": "v1.ExtraValue",
    "string": "string",
    "bool": "bool",
    "int32": "int32",
    "int64": "int64",
    "float64": "float64",
}
"""Names of scalar types in the messages of Go's JSON decoder."""


class _Misfit(Exception):  # noqa: N818 - not an error of the program
    """A value has the wrong type; the text is the message."""


class _Place(NamedTuple):
    """A value's path, and the message and type that it must have."""

    path: tuple[str, ...]
    owner: Message
    type: FieldType

    def wrong(self, value: Any, go_name: str) -> _Misfit:
        kind = _JSON_NAMES.get(type(value), "object")
        if isinstance(value, float):
            kind = f"number {value}"
        field = ".".join([self.owner.name.rpartition(".")[2], *self.path])
        return _Misfit(
            f"json: cannot unmarshal {kind} into Go struct field {field} of type {go_name}"
        )


def misfit(message: Message, body: JSON) -> str:
    """Return a message on the first value of a wrong type, "" for none; metadata is skipped."""
    try:
        # take_metadata checks metadata, which custom resources have too, with messages of its own.
        _check_message(message, {**body, "metadata": None}, ())
    except _Misfit as misfit_:
        return str(misfit_)
    return ""


def _check_message(message: Message, body: JSON, path: tuple[str, ...]) -> None:
    for name, value in body.items():
        field = message.fields.get(name)
        # Go's decoder takes null for every type and leaves the zero value.
        if field is not None and value is not None:
            _check_field(_Place((*path, name), message, field.type), value)


def _check_field(place: _Place, value: Any) -> None:
    if place.type.shape == "one":
        _check_value(place, value)
        return
    container = list if place.type.shape == "list" else dict
    if not isinstance(value, container):
        sign = "[]" if container is list else "map[string]"
        raise place.wrong(value, sign + _go_name(place.type.name))
    for item in value.values() if isinstance(value, dict) else value:
        if item is not None:
            _check_value(place, item)


def _check_value(place: _Place, value: Any) -> None:
    name = place.type.name
    if name in load().messages:
        if not isinstance(value, dict):
            raise place.wrong(value, _go_name(name))
        _check_message(load().messages[name], value, place.path)
        return
    check = _SCALARS[name]
    if not check(value):
        raise place.wrong(value, _go_name(name))
    if isinstance(value, str) and name in {"time", "microtime"}:
        _check_time(value)
    if isinstance(value, dict) and name.startswith("schemaOr"):
        _check_message(load().messages["JSONSchemaProps"], value, place.path)


def _check_time(value: str) -> None:
    try:
        parse_time(value)
    except ValueError:
        text = f'parsing time "{value}" as "2006-01-02T15:04:05Z07:00": cannot parse "{value}"'
        raise _Misfit(text) from None


def _go_name(name: str) -> str:
    return _GO_NAMES.get(name) or f"v1.{name.rpartition('.')[2]}"


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


_SCALARS: Mapping[str, Callable[[Any], bool]] = {
    "string": _is_text,
    "bytes": _is_text,
    "time": _is_text,
    "microtime": _is_text,
    "bool": lambda value: isinstance(value, bool),
    "int32": lambda value: _is_integer(value) and -(1 << 31) <= value < 1 << 31,
    "int64": lambda value: _is_integer(value) and -(1 << 63) <= value < 1 << 63,
    "float64": _is_number,
    "quantity": lambda value: _is_text(value) or _is_number(value),
    "intstr": lambda value: _is_text(value) or _is_integer(value),
    "raw": lambda _: True,
    "items": lambda value: isinstance(value, list) and all(map(_is_text, value)),
    "schemaOrArray": lambda value: isinstance(value, dict | list),
    "schemaOrBool": lambda value: isinstance(value, dict | bool),
    "schemaOrStrings": lambda value: isinstance(value, dict | list),
}


def unknown(message: Message, body: JSON, path: str = "") -> Iterator[str]:
    """Yield the paths of fields that a type lacks; the body must have the right types."""
    for name, value in body.items():
        here = f"{path}.{name}" if path else name
        field = message.fields.get(name)
        if field is None:
            yield here
            continue
        inner = load().messages.get(field.type.name)
        if inner is None or not value:
            continue
        match field.type.shape:
            case "one":
                yield from unknown(inner, value, here)
            case "list":
                for index, item in enumerate(value):
                    yield from unknown(inner, item or {}, f"{here}[{index}]")
            case "map":
                for key, item in value.items():
                    yield from unknown(inner, item or {}, f"{here}.{key}")


_EMPTY: Mapping[str, Any] = {"string": "", "bool": False, "int32": 0, "int64": 0}
"""Go's zero values of scalars."""


def prune(message: Message, body: JSON) -> JSON:
    """Return the body without unknown fields and without empty fields that Go omits.

    The body must have the right types. The root's apiVersion, kind and metadata stay as they are.
    """
    envelope = {name: body[name] for name in ("apiVersion", "kind", "metadata") if name in body}
    rest = {name: value for name, value in body.items() if name not in envelope}
    return envelope | _pruned(message, rest)


def _pruned(message: Message, body: JSON) -> JSON:
    """Return a message's fields; required scalars that are missing become Go's zero value."""
    result: JSON = {
        name: _EMPTY[field.type.name]
        for name, field in message.fields.items()
        if field.required
        and body.get(name) is None
        and field.type.shape == "one"
        and field.type.name in _EMPTY
    }
    for name, value in body.items():
        field = message.fields.get(name)
        # Go writes an unset time as null; other nulls are dropped.
        if field is None or (value is None and field.type.name != "time"):
            continue
        pruned = _pruned_field(field.type, value)
        if field.always or not _is_empty(field, pruned):
            result[name] = pruned
    return result


def _is_empty(field: Field, value: Any) -> bool:
    """Whether Go's ``omitempty`` omits the value; it never omits structs and times."""
    if value is None:
        return False
    return not value and (field.type.shape != "one" or not isinstance(value, dict))


def _pruned_field(type_: FieldType, value: Any) -> Any:
    inner = load().messages.get(type_.name)
    if value is None:
        return value
    match type_.shape:
        case "list":
            return [_pruned_item(type_.name, inner, item) for item in value]
        case "map":
            return {name: _pruned_item(type_.name, inner, item) for name, item in value.items()}
    return value if inner is None else _pruned(inner, value)


def _pruned_item(name: str, inner: Message | None, item: Any) -> Any:
    if inner is not None:
        return _pruned(inner, item or {})
    return _EMPTY.get(name) if item is None else item
