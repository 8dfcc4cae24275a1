"""What is kept of an exchange: shapes and fields, and placeholders for what differs each time."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec


_ASKED = ("Accept", "Authorization", "Content-Type", "User-Agent")
_ANSWERED = (
    *("Allow", "Cache-Control", "Content-Type", "Expires", "Location", "Retry-After"),
    *("Set-Cookie", "WWW-Authenticate", "X-Accel-Expires"),
)
"""Headers that matter."""
_FIELDS = {
    "accessToken": "<token>",
    "binding_response": "<response>",
    "access_token": "<token>",
    "client_id": "<client>",
    "code": "<code>",
    "code_challenge": "<challenge>",
    "code_verifier": "<verifier>",
    "consumer_id": "<identity>",
    "creationTimestamp": "<time>",
    "details": "<details>",
    "id": "<issuer>/<subject>",
    "identity": "<identity>",
    "kubeconfig": "<kubeconfig>",
    "message": "<message>",
    "nonce": "<nonce>",
    "providerNamespace": "<namespace>",
    "resourceVersion": "<version>",
    "session_id": "<session>",
    "sid": "<session>",
    "state": "<state>",
    "uid": "<uid>",
}
"""Fields and parameters whose text is another each time, or no part of the contract."""
_ERROR_CODE = re.compile(r"[A-Z_]+")
_CALLBACK = re.compile(r"^http://127\.0\.0\.1:[0-9]+/callback(/.*)?$")
_SECRET = re.compile("^/callback/.+$")
_RANDOM = re.compile("[0-9a-f]{16}")
_BROWSERS = ("aiohttp", "Mozilla")
"""What browsers call themselves, the scripted one and a real one."""
_LONGEST = 20
"""Characters of a plain text that is an answer by itself, such as ``pong``."""


class Asked(msgspec.Struct, frozen=True):
    """A request."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any = None


class Answered(msgspec.Struct, frozen=True):
    """The answer; ``location`` has the parameters of the address that it leads to."""

    status: int
    headers: dict[str, str]
    location: dict[str, str] | None = None
    body: Any = None


class Exchange(msgspec.Struct, frozen=True):
    """A line of a recording; ``by`` is ``cli`` or ``browser``."""

    by: str
    request: Asked
    answer: Answered


def recorded(
    server: str,
    asked: tuple[str, str, Mapping[str, str], bytes],
    answered: tuple[int, Mapping[str, str], bytes],
) -> Exchange:
    """What is kept.

    Args:
        server: the address that the server is reached by.
        asked: method, path with its query, headers, body.
        answered: status, headers, body.
    """
    method, target, headers, body = asked
    parts = urlsplit(target)
    request = Asked(
        method,
        _SECRET.sub("/callback/<secret>", parts.path),
        _without(server, _query(parts.query)),
        _headers(headers, _ASKED, server),
        _body(body),
    )
    status, told, content = answered
    location = told.get("Location")
    return Exchange(
        "browser" if _is_browser(headers.get("User-Agent", "")) else "cli",
        request,
        Answered(
            status,
            _headers(told, _ANSWERED, server),
            None if location is None else _without(server, _query(urlsplit(location).query)),
            _without(server, _body(content)),
        ),
    )


def _headers(found: Mapping[str, str], wanted: tuple[str, ...], server: str) -> dict[str, str]:
    kept = {name: found[name] for name in wanted if name in found}
    if _is_browser(kept.get("User-Agent", "")):
        kept["User-Agent"] = "<browser>"
    if "Authorization" in kept:
        kept["Authorization"] = kept["Authorization"].partition(" ")[0] + " <token>"
    if "Set-Cookie" in kept:
        name = _RANDOM.sub("<random>", kept["Set-Cookie"].partition("=")[0])
        kept["Set-Cookie"] = f"{name}=<cookie>"
    if "Location" in kept:
        kept["Location"] = str(_without(server, _address(kept["Location"].partition("?")[0])))
    return kept


def _is_browser(agent: str) -> bool:
    return any(name in agent for name in _BROWSERS)


def _query(text: str) -> dict[str, str]:
    pairs = parse_qsl(text, keep_blank_values=True)
    return {name: _field(name, _address(value)) if value else "" for name, value in pairs}


def _body(content: bytes) -> Any:
    if not content:
        return None
    try:
        return _fields(json.loads(content))
    except ValueError:
        text = content.decode(errors="replace").strip()
        return text if len(text) <= _LONGEST else "<text>"


def _fields(value: Any) -> Any:
    match value:
        case dict():
            return {
                name: [] if name == "managedFields" else _field(name, _fields(one))
                for name, one in value.items()
            }
        case list():
            return [_fields(one) for one in value]
    return value


def _field(name: str, value: Any) -> Any:
    if not isinstance(value, str) or (name == "code" and _ERROR_CODE.fullmatch(value)):
        return value
    return _FIELDS.get(name, value)


def _address(text: str) -> str:
    """An address of a command line's, without its port and secret."""
    found = _CALLBACK.match(text)
    if found is None:
        return text
    return "http://127.0.0.1:<port>/callback" + ("/<secret>" if found[1] else "")


def _without(server: str, value: Any) -> Any:
    text = json.dumps(value).replace(server, "<server>")
    return json.loads(text)
