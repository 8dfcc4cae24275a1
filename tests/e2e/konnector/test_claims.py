"""Claimed objects of all three kinds, by all three selectors, in both directions."""

from __future__ import annotations

import base64
import tracemalloc
from contextlib import AsyncExitStack
from typing import NamedTuple

import pytest
from tests.support.konnector import Link, World, event, hide_from_discovery, invited, secret
from tests.support.provider import example
from tests.support.waiting import condition, gone, when

from fairlead.api.kubebind import (
    APISERVICEBINDINGS,
    APISERVICEEXPORTTEMPLATES,
    APISERVICENAMESPACES,
)
from fairlead.api.meta import JSON
from fairlead.api.resource import CONFIGMAPS, NAMESPACES, SECRETS, SERVICEACCOUNTS, Resource
from fairlead.client import Client
from fairlead.demo.identity import create_all
from fairlead.provider.manifests import export_roles
from fairlead.provider.options import ProviderOptions


CLAIMED = {"example.org/claimed": "yes"}


class Side(NamedTuple):
    """One cluster and the namespace there; ``owner`` is what originals there are labelled."""

    client: Client
    namespace: str
    owner: str


@pytest.fixture
async def world(stack: AsyncExitStack) -> World:
    return await started(stack)


async def started(stack: AsyncExitStack, options: ProviderOptions | None = None) -> World:
    world = World(stack, options=options)
    await world.start()
    await world.konnector()
    return world


async def bound(world: World) -> Link:
    """Widgets with claims on every kind that can be claimed, by all selectors."""
    selector = {
        "labelSelector": {"matchLabels": CLAIMED},
        "namedResources": [{"name": "named", "namespace": "default"}, {"name": "anywhere"}],
        "references": [
            {
                "group": world.group,
                "resource": "widgets",
                "jsonPath": {"name": "spec.certificates.#.name", "namespace": ""},
            }
        ],
    }
    plurals = [one.plural for one in (SECRETS, CONFIGMAPS, SERVICEACCOUNTS)]
    claims = [{"group": "", "resource": one, "selector": selector} for one in plurals]
    await create_all(world.provider, export_roles([f"widgets.{world.group}"], claims=plurals))
    return await claiming(world, *claims)


async def claiming(world: World, *claims: JSON) -> Link:
    """Widgets with these claims, whether the provider has the rights to give or not."""
    resource = {"group": world.group, "resource": "widgets", "versions": ["v1"]}
    body = {
        **example("template"),
        "metadata": {"name": "claims"},
        "spec": {"scope": "Namespaced", "resources": [resource], "permissionClaims": claims},
    }
    await world.provider.create(APISERVICEEXPORTTEMPLATES, body)
    link = await invited(world.consumer, world.provider, name="claims", template="claims")
    await link.bind()
    return link


async def sides(world: World, link: Link, *, reverse: bool) -> tuple[Side, Side]:
    """Where originals are made, and where copies come."""
    first = world.widget("first", certificates=[{"name": "referred"}])
    await world.consumer.create(world.widgets, first)
    here = Side(world.consumer, "default", "consumer")
    there = Side(world.provider, await link.provider_namespace(), "provider")
    return (there, here) if reverse else (here, there)


def thing(resource: Resource, name: str, namespace: str, **labels: str) -> JSON:
    """A claimable object with something to copy."""
    members: JSON = {"imagePullSecrets": [{"name": "a"}]}
    if resource == SECRETS:
        members = {"data": {"a": base64.b64encode(b"b").decode()}}
    elif resource == CONFIGMAPS:
        members = {"data": {"a": "b"}}
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": resource.kind, "metadata": metadata, **members}


def payload(body: JSON) -> JSON:
    return {key: body[key] for key in ("data", "imagePullSecrets", "immutable") if key in body}


