"""What is written: the difference with preconditions, finalizers, statuses with their Events."""

from __future__ import annotations

from typing import Any, cast

import pytest
from tests.unit.runtime.fakes import WIDGETS

from fairlead.api.conditions import Event
from fairlead.api.meta import JSON, Object, object_from_dict
from fairlead.api.resource import Resource
from fairlead.api.status import Status, StatusDetails
from fairlead.client import Client, NotFound
from fairlead.runtime import EventRecorder
from fairlead.runtime.writes import (
    StatusWriter,
    add_finalizer,
    commit,
    difference,
    remove_finalizer,
)


OLD: JSON = {
    "apiVersion": "example.org/v1",
    "kind": "Widget",
    "metadata": {
        "name": "a",
        "namespace": "ns",
        "uid": "u",
        "resourceVersion": "7",
        "generation": 3,
        "labels": {"app": "x"},
        "finalizers": ["example.org/f"],
    },
    "spec": {"size": 1, "tags": ["a"], "unset": None},
    "status": {"ready": False},
}


def gone(name: str) -> NotFound:
    return NotFound(Status("Failure", "gone", "NotFound", 404, StatusDetails(name=name)))


class Recorder:
    """The one verb that is used, recorded."""

    def __init__(self, *, error: Exception | None = None) -> None:
        self.sent: list[tuple[Any, ...]] = []
        self.error = error

    async def merge_patch(
        self, resource: Resource, name: str, namespace: str, patch: JSON, *, subresource: str = ""
    ) -> Object:
        self.sent.append((name, namespace, patch, subresource))
        if self.error is not None:
            raise self.error
        return object_from_dict({**OLD, "spec": {"answered": True}})


def changed(**parts: Any) -> JSON:
    """OLD with members replaced; metadata is merged."""
    new = {**OLD, **parts}
    new["metadata"] = {**OLD["metadata"], **parts.get("metadata", {})}
    return new


@pytest.mark.parametrize(
    ("new", "patch"),
    [
        pytest.param(changed(), {}, id="equal"),
        pytest.param(changed(spec={"size": 2, "tags": ["a"]}), {"spec": {"size": 2}}, id="spec"),
        pytest.param(changed(spec={"size": 1}), {"spec": {"tags": None}}, id="removed"),
        pytest.param(changed(spec={**OLD["spec"], "more": None}), {}, id="null-is-absent"),
        pytest.param(changed(spec={"size": 1, "tags": ["a"]}), {}, id="null-removed"),
        pytest.param(changed(status={"ready": True}), {}, id="status-is-not-ours"),
        pytest.param(
            changed(metadata={"labels": {"app": "y"}}),
            {"metadata": {"labels": {"app": "y"}}},
            id="labels",
        ),
        pytest.param(
            changed(metadata={"finalizers": []}),
            {"metadata": {"finalizers": None}},
            id="finalizers",
        ),
        pytest.param(
            changed(metadata={"annotations": {}, "ownerReferences": []}), {}, id="empty-is-absent"
        ),
        pytest.param(
            changed(metadata={"resourceVersion": "9", "generation": 4, "managedFields": [{}]}),
            {},
            id="servers-own",
        ),
        pytest.param(
            {
                "metadata": {"labels": {"app": "x"}, "finalizers": ["example.org/f"]},
                "spec": OLD["spec"],
            },
            {},
            id="composed-anew",
        ),
        pytest.param(changed(data={"k": "v"}), {"data": {"k": "v"}}, id="other-members"),
    ],
)
def test_difference(new: JSON, patch: JSON) -> None:
    assert difference(object_from_dict(OLD), new) == patch


@pytest.mark.parametrize(
    ("new", "patch"),
    [
        pytest.param(changed(spec={"size": 9}), {}, id="spec-is-not-ours"),
        pytest.param(changed(status={"ready": True}), {"status": {"ready": True}}, id="status"),
        pytest.param({"status": {"ready": False}}, {}, id="equal"),
        pytest.param({}, {"status": {"ready": None}}, id="removed"),
    ],
)
def test_difference_of_status(new: JSON, patch: JSON) -> None:
    assert difference(object_from_dict(OLD), new, subresource="status") == patch


