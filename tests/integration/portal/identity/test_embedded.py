"""The embedded issuer, as browsers and clients meet it."""

from __future__ import annotations

import base64
import re
import time
from collections.abc import AsyncIterator
from html import unescape
from typing import Any
from urllib.parse import urlencode

import aiohttp
import pytest
from aiohttp import web
from tests.support.portalidentity import (
    CHALLENGE,
    VERIFIER,
    Browser,
    Door,
    MemoryStore,
    browser,
    door,
    told,
)

from fairlead.portal.identity.embedded import issuer as module
from fairlead.portal.identity.embedded.issuer import EmbeddedIssuer, OIDCClient
from fairlead.portal.identity.embedded.pages import BANNER
from fairlead.portal.identity.embedded.passwords import PasswordHash
from fairlead.portal.identity.embedded.people import EmbeddedPerson
from fairlead.portal.identity.oidc.outgoing import Issuing
from fairlead.portal.options import ExternalURL


OTHER = "http://127.0.0.1:1/other"
LINE = PasswordHash.of("correct horse", cost=1 << 14).line
PEOPLE = [
    EmbeddedPerson("ada", LINE, subject="u-1", email="ada@example.org", groups=("team-a",)),
    EmbeddedPerson("b<o>b", LINE),
]


def embedded(external: ExternalURL) -> tuple[list[web.RouteDef], Issuing]:
    clients = {
        "fairlead": OIDCClient((external.absolute("/api/callback"),)),
        "other": OIDCClient((OTHER,)),
        "secretive": OIDCClient((OTHER,), "s3 cret"),
    }
    issuer = EmbeddedIssuer(external, PEOPLE, clients)
    return issuer.routes(), issuer


@pytest.fixture
async def server() -> AsyncIterator[Door]:
    async with door(None, MemoryStore(), embedded=embedded) as server:
        yield server


@pytest.fixture
async def ada() -> AsyncIterator[Browser]:
    async with browser() as someone:
        yield someone


async def fill_in(
    server: Door,
    someone: Browser,
    page: aiohttp.ClientResponse,
    *,
    name: str = "ada",
    password: str = "correct horse",
    **headers: str,
) -> aiohttp.ClientResponse:
    """Send the form of a page."""
    text = await page.text()
    found = re.search(r'name="request" value="([^"]+)"', text)
    action = re.search(r'action="([^"]+)"', text)
    assert found
    assert action
    form = {"request": unescape(found[1]), "name": name, "password": password}
    return await someone.post(server.url + unescape(action[1]), data=form, headers=headers)


def ask(server: Door, **more: str) -> str:
    known = {
        "client_id": "other",
        "redirect_uri": OTHER,
        "response_type": "code",
        "scope": "openid",
        "state": "st",
        "nonce": "no",
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
    }
    given = {name: value for name, value in (known | more).items() if value}
    return f"{server.url}/oidc/authorize?{urlencode(given)}"


async def code_of(server: Door, someone: Browser, **more: str) -> str:
    page = await someone.get(ask(server, **more))
    return told(await fill_in(server, someone, page))["code"]


async def redeem(
    server: Door,
    someone: Browser,
    code: str,
    sent: dict[str, str] | None = None,
    **more: str,
) -> aiohttp.ClientResponse:
    known = {
        "grant_type": "authorization_code",
        "client_id": "other",
        "redirect_uri": OTHER,
        "code": code,
        "code_verifier": VERIFIER,
    }
    form = {name: value for name, value in (known | more).items() if value}
    return await someone.post(f"{server.url}/oidc/token", data=form, headers=sent)


async def test_a_person_of_the_file_signs_in_with_a_form(server: Door, ada: Browser) -> None:
    first = await ada.get(server.ask_page())
    page = await ada.get(first.headers["Location"])
    assert page.status == 200
    back = await fill_in(server, ada, page, Origin=server.url)
    assert back.status == 303
    done = await ada.get(back.headers["Location"])
    assert done.headers["Location"] == f"{server.url}/pages?session_id=client-1"
    who = await ada.get(f"{server.url}/api/protected")
    assert (await who.json())["who"] == f"{server.url}/oidc/u-1"


