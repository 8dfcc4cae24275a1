"""What one consumer makes costs no other more than a turn."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.support.kubebind import NS, conditions, export, kube, resource
from tests.support.stale import StaleServer

from fairlead.api.kubebind import (
    APISERVICEEXPORTREQUESTS,
    APISERVICEEXPORTS,
    APISERVICENAMESPACES,
)
from fairlead.api.meta import JSON, Object, object_from_dict
from fairlead.api.resource import (
    NAMESPACES,
    ROLEBINDINGS,
    ROLES,
    Resource,
)
from fairlead.client import Forbidden
from fairlead.client.errors import refusal
from fairlead.client.wire import WatchEvent
from fairlead.provider import bounds
from fairlead.provider.app import controllers
from fairlead.provider.controllers.rbac.controller import RbacController
from fairlead.provider.options import ProviderOptions
from fairlead.provider.watches import ProviderWatches
from fairlead.runtime import Cluster, Controller, Request


NEIGHBOUR = "kube-bind-neighbour"


async def test_consumers_take_turns_in_every_controller() -> None:
    for controller in controllers(Cluster("provider", StaleServer({}).client)):
        for number in range(100):
            controller.enqueue(Request("", NS, f"n{number}"))
        controller.enqueue(Request("", NEIGHBOUR, "shop"))
        first = [await controller.queue.get() for _ in range(2)]
        assert Request("", NEIGHBOUR, "shop") in first, controller.name


class WatchedServer(StaleServer):
    """Tells its watches what tests have happen."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.events: dict[Resource, asyncio.Queue[WatchEvent]] = defaultdict(asyncio.Queue)

    async def watch(self, resource: Resource, *_: Any, **__: Any) -> AsyncIterator[WatchEvent]:
        while True:
            yield await self.events[resource].get()

    async def tell(self, resource: Resource, obj: Object, event: Any = "MODIFIED") -> None:
        self.events[resource].put_nowait(WatchEvent(event, obj))
        # The watch takes it within some turns of the loop, if it takes it at all.
        for _ in range(50):
            await asyncio.sleep(0)


class Refusing(WatchedServer):
    """Lets nobody make a role."""

    async def create(
        self, resource: Resource, body: JSON, namespace: str = "", **_: Any
    ) -> Object:
        await super().create(resource, body, namespace)
        raise refusal("Forbidden", f"{resource.plural} are not for you")


class Ahead(WatchedServer):
    """Has everything already, which the caches do not show."""

    async def create(
        self, resource: Resource, body: JSON, namespace: str = "", **_: Any
    ) -> Object:
        await super().create(resource, body, namespace)
        raise refusal("AlreadyExists", "there is one")

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        creates = (
            body
            for verb, kind, _, body in self.writes
            if (verb, kind) == ("create", resource.plural)
        )
        return next(
            object_from_dict(body)
            for body in creates
            if (body["metadata"]["name"], body["metadata"].get("namespace", ""))
            == (name, namespace)
        )


@asynccontextmanager
async def watching(
    cached: Mapping[Resource, Sequence[Object]], server: type[WatchedServer] = WatchedServer
) -> AsyncIterator[tuple[WatchedServer, Cluster, ProviderWatches]]:
    stale = server(cached)
    cluster = Cluster("provider", stale.client)
    watches = ProviderWatches(cluster)
    running = asyncio.create_task(cluster.run())
    for informer in vars(watches).values():
        await informer.synced()
    yield stale, cluster, watches
    running.cancel()
    await asyncio.wait([running])


def provider_namespace(name: str, **annotations: str) -> Object:
    metadata = {
        "name": f"{NS}-{name}",
        "uid": f"uid-{name}",
        "resourceVersion": "5",
        "annotations": {"kube-bind.io/api-service-namespace": f"{NS}/{name}"} | annotations,
    }
    return object_from_dict({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})


def in_use(count: int) -> dict[Resource, list[Object]]:
    """One export, in so many namespaces."""
    names = [f"n{number}" for number in range(count)]
    return {
        APISERVICEEXPORTS: [export()],
        APISERVICENAMESPACES: [kube("APIServiceNamespace", name) for name in names],
        NAMESPACES: [provider_namespace(name) for name in names],
    }


WIDGETS = Request("", NS, "widgets")


async def test_rights_in_many_namespaces_are_given_in_many_turns() -> None:
    cached = in_use(2 * bounds.WRITES)
    async with watching(cached) as (server, cluster, watches):
        rbac = RbacController(cluster, watches, ProviderOptions())
        await drain(rbac.controller)
        await rbac.reconcile(WIDGETS)
        assert len(server.writes) == bounds.WRITES
        assert await drain(rbac.controller) == [("widgets", NS)]
        # What was written is seen, and the rest is written next.
        for _, _, _, body in server.writes:
            await server.tell(ROLES, object_from_dict(body), "ADDED")
        await rbac.reconcile(WIDGETS)
    written = [(kind, body["metadata"]["namespace"]) for _, kind, _, body in server.writes]
    assert len(set(written)) == 2 * bounds.WRITES


