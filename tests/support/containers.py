"""The image that is built here, and its programs as a runtime would start them.

There is no container runtime: the image's layers are unpacked into a folder that is the root of
the process, read-only, in a mount namespace of its own (so that only root can), with the user, the
environment and the command that the image's configuration names.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import tarfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hack.image.building import Built, build
from hack.image.debian import Apt, Package, UnavailableError
from hack.image.keeping import cache as caches
from hack.image.keeping import kept, key
from tests.support.image import ROOT


_CONTENT = (
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "requirements/image.txt",
    "src",
    "hack/image",
)
_START = """#!/bin/sh
# Starts {command} of the image; /tmp is the one place that can be written to, as with a Pod.
folder="${{TMPDIR%/tmp}}"
chown -R {user} "$folder"
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin unshare --mount --propagation private sh -eu -c '
    folder="$1"; shift
    mount --bind {root} {root}
    mount -o remount,bind,ro,nosuid {root}
    mount --rbind /proc {root}/proc
    mount --rbind /dev {root}/dev
    mount -t tmpfs -o mode=1777 tmpfs {root}/tmp
    mkdir -p "{root}$folder"
    mount --bind "$folder" "{root}$folder"
    chroot="$(command -v chroot)"
    exec env -i {environment} HOME=/ TMPDIR="$folder/tmp" \\
        "$chroot" --userspec={user} {root} {command} "$@"
' sh "$folder" "$@"
"""


class Image:
    """An image in files.

    Args:
        built: what the build gave.
        folder: has its layers, one upon the other, in ``root``, and its blobs.
    """

    def __init__(self, built: Built, folder: Path) -> None:
        self.built = built
        self.root = folder / "root"
        self._layout = folder / "layout"

    @property
    def index(self) -> dict[str, Any]:
        return self._json("index.json")

    @property
    def manifest(self) -> dict[str, Any]:
        (described,) = self.index["manifests"]
        return self.blob(described["digest"])

    @property
    def configuration(self) -> dict[str, Any]:
        return self.blob(self.manifest["config"]["digest"])

    def blob(self, digest: str) -> dict[str, Any]:
        return self._json(f"blobs/{digest.replace(':', '/')}")

    def _json(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self._layout / name).read_bytes())
        return found

    def launcher(self, folder: Path, *command: str) -> Path:
        """A program that starts the image's, or another command of its root, with its flags.

        It works in the folder above TMPDIR, which has to be below /tmp.
        """
        run = self.configuration["config"]
        file = folder / "container"
        file.write_text(
            _START.format(
                root=self.root,
                user=run["User"],
                environment=shlex.join(run["Env"]),
                command=shlex.join(command or run["Entrypoint"]),
            )
        )
        file.chmod(0o755)
        return file


def image() -> Image:
    """The image of this checkout, built once for its content.

    Skips the test where Debian's packages cannot be fetched.
    """
    found = packages()
    names = [f"{one.name} {one.version}" for one in found]

    def make(folder: Path) -> None:
        built = build(ROOT, folder / "built", packages=found)
        with tarfile.open(built.archive) as archive:
            archive.extractall(folder / "layout", filter="data")
        (folder / "digest").write_text(built.digest)
        made = Image(built, folder)
        for layer in made.manifest["layers"]:
            blob = folder / "layout" / "blobs" / layer["digest"].replace(":", "/")
            with tarfile.open(blob) as archive:
                archive.extractall(made.root, filter=_as_it_is)

    content = [ROOT / name for name in _CONTENT]
    folder = kept("images", key(*names, *content, Path(__file__)), make)
    (archive,) = (folder / "built").glob("*.tar")
    (bill,) = (folder / "built").glob("*.cdx.json")
    (licences,) = (folder / "built").glob("*.txt")
    return Image(Built(archive, bill, licences, (folder / "digest").read_text()), folder)


def _as_it_is(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo:
    """The member with its mode; absolute links point into the root that it will be in."""
    assert not member.name.startswith("/")
    return member


@cache
def packages() -> list[Package]:
    """Debian's packages that the image consists of.

    Skips the test where they cannot be fetched.
    """
    try:
        return Apt(caches() / "apt").packages()
    except UnavailableError as error:
        pytest.skip(f"Debian's packages cannot be fetched: {error}")


def may_start() -> str:
    """Why no program of an image can be started here; "" if it can."""
    if os.geteuid() != 0:
        return "only root can give a process another root"
    tried = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    return "only root with CAP_SYS_ADMIN can mount" if tried.returncode else ""
