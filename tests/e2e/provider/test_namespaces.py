"""Provider namespaces at the end of exports and consumer namespaces: no data goes unasked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AsyncExitStack
from unittest import mock

import pytest
from tests.support.konnector import Link, World, event
from tests.support.waiting import SECONDS, condition, gone, when

from fairlead.api.kubebind import (
    APISERVICEEXPORTREQUESTS,
    APISERVICEEXPORTS,
    APISERVICENAMESPACES,
    FINALIZER_NAMESPACE,
)
from fairlead.api.meta import JSON
from fairlead.api.resource import CLUSTERROLES, CONFIGMAPS, NAMESPACES
from fairlead.client.lookups import wait_for
from fairlead.provider.manifests import export_roles
from fairlead.provider.options import ProviderOptions
from fairlead.runtime import BackoffPolicy, delays


@pytest.fixture(autouse=True)
def _impatient() -> Iterator[None]:
    with mock.patch.object(delays, "NAMESPACE_EMPTY", BackoffPolicy(initial=0.2, maximum=0.5)):
        yield


@pytest.fixture
async def world(provider_world: World) -> World:
    await provider_world.konnector()
    return provider_world


SHOP = "shop"


def widget(world: World, name: str = "blue") -> JSON:
    return {**world.widget(name), "metadata": {"name": name, "namespace": SHOP}}


async def in_use(world: World) -> tuple[Link, str]:
    """Bound, with one widget in a namespace of the consumer's, and where its copy is."""
    link = await world.bound()
    await world.consumer.create(NAMESPACES, {"metadata": {"name": SHOP}})
    await world.consumer.create(world.widgets, widget(world))
    namespace = await link.provider_namespace(SHOP)
    await when(world.provider, world.widgets, "blue", namespace, until=bool)
    await in_sync(world, link, 1)
    return link, namespace


async def in_sync(world: World, link: Link, count: int) -> None:
    """Wait until the konnector says so of the widgets; none when it does not work on them."""
    kind = world.widgets.group_resource
    series = {"binding": link.name, "resource": kind}
    await world.one.tells("fairlead_sync_objects_in_sync", count, **series)


async def held(world: World, link: Link, reason: str = "ObjectsRemain") -> JSON:
    """The APIServiceNamespace once it is going and says why it has to stay."""

    def says(body: JSON) -> bool:
        found = condition(body, "NamespaceReady")
        return "deletionTimestamp" in body["metadata"] and found.get("reason") == reason

    # A real server's garbage collector learns of new kinds every 30 seconds.
    found = await wait_for(
        world.provider,
        APISERVICENAMESPACES,
        SHOP,
        link.cluster_namespace,
        until=lambda obj: "" if obj is not None and says(obj.to_dict()) else f"is {obj}",
        timeout=SECONDS,
    )
    return found.to_dict() if found is not None else {}


async def without_export(world: World) -> tuple[Link, str]:
    link, namespace = await in_use(world)
    await world.provider.delete(APISERVICEEXPORTS, link.name, link.cluster_namespace)
    await gone(world.provider, APISERVICEEXPORTS, link.name, link.cluster_namespace)
    # Until then it makes again what is deleted over there.
    await in_sync(world, link, 0)
    await held(world, link)
    return link, namespace


async def test_a_deleted_export_costs_no_data_and_everybody_is_told_why(world: World) -> None:
    link, namespace = await without_export(world)
    body = await held(world, link)
    assert body["status"]["namespace"] == namespace
    told = condition(body, "NamespaceReady")
    assert told["severity"] == "Info"
    assert f"(1: {world.widgets.group_resource} blue)" in told["message"]
    assert not (await world.provider.get(NAMESPACES, namespace)).meta.deleting
    copy = await world.provider.get(world.widgets, "blue", namespace)
    assert not copy.meta.deleting
    await event(world.provider, link.cluster_namespace, "ObjectsRemain")
    connected = await link.condition(
        "Connected", lambda found: namespace in found.get("message", "")
    )
    assert connected["reason"] == "APIServiceExportNotFound"

    await world.provider.delete(world.widgets, "blue", namespace)
    await gone(world.provider, NAMESPACES, namespace)
    await gone(world.provider, APISERVICENAMESPACES, SHOP, link.cluster_namespace)
    await link.condition("Connected", lambda found: namespace not in found.get("message", ""))


