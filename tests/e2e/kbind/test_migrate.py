"""``fairlead migrate``: from an APIServiceBinding to kbind v2, with objects and their copies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
import yaml
from tests.support.commands import fairlead
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
    APISERVICEBINDINGBUNDLES,
    APISERVICEBINDINGS,
    APISERVICEEXPORTS,
    APISERVICEEXPORTTEMPLATES,
    APISERVICENAMESPACES,
    binding_of_crd,
)
from fairlead.api.kubebind.conditions import NAMESPACE_READY, OBJECTS_REMAIN
from fairlead.api.kubebind.fields import Scope
from fairlead.api.kubebind.names import ANNOTATION_CLUSTER_NAMESPACE, ANNOTATION_DELETION_POLICY
from fairlead.api.meta import JSON, Object
from fairlead.api.resource import (
    CLUSTERROLEBINDINGS,
    CLUSTERROLES,
    CUSTOMRESOURCEDEFINITIONS,
    NAMESPACES,
    ROLEBINDINGS,
    ROLES,
    Resource,
)
from fairlead.client import Client, ClusterConfig
from fairlead.client.lookups import find
from fairlead.konnector.commands.migrate import MigrationError, migrate, survey
from fairlead.konnector.options import PROTOCOLS
from fairlead.provider.options import ProviderOptions


class Moved:
    """A binding of v1alpha2 with objects, and what is known of them."""

    def __init__(self, world: World, *, namespaced: bool = True) -> None:
        self.world = world
        self.consumer, self.provider = world.consumer, world.provider
        self.name = world.name
        # On both sides: a provider keeps its own `default`.
        self.place = f"shop-{world.name}" if namespaced else ""
        self.widgets = msgspec.structs.replace(world.widgets, namespaced=namespaced)
        self.api = self.widgets.group_resource

    async def start(self) -> None:
        claims = {"spec": {"permissionClaims": None}}
        await self.provider.merge_patch(APISERVICEEXPORTTEMPLATES, self.world.group, "", claims)
        await self.world.konnector(protocols=PROTOCOLS)
        self.link = await self.world.bound()
        if self.place:
            await namespace(self.consumer, self.place)
        await self.consumer.create(self.widgets, self.widget("blue", count=3, colour="red"))
        orphan = self.widget("kept")
        orphan["metadata"]["annotations"] = {ANNOTATION_DELETION_POLICY: "Orphan"}
        await self.consumer.create(self.widgets, orphan)
        for name in ("blue", "kept"):
            await when(self.provider, self.widgets, name, self.place, until=bool)
        await self.status("blue", 1)
        self.before = await self.facts()

    def widget(self, name: str, **spec: Any) -> JSON:
        metadata = {"name": name, **({"namespace": self.place} if self.place else {})}
        return {**self.world.widget(name, **spec), "metadata": metadata}

    async def status(self, name: str, value: int) -> None:
        """Write a status at the provider, and wait for it here."""
        body = {"status": {"made": value}}
        await self.provider.merge_patch(self.widgets, name, self.place, body, subresource="status")
        await when(
            self.consumer,
            self.widgets,
            name,
            self.place,
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
        findings = await survey(consumer, self.name, administrator=self.provider.config)
        await migrate(
            consumer,
            findings,
            administrator=self.provider.config,
            timeout=SECONDS,
            progress=lines.append,
            connect=connect,
        )
        return lines

    async def copy(self, name: str = "blue") -> Object:
        return await self.provider.get(self.widgets, name, self.place)

    async def check(self) -> None:
        """All is as kbind v2 has it, and nothing was made anew."""
        assert await self.facts() == self.before
        assert await find(self.consumer, APISERVICEBINDINGS, self.name) is None
        crd = await self.consumer.get(CUSTOMRESOURCEDEFINITIONS, self.api)
        assert not crd.meta.owner_references
        assert binding_of_crd(crd.meta) == ""
        system = await self.consumer.get(NAMESPACES, "kube-system")
        for name in ("blue", "kept"):
            obj = await self.consumer.get(self.widgets, name, self.place)
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
        role = f"kube-bind-konnector-{self.name}"
        assert await find(self.consumer, CLUSTERROLES, role) is None

    async def works(self) -> None:
        """Objects are synchronised by kbind v2 as they were before."""
        await self.status("blue", 2)
        # A field that only v1alpha2 has written goes with that of its object.
        await self.consumer.merge_patch(
            self.widgets, "blue", self.place, {"spec": {"certificates": None, "colour": "green"}}
        )

        def follows(body: JSON) -> bool:
            return body["spec"].get("colour") == "green" and "certificates" not in body["spec"]

        await when(self.provider, self.widgets, "blue", self.place, until=follows)
        await self.consumer.delete(self.widgets, "kept", self.place)
        await gone(self.consumer, self.widgets, "kept", self.place)
        copy = await self.copy("kept")
        assert not copy.meta.deleting
        await self.consumer.delete(self.widgets, "blue", self.place)
        await gone(self.consumer, self.widgets, "blue", self.place)
        await gone(self.provider, self.widgets, "blue", self.place)


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
    """The side that is the real server, "" for none, and scopes of watches and of the kind."""

    real: str = ""
    watching: Scope = "Cluster"
    kind: Scope = "Namespaced"


@pytest.fixture
async def moved(request: pytest.FixtureRequest, stack: AsyncExitStack) -> Moved:
    """A binding with objects, whose copies have the same names."""
    setup: _Setup = getattr(request, "param", _Setup())
    plane = request.getfixturevalue("realplane") if setup.real else None
    options = ProviderOptions(isolation="None", consumer_scope=setup.watching)
    world = World(stack, real=setup.real, plane=plane, scope=setup.kind, options=options)
    await world.start()
    moved = Moved(world, namespaced=setup.kind == "Namespaced")
    await moved.start()
    return moved


_SETUPS = [
    pytest.param(_Setup(), id="sandboxes"),
    pytest.param(_Setup(watching="Namespaced"), id="namespaces"),
    pytest.param(_Setup(kind="Cluster"), id="cluster-scoped"),
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
    place = moved.place if "namespaces" in request.node.name else ""
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
        moved.place,
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


async def killed_until_the_end_of_v1alpha2(moved: Moved) -> None:
    """Run it, killed after each write, until the APIServiceBinding is gone."""
    for _ in range(MOST_WRITES):
        async with killed_soon(moved.world) as (consumer, connect):
            with suppress(KilledError):
                await moved.move(consumer, connect)
        if await find(moved.consumer, APISERVICEBINDINGS, moved.name) is None:
            return


async def test_what_users_do_while_neither_protocol_is_at_work_is_done(moved: Moved) -> None:
    await killed_until_the_end_of_v1alpha2(moved)
    kept = await moved.copy("kept")
    for name in ("blue", "kept"):
        await moved.consumer.delete(moved.widgets, name, moved.place)
    await moved.consumer.create(moved.widgets, moved.widget("green", colour="green"))
    await moved.move()
    for name in ("blue", "kept"):
        await gone(moved.consumer, moved.widgets, name, moved.place)
    await gone(moved.provider, moved.widgets, "blue", moved.place)
    assert (await moved.copy("kept")).meta.uid == kept.meta.uid
    await when(moved.provider, moved.widgets, "green", moved.place, until=bool)


async def test_an_object_in_a_copys_place_that_v1alpha2_has_not_made_is_left_alone(
    moved: Moved,
) -> None:
    """Marks of another consumer, or of another object, prove nothing."""
    foreign = moved.widget("foreign")
    foreign["metadata"]["annotations"] = {ANNOTATION_CLUSTER_NAMESPACE: "kube-bind-another"}
    await moved.provider.create(moved.widgets, foreign)
    await moved.consumer.create(moved.widgets, moved.widget("foreign", colour="red"))
    await moved.link.condition("Conflicts", lambda found: found.get("status") == "True")
    before = await moved.copy("foreign")
    await moved.move()
    ready = has("Conflicts", "True")
    await when(moved.consumer, CLUSTERBINDINGS, moved.name, until=ready)
    copy = await moved.copy("foreign")
    assert copy.meta.resource_version == before.meta.resource_version


async def test_a_run_without_rights_prints_them_and_writes_nothing(
    moved: Moved, tmp_path: Path
) -> None:
    plane = moved.world.consumer_plane
    code, out, err = await fairlead(plane, tmp_path, "migrate", moved.name, "--yes")
    assert code == 1
    assert "lacks rights at the provider (get namespaces kube-system, " in err
    kinds = [body["kind"] for body in yaml.safe_load_all(out)]
    assert kinds.count("ClusterRole") == 1
    assert await find(moved.consumer, CLUSTERBINDINGS, moved.name) is None
    # What was printed is what is missing.
    for body in yaml.safe_load_all(out):
        resource = next(one for one in _PRINTED if one.kind == body["kind"])
        await moved.provider.apply(resource, body)
    code, out, err = await fairlead(plane, tmp_path, "migrate", moved.name, "--yes")
    assert (code, out) == (1, "")
    assert f"`kubectl label crd {moved.api} core.kbind.io/exported=true`" in err
    labels = {"metadata": {"labels": {"core.kbind.io/exported": "true"}}}
    await moved.provider.merge_patch(CUSTOMRESOURCEDEFINITIONS, moved.api, "", labels)
    code, out, err = await fairlead(plane, tmp_path, "migrate", moved.name, "--dry-run")
    assert code == 0, err
    assert out.startswith("1. store the provider's kubeconfig in Secret kube-bind/")
    assert await find(moved.consumer, CLUSTERBINDINGS, moved.name) is None
    code, out, err = await fairlead(plane, tmp_path, "migrate", moved.name, "--yes")
    assert (code, out) == (
        0,
        f"connection.core.kbind.io/{moved.name} has replaced {moved.name}\n",
    ), err
    await moved.check()
    # Once more changes nothing.
    code, _, err = await fairlead(plane, tmp_path, "migrate", moved.name)
    assert code == 0, err
    await moved.works()


_PRINTED = (NAMESPACES, CLUSTERROLES, CLUSTERROLEBINDINGS, ROLES, ROLEBINDINGS)


async def test_a_provider_kubeconfig_gives_what_is_missing(moved: Moved, tmp_path: Path) -> None:
    plane, file = moved.world.consumer_plane, tmp_path / "provider.kubeconfig"
    file.write_bytes(moved.world.kubeconfig("provider"))
    given = ("migrate", moved.name, "--provider-kubeconfig", str(file))
    code, out, err = await fairlead(plane, tmp_path, *given)
    assert (code, out) == (2, "")
    assert "there is no terminal to ask on" in err
    code, out, err = await fairlead(plane, tmp_path, *given, "--yes")
    assert code == 0, err
    assert f"provider: labelled CustomResourceDefinition {moved.api}" in err
    await moved.check()


async def test_a_kubeconfig_of_another_cluster_is_refused(moved: Moved, tmp_path: Path) -> None:
    plane, file = moved.world.consumer_plane, tmp_path / "wrong.kubeconfig"
    file.write_bytes(moved.world.kubeconfig("consumer"))
    code, _, err = await fairlead(
        plane, tmp_path, "migrate", moved.name, "--yes", "--provider-kubeconfig", str(file)
    )
    assert code == 1
    assert "which is not the provider's cluster" in err


async def test_a_konnector_that_does_not_serve_kbind_v2_is_told(world: World) -> None:
    await world.konnector(protocols=("v1alpha2",))
    await world.bound()
    with pytest.raises(MigrationError, match="no konnector serves kbind v2 in this cluster"):
        await survey(world.consumer, world.name)


async def test_a_konnector_that_has_stopped_serving_kbind_v2_is_told(moved: Moved) -> None:
    """The kinds are there, and no konnector takes the binding up: nothing is handed over."""
    await moved.world.one.stop()
    admin = moved.provider.config
    findings = await survey(moved.consumer, moved.name, administrator=admin)
    with pytest.raises(MigrationError, match="no konnector has picked it up"):
        await migrate(moved.consumer, findings, administrator=admin, timeout=1)
    crd = await moved.consumer.get(CUSTOMRESOURCEDEFINITIONS, moved.api)
    assert binding_of_crd(crd.meta) == moved.name
    await moved.world.one.start()
    await moved.move()
    await moved.check()


async def test_what_does_not_fit_is_told_and_stays(world: World, tmp_path: Path) -> None:
    await world.konnector(protocols=PROTOCOLS)
    link = await world.bound()
    await world.consumer.create(world.widgets, world.widget())
    assigned = await link.provider_namespace()
    code, out, err = await fairlead(
        world.consumer_plane, tmp_path, "migrate", "widgets", "--dry-run"
    )
    assert (code, out) == (1, "")
    assert f"namespaces have other names at the provider (default is {assigned} there)" in err
    assert "it claims secrets that objects refer to" in err
    missing = await fairlead(world.consumer_plane, tmp_path, "migrate", "widget", "--dry-run")
    assert missing == (
        1,
        "",
        "Error: APIServiceBinding widget does not exist; did you mean widgets?\n",
    )


async def test_a_binding_of_a_bundle_moves_once_the_bundle_has_let_it_go(moved: Moved) -> None:
    binding = await moved.consumer.get(APISERVICEBINDINGS, moved.name)
    kind = APISERVICEBINDINGBUNDLES
    body = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": "team"},
        "spec": binding.to_dict()["spec"],
    }
    bundle = await moved.consumer.create(kind, body)
    owners = {"metadata": {"ownerReferences": [msgspec.to_builtins(bundle.owner_reference())]}}
    await moved.consumer.merge_patch(APISERVICEBINDINGS, moved.name, "", owners)
    with pytest.raises(MigrationError, match="delete apiservicebindingbundle team --cascade=orph"):
        await moved.move()
    await moved.consumer.delete(kind, "team", propagation="Orphan")
    await gone(moved.consumer, kind, "team")
    await moved.move()
    await moved.check()


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
