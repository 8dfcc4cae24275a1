"""Checks before any write: a bind that must fail fails here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairlead.api.definitions import crd_spec
from fairlead.api.kubebind import (
    ANNOTATION_BOUND_BY,
    APISERVICEBINDINGS,
    CLUSTER_BINDING_NAME,
    CLUSTERBINDINGS,
    BindingResponse,
    ClusterSecretKeyRef,
    ExportRequestResponse,
    GroupResource,
    bindable,
    crd_name,
    protected,
)
from fairlead.api.kubebind.claims import check_claims
from fairlead.api.meta import Object
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS, NAMESPACES, Resource
from fairlead.client import (
    Client,
    ClientError,
    ClusterConfig,
    ConfigError,
    Forbidden,
    NotFound,
    Unauthorized,
)
from fairlead.client.lookups import find
from fairlead.konnector.commands.consumer_objects import provider_of
from fairlead.konnector.commands.names import secret_of
from fairlead.konnector.commands.request import BindError
from fairlead.konnector.secrets import provider_config


def check_response(response: BindingResponse) -> ClusterConfig:
    """Return the provider's config in a BindingResponse.

    Raises:
        BindError: the answer cannot be used; the message has the remedy.
    """
    try:
        config = provider_config(response.kubeconfig)
    except ConfigError as error:
        raise BindError(f"the response's kubeconfig cannot be used: {error}") from None
    check_requests(response)
    return config


BLAME = "do not trust this invitation"
"""Advice about an invitation to kinds of the cluster itself."""


def check_requests(response: BindingResponse) -> None:
    """Raise unless each request has a name, and its kinds can be offered by a provider.

    Raises:
        BindError: something is not.
    """
    for index, request in enumerate(response.requests):
        if not request.metadata.name:
            raise BindError(f"requests[{index}] has no metadata.name; the binding needs a name")
        check_rights(request, blame=BLAME)


def check_rights(request: ExportRequestResponse, *, blame: str) -> None:
    """Raise if a provider names kinds of the cluster itself, on which rights are never given.

    Raises:
        BindError: the request names more; the message ends with ``blame``.
    """
    check_kinds(_asking(request), request.spec.resources, blame=blame)
    if error := check_claims(request.spec.permission_claims):
        raise BindError(f"request {request.metadata.name}: {error.message}: {blame}")


def _asking(request: ExportRequestResponse) -> str:
    return f"request {request.metadata.name} asks to bind"


def check_kinds(what: str, items: Sequence[GroupResource], *, blame: str) -> None:
    """Raise if a kind is of the cluster itself.

    Args:
        what: subject and verb of the message, such as "request shop asks to bind".
        items: the kinds.
        blame: the end of the message.

    Raises:
        BindError: a kind is.
    """
    for item in items:
        if not bindable(item.group):
            raise BindError(
                f"{what} {item.name}, a kind of Kubernetes or of kube-bind itself, which no "
                f"provider can offer: {blame}"
            )


async def check_served(client: Client, request: ExportRequestResponse, *, blame: str) -> None:
    """Raise if the consumer's API server serves a kind by itself, without a CRD.

    Groups of k8s.io are looked at: a newer Kubernetes may have another group of its own. Rights on
    its kinds must not go to what syncs with a provider.

    Raises:
        BindError: the server serves a kind of the request; the message ends with ``blame``.
        ClientError: the server refused the look or cannot be reached.
    """
    await check_kinds_served(client, _asking(request), request.spec.resources, blame=blame)


async def check_kinds_served(
    client: Client, what: str, kinds: Sequence[GroupResource], *, blame: str
) -> None:
    """Raise if the consumer's API server serves a kind by itself; see :func:`check_served`.

    Args:
        client: a client of the consumer's cluster.
        what: subject and verb of the message, as for :func:`check_kinds`.
        kinds: the kinds.
        blame: the end of the message.

    Raises:
        BindError: the server serves one of them.
        ClientError: the server refused the look or cannot be reached.
    """
    items = [item for item in kinds if protected(item.group)]
    if items:
        # What a former look has found may be gone.
        client.discovery.invalidate()
    for item in items:
        crd = await find(client, CUSTOMRESOURCEDEFINITIONS, crd_name(item.resource, item.group))
        versions = crd_spec(crd).served if crd is not None else []
        served = await client.discovery.versions_of(item.group, item.resource)
        if own := [version for version in served if version not in versions]:
            raise BindError(
                f"{what} {item.name}, which this cluster's API server serves by itself in "
                f"{', '.join(own)}, without a CustomResourceDefinition, so that no provider can "
                f"offer it: {blame}"
            )


async def check_apart(consumer: Client, provider: Client, server: str = "") -> None:
    """Raise if consumer and provider are one cluster, where objects and copies would be the same.

    Two kubeconfigs reach one cluster when an object that both can read has one uid. A consumer
    may read the ClusterBinding of its own cluster namespace; without that the uid of namespace
    kube-system is compared, and where neither can be read nothing is said. ``server`` is how the
    invitation calls the provider, where that is not how it is reached.

    Raises:
        BindError: both are one cluster, or the provider does not accept the credentials.
        ClientError: a server cannot be reached.
    """
    namespace = provider.config.namespace
    server = server or provider.config.server
    probes: tuple[tuple[Resource, str, str], ...] = (
        (CLUSTERBINDINGS, CLUSTER_BINDING_NAME, namespace),
        (NAMESPACES, "kube-system", ""),
    )
    for resource, name, where in probes:
        try:
            theirs = await _uid(provider, resource, name, where)
        except Unauthorized as error:
            raise BindError(
                f"the provider {server} does not accept the credentials of the "
                f"invitation: ask for a new one{error.clock_hint}"
            ) from None
        if not theirs:
            continue
        if theirs == await _uid(consumer, resource, name, where):
            raise BindError(
                f"this cluster is the provider's own: {server} and {consumer.config.server} "
                "are the same cluster. Bind in the consumer's cluster, with its --kubeconfig "
                "or --context"
            )
        # One differing uid is proof enough.
        return


async def _uid(client: Client, resource: Resource, name: str, namespace: str) -> str:
    try:
        return (await client.get(resource, name, namespace)).meta.uid
    except (NotFound, Forbidden):
        return ""


async def check_crds(
    client: Client,
    request: ExportRequestResponse,
    bindings: Mapping[str, Object],
    secret: ClusterSecretKeyRef,
    provider: ClusterConfig,
) -> None:
    """Raise if a CRD in the cluster that is not the binding's has a name to be bound.

    Args:
        client: a client of the consumer's cluster.
        request: the wanted export.
        bindings: the consumer's, by name.
        secret: the consumer's Secret with the provider's kubeconfig.
        provider: the config in it.

    Raises:
        BindError: such a CRD exists; the message has the remedy.
        ClientError: the server refused the look or cannot be reached.
    """
    for item in request.spec.resources:
        name = crd_name(item.resource, item.group)
        crd = await find(client, CUSTOMRESOURCEDEFINITIONS, name)
        # One that is being deleted makes way by itself, and the konnector waits for that.
        if crd is None or crd.meta.deleting:
            continue
        owner = crd.meta.controller()
        said = crd.meta.annotations.get(ANNOTATION_BOUND_BY)
        if owner is None and said == request.metadata.name:
            # A backup brought it back without its owner.
            continue
        if owner is None or owner.kind != APISERVICEBINDINGS.kind:
            raise BindError(
                f"CustomResourceDefinition {name} exists in this cluster and belongs to no "
                "binding: delete it if its objects are not needed, since Kubernetes deletes "
                "them with it"
            )
        other = bindings.get(owner.name)
        # If the owner is gone, the garbage collector is about to delete the CRD.
        if other is not None and other.meta.uid == owner.uid and secret_of(other) != secret:
            where = await whence(client, other, provider)
            raise BindError(
                f"CustomResourceDefinition {name} belongs to APIServiceBinding {owner.name}, "
                f"which binds it from {where}: {await _instead(client, other, provider)}"
            )


async def _instead(client: Client, binding: Object, provider: ClusterConfig) -> str:
    """Return the remedy for a binding that binds the same kind from another Secret."""
    remedy = f"`fairlead unbind {binding.meta.name}` first"
    ref = secret_of(binding)
    try:
        other = await provider_of(client, ref)
    except ClientError:
        return remedy
    if other.namespace != provider.namespace:
        return remedy
    # A cluster namespace has its name from the consumer's identity: it is one consumer.
    return (
        f"{remedy}, which deletes its objects here. If that provider is gone and this "
        "invitation is from its restored cluster, put the kubeconfig of this invitation into "
        f"Secret {ref.namespace}/{ref.name}, key {ref.key}, instead: then nothing is deleted"
    )


async def whence(client: Client, binding: Object, provider: ClusterConfig) -> str:
    """Return the provider of a binding with another Secret, as text for a message."""
    ref = secret_of(binding)
    try:
        other = await provider_of(client, ref)
    except ClientError as error:
        return f"an unknown provider ({error})"
    invited = f"with another invitation, to cluster namespace {other.namespace}"
    if other.server == provider.server:
        return f"this same provider, {invited}"
    authority = other.certificate_authority
    is_same = authority and authority == provider.certificate_authority
    if is_same and other.namespace == provider.namespace:
        return f"this same provider, which it reaches at {other.server}"
    return f"another provider, {other.server}"
