"""What a part depends on, as one key: files, Python, programs and variables."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import NamedTuple

from hack.landing.table import Part


VARIABLES = ("FAIRLEAD_TESTS_COMPLETE", "PYTHONHASHSEED")
"""Environment variables that change what a test does, besides those that name programs."""


class File(NamedTuple):
    """A tracked file: its path in the checkout, and its mode and content as git names them."""

    path: str
    content: str


class Program(NamedTuple):
    """A program that tests start.

    ``version`` is the command that prints its version, in which ``{}`` stands for the value of its
    variable; ``variable`` names the program to tests, and ``finder`` prints the value.
    """

    version: tuple[str, ...]
    variable: str = ""
    finder: str = ""


PROGRAMS: Mapping[str, Program] = {
    "kubernetes": Program(
        ("{}/kube-apiserver", "--version"), "KUBEBUILDER_ASSETS", "hack/envtest"
    ),
    "oldest": Program(
        ("{}/kube-apiserver", "--version"), "KUBEBUILDER_ASSETS", "hack/envtest --oldest"
    ),
    "nodes": Program(("{}/kubelet", "--version"), "FAIRLEAD_NODES", "hack/envtest --nodes"),
    "helm": Program(("{}/helm", "version", "--short"), "FAIRLEAD_HELM", "hack/helm"),
    "crane": Program(("{}", "version"), "FAIRLEAD_CRANE", "hack/crane"),
    "clients": Program(("ls", "{}"), "FAIRLEAD_CLIENTS", "hack/clients/build"),
    "promtool": Program(("{}", "--version"), "PROMTOOL", "hack/promtool"),
    "postgresql": Program(("/usr/lib/postgresql/15/bin/postgres", "--version")),
    "kubectl": Program(("kubectl", "version", "--client")),
    "chromium": Program(("chromium", "--version")),
    "pgbouncer": Program(("pgbouncer", "--version")),
    "redis-server": Program(("redis-server", "--version")),
    "gpg": Program(("gpg", "--version")),
}
"""Programs that parts name, by their names in the table."""


def git(root: Path, *arguments: str) -> str:
    """What git prints; "" where it fails, as in a folder that is no checkout."""
    done = subprocess.run(
        ["git", *arguments], cwd=root, capture_output=True, text=True, check=False
    )
    return done.stdout if done.returncode == 0 else ""


def tracked(root: Path) -> list[File]:
    """All tracked files."""
    rows = git(root, "ls-files", "--stage", "-z").split("\0")
    entries = (row.partition("\t") for row in rows if row)
    return [File(path, content) for content, _, path in entries]


def is_clean(root: Path) -> bool:
    """Whether the folder is a commit's checkout: nothing changed, and nothing beside it."""
    return bool(git(root, "rev-parse", "HEAD")) and not git(root, "status", "--porcelain")


def matches(path: str, patterns: Iterable[str]) -> bool:
    """Whether a path is among those that patterns name; a later pattern overrides."""
    named = False
    for pattern in patterns:
        name = pattern.removeprefix("!")
        if fnmatchcase(path, name + "*" if name.endswith("/") else name):
            named = not pattern.startswith("!")
    return named


def read_by(part: Part, files: Iterable[File]) -> list[File]:
    """The files that a part may read."""
    return [file for file in files if not matches(file.path, part.unread or ())]


@cache
def place_of(name: str, root: Path) -> str:
    """The value of a program's variable, found or built by its script; "" if it cannot be had."""
    program = PROGRAMS[name]
    if not program.finder:
        return ""
    script, *options = program.finder.split()
    done = subprocess.run(
        [root / script, *options], cwd=root, stdout=subprocess.PIPE, text=True, check=False
    )
    return done.stdout.strip().rpartition("\n")[2] if done.returncode == 0 else ""


def variables_of(part: Part, root: Path) -> dict[str, str]:
    """The environment variables by which the tests of a part find its programs."""
    found = {PROGRAMS[name].variable: place_of(name, root) for name in part.programs}
    return {name: value for name, value in found.items() if name and value}


@cache
def version_of(name: str, root: Path) -> str:
    """A program's version as it prints it; "" if the program is not there."""
    command = [word.format(place_of(name, root)) for word in PROGRAMS[name].version]
    if not shutil.which(command[0]):
        return ""
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def key_of(part: Part, files: Iterable[File], root: Path, share: str) -> str:
    """The key of what a part depends on.

    Args:
        part: of the landing.
        files: of the checkout.
        root: the checkout.
        share: which of the part's rows run.

    Returns:
        Hexadecimal digits: equal ones for equal content, programs and variables.
    """
    lines = [
        *(part.name, share, platform.python_version(), platform.platform()),
        *(f"{name} {version_of(name, root)}" for name in part.programs),
        *(f"{name}={value}" for name, value in sorted(variables_of(part, root).items())),
        *(f"{name}={os.environ.get(name, '')}" for name in VARIABLES),
        *(f"{file.content} {file.path}" for file in read_by(part, files)),
    ]
    return hashlib.sha256("\0".join(lines).encode()).hexdigest()


def digest(files: Iterable[File], patterns: Iterable[str]) -> str:
    """A digest of the files that patterns name."""
    rows = [f"{file.content} {file.path}" for file in files if matches(file.path, patterns)]
    return hashlib.sha256("\0".join(rows).encode()).hexdigest()
