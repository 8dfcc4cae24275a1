"""What of an object is on its copy, whose copies are whose, and what becomes of them."""

from __future__ import annotations

from contextlib import AsyncExitStack

import msgspec
import pytest
from tests.support.konnector import Link, Requests, World, event, quiet, secret
from tests.support.waiting import condition, gone, when

from fairlead.api.kubebind import APISERVICEBINDINGS, APISERVICEEXPORTS
from fairlead.api.meta import JSON
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS, NAMESPACES, SECRETS
from fairlead.client import Client, NotFound
from fairlead.konnector.policies.steps import Pair
from fairlead.konnector.sync import passes
from fairlead.provider.options import ProviderOptions
from fairlead.runtime import Result


ORPHAN = {"metadata": {"annotations": {"kube-bind.io/deletion-policy": "Orphan"}}}
SYNCER = "kubebind.io/syncer"
HELD = {"metadata": {"finalizers": ["example.org/factory"]}}
FREE: JSON = {"metadata": {"finalizers": None}}


THEIRS = [{"name": "theirs"}]


async def copied(world: World, link: Link, name: str = "blue") -> tuple[JSON, str]:
    """A new object's copy, and the provider's namespace; it has no certificates."""
    body = world.widget(name, count=7)
    del body["spec"]["certificates"]
    await world.consumer.create(world.widgets, body)
    namespace = await link.provider_namespace()
    return await when(world.provider, world.widgets, name, namespace, until=bool), namespace


async def certified(world: World, link: Link) -> tuple[JSON, str]:
    """The copy of an object that refers to the Secret blue-origin."""
    await world.consumer.create(world.widgets, world.widget())
    namespace = await link.provider_namespace()
    return await when(world.provider, world.widgets, "blue", namespace, until=bool), namespace


async def test_metadata_and_members_follow_and_what_others_added_stays(any_world: World) -> None:
    world, widgets = any_world, any_world.widgets
    await world.konnector()
    link = await world.bound()
    _, namespace = await copied(world, link)
    theirs = {"labels": {"theirs": "1"}, "annotations": {"theirs": "1"}}
    await world.provider.merge_patch(
        widgets, "blue", namespace, {"metadata": theirs, "spec": {"certificates": THEIRS}}
    )
    mine: JSON = {"labels": {"mine": "1"}, "annotations": {"mine": "1", "kube-bind.io/x": "1"}}
    await world.consumer.merge_patch(widgets, "blue", "default", {"metadata": mine})
    copy = await when(
        world.provider,
        widgets,
        "blue",
        namespace,
        until=lambda body: "mine" in body["metadata"].get("labels", {}),
    )
    assert copy["metadata"]["labels"] == {"mine": "1", "theirs": "1"}
    assert copy["metadata"]["annotations"]["mine"] == "1"
    assert copy["metadata"]["annotations"]["theirs"] == "1"
    assert "kube-bind.io/x" not in copy["metadata"]["annotations"]
    assert copy["spec"]["certificates"] == THEIRS
    taken = {"labels": {"mine": None}, "annotations": {"mine": None}}
    await world.consumer.merge_patch(
        widgets, "blue", "default", {"metadata": taken, "spec": {"count": None}}
    )
    copy = await when(
        world.provider,
        widgets,
        "blue",
        namespace,
        until=lambda body: "mine" not in body["metadata"].get("labels", {}),
    )
    assert copy["metadata"]["labels"] == {"theirs": "1"}
    assert "mine" not in copy["metadata"]["annotations"]
    assert copy["metadata"]["annotations"]["theirs"] == "1"
    assert copy["spec"] == {"colour": "blue", "count": 1, "certificates": THEIRS}


async def test_what_others_added_costs_no_write_after_a_restart(world: World) -> None:
    konnector = await world.konnector()
    link = await world.bound()
    _, namespace = await copied(world, link)
    theirs = {"metadata": {"labels": {"theirs": "1"}}, "spec": {"certificates": THEIRS}}
    await world.provider.merge_patch(world.widgets, "blue", namespace, theirs)
    requests = Requests(world.provider_plane)
    await quiet(requests)
    assert requests.count("update", resource="widgets") == 0
    await konnector.stop()
    await konnector.start()
    await link.condition("Connected", lambda found: found.get("status") == "True")
    await quiet(requests)
    await copied(world, link, "next")
    assert requests.count("update", "patch", resource="widgets") == 0


