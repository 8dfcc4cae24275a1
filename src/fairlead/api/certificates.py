"""Certificate authorities and their certificates, made in memory.

Keys are EC P-256, which are generated in less than a millisecond. Every certificate carries
subject and authority key identifiers, so that clients that verify strictly (Python 3.13) accept
them. The library cryptography is an extra: programs that make no certificates do not import this
module.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


CA_LIFE = timedelta(days=3650)
"""Lifetime of an authority, in days: ten years."""
_SKEW = timedelta(minutes=5)
"""Minutes by which a new certificate is dated back, for clients whose clocks are behind."""


class KeyPair(NamedTuple):
    """A certificate and its private key, PEM."""

    certificate: bytes
    key: bytes


def new_key() -> ec.EllipticCurvePrivateKey:
    """Return a fresh private key."""
    return ec.generate_private_key(ec.SECP256R1())


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return a key as PKCS 8, PEM."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def load_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    """Return the key that :func:`key_pem` wrote.

    Raises:
        ValueError: it is no EC private key.
    """
    try:
        key = serialization.load_pem_private_key(pem, None)
    except TypeError:
        # The library says so of a key that a password protects.
        raise ValueError("the stored key is encrypted") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("the stored key is not an EC private key")  # noqa: TRY004
    return key


def general_name(host: str) -> x509.GeneralName:
    """Return the subject alternative name of a host: an IP address or a DNS name."""
    try:
        # Clients compare an address with entries for addresses alone, never with DNS names (RFC
        # 9525).
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


class Authority:
    """A certificate authority: its certificate and key, and the certificates that it issues."""

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self._certificate = certificate
        self._key = key
        self.pem = certificate.public_bytes(serialization.Encoding.PEM)

    @classmethod
    def create(cls, name: str, now: datetime) -> Self:
        """Return a new, self-signed authority."""
        key = new_key()
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = _builder(subject, subject, key, key, now, CA_LIFE, signs=True)
        return cls(builder.sign(key, hashes.SHA256()), key)

    @classmethod
    def read(cls, pair: KeyPair) -> Self:
        """Return the authority that :attr:`pair` was taken from.

        Raises:
            ValueError: there is no certificate, or no EC private key.
        """
        return cls(x509.load_pem_x509_certificate(pair.certificate), load_key(pair.key))

    @property
    def pair(self) -> KeyPair:
        """The authority's own certificate and key, to be kept."""
        return KeyPair(self.pem, key_pem(self._key))

    def server(
        self, name: str, hosts: Iterable[str], *, now: datetime, life: timedelta
    ) -> KeyPair:
        """Issue a certificate for a server with these names and addresses."""
        names = x509.SubjectAlternativeName([general_name(host) for host in hosts])
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        return self._issue(subject, ExtendedKeyUsageOID.SERVER_AUTH, now, life, names)

    def client(
        self, user: str, groups: Sequence[str] = (), *, now: datetime, life: timedelta
    ) -> KeyPair:
        """Issue a client certificate for a user and its groups.

        API servers read the user from the common name and the groups from the organizations:
        https://kubernetes.io/docs/reference/access-authn-authz/authentication/#x509-client-certificates.
        """
        attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        attributes.append(x509.NameAttribute(NameOID.COMMON_NAME, user))
        return self._issue(x509.Name(attributes), ExtendedKeyUsageOID.CLIENT_AUTH, now, life)

    def _issue(
        self,
        subject: x509.Name,
        usage: x509.ObjectIdentifier,
        now: datetime,
        life: timedelta,
        names: x509.SubjectAlternativeName | None = None,
    ) -> KeyPair:
        key = new_key()
        builder = _builder(
            subject, self._certificate.subject, key, self._key, now, life, signs=False
        ).add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return KeyPair(certificate.public_bytes(serialization.Encoding.PEM), key_pem(key))


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    issuer_key: ec.EllipticCurvePrivateKey,
    now: datetime,
    life: timedelta,
    *,
    signs: bool,
) -> x509.CertificateBuilder:
    public = key.public_key()
    # A path length of 0 keeps the authority from making other authorities.
    path_length = 0 if signs else None
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + life)
        # Critical, as RFC 5280 has these two: a verifier that does not know them refuses.
        .add_extension(x509.BasicConstraints(ca=signs, path_length=path_length), critical=True)
        .add_extension(_usage(signs_certificates=signs), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()),
            critical=False,
        )
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        # All that TLS needs of an EC key: keyEncipherment is for RSA.
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
