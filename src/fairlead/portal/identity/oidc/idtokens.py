"""Verification of an issuer's id_token (OpenID Connect Core, 3.1.3.7)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import unicodedata
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from joserfc import jws
from joserfc.errors import JoseError, SecurityWarning
from joserfc.jwk import ECKey, Key, OKPKey, RSAKey, import_key

from fairlead.portal import bounds
from fairlead.portal.identity.sessions import FEWER_GROUPS, Person
from fairlead.portal.options import DEFAULT_PERSON_CLAIMS, PersonClaims


_CLOCKS = "the issuer's clock and this server's differ too much, or the sign-in took too long"
_CURVES = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}
_RSA = tuple(f"{family}{size}" for family in ("RS", "PS") for size in (256, 384, 512))
ALGORITHMS = (*_RSA, *_CURVES, "EdDSA", "Ed25519")
"""Accepted signature algorithms: only asymmetric ones; HS256 would make our secret a key."""

_parts = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+").fullmatch


class UntrustedError(Exception):
    """A rejected id_token; the text is for the log, and contains no token.

    ``shown`` is the message for the person, "" if they only learn of the refusal.
    """

    def __init__(self, text: str, *, shown: str = "") -> None:
        super().__init__(text)
        self.told = shown


class UnknownKeyError(UntrustedError):
    """No known key signed the token: the issuer may have new keys."""


class Expected(NamedTuple):
    """Values that the token has to match; ``begun`` is in seconds since 1970."""

    issuer: str
    client_id: str
    nonce: str
    begun: float
    access_token: str = ""
    claims: PersonClaims = DEFAULT_PERSON_CLAIMS


class _Registry(jws.JWSRegistry):
    """Larger limits than the library's: for certificates in headers and many groups."""

    max_header_length = 32 * 1024
    max_payload_length = bounds.ISSUER_BYTES


class _Header(msgspec.Struct):
    alg: str
    kid: str | None = None
    crit: Any = None
    b64: Any = None


def read_keys(body: bytes) -> list[Key]:
    """Return the signing keys of a JWKS; others are skipped.

    Raises:
        UntrustedError: the body is not a JWKS.
    """
    try:
        entries = msgspec.json.decode(body, type=dict[str, Any])["keys"]
    except (ValueError, KeyError, RecursionError) as error:
        raise UntrustedError(f"the issuer's keys are no JWKS: {error}") from None
    if not isinstance(entries, list):
        raise UntrustedError("the issuer's keys are no JWKS: keys is no list")
    keys = (_key(one) for one in entries[: bounds.JWKS_KEYS])
    return [key for key in keys if key is not None]


def check(token: str, keys: Sequence[Key], expected: Expected, *, now: float) -> Person:
    """Verify the token and return its person.

    Raises:
        UnknownKeyError: none of the keys signed the token.
        UntrustedError: another check failed.
    """
    header, claims = verified(token, keys)
    _check_audience(claims, expected)
    _check_times(claims, expected, now)
    nonce = claims.get("nonce")
    if not isinstance(nonce, str) or not hmac.compare_digest(
        nonce.encode(), expected.nonce.encode()
    ):
        raise UntrustedError("nonce is not that of this sign-in")
    if "at_hash" in claims:
        _check_access_token(claims["at_hash"], header.alg, expected.access_token)
    return _person(claims, expected)


def verified(token: str, keys: Sequence[Key]) -> tuple[_Header, Mapping[str, Any]]:
    """Verify the signature and return the token's header and claims.

    Raises:
        UnknownKeyError: none of the keys signed the token.
        UntrustedError: the token is malformed, or its algorithm is not accepted.
    """
    if not _parts(token):
        raise UntrustedError("the id_token is not a signed token")
    try:
        first = token.partition(".")[0]
        decoded = base64.urlsafe_b64decode(first + "=" * (-len(first) % 4))
        header = msgspec.json.decode(decoded, type=_Header)
    except (ValueError, RecursionError):
        raise UntrustedError("the id_token's header cannot be read") from None
    # The header is of the token, which is not trusted yet: it must not choose none, or HS256.
    if header.alg not in ALGORITHMS:
        raise UntrustedError(f"alg {header.alg[:20]!r} is none of {', '.join(ALGORITHMS)}")
    # Extensions that change the meaning of a token (RFC 7515, 4.1.11, and RFC 7797); a reader that
    # does not know them has to refuse it.
    if header.crit is not None or header.b64 is not None:
        raise UntrustedError("the id_token's header has extensions")
    fitting = [key for key in keys if _fits(key, header)]
    if not fitting:
        raise UnknownKeyError(f"there is no key for alg {header.alg}, kid {header.kid!r:.80}")
    for key in fitting:
        payload = _payload(token, key, header.alg)
        if payload is None:
            continue
        try:
            return header, msgspec.json.decode(payload, type=dict[str, Any])
        except (ValueError, RecursionError):
            raise UntrustedError("the id_token's claims are no JSON object") from None
    raise UnknownKeyError(f"no key of kid {header.kid!r:.80} has signed it")


