"""Who asks: a session by its token, from a header or from a cookie of our own pages."""

from __future__ import annotations

from aiohttp import hdrs, web

from fairlead.api.kubebind.wire import ErrorCode
from fairlead.portal.http.bodies import JSON_TYPE
from fairlead.portal.http.context import SESSION
from fairlead.portal.http.errors import Refusal, forbidden, unauthenticated
from fairlead.portal.http.limits import count
from fairlead.portal.http.urls import ExternalURL
from fairlead.portal.identity.cookies import Cookies
from fairlead.portal.identity.sessions import Session, Sessions


SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""


class Guard:
    """Lets requests of known sessions through, and no others."""

    def __init__(
        self, sessions: Sessions, external: ExternalURL, *, cookies: Cookies | None = None
    ) -> None:
        self._sessions = sessions
        self._external = external
        self._cookies = cookies or Cookies(external)

    async def session(self, request: web.Request, *, content_type: str = JSON_TYPE) -> Session:
        """The session of the one who asks, which the request has from now on.

        A body has to be of the type that is told.

        Raises:
            Refusal: there is none, the request may come from another site, or it asks for
                another cluster than the one there is, or its sender has to wait.
        """
        token, from_cookie = self._token(request)
        session = self._sessions.believed(token) or await self._sessions.find(token)
        if session is None:
            raise _unknown("the session is unknown or over: sign in again")
        # A query that is not there is not decoded: that takes as long as finding the session.
        if "?" in request.raw_path:
            check_cluster(request)
        if request.method not in SAFE:
            if from_cookie:
                self.check_origin(request)
            if request.body_exists:
                _check_type(request, content_type)
        request[SESSION] = session
        count(request, session.person.author)
        return session

    async def still(self, request: web.Request) -> bool:
        """Whether the session of a request that goes on is still there.

        Raises:
            Refusal: the store is away.
        """
        token, _ = self._token(request)
        return (self._sessions.believed(token) or await self._sessions.find(token)) is not None

    async def session_if_any(self, request: web.Request) -> Session | None:
        """The session of the one who asks, None where there is none that is known.

        Raises:
            Refusal: the store is away.
        """
        try:
            token, _ = self._token(request)
        except Refusal:
            return None
        return await self._sessions.find(token)

    def check_origin(self, request: web.Request) -> None:
        """Refuse what a page of another site may have sent.

        Raises:
            Refusal: the request does not say that it comes from ourselves.
        """
        if not is_of_own_page(request, self._external):
            origins, site = _senders(request)
            raise forbidden(
                "a request with a cookie has to come from a page of this server",
                reason=f"Origin {origins!r:.200}, Sec-Fetch-Site {site!r:.50}",
            )

    def _token(self, request: web.Request) -> tuple[str, bool]:
        """The token, and whether it is a cookie's.

        Raises:
            Refusal: there is none.
        """
        headers = request.headers.getall(hdrs.AUTHORIZATION, [])
        if len(headers) > 1:
            raise _unknown("there is more than one Authorization header")
        if headers:
            scheme, _, token = headers[0].partition(" ")
            if scheme.lower() != "bearer" or not token:
                raise _unknown("the Authorization header is no Bearer token")
            return token.strip(), False
        try:
            cookie = self._cookies.token(request)
        except ValueError as error:
            raise _unknown(f"{error}: have the browser forget them") from None
        if cookie is None:
            raise _unknown("there is neither a token nor a cookie: sign in")
        return cookie, True


def is_of_own_page(request: web.Request, external: ExternalURL) -> bool:
    """Whether a browser says that a page of ours has sent a request that is not safe."""
    origins, site = _senders(request)
    # Pages that may tell no one of their address have forms of the origin null.
    if origins in ([], ["null"]):
        return site == ["same-origin"]
    return origins == [external.origin] and site in ([], ["same-origin"])


def _senders(request: web.Request) -> tuple[list[str], list[str]]:
    return request.headers.getall("Origin", []), request.headers.getall("Sec-Fetch-Site", [])


def session_of(request: web.Request) -> Session:
    """The session that the guard has found for a request.

    Raises:
        LookupError: the guard was not asked.
    """
    session = request.get(SESSION)
    if isinstance(session, Session):
        return session
    raise LookupError("the guard was not asked about this request")


def check_cluster(request: web.Request) -> None:
    """Refuse a request for another cluster than the one that there is.

    Raises:
        Refusal: the query's cluster_id is not empty.
    """
    if any(request.query.getall("cluster_id", [])):
        raise forbidden("there is no such cluster for this session: leave cluster_id empty")


def _check_type(request: web.Request, content_type: str) -> None:
    if request.content_type != content_type:
        message = f"the body has to be {content_type}: set Content-Type"
        raise Refusal(415, ErrorCode.BAD_REQUEST, message)


def _unknown(details: str) -> Refusal:
    refusal = unauthenticated(details)
    refusal.headers["WWW-Authenticate"] = "Bearer"
    return refusal
