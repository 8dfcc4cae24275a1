"""A provider's cluster as consumers have filled it, written by hand, for pages to show."""

from __future__ import annotations

from typing import Any

from fairlead.api.kubebind import (
    ANNOTATION_AUTHOR,
    ANNOTATION_CLUSTER_PRETTY_NAME,
    ANNOTATION_IDENTITY,
    ANNOTATION_SERVICE_NAMESPACE,
    API_VERSION,
    APISERVICEEXPORTS,
    CLUSTERBINDINGS,
)
from fairlead.api.meta import JSON, Object
from fairlead.api.resource import (
    CLUSTERROLEBINDINGS,
    CLUSTERROLES,
    CUSTOMRESOURCEDEFINITIONS,
    EVENTS,
    NAMESPACES,
    ROLEBINDINGS,
    Resource,
)
from fairlead.api.timestamps import now
from fairlead.client import AlreadyExists, Client
from fairlead.demo.identity import create_all
from fairlead.portal.identity.sessions import Person
from fairlead.provider.credentials import binder_cluster_role, binder_role_binding
from fairlead.provider.manifests import shown_roles


GADGETS = Resource("example.org", "v1", "gadgets", "Gadget")
RBAC = "rbac.authorization.k8s.io"
READER = "gadgets-reader"


def crd(plural: str = "gadgets", kind: str = "Gadget", scope: str = "Namespaced") -> JSON:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.example.org",
            "labels": {"kube-bind.io/exported": "true"},
        },
        "spec": {
            "group": "example.org",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind},
            "scope": scope,
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


def condition(type_: str, status: str, reason: str = "", message: str = "") -> JSON:
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": now(),
    }


def gadget(namespace: str, name: str, *conditions: JSON, **spec: Any) -> JSON:
    return {
        "apiVersion": "example.org/v1",
        "kind": "Gadget",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec or {"colour": "red"},
        "status": {"conditions": list(conditions)},
    }


