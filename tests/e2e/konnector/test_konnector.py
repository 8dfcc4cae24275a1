"""The konnector between two control planes, with the provider's real controllers."""

from __future__ import annotations

from contextlib import AsyncExitStack

import msgspec
import pytest
from tests.support.konnector import (
    WIDGETS,
    Requests,
    World,
    event,
    invited,
    offer,
    quiet,
    secret,
    widget,
)
from tests.support.waiting import SECONDS, eventually, gone, idle, when

from fairlead.api.kubebind import (
    APISERVICEBINDINGS,
    APISERVICENAMESPACES,
    CLUSTERBINDINGS,
    Isolation,
)
from fairlead.api.resource import (
    CONFIGMAPS,
    CUSTOMRESOURCEDEFINITIONS,
    NAMESPACES,
    SECRETS,
)
from fairlead.client import NotFound
from fairlead.konnector.commands.bind import BindError
from fairlead.provider.options import ProviderOptions


WRITES = ("create", "update", "patch", "delete")


@pytest.mark.edge
async def test_the_whole_way_there_and_back(any_world: World) -> None:
    world, widgets = any_world, any_world.widgets
    await world.konnector()
    link = await world.bound()
    await world.consumer.create(widgets, world.widget())
    namespace = await link.provider_namespace()
    copy = await when(world.provider, widgets, "blue", namespace, until=bool)
    assert copy["metadata"]["annotations"]["kube-bind.io/consumer-namespace"] == "default"
    await world.provider.create(SECRETS, secret("blue-origin", namespace))
    await world.provider.create(SECRETS, secret("unrelated", namespace))
    await world.provider.merge_patch(
        widgets, "blue", namespace, {"status": {"made": 3}}, subresource="status"
    )
    await when(world.consumer, widgets, "blue", "default", until=lambda body: body.get("status"))
    came = await when(world.consumer, SECRETS, "blue-origin", "default", until=bool)
    assert came["metadata"]["labels"] == {"kube-bind.io/owner": "provider"}
    assert came["data"] == {"a": "Yg=="}
    with pytest.raises(NotFound):
        await world.consumer.get(SECRETS, "unrelated", "default")
    await world.consumer.delete(widgets, "blue", "default")
    await gone(world.consumer, widgets, "blue", "default")
    await gone(world.provider, widgets, "blue", namespace)
    await gone(world.consumer, SECRETS, "blue-origin", "default")
    await world.consumer.create(widgets, world.widget("last"))
    await when(world.provider, widgets, "last", namespace, until=bool)
    await world.consumer.delete(APISERVICEBINDINGS, world.name)
    await gone(world.consumer, APISERVICEBINDINGS, world.name)
    await gone(world.provider, widgets, "last", namespace)
    await gone(world.consumer, CUSTOMRESOURCEDEFINITIONS, widgets.group_resource)


@pytest.mark.parametrize(
    ("isolation", "scope"),
    [("Prefixed", "Cluster"), ("None", "Cluster"), ("Namespaced", "Namespaced")],
)
async def test_cluster_scoped_objects_are_kept_apart(
    stack: AsyncExitStack, isolation: Isolation, scope: str
) -> None:
    world = World(stack, scope=scope, options=ProviderOptions(isolation=isolation))
    await world.start()
    await world.konnector()
    link = await world.bound()
    here = msgspec.structs.replace(world.widgets, namespaced=False)
    there = msgspec.structs.replace(world.widgets, namespaced=scope == "Namespaced")
    name, namespace = {
        "Prefixed": (f"{link.cluster_namespace}-blue", ""),
        "None": ("blue", ""),
        "Namespaced": ("blue", link.cluster_namespace),
    }[isolation]
    body = world.widget()
    del body["metadata"]["namespace"]
    native = {**body, "metadata": {"name": "native", "namespace": namespace}}
    before = await world.provider.create(there, native, namespace)
    await world.consumer.create(here, body)
    copy = await when(world.provider, there, name, namespace, until=bool)
    assert copy["metadata"]["annotations"]["kube-bind.io/consumer-namespace"] == ""
    owners = [one["name"] for one in copy["metadata"].get("ownerReferences", [])]
    assert owners == ([] if namespace else [link.cluster_namespace])
    await world.provider.merge_patch(
        there, name, namespace, {"status": {"made": 3}}, subresource="status"
    )
    await when(world.consumer, here, "blue", until=lambda body: body.get("status"))
    if isolation == "None":
        await world.consumer.create(here, {**body, "metadata": {"name": "native"}})
        await event(world.consumer, "default", "ForeignObjectExists")
    await world.consumer.delete(APISERVICEBINDINGS, world.name)
    await gone(world.consumer, APISERVICEBINDINGS, world.name)
    await gone(world.provider, there, name, namespace)
    assert (await world.provider.get(there, "native", namespace)).raw == before.raw


