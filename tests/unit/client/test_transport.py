from __future__ import annotations

import asyncio
import os
import socket
import time
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs
from tests.support.fakeserver import (
    FakeServer,
    chunks,
    disconnect,
    failure,
    hang,
    respond,
    text,
)

from fairlead.client import (
    Client,
    ClusterConfig,
    ConnectionFailed,
    ExecPlugin,
    Fenced,
    Forbidden,
    Impersonation,
    NotFound,
    RequestMetrics,
    RetryPolicy,
    ServerError,
    Timeouts,
    TooManyRequests,
    Unauthorized,
)
from fairlead.client.exchange import Origin, ServerConnections
from fairlead.client.transport import parse_warnings


OK = respond({"kind": "ConfigMap", "metadata": {"name": "x"}})


class TestHeaders:
    """What goes along with each request."""

    async def test_user_agent_and_accept(self, server: FakeServer) -> None:
        server.on("/x", OK)
        async with Client(ClusterConfig(server.url), user_agent="me/1") as client:
            await client.request("GET", "/x")
        assert server.seen[0].headers["User-Agent"] == "me/1"
        assert server.seen[0].headers["Accept"] == "application/json"
        assert "Authorization" not in server.seen[0].headers

    @pytest.mark.parametrize(("off", "accepts"), [(True, "identity"), (False, "gzip, deflate")])
    async def test_compression(self, server: FakeServer, off: bool, accepts: str) -> None:
        server.on("/x", OK)
        async with Client(ClusterConfig(server.url, disable_compression=off)) as client:
            await client.request("GET", "/x")
        assert server.seen[0].headers["Accept-Encoding"].startswith(accepts)

    async def test_impersonation(self, server: FakeServer) -> None:
        server.on("/x", OK)
        whom = Impersonation("jane", ("a", "b"), "17", {"example.org/why%": ("x", "y")})
        async with Client(ClusterConfig(server.url, impersonation=whom)) as client:
            await client.request("GET", "/x")
        headers = server.seen[0].headers
        assert headers["Impersonate-User"] == "jane"
        assert headers.getall("Impersonate-Group") == ["a", "b"]
        assert headers["Impersonate-Uid"] == "17"
        assert headers.getall("Impersonate-Extra-example.org%2Fwhy%25") == ["x", "y"]

    async def test_through_a_proxy(self, server: FakeServer) -> None:
        server.on("/x", OK)
        config = ClusterConfig("http://cluster.invalid", proxy_url=server.url)
        async with Client(config) as client:
            await client.request("GET", "/x")
        assert server.seen[0].headers["Host"] == "cluster.invalid"

    async def test_large_bodies_arrive_whole(self, server: FakeServer, client: Client) -> None:
        server.on("/x", OK)
        await client.request("POST", "/x", body=b"x" * (1 << 20) + b"y")
        assert len(server.seen[0].body) == (1 << 20) + 1

    async def test_cookies_are_not_kept(self, server: FakeServer, client: Client) -> None:
        server.on("/x", respond({}, Set_Cookie="a=b"))
        await client.request("GET", "/x")
        await client.request("GET", "/x")
        assert "Cookie" not in server.seen[1].headers


