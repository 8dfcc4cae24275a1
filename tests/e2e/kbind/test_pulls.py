"""pullPolicy of kbind v2 end to end, and the original's faults that it does not have."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.support.countingplanes import quiet, steady
from tests.support.kbindbound import BoundWorld, namespace, widget, widgets
from tests.support.kbindworld import KbindWorld, exported_crd, has
from tests.support.waiting import condition, gone, when

from fairlead.api.kbind import CLUSTERBINDINGS, CONNECTIONS
from fairlead.api.kbind.names import (
    ANNOTATION_CONNECTION,
    ANNOTATION_NEVER_BOUND,
    ANNOTATION_SCHEMA_HASH,
)
from fairlead.api.meta import JSON
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS, EVENTS
from fairlead.konnector import bounds


ALL = {"source": "CRD", "pullPolicy": "All"}


class Pulled:
    """A Connection that pulls all APIs, of which the konnector has the rights on some."""

    def __init__(self, world: KbindWorld) -> None:
        self.world = world
        self.bound = BoundWorld(world)
        self.here, self.there = world.consumer, world.provider.admin

    async def start(self, *plurals: str, accepted: tuple[str, ...] = (), **schema: str) -> None:
        for plural in plurals:
            await self.world.provider.offer(plural)
        await self.bound.accept(*accepted)
        self.konnector = await self.world.konnector()
        kubeconfig = await self.bound.kubeconfig(*plurals)
        await self.world.connect(kubeconfig, schema={**ALL, **schema})

    def api(self, plural: str) -> str:
        return f"{plural}.{self.world.provider.group}"

    async def crd(self, plural: str, until: Callable[[JSON], bool] = bool) -> JSON:
        """The consumer's CRD, once it is so."""
        return await when(self.here, CUSTOMRESOURCEDEFINITIONS, self.api(plural), until=until)

    async def names(self) -> set[str]:
        """The plurals of the provider's group that the consumer has."""
        crds = (await self.here.list(CUSTOMRESOURCEDEFINITIONS)).items
        group = f".{self.world.provider.group}"
        return {crd.meta.name.removesuffix(group) for crd in crds if crd.meta.name.endswith(group)}

    async def describe(self, plural: str, text: str) -> None:
        """Change the provider's schema."""
        crd = (await self.there.get(CUSTOMRESOURCEDEFINITIONS, self.api(plural))).to_dict()
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = text
        await self.there.update(CUSTOMRESOURCEDEFINITIONS, crd)


@pytest.fixture
def pulled(kbind: KbindWorld) -> Pulled:
    return Pulled(kbind)


def established(body: JSON) -> bool:
    return condition(body, "Established").get("status") == "True"


def described(text: str) -> Callable[[JSON], bool]:
    return lambda body: text in str(body.get("spec"))


def never_bound(body: JSON) -> bool:
    return ANNOTATION_NEVER_BOUND in body["metadata"].get("annotations", {})


async def test_f8_all_pulls_every_exported_api_and_touches_no_crd_of_others(
    pulled: Pulled,
) -> None:
    """The original overwrites each CRD of the consumer that has such a name."""
    mine = exported_crd(pulled.world.provider.group, "gizmos", exported=False)
    before = await pulled.here.create(CUSTOMRESOURCEDEFINITIONS, mine)
    await pulled.start("widgets", "gadgets", "gizmos")
    for plural in ("widgets", "gadgets"):
        crd = await pulled.crd(plural, established)
        assert crd["metadata"]["annotations"][ANNOTATION_CONNECTION] == pulled.world.name
        assert never_bound(crd)
    body = await pulled.world.says("Ready", "True", text="not pulled: CustomResourceDefinition")
    assert pulled.api("gizmos") in condition(body, "Ready")["message"]
    assert condition(body, "PermissionDenied") == {}
    after = await pulled.here.get(CUSTOMRESOURCEDEFINITIONS, pulled.api("gizmos"))
    assert after.to_dict()["spec"] == before.to_dict()["spec"]
    assert not after.meta.annotations
    # An API that comes later is pulled too.
    await pulled.world.provider.offer("doodads")
    await pulled.crd("doodads", established)


