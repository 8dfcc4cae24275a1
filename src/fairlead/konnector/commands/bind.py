"""Binds in the consumer's cluster what a provider's BindingResponse asks for, and waits for it."""

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
    BindingSpec,
    ClusterSecretKeyRef,
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
    false,
    get_condition,
    is_true,
    set_conditions,
)
from fairlead.api.meta import JSON, Object
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS
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
from fairlead.client.lookups import WaitTimeout, wait_for
from fairlead.konnector.app import install_crds
from fairlead.konnector.commands.consumer_objects import (
    check_rights,
    ensure_namespace,
    ensure_roles,
    ensure_secret,
)
from fairlead.konnector.commands.names import (
    bindings_by_name,
    check_unbound,
    choose_name,
    named,
    with_name,
)
from fairlead.konnector.commands.request import BindError, Progress, request_export
from fairlead.konnector.crds import established
from fairlead.konnector.options import DEFAULT_NAMESPACE
from fairlead.konnector.secrets import provider_config
from fairlead.konnector.statuses import with_status


TIMEOUT = 120.0
"""Seconds for everything together, unless told otherwise."""


async def bind(
    client: Client,
    response: BindingResponse,
    *,
    name: str = "",
    timeout: float = TIMEOUT,  # noqa: ASYNC109  it says what was waited for
    progress: Progress = lambda _line: None,
    namespace: str = DEFAULT_NAMESPACE,
) -> list[str]:
    """Bind all that a provider's response asks for; the names of the bindings, all Ready.

    Args:
        client: of the consumer's cluster, with an administrator's rights.
        response: from the provider.
        name: of request, export and binding, where the response has one request; the default is
            the request's own. A name that stands for something else gets a number.
        timeout: in seconds, for everything together.
        progress: told of each step.
        namespace: the konnector's, where the kubeconfig is kept.

    Raises:
        BindError: the response cannot be used, the provider refused, or it took too long; the
            message says what was waited for and what to do.
        ValueError: ``name`` cannot be used with this response.
        ClientError: a server refused or cannot be reached.
    """
    response = with_name(response, name)
    config = _check(response)
    deadline = asyncio.get_running_loop().time() + timeout

    def left() -> float:
        return max(deadline - asyncio.get_running_loop().time(), 0.1)

    await _ensure_crds(client, progress)
    await ensure_namespace(client, namespace, progress)
    secret = await ensure_secret(client, response.kubeconfig, config, namespace, progress)
    ref = ClusterSecretKeyRef(name=secret.name, namespace=secret.namespace, key=KUBECONFIG_NAME)
    bound = []
    async with Client(config, user_agent="fairlead-bind") as provider:
        for asked in response.requests:
            known = await bindings_by_name(client)
            chosen = await choose_name(
                known, provider, asked, ref, namespace=config.namespace, progress=progress
            )
            request = named(asked, chosen)
            await check_unbound(known, provider, request, namespace=config.namespace)
            await request_export(
                provider, request, namespace=config.namespace, timeout=left(), progress=progress
            )
            # Not before there is something to have rights on: a refusal leaves none behind.
            await ensure_roles(client, request, progress)
            await _ensure_binding(client, chosen, BindingSpec(kubeconfig_secret_ref=ref), progress)
            bound.append(request)
    for request in bound:
        await await_ready(client, request, left, progress)
    return [request.metadata.name for request in bound]


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
        check_rights(request, blame="do not trust this invitation")
    return config


async def _ensure_crds(client: Client, progress: Progress) -> None:
    """Only where there are none: those of a newer konnector stay."""
    try:
        await client.get(CUSTOMRESOURCEDEFINITIONS, APISERVICEBINDINGS.group_resource)
    except NotFound:
        progress("installing kube-bind's CRDs")
        await install_crds(client)


async def _ensure_binding(
    client: Client, name: str, spec: BindingSpec, progress: Progress
) -> None:
    body: JSON = {
        "apiVersion": API_VERSION,
        "kind": APISERVICEBINDINGS.kind,
        "metadata": {"name": name},
        "spec": msgspec.to_builtins(spec),
    }
    try:
        created = await client.create(APISERVICEBINDINGS, body)
    except AlreadyExists:
        found = await client.get(APISERVICEBINDINGS, name)
        if found.meta.deleting or found.decode(APIServiceBinding).spec != spec:
            raise BindError(
                f"APIServiceBinding {name} was changed by somebody else meanwhile: bind again"
            ) from None
        return
    progress(f"created APIServiceBinding {name}")
    await _mark_pending(client, created)


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


__all__ = ["BindError", "ClientError", "bind"]


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
