"""Quarrels about who writes last."""

from __future__ import annotations

from fairlead.binding.controller import WINDOW_SECONDS, WRITES, Quarrels


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
