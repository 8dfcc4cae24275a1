"""The embedded issuer: only OpenID Connect's authorization code flow with PKCE."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from urllib.parse import unquote_plus

import msgspec
import structlog
from aiohttp import web
from joserfc import jws
from joserfc.jwk import ECKey

from fairlead.api.addresses import is_loopback
from fairlead.portal.http.audit import audit
from fairlead.portal.http.errors import Refusal, forbidden
from fairlead.portal.http.requests import ADDRESS, FORM_TYPE, read_body
from fairlead.portal.identity.codes import is_challenge, is_verifier
from fairlead.portal.identity.embedded import pages
from fairlead.portal.identity.embedded.people import (
    EmbeddedPerson,
    People,
    TooManyTriesError,
)
from fairlead.portal.identity.guard import is_of_own_page
from fairlead.portal.identity.keys import LocalKeys, Sealing
from fairlead.portal.identity.oidc.issuers import Issuer, challenge_of
from fairlead.portal.identity.oidc.outgoing import Answered, IssuerAway
from fairlead.portal.identity.redirects import with_parameters
from fairlead.portal.identity.sessions import hashed, random_token
from fairlead.portal.options import ISSUER_PATH, ExternalURL


CLIENT_ID = "fairlead"
"""The server's own client_id at the embedded issuer."""
CODE_SECONDS = 60.0
"""Lifetime of an authorization code, in seconds."""
TOKEN_SECONDS = 300
"""Lifetime of an id_token, in seconds."""
FORM_SECONDS = 600.0
"""Longest time to fill in the form, in seconds."""

_MOST_CODES = 1000
"""Largest number of codes in memory; the oldest is dropped."""
_MOST_NAME = 256
"""Longest name of a person in the form, in characters."""
_MOST_VALUE = 8192
"""Longest parameter, in characters."""
_PURPOSE = "embedded issuer's form"
_log = structlog.get_logger(logger_name="fairlead.portal.embedded")


class OIDCClient(msgspec.Struct, frozen=True):
    """A registered client; redirect URIs are compared exactly, an empty secret means none."""

    redirect_uris: tuple[str, ...]
    secret: str = ""


class AskedSignIn(msgspec.Struct, frozen=True, array_like=True):
    """A checked authorization request, which the form carries in sealed form."""

    client_id: str
    redirect_uri: str
    state: str
    nonce: str
    challenge: str


class _Issued(msgspec.Struct, frozen=True):
    asked: AskedSignIn
    person: EmbeddedPerson
    expires: float


class _OAuthError(Exception):
    """An OAuth error response (RFC 6749, 5.2)."""

    def __init__(self, error: str, description: str, status: int = 400) -> None:
        super().__init__(description)
        self.error = error
        self.status = status


