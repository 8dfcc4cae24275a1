"""A consumer's cluster that was lost: another one is bound with the same invitation."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import msgspec
import pytest
from tests.support.konnector import Konnector, Link, World, event, invited, konnector, secret
from tests.support.waiting import SECONDS, condition, gone, idle, when

from fairlead.api.kubebind import (
    ANNOTATION_CONSUMER_UID,
    ANNOTATION_DELETION_POLICY,
    ANNOTATION_HELD_COPIES,
    APISERVICEBINDINGBUNDLES,
    APISERVICEBINDINGS,
    APISERVICEEXPORTS,
    APISERVICENAMESPACES,
    Isolation,
)
from fairlead.api.meta import JSON
from fairlead.api.resource import NAMESPACES, SECRETS
from fairlead.client import Client, parse_kubeconfig
from fairlead.konnector.commands.bind import bind, bind_bundle
from fairlead.konnector.commands.copies import Copies
from fairlead.konnector.commands.unbind import UnbindError, unbind
from fairlead.provider.options import ProviderOptions
from fairlead_sandbox import Sandbox


NAMES = ("blue", "green", "red")


def named(name: str, namespace: str = "default") -> JSON:
    body: JSON = {
        "apiVersion": "example.org/v1",
        "kind": "Widget",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"colour": name, "certificates": []},
    }
    return body


class Lost:
    """What is left of a consumer on its provider, and the cluster that takes its place."""

    def __init__(self, world: World, link: Link, stack: AsyncExitStack) -> None:
        self.world = world
        self.link = link
        self.provider = world.provider
        self.stack = stack
        self.copies: dict[str, JSON] = {}
        self.recorded = ""

    async def lose(self) -> None:
        """The cluster goes, without a word to anybody."""
        self.recorded = await uid(self.world.consumer)
        await when(
            self.provider,
            APISERVICEEXPORTS,
            self.link.name,
            self.link.cluster_namespace,
            until=lambda body: condition(body, "ConsumerCluster").get("message") == self.recorded,
        )
        await self.world.one.stop()
        self.copies = await self.found()

    async def found(self) -> dict[str, JSON]:
        listed = (await self.provider.list(self.world.widgets)).items
        ours = [
            one for one in listed if one.meta.namespace.startswith(self.link.cluster_namespace)
        ]
        return {f"{one.meta.namespace}/{one.meta.name}": one.to_dict() for one in ours}

    async def rebuilt(self) -> tuple[Client, Konnector]:
        plane = await self.stack.enter_async_context(Sandbox(name="rebuilt"))
        client = await self.stack.enter_async_context(Client(parse_kubeconfig(plane.kubeconfig())))
        one = await self.stack.enter_async_context(konnector(client))
        return client, one

    async def untouched(self) -> None:
        found = await self.found()
        assert found.keys() == self.copies.keys()
        for key, copy in self.copies.items():
            assert found[key]["metadata"]["uid"] == copy["metadata"]["uid"]
            assert found[key].get("status") == copy.get("status")
            assert "deletionTimestamp" not in found[key]["metadata"]


async def uid(client: Client) -> str:
    return (await client.get(NAMESPACES, "kube-system")).meta.uid


async def status(client: Client, world: World, name: str, namespace: str, text: str) -> None:
    found = await client.get(world.widgets, name, namespace)
    body = {**found.to_dict(), "status": {"factory": text}}
    await client.update(world.widgets, body, subresource="status")


async def bound(client: Client, lost: Lost, **more: Any) -> list[str]:
    lines: list[str] = []
    await bind(client, lost.link.response, timeout=SECONDS, progress=lines.append, **more)
    return lines


async def says(client: Client, link: Link, text: str) -> JSON:
    body = await when(
        client,
        APISERVICEBINDINGS,
        link.name,
        until=lambda body: text in condition(body, "CopiesHeld").get("message", ""),
    )
    return condition(body, "CopiesHeld")


async def freed(client: Client, link: Link) -> None:
    await when(
        client,
        APISERVICEBINDINGS,
        link.name,
        until=lambda body: not condition(body, "CopiesHeld"),
    )


@pytest.fixture
async def lost(stack: AsyncExitStack) -> Lost:
    """A consumer of three widgets in two namespaces, with statuses, and a neighbour's beside."""
    world = World(stack)
    await world.start()
    await world.konnector()
    link = await world.bound()
    await world.consumer.create(NAMESPACES, {"metadata": {"name": "shop"}})
    lost = Lost(world, link, stack)
    for name in NAMES:
        where = "shop" if name == "red" else "default"
        await world.consumer.create(world.widgets, named(name, where))
        there = await link.provider_namespace(where)
        await when(world.provider, world.widgets, name, there, until=bool)
        await status(world.provider, world, name, there, f"made {name}")
        await when(
            world.consumer,
            world.widgets,
            name,
            where,
            until=lambda body: body.get("status"),
        )
    await lost.lose()
    return lost


