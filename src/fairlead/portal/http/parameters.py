"""The parameters of a query: what two programs could read in two ways is refused."""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes

from aiohttp import web

from fairlead.portal.http.context import PARAMETERS
from fairlead.portal.http.errors import bad_request
from fairlead.portal.options import Limits


_BROKEN = re.compile(r"%(?![0-9A-Fa-f]{2})")
_LONGEST_NAME = 64
"""Characters of a parameter's name."""


def parameters(request: web.Request) -> dict[str, str]:
    """The parameters of a request, each of which is there once."""
    found: dict[str, str] = request.get(PARAMETERS, {})
    return found


def parse_query(query: str, limits: Limits) -> dict[str, str]:
    """The parameters of a raw query.

    Raises:
        Refusal: one is there twice, is too long, is no UTF-8, or has characters of control.
    """
    found: dict[str, str] = {}
    if "#" in query:
        raise bad_request("a fragment belongs to browsers and may not be sent")
    for part in query.split("&"):
        if not part:
            continue
        raw_name, _, raw_value = part.partition("=")
        name = _decode(raw_name)
        if name is None or len(name) > _LONGEST_NAME:
            raise bad_request("a parameter's name is too long, or is no percent-encoded UTF-8")
        if name in found:
            raise bad_request(f"parameter {name!r} is there twice: give it once")
        value = _decode(raw_value)
        if value is None:
            raise bad_request(f"parameter {name!r} is no printable text in percent-encoded UTF-8")
        if len(value) > limits.parameter:
            raise bad_request(
                f"parameter {name!r} is too long: {limits.parameter} characters are the most"
            )
        found[name] = value
        if len(found) > limits.parameters:
            raise bad_request(f"there are more than {limits.parameters} parameters")
    return found


def _decode(raw: str) -> str | None:
    if not raw.isascii() or _BROKEN.search(raw):
        return None
    try:
        text = unquote_to_bytes(raw.replace("+", " ")).decode()
    except UnicodeDecodeError:
        return None
    return text if all(map(_harmless, text)) else None


def _harmless(character: str) -> bool:
    return character >= " " and not "\x7f" <= character <= "\x9f"
