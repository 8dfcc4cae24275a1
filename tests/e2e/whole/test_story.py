"""The main job on embedded and on real control planes, every program as its ServiceAccount."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
import structlog
from tests.support.pairs import fresh_planes
from tests.support.tiers import real
from tests.support.waiting import SECONDS

from fairlead.api.meta import JSON
from fairlead.api.resource import EVENTS
from fairlead.client import Client, parse_kubeconfig
from fairlead.demo import objects, play, story
from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.demo.screen import SilentScreen
from fairlead.demo.steps import Narrator, StoryError
from fairlead.demo.world import Plane, World, open_world


class Told:
    """The Events of a control plane, also of objects and namespaces that go meanwhile."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._seen: list[JSON] = []
        self._last = asyncio.Event()

    async def watch(self) -> None:
        listed = await self._client.list(EVENTS)
        self._seen += [item.to_dict() for item in listed.items]
        version = listed.resource_version
        while True:
            async for event in self._client.watch(EVENTS, resource_version=version):
                body = event.object.to_dict()
                version = body["metadata"]["resourceVersion"]
                if event.type in {"ADDED", "MODIFIED"}:
                    self._seen.append(body)
                if body.get("reason") == "TheEnd":
                    self._last.set()

    async def warnings(self) -> list[tuple[str, str, str]]:
        """Kind of object, reason and message of every Warning up to now."""
        end: JSON = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": "end-", "namespace": "default"},
            "involvedObject": {"namespace": "default"},
            "reason": "TheEnd",
            "type": "Normal",
        }
        await self._client.create(EVENTS, end, "default")
        async with asyncio.timeout(SECONDS):
            await self._last.wait()
        return [
            (body["involvedObject"]["kind"], body["reason"], body["message"])
            for body in self._seen
            if body["type"] == "Warning"
        ]


@asynccontextmanager
async def told(*planes: Plane) -> AsyncIterator[Sequence[Told]]:
    async with AsyncExitStack() as stack:
        configs = [parse_kubeconfig(plane.kubeconfig()) for plane in planes]
        clients = [await stack.enter_async_context(Client(config)) for config in configs]
        group = await stack.enter_async_context(asyncio.TaskGroup())
        result = [Told(client) for client in clients]
        tasks = [group.create_task(one.watch()) for one in result]
        yield result
        for task in tasks:
            task.cancel()


@pytest.mark.edge
@pytest.mark.parametrize("kind", ["sandbox", real("real")])
async def test_a_database_in_one_cluster_reaches_an_app_in_another(
    kind: str, request: pytest.FixtureRequest
) -> None:
    if kind == "real":
        request.getfixturevalue("real_programs")
    narrator = Narrator(SilentScreen())
    with structlog.testing.capture_logs() as logs:
        async with (
            fresh_planes(kind, "provider", "consumer") as (provider, consumer),
            told(provider, consumer) as events,
            EmbeddedPostgres() as database,
        ):
            async with open_world(provider, consumer, database) as world:
                await story.ready(world)
                await play.tell(narrator, world)
                secrets = [database.password, *(one.password for one in world.door.people)]
            assert [await one.warnings() for one in events] == [[], []]
    assert json.loads(narrator.report.to_json())["ok"] is True
    assert [step.name[:2] for step in narrator.report.steps] == [f"{n}." for n in range(1, 9)]
    assert [entry for entry in logs if entry["log_level"] == "error"] == []
    audited = [one for one in logs if one["event"] in {"bind", "refusal"}]
    assert [(one["event"], one["who"].rpartition("/")[2]) for one in audited] == [
        ("refusal", "ben"),
        ("bind", "ada"),
    ]
    for secret in secrets:
        assert secret not in str(logs)
        assert secret not in str(narrator.report.steps)


async def test_a_step_that_does_not_hold_ends_the_story(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(story, "allowed", lambda _privileges: {"sink the ship"})
    report = await play.play(SilentScreen())
    last = report.steps[-1]
    assert (report.ok, last.ok, last.name[:2]) == (False, False, "6."), last.detail
    assert "the app may ['add an order', 'read orders']" in last.detail


async def test_a_team_that_may_bind_what_is_another_teams_ends_the_story(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(objects, "OTHER_TEAM", objects.TEAM)
    report = await play.play(SilentScreen())
    last = report.steps[-1]
    assert (report.ok, last.ok, last.name[:2]) == (False, False, "2."), last.detail
    assert "ben is offered ['postgres']" in last.detail


async def test_a_program_that_ends_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[socket.socket] = []
    create_server = socket.create_server

    def noted(*args: Any, **more: Any) -> socket.socket:
        taken.append(create_server(*args, **more))
        return taken[-1]

    async def broken(_world: World) -> None:
        raise StoryError("the konnector has ended")

    monkeypatch.setattr(story, "ready", broken)
    monkeypatch.setattr(socket, "create_server", noted)
    report = await play.play(SilentScreen())
    assert not report.ok
    assert report.steps[-1].detail == "the konnector has ended"
    assert [one.fileno() for one in taken] == [-1]


async def test_everything_stays_up_until_it_is_told_to_go() -> None:
    seen: list[bool] = []

    async def keep(provider: Plane, consumer: Plane, database: object) -> None:
        await asyncio.sleep(0)
        seen.append(b"kind: Config" in provider.kubeconfig() + consumer.kubeconfig())

    report = await play.play(SilentScreen(), keep=keep)
    assert report.ok, report.steps[-1].detail
    assert len(report.steps) == 7
    assert seen == [True]
