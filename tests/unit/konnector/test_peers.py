"""Several konnectors of Fairlead on one ClusterBinding: who is there, and who only was."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from fairlead.api.kubebind.conditions import KubeBindCondition
from fairlead.konnector.controllers.clusterbinding.peers import (
    Peers,
    condition,
    entries,
    learned,
    several,
)


NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
Look = tuple[int, dict[str, str]]


@pytest.mark.parametrize(
    ("looks", "living"),
    [
        pytest.param([(0, {})], [[]], id="first-contact"),
        pytest.param([(0, {}), (150, {"me": "0"})], [[], []], id="alone"),
        pytest.param([(0, {"dead": "0"}), (200, {"dead": "0"})], [[], []], id="died-before"),
        pytest.param([(0, {"old": "0"}), (1, {"old": "1"})], [[], ["old"]], id="was-there-before"),
        pytest.param([(0, {}), (1, {"me": "0", "new": "1"})], [[], ["new"]], id="came-after"),
        pytest.param(
            [(0, {}), (1, {"new": "1"}), (200, {"new": "1"}), (302, {"new": "1"})],
            [[], ["new"], ["new"], []],
            id="ended-later",
        ),
        pytest.param(
            [(0, {}), (1, {"new": "1"}), (400, {"new": "1"}), (401, {"new": "1"})],
            [[], ["new"], [], []],
            id="an-entry-that-stays-is-no-newcomer",
        ),
        pytest.param(
            [(0, {}), (1, {"new": "1"}), (400, {"new": "1"}), (401, {"new": "2"})],
            [[], ["new"], [], ["new"]],
            id="comes-back",
        ),
        pytest.param([(0, {}), (1, {"b": "1", "a": "1"})], [[], ["a", "b"]], id="three-of-them"),
        pytest.param([(0, {}), (1, {"new": "1"}), (2, {})], [[], ["new"], []], id="taken-off"),
    ],
)
def test_who_lives(looks: list[Look], living: list[list[str]]) -> None:
    """Each look is seconds after the first one, and whose entries stand there."""
    peers, found = Peers(), []
    for seconds, seen in looks:
        peers = learned(peers, "me", seen, NOW + timedelta(seconds=seconds))
        found.append(peers.living)
    assert found == living


@pytest.mark.parametrize(
    ("seconds", "seen", "renewed"),
    [
        pytest.param(10, {"me": "0"}, False, id="fresh"),
        pytest.param(150, {"me": "0"}, True, id="due"),
        pytest.param(10, {}, False, id="taken-off"),
        pytest.param(10, {"new": "1"}, True, id="a-newcomer-learns-at-once"),
    ],
)
def test_when_the_own_entry_is_renewed(seconds: int, seen: dict[str, str], renewed: bool) -> None:
    first = learned(Peers(), "me", {}, NOW)
    assert first.beaten == NOW
    later = NOW + timedelta(seconds=seconds)
    second = learned(first, "me", seen, later)
    assert second.beaten == (later if renewed else NOW)
    again = learned(second, "me", seen, later)
    assert again.beaten == second.beaten


def test_the_condition_has_all_entries_that_may_live() -> None:
    peers = learned(Peers(), "me", {"dead": "2025-01-01T00:00:00Z"}, NOW)
    told = condition(peers, "me", NOW)
    assert (told.type, told.status) == ("KonnectorsAtWork", "True")
    assert told.message == "dead 2025-01-01T00:00:00Z, me 2026-01-01T12:00:00Z"
    assert entries([told]) == {"dead": "2025-01-01T00:00:00Z", "me": "2026-01-01T12:00:00Z"}
    later = NOW + timedelta(minutes=5)
    peers = learned(peers, "me", entries([told]), later)
    assert entries([condition(peers, "me", later)]) == {"me": "2026-01-01T12:05:00Z"}


def test_those_that_die_one_after_another_are_not_kept_for_ever() -> None:
    seen = {f"dead{number}": "0" for number in range(500)}
    told = condition(learned(Peers(), "me", seen, NOW), "me", NOW)
    assert len(entries([told])) == 20
    assert "me" in entries([told])


@pytest.mark.parametrize("message", ["", "x", "a b c, d", ", ,"])
def test_what_nobody_of_us_has_written_is_no_entry(message: str) -> None:
    assert entries([KubeBindCondition("KonnectorsAtWork", "True", message=message)]) == {}


def test_all_of_them_say_the_same() -> None:
    mine = learned(learned(Peers(), "a", {}, NOW), "a", {"b": "1"}, NOW)
    other = learned(learned(Peers(), "b", {"a": "1"}, NOW), "b", {"a": "2"}, NOW)
    told = several(mine, "a", "kube-bind-x")
    assert told is not None
    assert told == several(other, "b", "kube-bind-x")
    assert (told.type, told.status, told.reason) == (
        "AnotherKonnector",
        "True",
        "SeveralKonnectors",
    )
    assert "2 konnectors work with the provider's ClusterBinding kube-bind-x/cluster: a, b" in (
        told.message
    )
    assert "--leader-elect" in told.message
    assert several(Peers(), "a", "kube-bind-x") is None
