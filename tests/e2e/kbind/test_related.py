"""Related resources of kbind v2 end to end, and the original's faults that they do not have."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from tests.support.countingplanes import steady
from tests.support.kbindbound import OBJECT_VERBS, BoundWorld, namespace, widget, widgets
from tests.support.kbindworld import NAMESPACE, RULES, KbindWorld
from tests.support.line import Line
from tests.support.waiting import condition, gone, idle, when

from fairlead.api.kbind import BINDINGS, CLUSTERBINDINGS, CONNECTIONS, RelatedResource
from fairlead.api.kbind.names import (
    ANNOTATION_RELATED_BINDING,
    ANNOTATION_RELATED_PLACES,
    CONSUMER_CLUSTER_UID,
    FIELD_MANAGER_RELATED,
    LABEL_MANAGED,
)
from fairlead.api.kbind.rights import cluster_binding_roles
from fairlead.api.manifests import rule
from fairlead.api.meta import JSON, Key
from fairlead.api.resource import CONFIGMAPS, EVENTS, NAMESPACES, SECRETS, Resource
from fairlead.client import AlreadyExists, Client
from fairlead.demo.identity import create_all


def related(resource: str, direction: str, **selector: Any) -> JSON:
    """A rule; without a selector it is about all objects."""
    chosen = {"selector": selector} if selector else {}
    return {"resource": resource, "direction": direction, **chosen}


def named(*names: str) -> JSON:
    return {"names": list(names)}


def labelled(**labels: str) -> JSON:
    return {"labelSelector": {"matchLabels": labels}}


async def put(
    client: Client, resource: Resource, name: str, place: str = "shop", **more: Any
) -> None:
    """Create a Secret or ConfigMap."""
    metadata = {"name": name, "namespace": place, "labels": more.pop("labels", {})}
    kind = {"apiVersion": resource.api_version, "kind": resource.kind}
    default = {"stringData": {"a": "1"}} if resource == SECRETS else {"data": {"a": "1"}}
    await client.create(resource, {**kind, "metadata": metadata, **(more or default)})


class Related:
    """A world with one API, whose two sides give the rights on Secrets and ConfigMaps."""

    def __init__(self, world: KbindWorld) -> None:
        self.world = world
        self.bound = BoundWorld(world)
        self.here, self.there = world.consumer, world.provider.admin
        self.resource = widgets(world.provider)

    async def start(self, *, address: str = "", **options: Any) -> None:
        self.api = await self.world.provider.offer()
        await self.bound.accept("widgets")
        rules = [
            related(kind, way)
            for kind in ("secrets", "configmaps")
            for way in ("FromConsumer", "FromProvider")
        ]
        await create_all(self.here, _roles(rules))
        self.konnector = await self.world.konnector(**options)
        for client in (self.here, self.there):
            with suppress(AlreadyExists):
                await namespace(client, "shop")
        kubeconfig = await self.world.provider.kubeconfig(
            rules=(
                *RULES,
                rule(self.world.provider.group, ["widgets"], OBJECT_VERBS),
                rule("", ["secrets", "configmaps"], OBJECT_VERBS),
                rule("", ["namespaces"], ("create",)),
            ),
            address=address,
        )
        await self.world.connect(kubeconfig)

    async def bind(self, *rules: JSON, place: str = "", name: str = "all") -> None:
        more = {"namespace": place} if place else {}
        await self.bound.bind(name, self.api, relatedResources=list(rules), **more)
        await self.bound.says("Ready", "True", key=Key(place, name))

    async def change(self, *rules: JSON) -> None:
        spec = {"spec": {"relatedResources": list(rules)}}
        await self.here.merge_patch(CLUSTERBINDINGS, "all", "", spec)

    async def unrelated(self, key: str = "a") -> None:
        """An object that crosses: the binding is at work whatever its related objects do."""
        await self.here.create(self.resource, widget(self.resource, key, "shop"))
        await when(self.there, self.resource, key, "shop", until=bool)

    async def well(self, name: str = "all") -> JSON:
        """The binding once it has no condition about related resources."""
        return await when(
            self.here,
            CLUSTERBINDINGS,
            name,
            until=lambda body: not condition(body, "RelatedResourcesFailing"),
        )


def _roles(rules: list[JSON]) -> list[JSON]:
    items = [RelatedResource(**item) for item in rules]
    return cluster_binding_roles("related", [], items)


@pytest.fixture
async def world(any_kbind: KbindWorld) -> Related:
    made = Related(any_kbind)
    await made.start()
    return made


@pytest.fixture
async def sandboxes(kbind: KbindWorld) -> Related:
    made = Related(kbind)
    await made.start()
    return made


@pytest.mark.edge
@pytest.mark.parametrize("direction", ["FromProvider", "FromConsumer"])
@pytest.mark.parametrize("kind", [SECRETS, CONFIGMAPS], ids=["secrets", "configmaps"])
async def test_copies_by_label_and_name_follow_their_originals(
    world: Related, direction: str, kind: Resource
) -> None:
    here, there = world.here, world.there
    source, target = (there, here) if direction == "FromProvider" else (here, there)
    # The real server keeps what the tests before have left.
    tag = world.bound.connection
    store, chosen = f"store-{tag}", {"app": tag}
    labelled_name, name, both, other = (
        f"{word}-{tag}" for word in ("labelled", "named", "both", "other")
    )
    await namespace(source, store)
    await put(source, kind, labelled_name, store, labels=chosen)
    await put(source, kind, name)
    await put(source, kind, both, labels=chosen)
    await put(source, kind, other)
    await world.bind(
        related(kind.plural, direction, **labelled(**chosen)),
        related(kind.plural, direction, **named(name)),
    )
    copy = await when(target, kind, labelled_name, store, until=bool)
    binding = (await here.get(CLUSTERBINDINGS, "all")).to_dict()
    uid = (await here.get(NAMESPACES, "kube-system")).meta.uid
    assert copy["metadata"]["labels"] == {LABEL_MANAGED: "true"}
    assert copy["metadata"]["annotations"] == {
        CONSUMER_CLUSTER_UID: uid,
        ANNOTATION_RELATED_BINDING: binding["metadata"]["uid"],
    }
    original = (await source.get(kind, labelled_name, store)).to_dict()
    assert copy["data"] == original["data"]
    assert {entry["manager"] for entry in copy["metadata"]["managedFields"]} == {
        FIELD_MANAGER_RELATED
    }
    place = await target.get(NAMESPACES, store)
    assert place.meta.labels[LABEL_MANAGED] == "true"
    assert place.meta.annotations[CONSUMER_CLUSTER_UID] == uid
    for copied in (name, both):
        await when(target, kind, copied, "shop", until=bool)
    await source.merge_patch(kind, name, "shop", {"data": {"a": None, "b": "Mg=="}})
    await when(target, kind, name, "shop", until=lambda body: body["data"] == {"b": "Mg=="})
    await target.merge_patch(kind, name, "shop", {"data": {"b": "Mw=="}})
    await when(target, kind, name, "shop", until=lambda body: body["data"] == {"b": "Mg=="})
    await target.delete(kind, name, "shop")
    await when(target, kind, name, "shop", until=bool)
    await source.merge_patch(kind, both, "shop", {"metadata": {"labels": {"app": None}}})
    await gone(target, kind, both, "shop")
    await source.delete(kind, labelled_name, store)
    await gone(target, kind, labelled_name, store)
    await here.delete(CLUSTERBINDINGS, "all")
    await gone(here, CLUSTERBINDINGS, "all")
    await gone(target, kind, name, "shop")
    await source.get(kind, name, "shop")
    await source.get(kind, other, "shop")


async def test_a_binding_copies_in_its_namespace_alone(sandboxes: Related) -> None:
    world = sandboxes
    await namespace(world.there, "store")
    await put(world.there, SECRETS, "a")
    await put(world.there, SECRETS, "a", "store")
    await world.bind(related("secrets", "FromProvider"), place="shop", name="own")
    await when(world.here, SECRETS, "a", "shop", until=bool)
    await put(world.there, SECRETS, "b")
    await when(world.here, SECRETS, "b", "shop", until=bool)
    assert not (await world.here.list(SECRETS, "store")).items
    await world.here.delete(BINDINGS, "own", "shop")
    await gone(world.here, BINDINGS, "own", "shop")
    await gone(world.here, SECRETS, "a", "shop")


async def test_f4_a_rule_without_a_selector_that_sends_all_is_refused(sandboxes: Related) -> None:
    """The original sends every Secret of the cluster, the konnector's kubeconfigs included."""
    world = sandboxes
    await put(world.here, SECRETS, "private")
    await world.bind(related("secrets", "FromConsumer"), related("configmaps", "FromProvider"))
    body = await world.bound.says(
        "RelatedResourcesFailing", "True", "RuleRefused", "spec.relatedResources[0]"
    )
    message = condition(body, "RelatedResourcesFailing")["message"]
    assert "selector.names or selector.labelSelector" in message
    await put(world.there, CONFIGMAPS, "offered")
    await when(world.here, CONFIGMAPS, "offered", "shop", until=bool)
    await world.unrelated()
    assert condition(await world.bound.says("Ready", "True"), "Ready")["status"] == "True"
    assert "private" not in {one.meta.name for one in (await world.there.list(SECRETS)).items}
    await world.change(related("secrets", "FromConsumer", **named("private")))
    await when(world.there, SECRETS, "private", "shop", until=bool)
    await world.well()


