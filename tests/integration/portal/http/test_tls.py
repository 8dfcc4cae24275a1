"""TLS of our own, whose certificate may change while connections are served."""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
from pathlib import Path

import aiohttp
import msgspec
import pytest
from cryptography import x509
from tests.support.pki import Authority, KeyPair
from tests.support.portal import opened, place_of, serve_options
from tests.support.waiting import SECONDS

from fairlead.portal import bounds
from fairlead.portal.http.introduction import Introduction
from fairlead.portal.http.serving import Certificate, PortalServer
from fairlead.portal.options import Limits


def write(folder: Path, pair: KeyPair) -> tuple[Path, Path]:
    """Replace both files as Kubernetes does, by a link."""
    version = folder / f"v{len(list(folder.iterdir()))}"
    version.mkdir()
    (version / "tls.crt").write_bytes(pair.certificate)
    (version / "tls.key").write_bytes(pair.key)
    link = folder / "next"
    link.symlink_to(version)
    os.replace(link, folder / "data")  # noqa: PTH105
    return folder / "data" / "tls.crt", folder / "data" / "tls.key"


async def test_it_serves_https_and_takes_a_new_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "CERTIFICATE_SECONDS", 0.01)
    old, new = Authority.create("old"), Authority.create("new")
    cert, key = write(tmp_path, old.issue("server"))
    options = serve_options(tls_cert_file=cert, tls_key_file=key)
    trusting = ssl.create_default_context(cadata=(old.pem + new.pem).decode())
    async with opened(options, Introduction(options).routes(), ssl_context=trusting) as door:
        assert door.server.url.startswith("https://")
        assert (await door.ask("/healthz")).text == "ok"
        write(tmp_path, new.issue("server"))
        only_new = ssl.create_default_context(cadata=new.pem.decode())
        connector = aiohttp.TCPConnector(ssl=only_new, force_close=True)
        async with (
            asyncio.timeout(SECONDS),
            aiohttp.ClientSession(connector=connector) as session,
        ):
            while True:
                try:
                    async with session.get(door.server.url + "/healthz") as response:
                        assert response.status == 200
                        break
                except aiohttp.ClientConnectorCertificateError:
                    continue
        assert (await door.ask("/healthz")).text == "ok", "the connection of before goes on"


def test_a_pair_that_is_half_written_is_looked_at_again(tmp_path: Path) -> None:
    authority = Authority.create()
    cert, key = write(tmp_path, authority.issue("server"))
    certificate = Certificate(cert, key)
    read = x509.load_pem_x509_certificate(cert.read_bytes())
    assert certificate.ends == read.not_valid_after_utc
    assert not certificate.refresh()
    other = authority.issue("server")
    cert.write_bytes(other.certificate)
    assert not certificate.refresh()
    key.unlink()
    assert not certificate.refresh()
    key.write_bytes(other.key)
    assert certificate.refresh()
    assert not certificate.refresh()


async def test_the_former_pair_is_served_while_a_new_one_is_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[bool] = []
    twice = asyncio.Event()
    refresh = Certificate.refresh

    def noted(certificate: Certificate) -> bool:
        looked.append(refresh(certificate))
        if len(looked) > 1:
            twice.set()
        return looked[-1]

    monkeypatch.setattr(bounds, "CERTIFICATE_SECONDS", 0.01)
    monkeypatch.setattr(Certificate, "refresh", noted)
    authority = Authority.create()
    cert, key = write(tmp_path, authority.issue("server"))
    options = serve_options(tls_cert_file=cert, tls_key_file=key)
    trusting = ssl.create_default_context(cadata=authority.pem.decode())
    async with opened(options, Introduction(options).routes(), ssl_context=trusting) as door:
        cert.write_bytes(authority.issue("server").certificate)
        looked.clear()
        twice.clear()
        async with asyncio.timeout(SECONDS):
            await twice.wait()
        assert not any(looked)
        connector = aiohttp.TCPConnector(ssl=trusting, force_close=True)
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            session.get(door.server.url + "/healthz") as response,
        ):
            assert response.status == 200


def test_what_is_no_pair_is_refused_before_anything_listens(tmp_path: Path) -> None:
    authority = Authority.create()
    one, other = authority.issue("server"), authority.issue("server")
    for pair in (KeyPair(one.certificate, other.key), KeyPair(b"", b""), KeyPair(b"x", b"y")):
        cert, key = write(tmp_path, pair)
        options = serve_options(tls_cert_file=cert, tls_key_file=key)
        with pytest.raises(ValueError, match=r"--tls-cert-file .* belong together"):
            PortalServer(options, None)  # type: ignore[arg-type]
    options = serve_options(tls_cert_file=tmp_path / "none", tls_key_file=tmp_path / "none")
    with pytest.raises(FileNotFoundError):
        PortalServer(options, None)  # type: ignore[arg-type]


async def test_s17_a_connection_without_its_tls_counts_too(tmp_path: Path) -> None:
    authority = Authority.create()
    cert, key = write(tmp_path, authority.issue("server"))
    limits = Limits(connections_per_address=1, header_seconds=100)
    options = serve_options(tls_cert_file=cert, tls_key_file=key, limits=limits)
    trusting = ssl.create_default_context(cadata=authority.pem.decode())
    async with opened(options, Introduction(options).routes(), ssl_context=trusting) as door:
        where = place_of(door.server.url)
        _, silent = await asyncio.open_connection(*where)
        async with asyncio.timeout(SECONDS):
            reader, second = await asyncio.open_connection(*where)
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
        second.close()
        silent.close()
        async with asyncio.timeout(SECONDS):
            while True:  # its place is another's as soon as it has gone
                with contextlib.suppress(aiohttp.ClientError):
                    assert (await door.ask("/healthz")).text == "ok"
                    break


async def test_a_handshake_that_fails_or_does_not_come_leaves_its_place(tmp_path: Path) -> None:
    authority = Authority.create()
    cert, key = write(tmp_path, authority.issue("server"))
    limits = Limits(connections=1, header_seconds=0.05)
    options = serve_options(tls_cert_file=cert, tls_key_file=key, limits=limits)
    trusting = ssl.create_default_context(cadata=authority.pem.decode())
    async with opened(options, Introduction(options).routes(), ssl_context=trusting) as door:
        for said in (b"", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01"):
            await door.say(said)
    options = msgspec.structs.replace(options, limits=Limits(connections=1))
    async with opened(options, Introduction(options).routes(), ssl_context=trusting) as door:
        await door.say(b"GET / HTTP/1.1\r\n\r\n")
        assert (await door.ask("/healthz")).text == "ok"