async def test_what_is_in_sync_has_one_pass_after_a_restart(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    konnector = await world.konnector()
    link = await world.bound()
    objects = ("blue", "green", "red")
    for name in objects:
        await copied(world, link, name)
    await quiet(Requests(world.provider_plane))
    await konnector.stop()
    names: list[str] = []
    run = passes.Passes.run

    async def counted(self: passes.Passes, pair: Pair) -> Result | None:
        names.append(pair.key.name)
        return await run(self, pair)

    monkeypatch.setattr(passes.Passes, "run", counted)
    await konnector.start()
    await link.condition("Connected", lambda found: found.get("status") == "True")
    await copied(world, link, "next")
    assert [names.count(name) for name in objects] == [1, 1, 1]


@pytest.mark.edge
async def test_a_copy_of_the_original_konnector_is_taken_over(any_world: World) -> None:
    """It creates copies under one name and applies their spec under another."""
    world, widgets = any_world, any_world.widgets
    konnector = await world.konnector()
    link = await world.bound()
    copy, namespace = await copied(world, link)
    await konnector.stop()
    await world.provider.delete(widgets, "blue", namespace)
    kept = ("name", "namespace", "labels", "annotations")
    metadata = {name: copy["metadata"][name] for name in kept if name in copy["metadata"]}
    metadata["labels"] = {"gone": "1"}
    body = {**copy, "metadata": metadata}
    body["spec"] = {**body["spec"], "certificates": THEIRS}
    config = world.provider.config
    async with Client(config, field_manager="konnector") as original:
        await original.create(widgets, body, namespace)
    operator = {"metadata": {"labels": {"theirs": "1"}}}
    await world.provider.merge_patch(widgets, "blue", namespace, operator)
    await konnector.start()
    copy = await when(
        world.provider,
        widgets,
        "blue",
        namespace,
        until=lambda body: body and "certificates" not in body["spec"],
    )
    assert copy["metadata"]["labels"] == {"theirs": "1"}


async def test_the_providers_own_object_is_told_and_left_alone_until_it_goes(
    any_world: World,
) -> None:
    world, widgets = any_world, any_world.widgets
    await world.konnector()
    link = await world.bound()
    _, namespace = await copied(world, link, "first")
    native = world.widget()
    native["metadata"] = {"name": "blue", "namespace": namespace}
    before = await world.provider.create(widgets, native, namespace)
    await world.consumer.create(widgets, world.widget(count=5))
    await event(world.consumer, "default", "ForeignObjectExists")
    body = await link.says(Conflicts="True", Ready="True")
    told = condition(body, "Conflicts")
    assert told["reason"] == "ForeignObjectExists"
    assert "Widget default/blue" in told["message"]
    assert "1 object is" in told["message"]
    assert (await world.provider.get(widgets, "blue", namespace)).raw == before.raw
    await world.provider.delete(widgets, "blue", namespace)
    copy = await when(
        world.provider,
        widgets,
        "blue",
        namespace,
        until=lambda body: body and body["spec"]["count"] == 5,
    )
    assert "kube-bind.io/consumer-uid" in copy["metadata"]["annotations"]
    await link.condition("Conflicts", lambda found: not found)


BARE: JSON = {
    "metadata": {
        "annotations": {
            f"kube-bind.io/{name}": None
            for name in ("cluster-namespace", "consumer-namespace", "consumer-uid")
        }
    }
}


async def test_copies_that_have_lost_their_annotations_are_taken_up_again(
    any_world: World,
) -> None:
    world, widgets = any_world, any_world.widgets
    konnector = await world.konnector()
    link = await world.bound()
    copy, namespace = await copied(world, link)
    uid = copy["metadata"]["uid"]
    await when(world.consumer, widgets, "blue", "default", until=_recorded)
    await world.provider.merge_patch(widgets, "blue", namespace, BARE)
    again = await when(world.provider, widgets, "blue", namespace, until=_annotated)
    assert again["metadata"]["uid"] == uid
    await konnector.stop()
    await world.provider.merge_patch(widgets, "blue", namespace, BARE)
    await konnector.start()
    await when(world.provider, widgets, "blue", namespace, until=_annotated)
    await world.consumer.merge_patch(widgets, "blue", "default", {"spec": {"count": 5}})
    await when(
        world.provider, widgets, "blue", namespace, until=lambda body: body["spec"]["count"] == 5
    )
    await link.condition("Conflicts", lambda found: not found)


async def test_what_is_deleted_takes_a_copy_that_has_lost_its_annotations(world: World) -> None:
    konnector = await world.konnector()
    link = await world.bound()
    _, namespace = await copied(world, link)
    await when(world.consumer, world.widgets, "blue", "default", until=_recorded)
    await konnector.stop()
    await world.provider.merge_patch(world.widgets, "blue", namespace, BARE)
    await world.consumer.delete(world.widgets, "blue", "default")
    await konnector.start()
    await gone(world.provider, world.widgets, "blue", namespace)
    await gone(world.consumer, world.widgets, "blue", "default")


async def test_a_copy_of_which_nothing_is_proved_stays_foreign_and_the_remedy_works(
    world: World,
) -> None:
    konnector = await world.konnector()
    link = await world.bound()
    copy, namespace = await copied(world, link)
    await when(world.consumer, world.widgets, "blue", "default", until=_recorded)
    await konnector.stop()
    await world.provider.merge_patch(world.widgets, "blue", namespace, BARE)
    back = ("provider-namespace", "provider-uid")
    lost = {"metadata": {"annotations": {f"kube-bind.io/{name}": None for name in back}}}
    await world.consumer.merge_patch(world.widgets, "blue", "default", lost)
    await konnector.start()
    told = await event(world.consumer, "default", "ForeignObjectExists")
    remedy = f"kube-bind.io/cluster-namespace={link.cluster_namespace}"
    assert f"hand it over with annotation {remedy}" in told["message"]
    await link.says(Conflicts="True", Ready="True")
    name, _, value = remedy.partition("=")
    handed = {"metadata": {"annotations": {name: value}}}
    await world.provider.merge_patch(world.widgets, "blue", namespace, handed)
    again = await when(world.provider, world.widgets, "blue", namespace, until=_annotated)
    assert again["metadata"]["uid"] == copy["metadata"]["uid"]
    await link.condition("Conflicts", lambda found: not found)


async def test_a_claimed_copy_that_has_lost_its_annotations_is_taken_up_again(
    world: World,
) -> None:
    await world.konnector()
    link = await world.bound()
    _, namespace = await certified(world, link)
    await world.consumer.create(SECRETS, secret("blue-origin", "default", mine="1"))
    await when(world.provider, SECRETS, "blue-origin", namespace, until=bool)
    await world.provider.merge_patch(SECRETS, "blue-origin", namespace, BARE)
    await when(world.provider, SECRETS, "blue-origin", namespace, until=_annotated)
    await link.condition("Conflicts", lambda found: not found)


def _annotated(body: JSON) -> bool:
    return "kube-bind.io/consumer-uid" in body["metadata"].get("annotations", {})


def _recorded(body: JSON) -> bool:
    return "kube-bind.io/provider-uid" in body["metadata"].get("annotations", {})


async def test_a_namespace_that_the_provider_refuses_is_told_here(stack: AsyncExitStack) -> None:
    """Under isolation None the consumer's default namespace would be the provider's."""
    world = World(stack, options=ProviderOptions(isolation="None"))
    await world.start()
    await world.konnector()
    link = await world.bound()
    await world.consumer.create(world.widgets, world.widget())
    told = await link.condition("Conflicts", bool)
    assert told["reason"] == "NamespaceRefused"
    said = await event(world.consumer, "default", "NamespaceRefused")
    assert "namespace default can never be a consumer's" in said["message"]
    shop: JSON = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    await world.consumer.create(NAMESPACES, shop)
    body = world.widget()
    body["metadata"]["namespace"] = "shop"
    await world.consumer.create(world.widgets, body)
    await when(world.provider, world.widgets, "blue", "shop", until=bool)
    with pytest.raises(NotFound):
        await world.provider.get(world.widgets, "blue", "default")


async def test_a_name_too_long_for_its_copy(stack: AsyncExitStack) -> None:
    world = World(stack, scope="Cluster", options=ProviderOptions(isolation="Prefixed"))
    await world.start()
    await world.konnector()
    link = await world.bound()
    here = msgspec.structs.replace(world.widgets, namespaced=False)
    body = world.widget("x" * 250)
    del body["metadata"]["namespace"]
    await world.consumer.create(here, body)
    told = await link.condition("Conflicts", bool)
    assert told["reason"] == "NameTooLong"
    await world.consumer.delete(here, "x" * 250)
    await gone(world.consumer, here, "x" * 250)
    await link.condition("Conflicts", lambda found: not found)


async def test_an_object_of_ones_own_that_a_claim_would_overwrite(world: World) -> None:
    konnector = await world.konnector()
    link = await world.bound()
    _, namespace = await certified(world, link)
    # The first of them would be copied before the other is there.
    await konnector.stop()
    await world.consumer.create(SECRETS, secret("blue-origin", "default", mine="1"))
    await world.provider.create(SECRETS, secret("blue-origin", namespace))
    await konnector.start()
    told = await link.condition("Conflicts", bool)
    assert told["reason"] == "OwnerUnknown"
    assert "Secret default/blue-origin" in told["message"]
    await world.consumer.delete(SECRETS, "blue-origin", "default")
    await when(
        world.consumer,
        SECRETS,
        "blue-origin",
        "default",
        until=lambda body: body.get("data") == {"a": "Yg=="},
    )
    await link.condition("Conflicts", lambda found: not found)


async def test_a_deletion_that_takes_long_says_what_it_waits_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passes, "LONG", 0.2)
    await world.konnector()
    link = await world.bound()
    _, namespace = await copied(world, link)
    await world.provider.merge_patch(world.widgets, "blue", namespace, HELD)
    await world.consumer.delete(world.widgets, "blue", "default")
    told = await event(world.consumer, "default", "DeletionPending")
    assert "example.org/factory" in told["message"]
    await world.provider.merge_patch(world.widgets, "blue", namespace, FREE)
    await gone(world.consumer, world.widgets, "blue", "default")


