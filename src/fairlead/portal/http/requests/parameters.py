"""Query parameters; a query that two parsers could read differently is refused."""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes

from aiohttp import web

from fairlead.portal.http.errors import bad_request
from fairlead.portal.http.requests.context import PARAMETERS
from fairlead.portal.options import Limits


_BROKEN = re.compile(r"%(?![0-9A-Fa-f]{2})")
_LONGEST_NAME = 64
"""Longest name of a parameter, in characters."""


def parameters(request: web.Request) -> dict[str, str]:
    """Return the query's parameters, none of them repeated."""
    found: dict[str, str] = request.get(PARAMETERS, {})
    return found


def parse_query(query: str, limits: Limits) -> dict[str, str]:
    """Parse a raw query.

    Raises:
        Refusal: a parameter is repeated, too long, not UTF-8, or has control characters.
    """
    found: dict[str, str] = {}
    # No browser sends a fragment. Parsers disagree on whether the query ends there.
    if "#" in query:
        raise bad_request("the query has a fragment (#): leave it out")
    for part in query.split("&"):
        if not part:
            continue
        raw_name, _, raw_value = part.partition("=")
        name = _decode(raw_name)
        if name is None or len(name) > _LONGEST_NAME:
            raise bad_request("a parameter's name is too long, or is not percent-encoded UTF-8")
        if name in found:
            raise bad_request(f"parameter {name!r} is given twice: give it once")
        value = _decode(raw_value)
        if value is None:
            raise bad_request(f"parameter {name!r} is not printable text in percent-encoded UTF-8")
        if len(value) > limits.parameter:
            raise bad_request(
                f"parameter {name!r} is too long: give at most {limits.parameter} characters"
            )
        found[name] = value
        if len(found) > limits.parameters:
            raise bad_request(f"the query has more than {limits.parameters} parameters")
    return found


def _decode(raw: str) -> str | None:
    """Decode a percent-encoded text; return None if it is malformed or not printable."""
    if not raw.isascii() or _BROKEN.search(raw):
        return None
    try:
        # A plus is a blank in forms (application/x-www-form-urlencoded), and in no other part of a
        # URL.
        text = unquote_to_bytes(raw.replace("+", " ")).decode()
    except UnicodeDecodeError:
        return None
    return text if all(map(_harmless, text)) else None


def _harmless(character: str) -> bool:
    return character >= " " and not "\x7f" <= character <= "\x9f"
