"""Which addresses of consumers' clusters are connected to (S12)."""

from __future__ import annotations

from ipaddress import ip_network

import pytest

from fairlead.api.addresses import refused_address
from fairlead.portal.options import parse_apply_networks


PUBLIC = ["1.1.1.1", "8.8.8.8", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]
PRIVATE = [
    *("10.0.0.1", "172.16.0.1", "172.31.255.254", "192.168.1.1", "100.64.0.1", "192.0.0.9"),
    *("192.0.2.1", "198.18.0.1", "fc00::1", "fd12:3456::1", "2001:db8::1"),
    *("::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:a00:1::1"),
]
NEVER = [
    *("0.0.0.0", "0.1.2.3", "127.0.0.1", "127.255.0.1", "169.254.169.254", "169.254.0.1"),
    *("224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255"),
    *("::", "::1", "fe80::1", "fe80::1%eth0", "ff02::1", "fec0::1"),
    *("::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe"),
    *("2002:7f00:1::1", "2001:0:7f00:1::1"),
    *("168.63.129.16", "100.100.100.200", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254"),
    *("localhost", "", "0x7f.1"),
]
ALL = tuple(map(ip_network, ("0.0.0.0/1", "128.0.0.0/1", "::/1", "8000::/1")))


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_connected_to(address: str) -> None:
    assert refused_address(address) == ""


@pytest.mark.parametrize("address", PRIVATE)
def test_private_addresses_are_refused_unless_their_network_is_allowed(address: str) -> None:
    assert "private" in refused_address(address)
    assert refused_address(address, ALL) == ""


def test_one_network_allows_no_other() -> None:
    networks = parse_apply_networks(("10.1.0.0/16",))
    for address in ("10.1.2.3", "::ffff:10.1.2.3"):
        assert refused_address(address, networks) == ""
    for address in ("10.2.0.1", "192.168.0.1"):
        assert "private" in refused_address(address, networks)


@pytest.mark.parametrize("address", NEVER)
def test_nothing_allows_what_is_no_address_of_a_cluster(address: str) -> None:
    assert refused_address(address, ALL)


def test_all_addresses_at_once_are_no_network_of_clusters() -> None:
    with pytest.raises(ValueError, match=r"--apply-binding-allow-cidr 0\.0\.0\.0/0 would"):
        parse_apply_networks(("0.0.0.0/0",))
