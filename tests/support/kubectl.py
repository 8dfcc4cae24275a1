"""kubectl as a person uses it: the programs that are there, and what they print."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import IO, NamedTuple

from tests.support.waiting import SECONDS


MISSING = "there is no kubectl on PATH and none in FAIRLEAD_KUBECTLS"
_VOLATILE = (
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "UID"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "TIME"),
    (re.compile(r'(resourceVersion"?: ?)"\d+"'), r'\1"RV"'),
    (re.compile(r"(Resource Version:\s+)\d+"), r"\1RV"),
    (re.compile(r"https://127\.0\.0\.1:\d+"), "URL"),
    (re.compile(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}"), "TIME"),
    (re.compile(r"(?<!\S)\d+[smhdy](\d+[smhd])?(?![^\s)])"), "AGE"),
    (re.compile(r"\x1b\[[\d;]*m"), ""),
)


class Kubectl(NamedTuple):
    """One program and its version."""

    path: str
    version: tuple[int, int]

    def __str__(self) -> str:
        return ".".join(map(str, self.version))


@cache
def kubectls() -> tuple[Kubectl, ...]:
    """The kubectl on PATH and those in FAIRLEAD_KUBECTLS, a list of paths."""
    listed = os.environ.get("FAIRLEAD_KUBECTLS", "").split(os.pathsep)
    paths = [shutil.which("kubectl"), *filter(None, listed)]
    return tuple(Kubectl(path, _version(path)) for path in paths if path)


def built_kubectl() -> Kubectl:
    """The kubectl that was built with the programs of KUBEBUILDER_ASSETS."""
    path = str(Path(os.environ["KUBEBUILDER_ASSETS"], "kubectl"))
    return Kubectl(path, _version(path))


def _version(path: str) -> tuple[int, int]:
    command = [path, "version", "--client", "--output=json"]
    done = subprocess.run(command, capture_output=True, check=True, timeout=SECONDS)
    text = json.loads(done.stdout)["clientVersion"]["gitVersion"]
    major, minor, *_ = text.removeprefix("v").split(".")
    return int(major), int(minor)


class Result(NamedTuple):
    """What a person sees of one command; the texts are without what changes from run to run."""

    command: str
    code: int
    out: str
    err: str


class Shell:
    """Runs one kubectl against one control plane, in a folder and a namespace of its own."""

    def __init__(self, kubectl: Kubectl, kubeconfig: bytes, folder: Path, namespace: str) -> None:
        self.kubectl = kubectl
        self.namespace = namespace
        self.folder = folder
        self._kubeconfig = folder / "kubeconfig"
        self._kubeconfig.write_bytes(kubeconfig)

    def write(self, files: Mapping[str, str]) -> None:
        """Put files into the folder; NS in them is the namespace."""
        for name, text in files.items():
            (self.folder / name).write_text(text.replace("NS", self.namespace))

    def run(self, command: str, *, editor: str = "true", volatile: bool = False) -> Result:
        """Run ``kubectl`` with these arguments; NS in them is the namespace.

        ``volatile`` keeps the texts as they are.
        """
        done = subprocess.run(
            self._words(command),
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            cwd=self.folder,
            timeout=SECONDS,
            env=self._environment() | {"EDITOR": editor},
        )
        out, err = done.stdout, done.stderr
        if not volatile:
            out, err = self.normal(out), self.normal(err)
        return Result(command, done.returncode, out, err)

    @contextmanager
    def start(self, command: str) -> Iterator[IO[str]]:
        """Run a command that does not end by itself; what it prints, until the block ends.

        The block begins once the command's watch is known to be answered.
        """
        words = [*self._words(command), "--v=6"]
        with subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            env=self._environment(),
        ) as process:
            try:
                assert process.stdout is not None
                assert process.stderr is not None
                for line in process.stderr:
                    if "watch=true" in line and "200" in line:
                        break
                yield process.stdout
            finally:
                process.kill()

    def _words(self, command: str) -> list[str]:
        return [self.kubectl.path, *shlex.split(command.replace("NS", self.namespace))]

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "KUBECONFIG": str(self._kubeconfig),
        }

    def run_all(self, commands: Iterable[str]) -> dict[str, Result]:
        """Run commands that do not depend on one another, some at the same time."""
        with ThreadPoolExecutor(4) as pool:
            return {
                result.command: result for result in pool.map(self.run, dict.fromkeys(commands))
            }

    def normal(self, text: str) -> str:
        """The text with its runs of spaces as one, and without volatile parts."""
        text = text.replace(self.namespace, "NS")
        for pattern, replacement in _VOLATILE:
            text = pattern.sub(replacement, text)
        lines = [re.sub(r"[ \t]+", " ", line).strip() for line in text.splitlines()]
        return "\n".join(lines).strip()


class Step(NamedTuple):
    """One command of a transcript and what it prints, errors after the rest."""

    command: str
    expected: tuple[str, ...]
    sandbox_only: bool
    today_only: bool
    since: tuple[int, int]
    editor: str

    def differs(self, result: Result) -> str:
        """What is different from what was expected, "" when nothing is."""
        found = shown(result)
        if _fits(list(self.expected), found):
            return ""
        expected = "\n".join(self.expected)
        return f"$ kubectl {self.command}\n{expected}\n--- but:\n" + "\n".join(found)


def shown(result: Result) -> list[str]:
    """A result as transcripts have it: stdout, stderr, and the exit code unless it is 0."""
    lines = [line for line in (*result.out.splitlines(), *result.err.splitlines()) if line]
    return [*lines, f"[{result.code}]"] if result.code else lines


def parse_transcript(text: str) -> list[Step]:
    """The steps of a transcript.

    ``$ kubectl ...`` begins a step; what it prints follows, without empty lines. ``...`` stands
    for any lines, at the end of a line for its rest. Before a step, ``#: sandbox`` keeps it from
    the real server, ``#: today REASON`` from kube-apiserver 1.20, and ``#: since 1.31`` from an
    older kubectl; ``#: editor COMMAND`` sets EDITOR.
    """
    steps: list[Step] = []
    options: dict[str, str] = {}
    for line in text.splitlines():
        if line.startswith("#:"):
            name, _, value = line[2:].strip().partition(" ")
            options[name] = value
        elif line.startswith("$ kubectl "):
            major, _, minor = options.get("since", "1.0").partition(".")
            since = int(major), int(minor)
            editor = options.get("editor", "true")
            command = line.removeprefix("$ kubectl ")
            steps.append(
                Step(command, (), "sandbox" in options, "today" in options, since, editor)
            )
            options = {}
        elif line:
            steps[-1] = steps[-1]._replace(expected=(*steps[-1].expected, line))
    return steps


def _fits(expected: list[str], found: list[str]) -> bool:
    if not expected:
        return not found
    if expected[0] == "...":
        return any(_fits(expected[1:], found[skip:]) for skip in range(len(found) + 1))
    return bool(found) and _line_fits(expected[0], found[0]) and _fits(expected[1:], found[1:])


def _line_fits(expected: str, found: str) -> bool:
    if expected.endswith("..."):
        return found.startswith(expected.removesuffix("..."))
    return expected == found
