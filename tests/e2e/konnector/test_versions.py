"""Kinds of several versions: no write of the konnector takes a field from an object."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from tests.support.konnector import Link, World, invited
from tests.support.provider import example
from tests.support.waiting import condition, gone, idle, when

from fairlead.api.kubebind import (
    APISERVICEBINDINGS,
    APISERVICEEXPORTS,
    APISERVICEEXPORTTEMPLATES,
    BOUNDSCHEMAS,
    FINALIZER_SYNCER,
)
from fairlead.api.meta import JSON
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS, Resource
from fairlead.client import Client, NotFound
from fairlead.demo.identity import create_all
from fairlead.konnector.commands.request import BindError
from fairlead.provider.manifests import export_roles
from fairlead.runtime import install_crds


TEXT: JSON = {"type": "string"}
COLOUR: JSON = {"colour": TEXT}
SIZE: JSON = {"colour": TEXT, "size": {"type": "integer"}}


def version(name: str, fields: JSON, how: str = "served") -> JSON:
    properties = {
        "spec": {"type": "object", "properties": fields},
        "status": {"type": "object", "properties": {"done": {"type": "integer"}}},
    }
    return {
        "name": name,
        "served": "served" in how,
        "storage": "stored" in how,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
        "subresources": {"status": {}},
    }


class Boxes:
    """A kind of some versions that a provider exports, and one object of it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.v1 = Resource(world.group, "v1", "boxes", "Box")
        self.beta = msgspec.structs.replace(self.v1, version="v1beta1")
        self.name = self.v1.group_resource
        self.place = ""

    async def offer(self, *versions: JSON, policy: str = "Always") -> Link:
        """Export the kind in these versions, and invite the consumer."""
        provider, names = self.world.provider, {"plural": "boxes", "kind": "Box"}
        crd = example("crd")
        spec = {**crd["spec"], "group": self.v1.group, "names": names, "versions": list(versions)}
        metadata = {**crd["metadata"], "name": self.name}
        await create_all(provider, export_roles([self.name]))
        await install_crds(provider, [{**crd, "metadata": metadata, "spec": spec}])
        name = f"boxes-{self.v1.group.partition('.')[0]}"
        resource = {"group": self.v1.group, "resource": "boxes", "versions": ["v1"]}
        template = {"scope": "Namespaced", "resources": [resource], "schemaUpdatePolicy": policy}
        body = {**example("template"), "metadata": {"name": name}, "spec": template}
        await provider.create(APISERVICEEXPORTTEMPLATES, body)
        self.link = await invited(self.world.consumer, provider, name=name, template=name)
        return self.link

    async def reversion(self, *versions: JSON) -> None:
        """Change the provider's CRD."""
        crd = (await self.world.provider.get(CUSTOMRESOURCEDEFINITIONS, self.name)).to_dict()
        crd["spec"]["versions"] = list(versions)
        await self.world.provider.update(CUSTOMRESOURCEDEFINITIONS, crd)

    def body(self, resource: Resource, name: str = "a", **spec: Any) -> JSON:
        return {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": name, "namespace": "default"},
            "spec": spec,
        }

    async def here(self, name: str = "a") -> JSON:
        """The object in the version in which it is stored."""
        return (await self.world.consumer.get(self.v1, name, "default")).to_dict()

    async def copied(self, name: str = "a", **spec: Any) -> JSON:
        """The copy, once it is so."""
        self.place = self.place or await self.link.provider_namespace()

        def so(body: JSON) -> bool:
            return bool(body) and body.get("spec") == spec

        return await when(self.world.provider, self.v1, name, self.place, until=so)

    async def told(self, *parts: str) -> str:
        """What the binding says of lost fields, once it says these parts."""

        def so(found: JSON) -> bool:
            said = found.get("reason") == "FieldsLost"
            return said and all(part in found["message"] for part in parts)

        message: str = (await self.link.condition("Connected", so))["message"]
        return message


@pytest.fixture
async def boxes(world: World) -> Boxes:
    await world.konnector(unbind_timeout=1.0)
    return Boxes(world)


@pytest.fixture
async def any_boxes(any_world: World) -> Boxes:
    await any_world.konnector()
    return Boxes(any_world)


SEVERAL = (version("v1beta1", COLOUR), version("v1", SIZE, "served stored"))
UNSERVED = (version("v1beta1", COLOUR), version("v1", SIZE, "stored"))


async def test_no_field_is_lost_on_the_way_through_several_versions(any_boxes: Boxes) -> None:
    boxes = any_boxes
    await (await boxes.offer(*SEVERAL)).bind()
    consumer, provider = boxes.world.consumer, boxes.world.provider
    await consumer.create(boxes.v1, boxes.body(boxes.v1, size=3))
    await boxes.copied(size=3)
    done = {"status": {"done": 1}}
    await provider.merge_patch(boxes.v1, "a", boxes.place, done, subresource="status")
    await when(
        consumer, boxes.v1, "a", "default", until=lambda body: body.get("status") == {"done": 1}
    )
    assert (await boxes.here())["spec"] == {"size": 3}
    # The other party has something to do when the object goes, and needs the fields for it.
    held = {"metadata": {"finalizers": ["example.org/hold"]}}
    await provider.merge_patch(boxes.v1, "a", boxes.place, held)
    await consumer.delete(boxes.v1, "a", "default")
    copy = await when(
        provider,
        boxes.v1,
        "a",
        boxes.place,
        until=lambda body: body["metadata"].get("deletionTimestamp"),
    )
    assert (copy["spec"], (await boxes.here())["spec"]) == ({"size": 3}, {"size": 3})
    await provider.merge_patch(boxes.v1, "a", boxes.place, {"metadata": {"finalizers": None}})
    await gone(consumer, boxes.v1, "a", "default")


