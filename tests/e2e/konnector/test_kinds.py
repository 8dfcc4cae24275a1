"""Kinds of all sorts, from the provider's CRD to objects in step: a right result, or a word."""

from __future__ import annotations

from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from tests.support.konnector import Link, Requests, World, event, invited, quiet
from tests.support.provider import WIDGETS, example
from tests.support.waiting import gone, when

from fairlead.api.kubebind import (
    APISERVICEBINDINGS,
    APISERVICEEXPORTTEMPLATES,
    BOUNDSCHEMAS,
)
from fairlead.api.meta import JSON
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS, NAMESPACES, Resource
from fairlead.client import Client
from fairlead.demo.identity import create_all
from fairlead.konnector.commands.overview.fetch import Overview
from fairlead.konnector.commands.overview.rows import make_row
from fairlead.provider.manifests import export_roles
from fairlead.runtime import install_crds


GROUP = "made.org"
THINGS = Resource(GROUP, "v1", "things", "Thing")
SPEC = {"type": "object", "properties": {"colour": {"type": "string"}}}
ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


@pytest.fixture
async def world(stack: AsyncExitStack) -> World:
    world = World(stack)
    await world.start()
    await world.konnector()
    return world


def version(name: str, *, storage: bool = False, **more: Any) -> JSON:
    return {
        "name": name,
        "served": True,
        "storage": storage,
        "schema": {"openAPIV3Schema": ANYTHING},
        "subresources": {"status": {}},
        **more,
    }


async def offered(world: World, *versions: JSON, **template: Any) -> Link:
    """Things of these versions, exported and bound."""
    crd = example("crd")
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    spec = {**crd["spec"], "group": GROUP, "names": names, "versions": list(versions)}
    metadata = {**crd["metadata"], "name": THINGS.group_resource}
    await create_all(world.provider, export_roles([THINGS.group_resource]))
    await install_crds(world.provider, [{**crd, "metadata": metadata, "spec": spec}])
    resource = {"group": GROUP, "resource": "things", "versions": ["v1"]}
    body = {
        **example("template"),
        "metadata": {"name": "things"},
        "spec": {"scope": "Namespaced", "resources": [resource], **template},
    }
    await world.provider.create(APISERVICEEXPORTTEMPLATES, body)
    link = await invited(world.consumer, world.provider, name="things", template="things")
    await link.bind()
    return link


def thing(name: str = "a", version: str = "v1", **members: Any) -> JSON:
    return {
        "apiVersion": f"{GROUP}/{version}",
        "kind": "Thing",
        "metadata": {"name": name, "namespace": "default"},
        **members,
    }


async def copied(world: World, link: Link, body: JSON, resource: Resource = THINGS) -> JSON:
    """The copy of a new object."""
    name = body["metadata"]["name"]
    await world.consumer.create(resource, body)
    namespace = await link.provider_namespace()
    return await when(world.provider, THINGS, name, namespace, until=bool)


async def test_objects_of_several_versions(world: World) -> None:
    link = await offered(world, version("v1beta1"), version("v1", storage=True))
    beta = msgspec.structs.replace(THINGS, version="v1beta1")
    old = await copied(world, link, thing("old", "v1beta1", spec={"a": 1}), beta)
    new = await copied(world, link, thing("new", spec={"a": 2}))
    assert (old["spec"], new["spec"]) == ({"a": 1}, {"a": 2})
    namespace = await link.provider_namespace()
    await world.provider.merge_patch(
        THINGS, "old", namespace, {"status": {"done": 1}}, subresource="status"
    )
    await when(world.consumer, beta, "old", "default", until=lambda body: body.get("status"))
    await world.consumer.delete(THINGS, "old", "default")
    await gone(world.provider, THINGS, "old", namespace)


async def test_a_kind_without_the_status_subresource_does_not_loop(world: World) -> None:
    link = await offered(world, version("v1", storage=True, subresources={}))
    copy = await copied(world, link, thing(spec={"a": 1}, status={"mine": 1}))
    assert copy["spec"] == {"a": 1}
    namespace = await link.provider_namespace()
    requests = Requests(world.consumer_plane), Requests(world.provider_plane)
    await world.provider.merge_patch(THINGS, "a", namespace, {"status": {"done": 1}})
    await quiet(*requests)
    found = (await world.consumer.get(THINGS, "a", "default")).to_dict()
    assert found["status"] == {"mine": 1}


