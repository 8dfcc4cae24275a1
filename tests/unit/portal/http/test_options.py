from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.pki import Authority
from tests.support.portal import serve_options

from fairlead.portal.options import (
    DEFAULT_SCOPES,
    CookieKeys,
    ExternalURL,
    OIDCOptions,
    PersonClaims,
    check,
    check_prefix,
    check_subject_claim,
    parse_cookie_keys,
    parse_external_url,
    parse_issuer_url,
    parse_networks,
    parse_redis,
    parse_scopes,
    parse_token_expiry,
)


@pytest.mark.parametrize(
    ("text", "origin", "path"),
    [
        ("https://Bind.Example.org", "https://bind.example.org", ""),
        ("https://bind.example.org/", "https://bind.example.org", ""),
        ("https://bind.example.org:443/a/b/", "https://bind.example.org", "/a/b"),
        ("https://bind.example.org:8443", "https://bind.example.org:8443", ""),
        ("http://127.0.0.1:80", "http://127.0.0.1", ""),
        ("http://[::1]:8080", "http://[::1]:8080", ""),
    ],
)
def test_external_urls(text: str, origin: str, path: str) -> None:
    url = ExternalURL.parse(text)
    assert (url.origin, url.path) == (origin, path)
    assert url.absolute("/api/x") == f"{origin}{path}/api/x"


@pytest.mark.parametrize(
    "text",
    [
        *("", "bind.example.org", "ftp://bind.example.org", "https://", "https:///path"),
        *("https://user@bind.example.org", "https://bind.example.org?", "https://x/#"),
        *("https://x:99999", "https://x:port", "https://[::1", "https://x/a b", "https://x/../y"),
        *("https://x//y", "https://x/%2e", "https://x\n", "https://x_y", "https://-x"),
        *("https://@x", "javascript:alert(1)"),
    ],
)
def test_what_is_no_external_url(text: str) -> None:
    with pytest.raises(ValueError, match="--external-url"):
        ExternalURL.parse(text)


def test_where_no_external_url_is_said() -> None:
    def parse(external: str = "", callback: str = "", authorize: str = "", **at: Any) -> str:
        where = {"host": "127.0.0.1", "port": 8080, "encrypted": False, **at}
        return parse_external_url(external, callback, authorize, **where).absolute("/")

    assert parse() == "http://127.0.0.1:8080/"
    assert parse(encrypted=True, host="::1") == "https://[::1]:8080/"
    assert parse(callback="https://x.org/api/callback", host="") == "https://x.org/"
    assert parse(authorize="https://x.org/a/api/authorize", host="") == "https://x.org/a/"
    assert parse("https://y.org", "https://x.org/api/callback") == "https://y.org/"
    with pytest.raises(ValueError, match="--external-url is missing"):
        parse(host="0.0.0.0")
    with pytest.raises(ValueError, match="--external-url is missing"):
        parse(port=0)
    with pytest.raises(ValueError, match="has to end with /api/callback"):
        parse(callback="https://x.org/callback")


