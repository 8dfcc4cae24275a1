from __future__ import annotations

from typing import Any

import pytest

from fairlead.api.conditions import (
    Condition,
    get_condition,
    is_true,
    set_condition,
    stored_conditions,
    turned,
)


READY = Condition("Ready", "True", "Bound", "fine", "t0", 1)


@pytest.mark.parametrize(
    ("new", "time"),
    [
        pytest.param(Condition("Ready", "True", "Other", "text"), "t0", id="status-kept"),
        pytest.param(Condition("Ready", "False", "Bound"), "t1", id="status-changed"),
    ],
)
def test_the_transition_time_changes_only_with_the_status(new: Condition, time: str) -> None:
    (result,) = set_condition([READY], new, now="t1")
    assert (result.reason, result.message, result.status) == (new.reason, new.message, new.status)
    assert result.last_transition_time == time


def test_a_new_type_is_appended_and_an_old_one_keeps_its_place() -> None:
    other = Condition("Other", "False")
    conditions = set_condition([READY], other, now="t1")
    assert [condition.type for condition in conditions] == ["Ready", "Other"]
    conditions = set_condition(conditions, READY, now="t2")
    assert [condition.type for condition in conditions] == ["Ready", "Other"]


BARE: Any = {"type": "Ready", "status": "True"}


@pytest.mark.parametrize(
    ("item", "read"),
    [
        pytest.param({**BARE, "lastTransitionTime": None}, Condition("Ready", "True"), id="null"),
        pytest.param({**BARE, "reason": 5, "message": "m"}, Condition("Ready", "True", "", "m"),
                     id="number"),
        pytest.param({**BARE, "observedGeneration": True}, Condition("Ready", "True"), id="bool"),
        pytest.param({"type": "Ready", "status": "true"}, None, id="status"),
        pytest.param({"status": "True"}, None, id="no type"),
        pytest.param("Ready", None, id="text"),
    ],
)  # fmt: skip
def test_a_malformed_condition_hides_no_other(item: Any, read: Condition | None) -> None:
    body = {"status": {"conditions": [item, {"type": "Other", "status": "False"}]}}
    expected = [Condition("Other", "False")]
    assert stored_conditions(body) == ([read, *expected] if read else expected)


@pytest.mark.parametrize("status", [None, [], {}, {"conditions": None}, {"conditions": "x"}])
def test_a_status_without_conditions_has_none(status: Any) -> None:
    assert stored_conditions({"status": status}) == []


def test_look_up() -> None:
    assert get_condition([READY], "Ready") is READY
    assert get_condition([], "Ready") is None
    assert is_true([READY], "Ready")
    assert not is_true([Condition("Ready", "Unknown")], "Ready")
    assert not is_true([], "Ready")


BAD = Condition("Ready", "False", "Broken", "mend it")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        pytest.param([], [], [], id="never set"),
        pytest.param([], [BAD], [("Warning", "Broken", "mend it")], id="first"),
        pytest.param([READY], [READY], [], id="same"),
        pytest.param([BAD], [Condition("Ready", "False", "Broken", "now")], [], id="message"),
        pytest.param(
            [BAD],
            [Condition("Ready", "False", "Gone")],
            [("Warning", "Gone", "Ready is False")],
            id="reason",
        ),
        pytest.param([BAD], [READY], [("Normal", "Bound", "fine")], id="turned"),
        pytest.param(
            [BAD],
            [Condition("Ready", "True", "Bound")],
            [("Normal", "Bound", "all is well")],
            id="turned, and says nothing itself",
        ),
        pytest.param([READY], [READY, Condition("Other", "False")], [], id="another type"),
    ],
)
def test_an_event_tells_of_what_has_turned(
    old: list[Condition], new: list[Condition], told: list[tuple[str, str, str]]
) -> None:
    assert turned(old, new, "Ready", good="all is well") == told
