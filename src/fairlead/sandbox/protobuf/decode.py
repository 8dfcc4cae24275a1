"""The wire format: Kubernetes' envelope around protocol buffers, to JSON objects."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from fairlead.api.meta import JSON
from fairlead.api.timestamps import format_micro_time, format_time
from fairlead.sandbox.protobuf.messages import KINDS, MESSAGES


_MAGIC = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_LEFT_OUT = object()


class ProtobufError(ValueError):
    """The bytes are no message of Kubernetes."""


class UnknownKindError(ProtobufError):
    """The bytes are of a kind that is not understood."""


def decode(body: bytes) -> JSON:
    """The object in a request's body.

    Raises:
        UnknownKindError: the body is of a kind that is not understood.
        ProtobufError: the body is broken.
    """
    if not body.startswith(_MAGIC):
        raise ProtobufError("the body does not begin as Kubernetes' protobuf does")
    envelope = {number: value for number, value in _fields(body[4:]) if number in {1, 2}}
    header = dict(_fields(_as_bytes(envelope.get(1, b""))))
    version, kind = _text(header.get(1, b"")), _text(header.get(2, b""))
    if kind != "DeleteOptions" and (version, kind) not in KINDS:
        raise UnknownKindError(f"{kind or 'an object'} in {version or 'no version'}")
    found = _message(kind, _as_bytes(envelope.get(2, b"")))
    return {"apiVersion": version, "kind": kind, **found}


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
    while position < len(data) and shift < 70:
        byte = data[position]
        result |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return result, position
    raise ProtobufError("the body ends within a number")


def _message(name: str, data: bytes) -> JSON:
    fields = MESSAGES[name]
    result: JSON = {}
    for number, value in _fields(data):
        if number not in fields:
            continue
        field, type_ = fields[number]
        if type_.startswith("[]"):
            result.setdefault(field, []).append(_value(type_[2:], value, keep=True))
        elif type_.startswith("{}"):
            key, item = _entry(type_[2:], _as_bytes(value))
            result.setdefault(field, {})[key] = item
        else:
            found = _value(type_, value, keep=False)
            if found is not _LEFT_OUT:
                result[field] = found
    return result


def _entry(type_: str, data: bytes) -> tuple[str, Any]:
    parts = dict(_fields(data))
    return _text(parts.get(1, b"")), _value(type_, parts.get(2, b""), keep=True)


def _value(type_: str, value: bytes | int, *, keep: bool) -> Any:
    if type_ == "int":
        return _as_int(value)
    if type_ == "bool":
        return bool(_as_int(value))
    data = _as_bytes(value)
    if type_ in {"string", "string*"}:
        text = _text(data)
        return text if text or keep or type_ == "string*" else _LEFT_OUT
    if type_ == "bytes":
        return base64.b64encode(data).decode()
    if type_ in {"time", "microtime"}:
        return _time(data, micro=type_ == "microtime")
    return _message(type_, data)


def _time(data: bytes, *, micro: bool) -> Any:
    parts = dict(_fields(data))
    if not parts:
        return _LEFT_OUT
    seconds, nanos = _as_int(parts.get(1, 0)), _as_int(parts.get(2, 0))
    try:
        moment = datetime.fromtimestamp(seconds, UTC).replace(microsecond=nanos // 1000)
    except (ValueError, OverflowError, OSError):
        raise ProtobufError("a time is out of range") from None
    return format_micro_time(moment) if micro else format_time(moment)


def _as_int(value: bytes | int) -> int:
    if isinstance(value, bytes):
        raise ProtobufError("a number is expected")
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
