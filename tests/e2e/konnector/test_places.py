"""Where a provider may bring what it likes, and where it may not."""

from __future__ import annotations

import pytest
from tests.support.konnector import World
from tests.support.waiting import idle, when

from fairlead.api.kubebind import API_VERSION, APISERVICENAMESPACES
from fairlead.api.resource import CONFIGMAPS, NAMESPACES
from fairlead.client import NotFound


@pytest.fixture
async def at_work(any_world: World) -> World:
    await any_world.konnector()
    return any_world


async def test_a_provider_brings_nothing_into_the_clusters_own_namespaces(at_work: World) -> None:
    world = at_work
    link = await world.bound()
    # A name of its own, since others share a real server.
    shop = f"shop-{world.name}"
    there: dict[str, str] = {}
    for name in ("kube-system", "kube-mine", shop):
        body = {
            "apiVersion": API_VERSION,
            "kind": "APIServiceNamespace",
            "metadata": {"name": name, "labels": {"kube-bind.io/owner": "provider"}},
            "spec": {},
        }
        await world.provider.create(APISERVICENAMESPACES, body, link.cluster_namespace)
        assigned = await when(
            world.provider,
            APISERVICENAMESPACES,
            name,
            link.cluster_namespace,
            until=lambda body: body.get("status", {}).get("namespace"),
        )
        there[name] = assigned["status"]["namespace"]
    # The last one shows by coming that the others had their time.
    for namespace in there.values():
        body = {"metadata": {"name": "settings", "labels": world.claimed}, "data": {"a": "b"}}
        await world.provider.create(CONFIGMAPS, body, namespace)
    await when(world.consumer, CONFIGMAPS, "settings", shop, until=bool)
    assert await idle(0.5)
    with pytest.raises(NotFound):
        await world.consumer.get(CONFIGMAPS, "settings", "kube-system")
    with pytest.raises(NotFound):
        await world.consumer.get(NAMESPACES, "kube-mine")
