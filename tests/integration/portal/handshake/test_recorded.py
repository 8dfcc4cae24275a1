"""What the original's command line asked is asked of our server, and its answers compared.

Ours has to say all that the original's server said, with the same types and values, but for what
is listed here; it may say more.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlencode, urlsplit

import msgspec
import pytest
from tests.integration.portal.handshake.conftest import ADA, House, house
from tests.support.issuers import TestIssuer
from tests.support.portal import Answer, opened, serve_options
from tests.support.portalidentity import MemoryStore, browser, door, told
from tests.support.recordings import Exchange, filled, lacking, recording
from tests.support.waiting import SECONDS

from fairlead.api.kubebind import APISERVICEEXPORTTEMPLATES, COLLECTIONS
from fairlead.api.meta import JSON
from fairlead.client import Client
from fairlead.portal.http.introduction import Introduction
from fairlead_sandbox import Sandbox


AT_ORIGINAL = [one for one in recording("door") if one.by == "cli" and one.original]
AT_OURS = [one for one in recording("cli-door") if one.by == "cli" and one.original]
BY_PAGE = [one for one in recording("page-door") if one.by == "browser"]
LEFT_OUT = {
    "items[].metadata.managedFields",
    "items[].status",
    "requests[].status",
}
"""What ours has not: owners' notes, and a status of what has none."""
OTHER_VALUES = {"providerPrettyName: 'Fairlead'", "version: 'v0.6.0'"}
CACHING = ("Cache-Control", "X-Accel-Expires")


def named(exchanges: list[Exchange]) -> list[Any]:
    return [pytest.param(one, id=one.name) for one in exchanges]


def of_path(exchanges: list[Exchange], *paths: str) -> list[Exchange]:
    return [one for one in exchanges if one.request.path in paths]


def body_of(found: Exchange) -> JSON:
    body = found.answer.body
    assert isinstance(body, dict)
    return body


def check(expected: Exchange, answer: Answer, *, but: set[str]) -> None:
    assert answer.status == expected.answer.status, answer.text
    given = {name: value.partition(";")[0] for name, value in answer.headers.items()}
    for name in ("Content-Type", *CACHING):
        if name in expected.answer.headers:
            assert given[name] == expected.answer.headers[name].partition(";")[0]
    assert set(lacking(expected.answer.body, answer.json)) - but == set()


def test_the_recordings_have_what_the_original_asks() -> None:
    asked = {(one.request.path, one.answer.status) for one in AT_ORIGINAL}
    assert asked == {
        ("/api/exports", 200),
        ("/api/templates", 200),
        ("/api/templates", 401),
        ("/api/collections", 200),
        ("/api/bind", 200),
        ("/api/bind", 404),
    }
    assert {(one.request.path, one.answer.status) for one in AT_OURS} == asked


@pytest.mark.parametrize(
    "recorded", named(of_path(AT_ORIGINAL, "/api/exports") + of_path(AT_OURS, "/api/exports"))
)
async def test_the_introduction_is_the_originals(recorded: Exchange) -> None:
    options = serve_options()
    async with opened(options, Introduction(options).routes()) as there:
        answer = await there.ask(recorded.request.path, headers=recorded.request.headers)
    check(recorded, answer, but=OTHER_VALUES)
    method = answer.json["authenticationMethods"][0]
    assert method["oauth2CodeGrant"]["authenticatedURL"].endswith("/api/authorize")


@pytest.fixture
async def offering(plane: Sandbox, admin: Client) -> AsyncIterator[House]:
    """A server that offers what was offered when it was recorded."""
    async with house(plane, admin) as it:
        for path, kind in (
            ("/api/templates", APISERVICEEXPORTTEMPLATES),
            ("/api/collections", COLLECTIONS),
        ):
            recorded = of_path(AT_ORIGINAL, path)[0]
            for item in body_of(recorded)["items"]:
                metadata = {"name": item["metadata"]["name"]}
                body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
                await admin.create(kind, body | {"spec": item["spec"]})
        await it.allow(f"User:oidc:{ADA.subject}")
        async with asyncio.timeout(SECONDS):
            while not (await it.ask(ADA, "/api/collections")).json["items"]:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        yield it