async def test_selectable_fields_that_a_server_does_not_know_are_told_once_and_do_not_loop(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ignore_selectable_fields(monkeypatch, world)
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": SPEC}}}
    fields = {"schema": schema, "selectableFields": [{"jsonPath": ".spec.colour"}]}
    link = await offered(world, version("v1", storage=True, **fields))
    told = await event(world.consumer, "default", "SelectableFieldsLeftOut")
    assert "selectable fields of things.made.org in v1" in told["message"]
    requests = Requests(world.consumer_plane)
    # Any change of the CRD has the binding looked at again.
    labels = {"metadata": {"labels": {"a": "b"}}}
    name = THINGS.group_resource
    await world.consumer.merge_patch(CUSTOMRESOURCEDEFINITIONS, name, "", labels)
    copy = await copied(world, link, thing(spec={"colour": "red"}))
    assert copy["spec"] == {"colour": "red"}
    await quiet(requests)
    assert requests.count("update", resource=CUSTOMRESOURCEDEFINITIONS.plural) == 0
    again = await event(world.consumer, "default", "SelectableFieldsLeftOut")
    assert again.get("count", 1) == 1


def ignore_selectable_fields(monkeypatch: pytest.MonkeyPatch, world: World) -> None:
    """Have the consumer's server drop selectable fields, as Kubernetes 1.29 does."""
    server = world.consumer.config.server

    def drop(client: Client, resource: Resource, body: JSON) -> JSON:
        if resource != CUSTOMRESOURCEDEFINITIONS or client.config.server != server:
            return body
        versions = [
            {key: value for key, value in one.items() if key != "selectableFields"}
            for one in body["spec"]["versions"]
        ]
        return {**body, "spec": {**body["spec"], "versions": versions}}

    for verb in ("create", "update"):
        original = getattr(Client, verb)

        async def write(
            client: Client,
            resource: Resource,
            body: JSON,
            *more: Any,
            original: Any = original,
            **options: Any,
        ) -> Any:
            return await original(client, resource, drop(client, resource, body), *more, **options)

        monkeypatch.setattr(Client, verb, write)


async def test_members_other_than_the_spec_follow(world: World) -> None:
    link = await offered(world, version("v1", storage=True))
    copy = await copied(world, link, thing(data={"a": "1"}, immutable=True))
    assert (copy["data"], copy["immutable"]) == ({"a": "1"}, True)
    namespace = await link.provider_namespace()
    await world.consumer.merge_patch(
        THINGS, "a", "default", {"data": {"a": None, "b": "2"}, "immutable": None}
    )
    copy = await when(
        world.provider, THINGS, "a", namespace, until=lambda body: body["data"] == {"b": "2"}
    )
    assert "immutable" not in copy


async def test_a_changed_schema_reaches_the_consumer_as_the_policy_says(
    world: World,
) -> None:
    link = await offered(world, version("v1", storage=True), schemaUpdatePolicy="Always")
    found = (await world.provider.get(CUSTOMRESOURCEDEFINITIONS, THINGS.group_resource)).to_dict()
    found["spec"]["versions"].append(version("v2"))
    await world.provider.update(CUSTOMRESOURCEDEFINITIONS, found)
    crd = await when(
        world.consumer,
        CUSTOMRESOURCEDEFINITIONS,
        THINGS.group_resource,
        until=lambda body: len(body["spec"]["versions"]) == 2,
    )
    assert [one["name"] for one in crd["spec"]["versions"]] == ["v1", "v2"]
    newer = msgspec.structs.replace(THINGS, version="v2")
    await copied(world, link, thing("b", "v2", spec={"a": 1}), newer)


async def reversioned(world: World, *versions: JSON) -> None:
    """Give the provider's CRD of things these versions, with its objects stored in the last."""
    name = THINGS.group_resource

    async def change(*now: JSON) -> None:
        crd = (await world.provider.get(CUSTOMRESOURCEDEFINITIONS, name)).to_dict()
        crd["spec"]["versions"] = list(now)
        await world.provider.update(CUSTOMRESOURCEDEFINITIONS, crd)

    crd = (await world.provider.get(CUSTOMRESOURCEDEFINITIONS, name)).to_dict()
    names = {one["name"] for one in versions}
    old = [one for one in crd["spec"]["versions"] if one["name"] not in names]
    await change(*versions, *({**one, "storage": False} for one in old))
    stored = {"status": {"storedVersions": [versions[-1]["name"]]}}
    await world.provider.merge_patch(
        CUSTOMRESOURCEDEFINITIONS, name, "", stored, subresource="status"
    )
    await change(*versions)


async def test_a_version_that_the_provider_removes_is_kept_as_long_as_objects_are_stored_in_it(
    world: World,
) -> None:
    name = THINGS.group_resource
    link = await offered(world, version("v1", storage=True), schemaUpdatePolicy="Always")
    await copied(world, link, thing(spec={"a": 1}))
    namespace = await link.provider_namespace()
    await world.one.stop()
    await reversioned(world, version("v2", storage=True))
    await world.one.start()
    newer = msgspec.structs.replace(THINGS, version="v2")
    told = await link.condition("VersionsRemoved", bool)
    assert told["status"] == "True"
    assert f"no longer has version v1 of {name}" in told["message"]
    assert "have to use v2" in told["message"]
    await link.says(Ready="True", Connected="True", SchemaInSync="True", InformersSynced="True")
    await world.consumer.merge_patch(newer, "a", "default", {"spec": {"a": 2}})
    await when(world.provider, newer, "a", namespace, until=lambda body: body["spec"] == {"a": 2})
    assert (await problem(world)).startswith("StoredVersions: the provider no longer has")
    stored = {"status": {"storedVersions": ["v2"]}}
    await world.consumer.merge_patch(
        CUSTOMRESOURCEDEFINITIONS, name, "", stored, subresource="status"
    )
    await link.condition("VersionsRemoved", lambda one: not one)
    crd = await when(
        world.consumer,
        CUSTOMRESOURCEDEFINITIONS,
        name,
        until=lambda body: len(body["spec"]["versions"]) == 1,
    )
    assert crd["spec"]["versions"][0]["name"] == "v2"


async def test_a_removed_version_is_served_again_when_the_provider_does(world: World) -> None:
    link = await offered(world, version("v1", storage=True), schemaUpdatePolicy="Always")
    await copied(world, link, thing(spec={"a": 1}))
    await reversioned(world, version("v2", storage=True))
    await link.condition("VersionsRemoved", bool)
    await reversioned(world, version("v1", storage=True))
    await link.condition("VersionsRemoved", lambda one: "version v2 of" in one.get("message", ""))
    found = await when(world.consumer, THINGS, "a", "default", until=bool)
    assert found["spec"] == {"a": 1}
    await link.says(Ready="True")


async def test_a_version_that_is_served_no_more_and_not_followed_is_named_with_the_remedy(
    world: World,
) -> None:
    name = THINGS.group_resource
    link = await offered(world, version("v1", storage=True))
    await copied(world, link, thing(spec={"a": 1}))
    namespace = await link.provider_namespace()
    await reversioned(world, version("v2", storage=True))
    told = await link.condition(
        "InformersSynced", lambda one: "serves version v1" in one.get("message", "")
    )
    remedy = f"kubectl delete boundschema {name} -n {link.cluster_namespace}"
    assert f"no longer serves version v1 of {name}" in told["message"]
    assert "but v2: its administrator has to serve v1 again" in told["message"]
    assert remedy in told["message"]
    await world.provider.delete(BOUNDSCHEMAS, name, link.cluster_namespace)
    await link.says(Ready="True", VersionsRemoved="True")
    newer = msgspec.structs.replace(THINGS, version="v2")
    await world.consumer.merge_patch(newer, "a", "default", {"spec": {"a": 2}})
    await when(world.provider, newer, "a", namespace, until=lambda body: body["spec"] == {"a": 2})


async def test_a_version_that_is_served_again_heals(world: World) -> None:
    link = await offered(world, version("v1", storage=True))
    await copied(world, link, thing(spec={"a": 1}))
    namespace = await link.provider_namespace()
    await reversioned(world, version("v2", storage=True))
    await link.condition(
        "InformersSynced", lambda one: "serves version v1" in one.get("message", "")
    )
    await world.consumer.merge_patch(THINGS, "a", "default", {"spec": {"a": 2}})
    await reversioned(world, version("v2"), version("v1", storage=True))
    await when(world.provider, THINGS, "a", namespace, until=lambda body: body["spec"] == {"a": 2})
    await link.says(Ready="True")


async def problem(world: World) -> str:
    async with Overview(world.consumer) as overview:
        (bound,) = await overview.fetch()
    row = make_row(bound, datetime.now(UTC))
    return row.problem or "; ".join(remark.text for remark in row.remarks)


async def test_namespaces_that_a_template_asks_for_are_made_on_both_sides(
    world: World,
) -> None:
    link = await offered(world, version("v1", storage=True), namespaces=[{"name": "ready-made"}])
    made = await when(world.consumer, NAMESPACES, "ready-made", until=bool)
    assert made["metadata"]["labels"]["kube-bind.io/owner"] == "provider"
    assert await link.provider_namespace("ready-made")
    body = thing()
    body["metadata"]["namespace"] = "ready-made"
    await world.consumer.create(THINGS, body)
    namespace = await link.provider_namespace("ready-made")
    await when(world.provider, THINGS, "a", namespace, until=bool)


async def test_a_scrape_tells_of_each_bindings_objects(world: World) -> None:
    link = await world.bound()
    await world.consumer.create(WIDGETS, world.widget())
    namespace = await link.provider_namespace()
    await when(world.provider, WIDGETS, "blue", namespace, until=bool)
    await world.provider.merge_patch(
        WIDGETS, "blue", namespace, {"status": {"made": 3}}, subresource="status"
    )
    await when(world.consumer, WIDGETS, "blue", "default", until=lambda body: body.get("status"))
    series = {"binding": "widgets", "resource": "widgets.example.org"}
    await world.one.tells("fairlead_sync_objects_in_sync", 1, **series)
    assert world.one.sample("fairlead_sync_conflicts", **series) == 0
    for direction in ("spec", "status"):
        name = "fairlead_sync_latency_seconds_count"
        assert world.one.sample(name, direction=direction, **series) == 1
    await world.consumer.delete(APISERVICEBINDINGS, "widgets")
    await gone(world.consumer, APISERVICEBINDINGS, "widgets")
    await world.one.tells("fairlead_sync_conflicts", None, **series)
