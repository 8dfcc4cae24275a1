"""Waiting until a binding has brought what it promises."""

from __future__ import annotations

from collections.abc import Callable

from fairlead.api.kubebind import (
    APISERVICEBINDINGS,
    APIServiceBinding,
    ExportRequestResponse,
    crd_name,
)
from fairlead.api.kubebind.conditions import (
    CONNECTED,
    HEARTBEATING,
    INFORMERS_SYNCED,
    READY,
    SCHEMA_IN_SYNC,
    SECRET_VALID,
    get_condition,
    is_true,
)
from fairlead.api.meta import Object
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS
from fairlead.client import Client
from fairlead.client.waiting import WaitTimeout, wait_for
from fairlead.konnector.bind_request import BindError, Progress
from fairlead.konnector.crds import established


_NOT_READY = "not ready: "
_CONDITIONS = (SECRET_VALID, INFORMERS_SYNCED, CONNECTED, SCHEMA_IN_SYNC, HEARTBEATING)


async def await_ready(
    client: Client,
    request: ExportRequestResponse,
    left: Callable[[], float],
    progress: Progress,
) -> None:
    """Wait until the binding is Ready and its kinds are served.

    ``left`` gives the seconds that remain.

    Raises:
        BindError: it took too long; the message says what was missing.
        ClientError: the server refused the look.
    """
    name = request.metadata.name
    progress(f"waiting for APIServiceBinding {name}")
    said = ""

    def missing(found: Object | None) -> str:
        nonlocal said
        obstacle = _unready(found)
        if obstacle not in {"", said} and obstacle.startswith(_NOT_READY):
            progress(obstacle)
            said = obstacle
        return obstacle

    try:
        await wait_for(client, APISERVICEBINDINGS, name, until=missing, timeout=left())
        for item in request.spec.resources:
            crd = crd_name(item.resource, item.group)
            await wait_for(
                client, CUSTOMRESOURCEDEFINITIONS, crd, until=_unestablished, timeout=left()
            )
    except WaitTimeout as error:
        raise BindError(str(error)) from None
    progress(f"APIServiceBinding {name} is ready")


def _unready(found: Object | None) -> str:
    if found is None:
        return "it was deleted"
    conditions = found.decode(APIServiceBinding).status.conditions
    ready = get_condition(conditions, READY)
    if ready is None or ready.reason == "Pending":
        return (
            "no konnector has picked up the binding: is one running? Start `fairlead konnector "
            "run`, or apply `fairlead manifests konnector`"
        )
    if ready.status != "True":
        return f"{_NOT_READY}{ready.reason}: {ready.message}"
    missing = [type_ for type_ in _CONDITIONS if not is_true(conditions, type_)]
    return f"the konnector has not said {', '.join(missing)} yet" if missing else ""


def _unestablished(found: Object | None) -> str:
    if found is None:
        return "not created yet"
    return "" if established(found) else "not established yet"