@pytest.mark.edge
async def test_a_consumer_namespace_takes_its_provider_namespace_along(world: World) -> None:
    link, namespace = await in_use(world)
    await world.consumer.delete(NAMESPACES, SHOP)
    await gone(world.consumer, NAMESPACES, SHOP)
    await gone(world.provider, NAMESPACES, namespace)
    await gone(world.provider, APISERVICENAMESPACES, SHOP, link.cluster_namespace)


async def test_an_export_made_anew_goes_on_where_the_objects_are(world: World) -> None:
    link, namespace = await without_export(world)
    before = await world.provider.get(world.widgets, "blue", namespace)
    await world.provider.delete(APISERVICEEXPORTREQUESTS, link.name, link.cluster_namespace)
    await gone(world.provider, APISERVICEEXPORTREQUESTS, link.name, link.cluster_namespace)
    await link.bind()
    await world.consumer.create(world.widgets, widget(world, "red"))
    await when(world.provider, world.widgets, "red", namespace, until=bool)
    changed = {"spec": {"colour": "green"}}
    await world.consumer.merge_patch(world.widgets, "blue", SHOP, changed)
    after = await when(
        world.provider,
        world.widgets,
        "blue",
        namespace,
        until=lambda body: body["spec"]["colour"] == "green",
    )
    assert after["metadata"]["uid"] == before.meta.uid
    old = await held(world, link)

    # The namespace is in use again, and keeps what the provider has there of its own.
    made = await world.provider.create(CONFIGMAPS, own(namespace))
    for name in ("blue", "red"):
        await world.consumer.delete(world.widgets, name, SHOP)
        await gone(world.consumer, world.widgets, name, SHOP)
    await anew(world, link, old)
    await world.consumer.create(world.widgets, widget(world, "again"))
    await when(world.provider, world.widgets, "again", namespace, until=bool)
    kept = await world.provider.get(CONFIGMAPS, "own", namespace)
    assert kept.meta.uid == made.meta.uid


async def test_a_consumer_namespace_that_is_gone_is_not_handed_on(world: World) -> None:
    link, namespace = await without_export(world)
    await world.provider.delete(APISERVICEEXPORTREQUESTS, link.name, link.cluster_namespace)
    await gone(world.provider, APISERVICEEXPORTREQUESTS, link.name, link.cluster_namespace)
    await link.bind()
    await in_sync(world, link, 1)
    await world.consumer.delete(NAMESPACES, SHOP)
    await gone(world.provider, NAMESPACES, namespace)
    await gone(world.provider, APISERVICENAMESPACES, SHOP, link.cluster_namespace)


def own(namespace: str) -> JSON:
    return {"metadata": {"name": "own", "namespace": namespace}}


async def anew(world: World, link: Link, old: JSON) -> None:
    """Wait until another APIServiceNamespace has the namespace."""

    def ready(body: JSON) -> bool:
        another = bool(body) and body["metadata"]["uid"] != old["metadata"]["uid"]
        return another and body.get("status", {}).get("namespace") == old["status"]["namespace"]

    await when(world.provider, APISERVICENAMESPACES, SHOP, link.cluster_namespace, until=ready)


async def test_what_went_without_waiting_leaves_its_data_too(world: World) -> None:
    link, namespace = await without_export(world)
    # As those are that a version without finalizer has made.
    await world.provider.merge_patch(
        APISERVICENAMESPACES,
        SHOP,
        link.cluster_namespace,
        {"metadata": {"finalizers": None}},
    )
    await gone(world.provider, APISERVICENAMESPACES, SHOP, link.cluster_namespace)
    told = await event(world.provider, "default", "ObjectsRemain")
    assert told["involvedObject"]["name"] == namespace
    assert not (await world.provider.get(NAMESPACES, namespace)).meta.deleting
    await world.provider.delete(world.widgets, "blue", namespace)
    await gone(world.provider, NAMESPACES, namespace)


@pytest.mark.edge
async def test_a_cluster_namespace_that_goes_leaves_data_until_somebody_deletes_it(
    world: World,
) -> None:
    link, namespace = await in_use(world)
    await world.provider.delete(NAMESPACES, link.cluster_namespace)
    await held(world, link)
    # As long as it has rights and an export it makes again what is deleted over there.
    await world.one.stop()
    assert not (await world.provider.get(NAMESPACES, namespace)).meta.deleting
    assert not (await world.provider.get(world.widgets, "blue", namespace)).meta.deleting
    await world.provider.delete(world.widgets, "blue", namespace)
    await gone(world.provider, NAMESPACES, namespace)
    await gone(world.provider, APISERVICENAMESPACES, SHOP, link.cluster_namespace)