async def test_f4_nothing_crosses_from_or_to_the_konnectors_namespace_nor_kube_ones_nor_tokens(
    sandboxes: Related,
) -> None:
    world = sandboxes
    for client in (world.here, world.there):
        with suppress(AlreadyExists):
            await namespace(client, NAMESPACE)
        for place in (NAMESPACE, "kube-system", "shop"):
            await put(client, SECRETS, "xy"[client is world.here], place, labels={"all": "yes"})
        token: JSON = {"type": "bootstrap.kubernetes.io/token", "stringData": {"a": "1"}}
        name = "token-" + "xy"[client is world.here]
        await put(client, SECRETS, name, labels={"all": "yes"}, **token)
    await world.bind(
        related("secrets", "FromConsumer", **labelled(all="yes")),
        related("secrets", "FromProvider", **labelled(all="yes")),
    )
    await when(world.there, SECRETS, "y", "shop", until=bool)
    await when(world.here, SECRETS, "x", "shop", until=bool)
    assert await idle(0.3)
    for client in (world.here, world.there):
        copies = (await client.list(SECRETS, labels=f"{LABEL_MANAGED}=true")).items
        assert [str(one.key) for one in copies] == ["shop/" + "xy"[client is world.there]]


async def test_f19_rules_of_one_kind_leave_each_others_copies_and_a_removed_one_takes_its_own(
    kbind: KbindWorld,
) -> None:
    """In the original they delete each other's copies in each pass, and a removed one leaves its
    own."""
    world = Related(kbind)
    # No watch that has to list again is faulty for three seconds.
    await world.start(health_interval=1.0)
    for name in ("a", "b"):
        await put(world.there, SECRETS, name)
    first, second = (related("secrets", "FromProvider", **named(name)) for name in ("a", "b"))
    await world.bind(first, second)
    copies = [await when(world.here, SECRETS, name, "shop", until=bool) for name in ("a", "b")]
    plane = world.world.provider.plane
    assert plane is not None
    await steady(world.world.consumer_plane, plane)
    for copy in copies:
        after = await world.here.get(SECRETS, copy["metadata"]["name"], "shop")
        assert after.meta.uid == copy["metadata"]["uid"]
        assert after.meta.resource_version == copy["metadata"]["resourceVersion"]
    await world.change(first)
    await gone(world.here, SECRETS, "b", "shop")
    await world.here.get(SECRETS, "a", "shop")
    # A rule that goes while no konnector runs takes its copies away too.
    await world.konnector.stop()
    await world.change()
    await world.world.konnector()
    await gone(world.here, SECRETS, "a", "shop")
    body = await when(
        world.here,
        CLUSTERBINDINGS,
        "all",
        until=lambda body: (
            ANNOTATION_RELATED_PLACES not in body["metadata"].get("annotations", {})
        ),
    )
    assert condition(body, "Ready")["status"] == "True"


