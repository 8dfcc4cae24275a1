"""What keeps a binding's watches from working, gathered from those who notice it."""

from __future__ import annotations

import msgspec

from fairlead.api.kubebind import APIServiceExport
from fairlead.api.kubebind.conditions import PERMISSIONS_GRANTED, get_condition
from fairlead.api.meta import Object


_SHOWN = 3


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

    def clear(self, binding: str, prefix: str) -> None:
        """All whose source begins so have nothing to say any more."""
        known = self._messages.get(binding, {})
        for source in [source for source in known if source.startswith(prefix)]:
            del known[source]


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