async def test_a_provider_whose_objects_are_watched_cluster_wide(stack: AsyncExitStack) -> None:
    world = World(stack, options=ProviderOptions(consumer_scope="Cluster"))
    await world.start()
    await world.konnector()
    link = await world.bound()
    await world.consumer.create(world.widgets, world.widget())
    namespace = await link.provider_namespace()
    await when(world.provider, world.widgets, "blue", namespace, until=bool)
    await world.provider.create(SECRETS, secret("blue-origin", namespace))
    await when(world.consumer, SECRETS, "blue-origin", "default", until=bool)


async def test_the_object_goes_only_after_its_copy(world: World) -> None:
    await world.konnector()
    link = await world.bound()
    await world.consumer.create(WIDGETS, widget())
    namespace = await link.provider_namespace()
    await when(world.provider, WIDGETS, "blue", namespace, until=bool)
    held = {"metadata": {"finalizers": ["example.org/factory"]}}
    await world.provider.merge_patch(WIDGETS, "blue", namespace, held)
    await world.consumer.delete(WIDGETS, "blue", "default")
    await when(
        world.provider,
        WIDGETS,
        "blue",
        namespace,
        until=lambda body: body["metadata"].get("deletionTimestamp"),
    )
    assert (await world.consumer.get(WIDGETS, "blue", "default")).meta.deleting
    await world.provider.merge_patch(
        WIDGETS, "blue", namespace, {"metadata": {"finalizers": None}}
    )
    await gone(world.consumer, WIDGETS, "blue", "default")


async def test_removed_fields_are_removed_there_and_defaults_are_no_difference(
    world: World,
) -> None:
    await world.konnector()
    link = await world.bound()
    await world.consumer.create(WIDGETS, widget(count=7))
    namespace = await link.provider_namespace()
    await when(world.provider, WIDGETS, "blue", namespace, until=bool)
    await world.consumer.merge_patch(
        WIDGETS, "blue", "default", {"spec": {"count": None, "certificates": None}}
    )
    copy = await when(
        world.provider,
        WIDGETS,
        "blue",
        namespace,
        until=lambda body: "certificates" not in body["spec"],
    )
    assert copy["spec"] == {"colour": "blue", "count": 1}


async def test_a_new_object_costs_few_writes_and_steady_state_none(world: World) -> None:
    await world.konnector()
    link = await world.bound()
    await world.consumer.create(WIDGETS, widget("first"))
    namespace = await link.provider_namespace()
    at_provider, at_consumer = Requests(world.provider_plane), Requests(world.consumer_plane)
    await quiet(at_provider, at_consumer)
    await world.consumer.create(WIDGETS, widget())
    await when(world.provider, WIDGETS, "blue", namespace, until=bool)
    await world.provider.merge_patch(
        WIDGETS, "blue", namespace, {"status": {"made": 3}}, subresource="status"
    )
    await when(world.consumer, WIDGETS, "blue", "default", until=lambda body: body.get("status"))
    await idle(0.3)
    # Beside the test's own create and patch: finalizer, copy, annotations, status.
    assert at_consumer.count(*WRITES, resource="widgets") == 1 + 3
    assert at_provider.count(*WRITES, resource="widgets") == 1 + 1
    assert at_provider.count("get", resource="widgets") == 0
    at_provider.seen.clear()
    at_consumer.seen.clear()
    await idle(0.3)
    assert at_provider.seen == at_consumer.seen == []


async def test_binding_twice_changes_nothing(world: World) -> None:
    await world.konnector()
    link = await world.bound()
    at_provider, at_consumer = Requests(world.provider_plane), Requests(world.consumer_plane)
    await quiet(at_provider, at_consumer)
    lines = await link.bind()
    assert at_consumer.count("update", "patch", "delete") == 0
    assert at_provider.count(*WRITES) == 0
    assert lines[-1] == "APIServiceBinding widgets is ready"


