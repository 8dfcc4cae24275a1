from __future__ import annotations

import asyncio
import itertools
from contextlib import aclosing
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.fakeserver import FakeServer, chunks, failure, respond

from fairlead.api.resource import CONFIGMAPS
from fairlead.client import (
    Client,
    ClusterConfig,
    ConnectionFailed,
    Forbidden,
    Gone,
    ServerError,
    Timeouts,
    TooManyRequests,
    UnexpectedAnswer,
    WatchEvent,
)
from fairlead.client.wire import decode_event, read_lines


PATH = "/api/v1/namespaces/shop/configmaps"


def event(type_: str, name: str = "a", version: str = "5", **body: Any) -> bytes:
    metadata = {"name": name, "namespace": "shop", "resourceVersion": version}
    object_ = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata} | body
    return msgspec.json.encode({"type": type_, "object": object_}) + b"\n"


def error(code: int, reason: str) -> bytes:
    status = {"kind": "Status", "status": "Failure", "code": code, "reason": reason}
    return msgspec.json.encode({"type": "ERROR", "object": status}) + b"\n"


async def watch(client: Client, **options: Any) -> list[WatchEvent]:
    options.setdefault("resource_version", "1")
    return [found async for found in client.watch(CONFIGMAPS, "shop", **options)]


def seen(events: list[WatchEvent]) -> list[tuple[str, str]]:
    return [(found.type, found.object.meta.resource_version) for found in events]


class TestEvents:
    """Events come in order, whatever the pieces that they arrive in."""

    async def test_all_types(self, server: FakeServer, client: Client) -> None:
        bookmark = (
            b'{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1",'
            b'"metadata":{"resourceVersion":"9","creationTimestamp":null}}}\n'
        )
        stream = event("ADDED") + event("MODIFIED", version="6") + event("DELETED", version="7")
        server.on(PATH, chunks(stream, bookmark))
        assert seen(await watch(client)) == [
            ("ADDED", "5"),
            ("MODIFIED", "6"),
            ("DELETED", "7"),
            ("BOOKMARK", "9"),
        ]

    @pytest.mark.parametrize("size", [1, 7, 100])
    async def test_any_chunks(self, server: FakeServer, client: Client, size: int) -> None:
        stream = b"".join(event("ADDED", version=str(number)) for number in range(5))
        parts = [stream[start : start + size] for start in range(0, len(stream), size)]
        server.on(PATH, chunks(*parts))
        assert [version for _, version in seen(await watch(client))] == ["0", "1", "2", "3", "4"]

    async def test_a_large_event(self, server: FakeServer, client: Client) -> None:
        server.on(PATH, chunks(event("ADDED", data={"x": "y" * 2_000_000}), event("DELETED")))
        found = await watch(client)
        assert [len(item.object.raw) > 2_000_000 for item in found] == [True, False]

    async def test_events_keep_their_own_bytes(self, server: FakeServer, client: Client) -> None:
        server.on(PATH, chunks(event("ADDED", data={"k": "v"}) * 3))
        found = await watch(client)
        assert type(found[0].object.raw) is bytes
        assert found[0].object.to_dict()["data"] == {"k": "v"}

    async def test_metadata_only_keeps_the_kind(self, server: FakeServer, client: Client) -> None:
        partial = event("ADDED").replace(b'"kind":"ConfigMap"', b'"kind":"PartialObjectMetadata"')
        server.on(PATH, chunks(partial))
        (found,) = await watch(client, metadata_only=True)
        assert (found.object.kind, found.object.api_version) == ("ConfigMap", "v1")
        assert "as=PartialObjectMetadata;" in server.seen[0].headers["Accept"]

    @pytest.mark.parametrize(
        "line",
        [
            pytest.param(b'{"type":"ADDED","object":%s}', id="as-servers-write-it"),
            pytest.param(b'{"type":"ADDED","object": %s }', id="spaces"),
            pytest.param(b'{ "type" : "ADDED" , "object" : %s }', id="more-spaces"),
            pytest.param(b'{"object":%s,"type":"ADDED"}', id="another-order"),
            pytest.param(b'{"type":"ADDED","object":%s,"more":{"object":{}}}', id="more-members"),
            pytest.param(b'{"type":"ADDED","object":{},"object":%s}', id="twice"),
            pytest.param(b'{"type":"DELETED","object":%s,"type":"ADDED"}', id="another-type"),
        ],
    )
    def test_any_json_of_an_event(self, line: bytes) -> None:
        body = b'{"metadata":{"name":"a","labels":{"object":"}"}},"data":{"k":"v"}}'
        found = decode_event(line % body, CONFIGMAPS)
        assert (found.type, found.object.raw.strip()) == ("ADDED", body)
        assert found.object.meta.name == "a"

    @pytest.mark.parametrize(
        "line",
        [
            b'{"type":"ADDED","object":{"metadata":{}}',
            b'{"type":"ADDED","object":{"metadata":{}}}}',
            b'{"type":"ADDED","object":[]}',
            b'{"type":"ADDED","object":}',
            b'{"type":"ADDED"}',
            b'{"type":"GREETED","object":{}}',
        ],
    )
    def test_what_is_no_event(self, line: bytes) -> None:
        with pytest.raises(UnexpectedAnswer, match="an event of configmaps"):
            decode_event(line, CONFIGMAPS)

    async def test_events_arrive_before_the_end(self, server: FakeServer, client: Client) -> None:
        done = asyncio.Event()
        server.on(PATH, chunks(event("ADDED"), then=done))
        async with aclosing(client.watch(CONFIGMAPS, "shop", resource_version="1")) as events:
            assert (await anext(events)).type == "ADDED"
        done.set()


