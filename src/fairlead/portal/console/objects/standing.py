"""The state of an object from its conditions: reason, since when, and remedy."""

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
from fairlead.api.reasons.postgres import finer


LONGEST = 500
"""Longest shown text of an object, in characters."""
MOST_CONDITIONS = 50
"""Largest number of an object's conditions that are read."""
_STATUSES: Final[dict[object, ConditionStatus]] = {"True": "True", "False": "False"}


class Standing(msgspec.Struct, frozen=True, gc=False):
    """The state of an object, with ``reason`` and ``message`` of the deciding condition.

    ``foreign`` says that another project's controller wrote the reason, so that a table of
    ours with the same word does not apply.
    """

    state: State
    reason: str = ""
    message: str = ""
    since: str = ""
    foreign: bool = False

    @property
    def about(self) -> str:
        """Reason and message in one text."""
        return ": ".join(part for part in (self.reason, self.message) if part)

    @property
    def helps(self) -> str:
        """The remedy; "" if none is needed or known."""
        if self.state == "ok" or not self.reason:
            return ""
        return helps(self.reason, self.message, foreign=self.foreign)


_DELETING: Final = "Deleting"
_OURS: Final = frozenset({POSTGRESACCESSES.group})
"""API groups of Fairlead's own controllers."""
_SILENT: Final = Standing("unknown", message="it has no known condition")


def short(text: str) -> str:
    """Return a text, cut to the longest that pages show."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def helps(reason: str, message: str = "", *, foreign: bool = False) -> str:
    """Return the remedy for a reason from the table that contains it.

    If the reason only refers to the message, the reason at the message's beginning decides.
    """
    if reason == _DELETING:
        return "wait, or ask the provider's team which of its finalizers stays"
    table = next((one for one in TABLES if reason in one), None)
    if foreign or table is None:
        return KUBE_BIND.helps("NotReady")
    inner, _ = finer(reason, message)
    return table.helps(inner if inner in table else reason)


def is_foreign(found: Object, condition: Condition) -> bool:
    """Whether another project's controller wrote the condition, so our tables do not apply."""
    group = found.api_version.partition("/")[0]
    return group not in _OURS and condition.type != SYNCED


def conditions_of(found: Object) -> list[Condition]:
    """Return the conditions of an object, without malformed ones."""
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
    """Return an object's state; one that is being deleted waits, whatever its conditions say."""
    if found.meta.deleting:
        kept = ", ".join(found.meta.finalizers)
        message = (
            f"it is being deleted; finalizers hold it: {kept}" if kept else "it is being deleted"
        )
        return Standing("waiting", _DELETING, short(message), found.meta.deletion_timestamp or "")
    known = conditions_of(found) if conditions is None else conditions
    return by_conditions(known, partial(is_foreign, found))


def by_conditions(
    conditions: Sequence[Condition], foreign: Callable[[Condition], bool] = lambda _: False
) -> Standing:
    """Return the state of the worst condition; of equals the first, and Ready last."""
    states = [(state_of(one), one) for one in conditions]
    for wanted in ("failed", "waiting"):
        worst = [one for state, one in states if state == wanted]
        if worst:
            # Ready often repeats the message of another condition, which says more.
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
    """Read a condition, without fields that are not text."""

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
