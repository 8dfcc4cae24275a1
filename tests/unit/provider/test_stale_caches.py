"""What a provider's controllers do not take away because a cache says so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.support.kubebind import NS, export, kube
from tests.support.stale import GONE, StaleServer

from fairlead.api.kubebind import APISERVICEEXPORTS, APISERVICENAMESPACES
from fairlead.api.meta import JSON, Object, object_from_dict
from fairlead.api.resource import CLUSTERROLEBINDINGS, NAMESPACES, ROLEBINDINGS, ROLES, Resource
from fairlead.api.status import StatusDetails
from fairlead.client import NotFound
from fairlead.client.errors import refusal
from fairlead.provider.identity import InviteError, ensure_cluster_namespace
from fairlead.provider.namespace.controller import NamespaceController
from fairlead.provider.options import ProviderOptions
from fairlead.provider.rbac.controller import RbacController
from fairlead.provider.watches import Watches
from fairlead.runtime import Cluster, Request


ROLE = "kube-binder-resources-widgets"
SHOP = Request("", NS, "shop")
WIDGETS = Request("", NS, "widgets")


def known(
    kind: str, name: str, namespace: str = "", metadata: JSON | None = None, **body: Any
) -> Object:
    identity: JSON = {"name": name, "namespace": namespace, "uid": f"uid-{name}"}
    metadata = {**identity, "resourceVersion": "5", **(metadata or {})}
    return object_from_dict({"apiVersion": "v1", "kind": kind, "metadata": metadata, **body})


def provider_namespace(owner: str = f"{NS}/shop") -> Object:
    annotations = {"kube-bind.io/api-service-namespace": owner}
    return known("Namespace", f"{NS}-shop", metadata={"annotations": annotations})


def role_binding(namespace: str = f"{NS}-shop") -> Object:
    subjects = [{"kind": "ServiceAccount", "name": "kube-binder", "namespace": NS}]
    return known("RoleBinding", ROLE, namespace, subjects=subjects)


@asynccontextmanager
async def watching(
    cached: Mapping[Resource, Sequence[Object]],
    live: Sequence[Object] = (),
    absent: StatusDetails | None = GONE,
) -> AsyncIterator[tuple[StaleServer, Cluster, Watches]]:
    server = StaleServer(cached, live, absent=absent)
    cluster = Cluster("provider", server.client)
    watches = Watches(cluster)
    running = asyncio.create_task(cluster.run())
    for informer in vars(watches).values():
        await informer.synced()
    yield server, cluster, watches
    running.cancel()
    await asyncio.wait([running])


SERVICE_NAMESPACE = kube("APIServiceNamespace", "shop")


@pytest.mark.parametrize(
    ("live", "absent", "deleted"),
    [
        pytest.param([], GONE, True, id="gone"),
        pytest.param([SERVICE_NAMESPACE], GONE, False, id="there"),
        pytest.param([], None, None, id="unknown"),
    ],
)
async def test_namespaces_go_when_the_server_says_so(
    live: list[Object], absent: StatusDetails | None, deleted: bool | None
) -> None:
    async with watching({NAMESPACES: [provider_namespace()]}, live, absent) as parts:
        server, cluster, watches = parts
        controller = NamespaceController(cluster, watches, ProviderOptions())
        if deleted is None:
            with pytest.raises(NotFound):
                await controller.reconcile(SHOP)
        else:
            await controller.reconcile(SHOP)
    preconditions = {"uid": f"uid-{NS}-shop", "resource_version": "5"}
    expected = [(f"{NS}-shop", preconditions)] if deleted else []
    assert server.written("delete", "namespaces") == expected


@pytest.mark.parametrize(
    ("live", "absent", "deleted"),
    [
        pytest.param([], GONE, True, id="gone"),
        pytest.param([export()], GONE, False, id="there"),
        pytest.param([], None, None, id="unknown"),
    ],
)
async def test_rights_go_when_the_server_says_so(
    live: list[Object], absent: StatusDetails | None, deleted: bool | None
) -> None:
    cached = {
        NAMESPACES: [provider_namespace()],
        ROLES: [known("Role", ROLE, f"{NS}-shop")],
        ROLEBINDINGS: [role_binding()],
    }
    async with watching(cached, live, absent) as (server, cluster, watches):
        controller = RbacController(cluster, watches)
        if deleted is None:
            with pytest.raises(NotFound):
                await controller.reconcile(WIDGETS)
        else:
            await controller.reconcile(WIDGETS)
    expected = [(ROLE, {"uid": f"uid-{ROLE}"})] if deleted else []
    assert server.written("delete", "rolebindings") == expected
    assert server.written("delete", "roles") == expected


@pytest.mark.parametrize("asked", [True, False], ids=["asked-for", "no-longer-asked-for"])
async def test_rights_are_given_in_namespaces_that_are_in_use(asked: bool) -> None:
    cached = {
        APISERVICEEXPORTS: [export()],
        APISERVICENAMESPACES: [SERVICE_NAMESPACE] if asked else [],
        NAMESPACES: [provider_namespace()],
        CLUSTERROLEBINDINGS: [],
    }
    async with watching(cached) as (server, cluster, watches):
        await RbacController(cluster, watches).reconcile(WIDGETS)
    given = {body["metadata"]["namespace"] for _, body in server.written("create", "roles")}
    assert given == ({f"{NS}-shop"} if asked else set())


class Taken(StaleServer):
    """Every name is taken, by an object that says nothing about itself."""

    async def create(self, *_: Any, **__: Any) -> Object:
        raise refusal("AlreadyExists", "there is one")

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        return known(resource.kind, name, namespace)


async def test_a_namespace_of_the_right_name_is_no_proof_of_identity() -> None:
    with pytest.raises(InviteError, match="was not made for identity team"):
        await ensure_cluster_namespace(
            Taken({}).client, identity="team", author="", prefix="kube-bind-"
        )
