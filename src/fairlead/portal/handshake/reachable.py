"""Allowed addresses of consumers' clusters, which untrusted kubeconfigs name (S12)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence

from fairlead.api.addresses import Network, refused_address


Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Function that resolves a host and port to numeric addresses."""
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
        return refused_address(address, self._networks)

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


async def _resolved(host: str, port: int) -> Sequence[str]:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(place[0]) for *_, place in found]