@pytest.mark.parametrize("reverse", [False, True], ids=["to-provider", "to-consumer"])
@pytest.mark.parametrize(
    "resource", [SECRETS, CONFIGMAPS, SERVICEACCOUNTS], ids=lambda one: one.plural
)
@pytest.mark.parametrize("scope", ["Namespaced", "Cluster"])
async def test_a_claimed_object_and_its_copy(
    stack: AsyncExitStack, resource: Resource, reverse: bool, scope: str
) -> None:
    options = ProviderOptions(consumer_scope="Cluster") if scope == "Cluster" else None
    world = await started(stack, options)
    link = await bound(world)
    mine, theirs = await sides(world, link, reverse=reverse)
    names = {"labelled": CLAIMED, "named": {}, "anywhere": {}, "referred": {}, "other": {}}
    for name, labels in names.items():
        body = thing(resource, name, mine.namespace, **labels)
        await mine.client.create(resource, body)
    for name in names.keys() - {"other"}:
        copy = await when(theirs.client, resource, name, theirs.namespace, until=bool)
        original = await when(
            mine.client,
            resource,
            name,
            mine.namespace,
            until=lambda body: "kube-bind.io/owner" in body["metadata"].get("labels", {}),
        )
        assert payload(copy) == payload(original)
        for body in (copy, original):
            assert body["metadata"]["labels"]["kube-bind.io/owner"] == mine.owner
        found = copy["metadata"]["annotations"]
        assert found[f"kube-bind.io/{mine.owner}-namespace"] == mine.namespace
        assert found[f"kube-bind.io/{mine.owner}-uid"] == original["metadata"]["uid"]
        if not reverse:
            assert found["kube-bind.io/cluster-namespace"] == link.cluster_namespace
    await gone(theirs.client, resource, "other", theirs.namespace)
    # What its owner changes comes over, what others do to the copy does not stay.
    change = {"metadata": {"annotations": {"told": "yes"}}}
    await mine.client.merge_patch(resource, "labelled", mine.namespace, change)
    copy = await when(
        theirs.client,
        resource,
        "labelled",
        theirs.namespace,
        until=lambda body: body["metadata"]["annotations"].get("told") == "yes",
    )
    await theirs.client.delete(resource, "labelled", theirs.namespace)
    await when(
        theirs.client,
        resource,
        "labelled",
        theirs.namespace,
        until=lambda body: body and body["metadata"]["uid"] != copy["metadata"]["uid"],
    )
    await mine.client.delete(resource, "labelled", mine.namespace)
    await gone(theirs.client, resource, "labelled", theirs.namespace)
    await gone(mine.client, resource, "labelled", mine.namespace)


async def test_references_of_a_bound_kind_need_no_discovery(world: World) -> None:
    hide_from_discovery(world.consumer_plane, world.group)
    link = await bound(world)
    mine, theirs = await sides(world, link, reverse=False)
    await mine.client.create(SECRETS, thing(SECRETS, "referred", mine.namespace))
    await when(theirs.client, SECRETS, "referred", theirs.namespace, until=bool)


async def test_rights_that_the_provider_lacks_are_told_until_it_has_them(world: World) -> None:
    kind, plural = f"widgets.{world.group}", SERVICEACCOUNTS.plural
    selector = {"labelSelector": {"matchLabels": CLAIMED}}
    link = await claiming(world, {"group": "", "resource": plural, "selector": selector})
    await world.consumer.create(world.widgets, world.widget())
    told = await link.condition("InformersSynced", lambda found: found.get("status") == "False")
    assert "cannot grant the konnector all the rights" in told["message"]
    assert "PermissionsGranted of APIServiceExport claims" in told["message"]
    await link.says(Ready="False", Connected="True")
    await create_all(world.provider, export_roles([kind], claims=[plural]))
    await link.says(Ready="True")
    namespace = await link.provider_namespace()
    await when(world.provider, world.widgets, "blue", namespace, until=bool)


