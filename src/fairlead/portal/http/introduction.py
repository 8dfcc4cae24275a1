"""Routes that anyone may ask: whether the server is alive, and how to be let in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.metadata import version
from urllib.parse import urlencode

import msgspec
from aiohttp import web

from fairlead.api.kubebind.wire import (
    AuthenticationMethod,
    BindingProvider,
    OAuth2CodeGrantMethod,
)
from fairlead.portal.http.parameters import parameters
from fairlead.portal.options import AUTHORIZE_PATH, ServeOptions


_OURS = "v1alpha2"
"""The apiVersion of the original's answer, which clients ignore."""
_LEAST = (0, 6, 0)
"""The oldest provider that kube-bind's CLI takes."""
_PASSED_ON = ("cluster_id", "session_id", "client_type", "consumer_id")
_RELEASE = re.compile(r"(\d+)\.(\d+)\.(\d+)")


class Introduction:
    """How the server introduces itself."""

    def __init__(self, options: ServeOptions) -> None:
        self._external = options.external_url
        self._pretty_name = options.pretty_name
        self._version = wire_version(version("fairlead"))

    def routes(self) -> list[web.RouteDef]:
        """Its routes."""
        return [
            web.get("/healthz", self.healthz),
            web.get("/api/healthz", self.api_healthz),
            web.get("/api/exports", self.exports),
            web.get("/exports", self.moved),
        ]

    async def healthz(self, request: web.Request) -> web.Response:
        """Say that the server is alive."""
        return web.Response(text="ok")

    async def api_healthz(self, request: web.Request) -> web.Response:
        """Say that the server is alive, without a word."""
        return web.Response()

    async def exports(self, request: web.Request) -> web.Response:
        """Answer a BindingProvider."""
        body = BindingProvider(
            api_version=_OURS,
            version=self._version,
            provider_pretty_name=self._pretty_name,
            authentication_methods=[
                AuthenticationMethod(
                    method="OAuth2CodeGrant",
                    oauth2_code_grant=OAuth2CodeGrantMethod(
                        authenticated_url=self._authorize_url(parameters(request))
                    ),
                )
            ],
        )
        return web.Response(body=msgspec.json.encode(body), content_type="application/json")

    async def moved(self, request: web.Request) -> web.Response:
        """Send older clients on, with the query as it is."""
        query = request.raw_path.partition("?")[2]
        place = self._external.absolute("/api/exports") + (f"?{query}" if query else "")
        return web.Response(status=302, headers={"Location": place})

    def _authorize_url(self, said: Mapping[str, str]) -> str:
        passed_on = {name: said[name] for name in _PASSED_ON if said.get(name)}
        query = f"?{urlencode(passed_on)}" if passed_on else ""
        return self._external.absolute(AUTHORIZE_PATH) + query


def wire_version(own: str) -> str:
    """Our version as SemVer with a ``v``, and none that kube-bind's CLI takes for too old."""
    found = _RELEASE.match(own)
    release = tuple(map(int, found.groups())) if found else (0, 0, 0)
    return "v" + ".".join(map(str, max(release, _LEAST)))