@pytest.mark.edge
async def test_a_deleted_object_takes_its_changes_across_until_its_copy_is_gone(
    any_world: World,
) -> None:
    world, widgets = any_world, any_world.widgets
    konnector = await world.konnector()
    link = await world.bound()
    _, namespace = await copied(world, link)
    await world.provider.merge_patch(widgets, "blue", namespace, HELD)
    await konnector.stop()
    await world.consumer.merge_patch(widgets, "blue", "default", {"spec": {"count": 8}})
    await world.consumer.delete(widgets, "blue", "default")
    await konnector.start()

    async def going(count: int) -> None:
        await when(
            world.provider,
            widgets,
            "blue",
            namespace,
            until=lambda body: (
                "deletionTimestamp" in body["metadata"] and body["spec"]["count"] == count
            ),
        )

    await going(8)
    await world.consumer.merge_patch(widgets, "blue", "default", {"spec": {"count": 9}})
    await going(9)
    await world.provider.merge_patch(widgets, "blue", namespace, FREE)
    await gone(world.consumer, widgets, "blue", "default")
    # A copy that the provider deletes by itself comes anew, of the object as it is then.
    await copied(world, link)
    await world.provider.merge_patch(widgets, "blue", namespace, HELD)
    await world.provider.delete(widgets, "blue", namespace)
    await world.consumer.merge_patch(widgets, "blue", "default", {"spec": {"count": 10}})
    await going(10)
    await world.provider.merge_patch(widgets, "blue", namespace, FREE)
    await when(
        world.provider,
        widgets,
        "blue",
        namespace,
        until=lambda body: body and "deletionTimestamp" not in body["metadata"],
    )