class TestCredentials:
    """A 401 is answered with fresh credentials once, if there are any."""

    async def test_rotated_token(self, server: FakeServer, tmp_path: Path) -> None:
        token = tmp_path / "token"
        token.write_text("old")

        async def check(request: web.Request) -> web.StreamResponse:
            good = request.headers["Authorization"] == "Bearer new"
            return web.json_response({}, status=200 if good else 401)

        server.on("/x", check)
        async with Client(ClusterConfig(server.url, token_file=str(token))) as client:
            with pytest.raises(Unauthorized):
                await client.request("GET", "/x")
            assert len(server.seen) == 1
            token.write_text("new")
            await client.request("POST", "/x", body=b"{}")
        assert [seen.headers["Authorization"] for seen in server.seen[1:]] == [
            "Bearer old",
            "Bearer new",
        ]

    async def test_a_plugin_that_stays_refused(self, server: FakeServer, tmp_path: Path) -> None:
        plugin = tmp_path / "plugin"
        plugin.write_text(
            "#!/bin/sh\necho x >>runs\n"
            'echo "{\\"apiVersion\\":\\"client.authentication.k8s.io/v1\\",'
            '\\"kind\\":\\"ExecCredential\\",\\"status\\":{\\"token\\":\\"$$\\"}}"\n'.replace(
                "runs", str(tmp_path / "runs")
            )
        )
        os.chmod(plugin, 0o700)  # noqa: PTH101  not pathlib in a coroutine
        server.on("/x", failure(401, "Unauthorized"))
        config = ClusterConfig(server.url, exec_plugin=ExecPlugin(str(plugin)))
        async with Client(config) as client:
            with pytest.raises(Unauthorized):
                await client.request("GET", "/x")
        assert len(server.seen) == 2
        assert len({seen.headers["Authorization"] for seen in server.seen}) == 2

    @pytest.mark.parametrize(
        ("ahead", "says"),
        [
            pytest.param(0, "", id="same"),
            pytest.param(60, "", id="as far as servers allow"),
            pytest.param(600, "about 10 minutes ahead of the one of this machine", id="ahead"),
            pytest.param(-3 * 3600, "about 3 hours behind the one of this machine", id="behind"),
            pytest.param(400 * 86400, "about 400 days ahead of", id="another year"),
        ],
    )
    async def test_a_refusal_by_another_clock_says_so(
        self, server: FakeServer, ahead: int, says: str
    ) -> None:
        date = formatdate(time.time() + ahead, usegmt=True)
        server.on("/x", failure(401, "Unauthorized", "Unauthorized", Date=date))
        async with Client(ClusterConfig(server.url, token="t")) as client:
            with pytest.raises(Unauthorized) as caught:
                await client.request("GET", "/x")
        assert says in caught.value.clock_hint
        assert bool(caught.value.clock_hint) is bool(says)
        assert str(caught.value) == "Unauthorized" + caught.value.clock_hint

    @pytest.mark.parametrize(
        "date", ["", "soon", "Sun, 29 Nov 2026", "Sun, 31 Feb 99999 00:00:00 GMT", "1" * 5000]
    )
    async def test_a_date_that_is_none_says_nothing(self, server: FakeServer, date: str) -> None:
        server.on("/x", failure(401, "Unauthorized", "Unauthorized", Date=date))
        async with Client(ClusterConfig(server.url, token="t")) as client:
            with pytest.raises(Unauthorized) as caught:
                await client.request("GET", "/x")
        assert str(caught.value) == "Unauthorized"

    async def test_tokens_stay_out_of_errors(self, server: FakeServer) -> None:
        server.on("/x", failure(403, "Forbidden", "nobody may"))
        async with Client(ClusterConfig(server.url, token="s3cret")) as client:
            with pytest.raises(Forbidden) as caught:
                await client.request("GET", "/x")
        assert "s3cret" not in repr(caught.value)


class TestRetries:
    """What the server puts off is sent again, within bounds."""

    @pytest.mark.parametrize("method", ["GET", "POST", "PATCH", "DELETE"])
    async def test_429(self, server: FakeServer, client: Client, method: str) -> None:
        server.on("/x", failure(429, "TooManyRequests", Retry_After="0"), OK)
        await client.request(method, "/x")
        assert len(server.seen) == 2

    async def test_the_body_is_sent_again(self, server: FakeServer, client: Client) -> None:
        server.on("/x", failure(429, "TooManyRequests"), OK)
        await client.request("POST", "/x", body={"a": 1})
        assert [seen.json for seen in server.seen] == [{"a": 1}, {"a": 1}]

    async def test_503_for_reads(self, server: FakeServer, client: Client) -> None:
        server.on("/x", failure(503, "ServiceUnavailable", Retry_After="0"), OK)
        await client.request("GET", "/x")
        assert len(server.seen) == 2

    async def test_503_is_final_for_creates(self, server: FakeServer, client: Client) -> None:
        server.on("/x", failure(503, "ServiceUnavailable", Retry_After="0"), OK)
        with pytest.raises(ServerError):
            await client.request("POST", "/x")
        assert len(server.seen) == 1

    async def test_gives_up(self, server: FakeServer, client: Client) -> None:
        server.on("/x", failure(429, "TooManyRequests", "slow down", Retry_After="0"))
        with pytest.raises(TooManyRequests, match="slow down") as caught:
            await client.request("GET", "/x")
        assert (len(server.seen), caught.value.retry_after) == (4, 0.0)

    async def test_a_long_wait_is_the_callers(self, server: FakeServer, client: Client) -> None:
        server.on("/x", failure(429, "TooManyRequests", Retry_After="60"))
        with pytest.raises(TooManyRequests) as caught:
            await client.request("GET", "/x")
        assert (len(server.seen), caught.value.retry_after) == (1, 60.0)

    async def test_redirects_are_not_followed(self, server: FakeServer, client: Client) -> None:
        server.on("/x", respond({}, 302, Location="/y")).on("/y", OK)
        with pytest.raises(Exception, match="302 Found"):
            await client.request("GET", "/x")
        assert server.paths == ["/x"]


