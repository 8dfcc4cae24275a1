"""Bindings of kbind v2 end to end, and the original's faults that they do not have."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.support.countingplanes import quiet, steady
from tests.support.kbindbound import (
    OBJECT_VERBS,
    BoundWorld,
    binding,
    grant_in,
    namespace,
    widget,
    widgets,
)
from tests.support.kbindworld import NAMESPACE, RULES, KbindWorld, connection, exported_crd, secret
from tests.support.line import Line
from tests.support.process import config_file, process
from tests.support.waiting import SECONDS, condition, gone, idle, when

from fairlead.api.kbind import BINDINGS, CLUSTERBINDINGS, CONNECTIONS, lease_name
from fairlead.api.kbind.names import (
    ANNOTATION_CONFLICT,
    ANNOTATION_CONNECTION,
    ANNOTATION_CONSUMER_OBJECT_UID,
    ANNOTATION_SCHEMA_HASH,
    CONSUMER_CLUSTER_UID,
    FIELD_MANAGER,
    LABEL_EXPORTED,
    LABEL_MANAGED,
    LEASE_NAMESPACE,
)
from fairlead.api.kbind.rights import binding_roles, cluster_binding_roles, role_name
from fairlead.api.manifests import rule
from fairlead.api.meta import JSON, Key
from fairlead.api.resource import (
    CLUSTERROLES,
    CUSTOMRESOURCEDEFINITIONS,
    EVENTS,
    LEASES,
    NAMESPACES,
    SECRETS,
    Resource,
)
from fairlead.client import Client, NotFound
from fairlead.demo.identity import as_service_account, create_all
from fairlead.konnector.manifests import NAME
from fairlead.runtime import install_crds
from fairlead.uninstall.findings import Choices, UninstallError
from fairlead.uninstall.work import survey, uninstall


class Ready:
    """A world with one API bound by a ClusterBinding, and a namespace for its objects."""

    def __init__(self, world: KbindWorld, *, shared: bool = False) -> None:
        # On a server that tests share the names are this test's own.
        self.space = f"shop-{world.name}" if shared else "shop"
        self.name = world.name if shared else "all"
        self.bound = BoundWorld(world)
        self.world = world
        self.here, self.there = world.consumer, world.provider.admin
        self.resource: Resource = widgets(world.provider)

    async def start(self, **options: Any) -> None:
        self.api = await self.world.provider.offer()
        await self.bound.accept("widgets")
        self.konnector = await self.world.konnector(**options)
        await self.world.connect(await self.bound.kubeconfig("widgets"))
        await self.bound.bind(self.name, self.api)
        await self.says("Ready", "True")
        await namespace(self.here, self.space)

    async def create(self, name: str = "a", **more: Any) -> JSON:
        created = await self.here.create(
            self.resource, widget(self.resource, name, self.space, **more)
        )
        return created.to_dict()

    async def says(self, type_: str, status: str, reason: str = "", text: str = "") -> JSON:
        return await self.bound.says(type_, status, reason, text, key=Key("", self.name))

    async def restart(self, **options: Any) -> None:
        await self.konnector.stop()
        self.konnector = await self.world.konnector(**options)

    async def clean(self) -> None:
        """Unbind, so that no other test on the server has to do with it."""
        await self.restart()
        for resource, name in (
            (CLUSTERBINDINGS, self.name),
            (CONNECTIONS, self.bound.connection),
        ):
            with suppress(NotFound):
                await self.here.delete(resource, name)
            await gone(self.here, resource, name)

    async def other(self) -> Client:
        """Offer the same API at another provider, and connect it as ``other``."""
        other = await self.world.new_provider("other")
        other.group = self.world.provider.group
        await other.offer()
        kubeconfig = await self.bound.kubeconfig("widgets", provider=other)
        await self.world.connect(kubeconfig, "other")
        await self.world.says("Ready", "True", name="other")
        return other.admin

    async def move(self) -> None:
        """Have the binding name the other Connection."""
        spec = {"spec": {"connectionRef": {"name": "other"}}}
        await self.here.merge_patch(CLUSTERBINDINGS, "all", "", spec)

    async def hold(self) -> None:
        """Have the provider keep the copy of the first object while it is deleted."""
        held = {"metadata": {"finalizers": ["example.org/slow"]}}
        await self.there.merge_patch(self.resource, "a", self.space, held)

    async def let_go(self) -> None:
        """Let the copy go, once its deletion has been asked for."""
        await when(
            self.there,
            self.resource,
            "a",
            self.space,
            until=lambda body: body["metadata"].get("deletionTimestamp"),
        )
        free: JSON = {"metadata": {"finalizers": []}}
        await self.there.merge_patch(self.resource, "a", self.space, free)

    async def copied(self, name: str = "a", until: Any = bool) -> JSON:
        return await when(self.there, self.resource, name, self.space, until=until)


@pytest.fixture
async def any_ready(any_kbind: KbindWorld) -> AsyncIterator[Ready]:
    """The same, with either side on the real server too."""
    world = Ready(any_kbind, shared=True)
    await world.start()
    yield world
    await world.clean()


@pytest.fixture
async def ready(kbind: KbindWorld) -> Ready:
    world = Ready(kbind)
    await world.start()
    return world


def annotated(body: JSON) -> bool:
    """Whether an object tells of a conflict."""
    return ANNOTATION_CONFLICT in body["metadata"].get("annotations", {})


def spec_is(**spec: Any) -> Any:
    return lambda body: body.get("spec") == spec


@pytest.mark.edge
async def test_objects_cross_and_their_status_comes_back(any_kbind: KbindWorld) -> None:
    bound = BoundWorld(any_kbind)
    space, key = f"shop-{any_kbind.name}", Key("", any_kbind.name)
    here, there, resource = bound.consumer, bound.provider.admin, widgets(bound.provider)
    api = await bound.provider.offer()
    await bound.accept("widgets")
    await any_kbind.konnector()
    await any_kbind.connect(await bound.kubeconfig("widgets"))
    await bound.bind(any_kbind.name, api)
    body = await bound.says("Ready", "True", "AsExpected", key=key)
    assert body["status"]["boundAPIs"][0]["name"] == api
    crd = (await here.get(CUSTOMRESOURCEDEFINITIONS, api)).to_dict()
    assert crd["metadata"]["labels"][LABEL_MANAGED] == "true"
    assert body["status"]["boundAPIs"][0]["crdHash"].startswith("sha256:")
    await namespace(here, space)
    await here.create(resource, widget(resource, "a", space))
    copy = await when(there, resource, "a", space, until=bool)
    assert copy["spec"] == {"size": 1}
    place = await there.get(NAMESPACES, space)
    assert place.meta.labels[LABEL_MANAGED] == "true"
    status = {"status": {"phase": "Ready"}}
    await there.merge_patch(resource, "a", space, status, subresource="status")
    await when(
        here, resource, "a", space, until=lambda body: body.get("status") == status["status"]
    )
    # One file, one delete.
    await here.delete(CONNECTIONS, bound.connection)
    await here.delete(CLUSTERBINDINGS, any_kbind.name)
    await gone(here, CLUSTERBINDINGS, any_kbind.name)
    await gone(here, CONNECTIONS, bound.connection)
    await gone(here, CUSTOMRESOURCEDEFINITIONS, api)
    await gone(there, resource, "a", space)


async def test_order_does_not_matter(kbind: KbindWorld) -> None:
    """One file in any order: the binding first and the provider's CRD last, and so reversed."""
    bound = BoundWorld(kbind)
    here, there, resource = bound.consumer, bound.provider.admin, widgets(bound.provider)
    await bound.accept("widgets")
    await kbind.konnector()
    api = f"widgets.{bound.provider.group}"
    await bound.bind("all", api)
    await bound.says("Ready", "False", "Pending", f"there is no Connection {bound.connection}")
    await here.create(CONNECTIONS, connection(bound.connection))
    await bound.says("Ready", "False", "Pending", "is not ready")
    kubeconfig = await bound.kubeconfig("widgets")
    await here.create(SECRETS, secret(bound.connection, kubeconfig))
    await bound.says("Ready", "False", "APINotExported", api)
    await bound.provider.offer()
    await bound.says("Ready", "True", "AsExpected")
    await namespace(here, "shop")
    await here.create(resource, widget(resource, "a", "shop"))
    await when(there, resource, "a", "shop", until=bool)
    await here.delete(SECRETS, bound.connection, "kube-bind")
    await here.delete(CONNECTIONS, bound.connection)
    await kbind.says("Ready", "False", "DrainingBindings")
    assert (await there.get(resource, "a", "shop")).meta.labels[LABEL_MANAGED] == "true"
    await here.delete(CLUSTERBINDINGS, "all")
    for kind, name, place in (
        (CLUSTERBINDINGS, "all", ""),
        (CONNECTIONS, bound.connection, ""),
        (SECRETS, bound.connection, "kube-bind"),
        (CUSTOMRESOURCEDEFINITIONS, api, ""),
    ):
        await gone(here, kind, name, place)
    await gone(there, resource, "a", "shop")


