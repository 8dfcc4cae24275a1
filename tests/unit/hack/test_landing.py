"""What a landing runs, by what has changed and what has passed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from hack.landing import __main__ as landing
from hack.landing import contents, record, running
from hack.landing.contents import File
from hack.landing.record import Record
from hack.landing.running import Outcome, Share
from hack.landing.table import LIMIT_MINUTES, PARTS, Part


ROOT = Path(__file__).parents[3]
DOCS = Part("docs", "pages", "a change", unread=("docs/", "!docs/kept.md", "*.txt"))


@pytest.mark.parametrize(
    ("path", "named"),
    [
        pytest.param("docs/a/b.md", True, id="in a folder"),
        pytest.param("docs/kept.md", False, id="taken back"),
        pytest.param("src/a.txt", True, id="by its end"),
        pytest.param("docs", False, id="a file of a folder's name"),
        pytest.param("new/file.py", False, id="new"),
    ],
)
def test_a_file_is_read_unless_a_pattern_names_it(path: str, named: bool) -> None:
    assert contents.matches(path, DOCS.unread or ()) is named


@pytest.mark.parametrize(
    ("change", "same"),
    [
        pytest.param(File("docs/a.md", "2"), True, id="what it does not read"),
        pytest.param(File("src/a.py", "2"), False, id="what it reads"),
        pytest.param(File("fresh/a.py", "1"), False, id="a new file"),
    ],
)
def test_a_key_is_that_of_the_files_that_a_part_reads(change: File, same: bool) -> None:
    before = {"docs/a.md": File("docs/a.md", "1"), "src/a.py": File("src/a.py", "1")}
    after = {**before, change.path: change}
    keys = {contents.key_of(DOCS, files.values(), ROOT, "") for files in (before, after)}
    assert (len(keys) == 1) is same


def test_a_key_has_the_share_and_the_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [contents.key_of(DOCS, [], ROOT, share) for share in ("tenth 1", "tenth 2")]
    monkeypatch.setenv("FAIRLEAD_TESTS_COMPLETE", "another")
    keys.append(contents.key_of(DOCS, [], ROOT, "tenth 1"))
    assert len({*keys}) == 3


def test_a_part_without_a_list_reads_every_file() -> None:
    files = contents.tracked(ROOT)
    assert contents.read_by(Part("image", "", ""), files) == files
    assert File in {type(file) for file in files}


def test_lists_name_files_that_there_are() -> None:
    """A pattern for nothing is one whose files have moved: they would count, and nobody knows."""
    paths = [file.path for file in contents.tracked(ROOT)]
    patterns = {pattern for part in PARTS for pattern in part.unread or ()}
    assert {
        pattern
        for pattern in patterns
        if not any(contents.matches(path, [pattern.removeprefix("!")]) for path in paths)
    } == set()


def test_the_page_for_contributors_has_the_table() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text()
    for each in PARTS:
        assert f"| `{each.name}` | {each.title} | {each.after} |" in page


# --- records


def test_a_landing_is_counted_once_for_each_content(tmp_path: Path) -> None:
    kept = Record(tmp_path)
    assert kept.number("tree-a") == 0
    kept.land("tree-a", "a", kept.number("tree-a"))
    assert kept.number("tree-a") == 0, "the same content takes the same tenth"
    assert kept.number("tree-b") == 1
    kept.land("tree-b", "b", 1)
    assert (kept.number("tree-a"), kept.number("tree-c")) == (0, 2)


def test_what_has_passed_names_its_commit(tmp_path: Path) -> None:
    kept = Record(tmp_path)
    assert kept.passed("key") == ""
    kept.add("key", "abc1234", "browser")
    assert Record(tmp_path).passed("key") == "abc1234"


def test_a_file_that_was_not_finished_counts_for_nothing(tmp_path: Path) -> None:
    kept = Record(tmp_path)
    kept.land("tree-a", "a", 0)
    (tmp_path / "green" / "tmp1234.new").write_text("{")
    assert kept.number("tree-b") == 1


def test_a_whole_suite_that_had_no_time_is_due_until_it_begins(tmp_path: Path) -> None:
    kept = Record(tmp_path)
    assert not kept.whole_is_due
    kept.put_off_whole()
    assert Record(tmp_path).whole_is_due
    kept.begin_whole()
    assert not Record(tmp_path).whole_is_due


def test_records_stand_outside_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert record.folder() == Path("/caches/fairlead-landing")


# --- shares


def part(name: str) -> Part:
    return next(it for it in PARTS if it.name == name)


def words(share: Share, name: str) -> list[str]:
    return share.commands(part(name))[0]


def test_a_landing_and_its_rest_are_all_rows_once() -> None:
    first, rest = (words(Share(12, 60, rest=it), "equal") for it in (False, True))
    digits = first[first.index("--tenths") + 1] + rest[rest.index("--tenths") + 1]
    assert (first[first.index("--tenths") + 1], sorted(digits)) == ("2", list("0123456789"))
    assert "apiserver and not again" in words(Share(12, 60), "apiserver")
    assert "apiserver and again" in words(Share(12, 60, rest=True), "apiserver")


def test_a_landing_has_fixed_seeds_and_the_rest_those_of_the_day() -> None:
    assert words(Share(0, 60), "simulation")[3:] == ["--fixed", "--seeds", "60"]
    assert words(Share(0, 60, rest=True), "simulation")[3:] == ["--seeds", "200"]


def test_the_oldest_kubernetes_has_the_rows_of_todays() -> None:
    assert words(Share(12, 60), "oldest") == words(Share(12, 60), "apiserver")
    assert all(part(it.repeats).programs != it.programs for it in PARTS if it.repeats)


# --- the whole suite


@dataclass
class Machine:
    """A machine on which parts end at once, and what ran of them."""

    ran: list[str]
    failing: str = ""

    def run(self, part: Part, share: Share, *_: object) -> Outcome:
        self.ran.append(f"{part.name} rest" if share.rest else part.name)
        return Outcome(part.name, 0.0, passed=part.name != self.failing, ran=1)

    def aside(self, part: Part) -> tuple[Outcome, str]:
        return self.run(part, Share(0, 0)), ""


REST = ["simulation rest", "equal rest", "apiserver rest", "oldest"]
USUAL = [it.name for it in PARTS if not it.repeats]


@pytest.mark.parametrize(
    ("green", "minutes", "failing", "rest", "due"),
    [
        pytest.param(0, 90, "", [], False, id="the first landing of a machine"),
        pytest.param(9, 90, "", [], False, id="between"),
        pytest.param(10, 26, "", REST, False, id="a tenth"),
        pytest.param(10, 24, "", [], True, id="a tenth without time"),
        pytest.param(20, 90, "kills", [], False, id="a tenth that is refused"),
    ],
)
def test_the_whole_suite_follows_at_each_tenth_landing(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    *,
    green: int,
    minutes: int,
    failing: str,
    rest: list[str],
    due: bool,
) -> None:
    machine = Machine([], failing)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv(landing.BEGUN, str(time.time() - (LIMIT_MINUTES - minutes) * 60))
    monkeypatch.setattr(landing, "run", machine.run)
    monkeypatch.setattr(landing, "_aside", machine.aside)
    monkeypatch.setattr(sys, "argv", ["landing"])
    # Nothing is built for it.
    monkeypatch.setattr(contents, "place_of", lambda *_: "")
    kept = Record(record.folder())
    for number in range(green):
        kept.land(f"tree-{number}", "c", number)
    assert landing.main() == bool(failing)
    assert sorted(machine.ran) == sorted([*USUAL, *rest])
    assert kept.whole_is_due is due
    if due:
        machine.ran.clear()
        landing.main()
        assert sorted(machine.ran) == sorted([*USUAL, *REST])
        assert not kept.whole_is_due


# --- copies


def test_a_part_runs_where_there_is_nothing_but_what_it_reads(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "docs").mkdir(parents=True)
    (root / "src" / "__pycache__").mkdir(parents=True)
    for path in ("docs/page.md", "src/a.py", "src/b.py"):
        (root / path).write_text(path)
    for name in ("a.cpython-311.pyc", "gone.cpython-311.pyc"):
        (root / "src" / "__pycache__" / name).write_text(name)
    place = tmp_path / "place"
    running.copy(root, place, ["src/a.py"])
    found = {path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file()}
    assert found == {"src/a.py", "src/__pycache__/a.cpython-311.pyc"}
    # What Python has compiled holds for the time of its source.
    assert (place / "src" / "a.py").stat().st_mtime == (root / "src" / "a.py").stat().st_mtime


@pytest.mark.parametrize(
    ("cases", "ran", "proves"),
    [
        pytest.param("<testcase/>", 1, True, id="passed"),
        pytest.param("", 0, False, id="nothing ran"),
        pytest.param(
            '<testcase/><testcase><skipped message="there is no Chromium here"/></testcase>',
            1,
            False,
            id="a program is missing",
        ),
        pytest.param(
            '<testcase/><testcase><skipped message="the sandbox answers kubectl 1.27 and newer"/>'
            "</testcase>",
            1,
            True,
            id="not to be had",
        ),
    ],
)
def test_a_part_has_passed_when_a_test_ran_and_nothing_was_missing(
    cases: str, ran: int, proves: bool, tmp_path: Path
) -> None:
    report = tmp_path / "report.xml"
    report.write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
    outcome = running.outcome_of("x", 1.0, report)
    assert (outcome.ran, outcome.proves) == (ran, proves)


def test_the_plan_names_each_part(tmp_path: Path) -> None:
    # Nothing is built for it: a folder without programs is told of, and taken for none.
    named = {it.variable: str(tmp_path) for it in contents.PROGRAMS.values() if it.variable}
    done = subprocess.run(
        [sys.executable, "-m", "hack.landing", "--plan"],
        cwd=ROOT,
        env={**os.environ, **named, "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert all(f"\n  {part.name} " in done.stdout for part in PARTS)


def test_a_folder_that_is_no_checkout_is_run_and_not_recorded(tmp_path: Path) -> None:
    assert contents.tracked(tmp_path) == []
    assert not contents.is_clean(tmp_path)


@pytest.mark.parametrize(
    "part", [part for part in PARTS if part.tests], ids=lambda part: part.name
)
def test_the_tests_of_a_part_import_no_package_that_it_leaves_out(part: Part) -> None:
    packages = [
        pattern.removeprefix("src/").strip("/").replace("/", ".")
        for pattern in part.unread or ()
        if pattern.startswith("src/fairlead/") and pattern.endswith("/")
    ]
    modules = [path for start in part.tests for path in ROOT.glob(f"{start.rstrip('/')}/**/*.py")]
    wrong = [
        f"{path.relative_to(ROOT)} imports {package}"
        for path in modules
        for package in packages
        if f"from {package}" in path.read_text() or f"import {package}" in path.read_text()
    ]
    assert not wrong
