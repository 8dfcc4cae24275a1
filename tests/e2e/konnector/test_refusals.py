"""Objects that a server refuses: told once on each, told on the binding, and tried again."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import cast

import pytest
from tests.support.countingplanes import WRITES, Plane
from tests.support.konnector import Link, Requests, World, event
from tests.support.requests import hooked
from tests.support.waiting import SECONDS, condition, eventually, gone, when

from fairlead.api.kubebind import APISERVICEEXPORTS, APISERVICEEXPORTTEMPLATES
from fairlead.api.meta import JSON
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS, EVENTS
from fairlead.client import Invalid
from fairlead.konnector import reports
from fairlead.konnector.commands.overview.fetch import Overview
from fairlead.konnector.commands.overview.rows import make_row
from fairlead.konnector.sync import engine
from fairlead.runtime import BackoffPolicy, delays
from fairlead_sandbox import Sandbox
from fairlead_sandbox.errors import StatusError
from fairlead_sandbox.requests.info import RequestInfo


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refusals last long enough at once."""
    monkeypatch.setattr(reports, "LASTING_SECONDS", 0.1)


class Asked:
    """Counts requests, and tells when there were enough."""

    def __init__(self) -> None:
        self.count = 0
        self.sixth = asyncio.Event()

    def more(self) -> None:
        self.count += 1
        if self.count == 6:
            self.sixth.set()


@contextlib.contextmanager
def refusing(plane: Sandbox, code: int, reason: str, name: str = "") -> Iterator[Asked]:
    """Have a plane refuse writes of widgets, or of that which is named."""
    asked = Asked()

    def hook(info: RequestInfo) -> None:
        if info.resource == "widgets" and info.verb in WRITES and name in {"", info.name}:
            asked.more()
            raise StatusError(code, reason, f"injected: {reason}")

    with hooked(cast("Plane", SimpleNamespace(sandbox=plane)), hook):
        yield asked


async def create(world: World, *names: str) -> None:
    for name in names:
        await world.consumer.create(world.widgets, world.widget(name))


async def crossed(world: World, namespace: str, *names: str) -> None:
    for name in names:
        await when(world.provider, world.widgets, name, namespace, until=bool)


async def told(world: World, reason: str) -> int:
    """How often Events with a reason have told of widgets."""
    found = [one.to_dict() for one in (await world.consumer.list(EVENTS, "default")).items]
    return sum(int(one.get("count") or 1) for one in found if one["reason"] == reason)


async def problem(world: World) -> str:
    async with Overview(world.consumer) as overview:
        (bound,) = await overview.fetch()
    row = make_row(bound, datetime.now(UTC))
    return row.problem or "; ".join(remark.text for remark in row.remarks)


async def failing(link: Link, count: int) -> JSON:
    number = f"{count} object"
    return await link.condition("ObjectsFailing", lambda one: number in one.get("message", ""))


@pytest.mark.edge
async def test_what_a_stricter_provider_refuses(provider_world: World) -> None:
    world = provider_world
    konnector = await world.konnector()
    link = await world.bound()
    await create(world, "good")
    for name in ("green", "red"):
        await world.consumer.create(world.widgets, world.widget(name, colour=name))
    namespace = await link.provider_namespace()
    await crossed(world, namespace, "good", "green", "red")
    await konnector.stop()
    for name, colour in (("green", "red"), ("red", "green")):
        # What is as it was before the schema became stricter a server of today does not refuse.
        patch: JSON = {"metadata": {"labels": {"new": "1"}}, "spec": {"colour": colour}}
        await world.consumer.merge_patch(world.widgets, name, "default", patch)
    await _only_blue(world)
    await konnector.start()
    found = await failing(link, 2)
    assert (found["status"], found["reason"]) == ("True", "Invalid")
    # Whichever was refused first is told first.
    assert all(f"Widget default/{name}" in found["message"] for name in ("green", "red"))
    assert "colour" in found["message"]
    await link.says(Ready="True", ObjectsFailing="True")
    # The provider's team learns of it from the export.
    await when(
        world.provider,
        APISERVICEEXPORTS,
        link.name,
        link.cluster_namespace,
        until=lambda body: "2 objects" in condition(body, "ObjectsFailing").get("message", ""),
    )
    assert (await problem(world)).startswith("Invalid: 2 objects cannot be written")
    await konnector.tells(
        "fairlead_sync_failing", 2, binding=link.name, resource=world.widgets.group_resource
    )
    assert await told(world, "SyncFailed") == 2
    for name in ("green", "red"):
        patch = {"spec": {"colour": "blue"}}
        await world.consumer.merge_patch(world.widgets, name, "default", patch)
    await link.condition("ObjectsFailing", lambda one: not one)
    for name in ("green", "red"):
        body = (await world.provider.get(world.widgets, name, namespace)).to_dict()
        assert body["metadata"]["labels"] == {"new": "1"}


