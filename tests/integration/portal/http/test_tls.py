"""TLS of our own, whose certificate may change while connections are served."""

from __future__ import annotations

import asyncio
import os
import ssl
from pathlib import Path

import aiohttp
import pytest
from tests.support.pki import Authority, KeyPair
from tests.support.portal import opened, serve_options
from tests.support.waiting import SECONDS

from fairlead.portal.http import serving
from fairlead.portal.http.introduction import Introduction
from fairlead.portal.http.serving import Certificate, PortalServer


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
    monkeypatch.setattr(serving, "_LOOK_AGAIN", 0.01)
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
    assert not certificate.refresh()
    other = authority.issue("server")
    cert.write_bytes(other.certificate)
    assert not certificate.refresh()
    key.unlink()
    assert not certificate.refresh()
    key.write_bytes(other.key)
    assert certificate.refresh()
    assert not certificate.refresh()


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
