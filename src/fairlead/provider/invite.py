"""Inviting a consumer: all that it needs to bind, in one file.

Doing it again gives the same answer: the namespace is found by the identity, and what is there
stays.
"""

from __future__ import annotations

import base64
import re

import msgspec

from fairlead.api.kubebind import (
    ANNOTATION_AUTHOR,
    ANNOTATION_CLUSTER_PRETTY_NAME,
    ANNOTATION_IDENTITY,
    API_VERSION,
    APISERVICEEXPORTTEMPLATES,
    BINDER_NAME,
    CLUSTER_BINDING_NAME,
    CLUSTERBINDINGS,
    KUBECONFIG_NAME,
    APIServiceExportTemplate,
    TemplateSpec,
    new_binding_response,
    request_from_template,
)
from fairlead.api.meta import JSON, Object
from fairlead.api.resource import (
    CLUSTERROLES,
    ROLEBINDINGS,
    SECRETS,
    SERVICEACCOUNTS,
    Resource,
)
from fairlead.client import AlreadyExists, Client, NotFound
from fairlead.client.waiting import WaitTimeout, wait_for
from fairlead.provider.binder import binder_cluster_role, binder_role_binding
from fairlead.provider.identity import InviteError, ensure_cluster_namespace
from fairlead.provider.kubeconfig import consumer_kubeconfig
from fairlead.provider.options import InviteOptions
from fairlead.runtime import commit


TOKEN_TYPE = "kubernetes.io/service-account-token"  # noqa: S105  # the type of a Secret

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


async def invite(
    client: Client,
    *,
    name: str,
    template: str,
    identity: str = "",
    author: str = "",
    binding_name: str = "",
    options: InviteOptions | None = None,
) -> JSON:
    """A BindingResponse for one consumer, in its wire form; it contains a credential.

    The kubeconfig in it can do nothing outside the consumer's cluster namespace and, once there
    are exports, the provider namespaces made for it.

    Args:
        client: of the provider's cluster, with an administrator's rights.
        name: of the consumer, for people.
        template: name of the APIServiceExportTemplate to bind.
        identity: of the consumer's cluster; two invitations of one identity share a namespace.
            Its default is ``name``.
        author: who invites; an identity stays with the author who invited it first.
        binding_name: of the request, and so of export and binding; default is the template's.
        options: how the provider is reached.

    Raises:
        InviteError: the invitation cannot be given; the message says what to do.
        ApiError: the server refused.
    """
    chosen = options or InviteOptions()
    request = binding_name or template
    if not _SUBDOMAIN.fullmatch(request) or len(request) > 253:
        raise InviteError(f"binding name {request!r} has to be a DNS name, such as postgres")
    spec = await _template(client, template)
    identity = identity or name
    namespace = await ensure_cluster_namespace(
        client, identity=identity, author=author, prefix=chosen.namespace_prefix
    )
    binding = _cluster_binding(namespace, name, chosen)
    await _ensure(client, CLUSTERBINDINGS, binding, "spec")
    kubeconfig = await _credentials(client, namespace.meta.name, chosen)
    return new_binding_response(
        kubeconfig=kubeconfig,
        requests=[request_from_template(spec, name=request)],
        provider_namespace=namespace.meta.name,
    )


async def _template(client: Client, name: str) -> TemplateSpec:
    try:
        found = await client.get(APISERVICEEXPORTTEMPLATES, name)
    except NotFound:
        known = sorted(
            item.meta.name for item in (await client.list(APISERVICEEXPORTTEMPLATES)).items
        )
        raise InviteError(
            f"APIServiceExportTemplate {name} does not exist; "
            + (f"there are: {', '.join(known)}" if known else "there are none yet")
        ) from None
    try:
        return found.decode(APIServiceExportTemplate).spec
    except msgspec.ValidationError as error:
        raise InviteError(f"APIServiceExportTemplate {name} is not valid: {error}") from None


async def _credentials(client: Client, namespace: str, options: InviteOptions) -> bytes:
    """The kubeconfig of the consumer's ServiceAccount, also stored for the konnector to fetch."""
    account: JSON = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": BINDER_NAME, "namespace": namespace},
    }
    await _ensure(client, SERVICEACCOUNTS, account)
    await _ensure(client, CLUSTERROLES, binder_cluster_role(), "rules")
    await _ensure(client, ROLEBINDINGS, binder_role_binding(namespace), "subjects")
    token, ca = await _token(client, namespace, options.token_timeout)
    kubeconfig = consumer_kubeconfig(
        client.config, options, namespace=namespace, token=token, ca=ca
    )
    secret: JSON = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": KUBECONFIG_NAME, "namespace": namespace},
        "type": "Opaque",
        "data": {KUBECONFIG_NAME: base64.b64encode(kubeconfig).decode()},
    }
    await _ensure(client, SECRETS, secret, "data")
    return kubeconfig


async def _token(client: Client, namespace: str, seconds: float) -> tuple[str, bytes]:
    """Token and CA of the ServiceAccount, as the cluster fills them in."""
    body: JSON = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": BINDER_NAME,
            "namespace": namespace,
            "annotations": {"kubernetes.io/service-account.name": BINDER_NAME},
        },
        "type": TOKEN_TYPE,
    }
    await _ensure(client, SECRETS, body)
    try:
        secret = await wait_for(
            client, SECRETS, BINDER_NAME, namespace, until=_unfilled, timeout=seconds
        )
    except WaitTimeout as error:
        raise InviteError(
            f"{error}: does the cluster's token controller run, and is Secret "
            f"{namespace}/{BINDER_NAME} of type {TOKEN_TYPE}?"
        ) from None
    data = secret.decode(_Secret).data if secret is not None else {}
    return data["token"].decode(), data.get("ca.crt", b"")


def _unfilled(secret: Object | None) -> str:
    filled = secret is not None and secret.decode(_Secret).data.get("token")
    return "" if filled else "the token has not been filled in"


def _cluster_binding(namespace: Object, pretty_name: str, options: InviteOptions) -> JSON:
    kept = (ANNOTATION_IDENTITY, ANNOTATION_AUTHOR)
    annotations = {
        key: namespace.meta.annotations[key] for key in kept if key in namespace.meta.annotations
    }
    return {
        "apiVersion": API_VERSION,
        "kind": "ClusterBinding",
        "metadata": {
            "name": CLUSTER_BINDING_NAME,
            "namespace": namespace.meta.name,
            "annotations": annotations | {ANNOTATION_CLUSTER_PRETTY_NAME: pretty_name},
        },
        "spec": {
            "kubeconfigSecretRef": {"name": KUBECONFIG_NAME, "key": KUBECONFIG_NAME},
            "providerPrettyName": options.pretty_name,
        },
    }


async def _ensure(client: Client, resource: Resource, body: JSON, *fields: str) -> Object:
    """Create an object, or put the body's fields into the one that is there."""
    metadata = body["metadata"]
    try:
        stored = await client.get(resource, metadata["name"], metadata.get("namespace", ""))
    except NotFound:
        try:
            return await client.create(resource, body)
        except AlreadyExists:
            stored = await client.get(resource, metadata["name"], metadata.get("namespace", ""))
    live = stored.to_dict()
    for field in fields:
        both = isinstance(body[field], dict) and isinstance(live.get(field), dict)
        live[field] = live[field] | body[field] if both else body[field]
    return await commit(client, resource, stored, live)


class _Secret(msgspec.Struct):
    data: dict[str, bytes] = {}
