"""What the original's server answered is given to our client, which asks as it did then.

The server here answers a request only if one like it was recorded, so that nothing is asked that
the original's has not understood.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import aiohttp
import pytest
from aiohttp import web
from tests.support.frontdoor import browse
from tests.support.recordings import Exchange, filled, lacking, recording

from fairlead.api.meta import JSON
from fairlead.client import parse_kubeconfig
from fairlead.portal.client.addresses import (
    Address,
    Refused,
    SignInNeeded,
    StrangeAnswer,
    Unreachable,
)
from fairlead.portal.client.backend import BackendClient
from fairlead.portal.client.handshakes import SignedIn, choose_on_page, sign_in


TOKEN = "recorded"
NAMESPACE = "kube-bind-abc"
KUBECONFIG = f"""apiVersion: v1
kind: Config
clusters: [{{name: provider, cluster: {{server: "https://provider.invalid"}}}}]
users: [{{name: consumer, user: {{token: t}}}}]
contexts: [{{name: c, context: {{cluster: provider, user: consumer, namespace: {NAMESPACE}}}}}]
current-context: c
"""
UNKNOWN = "nothing-of-the-kind"
ISSUER = "/oidc/authorize"


def request_for(name: str) -> JSON:
    return {
        "apiVersion": "kube-bind.io/v1alpha2",
        "kind": "BindableResourcesRequest",
        "metadata": {"name": name},
        "spec": {"templateRef": {"name": name}, "clusterIdentity": {"identity": "cluster-1"}},
    }


def _of_others(one: Exchange) -> bool:
    """Whether not our client was answered, or a browser that it had sent."""
    mine = one.request.headers.get("User-Agent") == "fairlead"
    return not mine and "<secret>" not in one.answer.headers.get("Location", "")


class Played:
    """A server of recorded answers: those to our client, and to others where it was not asked."""

    def __init__(self, exchanges: list[Exchange]) -> None:
        # Where both were answered, what ours was.
        self.exchanges = sorted(exchanges, key=_of_others)
        self.url = ""
        self.strangers: list[str] = []
        self._asked: dict[str, str] = {}

    async def handle(self, request: web.Request) -> web.Response:
        if request.path == ISSUER:
            callback = next(one for one in self.exchanges if one.request.path == "/api/callback")
            query = urlencode(callback.request.query)
            raise web.HTTPFound(f"{request.query['redirect_uri']}?{query}")
        text = await request.text()
        known = (
            not request.headers.get("Authorization") or TOKEN in request.headers["Authorization"]
        )
        if request.path == "/api/authorize":
            self._asked = dict(request.query)
        for one in self.exchanges:
            if (one.answer.status != 401) == known and self._alike(one, request, text):
                return self._answer(one)
        self.strangers.append(f"{request.method} {request.path_qs}")
        return web.Response(status=418)

    def _alike(self, one: Exchange, request: web.Request, text: str) -> bool:
        asked = one.request
        if (request.method, request.path) != (asked.method, asked.path):
            return False
        if set(request.query) != set(asked.query):
            return False
        body = json.loads(text) if text else None
        known = {"<identity>": "cluster-1"}
        return not [*lacking(filled(asked.body, known), body)]

    def _answer(self, one: Exchange) -> web.Response:
        known = {
            "<server>": self.url,
            "<kubeconfig>": base64.b64encode(KUBECONFIG.encode()).decode(),
            "<namespace>": NAMESPACE,
            "<time>": "2026-01-01T00:00:00Z",
            "<token>": TOKEN,
            "<session>": self._asked.get("session_id", ""),
            "http://127.0.0.1:<port>/callback/<secret>": self._asked.get("redirect_url", ""),
        }
        answer = one.answer
        headers = filled({name: answer.headers[name] for name in answer.headers}, known)
        if answer.location is not None:
            headers["Location"] += "?" + urlencode(filled(answer.location, known))
        body = filled(answer.body, known)
        content = body if isinstance(body, str) else json.dumps(body) if body is not None else ""
        return web.Response(status=answer.status, headers=headers, body=content.encode())


@asynccontextmanager
async def played(name: str) -> AsyncIterator[Played]:
    """A server that answers as one did in a recording."""
    it = Played(recording(name))
    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", it.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    it.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield it
        assert it.strangers == []
    finally:
        await runner.cleanup()


async def signed_in(backend: BackendClient) -> SignedIn:
    browsers: list[asyncio.Task[Any]] = []

    def show(url: str) -> None:
        browsers.append(asyncio.create_task(browse(url)))

    found = await sign_in(backend, show, timeout=30)
    assert [(await one)[0] for one in browsers] == [200]
    return found


SOURCES = pytest.mark.parametrize("source", ["backend-door", "cli-door"])


@SOURCES
async def test_our_client_signs_in_by_recorded_answers(source: str) -> None:
    async with played(source) as there, BackendClient(Address(there.url)) as backend:
        found = await signed_in(backend)
        assert found.token.text == TOKEN
        assert found.token.type == "Bearer"
        assert found.token.expires is not None
        assert found.username == ("ann" if source == "cli-door" else "")


@pytest.mark.parametrize("source", ["backend-door", "door", "cli-door"])
async def test_our_client_reads_recorded_lists_and_binds(source: str) -> None:
    async with (
        played(source) as there,
        BackendClient(Address(there.url), token=TOKEN) as backend,
    ):
        assert (await backend.provider())["kind"] == "BindingProvider"
        await backend.ping()
        (template,) = await backend.templates()
        assert template["metadata"]["name"] == "widgets"
        (collection,) = await backend.collections()
        assert collection["spec"]["templates"] == [{"name": "widgets"}]
        response = await backend.bind(request_for("widgets"))
        assert response.provider_namespace == NAMESPACE
        assert parse_kubeconfig(response.kubeconfig).namespace == NAMESPACE
        (request,) = response.requests
        assert request.metadata.name == "widgets"
        assert [one.resource for one in request.spec.resources] == ["widgets"]
        assert [one.resource for one in request.spec.permission_claims] == [
            "secrets",
            "configmaps",
        ]
        await backend.logout()


async def test_our_client_understands_recorded_refusals() -> None:
    async with played("backend-door") as there:
        async with BackendClient(Address(there.url), token=TOKEN) as backend:
            with pytest.raises(Refused) as refused:
                await backend.bind(request_for(UNKNOWN))
        assert (refused.value.status, refused.value.code) == (404, "RESOURCE_NOT_FOUND")
        async with BackendClient(Address(there.url), token="of-no-one") as backend:
            with pytest.raises(SignInNeeded, match=f"fairlead login {there.url}"):
                await backend.templates()


async def as_the_page_did(url: str, *, response: str = "") -> tuple[int, str]:
    """Go through what a browser with the original's page asked, and end where it ended.

    Args:
        url: that our client has said.
        response: what the page hands over, where that is not what the server has answered.
    """
    server, given = urlsplit(url), dict(parse_qsl(urlsplit(url).query))
    exchanges = [one for one in recording("page-door") if one.by == "browser"]
    first, last = exchanges[0], next(one for one in exchanges if "/callback/" in one.request.path)
    assert (server.path, set(given)) == ("/", set(first.request.query))
    known = {
        "<server>": f"{server.scheme}://{server.netloc}",
        "<identity>": given["consumer_id"],
        "<session>": given["session_id"],
        "http://127.0.0.1:<port>/callback/<secret>": given["redirect_url"],
    }
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
        for one in exchanges[: exchanges.index(last)]:
            asked = one.request
            if one.answer.status == 401:
                continue
            async with session.request(
                asked.method,
                known["<server>"] + asked.path,
                params=filled(asked.query, known),
                json=filled(asked.body, known),
                allow_redirects=False,
            ) as answer:
                assert answer.status == one.answer.status
                text = await answer.read()
            if asked.path == "/api/bind":
                known["<response>"] = response or base64.b64encode(text).decode()
        query = urlencode(filled(last.request.query, known))
    return (await browse(f"{given['redirect_url']}?{query}"))[:2]


async def chosen(backend: BackendClient, **more: str) -> tuple[Any, tuple[int, str]]:
    browsers: list[asyncio.Task[tuple[int, str]]] = []

    def show(url: str) -> None:
        browsers.append(asyncio.create_task(as_the_page_did(url, **more)))

    try:
        found: Any = await choose_on_page(backend, "cluster-1", show, timeout=30)
    except StrangeAnswer as error:
        found = error
    (ended,) = [await one for one in browsers]
    return found, ended


async def test_our_client_takes_what_the_recorded_page_hands_over() -> None:
    async with played("page-door") as there, BackendClient(Address(there.url)) as backend:
        response, (status, text) = await chosen(backend)
    assert (status, "Go back to the terminal" in text) == (200, True)
    assert response.provider_namespace == NAMESPACE
    assert parse_kubeconfig(response.kubeconfig).namespace == NAMESPACE
    (request,) = response.requests
    assert [one.resource for one in request.spec.resources] == ["widgets"]


async def test_no_browser_opens_where_no_server_listens(unused_tcp_port: int) -> None:
    shown: list[str] = []
    async with BackendClient(Address(f"http://127.0.0.1:{unused_tcp_port}")) as backend:
        with pytest.raises(Unreachable, match="connection refused"):
            await choose_on_page(backend, "cluster-1", shown.append, timeout=30)
    assert shown == []


async def test_what_the_page_hands_over_is_looked_at() -> None:
    async with played("page-door") as there, BackendClient(Address(there.url)) as backend:
        found, _ = await chosen(backend, response="bm90aGluZw==")
    assert isinstance(found, StrangeAnswer)
    assert "binding_response is unusable" in str(found)
