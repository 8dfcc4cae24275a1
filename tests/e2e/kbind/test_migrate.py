"""``fairlead migrate``: from an APIServiceBinding to kbind v2, with objects and their copies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, NamedTuple

import pytest
from tests.support.dying import DyingClient, KilledError
from tests.support.kbindbound import namespace
from tests.support.kbindworld import has
from tests.support.konnector import World
from tests.support.tiers import real
from tests.support.waiting import SECONDS, condition, gone, when

from fairlead.api.kbind import BINDINGS, CLUSTERBINDINGS, CONNECTIONS
from fairlead.api.kbind.names import (
    ANNOTATION_CONSUMER_OBJECT_UID,
    CONSUMER_CLUSTER_UID,
    FIELD_MANAGER,
    FINALIZER_SYNCER,
    LABEL_MANAGED,
)
from fairlead.api.kubebind import (
    APISERVICEBINDINGS,
    APISERVICEEXPORTS,
    APISERVICEEXPORTTEMPLATES,
    APISERVICENAMESPACES,
    binding_of_crd,
)
from fairlead.api.kubebind.conditions import NAMESPACE_READY, OBJECTS_REMAIN
from fairlead.api.kubebind.fields import Scope
from fairlead.api.kubebind.names import ANNOTATION_DELETION_POLICY
from fairlead.api.meta import JSON, Object
from fairlead.api.resource import CLUSTERROLES, CUSTOMRESOURCEDEFINITIONS, NAMESPACES, Resource
from fairlead.client import Client, ClusterConfig
from fairlead.konnector.commands.migrate import migrate, survey
from fairlead.konnector.options import PROTOCOLS
from fairlead.provider.options import ProviderOptions


NAMESPACE = "shop"
"""Namespace of all objects, on both sides: a provider keeps its own `default`."""


class Moved:
    """A binding of v1alpha2 with objects, and what is known of them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.consumer, self.provider = world.consumer, world.provider
        self.name = world.name
        self.widgets = world.widgets
        self.api = self.widgets.group_resource

    async def start(self) -> None:
        claims = {"spec": {"permissionClaims": None}}
        await self.provider.merge_patch(APISERVICEEXPORTTEMPLATES, self.world.group, "", claims)
        await self.world.konnector(protocols=PROTOCOLS)
        self.link = await self.world.bound()
        await namespace(self.consumer, NAMESPACE)
        await self.consumer.create(self.widgets, self.widget("blue", count=3, colour="red"))
        orphan = self.widget("kept")
        orphan["metadata"]["annotations"] = {ANNOTATION_DELETION_POLICY: "Orphan"}
        await self.consumer.create(self.widgets, orphan)
        for name in ("blue", "kept"):
            await when(self.provider, self.widgets, name, NAMESPACE, until=bool)
        await self.status("blue", 1)
        self.before = await self.facts()

    def widget(self, name: str, **spec: Any) -> JSON:
        body = self.world.widget(name, **spec)
        return {**body, "metadata": {**body["metadata"], "namespace": NAMESPACE}}

    async def status(self, name: str, value: int) -> None:
        """Write a status at the provider, and wait for it here."""
        body = {"status": {"made": value}}
        await self.provider.merge_patch(self.widgets, name, NAMESPACE, body, subresource="status")
        await when(
            self.consumer,
            self.widgets,
            name,
            NAMESPACE,
            until=lambda found: found.get("status", {}).get("made") == value,
        )

    async def facts(self) -> dict[str, tuple[Any, ...]]:
        """uid, spec and status of all objects and copies, and the uid of the CRD."""
        crd = await self.consumer.get(CUSTOMRESOURCEDEFINITIONS, self.api)
        result: dict[str, tuple[Any, ...]] = {"crd": (crd.meta.uid,)}
        for side, client in (("here", self.consumer), ("there", self.provider)):
            for obj in (await client.list(self.widgets)).items:
                result[f"{side} {obj.key}"] = (obj.meta.uid, *_content(obj))
        return result

    async def move(
        self,
        client: Client | None = None,
        connect: Callable[[ClusterConfig], Client] = Client,
    ) -> list[str]:
        lines: list[str] = []
        consumer = client or self.consumer
        looked = await survey(consumer, self.name, administrator=self.provider.config)
        await migrate(
            consumer,
            looked,
            administrator=self.provider.config,
            timeout=SECONDS,
            progress=lines.append,
            connect=connect,
        )
        return lines

    async def copy(self, name: str = "blue") -> Object:
        return await self.provider.get(self.widgets, name, NAMESPACE)

    async def check(self) -> None:
        """All is as kbind v2 has it, and nothing was made anew."""
        assert await self.facts() == self.before
        assert [
            one.meta.name for one in (await self.consumer.list(APISERVICEBINDINGS)).items
        ] == []
        crd = await self.consumer.get(CUSTOMRESOURCEDEFINITIONS, self.api)
        assert not crd.meta.owner_references
        assert binding_of_crd(crd.meta) == ""
        system = await self.consumer.get(NAMESPACES, "kube-system")
        for name in ("blue", "kept"):
            obj = await self.consumer.get(self.widgets, name, NAMESPACE)
            assert obj.meta.finalizers == [FINALIZER_SYNCER]
            copy = await self.copy(name)
            marks = {
                CONSUMER_CLUSTER_UID: system.meta.uid,
                ANNOTATION_CONSUMER_OBJECT_UID: obj.meta.uid,
            }
            assert copy.meta.annotations == marks
            assert copy.meta.labels[LABEL_MANAGED] == "true"
            assert not copy.meta.owner_references
            applied = [one["manager"] for one in copy.to_dict()["metadata"]["managedFields"]]
            assert FIELD_MANAGER in applied
            assert "kube-bind.io" not in applied
        assert not [
            one.meta.name
            for one in (await self.consumer.list(CLUSTERROLES)).items
            if one.meta.name == f"kube-bind-konnector-{self.name}"
        ]

    async def works(self) -> None:
        """Objects are synchronised by kbind v2 as they were before."""
        await self.status("blue", 2)
        # A field that only v1alpha2 has written goes with that of its object.
        await self.consumer.merge_patch(
            self.widgets, "blue", NAMESPACE, {"spec": {"certificates": None, "colour": "green"}}
        )

        def follows(body: JSON) -> bool:
            return body["spec"].get("colour") == "green" and "certificates" not in body["spec"]

        await when(self.provider, self.widgets, "blue", NAMESPACE, until=follows)
        await self.consumer.delete(self.widgets, "kept", NAMESPACE)
        await gone(self.consumer, self.widgets, "kept", NAMESPACE)
        copy = await self.copy("kept")
        assert not copy.meta.deleting
        await self.consumer.delete(self.widgets, "blue", NAMESPACE)
        await gone(self.consumer, self.widgets, "blue", NAMESPACE)
        await gone(self.provider, self.widgets, "blue", NAMESPACE)


