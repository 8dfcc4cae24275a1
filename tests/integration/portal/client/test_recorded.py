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
from urllib.parse import urlencode

import pytest
from aiohttp import web
from tests.support.frontdoor import browse
from tests.support.recordings import Exchange, filled, lacking, recording

from fairlead.api.meta import JSON
from fairlead.client import parse_kubeconfig
from fairlead.portal.client.addresses import Address
from fairlead.portal.client.backend import BackendClient
from fairlead.portal.client.errors import Refused, SignInNeeded
from fairlead.portal.client.handshakes import SignedIn, sign_in


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
