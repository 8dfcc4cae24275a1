"""The routes of signing in and out."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Protocol

import msgspec
import structlog
from aiohttp import web
from multidict import CIMultiDict

from fairlead.portal.http.audit import audit
from fairlead.portal.http.bodies import read_body, read_json
from fairlead.portal.http.context import REQUEST_ID
from fairlead.portal.http.errors import Refusal, bad_request, forbidden
from fairlead.portal.http.headers import PRIVATE
from fairlead.portal.http.parameters import parameters
from fairlead.portal.http.urls import ExternalURL
from fairlead.portal.identity import redirects
from fairlead.portal.identity.codes import Codes, challenge_in
from fairlead.portal.identity.cookies import Cookies
from fairlead.portal.identity.guard import Guard, check_cluster
from fairlead.portal.identity.issuers import Issuer
from fairlead.portal.identity.keys import Sealing
from fairlead.portal.identity.people import Person, Prefixes
from fairlead.portal.identity.redirects import RedirectError
from fairlead.portal.identity.sessions import Sessions, SessionStore, hashed, random_token
from fairlead.portal.options import AUTHORIZE_PATH, CALLBACK_PATH


SIGN_IN_SECONDS = 600.0
"""Seconds that a sign-in may take."""
_PONG = CIMultiDict({**PRIVATE, "Content-Type": "text/plain; charset=utf-8"})
"""Headers of the answer that scripts ask for again and again."""
_PURPOSE = "sign-in"
_log = structlog.get_logger(logger_name="fairlead.portal.signin")
_MOST_PENDING_BYTES = 3000
"""Bytes of the cookies of other sign-ins of a browser; a header has room for 8190."""
_MOST = {"redirect_url": 4096, "session_id": 256, "consumer_id": 253, "client_type": 32}
_NAMES = (*_MOST, "cluster_id", "code_challenge", "code_challenge_method")


class Begun(msgspec.Struct, frozen=True, array_like=True):
    """A sign-in that has begun, as the browser carries it, sealed."""

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


class Grants(Protocol):
    """Gives what a code stands for that signs no one in."""

    async def redeem(self, request: web.Request, person: Person, grant: str) -> web.Response:
        """What a person has agreed to, which ``grant`` says.

        Raises:
            Refusal: it is not given any more.
        """
        ...


class _Redemption(msgspec.Struct):
    code: str
    code_verifier: str


class SignIn:
    """Begins sign-ins at an issuer, and ends them with a session."""

    def __init__(
        self,
        *,
        issuer: Issuer,
        sessions: Sessions,
        store: SessionStore,
        sealing: Sealing,
        guard: Guard,
        external: ExternalURL,
        prefixes: Prefixes,
        grants: Grants | None = None,
    ) -> None:
        self._issuer = issuer
        self._sessions = sessions
        self._store = store
        self._codes = Codes(store)
        self._grants = grants
        self._sealing = sealing
        self._guard = guard
        self._external = external
        self._prefixes = prefixes
        self._cookies = Cookies(external)

    def routes(self) -> list[web.RouteDef]:
        """The routes, below the root."""
        return [
            # No HEAD: it would use up what is good for once.
            web.get(AUTHORIZE_PATH, self.authorize, allow_head=False),
            web.post(AUTHORIZE_PATH, self.authorize),
            web.get(CALLBACK_PATH, self.callback, allow_head=False),
            web.post("/api/logout", self.logout),
            web.get("/api/ping", self.ping),
            web.post("/api/token", self.token),
        ]

    async def authorize(self, request: web.Request) -> web.StreamResponse:
        """Send a browser to the issuer, with all that is known of it sealed in a cookie."""
        asked: Mapping[str, str] = {}
        try:
            asked = await _asked(request)
            begun = self._begin(request, asked)
            location = self._issuer.authorization_url(
                state=begun.state, nonce=begun.nonce, verifier=begun.verifier
            )
            sealed = self._sealing.seal(_PURPOSE, begun)
        except Refusal as refusal:
            _audit_refusal(request, refusal)
            return _refused(request, refusal, cli=asked.get("client_type") == "cli")
        response = _redirect(location)
        self._make_room(request, response)
        name = self._cookies.sign_in(hashed(begun.state))
        self._cookies.set(response, name, sealed, seconds=SIGN_IN_SECONDS)
        return response

    async def callback(self, request: web.Request) -> web.StreamResponse:
        """End a sign-in: of this browser, of this state, once."""
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
                # The same address once more may do better.
                return response
        self._cookies.expire(response, self._cookies.sign_in(hashed(begun.state)))
        return response

    async def token(self, request: web.Request) -> web.StreamResponse:
        """Redeem a one-time code for a session's token, or for what it stands for otherwise.

        Raises:
            Refusal: the code is not known any more, or another's.
        """
        asked = await read_json(request, _Redemption)
        found, proven = await self._codes.take(asked.code, asked.code_verifier)
        event = "bind" if found and found.grant else "sign-in"
        if found is None or not proven or (found.grant and self._grants is None):
            who = found.person.author if found else ""
            audit(event, who=who, what="code", result="refused", request=request)
            raise bad_request("the code is unknown, used, over, or not yours: sign in again")
        if found.grant and self._grants is not None:
            return await self._grants.redeem(request, found.person, found.grant)
        token, session = await self._sessions.create(found.person, "cli")
        audit("sign-in", who=found.person.author, what="cli", result="done", request=request)
        body = {
            "access_token": token,
            "token_type": "Bearer",
            "expires_in": _seconds_left(session.expires),
            "cluster_id": "",
            "username": found.person.name,
        }
        return web.json_response(body, headers=PRIVATE)

    async def logout(self, request: web.Request) -> web.StreamResponse:
        """End the session of the one who asks, everywhere.

        Raises:
            Refusal: the request may come from another site, or the store is away.
        """
        check_cluster(request)
        by_cookie = self._cookies.session in request.cookies
        by_cookie = by_cookie and "Authorization" not in request.headers
        if by_cookie:
            self._guard.check_origin(request)
        session = await self._guard.session_if_any(request)
        if session is not None:
            await self._sessions.end(session)
            who = session.person.author
            audit("sign-out", who=who, what=session.kind, result="done", request=request)
        response = web.Response(text="logged out", headers=PRIVATE)
        # A form of another site comes without the cookie, and may not take it away.
        if by_cookie:
            self._cookies.expire(response, self._cookies.session)
        return response

    async def ping(self, request: web.Request) -> web.StreamResponse:
        """Tell whether the session holds.

        Raises:
            Refusal: it does not.
        """
        await self._guard.session(request)
        return web.Response(body=b"pong", headers=_PONG)

    def _begin(self, request: web.Request, asked: Mapping[str, str]) -> Begun:
        url, session_id = asked.get("redirect_url", ""), asked.get("session_id", "")
        if not url or not session_id:
            raise bad_request("missing redirect_url or session_id")
        check_cluster(request)
        if asked.get("cluster_id"):
            raise forbidden("there is no such cluster: leave cluster_id empty")
        for name, most in _MOST.items():
            if len(asked.get(name, "")) > most:
                raise bad_request(f"{name} is longer than {most} characters")
        cli = asked.get("client_type") == "cli"
        try:
            url = redirects.of_cli(url) if cli else redirects.of_page(url, self._external)
        except RedirectError as error:
            raise bad_request(str(error)) from None
        return Begun(
            state=random_token(),
            nonce=random_token(),
            verifier=random_token(),
            begun=time.time(),
            redirect_url=url,
            session_id=session_id,
            cli=cli,
            consumer_id=asked.get("consumer_id", ""),
            challenge=_challenge_of(asked, cli=cli),
            page=asked.get("client_type") == "page",
        )

    def _begun(self, request: web.Request, state: str) -> Begun:
        if not state:
            raise bad_request("invalid state format")
        sealed = request.cookies.get(self._cookies.sign_in(hashed(state)), "")
        begun = self._sealing.open(_PURPOSE, sealed, Begun, seconds=SIGN_IN_SECONDS)
        if begun is None or hashed(begun.state) != hashed(state):
            raise bad_request("invalid state parameter")
        return begun

    async def _person(self, begun: Begun, answered: Mapping[str, str]) -> Person:
        if error := answered.get("error", ""):
            told = re.sub(r"[^a-z_]", "", error)[:40]
            raise bad_request(f"the issuer signed nobody in: {told or 'error'}")
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
        self._prefixes.user(person)
        # Only now: whoever is not known to the issuer stores nothing here.
        until = begun.begun + SIGN_IN_SECONDS
        name = hashed(begun.state)
        if not await self._store.put(name, b"{}", kind="used", owner="", expires=until):
            raise bad_request("invalid state parameter")
        return person

    async def _signed_in(
        self, request: web.Request, begun: Begun, person: Person
    ) -> web.StreamResponse:
        who, echoed = person.author, {"session_id": begun.session_id}
        if begun.challenge:
            code = await self._codes.make(person, begun.challenge)
            _audit_sign_in(request, begun, who, "code")
            return _redirect(
                redirects.with_parameters(begun.redirect_url, {"code": code} | echoed)
            )
        token, session = await self._sessions.create(person, "cli" if begun.cli else "browser")
        _audit_sign_in(request, begun, who, session.kind)
        if begun.cli:
            # kube-bind's own CLI knows no other way than this.
            told = {
                "access_token": token,
                "token_type": "Bearer",
                "expires_in": str(_seconds_left(session.expires)),
                "cluster_id": "",
            }
            return _redirect(redirects.with_parameters(begun.redirect_url, told | echoed))
        # A page of our own has no use for it, and would show it to whom the address is sent.
        location = begun.redirect_url
        response = _redirect(
            location if begun.page else redirects.with_parameters(location, echoed)
        )
        self._cookies.set(response, self._cookies.session, token, seconds=self._sessions.lifetime)
        return response

    def _make_room(self, request: web.Request, response: web.StreamResponse) -> None:
        """Have the browser forget sign-ins that are over, and the oldest where there are many."""
        pending: list[tuple[float, str, int]] = []
        for name, value in self._cookies.sign_ins(request):
            found = self._sealing.open(_PURPOSE, value, Begun, seconds=SIGN_IN_SECONDS)
            pending.append((found.begun if found else 0.0, name, len(name) + len(value)))
        room = _MOST_PENDING_BYTES
        for begun, name, size in sorted(pending, reverse=True):
            room -= size
            if room < 0 or not begun:
                self._cookies.expire(response, name)


def _challenge_of(asked: Mapping[str, str], *, cli: bool) -> str:
    if not cli and (asked.get("code_challenge") or asked.get("code_challenge_method")):
        raise bad_request("code_challenge is for client_type cli")
    return challenge_in(asked)


async def _asked(request: web.Request) -> Mapping[str, str]:
    """The parameters of the query, or of a JSON body in its place."""
    if request.method == "GET":
        return parameters(request)
    content = await read_body(request)
    try:
        body = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
        known = {name: body[name] for name in _NAMES if name in body}
        return {name: msgspec.json.decode(raw, type=str) for name, raw in known.items()}
    except (ValueError, RecursionError):
        raise bad_request("invalid JSON request") from None


def _redirect(location: str) -> web.Response:
    return web.Response(status=302, headers={**PRIVATE, "Location": location})


def _told_cli(begun: Begun, refusal: Refusal) -> web.Response:
    """The refusal for our own CLI, which waits for an answer and would wait for long."""
    unwilling = refusal.status < 500
    told = {
        "error": "access_denied" if unwilling else "temporarily_unavailable",
        "error_description": refusal.message,
        "session_id": begun.session_id,
    }
    return _redirect(redirects.with_parameters(begun.redirect_url, told))


def _refused(request: web.Request, refusal: Refusal, *, cli: bool) -> web.Response:
    """The answer in the form of these two routes, which is not that of the others."""
    headers = {**PRIVATE, **refusal.headers}
    if refusal.retry_after is not None:
        headers["Retry-After"] = str(max(1, round(refusal.retry_after)))
    known = request.get(REQUEST_ID, "")
    if cli:
        body = {"success": False, "error": refusal.message, "request": known}
        return web.json_response(body, status=refusal.status, headers=headers)
    text = f"{refusal.message}\nrequest {known}\n"
    return web.Response(status=refusal.status, text=text, headers=headers)


def _audit_sign_in(request: web.Request, begun: Begun, who: str, what: str) -> None:
    more = {"consumer": begun.consumer_id} if begun.consumer_id else {}
    audit("sign-in", who=who, what=what, result="done", request=request, **more)


def _audit_refusal(request: web.Request, refusal: Refusal) -> None:
    reason = refusal.reason or refusal.message
    audit("sign-in", who="", what=request.path, result="refused", request=request, reason=reason)


def _seconds_left(expires: float) -> int:
    return max(0, int(expires - time.time()))
