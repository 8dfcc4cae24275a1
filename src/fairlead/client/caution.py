"""Limits for a server that a stranger has named: allowed addresses, and bytes of answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import aiohttp


MOST_BYTES = 32 << 20
"""Bytes that one client takes of a server: 32 MiB, all answers together."""


@dataclass(frozen=True)
class Caution:
    """Limits of one client; its errors then quote no text of the server either.

    ``refused`` takes a numeric address and returns why no connection may be made to it, "" if one
    may. It is called with the address that a socket is made for: a name that resolves to another
    address at the second look (DNS rebinding) is refused like the address itself.
    """

    refused: Callable[[str], str]
    most_bytes: int = MOST_BYTES


class AddressRefused(OSError):  # noqa: N818  named after what happened
    """No connection may be made to this address."""


class TooMuch(aiohttp.ClientPayloadError):
    """A server has sent more bytes than :class:`Caution` allows."""


class Chunks(Protocol):
    """Body of an answer, as it arrives."""

    async def readany(self) -> bytes:
        """Return the bytes that have arrived; b"" at the end."""
        ...


class Counted:
    """Chunks of a body that are counted against an :class:`Allowance`."""

    def __init__(self, content: Chunks, allowance: Allowance) -> None:
        self._content = content
        self._allowance = allowance

    async def readany(self) -> bytes:
        """Return the bytes that have arrived; b"" at the end.

        Raises:
            TooMuch: with this chunk the answers exceed the allowance.
        """
        chunk = await self._content.readany()
        self._allowance.take(len(chunk))
        return chunk

    async def read(self) -> bytes:
        """Return the whole body.

        Raises:
            TooMuch: the body is larger than allowed.
        """
        parts = []
        while chunk := await self.readany():
            parts.append(chunk)
        return b"".join(parts)


class Allowance:
    """Remaining bytes that a client takes of its server, over all answers."""

    def __init__(self, most: int) -> None:
        self._left = most

    def take(self, count: int) -> None:
        """Count bytes that have arrived.

        Raises:
            TooMuch: more bytes arrived than were left.
        """
        self._left -= count
        if self._left < 0:
            raise TooMuch("more bytes than are taken from this server")
