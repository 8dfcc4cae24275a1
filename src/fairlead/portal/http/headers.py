"""Headers of every answer: security policy and caching."""

from __future__ import annotations

from collections.abc import Mapping

from aiohttp import web
from multidict import istr

from fairlead.portal.options import ExternalURL


REQUEST_ID_HEADER = istr("X-Request-Id")
CONTENT_POLICY = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
"""Policy of answers other than pages; a page sets its own, with the same frame-ancestors."""

NOT_KEPT: Mapping[str, str] = {
    "Cache-Control": "no-cache, no-store, must-revalidate, max-age=0",
    "Expires": "Thu, 01 Jan 1970 00:00:00 GMT",
    "X-Accel-Expires": "0",
}
"""Headers of answers that no cache may store, as kube-bind sends them."""
PRIVATE: Mapping[str, str] = {**NOT_KEPT, "Referrer-Policy": "no-referrer"}
"""Headers of answers that may not be stored, and whose address may not be a Referer."""
_KEPT_NOWHERE = ("/api/", "/oidc/", "/exports")
"""Path prefixes whose answers get :data:`NOT_KEPT`."""


class Headers:
    """The headers that a server adds to each answer; headers already set are kept."""

    def __init__(self, external: ExternalURL) -> None:
        always = {
            "Content-Security-Policy": CONTENT_POLICY,
            "Referrer-Policy": "no-referrer",
            # aiohttp's default names its version, which helps only attackers.
            "Server": "Fairlead",
            # Otherwise a browser may guess that an answer with names from users is a page or a
            # script.
            "X-Content-Type-Options": "nosniff",
        }
        # Browsers ignore the header over http (RFC 6797, 7.2). No includeSubDomains: other hosts
        # below this name are not of this server.
        if external.secure:
            always["Strict-Transport-Security"] = f"max-age={365 * 86400}"
        self._always = _folded(always)
        self._private = _folded({**always, **NOT_KEPT})

    def complete(self, response: web.StreamResponse, *, path: str, request_id: str) -> None:
        """Add the headers to an answer, unless it has been sent."""
        if response.prepared:
            return
        headers = response.headers
        setdefault = headers.setdefault
        # By the path and not by the route, so that errors of these paths have the headers, too.
        for name, value in self._private if path.startswith(_KEPT_NOWHERE) else self._always:
            setdefault(name, value)
        headers[REQUEST_ID_HEADER] = request_id


def _folded(headers: Mapping[str, str]) -> tuple[tuple[istr, str], ...]:
    """Fold the names' case once, since each answer sets all of them."""
    return tuple((istr(name), value) for name, value in headers.items())