@asynccontextmanager
async def witnessed(moved: Moved) -> AsyncIterator[None]:
    """Fail if an object, a copy or the CRD is deleted meanwhile, or a spec or status changes."""
    crds = CUSTOMRESOURCEDEFINITIONS
    watches = [(moved.consumer, moved.widgets), (moved.provider, moved.widgets)]
    wrong: list[str] = []

    async def follow(client: Client, resource: Resource, version: str, facts: JSON) -> None:
        async for event in client.watch(resource, resource_version=version):
            if event.type == "BOOKMARK":
                continue
            obj, body = event.object, event.object.to_dict()
            if event.type == "DELETED" or obj.meta.deleting:
                wrong.append(f"{event.type} {resource.kind} {obj.key}")
            if resource != crds and (body["spec"], body.get("status")) != facts[str(obj.key)]:
                wrong.append(f"{resource.kind} {obj.key} is {body}")

    async with AsyncExitStack() as stack:
        for client, resource in [*watches, (moved.consumer, crds)]:
            listed = await client.list(resource)
            facts = {str(obj.key): _content(obj) for obj in listed.items}
            work = follow(client, resource, listed.resource_version, facts)
            stack.callback(asyncio.create_task(work).cancel)
        yield
    assert not wrong


def _content(obj: Object) -> tuple[Any, Any]:
    body = obj.to_dict()
    return body["spec"], body.get("status")


