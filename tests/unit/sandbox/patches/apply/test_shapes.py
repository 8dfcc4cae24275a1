"""A type's shape is compiled once, and a write asks it for nested members alone."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from fairlead.api.meta import JSON
from fairlead_sandbox import kinds
from fairlead_sandbox.builtin import builtin_types
from fairlead_sandbox.patches.apply import shapes
from fairlead_sandbox.patches.apply.walk import changes
from fairlead_sandbox.resources.types import ResourceType


@pytest.fixture
def lookups(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The members that shapes are asked for, as they are."""
    asked: list[str] = []
    child = shapes.Map.child

    def noted(self: shapes.Map, name: str) -> shapes.Shape | None:
        asked.append(name)
        return child(self, name)

    monkeypatch.setattr(shapes.Map, "child", noted)
    return asked


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The fields of built-in kinds for which a shape is made, as they are."""
    made: list[str] = []
    of_field = shapes._of_field

    def noted(message: str, field: kinds.Field) -> shapes.Shape:
        made.append(f"{message}.{field.name}")
        return of_field(message, field)

    monkeypatch.setattr(shapes, "_of_field", noted)
    shapes.of_message.cache_clear()
    return made


def deployments() -> ResourceType:
    (found,) = (one for one in builtin_types() if one.resource.kind == "Deployment")
    return found


def deployment(name: str) -> JSON:
    labels: Mapping[str, str] = {"app": name, "tier": "web"}
    container = {"name": "c", "image": "i", "imagePullPolicy": "Always"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {
            "replicas": 1,
            "paused": False,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"restartPolicy": "Always", "containers": [container]},
            },
        },
    }


def test_a_write_asks_for_the_shapes_of_nested_members_alone(lookups: list[str]) -> None:
    shape = deployments().shape
    changes(shape, {}, deployment("warm"))
    lookups.clear()

    changes(shape, {}, deployment("a"))

    metadata = ["metadata", "labels"]
    # LabelSelector is atomic: below it nothing is asked for.
    assert lookups == [*metadata, "spec", "selector", "template", *metadata, "spec", "containers"]


def test_an_unchanged_part_is_not_asked_for(lookups: list[str]) -> None:
    shape = deployments().shape
    before, after = deployment("a"), deployment("a")
    after["spec"]["replicas"] = 2
    changes(shape, {}, before)
    lookups.clear()

    changes(shape, before, after)

    assert lookups == ["spec"]


def test_the_shape_of_a_type_is_compiled_once(compiled: list[str]) -> None:
    type_ = deployments()
    changes(type_.shape, {}, deployment("a"))
    assert "PodSpec.containers" in compiled
    assert len(compiled) == len(set(compiled))
    compiled.clear()

    changes(type_.shape, {}, deployment("b"))

    assert compiled == []
