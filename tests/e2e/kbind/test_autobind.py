"""autoBind end to end, and the original's faults F9, F10 and F16 that it does not have."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.countingplanes import quiet, steady
from tests.support.kbindbound import BoundWorld, binding, namespace, widget, widgets
from tests.support.kbindworld import KbindWorld
from tests.support.line import Line
from tests.support.waiting import SECONDS, condition, gone, when

from fairlead.api.kbind import CLUSTERBINDINGS, CONNECTIONS, crds
from fairlead.api.kbind.names import ANNOTATION_CONNECTION, LABEL_EXPORTED, LABEL_MANAGED
from fairlead.api.meta import JSON, Key
from fairlead.api.resource import CLUSTERROLES, CUSTOMRESOURCEDEFINITIONS
from fairlead.konnector.commands.v2.accept import accept_kbind
from fairlead.konnector.commands.v2.bind import KbindOptions
from fairlead.konnector.commands.v2.targets import KbindTarget
from fairlead.runtime import install_crds


class AutoBound:
    """A world whose one Connection binds all that its provider offers."""

    def __init__(self, world: KbindWorld) -> None:
        self.world = world
        self.bound = BoundWorld(world)
        self.here, self.there = world.consumer, world.provider.admin
        self.name = world.name
        """Name of the Connection, and so of its ClusterBinding."""
        self.space = f"shop-{world.name}"

    async def start(self, *plurals: str, address: str = "", **options: Any) -> list[str]:
        """Offer kinds, and return the names of their APIs once they are bound."""
        apis = [await self.world.provider.offer(plural) for plural in plurals]
        await self.accept("widgets", "sprockets")
        self.konnector = await self.world.konnector(**options)
        kubeconfig = await self.bound.kubeconfig("widgets", "sprockets", "things", address=address)
        await self.world.connect(kubeconfig, autoBind=True)
        if apis:
            await self.says("Ready", "True")
        return apis

    async def accept(self, *plurals: str) -> None:
        await self.bound.accept(*plurals)

    async def says(self, type_: str, status: str, reason: str = "", text: str = "") -> JSON:
        """The managed ClusterBinding, once a condition is so."""
        return await self.bound.says(type_, status, reason, text, key=Key("", self.name))

    async def binds(self, *apis: str) -> JSON:
        """The ClusterBinding, once it has these APIs."""

        def fits(body: JSON) -> bool:
            return [api["name"] for api in body["spec"]["apis"]] == sorted(apis)

        return await when(
            self.here, CLUSTERBINDINGS, self.name, until=lambda body: bool(body) and fits(body)
        )

    async def well(self) -> JSON:
        """The Connection, once it says nothing about autoBind."""
        return await when(
            self.here,
            CONNECTIONS,
            self.name,
            until=lambda body: not condition(body, "AutoBindFailing"),
        )

    async def set_auto_bind(self, *, on: bool) -> None:
        await self.here.merge_patch(CONNECTIONS, self.name, "", {"spec": {"autoBind": on}})

    async def label(self, api: str, value: str | None) -> None:
        """Set or take off the label by which the provider offers an API."""
        labels = {"metadata": {"labels": {LABEL_EXPORTED: value}}}
        await self.there.merge_patch(CUSTOMRESOURCEDEFINITIONS, api, "", labels)

    async def copied(self, name: str = "a") -> JSON:
        """The copy of an object of the first kind, which is created here."""
        resource = widgets(self.world.provider)
        await namespace(self.here, self.space)
        await self.here.create(resource, widget(resource, name, self.space))
        return await when(self.there, resource, name, self.space, until=bool)


@pytest.mark.edge
async def test_all_that_is_offered_is_bound_and_what_users_add_stays(
    any_kbind: KbindWorld,
) -> None:
    auto = AutoBound(any_kbind)
    (widgets_api,) = await auto.start("widgets")
    body = await auto.binds(widgets_api)
    uid = (await auto.here.get(CONNECTIONS, auto.name)).meta.uid
    assert body["metadata"]["labels"] == {LABEL_MANAGED: "true"}
    assert body["metadata"]["ownerReferences"] == [
        {
            "apiVersion": CONNECTIONS.api_version,
            "kind": CONNECTIONS.kind,
            "name": auto.name,
            "uid": uid,
            "controller": True,
        }
    ]
    assert body["spec"]["connectionRef"] == {"name": auto.name}
    await auto.copied()
    adopting = {"spec": {"conflictPolicy": "Adopt"}}
    await auto.here.merge_patch(CLUSTERBINDINGS, auto.name, "", adopting)
    sprockets_api = await any_kbind.provider.offer("sprockets")
    body = await auto.binds(sprockets_api, widgets_api)
    assert body["spec"]["conflictPolicy"] == "Adopt"
    await auto.says("Ready", "True", text="2 APIs")
    # What it names and binds is the konnector's to say.
    other = {"spec": {"apis": [{"name": widgets_api}], "connectionRef": {"name": "other"}}}
    await auto.here.merge_patch(CLUSTERBINDINGS, auto.name, "", other)
    body = await auto.binds(sprockets_api, widgets_api)
    await when(
        auto.here,
        CLUSTERBINDINGS,
        auto.name,
        until=lambda body: body["spec"]["connectionRef"] == {"name": auto.name},
    )
    # One that is deleted comes again, with the CRDs.
    uid = body["metadata"]["uid"]
    await auto.here.delete(CLUSTERBINDINGS, auto.name)
    await when(
        auto.here,
        CLUSTERBINDINGS,
        auto.name,
        until=lambda body: bool(body) and body["metadata"]["uid"] != uid,
    )
    await auto.says("Ready", "True", text="2 APIs")
    await auto.here.delete(CONNECTIONS, auto.name)
    await gone(auto.here, CONNECTIONS, auto.name)
    await gone(auto.here, CLUSTERBINDINGS, auto.name)
    for api in (widgets_api, sprockets_api):
        await gone(auto.here, CUSTOMRESOURCEDEFINITIONS, api)


async def test_f9_an_api_that_is_still_there_stays_bound_without_its_label(
    kbind: KbindWorld,
) -> None:
    """The original's binding follows one look, and with an API go its CRD, objects and copies."""
    auto = AutoBound(kbind)
    widgets_api, sprockets_api = await auto.start("widgets", "sprockets", health_interval=1.0)
    copy = await auto.copied()
    await auto.label(widgets_api, None)
    await kbind.says("AutoBindFailing", "True", "APINotExported", widgets_api)
    await auto.binds(sprockets_api, widgets_api)
    await auto.says("Ready", "False", "APINotExported", widgets_api)
    found = await auto.there.get(widgets(kbind.provider), "a", auto.space)
    assert found.meta.uid == copy["metadata"]["uid"]
    # Nothing is asked again and again about it.
    assert kbind.provider.plane is not None
    await quiet(kbind.consumer_plane, kbind.provider.plane)
    await steady(kbind.consumer_plane, kbind.provider.plane)
    await auto.label(widgets_api, "true")
    await auto.well()
    await auto.says("Ready", "True", text="2 APIs")


