"""Binding, from the consumer's side: what a provider's BindingResponse asks for is set up.

Doing it again changes nothing. It is done with the rights of the consumer's administrator, who
thereby gives the konnector its rights on exactly what is bound and claimed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from fairlead.api.kubebind import (
    API_VERSION,
    APISERVICEBINDINGS,
    KUBECONFIG_NAME,
    APIServiceBinding,
    BindingResponse,
    ExportRequestResponse,
    bindable,
    crd_name,
)
from fairlead.api.kubebind_claims import check_claims
from fairlead.api.kubebind_conditions import (
    CONNECTED,
    HEARTBEATING,
    INFORMERS_SYNCED,
    READY,
    SCHEMA_IN_SYNC,
    SECRET_VALID,
    false,
    get_condition,
    is_true,
    set_conditions,
)
from fairlead.api.meta import JSON, Key, Object
from fairlead.api.resource import (
    CLUSTERROLES,
    CUSTOMRESOURCEDEFINITIONS,
)
from fairlead.api.timestamps import now
from fairlead.client import (
    AlreadyExists,
    Client,
    ClientError,
    ClusterConfig,
    ConfigError,
    Conflict,
    NotFound,
)
from fairlead.client.waiting import WaitTimeout, wait_for
from fairlead.konnector.app import install_crds
from fairlead.konnector.bind_request import BindError, request_export
from fairlead.konnector.bind_secret import (
    Progress,
    ensure,
    ensure_namespace,
    ensure_secret,
)
from fairlead.konnector.crds import established
from fairlead.konnector.kubeconfigs import provider_config
from fairlead.konnector.options import DEFAULT_NAMESPACE
from fairlead.konnector.roles import binding_roles
from fairlead.konnector.statuses import with_status


_CONDITIONS = (SECRET_VALID, INFORMERS_SYNCED, CONNECTED, SCHEMA_IN_SYNC, HEARTBEATING)

TIMEOUT = 120.0
"""Seconds for everything together, unless told otherwise."""


async def bind(
    client: Client,
    response: BindingResponse,
    *,
    timeout: float = TIMEOUT,  # noqa: ASYNC109  it says what was waited for
    progress: Progress = lambda _line: None,
    namespace: str = DEFAULT_NAMESPACE,
) -> list[str]:
    """Bind all that a provider's response asks for; the names of the bindings, all Ready.

    Args:
        client: of the consumer's cluster, with an administrator's rights.
        response: from the provider.
        timeout: in seconds, for everything together.
        progress: told of each step.
        namespace: the konnector's, where the kubeconfig is kept.

    Raises:
        BindError: the response cannot be used, the provider refused, or it took too long; the
            message says what was waited for and what to do.
        ClientError: a server refused or cannot be reached.
    """
    config = _check(response)
    deadline = asyncio.get_running_loop().time() + timeout

    def left() -> float:
        return max(deadline - asyncio.get_running_loop().time(), 0.1)

    await _ensure_crds(client, progress)
    await ensure_namespace(client, namespace, progress)
    secret = await ensure_secret(client, response.kubeconfig, config, namespace, progress)
    names = []
    async with Client(config, user_agent="fairlead-bind") as provider:
        for request in response.requests:
            names.append(request.metadata.name)
            await _check_binding(client, request.metadata.name, secret)
            await _ensure_roles(client, request, progress)
            await request_export(
                provider, request, namespace=config.namespace, timeout=left(), progress=progress
            )
            await _ensure_binding(client, request.metadata.name, secret, progress)
    for request in response.requests:
        await _await_ready(client, request, left, progress)
    return names


def _check(response: BindingResponse) -> ClusterConfig:
    try:
        config = provider_config(response.kubeconfig)
    except ConfigError as error:
        raise BindError(f"the response's kubeconfig cannot be used: {error}") from None
    if not response.requests:
        raise BindError("the response has no requests: ask the provider for another invitation")
    for index, request in enumerate(response.requests):
        if not request.metadata.name:
            raise BindError(f"requests[{index}] has no metadata.name; the binding needs a name")
        _check_rights(request)
    return config


def _check_rights(request: ExportRequestResponse) -> None:
    """The konnector is given rights on what a provider names: on nothing of the cluster itself."""
    for item in request.spec.resources:
        if not bindable(item.group):
            raise BindError(
                f"request {request.metadata.name} asks to bind {item.name}, a kind of Kubernetes "
                "or kube-bind itself, which no provider can offer: do not trust this invitation"
            )
    if error := check_claims(request.spec.permission_claims):
        raise BindError(
            f"request {request.metadata.name}: {error.message}: do not trust this invitation"
        )


async def _ensure_crds(client: Client, progress: Progress) -> None:
    """Only where there are none: those of a newer konnector stay."""
    try:
        await client.get(CUSTOMRESOURCEDEFINITIONS, APISERVICEBINDINGS.group_resource)
    except NotFound:
        progress("installing kube-bind's CRDs")
        await install_crds(client)


async def _ensure_roles(
    client: Client, request: ExportRequestResponse, progress: Progress
) -> None:
    """The konnector's rights on what is bound, and the Service Binding operator's."""
    spec = request.spec
    for role in binding_roles(request.metadata.name, spec.resources, spec.permission_claims):
        name = role["metadata"]["name"]
        try:
            found = await client.get(CLUSTERROLES, name)
        except NotFound:
            await ensure(client, CLUSTERROLES, role, progress)
            continue
        old = found.to_dict()
        labels = {**old["metadata"].get("labels", {}), **role["metadata"]["labels"]}
        new = {**old, "metadata": {**old["metadata"], "labels": labels}, "rules": role["rules"]}
        if new != old:
            await client.update(CLUSTERROLES, new)
            progress(f"updated ClusterRole {name}")


async def _ensure_binding(client: Client, name: str, secret: Key, progress: Progress) -> None:
    body: JSON = {
        "apiVersion": API_VERSION,
        "kind": APISERVICEBINDINGS.kind,
        "metadata": {"name": name},
        "spec": _binding_spec(secret),
    }
    try:
        created = await client.create(APISERVICEBINDINGS, body)
    except AlreadyExists:
        await _check_binding(client, name, secret)
        return
    progress(f"created APIServiceBinding {name}")
    await _mark_pending(client, created)


async def _check_binding(client: Client, name: str, secret: Key) -> None:
    """A binding of this name must be of this provider: its roles are about to be written."""
    try:
        found = await client.get(APISERVICEBINDINGS, name)
    except NotFound:
        return
    if found.meta.deleting:
        raise BindError(f"APIServiceBinding {name} is being deleted: wait until it is gone")
    if found.to_dict()["spec"] != _binding_spec(secret):
        raise BindError(
            f"APIServiceBinding {name} exists and uses another kubeconfig Secret: delete it, "
            "or have the provider invite you under another name"
        )


def _binding_spec(secret: Key) -> JSON:
    ref = {"name": secret.name, "namespace": secret.namespace, "key": KUBECONFIG_NAME}
    return {"kubeconfigSecretRef": ref}


async def _mark_pending(client: Client, created: Object) -> None:
    """What people see before a konnector has looked at it; if one has, that counts."""
    pending = false(READY, "Pending", "waiting for a konnector", severity="Info")
    status = msgspec.structs.replace(
        created.decode(APIServiceBinding).status,
        conditions=set_conditions([], pending, now=now()),
    )
    try:
        await client.update(APISERVICEBINDINGS, with_status(created, status), subresource="status")
    except (Conflict, NotFound):
        return


async def _await_ready(
    client: Client,
    request: ExportRequestResponse,
    left: Callable[[], float],
    progress: Progress,
) -> None:
    name = request.metadata.name
    progress(f"waiting for APIServiceBinding {name}")
    try:
        await wait_for(client, APISERVICEBINDINGS, name, until=_unready, timeout=left())
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
        return f"not ready: {ready.reason}: {ready.message}"
    missing = [type_ for type_ in _CONDITIONS if not is_true(conditions, type_)]
    return f"the konnector has not said {', '.join(missing)} yet" if missing else ""


def _unestablished(found: Object | None) -> str:
    if found is None:
        return "not created yet"
    return "" if established(found) else "not established yet"


__all__ = ["BindError", "ClientError", "bind"]