@pytest.mark.parametrize("backwards", [False, True], ids=["in-order", "backwards"])
async def test_a_provider_with_nothing_installed(kbind: KbindWorld, *, backwards: bool) -> None:
    """The story: a CRD with a label, a Role, one file, applied and deleted in either order."""
    bound = BoundWorld(kbind)
    here, there, resource = bound.consumer, bound.provider.admin, widgets(bound.provider)
    before = {crd.meta.name for crd in (await there.list(CUSTOMRESOURCEDEFINITIONS)).items}
    api = await bound.provider.offer()
    await bound.accept("widgets")
    await kbind.konnector()
    for admin in (here, there):
        await namespace(admin, "shop")
    kubeconfig = await bound.provider.kubeconfig("shop")
    rules = [rule(resource.group, ["widgets"], OBJECT_VERBS)]
    await grant_in(there, "shop", "shop", rules)
    file = [
        (SECRETS, secret(kbind.name, kubeconfig)),
        (CONNECTIONS, connection(kbind.name)),
        (BINDINGS, binding("own", kbind.name, api, namespace="shop")),
    ]
    ordered = file[::-1] if backwards else file
    for kind, body in ordered:
        await here.create(kind, body)
    await bound.says("Ready", "True", key=Key("shop", "own"))
    await here.create(resource, widget(resource, "a", "shop"))
    await when(there, resource, "a", "shop", until=bool)
    for kind, body in ordered:
        metadata = body["metadata"]
        await here.delete(kind, metadata["name"], metadata.get("namespace", ""))
    for kind, body in file:
        metadata = body["metadata"]
        await gone(here, kind, metadata["name"], metadata.get("namespace", ""))
    await gone(there, resource, "a", "shop")
    after = {crd.meta.name for crd in (await there.list(CUSTOMRESOURCEDEFINITIONS)).items}
    assert after - before == {api}


async def test_one_missing_api_does_not_stop_the_others_as_it_does_in_the_original(
    kbind: KbindWorld,
) -> None:
    bound = BoundWorld(kbind)
    resource = widgets(bound.provider)
    api = await bound.provider.offer()
    await bound.accept("widgets", "gadgets")
    await kbind.konnector()
    await kbind.connect(await bound.kubeconfig("widgets", "gadgets"))
    missing = f"gadgets.{bound.provider.group}"
    await bound.bind("all", missing, api)
    body = await bound.says("Synced", "True")
    assert condition(body, "Ready")["reason"] == "APINotExported"
    assert [one["name"] for one in body["status"]["boundAPIs"]] == [api]
    await namespace(bound.consumer, "shop")
    await bound.consumer.create(resource, widget(resource, "a", "shop"))
    await when(bound.provider.admin, resource, "a", "shop", until=bool)
    await bound.provider.offer("gadgets")
    await bound.says("Ready", "True")


async def test_f7_a_crd_of_the_users_own_is_neither_replaced_nor_deleted(
    kbind: KbindWorld,
) -> None:
    """The original overwrites any CRD of the name, and deletes it with all objects."""
    bound = BoundWorld(kbind)
    here, resource = bound.consumer, widgets(bound.provider)
    api = await bound.provider.offer()
    await install_crds(here, [exported_crd(bound.provider.group, exported=False)])
    before = await here.get(CUSTOMRESOURCEDEFINITIONS, api)
    await bound.accept("widgets")
    await kbind.konnector()
    await kbind.connect(await bound.kubeconfig("widgets"))
    await bound.bind("all", api)
    await bound.says(
        "Ready", "False", "ForeignCustomResourceDefinition", "no konnector created it"
    )
    after = await here.get(CUSTOMRESOURCEDEFINITIONS, api)
    assert after.meta.resource_version == before.meta.resource_version
    policy = {"spec": {"schema": {"pullPolicy": "None"}}}
    await here.merge_patch(CONNECTIONS, bound.connection, "", policy)
    await bound.says("Ready", "True")
    await namespace(here, "shop")
    await here.create(resource, widget(resource, "a", "shop"))
    await when(bound.provider.admin, resource, "a", "shop", until=bool)
    await here.delete(CLUSTERBINDINGS, "all")
    await gone(here, CLUSTERBINDINGS, "all")
    crd = await here.get(CUSTOMRESOURCEDEFINITIONS, api)
    assert crd.meta.uid == before.meta.uid
    assert not crd.meta.deleting
    assert LABEL_MANAGED not in crd.meta.labels
    kept = await here.get(resource, "a", "shop")
    assert (kept.meta.finalizers, kept.meta.deleting) == ([], False)
    await gone(bound.provider.admin, resource, "a", "shop")