class TestQuery:
    """What a watch asks for."""

    async def test_parameters(self, server: FakeServer, client: Client) -> None:
        server.on(PATH, chunks())
        await watch(client, resource_version="17", labels="a=b", fields="c=d", timeout_seconds=90)
        assert dict(server.seen[0].query) == {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": "17",
            "timeoutSeconds": "90",
            "labelSelector": "a=b",
            "fieldSelector": "c=d",
        }

    async def test_default_timeouts_differ(self, server: FakeServer, client: Client) -> None:
        server.on(PATH, chunks())
        for _ in range(8):
            await watch(client)
        timeouts = {int(request.query["timeoutSeconds"]) for request in server.seen}
        assert len(timeouts) > 1
        assert all(300 <= timeout <= 600 for timeout in timeouts)


class TestEnds:
    """How a watch ends tells what to do next."""

    async def test_clean(self, server: FakeServer, client: Client) -> None:
        server.on(PATH, chunks(event("ADDED")))
        assert len(await watch(client)) == 1
        assert len(server.seen) == 1

    async def test_silence_ends_it_cleanly(self, server: FakeServer) -> None:
        done = asyncio.Event()
        server.on(PATH, chunks(event("ADDED"), then=done))
        timeouts = Timeouts(watch_idle=0.05)
        async with Client(ClusterConfig(server.url), timeouts=timeouts) as client:
            assert len(await watch(client)) == 1
        done.set()

    @pytest.mark.parametrize("cut", [True, False], ids=["connection-lost", "stream-ended"])
    async def test_in_the_middle_of_an_event(
        self, server: FakeServer, client: Client, cut: bool
    ) -> None:
        server.on(PATH, chunks(event("ADDED"), event("MODIFIED")[:-20], cut=cut))
        events = client.watch(CONFIGMAPS, "shop", resource_version="1")
        assert seen([await anext(events)]) == [("ADDED", "5")]
        with pytest.raises(ConnectionFailed, match="in the middle"):
            await anext(events)

    async def test_connection_lost_between_events(
        self, server: FakeServer, client: Client
    ) -> None:
        server.on(PATH, chunks(event("ADDED"), cut=True))
        with pytest.raises(ConnectionFailed, match=server.url):
            await watch(client)

    @pytest.mark.parametrize(
        "answer",
        [
            pytest.param(failure(410, "Expired", "too old resource version"), id="http-expired"),
            pytest.param(failure(410, "Gone"), id="http-gone"),
            pytest.param(chunks(error(410, "Expired")), id="event-expired"),
            pytest.param(chunks(event("ADDED"), error(410, "Gone")), id="event-gone-later"),
            pytest.param(chunks(error(410, "")), id="event-code-alone"),
        ],
    )
    async def test_gone(self, server: FakeServer, client: Client, answer: Any) -> None:
        server.on(PATH, answer)
        with pytest.raises(Gone):
            await watch(client)
        assert len(server.seen) == 1

    @pytest.mark.parametrize(
        ("answer", "expected"),
        [
            pytest.param(failure(403, "Forbidden"), Forbidden, id="forbidden"),
            pytest.param(chunks(error(500, "InternalError")), ServerError, id="error-event"),
            pytest.param(
                failure(429, "TooManyRequests", Retry_After="0"), TooManyRequests, id="429"
            ),
        ],
    )
    async def test_refused_and_left_to_the_caller(
        self, server: FakeServer, client: Client, answer: Any, expected: type[Exception]
    ) -> None:
        server.on(PATH, answer)
        with pytest.raises(expected):
            await watch(client)
        assert len(server.seen) == 1

    @pytest.mark.parametrize(
        "line",
        [
            b"<html>\n",
            b"\n",
            b'{"type":"EXPLODED","object":{}}\n',
            b'{"type":"ADDED"}\n',
            b'{"type":"ADDED","object":{"metadata":[]}}\n',
            b'{"type":"ERROR","object":[]}\n',
        ],
        ids=["html", "blank", "type", "no-object", "metadata", "error"],
    )
    async def test_garbage(self, server: FakeServer, client: Client, line: bytes) -> None:
        server.on(PATH, chunks(event("ADDED"), line))
        with pytest.raises(UnexpectedAnswer, match="an event of configmaps/v1 cannot be read"):
            await watch(client)

    async def test_an_answer_that_is_no_stream(self, server: FakeServer, client: Client) -> None:
        server.on(PATH, respond({"kind": "ConfigMapList", "items": []}))
        with pytest.raises(ConnectionFailed):
            await watch(client)

    async def test_leaving_early_closes_the_connection(
        self, server: FakeServer, client: Client
    ) -> None:
        done = asyncio.Event()
        server.on(PATH, chunks(event("ADDED"), then=done)).on("/x", respond({}))
        async with aclosing(client.watch(CONFIGMAPS, "shop", resource_version="1")) as events:
            await anext(events)
        await client.request("GET", "/x")
        assert server.paths == [PATH, "/x"]
        done.set()


