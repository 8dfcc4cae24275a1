"""Every test runs in one tier and in one part of a landing, and none is skipped unseen."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hack.landing.table import PARTS, TENTHS
from tests.conftest import SUITE
from tests.support import tiers


ROOT = Path(__file__).parents[2]


@pytest.fixture
def suite(request: pytest.FixtureRequest) -> list[pytest.Item]:
    return request.config.stash[SUITE]


def test_each_test_is_in_one_tier(suite: list[pytest.Item]) -> None:
    found = {
        item.nodeid: [tier for tier in tiers.TIERS if item.get_closest_marker(tier)]
        for item in suite
    }
    assert {name: of for name, of in found.items() if len(of) != 1} == {}


def test_what_is_skipped_without_a_real_control_plane_runs_where_there_is_one(
    suite: list[pytest.Item],
) -> None:
    asking = {
        item.nodeid
        for item in suite
        if {"real_programs", "realplane"} & {*getattr(item, "fixturenames", ())}
    }
    assert asking <= {item.nodeid for item in suite if item.get_closest_marker("envtest")}


def test_what_a_browser_is_asked_for_is_in_its_tier(suite: list[pytest.Item]) -> None:
    found = {item.nodeid for item in suite if item.get_closest_marker("browser")}
    assert found == {item.nodeid for item in suite if item.nodeid.startswith("tests/browser/")}


def test_each_test_beyond_make_test_is_in_one_part_of_a_landing(
    suite: list[pytest.Item],
) -> None:
    names = [part.name for part in PARTS if part.tests]
    found = {
        item.nodeid: [name for name in names if item.get_closest_marker(name)]
        for item in suite
        if not item.get_closest_marker("test")
    }
    assert {name: of for name, of in found.items() if len(of) != 1} == {}


def test_continuous_integration_is_a_landing_and_make_runs_every_tier() -> None:
    assert (ROOT / ".ci" / "run").read_text().endswith("\nexec make landing\n")
    makefile = (ROOT / "Makefile").read_text()
    assert "\nlanding:" in makefile
    selected = re.findall(
        r"^([a-z]+):.*\n(?:\t.*\n)*?\t.*(?:\$\(PYTEST\)) -m \1\b", makefile, re.MULTILINE
    )
    assert {*selected} == {*tiers.TIERS}
    made = {*re.findall(r"^([a-z]+):", makefile, re.MULTILINE)}
    assert {target for part in PARTS for target in part.targets} <= made


def test_continuous_integration_takes_no_missing_program_for_a_reason() -> None:
    assert f"export {tiers.COMPLETE}=1" in (ROOT / ".ci" / "run").read_text()


@dataclass
class Item:
    """A test, as far as its tier depends on it."""

    marks: tuple[pytest.Mark, ...]
    fixturenames: tuple[str, ...] = ()
    nodeid: str = "tests/unit/test_x.py::test_x"

    def iter_markers(self, name: str | None = None) -> list[pytest.Mark]:
        return [mark for mark in self.marks if name in {None, mark.name}]

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return next(iter(self.iter_markers(name)), None)


def item(
    *marks: pytest.MarkDecorator,
    fixtures: tuple[str, ...] = (),
    module: str = "tests/unit/test_x.py",
) -> Any:
    return Item(tuple(mark.mark for mark in marks), fixtures, f"{module}::test_x")


M = pytest.mark
OLD, NEW = M.variant("version", 15), M.variant("version", 18)
SUPERUSER, MODEST = (
    M.variant("administrator", "superuser"),
    M.variant("administrator", "createrole"),
)


@pytest.mark.parametrize(
    ("made", "tier"),
    [
        pytest.param(item(), "test", id="plain"),
        pytest.param(item(M.extended), "matrix", id="extended"),
        pytest.param(item(M.needs_control_plane), "envtest", id="real row"),
        pytest.param(item(fixtures=("real_programs",)), "envtest", id="real fixture"),
        pytest.param(item(M.extended, M.needs_control_plane), "envtest", id="extended and real"),
        pytest.param(item(fixtures=("browser_program",)), "browser", id="browser fixture"),
        pytest.param(item(NEW, MODEST), "test", id="usual variant"),
        pytest.param(item(OLD, MODEST), "matrix", id="older version"),
        pytest.param(item(NEW, SUPERUSER), "matrix", id="superuser"),
        pytest.param(item(OLD, MODEST, M.differs("version")), "test", id="differs by version"),
        pytest.param(item(OLD, SUPERUSER, M.differs("version")), "matrix", id="differs by one"),
        pytest.param(
            item(OLD, SUPERUSER, M.differs("version", "administrator")), "test", id="differs"
        ),
        pytest.param(item(OLD, MODEST, M.only(version=15)), "test", id="only there"),
        pytest.param(
            item(OLD, M.differs("version"), M.extended), "matrix", id="differs, and extended"
        ),
    ],
)
def test_a_test_says_its_tier_by_what_it_is(made: Any, tier: str) -> None:
    assert tiers.Row(made).tier == tier


E2E = "tests/e2e/postgres/test_x.py"


@pytest.mark.parametrize(
    ("made", "part", "again"),
    [
        pytest.param(item(), "", False, id="make test"),
        pytest.param(item(OLD, MODEST, module=E2E), "equal", False, id="declared equal"),
        pytest.param(item(OLD, M.extended, module=E2E), "kills", False, id="extended"),
        pytest.param(item(M.needs_control_plane, module=E2E), "apiserver", True, id="repeats"),
        pytest.param(
            item(M.needs_control_plane, M.edge, module=E2E), "apiserver", False, id="edge"
        ),
        pytest.param(
            item(fixtures=("real_programs",), module=E2E), "apiserver", False, id="real server"
        ),
        pytest.param(
            item(M.needs_control_plane, module="tests/contract/test_x.py"),
            "apiserver",
            False,
            id="contract",
        ),
        pytest.param(
            item(M.extended, module="tests/e2e/whole/test_image.py"), "image", False, id="image"
        ),
        pytest.param(
            item(M.needs_control_plane, module="tests/e2e/whole/test_chart.py"),
            "chart",
            False,
            id="chart on a real server",
        ),
    ],
)
def test_a_part_is_made_of_path_and_tier(made: Any, part: str, again: bool) -> None:
    row = tiers.Row(made)
    assert (row.part, row.again) == (part, again)


def test_the_tenths_are_all_rows_once() -> None:
    """Tenths that differ much in size would make one landing long."""
    names = [f"tests/e2e/postgres/test_x.py::test_{number}" for number in range(2000)]
    sizes = [sum(tiers.tenth_of(name) == tenth for name in names) for tenth in range(TENTHS)]
    assert sum(sizes) == len(names)
    assert all(size > 0.08 * len(names) for size in sizes)


@pytest.mark.parametrize(
    ("marks", "exists"),
    [
        pytest.param((OLD, M.only(version=(16, 18))), False, id="another version"),
        pytest.param((NEW, M.only(version=(16, 18))), True, id="one of several"),
        pytest.param((NEW, SUPERUSER, M.only(administrator="createrole")), False, id="another"),
        pytest.param((NEW,), True, id="any"),
    ],
)
def test_rows_are_there_where_they_say(
    marks: tuple[pytest.MarkDecorator, ...], exists: bool
) -> None:
    assert tiers.Row(item(*marks)).exists is exists


@pytest.mark.parametrize(
    ("reason", "complete", "told"),
    [
        pytest.param(
            "Skipped: the sandbox answers kubectl 1.27 and newer", True, "", id="cannot be had"
        ),
        pytest.param("Skipped: there is no Chromium here", True, "", id="not for every machine"),
        pytest.param("Skipped: there is no kubectl on PATH", False, "", id="missing here"),
        pytest.param("Skipped: there is no kubectl on PATH", True, "nothing may", id="complete"),
        pytest.param("Skipped: not today", False, "does not list: Skipped: not", id="unlisted"),
        pytest.param("unconditional skip", True, "does not list", id="marked"),
    ],
)
def test_a_test_is_skipped_for_listed_reasons_alone(
    reason: str, complete: bool, told: str
) -> None:
    found = tiers.objection(reason, complete=complete)
    assert (told in found) if told else found == ""
