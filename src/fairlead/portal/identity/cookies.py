"""Cookies, as strict as the address of the server allows."""

from __future__ import annotations

from collections.abc import Iterator

from aiohttp import web

from fairlead.portal.http.urls import ExternalURL


SESSION_COOKIE = "fairlead-session"
"""The name of the cookie with a session's token, without its prefix."""
SIGN_IN_COOKIE = "fairlead-signin"
"""The beginning of the names of cookies of sign-ins that have begun, without their prefix."""


class Cookies:
    """Names, paths and flags of cookies at one address.

    Under https browsers keep a ``__Host-`` cookie from other hosts' hands; below a path
    ``__Secure-`` is what they offer.
    """

    def __init__(self, external: ExternalURL) -> None:
        self._secure = external.secure
        self._path = external.path or "/"
        prefix = ("__Secure-" if external.path else "__Host-") if external.secure else ""
        self.session = prefix + SESSION_COOKIE
        self._sign_in = f"{prefix}{SIGN_IN_COOKIE}-"

    def sign_in(self, state_hash: str) -> str:
        """The name of the cookie of one sign-in, by the hash of its state."""
        return self._sign_in + state_hash[:16]

    def sign_ins(self, request: web.Request) -> Iterator[tuple[str, str]]:
        """Names and values of the sign-ins that the browser has begun."""
        for name, value in request.cookies.items():
            if name.startswith(self._sign_in):
                yield name, value

    def set(self, response: web.StreamResponse, name: str, value: str, *, seconds: float) -> None:
        """Have the browser keep a cookie for so long."""
        response.set_cookie(
            name,
            value,
            max_age=int(seconds),
            path=self._path,
            secure=self._secure,
            httponly=True,
            samesite="Lax",
        )

    def expire(self, response: web.StreamResponse, name: str) -> None:
        """Have the browser forget a cookie."""
        self.set(response, name, "", seconds=0)