async def test_an_api_that_is_not_bound_has_no_engine_and_rests(pulled: Pulled) -> None:
    await pulled.start("widgets", "gadgets", accepted=("gadgets",))
    await pulled.bound.bind("all", pulled.api("gadgets"))
    await pulled.bound.says("Ready", "True")
    await pulled.crd("widgets", established)
    assert pulled.world.provider.plane is not None
    planes = (pulled.world.provider.plane, pulled.world.consumer_plane)

    def asked() -> set[str]:
        return {info.resource for plane in planes for info in plane.traffic.seen} & {"widgets"}

    assert not asked()
    await quiet(pulled.world.consumer_plane)
    await pulled.konnector.stop()
    for plane in planes:
        plane.traffic.seen.clear()
    await pulled.world.konnector(health_patience=1000)
    await pulled.bound.says("Ready", "True")
    await steady(*planes)
    assert not asked()


async def test_an_api_that_is_bound_and_unbound_under_all_keeps_its_crd(pulled: Pulled) -> None:
    resource = widgets(pulled.world.provider)
    await pulled.start("widgets", accepted=("widgets",))
    await pulled.crd("widgets", established)
    await pulled.bound.bind("all", pulled.api("widgets"))
    await pulled.bound.says("Ready", "True")
    crd = await pulled.crd("widgets", lambda body: not never_bound(body))
    await namespace(pulled.here, "shop")
    await pulled.here.create(resource, widget(resource, "a", "shop"))
    await when(pulled.there, resource, "a", "shop", until=bool)
    await pulled.here.delete(CLUSTERBINDINGS, "all")
    await gone(pulled.here, CLUSTERBINDINGS, "all")
    await gone(pulled.there, resource, "a", "shop")
    assert (await pulled.here.get(resource, "a", "shop")).meta.finalizers == []
    after = await pulled.crd("widgets")
    assert after["metadata"]["uid"] == crd["metadata"]["uid"]
    # It follows the provider again without a binding.
    await pulled.describe("widgets", "Newer.")
    await pulled.crd("widgets", described("Newer."))


async def test_a_provider_brings_no_crds_without_end(
    pulled: Pulled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "PULLED_APIS", 2)
    await pulled.start("widgets", "gadgets", "doodads")
    await pulled.world.says("Ready", "True", text=f"{pulled.api('widgets')} is not pulled")
    await pulled.crd("gadgets", established)
    await pulled.crd("doodads", established)
    assert await pulled.names() == {"gadgets", "doodads"}


async def test_an_api_that_a_binding_of_another_connection_lists_is_left_to_it(
    pulled: Pulled,
) -> None:
    await pulled.world.konnector()
    await pulled.bound.bind("all", pulled.api("widgets"), connection="other")
    for plural in ("widgets", "gadgets"):
        await pulled.world.provider.offer(plural)
    await pulled.world.connect(await pulled.bound.kubeconfig("widgets"), schema=ALL)
    await pulled.crd("gadgets", established)
    await quiet(pulled.world.consumer_plane)
    assert await pulled.names() == {"gadgets"}
    await pulled.here.delete(CLUSTERBINDINGS, "all")
    await pulled.crd("widgets", established)


async def test_a_crd_that_its_connection_left_goes_to_another_that_pulls_it(
    pulled: Pulled,
) -> None:
    await pulled.start("widgets", accepted=("widgets",))
    await pulled.crd("widgets", established)
    other = await pulled.world.new_provider("other")
    other.group = pulled.world.provider.group
    await other.offer()
    kubeconfig = await pulled.bound.kubeconfig("widgets", provider=other)
    await pulled.world.connect(kubeconfig, "second", schema=ALL)
    await when(pulled.here, CONNECTIONS, "second", until=has("Ready", "True", "", "not pulled"))
    resource = widgets(pulled.world.provider)
    await namespace(pulled.here, "shop")
    await pulled.here.create(resource, widget(resource, "a", "shop"))
    await pulled.here.delete(CONNECTIONS, pulled.world.name)
    await pulled.crd(
        "widgets",
        lambda body: body["metadata"]["annotations"][ANNOTATION_CONNECTION] == "second",
    )
    await when(pulled.here, CONNECTIONS, "second", until=has("Ready", "True", "", "1 API is"))