@pytest.mark.edge
async def test_f12_unbinding_awaits_the_copies_which_the_original_only_deletes(
    any_ready: Ready,
) -> None:
    ready = any_ready
    await ready.create()
    await ready.copied()
    await ready.hold()
    await ready.here.delete(CLUSTERBINDINGS, ready.name)
    await ready.copied(until=lambda body: body["metadata"].get("deletionTimestamp"))
    await ready.says("Ready", "False", "Pending", "waiting until the copies")
    assert await idle(0.3)
    await ready.here.get(ready.resource, "a", ready.space)
    await ready.let_go()
    await gone(ready.here, CLUSTERBINDINGS, ready.name)
    await gone(ready.here, CUSTOMRESOURCEDEFINITIONS, ready.api)


@pytest.mark.edge
async def test_f12_a_copy_of_a_former_object_is_taken_up_under_adopt(any_ready: Ready) -> None:
    """The original's answer is OwnedByAnother for ever, under Adopt too."""
    ready = any_ready
    await ready.create(metadata={"annotations": {"core.kbind.io/deletion-policy": "Orphan"}})
    left = await ready.copied()
    await ready.here.delete(ready.resource, "a", ready.space)
    await gone(ready.here, ready.resource, "a", ready.space)
    await ready.create(spec={"size": 2})
    body = await when(ready.here, ready.resource, "a", ready.space, until=annotated)
    assert body["metadata"]["annotations"][ANNOTATION_CONFLICT] == "OwnedByAnother"
    assert condition(body, "Synced")["reason"] == "OwnedByAnother"
    await ready.says("Conflicts", "True", "ForeignObjectExists")
    adopt = {"spec": {"conflictPolicy": "Adopt"}}
    await ready.here.merge_patch(CLUSTERBINDINGS, ready.name, "", adopt)
    copy = await ready.copied(until=spec_is(size=2))
    assert copy["metadata"]["uid"] == left["metadata"]["uid"]
    await when(
        ready.here, ready.resource, "a", ready.space, until=lambda body: not annotated(body)
    )
    await ready.says("Conflicts", "False", "AsExpected")


async def test_conflict_is_told_on_the_object_and_nothing_of_the_foreign_one_changes(
    ready: Ready,
) -> None:
    await namespace(ready.there, "shop")
    foreign = await ready.there.create(
        ready.resource, widget(ready.resource, "a", "shop", spec={"theirs": True})
    )
    await ready.create()
    body = await when(ready.here, ready.resource, "a", "shop", until=annotated)
    assert condition(body, "Synced")["status"] == "False"
    status = (await ready.bound.says("Conflicts", "True", "ForeignObjectExists"))["status"]
    assert status["boundAPIs"][0]["conflictCount"] == 1
    events = await ready.here.list(EVENTS, "shop")
    told = [one.to_dict() for one in events.items]
    assert [(one["reason"], one["source"]["component"]) for one in told] == [
        ("ForeignObjectExists", FIELD_MANAGER)
    ]
    same = await ready.there.get(ready.resource, "a", "shop")
    assert same.meta.resource_version == foreign.meta.resource_version
    await ready.here.delete(ready.resource, "a", "shop")
    await gone(ready.here, ready.resource, "a", "shop")
    assert (await ready.there.get(ready.resource, "a", "shop")).meta.uid == foreign.meta.uid


async def test_an_object_that_comes_between_the_look_and_the_apply_stays_the_provider_s(
    ready: Ready,
) -> None:
    plane = ready.world.provider.plane
    assert plane is not None
    await namespace(ready.there, "shop")
    with plane.traffic.hold("patch", "widgets") as hold:
        await ready.create(spec={"ours": True})
        await hold.reached.wait()
        body = widget(ready.resource, "a", "shop", spec={"theirs": True})
        await ready.there.create(ready.resource, body)
    await when(ready.here, ready.resource, "a", "shop", until=annotated)
    same = (await ready.there.get(ready.resource, "a", "shop")).to_dict()
    assert same["spec"] == {"theirs": True}
    assert not {"labels", "annotations"} & same["metadata"].keys()


async def test_f14_an_api_goes_to_one_connection_and_the_other_binding_is_refused(
    ready: Ready,
) -> None:
    """The original sends a binding's objects where the CRD was pulled from, without a word."""
    other = await ready.world.new_provider("other")
    other.group = ready.world.provider.group
    await other.offer()
    kubeconfig = await ready.bound.kubeconfig("widgets", provider=other)
    await ready.world.connect(kubeconfig, "second")
    await ready.bound.bind("more", ready.api, connection="second")
    key = Key("", "more")
    text = f"Connection {ready.bound.connection} already binds"
    await ready.bound.says("Ready", "False", "ForeignCustomResourceDefinition", text, key=key)
    await ready.create()
    await ready.copied()
    assert not (await other.admin.list(ready.resource)).items
    await ready.here.delete(CLUSTERBINDINGS, "more")
    await gone(ready.here, CLUSTERBINDINGS, "more")
    crd = await ready.here.get(CUSTOMRESOURCEDEFINITIONS, ready.api)
    assert crd.meta.annotations[ANNOTATION_CONNECTION] == ready.bound.connection
    assert not crd.meta.deleting


async def test_a_binding_that_can_have_no_copies_keeps_an_api_from_no_other(
    kbind: KbindWorld,
) -> None:
    """One whose provider lacks the API, and one that its Connection does not admit."""
    bound = BoundWorld(kbind)
    api = await bound.provider.offer()
    other = await kbind.new_provider("other")
    other.group = bound.provider.group
    gadgets = await other.offer("gadgets")
    await bound.accept("widgets", "gadgets")
    await kbind.konnector()
    kubeconfig = await bound.kubeconfig("widgets", "gadgets", provider=other)
    await kbind.connect(kubeconfig, "second")
    await bound.bind("first", api, connection="second")
    lacking, refused = Key("", "first"), Key("shop", "own")
    await bound.says("Ready", "False", "APINotExported", key=lacking)
    await kbind.connect(await bound.kubeconfig("widgets", "gadgets"))
    allowed = {"metadata": {"annotations": {"fairlead.dev/binding-namespaces": "store"}}}
    await bound.consumer.merge_patch(CONNECTIONS, bound.connection, "", allowed)
    await namespace(bound.consumer, "shop")
    await bound.bind("own", gadgets, namespace="shop")
    await bound.says("Ready", "False", "Forbidden", "binding-namespaces", key=refused)
    await bound.bind("later", api)
    await bound.says("Ready", "True", key=Key("", "later"))
    await bound.says("Ready", "False", "ForeignCustomResourceDefinition", key=lacking)
    await namespace(bound.consumer, "store")
    await bound.bind("last", gadgets, connection="second", namespace="store")
    await bound.says("Ready", "True", key=Key("store", "last"))


