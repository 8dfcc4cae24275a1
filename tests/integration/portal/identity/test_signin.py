"""Signing in and out over loopback, with an issuer that is strict."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest
import structlog
from tests.integration.portal.identity.conftest import secret_replica
from tests.support.issuers import TestIssuer
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
from yarl import URL

from fairlead.api.resource import SECRETS
from fairlead.client import Client
from fairlead.portal.identity.keys import Sealing, local_keys
from fairlead.portal.identity.sessions import Prefixes, hashed, unavailable


@pytest.fixture
async def there() -> AsyncIterator[TestIssuer]:
    async with TestIssuer("") as issuer:
        yield issuer


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
async def server(there: TestIssuer, store: MemoryStore) -> AsyncIterator[Door]:
    async with door(there, store) as server:
        yield server


@pytest.fixture
async def ada() -> AsyncIterator[Browser]:
    async with browser() as someone:
        yield someone


@pytest.fixture
async def eve() -> AsyncIterator[Browser]:
    async with browser() as someone:
        yield someone


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def own(server: Door) -> dict[str, str]:
    return {"Origin": server.external.origin}


async def cli_token(server: Door, someone: Browser) -> str:
    return told(await someone.sign_in(server.ask_cli()))["access_token"]


async def test_a_page_signs_in_asks_and_signs_out(
    server: Door, ada: Browser, there: TestIssuer
) -> None:
    assert (await ada.get(f"{server.url}/api/ping")).status == 401
    back = await ada.sign_in(server.ask_page(redirect_url="/pages?x=1"))
    assert back.status == 302
    assert back.headers["Location"] == f"{server.url}/pages?x=1&session_id=client-1"
    ping = await ada.get(f"{server.url}/api/ping")
    assert (ping.status, await ping.text()) == (200, "pong")
    who = await ada.get(f"{server.url}/api/protected")
    assert await who.json() == {"who": f"{there.url}/ada", "kind": "browser"}
    out = await ada.post(f"{server.url}/api/logout", headers=own(server))
    assert (out.status, await out.text()) == (200, "logged out")
    assert "no-store" in out.headers["Cache-Control"]
    assert (await ada.get(f"{server.url}/api/ping")).status == 401


async def test_the_original_cli_gets_its_token_and_its_true_life(
    server: Door, ada: Browser, there: TestIssuer
) -> None:
    back = await ada.sign_in(server.ask_cli(redirect_url="http://127.0.0.1:1/callback/s3cret?x=1"))
    assert back.headers["Location"].startswith("http://127.0.0.1:1/callback/s3cret?x=1&")
    given = told(back)
    token = given.pop("access_token")
    assert 3590 < int(given.pop("expires_in")) <= 3600
    assert given == {"x": "1", "token_type": "Bearer", "cluster_id": "", "session_id": "client-1"}
    assert len(token) == 43
    async with browser() as cli:
        who = await cli.get(f"{server.url}/api/protected", headers=bearer(token))
        assert await who.json() == {"who": f"{there.url}/ada", "kind": "cli"}
        assert (await cli.get(f"{server.url}/api/protected")).status == 401
    # The browser that signed the CLI in is not signed in itself.
    assert (await ada.get(f"{server.url}/api/ping")).status == 401


async def test_authorize_takes_a_json_body_too(server: Door, ada: Browser) -> None:
    url = f"{server.url}/api/authorize"
    body = {"redirect_url": "/", "session_id": "s", "unknown": {"a": 1}, "client_type": "ui"}
    assert (await ada.post(url, json=body)).status == 302
    for wrong in (
        b"",
        b"{",
        b"[]",
        b'{"redirect_url": 7, "session_id": "s"}',
        b'{"redirect_url": "\xff", "session_id": "s"}',
        b"[" * 100_000,
    ):
        answered = await ada.post(url, data=wrong, headers={"Content-Type": "application/json"})
        assert answered.status == 400
        assert (await answered.text()).startswith("invalid JSON request")


@pytest.mark.parametrize(
    ("query", "status", "said"),
    [
        ("", 400, "missing redirect_url or session_id"),
        ("session_id=a", 400, "missing redirect_url or session_id"),
        ("redirect_url=/", 400, "missing redirect_url or session_id"),
        ("redirect_url=&session_id=", 400, "missing redirect_url or session_id"),
        ("redirect_url=/&session_id=a&cluster_id=b", 403, "cluster_id"),
        (f"redirect_url=/&session_id={'a' * 257}", 400, "session_id is longer than 256"),
        (f"redirect_url=/{'a' * 1024}&session_id=a", 400, "redirect_url"),
        ("redirect_url=/%C3%A4&session_id=a", 400, "redirect_url"),
        ("redirect_url=/&session_id=a&code_challenge=x", 400, "client_type cli"),
    ],
)
async def test_parameters_that_are_wrong_are_named(
    server: Door, ada: Browser, query: str, status: int, said: str
) -> None:
    answered = await ada.get(f"{server.url}/api/authorize?{query}")
    assert (answered.status, answered.content_type) == (status, "text/plain")
    assert said in await answered.text()
    assert f"request {answered.headers['X-Request-Id']}" in await answered.text()
    assert "Set-Cookie" not in answered.headers


@pytest.mark.parametrize("path", ["authorize", "callback"])
async def test_parameters_that_are_doubled_are_refused(
    server: Door, ada: Browser, path: str
) -> None:
    callback = urlsplit(await ada.to_callback(server.ask_page())).query
    for name in ("state", "code", "redirect_url", "session_id", "cluster_id"):
        query = f"{callback}&redirect_url=/&session_id=a&cluster_id=&{name}=x"
        if name not in callback or path == "callback":
            answered = await ada.get(f"{server.url}/api/{path}?{query}")
            assert answered.status == 400
            assert "Location" not in answered.headers


async def test_a_cli_is_told_of_errors_in_its_own_form(server: Door, ada: Browser) -> None:
    for more in (
        {"redirect_url": "https://evil.example/"},
        {"code_challenge": CHALLENGE},
        {"code_challenge": CHALLENGE, "code_challenge_method": "plain"},
        {"code_challenge": "short", "code_challenge_method": "S256"},
        {"code_challenge": CHALLENGE + "=", "code_challenge_method": "S256"},
    ):
        answered = await ada.get(server.ask_cli(**more))
        assert answered.status == 400
        body = await answered.json()
        assert body["success"] is False
        assert body["error"]
    back = await ada.to_callback(server.ask_cli())
    refused = await ada.get(back.partition("?")[0] + "?error=access_denied&state=" + _state(back))
    assert refused.status == 400
    assert (await refused.json())["error"] == "the issuer refused the sign-in: access_denied"


def _state(callback: str) -> str:
    return callback.partition("state=")[2]


@pytest.mark.parametrize(
    "url",
    ["https://evil.example/x", "javascript:alert(1)", "//evil.example", "http://127.0.0.1:1/"],
)
async def test_s2_a_page_is_led_nowhere_else(server: Door, ada: Browser, url: str) -> None:
    assert (await ada.get(server.ask_page(redirect_url=url))).status == 400
    assert (await ada.get(server.ask_page(redirect_url=url, client_type="other"))).status == 400


async def test_s3_the_clients_session_id_is_echoed_and_nothing_more(
    server: Door, ada: Browser, eve: Browser, store: MemoryStore
) -> None:
    hers = told(await ada.sign_in(server.ask_cli(session_id="same")))
    his = told(await eve.sign_in(server.ask_cli(session_id="same")))
    assert hers["session_id"] == his["session_id"] == "same"
    assert hers["access_token"] != his["access_token"]
    assert len([kind for kind in store.kinds() if kind == "session"]) == 2
    for token in ("same", hers["access_token"]):
        assert token not in repr(store.there)
    assert (await ada.get(f"{server.url}/api/ping", headers=bearer("same"))).status == 401


async def test_s3_a_cookie_that_was_there_before_is_not_the_sessions(
    server: Door, ada: Browser
) -> None:
    url = URL(server.url)
    ada.session.cookie_jar.update_cookies({"fairlead-session": "f" * 43}, url)
    await ada.sign_in(server.ask_page())
    cookies = ada.session.cookie_jar.filter_cookies(url)
    assert cookies["fairlead-session"].value != "f" * 43
    assert (await ada.get(f"{server.url}/api/ping", headers=bearer("f" * 43))).status == 401


async def test_s4_state_of_another_browser_is_refused(
    server: Door, ada: Browser, eve: Browser, store: MemoryStore
) -> None:
    # Eve has signed in at the issuer, and sends the last step to Ada.
    callback = await eve.to_callback(server.ask_page())
    answered = await ada.get(callback)
    assert answered.status == 400
    assert (await answered.text()).startswith("invalid state parameter")
    # Nor does it help that Ada has begun a sign-in of her own.
    await ada.get(server.ask_page())
    assert (await ada.get(callback)).status == 400
    assert (await ada.get(f"{server.url}/api/ping")).status == 401
    assert not store.there


async def test_s4_a_code_of_another_browser_is_refused(
    server: Door, ada: Browser, eve: Browser, store: MemoryStore
) -> None:
    hers = await ada.to_callback(server.ask_page())
    his = await eve.to_callback(server.ask_page())
    code = his.partition("code=")[2].partition("&")[0]
    injected = f"{hers.partition('?')[0]}?code={code}&state={_state(hers)}"
    assert (await ada.get(injected)).status == 400
    assert not store.there


async def test_s4_a_state_is_good_for_one_sign_in(
    server: Door, ada: Browser, there: TestIssuer
) -> None:
    begun = await ada.get(server.ask_page())
    cookies = begun.headers.getall("Set-Cookie")
    kept = cookies[0].partition(";")[0]
    first = (await ada.get(begun.headers["Location"])).headers["Location"]
    second = (await ada.get(begun.headers["Location"])).headers["Location"]
    assert _state(first) == _state(second)
    assert (await ada.get(first)).status == 302
    # The cookie is gone; the thief of one, with a fresh code, comes too late.
    assert (await ada.get(second)).status == 400
    async with browser() as thief:
        answered = await thief.get(second, headers={"Cookie": kept})
        assert answered.status == 400
        assert (await answered.text()).startswith("invalid state parameter")


async def test_s4_a_sign_in_is_over_after_ten_minutes(
    server: Door, ada: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    callback = await ada.to_callback(server.ask_page())
    later = time.time() + 602
    monkeypatch.setattr(time, "time", lambda: later)
    assert (await ada.get(callback)).status == 400


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("", "invalid state format"),
        ("code=x", "invalid state format"),
        ("code=x&state=", "invalid state format"),
        ("code=x&state=forged", "invalid state parameter"),
        ("error=access_denied", "invalid state format"),
    ],
)
async def test_s4_a_callback_that_was_never_begun_is_refused(
    server: Door, ada: Browser, query: str, said: str
) -> None:
    answered = await ada.get(f"{server.url}/api/callback?{query}")
    assert (answered.status, answered.content_type) == (400, "text/plain")
    assert said in await answered.text()


async def test_s4_a_callback_without_a_code_stores_nothing(
    server: Door, ada: Browser, store: MemoryStore
) -> None:
    for more in ("", "&code=", "&code=forged", "&error=%0aevil<script>"):
        callback = await ada.to_callback(server.ask_page())
        address = f"{callback.partition('?')[0]}?state={_state(callback)}{more}"
        answered = await ada.get(address)
        assert answered.status == 400
        assert "<" not in await answered.text()
    assert not store.there


async def test_s5_an_id_token_that_lies_signs_no_one_in(
    server: Door, ada: Browser, there: TestIssuer, store: MemoryStore
) -> None:
    there.lie = lambda claims: claims.update({"aud": "another"})
    answered = await ada.sign_in(server.ask_cli())
    assert answered.status == 401
    assert (await answered.json())["error"] == "the issuer's answer cannot be trusted"
    assert not store.there


async def test_an_issuer_that_goes_away_costs_a_second_try(
    server: Door, ada: Browser, there: TestIssuer
) -> None:
    callback = await ada.to_callback(server.ask_page())
    await there.stop()
    answered = await ada.get(callback)
    assert answered.status == 503
    assert answered.headers["Retry-After"]
    await there.start()
    assert (await ada.get(callback)).status == 302


async def test_our_own_cli_hears_why_no_one_was_signed_in(
    server: Door, ada: Browser, there: TestIssuer, store: MemoryStore
) -> None:
    asked = server.ask_cli(code_challenge=CHALLENGE, code_challenge_method="S256")
    there.who["groups"] = 7
    back = await ada.sign_in(asked)
    assert back.headers["Location"].startswith("http://127.0.0.1:1/callback?")
    assert told(back) == {
        "error": "access_denied",
        "error_description": "the issuer's claim groups is no list of names; --oidc-groups-claim"
        " names the claim that is read",
        "session_id": "client-1",
    }
    callback = await ada.to_callback(asked)
    await there.stop()
    assert told(await ada.get(callback))["error"] == "temporarily_unavailable"
    assert not store.there


@pytest.mark.parametrize("subject", ["system:admin", "system:serviceaccount:kube-system:x"])
async def test_s11_a_name_of_kubernetes_own_is_signed_in_under_a_prefix_alone(
    there: TestIssuer, store: MemoryStore, ada: Browser, subject: str
) -> None:
    there.who["sub"] = subject
    async with door(there, store, prefixes=Prefixes("", "")) as server:
        assert (await ada.sign_in(server.ask_page())).status == 403
        assert not store.there
    async with door(there, store) as server:
        assert (await ada.sign_in(server.ask_page())).status == 302


async def test_s6_a_session_ends_when_its_token_says(
    there: TestIssuer, store: MemoryStore, ada: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with door(there, store, lifetime=120) as server:
        given = told(await ada.sign_in(server.ask_cli()))
        assert int(given["expires_in"]) in {119, 120}
        headers = bearer(given["access_token"])
        assert (await ada.get(f"{server.url}/api/ping", headers=headers)).status == 200
        later = time.time() + 121
        monkeypatch.setattr(time, "time", lambda: later)
        answered = await ada.get(f"{server.url}/api/ping", headers=headers)
        assert answered.status == 401
        assert (await answered.json())["message"] == "Authentication required"
        assert answered.headers["WWW-Authenticate"] == "Bearer"


async def test_s6_replicas_share_a_sign_in_and_a_restart_keeps_it(
    client: Client, there: TestIssuer, ada: Browser
) -> None:
    keys, outside = Sealing(local_keys()), "http://127.0.0.1:1"
    async with secret_replica(client) as one, secret_replica(client) as other:
        async with (
            door(there, one, external=outside, sealing=keys) as first,
            door(there, other, external=outside, sealing=keys) as second,
        ):
            # Begun at one, ended at the other, asked at both.
            callback = await ada.to_callback(first.ask_cli())
            back = await ada.get(callback.replace(outside, second.url))
            headers = bearer(told(back)["access_token"])
            for server in (first, second):
                assert (await ada.get(f"{server.url}/api/ping", headers=headers)).status == 200
            assert (await ada.get(callback.replace(outside, first.url))).status == 400
        found = await client.list(SECRETS, "fairlead-portal")
        assert sorted(s.meta.labels["fairlead.dev/portal"] for s in found.items) == [
            "session",
            "used",
        ]
        assert not any(headers["Authorization"][7:].encode() in s.raw for s in found.items)
    async with (
        secret_replica(client) as again,
        door(there, again, external=outside, sealing=keys) as server,
    ):
        assert (await ada.get(f"{server.url}/api/ping", headers=headers)).status == 200


async def test_s7_what_was_signed_out_is_worth_nothing_any_more(
    server: Door, ada: Browser
) -> None:
    back = await ada.sign_in(server.ask_page())
    token = back.cookies["fairlead-session"].value
    assert (await ada.get(f"{server.url}/api/ping")).status == 200
    await ada.post(f"{server.url}/api/logout", headers=own(server))
    async with browser() as thief:
        cookie = {"Cookie": f"fairlead-session={token}"}
        assert (await thief.get(f"{server.url}/api/ping", headers=cookie)).status == 401
    cli = bearer(await cli_token(server, ada))
    assert (await ada.post(f"{server.url}/api/logout", headers=cli)).status == 200
    assert (await ada.get(f"{server.url}/api/ping", headers=cli)).status == 401
    # Once more, and of nobody.
    assert (await ada.post(f"{server.url}/api/logout", headers=cli)).status == 200
    assert (await ada.post(f"{server.url}/api/logout")).status == 200


@pytest.mark.parametrize(
    ("external", "prefix", "path"),
    [
        ("https://bind.example.org", "__Host-", "/"),
        ("https://bind.example.org/fairlead", "__Secure-", "/fairlead"),
        ("http://127.0.0.1:1/fairlead", "", "/fairlead"),
    ],
)
async def test_s8_cookies_are_as_strict_as_the_address_allows(
    there: TestIssuer,
    store: MemoryStore,
    external: str,
    prefix: str,
    path: str,
) -> None:
    async with door(there, store, external=external) as server, browser() as someone:
        page = urlsplit(external).path + "/pages"
        begun = await someone.get(server.ask_page(redirect_url=page))
        pending = begun.headers["Set-Cookie"]
        callback = (await someone.get(begun.headers["Location"])).headers["Location"]
        callback = callback.replace(external, server.url)
        cookie = {"Cookie": pending.partition(";")[0]}
        back = await someone.get(callback, headers=cookie)
        assert back.headers["Location"].startswith(f"{external}/pages?")
        for set_cookie, name in (
            (pending, f"{prefix}fairlead-signin-"),
            (back.headers["Set-Cookie"], f"{prefix}fairlead-session="),
        ):
            assert set_cookie.startswith(name)
            flags = {flag.strip().lower() for flag in set_cookie.split(";")[1:]}
            assert {"httponly", "samesite=lax", f"path={path}"} <= flags
            assert ("secure" in flags) == external.startswith("https")
            assert not any(flag.startswith("domain") for flag in flags)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "OWN", "Content-Type": "application/json"}, 200),
        ({"Sec-Fetch-Site": "same-origin", "Content-Type": "application/json"}, 200),
        ({"Origin": "OWN", "Content-Type": "application/json; charset=utf-8"}, 200),
        (
            {
                "Origin": "null",
                "Sec-Fetch-Site": "same-origin",
                "Content-Type": "application/json",
            },
            200,
        ),
        (
            {
                "Origin": "null",
                "Sec-Fetch-Site": "cross-site",
                "Content-Type": "application/json",
            },
            403,
        ),
        ({"Content-Type": "application/json"}, 403),
        ({"Origin": "null", "Content-Type": "application/json"}, 403),
        ({"Origin": "https://evil.example", "Content-Type": "application/json"}, 403),
        ({"Origin": "OWN.evil.example", "Content-Type": "application/json"}, 403),
        ({"Sec-Fetch-Site": "same-site", "Content-Type": "application/json"}, 403),
        (
            {
                "Origin": "https://evil.example",
                "Sec-Fetch-Site": "same-origin",
                "Content-Type": "application/json",
            },
            403,
        ),
        ({"Origin": "OWN", "Sec-Fetch-Site": "cross-site"}, 403),
        ({"Origin": "OWN", "Content-Type": "text/plain"}, 415),
        ({"Origin": "OWN", "Content-Type": "application/x-www-form-urlencoded"}, 415),
    ],
)
async def test_s9_a_cookie_changes_something_from_our_own_pages_alone(
    server: Door, ada: Browser, headers: dict[str, str], status: int
) -> None:
    await ada.sign_in(server.ask_page())
    sent = {name: v.replace("OWN", server.external.origin) for name, v in headers.items()}
    url = f"{server.url}/api/protected"
    assert (await ada.post(url, data=b"{}", headers=sent)).status == status
    assert server.did == (["POST"] if status == 200 else [])
    # A logout has no body.
    if status == 403:
        sent.pop("Content-Type", None)
        assert (await ada.post(f"{server.url}/api/logout", headers=sent)).status == 403
        assert (await ada.get(f"{server.url}/api/ping")).status == 200


async def test_s9_a_form_of_another_site_signs_no_browser_out(server: Door, ada: Browser) -> None:
    await ada.sign_in(server.ask_page())
    # Such a form comes without the cookie, yet browsers take the cookies of its answer.
    async with browser() as bare:
        sent = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
        out = await bare.post(f"{server.url}/api/logout", headers=sent)
        assert "Set-Cookie" not in out.headers
    # Nor does a token take away the cookie of another session.
    out = await ada.post(f"{server.url}/api/logout", headers=bearer("x" * 43))
    assert "Set-Cookie" not in out.headers
    assert (await ada.get(f"{server.url}/api/ping")).status == 200
    out = await ada.post(f"{server.url}/api/logout", headers=own(server))
    assert out.headers["Set-Cookie"].startswith('fairlead-session="";')


async def test_s3_a_second_session_cookie_makes_both_worth_nothing(
    server: Door, ada: Browser, eve: Browser
) -> None:
    tokens = []
    for someone in (ada, eve):
        back = await someone.sign_in(server.ask_page())
        tokens.append(back.cookies["fairlead-session"].value)
    async with browser() as tossed:
        for first, second in (tokens, reversed(tokens)):
            cookie = f"fairlead-session={first}; a=b;fairlead-session={second}"
            answered = await tossed.get(f"{server.url}/api/ping", headers={"Cookie": cookie})
            assert answered.status == 401
            assert "more than one cookie" in (await answered.json())["details"]
        cookie = f"fairlead-session={tokens[0]}; xfairlead-session={tokens[1]}"
        answered = await tossed.get(f"{server.url}/api/ping", headers={"Cookie": cookie})
        assert answered.status == 200


@pytest.mark.parametrize("name", ["a(b", "a/b", "a[b", "a@b", "a{b", "a?b", "g" * 16])
async def test_a_cookie_of_another_host_stops_no_sign_in(
    server: Door, ada: Browser, name: str
) -> None:
    headers = {"Cookie": f"fairlead-signin-{name}=1"}
    assert (await ada.get(server.ask_page(), headers=headers)).status == 302


async def test_s9_a_token_needs_no_origin_but_a_body_is_json(server: Door, ada: Browser) -> None:
    headers = bearer(await cli_token(server, ada))
    url = f"{server.url}/api/protected"
    assert (await ada.post(url, json={}, headers=headers)).status == 200
    assert (await ada.post(url, data=b"{}", headers=headers)).status == 415


async def test_s10_another_cluster_is_not_there(server: Door, ada: Browser) -> None:
    headers = bearer(await cli_token(server, ada))
    for query, status in (("", 200), ("cluster_id=", 200), ("cluster_id=b", 403)):
        answered = await ada.get(f"{server.url}/api/protected?{query}", headers=headers)
        assert answered.status == status
    answered = await ada.get(
        f"{server.url}/api/protected?cluster_id=&cluster_id=b", headers=headers
    )
    assert answered.status == 400
    answered = await ada.post(f"{server.url}/api/logout?cluster_id=b", headers=headers)
    assert answered.status == 403


@pytest.mark.parametrize(
    "authorization",
    ["", "Bearer", "Bearer ", "Basic YWRhOmFkYQ==", "Bearer x y", "Bearer " + "x" * 43, "TOKEN"],
)
async def test_tokens_that_are_none_are_refused_though_a_cookie_is_good(
    server: Door, ada: Browser, authorization: str
) -> None:
    await ada.sign_in(server.ask_page())
    headers = {"Authorization": authorization}
    assert (await ada.get(f"{server.url}/api/ping", headers=headers)).status == 401


async def redeem(server: Door, someone: Browser, **body: Any) -> aiohttp.ClientResponse:
    return await someone.post(f"{server.url}/api/token", json=body)


async def test_s14_our_own_cli_redeems_a_code_once(
    server: Door, ada: Browser, store: MemoryStore, there: TestIssuer
) -> None:
    there.who["name"] = "Ada"
    asked = server.ask_cli(code_challenge=CHALLENGE, code_challenge_method="S256")
    back = await ada.sign_in(asked)
    assert "no-store" in back.headers["Cache-Control"]
    assert back.headers["Referrer-Policy"] == "no-referrer"
    given = told(back)
    code = given.pop("code")
    assert given == {"session_id": "client-1"}
    # Nothing that a URL has shown is stored, and no session is there yet.
    assert store.kinds() == ["code", "used"]
    assert code not in repr(store.there)
    async with browser() as cli:
        answered = await redeem(server, cli, code=code, code_verifier=VERIFIER)
        assert answered.status == 200
        assert "no-store" in answered.headers["Cache-Control"]
        body = await answered.json()
        token = body.pop("access_token")
        assert 3590 < body.pop("expires_in") <= 3600
        assert body == {"token_type": "Bearer", "cluster_id": "", "username": "Ada"}
        who = await cli.get(f"{server.url}/api/protected", headers=bearer(token))
        assert await who.json() == {"who": f"{there.url}/ada", "kind": "cli"}
        again = await redeem(server, cli, code=code, code_verifier=VERIFIER)
        assert again.status == 400


async def test_s14_a_code_is_worth_nothing_to_another_and_is_used_by_the_try(
    server: Door, ada: Browser, eve: Browser, store: MemoryStore
) -> None:
    asked = server.ask_cli(code_challenge=CHALLENGE, code_challenge_method="S256")
    code = told(await ada.sign_in(asked))["code"]
    assert (await redeem(server, eve, code=code, code_verifier="e" * 43)).status == 400
    assert (await redeem(server, ada, code=code, code_verifier=VERIFIER)).status == 400
    assert "session" not in store.kinds()


async def test_s14_of_many_who_redeem_a_code_at_once_one_has_it(
    client: Client, there: TestIssuer, ada: Browser
) -> None:
    async with secret_replica(client) as store, door(there, store) as server:
        asked = server.ask_cli(code_challenge=CHALLENGE, code_challenge_method="S256")
        code = told(await ada.sign_in(asked))["code"]
        tries = (redeem(server, ada, code=code, code_verifier=VERIFIER) for _ in range(8))
        statuses = [answered.status for answered in await asyncio.gather(*tries)]
    assert sorted(statuses) == [200, *[400] * 7]


async def test_s14_a_code_is_over_after_a_minute(
    client: Client, there: TestIssuer, ada: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with secret_replica(client) as store, door(there, store) as server:
        asked = server.ask_cli(code_challenge=CHALLENGE, code_challenge_method="S256")
        code = told(await ada.sign_in(asked))["code"]
        later = time.time() + 61
        monkeypatch.setattr(time, "time", lambda: later)
        assert (await redeem(server, ada, code=code, code_verifier=VERIFIER)).status == 400


async def test_s14_a_stored_code_that_cannot_be_read_is_none(
    server: Door, ada: Browser, store: MemoryStore
) -> None:
    for value in (b"", b"\xff", b'{"person": 1}'):
        await store.put(hashed("c" * 43), value, kind="code", owner="", expires=9e9)
        answered = await redeem(server, ada, code="c" * 43, code_verifier=VERIFIER)
        assert answered.status == 400


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"code": 7, "code_verifier": 7}',
        b'{"code": "a"}',
        b"[" * 100_000,
        b'{"code": "\xff", "code_verifier": ""}',
        b'{"code": "%s", "code_verifier": "%s"}' % (b"a" * 43, b"b" * 43),
        b'{"code": "../x", "code_verifier": "%s"}' % (b"b" * 43),
    ],
)
async def test_s14_anything_else_is_no_code(server: Door, ada: Browser, body: bytes) -> None:
    url = f"{server.url}/api/token"
    answered = await ada.post(url, data=body, headers={"Content-Type": "application/json"})
    assert answered.status == 400
    assert (await answered.json())["code"] == "BAD_REQUEST"
    assert (await ada.post(url, data=body)).status == 415


async def test_a_browser_with_many_sign_ins_keeps_the_newest(server: Door, ada: Browser) -> None:
    callbacks = [
        await ada.to_callback(server.ask_page(redirect_url="/" + "a" * 500)) for _ in range(8)
    ]
    cookies = ada.session.cookie_jar.filter_cookies(URL(server.url))
    size = sum(len(name) + len(one.value) for name, one in cookies.items())
    assert size < 5500
    assert (await ada.get(callbacks[0])).status == 400
    assert (await ada.get(callbacks[-2])).status == 302
    assert (await ada.get(callbacks[-1])).status == 302


async def test_a_store_that_is_away_is_told_as_it_is(
    server: Door, ada: Browser, store: MemoryStore
) -> None:
    token = await cli_token(server, ada)
    store.away = unavailable("no answer about Secrets")
    answered = await ada.get(f"{server.url}/api/ping", headers=bearer(token))
    assert answered.status == 503
    assert (await answered.json())["code"] == "CLUSTER_CONNECTION_FAILED"
    assert "Secrets" not in await answered.text()
    out = await ada.post(f"{server.url}/api/logout", headers=bearer(token))
    assert out.status == 503
    assert (await ada.sign_in(server.ask_page())).status == 503


async def test_head_uses_nothing_up(server: Door, ada: Browser) -> None:
    callback = await ada.to_callback(server.ask_page())
    async with ada.session.head(callback, allow_redirects=False) as answered:
        assert answered.status == 405
    assert (await ada.get(callback)).status == 302


async def test_s17_a_person_waits_whose_sessions_ask_too_often(server: Door, ada: Browser) -> None:
    headers = bearer(await cli_token(server, ada))
    url = f"{server.url}/api/ping"
    answers = [await ada.get(url, headers=headers) for _ in range(130)]
    limited = [answered for answered in answers if answered.status == 429]
    assert limited
    assert int(limited[0].headers["Retry-After"]) >= 1


async def test_a_sign_in_whose_groups_are_left_out_is_audited_as_such(
    server: Door, ada: Browser, there: TestIssuer
) -> None:
    there.who = {"sub": "ada", "_claim_names": {"groups": "src1"}}
    with structlog.testing.capture_logs() as logs:
        await ada.sign_in(server.ask_page())
        asked = server.ask_cli(code_challenge=CHALLENGE, code_challenge_method="S256")
        body = {"code": told(await ada.sign_in(asked))["code"], "code_verifier": VERIFIER}
        assert (await ada.post(f"{server.url}/api/token", json=body)).status == 200
    lines = [(line["what"], line["result"]) for line in logs if "who" in line]
    without = "done without groups"
    assert lines == [("browser", without), ("code", without), ("cli", without)]


async def test_s22_each_sign_in_refusal_and_sign_out_is_one_line_without_a_token(
    server: Door, ada: Browser, there: TestIssuer
) -> None:
    with structlog.testing.capture_logs() as logs:
        token = await cli_token(server, ada)
        await ada.get(f"{server.url}/api/callback?state=forged&code=c0de")
        await ada.post(f"{server.url}/api/logout", headers=bearer(token))
    lines = [line for line in logs if "who" in line]
    told_of = [(line["event"], line["who"], line["result"]) for line in lines]
    assert told_of == [
        ("sign-in", f"{there.url}/ada", "done"),
        ("sign-in", "", "refused"),
        ("sign-out", f"{there.url}/ada", "done"),
    ]
    assert token not in repr(logs)
    assert "c0de" not in repr(logs)
