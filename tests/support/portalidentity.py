"""The front door's identity alone, on loopback: sign-in, guard and one protected route."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import aiohttp
from aiohttp import web
from tests.support.issuers import CLIENT_ID, TestIssuer
from yarl import URL

from fairlead.portal.http.errors import Refusal
from fairlead.portal.http.requests import SESSION
from fairlead.portal.http.server import application
from fairlead.portal.identity.embedded.issuer import EmbeddedIssuer
from fairlead.portal.identity.guard import SessionGuard
from fairlead.portal.identity.keys import Sealing, local_keys
from fairlead.portal.identity.oidc.issuers import Issuer, OverHTTP
from fairlead.portal.identity.sessions import BrowserSessions, Prefixes, SessionStore
from fairlead.portal.identity.sessions import MemoryStore as Memory
from fairlead.portal.identity.signin import SignIn
from fairlead.portal.options import (
    CALLBACK_PATH,
    ExternalURL,
    Limits,
    OIDCOptions,
    Rate,
    ServeOptions,
)


VERIFIER = "w" * 43
CHALLENGE = (
    base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
)


class MemoryStore(Memory):
    """A store of one process, which a test may have be away."""

    def __init__(self) -> None:
        super().__init__()
        self.away: Refusal | None = None

    def kinds(self) -> list[str]:
        return sorted(kind for kind, _ in self.there)

    async def put(self, name: str, value: bytes, *, kind: str, owner: str, expires: float) -> bool:
        self._ask()
        return await super().put(name, value, kind=kind, owner=owner, expires=expires)

    async def get(self, name: str, *, kind: str) -> bytes | None:
        self._ask()
        return await super().get(name, kind=kind)

    async def take(self, name: str, *, kind: str) -> bytes | None:
        self._ask()
        return await super().take(name, kind=kind)

    async def remove(self, name: str, *, kind: str) -> None:
        self._ask()
        await super().remove(name, kind=kind)

    def _ask(self) -> None:
        if self.away is not None:
            raise self.away


@dataclass
class Door:
    """A server that runs, and what is behind it."""

    url: str
    external: ExternalURL
    issuer: Issuer | EmbeddedIssuer
    sessions: BrowserSessions
    sealing: Sealing
    did: list[str]

    def query(self, **parameters: str) -> str:
        return f"{self.url}/api/authorize?{urlencode(parameters)}"

    def ask_page(self, **more: str) -> str:
        known = {"redirect_url": "/pages", "session_id": "client-1", "client_type": "ui"}
        return self.query(**(known | more))

    def ask_cli(self, **more: str) -> str:
        known = {"redirect_url": "http://127.0.0.1:1/callback", "session_id": "client-1"}
        return self.query(**(known | {"client_type": "cli"} | more))


@contextlib.asynccontextmanager
async def door(
    there: TestIssuer | Callable[[ExternalURL], EmbeddedIssuer],
    store: SessionStore,
    *,
    external: str = "",
    lifetime: float = 3600,
    sealing: Sealing | None = None,
    prefixes: Prefixes | None = None,
) -> AsyncIterator[Door]:
    """The server; ``external`` is what it takes itself to be, its own address by default."""
    listening = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    outside = ExternalURL.parse(external or url)
    issuing = OverHTTP()
    callback = outside.absolute(CALLBACK_PATH)
    issuer: Issuer | EmbeddedIssuer
    if isinstance(there, TestIssuer):
        there.callback = callback
        issuer = Issuer(there.url, client_id=CLIENT_ID, callback=callback, issuing=issuing)
        await issuer.discover()
        more = []
    else:
        issuer = there(outside)
        more = issuer.routes()
    sessions = BrowserSessions(store, lifetime=lifetime)
    guard = SessionGuard(sessions, outside)
    sealing = sealing or Sealing(local_keys())
    sign_in = SignIn(
        issuer=issuer,
        sessions=sessions,
        store=store,
        sealing=sealing,
        guard=guard,
        external=outside,
        prefixes=prefixes or Prefixes(),
    )
    did: list[str] = []

    async def protected(request: web.Request) -> web.Response:
        found = await guard.session(request)
        assert request[SESSION] is found
        did.append(request.method)
        return web.json_response({"who": found.person.author, "kind": found.kind})

    guarded = [web.get("/api/protected", protected), web.post("/api/protected", protected)]
    app = application(options(outside), [*sign_in.routes(), *more, *guarded])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.SockSite(runner, listening).start()
    try:
        yield Door(url, outside, issuer, sessions, sealing, did)
    finally:
        await runner.cleanup()
        await issuing.close()


UNLIMITED = Limits(per_address=Rate(0, 0), sign_ins_per_address=Rate(0, 0), sign_ins=Rate(0, 0))


def options(external: ExternalURL) -> ServeOptions:
    """Of a server of this address, which counts no requests of addresses."""
    callback = external.absolute(CALLBACK_PATH)
    oidc = OIDCOptions(issuer_url="", client_id=CLIENT_ID, callback_url=callback)
    return ServeOptions(external_url=external, oidc=oidc, limits=UNLIMITED)


class Browser:
    """A cookie jar and a person who follows redirects, step by step."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.session = session

    async def get(self, url: str | URL, **more: Any) -> aiohttp.ClientResponse:
        return await self._ask("GET", url, **more)

    async def post(self, url: str | URL, **more: Any) -> aiohttp.ClientResponse:
        return await self._ask("POST", url, **more)

    async def to_callback(self, url: str) -> str:
        """From authorize by way of the issuer to the address of the callback."""
        answered = await self.get(url)
        while answered.status == 503 and "Retry-After" in answered.headers:
            # What it needs of the API server may not have come yet on a busy machine.
            answered = await self.get(url)
        assert answered.status == 302, await answered.text()
        answered = await self.get(answered.headers["Location"])
        assert answered.status == 302, await answered.text()
        return answered.headers["Location"]

    async def sign_in(self, url: str) -> aiohttp.ClientResponse:
        """The whole of it; the answer of the callback."""
        return await self.get(await self.to_callback(url))

    async def _ask(self, method: str, url: str | URL, **more: Any) -> aiohttp.ClientResponse:
        async with self.session.request(method, url, allow_redirects=False, **more) as answered:
            await answered.read()
            return answered


@contextlib.asynccontextmanager
async def browser() -> AsyncIterator[Browser]:
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(cookie_jar=jar) as session:
        yield Browser(session)


def told(answered: aiohttp.ClientResponse) -> dict[str, str]:
    """The parameters of the address that an answer leads to, each of them once."""
    found = parse_qs(urlsplit(answered.headers["Location"]).query, keep_blank_values=True)
    assert all(len(values) == 1 for values in found.values())
    return {name: values[0] for name, values in found.items()}
