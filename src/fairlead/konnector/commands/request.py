"""Requests an export from the provider, and waits for its answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec

from fairlead.api.kubebind import (
    API_VERSION,
    APISERVICEEXPORTREQUESTS,
    APISERVICEEXPORTS,
    BOUNDSCHEMAS,
    CLUSTER_BINDING_NAME,
    CLUSTERBINDINGS,
    APIServiceExport,
    APIServiceExportRequest,
    ClusterBinding,
    ExportRequestResponse,
    ExportResource,
    PermissionClaim,
)
from fairlead.api.kubebind.conditions import HEALTHY, get_condition
from fairlead.api.meta import Object
from fairlead.client import AlreadyExists, Client, ClientError, Conflict, NotFound
from fairlead.client.lookups import WaitTimeout, find, wait_for


Progress = Callable[[str], None]
"""Called with each finished or awaited step, one line at a time."""

_FORMER_REFUSALS = ("API server refused: BoundSchema.", "cannot be exported: Expected `")
"""Texts by which a former provider says that its BoundSchemas lack what CRDs allow."""
_NO_ANSWER = "the provider has not answered yet: do its controllers run?"
_SILENCE = (
    "the provider has written nothing into the request: do its controllers run? kube-bind's "
    "own backend also writes nothing if it refuses a kind, for example one with a version name "
    "such as v1storage, or with two printer columns of the same name{}: ask the provider's "
    "administrator to read its log, and to upgrade the provider"
)
_USUAL_VERSION = "^v[1-9][0-9]*([a-z]+[1-9][0-9]*)?$"
"""Pattern of version names in the BoundSchemas of kube-bind and of former providers."""
_USUAL = re.compile(_USUAL_VERSION)
_OPENAPI = f"/openapi/v3/apis/{API_VERSION}"
"""Path of the schemas of a provider's kinds, which everyone who is authenticated may read."""
_PATTERN_PATH = (
    *("components", "schemas", "io.kube-bind.v1alpha2.BoundSchema", "properties", "spec"),
    *("properties", "versions", "items", "properties", "name", "pattern"),
)
"""Way to the pattern of version names in that document, in which groups are written backwards."""


class BindError(ClientError):
    """Binding did not succeed; the text is for the person who ran the command."""


async def request_export(
    provider: Client,
    request: ExportRequestResponse,
    *,
    namespace: str,
    timeout: float,  # noqa: ASYNC109  it says what was waited for
    created: Callable[[Object], None] = lambda _request: None,
    progress: Progress,
) -> None:
    """Create the request and wait until there is an export; an existing one is accepted.

    A request that was refused, or whose export was deleted, leads to nothing any more: it is made
    anew. ``created`` is told of a request that was not there before.

    Raises:
        BindError: the provider refused, exports something else than it was asked for, or took
            too long.
        ClientError: the provider cannot be reached, or does not allow it.
    """
    name = request.metadata.name
    if await _exported(provider, request, namespace):
        return
    await _check_versions(provider, request)
    new = await _create(provider, request, namespace)
    if new is not None:
        created(new)
        progress(f"requested {name} from the provider")
    progress(f"waiting for the provider to export {name}")
    said = ""

    def undecided(obj: Object | None) -> str:
        nonlocal said
        why = obstacle(obj)
        if why not in {"", said, _NO_ANSWER}:
            progress(f"the provider waits: {why}")
            said = why
        return why

    try:
        await wait_for(
            provider,
            APISERVICEEXPORTREQUESTS,
            name,
            namespace,
            until=undecided,
            timeout=timeout,
        )
    except WaitTimeout as error:
        text = str(error)
        if _NO_ANSWER in text:
            text = text.replace(_NO_ANSWER, await _silence(provider, request, namespace))
        raise BindError(f"on the provider: {text}") from None
    if not await _exported(provider, request, namespace):
        raise BindError(f"the provider's APIServiceExport {name} was deleted: bind again")


async def _check_versions(provider: Client, request: ExportRequestResponse) -> None:
    """Raise if the provider's BoundSchemas take no version of a name in the request.

    Such a provider would try again for ever, and kube-bind's own would not even say so.

    Raises:
        BindError: the provider has to be upgraded.
    """
    named = dict.fromkeys(name for item in request.spec.resources for name in item.versions)
    unusual = [name for name in named if not _USUAL.search(name)]
    if unusual and await _version_pattern(provider) == _USUAL_VERSION:
        raise BindError(
            f"this version of the provider cannot export {request.metadata.name}, since its "
            f"BoundSchemas allow no version {', '.join(unusual)}: ask its administrator to "
            "upgrade the provider"
        )


async def _version_pattern(provider: Client) -> str:
    """Return the pattern of version names in the provider's BoundSchemas, "" if it is unknown."""
    try:
        schema = msgspec.json.decode(await provider.request("GET", _OPENAPI))
        for field in _PATTERN_PATH:
            schema = schema[field]
    except (ClientError, msgspec.DecodeError, LookupError, TypeError):
        return ""
    return str(schema)