@pytest.mark.parametrize(
    ("external", "more", "said"),
    [
        ("http://127.0.0.1:1", {"host": "0.0.0.0"}, "--listen-address .* plain http"),
        ("http://127.0.0.1:1", {"host": ""}, r"--listen-address \*:0 .* plain http"),
        ("http://bind.example.org", {}, "--external-url .* make it https"),
        ("https://x.org", {"tls_cert_file": Path("c")}, "--tls-key-file go together"),
        ("https://x.org", {"tls_key_file": Path("c")}, "--tls-key-file go together"),
        ("https://x.org", {"consumers_per_person": 0}, "--consumers-per-person"),
    ],
)
def test_what_may_not_be_served(external: str, more: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        check(serve_options(external, **more))


@pytest.mark.parametrize(
    ("external", "more"),
    [
        ("https://x.org", {"host": "0.0.0.0"}),
        ("http://127.0.0.1:8080", {}),
        ("http://localhost:8080", {"host": "::1"}),
        (
            "https://x.org",
            {"host": "", "tls_cert_file": Path("c"), "tls_key_file": Path("k")},
        ),
    ],
)
def test_what_may_be_served(external: str, more: dict[str, Any]) -> None:
    check(serve_options(external, **more))


@pytest.mark.parametrize(
    ("external", "change", "said"),
    [
        ("https://x.org", {"callback_url": "https://y.org/api/callback"}, "--oidc-callback-url"),
        ("https://x.org", {"client_id": ""}, "--oidc-issuer-client-id"),
        ("https://x.org", {"people_file": Path("p")}, "--oidc-people-file"),
        ("https://x.org", {"type": "embedded", "people_file": Path("p")}, "is for one machine"),
        ("http://127.0.0.1", {"type": "embedded"}, "--oidc-people-file"),
        (
            "http://127.0.0.1",
            {"type": "embedded", "people_file": Path("p"), "client_secret": "s"},
            "--oidc-issuer-client-secret",
        ),
        (
            "http://127.0.0.1",
            {
                "type": "embedded",
                "people_file": Path("p"),
                "claims": PersonClaims(groups="roles"),
            },
            "--oidc-groups-claim",
        ),
        (
            "http://127.0.0.1",
            {"type": "embedded", "people_file": Path("p")},
            "--oidc-issuer-url",
        ),
    ],
)
def test_what_oidc_may_not_be(external: str, change: dict[str, Any], said: str) -> None:
    options = serve_options(external)
    oidc: OIDCOptions = msgspec.structs.replace(options.oidc, **change)
    with pytest.raises(ValueError, match=said):
        check(msgspec.structs.replace(options, oidc=oidc))


def test_s1_the_originals_authors_go_by_sub_alone() -> None:
    options = msgspec.structs.replace(serve_options("https://x.org"), original_authors=True)
    check(options)
    oidc = msgspec.structs.replace(options.oidc, claims=PersonClaims(subject="oid"))
    with pytest.raises(ValueError, match="--original-authors goes by sub"):
        check(msgspec.structs.replace(options, oidc=oidc))


@pytest.mark.parametrize("name", ["", " sub", "iss", "aud", "nonce", "name"])
def test_s1_a_claim_that_people_share_owns_nothing(name: str) -> None:
    assert check_subject_claim("oid") == "oid"
    with pytest.raises(ValueError, match="--oidc-subject-claim"):
        check_subject_claim(name)


def test_s15_the_embedded_issuer_is_for_loopback_alone() -> None:
    options = serve_options("http://127.0.0.1:8080")
    oidc = msgspec.structs.replace(
        options.oidc,
        type="embedded",
        issuer_url="http://127.0.0.1:8080/oidc",
        people_file=Path("people"),
    )
    check(msgspec.structs.replace(options, oidc=oidc))
    with pytest.raises(ValueError, match="is for one machine"):
        check(
            msgspec.structs.replace(
                options,
                oidc=oidc,
                host="0.0.0.0",
                tls_cert_file=Path("c"),
                tls_key_file=Path("k"),
            )
        )
    far = serve_options("https://bind.example.org")
    oidc = msgspec.structs.replace(
        oidc, issuer_url="https://bind.example.org/oidc", callback_url=far.oidc.callback_url
    )
    with pytest.raises(ValueError, match="is for one machine"):
        check(msgspec.structs.replace(far, oidc=oidc))
    told = msgspec.structs.replace(oidc, beyond_loopback=True)
    check(msgspec.structs.replace(far, oidc=told))


def test_networks() -> None:
    found = parse_networks(("10.0.0.0/8, 192.0.2.1", "", "fd00::/8"))
    assert [str(one) for one in found] == ["10.0.0.0/8", "192.0.2.1/32", "fd00::/8"]
    for text in ("proxy.example.org", "10.0.0.1/8", "10.0.0.0/33", "0.0.0.0/0", "::/0"):
        with pytest.raises(ValueError, match="--trusted-proxies"):
            parse_networks((text,))


def test_token_expiry() -> None:
    assert parse_token_expiry("1h") == 3600
    for text in ("", "1", "59s", "721h", "-1h", "soon"):
        with pytest.raises(ValueError, match="--token-expiry"):
            parse_token_expiry(text)


def test_scopes() -> None:
    assert parse_scopes(()) == DEFAULT_SCOPES
    assert parse_scopes(("openid,groups", "openid")) == ("openid", "groups")
    for text in ("groups", "openid,a b", 'openid,"'):
        with pytest.raises(ValueError, match="--oidc-scopes"):
            parse_scopes((text,))


def test_issuer_urls() -> None:
    for text in ("https://i.org/realm/", "http://localhost:5556/dex"):
        assert parse_issuer_url(text) == text
    for text in ("http://i.org", "i.org", ""):
        with pytest.raises(ValueError, match="--oidc-issuer-url"):
            parse_issuer_url(text)


def test_prefixes() -> None:
    assert check_prefix("--oidc-groups-prefix", "") == ""
    for text in ("system:", "system:x", " a", "a\n"):
        with pytest.raises(ValueError, match="--oidc-groups-prefix"):
            check_prefix("--oidc-groups-prefix", text)


def encoded(length: int, byte: bytes = b"k") -> str:
    return base64.b64encode(byte * length).decode()


def test_cookie_keys_are_pairs_with_the_newest_first() -> None:
    keys = parse_cookie_keys(
        (encoded(32, b"n"), encoded(64, b"o")), (encoded(16, b"e"), encoded(32, b"f"))
    )
    assert keys == (CookieKeys(b"n" * 32, b"e" * 16), CookieKeys(b"o" * 64, b"f" * 32))
    assert parse_cookie_keys((encoded(32),), ()) == (CookieKeys(b"k" * 32),)
    assert parse_cookie_keys(("",), ("",)) == ()


@pytest.mark.parametrize(
    ("signing", "encryption", "said"),
    [
        ((encoded(31),), (), "--cookie-signing-key has 31 bytes: give 32 or 64"),
        (("no base64!",), (), "--cookie-signing-key is not base64"),
        ((encoded(32),), (encoded(20),), "--cookie-encryption-key has 20 bytes"),
        ((encoded(32),), ("????",), "--cookie-encryption-key is not base64"),
        ((), (encoded(32),), "needs a --cookie-signing-key"),
    ],
)
def test_s19_both_cookie_keys_are_checked(
    signing: tuple[str, ...], encryption: tuple[str, ...], said: str
) -> None:
    with pytest.raises(ValueError, match=said) as error:
        parse_cookie_keys(signing, encryption)
    for text in (*signing, *encryption):
        assert text not in str(error.value), "keys are secrets"


def test_redis(tmp_path: Path) -> None:
    def parse(address: str, **more: Any) -> Any:
        return parse_redis({"redis_addr": address, **more})

    assert parse("") is None
    (tmp_path / "ca").write_bytes(Authority.create().pem)
    found = parse("[::1]:6379", redis_password="p", redis_ca_file=tmp_path / "ca")
    assert (found.host, found.port, found.password, found.tls) == ("::1", 6379, "p", True)
    for address in ("redis", "redis:", ":6379", "redis:0", "redis:65536", "redis:x"):
        with pytest.raises(ValueError, match="--redis-addr"):
            parse(address)
    with pytest.raises(ValueError, match="without rediss://") as refused:
        parse("rediss://:hidden@redis:6379")
    assert "hidden" not in str(refused.value)
    with pytest.raises(ValueError, match="need --redis-addr"):
        parse("", redis_tls=True)
    (tmp_path / "ca").write_bytes(b"")
    with pytest.raises(ValueError, match=r"--redis-ca-file: \S+ is empty"):
        parse("redis:6379", redis_ca_file=tmp_path / "ca")