class EmbeddedIssuer:
    """The issuer's pages and endpoints; this process calls it without HTTP.

    Args:
        external: the server's address; the issuer is ``/oidc`` below it.
        people: the people who may sign in.
        clients: the registered clients, by client_id.
        beyond_loopback: whether other machines may use it.
    """

    def __init__(
        self,
        external: ExternalURL,
        people: Sequence[EmbeddedPerson],
        clients: Mapping[str, OIDCClient],
        *,
        beyond_loopback: bool = False,
    ) -> None:
        self.url = external.absolute(ISSUER_PATH)
        self._external = external
        self._people = People(people)
        self._clients = dict(clients)
        self._beyond_loopback = beyond_loopback
        self._key = ECKey.generate_key("P-256", {"kid": random_token()[:16], "use": "sig"})
        self._sealing = Sealing(LocalKeys())
        self._codes: OrderedDict[str, _Issued] = OrderedDict()
        _log.warning("the embedded issuer is for laptops and demonstrations", issuer=self.url)

    def client(self, client_id: str = CLIENT_ID) -> Issuer:
        """Return the client of this issuer that the server's sign-in uses.

        Raises:
            KeyError: there is no client of this name.
        """
        client = self._clients[client_id]
        return Issuer(
            self.url,
            client_id=client_id,
            client_secret=client.secret,
            callback=client.redirect_uris[0],
            issuing=self,
            # http is no risk here: keys and tokens never leave the process.
            plain=True,
        )

    def routes(self) -> list[web.RouteDef]:
        """Return the routes, relative to the root."""
        return [
            web.get(f"{ISSUER_PATH}/.well-known/openid-configuration", self._serve_discovery),
            web.get(f"{ISSUER_PATH}/keys", self._serve_keys),
            web.get(f"{ISSUER_PATH}/authorize", self.authorize, allow_head=False),
            web.post(f"{ISSUER_PATH}/authorize", self.authorize),
            web.post(f"{ISSUER_PATH}/token", self._serve_token),
        ]

    async def authorize(self, request: web.Request) -> web.StreamResponse:
        """Show the sign-in form, or check a submitted one."""
        if (fault := self._stranger(request)) is not None:
            return fault
        if request.method == "POST":
            return await self._take_form(request)
        try:
            client_id, redirect_uri = self._place(_once(request.query))
        except _OAuthError as error:
            # Never redirect to an unregistered address (RFC 6749, 4.1.2.1).
            return pages.refused(str(error), status=400)
        state = "".join(request.query.getall("state", [])[:1])[:_MOST_VALUE]
        try:
            asked = _checked(_once(request.query), client_id, redirect_uri)
        except _OAuthError as error:
            told = {"error": error.error, "error_description": str(error)}
            return self._back(redirect_uri, told | ({"state": state} if state else {}))
        return pages.sign_in(self._action, self._sealing.seal(_PURPOSE, asked))

    async def get(self, url: str) -> Answered:
        """Answer this process's request for the discovery document or the keys."""
        if url == f"{self.url}/.well-known/openid-configuration":
            return Answered(200, msgspec.json.encode(self.discovery()))
        if url == f"{self.url}/keys":
            return Answered(200, self._jwks())
        raise IssuerAway(f"{url} is not a document of the embedded issuer")

    async def post(
        self, url: str, form: Mapping[str, str], headers: Mapping[str, str]
    ) -> Answered:
        """Redeem a code for this process."""
        if url != f"{self.url}/token":
            raise IssuerAway(f"{url} is not the token endpoint of the embedded issuer")
        try:
            return Answered(200, self._redeem(form, headers.get("Authorization", "")))
        except _OAuthError as error:
            return Answered(error.status, msgspec.json.encode({"error": error.error}))

    async def close(self) -> None:
        """Do nothing: there is no connection to close."""

    def discovery(self) -> dict[str, object]:
        """Return the OpenID Provider Metadata."""
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "grant_types_supported": ["authorization_code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
            "scopes_supported": ["openid", "profile", "email", "groups"],
            "claims_supported": ["sub", "preferred_username", "email", "groups"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": [
                *("none", "client_secret_basic", "client_secret_post")
            ],
            "authorization_response_iss_parameter_supported": True,
        }

    @property
    def _action(self) -> str:
        return f"{self._external.path}{ISSUER_PATH}/authorize"

    async def _take_form(self, request: web.Request) -> web.StreamResponse:
        """Check name and password, and redirect to the client with a code."""
        said = "Origin" in request.headers or "Sec-Fetch-Site" in request.headers
        if said and not is_of_own_page(request, self._external):
            return pages.refused("this form was not sent from its own page", status=403)
        try:
            form = await _form(request)
        except _OAuthError as error:
            return pages.refused(str(error), status=400)
        sealed, shown = form.get("request", ""), form.get("name", "")[:_MOST_NAME]
        asked = self._sealing.open(_PURPOSE, sealed, AskedSignIn, seconds=FORM_SECONDS)
        if asked is None:
            return pages.refused("the form has expired or is not ours: sign in again", status=400)
        try:
            person = await self._people.find(shown, form.get("password", ""))
        except TooManyTriesError as error:
            audit("password", who=shown, what="embedded", result="limited", request=request)
            page = pages.sign_in(self._action, sealed, name=shown, fault=str(error), status=429)
            page.headers["Retry-After"] = str(max(1, round(error.seconds)))
            return page
        if person is None:
            audit("password", who=shown, what="embedded", result="refused", request=request)
            fault = "This name and this password do not belong together."
            return pages.sign_in(self._action, sealed, name=shown, fault=fault, status=401)
        audit("password", who=shown, what="embedded", result="done", request=request)
        code = random_token()
        self._codes[hashed(code)] = _Issued(asked, person, time.time() + CODE_SECONDS)
        if len(self._codes) > _MOST_CODES:
            self._codes.popitem(last=False)
        return self._back(asked.redirect_uri, {"code": code, "state": asked.state})

    def _back(self, redirect_uri: str, told: Mapping[str, str]) -> web.Response:
        """Redirect to the client, with the issuer as iss (RFC 9207)."""
        location = with_parameters(redirect_uri, dict(told) | {"iss": self.url})
        # 303 and not 302 or 307: the browser must not post the password to the callback.
        return web.Response(status=303, headers=pages.HEADERS | {"Location": location})

    def _place(self, query: Mapping[str, str]) -> tuple[str, str]:
        """Return the client and its redirect_uri, both registered here."""
        client_id, redirect_uri = query.get("client_id", ""), query.get("redirect_uri", "")
        client = self._clients.get(client_id)
        if client is None:
            raise _OAuthError("invalid_client", "client_id is not known here")
        if redirect_uri not in client.redirect_uris:
            raise _OAuthError("invalid_request", "redirect_uri is not registered for this client")
        return client_id, redirect_uri

    def _stranger(self, request: web.Request) -> web.Response | None:
        """Return the refusal of a request from another machine, None for this one."""
        address = request.get(ADDRESS) or request.remote or ""
        if self._beyond_loopback or is_loopback(address):
            return None
        return pages.refused("this issuer serves only its own machine", status=403)

    def _redeem(self, form: Mapping[str, str], authorization: str) -> bytes:
        """Return the tokens for a code, in the form of the token endpoint."""
        if form.get("grant_type") != "authorization_code":
            raise _OAuthError("unsupported_grant_type", "grant_type has to be authorization_code")
        client_id = self._authenticated(form, authorization)
        # Popped before any check, so that a stolen code allows no second try.
        issued = self._codes.pop(hashed(form.get("code", "")), None)
        verifier = form.get("code_verifier", "")
        if (
            issued is None
            or issued.expires <= time.time()
            or issued.asked.client_id != client_id
            or form.get("redirect_uri") != issued.asked.redirect_uri
            or not is_verifier(verifier)
            or not hmac.compare_digest(challenge_of(verifier), issued.asked.challenge)
        ):
            raise _OAuthError(
                "invalid_grant", "the code is unknown, used, expired, or another client's"
            )
        access_token = random_token()
        answer = {
            "access_token": access_token,
            "token_type": "Bearer",
            "expires_in": TOKEN_SECONDS,
            "id_token": self._id_token(issued, access_token),
        }
        return msgspec.json.encode(answer)

    def _authenticated(self, form: Mapping[str, str], authorization: str) -> str:
        """Return the client, which authenticates by header or form (RFC 6749, 2.3.1)."""
        client_id, secret = form.get("client_id", ""), form.get("client_secret", "")
        if authorization:
            if secret:
                raise _OAuthError("invalid_request", "two ways to authenticate at once")
            named, secret = _basic(authorization)
            if client_id not in {"", named}:
                raise _OAuthError("invalid_client", "two clients at once", 401)
            client_id = named
        client = self._clients.get(client_id)
        # A public client has the secret "", and so has to send none.
        if client is None or not secrets.compare_digest(client.secret.encode(), secret.encode()):
            raise _OAuthError("invalid_client", "the client is unknown, or its secret wrong", 401)
        return client_id

    def _id_token(self, issued: _Issued, access_token: str) -> str:
        """Return a signed id_token (OIDC Core, 2)."""
        person, now = issued.person, int(time.time())
        half = hashlib.sha256(access_token.encode()).digest()[:16]
        claims: dict[str, object] = {
            "iss": self.url,
            "aud": issued.asked.client_id,
            "sub": person.subject or person.name,
            "nonce": issued.asked.nonce,
            "iat": now,
            "exp": now + TOKEN_SECONDS,
            "at_hash": base64.urlsafe_b64encode(half).rstrip(b"=").decode(),
            "preferred_username": person.name,
            "groups": list(person.groups),
        }
        if person.email:
            claims["email"] = person.email
        header = {"alg": "ES256", "kid": self._key.kid}
        return jws.serialize_compact(header, msgspec.json.encode(claims), self._key, ["ES256"])

    def _jwks(self) -> bytes:
        return msgspec.json.encode({"keys": [self._key.as_dict(private=False)]})

    async def _serve_discovery(self, request: web.Request) -> web.StreamResponse:
        return web.json_response(self.discovery())

    async def _serve_keys(self, request: web.Request) -> web.StreamResponse:
        return web.Response(body=self._jwks(), content_type="application/json")

    async def _serve_token(self, request: web.Request) -> web.StreamResponse:
        if self._stranger(request) is not None:
            raise forbidden("this issuer serves only its own machine")
        headers = {"Cache-Control": "no-store"}
        try:
            form = await _form(request)
            authorizations = request.headers.getall("Authorization", [])
            body = self._redeem(form, ", ".join(authorizations))
        except _OAuthError as error:
            if error.status == 401:
                headers["WWW-Authenticate"] = "Basic"
            told = {"error": error.error, "error_description": str(error)}
            return web.json_response(told, status=error.status, headers=headers)
        return web.Response(body=body, content_type="application/json", headers=headers)


