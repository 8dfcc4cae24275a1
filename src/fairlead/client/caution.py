"""Limits for a server that a stranger has named: allowed addresses, and bytes of all answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fairlead.client import limits


@dataclass(frozen=True)
class Caution:
    """Limits of one client; its errors then quote no text of the server either.

    ``refused`` takes a numeric address and returns why no connection may be made to it, "" if one
    may. It is called with the address that a socket is made for: a name that resolves to another
    address at the second look (DNS rebinding) is refused like the address itself.
    """

    refused: Callable[[str], str]
    most_bytes: int = limits.CAUTION_BYTES


class AddressRefused(OSError):  # noqa: N818  named after what happened
    """No connection may be made to this address."""
