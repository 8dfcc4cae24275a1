"""Request bodies: bounded in size and time, and of the declared content type."""

from __future__ import annotations

import asyncio
from typing import TypeVar

import msgspec
from aiohttp import web

from fairlead.api.kubebind.wire import ErrorCode
from fairlead.portal.http.errors import Refusal, bad_request
from fairlead.portal.options import Limits


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
