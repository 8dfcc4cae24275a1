"""Events: written once, counted afterwards, never in anybody's way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from tests.unit.runtime.fakes import refusal, widget

from fairlead.api.meta import JSON, Object, object_from_dict
from fairlead.api.resource import Resource
from fairlead.client import Client, limits
from fairlead.client.errors import ConnectionFailed
from fairlead.runtime.events import EventRecorder, EventWriter


Run = Callable[[Awaitable[Any]], Any]


class Server:
    """Takes events and patches of them, or refuses the next ones."""

    def __init__(self) -> None:
        self.events: dict[str, JSON] = {}
        self.writes = 0
        self.errors: list[Exception] = []

    async def create(self, resource: Resource, body: JSON, namespace: str) -> Object:
        self._arrive()
        self.events[body["metadata"]["name"]] = body
        return object_from_dict(body)

    async def merge_patch(
        self, resource: Resource, name: str, namespace: str, patch: JSON
    ) -> Object:
        self._arrive()
        if name not in self.events:
            raise refusal("NotFound")
        self.events[name].update(patch)
        return object_from_dict(self.events[name])

    def _arrive(self) -> None:
        self.writes += 1
        if self.errors:
            raise self.errors.pop(0)

    @property
    def counts(self) -> list[tuple[str, int]]:
        return [(event["message"], event["count"]) for event in self.events.values()]


@asynccontextmanager
async def recording(server: Server) -> AsyncIterator[tuple[EventRecorder, EventWriter]]:
    writer = EventWriter(cast("Client", server))
    task = asyncio.create_task(writer.run())
    try:
        yield EventRecorder(writer, "konnector"), writer
    finally:
        task.cancel()
        await asyncio.wait([task])


def test_an_event_says_what_kubectl_describe_shows(virtual: Run) -> None:
    async def story() -> None:
        server = Server()
        async with recording(server) as (recorder, _):
            recorder.event(widget("a", 7), "Warning", "Denied", "no such role", "Grant")
            await asyncio.sleep(1)
        (event,) = server.events.values()
        assert event["metadata"]["namespace"] == "ns"
        assert event["metadata"]["name"].startswith("a.")
        assert event["involvedObject"] == {
            "apiVersion": "example.org/v1",
            "kind": "Widget",
            "namespace": "ns",
            "name": "a",
            "uid": "uid-a",
            "resourceVersion": "7",
        }
        named = {name: event[name] for name in ("type", "reason", "message", "action", "count")}
        assert named == {
            "type": "Warning",
            "reason": "Denied",
            "message": "no such role",
            "action": "Grant",
            "count": 1,
        }
        assert event["source"] == {"component": "konnector"}

    virtual(story())


def test_events_of_cluster_scoped_objects_go_to_default(virtual: Run) -> None:
    async def story() -> None:
        server = Server()
        async with recording(server) as (recorder, _):
            recorder.event(widget("a", namespace=""), "Normal", "Bound", "done")
            await asyncio.sleep(1)
        (event,) = server.events.values()
        assert event["metadata"]["namespace"] == "default"

    virtual(story())


def test_repetitions_are_counted_on_the_first(virtual: Run) -> None:
    async def story() -> None:
        server = Server()
        async with recording(server) as (recorder, _):
            for _ in range(3):
                recorder.event(widget("a"), "Normal", "Bound", "done")
            await asyncio.sleep(1)
            assert (server.counts, server.writes) == ([("done", 3)], 1)
            recorder.event(widget("a", 9), "Normal", "Bound", "done")
            await asyncio.sleep(1)
            assert (server.counts, server.writes) == ([("done", 4)], 2)

    virtual(story())


def test_an_old_event_is_written_anew(virtual: Run) -> None:
    async def story() -> None:
        server = Server()
        async with recording(server) as (recorder, _):
            recorder.event(widget("a"), "Normal", "Bound", "done")
            await asyncio.sleep(601)
            recorder.event(widget("a"), "Normal", "Bound", "done")
            await asyncio.sleep(1)
        assert server.counts == [("done", 1)] * 2

    virtual(story())


def test_a_counted_event_that_has_expired_is_written_anew(virtual: Run) -> None:
    async def story() -> None:
        server = Server()
        async with recording(server) as (recorder, _):
            recorder.event(widget("a"), "Normal", "Bound", "done")
            await asyncio.sleep(1)
            server.events.clear()
            recorder.event(widget("a"), "Normal", "Bound", "done")
            await asyncio.sleep(1)
        assert server.counts == [("done", 1)]

    virtual(story())


def test_similar_events_are_combined(virtual: Run) -> None:
    async def story() -> None:
        server = Server()
        async with recording(server) as (recorder, _):
            for number in range(limits.SIMILAR_EVENTS + 5):
                recorder.event(widget("a"), "Warning", "Failed", f"attempt {number}")
                await asyncio.sleep(1)
        assert len(server.events) == limits.SIMILAR_EVENTS + 1
        message, count = server.counts[-1]
        assert message.startswith("(combined from similar events): attempt")
        assert count == 5

    virtual(story())


def test_a_flood_about_one_object_has_a_budget_and_others_theirs(virtual: Run) -> None:
    async def story() -> None:
        server = Server()
        async with recording(server) as (recorder, writer):
            for number in range(100):
                recorder.event(widget("a"), "Warning", f"Reason{number}", "x")
            recorder.event(widget("b"), "Normal", "Bound", "done")
            await asyncio.sleep(1)
            assert server.writes == limits.EVENTS_BURST + 1
            assert writer.dropped == 100 - limits.EVENTS_BURST
            await asyncio.sleep(301)
            recorder.event(widget("a"), "Warning", "Later", "x")
            await asyncio.sleep(1)
            assert server.writes == limits.EVENTS_BURST + 2

    virtual(story())


@pytest.mark.parametrize(
    ("errors", "written"),
    [
        pytest.param([ConnectionFailed("down")], True, id="down-for-a-moment"),
        pytest.param([ConnectionFailed("down")] * 3, False, id="down"),
        pytest.param([refusal("Forbidden")], False, id="forbidden"),
        pytest.param([KeyError("bug")], False, id="bug"),
    ],
)
def test_what_cannot_be_written_is_dropped_and_stops_nothing(
    virtual: Run, errors: list[Exception], *, written: bool
) -> None:
    async def story() -> None:
        server = Server()
        server.errors = list(errors)
        async with recording(server) as (recorder, writer):
            recorder.event(widget("a"), "Normal", "First", "x")
            recorder.event(widget("b"), "Normal", "Second", "x")
            await asyncio.sleep(60)
            assert len(server.events) == 1 + written
            assert writer.dropped == 1 - written

    virtual(story())


def test_waiting_events_are_bounded() -> None:
    writer = EventWriter(cast("Client", Server()))
    recorder = EventRecorder(writer, "konnector")
    for number in range(limits.EVENTS_WAITING + 10):
        recorder.event(widget(f"w{number}"), "Normal", "Bound", "x")
    assert writer.dropped == 10
