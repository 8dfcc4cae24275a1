"""Approvals of plans: what of a plan may be carried out, also by an operator that is killed.

The digest of a plan is made of the hashes of its parts. So a status with all hashes proves by the
digest that the parts which are left are parts of what was approved. A part is a statement, or all
statements about a window of the objects on which a role has privileges. Its hash then has the end
of the window, so that the same window is looked at again. Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import msgspec

from fairlead.postgres.database.plans.differences import CatalogPlace, PrivilegeChange


_CHARACTERS = 32
_OF_ROLE = 8


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """An approved plan: hashes of the ``parts`` that may be carried out, at one ``place``."""

    place: str = ""
    parts: frozenset[str] = frozenset()

    @property
    def has_windows(self) -> bool:
        """Whether some parts are about windows."""
        return any(":" in part for part in self.parts)

    def allows(self, database: str, text: str) -> bool:
        """Whether a statement was approved."""
        return part_of(database, text) in self.parts


def part_of(database: str, text: str) -> str:
    """Return the hash of a statement in a database, which passwords as *** leave the same."""
    # Neither a name nor a statement of PostgreSQL's has a NUL.
    return _hashed([database, text])


def window_parts(
    database: str, username: str, last: CatalogPlace, changes: Iterable[PrivilegeChange]
) -> dict[str, list[PrivilegeChange]]:
    """Return by its hash each part of a window that one transaction carries out.

    Args:
        database: the name of the database.
        username: the role whose privileges are changed.
        last: the end of the window.
        changes: all changes in the window.
    """
    parts: dict[str, list[PrivilegeChange]] = {}
    by_actor: dict[str, list[PrivilegeChange]] = {}
    for change in changes:
        by_actor.setdefault(change.actor.name if change.actor else "", []).append(change)
    start = f"{_of_role(database, username)}:{'.'.join(map(str, last))}:"
    for actor, some in by_actor.items():
        # Statements about columns of several tables come in the order in which they were read.
        texts = sorted(change.statement.as_string() for change in some)
        parts[start + _hashed([database, username, actor, *texts])] = some
    return parts


def window_ends(parts: Iterable[str], database: str, username: str) -> tuple[CatalogPlace, ...]:
    """Return the ends of the windows of a role in a database, in their order."""
    start = f"{_of_role(database, username)}:"
    texts = {part.split(":")[1] for part in parts if part.startswith(start)}
    places: set[CatalogPlace] = set()
    for text in texts:
        catalog, thing, column = map(int, text.split("."))
        places.add((catalog, thing, column))
    return tuple(sorted(places))


def digest_of(parts: Iterable[str], place: str, after: str) -> str:
    """Return the digest of a plan, which an approval names.

    Args:
        parts: the hashes of its parts.
        place: the server and the databases for which it was made.
        after: digest of the plan that was approved before, so that an approval counts once.
    """
    return _hashed([*sorted({*parts}), place, after])


def _of_role(database: str, username: str) -> str:
    return _hashed([database, username])[:_OF_ROLE]


def _hashed(texts: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:_CHARACTERS]