class TestFaults:
    """A broken connection is one line: which server, what happened, what to do."""

    async def test_refused(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        async with Client(ClusterConfig(f"http://127.0.0.1:{port}")) as client:
            with pytest.raises(ConnectionFailed) as caught:
                await client.request("GET", "/x")
        assert str(caught.value) == (
            f"cannot reach http://127.0.0.1:{port}: connection refused;"
            " is it running, and is server in the kubeconfig right?"
        )

    async def test_loopback_in_a_pod(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        async with Client(ClusterConfig(f"http://127.0.0.1:{port}")) as client:
            with pytest.raises(ConnectionFailed, match=r"this Pod itself.* --external-address"):
                await client.request("GET", "/x")

    @pytest.mark.parametrize(
        "host",
        ["no-such-host.invalid", "a..b", "x" * 70 + ".invalid"],
        ids=["unknown", "empty-label", "long-label"],
    )
    async def test_host_name(self, host: str) -> None:
        async with Client(ClusterConfig(f"http://{host}:1")) as client:
            with pytest.raises(ConnectionFailed, match="server in the kubeconfig"):
                await client.request("GET", "/x")

    async def test_proxy_is_down(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            proxy = f"http://127.0.0.1:{listener.getsockname()[1]}"
        async with Client(ClusterConfig("http://h:1", proxy_url=proxy)) as client:
            with pytest.raises(ConnectionFailed, match="proxy-url"):
                await client.request("GET", "/x")

    async def test_no_answer_in_time(self, server: FakeServer) -> None:
        done = asyncio.Event()
        server.on("/x", hang(done))
        async with Client(ClusterConfig(server.url), timeouts=Timeouts(read=0.05)) as client:
            with pytest.raises(ConnectionFailed, match="did not answer in time"):
                await client.request("GET", "/x")
        done.set()

    async def test_closed_without_an_answer(self, server: FakeServer, client: Client) -> None:
        server.on("/x", disconnect())
        with pytest.raises(ConnectionFailed, match="closed the connection; is it restarting"):
            await client.request("POST", "/x")
        assert len(server.seen) == 1

    async def test_cut_in_the_middle(self, server: FakeServer, client: Client) -> None:
        server.on("/x", chunks(b'{"kind": ', cut=True))
        with pytest.raises(ConnectionFailed, match="in the middle of an answer"):
            await client.request("GET", "/x")

    async def test_no_http_at_all(self) -> None:
        async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readline()
            writer.write(b"220 smtp ready\r\n\r\n")
            await writer.drain()
            writer.close()

        async with await asyncio.start_server(greet, "127.0.0.1", 0) as listener:
            port = listener.sockets[0].getsockname()[1]
            async with Client(ClusterConfig(f"http://127.0.0.1:{port}")) as client:
                with pytest.raises(ConnectionFailed, match="is not HTTP"):
                    await client.request("GET", "/x")

    async def test_html_error_page(self, server: FakeServer, client: Client) -> None:
        server.on("/x", text("<html>Bad gateway", 502))
        with pytest.raises(ServerError, match="GET /x: 502 Bad Gateway, with an HTML page"):
            await client.request("GET", "/x")

    async def test_a_closed_client_says_so(self, server: FakeServer, client: Client) -> None:
        await client.close()
        with pytest.raises(ConnectionFailed, match="is closed"):
            await client.request("GET", "/x")


class TestReuse:
    """A client keeps its connections to itself."""

    async def test_connections_are_kept(self, server: FakeServer, client: Client) -> None:
        ports = set()

        async def note(request: web.Request) -> web.StreamResponse:
            assert request.transport is not None
            ports.add(request.transport.get_extra_info("peername")[1])
            return web.json_response({}, status=200 if len(server.seen) % 2 else 404)

        server.on("/x", note)
        for _ in range(3):
            await client.request("GET", "/x")
            with pytest.raises(NotFound):
                await client.request("GET", "/x")
        assert len(ports) == 1

    async def test_two_clients_share_nothing(self, server: FakeServer) -> None:
        server.on("/x", OK)
        first = Client(ClusterConfig(server.url, token="one"))
        async with Client(ClusterConfig(server.url, token="two")) as second:
            async with first:
                await first.request("GET", "/x")
            await second.request("GET", "/x")
        assert [seen.headers["Authorization"] for seen in server.seen] == [
            "Bearer one",
            "Bearer two",
        ]


class TestWarnings:
    """What a server wants a person to know is logged once."""

    async def test_logged_once(self, server: FakeServer, client: Client) -> None:
        server.on("/x", respond({}, Warning='299 - "v1beta1 is deprecated"'))
        with capture_logs() as logs:
            await client.request("GET", "/x")
            await client.request("GET", "/x")
        assert [log["warning"] for log in logs] == ["v1beta1 is deprecated"]
        assert logs[0]["server"] == server.url

    @pytest.mark.parametrize(
        ("header", "texts"),
        [
            pytest.param('299 - "a"', ["a"], id="one"),
            pytest.param('299 - "a, b", 299 - "c"', ["a, b", "c"], id="two"),
            pytest.param(r'299 - "say \"hi\" \\"', ['say "hi" \\'], id="escapes"),
            pytest.param('199 - "a"', [], id="another-code"),
            pytest.param("nonsense", [], id="nonsense"),
        ],
    )
    def test_parse(self, header: str, texts: list[str]) -> None:
        assert parse_warnings([header]) == texts


class TestMetrics:
    """Requests are counted under client-go's names."""

    async def test_codes_and_methods(self, server: FakeServer) -> None:
        registry = CollectorRegistry()
        metrics = RequestMetrics(registry)
        server.on("/x", OK).on("/y", disconnect())
        policy = RetryPolicy(attempts=1)
        async with Client(ClusterConfig(server.url), metrics=metrics, retries=policy) as client:
            await client.request("GET", "/x")
            await client.request("GET", "/x")
            with pytest.raises(ConnectionFailed):
                await client.request("POST", "/y")
        host = server.url.removeprefix("http://")

        def count(code: str, method: str) -> float | None:
            labels = {"code": code, "method": method, "host": host}
            return registry.get_sample_value("rest_client_requests_total", labels)

        assert (count("200", "GET"), count("<error>", "POST")) == (2.0, 1.0)
        timed = registry.get_sample_value(
            "rest_client_request_duration_seconds_count", {"verb": "GET", "host": host}
        )
        assert timed == 2.0


class TestFence:
    """A process that may not write any more."""

    async def test_nothing_but_leases_is_written(self, server: FakeServer) -> None:
        lease = "/apis/coordination.k8s.io/v1/namespaces/x/leases/y"
        for path in ("/x", lease):
            server.on(path, OK)
        why = ""
        async with Client(ClusterConfig(server.url)) as client:
            client.fence(lambda: why)
            await client.request("PUT", "/x")
            why = "lease not renewed for 16 s"
            for verb in ("PUT", "POST", "PATCH", "DELETE"):
                with pytest.raises(Fenced, match=f"{verb} /x was not sent: lease not renewed"):
                    await client.request(verb, "/x")
            await client.request("GET", "/x")
            await client.request("PUT", lease)
        assert [(one.method, one.path) for one in server.seen] == [
            ("PUT", "/x"),
            ("GET", "/x"),
            ("PUT", lease),
        ]

    async def test_a_refused_write_is_not_sent_again(self, server: FakeServer) -> None:
        server.on("/x", failure(429, "TooManyRequests", Retry_After="1"), OK)
        # Looked at before an attempt, and once more when there is a connection for it.
        reasons = iter(["", "", "too late"])
        async with Client(ClusterConfig(server.url)) as client:
            client.fence(lambda: next(reasons))
            with pytest.raises(Fenced, match="too late"):
                await client.request("POST", "/x")
        assert len(server.seen) == 1

    @pytest.mark.parametrize("verb", ["PUT", "DELETE"])
    async def test_a_write_whose_connection_broke_is_not_sent_again(
        self, server: FakeServer, verb: str
    ) -> None:
        """It is idempotent, and would be sent again by another connection."""
        why = ""

        async def broken(request: web.Request) -> web.StreamResponse:
            nonlocal why
            why = "lease not renewed for 16 s"
            return await disconnect()(request)

        server.on("/x", broken, OK)
        async with Client(ClusterConfig(server.url)) as client:
            client.fence(lambda: why)
            with pytest.raises(Fenced, match=f"{verb} /x was not sent: lease not renewed"):
                await client.request(verb, "/x")
        assert len(server.seen) == 1

    async def test_a_connection_that_takes_its_time_is_looked_at_again(
        self, server: FakeServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        server.on("/x", OK)
        why = ""
        connect = ServerConnections._connect

        async def slow(connections: ServerConnections, origin: Origin) -> Any:
            nonlocal why
            found = await connect(connections, origin)
            why = "lease not renewed for 16 s"
            return found

        monkeypatch.setattr(ServerConnections, "_connect", slow)
        async with Client(ClusterConfig(server.url)) as client:
            client.fence(lambda: why)
            with pytest.raises(Fenced, match="lease not renewed"):
                await client.request("POST", "/x")
        assert server.seen == []