async def test_an_api_with_a_crd_of_the_user_stays_where_its_objects_went(
    kbind: KbindWorld,
) -> None:
    """Such a CRD does not say by which Connection it is bound."""
    bound = BoundWorld(kbind)
    here, resource = bound.consumer, widgets(bound.provider)
    api = await bound.provider.offer()
    other = await kbind.new_provider("other")
    other.group = bound.provider.group
    await other.offer()
    await install_crds(here, [exported_crd(other.group, exported=False)])
    await bound.accept("widgets")
    konnector = await kbind.konnector()
    policy = {"pullPolicy": "None"}
    await kbind.connect(await bound.kubeconfig("widgets"), schema=policy)
    await kbind.connect(await bound.kubeconfig("widgets", provider=other), "second", schema=policy)
    await bound.bind("later", api)
    await bound.says("Ready", "True", key=Key("", "later"))
    await namespace(here, "shop")
    await here.create(resource, widget(resource, "a", "shop"))
    copy = await when(bound.provider.admin, resource, "a", "shop", until=bool)
    await bound.bind("first", api, connection="second")
    foreign = "ForeignCustomResourceDefinition"
    await bound.says("Ready", "False", foreign, key=Key("", "first"))
    await konnector.stop()
    await here.merge_patch(resource, "a", "shop", {"spec": {"size": 2}})
    await konnector.start()
    after = await when(bound.provider.admin, resource, "a", "shop", until=spec_is(size=2))
    assert after["metadata"]["uid"] == copy["metadata"]["uid"]
    assert not (await other.admin.list(resource)).items
    await here.delete(CLUSTERBINDINGS, "later")
    await gone(here, CLUSTERBINDINGS, "later")
    await gone(bound.provider.admin, resource, "a", "shop")
    await when(other.admin, resource, "a", "shop", until=bool)
    await bound.says("Ready", "True", key=Key("", "first"))


async def test_copies_stay_where_another_binding_covers_them(ready: Ready) -> None:
    await ready.create()
    copy = await ready.copied()
    await ready.bound.bind("more", ready.api)
    await ready.bound.says("Ready", "True", key=Key("", "more"))
    await ready.here.delete(CLUSTERBINDINGS, "all")
    await gone(ready.here, CLUSTERBINDINGS, "all")
    await ready.here.merge_patch(ready.resource, "a", "shop", {"spec": {"size": 2}})
    after = await ready.copied(until=spec_is(size=2))
    assert after["metadata"]["uid"] == copy["metadata"]["uid"]
    crd = await ready.here.get(CUSTOMRESOURCEDEFINITIONS, ready.api)
    assert not crd.meta.deleting


async def test_an_api_goes_to_another_connection_once_the_first_is_left(ready: Ready) -> None:
    other = await ready.other()
    await ready.create()
    await ready.copied()
    await ready.move()
    await when(other, ready.resource, "a", "shop", until=bool)
    await gone(ready.there, ready.resource, "a", "shop")
    crd = await ready.here.get(CUSTOMRESOURCEDEFINITIONS, ready.api)
    assert crd.meta.annotations[ANNOTATION_CONNECTION] == "other"
    await ready.bound.says("Ready", "True")


@pytest.mark.parametrize("is_named", [False, True], ids=["alone", "beside another binding"])
async def test_a_binding_that_moves_while_no_konnector_runs_leaves_no_copy_behind(
    ready: Ready, is_named: bool
) -> None:
    """A Binding that stays has objects of its namespace read, and copies may be in others."""
    other = await ready.other()
    if is_named:
        await namespace(ready.here, "team")
        gadgets = await ready.world.provider.offer("gadgets")
        await ready.bound.bind("own", gadgets, namespace="team")
    await ready.create()
    await ready.copied()
    await ready.konnector.stop()
    await ready.move()
    await ready.restart()
    await when(other, ready.resource, "a", "shop", until=bool)
    await gone(ready.there, ready.resource, "a", "shop")


async def test_a_binding_that_has_moved_goes_after_the_copies_that_it_had(ready: Ready) -> None:
    """No other object has the record of them, and a new process reads it."""
    await ready.other()
    await ready.create()
    await ready.copied()
    await ready.hold()
    await ready.move()
    await ready.bound.says("Ready", "False", "ForeignCustomResourceDefinition")
    await ready.here.delete(CLUSTERBINDINGS, "all")
    await ready.bound.says("Ready", "False", "Pending", "which it bound before")
    await ready.konnector.stop()
    await ready.restart()
    await ready.let_go()
    await gone(ready.here, CLUSTERBINDINGS, "all")
    await when(
        ready.here,
        ready.resource,
        "a",
        ready.space,
        until=lambda body: not body or not body["metadata"].get("finalizers"),
    )
    await gone(ready.there, ready.resource, "a", ready.space)


async def test_a_connection_that_a_binding_has_left_stays_until_its_copies_are_gone(
    ready: Ready,
) -> None:
    """Its kubeconfig goes with it, and copies that stay would be nobody's."""
    other = await ready.other()
    await ready.create()
    await ready.copied()
    await ready.hold()
    former = ready.bound.connection
    await ready.move()
    await ready.here.delete(CONNECTIONS, former)
    await ready.world.says("Ready", "False", "DrainingBindings", f"copies of {ready.api}")
    # What is in the cluster tells it to the next process.
    await ready.restart()
    await ready.let_go()
    await gone(ready.here, CONNECTIONS, former)
    await gone(ready.there, ready.resource, "a", "shop")
    await when(other, ready.resource, "a", "shop", until=bool)


async def test_a_connection_that_a_binding_has_left_goes_without_its_provider(
    kbind: KbindWorld,
) -> None:
    async with Line(kbind.provider.admin.config.server) as line:
        ready = Ready(kbind)
        api = await kbind.provider.offer()
        await ready.bound.accept("widgets")
        await kbind.konnector(unbind_timeout=1.0)
        await kbind.connect(await ready.bound.kubeconfig("widgets", address=line.url))
        await ready.bound.bind("all", api)
        await ready.says("Ready", "True")
        await namespace(ready.here, ready.space)
        await ready.create()
        await ready.copied()
        await line.cut()
        await ready.move()
        await ready.here.delete(CONNECTIONS, ready.bound.connection)
        await gone(ready.here, CONNECTIONS, ready.bound.connection)
        await ready.there.get(ready.resource, "a", "shop")


async def test_a_deleted_binding_waits_for_copies_of_an_api_that_it_listed_before(
    ready: Ready,
) -> None:
    gadgets = await ready.world.provider.offer("gadgets")
    await ready.bound.accept("gadgets")
    await ready.create()
    await ready.copied()
    await ready.hold()
    apis = {"spec": {"apis": [{"name": gadgets}]}}
    await ready.here.merge_patch(CLUSTERBINDINGS, "all", "", apis)
    await ready.here.delete(CLUSTERBINDINGS, "all")
    await ready.here.delete(CONNECTIONS, ready.bound.connection)
    await ready.says("Ready", "False", "Pending", f"waiting until the copies of {ready.api}")
    await ready.let_go()
    await gone(ready.here, CONNECTIONS, ready.bound.connection)
    left = await ready.here.get(ready.resource, "a", "shop")
    assert not left.meta.finalizers


