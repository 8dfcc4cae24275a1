from __future__ import annotations

import asyncio
import itertools
import socket
import ssl
import tempfile
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from tests.support.cancelling import cancelled_at
from tests.support.fakeserver import FakeServer, respond
from tests.support.pki import Authority, KeyPair
from tests.support.waiting import SECONDS

from fairlead.client import Client, ClusterConfig, ConfigError, ConnectionFailed
from fairlead.client.caution import Caution
from fairlead.client.connection import build_ssl_context


def server_context(
    authority: Authority,
    *hosts: str,
    clients: Authority | None = None,
    folder: Path,
    shift: timedelta = timedelta(),
) -> ssl.SSLContext:
    pair = authority.issue("server", hosts=hosts, shift=shift)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    (folder / "crt").write_bytes(pair.certificate)
    (folder / "key").write_bytes(pair.key)
    context.load_cert_chain(folder / "crt", folder / "key")
    if clients is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=clients.pem.decode())
    return context


async def version(config: ClusterConfig) -> str:
    async with Client(config) as client:
        return await client.discovery.server_version()


VERSION = respond({"gitVersion": "v1.2.3"})


class TestTrust:
    """Servers are verified by default, by the authority that the kubeconfig names."""

    @pytest.fixture
    def pair(self, authority: Authority) -> KeyPair:
        return authority.issue("someone")

    async def test_by_the_given_authority(self, authority: Authority, tmp_path: Path) -> None:
        tls = server_context(authority, "127.0.0.1", folder=tmp_path)
        async with FakeServer(tls=tls) as server:
            server.on("/version", VERSION)
            config = ClusterConfig(server.url, certificate_authority=authority.pem)
            assert await version(config) == "v1.2.3"

    @pytest.mark.parametrize(
        ("fields", "reason"),
        [
            pytest.param(
                {},
                "test-ca has issued it, while this client trusts the authorities of this machine",
                id="system-authorities",
            ),
            pytest.param(
                {"certificate_authority": Authority.create("other").pem},
                "; test-ca has issued it, while this client trusts other: check "
                "certificate-authority",
                id="another-authority",
            ),
        ],
    )
    async def test_strangers_are_refused(
        self, authority: Authority, tmp_path: Path, fields: dict[str, bytes], reason: str
    ) -> None:
        tls = server_context(authority, "127.0.0.1", folder=tmp_path)
        async with FakeServer(tls=tls) as server:
            server.on("/version", VERSION)
            with pytest.raises(ConnectionFailed, match=reason) as caught:
                await version(ClusterConfig(server.url, **fields))  # type: ignore[arg-type]
            assert server.url in str(caught.value)
            assert not server.seen

    async def test_a_stranger_s_server_gets_no_further_handshake(
        self, authority: Authority, tmp_path: Path
    ) -> None:
        tls = server_context(authority, "127.0.0.1", folder=tmp_path)
        other = Authority.create("other").pem
        async with (
            FakeServer(tls=tls) as server,
            Client(
                ClusterConfig(server.url, certificate_authority=other),
                caution=Caution(refused=lambda _address: ""),
            ) as client,
        ):
            with pytest.raises(ConnectionFailed, match="; another authority has issued it"):
                await client.discovery.server_version()

    @pytest.mark.parametrize(
        ("shift", "fault"),
        [
            pytest.param(timedelta(days=-2), "has expired", id="expired"),
            pytest.param(timedelta(days=2), "is not valid yet", id="not-yet"),
        ],
    )
    async def test_a_certificate_of_another_time_is_a_matter_of_clocks(
        self, authority: Authority, tmp_path: Path, shift: timedelta, fault: str
    ) -> None:
        tls = server_context(authority, "127.0.0.1", folder=tmp_path, shift=shift)
        async with FakeServer(tls=tls) as server:
            config = ClusterConfig(server.url, certificate_authority=authority.pem)
            with pytest.raises(ConnectionFailed, match=f"{fault} by the clock of this") as caught:
                await version(config)
            told = str(caught.value)
            assert server.url in told
            assert "set that clock if it is wrong" in told
            # The authority of the kubeconfig is the right one.
            assert "certificate-authority-data" not in told

    async def test_another_host_name_is_refused(
        self, authority: Authority, tmp_path: Path
    ) -> None:
        tls = server_context(authority, "other.example", folder=tmp_path)
        async with FakeServer(tls=tls) as server:
            config = ClusterConfig(server.url, certificate_authority=authority.pem)
            with pytest.raises(ConnectionFailed, match="tls-server-name"):
                await version(config)

    async def test_tls_server_name(self, authority: Authority, tmp_path: Path) -> None:
        tls = server_context(authority, "other.example", folder=tmp_path)
        async with FakeServer(tls=tls) as server:
            server.on("/version", VERSION)
            config = ClusterConfig(
                server.url, certificate_authority=authority.pem, tls_server_name="other.example"
            )
            assert await version(config) == "v1.2.3"

    async def test_insecure_is_possible_when_asked_for(
        self, authority: Authority, tmp_path: Path
    ) -> None:
        tls = server_context(authority, "other.example", folder=tmp_path)
        async with FakeServer(tls=tls) as server:
            server.on("/version", VERSION)
            assert await version(ClusterConfig(server.url, insecure_skip_tls_verify=True))

    async def test_plain_http_where_tls_was_meant(self) -> None:
        async with FakeServer() as server:
            with pytest.raises(ConnectionFailed, match="is it an https server"):
                await version(ClusterConfig(server.url.replace("http:", "https:")))

    def test_authorities_without_key_identifiers_are_taken(self, authority: Authority) -> None:
        context = build_ssl_context(
            ClusterConfig("https://h", certificate_authority=authority.pem)
        )
        assert not context.verify_flags & ssl.VERIFY_X509_STRICT
        assert context.verify_mode == ssl.CERT_REQUIRED
        assert context.check_hostname


