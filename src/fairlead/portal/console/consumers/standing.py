"""How a consumer stands: in one word, and all that is wrong with what helps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from fairlead.api.kubebind import APIServiceExport
from fairlead.api.kubebind.conditions import READY, Condition
from fairlead.api.meta import Object
from fairlead.api.reasons.conditions import state_of
from fairlead.api.reasons.kubebind import KUBE_BIND
from fairlead.api.reasons.model import State
from fairlead.portal.console.states import OF_CONSUMERS
from fairlead.provider.commands.overview import Row


class Fault(msgspec.Struct, frozen=True):
    """A condition that is not as it should be: of which object, and what helps."""

    where: str
    type: str
    state: State
    reason: str
    message: str
    helps: str


class Standing(msgspec.Struct, frozen=True):
    """A consumer's state and the word for it."""

    state: State
    word: str


def helps_of(condition: Condition) -> str:
    """What helps against a condition, "" where all is well."""
    return "" if state_of(condition) == "ok" else KUBE_BIND.helps(condition.reason)


def faults(where: str, conditions: Iterable[Condition]) -> list[Fault]:
    """What is wrong with an object; Ready alone where nothing finer is."""
    wrong = [one for one in conditions if state_of(one) != "ok"]
    finer = [one for one in wrong if one.type != READY] or wrong
    return [
        Fault(where, one.type, state_of(one), one.reason, one.message, helps_of(one))
        for one in finer
    ]


def export_conditions(export: Object) -> list[Condition]:
    """The conditions of an export; of one that is not valid, that it is not."""
    try:
        return export.decode(APIServiceExport).status.conditions
    except msgspec.ValidationError as error:
        return [Condition(READY, "False", reason="Invalid", message=str(error))]


def standing(row: Row, wrong: Sequence[Fault]) -> Standing:
    """How a consumer stands, given what is wrong with its exports."""
    if row.deleting:
        return Standing("waiting", "being revoked")
    if row.healthy.status != "True":
        return Standing(row.state, row.healthy.reason)
    if row.warnings:
        return Standing("failed", _number(len(row.warnings), "warning"))
    if wrong:
        worst = min(wrong, key=lambda one: OF_CONSUMERS.index(one.state))
        return Standing(worst.state, worst.reason or worst.type)
    return Standing("ok", "healthy")


def _number(number: int, one: str) -> str:
    return f"{number} {one}" if number == 1 else f"{number} {one}s"
