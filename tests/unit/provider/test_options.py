from __future__ import annotations

import pytest

from fairlead.provider.options import (
    check_external_address,
    parse_consumer_scope,
    parse_isolation,
    parse_sync_interval,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("prefixed", "Prefixed"), ("Namespaced", "Namespaced"), ("NONE", "None"), ("", "None")],
)
def test_isolation(text: str, expected: str) -> None:
    assert parse_isolation(text) == expected


@pytest.mark.parametrize("text", [" ", "prefix", "shared"])
def test_an_unknown_isolation_is_refused_instead_of_isolating_nothing(text: str) -> None:
    with pytest.raises(ValueError, match="use prefixed, namespaced or none"):
        parse_isolation(text)


@pytest.mark.parametrize(
    ("text", "expected"), [("namespaced", "Namespaced"), ("Cluster", "Cluster")]
)
def test_consumer_scope(text: str, expected: str) -> None:
    assert parse_consumer_scope(text) == expected


def test_an_unknown_consumer_scope_is_refused() -> None:
    with pytest.raises(ValueError, match="use namespaced or cluster"):
        parse_consumer_scope("all")


@pytest.mark.parametrize(("text", "seconds"), [("5m", 300.0), ("10s", 10.0), ("1h30m", 5400.0)])
def test_schema_sync_interval(text: str, seconds: float) -> None:
    assert parse_sync_interval(text) == seconds


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a duration"),
        ("often", "not a duration"),
        ("9.9s", "too short"),
        ("-1h", "too short"),
    ],
)
def test_no_other_schema_sync_interval_will_do(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_sync_interval(text)


def test_an_external_address_is_https_with_a_host() -> None:
    assert check_external_address("https://api.example.org:6443")
    assert check_external_address("") == "", "the flag is not given"


@pytest.mark.parametrize("address", ["api.example.org", "http://api", "https://"])
def test_no_other_external_address_will_do(address: str) -> None:
    with pytest.raises(ValueError, match="has to be a URL such as https://host:6443"):
        check_external_address(address)
