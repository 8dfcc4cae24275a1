"""The konnector when things go wrong: nothing is lost, nothing spins, a condition says why."""

from __future__ import annotations

import asyncio
import base64
from contextlib import AsyncExitStack
from typing import Any

import pytest
from tests.support.konnector import (
    WIDGETS,
    Link,
    Requests,
    World,
    event,
    invited,
    offer,
    providing,
    quiet,
    secret,
    widget,
)
from tests.support.waiting import SECONDS, condition, gone, idle, when

from fairlead.api.kubebind import APISERVICEBINDINGS, APISERVICEEXPORTS
from fairlead.api.meta import JSON, Object
from fairlead.api.resource import CLUSTERROLES, CUSTOMRESOURCEDEFINITIONS, NAMESPACES, SECRETS
from fairlead.client import NotFound, limits
from fairlead.konnector.sync import passes
from fairlead.provider.namespaces import identity_of
from fairlead.runtime import BackoffPolicy, delays
from fairlead_sandbox import Sandbox
from fairlead_sandbox.http.faults import Disconnect


def holds(one: JSON) -> bool:
    return one.get("status") == "True"


def fails(one: JSON) -> bool:
    return one.get("status") == "False"


class HungUp:
    """Has a server drop the connections of such requests, after a moment, without an answer."""

    def __init__(self, plane: Sandbox, verb: str, resource: str, group: str) -> None:
        self.tries = 0
        self._original = plane.faults.apply
        self._faults = plane.faults

        async def apply(info: Any) -> None:
            if (info.verb, info.resource, info.group) == (verb, resource, group):
                self.tries += 1
                raise Disconnect
            await self._original(info)

        plane.faults.apply = apply  # type: ignore[method-assign]

    def over(self) -> None:
        self._faults.apply = self._original  # type: ignore[method-assign]


async def kubeconfig_secret(link: Link) -> JSON:
    binding = (await link.consumer.get(APISERVICEBINDINGS, link.name)).to_dict()
    ref = binding["spec"]["kubeconfigSecretRef"]
    return (await link.consumer.get(SECRETS, ref["name"], ref["namespace"])).to_dict()


async def test_a_provider_that_is_down_at_start(world: World) -> None:
    one = await world.konnector()
    link = await world.bound()
    await one.stop()
    world.provider_plane.faults.partition()
    requests = Requests(world.provider_plane)
    await one.start()
    told = await link.condition("InformersSynced", fails)
    assert told["reason"] == "InformerSyncTimeout"
    assert "the provider cannot be watched" in told["message"]
    assert told["message"].count("cannot reach") == 1
    await world.consumer.create(WIDGETS, widget())
    await asyncio.sleep(0.5)
    assert requests.count() < 60
    world.provider_plane.faults.heal()
    await link.condition("InformersSynced", holds)
    namespace = await link.provider_namespace()
    await when(world.provider, WIDGETS, "blue", namespace, until=bool)


