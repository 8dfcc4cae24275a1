"""How an object stands by its conditions: its state, why, since when, and what helps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import msgspec

from fairlead.api.conditions import Condition, ConditionStatus
from fairlead.api.kubebind.conditions import READY, SYNCED
from fairlead.api.meta import JSON, Object
from fairlead.api.nesting import NestedTooDeeply
from fairlead.api.postgresaccess import POSTGRESACCESSES
from fairlead.api.reasons.conditions import TABLES, state_of
from fairlead.api.reasons.kubebind import KUBE_BIND
from fairlead.api.reasons.model import State
from fairlead.postgres.commands.steps import finer


LONGEST = 500
"""Characters of a text that others wrote, of which more are cut off."""
MOST_CONDITIONS = 50
"""Conditions of an object that are looked at."""
_STATUSES: Final[dict[object, ConditionStatus]] = {"True": "True", "False": "False"}


class Standing(msgspec.Struct, frozen=True, gc=False):
    """How an object stands, by the condition of which ``reason`` and ``message`` are.

    ``foreign`` says that the reason is of no table of ours, even where one has the same word.
    """

    state: State
    reason: str = ""
    message: str = ""
    since: str = ""
    foreign: bool = False

    @property
    def about(self) -> str:
        """Reason and message in one."""
        return ": ".join(part for part in (self.reason, self.message) if part)

    @property
    def helps(self) -> str:
        """What helps; "" where nothing has to, or nothing is known to."""
        if self.state == "ok" or not self.reason:
            return ""
        return helps(self.reason, self.message, foreign=self.foreign)


_DELETING: Final = "Deleting"
_OURS: Final = frozenset({POSTGRESACCESSES.group})
"""Groups of kinds whose controllers on the provider are ours."""
_SILENT: Final = Standing("unknown", message="it tells no condition that is known")


def short(text: str) -> str:
    """A text that is not longer than pages show."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def helps(reason: str, message: str = "", *, foreign: bool = False) -> str:
    """What helps for a reason, in the words of the table that knows it.

    Of a reason that only says to read the message, the finer one at its beginning tells.
    """
    if reason == _DELETING:
        return "wait, or ask the provider's team which of its finalizers stays"
    table = next((one for one in TABLES if reason in one), None)
    if foreign or table is None:
        return KUBE_BIND.helps("NotReady")
    inner, _ = finer(reason, message)
    return table.helps(inner if inner in table else reason)


def is_foreign(found: Object, condition: Condition) -> bool:
    """Whether a condition's reason is of no table of ours: its controller is another's."""
    group = found.api_version.partition("/")[0]
    return group not in _OURS and condition.type != SYNCED


def conditions_of(found: Object) -> list[Condition]:
    """The conditions of an object, without those that are none."""
    try:
        return found.decode(_Body).status.conditions[:MOST_CONDITIONS]
    except msgspec.ValidationError:
        pass
    try:
        status = found.to_dict().get("status")
    except NestedTooDeeply:
        return []
    stored = status.get("conditions") if isinstance(status, dict) else None
    if not isinstance(stored, list):
        return []
    read = [_condition(one) for one in stored[:MOST_CONDITIONS] if isinstance(one, dict)]
    return [one for one in read if one.type]


def standing(found: Object, conditions: Sequence[Condition] | None = None) -> Standing:
    """How an object stands: one that is being deleted waits, whatever it says beside that."""
    if found.meta.deleting:
        kept = ", ".join(found.meta.finalizers)
        message = f"it is being deleted; finalizers hold it: {kept}" if kept else "it is going"
        return Standing("waiting", _DELETING, short(message), found.meta.deletion_timestamp or "")
    known = conditions_of(found) if conditions is None else conditions
    return by_conditions(known, partial(is_foreign, found))


def by_conditions(
    conditions: Sequence[Condition], foreign: Callable[[Condition], bool] = lambda _: False
) -> Standing:
    """The worst of what conditions say; of equals the first, Ready last, which sums up others."""
    states = [(state_of(one), one) for one in conditions]
    for wanted in ("failed", "waiting"):
        worst = [one for state, one in states if state == wanted]
        if worst:
            finer = next((one for one in worst if one.type != READY), worst[0])
            return _by(wanted, finer, foreign(finer))
    ready = next(((state, one) for state, one in states if one.type == READY), None)
    if ready is not None:
        return _by(*ready, foreign(ready[1]))
    good = [one for state, one in states if state == "ok"]
    if not good:
        return _SILENT
    newest = max(good, key=lambda one: one.last_transition_time)
    return _by("ok", newest, foreign(newest))


def _by(state: State, condition: Condition, foreign: bool) -> Standing:
    message = condition.message
    if state != "ok" and not (condition.reason or message):
        message = f"{condition.type} is {condition.status}"
    return Standing(
        state,
        short(condition.reason),
        short(message),
        short(condition.last_transition_time),
        foreign,
    )


class _Status(msgspec.Struct):
    conditions: list[Condition] = []


class _Body(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


def _condition(stored: JSON) -> Condition:
    """A condition, of which what is no text is left out."""

    def text(name: str) -> str:
        value = stored.get(name)
        return value if isinstance(value, str) else ""

    return Condition(
        type=text("type"),
        status=_STATUSES.get(stored.get("status"), "Unknown"),
        reason=text("reason"),
        message=text("message"),
        last_transition_time=text("lastTransitionTime"),
    )