class _Setup(NamedTuple):
    """Which side is the real server, "" for none, and where the konnector watches."""

    real: str = ""
    scope: Scope = "Cluster"


@pytest.fixture
async def moved(request: pytest.FixtureRequest, stack: AsyncExitStack) -> Moved:
    """A binding with objects, whose copies have the same names."""
    setup: _Setup = getattr(request, "param", _Setup())
    plane = request.getfixturevalue("realplane") if setup.real else None
    options = ProviderOptions(isolation="None", consumer_scope=setup.scope)
    world = World(stack, real=setup.real, plane=plane, options=options)
    await world.start()
    moved = Moved(world)
    await moved.start()
    return moved


_SETUPS = [
    pytest.param(_Setup(), id="sandboxes"),
    pytest.param(_Setup(scope="Namespaced"), id="namespaces"),
    real(_Setup("consumer"), id="real-consumer"),
    real(_Setup("provider"), id="real-provider"),
]


@pytest.mark.parametrize("moved", _SETUPS, indirect=True)
async def test_a_binding_moves_with_its_objects(
    moved: Moved, request: pytest.FixtureRequest
) -> None:
    async with witnessed(moved):
        await moved.move()
        await moved.check()
    place = NAMESPACE if "namespaces" in request.node.name else ""
    ready = has("Ready", "True")
    await when(moved.consumer, CONNECTIONS, moved.name, until=ready)
    resource = BINDINGS if place else CLUSTERBINDINGS
    await when(moved.consumer, resource, moved.name, place, until=ready)
    await moved.works()


async def test_copies_outlast_the_export_of_v1alpha2(moved: Moved) -> None:
    """The provider's namespaces go when nothing synchronised is left in them."""
    await moved.move()
    there = moved.link.cluster_namespace
    await moved.provider.delete(APISERVICEEXPORTS, moved.name, there)
    await when(
        moved.provider,
        APISERVICENAMESPACES,
        NAMESPACE,
        there,
        until=lambda body: condition(body, NAMESPACE_READY).get("reason") == OBJECTS_REMAIN,
    )
    await moved.check()
    await moved.works()


Connect = Callable[[ClusterConfig], Client]


@asynccontextmanager
async def killed_soon(world: World) -> AsyncIterator[tuple[Client, Connect]]:
    """A client of the consumer, and what makes those of the provider: one write for all."""
    consumer = DyingClient(world.consumer.config, writes=1)

    def connect(config: ClusterConfig) -> Client:
        client = DyingClient(config, writes=0)
        client._spend = consumer._spend  # type: ignore[method-assign]
        return client

    async with consumer:
        yield consumer, connect


MOST_WRITES = 60
"""Writes that no migration of this size needs."""


@pytest.mark.extended
async def test_a_run_killed_after_each_of_its_writes_ends_in_the_same_state(
    moved: Moved,
) -> None:
    uids = _uids(moved.before)
    for _ in range(MOST_WRITES):
        async with killed_soon(moved.world) as (consumer, connect):
            try:
                await moved.move(consumer, connect)
            except KilledError:
                pass
            else:
                break
        assert _uids(await moved.facts()) == uids
        # What is half done outlasts a konnector that starts on it, too.
        await moved.world.one.stop()
        await moved.world.one.start()
    else:
        pytest.fail("it never comes to its end")
    await moved.check()
    await moved.works()


def _uids(facts: dict[str, tuple[Any, ...]]) -> dict[str, str]:
    return {name: values[0] for name, values in facts.items()}
