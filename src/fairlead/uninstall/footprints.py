"""Objects of each program, read from the manifests that install it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Literal

import msgspec

from fairlead.api import kubebind, postgresaccess
from fairlead.api.meta import JSON, Key, Object
from fairlead.api.resource import (
    CLUSTERROLEBINDINGS,
    CLUSTERROLES,
    DEPLOYMENTS,
    LEASES,
    NAMESPACES,
    ROLEBINDINGS,
    ROLES,
    SERVICEACCOUNTS,
    SERVICES,
    WEBHOOKCONFIGURATIONS,
    Resource,
)
from fairlead.api.servicebinding import spec as servicebinding
from fairlead.api.servicebinding.coreos import BINDABLEKINDS
from fairlead.binding import manifests as binding
from fairlead.binding.options import DEFAULT_NAMESPACE as BINDING_NAMESPACE
from fairlead.konnector import manifests as konnector
from fairlead.konnector.options import DEFAULT_NAMESPACE as KONNECTOR_NAMESPACE
from fairlead.konnector.options import PROTOCOLS
from fairlead.portal import manifests as serve
from fairlead.portal.options import DEFAULT_NAMESPACE as SERVE_NAMESPACE
from fairlead.portal.options import NAME as SERVE
from fairlead.postgres import manifests as postgres
from fairlead.postgres.options import DEFAULT_NAMESPACE as POSTGRES_NAMESPACE
from fairlead.provider import manifests as provider
from fairlead.provider.options import DEFAULT_NAMESPACE as PROVIDER_NAMESPACE


Program = Literal["binding", "konnector", "postgres", "provider", "serve"]

_PART_OF, _NAME = "app.kubernetes.io/part-of", "app.kubernetes.io/name"
_US = "fairlead"
_IMAGE = "none"
"""Image in the manifests, which are read for names alone and never written."""

WEBHOOKS = WEBHOOKCONFIGURATIONS
WORKLOADS = (SERVICES, DEPLOYMENTS)
# The Lease is deleted after the Pods have stopped, since it shows whether a process elsewhere
# works.
RIGHTS = (CLUSTERROLEBINDINGS, ROLEBINDINGS, CLUSTERROLES, ROLES, LEASES)
ACCOUNTS = (SERVICEACCOUNTS,)
ORDER: Sequence[Sequence[Resource]] = (WEBHOOKS, WORKLOADS, RIGHTS, ACCOUNTS, (NAMESPACES,))
"""Kinds in the order of deletion: webhooks first, namespaces last.

A webhook configuration without its server would delay or refuse every write.
"""
KINDS = {resource.kind: resource for stage in ORDER for resource in stage}
LABELLED = (*WEBHOOKS, CLUSTERROLEBINDINGS, CLUSTERROLES)
"""Kinds that are searched by label, since manifests with other flags have other names."""


class Footprint(msgspec.Struct, frozen=True, kw_only=True):
    """A program in a namespace: its objects by name, its label, its Lease and its CRDs.

    ``own`` are kinds whose objects the program itself creates: they are no reason to keep a CRD.
    """

    program: Program
    name: str
    namespace: str
    default: bool
    documents: Sequence[JSON]
    lease: str
    crds: Sequence[str]
    own: Collection[str] = ()

    @property
    def selector(self) -> str:
        """Label selector of the program's objects."""
        return f"{_NAME}={self.name},{_PART_OF}={_US}"

    def places(self) -> list[tuple[Resource, Key, bool]]:
        """Return each object of the manifests, with whether its name alone identifies it."""
        places: list[tuple[Resource, Key, bool]] = []
        for body in self.documents:
            meta = body["metadata"]
            key = Key(meta.get("namespace", ""), meta["name"])
            # ClusterRole kube-binder has no labels; its name is kube-bind's own for this role.
            places.append((KINDS[body["kind"]], key, not meta.get("labels")))
        # No manifest has the Lease: the program creates it when it first runs, without labels.
        if self.lease:
            places.append((LEASES, Key(self.namespace, self.lease), True))
        return places


def is_ours(obj: Object) -> bool:
    """Whether an object's labels say that it is a part of Fairlead; names are no proof."""
    return obj.meta.labels.get(_PART_OF) == _US


def footprint(program: Program, namespace: str = "") -> Footprint:
    """Return the footprint of a program; "" is for the namespace that it has by default."""
    default = _NAMESPACES[program]
    where = namespace or default
    documents, name, lease = _DOCUMENTS[program](where)
    return Footprint(
        program=program,
        name=name,
        namespace=where,
        default=where == default,
        documents=documents,
        lease=lease,
        crds=[crd["metadata"]["name"] for crd in _CRDS[program]()],
        own=(BINDABLEKINDS.group_resource,) if program == "binding" else (),
    )


# Each of these functions asks for all optional parts, so that an installation with any flags is
# found. No name of an object depends on a value, such as jobs.batch or a URL.
def _binding(namespace: str) -> tuple[list[JSON], str, str]:
    objects = binding.manifests(
        namespace=namespace, image=_IMAGE, webhooks=True, projected=("jobs.batch",)
    )
    return objects, binding.NAME, binding.NAME


def _konnector(namespace: str) -> tuple[list[JSON], str, str]:
    objects = konnector.manifests(
        namespace=namespace, image=_IMAGE, protocols=PROTOCOLS, bound_groups=("*",)
    )
    return objects, konnector.NAME, konnector.LEASE


def _postgres(namespace: str) -> tuple[list[JSON], str, str]:
    objects = postgres.manifests(namespace=namespace, image=_IMAGE, exported=True)
    return objects, postgres.NAME, postgres.NAME


def _provider(namespace: str) -> tuple[list[JSON], str, str]:
    objects = provider.manifests(namespace=namespace, image=_IMAGE, invitations=True)
    return objects, provider.NAME, provider.NAME


def _serve(namespace: str) -> tuple[list[JSON], str, str]:
    objects = serve.manifests(
        namespace=namespace,
        image=_IMAGE,
        external_url="https://serve.invalid",
        issuer_url="https://issuer.invalid",
        client_id=_IMAGE,
    )
    return objects, SERVE, ""


_DOCUMENTS: dict[Program, Callable[[str], tuple[list[JSON], str, str]]] = {
    "binding": _binding,
    "konnector": _konnector,
    "postgres": _postgres,
    "provider": _provider,
    "serve": _serve,
}
_NAMESPACES: dict[Program, str] = {
    "binding": BINDING_NAMESPACE,
    "konnector": KONNECTOR_NAMESPACE,
    "postgres": POSTGRES_NAMESPACE,
    "provider": PROVIDER_NAMESPACE,
    "serve": SERVE_NAMESPACE,
}
_CRDS: dict[Program, Callable[[], list[JSON]]] = {
    "binding": servicebinding.crds,
    "konnector": kubebind.consumer_crds,
    "postgres": postgresaccess.crds,
    "provider": kubebind.provider_crds,
    "serve": list,
}