async def test_what_the_provider_may_not_see_it_does_not_delete(world: World) -> None:
    link, namespace = await in_use(world)
    kind = world.widgets.group_resource
    await world.provider.delete(CLUSTERROLES, f"fairlead-provider-export-{kind}")
    await world.provider.delete(APISERVICENAMESPACES, SHOP, link.cluster_namespace)
    told = condition(await held(world, link, "ObjectsUnknown"), "NamespaceReady")
    assert f"the provider may not list {kind}" in told["message"]
    assert "fairlead manifests provider --export" in told["message"]
    assert not (await world.provider.get(NAMESPACES, namespace)).meta.deleting
    for role in export_roles([kind], claims=[]):
        await world.provider.create(CLUSTERROLES, role)
    await held(world, link)
    await world.consumer.delete(world.widgets, "blue", SHOP)
    await gone(world.provider, NAMESPACES, namespace)


async def test_an_empty_namespace_goes_at_once(world: World) -> None:
    link, namespace = await in_use(world)
    await world.consumer.delete(world.widgets, "blue", SHOP)
    await gone(world.provider, world.widgets, "blue", namespace)
    found = await world.provider.get(APISERVICENAMESPACES, SHOP, link.cluster_namespace)
    assert FINALIZER_NAMESPACE in found.meta.finalizers
    with mock.patch.object(delays, "NAMESPACE_EMPTY", BackoffPolicy(initial=600, maximum=600)):
        await world.provider.delete(APISERVICENAMESPACES, SHOP, link.cluster_namespace)
        await gone(world.provider, NAMESPACES, namespace)
        await gone(world.provider, APISERVICENAMESPACES, SHOP, link.cluster_namespace)


async def test_an_object_that_is_made_while_its_namespace_goes_is_not_lost(
    world: World,
) -> None:
    link, namespace = await in_use(world)
    await world.consumer.delete(world.widgets, "blue", SHOP)
    await gone(world.consumer, world.widgets, "blue", SHOP)
    old = await world.provider.get(APISERVICENAMESPACES, SHOP, link.cluster_namespace)
    await world.provider.delete(APISERVICENAMESPACES, SHOP, link.cluster_namespace)
    await world.consumer.create(world.widgets, widget(world, "red"))

    def decided(body: JSON) -> bool:
        """Either it came in time to keep the namespace, or there is another one."""
        kept = condition(body, "NamespaceReady").get("reason") == "ObjectsRemain"
        return bool(body) and (kept or body["metadata"]["uid"] != old.meta.uid)

    await when(world.provider, APISERVICENAMESPACES, SHOP, link.cluster_namespace, until=decided)
    await when(world.provider, world.widgets, "red", namespace, until=bool)
    assert not (await world.provider.get(NAMESPACES, namespace)).meta.deleting


async def test_beyond_the_limit_the_others_go_on_and_the_binding_says_so(
    stack: AsyncExitStack,
) -> None:
    world = World(stack, options=ProviderOptions(namespaces_per_consumer=1))
    await world.start()
    await world.konnector()
    link, namespace = await in_use(world)
    await world.consumer.create(NAMESPACES, {"metadata": {"name": "till"}})
    waiting = world.widget("green")
    waiting["metadata"] = {"name": "green", "namespace": "till"}
    await world.consumer.create(world.widgets, waiting)
    told = await event(world.consumer, "till", "NamespaceRefused")
    assert "--namespaces-per-consumer" in told["message"]
    await link.condition("Conflicts", lambda found: found.get("status") == "True")
    await world.consumer.create(world.widgets, widget(world, "second"))
    await when(world.provider, world.widgets, "second", namespace, until=bool)
    await world.consumer.delete(NAMESPACES, SHOP)
    await gone(world.provider, NAMESPACES, namespace)
    found = await when(
        world.provider,
        APISERVICENAMESPACES,
        "till",
        link.cluster_namespace,
        until=lambda body: body.get("status", {}).get("namespace"),
    )
    other = found["status"]["namespace"]
    await when(world.provider, world.widgets, "green", other, until=bool)
    await link.condition("Conflicts", lambda found: found.get("status") != "True")
