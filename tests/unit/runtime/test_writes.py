"""What commit sends: the difference with preconditions, or nothing."""

from __future__ import annotations

from typing import Any, cast

import pytest
from tests.unit.runtime.fakes import WIDGETS

from fairlead.api.meta import JSON, Object, object_from_dict
from fairlead.api.resource import Resource
from fairlead.client import Client
from fairlead.runtime.writes import commit, difference


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


class Recorder:
    """The one verb that commit uses, recorded."""

    def __init__(self) -> None:
        self.sent: list[tuple[Any, ...]] = []

    async def merge_patch(
        self, resource: Resource, name: str, namespace: str, patch: JSON, *, subresource: str = ""
    ) -> Object:
        self.sent.append((name, namespace, patch, subresource))
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
