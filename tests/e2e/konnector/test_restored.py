"""Yesterday's objects of a consumer and of a provider, restored as docs/backup.md says."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import pytest
from tests.support.backups import Style, dump, restore
from tests.support.e2e import link as invite_over
from tests.support.konnector import Link, World, event, konnector, secret
from tests.support.line import Line
from tests.support.provider import prepare, running
from tests.support.waiting import SECONDS, condition, gone, idle, when

from fairlead.api.kubebind import (
    ANNOTATION_HELD_COPIES,
    ANNOTATION_IDENTITY,
    APISERVICEBINDINGS,
    APISERVICEEXPORTREQUESTS,
    APISERVICEEXPORTS,
    APISERVICEEXPORTTEMPLATES,
    APISERVICENAMESPACES,
    BOUNDSCHEMAS,
    CLUSTERBINDINGS,
)
from fairlead.api.meta import JSON
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS, NAMESPACES, SECRETS
from fairlead.client import Client, parse_kubeconfig
from fairlead.konnector.commands.bind import bind
from fairlead.konnector.commands.copies import Copies
from fairlead_sandbox import Sandbox


FIRST = {"Namespace", "CustomResourceDefinition"}
"""Kinds without which nothing else can be created; all others come in any order."""


class Day:
    """A consumer and a provider at work, of which backups are made."""

    def __init__(self, world: World, line: Line, link: Link, stack: AsyncExitStack) -> None:
        self.world = world
        self.consumer = world.consumer
        self.provider = world.provider
        self.line = line
        self.link = link
        self._stack = stack

    async def order(self, name: str, namespace: str) -> None:
        """A widget that the provider answers with a status and a Secret."""
        widgets = self.world.widgets
        body = self.world.widget(name)
        body["metadata"]["namespace"] = namespace
        await self.consumer.create(widgets, body)
        there = await self.link.provider_namespace(namespace)
        await when(self.provider, widgets, name, there, until=bool)
        await self.provider.create(SECRETS, secret(f"{name}-origin", there, key=name))
        status = {"status": {"factory": name}}
        await self.provider.merge_patch(widgets, name, there, status, subresource="status")
        await when(self.consumer, SECRETS, f"{name}-origin", namespace, until=bool)
        await when(self.consumer, widgets, name, namespace, until=lambda body: body.get("status"))

    async def says(self, name: str, namespace: str, text: str) -> None:
        """Wait until this is the consumer's status."""
        await when(
            self.consumer,
            self.world.widgets,
            name,
            namespace,
            until=lambda body: body.get("status") == {"factory": text},
        )

    def _theirs(self, body: JSON) -> bool:
        """Whether the provider has it for this consumer."""
        meta = body["metadata"]
        place: str = meta.get("namespace") or meta["name"]
        return place.startswith(self.link.cluster_namespace)

    def _copied(self, body: JSON) -> bool:
        return self._theirs(body) and body["metadata"]["namespace"] != self.link.cluster_namespace

    async def copies(self) -> dict[str, tuple[str, Any]]:
        """Uids and statuses of all that the provider has in the consumer's namespaces."""
        return _state(await dump(self.provider, self.world.widgets, SECRETS, only=self._copied))

    async def objects(self) -> dict[str, tuple[str, Any]]:
        """Uids and statuses of all that the consumer's people see."""
        return _state(await dump(self.consumer, self.world.widgets, SECRETS, only=_teams))

    async def consumers_backup(self) -> list[JSON]:
        """What docs/backup.md has a consumer keep."""
        return [
            *await dump(self.consumer, NAMESPACES, only=lambda one: _named(one, "shop")),
            *await dump(self.consumer, CUSTOMRESOURCEDEFINITIONS, only=_bound),
            *await dump(self.consumer, APISERVICEBINDINGS, self.world.widgets),
            *await dump(self.consumer, SECRETS, only=_teams),
        ]

    async def providers_backup(self) -> list[JSON]:
        """What docs/backup.md has a provider keep."""
        admin = self.provider
        ours = (CLUSTERBINDINGS, APISERVICEEXPORTREQUESTS, APISERVICEEXPORTS, BOUNDSCHEMAS)
        return [
            *await dump(admin, NAMESPACES, only=self._theirs),
            *await dump(admin, CUSTOMRESOURCEDEFINITIONS, only=_bound),
            *await dump(admin, APISERVICEEXPORTTEMPLATES),
            *await dump(admin, *ours, APISERVICENAMESPACES, only=self._theirs),
            *await dump(admin, self.world.widgets, SECRETS, only=self._copied),
        ]

    async def empty(self, name: str) -> Client:
        """The administrator of a cluster that has nothing yet."""
        plane = await self._stack.enter_async_context(Sandbox(name=name))
        return await self._stack.enter_async_context(Client(parse_kubeconfig(plane.kubeconfig())))

    async def bound(self, client: Client, copies: Copies = "") -> list[str]:
        lines: list[str] = []
        await bind(
            client, self.link.response, timeout=SECONDS, progress=lines.append, copies=copies
        )
        return lines