async def test_bindings_are_left_alone_while_another_konnector_is_at_work(
    kbind: KbindWorld,
) -> None:
    bound = BoundWorld(kbind)
    here, there = bound.consumer, bound.provider.admin
    api = await bound.provider.offer()
    await bound.accept("widgets")
    await kbind.konnector()
    kubeconfig = await bound.kubeconfig("widgets")
    uid = (await here.get(NAMESPACES, "kube-system")).meta.uid
    lease: JSON = {
        "metadata": {"name": lease_name(uid), "namespace": LEASE_NAMESPACE},
        "spec": {
            "holderIdentity": uid,
            "leaseDurationSeconds": 1,
            "renewTime": "2026-11-30T12:00:00.000000Z",
        },
    }
    await there.create(LEASES, lease)
    await kbind.connect(kubeconfig)
    await kbind.says("AnotherKonnector", "True")
    await bound.bind("all", api)
    assert await idle(0.3)
    # The other's Lease ends in a moment; until then nothing is written.
    body = (await here.get(CLUSTERBINDINGS, "all")).to_dict()
    if condition((await here.get(CONNECTIONS, kbind.name)).to_dict(), "AnotherKonnector"):
        assert "finalizers" not in body["metadata"]
        assert "status" not in body
    await bound.says("Ready", "True")


async def test_f15_what_no_binding_covers_any_more_is_released(kbind: KbindWorld) -> None:
    """The original leaves copies and finalizers of a binding beside others, or of an API."""
    bound = BoundWorld(kbind)
    here, there, resource = bound.consumer, bound.provider.admin, widgets(bound.provider)
    api, gadgets = await bound.provider.offer(), await bound.provider.offer("gadgets")
    await bound.accept("widgets", "gadgets")
    await kbind.konnector()
    await kbind.connect(await bound.kubeconfig("widgets", "gadgets"))
    for name in ("shop", "store"):
        await namespace(here, name)
        await bound.bind("own", api, gadgets, namespace=name)
        await bound.says("Ready", "True", key=Key(name, "own"))
        await here.create(resource, widget(resource, "a", name))
        await when(there, resource, "a", name, until=bool)
    ready = Ready(kbind)
    await ready.hold()
    await here.delete(BINDINGS, "own", "shop")
    await bound.says(
        "Ready", "False", "Pending", "waiting until the copies", key=Key("shop", "own")
    )
    await ready.let_go()
    await gone(here, BINDINGS, "own", "shop")
    await gone(there, resource, "a", "shop")
    assert (await here.get(resource, "a", "shop")).meta.finalizers == []
    assert (await there.get(resource, "a", "store")).meta.labels[LABEL_MANAGED] == "true"
    alone = {"spec": {"apis": [{"name": gadgets}]}}
    await here.merge_patch(BINDINGS, "own", "store", alone)
    await gone(there, resource, "a", "store")
    await when(
        here, resource, "a", "store", until=lambda body: not body["metadata"].get("finalizers")
    )
    # A Binding takes nothing away that is cluster-wide.
    await here.get(CUSTOMRESOURCEDEFINITIONS, api)


@pytest.mark.edge
async def test_f17_a_crd_deleted_by_hand_goes_with_its_objects_and_comes_again(
    any_ready: Ready,
) -> None:
    """In the original it hangs with its objects, as their syncer stops first."""
    ready = any_ready
    await ready.create()
    await ready.copied()
    await ready.hold()
    before = await ready.here.get(CUSTOMRESOURCEDEFINITIONS, ready.api)
    await ready.here.delete(CUSTOMRESOURCEDEFINITIONS, ready.api)
    assert await idle(0.3)
    await ready.here.get(ready.resource, "a", ready.space)
    await ready.let_go()
    await gone(ready.there, ready.resource, "a", ready.space)
    await when(
        ready.here,
        CUSTOMRESOURCEDEFINITIONS,
        ready.api,
        until=lambda body: body and body["metadata"]["uid"] != before.meta.uid,
    )
    await ready.says("Ready", "True")
    await ready.create("b")
    await ready.copied("b")


async def test_f20_a_role_in_one_namespace_is_enough_for_a_binding(kbind: KbindWorld) -> None:
    """The original needs the watch of the whole cluster, and creates namespaces that are there."""
    bound = BoundWorld(kbind)
    here, there, resource = bound.consumer, bound.provider.admin, widgets(bound.provider)
    api = await bound.provider.offer()
    await bound.accept("widgets")
    await kbind.konnector()
    for admin in (here, there):
        await namespace(admin, "shop")
    kubeconfig = await bound.provider.kubeconfig("shop")
    rules = [rule(resource.group, ["widgets"], OBJECT_VERBS)]
    await grant_in(there, "shop", "shop", rules)
    await kbind.connect(kubeconfig)
    await bound.bind("own", api, namespace="shop")
    await bound.says("Ready", "True", key=Key("shop", "own"))
    await here.create(resource, widget(resource, "a", "shop"))
    await when(there, resource, "a", "shop", until=bool)
    await here.delete(BINDINGS, "own", "shop")
    await gone(there, resource, "a", "shop")
    await gone(here, BINDINGS, "own", "shop")


async def test_f5_with_bindings_alone_only_their_namespaces_are_read(kbind: KbindWorld) -> None:
    """The original reads the objects of all other consumers too."""
    bound = BoundWorld(kbind)
    here, there, resource = bound.consumer, bound.provider.admin, widgets(bound.provider)
    plane = kbind.provider.plane
    assert plane is not None
    api = await bound.provider.offer()
    await bound.accept("widgets")
    await kbind.konnector()
    for name in ("shop", "store"):
        await namespace(here, name)
    await kbind.connect(await bound.kubeconfig("widgets"))
    await bound.bind("own", api, namespace="shop")
    await bound.says("Ready", "True", key=Key("shop", "own"))
    await here.create(resource, widget(resource, "a", "shop"))
    await here.create(resource, widget(resource, "a", "store"))
    await when(there, resource, "a", "shop", until=bool)
    asked = [
        info
        for info in plane.traffic.seen
        if info.resource == "widgets" and info.verb in {"list", "watch"}
    ]
    assert {info.namespace for info in asked if not info.selected_name} == {"shop"}
    untouched = await here.get(resource, "a", "store")
    assert untouched.meta.finalizers == []


async def test_an_api_whose_label_is_taken_off_makes_no_copies_and_lets_objects_go(
    ready: Ready,
) -> None:
    """In the original no API of the binding is synchronised any more, and deletions hang."""
    await ready.create("a")
    await ready.copied("a")
    off = {"metadata": {"labels": {LABEL_EXPORTED: None}}}
    await ready.there.merge_patch(CUSTOMRESOURCEDEFINITIONS, ready.api, "", off)
    await ready.bound.says("Ready", "False", "APINotExported")
    await ready.create("b")
    await ready.here.delete(ready.resource, "a", "shop")
    await gone(ready.here, ready.resource, "a", "shop")
    await gone(ready.there, ready.resource, "a", "shop")
    assert (await ready.here.get(ready.resource, "b", "shop")).meta.finalizers == []
    on = {"metadata": {"labels": {LABEL_EXPORTED: "true"}}}
    await ready.there.merge_patch(CUSTOMRESOURCEDEFINITIONS, ready.api, "", on)
    await ready.bound.says("Ready", "True")
    await ready.copied("b")