async def test_objects_keep_their_fields_while_the_storage_version_moves(
    any_boxes: Boxes,
) -> None:
    """Users write the new field from the moment on at which the consumer's cluster knows it."""
    boxes = any_boxes
    await (await boxes.offer(version("v1beta1", COLOUR, "served stored"))).bind()
    consumer = boxes.world.consumer
    for number in range(20):
        body = boxes.body(boxes.beta, f"old{number}", colour="blue")
        await consumer.create(boxes.beta, body)
    await when(consumer, boxes.beta, "old19", "default", until=bool)
    async with _written(consumer, boxes) as names:
        await boxes.reversion(*SEVERAL)
        await boxes.link.says(Ready="True", Connected="True", SchemaInSync="True")
        await boxes.copied("new9", size=3)
    assert {"old0", "new9"} <= names
    for name in names:
        await boxes.copied(name, **(await boxes.here(name))["spec"])
        assert (await boxes.here(name))["spec"]["size"] == 3, name
    crd = (await consumer.get(CUSTOMRESOURCEDEFINITIONS, boxes.name)).to_dict()
    assert crd["status"]["storedVersions"] == ["v1beta1", "v1"]


@asynccontextmanager
async def _written(consumer: Client, boxes: Boxes) -> AsyncIterator[set[str]]:
    """The names of objects that users of the new version write meanwhile, as soon as they can."""
    names: set[str] = set()

    async def write() -> None:
        while len(names) < 30:
            kept = 20 + len([name for name in names if name.startswith("new")])
            try:
                for number in range(len(names), 20):
                    await consumer.merge_patch(
                        boxes.v1, f"old{number}", "default", {"spec": {"size": 3}}
                    )
                    names.add(f"old{number}")
                name = f"new{kept - 20}"
                await consumer.create(boxes.v1, boxes.body(boxes.v1, name, size=3))
                names.add(name)
            except NotFound:
                await asyncio.sleep(0.005)

    task = asyncio.create_task(write())
    try:
        yield names
        await task
    finally:
        task.cancel()


async def test_a_binding_without_a_lossless_version_writes_nothing_until_it_has_one(
    any_boxes: Boxes,
) -> None:
    boxes = any_boxes
    link = await boxes.offer(*SEVERAL)
    await link.bind()
    consumer, provider = boxes.world.consumer, boxes.world.provider
    await consumer.create(boxes.v1, boxes.body(boxes.v1, size=3))
    await boxes.copied(size=3)
    # As it is after a former konnector, which followed the provider: v1 is served on no side.
    await boxes.world.one.stop()
    await consumer.merge_patch(boxes.v1, "a", "default", {"spec": {"colour": "red"}})
    await boxes.reversion(*UNSERVED)
    schema = await when(
        provider,
        BOUNDSCHEMAS,
        boxes.name,
        link.cluster_namespace,
        until=lambda body: not body["spec"]["versions"][1]["served"],
    )
    crd = (await consumer.get(CUSTOMRESOURCEDEFINITIONS, boxes.name)).to_dict()
    for one in crd["spec"]["versions"]:
        one["served"] = one["name"] == "v1beta1"
    await consumer.update(CUSTOMRESOURCEDEFINITIONS, crd)
    await when(consumer, boxes.beta, "a", "default", until=bool)
    before = (await consumer.get(boxes.beta, "a", "default")).meta.resource_version
    copy = (await provider.get(boxes.beta, "a", boxes.place)).meta.resource_version
    await boxes.world.one.start()
    told = await boxes.told("on the provider v1beta1 lacks .spec.size of v1", "in this cluster")
    assert "does not write to objects and their copies" in told

    def repeated(body: JSON) -> bool:
        return condition(body, "ConsumerInSync").get("reason") == "FieldsLost"

    await when(provider, APISERVICEEXPORTS, link.name, link.cluster_namespace, until=repeated)
    assert schema["spec"]["versions"][1]["storage"]
    await idle(0.5)
    assert (await consumer.get(boxes.beta, "a", "default")).meta.resource_version == before
    assert (await provider.get(boxes.beta, "a", boxes.place)).meta.resource_version == copy
    await boxes.reversion(*SEVERAL)
    await link.says(Ready="True", Connected="True")
    await boxes.copied(size=3, colour="red")
    assert (await boxes.here())["spec"] == {"size": 3, "colour": "red"}


