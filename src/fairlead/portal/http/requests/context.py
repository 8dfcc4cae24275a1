"""Keys of the values that are set on a request before its handler runs."""

from __future__ import annotations

from typing import Any, Protocol

from aiohttp import web


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


class Endless(Protocol):
    """A function that ends the time limit of a request."""

    def __call__(self) -> object:
        """Stop the request's deadline."""
        ...


ENDLESS: web.RequestKey[Endless] = web.RequestKey("ENDLESS", Endless)
"""Stops the request's deadline, for streams; the hub of pages limits their number."""
