"""Authentication of requests by a session token, in a header or in a cookie."""

from __future__ import annotations

import re
from collections.abc import Iterator

from aiohttp import hdrs, web

from fairlead.api.kubebind.wire import ErrorCode
from fairlead.portal.http.audit import audit
from fairlead.portal.http.bounds import count
from fairlead.portal.http.errors import Refusal, forbidden
from fairlead.portal.http.requests import JSON_TYPE, SESSION
from fairlead.portal.identity.sessions import BrowserSession, BrowserSessions
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


SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing (RFC 9110, 9.2.1), and need no protection against CSRF."""


class SessionGuard:
    """Finds the session of a request, and refuses requests without one."""

    def __init__(
        self, sessions: BrowserSessions, external: ExternalURL, *, cookies: Cookies | None = None
    ) -> None:
        self.external = external
        self.cookies = cookies or Cookies(external)
        self._sessions = sessions

    async def session(
        self, request: web.Request, *, content_type: str = JSON_TYPE
    ) -> BrowserSession:
        """Return the sender's session, and set it on the request.

        The checks are ordered: session, cluster, origin, content type, rate of the person.

        Raises:
            Refusal: there is no session, the request may come from another site, its body is of
            another type, it names another cluster, or the sender's rate limit is reached.
        """
        token, from_cookie = self._token(request)
        session = await self._sessions.find(token)
        if session is None:
            raise _unknown("the session is unknown or over: sign in again")
        # Decoding a query takes as long as finding the session: skip it without one.
        if "?" in request.raw_path:
            check_cluster(request)
        if request.method not in SAFE:
            # A browser adds the cookie to requests of other sites too, but never the header.
            if from_cookie:
                self.check_origin(request)
            if request.body_exists:
                _check_type(request, content_type)
        request[SESSION] = session
        count(request, session.person.author)
        return session

    async def session_if_any(self, request: web.Request) -> BrowserSession | None:
        """Return the sender's session, None without a valid one.

        Raises:
            Refusal: the store is unavailable.
        """
        try:
            token, _ = self._token(request)
        except Refusal:
            return None
        return await self._sessions.find(token)

    async def sign_out(self, request: web.Request) -> None:
        """End the sender's session on all replicas, if there is one.

        Raises:
            Refusal: the store is unavailable.
        """
        session = await self.session_if_any(request)
        if session is not None:
            await self._sessions.end(session)
            who = session.person.author
            audit("sign-out", who=who, what=session.kind, result="done", request=request)

    def check_origin(self, request: web.Request) -> None:
        """Refuse a request that a page of another site may have sent (CSRF).

        Raises:
            Refusal: the headers do not show that it comes from a page of this server.
        """
        if not is_of_own_page(request, self.external):
            origins, site = _senders(request)
            raise forbidden(
                "a request with a cookie has to come from a page of this server",
                reason=f"Origin {origins!r:.200}, Sec-Fetch-Site {site!r:.50}",
            )

    def _token(self, request: web.Request) -> tuple[str, bool]:
        """Return the token, and whether it is from the cookie.

        Raises:
            Refusal: there is no token.
        """
        headers = request.headers.getall(hdrs.AUTHORIZATION, [])
        # A proxy and this server could each believe another one.
        if len(headers) > 1:
            raise _unknown("there is more than one Authorization header")
        # The header wins over the cookie. A request with it needs no check of its origin: another
        # site's page cannot set it without a preflight request (CORS), which this server does not
        # allow.
        if headers:
            scheme, _, token = headers[0].partition(" ")
            # Scheme names are case-insensitive (RFC 9110, 11.1).
            if scheme.lower() != "bearer" or not token:
                raise _unknown("the Authorization header is not a Bearer token")
            return token.strip(), False
        try:
            cookie = self.cookies.token(request)
        except ValueError as error:
            raise _unknown(f"{error}: delete this site's cookies in the browser") from None
        if cookie is None:
            raise _unknown("the request has neither a token nor a cookie: sign in")
        return cookie, True


def is_of_own_page(request: web.Request, external: ExternalURL) -> bool:
    """Whether ``Origin`` and ``Sec-Fetch-Site`` say that a page of this server sent it."""
    origins, site = _senders(request)
    # Forms of pages with Referrer-Policy no-referrer send Origin: null.
    if origins in ([], ["null"]):
        return site == ["same-origin"]
    # Scripts cannot set these headers: Origin and names that begin with Sec- are forbidden to them
    # (Fetch standard). Sec-Fetch-Site is missing over http beyond loopback.
    return origins == [external.origin] and site in ([], ["same-origin"])


def _senders(request: web.Request) -> tuple[list[str], list[str]]:
    return request.headers.getall("Origin", []), request.headers.getall("Sec-Fetch-Site", [])


def check_cluster(request: web.Request) -> None:
    """Refuse a request that names a cluster; kube-bind's clients send an empty cluster_id.

    Raises:
        Refusal: the query's cluster_id is not empty.
    """
    if any(request.query.getall("cluster_id", [])):
        raise forbidden("this session has no such cluster: leave cluster_id empty")


def _check_type(request: web.Request, content_type: str) -> None:
    if request.content_type != content_type:
        message = f"the body has to be {content_type}: set Content-Type"
        raise Refusal(415, ErrorCode.BAD_REQUEST, message)


def _unknown(details: str) -> Refusal:
    """Return the refusal of a request without a valid session; the message is kube-bind's."""
    return Refusal(
        401,
        ErrorCode.AUTHENTICATION_FAILED,
        "Authentication required",
        details=details,
        # Required with 401 (RFC 9110, 15.5.2).
        headers={"WWW-Authenticate": "Bearer"},
    )