async def test_an_orphaned_copy_stays_and_is_taken_up_again(any_world: World) -> None:
    world, widgets = any_world, any_world.widgets
    konnector = await world.konnector()
    link = await world.bound()
    copy, namespace = await copied(world, link)
    await world.consumer.merge_patch(widgets, "blue", "default", ORPHAN)
    await world.consumer.delete(widgets, "blue", "default")
    await gone(world.consumer, widgets, "blue", "default")
    free = await world.provider.get(widgets, "blue", namespace)
    assert free.meta.uid == copy["metadata"]["uid"]
    assert "kube-bind.io/consumer-uid" not in free.meta.annotations
    await konnector.stop()
    await konnector.start()
    await copied(world, link, "next")
    assert (await world.provider.get(widgets, "blue", namespace)).raw == free.raw
    await world.consumer.create(widgets, world.widget(count=5))
    again = await when(
        world.provider, widgets, "blue", namespace, until=lambda body: body["spec"]["count"] == 5
    )
    assert again["metadata"]["uid"] == copy["metadata"]["uid"]


@pytest.mark.edge
async def test_a_binding_that_orphans_leaves_all_copies(any_world: World) -> None:
    world, widgets = any_world, any_world.widgets
    await world.konnector()
    link = await world.bound()
    copy, namespace = await certified(world, link)
    await world.provider.create(SECRETS, secret("blue-origin", namespace))
    await when(world.consumer, SECRETS, "blue-origin", "default", until=bool)
    await world.consumer.merge_patch(APISERVICEBINDINGS, link.name, "", ORPHAN)
    await world.consumer.delete(APISERVICEBINDINGS, link.name)
    await gone(world.consumer, APISERVICEBINDINGS, link.name)
    await gone(world.consumer, CUSTOMRESOURCEDEFINITIONS, widgets.group_resource)
    await gone(world.consumer, SECRETS, "blue-origin", "default")
    free = await world.provider.get(widgets, "blue", namespace)
    assert free.meta.uid == copy["metadata"]["uid"]
    assert not free.meta.deleting
    await world.provider.get(SECRETS, "blue-origin", namespace)
    await world.provider.get(APISERVICEEXPORTS, link.name, link.cluster_namespace)


