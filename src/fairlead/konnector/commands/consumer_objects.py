"""Writes what a binding needs in the consumer's cluster: namespace, kubeconfig Secret, roles."""

from __future__ import annotations

import base64
from hashlib import sha256

from fairlead.api.kubebind import (
    CLUSTER_BINDING_NAME,
    CLUSTERBINDINGS,
    KUBECONFIG_NAME,
    ExportRequestResponse,
    bindable,
)
from fairlead.api.kubebind.claims import check_claims
from fairlead.api.meta import JSON, Key, Object
from fairlead.api.resource import CLUSTERROLES, NAMESPACES, SECRETS, Resource
from fairlead.client import (
    AlreadyExists,
    Client,
    ClusterConfig,
    ConfigError,
    Forbidden,
    NotFound,
    Unauthorized,
)
from fairlead.konnector.commands.request import BindError, Progress
from fairlead.konnector.rights import binding_roles
from fairlead.konnector.secrets import content, provider_config


MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "fairlead-bind"


async def ensure_namespace(client: Client, name: str, progress: Progress) -> None:
    """Create the konnector's namespace where it is missing."""
    body: JSON = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    await ensure(client, NAMESPACES, body, progress)


async def ensure(client: Client, resource: Resource, body: JSON, progress: Progress) -> None:
    """Create an object that is not there."""
    metadata = body["metadata"]
    name, namespace = metadata["name"], metadata.get("namespace", "")
    try:
        await client.get(resource, name, namespace)
    except NotFound:
        try:
            await client.create(resource, body, namespace)
        except AlreadyExists:
            return
        progress(f"created {resource.kind} {Key(namespace, name)}")


async def ensure_secret(
    client: Client,
    kubeconfig: bytes,
    config: ClusterConfig,
    namespace: str,
    progress: Progress,
) -> Key:
    """One Secret per server and cluster namespace; newer credentials in it are kept."""
    key = Key(namespace, _secret_name(config))
    labels = {MANAGED_BY: MANAGER}
    body: JSON = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": key.name, "namespace": namespace, "labels": labels},
        "type": "Opaque",
        "data": {KUBECONFIG_NAME: base64.b64encode(kubeconfig).decode()},
    }
    try:
        found = await client.get(SECRETS, key.name, namespace)
    except NotFound:
        await ensure(client, SECRETS, body, progress)
        return key
    stored = content(found, KUBECONFIG_NAME)
    if stored != kubeconfig and not await _works(stored):
        await client.update(SECRETS, {**found.to_dict(), "data": body["data"]})
        progress(f"replaced the kubeconfig in Secret {key}")
    return key


def written_by_bind(secret: Object) -> bool:
    """Whether ``fairlead bind`` has made a Secret, and not a person."""
    if secret.meta.labels.get(MANAGED_BY) == MANAGER:
        return True
    try:
        return secret.meta.name == _secret_name(provider_config(content(secret, KUBECONFIG_NAME)))
    except ConfigError:
        return False


def _secret_name(config: ClusterConfig) -> str:
    place = sha256(f"{config.server} {config.namespace}".encode()).hexdigest()[:10]
    return f"kubeconfig-{place}"


async def _works(kubeconfig: bytes) -> bool:
    """Whether the provider takes these credentials."""
    try:
        config = provider_config(kubeconfig)
        async with Client(config, user_agent="fairlead-bind") as provider:
            await provider.get(CLUSTERBINDINGS, CLUSTER_BINDING_NAME, config.namespace)
    except (ConfigError, Unauthorized, Forbidden, NotFound):
        return False
    return True


def check_rights(request: ExportRequestResponse, *, blame: str) -> None:
    """The konnector is given rights on what a provider names: on nothing of the cluster itself.

    Raises:
        BindError: it names more; the message ends with ``blame``.
    """
    for item in request.spec.resources:
        if not bindable(item.group):
            raise BindError(
                f"request {request.metadata.name} asks to bind {item.name}, a kind of Kubernetes "
                f"or kube-bind itself, which no provider can offer: {blame}"
            )
    if error := check_claims(request.spec.permission_claims):
        raise BindError(f"request {request.metadata.name}: {error.message}: {blame}")


async def ensure_roles(client: Client, request: ExportRequestResponse, progress: Progress) -> None:
    """The konnector's rights on what is bound, and the Service Binding operator's.

    Raises:
        ClientError: the server refused or cannot be reached.
    """
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