async def _only_blue(world: World) -> None:
    """Let the provider's CRD, and no copy of its schema, allow blue widgets alone."""
    name = world.widgets.group_resource
    crd = (await world.provider.get(CUSTOMRESOURCEDEFINITIONS, name)).to_dict()
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["properties"]["colour"]["enum"] = ["blue"]
    await world.provider.update(CUSTOMRESOURCEDEFINITIONS, crd)
    # A server takes a moment until it validates by the new schema.
    await eventually(lambda: _refused(world, world.widget("trial", colour="red")))


async def test_an_object_that_lives_by_ratcheting_alone_is_told_what_to_do(
    provider_world: World,
) -> None:
    """Its copy was made before the schema became narrower, and is made anew after that."""
    world = provider_world
    await world.konnector()
    link = await world.bound()
    await world.consumer.create(world.widgets, world.widget("red", colour="red"))
    namespace = await link.provider_namespace()
    await crossed(world, namespace, "red")
    await _only_blue(world)
    await world.provider.delete(world.widgets, "red", namespace)
    told = await event(world.consumer, "default", "SyncFailed")
    for message in (told["message"], (await failing(link, 1))["message"]):
        assert "spec.colour: Unsupported value" in message
        assert "an API server validates all fields of a new object" in message
        assert "change the fields that the server names" in message
    blue = {"spec": {"colour": "blue"}}
    await world.consumer.merge_patch(world.widgets, "red", "default", blue)
    await crossed(world, namespace, "red")


async def _refused(world: World, body: JSON) -> bool:
    try:
        await world.provider.create(world.widgets, body, "default")
    except Invalid:
        return True
    await world.provider.delete(world.widgets, body["metadata"]["name"], "default")
    return False


async def test_one_event_tells_of_many_tries(world: World) -> None:
    await world.konnector()
    link = await world.bound()
    await create(world, "good")
    await crossed(world, await link.provider_namespace(), "good")
    with refusing(world.provider_plane, 500, "InternalError") as asked:
        await create(world, "bad")
        found = await failing(link, 1)
        assert "injected: InternalError" in found["message"]
        await link.says(Ready="True", ObjectsFailing="True")
        async with asyncio.timeout(SECONDS):
            await asked.sixth.wait()
        assert await told(world, "SyncFailed") == 1
    await link.condition("ObjectsFailing", lambda one: not one)


