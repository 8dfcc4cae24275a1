"""Decoder of Kubernetes' protobuf: the envelope with its magic prefix, to JSON objects."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from fairlead.api.meta import JSON
from fairlead.api.timestamps import format_micro_time, format_time
from fairlead_sandbox.kinds import Field, Message, load
from fairlead_sandbox.kinds.model import INLINE, OPTIONS


_MAGIC = b"k8s\x00"
"""First bytes of every protobuf body of Kubernetes."""
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class ProtobufError(ValueError):
    """The bytes are no protobuf message of Kubernetes."""


class UnknownKindError(ProtobufError):
    """The body's kind is not in the table."""


def decode(body: bytes) -> JSON:
    """Return the object in a request's body.

    Raises:
        UnknownKindError: the body's kind is not in the table.
        ProtobufError: the body is malformed.
    """
    if not body.startswith(_MAGIC):
        raise ProtobufError("the body does not begin as Kubernetes' protobuf does")
    # The envelope is runtime.Unknown: 1 has apiVersion and kind, 2 the object. 3 and 4, its
    # encoding and content type, stay empty for a plain body.
    envelope = {number: value for number, value in _fields(body[4:]) if number in {1, 2}}
    header = dict(_fields(_as_bytes(envelope.get(1, b""))))
    version, kind = _text(header.get(1, b"")), _text(header.get(2, b""))
    expected = OPTIONS if kind == OPTIONS[1] else (version, kind)
    message = load().kind(*expected)
    if message is None:
        raise UnknownKindError(f"{kind or 'an object'} in {version or 'no version'}")
    decoded = _message(message, _as_bytes(envelope.get(2, b"")))
    return {"apiVersion": version, "kind": kind, **decoded}


def _fields(data: bytes) -> Iterator[tuple[int, bytes | int]]:
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value, position = _varint(data, position)
            yield number, value
            continue
        if wire == _BYTES:
            size, position = _varint(data, position)
        elif wire in {_FIXED64, _FIXED32}:
            size = 8 if wire == _FIXED64 else 4
        else:
            raise ProtobufError(f"wire type {wire} is unknown")
        if position + size > len(data):
            raise ProtobufError("the body ends within a field")
        yield number, data[position : position + size]
        position += size


def _varint(data: bytes, position: int) -> tuple[int, int]:
    result = shift = 0
    # A varint has at most ten bytes of seven bits each.
    while position < len(data) and shift < 70:
        byte = data[position]
        result |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return result, position
    raise ProtobufError("the body ends within a number")


def _message(message: Message, data: bytes) -> JSON:
    result: JSON = {}
    for number, value in _fields(data):
        field = message.numbers.get(number)
        if field is not None:
            _add(result, field, value)
    return result


def _add(result: JSON, field: Field, value: bytes | int) -> None:
    name = field.type.name
    if field.name == INLINE:
        result |= _message(load().messages[name], _as_bytes(value))
    elif field.type.shape == "list":
        result.setdefault(field.name, []).append(_value(name, value))
    elif field.type.shape == "map":
        key, item = _entry(name, _as_bytes(value))
        result.setdefault(field.name, {})[key] = item
    else:
        element = _value(name, value)
        # Kubernetes' encoder writes zero values too. JSON has only those that Go's omitempty
        # keeps.
        if element or element == {} or (field.always and element is not None):
            result[field.name] = element


def _entry(type_: str, data: bytes) -> tuple[str, Any]:
    parts = dict(_fields(data))
    # A map is sent as a list of entries, each with the key as 1 and the value as 2.
    return _text(parts.get(1, b"")), _value(type_, parts.get(2, b""))


def _value(type_: str, value: bytes | int) -> Any:
    if type_ in {"int32", "int64"}:
        return _as_int(value)
    if type_ == "bool":
        return bool(_as_int(value))
    data = _as_bytes(value)
    special = _SPECIAL.get(type_)
    return special(data) if special else _message(load().messages[type_], data)


def _quantity(data: bytes) -> str:
    return _text(dict(_fields(data)).get(1, b""))


def _int_or_string(data: bytes) -> int | str:
    parts = dict(_fields(data))
    # 1 is the type (0 for a number), 2 the number, 3 the text.
    if _as_int(parts.get(1, 0)):
        return _text(parts.get(3, b""))
    return _as_int(parts.get(2, 0))


def _raw(data: bytes) -> Any:
    raw = _as_bytes(dict(_fields(data)).get(1, b""))
    try:
        return msgspec.json.decode(raw) if raw else None
    except msgspec.DecodeError:
        raise ProtobufError("embedded JSON cannot be read") from None


def _items(data: bytes) -> list[str]:
    return [_text(value) for number, value in _fields(data) if number == 1]


def _schema_or_bool(data: bytes) -> JSON | bool:
    parts = dict(_fields(data))
    # JSONSchemaPropsOrBool: 1 is allows, 2 the schema.
    if 2 in parts:
        return _message(load().messages["JSONSchemaProps"], _as_bytes(parts[2]))
    return bool(_as_int(parts.get(1, 0)))


def _schema_or_list(data: bytes) -> Any:
    schema = load().messages["JSONSchemaProps"]
    members = list(_fields(data))
    for number, value in members:
        if number == 1:
            return _message(schema, _as_bytes(value))
    return [_message(schema, _as_bytes(value)) for number, value in members if number == 2]


def _schema_or_strings(data: bytes) -> Any:
    parts = dict(_fields(data))
    if 1 in parts:
        return _message(load().messages["JSONSchemaProps"], _as_bytes(parts[1]))
    return [_text(value) for number, value in _fields(data) if number == 2]


def _time(data: bytes, *, micro: bool) -> Any:
    parts = dict(_fields(data))
    # An empty message is Go's zero time, which is null in JSON.
    if not parts:
        return None
    seconds, nanos = _as_int(parts.get(1, 0)), _as_int(parts.get(2, 0))
    try:
        moment = datetime.fromtimestamp(seconds, UTC).replace(microsecond=nanos // 1000)
    except (ValueError, OverflowError, OSError):
        raise ProtobufError("a time is out of range") from None
    return format_micro_time(moment) if micro else format_time(moment)


def _as_int(value: bytes | int) -> int:
    if isinstance(value, bytes):
        raise ProtobufError("a number is expected")
    # Negative numbers are sent as 64 bits in two's complement.
    return value - (1 << 64) if value >= 1 << 63 else value


def _as_bytes(value: bytes | int) -> bytes:
    if isinstance(value, int):
        raise ProtobufError("a number stands where text or a message is expected")
    return value


def _text(value: bytes | int) -> str:
    try:
        return _as_bytes(value).decode()
    except UnicodeDecodeError:
        raise ProtobufError("a text is not UTF-8") from None


def _float(data: bytes) -> float:
    if len(data) != 8:
        raise ProtobufError("a number with a fraction is expected")
    return float(struct.unpack("<d", data)[0])


_SPECIAL: Mapping[str, Callable[[bytes], Any]] = {
    "string": _text,
    "bytes": lambda data: base64.b64encode(data).decode(),
    "time": lambda data: _time(data, micro=False),
    "microtime": lambda data: _time(data, micro=True),
    "quantity": _quantity,
    "intstr": _int_or_string,
    "raw": _raw,
    "items": _items,
    "float64": _float,
    "schemaOrBool": _schema_or_bool,
    "schemaOrArray": _schema_or_list,
    "schemaOrStrings": _schema_or_strings,
}