async def test_f9_an_api_goes_once_the_provider_has_it_no_more_but_not_the_last_one(
    kbind: KbindWorld,
) -> None:
    """The original deletes the binding with the last export, and every CRD and object by it."""
    auto = AutoBound(kbind)
    widgets_api, sprockets_api = await auto.start("widgets", "sprockets", unbind_timeout=1.0)
    # Its deletion tells nothing else than the label that is taken off before it.
    await auto.label(sprockets_api, None)
    await kbind.says("AutoBindFailing", "True", "APINotExported", sprockets_api)
    await auto.there.delete(CUSTOMRESOURCEDEFINITIONS, sprockets_api)
    await auto.binds(widgets_api)
    await auto.well()
    await auto.copied()
    await auto.there.delete(CUSTOMRESOURCEDEFINITIONS, widgets_api)
    await kbind.says(
        "AutoBindFailing", "True", "APINotExported", f"delete ClusterBinding {auto.name}"
    )
    await auto.binds(widgets_api)
    crd = await auto.here.get(CUSTOMRESOURCEDEFINITIONS, widgets_api)
    assert crd.meta.annotations[ANNOTATION_CONNECTION] == auto.name
    await auto.here.get(widgets(kbind.provider), "a", auto.space)
    # It does as it says, and is not created again.
    await auto.here.delete(CLUSTERBINDINGS, auto.name)
    await gone(auto.here, CLUSTERBINDINGS, auto.name)
    await auto.well()


async def test_f9_a_provider_that_is_away_takes_no_api_from_the_binding(kbind: KbindWorld) -> None:
    """The original counts what one look does not find as gone."""
    async with Line(kbind.provider.admin.config.server) as line:
        auto = AutoBound(kbind)
        apis = await auto.start("widgets", "sprockets", address=line.url)
        await line.cut()
        for api in apis:
            await auto.there.delete(CUSTOMRESOURCEDEFINITIONS, api)
        await kbind.says("Ready", "False", "Pending")
        await auto.binds(*apis)
        assert not condition(await auto.well(), "AutoBindFailing")
        line.mend()
        await kbind.says("AutoBindFailing", "True", "APINotExported")
        await auto.binds(*apis)