async def test_a_changed_schema_comes(ready: Ready) -> None:
    await ready.create("a")
    await ready.copied("a")
    crd = (await ready.there.get(CUSTOMRESOURCEDEFINITIONS, ready.api)).to_dict()
    column = {"name": "Size", "type": "integer", "jsonPath": ".spec.size"}
    crd["spec"]["versions"][0]["additionalPrinterColumns"] = [column]
    await ready.there.update(CUSTOMRESOURCEDEFINITIONS, crd)
    body = await when(
        ready.here,
        CUSTOMRESOURCEDEFINITIONS,
        ready.api,
        until=lambda body: "Size" in str(body["spec"]["versions"][0]),
    )
    written = body["metadata"]["annotations"][ANNOTATION_SCHEMA_HASH]
    await when(
        ready.here,
        CLUSTERBINDINGS,
        "all",
        until=lambda body: body["status"]["boundAPIs"][0]["crdHash"] == written,
    )


async def test_f20_an_unreadable_watch_is_told_and_works_once_it_is_allowed(
    kbind: KbindWorld,
) -> None:
    """In the original its syncer is dead for good, and the binding Ready."""
    bound = BoundWorld(kbind)
    here, there, resource = bound.consumer, bound.provider.admin, widgets(bound.provider)
    api = await bound.provider.offer()
    await bound.accept("widgets")
    await kbind.konnector()
    await kbind.connect(await bound.provider.kubeconfig("team"))
    await bound.bind("all", api)
    await bound.says("PermissionDenied", "True", "Forbidden", "widgets")
    await bound.says("Ready", "False", "Forbidden", "widgets")
    rules = [*RULES, rule(resource.group, ["widgets"], OBJECT_VERBS)]
    await bound.provider.grant("team", rules)
    await bound.says("Ready", "True")
    await bound.says("PermissionDenied", "False", "AsExpected")
    await namespace(here, "shop")
    await here.create(resource, widget(resource, "a", "shop"))
    # The namespace is missing there, and may not be created.
    await bound.says("PermissionDenied", "True", "Forbidden", "namespaces")
    await namespace(there, "shop")
    await when(there, resource, "a", "shop", until=bool)


async def test_f11_unbinding_waits_for_a_provider_that_is_away_with_a_bound(
    kbind: KbindWorld,
) -> None:
    """The original leaves the copies at once, without a word."""
    bound = BoundWorld(kbind)
    here, there, resource = bound.consumer, bound.provider.admin, widgets(bound.provider)
    api = await bound.provider.offer()
    await bound.accept("widgets")
    await kbind.konnector(unbind_timeout=2.0)
    async with Line(there.config.server) as line:
        await kbind.connect(await bound.kubeconfig("widgets", address=line.url))
        await bound.bind("all", api)
        await bound.says("Ready", "True")
        await namespace(here, "shop")
        await here.create(resource, widget(resource, "a", "shop"))
        await when(there, resource, "a", "shop", until=bool)
        await line.cut()
        await here.delete(CLUSTERBINDINGS, "all")
        await bound.says("Ready", "False", "Pending", "--unbind-timeout")
        await gone(here, CLUSTERBINDINGS, "all")
        await gone(here, CUSTOMRESOURCEDEFINITIONS, api)
        copy = await there.get(resource, "a", "shop")
        assert not copy.meta.deleting
        events = (await here.list(EVENTS)).items
        assert "ProviderGone" in [one.to_dict()["reason"] for one in events]


async def test_f11_the_bound_holds_after_a_restart_too(ready: Ready) -> None:
    """A process that has never met the provider lets objects go all the same."""
    await ready.create()
    await ready.copied()
    await ready.konnector.stop()
    await ready.here.merge_patch(SECRETS, ready.bound.connection, NAMESPACE, {"data": None})
    await ready.world.konnector(unbind_timeout=1.0)
    await ready.here.delete(CLUSTERBINDINGS, "all")
    await gone(ready.here, CLUSTERBINDINGS, "all")
    await gone(ready.here, CUSTOMRESOURCEDEFINITIONS, ready.api)
    await ready.copied()


async def test_f18_a_silent_provider_holds_up_no_other(ready: Ready) -> None:
    """In the original the one worker of its controller waits for ever."""
    silent = await ready.world.new_provider("silent")
    api = await silent.offer()
    async with Line(silent.admin.config.server) as line:
        kubeconfig = await ready.bound.kubeconfig("widgets", provider=silent, address=line.url)
        line.freeze()
        await ready.world.connect(kubeconfig, "silent")
        await ready.bound.bind("quiet", api, connection="silent")
        await ready.bound.says("Ready", "False", "Pending", key=Key("", "quiet"))
        await ready.create()
        await ready.copied()
        await ready.here.delete(ready.resource, "a", "shop")
        await gone(ready.there, ready.resource, "a", "shop")


async def test_f18_an_api_that_is_never_served_here_holds_up_no_other(ready: Ready) -> None:
    """In the original it blocks the one worker that starts syncers."""
    taken = exported_crd(ready.world.provider.group, "others", exported=False)
    taken["spec"]["names"] |= {"kind": "Gadget", "listKind": "GadgetList"}
    await install_crds(ready.here, [taken])
    gadgets = await ready.world.provider.offer("gadgets")
    await ready.bound.accept("gadgets")
    await ready.bound.bind("more", gadgets)
    text = "is not served in this cluster yet"
    await ready.bound.says("Ready", "False", "Pending", text, key=Key("", "more"))
    await ready.create()
    await ready.copied()
    await ready.here.delete(CLUSTERBINDINGS, "more")
    await gone(ready.here, CLUSTERBINDINGS, "more")


async def test_unbinding_leaves_a_crd_that_may_not_be_deleted_after_the_bound(
    kbind: KbindWorld,
) -> None:
    """Also where one delete takes the konnector's rights away with the binding."""
    bound = BoundWorld(kbind)
    here, there, resource = bound.consumer, bound.provider.admin, widgets(bound.provider)
    api = await bound.provider.offer()
    await create_all(here, cluster_binding_roles("all", [api]))
    await kbind.konnector(unbind_timeout=1.0)
    await kbind.connect(await bound.kubeconfig("widgets"))
    await bound.bind("all", api)
    await bound.says("Ready", "True")
    await namespace(here, "shop")
    await here.create(resource, widget(resource, "a", "shop"))
    await when(there, resource, "a", "shop", until=bool)
    rules = [rule(resource.group, ["widgets"], ("get", "list", "watch", "patch"))]
    await here.merge_patch(CLUSTERROLES, role_name("all"), "", {"rules": rules})
    await here.delete(CLUSTERBINDINGS, "all")
    await bound.says("Ready", "False", "Pending", "refuses to delete")
    await gone(here, CLUSTERBINDINGS, "all")
    # It has ended by the bound, and not between two tries.
    events = (await here.list(EVENTS)).items
    assert "DeletionRefused" in [one.to_dict()["reason"] for one in events]
    await gone(there, resource, "a", "shop")
    assert (await here.get(resource, "a", "shop")).meta.finalizers == []
    assert not (await here.get(CUSTOMRESOURCEDEFINITIONS, api)).meta.deleting


