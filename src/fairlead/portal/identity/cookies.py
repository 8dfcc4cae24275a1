"""Cookies, as strict as the address of the server allows."""

from __future__ import annotations

import re
from collections.abc import Iterator

from aiohttp import web

from fairlead.portal.http.urls import ExternalURL


SESSION_COOKIE = "fairlead-session"
"""The name of the cookie with a session's token, without its prefix."""
SIGN_IN_COOKIE = "fairlead-signin"
"""The beginning of the names of cookies of sign-ins that have begun, without their prefix."""
TERMINAL_COOKIE = "fairlead-terminal"
"""The name of the cookie of a terminal that waits, without its prefix."""

_HASH = 16
"""Characters of a state's hash that name the cookie of its sign-in."""


class Cookies:
    """Names, paths and flags of cookies at one address.

    Under https browsers keep a ``__Host-`` cookie from other hosts' hands; below a path
    ``__Secure-`` is what they offer. They tell no ports of a host apart: what is served beside
    others names its ``session`` cookie otherwise than they do.
    """

    def __init__(self, external: ExternalURL, *, session: str = SESSION_COOKIE) -> None:
        self._secure = external.secure
        self._path = external.path or "/"
        prefix = ("__Secure-" if external.path else "__Host-") if external.secure else ""
        self.session = prefix + session
        self.terminal = prefix + TERMINAL_COOKIE
        self._sign_in = f"{prefix}{SIGN_IN_COOKIE}-"
        self._is_sign_in = re.compile(rf"{self._sign_in}[0-9a-f]{{{_HASH}}}").fullmatch

    def sign_in(self, state_hash: str) -> str:
        """The name of the cookie of one sign-in, by the hash of its state."""
        return self._sign_in + state_hash[:_HASH]

    def sign_ins(self, request: web.Request) -> Iterator[tuple[str, str]]:
        """Names and values of the sign-ins that the browser has begun."""
        for name, value in request.cookies.items():
            # A host beside ours can set others, which could not be set anew.
            if self._is_sign_in(name):
                yield name, value

    def token(self, request: web.Request) -> str | None:
        """The session's token that the browser sent.

        Raises:
            ValueError: there are several: a host beside ours may have set one of them.
        """
        token = request.cookies.get(self.session)
        if token is None:
            return None
        headers = request.headers.getall("Cookie", [])
        pairs = (one.partition("=") for one in ";".join(headers).split(";"))
        if sum(name.strip() == self.session for name, _, _ in pairs) > 1:
            raise ValueError(f"there is more than one cookie {self.session}")
        return token

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
