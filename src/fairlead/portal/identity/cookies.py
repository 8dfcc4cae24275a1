"""Cookies, with the strictest flags that the server's address allows."""

from __future__ import annotations

import re
from collections.abc import Iterator

from aiohttp import web

from fairlead.portal.options import ExternalURL


SESSION_COOKIE = "fairlead-session"
"""Name of the session token's cookie, without the security prefix."""
SIGN_IN_COOKIE = "fairlead-signin"
"""Name prefix of the cookies of pending sign-ins, without the security prefix."""
TERMINAL_COOKIE = "fairlead-terminal"
"""Name of the cookie of a command that waits for a choice on a page, without that prefix."""

_HASH = 16
"""Number of characters of a state's hash in its cookie's name."""


class Cookies:
    """Names, paths and flags of the cookies of one server address.

    Under https a browser lets no other host set a ``__Host-`` cookie; a server below a path can
    only have ``__Secure-``. Browsers share cookies between the ports of a host, so servers side
    by side need different names for their ``session`` cookie.
    """

    def __init__(self, external: ExternalURL, *, session: str = SESSION_COOKIE) -> None:
        self._secure = external.secure
        self._path = external.path or "/"
        # Browsers take a __Host- cookie only with Secure, Path=/ and no Domain (RFC 6265bis,
        # 4.1.3.2).
        prefix = ("__Secure-" if external.path else "__Host-") if external.secure else ""
        self.session = prefix + session
        self.terminal = prefix + TERMINAL_COOKIE
        self._sign_in = f"{prefix}{SIGN_IN_COOKIE}-"
        self._is_sign_in = re.compile(rf"{self._sign_in}[0-9a-f]{{{_HASH}}}").fullmatch

    def sign_in(self, state_hash: str) -> str:
        """Return the cookie name of a sign-in, by the hash of its state."""
        return self._sign_in + state_hash[:_HASH]

    def sign_ins(self, request: web.Request) -> Iterator[tuple[str, str]]:
        """Yield names and values of the browser's sign-in cookies."""
        for name, value in request.cookies.items():
            # A sibling host can set cookies with other names, which cannot be expired from here.
            if self._is_sign_in(name):
                yield name, value

    def token(self, request: web.Request) -> str | None:
        """Return the session token that the browser sent, None without the cookie.

        Raises:
            ValueError: the cookie was sent twice: a sibling host may have set one of them.
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
        """Set a cookie for a number of seconds."""
        response.set_cookie(
            name,
            value,
            max_age=int(seconds),
            path=self._path,
            secure=self._secure,
            # Scripts of pages cannot read it. Lax and not Strict: the callback is reached by a
            # redirect of the issuer, which is another site, and browsers leave out Strict cookies
            # there.
            httponly=True,
            samesite="Lax",
        )

    def expire(self, response: web.StreamResponse, name: str) -> None:
        """Delete a cookie from the browser."""
        self.set(response, name, "", seconds=0)
