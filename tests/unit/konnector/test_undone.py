from __future__ import annotations

from typing import Any

import pytest

from fairlead.api.meta import JSON, Key, Object, object_from_dict
from fairlead.konnector.policies.steps import Create, Delete, Pair, PatchMetadata, Replace, Step
from fairlead.konnector.sync.undone import (
    CALM_SECONDS,
    DELETING_SECONDS,
    FREE,
    MOST_SECONDS,
    UndoneWrites,
    contradicts,
    others,
)


KEY = Key("default", "blue")
REPLACE = Replace("provider", {})
PATCH = PatchMetadata("consumer", {"finalizers": ["kubebind.io/syncer"]})


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def obj(spec: JSON, **metadata: Any) -> Object:
    return object_from_dict({"kind": "Widget", "metadata": {"name": "blue", **metadata}, **spec})


def pair(colour: str = "blue", **metadata: Any) -> Pair:
    here = obj({"spec": {"colour": colour}}, **metadata)
    return Pair(key=KEY, consumer=here, provider=obj({}), target=KEY)


def undone(writes: UndoneWrites, step: Step, times: int, **given: Any) -> None:
    for _ in range(times):
        writes.wrote(pair(**given), step)


@pytest.mark.parametrize("step", [REPLACE, PATCH, Create("provider", {})])
def test_what_is_undone_again_and_again_is_written_ever_less_often(step: Step) -> None:
    clock = Clock()
    writes = UndoneWrites(clock)
    undone(writes, step, FREE - 1)
    assert writes.pause(pair(), step) == 0
    pauses = []
    for _ in range(12):
        undone(writes, step, 1)
        pauses.append(writes.pause(pair(), step))
        clock.now += pauses[-1]
        assert writes.pause(pair(), step) == 0
    assert pauses == [1, 2, 4, 8, 16, 32, 64, 128, 256, *3 * [MOST_SECONDS]]
    assert writes.calmed() == set()
    clock.now += CALM_SECONDS + 1
    assert writes.calmed() == {KEY}
    assert writes.calmed() == set()


def test_a_change_of_the_object_is_written_at_once() -> None:
    writes = UndoneWrites(Clock())
    undone(writes, REPLACE, 5)
    # Statuses and versions come and go without a change of what is written.
    assert writes.pause(pair(resourceVersion="2"), REPLACE) > 0
    assert writes.pause(pair("red"), REPLACE) == 0
    undone(writes, REPLACE, 1, colour="red")
    assert writes.pause(pair("red"), REPLACE) == 0


def test_what_is_taken_away_never_waits_nor_another_object() -> None:
    writes = UndoneWrites(Clock())
    delete = Delete("provider", KEY, "u")
    undone(writes, REPLACE, 5)
    undone(writes, delete, 5)
    assert writes.pause(pair(), delete) == 0
    neighbour = Pair(key=Key("default", "red"), consumer=pair().consumer)
    assert writes.pause(neighbour, REPLACE) == 0


def test_a_write_that_has_held_begins_anew() -> None:
    clock = Clock()
    writes = UndoneWrites(clock)
    undone(writes, REPLACE, 4)
    clock.now = 2 + CALM_SECONDS + 1
    assert writes.pause(pair(), REPLACE) == 0
    undone(writes, REPLACE, 1)
    assert writes.pause(pair(), REPLACE) == 0


def test_a_copy_that_is_deleted_every_few_minutes_counts_for_an_hour() -> None:
    """Tools that deliver compare no more often than that."""
    clock = Clock()
    writes = UndoneWrites(clock)
    create = Create("provider", {})
    minutes = 5 * CALM_SECONDS
    again = []
    for _ in range(FREE):
        again.append(writes.wrote(pair(), create, deleted=True))
        clock.now += minutes
    assert again == [False, False, True]
    assert writes.calmed() == set()
    clock.now += DELETING_SECONDS
    assert writes.calmed() == {KEY}
    # What nobody has deleted is soon forgotten.
    assert [writes.wrote(pair(), create), writes.calmed()] == [False, set()]
    clock.now += CALM_SECONDS + 1
    assert writes.calmed() == {KEY}


def test_each_write_is_forgotten_in_its_own_time() -> None:
    clock = Clock()
    writes = UndoneWrites(clock)
    neighbour = Pair(key=Key("default", "red"), consumer=pair().consumer)
    writes.wrote(pair(), Create("provider", {}), deleted=True)
    clock.now += 1
    assert writes.calmed() == set()
    writes.wrote(neighbour, REPLACE)
    clock.now += CALM_SECONDS + 1
    assert writes.calmed() == {neighbour.key}
    clock.now += DELETING_SECONDS
    assert writes.calmed() == {KEY}


def test_a_change_of_marks_alone_is_no_change_of_the_object() -> None:
    """They do not cross, so that a tool which writes them anew makes no other write."""
    writes = UndoneWrites(Clock())
    undone(writes, REPLACE, 5, annotations={"meta.helm.sh/release-name": "a"})
    assert writes.pause(pair(annotations={"meta.helm.sh/release-name": "b"}), REPLACE) > 0


def test_the_manager_that_came_last_is_named() -> None:
    fields = [
        {"manager": "old", "time": "2026-01-01T00:00:00Z"},
        {"manager": "scaler", "time": "2026-01-03T00:00:00Z"},
        {"manager": "kube-bind.io", "time": "2026-01-04T00:00:00Z"},
        {"manager": "konnector", "time": "2026-01-04T00:00:00Z"},
        {"manager": "factory", "time": "2026-01-05T00:00:00Z", "subresource": "status"},
    ]
    assert others(obj({}, managedFields=fields), "konnector") == "scaler"
    nobody = obj({}, managedFields=fields[2:]), obj({})
    assert [others(found, "konnector") for found in nobody] == ["", ""]


def test_writers_of_the_same_second_are_all_named() -> None:
    """Whole seconds tell nothing of their order, and whoever created it has done nothing."""
    names = ("fairlead", "busybody", "older")
    times = ("2030-01-01T00:00:05Z", "2030-01-01T00:00:05Z", "2030-01-01T00:00:04Z")
    fields = [{"manager": name, "time": time} for name, time in zip(names, times, strict=True)]
    assert others(obj({}, managedFields=fields), "konnector") == "busybody or fairlead"


@pytest.mark.parametrize(
    ("wanted", "found", "expected"),
    [
        ({"a": 1}, {"a": 2}, True),
        ({"a": {"b": [1, {"c": "x"}]}}, {"a": {"b": [1, {"c": "y"}]}}, True),
        ({"a": 1}, {"a": 1, "defaulted": 2}, False),
        ({"a": 1, "pruned": 2}, {"a": 1}, False),
        ({"a": [1]}, {"a": [1, 2]}, False),
        ({"a": 1}, {"a": 1.0}, False),
    ],
)
def test_another_value_contradicts_and_more_or_less_does_not(
    wanted: JSON, found: JSON, *, expected: bool
) -> None:
    assert contradicts(wanted, found) is expected
