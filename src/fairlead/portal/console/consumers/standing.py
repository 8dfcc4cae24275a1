"""The state of a consumer in one word, and its faults with remedies."""

from __future__ import annotations

import msgspec

from fairlead.api.meta import Object
from fairlead.api.reasons.model import State
from fairlead.api.reasons.verdict import condition_state, remedy_of
from fairlead.provider.commands.overview import ConsumerRow, export_faults


class ConsumerFault(msgspec.Struct, frozen=True):
    """A condition that is not ok: its object, and the remedy."""

    where: str
    type: str
    state: State
    reason: str
    message: str
    helps: str


class ConsumerStanding(msgspec.Struct, frozen=True):
    """A consumer's state and the word for it."""

    state: State
    word: str


def faults(export: Object) -> list[ConsumerFault]:
    """Return an export's conditions that are not ok; Ready only if no other is."""
    return [
        ConsumerFault(
            f"APIServiceExport {export.meta.name}",
            one.type,
            condition_state(export, one) or "unknown",
            one.reason,
            one.message,
            remedy_of(one.reason, one.message, place="provider"),
        )
        for one in export_faults(export)
    ]


def standing(row: ConsumerRow) -> ConsumerStanding:
    """Return a consumer's state, by the verdict on it and its warnings."""
    if row.deleting:
        return ConsumerStanding("waiting", "being revoked")
    if row.warnings and row.state != "failed":
        return ConsumerStanding("failed", _number(len(row.warnings), "warning"))
    return ConsumerStanding(row.state, "healthy" if row.state == "ok" else row.reason)


def _number(number: int, one: str) -> str:
    return f"{number} {one}" if number == 1 else f"{number} {one}s"
