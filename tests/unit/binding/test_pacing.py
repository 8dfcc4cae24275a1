"""Fights about who writes last."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from fairlead.binding import bounds
from fairlead.binding.cluster.pacing import (
    CALM_SECONDS,
    Fights,
    Waits,
    workload_pace,
)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("waited", "looks", "warned"),
    [
        pytest.param(0.0, [0, 1, bounds.PATIENCE_SECONDS - 1], [False] * 3, id="short"),
        pytest.param(
            0.0, [0, bounds.PATIENCE_SECONDS, 1000], [False, True, False], id="long: once"
        ),
        pytest.param(
            50.0, [0, bounds.PATIENCE_SECONDS - 50], [False, True], id="begun before a restart"
        ),
        pytest.param(61.0, [0, 1000], [False, False], id="warned of before a restart"),
    ],
)
def test_a_wait_is_warned_of_once_and_only_when_it_lasts(
    waited: float, looks: list[float], warned: list[bool]
) -> None:
    clock = Clock()
    waits = Waits(clock)
    assert waits.left("k") == 0.0
    for moment, expected in zip(looks, warned, strict=True):
        clock.now = moment
        due = waits.left("k")
        assert waits.overdue("k", waited) is expected
        assert (waits.left("k") > 0) is (waited + moment < bounds.PATIENCE_SECONDS)
        assert not (expected and due > 0.001)
    assert waits.over("k")
    assert not waits.over("k")


def test_the_same_write_that_arrives_again_and_again_is_paused() -> None:
    clock = Clock()
    fights = Fights(clock)
    for _ in range(bounds.FIGHT_WRITES):
        assert fights.pause("k", "content", "") == 0.0
        fights.arrived("k", "content", "", "record")
        clock.now += 1
    assert fights.pause("k", "content", "") == bounds.FIGHT_SECONDS - 1
    clock.now += bounds.FIGHT_SECONDS - 1
    assert fights.pause("k", "content", "") == 0.0


def test_a_fight_has_one_write_in_each_window_until_there_is_none_for_longer() -> None:
    clock = Clock()
    fights = Fights(clock)
    written: list[float] = []
    while clock.now < 600:
        if not fights.pause("k", "content", ""):
            fights.arrived("k", "content", "", "record")
            written.append(clock.now)
        assert fights.pause("neighbour", "content", "") == 0.0
        clock.now += 2
    assert written == [0, 2, 4, 6, 8, *range(68, 600, 60)]
    clock.now = written[-1] + CALM_SECONDS + 1
    for _ in range(bounds.FIGHT_WRITES):
        assert fights.pause("k", "content", "") == 0.0
        fights.arrived("k", "content", "", "record")
    assert fights.pause("k", "content", "") == bounds.FIGHT_SECONDS


def test_what_never_arrives_is_no_fight() -> None:
    fights = Fights(Clock())
    paused = [fights.pause("k", "content", "") for _ in range(bounds.FIGHT_WRITES * 2)]
    assert paused == [0.0] * bounds.FIGHT_WRITES * 2


@pytest.mark.parametrize(
    ("before", "is_fight"),
    [
        pytest.param(lambda number: f"record-{number - 1}", False, id="as it was left"),
        pytest.param(lambda _: "", True, id="lost"),
        pytest.param(lambda _: "older", True, id="rolled back"),
    ],
)
def test_what_nobody_has_undone_is_no_fight(before: Callable[[int], str], is_fight: bool) -> None:
    """The same content is written again for another reason, such as a new container."""
    fights = Fights(Clock())
    for number in range(bounds.FIGHT_WRITES):
        assert fights.pause("k", "content", before(number)) == 0.0
        fights.arrived("k", "content", before(number), f"record-{number}")
    assert (fights.pause("k", "content", before(bounds.FIGHT_WRITES)) > 0) is is_fight
    # What is there after a fight, and whole, is changed at once.
    assert fights.pause("k", "content", f"record-{bounds.FIGHT_WRITES - 1}") == 0.0


def test_other_content_and_other_bindings_are_no_fight() -> None:
    clock = Clock()
    fights = Fights(clock)
    for number in range(bounds.FIGHT_WRITES * 2):
        assert fights.pause("k", number, "") == 0.0
        fights.arrived("k", number, "", "record")
    for _ in range(bounds.FIGHT_WRITES):
        fights.arrived("k", "same", "", "record")
    assert fights.pause("other", "same", "") == 0.0
    assert fights.pause("k", "same", "") > 0.0
    # What is over is forgotten with the next write of any binding.
    clock.now += CALM_SECONDS + 1
    fights.arrived("other", "same", "", "record")
    assert [*fights._fights] == ["other"]


def test_what_is_done_all_the_time_is_done_at_once_and_then_once_a_minute() -> None:
    clock = Clock()
    pace = workload_pace(clock)
    done: list[float] = []
    while clock.now < 3600:
        left = pace.left("k")
        clock.now += left
        pace.done("k")
        done.append(clock.now)
        assert pace.left("other") == 0.0
    pauses = [after - before for before, after in pairwise(done)]
    assert done[:10] == [0.0] * 10
    assert pauses[9] == 5.0
    assert pauses[9:13] == sorted(pauses[9:13])
    assert pauses[13] > 30
    assert max(pauses) <= 60
    assert 55 < len(done) < 80
    # With rest it begins anew.
    clock.now += 3600
    for _ in range(10):
        assert pace.left("k") == 0.0
        pace.done("k")


def test_ordinary_changes_are_never_paced() -> None:
    clock = Clock()
    pace = workload_pace(clock)
    for _ in range(100):
        assert pace.left("k") == 0.0
        pace.done("k")
        clock.now += 60
