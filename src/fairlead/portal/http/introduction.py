"""Routes without sign-in: liveness probes, and the BindingProvider that says how to sign in."""

from __future__ import annotations

import re
from importlib.metadata import version
from urllib.parse import urlencode

import msgspec
from aiohttp import web

from fairlead.api.kubebind.wire import (
    AuthenticationMethod,
    BindingProvider,
    OAuth2CodeGrantMethod,
)
from fairlead.portal.http.requests import parameters
from fairlead.portal.options import AUTHORIZE_PATH, ServeOptions


_OURS = "v1alpha2"
"""The apiVersion of kube-bind's answer, which clients ignore."""
_LEAST = (0, 6, 0)
"""The oldest provider version that kube-bind's CLI accepts."""
_PASSED_ON = ("cluster_id", "session_id", "client_type", "consumer_id")
_RELEASE = re.compile(r"(\d+)\.(\d+)\.(\d+)")


class Introduction:
    """Answers the liveness probes and the request for a BindingProvider."""

    def __init__(self, options: ServeOptions) -> None:
        self._external = options.external_url
        self._pretty_name = options.pretty_name
        self._version = wire_version(version("fairlead"))

    def routes(self) -> list[web.RouteDef]:
        """Return the routes."""
        return [
            web.get("/healthz", self.healthz),
            web.get("/api/healthz", self.api_healthz),
            web.get("/api/exports", self.exports),
            web.get("/exports", self.moved),
        ]

    async def healthz(self, request: web.Request) -> web.Response:
        """Answer that the server is alive."""
        return web.Response(text="ok")

    async def api_healthz(self, request: web.Request) -> web.Response:
        """Answer that the server is alive, with an empty body."""
        return web.Response()

    async def exports(self, request: web.Request) -> web.Response:
        """Answer with a BindingProvider."""
        said = parameters(request)
        passed_on = {name: said[name] for name in _PASSED_ON if said.get(name)}
        query = f"?{urlencode(passed_on)}" if passed_on else ""
        url = self._external.absolute(AUTHORIZE_PATH) + query
        body = BindingProvider(
            api_version=_OURS,
            version=self._version,
            provider_pretty_name=self._pretty_name,
            authentication_methods=[
                AuthenticationMethod(
                    method="OAuth2CodeGrant",
                    oauth2_code_grant=OAuth2CodeGrantMethod(authenticated_url=url),
                )
            ],
        )
        return web.Response(body=msgspec.json.encode(body), content_type="application/json")

    async def moved(self, request: web.Request) -> web.Response:
        """Redirect older clients to /api/exports with their query."""
        query = request.raw_path.partition("?")[2]
        place = self._external.absolute("/api/exports") + (f"?{query}" if query else "")
        return web.Response(status=302, headers={"Location": place})


def wire_version(own: str) -> str:
    """Return Fairlead's version as SemVer with a ``v``, raised to the least the CLI accepts."""
    match = _RELEASE.match(own)
    release = tuple(map(int, match.groups())) if match else (0, 0, 0)
    return "v" + ".".join(map(str, max(release, _LEAST)))
