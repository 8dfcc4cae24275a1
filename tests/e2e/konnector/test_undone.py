"""Somebody who undoes what the konnector writes: paced for each object, and named."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from tests.support.konnector import WIDGETS, Link, Requests, World, event, widget
from tests.support.waiting import SECONDS, condition, idle, when
from tests.support.webhooks import WebhookServer, add, patch

from fairlead.api.kubebind import APISERVICEBINDINGS
from fairlead.api.meta import JSON, Object
from fairlead.client import Client, Conflict, parse_kubeconfig
from fairlead.konnector.sync import passes
from fairlead.konnector.sync.undone import FREE


Undo = Callable[[Client, Object], Awaitable[bool]]


async def respec(client: Client, found: Object) -> bool:
    """An operator of the provider that knows better."""
    body = found.to_dict()
    if body["spec"]["colour"] == "green":
        return False
    await client.update(WIDGETS, {**body, "spec": {**body["spec"], "colour": "green"}})
    return True


async def strip_finalizer(client: Client, found: Object) -> bool:
    if not found.meta.finalizers:
        return False
    body = found.to_dict()
    body["metadata"]["finalizers"] = []
    await client.update(WIDGETS, body)
    return True


async def strip_uid(client: Client, found: Object) -> bool:
    if "kube-bind.io/provider-uid" not in found.meta.annotations:
        return False
    body = found.to_dict()
    del body["metadata"]["annotations"]["kube-bind.io/provider-uid"]
    body["metadata"]["annotations"]["example.org/cleaned"] = "yes"
    await client.update(WIDGETS, body)
    return True


class Rewriter:
    """Undoes what is written to one object, as soon as its watch tells of it."""

    def __init__(self, client: Client, name: str, namespace: str, undo: Undo) -> None:
        self._client = client
        self._key = name, namespace
        self._undo = undo
        self.times = 0

    @contextlib.asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self._run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def _run(self) -> None:
        name, namespace = self._key
        while True:
            with contextlib.suppress(Conflict):
                found = await self._client.get(WIDGETS, name, namespace)
                self.times += await self._undo(self._client, found)
            await asyncio.sleep(0.01)

    async def after(self, times: int) -> None:
        async with asyncio.timeout(SECONDS):
            while self.times < times:  # noqa: ASYNC110  it tells nobody
                await asyncio.sleep(0.02)


async def both(world: World) -> tuple[Link, str]:
    """A binding with an object and its neighbour, and the provider namespace of both."""
    await world.konnector()
    link = await world.bound()
    for name in ("blue", "red"):
        await world.consumer.create(WIDGETS, widget(name))
    there = await link.provider_namespace()
    for name in ("blue", "red"):
        await when(world.provider, WIDGETS, name, there, until=bool)
        await when(
            world.consumer,
            WIDGETS,
            name,
            "default",
            until=lambda body: (
                "kube-bind.io/provider-uid" in body["metadata"].get("annotations", {})
            ),
        )
    return link, there


@pytest.mark.parametrize(
    ("side", "undo"),
    [("provider", respec), ("consumer", strip_finalizer), ("consumer", strip_uid)],
)
async def test_who_undoes_writes_is_named_and_writes_slow_down(
    world: World, side: str, undo: Undo
) -> None:
    link, there = await both(world)
    plane = world.provider_plane if side == "provider" else world.consumer_plane
    config = parse_kubeconfig(plane.kubeconfig())
    where = there if side == "provider" else "default"
    async with Client(config, field_manager="busybody") as client:
        rewriter = Rewriter(client, "blue", where, undo)
        async with rewriter.at_work():
            told = await link.condition("ObjectsRewritten", lambda one: one.get("status"))
            assert told["reason"] == "WriteUndone"
            assert "1 object again and again: Widget default/blue (" in told["message"]
            if undo is not strip_finalizer:
                assert "field manager busybody" in told["message"]
            found = await event(world.consumer, "default", "WriteUndone")
            assert found["involvedObject"]["name"] == "blue"
            body = (await world.consumer.get(APISERVICEBINDINGS, link.name)).to_dict()
            assert condition(body, "Ready")["status"] == "True"
            before = rewriter.times
            # The neighbour's changes, and the object's own, cross as ever.
            await recolour(world, "red", "green")
            await crossed(world, "red", there, "green")
            await recolour(world, "blue", "red")
            await rewriter.after(before + 1)
            await status(world, there)
            requests = Requests(plane)
            await idle(0.5)
            assert requests.count("update", "patch", resource="widgets") < 20
    await crossed(world, "blue", there, "red")


async def test_a_change_of_a_copy_that_is_going_is_written_again_after_the_pause(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passes, "LONG", 0.0)
    _, there = await both(world)
    held: JSON = {"metadata": {"finalizers": ["example.org/factory"]}}
    await world.provider.merge_patch(WIDGETS, "blue", there, held)
    await world.consumer.delete(WIDGETS, "blue", "default")
    await when(
        world.provider,
        WIDGETS,
        "blue",
        there,
        until=lambda body: "deletionTimestamp" in body["metadata"],
    )
    rewriter = Rewriter(world.provider, "blue", there, respec)
    async with rewriter.at_work():
        await recolour(world, "blue", "red")
        await event(world.consumer, "default", "WriteUndone")
    # The rewriter is gone, and no event brings the object on.
    await crossed(world, "blue", there, "red")


async def test_who_deletes_a_copy_again_and_again_is_told_by_its_marks(world: World) -> None:
    """A label alone may be one by which the provider's Argo CD knows its objects."""
    link, there = await both(world)
    instance = "app.kubernetes.io/instance"
    label: JSON = {"metadata": {"labels": {instance: "shop"}}}
    await world.consumer.merge_patch(WIDGETS, "blue", "default", label)
    uid = ""

    def anew(body: JSON) -> bool:
        meta = body.get("metadata", {})
        return meta.get("uid", uid) != uid and instance in meta.get("labels", {})

    for _ in range(FREE):
        copy = await when(world.provider, WIDGETS, "blue", there, until=anew)
        uid = copy["metadata"]["uid"]
        await world.provider.delete(WIDGETS, "blue", there)
    told = await link.condition("ObjectsRewritten", lambda one: one.get("status"))
    assert (
        f"Widget default/blue (another writer deletes its copy, which had label {instance}=shop)"
        in (told["message"])
    )
    found = await event(world.consumer, "default", "CopyDeleted")
    assert found["involvedObject"]["name"] == "blue"
    assert f"label {instance}=shop" in found["message"]
    # It is there again all the same, and other objects are nobody's affair.
    await when(world.provider, WIDGETS, "blue", there, until=anew)
    assert "default/red" not in told["message"]