async def _silence(provider: Client, request: ExportRequestResponse, namespace: str) -> str:
    """Return what it may mean that the provider has written nothing into the request."""
    resources = request.spec.resources
    try:
        binding = await find(provider, CLUSTERBINDINGS, CLUSTER_BINDING_NAME, namespace)
        missing = [
            item.name
            for item in resources
            if await find(provider, BOUNDSCHEMAS, item.name, namespace) is None
        ]
    except ClientError:
        return _SILENCE.format("")
    # A provider of Fairlead says this as soon as it runs, and writes each refusal into the
    # request. The condition of kube-bind's own never arrives: it writes it beside the status.
    conditions = binding.decode(ClusterBinding).status.conditions if binding is not None else []
    if get_condition(conditions, HEALTHY) is not None:
        return _NO_ANSWER
    # It makes the BoundSchemas of a request one after the other, up to the first that is refused.
    some = 0 < len(missing) < len(resources)
    return _SILENCE.format(
        f" (the provider has BoundSchemas, but none for {', '.join(missing)})" if some else ""
    )


async def _create(
    provider: Client, request: ExportRequestResponse, namespace: str
) -> Object | None:
    """Create the request and return it; None if the same exists and leads to an export."""
    name = request.metadata.name
    body = msgspec.to_builtins(request)
    # kube-bind's responses have requests with a name alone.
    body["metadata"] = {"name": name, "namespace": namespace}
    while True:
        try:
            return await provider.create(APISERVICEEXPORTREQUESTS, body, namespace)
        except AlreadyExists:
            pass
        try:
            request_ = await provider.get(APISERVICEEXPORTREQUESTS, name, namespace)
            if request_.meta.deleting:
                raise BindError(
                    f"the provider's APIServiceExportRequest {name} is being deleted: wait until "
                    "it is gone"
                )
            if not await in_vain(provider, request_):
                spec = request_.decode(APIServiceExportRequest).spec
                _check(request, request_, spec.resources, spec.permission_claims)
                return None
            await provider.delete(APISERVICEEXPORTREQUESTS, name, namespace, uid=request_.meta.uid)
        except (NotFound, Conflict):
            # Another client has just deleted it, or made it anew.
            continue


async def withdraw(provider: Client, request: Object) -> bool:
    """Delete a request that has no answer yet; return whether it was deleted.

    An answered request stays: an export belongs to the provider, and a refusal is its record.

    Raises:
        ClientError: the provider cannot be reached, or does not allow it.
    """
    name, namespace = request.meta.name, request.meta.namespace
    request_ = await find(provider, APISERVICEEXPORTREQUESTS, name, namespace)
    if request_ is None or request_.meta.uid != request.meta.uid:
        return False
    if request_.decode(APIServiceExportRequest).status.phase in {"Failed", "Succeeded"}:
        return False
    with suppress(NotFound, Conflict):
        await provider.delete(
            APISERVICEEXPORTREQUESTS,
            name,
            namespace,
            uid=request_.meta.uid,
            # An answer that comes between look and deletion is a Conflict, and stays.
            resource_version=request_.meta.resource_version,
        )
        return True
    return False


async def in_vain(provider: Client, request: Object) -> bool:
    """Whether a request can lead to no export: it was refused, or its export was deleted.

    The export is there before the request says that it has succeeded.

    Raises:
        ClientError: the provider cannot be reached, or does not allow the look.
    """
    phase = request.decode(APIServiceExportRequest).status.phase
    if phase != "Succeeded":
        return phase == "Failed"
    meta = request.meta
    return await find(provider, APISERVICEEXPORTS, meta.name, meta.namespace) is None


async def _exported(provider: Client, request: ExportRequestResponse, namespace: str) -> bool:
    export = await find(provider, APISERVICEEXPORTS, request.metadata.name, namespace)
    if export is None:
        return False
    spec = export.decode(APIServiceExport).spec
    _check(request, export, spec.resources, spec.permission_claims)
    return True


def _check(
    request: ExportRequestResponse,
    obj: Object,
    resources: Sequence[ExportResource],
    claims: Sequence[PermissionClaim],
) -> None:
    """Raise if the export differs from the request: the konnector's rights follow the request."""
    if differs := difference(request, obj, resources, claims):
        raise BindError(f"{differs}: ask for a new invitation and read what it claims")


def difference(
    request: ExportRequestResponse,
    obj: Object,
    resources: Sequence[ExportResource],
    claims: Sequence[PermissionClaim],
) -> str:
    """Return how the provider's objects differ from the request; "" if they do not."""
    what = f"the provider's {obj.kind} {obj.meta.name}"
    # Versions are not compared: kube-bind exports the whole kind, whatever a request lists.
    names = {item.name for item in resources}
    if names != {item.name for item in request.spec.resources}:
        return f"{what} has the resources {', '.join(sorted(names))}"
    if list(claims) != request.spec.permission_claims:
        return f"{what} claims other objects than the invitation"
    return ""


def obstacle(obj: Object | None) -> str:
    """Return why a request has no answer yet, "" if it was granted.

    Raises:
        BindError: the provider refused, or is too old to export the kind.
    """
    if obj is None:
        return "the request was deleted"
    status = obj.decode(APIServiceExportRequest).status
    if status.phase == "Failed":
        raise BindError(
            f"the provider refused APIServiceExportRequest {obj.meta.name}: "
            f"{status.terminal_message or 'it gave no reason'}"
        )
    if status.phase == "Succeeded":
        return ""
    # Ready repeats another condition.
    messages = dict.fromkeys(item.message for item in status.conditions if item.status == "False")
    why = "; ".join(messages)
    if any(text in why for text in _FORMER_REFUSALS):
        # A former provider would try again for ever.
        raise BindError(
            f"this version of the provider cannot export {obj.meta.name}: ask its "
            f"administrator to upgrade the provider ({why})"
        )
    return why or _NO_ANSWER
