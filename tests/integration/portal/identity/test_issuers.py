"""An issuer as the server's client asks it, over loopback."""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiohttp
import pytest
from aiohttp import web
from tests.integration.portal.identity.conftest import ended, until
from tests.support.issuers import (
    CLIENT_ID,
    CLIENT_SECRET,
    TestIssuer,
    new_key,
    unsigned,
)
from tests.support.pki import Authority

from fairlead.portal import bounds
from fairlead.portal.http.errors import Refusal
from fairlead.portal.identity.oidc.issuers import (
    Answered,
    Issuer,
    IssuerAway,
    OverHTTP,
)
from fairlead.portal.identity.sessions import Person
from fairlead.runtime import BackoffPolicy, delays


CALLBACK = "http://127.0.0.1:9/api/callback"
VERIFIER = "v" * 43


def client_of(there: TestIssuer, issuing: OverHTTP, secret: str = "") -> Issuer:
    return Issuer(
        there.url,
        client_id=CLIENT_ID,
        client_secret=secret,
        callback=CALLBACK,
        issuing=issuing,
    )


async def sign_in(issuer: Issuer, *, tls: ssl.SSLContext | None = None, **more: Any) -> Person:
    """What a browser and the callback do."""
    begun = time.time()
    url = issuer.authorization_url(state="s" * 43, nonce="n" * 43, verifier=VERIFIER)
    connector = aiohttp.TCPConnector(ssl=tls or True)
    async with (
        aiohttp.ClientSession(connector=connector) as browser,
        browser.get(url, allow_redirects=False) as answer,
    ):
        query = parse_qs(urlsplit(answer.headers["Location"]).query)
    known: dict[str, Any] = {"verifier": VERIFIER, "nonce": "n" * 43, "begun": begun} | more
    return await issuer.person(query["code"][0], **known)


async def refused(asked: Awaitable[object]) -> Refusal:
    with pytest.raises(Refusal) as found:
        await asked
    return found.value


@pytest.mark.parametrize(
    ("secret", "methods"),
    [
        ("", ["none"]),
        (CLIENT_SECRET, None),
        (CLIENT_SECRET, ["client_secret_post", "client_secret_basic"]),
        (CLIENT_SECRET, ["client_secret_post"]),
    ],
)
async def test_public_and_confidential_clients_sign_people_in(
    secret: str, methods: list[str] | None
) -> None:
    issuing = OverHTTP()
    async with TestIssuer(CALLBACK, secret=secret) as there:
        if methods:
            there.discovery["token_endpoint_auth_methods_supported"] = methods
        issuer = client_of(there, issuing, secret)
        await issuer.discover()
        assert await sign_in(issuer) == Person(there.url, "ada", "", ("team-a",))
        if secret:
            wrong = client_of(there, issuing, "wrong")
            await wrong.discover()
            answer = await refused(sign_in(wrong))
            assert answer.status == 500
            assert "invalid_client" in answer.reason
            assert "wrong" not in answer.message
    await issuing.close()


async def test_s19_a_ca_of_ones_own_is_trusted_and_another_is_not() -> None:
    authority, other = Authority.create("of the issuer"), Authority.create("other")
    pair = authority.issue("issuer")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with _pem(pair.certificate + pair.key) as path:
        tls.load_cert_chain(path)
    trusting, strange = OverHTTP(authority.pem), OverHTTP(other.pem)
    async with TestIssuer(CALLBACK, tls=tls) as there:
        issuer = client_of(there, trusting)
        await issuer.discover()
        browser = ssl.create_default_context(cadata=authority.pem.decode())
        assert (await sign_in(issuer, tls=browser)).subject == "ada"
        both = "of the issuer has issued it, while this client trusts other: check --oidc-ca-file"
        with pytest.raises(IssuerAway, match=both):
            await client_of(there, strange).discover()
    await trusting.close()
    await strange.close()
    with pytest.raises(ValueError, match="holds no certificate in PEM"):
        OverHTTP(b"nonsense")


def _pem(content: bytes) -> Any:
    import contextlib
    import tempfile

    @contextlib.contextmanager
    def file() -> Any:
        with tempfile.NamedTemporaryFile() as found:
            found.write(content)
            found.flush()
            yield found.name

    return file()


def _wrong(name: str, value: object) -> Callable[[TestIssuer], None]:
    def lie(there: TestIssuer) -> None:
        there.lie = lambda claims: claims.update({name: value})

    return lie


def _off(seconds: float) -> Callable[[TestIssuer], None]:
    def lie(there: TestIssuer) -> None:
        def move(claims: dict[str, Any]) -> None:
            claims.update({name: claims[name] + seconds for name in ("iat", "exp")})

        there.lie = move

    return lie


def _unknown_key(there: TestIssuer) -> None:
    there.key = new_key(kid="never published")


def _forged_key(there: TestIssuer) -> None:
    there.key = new_key(kid="one")


def _none(there: TestIssuer) -> None:
    there.make = unsigned


