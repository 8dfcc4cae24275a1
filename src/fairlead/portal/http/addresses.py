"""Where a request comes from, behind the proxies that are trusted."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import TypeAlias

from fairlead.portal.options import Network


_Address: TypeAlias = IPv4Address | IPv6Address
_NEIGHBOURS = 64
"""Bits of an IPv6 address that a client cannot choose."""
_REMEMBERED = 4096
"""Addresses that are remembered as parsed: parsing one takes longer than all else here."""


def client_address(peer: str, forwarded: Sequence[str], trusted: Sequence[Network]) -> str:
    """The client's address; "" where the connection has none.

    Each proxy appends to X-Forwarded-For whom it has answered, so that the list is read from its
    end, as far as the proxies that are trusted go. What stands before is the client's own word.

    Args:
        peer: the other end of the connection.
        forwarded: the lines of X-Forwarded-For, in their order.
        trusted: networks of our proxies.
    """
    if not forwarded or not trusted:
        return _text(peer)
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
    """What an address is counted as: an IPv6 address as its network of 64 bits."""
    if ":" not in address:
        return address
    return str(ip_network((address.partition("%")[0], _NEIGHBOURS), strict=False))


def trusts(networks: Sequence[Network], address: str) -> bool:
    """Whether an address is in one of these networks."""
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
    """The address of a text, which some proxies give a port and brackets."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
