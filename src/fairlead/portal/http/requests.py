"""Reading of requests: the client's address, the parameters and the body, each with its limit."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any, TypeAlias, TypeVar
from urllib.parse import unquote_to_bytes

import msgspec
from aiohttp import web

from fairlead.api.addresses import Network
from fairlead.api.kubebind.wire import ErrorCode
from fairlead.portal.http.errors import Refusal, bad_request
from fairlead.portal.options import Limits


REQUEST_ID: web.RequestKey[str] = web.RequestKey("REQUEST_ID", str)
"""A unique id of the request, for the answer and for log lines about it."""
ADDRESS: web.RequestKey[str] = web.RequestKey("ADDRESS", str)
"""The client's address, as read behind trusted proxies."""
PATH: web.RequestKey[str] = web.RequestKey("PATH", str)
"""The path without the prefix of ``--external-url``."""
PARAMETERS: web.RequestKey[dict[str, str]] = web.RequestKey("PARAMETERS", dict)
"""The query's parameters, none of them repeated."""
SESSION: web.RequestKey[Any] = web.RequestKey("SESSION", object)
"""The sender's session; the guard of protected routes sets it."""
BIND_RESULT: web.RequestKey[str] = web.RequestKey("BIND_RESULT", str)
"""The outcome of the bind that the request asked for: done, refused or failed."""


ENDLESS: web.RequestKey[Any] = web.RequestKey("ENDLESS", object)
"""Function that stops the request's deadline, for streams; the hub limits their number."""


_Address: TypeAlias = IPv4Address | IPv6Address


def client_address(peer: str, forwarded: Sequence[str], trusted: Sequence[Network]) -> str:
    """Return the client's address; "" if the connection has none.

    Each proxy appends the address of its own client to X-Forwarded-For, so the list is read from
    its end for as long as the addresses are trusted proxies. Earlier entries come from the client
    and may be forged.

    Args:
        peer: the other end of the connection.
        forwarded: the X-Forwarded-For header lines, in order.
        trusted: networks of our proxies.
    """
    if not forwarded or not trusted:
        return _text(peer)
    # Only a trusted proxy may speak for others: any client can send the header.
    address = _parse(peer)
    if address is None or not _within(address, trusted):
        return _text(peer)
    for text in reversed(",".join(forwarded).split(",")):
        said = _parse(text.strip())
        if said is None:
            break
        address = said
        if not _within(address, trusted):
            break
    return str(address)


def neighbourhood(address: str) -> str:
    """Return the key that limits count an address by: an IPv6 address as its /64 network."""
    if ":" not in address:
        return address
    return str(ip_network((address.partition("%")[0], 64), strict=False))


def trusts(networks: Sequence[Network], address: str) -> bool:
    """Whether ``address`` is in one of the networks."""
    parsed = _parse(address)
    return parsed is not None and _within(parsed, networks)


@lru_cache(4096)
def _text(peer: str) -> str:
    parsed = _parse(peer)
    return "" if parsed is None else str(parsed)


def _within(address: _Address, networks: Sequence[Network]) -> bool:
    return any(address in network for network in networks)


@lru_cache(4096)
def _parse(text: str) -> _Address | None:
    """Parse an address, to which some proxies add a port and brackets."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        # A link-local address may have a zone, which names an interface of this machine only (RFC
        # 4007).
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    # A socket for both IPv4 and IPv6 names IPv4 clients ::ffff:a.b.c.d; networks of flags and
    # limits know them by the plain form.
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


_BROKEN = re.compile(r"%(?![0-9A-Fa-f]{2})")


def parameters(request: web.Request) -> dict[str, str]:
    """Return the query's parameters, none of them repeated."""
    parameters: dict[str, str] = request.get(PARAMETERS, {})
    return parameters


def parse_query(query: str, limits: Limits) -> dict[str, str]:
    """Parse a raw query.

    Raises:
        Refusal: a parameter is repeated, too long, not UTF-8, or has control characters.
    """
    parameters: dict[str, str] = {}
    # No browser sends a fragment. Parsers disagree on whether the query ends there.
    if "#" in query:
        raise bad_request("the query has a fragment (#): leave it out")
    for part in query.split("&"):
        if not part:
            continue
        raw_name, _, raw_value = part.partition("=")
        name = _decode(raw_name)
        if name is None:
            raise bad_request("a parameter's name is not printable text in percent-encoded UTF-8")
        if name in parameters:
            raise bad_request(f"parameter {name!r} is given twice: give it once")
        value = _decode(raw_value)
        if value is None:
            raise bad_request(f"parameter {name!r} is not printable text in percent-encoded UTF-8")
        if len(value) > limits.parameter:
            raise bad_request(
                f"parameter {name!r} is too long: give at most {limits.parameter} characters"
            )
        parameters[name] = value
        if len(parameters) > limits.parameters:
            raise bad_request(f"the query has more than {limits.parameters} parameters")
    return parameters


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


T = TypeVar("T")

LIMITS: web.AppKey[Limits] = web.AppKey("LIMITS", Limits)
"""The application's limits; :func:`read_body` takes the time for a body from them."""
JSON_TYPE = "application/json"
FORM_TYPE = "application/x-www-form-urlencoded"


async def read_body(request: web.Request, *, content_type: str = JSON_TYPE) -> bytes:
    """Return the whole body.

    A form of another site cannot send JSON, so the demand for it stops cross-site requests.

    Raises:
        Refusal: the body is of another type, is too large, or did not arrive in time.
    """
    limits = request.config_dict.get(LIMITS, Limits())
    # Forms of other sites can send text/plain, form data and multipart without a preflight request
    # (Fetch standard, CORS-safelisted content types).
    if request.content_type != content_type:
        raise Refusal(
            415, ErrorCode.BAD_REQUEST, f"the body has to be sent with Content-Type {content_type}"
        )
    # Some other charsets decode to text that an answer could not encode again.
    if (request.charset or "utf-8").lower() not in {"utf-8", "utf8"}:
        raise Refusal(415, ErrorCode.BAD_REQUEST, "the body has to be in UTF-8")
    if request.headers.get("Content-Encoding", "identity") != "identity":
        raise Refusal(415, ErrorCode.BAD_REQUEST, "the body may have no Content-Encoding")
    try:
        async with asyncio.timeout(limits.body_seconds):
            return await request.read()
    except TimeoutError:
        raise Refusal(
            408,
            ErrorCode.BAD_REQUEST,
            f"the body did not arrive within {limits.body_seconds:g} s",
            headers={"Connection": "close"},
        ) from None


async def read_json(request: web.Request, type_: type[T]) -> T:
    """Decode a JSON body as the type; unknown members are ignored.

    Raises:
        Refusal: the body is not JSON of the type, is too large, or did not arrive in time.
    """
    content = await read_body(request)
    try:
        return msgspec.json.decode(content, type=type_)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        # The decoder's message names the field and its type, and never repeats a value.
        raise bad_request(
            "the body is not the JSON that is expected", details=str(error)
        ) from None
    except RecursionError:
        raise bad_request("the body's JSON is nested too deeply") from None
