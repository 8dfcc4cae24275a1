"""Answers of servers that nobody vouches for: how much of them is read, and held in memory."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator

import msgspec
import pytest
from aiohttp import web
from tests.support.fakeserver import Answer, FakeServer, chunks, failure, respond
from tests.support.oversized import BOMB, MIB, explode, never_end

from fairlead.api.resource import CONFIGMAPS
from fairlead.client import (
    AnswerTooLarge,
    Bounds,
    Client,
    ClusterConfig,
    Forbidden,
    ObjectList,
    RetryPolicy,
    limits,
)
from fairlead.client.wire import Page


ALL = "/api/v1/configmaps"
ONE = "/api/v1/namespaces/default/configmaps/one"


def client_of(
    server: FakeServer, *, answer: int = MIB, event: int = MIB, objects: int = 8 * MIB
) -> Client:
    bounds = Bounds(answer, event, objects)
    return Client(ClusterConfig(server.url), bounds=bounds, retries=RetryPolicy(attempts=1))


@pytest.fixture
def memory() -> Iterator[None]:
    """Fail if Python held more than 32 MiB at any moment of the test."""
    tracemalloc.start()
    try:
        yield
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 32 * MIB


async def read_watch(client: Client) -> None:
    async for _ in client.watch(CONFIGMAPS, resource_version="1"):
        pass


async def read_list(client: Client) -> None:
    await client.list(CONFIGMAPS)


async def read_object(client: Client) -> None:
    await client.get(CONFIGMAPS, "one", "default")


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize("answer", [explode, never_end], ids=["bomb", "endless"])
@pytest.mark.parametrize(
    ("read", "bound"),
    [(read_list, "answer"), (read_object, "answer"), (read_watch, "event")],
    ids=["list", "object", "watch"],
)
async def test_an_answer_that_is_too_large_is_not_read_on(
    server: FakeServer, answer: Answer, read: object, bound: str
) -> None:
    server.on(ALL, answer).on(ONE, answer)
    async with client_of(server) as client:
        with pytest.raises(AnswerTooLarge, match="larger than 1 MiB") as refused:
            await read(client)  # type: ignore[operator]
    assert (refused.value.bound, refused.value.limit) == (bound, MIB)
    assert refused.value.server == server.url
    assert client.intake.refused[bound] >= 1  # type: ignore[index]


@pytest.mark.usefixtures("memory")
async def test_a_refusal_is_bounded_too(server: FakeServer) -> None:
    async def refuse(request: web.Request) -> web.StreamResponse:
        return web.Response(status=403, body=BOMB, headers={"Content-Encoding": "gzip"})

    server.on(ONE, refuse)
    async with client_of(server) as client:
        with pytest.raises(AnswerTooLarge):
            await client.get(CONFIGMAPS, "one", "default")


async def test_the_text_of_a_refusal_is_cut(server: FakeServer) -> None:
    server.on(ONE, failure(403, "Forbidden", "x" * 10_000))
    async with client_of(server) as client:
        with pytest.raises(Forbidden) as refused:
            await client.get(CONFIGMAPS, "one", "default")
    assert str(refused.value) == "x" * 4096


async def test_a_server_that_the_user_has_named_has_no_bounds(server: FakeServer) -> None:
    body = b'{"kind":"ConfigMap","metadata":{"name":"one"}' + b" " * (2 * MIB) + b"}"
    server.on(ONE, chunks(body))
    config = ClusterConfig(server.url, trusted=True)
    async with Client(config, bounds=Bounds(answer=MIB)) as client:
        assert (await client.get(CONFIGMAPS, "one", "default")).meta.name == "one"


async def test_packed_answers_are_read(server: FakeServer) -> None:
    body = b'{"kind":"ConfigMap","metadata":{"name":"one"}' + b" " * (MIB // 2) + b"}"

    async def packed(request: web.Request) -> web.StreamResponse:
        return web.Response(body=gzip.compress(body), headers={"Content-Encoding": "gzip"})

    server.on(ONE, packed)
    async with client_of(server) as client:
        assert (await client.get(CONFIGMAPS, "one", "default")).raw == body


def item(number: int, **metadata: object) -> dict[str, object]:
    return {"metadata": {"name": f"name-{number:06}", **metadata}}


def pages(size: int, number: int) -> Answer:
    """Pages of as many objects as are asked for, of so many bytes each."""

    async def answer(request: web.Request) -> web.StreamResponse:
        first = int(request.query.get("continue", "0"))
        last = min(first + int(request.query["limit"]), number)
        items = [item(one, annotations={"x": "x" * size}) for one in range(first, last)]
        metadata = {"resourceVersion": "7"} | ({"continue": str(last)} if last < number else {})
        return web.json_response({"metadata": metadata, "items": items})

    return answer


async def test_a_page_that_is_too_large_is_requested_with_fewer_objects(
    server: FakeServer,
) -> None:
    server.on(ALL, pages(20_000, 200))
    async with client_of(server) as client:
        listed = await client.list(CONFIGMAPS)
        assert [one.meta.name for one in listed.items] == [f"name-{n:06}" for n in range(200)]
        assert client.intake.noted is None
    # 62 objects of 20 kB are too many for 1 MiB, 7 are not.
    limits = [seen.query["limit"] for seen in server.seen]
    assert limits == ["500", "62", *["7"] * 29]


@pytest.mark.parametrize(
    "read",
    [
        pytest.param(lambda client: client.list(CONFIGMAPS), id="list"),
        pytest.param(lambda client: client.page(CONFIGMAPS, limit=500), id="page"),
    ],
)
async def test_a_trusted_server_is_asked_for_fewer_objects_where_a_page_is_large(
    server: FakeServer,
    monkeypatch: pytest.MonkeyPatch,
    read: Callable[[Client], Awaitable[ObjectList | Page]],
) -> None:
    monkeypatch.setattr(limits, "PAGE_BYTES", MIB)
    server.on(ALL, pages(200_000, 6))
    async with Client(ClusterConfig(server.url, trusted=True)) as client:
        listed = await read(client)
    expected = 6 if isinstance(listed, ObjectList) else 1
    assert [one.meta.name for one in listed.items] == [f"name-{n:06}" for n in range(expected)]
    # Six objects of 200 kB are too many for 1 MiB, one alone has no bound.
    assert [seen.query["limit"] for seen in server.seen][:4] == ["500", "62", "7", "1"]


async def test_an_object_of_a_trusted_server_has_no_bound(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "PAGE_BYTES", MIB)
    server.on(ALL, pages(2 * MIB, 3))
    async with Client(ClusterConfig(server.url, trusted=True)) as client:
        assert len((await client.list(CONFIGMAPS)).items) == 3


async def test_an_object_that_is_larger_than_an_answer_may_be_is_told(server: FakeServer) -> None:
    server.on(ALL, pages(2 * MIB, 3))
    async with client_of(server) as client:
        with pytest.raises(AnswerTooLarge):
            await client.list(CONFIGMAPS)
        assert isinstance(client.intake.noted, AnswerTooLarge)
    assert [seen.query["limit"] for seen in server.seen] == ["500", "62", "7", "1"]


@pytest.mark.parametrize(
    ("size", "taken"),
    [
        pytest.param(10_000, 8 * MIB // 10_000, id="large-objects"),
        pytest.param(1, 8 * MIB // limits.OBJECT_BYTES, id="small-objects"),
    ],
)
async def test_a_list_is_bounded_in_all(server: FakeServer, size: int, taken: int) -> None:
    server.on(ALL, pages(size, 1_000_000))
    async with client_of(server, answer=8 * MIB) as client:
        with pytest.raises(
            AnswerTooLarge, match="its objects together are larger than 8 MiB"
        ) as refused:
            await client.list(CONFIGMAPS)
        # What was counted for the list goes with it.
        server.on(ONE, respond({"kind": "ConfigMap", "metadata": {"name": "one"}}))
        assert client.intake.refused == {"objects": 1}
    assert refused.value.bound == "objects"
    assert len(server.seen) * 500 <= taken + 1000


async def test_empty_pages_come_to_an_end(server: FakeServer) -> None:
    server.on(ALL, respond({"metadata": {"continue": "more"}, "items": []}))
    async with client_of(server, objects=10 * limits.OBJECT_BYTES) as client:
        with pytest.raises(AnswerTooLarge):
            await client.list(CONFIGMAPS)
    assert len(server.seen) == 11


async def test_lists_at_the_same_time_count_together(server: FakeServer) -> None:
    go = asyncio.Event()
    served = pages(1, 100)

    async def slow(request: web.Request) -> web.StreamResponse:
        if "continue" in request.query:
            await go.wait()
        return await served(request)

    server.on(ALL, slow)
    # An object counts with its JSON of about 60 bytes and one annotation.
    room = 250 * (limits.OBJECT_BYTES + limits.ENTRY_BYTES + 100)
    async with client_of(server, objects=room) as client:
        lists = [asyncio.create_task(client.list(CONFIGMAPS, limit=90)) for _ in range(3)]
        done, waiting = await asyncio.wait(lists, return_when=asyncio.FIRST_EXCEPTION)
        assert [type(one.exception()) for one in done] == [AnswerTooLarge]
        go.set()
        assert [len(listed.items) for listed in await asyncio.gather(*waiting)] == [100, 100]
        # All that was counted is given back.
        assert len((await client.list(CONFIGMAPS, limit=90)).items) == 100


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'{"items":[' + b"{}," * 9_000 + b"{}]}", id="tiny-objects"),
        pytest.param(
            msgspec.json.encode({"items": [item(0, labels={f"{n}": "" for n in range(40_000)})]}),
            id="labels",
        ),
    ],
)
async def test_what_objects_take_when_they_are_decoded_counts(
    server: FakeServer, body: bytes
) -> None:
    server.on(ALL, chunks(body))
    async with client_of(server, objects=4 * MIB) as client:
        with pytest.raises(AnswerTooLarge):
            await client.list(CONFIGMAPS)


async def test_few_answers_are_large_at_the_same_time(server: FakeServer) -> None:
    begun, go = itertools.count(1), asyncio.Event()
    full = asyncio.Event()
    body = b'{"kind":"ConfigMap","metadata":{"name":"one"}}'

    async def large(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b" " * (2 * limits.LARGE_BYTES))
        if next(begun) == 2 * limits.LARGE_AT_ONCE:
            full.set()
        await go.wait()
        await response.write(body)
        return response

    server.on(ONE, large).on(ALL, respond({"metadata": {}, "items": []}))
    async with client_of(server) as client:
        reads = [
            asyncio.create_task(client.get(CONFIGMAPS, "one", "default"))
            for _ in range(2 * limits.LARGE_AT_ONCE)
        ]
        await full.wait()
        # Small answers wait for no place.
        await client.list(CONFIGMAPS)
        while not client.intake.slots.locked():  # noqa: ASYNC110  places tell nobody
            await asyncio.sleep(0)
        go.set()
        assert {found.meta.name for found in await asyncio.gather(*reads)} == {"one"}
        assert not client.intake.slots.locked()


@pytest.mark.parametrize(
    ("memory", "objects"),
    [
        pytest.param(0, 256 * MIB, id="no-limit"),
        pytest.param(500 * MIB, 150 * MIB, id="of-a-small-container"),
        pytest.param(8192 * MIB, 256 * MIB, id="of-a-large-container"),
    ],
)
def test_bounds_leave_room_in_the_memory_limit(memory: int, objects: int) -> None:
    assert Bounds().within(memory).objects == objects
