"""The interface of a front door's parts with HTTP routes."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from aiohttp import web


@runtime_checkable
class Routed(Protocol):
    """A part with HTTP routes."""

    def routes(self) -> list[web.RouteDef]:
        """Return the routes, relative to the root."""
        ...
