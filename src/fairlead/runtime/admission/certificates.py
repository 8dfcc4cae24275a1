"""Certificates of a webhook server: the content of its Secret, and its renewal.

The Secret holds an authority of the server's own and the certificate that it signed. The
certificate is renewed after two thirds of its life, and clients need no change. The authority is
renewed in two steps: the next one joins the bundle that API servers trust, and signs only once it
is published there, so that no request is refused in between.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


CA_LIFE = timedelta(days=3650)
LIFE = timedelta(days=90)
# A client whose clock is behind accepts a new certificate.
_SKEW = timedelta(minutes=5)
_COMMON_NAME = "fairlead-webhooks"

CERTIFICATE, KEY = "tls.crt", "tls.key"
AUTHORITY, AUTHORITY_KEY = "ca.crt", "ca.key"
NEXT, NEXT_KEY = "next-ca.crt", "next-ca.key"
FORMER = "former-ca.crt"


def ends_at(certificate: str) -> datetime:
    """Return when the first certificate of a PEM text ends; long ago if there is none."""
    return _not_after(certificate)


class KeyPair(msgspec.Struct, frozen=True):
    """A certificate and its private key, PEM."""

    certificate: str
    key: str


def bundle(data: Mapping[str, str]) -> str:
    """Return the authorities that a client has to trust, PEM, from the Secret's data."""
    return "".join(data.get(name, "") for name in (AUTHORITY, NEXT, FORMER))


def renewed(
    data: Mapping[str, str], hosts: Sequence[str], now: datetime, *, published: bool
) -> dict[str, str]:
    """Return the data that the Secret must hold; equal to ``data`` if it is up to date.

    Args:
        data: the Secret's present data, valid or not; {} without a Secret.
        hosts: the names and addresses that the certificate has to be for.
        now: the time, aware.
        published: whether every client trusts all of :func:`bundle`.
    """
    wanted = {name: text for name, text in data.items() if name in _MEMBERS}
    authority = _pair(wanted, AUTHORITY, AUTHORITY_KEY)
    if authority is None or _ends(authority, now) <= now:
        # No authority to take over from: there is none that can sign, or it has expired.
        return _signed(_kept(make_authority(now), {}), hosts, now)
    if _is_due(authority, now):
        wanted = _turned(wanted, authority, now, published=published)
    former = wanted.get(FORMER)
    if former and _not_after(former) <= now:
        del wanted[FORMER]
    leaf = _pair(wanted, CERTIFICATE, KEY)
    if leaf is None or _is_due(leaf, now) or not _serves(leaf, wanted[AUTHORITY], hosts):
        return _signed(wanted, hosts, now)
    return wanted


_MEMBERS = frozenset({CERTIFICATE, KEY, AUTHORITY, AUTHORITY_KEY, NEXT, NEXT_KEY, FORMER})


def _turned(
    data: dict[str, str], authority: KeyPair, now: datetime, *, published: bool
) -> dict[str, str]:
    """Take the next step from one authority to another."""
    following = _pair(data, NEXT, NEXT_KEY)
    if following is None:
        following = make_authority(now)
        return {**data, NEXT: following.certificate, NEXT_KEY: following.key}
    # A leaf of an authority that servers do not trust yet would be refused.
    if not published:
        return data
    # Without a certificate, so that one is signed by the new authority. The former stays trusted
    # until it ends, for replicas that still show what it has signed.
    return _kept(following, {FORMER: authority.certificate})


def _kept(authority: KeyPair, more: Mapping[str, str]) -> dict[str, str]:
    return {AUTHORITY: authority.certificate, AUTHORITY_KEY: authority.key, **more}


def _signed(data: Mapping[str, str], hosts: Sequence[str], now: datetime) -> dict[str, str]:
    leaf = make_leaf(KeyPair(data[AUTHORITY], data[AUTHORITY_KEY]), hosts, now)
    return {**data, CERTIFICATE: leaf.certificate, KEY: leaf.key}


def make_authority(now: datetime) -> KeyPair:
    """Make a new authority, which signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{_COMMON_NAME}-ca")])
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    builder = (
        _builder(name, name, key, now, CA_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
    )
    return _pem(builder.sign(key, hashes.SHA256()), key)


def make_leaf(authority: KeyPair, hosts: Sequence[str], now: datetime) -> KeyPair:
    """Make a certificate for these names and addresses."""
    issuer = _certificate(authority.certificate)
    issuer_key = serialization.load_pem_private_key(authority.key.encode(), None)
    if not isinstance(issuer_key, ec.EllipticCurvePrivateKey):
        raise TypeError("the authority's key is of another kind than those made here")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _COMMON_NAME)])
    builder = (
        _builder(name, issuer.subject, key, now, LIFE)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False
        )
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()),
            critical=False,
        )
    )
    return _pem(builder.sign(issuer_key, hashes.SHA256()), key)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    now: datetime,
    life: timedelta,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + life)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> KeyPair:
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    text = key.private_bytes(encoding, form, serialization.NoEncryption())
    return KeyPair(certificate.public_bytes(encoding).decode(), text.decode())


def _certificate(text: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate(text.encode())


def _pair(data: Mapping[str, str], certificate: str, key: str) -> KeyPair | None:
    """Return a certificate with its own key; None if either is missing or invalid."""
    pair = KeyPair(data.get(certificate, ""), data.get(key, ""))
    try:
        loaded = serialization.load_pem_private_key(pair.key.encode(), None)
        same = loaded.public_key() == _certificate(pair.certificate).public_key()
    except (ValueError, TypeError):
        return None
    return pair if same and isinstance(loaded, ec.EllipticCurvePrivateKey) else None


def _not_after(text: str) -> datetime:
    try:
        return _certificate(text).not_valid_after_utc
    except ValueError:
        # A certificate that cannot be parsed counts as expired long ago.
        return datetime.min.replace(tzinfo=UTC)


def _ends(pair: KeyPair, now: datetime) -> datetime:
    """Return the end of the pair's certificate; ``now`` if the certificate is not valid yet."""
    certificate = _certificate(pair.certificate)
    begun = certificate.not_valid_before_utc <= now
    return certificate.not_valid_after_utc if begun else now


def _is_due(pair: KeyPair, now: datetime) -> bool:
    """Whether two thirds of the certificate's life are over."""
    certificate = _certificate(pair.certificate)
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return not begin <= now < end - (end - begin) / 3


def _serves(leaf: KeyPair, authority: str, hosts: Sequence[str]) -> bool:
    """Whether the authority has signed the certificate, for exactly these hosts."""
    certificate = _certificate(leaf.certificate)
    try:
        certificate.verify_directly_issued_by(_certificate(authority))
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except Exception:  # noqa: BLE001 - the library names a signature that is wrong in several ways
        return False
    return set(names) == {_host(host) for host in hosts}


def decoded(data: Mapping[str, str]) -> dict[str, str]:
    """Decode a Secret's data as text; data that is no text is left out."""
    found = {}
    for name, value in data.items():
        try:
            found[name] = base64.b64decode(value, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError, TypeError):
            continue
    return found


def encoded(data: Mapping[str, str]) -> dict[str, str]:
    """Encode text as a Secret's data."""
    return {name: base64.b64encode(value.encode()).decode() for name, value in data.items()}
