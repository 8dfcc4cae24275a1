"""Two logins in turn: whose turn it is, and that no login fails while it changes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from fairlead.api.postgresaccess.connection import Rotation
from fairlead.postgres.controllers.rules.rotation import (
    is_of_other_rotation,
    login_in_turn,
    may_rotate,
)
from fairlead.postgres.database.plans.logins import family, login_names, turn


NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("username", "expected"),
    [
        pytest.param("app", ("app_a", "app_b"), id="short"),
        pytest.param("x" * 61, ("x" * 61 + "_a", "x" * 61 + "_b"), id="61-bytes"),
        pytest.param("Foo bar", ("Foo bar_a", "Foo bar_b"), id="as-it-is"),
    ],
)
def test_names(username: str, expected: tuple[str, str]) -> None:
    assert login_names(username) == expected


@pytest.mark.parametrize(
    "username", ["x" * 62, "x" * 63, "é" * 31, "x" + "é" * 31, "😀" * 15 + "abc"]
)
def test_long_names_fit_and_differ(username: str) -> None:
    names = family(username)
    assert len(set(names)) == 3
    assert all(len(name.encode()) <= 63 for name in names)
    assert not {*login_names(username)} & {*login_names(username[:-1] + "y")}


@pytest.mark.parametrize(
    ("rotation", "found", "known", "rotating", "expected"),
    [
        pytest.param("InPlace", "", "", False, "app", id="one"),
        pytest.param("InPlace", "app", "", True, "app", id="one-rotated"),
        pytest.param("InPlace", "app_b", "app_b", True, "app", id="two-become-one"),
        pytest.param("TwoLogins", "", "", False, "app_a", id="first"),
        pytest.param("TwoLogins", "app", "", True, "app_a", id="one-becomes-two"),
        pytest.param("TwoLogins", "app_a", "app_a", False, "app_a", id="stays"),
        pytest.param("TwoLogins", "app_a", "app_a", True, "app_b", id="a-to-b"),
        pytest.param("TwoLogins", "app_b", "app_b", True, "app_a", id="b-to-a"),
        pytest.param("TwoLogins", "app_b", "app_a", False, "app_b", id="killed-after-the-secret"),
        pytest.param("TwoLogins", "", "app_b", True, "app_a", id="the-secret-was-deleted"),
        pytest.param("TwoLogins", "edited", "app_b", False, "app_b", id="username-edited"),
        pytest.param("TwoLogins", "edited", "", False, "app_a", id="edited-nothing-known"),
    ],
)
def test_whose_turn_it_is(
    rotation: Rotation, found: str, known: str, rotating: bool, expected: str
) -> None:
    got = login_in_turn(rotation, "app", login=found, proposed=known, rotating=rotating)
    assert got == expected


@pytest.mark.parametrize(
    ("rotation", "found", "expected"),
    [
        pytest.param("InPlace", "app", False, id="one"),
        pytest.param("InPlace", "", False, id="nothing-yet"),
        pytest.param("InPlace", "app_a", True, id="two-become-one"),
        pytest.param("InPlace", "edited", False, id="edited"),
        pytest.param("TwoLogins", "app", True, id="one-becomes-two"),
        pytest.param("TwoLogins", "app_b", False, id="two"),
        pytest.param("TwoLogins", "edited", False, id="edited-of-two"),
    ],
)
def test_when_the_login_becomes_another(rotation: Rotation, found: str, expected: bool) -> None:
    assert is_of_other_rotation(rotation, "app", login=found) is expected


LATER = NOW + timedelta(minutes=10)
PAST = NOW - timedelta(minutes=10)


@pytest.mark.parametrize(
    ("current", "able", "known", "ending", "ended"),
    [
        pytest.param("app_a", ["app_a"], {}, {}, set(), id="fresh"),
        pytest.param("app_a", [], {}, {}, set(), id="nothing-made-yet"),
        pytest.param("app_b", ["app_a", "app_b"], {}, {"app_a": NOW + HOUR}, set(), id="turned"),
        pytest.param(
            "app_b", ["app_a", "app_b"], {"app_a": LATER}, {"app_a": LATER}, set(), id="in-grace"
        ),
        pytest.param("app_b", ["app_a", "app_b"], {"app_a": NOW}, {}, {"app_a"}, id="over"),
        pytest.param("app_b", ["app_b"], {"app_a": PAST}, {}, set(), id="over-and-done"),
        pytest.param(
            "app_a", ["app_a", "app_b"], {"app_a": LATER}, {"app_b": NOW + HOUR}, set(),
            id="back-before-its-end",
        ),
        pytest.param(
            "app_a", ["app", "app_a"], {}, {"app": NOW + HOUR}, set(), id="one-becomes-two"
        ),
        pytest.param(
            "app", ["app", "app_a", "app_b"], {"app_b": LATER},
            {"app_a": NOW + HOUR, "app_b": LATER}, set(), id="two-become-one",
        ),
        pytest.param(
            "app_b", ["app_a", "app_b"], {"app_a": NOW + 9 * HOUR}, {"app_a": NOW + HOUR}, set(),
            id="a-shorter-grace-now",
        ),
        pytest.param(
            "app_b", ["app_a", "app_b", "stranger"], {}, {"app_a": NOW + HOUR}, set(),
            id="strangers-are-none-of-ours",
        ),
    ],
)  # fmt: skip
def test_who_may_log_in_until_when(
    current: str,
    able: list[str],
    known: dict[str, datetime],
    ending: dict[str, datetime],
    ended: set[str],
) -> None:
    got = turn("app", current, able=able, ends_known=known, grace=HOUR, now=NOW)
    assert (got.current, dict(got.ending), set(got.ended)) == (current, ending, ended)
    # Asked again once that is done, it says the same: ends do not move with the clock.
    left, soon = set(able) - ended, NOW + timedelta(minutes=1)
    again = turn("app", current, able=left, ends_known=got.ending, grace=HOUR, now=soon)
    assert (again.ending, again.ended) == (got.ending, frozenset())


def test_without_grace_the_old_one_ends_at_once() -> None:
    got = turn("app", "app_b", able=["app_a"], ends_known={}, grace=timedelta(), now=NOW)
    assert (dict(got.ending), set(got.ended)) == ({}, {"app_a"})


@pytest.mark.parametrize(
    ("rotation", "ending", "expected"),
    [
        pytest.param("InPlace", {"app_a": LATER}, True, id="in-place"),
        pytest.param("TwoLogins", {}, True, id="nothing-ends"),
        pytest.param("TwoLogins", {"app_a": LATER}, False, id="in-grace"),
        pytest.param("TwoLogins", {"app_a": NOW}, True, id="over"),
    ],
)
def test_the_clock_waits_for_the_grace(
    rotation: Rotation, ending: dict[str, datetime], expected: bool
) -> None:
    assert may_rotate(rotation, ending, NOW) is expected
