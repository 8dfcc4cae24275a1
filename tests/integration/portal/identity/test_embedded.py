"""The embedded issuer, as browsers and clients meet it."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator
from html import unescape
from urllib.parse import urlencode

import aiohttp
import pytest
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

from fairlead.portal.http.errors import Refusal
from fairlead.portal.identity.embedded import issuer as module
from fairlead.portal.identity.embedded.issuer import EmbeddedIssuer
from fairlead.portal.identity.embedded.passwords import EmbeddedPerson, PasswordHash
from fairlead.portal.identity.sessions import Person
from fairlead.portal.options import ExternalURL


LINE = PasswordHash.of("correct horse", cost=1 << 14).line
PEOPLE = [
    EmbeddedPerson("ada", LINE, subject="u-1", email="ada@example.org", groups=("team-a",)),
    EmbeddedPerson("b<o>b", LINE),
]


def embedded(external: ExternalURL) -> EmbeddedIssuer:
    return EmbeddedIssuer(external, PEOPLE)


@pytest.fixture
async def server() -> AsyncIterator[Door]:
    async with door(embedded, MemoryStore()) as server:
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
    action = re.search(r'action="([^"]+)"', text)
    assert action
    form = dict(re.findall(r'type="hidden" name="([^"]+)" value="([^"]*)"', text))
    form |= {"name": name, "password": password}
    return await someone.post(server.url + unescape(action[1]), data=form, headers=headers)


def ask(server: Door, **more: str) -> str:
    known = {"state": "st", "code_challenge": CHALLENGE}
    return f"{server.url}/oidc/authorize?{urlencode(known | more)}"


async def code_of(server: Door, someone: Browser) -> str:
    page = await someone.get(ask(server))
    return told(await fill_in(server, someone, page))["code"]


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


@pytest.mark.parametrize(
    ("password", "status"), [("x" * 4096, 401), ("x" * 4097, 400), ("x" * 200_000, 413)]
)
async def test_a_password_of_any_size_is_checked_or_refused(
    server: Door, ada: Browser, password: str, status: int
) -> None:
    """The bounds of a form's field and of its body stop it before it is hashed."""
    page = await ada.get(ask(server))
    assert (await fill_in(server, ada, page, password=password)).status == status


async def test_s15_each_page_says_what_it_is_and_holds_no_script(
    server: Door, ada: Browser
) -> None:
    form = await ada.get(ask(server))
    wrong = await fill_in(server, ada, form, password="<script>")
    stranger = await ada.get(ask(server, code_challenge="<script>"))
    broken = await ada.post(f"{server.url}/oidc/authorize", data={"state": "<script>"})
    statuses = [page.status for page in (form, wrong, stranger, broken)]
    assert statuses == [200, 401, 400, 400]
    for page in (form, wrong, stranger, broken):
        text = await page.text()
        assert "It must not guard anything that matters." in text
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
    assert (await ada.post(f"{server.url}/oidc/authorize")).status == 403


@pytest.mark.parametrize(
    "more", [{"code_challenge": ""}, {"code_challenge": "short"}, {"state": ""}]
)
async def test_a_form_is_only_for_a_sign_in_that_was_begun(
    server: Door, ada: Browser, more: dict[str, str]
) -> None:
    assert (await ada.get(ask(server, **more))).status == 400


async def redeemed(server: Door, code: str, verifier: str = VERIFIER) -> int:
    """The status of redeeming a code, 200 for a person."""
    try:
        person = await server.issuer.person(code, verifier=verifier, nonce="", begun=0.0)
    except Refusal as refusal:
        return refusal.status
    assert person == Person(f"{server.url}/oidc", "u-1", "ada", ("team-a",))
    return 200


async def test_a_code_is_redeemed_once_by_its_verifier(
    server: Door, ada: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, other, late = [await code_of(server, ada) for _ in range(3)]
    assert [await redeemed(server, code) for _ in range(2)] == [200, 400]
    assert await redeemed(server, other, "x" * 43) == 400
    assert await redeemed(server, other) == 400
    assert await redeemed(server, "forged") == 400
    later = time.time() + 61
    monkeypatch.setattr(time, "time", lambda: later)
    assert await redeemed(server, late) == 400


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
    assert (await ada.post(url, data={})).status == 400
    assert (await ada.post(url, json={})).status == 415


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
    body = f"state=st&code_challenge={CHALLENGE}&name=\\ud800&password=\\ud800".encode()
    odd = {"Content-Type": f"application/x-www-form-urlencoded; charset={charset}"}
    assert (await ada.post(f"{server.url}/oidc/authorize", data=body, headers=odd)).status == 415
