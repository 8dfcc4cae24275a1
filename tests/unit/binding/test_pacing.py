"""Pauses, and quarrels about who writes last."""

from __future__ import annotations

from fairlead.binding.pacing import LONGEST_SECONDS, WINDOW_SECONDS, WRITES, Quarrels, Retries


def test_pauses_grow_to_a_minute_and_begin_anew_when_the_trouble_is_over() -> None:
    retries = Retries()
    assert [retries.next("a") for _ in range(4)] == [1.0, 2.0, 4.0, 8.0]
    assert retries.next("b") == 1.0
    assert [retries.next("a") for _ in range(4)][-1] == LONGEST_SECONDS
    retries.forget("a")
    assert retries.next("a") == 1.0


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_same_write_again_and_again_is_paused() -> None:
    clock = Clock()
    quarrels = Quarrels(clock)
    for _ in range(WRITES):
        assert quarrels.pause("k", "content") == 0.0
        clock.now += 1
    assert quarrels.pause("k", "content") == WINDOW_SECONDS - WRITES
    clock.now = WINDOW_SECONDS + 1
    assert quarrels.pause("k", "content") == 0.0


def test_other_content_and_other_bindings_are_no_quarrel() -> None:
    quarrels = Quarrels(Clock())
    for number in range(WRITES * 2):
        assert quarrels.pause("k", number) == 0.0
    for _ in range(WRITES):
        quarrels.pause("k", "same")
    assert quarrels.pause("other", "same") == 0.0
    assert quarrels.pause("k", "same") > 0.0
    quarrels.forget("k")
    assert quarrels.pause("k", "same") == 0.0
