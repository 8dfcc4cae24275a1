from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.portal.http.requests import client_address, neighbourhood
from fairlead.portal.options import parse_networks


TRUSTED = parse_networks(("10.0.0.0/8, fd00::/8",))


@pytest.mark.parametrize(
    ("peer", "forwarded", "address"),
    [
        pytest.param("192.0.2.1", [], "192.0.2.1", id="no proxy"),
        pytest.param("192.0.2.1", ["198.51.100.7"], "192.0.2.1", id="a stranger's word"),
        pytest.param("10.0.0.1", [], "10.0.0.1", id="a proxy that says nothing"),
        pytest.param("10.0.0.1", ["198.51.100.7"], "198.51.100.7", id="one proxy"),
        pytest.param("10.0.0.1", ["198.51.100.7, 10.2.2.2"], "198.51.100.7", id="two proxies"),
        pytest.param(
            "10.0.0.1", ["1.1.1.1, 198.51.100.7"], "198.51.100.7", id="a client's own beginning"
        ),
        pytest.param(
            "10.0.0.1", ["1.1.1.1", "198.51.100.7, 10.1.1.1"], "198.51.100.7", id="several lines"
        ),
        pytest.param("10.0.0.1", ["10.3.3.3,10.2.2.2"], "10.3.3.3", id="proxies all the way"),
        pytest.param("10.0.0.1", ["1.1.1.1, nonsense"], "10.0.0.1", id="nonsense at the end"),
        pytest.param("10.0.0.1", ["nonsense, 10.2.2.2"], "10.2.2.2", id="nonsense behind a proxy"),
        pytest.param("10.0.0.1", ["198.51.100.7:4711"], "198.51.100.7", id="with a port"),
        pytest.param("10.0.0.1", ["[2001:db8::1]:4711"], "2001:db8::1", id="in brackets"),
        pytest.param("fd00::1", ["2001:db8::1"], "2001:db8::1", id="a proxy of IPv6"),
        pytest.param("::ffff:10.0.0.1", ["198.51.100.7"], "198.51.100.7", id="IPv4 in IPv6"),
        pytest.param("fe80::1%eth0", [], "fe80::1", id="with a zone"),
        pytest.param("", ["198.51.100.7"], "", id="a connection without an address"),
    ],
)
def test_the_address_is_what_trusted_proxies_say(
    peer: str, forwarded: list[str], address: str
) -> None:
    assert client_address(peer, forwarded, TRUSTED) == address


@given(st.lists(st.text(max_size=60), max_size=4))
def test_no_text_of_a_client_breaks_it(forwarded: list[str]) -> None:
    assert client_address("192.0.2.1", forwarded, TRUSTED) == "192.0.2.1"
    assert client_address("10.0.0.1", forwarded, TRUSTED)


@pytest.mark.parametrize(
    ("address", "key"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8:0:0:ffff::1", "2001:db8::/64"),
        ("2001:db8:0:1::1", "2001:db8:0:1::/64"),
        ("", ""),
    ],
)
def test_ipv6_is_counted_by_its_network(address: str, key: str) -> None:
    assert neighbourhood(address) == key
