"""The Dockerfile's steps without an engine: its COPY and RUN, in a folder of this machine.

What the image holds is decided by files that it is built of, so its own steps are taken: ``/venv``
and the other folders of the build become folders of ours, and this Python stands for the base
image's. Nothing is said of the base image, nor of the steps' being an image in the end.
"""

from __future__ import annotations

import fnmatch
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple


ROOT = Path(__file__).parents[2]
_PLACES = re.compile(r"(?<![\w./])/(venv|src|dist)\b")


class Step(NamedTuple):
    """One instruction of a Dockerfile, continued lines joined."""

    instruction: str
    arguments: str


def stages(dockerfile: str) -> list[list[Step]]:
    """The stages of a Dockerfile; each begins with its FROM."""
    result: list[list[Step]] = []
    for line in dockerfile.replace("\\\n", " ").splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        instruction, _, arguments = line.strip().partition(" ")
        step = Step(instruction.upper(), arguments.strip())
        if step.instruction == "FROM":
            result.append([])
        result[-1].append(step)
    return result


def context(folder: Path) -> None:
    """Copy what ``.dockerignore`` lets through of the repository, as the build would see it.

    Only what it says here is understood: all is ignored but what a line with ``!`` names, and of
    that what a last line without one takes away again.
    """
    everything, *rest = [
        line
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line and not line.startswith("#")
    ]
    assert everything == "*", "only a .dockerignore that ignores all by default is understood"
    ignored = [line.removeprefix("**/") for line in rest if not line.startswith("!")]
    for line in rest:
        if line.startswith("!"):
            source, target = ROOT / line[1:], folder / line[1:]
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns(*ignored))
            elif not any(fnmatch.fnmatch(source.name, pattern) for pattern in ignored):
                shutil.copy(source, target)


class Build:
    """Takes the steps of the first stage; ``venv`` is then what the image gets.

    Raises:
        AssertionError: a step fails; the text is what it said.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.venv = folder / "venv"
        self._context = folder / "context"
        self._directory = folder
        self._python = folder / "base"

    def run(self) -> None:
        context(self._context)
        self._do([sys.executable, "-m", "venv", str(self._python)])
        (first, *_) = stages((ROOT / "Dockerfile").read_text())
        for step in first[1:]:
            getattr(self, f"_{step.instruction.lower()}")(self._here(step.arguments))

    def _here(self, text: str) -> str:
        return _PLACES.sub(rf"{self.folder}/\1", text)

    def _workdir(self, arguments: str) -> None:
        self._directory = Path(arguments)
        self._directory.mkdir()

    def _copy(self, arguments: str) -> None:
        *sources, target = shlex.split(arguments)
        place = self._directory / target
        for source in (self._context / name for name in sources):
            if source.is_dir():
                shutil.copytree(source, place)
            else:
                place.mkdir(exist_ok=True)
                shutil.copy(source, place)

    def _run(self, arguments: str) -> None:
        self._do(["sh", "-c", arguments])

    def _do(self, command: list[str]) -> None:
        done = subprocess.run(
            command,
            cwd=self._directory,
            env={**os.environ, "PATH": f"{self._python / 'bin'}:{os.environ['PATH']}"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
