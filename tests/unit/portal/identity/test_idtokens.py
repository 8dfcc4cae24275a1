"""The checks of an id_token, one by one."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from joserfc.jwk import RSAKey
from tests.support.issuers import jwks, new_key, part, sign, sign_bytes, unsigned

from fairlead.portal.identity.oidc.idtokens import (
    ALGORITHMS,
    Expected,
    UnknownKeyError,
    UntrustedError,
    check,
    read_keys,
)
from fairlead.portal.identity.sessions import Person
from fairlead.portal.options import PersonClaims


NOW = 1_700_000_000.0
KEY = new_key()
KEYS = read_keys(jwks(KEY))
EXPECTED = Expected("https://issuer.example", "fairlead", "n0nce", NOW - 5, "access")


def half(token: str, algorithm: str = "sha256") -> str:
    digest = hashlib.new(algorithm, token.encode()).digest()
    return base64.urlsafe_b64encode(digest[: len(digest) // 2]).rstrip(b"=").decode()


CLAIMS: dict[str, Any] = {
    "iss": "https://issuer.example",
    "aud": "fairlead",
    "sub": "ada",
    "nonce": "n0nce",
    "iat": NOW,
    "exp": NOW + 300,
}
MISSING = object()


def with_claims(**changes: Any) -> dict[str, Any]:
    return {name: v for name, v in (CLAIMS | changes).items() if v is not MISSING}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_each_signature_that_is_taken_is_checked(algorithm: str) -> None:
    key = new_key(algorithm)
    size = {"EdDSA": "512", "Ed25519": "512"}.get(algorithm, algorithm[2:])
    claims = with_claims(at_hash=half("access", f"sha{size}"))
    token = sign(claims, key, algorithm)
    person = check(token, read_keys(jwks(key)), EXPECTED, now=NOW)
    assert person == Person("https://issuer.example", "ada")
    with pytest.raises(UnknownKeyError):
        check(token, read_keys(jwks(new_key(algorithm))), EXPECTED, now=NOW)
    head, _, signature = token.split(".")
    forged = f"{head}.{part(claims | {'sub': 'eve'})}.{signature}"
    with pytest.raises(UnknownKeyError):
        check(forged, read_keys(jwks(key)), EXPECTED, now=NOW)


@pytest.mark.parametrize(
    "changes",
    [
        {"aud": ["fairlead"]},
        {"aud": ["other", "fairlead"], "azp": "fairlead"},
        {"azp": "fairlead"},
        {"nbf": NOW + 59},
        {"iat": NOW + 59},
        {"iat": NOW - 64},
        {"exp": NOW - 59},
        {"at_hash": half("access")},
        {"groups": []},
        {"groups": None},
    ],
)
def test_s5_a_token_that_is_as_it_has_to_be_is_taken(changes: dict[str, Any]) -> None:
    token = sign(with_claims(**changes), KEY)
    assert check(token, KEYS, EXPECTED, now=NOW).subject == "ada"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"iss": "https://issuer.example/"}, "iss is"),
        ({"iss": MISSING}, "iss is"),
        ({"aud": "other"}, "aud is"),
        ({"aud": []}, "aud is"),
        ({"aud": {"fairlead": 1}}, "aud is"),
        ({"aud": MISSING}, "aud is"),
        ({"aud": ["fairlead", "other"]}, "no azp"),
        ({"azp": "other"}, "azp is"),
        ({"aud": ["fairlead", "other"], "azp": "other"}, "azp is"),
        ({"exp": NOW - 61}, "exp was"),
        ({"exp": MISSING}, "exp or iat"),
        ({"exp": "soon"}, "exp is"),
        ({"exp": True}, "exp is"),
        ({"exp": 1e300}, "exp is"),
        ({"iat": MISSING}, "exp or iat"),
        ({"iat": NOW + 61}, "iat is"),
        ({"iat": NOW + 600}, "iat is"),
        ({"iat": NOW - 600}, "before the sign-in"),
        ({"nbf": NOW + 61}, "nbf is"),
        ({"nonce": "other"}, "nonce"),
        ({"nonce": "nöther"}, "nonce"),
        ({"nonce": MISSING}, "nonce"),
        ({"nonce": ["n0nce"]}, "nonce"),
        ({"at_hash": half("other")}, "at_hash"),
        ({"at_hash": 7}, "at_hash"),
        ({"sub": MISSING}, "sub is"),
        ({"sub": ""}, "sub is"),
        ({"sub": 7}, "sub is"),
        ({"sub": "ada\n"}, "sub is"),
        ({"sub": "a" * 1025}, "sub is"),
        ({"groups": 7}, "groups is 7, no list of names"),
        ({"groups": {"team-a": True}}, "no list of names"),
        ({"groups": ["team-a", 7]}, "no list of names"),
        ({"groups": [f"g{n}" for n in range(2001)]}, "2001 names"),
        ({"groups": ["team\x00"]}, "a name that cannot be used"),
        ({"groups": "team\x00"}, "a name that cannot be used"),
        ({"groups": [""]}, "a name that cannot be used"),
    ],
)
def test_s5_a_token_that_lies_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(UntrustedError, match=said):
        check(sign(with_claims(**changes), KEY), KEYS, EXPECTED, now=NOW)


def test_a_header_with_certificates_and_a_claim_with_many_groups_are_read() -> None:
    claims = with_claims(groups=[f"department-of-{n:080}" for n in range(1800)])
    token = sign(claims, KEY, x5c=["A" * 2000] * 3, custom="x")
    assert len(check(token, KEYS, EXPECTED, now=NOW).groups) == 1800


def test_a_group_may_come_as_a_string() -> None:
    for claim, groups in (("team-a", ("team-a",)), ("", ())):
        person = check(sign(with_claims(groups=claim), KEY), KEYS, EXPECTED, now=NOW)
        assert person.groups == groups


def test_s1_another_claim_may_own_what_a_person_binds() -> None:
    expected = EXPECTED._replace(claims=PersonClaims(subject="oid"))
    token = sign(with_claims(sub="of this client alone", oid="ada-for-ever"), KEY)
    person = check(token, KEYS, expected, now=NOW)
    assert person.author == "https://issuer.example/ada-for-ever"


@pytest.mark.parametrize(
    ("claim", "changes", "told"),
    [
        ("oid", {}, "claim oid names no person; --oidc-subject-claim"),
        ("oid", {"oid": ["ada"]}, "claim oid names no person"),
        ("email", {"email": "ada@example.org"}, "verified your email address"),
        ("email", {"email": "a@b.c", "email_verified": False}, "verified your email address"),
        ("email", {"email": "a@b.c", "email_verified": "true"}, "verified your email address"),
    ],
)
def test_s1_a_claim_that_does_not_name_one_person_is_refused(
    claim: str, changes: dict[str, Any], told: str
) -> None:
    expected = EXPECTED._replace(claims=PersonClaims(subject=claim))
    with pytest.raises(UntrustedError) as caught:
        check(sign(with_claims(**changes), KEY), KEYS, expected, now=NOW)
    assert told in caught.value.told
    verified = with_claims(oid="ada", email="ada", email_verified=True)
    assert check(sign(verified, KEY), KEYS, expected, now=NOW).subject == "ada"


ENTRA = {"_claim_names": {"groups": "src1"}, "_claim_sources": {"src1": {"endpoint": "https://x"}}}
"""Claims of Entra ID for a person in more than 200 groups."""


@pytest.mark.parametrize(
    ("claim", "changes", "left_out"),
    [
        ("groups", ENTRA, True),
        ("groups", {"hasgroups": True}, True),
        ("groups", {"hasgroups": "true"}, True),
        ("groups", {"hasgroups": False}, False),
        ("groups", {"_claim_names": ["groups"]}, False),
        ("groups", {"_claim_names": {"address": "src1"}}, False),
        ("groups", ENTRA | {"groups": ["a"]}, False),
        ("groups", {}, False),
        ("roles", {"_claim_names": {"roles": "src1"}}, True),
        # App roles are there, or there are none: the groups do not count.
        ("roles", ENTRA | {"hasgroups": True}, False),
    ],
)
def test_groups_that_the_issuer_leaves_out_are_noticed(
    claim: str, changes: dict[str, Any], left_out: bool
) -> None:
    expected = EXPECTED._replace(claims=PersonClaims(groups=claim))
    person = check(sign(with_claims(**changes), KEY), KEYS, expected, now=NOW)
    assert person.groups_left_out is left_out


def test_s5_a_flag_limits_the_number_of_groups() -> None:
    # As long as those of an issuer that names groups by UUID.
    token = sign(with_claims(groups=[f"{n:036}" for n in range(5000)]), KEY)
    expected = EXPECTED._replace(claims=PersonClaims(most_groups=5000))
    assert len(check(token, KEYS, expected, now=NOW).groups) == 5000
    with pytest.raises(UntrustedError) as caught:
        check(token, KEYS, EXPECTED, now=NOW)
    assert "5000 names, more than the 2000 of --oidc-most-groups" in caught.value.told


def test_s5_claims_that_cannot_be_read_are_refused() -> None:
    for payload in (b"1", b"[]", b'"\xff"', b'{"iss":"\xff"}', b"[" * 100_000):
        with pytest.raises(UntrustedError, match="no JSON object"):
            check(sign_bytes(payload, KEY), KEYS, EXPECTED, now=NOW)
    for head in (b"", b"[]", b'{"alg":"\xff"}', b'{"alg":["ES256"]}', b"[" * 1000):
        encoded = base64.urlsafe_b64encode(head).rstrip(b"=").decode() or "A"
        with pytest.raises(UntrustedError, match="header"):
            check(f"{encoded}.{part(CLAIMS)}.AAAA", KEYS, EXPECTED, now=NOW)


def test_groups_and_a_name_for_people_to_read() -> None:
    claims = with_claims(groups=["a", "b", "a"], email="ada@example.org", name="Ada")
    found = check(sign(claims, KEY), KEYS, EXPECTED, now=NOW)
    assert found == Person("https://issuer.example", "ada", "ada@example.org", ("a", "b"))
    expected = EXPECTED._replace(claims=PersonClaims(groups="roles"))
    claims = with_claims(groups=["a"], roles=["r"], name="A\u202eda")
    assert check(sign(claims, KEY), KEYS, expected, now=NOW) == Person(
        "https://issuer.example", "ada", "", ("r",)
    )


def test_s5_neither_none_nor_a_shared_secret_is_a_signature() -> None:
    rsa = RSAKey.generate_key(2048, {"kid": "one"})
    keys = read_keys(jwks(rsa))
    # The public key as the secret of an HMAC.
    signed = f"{part({'alg': 'HS256', 'kid': 'one'})}.{part(CLAIMS)}"
    mac = hmac.digest(rsa.as_pem(private=False), signed.encode(), "sha256")
    shared = f"{signed}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"
    for token in (unsigned(CLAIMS), shared):
        with pytest.raises(UntrustedError):
            check(token, keys, EXPECTED, now=NOW)
    head = part({"alg": "None", "kid": "one"})
    with pytest.raises(UntrustedError, match="alg"):
        check(f"{head}.{part(CLAIMS)}.AAAA", keys, EXPECTED, now=NOW)


def test_s5_a_key_that_the_token_brings_along_proves_nothing() -> None:
    other = new_key()
    token = sign(CLAIMS, other, jwk=other.as_dict(private=False))
    with pytest.raises(UnknownKeyError):
        check(token, KEYS, EXPECTED, now=NOW)
    head = part({"alg": "ES256", "kid": "one", "crit": ["b64"], "b64": False})
    with pytest.raises(UntrustedError, match="extensions"):
        check(f"{head}.{part(CLAIMS)}.AAAA", KEYS, EXPECTED, now=NOW)


def test_a_token_without_kid_is_checked_against_each_key_that_fits() -> None:
    several = [new_key("RS256", "a"), new_key("ES384", "b"), new_key("ES256", "c")]
    token = sign(CLAIMS, several[2], kid=None)
    assert check(token, read_keys(jwks(*several)), EXPECTED, now=NOW).subject == "ada"
    with pytest.raises(UnknownKeyError):
        check(token, read_keys(jwks(*several[:2])), EXPECTED, now=NOW)


def test_keys_that_cannot_be_used_are_passed_over() -> None:
    good = KEY.as_dict(private=False)
    found = [
        good,
        good | {"use": "enc"},
        {"kty": "oct", "k": "AAAA"},
        {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"},
        {"kty": "AKP"},
        {},
        "key",
        None,
        # Of types that keys of a dict cannot have.
        good | {"use": ["sig"]},
        good | {"use": {}},
        good | {"kty": ["EC"]},
        good | {"kty": {}},
        good | {"kid": []},
        _short_key(),
    ]
    assert len(read_keys(json.dumps({"keys": found}).encode())) == 1
    for body in (b"", b"[]", b"{}", b'{"keys": 7}', b"[" * 100_000, b'{"keys":["\xff"]}'):
        with pytest.raises(UntrustedError):
            read_keys(body)


def _short_key() -> dict[str, Any]:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dict(RSAKey.generate_key(1024, private=False).as_dict())


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.integers()
    | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(st.sampled_from([*KEY.as_dict(private=False), "use", "key_ops", "n", "e"]), ANYTHING)
def test_whatever_an_issuer_says_of_a_key_those_beside_it_sign(name: str, value: Any) -> None:
    bad = KEY.as_dict(private=False) | {name: value}
    found = read_keys(json.dumps({"keys": [bad, KEY.as_dict(private=False)]}).encode())
    assert 1 <= len(found) <= 2
    assert check(sign(CLAIMS, KEY), found, EXPECTED, now=NOW).subject == "ada"


@given(st.sampled_from([*CLAIMS, "azp", "at_hash", "nbf", "groups", "email"]), ANYTHING)
def test_whatever_a_claim_is_it_is_taken_or_not_trusted(name: str, value: Any) -> None:
    token = sign_bytes(json.dumps(CLAIMS | {name: value}).encode(), KEY)
    try:
        person = check(token, KEYS, EXPECTED, now=NOW)
    except UntrustedError:
        return
    assert person.issuer == CLAIMS["iss"]


@given(st.text())
def test_any_text_is_refused_as_a_token(text: str) -> None:
    for token in (text, f"{text}.{text}.{text}"):
        with pytest.raises(UntrustedError):
            check(token, KEYS, EXPECTED, now=NOW)