class Filled:
    """Writes what the provider's controllers and konnectors would have written."""

    def __init__(self, admin: Client) -> None:
        self.admin = admin

    async def kinds(self, *crds: JSON, rights: bool = True) -> None:
        """Offer kinds; ``rights`` says whether the server may read them."""
        for one in crds or (crd(),):
            await self.admin.create(CUSTOMRESOURCEDEFINITIONS, one)
            if rights:
                await self.rights(one["metadata"]["name"])

    async def rights(self, *names: str) -> None:
        await create_all(self.admin, shown_roles(names))

    async def consumer(self, name: str, person: Person, title: str = "") -> None:
        """A cluster of a person, with its login's rights."""
        await self.admin.create(
            NAMESPACES,
            {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {
                    "name": name,
                    "annotations": {
                        ANNOTATION_IDENTITY: f"identity-{name}",
                        ANNOTATION_AUTHOR: person.author,
                    },
                },
            },
        )
        for resource, body in (
            (CLUSTERROLES, binder_cluster_role()),
            (ROLEBINDINGS, binder_role_binding(name)),
            (CLUSTERROLES, _role(READER, [("example.org", "gadgets"), ("example.org", "plants")])),
        ):
            try:
                await self.admin.create(resource, body)
            except AlreadyExists:
                continue
        await self.admin.create(
            CLUSTERBINDINGS,
            {
                "apiVersion": API_VERSION,
                "kind": "ClusterBinding",
                "metadata": {
                    "name": "cluster",
                    "namespace": name,
                    "annotations": {ANNOTATION_CLUSTER_PRETTY_NAME: title or name},
                },
                "spec": {
                    "kubeconfigSecretRef": {"name": "kubeconfig", "key": "kubeconfig"},
                    "providerPrettyName": "provider",
                },
            },
        )
        await self.admin.merge_patch(
            CLUSTERBINDINGS,
            "cluster",
            name,
            patch={
                "status": {
                    "lastHeartbeatTime": now(),
                    "heartbeatInterval": "5m0s",
                    "konnectorVersion": "v1.2.3",
                    "conditions": [condition("Ready", "True")],
                }
            },
            subresource="status",
        )

    async def namespace(self, consumer: str, theirs: str) -> str:
        """A consumer's namespace on the provider, where its login may read."""
        name = f"{consumer}-{theirs}"
        await self.admin.create(
            NAMESPACES,
            {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {
                    "name": name,
                    "annotations": {ANNOTATION_SERVICE_NAMESPACE: f"{consumer}/{theirs}"},
                },
            },
        )
        body = binder_role_binding(consumer)
        body["metadata"] = {"name": READER, "namespace": name}
        body["roleRef"]["name"] = READER
        await self.admin.create(ROLEBINDINGS, body)
        return name

    async def export(
        self, consumer: str, name: str = "tools", *conditions: JSON, kinds: tuple[str, ...] = ()
    ) -> None:
        """What a consumer has bound."""
        await self.admin.create(
            APISERVICEEXPORTS,
            {
                "apiVersion": API_VERSION,
                "kind": "APIServiceExport",
                "metadata": {"name": name, "namespace": consumer},
                "spec": {
                    "resources": [
                        {"group": "example.org", "resource": one, "versions": ["v1"]}
                        for one in kinds or ("gadgets",)
                    ],
                    "informerScope": "Namespaced",
                    "isolation": "Prefixed",
                    "permissionClaims": [
                        {
                            "group": "",
                            "resource": "secrets",
                            "selector": {
                                "references": [
                                    {
                                        "group": "example.org",
                                        "resource": "gadgets",
                                        "jsonPath": {"name": "spec.secret"},
                                    }
                                ]
                            },
                        }
                    ],
                },
            },
        )
        await self.turn(consumer, name, *(conditions or (condition("Ready", "True"),)))

    async def turn(self, consumer: str, name: str, *conditions: JSON) -> None:
        await self.admin.merge_patch(
            APISERVICEEXPORTS,
            name,
            consumer,
            patch={"status": {"conditions": list(conditions)}},
            subresource="status",
        )

    async def put(self, *bodies: JSON, resource: Resource = GADGETS) -> list[Object]:
        return [await self.admin.create(resource, one) for one in bodies]

    async def event(self, about: Object, message: str) -> None:
        await self.admin.create(
            EVENTS,
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": f"e{about.meta.uid}", "namespace": about.meta.namespace},
                "involvedObject": {
                    "apiVersion": about.api_version,
                    "kind": about.kind,
                    "namespace": about.meta.namespace,
                    "name": about.meta.name,
                    "uid": about.meta.uid,
                },
                "type": "Warning",
                "reason": "Refused",
                "message": message,
                "lastTimestamp": now(),
            },
        )

    async def lets(self, user: str, *what: tuple[str, str], name: str = "lets") -> None:
        """Let a person list these, by group and plural, everywhere."""
        await self.admin.create(CLUSTERROLES, _role(name, what))
        await self.admin.create(
            CLUSTERROLEBINDINGS,
            {
                "apiVersion": f"{RBAC}/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": name},
                "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
                "subjects": [{"kind": "User", "apiGroup": RBAC, "name": user}],
            },
        )

    async def lets_account(self, consumer: str, role: str) -> None:
        """Give a consumer's login a role everywhere."""
        body = binder_role_binding(consumer)
        await self.admin.create(
            CLUSTERROLEBINDINGS,
            {
                "apiVersion": f"{RBAC}/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": f"{role}-{consumer}"},
                "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
                "subjects": body["subjects"],
            },
        )

    async def forbid(self, namespace: str) -> None:
        """Take the right on objects of a namespace from its consumer."""
        await self.admin.delete(ROLEBINDINGS, READER, namespace)


def _role(name: str, what: Any) -> JSON:
    rules = [
        {"apiGroups": [group], "resources": [plural], "verbs": ["get", "list", "watch"]}
        for group, plural in what
    ]
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": rules,
    }