async def test_s15_each_page_says_what_it_is_and_holds_no_script(
    server: Door, ada: Browser
) -> None:
    form = await ada.get(ask(server))
    wrong = await fill_in(server, ada, form, password="<script>")
    stranger = await ada.get(ask(server, client_id="<script>"))
    broken = await ada.post(f"{server.url}/oidc/authorize", data={"request": "x"})
    statuses = [page.status for page in (form, wrong, stranger, broken)]
    assert statuses == [200, 401, 400, 400]
    for page in (form, wrong, stranger, broken):
        text = await page.text()
        assert BANNER in text
        assert "<script" not in text
        policy = page.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; style-src 'sha256-")
        assert "frame-ancestors 'none'" in policy
        assert page.headers["Cache-Control"] == "no-store"


async def test_s15_a_name_is_shown_as_text(server: Door, ada: Browser) -> None:
    page = await ada.get(ask(server))
    again = await fill_in(server, ada, page, name='"><script>alert(1)</script>', password="x")
    text = await again.text()
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    good = await fill_in(server, ada, again, name="b<o>b")
    assert good.status == 303


async def test_s15_others_than_this_machine_are_refused(
    server: Door, ada: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "is_loopback", lambda address: False)
    assert (await ada.get(ask(server))).status == 403
    assert (await redeem(server, ada, "x")).status == 403


@pytest.mark.parametrize(
    "more",
    [
        {"client_id": "unknown"},
        {"client_id": ""},
        {"redirect_uri": ""},
        {"redirect_uri": OTHER + "/"},
        {"redirect_uri": OTHER + "?x"},
        {"redirect_uri": "https://evil.example/"},
        {"client_id": "fairlead"},
    ],
)
async def test_a_client_that_is_not_known_is_sent_nowhere(
    server: Door, ada: Browser, more: dict[str, str]
) -> None:
    answered = await ada.get(ask(server, **more))
    assert answered.status == 400
    assert "Location" not in answered.headers


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"code_challenge": ""}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"code_challenge_method": ""}, "invalid_request"),
        ({"code_challenge": "short"}, "invalid_request"),
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"response_mode": "fragment"}, "invalid_request"),
        ({"scope": "profile"}, "invalid_scope"),
        ({"nonce": ""}, "invalid_request"),
        ({"state": ""}, "invalid_request"),
        ({"request": "x"}, "request_not_supported"),
        ({"prompt": "none"}, "login_required"),
    ],
)
async def test_a_request_that_is_not_strict_is_refused(
    server: Door, ada: Browser, more: dict[str, str], error: str
) -> None:
    answered = await ada.get(ask(server, **more))
    assert answered.status == 303
    assert answered.headers["Location"].startswith(OTHER + "?")
    assert told(answered)["error"] == error
    assert told(answered)["iss"] == f"{server.url}/oidc"


async def test_doubled_parameters_are_refused(server: Door, ada: Browser) -> None:
    assert (await ada.get(ask(server) + "&client_id=other")).status == 400
    assert (await ada.get(ask(server) + "&nonce=other")).status == 400


async def test_a_code_is_redeemed_once_by_its_client_with_its_verifier(
    server: Door, ada: Browser
) -> None:
    code = await code_of(server, ada)
    answered = await redeem(server, ada, code)
    assert answered.status == 200
    assert answered.headers["Cache-Control"] == "no-store"
    assert (await answered.json())["id_token"].count(".") == 2
    again = await redeem(server, ada, code)
    assert (again.status, (await again.json())["error"]) == (400, "invalid_grant")


@pytest.mark.parametrize(
    ("more", "status", "error"),
    [
        ({"code_verifier": "x" * 43}, 400, "invalid_grant"),
        ({"code_verifier": ""}, 400, "invalid_grant"),
        ({"code_verifier": CHALLENGE}, 400, "invalid_grant"),
        ({"redirect_uri": OTHER + "/"}, 400, "invalid_grant"),
        ({"client_id": "fairlead"}, 400, "invalid_grant"),
        ({"client_id": "unknown"}, 401, "invalid_client"),
        ({"client_id": "secretive"}, 401, "invalid_client"),
        ({"client_secret": "guess"}, 401, "invalid_client"),
        ({"grant_type": "password"}, 400, "unsupported_grant_type"),
        ({"code": "forged"}, 400, "invalid_grant"),
    ],
)
async def test_a_code_is_worth_nothing_otherwise(
    server: Door, ada: Browser, more: dict[str, Any], status: int, error: str
) -> None:
    code, more = await code_of(server, ada), {**more}
    answered = await redeem(server, ada, more.pop("code", code), **more)
    assert (answered.status, (await answered.json())["error"]) == (status, error)


