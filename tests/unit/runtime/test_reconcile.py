"""Predicates, and the loop of decide, perform, learn."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.runtime.fakes import widget

from fairlead.api.meta import JSON, Object, object_from_dict
from fairlead.runtime.cache.informer import Delta
from fairlead.runtime.controller.reconcile import (
    Predicate,
    any_of,
    came_or_went,
    changed,
    metadata_changed,
    spec_changed,
    step_by_step,
)


def obj(**metadata: Any) -> Object:
    body: JSON = {
        "apiVersion": "example.org/v1",
        "kind": "Widget",
        "metadata": {"name": "a", "namespace": "ns", "generation": 1, **metadata},
    }
    return object_from_dict(body)


def delta(old: Object | None, new: Object | None) -> Delta:
    return Delta("ADDED" if old is None else "DELETED" if new is None else "MODIFIED", old, new)


annotated = metadata_changed("annotations")
PLAIN = obj()


@pytest.mark.parametrize(
    ("predicate", "old", "new", "holds"),
    [
        pytest.param(spec_changed, None, PLAIN, True, id="spec: added"),
        pytest.param(spec_changed, PLAIN, None, True, id="spec: deleted"),
        pytest.param(spec_changed, PLAIN, obj(), False, id="spec: status written"),
        pytest.param(spec_changed, PLAIN, obj(generation=2), True, id="spec: generation"),
        pytest.param(spec_changed, PLAIN, obj(deletionTimestamp="x"), True, id="spec: deleting"),
        pytest.param(spec_changed, PLAIN, obj(labels={"a": "b"}), False, id="spec: label"),
        pytest.param(annotated, PLAIN, obj(annotations={"a": "b"}), True, id="field: changed"),
        pytest.param(annotated, PLAIN, obj(generation=2), False, id="field: another one"),
        pytest.param(annotated, None, PLAIN, True, id="field: added, and empty"),
        pytest.param(
            metadata_changed("deletion_timestamp"), None, PLAIN, True, id="field: added, and unset"
        ),
        pytest.param(came_or_went, None, PLAIN, True, id="came"),
        pytest.param(came_or_went, PLAIN, None, True, id="went"),
        pytest.param(came_or_went, PLAIN, obj(generation=2), False, id="stayed"),
        pytest.param(any_of(spec_changed, annotated), PLAIN, obj(), False, id="any: none"),
        pytest.param(
            any_of(spec_changed, annotated), PLAIN, obj(annotations={"a": "b"}), True, id="any"
        ),
    ],
)
def test_predicates(
    predicate: Predicate, old: Object | None, new: Object | None, holds: bool
) -> None:
    assert predicate(delta(old, new)) is holds


def test_a_view_decides_for_no_object_too() -> None:
    size = changed(lambda one: 0 if one is None else one.to_dict()["spec"]["size"])
    empty, full = widget("a", spec={"size": 0}), widget("a", spec={"size": 3})
    assert not size(delta(None, empty))
    assert size(delta(None, full))
    assert size(delta(full, empty))


async def count(step: str, known: list[str]) -> list[str] | None:
    return None if step == "await" else [*known, step]


@pytest.mark.parametrize(
    ("plan", "known", "last"),
    [
        pytest.param(["done"], [], "done", id="nothing to do"),
        pytest.param(["one", "two", "done"], ["one", "two"], "done", id="two steps"),
        pytest.param(["one", "await", "done"], ["one"], None, id="an event will bring us back"),
    ],
)
async def test_steps_are_taken_until_there_is_none(
    plan: list[str], known: list[str], last: str | None
) -> None:
    def decide(known: list[str]) -> str:
        return plan[len(known)]

    known_before: list[str] = []
    settled = await step_by_step(
        known_before, decide=decide, perform=count, last=lambda one: one == "done"
    )
    assert settled == (known, last)


async def test_steps_without_an_end_are_a_defect_that_is_named() -> None:
    taken: list[str] = []

    async def again(step: str, known: list[str]) -> list[str]:
        taken.append(step)
        return known

    known: list[str] = []
    with pytest.raises(RuntimeError, match="not settled after 3 steps"):
        await step_by_step(
            known, decide=lambda _: "x", perform=again, last=lambda _: False, most=3
        )
    assert taken == ["x"] * 3
