"""Decoding of request bodies: JSON, YAML, or for built-in kinds protobuf."""

from __future__ import annotations

import re
from math import isinf
from typing import Any

import msgspec
import yaml

from fairlead.api import yamltext
from fairlead.api.meta import JSON
from fairlead_sandbox import errors
from fairlead_sandbox.kinds import load, misfit, protobuf
from fairlead_sandbox.requests.calls import Call


_PROTOBUF = "application/vnd.kubernetes.protobuf"
_GO_KINDS = {dict: "object", list: "array", str: "string", bool: "bool"} | dict.fromkeys(
    (int, float), "number"
)
"""Names of JSON types in the errors of Go's JSON decoder."""
_MAX_DEPTH = 500
"""Maximum nesting of a YAML body, in levels."""
_YAML_TYPES = frozenset(
    {
        "application/yaml",
        "text/yaml",
        "application/x-yaml",
        "application/apply-patch+yaml",
    }
)
_ACCEPTED = ("application/json", "application/yaml", _PROTOBUF)


def _number(text: str) -> float:
    """Return a number of a JSON text; a whole one becomes an integer, as in kube-apiserver."""
    value = float(text)
    if isinf(value):
        raise ValueError(f"number {text} is out of range")
    # From 1e21 on Go's encoding/json writes a float with an exponent, so it stays a float.
    return int(value) if value.is_integer() and abs(value) < 1e21 else value


_decode = msgspec.json.Decoder(float_hook=_number).decode
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|u[dD][89a-fA-F][0-9a-fA-F]{2}|.)",
    re.DOTALL,
)
"""An escape sequence of JSON; two that form a pair of surrogates count as one."""


def decode_json(body: bytes) -> Any:
    """Return the value of a JSON text with numbers as kube-apiserver stores them.

    Bytes that are no UTF-8 and lone surrogates become U+FFFD, as in Go.

    Raises:
        msgspec.DecodeError: the text is no JSON.
    """
    try:
        return _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        # Invalid characters are replaced only after a failure, because almost no body has any.
        mended = _ESCAPE.sub(_without_lone_surrogate, body.decode(errors="replace").encode())
        if mended == body:
            raise
        return _decode(mended)


def _without_lone_surrogate(escape: re.Match[bytes]) -> bytes:
    return rb"\ufffd" if len(escape[0]) == 6 else escape[0]


def go_kind(value: Any) -> str:
    """Return the name of a value's type in the errors of Go's JSON decoder."""
    return _GO_KINDS.get(type(value), "null")


def decode_body(content_type: str, body: bytes, kind: str) -> JSON:
    """Return the object in a request's body: JSON, YAML, or for some kinds protobuf.

    Raises:
        StatusError: 415 for another format, 400 if the body cannot be read or is no object.
    """
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type in {"", "application/json"}:
        value = _decode_json(body, kind)
    elif media_type in _YAML_TYPES:
        value = _decode_yaml(body, kind)
    elif media_type == _PROTOBUF:
        value = _decode_protobuf(body, kind)
    else:
        raise errors.unsupported_media_type(_ACCEPTED)
    if not isinstance(value, dict):
        raise _unrecognized(kind, "the body is not a JSON object")
    return value


def is_yaml(content_type: str, body: bytes) -> bool:
    """Whether the body needs a YAML parser; JSON with a YAML content type does not."""
    media_type = content_type.partition(";")[0].strip().lower()
    return media_type in _YAML_TYPES and not _is_json(body)


def _is_json(body: bytes) -> bool:
    try:
        msgspec.json.decode(body, type=msgspec.Raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def _decode_json(body: bytes, kind: str) -> Any:
    try:
        return decode_json(body)
    except msgspec.DecodeError as error:
        raise _unrecognized(kind, f"json parse error: {error}") from None


def _decode_yaml(body: bytes, kind: str) -> Any:
    try:
        return decode_yaml(body)
    except ValueError as error:
        raise _unrecognized(kind, f"yaml parse error: {error}") from None


def decode_yaml(body: bytes) -> Any:
    """Return the JSON value of a YAML or JSON text.

    Raises:
        ValueError: the text is neither, is nested too deeply or has aliases.
    """
    if _is_json(body):
        # Server-side apply has a YAML content type, but most clients send JSON with it, which the
        # JSON decoder reads many times faster than libyaml.
        return decode_json(body)
    try:
        # Aliases are refused: a few nested ones expand to gigabytes.
        value = yamltext.load(body, aliases=False, max_depth=_MAX_DEPTH)
        # By way of JSON: keys become strings, and whole floats integers as in a JSON body.
        return decode_json(msgspec.json.encode(value))
    except yamltext.UnwelcomeYAMLError as error:
        raise ValueError(f"it {error}") from None
    except (yaml.YAMLError, TypeError, UnicodeError) as error:
        raise ValueError(str(error)) from None


def _decode_protobuf(body: bytes, kind: str) -> JSON:
    try:
        return protobuf.decode(body)
    except protobuf.UnknownKindError:
        # This kind has no protobuf decoder here; JSON and YAML are left.
        raise errors.unsupported_media_type(_ACCEPTED[:2]) from None
    except protobuf.ProtobufError as error:
        raise _unrecognized(kind, f"protobuf parse error: {error}") from None


def _unrecognized(kind: str, reason: str) -> errors.StatusError:
    text = f"the object provided is unrecognized (must be of type {kind})"
    return errors.bad_request(f"{text}: couldn't get version/kind; {reason}")


def read_spec(call: Call, kind: str) -> JSON:
    """Return the spec of a review's or TokenRequest's body, {} if it has none.

    Raises:
        StatusError: 400 if the body cannot be read or a member has a wrong type.
    """
    body = decode_body(call.content_type, call.body, kind)
    wrong = misfit(load().messages[kind], body)
    if wrong:
        text = f'{kind} in version "v1" cannot be handled as a {kind}: {wrong}'
        raise errors.bad_request(text)
    spec: Any = body.get("spec")
    return spec if isinstance(spec, dict) else {}