async def test_a_code_is_over_after_a_minute(
    server: Door, ada: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = await code_of(server, ada)
    later = time.time() + 61
    monkeypatch.setattr(time, "time", lambda: later)
    assert (await redeem(server, ada, code)).status == 400


async def test_a_client_with_a_secret_proves_itself_either_way(server: Door, ada: Browser) -> None:
    def basic(pair: str) -> dict[str, str]:
        return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}

    async def tried(headers: dict[str, str] | None = None, **more: str) -> int:
        code = await code_of(server, ada, client_id="secretive")
        return (await redeem(server, ada, code, headers, **more)).status

    assert await tried(basic("secretive:s3+cret"), client_id="") == 200
    assert await tried(client_id="secretive", client_secret="s3 cret") == 200
    assert await tried(basic("secretive:wrong"), client_id="") == 401
    assert await tried(basic("secretive:s3+cret"), client_id="other") == 401
    assert await tried({"Authorization": "Bearer x"}, client_id="") == 401
    assert await tried(basic("secretive:s3+cret"), client_secret="s3 cret") == 400


async def test_passwords_are_limited_on_the_page(server: Door, ada: Browser) -> None:
    page = await ada.get(ask(server))
    for _ in range(10):
        assert (await fill_in(server, ada, page, password="guess")).status == 401
    limited = await fill_in(server, ada, page)
    assert limited.status == 429
    assert 0 < int(limited.headers["Retry-After"]) <= 300


async def test_a_form_of_another_page_is_not_taken(server: Door, ada: Browser) -> None:
    page = await ada.get(ask(server))
    for origin in ("https://evil.example", "null"):
        assert (await fill_in(server, ada, page, Origin=origin)).status == 403
    for site in ("same-site", "cross-site"):
        sent = {"Origin": "null", "Sec-Fetch-Site": site}
        assert (await fill_in(server, ada, page, **sent)).status == 403
        assert (await fill_in(server, ada, page, **{"Sec-Fetch-Site": site})).status == 403
    url = f"{server.url}/oidc/authorize"
    for form in ({}, {"request": "forged", "name": "ada", "password": "correct horse"}):
        assert (await ada.post(url, data=form)).status == 400
    assert (await ada.post(url, json={})).status == 400


async def test_a_browser_that_tells_no_one_where_it_was_sends_the_form_too(
    server: Door, ada: Browser
) -> None:
    page = await ada.get(ask(server))
    assert page.headers["Referrer-Policy"] == "no-referrer"
    # What browsers make of it: the form has no origin that they would tell.
    sent = {"Origin": "null", "Sec-Fetch-Site": "same-origin"}
    assert (await fill_in(server, ada, page, **sent)).status == 303


@pytest.mark.parametrize("charset", ["nonsense", "unicode_escape", "utf-7", "utf-16", "undefined"])
async def test_a_form_is_in_utf8_alone(server: Door, ada: Browser, charset: str) -> None:
    page = await (await ada.get(ask(server))).text()
    found = re.search(r'name="request" value="([^"]+)"', page)
    assert found
    body = f"request={unescape(found[1])}&name=\\ud800&password=\\ud800".encode()
    odd = {"Content-Type": f"application/x-www-form-urlencoded; charset={charset}"}
    assert (await ada.post(f"{server.url}/oidc/authorize", data=body, headers=odd)).status == 400


async def test_a_form_that_is_old_is_not_taken(
    server: Door, ada: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = await ada.get(ask(server))
    later = time.time() + 602
    monkeypatch.setattr(time, "time", lambda: later)
    assert (await fill_in(server, ada, page)).status == 400


async def test_discovery_and_keys_are_those_of_any_issuer(server: Door, ada: Browser) -> None:
    url = f"{server.url}/oidc"
    found: dict[str, Any] = await (await ada.get(f"{url}/.well-known/openid-configuration")).json()
    assert found["issuer"] == url
    keys = (await (await ada.get(found["jwks_uri"])).json())["keys"]
    assert [key["kty"] for key in keys] == ["EC"]
    assert "d" not in keys[0]