async def test_sends_preconditions_and_returns_the_answer() -> None:
    client, old = Recorder(), object_from_dict(OLD)
    answer = await commit(
        cast("Client", client), WIDGETS, old, changed(spec={"size": 2, "tags": ["a"]})
    )
    preconditions = {"uid": "u", "resourceVersion": "7"}
    assert client.sent == [("a", "ns", {"metadata": preconditions, "spec": {"size": 2}}, "")]
    assert answer.to_dict()["spec"] == {"answered": True}


async def test_sends_nothing_when_equal() -> None:
    client, old = Recorder(), object_from_dict(OLD)
    assert await commit(cast("Client", client), WIDGETS, old, changed()) is old
    assert client.sent == []


@pytest.mark.parametrize("field", ["name", "namespace"])
def test_another_object_is_refused(field: str) -> None:
    with pytest.raises(ValueError, match=rf"Widget ns/a: metadata\.{field} cannot become other"):
        difference(object_from_dict(OLD), changed(metadata={field: "other"}))


SEEN = {"uid": "u", "resourceVersion": "7"}


@pytest.mark.parametrize(
    ("finalizer", "kept"),
    [
        pytest.param("example.org/f", None, id="there already"),
        pytest.param("example.org/g", ["example.org/f", "example.org/g"], id="beside another's"),
    ],
)
async def test_a_finalizer_is_added_once(finalizer: str, kept: list[str] | None) -> None:
    client, old = Recorder(), object_from_dict(OLD)
    answer = await add_finalizer(cast("Client", client), WIDGETS, old, finalizer)
    assert (answer is old) is (kept is None)
    wanted = [("a", "ns", {"metadata": {"finalizers": kept, **SEEN}}, "")] if kept else []
    assert client.sent == wanted


@pytest.mark.parametrize(
    ("finalizer", "error", "sent", "removed"),
    [
        pytest.param("example.org/f", None, True, True, id="removed"),
        pytest.param("example.org/g", None, False, False, id="not there"),
        pytest.param("example.org/f", gone("a"), True, False, id="gone meanwhile"),
    ],
)
async def test_a_finalizer_is_removed_and_others_stay(
    finalizer: str, error: Exception | None, sent: bool, removed: bool
) -> None:
    body = changed(metadata={"finalizers": ["x/y", "example.org/f"]})
    client = Recorder(error=error)
    old = object_from_dict(body)
    assert await remove_finalizer(cast("Client", client), WIDGETS, old, finalizer) is removed
    wanted = [("a", "ns", {"metadata": {"finalizers": ["x/y"], **SEEN}}, "")] if sent else []
    assert client.sent == wanted


async def test_a_kind_that_is_not_served_says_nothing_of_a_finalizer() -> None:
    client = cast("Client", Recorder(error=gone("widgets.example.org")))
    with pytest.raises(NotFound):
        await remove_finalizer(client, WIDGETS, object_from_dict(OLD), "example.org/f")


class Told:
    """An event recorder that remembers."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []

    def event(self, obj: Object, type_: str, reason: str, message: str, action: str = "") -> None:
        assert obj.to_dict()["spec"] == {"answered": True}
        self.events.append((type_, reason, message))


def grown(old: Object, new: Object) -> list[Event]:
    return [Event("Normal", "Grown", f"{len(old.raw)} to {len(new.raw)} bytes")]


@pytest.mark.parametrize(
    ("body", "error", "sent", "told"),
    [
        pytest.param(changed(status={"ready": True}), None, 1, ["Grown"], id="turned"),
        pytest.param(changed(), None, 0, [], id="as it is"),
        pytest.param(None, None, 0, [], id="nothing to say"),
        pytest.param(changed(status={"ready": True}), gone("a"), 1, [], id="gone meanwhile"),
    ],
)
async def test_a_status_is_told_when_it_was_written(
    body: JSON | None, error: Exception | None, sent: int, told: list[str]
) -> None:
    client, recorder, old = Recorder(error=error), Told(), object_from_dict(OLD)
    writer = StatusWriter(cast("Client", client), WIDGETS, cast("EventRecorder", recorder), grown)
    stored = await writer.write(old, body)
    assert (stored is old) is not bool(told)
    assert len(client.sent) == sent
    assert [reason for _, reason, _ in recorder.events] == told