@pytest.mark.parametrize("reverse", [False, True], ids=["to-provider", "to-consumer"])
@pytest.mark.parametrize("resource", [SECRETS, CONFIGMAPS], ids=lambda one: one.plural)
async def test_an_immutable_copy_is_replaced(
    world: World, resource: Resource, reverse: bool
) -> None:
    link = await bound(world)
    mine, theirs = await sides(world, link, reverse=reverse)
    old = {**thing(resource, "named", mine.namespace), "immutable": True}
    await mine.client.create(resource, old)
    first = await when(theirs.client, resource, "named", theirs.namespace, until=bool)
    assert first["immutable"] is True
    await mine.client.delete(resource, "named", mine.namespace)
    new = {**old, "data": {"a": base64.b64encode(b"c").decode()}}
    await mine.client.create(resource, new)
    copy = await when(
        theirs.client,
        resource,
        "named",
        theirs.namespace,
        until=lambda body: body and body["data"] == new["data"],
    )
    assert copy["immutable"] is True
    assert copy["metadata"]["uid"] != first["metadata"]["uid"]


@pytest.mark.parametrize("reverse", [False, True], ids=["to-provider", "to-consumer"])
async def test_a_secret_of_another_type_is_replaced(world: World, reverse: bool) -> None:
    link = await bound(world)
    mine, theirs = await sides(world, link, reverse=reverse)
    body = {**secret("named", mine.namespace, username="a", password="b")}
    await mine.client.create(SECRETS, body)
    await when(theirs.client, SECRETS, "named", theirs.namespace, until=bool)
    await mine.client.delete(SECRETS, "named", mine.namespace)
    await mine.client.create(SECRETS, {**body, "type": "kubernetes.io/basic-auth"})
    await when(
        theirs.client,
        SECRETS,
        "named",
        theirs.namespace,
        until=lambda body: body and body["type"] == "kubernetes.io/basic-auth",
    )


@pytest.mark.parametrize("reverse", [False, True], ids=["to-provider", "to-consumer"])
async def test_a_token_of_a_service_account_stays_where_it_is(world: World, reverse: bool) -> None:
    link = await bound(world)
    mine, theirs = await sides(world, link, reverse=reverse)
    body = secret("named", mine.namespace)
    account = {"kubernetes.io/service-account.name": "default"}
    body["metadata"]["annotations"] = account
    await mine.client.create(SECRETS, {**body, "type": "kubernetes.io/service-account-token"})
    await mine.client.create(SECRETS, secret("anywhere", mine.namespace))
    await when(theirs.client, SECRETS, "anywhere", theirs.namespace, until=bool)
    if not reverse:
        told = await event(world.consumer, "default", "ClusterToken")
        assert "never copied" in told["message"]
    await gone(theirs.client, SECRETS, "named", theirs.namespace)


async def test_a_label_that_comes_later_asks_for_a_namespace(world: World) -> None:
    link = await bound(world)
    late = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "late"}}
    await world.consumer.create(NAMESPACES, late)
    await world.consumer.create(CONFIGMAPS, thing(CONFIGMAPS, "plan", "late"))
    await world.consumer.create(CONFIGMAPS, thing(CONFIGMAPS, "sign", "default", **CLAIMED))
    namespace = await link.provider_namespace("default")
    await when(world.provider, CONFIGMAPS, "sign", namespace, until=bool)
    await gone(world.provider, APISERVICENAMESPACES, "late", link.cluster_namespace)
    change = {"metadata": {"labels": CLAIMED}}
    await world.consumer.merge_patch(CONFIGMAPS, "plan", "late", change)
    namespace = await link.provider_namespace("late")
    await when(world.provider, CONFIGMAPS, "plan", namespace, until=bool)


@pytest.mark.parametrize("labelled", ["consumer", "provider"])
async def test_what_exists_on_both_sides_is_a_conflict_until_one_goes(
    world: World, labelled: str
) -> None:
    """Whichever side's object the label selector is about."""
    link = await bound(world)
    here, there = await sides(world, link, reverse=False)
    # The one that is not claimed is first: it is nobody's to take when the other comes.
    order = [(here, "consumer"), (there, "provider")]
    for side, name in reversed(order) if labelled == "consumer" else order:
        body = thing(CONFIGMAPS, "both", side.namespace, **(CLAIMED if name == labelled else {}))
        body["data"] = {"from": name}
        await side.client.create(CONFIGMAPS, body)
    told = await link.condition("Conflicts", lambda one: one.get("status") == "True")
    assert told["reason"] == "OwnerUnknown"
    await link.condition("Ready", lambda one: one.get("status") == "True")
    for side in (here, there):
        found = (await side.client.get(CONFIGMAPS, "both", side.namespace)).to_dict()
        assert found["data"] == {"from": "consumer" if side is here else "provider"}
    loser, winner = (there, here) if labelled == "consumer" else (here, there)
    await loser.client.delete(CONFIGMAPS, "both", loser.namespace)
    await when(
        loser.client,
        CONFIGMAPS,
        "both",
        loser.namespace,
        until=lambda body: body and body["data"] == {"from": labelled},
    )
    await when(
        world.consumer,
        APISERVICEBINDINGS,
        link.name,
        until=lambda body: not condition(body, "Conflicts"),
    )
    assert (await winner.client.get(CONFIGMAPS, "both", winner.namespace)).to_dict()


