"""Addresses that another party names, and that a program of ours or an API server would ask."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import TypeAlias


Network: TypeAlias = IPv4Network | IPv6Network
"""A network of addresses that a flag allows, such as ``--apply-binding-allow-cidr``."""
_Address: TypeAlias = IPv4Address | IPv6Address
_NEVER = tuple(
    map(
        ip_network,
        (
            *("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "240.0.0.0/4"),
            *("::/128", "::1/128", "fe80::/10", "fec0::/10", "ff00::/8"),
            # Metadata services of clouds at addresses that are not link-local: Azure, Alibaba,
            # Oracle, AWS and Google.
            *("168.63.129.16/32", "100.100.100.200/32", "192.0.0.192/32"),
            *("fd00:ec2::/32", "fd20:ce::/32"),
        ),
    )
)
"""Networks that no flag can allow."""
_PRIVATE = tuple(map(ip_network, ("100.64.0.0/10", "192.0.0.0/24", "2001:db8::/32")))
"""Networks that count as private, though ipaddress of some Pythons calls them global."""
_TRANSLATED = IPv6Network("64:ff9b::/96")
"""Prefix of IPv4 addresses that NAT64 embeds in IPv6 (RFC 6052)."""


def refused_address(address: str, networks: Sequence[Network] = ()) -> str:
    """Return why a numeric address is refused, "" if it is public or in an allowed network.

    Args:
        address: an IPv4 or IPv6 address, which may have a zone.
        networks: the private networks that are allowed.
    """
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return f"{address!r} is not an address"
    for place in _places(parsed):
        if any(place in network for network in _NEVER):
            return f"{parsed} is loopback, link-local, multicast or a metadata service"
        # Not is_private, which is False for some networks that are not global, such as
        # 100.64.0.0/10.
        private = not place.is_global or any(place in network for network in _PRIVATE)
        if private and not any(place in network for network in networks):
            return f"{parsed} is private, and not in an allowed network"
    return ""


def is_loopback(host: str) -> bool:
    """Whether ``host`` is localhost or a loopback address, which lead to who asks."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def is_cluster_local(host: str) -> bool:
    """Whether ``host`` is a name of one cluster alone, such as a Service's, or leads to who asks.

    https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/
    """
    name = host.lower().rstrip(".")
    if is_loopback(name) or name.endswith((".svc", ".cluster.local")):
        return True
    try:
        ip_address(name)
    except ValueError:
        return "." not in name
    return False


def parse_networks(texts: Sequence[str], *, flag: str, everything: str) -> tuple[Network, ...]:
    """Parse the networks of a flag, addresses or CIDRs, which commas may separate.

    Args:
        texts: the flag's values.
        flag: the flag's name, for messages.
        everything: the objection to a network of all addresses, for messages.

    Raises:
        ValueError: a network is malformed, or has all addresses.
    """
    networks: list[Network] = []
    for text in ",".join(texts).split(","):
        if not text.strip():
            continue
        try:
            network = ip_network(text.strip())
        except ValueError as error:
            raise ValueError(
                f"{flag} {text.strip()!r} is neither an address nor a network: {error}; use one "
                "such as 10.0.0.0/8"
            ) from None
        if not network.prefixlen:
            raise ValueError(f"{flag} {network} {everything}")
        networks.append(network)
    return tuple(networks)


def _places(address: _Address) -> list[_Address]:
    """Return the addresses that a connection may reach, with those embedded in IPv6."""
    if isinstance(address, IPv4Address):
        return [address]
    if address.ipv4_mapped is not None:
        return [address.ipv4_mapped]
    # A relay on the way may send packets on to the embedded address: Teredo (RFC 4380), 6to4 (RFC
    # 3056), NAT64 (RFC 6052).
    addresses: list[_Address] = [address, *(address.teredo or ())]
    if address.sixtofour is not None:
        addresses.append(address.sixtofour)
    if address in _TRANSLATED:
        addresses.append(IPv4Address(int(address) & 0xFFFFFFFF))
    return addresses
