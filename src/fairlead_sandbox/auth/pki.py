"""The sandbox's own certificate authority, and what it signs.

Keys are EC P-256: they are made in less than a millisecond. Every certificate carries subject and
authority key identifiers, so that clients that verify strictly (Python 3.13) accept them.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fairlead.api.timestamps import moment


_CA_LIFE = timedelta(days=3650)
_LEAF_LIFE = timedelta(days=365)
_SKEW = timedelta(minutes=5)
_SERVER_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")


class KeyPair(NamedTuple):
    """A certificate and its private key, PEM."""

    certificate: bytes
    key: bytes


def new_key() -> ec.EllipticCurvePrivateKey:
    """A fresh private key."""
    return ec.generate_private_key(ec.SECP256R1())


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """The key as PKCS 8."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def load_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    """A key that :func:`key_pem` wrote.

    Raises:
        ValueError: it is no EC private key.
    """
    key = serialization.load_pem_private_key(pem, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("the stored key is no EC private key")  # noqa: TRY004
    return key


def write_secret(path: Path, content: bytes, *, durable: bool = False) -> None:
    """Write a file that its owner alone may read, at once or not at all.

    ``durable`` waits for the disk, so that a power failure cannot take the file back.
    """
    temporary = path.with_suffix(".new")
    # What a process left that was killed while it wrote would be in the way of O_EXCL.
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        if durable:
            file.flush()
            os.fsync(descriptor)
    temporary.replace(path)
    if durable:
        _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Authority:
    """A certificate authority: its certificate, its key, and what it issues."""

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self._certificate = certificate
        self._key = key
        self.pem = certificate.public_bytes(serialization.Encoding.PEM)

    @classmethod
    def create(cls, name: str) -> Self:
        """A new, self-signed authority."""
        key = new_key()
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = _builder(subject, subject, key.public_key(), _CA_LIFE)
        usage = _usage(signs_certificates=True)
        identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        certificate = (
            builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(identifier, critical=False)
            .add_extension(_authority_identifier(identifier), critical=False)
            .sign(key, hashes.SHA256())
        )
        return cls(certificate, key)

    @classmethod
    def load(cls, folder: Path, name: str) -> Self:
        """The authority kept in a folder; made and kept there when there is none.

        Raises:
            ValueError: what is kept there cannot be read.
            OSError: the folder cannot be used.
        """
        kept = folder / "ca.pem"
        if kept.exists():
            pem = kept.read_bytes()
            return cls(x509.load_pem_x509_certificate(pem), load_key(pem))
        authority = cls.create(name)
        authority.keep(kept)
        return authority

    def keep(self, path: Path) -> None:
        """Write certificate and key where :meth:`load` finds them."""
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # One file for both: a certificate is never there without its key.
        write_secret(path, self.pem + key_pem(self._key), durable=True)

    def server(self, host: str) -> KeyPair:
        """A certificate for a listener on this host."""
        names: list[x509.GeneralName] = [x509.DNSName(name) for name in _SERVER_NAMES]
        addresses = {"127.0.0.1", "::1"}
        try:
            addresses.add(str(ipaddress.ip_address(host)))
        except ValueError:
            if host not in _SERVER_NAMES:
                names.append(x509.DNSName(host))
        names += [x509.IPAddress(ipaddress.ip_address(one)) for one in sorted(addresses)]
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kube-apiserver")])
        return self._issue(subject, ExtendedKeyUsageOID.SERVER_AUTH, names)

    def client(self, user: str, groups: Sequence[str] = ()) -> KeyPair:
        """A certificate that makes its holder ``user``, a member of ``groups``."""
        attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        attributes.append(x509.NameAttribute(NameOID.COMMON_NAME, user))
        return self._issue(x509.Name(attributes), ExtendedKeyUsageOID.CLIENT_AUTH, [])

    def _issue(
        self, subject: x509.Name, usage: x509.ObjectIdentifier, names: list[x509.GeneralName]
    ) -> KeyPair:
        key = new_key()
        public = key.public_key()
        issuer = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        builder = (
            _builder(subject, self._certificate.subject, public, _LEAF_LIFE)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(_authority_identifier(issuer), critical=False)
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return KeyPair(certificate.public_bytes(serialization.Encoding.PEM), key_pem(key))


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, life: timedelta
) -> x509.CertificateBuilder:
    now = moment()
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + life)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
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


def _authority_identifier(
    identifier: x509.SubjectKeyIdentifier,
) -> x509.AuthorityKeyIdentifier:
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier)