async def test_a_webhook_that_sets_what_the_object_sets_is_told_and_costs_no_writes(
    world: World,
) -> None:
    link, there = await both(world)
    count = {"operations": ["CREATE", "UPDATE"], "apiGroups": ["example.org"]}
    rules = [{**count, "apiVersions": ["v1"], "resources": ["widgets"]}]
    async with WebhookServer() as server:
        hook = server.hook("/seven", patch(add("/spec/count", 7)), rules=rules)
        async with server.installed(world.provider, there, mutating=[hook]):
            count_three: JSON = {"spec": {"count": 3}}
            await world.consumer.merge_patch(WIDGETS, "blue", "default", count_three)
            told = await link.condition("ObjectsRewritten", lambda one: one.get("status"))
            assert (
                "1 object again and again: Widget default/blue (the provider's admission)"
                in told["message"]
            )
            found = await event(world.consumer, "default", "WriteChanged")
            assert found["involvedObject"]["name"] == "blue"
            requests = Requests(world.provider_plane)
            await idle(0.5)
            assert requests.count("update", "patch", resource="widgets") == 0
            seven: JSON = {"spec": {"count": 7}}
            await world.consumer.merge_patch(WIDGETS, "blue", "default", seven)
            await when(
                world.consumer,
                APISERVICEBINDINGS,
                link.name,
                until=lambda body: (
                    "default/blue" not in condition(body, "ObjectsRewritten").get("message", "")
                ),
            )


async def test_what_a_webhook_strips_for_a_moment_is_taken_up_again(world: World) -> None:
    """Also what was made in the meantime, of which nothing but our own write tells."""
    link, there = await both(world)
    rules = [
        {
            "operations": ["CREATE", "UPDATE"],
            "apiGroups": ["example.org"],
            "apiVersions": ["v1"],
            "resources": ["widgets"],
        }
    ]
    bare = patch({"op": "replace", "path": "/metadata/annotations", "value": {}})
    async with WebhookServer() as server:
        hook = server.hook("/bare", bare, rules=rules)
        async with server.installed(world.provider, there, mutating=[hook]):
            await world.consumer.create(WIDGETS, widget("new"))
            await when(world.provider, WIDGETS, "new", there, until=bool)
            patch_: JSON = {"metadata": {"labels": {"touched": "1"}}}
            await world.provider.merge_patch(WIDGETS, "red", there, patch_)
            await link.condition("ObjectsRewritten", lambda one: one.get("status"))
    for name in ("blue", "red", "new"):
        await recolour(world, name, "green")
        await crossed(world, name, there, "green")
        await when(
            world.provider,
            WIDGETS,
            name,
            there,
            until=lambda body: "kube-bind.io/consumer-uid" in body["metadata"]["annotations"],
        )
    await link.condition("Conflicts", lambda one: not one)


async def recolour(world: World, name: str, colour: str) -> None:
    patch = {"spec": {"colour": colour}}
    await world.consumer.merge_patch(WIDGETS, name, "default", patch)


async def crossed(world: World, name: str, there: str, colour: str) -> None:
    def has(body: JSON) -> bool:
        return bool(body["spec"]["colour"] == colour)

    await when(world.provider, WIDGETS, name, there, until=has)


async def status(world: World, there: str) -> None:
    """The status of the copy comes back, whoever rewrites its spec."""
    patch = {"status": {"factory": "at work"}}
    await world.provider.merge_patch(WIDGETS, "blue", there, patch, subresource="status")
    await when(
        world.consumer,
        WIDGETS,
        "blue",
        "default",
        until=lambda body: body.get("status", {}).get("factory") == "at work",
    )