@pytest.fixture
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has failed three times waits for longer than a test."""
    monkeypatch.setattr(
        delays, "FAILED_PASS", BackoffPolicy(0.01, 1000.0, factor=100.0, jitter=0.0)
    )


@pytest.mark.usefixtures("_patient")
async def test_what_a_schema_has_refused_is_tried_as_soon_as_it_changes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "SCOUT_SECONDS", 1000.0)
    template: JSON = {"spec": {"schemaUpdatePolicy": "Always"}}
    await world.provider.merge_patch(APISERVICEEXPORTTEMPLATES, "widgets", "", template)
    await world.konnector()
    link = await world.bound()
    await create(world, "good")
    namespace = await link.provider_namespace()
    await crossed(world, namespace, "good")
    names = [f"w{number}" for number in range(5)]
    with refusing(world.provider_plane, 422, "Invalid") as asked:
        await create(world, *names)
        await failing(link, 5)
        async with asyncio.timeout(SECONDS):
            while asked.count < 3 * len(names):  # noqa: ASYNC110  numbers tell nobody
                await asyncio.sleep(0.02)
    name = world.widgets.group_resource
    crd = (await world.provider.get(CUSTOMRESOURCEDEFINITIONS, name)).to_dict()
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["properties"]["more"] = {"type": "string"}
    await world.provider.update(CUSTOMRESOURCEDEFINITIONS, crd)
    await crossed(world, namespace, *names)
    await link.condition("ObjectsFailing", lambda one: not one)


@pytest.mark.usefixtures("_patient")
async def test_one_that_is_taken_brings_on_the_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody tells of a webhook or of a schema that the export does not follow.

    One by one these would take longer than a test may wait.
    """
    monkeypatch.setattr(engine, "SCOUT_SECONDS", 3.0)
    await world.konnector()
    link = await world.bound()
    await create(world, "good")
    namespace = await link.provider_namespace()
    await crossed(world, namespace, "good")
    names = [f"w{number}" for number in range(70)]
    with refusing(world.provider_plane, 422, "Invalid") as asked:
        await create(world, *names)
        await failing(link, 70)
        async with asyncio.timeout(SECONDS):
            while asked.count < 3 * len(names):  # noqa: ASYNC110  numbers tell nobody
                await asyncio.sleep(0.02)
    await crossed(world, namespace, *names)
    await link.condition("ObjectsFailing", lambda one: not one)


async def test_a_provider_that_lets_nothing_be_written(world: World) -> None:
    await world.konnector()
    link = await world.bound()
    names = [f"w{number}" for number in range(5)]
    with refusing(world.provider_plane, 403, "Forbidden"):
        await create(world, names[0])
        await failing(link, 1)
        # That the consumer takes finalizers of more objects shows nothing.
        await create(world, *names[1:])
        found = await failing(link, 5)
        assert found["reason"] == "Forbidden"
        synced = await link.condition("InformersSynced", lambda one: one["status"] == "False")
        assert synced["reason"] == "WritesRefused"
        assert "every write for widgets.example.org fails (5 objects)" in synced["message"]
        await link.says(Ready="False")
        assert (await problem(world)).startswith("WritesRefused: every write for")
        assert await told(world, "SyncFailed") == 5
    await link.condition("ObjectsFailing", lambda one: not one)
    await link.says(Ready="True")
    await crossed(world, await link.provider_namespace(), *names)


async def test_a_change_that_is_refused_does_not_keep_a_deleted_object(world: World) -> None:
    konnector = await world.konnector()
    link = await world.bound()
    await create(world, "good")
    namespace = await link.provider_namespace()
    await crossed(world, namespace, "good")
    held: JSON = {"metadata": {"finalizers": ["example.org/factory"]}}
    await world.provider.merge_patch(world.widgets, "good", namespace, held)
    await konnector.stop()
    await world.consumer.merge_patch(world.widgets, "good", "default", {"spec": {"count": 8}})
    await world.consumer.delete(world.widgets, "good", "default")

    def refuse(info: RequestInfo) -> None:
        if info.resource == "widgets" and info.verb == "update" and not info.subresource:
            raise StatusError(403, "Forbidden", "eight are too many")

    with hooked(cast("Plane", SimpleNamespace(sandbox=world.provider_plane)), refuse):
        await konnector.start()
        going = await when(
            world.provider,
            world.widgets,
            "good",
            namespace,
            until=lambda body: "deletionTimestamp" in body["metadata"],
        )
        assert going["spec"].get("count") != 8
        # The status of a copy that is going still comes back, and tells what it waits for.
        going["status"] = {"made": 3}
        await world.provider.update(world.widgets, going, subresource="status")
        await when(
            world.consumer,
            world.widgets,
            "good",
            "default",
            until=lambda body: body.get("status") == going["status"],
        )
        assert (
            "eight are too many"
            in (await event(world.consumer, "default", "SyncFailed"))["message"]
        )
        assert await told(world, "SyncFailed") == 1
        free: JSON = {"metadata": {"finalizers": None}}
        await world.provider.merge_patch(world.widgets, "good", namespace, free)
        await gone(world.consumer, world.widgets, "good", "default")


