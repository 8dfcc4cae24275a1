"""What is wrong with bindings, gathered from those who notice it and told in conditions.

One object's trouble does not make a binding unready: objects that cannot be synchronised until a
person acts are told in the condition ``Conflicts``, which is there while there are any.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from fairlead.api.kubebind import APIServiceExport
from fairlead.api.kubebind.conditions import (
    CONFLICTS,
    PERMISSIONS_GRANTED,
    Condition,
    get_condition,
)
from fairlead.api.meta import Object
from fairlead.konnector.policies import steps


_SHOWN = 3
"""So many messages or objects are told of at most."""


class Problems:
    """Messages by binding and by who reported them."""

    def __init__(self) -> None:
        self._messages: dict[str, dict[str, str]] = {}

    def report(self, binding: str, source: str, message: str) -> None:
        """Say what is wrong, or "" when all is well again."""
        known = self._messages.setdefault(binding, {})
        if message:
            known[source] = message
        else:
            known.pop(source, None)

    def message(self, binding: str) -> str:
        """What is wrong for a binding, "" when nothing is; of many, the first few."""
        found = [message for _, message in sorted(self._messages.get(binding, {}).items())]
        more = [f"and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else []
        return "; ".join(found[:_SHOWN] + more)


class ObjectInConflict(msgspec.Struct, frozen=True, order=True):
    """One object in the way of its copy, or without one; ``name`` is for people."""

    name: str
    reason: str


class Conflicts:
    """The conflicts of all bindings, by who found them."""

    def __init__(self) -> None:
        self._found: dict[str, dict[tuple[str, str], ObjectInConflict]] = {}

    def report(self, binding: str, source: str, name: str, reason: str) -> None:
        """Say that an object is in conflict; a reason that is none of a conflict's ends it."""
        known = self._found.setdefault(binding, {})
        if reason in steps.CONFLICTS:
            known[source, name] = ObjectInConflict(name, reason)
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


class Reports:
    """What is wrong with all bindings of a consumer."""

    def __init__(self) -> None:
        self.problems = Problems()
        """What keeps a binding's watches and writes from working."""
        self.refusals = Problems()
        """What a binding's provider wants and does not get."""
        self.conflicts = Conflicts()
        """Objects that cannot be synchronised until a person acts."""

    def of(self, binding: str, source: str) -> Report:
        """What one source tells of one binding."""
        return Report(self, binding, source)


class Report:
    """What one source, such as the syncer of one resource, tells of one binding."""

    def __init__(self, reports: Reports, binding: str, source: str) -> None:
        self._reports = reports
        self.binding = binding
        self.source = source

    def problem(self, message: str) -> None:
        """Say what keeps objects from being synchronised, or "" when nothing does any more."""
        self._reports.problems.report(self.binding, self.source, message)

    def conflict(self, name: str, reason: str) -> None:
        """Say that an object is in conflict; any reason that is no conflict's ends it."""
        self._reports.conflicts.report(self.binding, self.source, name, reason)

    def conflicts(self) -> int:
        """How many objects are in conflict."""
        return self._reports.conflicts.count(self.binding, self.source)

    def clear(self) -> None:
        """Nothing that was told holds any more."""
        self.problem("")
        self._reports.conflicts.clear(self.binding, self.source)


def ungranted(export: Object | None) -> str:
    """That objects of an export wait for rights which its provider lacks itself; else ""."""
    if export is None:
        return ""
    try:
        conditions = export.decode(APIServiceExport).status.conditions
    except msgspec.ValidationError:
        # An export that cannot be read is told of by the controller that works on it.
        return ""
    granted = get_condition(conditions, PERMISSIONS_GRANTED)
    if granted is None or granted.status != "False":
        return ""
    return (
        "the provider cannot give all the rights that are needed there: its administrator sees "
        f"why in condition {PERMISSIONS_GRANTED} of APIServiceExport {export.meta.name}"
    )
