"""Authorities: the certificates in PEM by which a server's certificate is verified.

What people give in their place is told for what it is: base64 of PEM, DER, a key, an empty file.
Where another authority has issued the server's certificate, the message names both.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
import ssl
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from fairlead.api.timestamps import moment
from fairlead.client import limits
from fairlead.client.clocks import certificate_clock


_CERTIFICATE = "CERTIFICATE"
_BEGIN = re.compile(rb"-----BEGIN ([A-Z0-9 ]{1,40})-----")
_BLOCK = re.compile(rb"-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----")
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_SEQUENCE = 0x30
"""First byte of DER (ITU-T X.690): a certificate is a SEQUENCE."""
_UNKNOWN_ISSUER = frozenset({18, 19, 20, 21})
"""Faults of a certificate that no trusted authority has issued, by OpenSSL's ``x509_vfy.h``."""
_VERSION = 0xA0
"""Tag of a certificate's optional version, the first of its fields (RFC 5280, 4.1)."""
_COMMON_NAME = bytes.fromhex("550403")
"""Content of the object identifier id-at-commonName, 2.5.4.3."""
_UTF_16_STRING = 0x1E
"""Tag of BMPString; the texts of names have other tags otherwise, and are read as UTF-8."""


class AuthorityError(ValueError):
    """Bytes are no authority; the text continues the name of their place, as in "is empty"."""


def only_certificates(data: bytes) -> bytes:
    """Return the certificates alone, in PEM, without comments, keys and what else stands there."""
    return b"".join(block + b"\n" for block in _BLOCK.findall(data))


def trust_only(data: bytes) -> ssl.SSLContext:
    """Return the context of a client that trusts these authorities and no others.

    Raises:
        AuthorityError: there is no usable certificate; says what there is, and the remedy.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Python 3.13 sets the flag for default contexts; the authorities of many clusters lack the
    # extensions that it demands.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    blocks = only_certificates(data)
    if not blocks:
        raise AuthorityError(_what_is_there(data))
    try:
        context.load_verify_locations(cadata=blocks.decode("ascii"))
    except (ssl.SSLError, ValueError):
        raise AuthorityError(
            "has a certificate that cannot be read: copy it again, whole and unchanged"
        ) from None
    return context


def check_authority(data: bytes) -> bytes:
    """Check authorities that others are to trust, or that a person gives; return them.

    Raises:
        AuthorityError: there is no usable certificate, all have expired, or a key is among them.
    """
    if b"PRIVATE KEY" in b"".join(_BEGIN.findall(data)) and only_certificates(data):
        raise AuthorityError("has a private key beside its certificates: take the key out")
    until = [
        ssl.cert_time_to_seconds(str(certificate["notAfter"]))
        for certificate in trust_only(data).get_ca_certs()
    ]
    if until and max(until) < (now := moment()).timestamp():
        raise AuthorityError(
            f"has expired by the clock of this machine, which says {now:%Y-%m-%d}: give the "
            "authority's new certificate"
        )
    return data


def read_authority(path: Path, field: str) -> bytes:
    """Return the authorities in a file that a person names in a flag or field.

    Raises:
        OSError: the file cannot be read.
        AuthorityError: as in :func:`check_authority`; names field and file.
    """
    try:
        return check_authority(path.read_bytes())
    except AuthorityError as error:
        raise AuthorityError(f"{field}: {path} {error}") from None


def names_of(data: bytes) -> str:
    """Return who the authorities are, for a message; "" if that cannot be said."""
    try:
        certificates = trust_only(data).get_ca_certs()
    except AuthorityError:
        return ""
    names = [_name(certificate["subject"]) for certificate in certificates]
    more = (
        f" and {len(names) - limits.ISSUER_NAMES} more" if len(names) > limits.ISSUER_NAMES else ""
    )
    return ", ".join(dict.fromkeys(filter(None, names[: limits.ISSUER_NAMES]))) + more


def refused_certificate(error: BaseException | None) -> ssl.SSLCertVerificationError | None:
    """Return the refusal of a server's certificate that an error comes from, None without one."""
    while error is not None:
        # aiohttp's own class is one of these too, and lacks what the verification says.
        if isinstance(error, ssl.SSLCertVerificationError) and hasattr(error, "verify_code"):
            return error
        error = error.__cause__ or error.__context__
    return None


def is_of_another_issuer(refusal: ssl.SSLCertVerificationError) -> bool:
    """Whether a certificate was refused because no trusted authority has issued it."""
    return refusal.verify_code in _UNKNOWN_ISSUER


