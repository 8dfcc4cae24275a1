"""The routes of sign-in and sign-out."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Mapping

import msgspec
import structlog
from aiohttp import web
from multidict import CIMultiDict

from fairlead.portal import bounds
from fairlead.portal.http.audit import audit
from fairlead.portal.http.errors import Refusal, bad_request, forbidden
from fairlead.portal.http.headers import PRIVATE
from fairlead.portal.http.requests import REQUEST_ID, parameters, read_body, read_json
from fairlead.portal.identity import redirects
from fairlead.portal.identity.codes import Codes, challenge_in
from fairlead.portal.identity.embedded.issuer import EmbeddedIssuer
from fairlead.portal.identity.guard import Cookies, SessionGuard, check_cluster
from fairlead.portal.identity.keys import Sealing
from fairlead.portal.identity.oidc.issuers import Issuer
from fairlead.portal.identity.sessions import (
    BrowserSessions,
    Person,
    Prefixes,
    SessionStore,
    hashed,
    random_token,
)
from fairlead.portal.options import AUTHORIZE_PATH, CALLBACK_PATH, ExternalURL


_PONG = CIMultiDict({**PRIVATE, "Content-Type": "text/plain; charset=utf-8"})
"""Headers of /api/ping, made once since pages poll it."""
_PURPOSE = "sign-in"
_log = structlog.get_logger(logger_name="fairlead.portal.signin")
_MOST = {"session_id": 256, "consumer_id": 253, "client_type": 32}
"""Longest value of each parameter, in characters."""
_NAMES = ("redirect_url", *_MOST, "cluster_id", "code_challenge", "code_challenge_method")


class Begun(msgspec.Struct, frozen=True, array_like=True):
    """A pending sign-in, which the browser carries sealed in a cookie.

    ``begun`` is in seconds since 1970. ``cli`` says that a command gets the result, and ``page``
    that a page of this server does; with a ``challenge`` the result is a one-time code.
    """

    state: str
    nonce: str
    verifier: str
    begun: float
    redirect_url: str
    session_id: str
    cli: bool
    consumer_id: str = ""
    challenge: str = ""
    page: bool = False


Redeem = Callable[[web.Request, Person, str], Awaitable[web.Response]]
"""Function that answers what a person consented to in a bind, given as a code's ``grant``.

