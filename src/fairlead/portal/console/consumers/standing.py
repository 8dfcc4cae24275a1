"""The state of a consumer in one word, and its faults with remedies."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fairlead.api.kubebind import APIServiceExport
from fairlead.api.kubebind.conditions import READY, KubeBindCondition
from fairlead.api.meta import Object
from fairlead.api.reasons.model import State
from fairlead.api.reasons.verdict import condition_state, remedy_of
from fairlead.portal.model.states import OF_CONSUMERS
from fairlead.provider.commands.overview import ConsumerRow


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
    judged = [(condition_state(export, one), one) for one in _conditions(export)]
    wrong = [(state, one) for state, one in judged if state not in {None, "ok"}]
    finer = [pair for pair in wrong if pair[1].type != READY] or wrong
    return [
        ConsumerFault(
            f"APIServiceExport {export.meta.name}",
            one.type,
            state,
            one.reason,
            one.message,
            remedy_of(one.reason, one.message, place="provider"),
        )
        for state, one in finer
    ]


def standing(row: ConsumerRow, wrong: Sequence[ConsumerFault]) -> ConsumerStanding:
    """Return a consumer's state, given its exports' faults."""
    if row.deleting:
        return ConsumerStanding("waiting", "being revoked")
    if row.state != "ok":
        return ConsumerStanding(row.state, row.reason)
    if row.warnings:
        return ConsumerStanding("failed", _number(len(row.warnings), "warning"))
    if wrong:
        worst = min(wrong, key=lambda one: OF_CONSUMERS.index(one.state))
        return ConsumerStanding(worst.state, worst.reason or worst.type)
    return ConsumerStanding("ok", "healthy")


def _conditions(export: Object) -> list[KubeBindCondition]:
    """Return the conditions of an export; an invalid one gets a Ready of its own."""
    try:
        return export.decode(APIServiceExport).status.conditions
    except msgspec.ValidationError as error:
        return [KubeBindCondition(READY, "False", reason="Invalid", message=str(error))]


def _number(number: int, one: str) -> str:
    return f"{number} {one}" if number == 1 else f"{number} {one}s"
