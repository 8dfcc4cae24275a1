"""What people give in the place of an authority is told for what it is, with the remedy."""

from __future__ import annotations

import base64
import socket
import ssl
import warnings
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID
from tests.support.pki import Authority, private_pem

from fairlead.client.authorities import (
    AuthorityError,
    check_authority,
    issuer_at,
    issuer_of,
    names_of,
    only_certificates,
    read_authority,
    trust_only,
)


AUTHORITY = Authority.create("the authority")
PEM = AUTHORITY.pem
KEY = private_pem(AUTHORITY.key)
DER = ssl.PEM_cert_to_DER_cert(PEM.decode())
BODY = b"".join(PEM.splitlines()[1:-1])


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        pytest.param(b" \n", "is empty", id="empty"),
        pytest.param(base64.b64encode(PEM), "is base64 of PEM", id="base64-of-pem"),
        pytest.param(base64.encodebytes(PEM), "is base64 of PEM", id="base64-in-lines"),
        pytest.param(DER, "is DER", id="der"),
        pytest.param(BODY, "without the lines BEGIN", id="no-lines"),
        pytest.param(KEY, "holds a private key", id="key"),
        pytest.param(
            b"-----BEGIN CERTIFICATE REQUEST-----", "holds a CERTIFICATE REQUEST", id="request"
        ),
        pytest.param(PEM.decode().encode("utf-16"), "is text in UTF-16", id="utf-16"),
        pytest.param(PEM[:100], "cannot be read", id="cut-off"),
        pytest.param(PEM.replace(BODY[40:60], b"A" * 20), "cannot be read", id="changed"),
        pytest.param(b"%PDF-1.4", "holds no certificate in PEM", id="other"),
    ],
)
def test_what_is_no_authority_is_named(data: bytes, fault: str) -> None:
    with pytest.raises(AuthorityError, match=fault):
        trust_only(data)
    with pytest.raises(AuthorityError, match=fault):
        check_authority(data)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(PEM, id="pem"),
        pytest.param(PEM.replace(b"\n", b"\r\n"), id="windows"),
        pytest.param("# Hauptverband der österreichischen\n".encode() + PEM, id="comment"),
        pytest.param(Authority.create("other").pem + PEM, id="several"),
    ],
)
def test_certificates_are_trusted(data: bytes) -> None:
    assert check_authority(data) == data
    assert DER in trust_only(data).get_ca_certs(binary_form=True)


def test_authorities_that_have_expired() -> None:
    expired = Authority.create("old", shift=timedelta(days=-30))
    with pytest.raises(AuthorityError, match="has expired by the clock of this machine"):
        check_authority(expired.pem)
    assert check_authority(expired.pem + PEM), "while the new one stands beside the old one"


def test_a_key_beside_the_certificates_goes_nowhere() -> None:
    with pytest.raises(AuthorityError, match="take the key out"):
        check_authority(PEM + KEY)
    assert only_certificates(KEY + b"# comment\n" + PEM) == PEM


def test_field_and_file_are_named(tmp_path: Path) -> None:
    file = tmp_path / "ca.crt"
    file.write_bytes(b"")
    with pytest.raises(AuthorityError, match=r"^--external-ca-file: \S+ca\.crt is empty"):
        read_authority(file, "--external-ca-file")


def test_names() -> None:
    many = b"".join(Authority.create(f"ca {number}").pem for number in range(4))
    assert names_of(PEM) == "the authority"
    assert names_of(many) == "ca 0, ca 1, ca 2 and 1 more"
    assert not names_of(b"nonsense")


def issued_by(name: x509.Name) -> bytes:
    """A certificate in DER with this issuer; the authority's own is the template."""
    given = AUTHORITY.certificate
    builder = x509.CertificateBuilder(
        issuer_name=name,
        subject_name=given.subject,
        public_key=given.public_key(),
        serial_number=given.serial_number,
        not_valid_before=given.not_valid_before_utc,
        not_valid_after=given.not_valid_after_utc,
    )
    signed = builder.sign(AUTHORITY.key, hashes.SHA256())
    return signed.public_bytes(serialization.Encoding.DER)


def named(text: str, kind: _ASN1Type | None = None) -> x509.NameAttribute[str]:
    with warnings.catch_warnings(action="ignore"):
        return x509.NameAttribute(NameOID.COMMON_NAME, text, kind, _validate=False)


ORGANIZATION = x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Example")
LONG = "x" * 40_000


@pytest.mark.parametrize(
    ("name", "issuer"),
    [
        pytest.param([named("the authority")], "the authority", id="common-name"),
        pytest.param([ORGANIZATION, named("ca 1")], "ca 1", id="among-others"),
        pytest.param([ORGANIZATION], "Example", id="organization"),
        pytest.param([named("Zürich", _ASN1Type.BMPString)], "Zürich", id="utf-16"),
        pytest.param([named("ca", _ASN1Type.PrintableString)], "ca", id="printable"),
        pytest.param([named(LONG)], LONG[:64], id="longer-than-a-name"),
        pytest.param([named("a\nb")], "", id="lines"),
        pytest.param([], "", id="none"),
    ],
)
def test_issuer(name: list[x509.NameAttribute[str]], issuer: str) -> None:
    assert issuer_of(issued_by(x509.Name(name))) == issuer


@pytest.mark.parametrize(
    "data",
    [b"", b"nonsense", DER[:30], b"\x30\x85"],
    ids=["empty", "nonsense", "cut-off", "no-length"],
)
def test_no_certificate_has_no_issuer(data: bytes) -> None:
    assert not issuer_of(data)


async def test_a_server_without_tls_has_no_issuer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert not await issuer_at("127.0.0.1", port)
    assert not await issuer_at("..", port)