def _payload(token: str, key: Key, algorithm: str) -> bytes | None:
    """Return the signed content of a token, None if another key signed it."""
    with warnings.catch_warnings():
        # The library warns of EdDSA as deprecated (for Ed25519), but issuers still use it.
        warnings.simplefilter("ignore", SecurityWarning)
        try:
            registry = _Registry(algorithms=[algorithm], strict_check_header=False)
            return jws.deserialize_compact(token, key, registry=registry).payload
        except (JoseError, ValueError):
            return None


def _key(value: object) -> Key | None:
    """Return a signing key of a JWKS, None if it is of no use here."""
    # Lists and not sets: the issuer's values may be unhashable.
    if not isinstance(value, dict) or value.get("use") not in [None, "sig"]:
        return None
    if value.get("kty") not in ["RSA", "EC", "OKP"]:
        return None
    # Ignore private and unknown members, which could change how the key is imported.
    public = {k: v for k, v in value.items() if k in {"kty", "kid", "n", "e", "crv", "x", "y"}}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SecurityWarning)
            key = import_key(public)
            if isinstance(key, RSAKey) and key.public_key.key_size < bounds.RSA_BITS:
                return None
            return key
    except Exception:  # noqa: BLE001
        # An unreadable key is skipped: the issuer's other keys still work.
        return None


def _fits(key: Key, header: _Header) -> bool:
    """Whether the key may have signed a token with this header."""
    # A token with a key id fits only the key of that id; one without is tried with all keys.
    if header.kid is not None and key.kid != header.kid:
        return False
    if header.alg in _CURVES:
        return isinstance(key, ECKey) and key.curve_name == _CURVES[header.alg]
    if header.alg in _RSA:
        return isinstance(key, RSAKey)
    return isinstance(key, OKPKey) and key.curve_name == "Ed25519"


def _check_audience(claims: Mapping[str, Any], expected: Expected) -> None:
    """Refuse a token of another issuer, or for another client."""
    if claims.get("iss") != expected.issuer:
        raise UntrustedError(f"iss is {_shown(claims.get('iss'))}, not {expected.issuer!r}")
    audience = claims.get("aud")
    several = [audience] if isinstance(audience, str) else audience
    if not isinstance(several, list) or expected.client_id not in several:
        raise UntrustedError(f"aud is {_shown(audience)}, without {expected.client_id!r}")
    # OIDC Core, 3.1.3.7: azp is the client that the token was made for.
    azp = claims.get("azp")
    if azp is None and len(several) > 1:
        raise UntrustedError("aud has others too, and there is no azp")
    if azp is not None and azp != expected.client_id:
        raise UntrustedError(f"azp is {_shown(azp)}, not {expected.client_id!r}")


def _check_times(claims: Mapping[str, Any], expected: Expected, now: float) -> None:
    """Refuse a token that has expired, is of the future, or is older than the sign-in."""
    expires, issued = _time(claims, "exp"), _time(claims, "iat")
    if expires is None or issued is None:
        raise UntrustedError("exp or iat is missing")
    begins = _time(claims, "nbf")
    if expires <= now - bounds.SKEW_SECONDS:
        raise UntrustedError(f"exp was {now - expires:.0f} s ago", shown=_CLOCKS)
    if issued > now + bounds.SKEW_SECONDS:
        raise UntrustedError(f"iat is {issued - now:.0f} s ahead", shown=_CLOCKS)
    if begins is not None and begins > now + bounds.SKEW_SECONDS:
        raise UntrustedError(f"nbf is {begins - now:.0f} s ahead", shown=_CLOCKS)
    # The token is issued for this sign-in, so an older one is a replay.
    if issued < expected.begun - bounds.SKEW_SECONDS:
        raise UntrustedError(
            f"iat is {expected.begun - issued:.0f} s before the sign-in", shown=_CLOCKS
        )


