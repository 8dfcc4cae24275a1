"""The client's address of a request that passed trusted proxies."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import TypeAlias

from fairlead.api.addresses import Network


_Address: TypeAlias = IPv4Address | IPv6Address
_NEIGHBOURS = 64
"""Bits of an IPv6 address that a client cannot choose."""
_REMEMBERED = 4096
"""Largest number of cached parsed addresses: parsing is the slowest step of this module."""


def client_address(peer: str, forwarded: Sequence[str], trusted: Sequence[Network]) -> str:
    """Return the client's address; "" if the connection has none.

    Each proxy appends the address of its own client to X-Forwarded-For, so the list is read from
    its end for as long as the addresses are trusted proxies. Earlier entries come from the client
    and may be forged.

    Args:
        peer: the other end of the connection.
        forwarded: the X-Forwarded-For header lines, in order.
        trusted: networks of our proxies.
    """
    if not forwarded or not trusted:
        return _text(peer)
    # Only a trusted proxy may speak for others: any client can send the header.
    found = _parse(peer)
    if found is None or not _within(found, trusted):
        return _text(peer)
    for text in reversed(",".join(forwarded).split(",")):
        said = _parse(text.strip())
        if said is None:
            break
        found = said
        if not _within(found, trusted):
            break
    return str(found)


def neighbourhood(address: str) -> str:
    """Return the key that limits count an address by: an IPv6 address as its /64 network."""
    if ":" not in address:
        return address
    return str(ip_network((address.partition("%")[0], _NEIGHBOURS), strict=False))


def trusts(networks: Sequence[Network], address: str) -> bool:
    """Whether ``address`` is in one of the networks."""
    found = _parse(address)
    return found is not None and _within(found, networks)


@lru_cache(_REMEMBERED)
def _text(peer: str) -> str:
    found = _parse(peer)
    return "" if found is None else str(found)


def _within(address: _Address, networks: Sequence[Network]) -> bool:
    return any(address in network for network in networks)


@lru_cache(_REMEMBERED)
def _parse(text: str) -> _Address | None:
    """Parse an address, to which some proxies add a port and brackets."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        # A link-local address may have a zone, which names an interface of this machine only (RFC
        # 4007).
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    # A socket for both IPv4 and IPv6 names IPv4 clients ::ffff:a.b.c.d; networks of flags and
    # limits know them by the plain form.
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
