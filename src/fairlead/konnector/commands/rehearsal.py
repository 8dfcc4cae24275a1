"""The writes of a bind without effect: a plan, or a dry run on both servers."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fairlead.api.kubebind import (
    API_VERSION,
    APISERVICEBINDINGS,
    APISERVICEEXPORTREQUESTS,
    KUBECONFIG_NAME,
    BindingResponse,
    BindingSpec,
    ClusterSecretKeyRef,
    ExportRequestResponse,
    consumer_crds,
)
from fairlead.api.meta import JSON
from fairlead.api.resource import (
    CLUSTERROLES,
    CUSTOMRESOURCEDEFINITIONS,
    NAMESPACES,
    SECRETS,
    Resource,
)
from fairlead.client import AlreadyExists, Client
from fairlead.client.lookups import find
from fairlead.konnector.commands.consumer_objects import (
    MANAGED_BY,
    MANAGER,
    find_secret_ref,
    secret_ref,
    user_roles_of,
)
from fairlead.konnector.commands.names import (
    bindings_by_name,
    check_unbound,
    choose_name,
    named,
    with_name,
)
from fairlead.konnector.commands.preflight import (
    check_apart,
    check_crds,
    check_requests,
    check_response,
)
from fairlead.konnector.commands.request import BindError, Progress
from fairlead.konnector.options import DEFAULT_NAMESPACE
from fairlead.konnector.rights import binding_roles
from fairlead.konnector.rights import user_roles as roles_for_users


_UNKNOWN = "kubeconfig-of-the-provider"
"""Name of the Secret while the kubeconfig that its name depends on is unknown."""
_RESOURCES: dict[str, Resource] = {
    "Namespace": NAMESPACES,
    "Secret": SECRETS,
    "ClusterRole": CLUSTERROLES,
    "APIServiceBinding": APISERVICEBINDINGS,
}


def planned(
    response: BindingResponse, *, namespace: str = DEFAULT_NAMESPACE, user_roles: bool = True
) -> list[JSON]:
    """Return the objects that a bind would write into the consumer's cluster, the Secret empty.

    Args:
        response: the provider's answer; without a kubeconfig the Secret has a made-up name.
        namespace: the konnector's.
        user_roles: whether people with view, edit or admin get rights on the bound kinds.

    Raises:
        BindError: the response cannot be used.
    """
    check_requests(response)
    if not response.requests:
        raise BindError("the response has no requests, so nothing would be bound")
    ref = ClusterSecretKeyRef(name=_UNKNOWN, namespace=namespace, key=KUBECONFIG_NAME)
    if response.kubeconfig:
        ref = secret_ref(check_response(response), namespace)
    return _objects(response.requests, ref, user_roles=user_roles)


def _objects(
    requests: Sequence[ExportRequestResponse], ref: ClusterSecretKeyRef, *, user_roles: bool
) -> list[JSON]:
    labels = {MANAGED_BY: MANAGER}
    spec = msgspec.to_builtins(BindingSpec(kubeconfig_secret_ref=ref))
    objects: list[JSON] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ref.namespace}},
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": ref.name, "namespace": ref.namespace, "labels": labels},
            "type": "Opaque",
        },
    ]
    for request in requests:
        name = request.metadata.name
        objects += binding_roles(name, request.spec.resources, request.spec.permission_claims)
        if user_roles:
            objects += roles_for_users(name, request.spec.resources)
        objects.append(
            {
                "apiVersion": API_VERSION,
                "kind": APISERVICEBINDINGS.kind,
                "metadata": {"name": name, "labels": labels},
                "spec": spec,
            }
        )
    return objects


async def rehearse(
    client: Client,
    response: BindingResponse,
    *,
    name: str = "",
    namespace: str = DEFAULT_NAMESPACE,
    progress: Progress = lambda _line: None,
    user_roles: bool = True,
) -> list[JSON]:
    """Have both servers check the writes of a bind by ``dryRun=All``; as :func:`planned`.

    Args:
        client: a client of the consumer's cluster.
        response: the provider's answer; without a kubeconfig the provider's cluster is not asked.
        name: as for ``bind``.
        namespace: the konnector's.
        progress: called with each object.
        user_roles: as for :func:`planned`.

    Raises:
        BindError: a bind would fail; the message says why.
        ValueError: ``name`` cannot be used with this response.
        ClientError: a server would refuse, or cannot be reached.
    """
    response = with_name(response, name)
    objects = planned(response, namespace=namespace, user_roles=user_roles)
    bindings = await bindings_by_name(client)
    requests = list(response.requests)
    if response.kubeconfig:
        config = check_response(response)
        ref = await find_secret_ref(client, config, namespace)
        async with Client(config, user_agent="fairlead-bind") as provider:
            await check_apart(client, provider)
            for index, requested in enumerate(requests):
                await check_crds(client, requested, bindings, ref, config)
                chosen = await choose_name(
                    bindings,
                    provider,
                    requested,
                    ref,
                    namespace=config.namespace,
                    progress=progress,
                )
                requests[index] = request = named(requested, chosen)
                await check_unbound(bindings, provider, request, namespace=config.namespace)
                body = msgspec.to_builtins(request)
                body["metadata"] = {"name": chosen, "namespace": config.namespace}
                await _ask(provider, APISERVICEEXPORTREQUESTS, body, progress, "provider: ")
        objects = _objects(requests, ref, user_roles=user_roles)
    for request in requests if not user_roles else ():
        for role in await user_roles_of(client, request.metadata.name):
            progress(f"ClusterRole {role.meta.name} would be deleted")
    absent = await _absent(client, namespace, progress)
    for body in objects:
        if body["kind"] in absent:
            progress(f"{body['kind']} {body['metadata']['name']} would be created")
            continue
        await _ask(client, _RESOURCES[body["kind"]], body, progress)
    return objects


async def _absent(client: Client, namespace: str, progress: Progress) -> set[str]:
    """Return the kinds that no server can check, because their CRDs or namespace are missing."""
    absent: set[str] = set()
    there = {found.meta.name for found in (await client.list(CUSTOMRESOURCEDEFINITIONS)).items}
    for crd in consumer_crds():
        if crd["metadata"]["name"] not in there:
            await _ask(client, CUSTOMRESOURCEDEFINITIONS, crd, progress)
            absent.add(crd["spec"]["names"]["kind"])
    if await find(client, NAMESPACES, namespace) is None:
        # A dry run makes no namespace, and servers refuse objects in one that is missing.
        absent.add("Secret")
    return absent


async def _ask(
    client: Client, resource: Resource, body: JSON, progress: Progress, where: str = ""
) -> None:
    name = body["metadata"]["name"]
    try:
        await client.create(resource, body, dry_run=True)
    except AlreadyExists:
        progress(f"{where}{resource.kind} {name} is there")
    else:
        progress(f"{where}{resource.kind} {name} would be created")