MARK = "kapp.k14s.io/app"
RELEASE = "meta.helm.sh/release-name"


async def test_marks_of_delivery_tools_stay_where_they_were_set(any_world: World) -> None:
    """Copies that have them from before lose them; the provider's own tool keeps its marks."""
    world, widgets = any_world, any_world.widgets
    former = await world.konnector(crossing_keys=("*",))
    link = await world.bound()
    body = world.widget()
    body["metadata"] |= {"labels": {"mine": "1", MARK: "here"}, "annotations": {RELEASE: "here"}}
    del body["spec"]["certificates"]
    await world.consumer.create(widgets, body)
    namespace = await link.provider_namespace()
    copy = await when(world.provider, widgets, "blue", namespace, until=bool)
    assert copy["metadata"]["labels"] == {"mine": "1", MARK: "here"}
    assert copy["metadata"]["annotations"][RELEASE] == "here"
    await former.stop()
    tool: JSON = {"metadata": {"labels": {"applyset.kubernetes.io/part-of": "there"}}}
    before = await world.provider.merge_patch(widgets, "blue", namespace, tool)
    await world.konnector()
    copy = await when(
        world.provider,
        widgets,
        "blue",
        namespace,
        until=lambda body: MARK not in body["metadata"]["labels"],
    )
    assert copy["metadata"]["labels"] == {"mine": "1", "applyset.kubernetes.io/part-of": "there"}
    assert RELEASE not in copy["metadata"]["annotations"]
    assert copy["metadata"]["generation"] == before.meta.generation
    mine = await world.consumer.get(widgets, "blue", "default")
    assert mine.meta.labels == {"mine": "1", MARK: "here"}
    assert mine.meta.annotations[RELEASE] == "here"