async def test_no_copy_goes_before_the_user_has_said_so(lost: Lost) -> None:
    client, one = await lost.rebuilt()
    lines = await bound(client, lost)
    assert any(line.startswith("CopiesHeld of APIServiceBinding widgets: ") for line in lines)
    held = await says(client, lost.link, "3 copies wait for their objects")
    assert (held["status"], held["reason"]) == ("True", "ClusterIdentityChanged")
    assert "Widget default/blue, Widget default/green, Widget shop/red" in held["message"]
    assert "--keep-copies" in held["message"]
    assert f"Discard:{lost.recorded}" in held["message"]
    await idle(0.5)
    await lost.untouched()
    # Not after a restart either, nor with the namespaces still missing.
    await one.stop()
    async with konnector(client):
        await idle(0.5)
        await lost.untouched()
        # Objects that return take their copies up, with their statuses.
        await client.create(lost.world.widgets, named("blue"))
        back = await when(
            client, lost.world.widgets, "blue", "default", until=lambda body: body.get("status")
        )
        assert back["status"] == {"factory": "made blue"}
        await says(client, lost.link, "2 copies wait for their objects")
        # One that is deleted waits for the user, too.
        await client.delete(lost.world.widgets, "blue", "default")
        assert (
            "the konnector deletes no copy"
            in (await event(client, "default", "CopyHeld"))["message"]
        )
        await says(client, lost.link, "3 copies wait for their objects")
        await lost.untouched()


async def test_copies_that_are_kept_are_taken_up_one_by_one(lost: Lost) -> None:
    client, _ = await lost.rebuilt()
    await bound(client, lost)
    await client.create(lost.world.widgets, named("blue"))
    await says(client, lost.link, "2 copies wait for their objects")
    lines = await bound(client, lost, copies="keep")
    assert "set the decision about the held copies of APIServiceBinding widgets: Keep" in lines
    await freed(client, lost.link)
    await lost.untouched()
    namespace = await lost.provider.get(APISERVICENAMESPACES, "shop", lost.link.cluster_namespace)
    assert namespace.meta.annotations[ANNOTATION_DELETION_POLICY] == "Orphan"
    # From here on a deletion is one again, of the copy that has its object.
    await client.delete(lost.world.widgets, "blue", "default")
    there = await lost.link.provider_namespace()
    await gone(lost.provider, lost.world.widgets, "blue", there)
    del lost.copies[f"{there}/blue"]
    await lost.untouched()
    # What returns late is taken up, its namespace with it.
    await client.create(NAMESPACES, {"metadata": {"name": "shop"}})
    await client.create(lost.world.widgets, named("red", "shop"))
    back = await when(
        client, lost.world.widgets, "red", "shop", until=lambda body: body.get("status")
    )
    assert back["status"] == {"factory": "made red"}
    await lost.untouched()
    await when(
        lost.provider,
        APISERVICENAMESPACES,
        "shop",
        lost.link.cluster_namespace,
        until=lambda body: (
            ANNOTATION_DELETION_POLICY not in body["metadata"].get("annotations", {})
        ),
    )
    assert "no copies of APIServiceBinding widgets are held" in await bound(
        client, lost, copies="keep"
    )


async def test_copies_that_are_discarded_go_but_for_those_that_have_their_objects(
    lost: Lost,
) -> None:
    client, _ = await lost.rebuilt()
    await bound(client, lost)
    await client.create(lost.world.widgets, named("blue"))
    await says(client, lost.link, "2 copies wait for their objects")
    lines = await bound(client, lost, copies="discard")
    decided = f"copies of APIServiceBinding widgets: Discard:{lost.recorded}"
    assert any(line.endswith(decided) for line in lines)
    there = await lost.link.provider_namespace()
    await gone(lost.provider, lost.world.widgets, "green", there)
    await gone(lost.provider, NAMESPACES, f"{lost.link.cluster_namespace}-shop")
    lost.copies = {f"{there}/blue": lost.copies[f"{there}/blue"]}
    await lost.untouched()
    await freed(client, lost.link)


