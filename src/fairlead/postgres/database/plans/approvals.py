"""Approvals of plans: what of a plan may be carried out, also by an operator that is killed.

The digest of a plan is made of the hashes of its parts. So a status with all hashes proves by the
digest that the parts which are left are parts of what was approved. Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import msgspec


_CHARACTERS = 32


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """An approved plan: hashes of the ``parts`` that may be carried out, at one ``place``."""

    place: str = ""
    parts: frozenset[str] = frozenset()

    def allows(self, database: str, text: str) -> bool:
        """Whether a statement was approved."""
        return part_of(database, text) in self.parts


def part_of(database: str, text: str) -> str:
    """Return the hash of a statement in a database, which passwords as *** leave the same."""
    # Neither a name nor a statement of PostgreSQL's has a NUL.
    return _hashed([database, text])


def digest_of(parts: Iterable[str], place: str, after: str) -> str:
    """Return the digest of a plan, which an approval names.

    Args:
        parts: the hashes of its parts.
        place: the server and the databases for which it was made.
        after: digest of the plan that was approved before, so that an approval counts once.
    """
    return _hashed([*sorted({*parts}), place, after])


def _hashed(texts: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:_CHARACTERS]
