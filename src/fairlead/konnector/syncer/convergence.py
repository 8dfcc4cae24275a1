"""What was last written, so that defaulting on the other side is no difference.

A server may add defaults to what it was given or prune what its schema lacks; comparing the two
sides would then differ for ever. After a write the digests of what was sent and of what came of
it are remembered, in memory alone: after a restart such an object costs one write that changes
nothing.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import msgspec

from fairlead.api.meta import Key


class Digest(bytes):
    """A short fingerprint of a JSON value, the same for any order of members."""

    __slots__ = ()


def digest(value: Any) -> Digest:
    """The fingerprint of a JSON value; a missing value is None."""
    encoded = msgspec.json.encode(value, order="deterministic")
    return Digest(blake2b(encoded, digest_size=16).digest())


class Convergence:
    """Remembers, per key, which target came of which source."""

    def __init__(self) -> None:
        self._applied: dict[Key, tuple[Digest, Digest]] = {}

    def converged(self, key: Key, source: Any, target: Any) -> bool:
        """Whether the target is what the source became when it was last written."""
        wanted, found = digest(source), digest(target)
        return wanted == found or self._applied.get(key) == (wanted, found)

    def applied(self, key: Key, source: Any, target: Any) -> None:
        """Remember that writing the source led to the target."""
        wanted, found = digest(source), digest(target)
        if wanted == found:
            self._applied.pop(key, None)
        else:
            self._applied[key] = (wanted, found)

    def forget(self, key: Key) -> None:
        """The object is gone."""
        self._applied.pop(key, None)