@pytest.mark.parametrize("said", ["Keep", "Discard"])
async def test_manifests_end_the_hold_by_an_annotation(lost: Lost, said: str) -> None:
    client, _ = await lost.rebuilt()
    await bound(client, lost)
    await says(client, lost.link, "3 copies wait for their objects")
    # What names no cluster, or another one, may be left over from the last time.
    for value in ("Discard", "Discard:another"):
        await annotate(client, lost, value)
    await idle(0.3)
    await lost.untouched()
    await annotate(client, lost, said if said == "Keep" else f"Discard:{lost.recorded}")
    await freed(client, lost.link)
    if said == "Keep":
        await lost.untouched()
    else:
        await gone(lost.provider, NAMESPACES, f"{lost.link.cluster_namespace}-shop")


async def test_a_neighbour_is_not_held(lost: Lost) -> None:
    """Another consumer of the same kind, in a cluster of its own, which goes on as ever."""
    client, _ = await lost.rebuilt()
    other, _ = await lost.rebuilt()
    theirs = await invited(other, lost.provider)
    await theirs.bind()
    await other.create(lost.world.widgets, named("blue"))
    there = await theirs.provider_namespace()
    await when(lost.provider, lost.world.widgets, "blue", there, until=bool)
    await bound(client, lost)
    await says(client, lost.link, "3 copies wait for their objects")
    body = await when(other, APISERVICEBINDINGS, theirs.name, until=bool)
    assert not condition(body, "CopiesHeld")
    await other.delete(lost.world.widgets, "blue", "default")
    await gone(lost.provider, lost.world.widgets, "blue", there)
    await lost.untouched()


async def test_where_no_cluster_was_recorded_the_first_one_that_comes_is(lost: Lost) -> None:
    """As after an upgrade: the konnector before did not record where it was bound."""
    export = await lost.provider.get(
        APISERVICEEXPORTS, lost.link.name, lost.link.cluster_namespace
    )
    body = export.to_dict()
    kept = [one for one in body["status"]["conditions"] if one["type"] != "ConsumerCluster"]
    body["status"]["conditions"] = kept
    await lost.provider.update(APISERVICEEXPORTS, body, subresource="status")
    async with konnector(lost.world.consumer):
        await when(
            lost.provider,
            APISERVICEEXPORTS,
            lost.link.name,
            lost.link.cluster_namespace,
            until=lambda body: condition(body, "ConsumerCluster").get("message") == lost.recorded,
        )
        await lost.world.consumer.delete(lost.world.widgets, "blue", "default")
        there = await lost.link.provider_namespace()
        await gone(lost.provider, lost.world.widgets, "blue", there)


async def test_what_was_unbound_in_order_holds_nothing_elsewhere(lost: Lost) -> None:
    async with konnector(lost.world.consumer):
        await unbind(lost.world.consumer, lost.link.name, timeout=SECONDS, progress=print)
    export = await lost.provider.get(
        APISERVICEEXPORTS, lost.link.name, lost.link.cluster_namespace
    )
    assert not condition(export.to_dict(), "ConsumerCluster")
    client, _ = await lost.rebuilt()
    await bound(client, lost)
    await client.create(lost.world.widgets, named("blue"))
    there = await lost.link.provider_namespace()
    await when(lost.provider, lost.world.widgets, "blue", there, until=bool)
    await client.delete(lost.world.widgets, "blue", "default")
    await gone(lost.provider, lost.world.widgets, "blue", there)