async def test_what_no_claim_selects_is_kept_without_its_content(world: World) -> None:
    """On both sides; once it is selected its content crosses, and its changes do."""
    link = await bound(world)
    here, there = await sides(world, link, reverse=False)
    content = {"data": {"text": "x" * 200_000}}
    applied = {"kubectl.kubernetes.io/last-applied-configuration": "y" * 200_000}
    for side in (here, there):
        for number in range(20):
            metadata = {
                "name": f"large-{number}",
                "namespace": side.namespace,
                "annotations": applied,
            }
            await side.client.create(CONFIGMAPS, {**config_map(metadata), **content})
    chosen = {"name": "chosen", "namespace": "default", "labels": CLAIMED}
    await world.consumer.create(CONFIGMAPS, {**config_map(chosen), **content})
    await when(world.provider, CONFIGMAPS, "chosen", there.namespace, until=bool)
    cached = [
        sample.value
        for family in world.one.registry.collect()
        for sample in family.samples
        if family.name == "fairlead_informer_bytes" and sample.labels["resource"] == "configmaps"
    ]
    assert len(cached) == 2
    assert sum(cached) < 1_000
    tracemalloc.start()
    try:
        await world.one.stop()
        await world.one.start()
        await world.consumer.merge_patch(CONFIGMAPS, "chosen", "default", {"data": {"text": "z"}})
        await when(
            world.provider,
            CONFIGMAPS,
            "chosen",
            there.namespace,
            until=lambda body: body["data"]["text"] == "z",
        )
        taken = tracemalloc.take_snapshot()
    finally:
        tracemalloc.stop()
    # Without the sandboxes and the buffers of connections; the objects have 16 MB.
    ours = taken.filter_traces(
        [tracemalloc.Filter(inclusive=True, filename_pattern="*/fairlead/*")]
    )
    assert sum(one.size for one in ours.statistics("filename")) < 4_000_000
    labels = {"metadata": {"labels": CLAIMED}}
    await world.consumer.merge_patch(CONFIGMAPS, "large-7", "default", labels)
    found = await when(world.consumer, CONFIGMAPS, "large-7", "default", until=bool)
    await world.provider.delete(CONFIGMAPS, "large-7", there.namespace)
    copy = await when(
        world.provider,
        CONFIGMAPS,
        "large-7",
        there.namespace,
        until=lambda body: body and body["metadata"]["uid"] != found["metadata"]["uid"],
    )
    assert copy["data"] == found["data"]


def config_map(metadata: JSON) -> JSON:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


async def test_a_mark_that_the_claim_names_crosses_and_others_stay(world: World) -> None:
    named, mark = "kapp.k14s.io/app", "meta.helm.sh/release-name"
    selector = {"labelSelector": {"matchExpressions": [{"key": named, "operator": "Exists"}]}}
    link = await claiming(world, {"group": "", "resource": "secrets", "selector": selector})
    mine, theirs = await sides(world, link, reverse=True)
    body = thing(SECRETS, "credentials", mine.namespace, **{named: "shop"})
    body["metadata"]["annotations"] = {mark: "there"}
    await mine.client.create(SECRETS, body)
    copy = await when(theirs.client, SECRETS, "credentials", theirs.namespace, until=bool)
    assert copy["metadata"]["labels"][named] == "shop"
    assert mark not in copy["metadata"]["annotations"]