async def test_f10_a_users_cluster_binding_of_the_name_stays_as_it_is(kbind: KbindWorld) -> None:
    """The original takes it over, and replaces its APIs."""
    auto = AutoBound(kbind)
    await install_crds(auto.here, crds())
    body = binding(auto.name, auto.name, "others.example.org")
    await auto.here.create(CLUSTERBINDINGS, body)
    for plural in ("widgets", "sprockets"):
        await kbind.provider.offer(plural)
    await auto.start()
    await kbind.says("AutoBindFailing", "True", "ForeignClusterBinding", auto.name)
    await kbind.says("Ready", "True")
    await quiet(kbind.consumer_plane)
    found = await auto.here.get(CLUSTERBINDINGS, auto.name)
    assert found.to_dict()["spec"]["apis"] == [{"name": "others.example.org"}]
    assert not found.meta.owner_references
    assert not found.meta.labels
    # Neither does its Connection take it along.
    await auto.set_auto_bind(on=False)
    await auto.well()
    await auto.here.get(CLUSTERBINDINGS, auto.name)
    await auto.set_auto_bind(on=True)
    await auto.here.delete(CLUSTERBINDINGS, auto.name)
    await auto.says("Ready", "True", text="2 APIs")
    await auto.well()


async def test_f16_turned_off_it_deletes_its_cluster_binding_and_the_connection_can_go(
    kbind: KbindWorld,
) -> None:
    """The original leaves it, and the Connection then waits for it for ever."""
    auto = AutoBound(kbind)
    (api,) = await auto.start("widgets")
    await auto.copied()
    await auto.set_auto_bind(on=False)
    await gone(auto.here, CLUSTERBINDINGS, auto.name)
    await gone(auto.there, widgets(kbind.provider), "a", auto.space)
    await gone(auto.here, CUSTOMRESOURCEDEFINITIONS, api)
    await auto.here.delete(CONNECTIONS, auto.name)
    await gone(auto.here, CONNECTIONS, auto.name)


async def test_a_cluster_binding_without_its_owner_reference_is_the_users(
    kbind: KbindWorld,
) -> None:
    """So what is bound can stay when autoBind is turned off."""
    auto = AutoBound(kbind)
    (api,) = await auto.start("widgets")
    alone: JSON = {"metadata": {"ownerReferences": None}}
    await auto.here.merge_patch(CLUSTERBINDINGS, auto.name, "", alone)
    await kbind.says("AutoBindFailing", "True", "ForeignClusterBinding")
    await auto.set_auto_bind(on=False)
    await auto.well()
    await quiet(kbind.consumer_plane)
    await auto.binds(api)
    await auto.copied()
    await auto.here.delete(CONNECTIONS, auto.name)
    await kbind.says("Ready", "False", "DrainingBindings", auto.name)


async def test_f16_a_connection_goes_with_its_cluster_binding_while_the_provider_is_away(
    kbind: KbindWorld,
) -> None:
    async with Line(kbind.provider.admin.config.server) as line:
        auto = AutoBound(kbind)
        await auto.start("widgets", address=line.url, unbind_timeout=1.0)
        await auto.copied()
        await line.cut()
        await auto.here.delete(CONNECTIONS, auto.name)
        await kbind.says("Ready", "False", "DrainingBindings", f"ClusterBinding {auto.name}")
        await gone(auto.here, CLUSTERBINDINGS, auto.name)
        await gone(auto.here, CONNECTIONS, auto.name)


async def test_rights_on_what_is_bound_are_those_of_accept(kbind: KbindWorld) -> None:
    """PermissionDenied names the command, and what it writes is enough."""
    auto = AutoBound(kbind)
    await auto.start()
    await kbind.provider.offer("things")
    command = f"fairlead accept connection/{auto.name}"
    await auto.says("PermissionDenied", "True", "Forbidden", command)
    target = KbindTarget(CONNECTIONS, Key("", auto.name))
    await accept_kbind(auto.here, target, KbindOptions(timeout=SECONDS))
    await auto.says("Ready", "True")


async def test_a_right_that_is_missing_is_told_until_it_is_granted(kbind: KbindWorld) -> None:
    auto = AutoBound(kbind)
    await auto.start()
    await kbind.says("Ready", "True")
    role = "fairlead-konnector-controllers"
    rules = (await auto.here.get(CLUSTERROLES, role)).to_dict()["rules"]
    fewer = [rule for rule in rules if rule["verbs"] != ["create", "delete"]]
    assert len(fewer) == len(rules) - 1
    await auto.here.merge_patch(CLUSTERROLES, role, "", {"rules": fewer})
    api = await kbind.provider.offer()
    await kbind.says("AutoBindFailing", "True", "Forbidden", f"ClusterBinding {auto.name}")
    await auto.here.merge_patch(CLUSTERROLES, role, "", {"rules": rules})
    await auto.binds(api)
    await auto.well()