async def replay(it: House, recorded: Exchange) -> Answer:
    request = recorded.request
    token, _ = await it.sessions.create(ADA, "cli")
    known = {"<identity>": "cluster-1", "<token>": token}
    if recorded.answer.status == 401:
        known["<token>"] = "of-no-one"
    query = f"?{urlencode(filled(request.query, known))}" if request.query else ""
    more = {} if request.body is None else {"data": json.dumps(filled(request.body, known))}
    headers = filled(request.headers, known)
    return await it.door.ask(request.path + query, request.method, headers=headers, **more)


async def test_lists_refusals_and_binds_are_the_originals(offering: House) -> None:
    asked = of_path(AT_ORIGINAL, "/api/templates", "/api/collections", "/api/bind")
    for recorded in asked:
        check(recorded, await replay(offering, recorded), but=LEFT_OUT)


async def test_what_the_originals_page_asks_is_answered_as_by_the_original(
    offering: House,
) -> None:
    """Its page has a cookie; whose it is, the tests of the sign-in tell."""
    asked = of_path(BY_PAGE, "/api/ping", "/api/templates", "/api/collections", "/api/bind")
    for recorded in (one for one in asked if one.answer.status == 200):
        headers = recorded.request.headers | {"Authorization": "Bearer <token>"}
        request = msgspec.structs.replace(recorded.request, headers=headers)
        answer = await replay(offering, msgspec.structs.replace(recorded, request=request))
        if recorded.request.path == "/api/ping":
            assert (answer.status, answer.text) == (200, recorded.answer.body)
            continue
        check(recorded, answer, but=LEFT_OUT)
        assert answer.json


async def test_ours_answers_as_it_did_when_the_original_understood_it(offering: House) -> None:
    asked = of_path(AT_OURS, "/api/templates", "/api/collections", "/api/bind")
    for recorded in asked:
        check(recorded, await replay(offering, recorded), but=set())


@pytest.mark.parametrize("source", ["door", "cli-door"])
async def test_the_sign_in_is_the_originals(source: str) -> None:
    authorize, callback = (
        next(
            one
            for one in recording(source)
            if one.request.path == path
            and not {"code_challenge"} & one.request.query.keys()
            and "<secret>" not in one.answer.headers["Location"]
        )
        for path in ("/api/authorize", "/api/callback")
    )
    expected = dict(authorize.answer.location or {})
    back = "http://127.0.0.1:4321/callback"
    known = {"http://127.0.0.1:<port>/callback": back, "<session>": "A" * 26}
    async with (
        TestIssuer("") as issuer,
        door(issuer, MemoryStore()) as server,
        browser() as person,
    ):
        asked = filled(authorize.request.query, known)
        answered = await person.get(server.query(**asked))
        assert answered.status == authorize.answer.status
        said = told(answered)
        # Of the scopes those are asked for that the issuer has and that are used.
        assert set(said["scope"].split()) <= set(expected.pop("scope").split())
        assert expected.pop("redirect_uri") == "<server>/api/callback"
        assert said["redirect_uri"] == f"{server.url}/api/callback"
        assert set(lacking(expected, said)) == set()

        answered = await person.get(answered.headers["Location"])
        answered = await person.get(answered.headers["Location"])
        assert answered.status == callback.answer.status
        target = urlsplit(answered.headers["Location"])
        assert f"{target.scheme}://{target.netloc}{target.path}" == back
        given, expected = told(answered), dict(callback.answer.location or {})
        # The original promises a day and keeps an hour.
        assert 0 < int(given["expires_in"]) <= 3600 <= int(expected.pop("expires_in")) + 1
        assert set(lacking(expected, given)) == set()
        headers = {"Authorization": f"{given['token_type']} {given['access_token']}"}
        answered = await person.get(f"{server.url}/api/protected", headers=headers)
        assert answered.status == 200
