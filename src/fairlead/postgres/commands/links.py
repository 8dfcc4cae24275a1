"""The last link of a chain: the role behind an access, and its state."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fairlead.api.conditions import get_condition
from fairlead.api.links import Link, wrong
from fairlead.api.meta import Object
from fairlead.api.postgresaccess import READY, PostgresAccess
from fairlead.api.reasons.model import State
from fairlead.api.reasons.postgres import POSTGRES
from fairlead.client import Client, ClientError
from fairlead.postgres.commands.explain import AccessExplanation, explain
from fairlead.postgres.commands.steps import told
from fairlead.postgres.commands.surroundings import Surroundings
from fairlead.postgres.errors import AccessError


async def role_link(
    client: Client, found: Object, operator_namespace: str
) -> tuple[Link, Sequence[str]]:
    """Return the link of an access's role, with notes on objects that cannot be read.

    The link is by the status alone where the server cannot be queried.
    """
    try:
        around = await Surroundings.of(client, operator_namespace)
        explained = await explain(around, found.meta.name, found.meta.namespace)
    except (AccessError, ClientError) as error:
        note = f"what is told of {found.kind} {found.key} is by its status alone: {error}"
        return role_by_status(found), [note]
    by_status = role_by_status(found)
    # ``explain`` has read the object anew, and ``found`` may be older.
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


def role_by_status(found: Object) -> Link:
    """Return the link of an access's role by the access's status alone."""
    try:
        access = found.decode(PostgresAccess)
    except msgspec.ValidationError as error:
        text = f"the role of {found.kind} {found.key}"
        return wrong(POSTGRES, "InvalidSpec", name="role", subject=text, about=str(error))
    text = f"role {access.status.username or access.spec.username}"
    ready, reason, message = told(access)
    condition = get_condition(access.status.conditions, READY)
    since = condition.last_transition_time if condition is not None else ""
    if ready:
        about = "logs in, with all its grants"
        return Link(name="role", object=text, state="ok", about=about, since=since)
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
        remedy=POSTGRES.helps(reason),
        since=since,
    )
