"""Running the parts of a landing, each in a copy of what it may read of the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from hack.landing.contents import File, read_by, variables_of
from hack.landing.table import SEEDS, TENTHS, Part
from tests.support import tiers


WORKERS = 3 * (os.cpu_count() or 2)
"""Workers of pytest: more than cores, for most tests wait."""


class Share(NamedTuple):
    """The rows of a part that run: ``number`` is the landing's, ``seeds`` of the simulation.

    ``rest`` stands for what a landing leaves to the whole suite.
    """

    number: int
    seeds: int
    rest: bool = False

    def commands(self, part: Part) -> list[list[str]]:
        """The commands of a part, without those of make."""
        if part.name == "simulation":
            seeds = (
                ["--seeds", str(SEEDS[1])]
                if self.rest
                else ["--fixed", "--seeds", str(self.seeds)]
            )
            return [[sys.executable, "-m", "tests.sim", *seeds]]
        return [self._pytest(part)] if part.tests else []

    def key(self, part: Part) -> str:
        """Which rows of a part run, as text: another share has not passed with this one."""
        return " ".join(word for command in self.commands(part) for word in command[1:])

    def _pytest(self, part: Part) -> list[str]:
        rows, more = part.repeats or part.name, []
        if rows == "apiserver":
            rows = f"{rows} and {'again' if self.rest else 'not again'}"
        if part.equal:
            tenth = self.number % TENTHS
            more = ["--tenths", "".join(
                str(it) for it in range(TENTHS) if (it == tenth) is not self.rest
            )]  # fmt: skip
        return [
            *(sys.executable, "-m", "pytest", "--numprocesses", str(WORKERS)),
            *("--dist", "loadgroup", "--no-loadscope-reorder", "-q", "-rs", "-m", rows),
            *(*more, *part.tests),
        ]


class Outcome(NamedTuple):
    """What came of a part: seconds, whether it passed, tests that ran, and what it lacked.

    ``ran`` is None for a part without tests of pytest.
    """

    part: str
    seconds: float
    passed: bool
    ran: int | None = None
    lacking: tuple[str, ...] = ()

    @property
    def proves(self) -> bool:
        """Whether the part need not run again with the same content."""
        return self.passed and self.ran != 0 and not self.lacking


def run(part: Part, share: Share, root: Path, files: Iterable[File] | None) -> Outcome:
    """Run a part.

    Args:
        part: of the landing.
        share: its rows that run.
        root: the checkout.
        files: of a clean checkout, for a copy of what the part reads; None: the checkout itself.
    """
    begun = time.monotonic()
    with _place(part, root, files) as place, tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.xml"
        environment = {
            **os.environ,
            **variables_of(part, root),
            # Before the path by which the environment finds the checkout that it was made for.
            "PYTHONPATH": str(place / "src"),
            "PYTHONDONTWRITEBYTECODE": "",
        }
        commands = share.commands(part)
        targets = [] if share.rest else [*part.targets]
        if targets:
            commands.insert(0, ["make", *_environment_of(root), *targets])
        for command in commands:
            more = [f"--junitxml={report}"] if "pytest" in command else []
            done = subprocess.run([*command, *more], cwd=place, env=environment, check=False)
            if done.returncode:
                return Outcome(part.name, time.monotonic() - begun, passed=False)
        return outcome_of(part.name, time.monotonic() - begun, report)


def _environment_of(root: Path) -> list[str]:
    """Arguments by which make takes a checkout's environment as it is.

    Made anew from a copy, it would find the packages in the copy, which does not last.
    """
    stamps = sorted((root / ".venv").glob("*.stamp"))
    return [f"VENV={root / '.venv'}", *(f"--old-file={stamp}" for stamp in stamps)]


@contextmanager
def _place(part: Part, root: Path, files: Iterable[File] | None) -> Iterator[Path]:
    if part.unread is None or files is None:
        yield root
        return
    with tempfile.TemporaryDirectory(prefix=f"fairlead-{part.name}-") as folder:
        place = Path(folder)
        copy(root, place, (file.path for file in read_by(part, files)))
        yield place


def copy(root: Path, place: Path, paths: Iterable[str]) -> None:
    """Copy files with their times, and what Python has compiled of them."""
    compiled: set[Path] = set()
    stems: set[tuple[Path, str]] = set()
    for path in paths:
        target = place / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / path, target, follow_symlinks=False)
        if path.endswith(".py"):
            compiled.add(target.parent.relative_to(place))
            stems.add((target.parent.relative_to(place), target.stem))
    for folder in compiled:
        cache = root / folder / "__pycache__"
        for file in cache.glob("*.pyc") if cache.is_dir() else ():
            if (folder, file.name.partition(".")[0]) in stems:
                (place / folder / "__pycache__").mkdir(exist_ok=True)
                shutil.copy2(file, place / folder / "__pycache__" / file.name)


def outcome_of(part: str, seconds: float, report: Path) -> Outcome:
    """What came of a part whose commands succeeded, by the report of its tests, if it has any."""
    if not report.exists():
        return Outcome(part, seconds, passed=True)
    ran, lacking = 0, set()
    for case in ET.parse(report).iter("testcase"):  # noqa: S314  pytest wrote it
        skip = case.find("skipped")
        reason = "" if skip is None else skip.get("message", "")
        ran += skip is None
        if skip is not None and tiers.lacks(reason):
            lacking.add(reason)
    return Outcome(part, seconds, passed=True, ran=ran, lacking=tuple(sorted(lacking)))