@pytest.mark.parametrize(
    "lie",
    [
        pytest.param(_wrong("iss", "https://evil.example"), id="iss"),
        pytest.param(_wrong("aud", "another"), id="aud"),
        pytest.param(_wrong("nonce", "another"), id="nonce"),
        pytest.param(_wrong("at_hash", "another"), id="at-hash"),
        pytest.param(_off(600), id="clock-ahead"),
        pytest.param(_off(-600), id="clock-behind"),
        pytest.param(_unknown_key, id="unknown-key"),
        pytest.param(_forged_key, id="forged-key"),
        pytest.param(_none, id="alg-none"),
    ],
)
async def test_s5_an_issuer_that_lies_signs_no_one_in(lie: Callable[[TestIssuer], None]) -> None:
    issuing = OverHTTP()
    async with TestIssuer(CALLBACK) as there:
        issuer = client_of(there, issuing)
        await issuer.discover()
        lie(there)
        answer = await refused(sign_in(issuer))
    assert answer.status == 401
    assert answer.reason
    await issuing.close()


async def test_groups_of_a_wrong_type_are_told_to_the_person() -> None:
    issuing = OverHTTP()
    async with TestIssuer(CALLBACK) as there:
        issuer = client_of(there, issuing)
        await issuer.discover()
        there.who["groups"] = 7
        answer = await refused(sign_in(issuer))
    assert answer.message.startswith("the issuer's claim groups is no list of names")
    await issuing.close()


async def test_keys_that_were_rotated_are_fetched_but_not_for_each_token(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    issuing = OverHTTP()
    async with TestIssuer(CALLBACK) as there:
        issuer = client_of(there, issuing)
        await issuer.discover()
        there.key = new_key(kid="two")
        there.published = [there.key]
        # Just fetched: too early to ask again.
        assert (await refused(sign_in(issuer))).status == 401
        assert there.asked.count("/keys") == 1
        monkeypatch.setattr(bounds, "KEY_ID_SECONDS", 0.0)
        assert (await sign_in(issuer)).subject == "ada"
        monkeypatch.undo()
        there.key = new_key(kid="three")
        answers = await asyncio.gather(*(refused(sign_in(issuer)) for _ in range(10)))
        assert {answer.status for answer in answers} == {401}
        assert there.asked.count("/keys") == 2
        # The former key is not taken any more, once the issuer does not publish it.
        monkeypatch.setattr(bounds, "ISSUER_SECONDS", 0.0)
        monkeypatch.setattr(bounds, "KEY_ID_SECONDS", 0.0)
        there.key, there.published = there.published[0], [new_key(kid="four")]
        assert (await refused(sign_in(issuer))).status == 401
    await issuing.close()


async def test_an_issuer_that_is_down_at_the_start_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(delays, "ISSUER_AWAY", BackoffPolicy(initial=0.01, maximum=0.05))
    issuing = OverHTTP()
    there = TestIssuer(CALLBACK)
    await there.start()
    issuer = client_of(there, issuing)
    await there.stop()
    task = asyncio.create_task(issuer.run())
    try:
        await until(lambda: "asked" not in issuer.fault())
        with pytest.raises(Refusal) as found:
            issuer.authorization_url(state="s", nonce="n", verifier=VERIFIER)
        assert found.value.status == 503
        assert found.value.retry_after
        await there.start()
        await until(lambda: not issuer.fault())
        assert (await sign_in(issuer)).subject == "ada"
        await there.stop()
        answer = await refused(
            issuer.person("code", verifier=VERIFIER, nonce="n", begun=time.time())
        )
        assert answer.status == 503
    finally:
        await ended([task])
        await there.stop()
        await issuing.close()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"issuer": "https://evil.example"}, "names the issuer"),
        ({"issuer": None}, "cannot be read"),
        ({"token_endpoint": "http://evil.example/token"}, "has to be https"),
        ({"jwks_uri": "file:///etc/passwd"}, "has to be an https address"),
        ({"authorization_endpoint": "javascript:alert(1)"}, "has to be an https address"),
        ({"authorization_endpoint": "http://u:p@127.0.0.1/"}, "may have no user"),
        ({"authorization_endpoint": "http://127.0.0.1:9/a\r\nSet-Cookie: a=b"}, "printable"),
        ({"authorization_endpoint": "http://127.0.0.1:9/\u00e4"}, "printable"),
        ({"token_endpoint": "http://127.0.0.1:9/a b"}, "printable"),
        ({"code_challenge_methods_supported": ["plain"]}, "PKCE"),
    ],
)
async def test_a_discovery_of_another_issuer_or_of_unsafe_places_is_refused(
    wrong: dict[str, Any], said: str
) -> None:
    issuing = OverHTTP()
    async with TestIssuer(CALLBACK) as there:
        there.discovery = wrong
        issuer = client_of(there, issuing)
        with pytest.raises(IssuerAway, match=said):
            await issuer.discover()
        assert said in issuer.fault()
    await issuing.close()


