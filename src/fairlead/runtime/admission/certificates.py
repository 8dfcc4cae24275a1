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

import msgspec
from cryptography import x509

from fairlead.api.certificates import Authority, KeyPair, general_name, load_key


LIFE = timedelta(days=90)
"""Lifetime of a server's certificate, in days; a new one is made after 60 of them."""
_COMMON_NAME = "fairlead-webhooks"

CERTIFICATE, KEY = "tls.crt", "tls.key"
AUTHORITY, AUTHORITY_KEY = "ca.crt", "ca.key"
NEXT, NEXT_KEY = "next-ca.crt", "next-ca.key"
FORMER = "former-ca.crt"


def ends_at(certificate: str) -> datetime:
    """Return the end of the first certificate in a PEM text; the year 1 if there is none."""
    return _not_after(certificate)


class Certified(msgspec.Struct, frozen=True):
    """A certificate and its private key as a Secret has them, PEM."""

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
    members = {name: text for name, text in data.items() if name in _MEMBERS}
    authority = _pair(members, AUTHORITY, AUTHORITY_KEY)
    if authority is None or _ends(authority, now) <= now:
        # No authority to take over from: there is none that can sign, or it has expired.
        return _signed(_secret_data(make_authority(now), {}), hosts, now)
    if _is_due(authority, now):
        members = _turned(members, authority, now, published=published)
    former = members.get(FORMER)
    if former and _not_after(former) <= now:
        del members[FORMER]
    leaf = _pair(members, CERTIFICATE, KEY)
    if leaf is None or _is_due(leaf, now) or not _serves(leaf, members[AUTHORITY], hosts):
        return _signed(members, hosts, now)
    return members


_MEMBERS = frozenset({CERTIFICATE, KEY, AUTHORITY, AUTHORITY_KEY, NEXT, NEXT_KEY, FORMER})


def _turned(
    data: dict[str, str], authority: Certified, now: datetime, *, published: bool
) -> dict[str, str]:
    """Return the data after the next step of a change of authority.

    First the next authority joins the bundle; once API servers trust it, it replaces the former.
    """
    following = _pair(data, NEXT, NEXT_KEY)
    if following is None:
        following = make_authority(now)
        return {**data, NEXT: following.certificate, NEXT_KEY: following.key}
    # A leaf of an authority that servers do not trust yet would be refused.
    if not published:
        return data
    # Without a certificate, so that one is signed by the new authority. The former stays trusted
    # until it ends, for replicas that still show what it has signed.
    return _secret_data(following, {FORMER: authority.certificate})


def _secret_data(authority: Certified, more: Mapping[str, str]) -> dict[str, str]:
    return {AUTHORITY: authority.certificate, AUTHORITY_KEY: authority.key, **more}


def _signed(data: Mapping[str, str], hosts: Sequence[str], now: datetime) -> dict[str, str]:
    leaf = make_leaf(Certified(data[AUTHORITY], data[AUTHORITY_KEY]), hosts, now)
    return {**data, CERTIFICATE: leaf.certificate, KEY: leaf.key}


def make_authority(now: datetime) -> Certified:
    """Make a new authority, which signs itself."""
    return _text(Authority.create(f"{_COMMON_NAME}-ca", now).pair)


def make_leaf(authority: Certified, hosts: Sequence[str], now: datetime) -> Certified:
    """Issue a certificate for these names and addresses."""
    pair = KeyPair(authority.certificate.encode(), authority.key.encode())
    return _text(Authority.read(pair).server(_COMMON_NAME, hosts, now=now, life=LIFE))


def _text(pair: KeyPair) -> Certified:
    return Certified(pair.certificate.decode(), pair.key.decode())


def _certificate(text: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate(text.encode())


def _pair(data: Mapping[str, str], certificate: str, key: str) -> Certified | None:
    """Return a certificate with its own key; None if either is missing or invalid."""
    pair = Certified(data.get(certificate, ""), data.get(key, ""))
    try:
        loaded = load_key(pair.key.encode())
        same = loaded.public_key() == _certificate(pair.certificate).public_key()
    except ValueError:
        return None
    return pair if same else None


def _not_after(text: str) -> datetime:
    try:
        return _certificate(text).not_valid_after_utc
    except ValueError:
        # A certificate that cannot be parsed counts as expired long ago.
        return datetime.min.replace(tzinfo=UTC)


def _ends(pair: Certified, now: datetime) -> datetime:
    """Return the end of the pair's certificate; ``now`` if the certificate is not valid yet."""
    certificate = _certificate(pair.certificate)
    begun = certificate.not_valid_before_utc <= now
    return certificate.not_valid_after_utc if begun else now


def _is_due(pair: Certified, now: datetime) -> bool:
    """Whether two thirds of the certificate's life are over."""
    certificate = _certificate(pair.certificate)
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return not begin <= now < end - (end - begin) / 3


def _serves(leaf: Certified, authority: str, hosts: Sequence[str]) -> bool:
    """Whether the authority has signed the certificate, for exactly these hosts."""
    certificate = _certificate(leaf.certificate)
    try:
        certificate.verify_directly_issued_by(_certificate(authority))
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except Exception:  # noqa: BLE001 - the library names a signature that is wrong in several ways
        return False
    return set(names) == {general_name(host) for host in hosts}


def decoded(data: Mapping[str, str]) -> dict[str, str]:
    """Decode a Secret's data as text; data that is no text is left out."""
    members = {}
    for name, value in data.items():
        try:
            members[name] = base64.b64decode(value, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError, TypeError):
            continue
    return members


def encoded(data: Mapping[str, str]) -> dict[str, str]:
    """Encode text as a Secret's data."""
    return {name: base64.b64encode(value.encode()).decode() for name, value in data.items()}