@pytest.mark.edge
async def test_a_field_that_the_original_applied_goes_once_it_is_removed_here(
    any_ready: Ready,
) -> None:
    """Ours takes over what the original has written, and takes away what it would."""
    ready = any_ready
    there = await ready.create()
    await ready.copied()
    marks = {
        CONSUMER_CLUSTER_UID: (await ready.here.get(NAMESPACES, "kube-system")).meta.uid,
        ANNOTATION_CONSUMER_OBJECT_UID: there["metadata"]["uid"],
    }
    metadata = {"labels": {LABEL_MANAGED: "true"}, "annotations": marks}
    await ready.konnector.stop()
    body = widget(ready.resource, "a", ready.space, metadata=metadata, spec={"size": 1, "old": 1})
    await ready.there.apply(ready.resource, body, field_manager=FIELD_MANAGER)
    await ready.restart()
    copy = await ready.copied(until=spec_is(size=1))
    entries = copy["metadata"]["managedFields"]
    assert [one["manager"] for one in entries] == [FIELD_MANAGER]


@pytest.mark.edge
async def test_a_field_that_ours_applied_goes_when_the_original_leaves_it_out(
    any_ready: Ready,
) -> None:
    """The original takes over what ours has written, with its own body."""
    ready = any_ready
    created = await ready.create(spec={"size": 1, "old": 1})
    copy = await ready.copied()
    await ready.konnector.stop()
    marks = copy["metadata"]["annotations"]
    assert marks[ANNOTATION_CONSUMER_OBJECT_UID] == created["metadata"]["uid"]
    metadata = {"labels": {LABEL_MANAGED: "true"}, "annotations": marks}
    body = widget(ready.resource, "a", ready.space, metadata=metadata, spec={"size": 1})
    applied = await ready.there.apply(ready.resource, body, field_manager=FIELD_MANAGER)
    assert applied.to_dict()["spec"] == {"size": 1}


@pytest.mark.edge
async def test_drift_is_reverted_and_fields_of_others_stay(any_ready: Ready) -> None:
    ready = any_ready
    await ready.create()
    await ready.copied()
    change = {"spec": {"size": 5, "theirs": 1}}
    await ready.there.merge_patch(ready.resource, "a", ready.space, change)
    await ready.copied(until=spec_is(size=1, theirs=1))
    change = {"spec": {"more": 2}}
    await ready.here.merge_patch(ready.resource, "a", ready.space, change)
    await ready.copied(until=spec_is(size=1, theirs=1, more=2))
    await ready.here.merge_patch(ready.resource, "a", ready.space, {"spec": {"more": None}})
    await ready.copied(until=spec_is(size=1, theirs=1))


async def test_nothing_is_written_at_rest_nor_after_a_restart(kbind: KbindWorld) -> None:
    """A health interval of a second takes no watch for faulty that has to list again."""
    ready = Ready(kbind)
    await ready.start(health_interval=1.0)
    await ready.create("a")
    await ready.create("b", spec={"items": [1]})
    await ready.copied("a")
    await ready.copied("b")
    await ready.there.merge_patch(ready.resource, "a", "shop", {"spec": {"theirs": 1}})
    await namespace(ready.there, "taken")
    await namespace(ready.here, "taken")
    await ready.there.create(ready.resource, widget(ready.resource, "c", "taken"))
    await ready.here.create(ready.resource, widget(ready.resource, "c", "taken"))
    await ready.bound.says("Conflicts", "True")
    plane = ready.world.provider.plane
    assert plane is not None
    await steady(ready.world.consumer_plane, plane)
    await ready.konnector.stop()
    for one in (ready.world.consumer_plane, plane):
        one.traffic.seen.clear()
    await ready.world.konnector(health_interval=1.0)
    await ready.create("d")
    await ready.copied("d")
    await quiet(ready.world.consumer_plane, plane, forget=False)
    written = [
        (info.verb, info.resource, info.name)
        for one in (ready.world.consumer_plane, plane)
        for info in one.traffic.writing()
        if info.resource == "widgets" and info.name != "d"
    ]
    assert written == [("create", "widgets", "")]
    assert "clusterbindings" not in {
        info.resource for info in ready.world.consumer_plane.traffic.writing()
    }


async def test_a_kind_without_status_here_is_told_and_does_not_back_off(kbind: KbindWorld) -> None:
    """The original's status write is a 404, again and again."""
    bound = BoundWorld(kbind)
    here, there, resource = bound.consumer, bound.provider.admin, widgets(bound.provider)
    api = await bound.provider.offer()
    crd = exported_crd(bound.provider.group, exported=False)
    for version in crd["spec"]["versions"]:
        version.pop("subresources", None)
    await install_crds(here, [crd])
    await bound.accept("widgets")
    await kbind.konnector()
    policy = {"pullPolicy": "None"}
    await kbind.connect(await bound.kubeconfig("widgets"), schema=policy)
    await bound.bind("all", api)
    await bound.says("Synced", "True", text="has no status subresource")
    await namespace(here, "shop")
    await here.create(resource, widget(resource, "a", "shop"))
    await when(there, resource, "a", "shop", until=bool)
    status = {"status": {"phase": "Ready"}}
    await there.merge_patch(resource, "a", "shop", status, subresource="status")
    assert await idle(0.3)
    asked = [info for info in kbind.consumer_plane.traffic.seen if info.resource == "widgets"]
    assert not [info for info in asked if info.subresource]


async def test_f3_a_connection_admits_bindings_of_the_namespaces_that_it_names(
    ready: Ready,
) -> None:
    """In the original whoever may make a Binding uses every Connection's credentials."""
    allowed = {"metadata": {"annotations": {"fairlead.dev/binding-namespaces": "store"}}}
    await ready.here.merge_patch(CONNECTIONS, ready.bound.connection, "", allowed)
    gadgets = await ready.world.provider.offer("gadgets")
    await ready.bound.bind("own", gadgets, namespace="shop")
    key = Key("shop", "own")
    await ready.bound.says("Ready", "False", "Forbidden", "binding-namespaces", key=key)
    found = {crd.meta.name for crd in (await ready.here.list(CUSTOMRESOURCEDEFINITIONS)).items}
    assert gadgets not in found
    await ready.here.delete(BINDINGS, "own", "shop")
    await gone(ready.here, BINDINGS, "own", "shop")


