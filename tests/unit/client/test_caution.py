"""Servers that strangers have named: where they may be, and how much they may say."""

from __future__ import annotations

import gzip
from collections.abc import Callable

import pytest
from aiohttp import web
from structlog.testing import capture_logs
from tests.support.fakeserver import FakeServer, chunks, failure

from fairlead.api.resource import CONFIGMAPS
from fairlead.client import (
    AnswerTooLarge,
    Caution,
    Client,
    ClusterConfig,
    ConnectionFailed,
    Forbidden,
    RetryPolicy,
)


ALL = "/api/v1/configmaps"
WORDS = "words-of-another-server"


def anywhere(_address: str) -> str:
    return ""


def careful(
    server: FakeServer, refused: Callable[[str], str] = anywhere, most: int = 1000
) -> Client:
    caution = Caution(refused=refused, most_bytes=most)
    config = ClusterConfig(server.url.replace("127.0.0.1", "localhost"))
    return Client(config, caution=caution, retries=RetryPolicy(attempts=1))


async def test_no_connection_is_made_to_an_address_that_is_refused(server: FakeServer) -> None:
    asked: list[str] = []

    def refused(address: str) -> str:
        asked.append(address)
        return "it is this machine"

    async with careful(server, refused) as client:
        with pytest.raises(ConnectionFailed, match="it is this machine"):
            await client.list(CONFIGMAPS)
    assert server.seen == []
    assert set(asked) <= {"127.0.0.1", "::1"}
    assert asked


async def test_all_answers_together_are_bounded(server: FakeServer) -> None:
    page = b'{"metadata":{"continue":"more"},"items":[],"padding":"' + b"x" * 300 + b'"}'
    server.on(ALL, *[chunks(page)] * 9, chunks(b'{"metadata":{},"items":[]}'))
    async with careful(server) as client:
        with pytest.raises(AnswerTooLarge, match="the limit for this server"):
            await client.list(CONFIGMAPS)
    assert len(server.seen) == 3


async def test_a_refusal_is_bounded_too(server: FakeServer) -> None:
    server.on(ALL, failure(403, "Forbidden", "x" * 2000))
    async with careful(server) as client:
        with pytest.raises(AnswerTooLarge, match="the limit for this server"):
            await client.list(CONFIGMAPS)


async def test_a_watch_is_bounded_too(server: FakeServer) -> None:
    server.on(ALL, chunks(*[b" " * 100] * 20))
    async with careful(server) as client:
        with pytest.raises(AnswerTooLarge, match="the limit for this server"):
            async for _ in client.watch(CONFIGMAPS, resource_version="1"):
                pass


async def test_what_is_unpacked_counts(server: FakeServer) -> None:
    packed = gzip.compress(b" " * (1 << 22) + b"{}")

    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(body=packed, headers={"Content-Encoding": "gzip"})

    server.on(ALL, answer)
    async with careful(server, most=len(packed)) as client:
        with pytest.raises(AnswerTooLarge, match="the limit for this server"):
            await client.list(CONFIGMAPS)


async def test_none_of_its_words_are_repeated_or_logged(server: FakeServer) -> None:
    server.on(ALL, failure(403, "Forbidden", WORDS, Warning=f'299 - "{WORDS}"'))
    async with careful(server) as client:
        with capture_logs() as lines, pytest.raises(Forbidden) as refused:
            await client.list(CONFIGMAPS)
    assert str(refused.value) == f"GET {ALL}: 403 Forbidden"
    assert refused.value.server == client.config.server
    assert WORDS not in str(lines)