class TestIdentity:
    """Client certificates come from memory and leave nothing behind."""

    async def test_is_shown(self, authority: Authority, tmp_path: Path) -> None:
        tls = server_context(authority, "127.0.0.1", clients=authority, folder=tmp_path)
        pair = authority.issue("joe")
        async with FakeServer(tls=tls) as server:
            server.on("/version", VERSION)
            config = ClusterConfig(server.url, certificate_authority=authority.pem)
            with pytest.raises(ConnectionFailed):
                await version(config)
            known = replace(config, client_certificate=pair.certificate, client_key=pair.key)
            assert await version(known) == "v1.2.3"

    def test_files_are_private_and_gone(
        self, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        seen: dict[str, int] = {}

        def load(_context: object, *paths: Path, password: object) -> None:
            seen.update({path.name: path.stat().st_mode & 0o777 for path in paths})
            seen["folder"] = paths[0].parent.stat().st_mode & 0o777

        monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", load)
        pair = authority.issue("joe")
        build_ssl_context(ClusterConfig("https://h"), pair.certificate, pair.key)
        assert seen == {"tls.crt": 0o600, "tls.key": 0o600, "folder": 0o700}
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("kind", ["garbage", "another-key", "encrypted"])
    def test_unusable_pair(self, authority: Authority, kind: str) -> None:
        pair, other = authority.issue("joe"), authority.issue("jane")
        loaded = serialization.load_pem_private_key(pair.key, password=None)
        key = {
            "garbage": b"s3cret",
            "another-key": other.key,
            "encrypted": loaded.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.BestAvailableEncryption(b"pw"),
            ),
        }[kind]
        with pytest.raises(ConfigError, match="not a matching, unencrypted PEM pair") as caught:
            build_ssl_context(ClusterConfig("https://h"), pair.certificate, key)
        assert "s3cret" not in str(caught.value)

    @pytest.mark.parametrize("pem", [b"garbage", b"\xff", b"-----BEGIN CERTIFICATE-----"])
    def test_unusable_authority(self, pem: bytes) -> None:
        with pytest.raises(
            ConfigError,
            match="certificate-authority for https://h",
        ):
            build_ssl_context(ClusterConfig("https://h", certificate_authority=pem))


class TestGoodbye:
    """A closed client leaves no connection behind, whatever its peer does."""

    @pytest.mark.parametrize("answered", [False, True], ids=["asking", "idle"])
    async def test_no_farewell_is_waited_for(
        self, authority: Authority, tmp_path: Path, answered: bool
    ) -> None:
        tls = server_context(authority, "127.0.0.1", folder=tmp_path)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            asked, ended = asyncio.Event(), asyncio.Event()
            loop = asyncio.get_running_loop()

            def peer() -> bytes:
                connection = tls.wrap_socket(listener.accept()[0], server_side=True)
                connection.recv(65536)
                if answered:
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
                loop.call_soon_threadsafe(asked.set)
                rest = b""
                with socket.socket(fileno=connection.detach()) as raw:
                    raw.settimeout(SECONDS)
                    while data := raw.recv(65536):
                        rest = data
                loop.call_soon_threadsafe(ended.set)
                return rest

            peering = asyncio.create_task(asyncio.to_thread(peer))
            url = f"https://127.0.0.1:{listener.getsockname()[1]}"
            client = Client(ClusterConfig(url, certificate_authority=authority.pem))
            asking = asyncio.create_task(client.request("GET", "/x"))
            await asked.wait()
            if answered:
                await asking
            asking.cancel()
            await asyncio.wait([asking])
            await client.close()
            await peering
            assert ended.is_set()


_ESTABLISHED = 1
"""State of TCP in Linux' struct tcp_info: neither end has closed."""


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("times", [1, 2], ids=["once", "twice"])
async def test_a_request_cancelled_at_any_await_leaves_no_connection(
    authority: Authority, tmp_path: Path, encrypted: bool, times: int
) -> None:
    tls = server_context(authority, "127.0.0.1", folder=tmp_path) if encrypted else None
    async with FakeServer(tls=tls) as server:
        server.on("/version", VERSION)
        config = ClusterConfig(server.url, certificate_authority=authority.pem)
        for step in itertools.count():
            client = Client(config)

            async def work(client: Client = client) -> None:
                async with client:
                    await client.discovery.server_version()

            async with asyncio.timeout(SECONDS):
                reached = await cancelled_at(step, work(), times=times)
            left = client._transport._connections._sockets._left()
            states = [made.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1) for made in left]
            assert bytes([_ESTABLISHED]) not in states, step
            if not reached:
                return