async def test_with_their_connection_the_crds_without_objects_go_and_others_are_named(
    pulled: Pulled,
) -> None:
    """The original leaves all of them for ever."""
    mine = exported_crd(pulled.world.provider.group, "gizmos", exported=False)
    await pulled.here.create(CUSTOMRESOURCEDEFINITIONS, mine)
    plurals = ("widgets", "gadgets", "gizmos", "doodads")
    await pulled.start(*plurals, accepted=("widgets", "gadgets", "gizmos"))
    for plural in ("widgets", "gadgets", "doodads"):
        await pulled.crd(plural, established)
    resource = widgets(pulled.world.provider, "gadgets")
    await namespace(pulled.here, "shop")
    await pulled.here.create(resource, widget(resource, "a", "shop"))
    await pulled.here.delete(CONNECTIONS, pulled.world.name)
    await gone(pulled.here, CONNECTIONS, pulled.world.name)
    await gone(pulled.here, CUSTOMRESOURCEDEFINITIONS, pulled.api("widgets"))
    # Of doodads it may not know whether there are objects.
    assert await pulled.names() == {"gadgets", "gizmos", "doodads"}
    await pulled.here.get(resource, "a", "shop")

    async def told() -> list[str]:
        events = (await pulled.here.list(EVENTS)).items
        return [
            str(body["message"])
            for body in (event.to_dict() for event in events)
            if body["reason"] == "CRDsLeft"
        ]

    (message,) = await told()
    assert f"{pulled.api('gadgets')} (it has objects)" in message
    assert f"{pulled.api('doodads')} (" in message
    assert "gizmos" not in message


async def test_a_missing_right_under_all_is_told_and_holds_up_no_binding(
    pulled: Pulled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "AGAIN_SECONDS", 0.1)
    await pulled.start("widgets", "gadgets", accepted=("gadgets",))
    await pulled.bound.bind("all", pulled.api("gadgets"))
    await pulled.crd("widgets", established)
    await pulled.describe("widgets", "Newer.")
    body = await pulled.world.says("PermissionDenied", "True", "Forbidden", pulled.api("widgets"))
    message = condition(body, "PermissionDenied")["message"]
    assert f"fairlead accept connection/{pulled.world.name}" in message
    assert condition(body, "Ready")["status"] == "True"
    await pulled.bound.says("Ready", "True")
    await pulled.bound.accept("widgets")
    await pulled.crd("widgets", described("Newer."))
    await pulled.world.says("PermissionDenied", "False", "AsExpected")


async def test_once_keeps_what_all_has_installed(pulled: Pulled) -> None:
    await pulled.start("widgets", "gadgets", accepted=("widgets", "gadgets"), updatePolicy="Once")
    crd = await pulled.crd("widgets", established)
    await pulled.describe("widgets", "Newer.")
    await pulled.world.provider.offer("doodads")
    await pulled.crd("doodads", established)
    await pulled.bound.bind("all", pulled.api("widgets"))
    body = await pulled.bound.says("Ready", "True")
    after = await pulled.crd("widgets")
    assert after["spec"] == crd["spec"]
    assert not never_bound(after)
    digest = crd["metadata"]["annotations"][ANNOTATION_SCHEMA_HASH]
    assert [one["crdHash"] for one in body["status"]["boundAPIs"]] == [digest]


@pytest.mark.parametrize("policy", ["Bound", "None"])
async def test_f8_other_policies_pull_nothing_that_is_not_bound(
    pulled: Pulled, policy: str
) -> None:
    """Under OpenAPI the original installs all, whatever the policy says."""
    await pulled.start("widgets", "gadgets", source="OpenAPI", pullPolicy=policy)
    await pulled.world.offers(pulled.api("gadgets"))
    await pulled.bound.bind("all", pulled.api("widgets"))
    if policy == "Bound":
        await pulled.crd("widgets")
    await pulled.bound.says("Ready", "False")
    assert await pulled.names() == ({"widgets"} if policy == "Bound" else set())


async def test_all_follows_a_change_of_the_policy(pulled: Pulled) -> None:
    await pulled.start("widgets", source="OpenAPI", pullPolicy="Bound")
    await pulled.world.offers(pulled.api("widgets"))
    assert await pulled.names() == set()
    spec: JSON = {"spec": {"schema": {"pullPolicy": "All"}}}
    await pulled.here.merge_patch(CONNECTIONS, pulled.world.name, "", spec)
    await pulled.crd("widgets", established)
