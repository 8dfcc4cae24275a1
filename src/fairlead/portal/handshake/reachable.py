"""Allowed addresses of consumers' clusters, which untrusted kubeconfigs name (S12)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import (
    IPv4Address,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import TypeAlias

from fairlead.portal.options import Network


Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Function that resolves a host and port to numeric addresses."""
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
_RESOLVE_SECONDS = 5.0


class NotReachableError(ValueError):
    """The host may not be connected to; the text is for the log."""


class Reachable:
    """Allows public addresses, and the given private networks."""

    def __init__(
        self, networks: Sequence[Network] = (), *, resolve: Resolve | None = None
    ) -> None:
        self._networks = tuple(networks)
        self._resolve = resolve or _resolved

    def refused(self, address: str) -> str:
        """Return why a numeric address is refused, "" if it is allowed."""
        try:
            found = ip_address(address.partition("%")[0])
        except ValueError:
            return f"{address!r} is not an address"
        for one in _places(found):
            if any(one in network for network in _NEVER):
                return f"{found} is not an address of a cluster"
            # Not is_private, which is False for some networks that are not global, such as
            # 100.64.0.0/10.
            private = not one.is_global or any(one in network for network in _PRIVATE)
            if private and not self._allows(one):
                return f"{found} is private, and not in an allowed network"
        return ""

    async def check(self, host: str, port: int) -> None:
        """Check that every address of a host is allowed.

        Raises:
            NotReachableError: an address is refused, or the host has none.
        """
        try:
            async with asyncio.timeout(_RESOLVE_SECONDS):
                found = await self._resolve(host, port)
        except (OSError, UnicodeError, TimeoutError) as error:
            raise NotReachableError(f"{host} has no address: {type(error).__name__}") from None
        if not found:
            raise NotReachableError(f"{host} has no address")
        # All of them: a connection may be made to any.
        for address in found:
            if why := self.refused(address):
                raise NotReachableError(f"{host}: {why}")

    def _allows(self, address: _Address) -> bool:
        return any(address in network for network in self._networks)


def _places(address: _Address) -> list[_Address]:
    """Return the addresses that a connection may reach, with those embedded in IPv6."""
    if isinstance(address, IPv4Address):
        return [address]
    if address.ipv4_mapped is not None:
        return [address.ipv4_mapped]
    # A relay on the way may send packets on to the embedded address: Teredo (RFC 4380), 6to4 (RFC
    # 3056), NAT64 (RFC 6052).
    found: list[_Address] = [address, *(address.teredo or ())]
    if address.sixtofour is not None:
        found.append(address.sixtofour)
    if address in _TRANSLATED:
        found.append(IPv4Address(int(address) & 0xFFFFFFFF))
    return found


async def _resolved(host: str, port: int) -> Sequence[str]:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(place[0]) for *_, place in found]
