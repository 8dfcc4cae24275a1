"""A strict OpenID Connect issuer for tests, which lies where a test wants it to."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import secrets
import socket
import ssl
import time
import warnings
from collections.abc import Callable
from typing import Any, Self
from urllib.parse import unquote_plus, urlencode

from aiohttp import web
from joserfc import jws
from joserfc.errors import SecurityWarning
from joserfc.jwk import ECKey, Key, OctKey, OKPKey, RSAKey


CLIENT_ID = "fairlead"
CLIENT_SECRET = "s3cret with spaces & more"


def new_key(algorithm: str = "ES256", kid: str = "one") -> Key:
    """A private key for an algorithm."""
    parameters: Any = {"kid": kid}
    if algorithm.startswith(("RS", "PS")):
        return RSAKey.generate_key(2048, parameters)
    if algorithm.startswith("HS"):
        return OctKey.generate_key(256, parameters)
    if algorithm.startswith("ES"):
        curve = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}[algorithm]
        return ECKey.generate_key(curve, parameters)
    return OKPKey.generate_key("Ed25519", parameters)


def sign(claims: dict[str, Any], key: Key, algorithm: str = "ES256", **header: Any) -> str:
    """A token of these claims."""
    return sign_bytes(json.dumps(claims).encode(), key, algorithm, **header)


def sign_bytes(payload: bytes, key: Key, algorithm: str = "ES256", **header: Any) -> str:
    """A token of whatever this is."""
    protected = {"alg": algorithm, "kid": key.kid} | header
    protected = {name: value for name, value in protected.items() if value is not None}
    registry = jws.JWSRegistry(algorithms=[algorithm], strict_check_header=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SecurityWarning)
        return jws.serialize_compact(protected, payload, key, registry=registry)


def unsigned(claims: dict[str, Any]) -> str:
    """A token of alg none."""
    return f"{part({'alg': 'none'})}.{part(claims)}."


def part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def jwks(*keys: Key) -> bytes:
    return json.dumps({"keys": [key.as_dict(private=False) for key in keys]}).encode()


class TestIssuer:
    """Signs ``who`` in without asking, and checks all that a client says.

    Args:
        callback: where it sends browsers back to.
        secret: of its client, which is a public one without.
        tls: a context, to speak TLS.
        listening: a socket that listens, instead of a port of loopback.
    """

    __test__ = False

    def __init__(
        self,
        callback: str,
        *,
        secret: str = "",
        tls: ssl.SSLContext | None = None,
        listening: socket.socket | None = None,
    ) -> None:
        self.who: dict[str, Any] = {"sub": "ada", "groups": ["team-a"]}
        self.algorithm = "ES256"
        self.key = new_key()
        self.published: list[Key] = [self.key]
        self.keys = b""
        self.discovery: dict[str, Any] = {}
        self.lie: Callable[[dict[str, Any]], None] = lambda claims: None
        self.make: Callable[[dict[str, Any]], str] | None = None
        self.token_answer: web.Response | None = None
        self.hold: asyncio.Event | None = None
        self.hold_tokens: asyncio.Event | None = None
        self.asked: list[str] = []
        self.codes: dict[str, dict[str, str]] = {}
        self.url = ""
        self.callback = callback
        self._secret = secret
        self._tls = tls
        self._listening = listening
        self._port = 0
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.stop()

    async def start(self) -> None:
        app = web.Application()
        app.router.add_get("/.well-known/openid-configuration", self._discovery)
        app.router.add_get("/keys", self._keys)
        app.router.add_get("/authorize", self._authorize)
        app.router.add_post("/token", self._token)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        listening = self._listening or socket.create_server(("127.0.0.1", self._port))
        await web.SockSite(self._runner, listening, ssl_context=self._tls).start()
        host, self._port = listening.getsockname()
        self.url = f"{'https' if self._tls else 'http'}://{host}:{self._port}"

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def id_token(self, request: dict[str, str], access_token: str) -> str:
        now = int(time.time())
        digest = hashlib.sha256(access_token.encode()).digest()
        claims = {
            "iss": self.url,
            "aud": CLIENT_ID,
            "iat": now,
            "exp": now + 300,
            "nonce": request["nonce"],
            "at_hash": base64.urlsafe_b64encode(digest[:16]).rstrip(b"=").decode(),
        } | self.who
        self.lie(claims)
        if self.make is not None:
            return self.make(claims)
        return sign(claims, self.key, self.algorithm)

    async def _pause(self, request: web.Request) -> None:
        self.asked.append(request.path)
        if self.hold is not None:
            await self.hold.wait()

    async def _discovery(self, request: web.Request) -> web.Response:
        await self._pause(request)
        found = {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
            "code_challenge_methods_supported": ["S256"],
            "scopes_supported": ["openid", "groups", "offline_access"],
        }
        return web.json_response(found | self.discovery)

    async def _keys(self, request: web.Request) -> web.Response:
        await self._pause(request)
        body = self.keys or jwks(*self.published)
        return web.Response(body=body, content_type="application/json")

    async def _authorize(self, request: web.Request) -> web.Response:
        await self._pause(request)
        asked = {name: request.query[name] for name in request.query}
        assert asked["client_id"] == CLIENT_ID
        assert asked["redirect_uri"] == self.callback
        assert asked["response_type"] == "code"
        assert asked["scope"] == "openid groups"
        assert asked["code_challenge_method"] == "S256"
        assert len(asked["code_challenge"]) == 43
        assert len(asked["state"]) >= 43
        assert len(asked["nonce"]) >= 43
        code = secrets.token_urlsafe(16)
        self.codes[code] = asked
        query = urlencode({"code": code, "state": asked["state"]})
        raise web.HTTPFound(f"{self.callback}?{query}")

    async def _token(self, request: web.Request) -> web.Response:
        await self._pause(request)
        if self.token_answer is not None:
            answer = self.token_answer
            return web.Response(status=answer.status, body=answer.body)
        form = await request.post()
        if not self._knows(request, form):
            return web.json_response({"error": "invalid_client"}, status=401)
        asked = self.codes.pop(str(form.get("code")), None)
        verifier = str(form.get("code_verifier"))
        digest = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest())
        if (
            asked is None
            or form.get("grant_type") != "authorization_code"
            or form.get("redirect_uri") != asked["redirect_uri"]
            or digest.rstrip(b"=").decode() != asked["code_challenge"]
        ):
            return web.json_response({"error": "invalid_grant"}, status=400)
        access = secrets.token_urlsafe(16)
        token = self.id_token(asked, access)
        answered = {"id_token": token, "access_token": access, "token_type": "Bearer"}
        if self.hold_tokens is not None:
            await self.hold_tokens.wait()
        return web.json_response(answered)

    def _knows(self, request: web.Request, form: Any) -> bool:
        if not self._secret:
            return form.get("client_id") == CLIENT_ID and "Authorization" not in request.headers
        methods = self.discovery.get("token_endpoint_auth_methods_supported")
        if methods == ["client_secret_post"]:
            given = form.get("client_id"), form.get("client_secret")
            return given == (CLIENT_ID, self._secret)
        scheme, _, pair = request.headers.get("Authorization", "").partition(" ")
        if scheme != "Basic":
            return False
        name, _, secret = base64.b64decode(pair).decode().partition(":")
        return (unquote_plus(name), unquote_plus(secret)) == (CLIENT_ID, self._secret)
