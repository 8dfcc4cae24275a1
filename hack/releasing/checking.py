"""Whether a commit may be released, and as what."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import NamedTuple

import yaml
from hack.image.building import version_of


CHANGELOG = "CHANGELOG.md"
_CHART = "charts/fairlead/Chart.yaml"
_VERSION = re.compile(r"\d+\.\d+\.\d+((a|b|rc)\d+)?")


class RefusedError(Exception):
    """The release is not made; the text says why, and what helps."""


class Release(NamedTuple):
    """What is released."""

    version: str
    commit: str
    epoch: int
    """When the commit was made, in seconds since 1970."""
    changes: str
    """The changelog's section, without its heading."""


def check(root: Path) -> Release:
    """Look at the commit that is checked out.

    Args:
        root: the repository's folder.

    Raises:
        RefusedError: it may not be released.
    """
    version = version_of(root)
    if not _VERSION.fullmatch(version):
        raise RefusedError(
            f"pyproject.toml: project.version {version} is no release's: write 0.2.0, for example"
        )
    changed = git(root, "status", "--porcelain").splitlines()
    if changed:
        raise RefusedError(
            f"the tree has {len(changed)} changes, such as {changed[0][3:]}: commit or stash them"
        )
    commit = git(root, "rev-parse", "HEAD")
    tagged = git(root, "tag", "--list", "--format=%(*objectname) %(objectname)", f"v{version}")
    if tagged and commit not in tagged.split():
        raise RefusedError(
            f"version {version} exists: tag v{version} is another commit;"
            " raise project.version in pyproject.toml"
        )
    chart = yaml.safe_load((root / _CHART).read_text())["appVersion"]
    if chart != version:
        raise RefusedError(f"{_CHART} is of {chart}, not of {version}: python -m hack.chart")
    changes = section((root / CHANGELOG).read_text(), version)
    if not changes:
        raise RefusedError(
            f"{CHANGELOG} has no section {version} with any change: "
            f"put the heading ## {version} - YYYY-MM-DD above them"
        )
    return Release(version, commit, int(git(root, "log", "-1", "--format=%ct")), changes)


def section(changelog: str, version: str) -> str:
    """What the changelog says of a version; "" if that is nothing."""
    heading = rf"^## \[?{re.escape(version)}\]?( - \d{{4}}-\d\d-\d\d)?$"
    found = re.search(rf"{heading}\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    text = found[2].strip() if found else ""
    return text if re.search(r"^- ", text, re.MULTILINE) else ""


def git(root: Path, *arguments: str) -> str:
    """What a command of git says.

    Raises:
        RefusedError: it fails, as in a folder that is no repository.
    """
    done = subprocess.run(
        ["git", *arguments], cwd=root, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RefusedError(f"git {arguments[0]}: {done.stderr.strip()}")
    return done.stdout.rstrip()