It raises a Refusal if the grant is void.
"""


class _Redemption(msgspec.Struct):
    code: str
    code_verifier: str


class SignIn:
    """Starts sign-ins at an issuer, and completes them with a session or a code."""

    def __init__(
        self,
        *,
        issuer: Issuer | EmbeddedIssuer,
        sessions: BrowserSessions,
        store: SessionStore,
        sealing: Sealing,
        guard: SessionGuard,
        external: ExternalURL,
        prefixes: Prefixes,
        redeem: Redeem | None = None,
    ) -> None:
        self._issuer = issuer
        self._sessions = sessions
        self._store = store
        self._codes = Codes(store)
        self._redeem = redeem
        self._sealing = sealing
        self._guard = guard
        self._external = external
        self._prefixes = prefixes
        self._cookies = Cookies(external)

    def routes(self) -> list[web.RouteDef]:
        """Return the routes, relative to the root."""
        return [
            # No HEAD: a prefetch would use up the state or the code.
            web.get(AUTHORIZE_PATH, self.authorize, allow_head=False),
            web.post(AUTHORIZE_PATH, self.authorize),
            web.get(CALLBACK_PATH, self.callback, allow_head=False),
            web.post("/api/logout", self.logout),
            web.get("/api/ping", self.ping),
            web.post("/api/token", self.token),
        ]

    async def authorize(self, request: web.Request) -> web.StreamResponse:
        """Redirect a browser to the issuer; a sealed cookie carries the pending sign-in."""
        parameters: Mapping[str, str] = {}
        try:
            parameters = await _asked(request)
            begun = self._begin(request, parameters)
            location = self._issuer.authorization_url(
                state=begun.state, nonce=begun.nonce, verifier=begun.verifier
            )
            sealed = self._sealing.seal(_PURPOSE, begun)
        except Refusal as refusal:
            _audit_refusal(request, refusal)
            return _refused(request, refusal, cli=parameters.get("client_type") == "cli")
        response = _redirect(location)
        self._make_room(request, response)
        name = self._cookies.sign_in(hashed(begun.state))
        self._cookies.set(response, name, sealed, seconds=bounds.SIGN_IN_SECONDS)
        return response

    async def callback(self, request: web.Request) -> web.StreamResponse:
        """Complete a sign-in: only in the browser that began it, and only once per state."""
        begun: Begun | None = None
        try:
            answered = parameters(request)
            begun = self._begun(request, answered.get("state", ""))
            person = await self._person(begun, answered)
            response = await self._signed_in(request, begun, person)
        except Refusal as refusal:
            _audit_refusal(request, refusal)
            if begun is not None and begun.challenge:
                response = _told_cli(begun, refusal)
            else:
                response = _refused(request, refusal, cli=begun is not None and begun.cli)
            if begun is None or (refusal.status >= 500 and not begun.challenge):
                # Keep the cookie: reloading the callback may succeed.
                return response
        self._cookies.expire(response, self._cookies.sign_in(hashed(begun.state)))
        return response

    async def token(self, request: web.Request) -> web.StreamResponse:
        """Redeem a one-time code for a session's token, or for the answer to its grant.

        Raises:
            Refusal: the code is unknown, used, expired or another program's.
        """
        redemption = await read_json(request, _Redemption)
        code, proven = await self._codes.take(redemption.code, redemption.code_verifier)
        event = "bind" if code and code.grant else "sign-in"
        # One answer for all, so that it tells nothing about a guessed code.
        if code is None or not proven or (code.grant and self._redeem is None):
            who = code.person.author if code else ""
            audit(event, who=who, what="code", result="refused", request=request)
            raise bad_request("the code is unknown, used, expired or not yours: sign in again")
        if code.grant and self._redeem is not None:
            return await self._redeem(request, code.person, code.grant)
        token, session = await self._sessions.create(code.person, "cli")
        _audit_sign_in(request, code.person, "cli")
        body = {
            "access_token": token,
            "token_type": "Bearer",
            "expires_in": _seconds_left(session.expires),
            "cluster_id": "",
            "username": code.person.name,
        }
        return web.json_response(body, headers={**PRIVATE, **code.person.warnings})

    async def logout(self, request: web.Request) -> web.StreamResponse:
        """End the sender's session on all replicas.

        Raises:
            Refusal: the request may come from another site, or the store is unavailable.
        """
        check_cluster(request)
        by_cookie = self._cookies.session in request.cookies
        by_cookie = by_cookie and "Authorization" not in request.headers
        if by_cookie:
            self._guard.check_origin(request)
        await self._guard.sign_out(request)
        response = web.Response(text="logged out", headers=PRIVATE)
        # A cross-site form is sent without the SameSite cookie, and must not expire it.
        if by_cookie:
            self._cookies.expire(response, self._cookies.session)
        return response

    async def ping(self, request: web.Request) -> web.StreamResponse:
        """Answer whether the session is valid.

        Raises:
            Refusal: there is no valid session.
        """
        await self._guard.session(request)
        return web.Response(body=b"pong", headers=_PONG)

    def _begin(self, request: web.Request, parameters: Mapping[str, str]) -> Begun:
        """Check the parameters, and return a new pending sign-in."""
        url, session_id = parameters.get("redirect_url", ""), parameters.get("session_id", "")
        if not url or not session_id:
            raise bad_request("missing redirect_url or session_id")
        check_cluster(request)
        if parameters.get("cluster_id"):
            raise forbidden("there is no such cluster: leave cluster_id empty")
        for name, most in _MOST.items():
            if len(parameters.get(name, "")) > most:
                raise bad_request(f"{name} is longer than {most} characters")
        cli = parameters.get("client_type") == "cli"
        url = redirects.of_cli(url) if cli else redirects.of_page(url, self._external)
        if not cli and (
            parameters.get("code_challenge") or parameters.get("code_challenge_method")
        ):
            raise bad_request("code_challenge is for client_type cli")
        # The state ties the callback to this browser (RFC 6749, 10.12), the nonce the id_token to
        # this sign-in (OIDC Core, 3.1.2.1), and the verifier the code to this server (RFC 7636).
        return Begun(
            state=random_token(),
            nonce=random_token(),
            verifier=random_token(),
            begun=time.time(),
            redirect_url=url,
            session_id=session_id,
            cli=cli,
            consumer_id=parameters.get("consumer_id", ""),
            challenge=challenge_in(parameters),
            page=parameters.get("client_type") == "page",
        )

    def _begun(self, request: web.Request, state: str) -> Begun:
        if not state:
            raise bad_request("invalid state format")
        sealed = request.cookies.get(self._cookies.sign_in(hashed(state)), "")
        begun = self._sealing.open(_PURPOSE, sealed, Begun, seconds=bounds.SIGN_IN_SECONDS)
        # The cookie's name has only the beginning of the hash, so the whole state is compared; by
        # hashes, so that the time of the comparison tells nothing.
        if begun is None or hashed(begun.state) != hashed(state):
            raise bad_request("invalid state parameter")
        return begun

    async def _person(self, begun: Begun, answered: Mapping[str, str]) -> Person:
        """Redeem the issuer's code, use up the state, and return the person."""
        if error := answered.get("error", ""):
            # The text is of the address, and anyone can write one: only what looks like an error
            # code of RFC 6749, 4.1.2.1 is repeated.
            reason = re.sub(r"[^a-z_]", "", error)[:40]
            raise bad_request(f"the issuer refused the sign-in: {reason or 'error'}")
        code = answered.get("code", "")
        if not code:
            raise bad_request("the issuer sent no code")
        person = await self._issuer.person(
            code,
            verifier=begun.verifier,
            nonce=begun.nonce,
            begun=begun.begun,
            iss=answered.get("iss"),
        )
        # Refuses names that would begin with system: before anything is stored.
        self._prefixes.user(person)
        # The state is stored as used only after the issuer named a person, so that requests
        # without a sign-in store nothing here.
        until = begun.begun + bounds.SIGN_IN_SECONDS
        name = hashed(begun.state)
        if not await self._store.put(name, b"{}", kind="used", owner="", expires=until):
            raise bad_request("invalid state parameter")
        return person

    async def _signed_in(
        self, request: web.Request, begun: Begun, person: Person
    ) -> web.StreamResponse:
        """Create a session or a one-time code, and redirect the browser with it."""
        echoed = {"session_id": begun.session_id}
        if begun.challenge:
            code = await self._codes.make(person, begun.challenge)
            _audit_sign_in(request, person, "code", consumer=begun.consumer_id)
            return _redirect(
                redirects.with_parameters(begun.redirect_url, {"code": code} | echoed)
            )
        token, session = await self._sessions.create(person, "cli" if begun.cli else "browser")
        _audit_sign_in(request, person, session.kind, consumer=begun.consumer_id)
        if begun.cli:
            # kube-bind's CLI takes the token only from the query.
            query = {
                "access_token": token,
                "token_type": "Bearer",
                "expires_in": str(_seconds_left(session.expires)),
                "cluster_id": "",
            }
            return _redirect(redirects.with_parameters(begun.redirect_url, query | echoed))
        # Our pages do not need session_id, and the address may be shared.
        location = begun.redirect_url
        response = _redirect(
            location if begun.page else redirects.with_parameters(location, echoed)
        )
        self._cookies.set(response, self._cookies.session, token, seconds=self._sessions.lifetime)
        return response

    def _make_room(self, request: web.Request, response: web.StreamResponse) -> None:
        """Expire the browser's cookies of old sign-ins, and of the oldest if there are many."""
        pending: list[tuple[float, str, int]] = []
        for name, value in self._cookies.sign_ins(request):
            earlier = self._sealing.open(_PURPOSE, value, Begun, seconds=bounds.SIGN_IN_SECONDS)
            pending.append((earlier.begun if earlier else 0.0, name, len(name) + len(value)))
        room = bounds.PENDING_BYTES
        # The newest first: the sum of all cookies has to fit into one header.
        for begun, name, size in sorted(pending, reverse=True):
            room -= size
            if room < 0 or not begun:
                self._cookies.expire(response, name)


