"""Headers of every answer: what a browser may do with it, and what may be kept of it."""

from __future__ import annotations

from collections.abc import Mapping

from aiohttp import web
from multidict import istr

from fairlead.portal.options import ExternalURL


REQUEST_ID_HEADER = istr("X-Request-Id")
CONTENT_POLICY = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
"""For answers that are no pages; a page brings a policy of its own, with the same ancestors."""
_YEAR = 365 * 86400

NOT_KEPT: Mapping[str, str] = {
    "Cache-Control": "no-cache, no-store, must-revalidate, max-age=0",
    "Expires": "Thu, 01 Jan 1970 00:00:00 GMT",
    "X-Accel-Expires": "0",
}
"""For answers that no cache may keep, in kube-bind's words."""
PRIVATE: Mapping[str, str] = {**NOT_KEPT, "Referrer-Policy": "no-referrer"}
"""For answers that no one may keep, and of whose address no one may be told."""
_KEPT_NOWHERE = ("/api/", "/oidc/", "/exports")


class Headers:
    """The headers of a server's answers; those that an answer has already stay."""

    def __init__(self, external: ExternalURL) -> None:
        always = {
            "Content-Security-Policy": CONTENT_POLICY,
            "Referrer-Policy": "no-referrer",
            # Which library answers, and which of its versions, helps attackers alone.
            "Server": "Fairlead",
            "X-Content-Type-Options": "nosniff",
        }
        if external.secure:
            always["Strict-Transport-Security"] = f"max-age={_YEAR}"
        self._always = _folded(always)
        self._private = _folded({**always, **NOT_KEPT})

    def complete(self, response: web.StreamResponse, *, path: str, request_id: str) -> None:
        """Add them to an answer that has not been sent."""
        if response.prepared:
            return
        headers = response.headers
        setdefault = headers.setdefault
        for name, value in self._private if path.startswith(_KEPT_NOWHERE) else self._always:
            setdefault(name, value)
        headers[REQUEST_ID_HEADER] = request_id


def _folded(headers: Mapping[str, str]) -> tuple[tuple[istr, str], ...]:
    """Headers whose names are folded once: each answer has all of them."""
    return tuple((istr(name), value) for name, value in headers.items())