def _state(bodies: list[JSON]) -> dict[str, tuple[str, Any]]:
    return {
        f"{one['kind']} {one['metadata']['namespace']}/{one['metadata']['name']}": (
            one["metadata"]["uid"],
            one.get("status"),
        )
        for one in bodies
        if not one.get("type", "").startswith("kubernetes.io/")
    }


def _named(body: JSON, name: str) -> bool:
    return bool(body["metadata"]["name"] == name)


def _bound(body: JSON) -> bool:
    return _named(body, "widgets.example.org")


def _teams(body: JSON) -> bool:
    return body["metadata"]["namespace"] in {"default", "shop"}


async def restored(client: Client, bodies: list[JSON], style: Style, seed: int) -> None:
    await restore(client, [one for one in bodies if one["kind"] in FIRST], style)
    await restore(client, [one for one in bodies if one["kind"] not in FIRST], style, seed=seed)


@pytest.fixture
async def day(stack: AsyncExitStack) -> Day:
    world = World(stack)
    await world.start()
    await world.konnector()
    line = await stack.enter_async_context(Line(world.provider.config.server))
    link = await invite_over(world.consumer, world.provider, "widgets", line=line)
    await link.bind()
    await world.consumer.create(NAMESPACES, {"metadata": {"name": "shop"}})
    day = Day(world, line, link, stack)
    await day.order("blue", "default")
    await day.order("red", "shop")
    return day


@pytest.mark.parametrize("seed", [1, 2])
async def test_a_consumer_is_restored_and_every_copy_is_as_it_was(
    day: Day, stack: AsyncExitStack, seed: int
) -> None:
    backup, copies, objects = await day.consumers_backup(), await day.copies(), await day.objects()
    await day.world.one.stop()
    day.consumer = client = await day.empty("restored")
    first = await stack.enter_async_context(konnector(client))
    await first.stop()
    await restored(client, backup, "stripped", seed)
    await stack.enter_async_context(konnector(client))
    lines = await day.bound(client)
    assert any("CopiesHeld of APIServiceBinding widgets" in line for line in lines), lines
    await day.bound(client, copies="keep")
    for name, namespace in (("blue", "default"), ("red", "shop")):
        await day.says(name, namespace, name)
    assert (await day.objects()).keys() == objects.keys()
    assert await day.copies() == copies
    # From here on a deletion is one, of just that copy.
    await client.delete(day.world.widgets, "blue", "default")
    there = await day.link.provider_namespace()
    await gone(day.provider, day.world.widgets, "blue", there)
    await day.order("green", "shop")


async def test_a_consumer_put_back_to_a_backup_of_itself_holds_what_is_younger(
    day: Day, stack: AsyncExitStack
) -> None:
    copies = await day.copies()
    await day.world.one.stop()
    # As in yesterday's etcd: the widget had not been ordered, and the cluster is the same.
    await day.consumer.merge_patch(
        day.world.widgets, "red", "shop", {"metadata": {"finalizers": None}}
    )
    await day.consumer.delete(day.world.widgets, "red", "shop")
    said = {"metadata": {"annotations": {ANNOTATION_HELD_COPIES: "Hold"}}}
    await day.consumer.merge_patch(APISERVICEBINDINGS, "widgets", "", said)
    await stack.enter_async_context(konnector(day.consumer))
    body = await when(
        day.consumer,
        APISERVICEBINDINGS,
        "widgets",
        until=lambda body: "1 copy waits" in condition(body, "CopiesHeld").get("message", ""),
    )
    assert "was restored from a backup" in condition(body, "CopiesHeld")["message"]
    await idle(0.3)
    assert await day.copies() == copies
    await day.bound(day.consumer, copies="keep")
    assert await day.copies() == copies
    # The order is given again, and has what was made for it.
    again = day.world.widget("red")
    again["metadata"]["namespace"] = "shop"
    await day.consumer.create(day.world.widgets, again)
    await day.says("red", "shop", "red")
    assert await day.copies() == copies


