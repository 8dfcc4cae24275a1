from __future__ import annotations

import ssl
import stat
from pathlib import Path

import pytest
from cryptography import x509

from fairlead.api.certificates import Authority, KeyPair, load_key
from fairlead.api.timestamps import moment
from fairlead_sandbox.auth.guard import certificate_user, server_context
from fairlead_sandbox.auth.pki import client_pair, load_authority, server_pair


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.create("test-ca", moment())


def client_context(authority: Authority, folder: Path, pair: KeyPair | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=authority.pem.decode())
    # What Python 3.13 sets by itself.
    context.verify_flags |= ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN
    if pair is not None:
        path = folder / "client.pem"
        path.write_bytes(pair.certificate + pair.key)
        context.load_cert_chain(path)
    return context


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> ssl.SSLObject:
    """The server's end after a handshake in memory."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        client.wrap_bio(to_client, to_server, server_hostname=name),
        server.wrap_bio(to_server, to_client, server_side=True),
    )
    waiting = set(ends)
    for _ in range(10):
        for end in list(waiting):
            try:
                end.do_handshake()
                waiting.discard(end)
            except ssl.SSLWantReadError:
                continue
        if not waiting:
            return ends[1]
    raise AssertionError("the handshake did not end")


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "kubernetes.default.svc"])
def test_the_listener_is_trusted_strictly(authority: Authority, tmp_path: Path, name: str) -> None:
    server = server_context(authority, server_pair(authority, "127.0.0.1"))
    end = shake_hands(server, client_context(authority, tmp_path, None), name)
    assert not end.getpeercert()


def test_another_host_is_named_too(authority: Authority, tmp_path: Path) -> None:
    server = server_context(authority, server_pair(authority, "fairlead.test"))
    shake_hands(server, client_context(authority, tmp_path, None), "fairlead.test")


def test_another_name_is_not_trusted(authority: Authority, tmp_path: Path) -> None:
    server = server_context(authority, server_pair(authority, "127.0.0.1"))
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(server, client_context(authority, tmp_path, None), "example.org")


def test_a_client_certificate_names_its_holder(authority: Authority, tmp_path: Path) -> None:
    server = server_context(authority, server_pair(authority, "127.0.0.1"))
    pair = client_pair(authority, "alice", ["devs", "ops"])
    end = shake_hands(server, client_context(authority, tmp_path, pair), "localhost")
    user = certificate_user(end.getpeercert() or {})
    assert user is not None
    assert (user.name, user.groups) == ("alice", ("devs", "ops", "system:authenticated"))


def test_certificates_of_others_are_refused(authority: Authority, tmp_path: Path) -> None:
    server = server_context(authority, server_pair(authority, "127.0.0.1"))
    stranger = client_pair(Authority.create("test-ca", moment()), "alice", ["system:masters"])
    with pytest.raises(ssl.SSLError):
        shake_hands(server, client_context(authority, tmp_path, stranger), "localhost")


def test_a_certificate_without_a_name_is_nobody() -> None:
    subject = ((("organizationName", "system:masters"),),)
    assert certificate_user({"subject": subject}) is None


def test_the_authority_is_kept(tmp_path: Path) -> None:
    folder = tmp_path / "pki"
    first = load_authority(folder, "kept-ca")
    assert load_authority(folder, "other name").pem == first.pem
    kept = folder / "ca.pem"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert b"PRIVATE KEY" not in first.pem


def test_what_is_no_key_is_refused() -> None:
    with pytest.raises(ValueError, match=r"."):
        load_key(b"nonsense")


def test_certificates_end(authority: Authority) -> None:
    certificate = x509.load_pem_x509_certificate(client_pair(authority, "x").certificate)
    life = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    assert life.days == 365
