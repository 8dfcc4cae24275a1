"""Predicates of watches."""

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
