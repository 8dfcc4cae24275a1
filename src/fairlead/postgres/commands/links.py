"""The links of an access: its role in a chain, and the steps on the way to that role.

Pure: both are by the status alone.
"""

from __future__ import annotations

from typing import Final

import msgspec

from fairlead.api.conditions import get_condition
from fairlead.api.decoding import field_message
from fairlead.api.links import Link, LinkName, wrong
from fairlead.api.meta import Object, object_from_dict
from fairlead.api.postgresaccess import READY, PostgresAccess
from fairlead.api.reasons.model import Place, State
from fairlead.api.reasons.postgres import POSTGRES, StepName, finer, step_of
from fairlead.api.reasons.verdict import UNSEEN, place_of, remedy_of, written_at


STEPS: Final[tuple[StepName, ...]] = ("object", "server", "policy", "role", "Secret", "grants")
"""Names of the steps, in the order in which the operator takes them."""


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
            return False, "Unseen", "spec.suspend is set, and other fields changed too"
        return False, "Unseen", "the operator has not looked at it since it was changed"
    reason, message = finer(ready.reason, ready.message)
    return ready.status == "True" and not meta.deleting, reason, message


def from_status(access: PostgresAccess) -> dict[LinkName, Link]:
    """Return all steps, by the status alone."""
    ready, reason, message = readiness(access)
    if ready:
        return {name: Link(name=name, state="ok", about="by its status") for name in STEPS}
    if reason == "Unseen":
        return {name: Link(name=name, state="unknown", about=message) for name in STEPS}
    failing = step_of(reason)
    explained: dict[LinkName, Link] = {}
    # The operator takes the steps in order, so those before the failing one have worked.
    state: State = "ok"
    for name in STEPS:
        if name == failing:
            how = POSTGRES.state(reason)
            explained[name] = Link(name=name, state=how, about=message, reason=reason)
            state = "unknown"
        else:
            note = "by its status" if state == "ok" else "not reached"
            explained[name] = Link(name=name, state=state, about=note)
    return explained


def provided_role_link(access: Object, copy: Object | None, *, is_seen: bool = True) -> Link:
    """Return the link of the role of an access that a provider brings, for its consumer.

    The role is on the provider's server, so that its state is by the status alone.

    Args:
        access: the consumer's object.
        copy: the provider's copy of it, whose operator writes the status; None if it is not seen.
        is_seen: whether the provider's side was seen, so that a missing copy is not there.
    """
    link = role_by_status(copy or _as_observed(access), "consumer")
    if link.reason == "Unseen" and copy is None:
        text = "has no copy yet" if is_seen else "is not known: the provider was not seen"
        return msgspec.structs.replace(link, state="unknown", about=text, reason="", remedy="")
    if link.reason == "Unseen":
        remedy = "wait; if it lasts, ask the provider whether its PostgresAccess operator runs"
        return msgspec.structs.replace(link, remedy=remedy)
    return link


def _as_observed(access: Object) -> Object:
    """Return an access with the generation that its status is about.

    That is the copy's, and each cluster counts by itself. Whether the last change has crossed is
    told by another link.
    """
    body = access.to_dict()
    status = body.get("status")
    observed = status.get("observedGeneration") if isinstance(status, dict) else None
    if isinstance(observed, int):
        body["metadata"]["generation"] = observed
    return object_from_dict(body)


def role_by_status(obj: Object, place: Place | None = None) -> Link:
    """Return the link of an access's role by the access's status alone.

    ``place`` is the reader's cluster; None is that of the access.
    """
    try:
        access = obj.decode(PostgresAccess)
    except msgspec.ValidationError as error:
        text = f"the role of {obj.kind} {obj.key}"
        return wrong(POSTGRES, "InvalidSpec", name="role", subject=text, text=field_message(error))
    text = f"role {access.status.username or access.spec.username}"
    ready, reason, message = readiness(access)
    condition = get_condition(access.status.conditions, READY)
    since = condition.last_transition_time if condition is not None else ""
    since = written_at(obj) if reason == UNSEEN else since
    if ready:
        summary = "logs in, with all its grants"
        return Link(name="role", object=text, state="ok", about=summary, since=since)
    state: State = POSTGRES.state(reason)
    if state == "ok":
        # The status is from before the deletion.
        state, reason, message = "waiting", "Deleting", "is being removed"
    return Link(
        name="role",
        object=text,
        state=state,
        about=message,
        reason=reason,
        remedy=remedy_of(reason, place=place_of(obj) if place is None else place),
        since=since,
    )