async def test_bind_says_that_no_konnector_runs(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.konnector.commands.readiness._LAST_WORD_SECONDS", SECONDS)
    link = await invited(world.consumer, world.provider)

    async def told() -> bool:
        with pytest.raises(BindError) as caught:
            await link.bind(timeout=1.0)
        # On a slow machine the provider may still have to answer.
        return "no konnector has picked it up" in str(caught.value)

    await eventually(told)


async def test_an_unbound_consumer_has_nothing_left(world: World) -> None:
    await world.konnector()
    link = await world.bound()
    await world.consumer.create(WIDGETS, widget())
    namespace = await link.provider_namespace()
    await when(world.provider, WIDGETS, "blue", namespace, until=bool)
    await world.provider.create(SECRETS, secret("blue-origin", namespace))
    labelled = {"name": "plan", "labels": world.claimed}
    plan = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": labelled, "data": {"a": "b"}}
    await world.consumer.create(CONFIGMAPS, plan, "default")
    await when(world.consumer, SECRETS, "blue-origin", "default", until=bool)
    await when(world.provider, CONFIGMAPS, "plan", namespace, until=bool)
    await world.consumer.delete(APISERVICEBINDINGS, "widgets")
    await gone(world.consumer, APISERVICEBINDINGS, "widgets")
    await gone(world.provider, WIDGETS, "blue", namespace)
    await gone(world.provider, CONFIGMAPS, "plan", namespace)
    await gone(world.consumer, SECRETS, "blue-origin", "default")
    await gone(world.consumer, CUSTOMRESOURCEDEFINITIONS, "widgets.example.org")
    mine = await world.consumer.get(CONFIGMAPS, "plan", "default")
    assert "kube-bind.io/owner" not in mine.meta.labels
    assert (await world.provider.get(SECRETS, "blue-origin", namespace)).meta.labels == {}
    at_provider = Requests(world.provider_plane)
    await link.bind()
    # None as long as the connection still stands that has told the provider of the end.
    assert at_provider.count("list", resource="apiserviceexports") <= 1


async def test_an_unclaimed_object_loses_its_copy(world: World) -> None:
    await world.konnector()
    link = await world.bound()
    plan = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "plan"}, "data": {}}
    await world.consumer.create(CONFIGMAPS, plan, "default")
    await world.consumer.merge_patch(
        CONFIGMAPS, "plan", "default", {"metadata": {"labels": world.claimed}}
    )
    namespace = await link.provider_namespace()
    await when(world.provider, CONFIGMAPS, "plan", namespace, until=bool)
    await world.consumer.merge_patch(
        CONFIGMAPS,
        "plan",
        "default",
        {"metadata": {"labels": dict.fromkeys(world.claimed)}},
    )
    await gone(world.provider, CONFIGMAPS, "plan", namespace)
    mine = await world.consumer.get(CONFIGMAPS, "plan", "default")
    assert mine.meta.labels == {}


async def test_a_secret_that_was_there_before_its_referrer_comes_at_once(world: World) -> None:
    await world.konnector()
    link = await world.bound()
    await world.consumer.create(WIDGETS, widget("first"))
    namespace = await link.provider_namespace()
    await world.provider.create(SECRETS, secret("blue-origin", namespace))
    await world.consumer.create(WIDGETS, widget())
    await when(world.consumer, SECRETS, "blue-origin", "default", until=bool)


async def test_nothing_of_the_konnectors_own_is_claimed(world: World) -> None:
    await world.konnector()
    link = await world.bound()
    labelled = {"name": "plan", "labels": world.claimed}
    plan = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": labelled, "data": {"a": "b"}}
    await world.consumer.create(CONFIGMAPS, plan, "kube-bind")
    await world.consumer.create(CONFIGMAPS, plan, "default")
    namespace = await link.provider_namespace()
    await when(world.provider, CONFIGMAPS, "plan", namespace, until=bool)
    asked = await world.provider.list(APISERVICENAMESPACES, link.cluster_namespace)
    assert [found.meta.name for found in asked.items] == ["default"]
    own = await world.consumer.get(CONFIGMAPS, "plan", "kube-bind")
    assert "kube-bind.io/owner" not in own.meta.labels


async def test_a_secret_of_the_consumer_is_never_overwritten(world: World) -> None:
    await world.konnector()
    link = await world.bound()
    await world.consumer.create(WIDGETS, widget("first"))
    namespace = await link.provider_namespace()
    await world.provider.create(SECRETS, secret("blue-origin", namespace, whose="theirs"))
    await world.consumer.create(SECRETS, secret("blue-origin", "default", whose="mine"))
    before = await world.consumer.get(SECRETS, "blue-origin", "default")
    await world.consumer.create(WIDGETS, widget())
    refused = await link.condition("Conflicts", bool)
    assert "default/blue-origin" in refused["message"]
    after = await world.consumer.get(SECRETS, "blue-origin", "default")
    assert after.raw == before.raw


async def test_another_consumers_copy_is_refused_with_an_event(world: World) -> None:
    await world.konnector()
    link = await world.bound()
    await world.consumer.create(WIDGETS, widget("first"))
    namespace = await link.provider_namespace()
    foreign = widget()
    foreign["metadata"] = {
        "name": "blue",
        "namespace": namespace,
        "annotations": {"kube-bind.io/cluster-namespace": "kube-bind-other"},
    }
    await world.provider.create(WIDGETS, foreign)
    await world.consumer.create(WIDGETS, widget())
    await event(world.consumer, "default", "ForeignObjectExists")
    await world.consumer.delete(WIDGETS, "blue", "default")
    await gone(world.consumer, WIDGETS, "blue", "default")
    assert not (await world.provider.get(WIDGETS, "blue", namespace)).meta.deleting


