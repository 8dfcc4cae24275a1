"""Objects that cannot be synchronised until a person acts, by binding.

They are told in the condition ``Conflicts`` of the binding, which is True while there are any:
one object's trouble does not make a binding unready.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import msgspec

from fairlead.api.kubebind.conditions import CONFLICTS, Condition


FOREIGN_OBJECT: Final = "ForeignObjectExists"
OWNER_UNKNOWN: Final = "OwnerUnknown"
NAME_TOO_LONG: Final = "NameTooLong"
REASONS: Final = frozenset({FOREIGN_OBJECT, OWNER_UNKNOWN, NAME_TOO_LONG})

_SHOWN = 3


class Conflict(msgspec.Struct, frozen=True, order=True):
    """One object in the way of its copy, or without one; ``name`` is for people."""

    name: str
    reason: str


class Conflicts:
    """The conflicts of all bindings, by who found them."""

    def __init__(self) -> None:
        self._found: dict[str, dict[tuple[str, str], Conflict]] = {}

    def report(self, binding: str, source: str, name: str, reason: str) -> None:
        """Say that an object is in conflict; any other reason than :data:`REASONS` ends it."""
        known = self._found.setdefault(binding, {})
        if reason in REASONS:
            known[source, name] = Conflict(name, reason)
        else:
            known.pop((source, name), None)

    def clear(self, binding: str, source: str) -> None:
        """Nothing that a source has said of a binding holds any more."""
        known = self._found.get(binding, {})
        for key in [key for key in known if key[0] == source]:
            del known[key]

    def count(self, binding: str, source: str) -> int:
        """How many objects a source has in conflict."""
        return sum(1 for key in self._found.get(binding, {}) if key[0] == source)

    def condition(self, binding: str) -> Condition | None:
        """What the binding shows; None when there are no conflicts."""
        found = sorted(self._found.get(binding, {}).values())
        if not found:
            return None
        reasons = Counter(conflict.reason for conflict in found)
        shown = [f"{conflict.name} ({conflict.reason})" for conflict in found[:_SHOWN]]
        more = [f"and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else []
        number = "1 object is" if len(found) == 1 else f"{len(found)} objects are"
        message = (
            f"{number} not synchronised: {', '.join(shown + more)}; an Event of each says what "
            "to do"
        )
        # The most frequent one, and of equals always the same.
        reason = min(reasons, key=lambda reason: (-reasons[reason], reason))
        return Condition(CONFLICTS, "True", reason=reason, message=message)
