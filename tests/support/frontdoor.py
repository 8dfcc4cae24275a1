"""A front door as sections 1 to 3 of kube-bind's wire have it, strict about what it is asked.

It is the original's, or ours, which gives one-time codes. What it was asked is kept.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, Self
from urllib.parse import urlencode

import aiohttp
from aiohttp import web


LOOPBACK = re.compile(r"http://127\.0\.0\.1:[0-9]{1,5}/[A-Za-z0-9_/-]*")
TOKEN = "not-for-any-eyes-" + "x" * 60
LIFE = 3600


def error(status: int, code: str, message: str, details: str = "") -> web.Response:
    body = {"kind": "Error", "apiVersion": "kube-bind.io/v1alpha2", "message": message}
    return web.json_response(body | {"code": code, "details": details}, status=status)


def template(name: str = "postgres", **spec: Any) -> dict[str, Any]:
    known = {
        "scope": "Namespaced",
        "resources": [{"group": "example.org", "resource": "things", "versions": ["v1"]}],
        "permissionClaims": [
            {"group": "", "resource": "secrets", "selector": {"namedResources": [{"name": "a"}]}}
        ],
        "namespaces": None,
    }
    return {
        "apiVersion": "kube-bind.io/v1alpha2",
        "kind": "APIServiceExportTemplate",
        "metadata": {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": known | spec,
    }


class FrontDoor:
    """Listens while it is entered.

    Args:
        ours: whether it gives codes to who sends a challenge.
        tls: a context, to speak TLS.
        says_http: whether it names addresses without TLS all the same, as the original does.
    """

    def __init__(
        self, *, ours: bool = True, tls: ssl.SSLContext | None = None, says_http: bool = False
    ) -> None:
        self.ours = ours
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        self.bound: list[dict[str, Any]] = []
        self.templates = [template()]
        self.collections: list[dict[str, Any]] = []
        self.response: Callable[[dict[str, Any]], dict[str, Any]] = lambda _body: {}
        self.sessions = {TOKEN}
        self.page: dict[str, str] = {}
        self.warning = ""
        self.answers: dict[str, Callable[[web.Request], Awaitable[web.StreamResponse]]] = {}
        self.url = ""
        self._codes: dict[str, tuple[str, dict[str, Any]]] = {}
        self._tls = tls
        self._says_http = says_http
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        app = web.Application(middlewares=[self._noted])
        app.add_routes(
            [
                web.get("/api/exports", self._exports),
                web.get("/api/authorize", self._authorize),
                web.post("/api/token", self._redeem),
                web.post("/api/logout", self._logout),
                web.get("/api/ping", self._pong),
                web.get("/api/templates", self._templates),
                web.get("/api/collections", self._collections),
                web.post("/api/bind", self._bind),
                web.get("/", self._page),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._tls).start()
        scheme = "https" if self._tls else "http"
        self.url = f"{scheme}://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    def paths(self) -> list[str]:
        return [path.partition("?")[0] for _, path, _ in self.asked]

    @web.middleware
    async def _noted(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        self.asked.append((request.method, request.path_qs, dict(request.headers)))
        if (answer := self.answers.get(request.path)) is not None:
            return await answer(request)
        if request.method == "POST" and request.content_type != "application/json":
            return error(400, "BAD_REQUEST", "Content-Type has to be application/json")
        response = await handler(request)
        if self.warning:
            response.headers["Warning"] = self.warning
        return response

    async def _exports(self, request: web.Request) -> web.Response:
        url = f"{self.url}/api/authorize?cluster_id=&session_id=&client_type=&consumer_id="
        if self._says_http:
            url = url.replace("https://", "http://")
        method = {"method": "OAuth2CodeGrant", "oauth2CodeGrant": {"authenticatedURL": url}}
        body = {"kind": "BindingProvider", "apiVersion": "v1alpha2", "version": "v0.8.1"}
        return web.json_response(body | {"authenticationMethods": [method]})

    async def _authorize(self, request: web.Request) -> web.Response:
        query = request.query
        redirect = query.get("redirect_url", "")
        if not LOOPBACK.fullmatch(redirect) or not query.get("session_id"):
            return web.json_response({"success": False, "error": "no"}, status=400)
        if any(len(query.getall(name)) != 1 for name in query) or query["client_type"] != "cli":
            return web.json_response({"success": False, "error": "twice"}, status=400)
        told = {"access_token": TOKEN, "token_type": "Bearer", "expires_in": str(LIFE)}
        if self.ours:
            found = {"access_token": TOKEN, "token_type": "Bearer", "expires_in": LIFE}
            told = self._code(request, found | {"username": "ann"})
            told["session_id"] = query["session_id"]
        raise web.HTTPFound(f"{redirect}?{urlencode(told)}")

    def _code(self, request: web.Request, found: dict[str, Any]) -> dict[str, str]:
        assert request.query["code_challenge_method"] == "S256"
        code = f"code-{len(self._codes)}"
        self._codes[code] = (request.query["code_challenge"], found)
        return {"code": code}

    async def _redeem(self, request: web.Request) -> web.Response:
        body = await request.json()
        challenge, found = self._codes.pop(body["code"], ("", {}))
        digest = hashlib.sha256(body["code_verifier"].encode()).digest()
        if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != challenge:
            return error(400, "BAD_REQUEST", "the code is of another client")
        return web.json_response(found)

    def _refused(self, request: web.Request) -> web.Response | None:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme == "Bearer" and token in self.sessions:
            return None
        return error(401, "AUTHENTICATION_FAILED", "Authentication required", "no session")

    async def _logout(self, request: web.Request) -> web.Response:
        self.sessions.discard(request.headers["Authorization"].removeprefix("Bearer "))
        return web.Response(text="logged out")

    async def _pong(self, request: web.Request) -> web.Response:
        return self._refused(request) or web.Response(text="pong")

    async def _templates(self, request: web.Request) -> web.Response:
        metadata = {"continue": "continue-not-supported"}
        body = {"metadata": metadata, "items": self.templates}
        return self._refused(request) or web.json_response(body)

    async def _collections(self, request: web.Request) -> web.Response:
        return self._refused(request) or web.json_response({"items": self.collections})

    async def _bind(self, request: web.Request) -> web.Response:
        if (refused := self._refused(request)) is not None:
            return refused
        body = await request.json()
        if not body["spec"]["clusterIdentity"]["identity"] or not body["metadata"]["name"]:
            return error(400, "BAD_REQUEST", "no identity")
        wanted = body["spec"]["templateRef"]["name"]
        if wanted not in {one["metadata"]["name"] for one in self.templates}:
            return error(403, "AUTHORIZATION_FAILED", "you may not bind this", "request 1")
        self.bound.append(body)
        return web.json_response(self.response(body))

    async def _page(self, request: web.Request) -> web.Response:
        """The page, with a person who takes the first template at once."""
        query = request.query
        redirect = query["redirect_url"]
        assert LOOPBACK.fullmatch(redirect)
        spec = {"clusterIdentity": {"identity": query["consumer_id"]}}
        told = {"session_id": query["session_id"], "consumer_id": query["consumer_id"]}
        if self.page:
            told |= self.page
        else:
            body = {"metadata": {"name": "db"}, "spec": spec}
            self.bound.append(body)
            found = self.response(body)
            if self.ours:
                told |= self._code(request, found)
            else:
                data = json.dumps(found).encode()
                told["binding_response"] = base64.b64encode(data).decode()
        raise web.HTTPFound(f"{redirect}?{urlencode(told)}")


async def browse(url: str, *, trust: ssl.SSLContext | None = None) -> tuple[int, str, list[str]]:
    """What a browser sees at the end, and the addresses that it went through."""
    async with aiohttp.ClientSession() as session, session.get(url, ssl=trust or True) as answer:
        text = await answer.text()
        assert answer.headers.get("Cache-Control") == "no-store", text
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        visited = [str(one.url) for one in answer.history]
        return answer.status, text, [*visited, str(answer.url)]
