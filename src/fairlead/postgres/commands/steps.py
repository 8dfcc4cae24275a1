"""The steps of an access from its object to a login that works.

Pure: the functions sort a status into steps.
"""

from __future__ import annotations

from typing import Final

import msgspec

from fairlead.api.conditions import get_condition
from fairlead.api.postgresaccess import READY, PostgresAccess
from fairlead.api.reasons.model import State
from fairlead.api.reasons.postgres import POSTGRES, StepName, finer, step_of


STEPS: Final[tuple[StepName, ...]] = ("object", "server", "policy", "role", "Secret", "grants")
"""Names of the steps, in the order in which the operator takes them."""


class ExplainedStep(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One step and its state; the operator has yet to take a step that is ``waiting``."""

    name: StepName
    state: State
    message: str = ""
    reason: str = ""


NO_HEIR = (
    "set spec.orphanTo to a role without powers that the server's profile allows, or give what the"
    " role owns to another role (REASSIGN OWNED), or drop it"
)
"""Remedy where cleanupPolicy Orphan may not give the role's objects to their new owner."""


def readiness(access: PostgresAccess) -> tuple[bool, str, str]:
    """Return whether the access is Ready in its newest generation, with reason and message."""
    ready = get_condition(access.status.conditions, READY)
    meta = access.metadata
    if ready is None:
        return False, "Unseen", "the operator has not looked at it yet"
    # A condition of an earlier generation is about another spec.
    if access.status.observed_generation != meta.generation:
        if access.spec.suspend:
            return False, "Unseen", "spec.suspend is set, and the spec has changed otherwise too"
        return False, "Unseen", "the operator has not looked at it since it was changed"
    reason, message = finer(ready.reason, ready.message)
    return ready.status == "True" and not meta.deleting, reason, message


def from_status(access: PostgresAccess) -> dict[StepName, ExplainedStep]:
    """Return all steps, by the status alone."""
    ready, reason, message = readiness(access)
    if ready:
        return {
            name: ExplainedStep(name=name, state="ok", message="by its status") for name in STEPS
        }
    if reason == "Unseen":
        return {name: ExplainedStep(name=name, state="unknown", message=message) for name in STEPS}
    failing = step_of(reason)
    explained: dict[StepName, ExplainedStep] = {}
    # The operator takes the steps in order, so those before the failing one have worked.
    state: State = "ok"
    for name in STEPS:
        if name == failing:
            how = POSTGRES.state(reason)
            explained[name] = ExplainedStep(name=name, state=how, message=message, reason=reason)
            state = "unknown"
        else:
            note = "by its status" if state == "ok" else "not reached"
            explained[name] = ExplainedStep(name=name, state=state, message=note)
    return explained
