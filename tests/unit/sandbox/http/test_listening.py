"""Connections of clients that are slow or never say what they want."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from fairlead_sandbox import Sandbox
from fairlead_sandbox.http import listening, memory, server
from fairlead_sandbox.requests.info import RequestInfo


Pair = tuple[asyncio.StreamReader, asyncio.StreamWriter]
REQUEST = b"GET /version HTTP/1.1\r\nHost: sandbox\r\n\r\n"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "HEADER_SECONDS", 0.2)


def awaits_headers(sandbox: Sandbox) -> bool:
    """Whether the only connection will be cut unless a request's headers arrive."""
    assert sandbox._listener is not None
    (found,) = sandbox._listener._connections.connections
    assert isinstance(found, listening.ServedConnection)
    return found._headers_end is not None


@pytest.fixture
async def connection(sandbox: Sandbox) -> AsyncIterator[Pair]:
    host, _, port = sandbox.url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    yield reader, writer
    writer.close()


async def answer(reader: asyncio.StreamReader) -> bytes:
    """The head of an answer and its body."""
    head = await reader.readuntil(b"\r\n\r\n")
    size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    return head + await reader.readexactly(size)


async def is_cut(reader: asyncio.StreamReader) -> bool:
    async with asyncio.timeout(30):
        try:
            return await reader.read(1) == b""
        except ConnectionError:
            return True


@pytest.mark.usefixtures("impatient")
async def test_a_connection_without_a_request_is_cut(connection: Pair) -> None:
    assert await is_cut(connection[0])


@pytest.mark.usefixtures("impatient")
async def test_headers_that_never_end_are_cut(connection: Pair) -> None:
    reader, writer = connection
    cut = asyncio.ensure_future(is_cut(reader))
    writer.write(b"GET /version HTTP/1.1\r\n")
    while not cut.done():
        writer.write(b"a: b\r\n")
        await asyncio.sleep(0.01)
    assert await cut


async def test_headers_of_a_later_request_are_awaited_as_long(
    connection: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, writer = connection
    writer.write(REQUEST)
    assert (await answer(reader)).startswith(b"HTTP/1.1 200")
    monkeypatch.setattr(listening, "HEADER_SECONDS", 0.2)
    writer.write(REQUEST[:20])
    assert await is_cut(reader)


async def test_an_idle_connection_stays(connection: Pair, sandbox: Sandbox) -> None:
    reader, writer = connection
    writer.write(REQUEST)
    assert (await answer(reader)).startswith(b"HTTP/1.1 200")
    assert not awaits_headers(sandbox)


async def test_a_slow_answer_is_no_slow_request(connection: Pair, sandbox: Sandbox) -> None:
    reader, writer = connection
    seen: list[bool] = []
    apply = sandbox.faults.apply

    async def look(info: RequestInfo) -> None:
        await apply(info)
        seen.append(awaits_headers(sandbox))

    sandbox.faults.apply = look  # type: ignore[method-assign]
    writer.write(b"GET /api/v1/namespaces/default HTTP/1.1\r\nHost: sandbox\r\n\r\n")
    assert (await answer(reader)).startswith(b"HTTP/1.1 200")
    assert seen == [False]


async def test_a_body_that_never_ends_is_said(
    connection: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, writer = connection
    monkeypatch.setattr(server, "BODY_SECONDS", 0.2)
    writer.write(
        b"POST /api/v1/namespaces HTTP/1.1\r\nHost: sandbox\r\nContent-Length: 100\r\n\r\n{"
    )
    found = await answer(reader)
    assert found.startswith(b"HTTP/1.1 504")
    assert b"Timeout: request did not complete within requested timeout 0.2s" in found


async def test_nothing_is_kept_of_a_connection_that_was_closed(
    connection: Pair, sandbox: Sandbox
) -> None:
    """Of TLS connections there is a quarter of a MiB each."""
    reader, writer = connection
    writer.write(REQUEST)
    await answer(reader)
    assert len(sandbox.faults._connections) == 1
    writer.close()
    async with asyncio.timeout(30):
        while sandbox.faults._connections:  # noqa: ASYNC110  nothing tells of it
            await asyncio.sleep(0.01)


async def test_memory_is_given_back_when_many_connections_have_come_and_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trims: asyncio.Queue[None] = asyncio.Queue()
    monkeypatch.setattr(memory, "give_back", lambda: trims.put_nowait(None))
    monkeypatch.setattr(memory, "MANY", 10)
    monkeypatch.setattr(memory, "QUIET_SECONDS", 0.05)
    async with Sandbox(tls=False, rbac=False) as sandbox:
        host, _, port = sandbox.url.removeprefix("http://").partition(":")
        for _ in range(2):
            opened = [await asyncio.open_connection(host, int(port)) for _ in range(5)]
            for _, writer in opened:
                writer.close()
            await asyncio.wait_for(trims.get(), 30)