async def test_a_leftover_of_a_stopped_konnector_goes_when_it_starts(world: World) -> None:
    one = await world.konnector()
    link = await world.bound()
    await world.consumer.create(WIDGETS, widget())
    namespace = await link.provider_namespace()
    await when(world.provider, WIDGETS, "blue", namespace, until=bool)
    native = widget("native")
    native["metadata"]["namespace"] = namespace
    await world.provider.create(WIDGETS, native)
    await one.stop()
    await world.consumer.merge_patch(
        WIDGETS, "blue", "default", {"metadata": {"finalizers": None}}
    )
    await world.consumer.delete(WIDGETS, "blue", "default")
    await one.start()
    await gone(world.provider, WIDGETS, "blue", namespace)
    assert not (await world.provider.get(WIDGETS, "native", namespace)).meta.deleting


async def test_a_copy_that_is_deleted_on_the_provider_comes_back(world: World) -> None:
    await world.konnector()
    link = await world.bound()
    await world.consumer.create(WIDGETS, widget())
    namespace = await link.provider_namespace()
    first = await when(world.provider, WIDGETS, "blue", namespace, until=bool)
    await world.provider.delete(WIDGETS, "blue", namespace)
    uid = first["metadata"]["uid"]
    again = await when(
        world.provider,
        WIDGETS,
        "blue",
        namespace,
        until=lambda body: body and body["metadata"]["uid"] != uid,
    )
    await when(
        world.consumer,
        WIDGETS,
        "blue",
        "default",
        until=lambda body: (
            body["metadata"]["annotations"].get("kube-bind.io/provider-uid")
            == again["metadata"]["uid"]
        ),
    )


async def test_two_bindings_of_one_provider_do_not_take_each_others_copies(
    world: World,
) -> None:
    await world.konnector()
    await offer(world.provider, "other.org")
    one = await invited(world.consumer, world.provider, identity="shop")
    two = await invited(
        world.consumer, world.provider, name="gadgets", template="other.org", identity="shop"
    )
    await one.bind()
    await two.bind()
    requests = Requests(world.provider_plane)
    await world.consumer.create(WIDGETS, widget())
    namespace = await one.provider_namespace()
    await world.provider.create(SECRETS, secret("blue-origin", namespace))
    labelled = {"name": "p", "labels": world.claimed}
    plan = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": labelled}
    await world.consumer.create(CONFIGMAPS, plan, "default")
    copy = await when(world.provider, CONFIGMAPS, "p", namespace, until=bool)
    await when(world.consumer, SECRETS, "blue-origin", "default", until=bool)
    await quiet(requests)
    await world.consumer.delete(APISERVICEBINDINGS, "gadgets")
    await gone(world.consumer, APISERVICEBINDINGS, "gadgets")
    await quiet(requests)
    kept = await world.provider.get(CONFIGMAPS, "p", namespace)
    assert kept.meta.uid == copy["metadata"]["uid"]
    assert not (await world.consumer.get(SECRETS, "blue-origin", "default")).meta.deleting
    await world.consumer.delete(APISERVICEBINDINGS, "widgets")
    await gone(world.consumer, APISERVICEBINDINGS, "widgets")
    await gone(world.provider, CONFIGMAPS, "p", namespace)


async def test_a_deleted_namespace_takes_the_providers_with_it(world: World) -> None:
    await world.konnector()
    link = await world.bound()
    await world.consumer.create(
        NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    )
    body = widget()
    body["metadata"]["namespace"] = "shop"
    await world.consumer.create(WIDGETS, body)
    namespace = await link.provider_namespace("shop")
    await when(world.provider, WIDGETS, "blue", namespace, until=bool)
    await world.consumer.delete(NAMESPACES, "shop")
    await gone(world.consumer, NAMESPACES, "shop")
    await gone(world.provider, NAMESPACES, namespace)


async def test_heartbeats_and_version_reach_the_provider(world: World) -> None:
    await world.konnector()
    link = await world.bound()
    body = await when(
        world.provider,
        CLUSTERBINDINGS,
        "cluster",
        link.cluster_namespace,
        until=lambda body: body.get("status", {}).get("lastHeartbeatTime"),
    )
    assert body["status"]["heartbeatInterval"] == "5m0s"
    assert body["status"]["consumerSecretRef"]["namespace"] == "kube-bind"
    await link.condition("Heartbeating", lambda one: one.get("status") == "True")