def _time(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    # In Python True is a number. A time in milliseconds would be far beyond 1e11.
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e11:
        raise UntrustedError(f"{name} is {_shown(value)}, no time")
    return float(value)


def _check_access_token(claim: object, algorithm: str, access_token: str) -> None:
    """Refuse a token that was issued with another access token."""
    # OIDC Core, 3.1.3.6: half of the hash of the algorithm; Ed25519 hashes by SHA-512.
    size = "512" if algorithm in {"EdDSA", "Ed25519"} else algorithm[2:]
    digest = hashlib.new(f"sha{size}", access_token.encode()).digest()
    half = base64.urlsafe_b64encode(digest[: len(digest) // 2]).rstrip(b"=")
    if not isinstance(claim, str) or not hmac.compare_digest(claim.encode(), half):
        raise UntrustedError("at_hash is not that of the access token")


def _person(claims: Mapping[str, Any], expected: Expected) -> Person:
    """Return the person that the claims name, with their groups."""
    subject = _subject(claims, expected.claims.subject)
    groups = _groups(claims, expected.claims)
    left_out = not groups and _are_left_out(claims, expected.claims.groups)
    # For pages only: rights depend on groups and on the subject, which is no one else's ever.
    named = (claims.get(name) for name in ("preferred_username", "email", "name"))
    shown = next((name for name in named if isinstance(name, str) and _is_name(name)), "")
    return Person(expected.issuer, subject, shown, groups, left_out)


def _subject(claims: Mapping[str, Any], name: str) -> str:
    """Return the value that tells this person from all others of the issuer."""
    subject = claims.get(name)
    if not isinstance(subject, str) or not _is_name(subject):
        raise UntrustedError(
            f"{name} is {_shown(subject)}, no name",
            shown=f"the issuer's claim {name} names no person; --oidc-subject-claim asks for it",
        )
    # A person may write any address into their profile at some issuers (OIDC Core, 5.1 and 5.7).
    if name == "email" and claims.get("email_verified") is not True:
        raise UntrustedError(
            f"email_verified is {_shown(claims.get('email_verified'))}, not true",
            shown="the issuer does not say that it has verified your email address, which"
            " --oidc-subject-claim email needs",
        )
    return subject


def _groups(claims: Mapping[str, Any], named: PersonClaims) -> tuple[str, ...]:
    """Return the groups that the claims name, each once."""
    groups = claims.get(named.groups)
    if groups is None:
        groups = []
    elif isinstance(groups, str):
        # Some issuers send a claim with one value as a string, and one without any as "".
        groups = [groups] if groups else []
    if not isinstance(groups, list) or not all(isinstance(group, str) for group in groups):
        raise UntrustedError(
            f"{named.groups} is {_shown(groups)}, no list of names",
            shown=f"the issuer's claim {named.groups} is no list of names; --oidc-groups-claim"
            " names the claim that is read",
        )
    if len(groups) > named.most_groups:
        raise UntrustedError(
            f"{named.groups} has {len(groups)} names",
            shown=f"the issuer's claim {named.groups} has {len(groups)} names, more than the"
            f" {named.most_groups} of --oidc-most-groups: {FEWER_GROUPS}",
        )
    if not all(_is_name(group) for group in groups):
        raise UntrustedError(
            f"{named.groups} has a name that cannot be used",
            shown=f"each name in the issuer's claim {named.groups} may have 1 to"
            f" {bounds.CLAIM_CHARACTERS} characters, all of which can be printed",
        )
    return tuple(dict.fromkeys(groups))


def _are_left_out(claims: Mapping[str, Any], name: str) -> bool:
    """Whether the issuer left the claim with the groups out, as Entra ID does beyond 200."""
    # Distributed claims (OIDC Core, 5.6.2) are not fetched: that needs a token of the issuer's,
    # and the address in them may be anywhere.
    elsewhere = claims.get("_claim_names")
    if isinstance(elsewhere, dict) and name in elsewhere:
        return True
    # Entra ID says this of its claim groups alone, in place of a source that is too long.
    return name == "groups" and claims.get("hasgroups") in [True, "true"]


def _is_name(text: str) -> bool:
    """Whether the text can be a name: of limited length, without invisible characters."""
    if not 0 < len(text) <= bounds.CLAIM_CHARACTERS:
        return False
    # Control, format and line characters: two names that look alike would be two people in audit
    # lines and pages.
    return not any(unicodedata.category(one) in {"Cc", "Cf", "Cs", "Zl", "Zp"} for one in text)


def _shown(value: object) -> str:
    return repr(value)[:100]