def _checked(query: Mapping[str, str], client_id: str, redirect_uri: str) -> AskedSignIn:
    """Check an authorization request (OIDC Core, 3.1.2.1)."""
    if query.get("response_type") != "code":
        raise _OAuthError("unsupported_response_type", "response_type has to be code")
    if query.get("response_mode", "query") != "query":
        raise _OAuthError("invalid_request", "response_mode has to be query")
    if "request" in query or "request_uri" in query:
        raise _OAuthError("request_not_supported", "request objects are not read")
    if "openid" not in query.get("scope", "").split():
        raise _OAuthError("invalid_scope", "scope has to have openid")
    if query.get("prompt") == "none":
        raise _OAuthError("login_required", "this issuer keeps no sign-in: leave out prompt")
    challenge = query.get("code_challenge", "")
    if query.get("code_challenge_method") != "S256" or not is_challenge(challenge):
        raise _OAuthError("invalid_request", "PKCE is required: code_challenge by S256")
    state, nonce = query.get("state", ""), query.get("nonce", "")
    if not state or not nonce:
        raise _OAuthError("invalid_request", "state and nonce are required")
    return AskedSignIn(client_id, redirect_uri, state, nonce, challenge)


async def _form(request: web.Request) -> dict[str, str]:
    try:
        await read_body(request, content_type=FORM_TYPE)
        return _once(await request.post())
    except Refusal as refusal:
        raise _OAuthError("invalid_request", refusal.message) from None
    except (LookupError, ValueError):
        raise _OAuthError("invalid_request", "the body cannot be read as a form") from None


def _once(values: Mapping[str, object]) -> dict[str, str]:
    """Return the parameters; refuse a repeated one (RFC 6749, 3.1)."""
    found: dict[str, str] = {}
    for name, value in values.items():
        if name in found or not isinstance(value, str) or len(value) > _MOST_VALUE:
            raise _OAuthError("invalid_request", "a parameter is given twice, or too long")
        found[name] = value
    return found


def _basic(authorization: str) -> tuple[str, str]:
    """Return client and secret of a Basic header, both form-encoded (RFC 6749, 2.3.1)."""
    scheme, _, pair = authorization.partition(" ")
    try:
        decoded = base64.b64decode(pair, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        decoded = ""
    name, colon, secret = decoded.partition(":")
    if scheme.lower() != "basic" or not colon:
        raise _OAuthError("invalid_client", "the Authorization header is not Basic", 401)
    return unquote_plus(name), unquote_plus(secret)
