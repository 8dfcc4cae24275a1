from __future__ import annotations

import msgspec
import pytest

from fairlead.api.kubebind.conditions import (
    KubeBindCondition,
    false,
    get_condition,
    happening,
    is_true,
    set_conditions,
    summarize,
    transitions,
    true,
    unknown,
)


OLD = "2026-01-01T00:00:00Z"
NOW = "2026-01-02T00:00:00Z"


def info(type_: str, reason: str) -> KubeBindCondition:
    return false(type_, reason, reason.lower(), severity="Info")


def warning(type_: str, reason: str) -> KubeBindCondition:
    return false(type_, reason, reason.lower(), severity="Warning")


@pytest.mark.parametrize(
    ("others", "status", "severity", "reason"),
    [
        pytest.param([true("A")], "True", "", "", id="all true"),
        pytest.param([true("A"), unknown("B", "R", "m")], "True", "", "", id="true beats unknown"),
        pytest.param([unknown("B", "R", "m")], "Unknown", "", "R", id="only unknown"),
        pytest.param([true("A"), info("B", "I")], "False", "Info", "I", id="info beats true"),
        pytest.param(
            [info("A", "I"), warning("B", "W")], "False", "Warning", "W", id="warning beats info"
        ),
        pytest.param(
            [warning("A", "W"), false("B", "E", "e")], "False", "Error", "E", id="error is worst"
        ),
        pytest.param(
            [false("C", "Third", ""), false("B", "Second", "")],
            "False",
            "Error",
            "Second",
            id="first in the alphabet speaks",
        ),
        pytest.param(
            [true("A"), false("Ready", "Stale", "")], "True", "", "", id="ready itself is ignored"
        ),
    ],
)
def test_ready_sums_up(
    others: list[KubeBindCondition], status: str, severity: str, reason: str
) -> None:
    ready = summarize(others)
    assert ready is not None
    assert (ready.type, ready.status) == ("Ready", status)
    assert (ready.severity, ready.reason) == (severity, reason)


def test_no_other_condition_means_no_ready() -> None:
    assert summarize([]) is None
    assert set_conditions([], now=NOW, summary=True) == []


def test_ready_goes_when_nothing_is_left_to_sum_up() -> None:
    assert set_conditions([true("Ready")], now=NOW, summary=True) == []


def test_ready_comes_first_and_the_rest_in_alphabetical_order() -> None:
    conditions = set_conditions([], true("Zeta"), true("Alpha"), now=NOW, summary=True)
    assert [condition.type for condition in conditions] == ["Ready", "Alpha", "Zeta"]


@pytest.mark.parametrize(
    ("new", "time"),
    [
        pytest.param(false("A", "R", "m"), OLD, id="unchanged keeps its time"),
        pytest.param(false("A", "R", "other"), NOW, id="message"),
        pytest.param(false("A", "Other", "m"), NOW, id="reason"),
        pytest.param(warning("A", "R"), NOW, id="severity"),
        pytest.param(true("A"), NOW, id="status"),
    ],
)
def test_transition_time_changes_with_anything_but_itself(
    new: KubeBindCondition, time: str
) -> None:
    stored = KubeBindCondition("A", "False", OLD, "Error", "R", "m")
    (condition,) = set_conditions([stored], new, now=NOW)
    assert condition.last_transition_time == time


def test_a_condition_set_twice_in_one_pass_keeps_its_time_if_it_ends_as_it_began() -> None:
    stored = KubeBindCondition("Connected", "False", OLD, "Error", "R", "m")
    (condition,) = set_conditions(
        [stored], true("Connected"), false("Connected", "R", "m"), now=NOW
    )
    assert condition == stored


def test_a_true_condition_carries_nothing_else() -> None:
    (condition,) = set_conditions(
        [KubeBindCondition("A", "False", OLD, "Error", "R")], true("A"), now=NOW
    )
    assert msgspec.to_builtins(condition) == {
        "type": "A",
        "status": "True",
        "lastTransitionTime": NOW,
    }


def test_look_up() -> None:
    conditions = [true("A"), false("B", "R", "m")]
    assert is_true(conditions, "A")
    assert not is_true(conditions, "B")
    assert not is_true(conditions, "C")
    assert get_condition(conditions, "C") is None


@pytest.mark.parametrize(
    ("old", "new", "turned"),
    [
        pytest.param([], [true("A")], ["A"], id="new"),
        pytest.param([true("A")], [true("A")], [], id="unchanged"),
        pytest.param([true("A")], [false("A", "R", "m")], ["A"], id="failed"),
        pytest.param([false("A", "R", "m")], [false("A", "S", "m")], ["A"], id="other reason"),
        pytest.param([false("A", "R", "m")], [false("A", "R", "n")], [], id="other words only"),
        pytest.param([], [false("Ready", "R", "m")], [], id="the summary repeats others"),
        pytest.param([true("A")], [unknown("A", "R", "m")], [], id="what cannot be told"),
    ],
)
def test_transitions(
    old: list[KubeBindCondition], new: list[KubeBindCondition], turned: list[str]
) -> None:
    assert [condition.type for condition in transitions(old, new)] == turned


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        pytest.param(true("A"), ("Normal", "A", "A is True"), id="holds"),
        pytest.param(false("A", "R", "m"), ("Warning", "R", "m"), id="error"),
        pytest.param(
            false("A", "R", "m", severity="Info"), ("Normal", "R", "m"), id="only-information"
        ),
        pytest.param(
            KubeBindCondition("Conflicts", "True", reason="R", message="m"),
            ("Warning", "R", "m"),
            id="conflicts-are-bad-while-they-hold",
        ),
    ],
)
def test_what_is_told_of_a_condition_that_turned(
    condition: KubeBindCondition, told: tuple[str, str, str]
) -> None:
    assert happening(condition) == told


def test_a_message_has_a_bounded_length_and_is_not_written_again() -> None:
    long = false("Connected", "Failed", "x" * 5000)
    before = set_conditions([], long, now="2026-01-01T00:00:00Z", summary=True)
    assert {len(one.message) for one in before} == {4096 + 3}
    assert set_conditions(before, long, now="2026-01-02T00:00:00Z", summary=True) == before