async def test_a_schema_that_does_not_follow_stops_writes_once_the_provider_stores_more(
    any_boxes: Boxes,
) -> None:
    boxes = any_boxes
    link = await boxes.offer(version("v1beta1", COLOUR, "served stored"), policy="Never")
    await link.bind()
    consumer, provider = boxes.world.consumer, boxes.world.provider
    await consumer.create(boxes.beta, boxes.body(boxes.beta, colour="red"))
    place = await link.provider_namespace()
    await when(provider, boxes.beta, "a", place, until=bool)
    await boxes.reversion(*SEVERAL)
    told = await boxes.told("on the provider v1beta1 lacks .spec.size of v1")
    assert f"kubectl delete boundschema {boxes.name} -n {link.cluster_namespace}" in told
    # The provider's team has set what the consumer does not know.
    await when(provider, boxes.v1, "a", place, until=bool)
    await provider.merge_patch(boxes.v1, "a", place, {"spec": {"size": 3}})
    await consumer.merge_patch(boxes.beta, "a", "default", {"spec": {"colour": "blue"}})
    await idle(0.5)
    copy = (await provider.get(boxes.v1, "a", place)).to_dict()
    assert copy["spec"] == {"colour": "red", "size": 3}
    await provider.delete(BOUNDSCHEMAS, boxes.name, link.cluster_namespace)
    await link.says(Ready="True", Connected="True")
    await when(provider, boxes.v1, "a", place, until=lambda body: body["spec"]["colour"] == "blue")


async def test_unbinding_without_a_lossless_version_lets_objects_go_and_leaves_the_copies(
    boxes: Boxes,
) -> None:
    link = await boxes.offer(*SEVERAL)
    await link.bind()
    consumer, provider = boxes.world.consumer, boxes.world.provider
    for name in ("a", "held"):
        await consumer.create(boxes.v1, boxes.body(boxes.v1, name, size=3))
        await boxes.copied(name, size=3)
    hold = {"metadata": {"finalizers": ["example.org/hold", FINALIZER_SYNCER]}}
    await consumer.merge_patch(boxes.v1, "held", "default", hold)
    await boxes.reversion(*UNSERVED)
    await boxes.told()
    crd = (await consumer.get(CUSTOMRESOURCEDEFINITIONS, boxes.name)).to_dict()
    for one in crd["spec"]["versions"]:
        one["served"] = one["name"] == "v1beta1"
    await consumer.update(CUSTOMRESOURCEDEFINITIONS, crd)
    await consumer.delete(APISERVICEBINDINGS, link.name)
    await link.condition("Connected", lambda one: "would lose fields" in one["message"])
    await gone(consumer, boxes.beta, "a", "default")
    # Its field is needed by whoever holds the object.
    held = (await consumer.get(boxes.beta, "held", "default")).to_dict()
    assert held["metadata"]["finalizers"] == hold["metadata"]["finalizers"]
    ours = {"metadata": {"finalizers": [FINALIZER_SYNCER]}}
    await consumer.merge_patch(boxes.beta, "held", "default", ours)
    await gone(consumer, APISERVICEBINDINGS, link.name)
    await boxes.reversion(*SEVERAL)
    await boxes.copied("a", size=3)
    assert (await provider.get(boxes.v1, "held", boxes.place)).to_dict()["spec"] == {"size": 3}


async def test_a_schema_that_loses_a_field_is_not_installed_before_the_consumer_agrees(
    boxes: Boxes,
) -> None:
    link = await boxes.offer(version("v1", SIZE, "served stored"))
    await link.bind()
    consumer, provider = boxes.world.consumer, boxes.world.provider
    await consumer.create(boxes.v1, boxes.body(boxes.v1, size=3))
    await boxes.copied(size=3)
    await boxes.reversion(version("v1", COLOUR, "served stored"))
    told = await boxes.told("in this cluster v1 lacks .spec.size of itself as it was")
    assert "objects are synchronised in v1" in told
    await consumer.merge_patch(boxes.v1, "a", "default", {"spec": {"colour": "blue"}})
    await boxes.copied(colour="blue")
    done = {"status": {"done": 1}}
    await provider.merge_patch(boxes.v1, "a", boxes.place, done, subresource="status")
    await when(
        consumer, boxes.v1, "a", "default", until=lambda body: body.get("status") == {"done": 1}
    )
    assert (await boxes.here())["spec"] == {"size": 3, "colour": "blue"}
    crd = (await consumer.get(CUSTOMRESOURCEDEFINITIONS, boxes.name)).to_dict()
    (one,) = crd["spec"]["versions"]
    del one["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"]
    await consumer.update(CUSTOMRESOURCEDEFINITIONS, crd)
    await link.says(Ready="True", Connected="True")


async def test_a_new_binding_without_a_lossless_version_is_refused(boxes: Boxes) -> None:
    link = await boxes.offer(*UNSERVED)
    with pytest.raises(BindError) as refused:
        await link.bind(timeout=3)
    assert "boxes." in str(refused.value)
    assert "v1beta1 lacks .spec.size of v1" in str(refused.value)
    with pytest.raises(NotFound):
        await boxes.world.consumer.get(CUSTOMRESOURCEDEFINITIONS, boxes.name)
