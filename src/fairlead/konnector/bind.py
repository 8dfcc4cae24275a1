"""Binding, from the consumer's side: what a provider's BindingResponse asks for is set up.

Doing it again changes nothing. It is done with the rights of the consumer's administrator, who
thereby gives the konnector its rights on exactly what is bound and claimed.
"""

from __future__ import annotations

import asyncio

import msgspec

from fairlead.api.kubebind import (
    API_VERSION,
    APISERVICEBINDINGS,
    KUBECONFIG_NAME,
    APIServiceBinding,
    BindingResponse,
    BindingSpec,
    ClusterSecretKeyRef,
)
from fairlead.api.kubebind.conditions import READY, false, set_conditions
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
from fairlead.konnector.app import install_crds
from fairlead.konnector.bind_names import (
    bindings_by_name,
    check_unbound,
    choose_name,
    named,
    with_name,
)
from fairlead.konnector.bind_ready import await_ready
from fairlead.konnector.bind_request import BindError, Progress, request_export
from fairlead.konnector.bind_rights import check_rights, ensure_roles
from fairlead.konnector.bind_secret import ensure_namespace, ensure_secret
from fairlead.konnector.kubeconfigs import provider_config
from fairlead.konnector.options import DEFAULT_NAMESPACE
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
