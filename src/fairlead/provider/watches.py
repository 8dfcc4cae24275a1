"""Informers that the provider's controllers share, with their indexes and mappers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from operator import attrgetter

import msgspec

from fairlead.api.decoding import field_message
from fairlead.api.kubebind import (
    APISERVICEEXPORTREQUESTS,
    APISERVICEEXPORTS,
    APISERVICEEXPORTTEMPLATES,
    APISERVICENAMESPACES,
    BOUNDSCHEMAS,
    CLUSTERBINDINGS,
    LABEL_EXPORTED,
    ExportResource,
    NamespaceName,
    crd_name,
)
from fairlead.api.kubebind.types import MOST_NAMESPACES
from fairlead.api.meta import Object
from fairlead.api.resource import (
    CLUSTERROLEBINDINGS,
    CLUSTERROLES,
    CUSTOMRESOURCEDEFINITIONS,
    NAMESPACES,
    ROLEBINDINGS,
    ROLES,
)
from fairlead.provider.namespaces import owner_of
from fairlead.provider.offer import record_of
from fairlead.provider.rights import MANAGED_SELECTOR, export_of
from fairlead.runtime import (
    Cluster,
    Controller,
    Delta,
    Informer,
    Reconciler,
    Request,
    Result,
    TerminalError,
)


BY_SCHEMA = "schema"
BY_CRD = "crd"
BY_NAMESPACE = "namespace"
BY_CONSUMER = "consumer"
BY_OWNER = "owner"
BY_EXPORT = "export"
BY_TEMPLATE = "template"


class ProviderWatches:
    """The informers that the controllers share; each runs once for all of them."""

    def __init__(self, cluster: Cluster) -> None:
        self.requests = cluster.informer(APISERVICEEXPORTREQUESTS)
        self.exports = cluster.informer(APISERVICEEXPORTS)
        self.schemas = cluster.informer(BOUNDSCHEMAS)
        self.service_namespaces = cluster.informer(APISERVICENAMESPACES)
        self.cluster_bindings = cluster.informer(CLUSTERBINDINGS)
        self.templates = cluster.informer(APISERVICEEXPORTTEMPLATES)
        self.namespaces = cluster.informer(NAMESPACES)
        self.crds = cluster.informer(CUSTOMRESOURCEDEFINITIONS, labels=f"{LABEL_EXPORTED}=true")
        self.roles = cluster.informer(ROLES, labels=MANAGED_SELECTOR)
        self.role_bindings = cluster.informer(ROLEBINDINGS, labels=MANAGED_SELECTOR)
        self.cluster_roles = cluster.informer(CLUSTERROLES, labels=MANAGED_SELECTOR)
        self.cluster_role_bindings = cluster.informer(CLUSTERROLEBINDINGS, labels=MANAGED_SELECTOR)
        self._add_indexes()

    def _add_indexes(self) -> None:
        for informer in (self.requests, self.exports):
            informer.add_index(BY_SCHEMA, schema_keys)
            informer.add_index(BY_CRD, crd_names)
        self.requests.add_index(BY_NAMESPACE, namespace_keys)
        self.cluster_bindings.add_index(BY_TEMPLATE, template_names)
        self.namespaces.add_index(BY_CONSUMER, consumer_of)
        self.namespaces.add_index(BY_OWNER, owner_key)
        for informer in (self.role_bindings, self.cluster_role_bindings):
            informer.add_index(BY_EXPORT, export_key)

    def crds_by_name(self) -> dict[str, Object]:
        """Return the CRDs that are labelled for export."""
        return {crd.meta.name: crd for crd in self.crds.list()}


def schema_names(obj: Object) -> list[str]:
    """Return the names of the BoundSchemas that a request or an export needs."""
    return list(dict.fromkeys(resource.name for resource in _resources(obj)))


def schema_keys(obj: Object) -> list[str]:
    """Return namespace and name of every BoundSchema that a request or an export needs."""
    return [f"{obj.meta.namespace}/{name}" for name in schema_names(obj)]


def crd_names(obj: Object) -> list[str]:
    """Return the names of the CRDs that a request or an export needs."""
    names = (crd_name(resource.resource, resource.group) for resource in _resources(obj))
    return list(dict.fromkeys(names))


def namespace_keys(request: Object) -> list[str]:
    """Return namespace and name of every APIServiceNamespace that a request asks for."""
    names = [item.name for item in _spec(request).namespaces]
    if len(names) > MOST_NAMESPACES:
        # The request is refused, and has no namespace made.
        return []
    return [f"{request.meta.namespace}/{name}" for name in names]


def consumer_of(namespace: Object) -> list[str]:
    """Return the cluster namespace of the consumer that a provider namespace belongs to."""
    owner = owner_of(namespace)
    return [owner.namespace] if owner is not None else []


def owner_key(namespace: Object) -> list[str]:
    """Return the APIServiceNamespace of a provider namespace, as ``namespace/name``."""
    owner = owner_of(namespace)
    return [str(owner)] if owner is not None else []


def export_key(binding: Object) -> list[str]:
    """Return the export that a binding of rights was made for, as ``namespace/name``."""
    key = export_of(binding)
    return [str(key)] if key is not None else []


def template_names(binding: Object) -> list[str]:
    """Return the templates that the consumer of a ClusterBinding was invited to."""
    try:
        return list(record_of(binding).templates or ())
    except msgspec.ValidationError:
        return []


def states(delta: Delta) -> Iterator[Object]:
    """Yield the object before and after the change."""
    return (state for state in (delta.old, delta.new) if state is not None)


def requests_for(cluster: str, objects: Iterable[Object]) -> Iterator[Request]:
    """Yield a request for each object."""
    return (Request(cluster, obj.meta.namespace, obj.meta.name) for obj in objects)


def by_schema(cluster: str, dependents: Informer) -> Callable[[Delta], Iterable[Request]]:
    """Return a mapper from BoundSchemas to the objects that need them, in the same namespace."""
    return lambda delta: requests_for(
        cluster, dependents.by_index(BY_SCHEMA, str(delta.object.key))
    )


def by_crd(cluster: str, dependents: Informer) -> Callable[[Delta], Iterable[Request]]:
    """Return a mapper from CRDs to the objects that need them, in all namespaces."""
    return lambda delta: requests_for(cluster, dependents.by_index(BY_CRD, delta.object.meta.name))


def in_turns(name: str, reconcile: Callable[[Request], Awaitable[Result | None]]) -> Controller:
    """Return a controller of consumers' objects in which their namespaces take turns.

    A consumer may create any number of objects, and must not delay those of other consumers.
    """
    return Controller(name, terminal_when_invalid(reconcile), group=attrgetter("namespace"))


def terminal_when_invalid(
    reconcile: Callable[[Request], Awaitable[Result | None]],
) -> Reconciler:
    """Return the reconciler, without retries for objects that cannot be decoded."""

    async def guarded(request: Request) -> Result | None:
        try:
            return await reconcile(request)
        except msgspec.ValidationError as error:
            raise TerminalError(f"{request}: not valid: {field_message(error)}") from None

    return guarded


class _Spec(msgspec.Struct):
    resources: list[ExportResource] = []
    namespaces: list[NamespaceName] = []


class _WithSpec(msgspec.Struct):
    spec: _Spec = msgspec.field(default_factory=_Spec)


def _resources(obj: Object) -> list[ExportResource]:
    return _spec(obj).resources


def _spec(obj: Object) -> _Spec:
    try:
        return obj.decode(_WithSpec).spec
    except msgspec.ValidationError:
        # An index may not stop the watch: the object's reconciler reports what is wrong with it.
        return _Spec()
