"""Addresses of front doors, as people write them and as files have them."""

from __future__ import annotations

import pytest

from fairlead.portal.client.addresses import Address, parse_server, server_url


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://Bind.Example.org", "https://bind.example.org"),
        ("https://bind.example.org/", "https://bind.example.org"),
        ("https://bind.example.org:443/", "https://bind.example.org"),
        ("http://bind.example.org:80", "http://bind.example.org"),
        ("http://127.0.0.1:8080/api/exports", "http://127.0.0.1:8080"),
        ("http://127.0.0.1:8080/exports", "http://127.0.0.1:8080"),
        ("https://bind.example.org/fairlead/", "https://bind.example.org/fairlead"),
        ("https://bind.example.org/fairlead/api/exports", "https://bind.example.org/fairlead"),
        ("http://[::1]:8080", "http://[::1]:8080"),
        ("https://bind.example.org/?a=b#c", "https://bind.example.org"),
    ],
)
def test_an_address_has_one_form(text: str, expected: str) -> None:
    assert server_url(text) == expected
    assert server_url(expected) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "bind.example.org",
        "ftp://bind.example.org",
        "javascript:alert(1)",
        "https://",
        "https://:443",
        "https://a:b@bind.example.org",
        "https://bind.example.org:99999",
        "https://[::1",
        "https://bind.example.org/a b",
    ],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        server_url(text)


@pytest.mark.parametrize(
    ("text", "cluster", "expected"),
    [
        ("https://a.example", "", Address("https://a.example")),
        ("https://a.example", "one", Address("https://a.example", "one")),
        ("one@https://a.example", "", Address("https://a.example", "one")),
        ("https://a.example@one", "", Address("https://a.example", "one")),
        ("https://a.example:8443@one", "one", Address("https://a.example:8443", "one")),
        ("root:org@https://a.example/x", "", Address("https://a.example/x", "root:org")),
        ("https://a.example@root:org", "", Address("https://a.example", "root:org")),
    ],
)
def test_a_server_may_name_its_cluster_on_either_side(
    text: str, cluster: str, expected: Address
) -> None:
    assert parse_server(text, cluster) == expected


@pytest.mark.parametrize(
    ("text", "cluster", "message"),
    [
        ("one@https://a.example", "two", "names cluster 'one'"),
        ("https://user@a.example", "", "may have no user"),
        ("https://user:secret@a.example", "", "may have no user"),
        ("one@a.example", "", "has to be an address"),
    ],
)
def test_a_server_that_cannot_be_is_refused(text: str, cluster: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as refused:
        parse_server(text, cluster)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "exposed"),
    [
        ("http://127.0.0.1:8080", False),
        ("http://localhost:8080", False),
        ("http://[::1]:8080", False),
        ("https://a.example", False),
        ("http://a.example", True),
        ("http://10.0.0.1", True),
    ],
)
def test_what_can_be_read_on_the_way_is_known(url: str, exposed: bool) -> None:
    assert Address(url).exposed is exposed
    assert Address(url, "one").key == f"one@{url}"