def explain_refusal(
    refusal: ssl.SSLCertVerificationError,
    trusted: bytes,
    issuer: str = "",
    *,
    authority: str,
    name: str,
) -> str:
    """Return why a server's certificate was refused, and the remedy; a secret is in neither.

    Args:
        refusal: the verification's error.
        trusted: the authorities in PEM, b"" for those of the machine.
        issuer: the certificate's issuer, "" if it is unknown.
        authority: the field with the trusted authorities, for the remedy.
        name: the field with the server's name.
    """
    if clock := certificate_clock(refusal):
        return clock
    fault = f"its certificate was refused: {refusal.verify_message or 'it is not trusted'}"
    if not is_of_another_issuer(refusal):
        return f"{fault}; check {authority} and {name}"
    names = names_of(trusted) if trusted else "the authorities of this machine"
    rest = f"this client trusts {names}" if names else "this client trusts another authority"
    return (
        f"{fault}; {issuer or 'another authority'} has issued it, while {rest}: check {authority}"
    )


async def issuer_at(host: str, port: int, server_name: str = "") -> str:
    """Return who issued the certificate that a server shows; "" if that cannot be read in time.

    Python keeps no certificate that it has refused, so this is a TLS handshake of its own. It
    verifies nothing, and sends nothing but the server's name.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with suppress(OSError, ValueError):
        async with asyncio.timeout(limits.ISSUER_SECONDS):
            _, writer = await asyncio.open_connection(
                host, port, ssl=context, server_hostname=server_name or host
            )
            certificate = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
            writer.transport.abort()
            return issuer_of(certificate or b"")
    return ""


def issuer_of(certificate: bytes) -> str:
    """Return the issuer in a certificate in DER, "" if it has none that can be shown."""
    try:
        # Certificate, tbsCertificate, and its fields: version, serial number, algorithm, issuer.
        (_, whole), *_ = _values(certificate)
        (_, signed), *_ = _values(whole)
        fields = [content for tag, content in _values(signed) if tag != _VERSION]
        return _name(tuple(_attributes(fields[2])))
    except (IndexError, ValueError):
        return ""


def _attributes(name: bytes) -> Iterator[tuple[tuple[str, str], ...]]:
    """Yield the parts of a Name in DER as Python's ssl gives those of a subject."""
    for _, part in _values(name):
        for _, attribute in _values(part):
            (_, type_), (tag, value) = _values(attribute)
            text = value.decode("utf-16-be" if tag == _UTF_16_STRING else "utf-8")
            yield (("commonName" if type_ == _COMMON_NAME else "", text),)


def _values(data: bytes) -> list[tuple[int, bytes]]:
    """Return tag and content of each of the values in DER (ITU-T X.690, 8.1).

    Raises:
        IndexError: the last value is incomplete.
    """
    values, at = [], 0
    while at < len(data):
        tag, size = data[at], data[at + 1]
        at += 2
        if size & 0x80:
            more = size & 0x7F
            size = int.from_bytes(data[at : at + more])
            at += more
        values.append((tag, data[at : at + size]))
        at += size
    return values


def _name(subject: object) -> str:
    """Return the common name in a subject as Python's ssl gives it, or else its last part."""
    parts = [pair for part in subject for pair in part] if isinstance(subject, tuple) else []
    named = [value for field, value in parts if field == "commonName"] or [
        value for _, value in parts[-1:]
    ]
    text = str(named[0])[: limits.ISSUER_CHARACTERS] if named else ""
    return text if text.isprintable() else ""


def _what_is_there(data: bytes) -> str:
    """Return what the bytes are, which hold no certificate in PEM, and the remedy."""
    text = data.strip()
    if not text:
        return "is empty: it has to hold a certificate in PEM"
    if text.startswith(_UTF_16):
        return "is text in UTF-16: save it as plain text (ASCII)"
    labels = [label.decode() for label in _BEGIN.findall(text)]
    if any(label.endswith("PRIVATE KEY") for label in labels):
        return "holds a private key: give the authority's certificate in its place"
    if _CERTIFICATE in labels:
        return "has a certificate that cannot be read: copy it again, whole and unchanged"
    if labels:
        return f"holds a {labels[0]}: give the authority's certificate in its place"
    if text[0] == _SEQUENCE:
        return "is DER: convert it with `openssl x509 -inform der -in FILE`"
    decoded = _decoded(text)
    if _BEGIN.search(decoded):
        return "is base64 of PEM: decode it once, with `base64 -d`"
    if decoded[:1] == bytes([_SEQUENCE]):
        return "is a certificate's base64 without the lines BEGIN CERTIFICATE and END CERTIFICATE"
    return "holds no certificate in PEM, which begins with -----BEGIN CERTIFICATE-----"


def _decoded(text: bytes) -> bytes:
    try:
        return base64.b64decode(b"".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        return b""
