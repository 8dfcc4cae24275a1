from __future__ import annotations

import pytest

from fairlead.api.conditions import Condition, get_condition, is_true, set_condition


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


def test_look_up() -> None:
    assert get_condition([READY], "Ready") is READY
    assert get_condition([], "Ready") is None
    assert is_true([READY], "Ready")
    assert not is_true([Condition("Ready", "Unknown")], "Ready")
    assert not is_true([], "Ready")