@pytest.mark.parametrize(("style", "seed"), [("stripped", 1), ("stripped", 2), ("verbatim", 3)])
async def test_a_provider_is_restored_and_its_consumer_loses_nothing(
    day: Day, stack: AsyncExitStack, style: Style, seed: int
) -> None:
    backup, objects = await day.providers_backup(), await day.objects()
    kept = await day.copies()
    day.provider = client = await day.empty("restored")
    await prepare(client, exports=["widgets.example.org"])
    # All of it before the program starts.
    await restored(client, backup, style, seed)
    copies = await day.copies()
    assert copies.keys() == kept.keys()
    await stack.enter_async_context(running(client))
    # The name leads to the restored cluster now, and credentials come by a new invitation.
    await day.line.lead_to(client.config.server)
    home = await client.get(NAMESPACES, day.link.cluster_namespace)
    day.link = await invite_over(
        day.consumer,
        client,
        "widgets",
        line=day.line,
        identity=home.meta.annotations[ANNOTATION_IDENTITY],
    )
    assert day.link.cluster_namespace == home.meta.name
    await day.bound(day.consumer)
    await day.consumer.create(NAMESPACES, {"metadata": {"name": "later"}})
    await day.order("green", "later")
    for name, namespace in (("blue", "default"), ("red", "shop")):
        there = f"{home.meta.name}-{namespace}"
        await when(
            client,
            day.world.widgets,
            name,
            there,
            until=lambda body: "kube-bind.io/consumer-uid" in body["metadata"]["annotations"],
        )
        status = {"status": {"factory": f"{name} again"}}
        await client.merge_patch(day.world.widgets, name, there, status, subresource="status")
        await day.says(name, namespace, f"{name} again")
    now = await day.objects()
    assert {key: now[key][0] for key in objects} == {key: one[0] for key, one in objects.items()}
    assert {key: one[0] for key, one in (await day.copies()).items() if key in copies} == {
        key: one[0] for key, one in copies.items()
    }


async def test_an_older_backup_over_a_living_provider_brings_back_nothing_that_was_deleted(
    day: Day,
) -> None:
    backup = await day.providers_backup()
    await day.consumer.delete(day.world.widgets, "red", "shop")
    there = await day.link.provider_namespace("shop")
    await gone(day.provider, day.world.widgets, "red", there)
    await day.order("green", "shop")
    copies, objects = await day.copies(), await day.objects()
    await restored(day.provider, backup, "stripped", 1)
    await gone(day.provider, day.world.widgets, "red", there)
    await idle(0.3)
    assert await day.copies() == copies
    assert await day.objects() == objects


async def test_a_consumer_that_is_restored_beside_itself_writes_nothing_there(
    day: Day, stack: AsyncExitStack
) -> None:
    """Two clusters with one identity: the one that lives goes on, the other is told."""
    backup = await day.consumers_backup()
    client = await day.empty("twin")
    await stack.enter_async_context(konnector(client))
    await restored(client, backup, "stripped", 1)
    lines: list[str] = []
    await bind(client, day.link.response, timeout=SECONDS, progress=lines.append)
    for side in (client, day.consumer):
        await when(
            side,
            APISERVICEBINDINGS,
            "widgets",
            until=lambda body: condition(body, "AnotherKonnector").get("status") == "True",
        )
    await when(
        client,
        APISERVICEBINDINGS,
        "widgets",
        until=lambda body: (
            "konnector writes nothing there" in condition(body, "CopiesHeld")["message"]
        ),
    )
    copies = await day.copies()
    # Each wants something else of the same object, and the twin deletes and orders besides.
    for side, text in ((client, "twin"), (day.consumer, "living")):
        label = {"metadata": {"labels": {"side": text}}}
        await side.merge_patch(day.world.widgets, "blue", "default", label)
    await client.delete(day.world.widgets, "red", "shop")
    assert "another cluster" in (await event(client, "shop", "CopyHeld"))["message"]
    there = await day.link.provider_namespace()
    await when(
        day.provider,
        day.world.widgets,
        "blue",
        there,
        until=lambda body: body["metadata"].get("labels") == {"side": "living"},
    )
    await idle(0.5)
    body = (await day.provider.get(day.world.widgets, "blue", there)).to_dict()
    assert body["metadata"]["labels"] == {"side": "living"}
    assert await day.copies() == copies
    await day.order("green", "shop")