async def test_f19_a_related_fault_is_told_and_keeps_no_object_from_syncing(
    sandboxes: Related,
) -> None:
    """In the original the binding is not Ready, and no object of it syncs."""
    world = sandboxes
    await put(world.here, SECRETS, "taken", stringData={"mine": "1"})
    await put(world.there, SECRETS, "taken")
    await put(world.there, SECRETS, "free")
    await world.bind(related("secrets", "FromProvider", **named("taken", "free")))
    await world.bound.says(
        "RelatedResourcesFailing", "True", "ForeignObjectExists", "secrets shop/taken"
    )
    await when(world.here, SECRETS, "free", "shop", until=bool)
    await world.unrelated()
    assert (await world.here.get(SECRETS, "taken", "shop")).to_dict()["data"] == {"mine": "MQ=="}
    await world.bound.says("Ready", "True")
    await world.here.delete(SECRETS, "taken", "shop")
    await when(world.here, SECRETS, "taken", "shop", until=bool)
    await world.well()


async def test_f3_a_connection_lists_which_related_resources_may_cross(
    sandboxes: Related,
) -> None:
    world = sandboxes
    listed = {
        "metadata": {"annotations": {"fairlead.dev/related-resources": "secrets/FromProvider"}}
    }
    await world.here.merge_patch(CONNECTIONS, world.bound.connection, "", listed)
    for client in (world.here, world.there):
        await put(client, SECRETS, "ab"[client is world.here])
    await world.bind(
        related("secrets", "FromProvider", **named("a")),
        related("secrets", "FromConsumer", **named("b")),
    )
    await when(world.here, SECRETS, "a", "shop", until=bool)
    await world.bound.says(
        "RelatedResourcesFailing", "True", "RuleRefused", "does not list secrets/FromConsumer"
    )
    assert "b" not in {one.meta.name for one in (await world.there.list(SECRETS)).items}
    every = {"metadata": {"annotations": {"fairlead.dev/related-resources": None}}}
    await world.here.merge_patch(CONNECTIONS, world.bound.connection, "", every)
    await when(world.there, SECRETS, "b", "shop", until=bool)


