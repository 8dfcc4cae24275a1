"""The upper layers: the pinned requirements, and the package itself."""

from __future__ import annotations

import configparser
import csv
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path


class BuildError(Exception):
    """The image cannot be built; the text names the step and what it said."""


PLATFORMS = {"amd64": "x86_64-manylinux_2_28", "arm64": "aarch64-manylinux_2_28"}
"""What uv calls the oldest system whose wheels are taken, by Debian's architecture."""
_BIN = "usr/local/bin"


def place(python: str) -> str:
    """Where Debian's Python looks for packages that are not Debian's, relative to the root."""
    return f"usr/local/lib/{python}/dist-packages"


def install(requirements: Path, python: str, architecture: str, root: Path) -> None:
    """Install pinned wheels, whose hashes are checked, for the image's Python.

    Raises:
        BuildError: a wheel is not to be had, or is another one than was pinned.
    """
    target = root / place(python)
    command = [
        *(_uv(), "pip", "install", "--quiet", "--no-config", "--link-mode=copy"),
        *("--require-hashes", "--no-deps", "--only-binary=:all:", "--python", sys.executable),
        *("--python-version", python.removeprefix("python")),
        *("--python-platform", PLATFORMS[architecture], "--target", str(target)),
        *("--requirements", str(requirements)),
    ]
    run(command)
    for leftover in (target / ".lock", *target.glob("*.dist-info/REQUESTED")):
        leftover.unlink(missing_ok=True)
    # Commands of other packages are no programs of the image.
    shutil.rmtree(target / "bin", ignore_errors=True)
    for record in target.glob("*.dist-info/RECORD"):
        with record.open(newline="") as file:
            rows = [row for row in csv.reader(file) if (target / row[0]).exists()]
        with record.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)


def wheel(source: Path, folder: Path, epoch: int) -> Path:
    """Build the package's wheel, which is the same each time for the same epoch.

    Raises:
        BuildError: it cannot be built.
    """
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    run(command, directory=source, SOURCE_DATE_EPOCH=str(epoch))
    (found,) = folder.glob("*.whl")
    return found


def unpack(file: Path, python: str, root: Path) -> None:
    """Unpack our own wheel, and write its command."""
    target = root / place(python)
    target.mkdir(parents=True)
    with zipfile.ZipFile(file) as archive:
        archive.extractall(target)
    (entries,) = target.glob("*.dist-info/entry_points.txt")
    parser = configparser.ConfigParser()
    parser.read(entries)
    module, _, function = parser["console_scripts"]["fairlead"].partition(":")
    command = root / _BIN / "fairlead"
    command.parent.mkdir(parents=True)
    command.write_text(
        f"#!/usr/bin/{python}\nimport sys\n\nfrom {module} import {function}\n\n\n"
        f"sys.exit({function}())\n"
    )
    command.chmod(0o755)


def compile_all(debian: Path, python: str, root: Path, folder: str) -> None:
    """Compile what lies in a folder of a root, by the image's own Python.

    The root is read-only where it runs, so that compiled modules are never looked into again.
    Python is started by its own loader, for which no right is needed.

    Raises:
        BuildError: a module cannot be compiled.
    """
    (loader,) = (debian / "usr/lib").glob("*/ld-linux-*.so.*")
    libraries = sorted({file.parent for file in (debian / "usr/lib").glob("*/libc.so.6")})
    run(
        [
            *(str(loader), "--library-path", ":".join(map(str, libraries))),
            *(str(debian / "usr/bin" / python), "-S", "-m", "compileall", "-q"),
            *("--invalidation-mode", "unchecked-hash", "-s", str(root), "-p", "/"),
            str(root / folder),
        ],
        PYTHONHOME=str(debian / "usr"),
        # Sets of constants are written in the order of their hashes.
        PYTHONHASHSEED="0",
        PYTHONDONTWRITEBYTECODE="1",
    )


def run(command: list[str], *, directory: Path | None = None, **environ: str) -> None:
    """Run a step to its end."""
    known = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        command,
        cwd=directory,
        env={**known, **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        said = (done.stderr or done.stdout).strip()[-1500:]
        raise BuildError(f"{Path(command[0]).name} failed: {said}")


def _uv() -> str:
    beside = Path(sys.executable).with_name("uv")
    found = str(beside) if beside.exists() else shutil.which("uv")
    if not found:
        raise BuildError("uv is not installed: make .venv")
    return found
