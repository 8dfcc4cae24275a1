"""Servers that refuse, lie, send too much or nothing: one honest error each."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import pytest
from aiohttp import web
from tests.support.fakeserver import FakeServer
from tests.support.frontdoor import TOKEN, FrontDoor, error
from tests.support.pki import Authority

from fairlead.portal import bounds
from fairlead.portal.client.addresses import (
    Address,
    FrontDoorError,
    Refused,
    SignInNeeded,
    StrangeAnswer,
    Unreachable,
)
from fairlead.portal.client.backend import BackendClient, Trust


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def answering(status: int, body: str, kind: str = "application/json", **headers: str) -> Handler:
    async def handler(_request: web.Request) -> web.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(status=status, text=body, content_type=kind, headers=named)

    return handler


async def forbidden(_request: web.Request) -> web.Response:
    return error(403, "AUTHORIZATION_FAILED", "not for you", "request 7")


async def endless(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    try:
        while True:
            await response.write(b" " * 65536)
    except ConnectionError:
        return response


async def half(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Length": "100"})
    await response.prepare(request)
    await response.write(b'{"items"')
    assert request.transport is not None
    request.transport.close()
    return response


@pytest.mark.parametrize(
    ("handler", "kind", "message"),
    [
        pytest.param(forbidden, Refused, "answers 403: not for you (request 7)", id="403"),
        pytest.param(answering(401, "{}"), SignInNeeded, "fairlead login http", id="401"),
        pytest.param(answering(401, "no"), SignInNeeded, "does not know you", id="401-text"),
        pytest.param(
            answering(429, '{"message":"slow down"}', Retry_After="7"),
            Refused,
            "slow down; try again in 7 s",
            id="429",
        ),
        pytest.param(
            answering(500, "<html>", "text/html"), Refused, "not a front door", id="500-page"
        ),
        pytest.param(answering(404, '{"message": 7}'), Refused, "answers 404", id="404"),
        pytest.param(
            answering(200, "<html>", "text/html"), StrangeAnswer, "is not JSON", id="page"
        ),
        pytest.param(answering(200, "[" * 100_000), StrangeAnswer, "is not JSON", id="nested"),
        pytest.param(answering(200, "[]"), StrangeAnswer, "is no list", id="array"),
        pytest.param(answering(200, '{"items": 7}'), StrangeAnswer, "is no list", id="items"),
        pytest.param(
            answering(200, '{"items": [{"metadata": null}]}'),
            StrangeAnswer,
            "no metadata",
            id="one",
        ),
        pytest.param(
            answering(302, "", Location="/x"), StrangeAnswer, "redirects (302)", id="302"
        ),
        pytest.param(
            answering(302, "", Location="http://[x"),
            StrangeAnswer,
            "an invalid address",
            id="302-nowhere",
        ),
        pytest.param(endless, StrangeAnswer, "is larger than", id="endless"),
        pytest.param(half, Unreachable, "broke", id="half"),
    ],
)
async def test_an_answer_that_is_none_is_told(
    handler: Handler, kind: type[FrontDoorError], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "ANSWER_BYTES", 1 << 20)
    async with FrontDoor() as door:
        door.answers["/api/templates"] = handler
        async with BackendClient(Address(door.url), token=TOKEN) as client:
            with pytest.raises(kind) as refused:
                await client.templates()
    assert message in str(refused.value)
    assert TOKEN not in str(refused.value)
    assert "\n" not in str(refused.value)


async def test_no_items_are_no_templates() -> None:
    async with FrontDoor() as door, BackendClient(Address(door.url), token=TOKEN) as client:
        door.answers["/api/templates"] = answering(200, '{"items": null}')
        assert await client.templates() == []


async def test_silence_ends() -> None:
    async def silent(_request: web.Request) -> web.Response:
        await asyncio.Event().wait()
        raise AssertionError

    async with FrontDoor() as door:
        door.answers["/api/ping"] = silent
        async with BackendClient(Address(door.url), seconds=0.2) as client:
            with pytest.raises(Unreachable, match=r"did not answer within 0.2 s"):
                await client.ping()


async def test_a_server_that_is_not_there_is_told() -> None:
    async with FrontDoor() as door:
        url = door.url
    async with BackendClient(Address(url)) as client:
        with pytest.raises(Unreachable, match="connection refused"):
            await client.provider()


async def test_a_proxy_of_the_environment_is_not_asked_for_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    async with FrontDoor() as door, BackendClient(Address(door.url), token=TOKEN) as client:
        await client.ping()


def test_an_authority_that_is_none_is_told() -> None:
    with pytest.raises(FrontDoorError, match="--server-ca-file holds no certificate"):
        BackendClient(Address("https://a.example"), trust=Trust(b"x"))


async def test_the_issuer_of_a_certificate_is_named_beside_the_authority(tmp_path: Path) -> None:
    pair = Authority.create("of the door").issue("door")
    (tmp_path / "both").write_bytes(pair.certificate + pair.key)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "both")
    async with (
        FakeServer(tls=tls) as server,
        BackendClient(
            Address(server.url), token=TOKEN, trust=Trust(Authority.create("other").pem)
        ) as client,
    ):
        both = (
            "; of the door has issued it, while this client trusts other: check --server-ca-file"
        )
        with pytest.raises(Unreachable, match=both):
            await client.ping()
        assert not server.seen


async def test_a_certificate_that_has_expired_is_no_matter_of_the_authority(
    tmp_path: Path,
) -> None:
    authority = Authority.create()
    pair = authority.issue("door", shift=timedelta(days=-2))
    (tmp_path / "both").write_bytes(pair.certificate + pair.key)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "both")
    async with (
        FakeServer(tls=tls) as server,
        BackendClient(Address(server.url), trust=Trust(authority.pem)) as client,
    ):
        with pytest.raises(Unreachable, match="has expired by the clock of this machine") as told:
            await client.ping()
    assert "--server-ca-file" not in str(told.value)