async def test_rights_in_many_namespaces_are_taken_in_many_turns() -> None:
    count = 2 * bounds.WRITES
    cached = in_use(count)
    del cached[APISERVICEEXPORTS]
    cached[ROLEBINDINGS] = [_binding(f"{NS}-n{number}") for number in range(count)]
    async with watching(cached) as (server, cluster, watches):
        rbac = RbacController(cluster, watches, ProviderOptions())
        await drain(rbac.controller)
        await rbac.reconcile(WIDGETS)
        assert len(server.written("delete", "rolebindings")) == bounds.WRITES
        assert await drain(rbac.controller) == [("widgets", NS)]


def _binding(namespace: str) -> Object:
    name = "kube-binder-resources-widgets"
    subjects = [{"kind": "ServiceAccount", "name": "kube-binder", "namespace": NS}]
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{namespace}"}
    return object_from_dict({"kind": "RoleBinding", "metadata": metadata, "subjects": subjects})


async def test_what_is_refused_in_one_turn_is_not_tried_again_in_the_next() -> None:
    cached = in_use(2 * bounds.WRITES + 1)
    async with watching(cached, Refusing) as (server, cluster, watches):
        rbac = RbacController(cluster, watches, ProviderOptions())
        for _ in range(2):
            await rbac.reconcile(WIDGETS)
        with pytest.raises(Forbidden):
            await rbac.reconcile(WIDGETS)
    tried = [body["metadata"]["namespace"] for _, body in server.written("create", "roles")]
    assert len(tried) == len(set(tried)) == 2 * bounds.WRITES + 1
    ((_, status),) = server.written("patch", "apiserviceexports")
    assert conditions(status)["PermissionsGranted"]["reason"] == "Forbidden"


async def test_what_caches_do_not_show_is_no_reason_to_hurry() -> None:
    async with watching(in_use(2 * bounds.WRITES), Ahead) as (_, cluster, watches):
        rbac = RbacController(cluster, watches, ProviderOptions())
        await drain(rbac.controller)
        result = await rbac.reconcile(WIDGETS)
        assert result.backoff is not None
        assert await drain(rbac.controller) == []


def labelled(obj: Object, **body: Any) -> Object:
    """An object as a consumer changes it, which changes nothing that matters."""
    known = obj.to_dict()
    metadata = known["metadata"] | {"labels": {"x": "y"}, "resourceVersion": "8"}
    return object_from_dict(known | {"metadata": metadata} | body)


SPOILT = {"conditions": [{"type": "PermissionsGranted", "status": "False"}]}


@pytest.mark.parametrize(
    ("kind", "event", "changed", "looks"),
    [
        pytest.param(
            APISERVICENAMESPACES,
            "MODIFIED",
            labelled(kube("APIServiceNamespace", "n0")),
            False,
            id="labels of a namespace",
        ),
        pytest.param(
            APISERVICENAMESPACES, "DELETED", kube("APIServiceNamespace", "n0"), True, id="it goes"
        ),
        pytest.param(
            APISERVICENAMESPACES, "ADDED", kube("APIServiceNamespace", "n9"), True, id="it comes"
        ),
        pytest.param(
            APISERVICEEXPORTS,
            "MODIFIED",
            labelled(export(), status={"conditions": [{"type": "X", "status": "True"}]}),
            False,
            id="status of an export",
        ),
        pytest.param(
            APISERVICEEXPORTS, "MODIFIED", labelled(export(), status=SPOILT), True, id="ours in it"
        ),
        pytest.param(
            NAMESPACES,
            "MODIFIED",
            labelled(provider_namespace("n0")),
            False,
            id="labels of a provider namespace",
        ),
        pytest.param(
            NAMESPACES,
            "MODIFIED",
            provider_namespace("n0", **{"kube-bind.io/identity": "team"}),
            True,
            id="it can be nobody's any more",
        ),
    ],
)
async def test_rights_are_looked_at_when_something_matters(
    kind: Resource, event: str, changed: Object, *, looks: bool
) -> None:
    cached = in_use(2)
    cached[NAMESPACES].append(provider_namespace("n9"))
    async with watching(cached) as (server, cluster, watches):
        rbac = RbacController(cluster, watches, ProviderOptions())
        await drain(rbac.controller)
        await server.tell(kind, changed, event)
        assert await drain(rbac.controller) == ([("widgets", NS)] if looks else [])


async def test_a_namespace_that_goes_wakes_the_requests_that_name_it() -> None:
    def request(name: str, *namespaces: str) -> Object:
        named = [{"name": namespace} for namespace in namespaces]
        spec: JSON = {"resources": [resource()], "namespaces": named}
        return kube("APIServiceExportRequest", name, spec=spec)

    too_many = [f"n{number}" for number in range(101)]
    cached = {
        APISERVICEEXPORTREQUESTS: [
            request("first", "n0"),
            request("second", "n1"),
            request("refused", *too_many),
        ],
        APISERVICENAMESPACES: [kube("APIServiceNamespace", "n0")],
    }
    async with watching(cached) as (server, cluster, _):
        (requests, *_others) = controllers(cluster)
        await drain(requests)
        await server.tell(APISERVICENAMESPACES, kube("APIServiceNamespace", "n0"), "DELETED")
        assert await drain(requests) == [("first", NS)]


async def drain(controller: Controller) -> list[tuple[str, str]]:
    """The names that wait, and their namespaces; none does after that."""
    found = []
    while len(controller.queue):
        key = await controller.queue.get()
        controller.queue.done(key)
        found.append((key.name, key.namespace))
    return found
