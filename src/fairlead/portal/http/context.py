"""What is known of a request before a handler sees it."""

from __future__ import annotations

from typing import Any, Protocol

from aiohttp import web


REQUEST_ID: web.RequestKey[str] = web.RequestKey("REQUEST_ID", str)
"""A random name of the request; the sender sees it too, and logs are searched for it."""
ADDRESS: web.RequestKey[str] = web.RequestKey("ADDRESS", str)
"""The client's address, behind the proxies that are trusted."""
PATH: web.RequestKey[str] = web.RequestKey("PATH", str)
"""The path without that of ``--external-url``."""
PARAMETERS: web.RequestKey[dict[str, str]] = web.RequestKey("PARAMETERS", dict)
"""The query's parameters, each of which is there once."""
SESSION: web.RequestKey[Any] = web.RequestKey("SESSION", object)
"""The sender's session; the guard of protected routes has set it."""
BIND_RESULT: web.RequestKey[str] = web.RequestKey("BIND_RESULT", str)
"""What became of the bind that a request was for: done, refused or failed."""


class Endless(Protocol):
    """Lets a request go on for as long as its client stays."""

    def __call__(self) -> object:
        """Count its time no more."""
        ...


ENDLESS: web.RequestKey[Endless] = web.RequestKey("ENDLESS", Endless)
"""For streams, whose number is bounded elsewhere."""
