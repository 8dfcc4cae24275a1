"""What goes over one connection, byte by byte, and which connections are used again."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import StreamReader
from aiohttp.client_proto import ResponseHandler
from multidict import CIMultiDict
from tests.support.waiting import SECONDS

from fairlead.client import Client, ClusterConfig, ConnectionFailed, RetryPolicy, Timeouts
from fairlead.client.errors import ConfigError
from fairlead.client.exchange import Origin, SilenceTimer


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


class Wire:
    """A server of raw bytes: it answers the requests of all connections from one script.

    A script's None closes the connection without an answer.
    """

    def __init__(self, *answers: bytes | None) -> None:
        self.heads: list[str] = []
        self.bodies: list[bytes] = []
        self.asked = asyncio.Event()
        self.connections = 0
        self.url = ""
        self._answers = list(answers)

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while self._answers:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                self.heads.append(head)
                self.asked.set()
                lengths = [
                    int(line.partition(":")[2])
                    for line in head.splitlines()
                    if line.lower().startswith("content-length:")
                ]
                self.bodies.append(await reader.readexactly(sum(lengths)))
                answer = self._answers.pop(0)
                if answer is None:
                    return
                writer.write(answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def wire(*answers: bytes | None) -> AsyncIterator[Wire]:
    """One that listens."""
    made = Wire(*answers)
    listener = await asyncio.start_server(made.talk, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    try:
        yield made
    finally:
        listener.close()


class TestRequests:
    """Requests as they leave."""

    @pytest.mark.parametrize(
        ("method", "body", "length"),
        [
            pytest.param("GET", None, None, id="a-read-has-none"),
            pytest.param("HEAD", None, None, id="nor-has-a-head"),
            pytest.param("DELETE", None, "0", id="other-methods-say-zero"),
            pytest.param("POST", b"", "0", id="an-empty-body"),
            pytest.param("POST", b"{}", "2", id="a-body"),
            pytest.param("POST", b"x" * 100_000, "100000", id="a-large-body"),
        ],
    )
    async def test_length(self, method: str, body: bytes | None, length: str | None) -> None:
        answer = OK.removesuffix(b"{}") if method == "HEAD" else OK
        async with wire(answer) as server, Client(ClusterConfig(server.url)) as client:
            async with asyncio.timeout(SECONDS):
                await client.request(method, "/x", body=body)
        lines = server.heads[0].splitlines()
        assert lines[0] == f"{method} /x HTTP/1.1"
        found = [line for line in lines if line.lower().startswith("content-length:")]
        assert found == ([] if length is None else [f"Content-Length: {length}"])
        assert server.bodies == [body or b""]

    async def test_path_of_the_server_and_query(self) -> None:
        async with wire(OK) as server, Client(ClusterConfig(f"{server.url}/k8s/c")) as client:
            await client.request("GET", "/a b", params={"q": "a b&c"})
        assert server.heads[0].startswith("GET /k8s/c/a%20b?q=a+b%26c HTTP/1.1\r\n")
        assert f"Host: {server.url.removeprefix('http://')}\r\n" in server.heads[0]

    async def test_each_has_its_own_headers(self) -> None:
        wanted = ["a", "b", "a"]
        async with wire(OK, OK, OK) as server, Client(ClusterConfig(server.url)) as client:
            for accept in wanted:
                await client.request("GET", "/x", accept=accept)
        heads = [head.splitlines() for head in server.heads]
        found = [[line for line in head if line.startswith("Accept:")] for head in heads]
        assert found == [[f"Accept: {accept}"] for accept in wanted]

    @pytest.mark.parametrize("where", ["token", "header"])
    async def test_no_line_is_smuggled_in(self, where: str) -> None:
        token = "a\r\nX-Other: b" if where == "token" else "a"
        async with wire(OK) as server:
            async with Client(ClusterConfig(server.url, token=token)) as client:
                with pytest.raises(ValueError, match="header injection"):
                    await client.request("GET", "/x", accept="a\r\nX-Other: b")
            assert not server.heads

    async def test_a_proxy_is_told_the_whole_url(self) -> None:
        async with wire(OK) as proxy:
            through = proxy.url.replace("://", "://me:secret@")
            config = ClusterConfig("http://cluster.invalid:81", proxy_url=through, token="t")
            async with Client(config) as client:
                await client.request("GET", "/x")
        assert proxy.heads[0].startswith("GET http://cluster.invalid:81/x HTTP/1.1\r\n")
        assert "Host: cluster.invalid:81\r\n" in proxy.heads[0]
        assert "Authorization: Bearer t\r\n" in proxy.heads[0]
        known = base64.b64encode(b"me:secret").decode()
        assert f"Proxy-Authorization: Basic {known}\r\n" in proxy.heads[0]

    async def test_a_proxy_of_tls_is_told_the_host_alone(self) -> None:
        refused = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"
        async with wire(refused) as proxy:
            config = ClusterConfig("https://cluster.invalid", proxy_url=proxy.url, token="t")
            async with Client(config) as client:
                with pytest.raises(ConnectionFailed, match="its proxy answered 403"):
                    await client.request("GET", "/x")
        assert proxy.heads[0].startswith("CONNECT cluster.invalid:443 HTTP/1.1\r\n")
        assert "Bearer" not in proxy.heads[0]

    async def test_only_a_plain_server_has_its_url_told(self) -> None:
        plain, secure = (
            Origin(f"{scheme}://h/p", CIMultiDict(), context=True, proxy="http://p:1")
            for scheme in ("http", "https")
        )
        direct = Origin("http://h/p", CIMultiDict(), context=True)
        assert [one.prefix for one in (plain, secure, direct)] == ["http://h", "", ""]


class TestAnswers:
    """Answers as they come."""

    async def test_after_word_that_it_has_begun(self) -> None:
        begun = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
        async with wire(begun + begun + OK) as server, Client(ClusterConfig(server.url)) as client:
            assert await client.request("GET", "/x") == b"{}"

    async def test_until_the_end_of_the_connection(self) -> None:
        answer = b"HTTP/1.0 200 OK\r\n\r\n{}"
        async with wire(answer) as server, Client(ClusterConfig(server.url)) as client:
            assert await client.request("GET", "/x") == b"{}"

    async def test_without_a_body(self) -> None:
        none = b"HTTP/1.1 204 No Content\r\n\r\n"
        async with wire(none, OK) as server, Client(ClusterConfig(server.url)) as client:
            assert await client.request("GET", "/x") == b""
            assert await client.request("GET", "/x") == b"{}"
        assert server.connections == 1

    async def test_a_server_that_takes_no_body(self) -> None:
        over = asyncio.Event()

        async def deaf(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await over.wait()
            writer.transport.abort()

        listener = await asyncio.start_server(deaf, "127.0.0.1", 0, limit=1)
        url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        async with Client(ClusterConfig(url), timeouts=Timeouts(read=0.05)) as client:
            with pytest.raises(ConnectionFailed, match="did not answer in time"):
                async with asyncio.timeout(SECONDS):
                    await client.request("POST", "/x", body=b"x" * (32 << 20))
        over.set()
        listener.close()


class TestConnections:
    """Which connections are used again."""

    async def test_one_that_was_closed_meanwhile_is_replaced_for_a_read(self) -> None:
        async with wire(OK, None, OK) as server, Client(ClusterConfig(server.url)) as client:
            await client.request("GET", "/x")
            await client.request("GET", "/y")
        assert [head.split()[1] for head in server.heads] == ["/x", "/y", "/y"]
        assert server.connections == 2

    async def test_a_create_is_not_sent_twice(self) -> None:
        async with wire(OK, None, OK) as server, Client(ClusterConfig(server.url)) as client:
            await client.request("GET", "/x")
            with pytest.raises(ConnectionFailed, match="closed the connection"):
                await client.request("POST", "/y", body=b"{}")
        assert len(server.heads) == 2

    async def test_a_read_is_sent_twice_at_most(self) -> None:
        async with wire(None, None, OK) as server, Client(ClusterConfig(server.url)) as client:
            with pytest.raises(ConnectionFailed, match="closed the connection"):
                await client.request("GET", "/x")
        assert len(server.heads) == 2

    async def test_one_with_half_an_answer_is_not(self) -> None:
        half = b"HTTP/1.1 500 Oops\r\nContent-Length: 9\r\n\r\n{"
        async with wire(half, OK) as server:
            policy, limits = RetryPolicy(attempts=1), Timeouts(read=0.05)
            async with Client(
                ClusterConfig(server.url), retries=policy, timeouts=limits
            ) as client:
                with pytest.raises(ConnectionFailed):
                    await client.request("GET", "/x")
                assert await client.request("GET", "/y") == b"{}"
        assert server.connections == 2

    async def test_one_whose_request_was_given_up_is_not(self) -> None:
        async with wire(b"", OK) as server, Client(ClusterConfig(server.url)) as client:
            given_up = asyncio.create_task(client.request("GET", "/x"))
            async with asyncio.timeout(SECONDS):
                await server.asked.wait()
            given_up.cancel()
            await asyncio.wait([given_up])
            assert await client.request("GET", "/y") == b"{}"
        assert server.connections == 2


class Reading(asyncio.Transport):
    """A transport that knows whether it reads."""

    def __init__(self) -> None:
        super().__init__()
        self._reading = True

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True

    def is_reading(self) -> bool:
        return self._reading


class TestSilence:
    """When an answer is given up."""

    @pytest.fixture
    def silence(self) -> Iterator[SilenceTimer]:
        silence = SilenceTimer()
        yield silence
        silence.close()

    @pytest.fixture
    async def protocol(self) -> ResponseHandler:
        protocol = ResponseHandler(asyncio.get_running_loop())
        protocol.connection_made(Reading())
        return protocol

    async def test_of_which_nothing_arrives(
        self, silence: SilenceTimer, protocol: ResponseHandler
    ) -> None:
        awaited = silence.start(protocol, 60)
        awaited.begun(100)
        awaited.check(159)
        assert protocol.exception() is None
        awaited.check(160)
        assert isinstance(protocol.exception(), TimeoutError)

    async def test_not_while_its_body_arrives(
        self, silence: SilenceTimer, protocol: ResponseHandler
    ) -> None:
        awaited = silence.start(protocol, 60)
        content = StreamReader(protocol, 1 << 16, loop=asyncio.get_running_loop())
        awaited.begun(100, content)
        for now in (150, 200, 250):
            content.feed_data(b"x")
            awaited.check(now)
        awaited.check(309)
        assert content.exception() is None
        awaited.check(310)
        assert isinstance(content.exception(), TimeoutError)

    async def test_not_while_we_do_not_read(
        self, silence: SilenceTimer, protocol: ResponseHandler
    ) -> None:
        transport = protocol.transport
        assert isinstance(transport, Reading)
        awaited = silence.start(protocol, 60)
        awaited.begun(100)
        transport.pause_reading()
        awaited.check(500)
        transport.resume_reading()
        awaited.check(559)
        assert protocol.exception() is None
        awaited.check(560)
        assert isinstance(protocol.exception(), TimeoutError)

    async def test_not_one_that_is_there(
        self, silence: SilenceTimer, protocol: ResponseHandler
    ) -> None:
        awaited = silence.start(protocol, 60)
        content = StreamReader(protocol, 1 << 16, loop=asyncio.get_running_loop())
        awaited.begun(100, content)
        content.feed_eof()
        awaited.check(500)
        assert content.exception() is None
        assert protocol.exception() is None

    async def test_looks_as_often_as_the_least_patient_wants(
        self, silence: SilenceTimer, protocol: ResponseHandler
    ) -> None:
        silence.start(protocol, 3600)
        silence.start(protocol, 0.02)
        async with asyncio.timeout(SECONDS):
            with pytest.raises(TimeoutError):
                await protocol.read()


@pytest.mark.parametrize("version", ["3.13.5", "3.15.0", "4.0.0"])
async def test_a_version_that_was_not_tested_is_named(
    version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aiohttp, "__version__", version)
    with pytest.raises(
        ConfigError, match=rf"aiohttp {version} .* pip install 'aiohttp==3\.14\.\*'"
    ):
        Client(ClusterConfig(server="http://127.0.0.1:1"))
