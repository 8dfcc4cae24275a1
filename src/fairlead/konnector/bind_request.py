"""Asking the provider for an export, and waiting for its answer."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from fairlead.api.kubebind import (
    APISERVICEEXPORTREQUESTS,
    APISERVICEEXPORTS,
    APIServiceExport,
    APIServiceExportRequest,
    ExportRequestResponse,
    ExportResource,
)
from fairlead.api.meta import Object
from fairlead.client import AlreadyExists, Client, ClientError, NotFound, Unauthorized
from fairlead.client.waiting import WaitTimeout, wait_for


class BindError(ClientError):
    """Binding did not succeed; the text is for the person who wanted it."""


async def request_export(
    provider: Client,
    request: ExportRequestResponse,
    *,
    namespace: str,
    timeout: float,  # noqa: ASYNC109  it says what was waited for
    progress: Callable[[str], None],
) -> None:
    """Create the request and wait until there is an export; one that is there is as good.

    Raises:
        BindError: the provider refused, has another export of that name, or took too long.
        ClientError: the provider cannot be reached, or does not allow it.
    """
    name = request.metadata.name
    try:
        if await _exported(provider, request, namespace):
            return
    except Unauthorized:
        raise BindError(
            f"the provider {provider.config.server} does not accept the credentials of the "
            "invitation: ask for a new one"
        ) from None
    body = msgspec.to_builtins(request)
    body["metadata"] = {"name": name, "namespace": namespace}
    try:
        await provider.create(APISERVICEEXPORTREQUESTS, body, namespace)
        progress(f"requested {name} from the provider")
    except AlreadyExists:
        found = await provider.get(APISERVICEEXPORTREQUESTS, name, namespace)
        spec = found.decode(APIServiceExportRequest).spec
        _compare(name, "APIServiceExportRequest", spec.resources, request)
    progress(f"waiting for the provider to export {name}")
    try:
        await wait_for(
            provider,
            APISERVICEEXPORTREQUESTS,
            name,
            namespace,
            until=_undecided,
            timeout=timeout,
        )
    except WaitTimeout as error:
        raise BindError(f"on the provider: {error}") from None
    await _exported(provider, request, namespace)


async def _exported(provider: Client, request: ExportRequestResponse, namespace: str) -> bool:
    name = request.metadata.name
    try:
        found = await provider.get(APISERVICEEXPORTS, name, namespace)
    except NotFound:
        return False
    spec = found.decode(APIServiceExport).spec
    _compare(name, "APIServiceExport", spec.resources, request)
    if spec.permission_claims != request.spec.permission_claims:
        raise BindError(
            f"the provider's APIServiceExport {name} claims other objects than the invitation "
            "says: ask for a new invitation and read what it claims"
        )
    return True


def _compare(
    name: str, kind: str, resources: list[ExportResource], request: ExportRequestResponse
) -> None:
    wanted = {item.name for item in request.spec.resources}
    found = {item.name for item in resources}
    if wanted != found:
        raise BindError(
            f"the provider has another {kind} {name} already, of {', '.join(sorted(found))}: "
            "ask for an invitation under another name"
        )


def _undecided(found: Object | None) -> str:
    if found is None:
        return "the request was deleted"
    status = found.decode(APIServiceExportRequest).status
    if status.phase == "Failed":
        raise BindError(
            f"the provider refused APIServiceExportRequest {found.meta.name}: "
            f"{status.terminal_message or 'it gave no reason'}"
        )
    if status.phase == "Succeeded":
        return ""
    told = "; ".join(item.message for item in status.conditions if item.status == "False")
    return told or "the provider has not answered yet: do its controllers run?"
