"""The last link of a chain: the role behind an access, and its state."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fairlead.api.conditions import get_condition
from fairlead.api.links import Link, wrong
from fairlead.api.meta import Object, object_from_dict
from fairlead.api.postgresaccess import READY, PostgresAccess
from fairlead.api.reasons.model import Place, State
from fairlead.api.reasons.postgres import POSTGRES
from fairlead.api.reasons.verdict import UNSEEN, place_of, remedy_of, written_at
from fairlead.client import Client, ClientError
from fairlead.postgres.commands.explain import AccessExplanation, explain
from fairlead.postgres.commands.steps import readiness
from fairlead.postgres.commands.surroundings import ConsumerClusterError, Surroundings, is_provided
from fairlead.postgres.errors import AccessError


async def role_link(
    client: Client, obj: Object, operator_namespace: str
) -> tuple[Link, Sequence[str]]:
    """Return the link of an access's role, with notes on objects that cannot be read.

    The link is by the status alone where the server cannot be queried, or is a provider's.
    """
    if is_provided(obj.meta):
        return provided_role_link(obj, None), []
    try:
        around = await Surroundings.of(client, operator_namespace)
        explained = await explain(around, obj.meta.name, obj.meta.namespace)
    except ConsumerClusterError as error:
        return provided_role_link(obj, None), [str(error)]
    except (AccessError, ClientError) as error:
        note = f"what is told of {obj.kind} {obj.key} is by its status alone: {error}"
        return role_by_status(obj), [note]
    by_status = role_by_status(obj)
    # ``explain`` has read the object anew, and ``obj`` may be older.
    if explained.ready:
        link = msgspec.structs.replace(
            by_status, state="ok", about="logs in, with all its grants", reason="", remedy=""
        )
        return link, explained.notes
    return _refused(by_status, explained), explained.notes


def _refused(by_status: Link, explained: AccessExplanation) -> Link:
    failed = any(one.state == "failed" for one in explained.steps)
    return msgspec.structs.replace(
        by_status,
        state="failed" if failed else "waiting",
        about=explained.message,
        reason=explained.reason,
        remedy=explained.next_step,
    )


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
        return wrong(POSTGRES, "InvalidSpec", name="role", subject=text, text=str(error))
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