async def test_a_status_that_the_consumer_refuses(world: World) -> None:
    await world.konnector()
    link = await world.bound()
    await create(world, "blue", "green")
    namespace = await link.provider_namespace()
    await crossed(world, namespace, "blue", "green")
    with refusing(world.consumer_plane, 422, "Invalid", "blue"):
        for name in ("blue", "green"):
            patch = {"status": {"made": 1}}
            await world.provider.merge_patch(
                world.widgets, name, namespace, patch, subresource="status"
            )
        found = await failing(link, 1)
        assert (
            "Widget default/blue; the first because this cluster refuses it: injec"
            in found["message"]
        )
        await when(
            world.consumer,
            world.widgets,
            "green",
            "default",
            until=lambda body: body.get("status") == {"made": 1},
        )
        await link.says(Ready="True", ObjectsFailing="True")
    await link.condition("ObjectsFailing", lambda one: not one)


async def test_a_right_that_only_an_object_needed_that_is_gone_is_told_no_more(
    world: World,
) -> None:
    """No step of that kind is tried again, which would show that it is allowed."""
    await world.konnector()
    link = await world.bound()
    await create(world, "blue")
    namespace = await link.provider_namespace()
    await crossed(world, namespace, "blue")

    def hook(info: RequestInfo) -> None:
        if info.resource == "widgets" and info.subresource == "status":
            raise StatusError(
                403, "Forbidden", 'User "konnector" cannot update resource "widgets"'
            )

    with hooked(cast("Plane", SimpleNamespace(sandbox=world.consumer_plane)), hook):
        patch = {"status": {"made": 1}}
        await world.provider.merge_patch(
            world.widgets, "blue", namespace, patch, subresource="status"
        )
        await link.says(Ready="False")
        await world.consumer.delete(world.widgets, "blue", "default")
        await gone(world.consumer, world.widgets, "blue", "default")
        await link.says(Ready="True")


@pytest.mark.edge
async def test_a_kind_that_is_not_served_there_waits_for_its_watch(provider_world: World) -> None:
    """Instead of each object trying for itself."""
    world = provider_world
    await world.konnector()
    link = await world.bound()
    await create(world, "before")
    namespace = await link.provider_namespace()
    await crossed(world, namespace, "before")
    name = world.widgets.group_resource
    crd = (await world.provider.get(CUSTOMRESOURCEDEFINITIONS, name)).to_dict()
    await world.provider.delete(CUSTOMRESOURCEDEFINITIONS, name)
    await gone(world.provider, CUSTOMRESOURCEDEFINITIONS, name)
    plane = getattr(world, "provider_plane", None)
    requests = Requests(plane) if plane is not None else None
    names = [f"w{number}" for number in range(60)]
    await create(world, *names)
    await link.condition("InformersSynced", lambda one: "does not serve" in one.get("message", ""))
    if requests is not None:
        begun = requests.count("create", resource="widgets")
        await asyncio.sleep(1)
        assert requests.count("create", resource="widgets") == begun
        assert begun <= 60
    assert await told(world, "SyncFailed") == 0
    metadata = {key: crd["metadata"][key] for key in ("name", "labels") if key in crd["metadata"]}
    await world.provider.create(
        CUSTOMRESOURCEDEFINITIONS,
        {"apiVersion": crd["apiVersion"], "kind": crd["kind"], "metadata": metadata}
        | {"spec": crd["spec"]},
    )
    await crossed(world, namespace, "before", *names)
    await link.condition("InformersSynced", lambda one: one["status"] == "True")