async def _asked(request: web.Request) -> Mapping[str, str]:
    """Return the parameters of the query, or of a JSON body."""
    if request.method == "GET":
        return parameters(request)
    content = await read_body(request)
    try:
        body = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
        # Unknown members may be of any type, as kube-bind ignores them.
        present = {name: body[name] for name in _NAMES if name in body}
        return {name: msgspec.json.decode(raw, type=str) for name, raw in present.items()}
    except (ValueError, RecursionError):
        raise bad_request("invalid JSON request") from None


def _redirect(location: str) -> web.Response:
    return web.Response(status=302, headers={**PRIVATE, "Location": location})


def _told_cli(begun: Begun, refusal: Refusal) -> web.Response:
    """Redirect the refusal to Fairlead's CLI, which waits for an answer."""
    unwilling = refusal.status < 500
    query = {
        "error": "access_denied" if unwilling else "temporarily_unavailable",
        "error_description": refusal.message,
        "session_id": begun.session_id,
    }
    return _redirect(redirects.with_parameters(begun.redirect_url, query))


def _refused(request: web.Request, refusal: Refusal, *, cli: bool) -> web.Response:
    """Return the refusal in kube-bind's form of these two routes."""
    headers = {**PRIVATE, **refusal.headers}
    if refusal.retry_after is not None:
        headers["Retry-After"] = str(max(1, round(refusal.retry_after)))
    request_id = request.get(REQUEST_ID, "")
    if cli:
        body = {"success": False, "error": refusal.message, "request": request_id}
        return web.json_response(body, status=refusal.status, headers=headers)
    text = f"{refusal.message}\nrequest {request_id}\n"
    return web.Response(status=refusal.status, text=text, headers=headers)


def _audit_sign_in(request: web.Request, person: Person, what: str, *, consumer: str = "") -> None:
    more = {"consumer": consumer} if consumer else {}
    result = "done without groups" if person.groups_left_out else "done"
    audit("sign-in", who=person.author, what=what, result=result, request=request, **more)


def _audit_refusal(request: web.Request, refusal: Refusal) -> None:
    reason = refusal.reason or refusal.message
    audit("sign-in", who="", what=request.path, result="refused", request=request, reason=reason)


def _seconds_left(expires: float) -> int:
    return max(0, int(expires - time.time()))