async def test_an_issuer_elsewhere_leads_to_no_program_of_this_machine() -> None:
    there = "https://issuer.example"
    found = {
        "issuer": there,
        "authorization_endpoint": f"{there}/authorize",
        "token_endpoint": "http://127.0.0.1:6379/",
        "jwks_uri": f"{there}/keys",
    }

    class Lying(OverHTTP):
        async def ask(
            self, url: str, form: Mapping[str, str] | None = None, **headers: str
        ) -> Answered:
            return Answered(200, json.dumps(found).encode())

    issuer = Issuer(there, client_id=CLIENT_ID, callback=CALLBACK, issuing=Lying())
    with pytest.raises(IssuerAway, match="has to be https"):
        await issuer.discover()


async def test_keys_of_any_type_leave_the_server_at_work() -> None:
    issuing = OverHTTP()
    async with TestIssuer(CALLBACK) as there:
        good = there.key.as_dict(private=False)
        there.keys = json.dumps({"keys": [good | {"use": []}, good | {"kty": {}}]}).encode()
        issuer = client_of(there, issuing)
        task = asyncio.create_task(issuer.run())
        try:
            await until(lambda: task.done() or "no key of an accepted algorithm" in issuer.fault())
            assert not task.done(), "it is tried again"
            there.keys = b""
            await issuer.discover()
            assert (await sign_in(issuer)).subject == "ada"
        finally:
            await ended([task])
    await issuing.close()


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (web.Response(status=400, body=b'{"error":"invalid_grant"}'), 400),
        (web.Response(status=401, body=b'{"error":"invalid_client"}'), 500),
        (web.Response(status=500, body=b"<html>"), 503),
        (web.Response(status=302, headers={"Location": "http://127.0.0.1:9/"}), 500),
        (web.Response(body=b"{}"), 401),
        (web.Response(body=b"<html>"), 401),
        (web.Response(body=b'{"id_token":"\xff"}'), 401),
        (web.Response(status=400, body=b'{"error":"\xff"}'), 500),
        (web.Response(body=b"[" * 100_000), 401),
        (web.Response(body=b'{"id_token":"a.b.c","token_type":"mac"}'), 401),
        (web.Response(body=b" " * (bounds.ISSUER_BYTES + 1)), 503),
    ],
)
async def test_any_other_answer_of_the_token_endpoint_is_refused(
    answer: web.Response, status: int
) -> None:
    issuing = OverHTTP()
    async with TestIssuer(CALLBACK) as there:
        issuer = client_of(there, issuing)
        await issuer.discover()
        there.token_answer = answer
        assert (await refused(sign_in(issuer))).status == status
    await issuing.close()


async def test_a_slow_issuer_is_given_up() -> None:
    issuing = OverHTTP(seconds=0.2)
    async with TestIssuer(CALLBACK) as there:
        issuer = client_of(there, issuing)
        await issuer.discover()
        there.hold = asyncio.Event()
        code = issuer.person("code", verifier=VERIFIER, nonce="n", begun=time.time())
        assert (await refused(code)).status == 503
        with pytest.raises(IssuerAway, match=r"no answer in 0\.2 s"):
            await issuer.discover()
        there.hold.set()
    await issuing.close()


async def test_s17_a_slow_issuer_holds_up_a_part_of_the_server_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bounds, "EXCHANGES_AT_ONCE", 2)
    issuing = OverHTTP()
    async with TestIssuer(CALLBACK) as there:
        issuer = client_of(there, issuing)
        await issuer.discover()
        there.hold, before = asyncio.Event(), len(there.asked)
        known: dict[str, Any] = {"verifier": VERIFIER, "nonce": "n", "begun": time.time()}
        held = [asyncio.create_task(issuer.person("forged", **known)) for _ in range(2)]
        await until(lambda: len(there.asked) == before + 2)
        answer = await refused(issuer.person("forged", **known))
        assert answer.status == 503
        assert answer.retry_after
        there.hold.set()
        for one in held:
            assert (await refused(one)).status == 400
        there.hold = None
        assert (await sign_in(issuer)).subject == "ada"
    await issuing.close()


async def test_a_callback_that_names_another_issuer_is_refused() -> None:
    issuing = OverHTTP()
    async with TestIssuer(CALLBACK) as there:
        there.discovery["authorization_response_iss_parameter_supported"] = True
        issuer = client_of(there, issuing)
        await issuer.discover()
        assert (await refused(sign_in(issuer, iss="https://evil.example"))).status == 401
        assert (await refused(sign_in(issuer))).status == 401
        assert (await sign_in(issuer, iss=there.url)).subject == "ada"
    await issuing.close()


@pytest.mark.parametrize(
    "url",
    ["http://issuer.example", "issuer.example", "https://u@issuer.example", "https://i/?q=1"],
)
async def test_an_issuer_at_no_safe_address_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="--oidc-issuer-url"):
        Issuer(url, client_id=CLIENT_ID, callback=CALLBACK, issuing=OverHTTP())