async def test_f6_a_binding_takes_a_role_in_its_namespace_on_both_sides(kbind: KbindWorld) -> None:
    """In the original both sides need rights in the whole cluster."""
    bound = BoundWorld(kbind)
    here, there, resource = bound.consumer, bound.provider.admin, widgets(bound.provider)
    api = await bound.provider.offer()
    await kbind.konnector()
    for name in ("shop", "store"):
        await namespace(here, name)
        await namespace(there, name)
    await kbind.connect(await bound.provider.kubeconfig("team"))
    rules = [rule(resource.group, ["widgets"], OBJECT_VERBS)]
    await grant_in(there, "shop", "team", rules)
    account = {"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}
    await create_all(here, binding_roles("own", "shop", [api], konnector=account))
    for name in ("shop", "store"):
        await bound.bind("own", api, namespace=name)
    await when(here, CUSTOMRESOURCEDEFINITIONS, api, until=bool)
    text = "must grant it"
    await bound.says("Ready", "False", "Forbidden", text, key=Key("store", "own"))
    await bound.says("Ready", "True", key=Key("shop", "own"))
    await here.create(resource, widget(resource, "a", "shop"))
    await when(there, resource, "a", "shop", until=bool)
    # What is missing for one Binding holds up no other.
    await here.delete(BINDINGS, "own", "shop")
    await gone(there, resource, "a", "shop")
    await gone(here, BINDINGS, "own", "shop")


async def test_a_file_with_rights_is_deleted_at_once(kbind: KbindWorld) -> None:
    """As kubectl delete -f does: the binding waits, says why, and ends once it has them again."""
    bound = BoundWorld(kbind)
    here, there, resource = bound.consumer, bound.provider.admin, widgets(bound.provider)
    api = await bound.provider.offer()
    konnector = await kbind.konnector()
    for admin in (here, there):
        await namespace(admin, "shop")
    await kbind.connect(await bound.provider.kubeconfig("team"))
    rules = [rule(resource.group, ["widgets"], OBJECT_VERBS)]
    await grant_in(there, "shop", "team", rules)
    account = {"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}
    roles = binding_roles("own", "shop", [api], konnector=account)
    await create_all(here, roles)
    await bound.bind("own", api, namespace="shop")
    await bound.says("Ready", "True", key=Key("shop", "own"))
    await here.create(resource, widget(resource, "a", "shop"))
    await when(there, resource, "a", "shop", until=bool)
    for body in roles:
        kind = await here.discovery.resource_for(body["apiVersion"], body["kind"])
        await here.delete(kind, body["metadata"]["name"], body["metadata"].get("namespace", ""))
    await here.delete(BINDINGS, "own", "shop")
    await bound.says("Ready", "False", "Pending", "cannot patch", key=Key("shop", "own"))
    await bound.says(
        "PermissionDenied", "True", "Forbidden", "cannot patch", key=Key("shop", "own")
    )
    # Another process does not take what it cannot list for gone.
    await konnector.stop()
    await konnector.start()
    await bound.says("Ready", "False", "Pending", "cannot list", key=Key("shop", "own"))
    await create_all(here, roles)
    await gone(there, resource, "a", "shop")
    await gone(here, BINDINGS, "own", "shop")


async def test_f6_the_konnector_has_rights_on_bound_kinds_alone(ready: Ready) -> None:
    """The original's role is all resources; the worlds here run by the manifests' rights."""
    gadgets = await ready.world.provider.offer("gadgets")
    await ready.bound.bind("more", gadgets)
    key = Key("", "more")
    body = await ready.bound.says("Ready", "False", "Forbidden", "gadgets", key=key)
    assert "must grant it" in condition(body, "Ready")["message"]
    await ready.bound.accept("gadgets")
    await ready.create()
    await ready.copied()


async def test_a_konnector_killed_in_the_middle_loses_nothing(
    kbind: KbindWorld, tmp_path: Path
) -> None:
    """kill -9 while objects cross, and again while they are unbound; another one goes on."""
    bound = BoundWorld(kbind)
    here, there, resource = bound.consumer, bound.provider.admin, widgets(bound.provider)
    plane = kbind.provider.plane
    assert plane is not None
    api = await bound.provider.offer()
    await bound.accept("widgets")
    installed = await kbind.konnector()
    await installed.stop()
    file = tmp_path / "kubeconfig"
    config = config_file(await as_service_account(here, NAMESPACE, NAME))
    await asyncio.to_thread(file.write_text, config)
    await namespace(here, "shop")
    await kbind.connect(await bound.kubeconfig("widgets"))
    await bound.bind("all", api)
    flags = ("--protocols=v1alpha2,v2", "--leader-elect=false")
    for verb, work in (("patch", "create"), ("delete", "unbind")):
        async with process(file, *flags) as running:
            if work == "create":
                await when(here, CUSTOMRESOURCEDEFINITIONS, api, until=bool)
                await bound.says("Ready", "True")
            with plane.traffic.hold(verb, "widgets") as hold:
                if work == "create":
                    for number in range(5):
                        await here.create(resource, widget(resource, f"o{number}", "shop"))
                else:
                    await here.delete(CLUSTERBINDINGS, "all")
                async with asyncio.timeout(SECONDS):
                    await hold.reached.wait()
                running.kill()
                await running.wait()
        async with process(file, *flags):
            for number in range(5):
                if work == "create":
                    await when(there, resource, f"o{number}", "shop", until=bool)
                else:
                    await gone(there, resource, f"o{number}", "shop")
            if work == "unbind":
                await gone(here, CLUSTERBINDINGS, "all")
                await gone(here, CUSTOMRESOURCEDEFINITIONS, api)


async def test_uninstalling_the_konnector_names_what_only_it_takes_apart(ready: Ready) -> None:
    await ready.create()
    await ready.copied()
    found = await survey(ready.here, "konnector")
    assert [use.what.split(" of ")[0] for use in found.uses] == [
        f"ClusterBinding {ready.name}",
        f"Connection {ready.bound.connection}",
    ]
    assert f"clusterbindings.core.kbind.io {ready.name}" in found.uses[0].remedy
    with pytest.raises(UninstallError):
        await uninstall(ready.here, "konnector", timeout=SECONDS, progress=lambda _line: None)
    await ready.konnector.stop()
    await uninstall(
        ready.here,
        "konnector",
        choices=Choices(orphan=True),
        timeout=SECONDS,
        progress=lambda _line: None,
    )
    for resource, name in (
        (CLUSTERBINDINGS, ready.name),
        (CONNECTIONS, ready.bound.connection),
    ):
        await gone(ready.here, resource, name)
    held = await ready.here.get(ready.resource, "a", ready.space)
    assert held.meta.finalizers == []
    assert not (await ready.copied())["metadata"].get("deletionTimestamp")
    assert (await survey(ready.here, "konnector")).uses == []