async def test_unbinding_awaits_the_related_copies(sandboxes: Related) -> None:
    world = sandboxes
    await put(world.here, SECRETS, "a")
    await world.bind(related("secrets", "FromConsumer", **named("a")))
    await when(world.there, SECRETS, "a", "shop", until=bool)
    slow: JSON = {"metadata": {"finalizers": ["example.org/slow"]}}
    await world.there.merge_patch(SECRETS, "a", "shop", slow)
    await world.here.delete(CLUSTERBINDINGS, "all")
    await world.bound.says("Ready", "False", "Pending", "1 secrets/FromConsumer")
    assert await idle(0.3)
    await world.here.get(CLUSTERBINDINGS, "all")
    free: JSON = {"metadata": {"finalizers": []}}
    await world.there.merge_patch(SECRETS, "a", "shop", free)
    await gone(world.here, CLUSTERBINDINGS, "all")
    await gone(world.there, SECRETS, "a", "shop")


async def test_f11_a_rule_to_a_provider_that_is_away_holds_no_binding_for_ever(
    kbind: KbindWorld,
) -> None:
    """In the original a FromConsumer rule blocks the unbinding for ever."""
    world = Related(kbind)
    async with Line(world.there.config.server) as line:
        await world.start(address=line.url, unbind_timeout=1.0)
        await put(world.here, SECRETS, "a")
        await world.bind(related("secrets", "FromConsumer", **named("a")))
        await when(world.there, SECRETS, "a", "shop", until=bool)
        await line.cut()
        await world.here.delete(CLUSTERBINDINGS, "all")
        await gone(world.here, CLUSTERBINDINGS, "all")
        assert (await world.there.get(SECRETS, "a", "shop")).meta.labels[LABEL_MANAGED] == "true"
        events = [one.to_dict() for one in (await world.here.list(EVENTS)).items]
        assert any("related copies stay" in one["message"] for one in events)


async def test_a_connection_that_a_binding_has_left_stays_until_its_related_copies_are_gone(
    sandboxes: Related,
) -> None:
    world = sandboxes
    await put(world.here, SECRETS, "a")
    await world.bind(related("secrets", "FromConsumer", **named("a")))
    await when(world.there, SECRETS, "a", "shop", until=bool)
    held = {"metadata": {"finalizers": ["example.org/slow"]}}
    await world.there.merge_patch(SECRETS, "a", "shop", held)
    # There is no such Connection: what is left goes all the same.
    moved = {"spec": {"connectionRef": {"name": "missing"}}}
    await world.here.merge_patch(CLUSTERBINDINGS, "all", "", moved)
    former = world.bound.connection
    await world.here.delete(CONNECTIONS, former)
    await world.world.says(
        "Ready", "False", "DrainingBindings", "related copies of ClusterBinding all"
    )
    await when(
        world.there,
        SECRETS,
        "a",
        "shop",
        until=lambda body: body["metadata"].get("deletionTimestamp"),
    )
    await world.there.merge_patch(SECRETS, "a", "shop", {"metadata": {"finalizers": []}})
    await gone(world.here, CONNECTIONS, former)
    await gone(world.there, SECRETS, "a", "shop")


async def test_another_connection_takes_the_copies_from_the_former_provider(
    sandboxes: Related,
) -> None:
    world = sandboxes
    other = await world.world.new_provider("other")
    await namespace(other.admin, "shop")
    rules = (*RULES, rule("", ["secrets"], OBJECT_VERBS))
    await world.world.connect(await other.kubeconfig(rules=rules), "other")
    await put(world.here, SECRETS, "a")
    await world.bind(related("secrets", "FromConsumer", **named("a")))
    await when(world.there, SECRETS, "a", "shop", until=bool)
    moved = {"spec": {"connectionRef": {"name": "other"}}}
    await world.here.merge_patch(CLUSTERBINDINGS, "all", "", moved)
    await when(other.admin, SECRETS, "a", "shop", until=bool)
    await gone(world.there, SECRETS, "a", "shop")
    await when(
        world.here,
        CLUSTERBINDINGS,
        "all",
        until=lambda body: (
            body["metadata"]["annotations"][ANNOTATION_RELATED_PLACES]
            == "secrets/FromConsumer/other"
        ),
    )
