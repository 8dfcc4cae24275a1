from __future__ import annotations

import ssl
from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from fairlead.api.certificates import CA_LIFE, Authority, KeyPair, key_pem, load_key, new_key
from fairlead.api.timestamps import moment


LIFE = timedelta(days=2)


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.create("some-ca", moment())


def certificate(pair: KeyPair) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pair.certificate)


def test_an_authority_is_kept_and_goes_on(authority: Authority) -> None:
    again = Authority.read(authority.pair)
    leaf = certificate(again.server("server", ["localhost"], now=moment(), life=LIFE))
    leaf.verify_directly_issued_by(certificate(authority.pair))
    assert again.pem == authority.pem


def test_certificates_last_as_long_as_is_asked(authority: Authority) -> None:
    now = moment().replace(microsecond=0)
    leaf = certificate(authority.client("alice", now=now, life=LIFE))
    root = certificate(Authority.create("other", now).pair)
    assert leaf.not_valid_after_utc == now + LIFE
    assert root.not_valid_after_utc == now + CA_LIFE
    assert leaf.not_valid_before_utc < now > root.not_valid_before_utc


def test_names_and_addresses_are_told_apart(authority: Authority) -> None:
    hosts = ["hooks.default.svc", "127.0.0.1", "::1"]
    leaf = certificate(authority.server("server", hosts, now=moment(), life=LIFE))
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [type(name) for name in names] == [x509.DNSName, x509.IPAddress, x509.IPAddress]


def test_a_leaf_signs_nothing(authority: Authority) -> None:
    leaf = certificate(authority.client("alice", now=moment(), life=LIFE))
    assert not leaf.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert not leaf.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign


def test_python_reads_what_is_made(authority: Authority) -> None:
    context = ssl.create_default_context(cadata=authority.pem.decode())
    assert context.get_ca_certs()[0]["subject"] == ((("commonName", "some-ca"),),)


def encrypted() -> bytes:
    form, word = serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"x")
    return new_key().private_bytes(serialization.Encoding.PEM, form, word)


def other() -> bytes:
    key = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    form, none = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, form, none)


@pytest.mark.parametrize(
    ("pem", "why"),
    [(encrypted(), "is encrypted"), (other(), "not an EC private key"), (b"nonsense", r".")],
    ids=["encrypted", "rsa", "nonsense"],
)
def test_other_keys_are_refused(pem: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        load_key(pem)


def test_a_key_is_read_again() -> None:
    key = new_key()
    assert load_key(key_pem(key)).public_key() == key.public_key()