async def test_a_provider_that_answers_to_no_change_is_told_until_it_does(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its watches work all the while; each try ends without an answer."""
    monkeypatch.setattr(passes, "SILENT", 0.3)
    await world.konnector()
    link = await world.bound()
    await offer(world.provider, "other.org")
    identity = identity_of(await world.provider.get(NAMESPACES, link.cluster_namespace))
    other = await invited(
        world.consumer, world.provider, name="other", template="other.org", identity=identity
    )
    await other.bind()
    reasons: list[str] = []
    silent = HungUp(world.provider_plane, "create", "widgets", "example.org")
    await world.consumer.create(WIDGETS, widget())
    told = await link.condition("InformersSynced", fails)
    assert told["reason"] == "InformerSyncTimeout"
    assert "has not answered writes of Widget objects for 0.3 s or longer" in told["message"]
    # It stays said while the change is tried again and again.
    seen = silent.tries
    async with asyncio.timeout(SECONDS):
        while silent.tries < seen + 2:
            body = (await world.consumer.get(APISERVICEBINDINGS, link.name)).to_dict()
            reasons.append(condition(body, "Ready")["reason"])
            await idle(0.05)
    assert set(reasons) == {"InformerSyncTimeout"}
    neighbour = (await world.consumer.get(APISERVICEBINDINGS, other.name)).to_dict()
    assert condition(neighbour, "Ready")["status"] == "True"
    silent.over()
    await link.condition("Ready", holds)
    there = await link.provider_namespace()
    await when(world.provider, WIDGETS, "blue", there, until=bool)


async def test_what_fits_into_few_files_is_served_and_the_rest_is_told(world: World) -> None:
    await world.konnector(files=24)
    link = await world.bound()
    names = [f"n{number}" for number in range(8)]
    for name in names:
        await world.consumer.create(NAMESPACES, {"metadata": {"name": name}})
        body = widget()
        body["metadata"]["namespace"] = name
        await world.consumer.create(WIDGETS, body)
    told = await link.condition("InformersSynced", fails)
    assert "the konnector does not watch" in told["message"]
    assert "may open 24, of which it keeps 12 for everything else; allow it " in told["message"]
    there = [await link.provider_namespace(name) for name in names]
    async with asyncio.timeout(SECONDS):
        while not (served := [one.meta.namespace for one in await copies(world)]):
            await idle(0.1)
    assert len(served) < len(names)
    # What still waits is served as soon as there is room.
    kept = next(name for name, where in zip(names, there, strict=True) if where not in served)
    for name in names:
        if name != kept:
            await world.consumer.delete(WIDGETS, "blue", name)
            await world.consumer.delete(NAMESPACES, name)
    await when(world.provider, WIDGETS, "blue", await link.provider_namespace(kept), until=bool)
    await link.condition("InformersSynced", holds)


async def copies(world: World) -> list[Object]:
    return (await world.provider.list(WIDGETS)).items


async def test_an_unbinding_waits_for_a_provider_that_is_down_and_says_so(
    world: World,
) -> None:
    await world.konnector()
    link = await world.bound()
    await world.consumer.create(WIDGETS, widget())
    namespace = await link.provider_namespace()
    await when(world.provider, WIDGETS, "blue", namespace, until=bool)
    world.provider_plane.faults.partition()
    await world.consumer.delete(APISERVICEBINDINGS, "widgets")
    fault = await link.condition("InformersSynced", fails)
    assert fault["message"].count("cannot reach") == 1, fault["message"]
    assert fault["message"].count("closed the connection") <= 1, fault["message"]
    told = await link.condition(
        "Connected", lambda one: "kubebind.io/syncer" in one.get("message", "")
    )
    assert told["reason"] == "Unbinding"
    assert "CustomResourceDefinition widgets.example.org" in told["message"]
    assert (await world.consumer.get(WIDGETS, "blue", "default")).meta.deleting
    world.provider_plane.faults.heal()
    await gone(world.consumer, APISERVICEBINDINGS, "widgets")
    await gone(world.provider, WIDGETS, "blue", namespace)


async def test_a_provider_that_stays_away_is_given_up(world: World) -> None:
    await world.konnector(unbind_timeout=0.5)
    link = await world.bound()
    for name in ("blue", "green"):
        await world.consumer.create(WIDGETS, widget(name))
    namespace = await link.provider_namespace()
    await world.provider.create(SECRETS, secret("blue-origin", namespace))
    await when(world.consumer, SECRETS, "blue-origin", "default", until=bool)
    await when(world.provider, WIDGETS, "green", namespace, until=bool)
    world.provider_plane.faults.partition()
    await world.consumer.delete(APISERVICEBINDINGS, "widgets")
    await gone(world.consumer, APISERVICEBINDINGS, "widgets")
    await gone(world.consumer, CUSTOMRESOURCEDEFINITIONS, WIDGETS.group_resource)
    await gone(world.consumer, SECRETS, "blue-origin", "default")
    told = await event(world.consumer, "default", "ProviderGone")
    assert "2 copies stay" in told["message"]
    world.provider_plane.faults.heal()
    assert not (await world.provider.get(WIDGETS, "blue", namespace)).meta.deleting


async def test_without_its_kubeconfig_a_binding_goes_after_a_while(world: World) -> None:
    konnector = await world.konnector(unbind_timeout=0.5)
    link = await world.bound()
    await world.consumer.create(WIDGETS, widget())
    namespace = await link.provider_namespace()
    await when(world.provider, WIDGETS, "blue", namespace, until=bool)
    await konnector.stop()
    found = await kubeconfig_secret(link)
    await world.consumer.delete(SECRETS, found["metadata"]["name"], "kube-bind")
    await konnector.start()
    await world.consumer.delete(APISERVICEBINDINGS, "widgets")
    await gone(world.consumer, APISERVICEBINDINGS, "widgets")
    await gone(world.consumer, CUSTOMRESOURCEDEFINITIONS, WIDGETS.group_resource)
    await world.provider.get(WIDGETS, "blue", namespace)


async def test_history_that_was_compacted_while_the_line_was_cut(world: World) -> None:
    await world.konnector()
    link = await world.bound()
    await world.consumer.create(WIDGETS, widget("old"))
    namespace = await link.provider_namespace()
    await when(world.provider, WIDGETS, "old", namespace, until=bool)
    for plane in (world.provider_plane, world.consumer_plane):
        plane.faults.cut_event()
    await world.consumer.create(WIDGETS, widget())
    await world.consumer.delete(WIDGETS, "old", "default")
    for plane in (world.provider_plane, world.consumer_plane):
        plane.faults.drop_watches()
        plane.faults.compact()
    await when(world.provider, WIDGETS, "blue", namespace, until=bool)
    await gone(world.provider, WIDGETS, "old", namespace)
    await gone(world.consumer, WIDGETS, "old", "default")


async def test_a_server_that_refuses_for_a_while(world: World) -> None:
    await world.konnector()
    link = await world.bound()
    await world.consumer.create(WIDGETS, widget("first"))
    namespace = await link.provider_namespace()
    await when(world.provider, WIDGETS, "first", namespace, until=bool)
    faults = world.provider_plane.faults
    faults.fail("create", "widgets", 500, times=2)
    faults.fail("create", "widgets", 429, times=1, retry_after=1)
    world.consumer_plane.faults.fail("patch", "widgets", 409, times=1)
    await world.consumer.create(WIDGETS, widget())
    await when(world.provider, WIDGETS, "blue", namespace, until=bool)


@pytest.mark.parametrize("away", ["consumer", "provider"])
async def test_what_fails_while_a_server_is_away_does_not_wait_out_its_back_off(
    world: World, monkeypatch: pytest.MonkeyPatch, away: str
) -> None:
    """The back-off is longer than the test: nothing but the end of the outage can end it."""
    konnector = await world.konnector()
    link = await world.bound()
    await world.consumer.create(WIDGETS, widget())
    namespace = await link.provider_namespace()
    await when(world.provider, WIDGETS, "blue", namespace, until=bool)
    monkeypatch.setattr(delays, "FAILED_PASS", BackoffPolicy(initial=10 * SECONDS, maximum=1e4))
    monkeypatch.setattr(limits, "OUTAGE_SECONDS", 0.0)
    plane = world.consumer_plane if away == "consumer" else world.provider_plane
    failed = {"controller": "sync-widgets.example.org", "result": "error"}
    before = konnector.sample("controller_runtime_reconcile_total", **failed) or 0.0
    plane.faults.partition()
    if away == "consumer":
        body = {"status": {"made": 3}}
        await world.provider.merge_patch(WIDGETS, "blue", namespace, body, subresource="status")
    else:
        await world.consumer.merge_patch(WIDGETS, "blue", "default", {"spec": {"colour": "red"}})
    await konnector.tells("controller_runtime_reconcile_total", before + 1, **failed)
    plane.faults.heal()
    await when(
        world.consumer,
        WIDGETS,
        "blue",
        "default",
        until=lambda body: away == "provider" or body.get("status") == {"made": 3},
    )
    await when(
        world.provider,
        WIDGETS,
        "blue",
        namespace,
        until=lambda body: away == "consumer" or body["spec"]["colour"] == "red",
    )


async def test_a_broken_kubeconfig_is_told_and_its_repair_noticed(world: World) -> None:
    one = await world.konnector()
    link = await world.bound()
    await one.stop()
    good = await kubeconfig_secret(link)
    name, namespace = good["metadata"]["name"], good["metadata"]["namespace"]
    broken = base64.b64encode(b"users: [{name: x, user: {token: very-secret}}]").decode()
    await world.consumer.merge_patch(SECRETS, name, namespace, {"data": {"kubeconfig": broken}})
    requests = Requests(world.provider_plane)
    await one.start()
    told = await link.condition("SecretValid", fails)
    assert told["reason"] == "KubeconfigSecretInvalid"
    assert "very-secret" not in str(told)
    assert requests.count(resource="apiserviceexports") == 0
    await world.consumer.merge_patch(SECRETS, name, namespace, {"data": good["data"]})
    await link.condition("SecretValid", holds)
    await world.consumer.create(WIDGETS, widget())
    await link.provider_namespace()


async def test_credentials_are_rotated_and_a_deleted_secret_comes_back(world: World) -> None:
    await world.konnector()
    link = await world.bound()
    before = await kubeconfig_secret(link)
    name, namespace = before["metadata"]["name"], before["metadata"]["namespace"]
    await world.consumer.delete(SECRETS, name, namespace)
    again = await when(world.consumer, SECRETS, name, namespace, until=bool)
    assert again["data"] == before["data"]
    theirs = await world.provider.get(SECRETS, "kubeconfig", link.cluster_namespace)
    rotated = base64.b64decode(theirs.to_dict()["data"]["kubeconfig"]) + b"# rotated\n"
    data = {"kubeconfig": base64.b64encode(rotated).decode()}
    await world.provider.merge_patch(SECRETS, "kubeconfig", link.cluster_namespace, {"data": data})
    await when(world.consumer, SECRETS, name, namespace, until=lambda body: body["data"] == data)
    await world.consumer.create(WIDGETS, widget())
    provider_namespace = await link.provider_namespace()
    await when(world.provider, WIDGETS, "blue", provider_namespace, until=bool)


async def test_a_missing_right_names_the_role_and_the_remedy(world: World) -> None:
    await world.konnector()
    link = await world.bound()
    role = await world.consumer.get(CLUSTERROLES, "kube-bind-konnector-widgets")
    await world.consumer.delete(CLUSTERROLES, role.meta.name)
    await world.consumer.create(WIDGETS, widget())
    told = await link.condition("InformersSynced", fails)
    assert "ClusterRole kube-bind-konnector-widgets" in told["message"]
    assert "fairlead accept" in told["message"]
    await link.bind(timeout=SECONDS)
    namespace = await link.provider_namespace()
    await when(world.provider, WIDGETS, "blue", namespace, until=bool)


async def test_a_crd_that_is_deleted_comes_back_and_works(world: World) -> None:
    await world.konnector()
    link = await world.bound()
    await world.consumer.create(WIDGETS, widget())
    namespace = await link.provider_namespace()
    await when(world.provider, WIDGETS, "blue", namespace, until=bool)
    old = await world.consumer.get(CUSTOMRESOURCEDEFINITIONS, "widgets.example.org")
    await world.consumer.delete(CUSTOMRESOURCEDEFINITIONS, "widgets.example.org")
    await gone(world.provider, WIDGETS, "blue", namespace)
    await when(
        world.consumer,
        CUSTOMRESOURCEDEFINITIONS,
        "widgets.example.org",
        until=lambda body: body and body["metadata"]["uid"] != old.meta.uid,
    )
    await link.bind()
    await world.consumer.create(WIDGETS, widget("again"))
    await when(world.provider, WIDGETS, "again", namespace, until=bool)


async def test_an_export_that_goes_is_told_and_objects_can_still_be_deleted(
    world: World,
) -> None:
    await world.konnector()
    link = await world.bound()
    await world.consumer.create(WIDGETS, widget())
    namespace = await link.provider_namespace()
    await when(world.provider, WIDGETS, "blue", namespace, until=bool)
    await world.provider.delete(APISERVICEEXPORTS, "widgets", link.cluster_namespace)
    told = await link.condition("Connected", fails)
    assert told["reason"] == "APIServiceExportNotFound"
    await world.consumer.delete(APISERVICEBINDINGS, "widgets")
    await gone(world.consumer, APISERVICEBINDINGS, "widgets")


async def test_nothing_leaks_from_one_provider_to_another(
    world: World, stack: AsyncExitStack
) -> None:
    """The second provider claims ConfigMaps and Secrets under the same names."""
    await world.konnector()
    link = await world.bound()
    plane, admin = await world.plane("second")
    await stack.enter_async_context(providing(admin, group="other.org"))
    second = await invited(world.consumer, admin, name="gadgets", template="other.org")
    await second.bind()
    await world.consumer.create(WIDGETS, widget())
    namespace = await link.provider_namespace()
    await when(world.provider, WIDGETS, "blue", namespace, until=bool)
    theirs = {**widget(), "apiVersion": "other.org/v1"}
    gadgets = await world.consumer.discovery.resource_for("other.org/v1", "Widget")
    await world.consumer.create(gadgets, theirs)
    other = await second.provider_namespace()
    await when(admin, gadgets, "blue", other, until=bool)
    await world.provider.create(SECRETS, secret("blue-origin", namespace, from_="first"))
    await when(world.consumer, SECRETS, "blue-origin", "default", until=bool)
    await idle(0.3)
    with pytest.raises(NotFound):
        await admin.get(SECRETS, "blue-origin", other)
    await admin.create(SECRETS, secret("blue-origin", other, from_="second"))
    told = await second.condition("Conflicts", bool)
    assert told["reason"] == "ForeignObjectExists"
    kept = (await world.consumer.get(SECRETS, "blue-origin", "default")).to_dict()
    assert base64.b64decode(kept["data"]["from_"]) == b"first"
    requests = Requests(plane)
    await world.consumer.delete(APISERVICEBINDINGS, "gadgets")
    await gone(world.consumer, APISERVICEBINDINGS, "gadgets")
    assert (await world.consumer.get(SECRETS, "blue-origin", "default")).meta.deleting is False
    await link.condition("Ready", holds)
    await quiet(requests)


async def test_copies_outlive_a_while_in_which_what_refers_to_them_is_not_served(
    world: World,
) -> None:
    await world.konnector()
    link = await world.bound()
    await world.consumer.create(WIDGETS, widget())
    namespace = await link.provider_namespace()
    await world.provider.create(SECRETS, secret("blue-origin", namespace))
    before = await when(world.consumer, SECRETS, "blue-origin", "default", until=bool)
    requests = Requests(world.consumer_plane)
    world.consumer_plane.faults.fail("*", "widgets", 404, times=-1)
    world.consumer_plane.faults.drop_watches()
    async with asyncio.timeout(SECONDS):
        # The watch and two lists empty the cache; the third list comes long after that.
        while requests.count("list", resource="widgets") < 3:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    kept = await world.consumer.get(SECRETS, "blue-origin", "default")
    assert kept.meta.uid == before["metadata"]["uid"]
