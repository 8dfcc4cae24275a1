"""Bindings of kbind v2: what a consumer's team and a provider's team write, and their objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.support.kbindworld import RULES, KbindProvider, KbindWorld, has
from tests.support.waiting import when

from fairlead.api.kbind import BINDINGS, CLUSTERBINDINGS
from fairlead.api.kbind.names import LEASE_NAMESPACE
from fairlead.api.kubebind import GroupResource
from fairlead.api.manifests import rule
from fairlead.api.meta import JSON, Key
from fairlead.api.resource import NAMESPACES, Resource
from fairlead.client import Client
from fairlead.demo.identity import create_all
from fairlead.konnector.rights import binding_roles


ALL = Key("", "all")
"""The ClusterBinding of most tests."""
OBJECT_VERBS = ("get", "list", "watch", "create", "patch", "delete")
"""Verbs that a credential needs at the provider on what is bound; none of them on statuses."""


def binding(name: str, connection: str, *apis: str, namespace: str = "", **spec: Any) -> JSON:
    """A ClusterBinding, or a Binding in a namespace."""
    kind = BINDINGS if namespace else CLUSTERBINDINGS
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name, **({"namespace": namespace} if namespace else {})},
        "spec": {
            "connectionRef": {"name": connection},
            "apis": [{"name": api} for api in apis],
            **spec,
        },
    }


def widgets(provider: KbindProvider, plural: str = "widgets") -> Resource:
    """The resource of a provider's CRD."""
    return Resource(provider.group, "v1", plural, plural.removesuffix("s").title())


def widget(resource: Resource, name: str, namespace: str, **more: Any) -> JSON:
    """An object of a provider's CRD."""
    metadata: JSON = {"name": name, **more.pop("metadata", {})}
    if namespace:
        metadata["namespace"] = namespace
    body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
    return {**body, "spec": more.pop("spec", {"size": 1}), **more}


async def grant_in(admin: Client, namespace: str, account: str, rules: Sequence[JSON]) -> None:
    """Give an account of a provider a Role in one namespace."""
    meta = {"name": account, "namespace": namespace}
    group = "rbac.authorization.k8s.io"
    subject = {"kind": "ServiceAccount", "name": account, "namespace": LEASE_NAMESPACE}
    ref = {"apiGroup": group, "kind": "Role", "name": account}
    role = {"apiVersion": f"{group}/v1", "metadata": meta}
    given = {**role, "kind": "RoleBinding", "roleRef": ref, "subjects": [subject]}
    await create_all(admin, [{**role, "kind": "Role", "rules": list(rules)}, given])


async def namespace(admin: Client, name: str, **labels: str) -> None:
    """Create a namespace."""
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
    await admin.create(NAMESPACES, body)


class BoundWorld:
    """A world whose konnector has the rights on its provider's kinds, on both sides."""

    def __init__(self, world: KbindWorld) -> None:
        self.world = world
        self.consumer = world.consumer
        self.provider = world.provider
        self.connection = world.name

    async def accept(self, *plurals: str, provider: KbindProvider | None = None) -> None:
        """Give the konnector the rights on kinds in the consumer's cluster."""
        group = (provider or self.provider).group
        for plural in plurals:
            role = binding_roles(
                f"{plural}-{group}", [GroupResource(group=group, resource=plural)], []
            )
            await create_all(self.consumer, role)

    async def kubeconfig(
        self, *plurals: str, provider: KbindProvider | None = None, **more: Any
    ) -> bytes:
        """The kubeconfig of an account with the rights on kinds in the provider's cluster."""
        there = provider or self.provider
        rules = (
            *RULES,
            rule(there.group, list(plurals), OBJECT_VERBS),
            rule("", ["namespaces"], ("create",)),
        )
        return await there.kubeconfig(rules=rules, **more)

    async def bind(self, name: str = "all", *apis: str, **more: Any) -> None:
        """Create a binding, by the first Connection unless another is named."""
        body = binding(name, more.pop("connection", self.connection), *apis, **more)
        resource = BINDINGS if "namespace" in more else CLUSTERBINDINGS
        await self.consumer.create(resource, body)

    async def says(
        self, type_: str, status: str, reason: str = "", text: str = "", key: Key = ALL
    ) -> JSON:
        """The binding, once a condition is so."""
        resource = BINDINGS if key.namespace else CLUSTERBINDINGS
        until = has(type_, status, reason, text)
        return await when(self.consumer, resource, key.name, key.namespace, until=until)
