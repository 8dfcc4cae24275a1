"""The door itself, asked over sockets of loopback."""

from __future__ import annotations

import asyncio
import io
import json
import socket
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp import web
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs
from tests.support.portal import Door, opened, place_of, serve_options
from tests.support.waiting import SECONDS

from fairlead.portal.http.bounds import count
from fairlead.portal.http.errors import forbidden
from fairlead.portal.http.introduction import Introduction
from fairlead.portal.http.requests import ADDRESS, PATH, parameters, read_json
from fairlead.portal.options import Limits, Rate, ServeOptions, parse_networks


class Body(msgspec.Struct):
    name: str


class Handlers:
    """Routes that show what the door lets through."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.arrived = asyncio.Semaphore(0)

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/api/told", self.told),
            web.post("/api/read", self.read),
            web.post("/api/token", self.read),
            web.get("/api/broken", self.broken),
            web.get("/api/forbidden", self.forbidden),
            web.get("/api/person", self.person),
            web.get("/api/waits", self.waits),
            web.get("/api/moved", self.moved),
            web.get("/page", self.told),
            web.get("/large", self.large),
        ]

    async def told(self, request: web.Request) -> web.Response:
        return web.json_response(
            {
                "address": request[ADDRESS],
                "path": request[PATH],
                "parameters": parameters(request),
            }
        )

    async def read(self, request: web.Request) -> web.Response:
        body = await read_json(request, Body)
        return web.json_response({"name": body.name})

    async def broken(self, request: web.Request) -> web.Response:
        raise RuntimeError("s3cret --oidc-issuer-client-secret")

    async def forbidden(self, request: web.Request) -> web.Response:
        raise forbidden("this is not offered to you", reason="no right to bind")

    async def person(self, request: web.Request) -> web.Response:
        count(request, "issuer/ann")
        return web.Response()

    async def large(self, request: web.Request) -> web.Response:
        return web.Response(body=io.BytesIO(bytes(32 * 1024 * 1024)))

    async def waits(self, request: web.Request) -> web.Response:
        self.arrived.release()
        await self.go_on.wait()
        return web.Response()

    async def moved(self, request: web.Request) -> web.Response:
        found = web.HTTPFound("/elsewhere")
        found.set_cookie("a", "b")
        raise found


@pytest.fixture
def handlers() -> Handlers:
    return Handlers()


def all_routes(options: ServeOptions, handlers: Handlers) -> list[web.RouteDef]:
    return [*Introduction(options).routes(), *handlers.routes()]


@pytest.fixture
async def door(handlers: Handlers) -> AsyncIterator[Door]:
    options = serve_options()
    async with opened(options, all_routes(options, handlers)) as door:
        yield door


def error_of(text: str) -> dict[str, Any]:
    found = json.loads(text)
    assert found["kind"] == "Error"
    assert found["apiVersion"] == "kube-bind.io/v1alpha2"
    assert isinstance(found, dict)
    return found


async def test_health_is_as_the_original_says_it(door: Door) -> None:
    found = await door.ask("/healthz")
    assert (found.status, found.text) == (200, "ok")
    found = await door.ask("/api/healthz")
    assert (found.status, found.text) == (200, "")
    assert found.headers["Expires"].startswith("Thu, 01 Jan 1970 00:00:00")
    assert found.headers["X-Accel-Expires"] == "0"
    assert found.headers["Cache-Control"] == "no-cache, no-store, must-revalidate, max-age=0"


async def test_the_introduction_passes_on_what_it_was_asked_with(door: Door) -> None:
    query = "?session_id=s%2B1&client_type=cli&cluster_id=&consumer_id=c&redirect_url=http://evil"
    found = (await door.ask("/api/exports" + query)).json
    assert found["kind"] == "BindingProvider"
    assert found["apiVersion"] == "v1alpha2"
    assert found["providerPrettyName"] == "Fairlead"
    assert found["version"] == "v0.6.0"
    (method,) = found["authenticationMethods"]
    assert method["method"] == "OAuth2CodeGrant"
    assert method["oauth2CodeGrant"]["authenticatedURL"] == (
        "https://bind.example.org/api/authorize?session_id=s%2B1&client_type=cli&consumer_id=c"
    )


async def test_the_old_place_of_the_introduction_keeps_the_query(door: Door) -> None:
    found = await door.ask("/exports?session_id=a%20b&x=%2f")
    assert found.status == 302
    assert found.headers["Location"] == (
        "https://bind.example.org/api/exports?session_id=a%20b&x=%2f"
    )


async def test_s16_no_header_decides_an_address(door: Door) -> None:
    headers = {
        "Host": "evil.example",
        "X-Forwarded-Host": "evil.example",
        "X-Forwarded-Proto": "http",
        "X-Forwarded-For": "198.51.100.7",
        "Forwarded": "for=198.51.100.7;host=evil.example;proto=http",
    }
    for path in ("/api/exports", "/exports"):
        found = await door.ask(path, headers=headers)
        assert "evil.example" not in found.text + str(found.headers)
        assert "https://bind.example.org/api/" in found.text + str(found.headers)
    assert (await door.ask("/api/told", headers=headers)).json["address"] == "127.0.0.1"


async def test_s16_a_trusted_proxy_says_who_asks(handlers: Handlers) -> None:
    options = serve_options(trusted_proxies=parse_networks(("127.0.0.0/8",)))
    async with opened(options, all_routes(options, handlers)) as door:
        headers = {"X-Forwarded-For": "1.1.1.1, 198.51.100.7", "X-Forwarded-Host": "evil.example"}
        found = await door.ask("/api/told", headers=headers)
        assert found.json["address"] == "198.51.100.7"
        assert "evil" not in (await door.ask("/api/exports", headers=headers)).text


async def test_s8_every_answer_has_the_headers_that_browsers_heed(door: Door) -> None:
    for path in ("/healthz", "/api/told", "/page", "/api/nothing", "/nothing", "/api/broken"):
        headers = (await door.ask(path)).headers
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Server"] == "Fairlead"
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert headers["Strict-Transport-Security"].startswith("max-age=")
        assert len(headers["X-Request-Id"]) == 16
        assert ("no-store" in headers.get("Cache-Control", "")) is path.startswith("/api/")


async def test_plain_http_has_no_hsts(handlers: Handlers) -> None:
    options = serve_options("http://127.0.0.1:8080")
    async with opened(options, all_routes(options, handlers)) as door:
        assert "Strict-Transport-Security" not in (await door.ask("/healthz")).headers


async def test_another_method_of_a_known_path_is_refused(door: Door) -> None:
    found = await door.ask("/api/told", "DELETE")
    assert found.status == 405
    assert found.headers["Allow"] == "GET,HEAD"
    assert error_of(found.text)["code"] == "BAD_REQUEST"
    found = await door.ask("/page", "POST")
    assert (found.status, found.headers["Allow"]) == (405, "GET,HEAD")


@pytest.mark.parametrize(
    "path", ["/api/nothing", "/api/", "/api/told/", "/api/../api/x", "/oidc/x", "/api/%ff%00"]
)
async def test_an_unknown_path_of_machines_is_json(door: Door, path: str) -> None:
    found = await door.ask(path)
    assert found.status == 404
    assert error_of(found.text)["code"] == "RESOURCE_NOT_FOUND"


@pytest.mark.parametrize("path", ["/", "/nothing", "/assets/x.js", "//api/told", "/API/told"])
async def test_any_other_unknown_path_is_plain(door: Door, path: str) -> None:
    found = await door.ask(path)
    assert found.status == 404
    assert found.headers["Content-Type"].startswith("text/plain")


async def test_below_a_path_it_serves_with_and_without(handlers: Handlers) -> None:
    options = serve_options("https://example.org/deep/bind")
    async with opened(options, all_routes(options, handlers)) as door:
        for path in ("/api/exports", "/deep/bind/api/exports"):
            assert "https://example.org/deep/bind/api/authorize" in (await door.ask(path)).text
        assert (await door.ask("/deep/bind/api/told")).json["path"] == "/api/told"
        found = await door.ask("/deep/bind/api/nothing")
        assert error_of(found.text)["code"] == "RESOURCE_NOT_FOUND"
        assert "no-store" in found.headers["Cache-Control"]
        assert (await door.ask("/deep/bindapi/told")).status == 404


async def test_a_redirect_that_is_raised_keeps_its_cookies(door: Door) -> None:
    found = await door.ask("/api/moved")
    assert (found.status, found.headers["Location"]) == (302, "/elsewhere")
    assert found.headers["Set-Cookie"].startswith("a=b")


async def test_s18_details_are_in_the_log_and_a_request_id_in_the_answer(door: Door) -> None:
    with capture_logs() as logs:
        found = await door.ask("/api/broken")
    assert found.status == 500
    told = error_of(found.text)
    assert told["code"] == "INTERNAL_ERROR"
    assert "s3cret" not in found.text
    assert "--oidc" not in found.text
    assert told["details"] == f"request {found.headers['X-Request-Id']}"
    (line,) = [one for one in logs if one["event"] == "a request failed"]
    assert line["request"] == found.headers["X-Request-Id"]
    assert "s3cret" in line["reason"]


async def test_s22_a_refusal_is_a_line_of_the_audit(door: Door) -> None:
    with capture_logs() as logs:
        found = await door.ask("/api/forbidden?cluster_id=x")
    assert found.status == 403
    assert "no right" not in found.text
    (line,) = [one for one in logs if one.get("logger_name") == "fairlead.portal.audit"]
    assert line["event"] == "refusal"
    assert line["what"] == "GET /api/forbidden"
    assert line["result"] == "no right to bind"
    assert line["address"] == "127.0.0.1"
    assert line["request"] == found.headers["X-Request-Id"]


@pytest.mark.parametrize("query", ["a=1&a=2", "a=%ff", "a=%00", "a=" + "x" * 5000, "a=%"])
async def test_queries_that_are_refused(door: Door, query: str) -> None:
    found = await door.ask(f"/api/told?{query}")
    assert found.status == 400
    assert error_of(found.text)["code"] == "BAD_REQUEST"
    # Whatever would have been said of the path.
    assert (await door.ask(f"/healthz?{query}")).status == 200


ESCAPED = st.text("abc=&%+;0123456789fFäöü/?: \\\"'<>[]{}|^`", max_size=80).map(
    lambda text: "".join(one if one.isascii() and one > " " else "%E4" for one in text)
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(query=ESCAPED)
async def test_whatever_the_query_is_the_answer_is_of_ours(door: Door, query: str) -> None:
    found = await door.ask(f"/api/told?{query}")
    assert found.status in {200, 400}
    assert "X-Request-Id" in found.headers
    found = await door.ask(f"/api/exports?session_id={query}&redirect_url=x")
    assert found.status in {200, 400}


async def test_bodies_are_read_as_json_alone(door: Door) -> None:
    found = await door.ask("/api/read", "POST", json={"name": "x", "more": 1})
    assert (found.status, found.json["name"]) == (200, "x")
    cases: list[tuple[int, Any, str]] = [
        (415, b'{"name": "x"}', "text/plain"),
        (415, b"name=x", "application/x-www-form-urlencoded"),
        (400, b"", "application/json"),
        (400, b"{", "application/json"),
        (400, b"[]", "application/json"),
        (400, b'{"name": 1}', "application/json"),
        (400, b'{"name": "\xff"}', "application/json"),
        (400, b"[" * 100_000, "application/json"),
        (413, io.BytesIO(b"x" * 1024 * 1024 + b"x"), "application/json"),
    ]
    for status, data, kind in cases:
        found = await door.ask("/api/read", "POST", data=data, headers={"Content-Type": kind})
        assert found.status == status, (status, kind, found.text)
        assert error_of(found.text)["code"] == "BAD_REQUEST"


async def test_a_body_without_a_length_is_bounded_too(door: Door) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(1100):
            yield b"x" * 1024

    headers = {"Content-Type": "application/json"}
    try:
        found = await door.ask("/api/read", "POST", data=chunks(), headers=headers)
    except aiohttp.ClientConnectionError:
        return  # the rest was not waited for
    assert found.status == 413


async def test_s17_what_strangers_send_is_small_and_says_how_long_it_is(door: Door) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"{}"

    headers = {"Content-Type": "application/json"}
    small = b'{"name": "' + b"x" * 120_000 + b'"}'
    for status, data in ((200, small), (413, small + b" " * 20_000), (411, chunks())):
        found = await door.ask("/api/token", "POST", data=data, headers=headers)
        assert found.status == status
    assert (await door.ask("/api/read", "POST", data=chunks(), headers=headers)).status == 400


async def test_a_compressed_body_is_refused(door: Door) -> None:
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    assert (await door.ask("/api/read", "POST", data=b"x", headers=headers)).status == 415


async def test_s16_nor_does_a_request_that_names_another_server(door: Door) -> None:
    answer = await door.say(
        b"GET http://evil.example/api/exports?session_id=s HTTP/1.1\r\nHost: evil.example\r\n"
        b"Connection: close\r\n\r\n"
    )
    assert b"https://bind.example.org/api/authorize?session_id=s" in answer
    assert b"evil" not in answer


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"nonsense\r\n\r\n", id="no HTTP"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: x\r\nA" + b"b" * 9000 + b"\r\n\r\n", id="long"),
        pytest.param(
            b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 100 + b"\r\n", id="many headers"
        ),
        pytest.param(b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", id="long line"),
        pytest.param(
            b"POST /api/read HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /page HTTP/1.1\r\n\r\n",
            id="smuggled by two lengths",
        ),
        pytest.param(
            b"POST /api/read HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n"
            b"Content-Length: 5\r\n\r\n",
            id="two lengths",
        ),
        pytest.param(
            b"POST /api/read HTTP/1.1\r\nHost: x\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
            id="a space before the colon",
        ),
        pytest.param(b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", id="two hosts"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n", id="a folded header"),
    ],
)
async def test_what_is_no_http_is_refused_and_the_connection_closed(
    door: Door, content: bytes
) -> None:
    answer = await door.say(content)
    assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.0 400")), answer
    assert answer.count(b"HTTP/1.") == 1, "the rest was no request"
    assert b"nosniff" in answer
    assert b'"code":"BAD_REQUEST"' in answer


HIDDEN = b"GET /page HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
"""A request that stands where a body could."""


@pytest.mark.parametrize(
    "lengths",
    [
        b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: identity\r\n\r\n",
        b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n0x1\r\nx\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n1\nx\n0\n\n",
        b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\nx",
        *(b"Content-Length: %s\r\n\r\n" % text for text in (b"+0", b"-1", b"0x0", b"0, 0", b"")),
        b"Content-Length: 0\n\n",
        b"A: b\0c\r\n\r\n",
    ],
)
async def test_nothing_is_smuggled_behind_a_length_that_proxies_read_otherwise(
    door: Door, lengths: bytes
) -> None:
    answer = await door.say(b"POST /api/read HTTP/1.1\r\nHost: x\r\n" + lengths + HIDDEN)
    assert answer.startswith(b"HTTP/1.0 400")
    assert answer.count(b"HTTP/1.") == 1


@pytest.mark.parametrize("path", [b"/api/told", b"/nothing"])
async def test_an_expectation_that_is_none_is_refused_in_our_own_words(
    door: Door, path: bytes
) -> None:
    answer = await door.say(b"GET " + path + b" HTTP/1.1\r\nHost: x\r\nExpect: evil\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 417")
    assert b"nosniff" in answer
    assert b"Server: Fairlead" in answer
    assert b"evil" not in answer
    assert b'"kind":"Error"' in answer


async def test_an_expectation_of_100_is_met(door: Door) -> None:
    answer = await door.say(
        b"POST /api/read HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        b'Expect: 100-continue\r\nContent-Length: 12\r\nConnection: close\r\n\r\n{"name":"x"}'
    )
    assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200")


async def test_a_client_that_says_nothing_is_cut_off(handlers: Handlers) -> None:
    options = serve_options(limits=Limits(header_seconds=0.05))
    async with opened(options, all_routes(options, handlers)) as door:
        assert await door.say(b"") == b""
        assert await door.say(b"GET /page HTTP/1.1\r\nHos") == b""


async def test_a_client_that_is_slow_after_its_first_request_is_cut_off_too(
    handlers: Handlers,
) -> None:
    options = serve_options(limits=Limits(idle_seconds=0.5))
    async with opened(options, all_routes(options, handlers)) as door:
        answer = await door.say(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /heal")
        assert answer.count(b"HTTP/1.1 200") == 1


async def test_a_body_that_does_not_come_is_not_waited_for(handlers: Handlers) -> None:
    options = serve_options(limits=Limits(body_seconds=0.05))
    async with opened(options, all_routes(options, handlers)) as door:
        answer = await door.say(
            b"POST /api/read HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Content-Length: 100\r\n\r\n{"
        )
    assert answer.startswith(b"HTTP/1.1 408")


async def test_a_request_that_takes_too_long_is_given_up(handlers: Handlers) -> None:
    options = serve_options(limits=Limits(request_seconds=0.05))
    async with opened(options, all_routes(options, handlers)) as door:
        found = await door.ask("/api/waits")
        assert found.status == 503
        assert found.headers["Retry-After"]
        assert error_of(found.text)["code"] == "CLUSTER_CONNECTION_FAILED"


async def test_s17_so_many_requests_at_once_and_no_more(handlers: Handlers) -> None:
    options = serve_options(limits=Limits(requests_at_once=2))
    async with opened(options, all_routes(options, handlers)) as door:
        waiting = [asyncio.create_task(door.ask("/api/waits")) for _ in range(2)]
        async with asyncio.timeout(SECONDS):
            for _ in waiting:
                await handlers.arrived.acquire()
        found = await door.ask("/api/told")
        assert found.status == 503
        assert found.headers["Retry-After"] == "5"
        assert (await door.ask("/healthz")).status == 200, "it is alive"
        handlers.go_on.set()
        assert [one.status for one in await asyncio.gather(*waiting)] == [200, 200]
        assert (await door.ask("/api/told")).status == 200


async def test_s17_so_many_connections_and_no_more(handlers: Handlers) -> None:
    options = serve_options(limits=Limits(connections=2))
    hello = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    async with opened(options, all_routes(options, handlers)) as door:
        where = place_of(door.server.url)
        kept = [await asyncio.open_connection(*where) for _ in range(2)]
        for _, writer in kept:
            writer.write(b"GET /api/waits HTTP/1.1\r\nHost: x\r\n\r\n")
            async with asyncio.timeout(SECONDS):
                await handlers.arrived.acquire()
        assert await door.say(hello) == b""
        handlers.go_on.set()
        for reader, _ in kept:
            assert b"200" in await reader.readuntil(b"\r\n\r\n")
        # Those that wait for their clients give way, the first of them before the others.
        async with asyncio.timeout(SECONDS):
            while not await door.say(hello):  # noqa: ASYNC110  the server tells no one
                await asyncio.sleep(0.01)
            assert await kept[0][0].read() == b""
        kept[1][1].write(hello)
        assert b"200" in await kept[1][0].readline()
        for _, writer in kept:
            writer.close()


async def test_s17_silent_connections_keep_no_one_out(handlers: Handlers) -> None:
    options = serve_options(limits=Limits(connections=4, connections_per_address=3))
    hello = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    async with opened(options, all_routes(options, handlers)) as door:
        host, port = place_of(door.server.url)
        reader, busy = await asyncio.open_connection(host, port, local_addr=("127.0.0.2", 0))
        silent = [await asyncio.open_connection(host, port) for _ in range(3)]
        for _, writer in [*silent, (reader, busy)]:
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /heal")
        for read, _ in [*silent, (reader, busy)]:
            assert b"200" in await read.readuntil(b"\r\n\r\nok")
        for _ in range(2):
            later, writer = await asyncio.open_connection(host, port, local_addr=("127.0.0.3", 0))
            writer.write(hello)
            async with asyncio.timeout(SECONDS):
                assert b"200" in await later.read()
            writer.close()
        # It came first, but has fewer than those that gave way.
        busy.write(b"thz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert b"200" in await reader.read()
        for _, writer in [*silent, (reader, busy)]:
            writer.close()


async def test_s17_so_many_connections_of_an_address_and_no_more(handlers: Handlers) -> None:
    options = serve_options(limits=Limits(connections_per_address=1))
    hello = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    for trusted in ((), parse_networks(("127.0.0.1",))):
        options = msgspec.structs.replace(options, trusted_proxies=trusted)
        async with opened(options, all_routes(options, handlers)) as door:
            reader, writer = await asyncio.open_connection(*place_of(door.server.url))
            writer.write(hello)
            assert b"200" in await reader.readline()
            closing = hello.replace(b"Host: x", b"Host: x\r\nConnection: close")
            assert bool(await door.say(closing)) is bool(trusted)
            writer.close()


async def test_a_client_that_reads_nothing_is_cut_off(handlers: Handlers) -> None:
    options = serve_options(limits=Limits(body_seconds=0.05, connections_per_address=1))
    hello = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    async with opened(options, all_routes(options, handlers)) as door:
        with socket.socket() as client:
            client.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(client, place_of(door.server.url))
            await loop.sock_sendall(client, b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
            async with asyncio.timeout(SECONDS):
                # Its place is another's as soon as it has lost it.
                while not await door.say(hello):  # noqa: ASYNC110  the server tells no one
                    await asyncio.sleep(0.01)


async def test_s17_an_address_that_asks_too_often_waits(handlers: Handlers) -> None:
    options = serve_options(limits=Limits(per_address=Rate(1.0, 2)))
    async with opened(options, all_routes(options, handlers), clock=lambda: 7.0) as door:
        assert [(await door.ask("/api/told")).status for _ in range(3)] == [200, 200, 429]
        found = await door.ask("/api/told")
        assert found.headers["Retry-After"] == "1"
        assert error_of(found.text)["message"].startswith("too many requests")
        assert (await door.ask("/healthz")).status == 200


async def test_s17_no_path_of_the_external_url_hides_what_strangers_ask(
    handlers: Handlers,
) -> None:
    limits = Limits(sign_ins_per_address=Rate(1.0, 2))
    options = serve_options("https://example.org/api", limits=limits)
    body: dict[str, Any] = {"json": {"name": "x"}}
    for path in ("/api/token", "/api/api/token"):
        async with opened(options, all_routes(options, handlers), clock=lambda: 7.0) as door:
            asked = [(await door.ask(path, "POST", **body)).status for _ in range(3)]
            assert asked == [200, 200, 429]


async def test_s17_a_person_who_asks_too_often_waits(handlers: Handlers) -> None:
    options = serve_options(limits=Limits(per_person=Rate(1.0, 2)))
    async with opened(options, all_routes(options, handlers), clock=lambda: 7.0) as door:
        assert [(await door.ask("/api/person")).status for _ in range(3)] == [200, 200, 429]
        assert (await door.ask("/api/told")).status == 200


async def test_a_client_that_has_gone_does_no_harm(door: Door, handlers: Handlers) -> None:
    host, port = place_of(door.server.url)
    with capture_logs() as logs:
        _, writer = await asyncio.open_connection(host, port)
        writer.write(b"GET /api/waits HTTP/1.1\r\nHost: x\r\n\r\n")
        async with asyncio.timeout(SECONDS):
            await handlers.arrived.acquire()
        writer.transport.abort()
        _, writer = await asyncio.open_connection(host, port)
        writer.write(
            b"POST /api/read HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Content-Length: 100\r\n\r\n{"
        )
        await writer.drain()
        writer.transport.abort()
        handlers.go_on.set()
        assert (await door.ask("/api/told")).status == 200
    assert not [one for one in logs if one["log_level"] == "error"]