@pytest.mark.parametrize("said", ["keep", "discard"])
async def test_copies_of_claimed_objects_are_held_as_well(
    stack: AsyncExitStack, said: Copies
) -> None:
    world = World(stack)
    await world.start()
    await world.konnector()
    link = await world.bound()
    lost = Lost(world, link, stack)
    await world.consumer.create(world.widgets, world.widget())
    await world.consumer.create(SECRETS, secret("blue-origin", "default"))
    there = await link.provider_namespace()
    await when(world.provider, SECRETS, "blue-origin", there, until=bool)
    await lost.lose()
    copy = await world.provider.get(SECRETS, "blue-origin", there)
    client, _ = await lost.rebuilt()
    await bound(client, lost)
    held = await says(client, link, "2 copies wait for their objects")
    assert "Secret default/blue-origin" in held["message"]
    await client.create(SECRETS, secret("blue-origin", "default"))
    await says(client, link, "1 copy waits for its object (Widget default/blue)")
    await idle(0.3)
    assert (await world.provider.get(SECRETS, "blue-origin", there)).meta.uid == copy.meta.uid
    await client.create(world.widgets, world.widget())
    await says(client, link, "no copy waits for its object")
    await client.delete(SECRETS, "blue-origin", "default")
    await says(client, link, "1 copy waits for its object (Secret default/blue-origin)")
    await bound(client, lost, copies=said)
    if said == "discard":
        await gone(world.provider, SECRETS, "blue-origin", there)
        return
    await freed(client, link)
    assert (await world.provider.get(SECRETS, "blue-origin", there)).meta.uid == copy.meta.uid
    await client.create(SECRETS, secret("blue-origin", "default", a="other"))
    back = await when(
        world.provider,
        SECRETS,
        "blue-origin",
        there,
        until=lambda body: body["metadata"]["annotations"].get(ANNOTATION_CONSUMER_UID),
    )
    assert back["metadata"]["uid"] == copy.meta.uid
    await client.delete(SECRETS, "blue-origin", "default")
    await gone(world.provider, SECRETS, "blue-origin", there)


@pytest.mark.parametrize("isolation", ["Prefixed", "None", "Namespaced"])
async def test_copies_in_no_namespace_of_their_own_are_held(
    stack: AsyncExitStack, isolation: Isolation
) -> None:
    scope = "Namespaced" if isolation == "Namespaced" else "Cluster"
    world = World(stack, scope=scope, options=ProviderOptions(isolation=isolation))
    await world.start()
    await world.konnector()
    link = await world.bound()
    lost = Lost(world, link, stack)
    here = msgspec.structs.replace(world.widgets, namespaced=False)
    there = msgspec.structs.replace(world.widgets, namespaced=scope == "Namespaced")
    body = world.widget()
    del body["metadata"]["namespace"]
    await world.consumer.create(here, body)
    name = f"{link.cluster_namespace}-blue" if isolation == "Prefixed" else "blue"
    where = link.cluster_namespace if isolation == "Namespaced" else ""
    await when(world.provider, there, name, where, until=bool)
    await lost.lose()
    copy = await world.provider.get(there, name, where)
    client, _ = await lost.rebuilt()
    await bound(client, lost)
    await says(client, link, "1 copy waits for its object (Widget blue)")
    await idle(0.3)
    assert (await world.provider.get(there, name, where)).meta.uid == copy.meta.uid
    await bound(client, lost, copies="keep")
    await freed(client, link)
    await client.create(here, body)
    await when(
        world.provider,
        there,
        name,
        where,
        until=lambda body: body["metadata"]["annotations"].get(ANNOTATION_CONSUMER_UID),
    )
    assert (await world.provider.get(there, name, where)).meta.uid == copy.meta.uid


async def test_what_a_bundle_says_holds_for_its_bindings(lost: Lost) -> None:
    client, _ = await lost.rebuilt()
    name, _ = await bind_bundle(client, lost.link.response, timeout=SECONDS)
    await says(client, lost.link, "3 copies wait for their objects")
    body = {"metadata": {"annotations": {ANNOTATION_HELD_COPIES: "Keep"}}}
    await client.merge_patch(APISERVICEBINDINGBUNDLES, name, "", body)
    await freed(client, lost.link)
    await lost.untouched()


async def test_unbinding_deletes_no_held_copy_and_orphans_them_when_told(lost: Lost) -> None:
    client, _ = await lost.rebuilt()
    await bound(client, lost)
    await client.create(lost.world.widgets, named("blue"))
    await says(client, lost.link, "2 copies wait for their objects")
    with pytest.raises(UnbindError, match="made for another cluster and are not deleted"):
        await unbind(client, lost.link.name, timeout=3.0)
    await lost.untouched()
    await unbind(client, lost.link.name, orphan=True, timeout=SECONDS)
    await lost.untouched()
    export = await lost.provider.get(
        APISERVICEEXPORTS, lost.link.name, lost.link.cluster_namespace
    )
    # Nobody has said anything of the other copies.
    assert condition(export.to_dict(), "ConsumerCluster")["message"] == lost.recorded


async def annotate(client: Client, lost: Lost, value: str) -> None:
    body = {"metadata": {"annotations": {ANNOTATION_HELD_COPIES: value}}}
    await client.merge_patch(APISERVICEBINDINGS, lost.link.name, "", body)