@pytest.mark.parametrize(
    "beginning", ['{"type":"MODIFIED","object":', '{ "type":"MODIFIED","object":']
)
def test_an_object_of_any_depth_is_told_of(beginning: str) -> None:
    deep = '{"a":' * 20_000 + "1" + "}" * 20_000
    line = f'{beginning}{{"metadata": {{"managedFields": [{deep}], "name": "a"}}, "data": {{}}}}}}'
    found = decode_event(line.encode(), CONFIGMAPS)
    assert (found.type, found.object.meta.name) == ("MODIFIED", "a")
    assert found.object.to_dict()["data"] == {}


class Chunks:
    """A stream reader's only method that is used."""

    def __init__(self, parts: list[bytes]) -> None:
        self.parts = [part for part in parts if part]

    async def readany(self) -> bytes:
        return self.parts.pop(0) if self.parts else b""


@given(
    lines=st.lists(st.binary(max_size=8).map(lambda line: line.replace(b"\n", b""))),
    cuts=st.lists(st.integers(0, 80)),
)
def test_splitting_never_depends_on_the_chunks(lines: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    parts = [stream[start:end] for start, end in itertools.pairwise(edges)]

    async def collect() -> list[bytes]:
        found: list[bytes] = []
        async for some in read_lines(Chunks(parts)):
            found += some
        return found

    with asyncio.Runner() as runner:
        assert runner.run(collect()) == lines
