"""The files of a release."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from hack.image.building import ROOT, build
from hack.image.keeping import locked
from hack.image.python import run
from hack.releasing.checking import RefusedError, Release
from hack.releasing.signing import Key, signing


CHECKSUMS = "SHA256SUMS"
RECORD = "release.json"
"""The file that says of which commit all is, and the image's digest."""


class Made(NamedTuple):
    """A release in files."""

    folder: Path
    record: dict[str, Any]

    @property
    def image(self) -> Path:
        """The image layout, as a tar archive."""
        (found,) = self.folder.glob("*-image-*.tar")
        return found

    @property
    def chart(self) -> Path:
        """The chart, packaged."""
        (found,) = self.folder.glob("*.tgz")
        return found


def make(root: Path, release: Release, folder: Path, *, sign: bool) -> Made:
    """Make all files, or take them if they were made of this commit before.

    Args:
        root: the repository's folder.
        release: what is released.
        folder: where releases are, each in a folder of its own.
        sign: whether the chart is signed.

    Raises:
        RefusedError: the version was made of another commit, or the chart cannot be signed.
        BuildError: a step fails.
        UnavailableError: Debian's packages cannot be fetched.
    """
    target = folder / f"fairlead-{release.version}"
    part = folder / f".{target.name}.part"
    with locked(folder / ".lock"), ExitStack() as stack:
        if target.exists():
            return _made_before(release, target)
        if sign:
            # A key that is missing is said before minutes of work.
            with signing():
                pass
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        source = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fairlead-release-")))
        _check_out(root, release, source)
        record = _fill(release, source, part, sign=sign)
        part.rename(target)
    return Made(target, record)


def _made_before(release: Release, target: Path) -> Made:
    record = json.loads((target / RECORD).read_text())
    if record["commit"] != release.commit:
        raise RefusedError(
            f"version {release.version} exists: {target} is of commit {record['commit'][:12]};"
            " raise project.version in pyproject.toml, or remove what was never published"
        )
    if (target / CHECKSUMS).read_text() != _checksums(target):
        raise RefusedError(f"{target}: files are not those of {CHECKSUMS}; remove the folder")
    return Made(target, record)


def _check_out(root: Path, release: Release, source: Path) -> None:
    """Lay out what the commit has, so that nothing that lies about enters."""
    archive = subprocess.run(
        ["git", "archive", "--format=tar", release.commit],
        cwd=root,
        capture_output=True,
        check=True,
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(source, filter="data")


def _fill(release: Release, source: Path, part: Path, *, sign: bool) -> dict[str, Any]:
    (part / f"fairlead-{release.version}-changes.md").write_text(release.changes + "\n")
    _say("wheel and sdist")
    run(
        [
            sys.executable,
            "-m",
            "hatchling",
            "build",
            "-t",
            "wheel",
            "-t",
            "sdist",
            "-d",
            str(part),
        ],
        directory=source,
        SOURCE_DATE_EPOCH=str(release.epoch),
    )
    (wheel,) = part.glob("*.whl")
    _say("image")
    built = build(source, part, revision=release.commit, epoch=release.epoch, wheel=wheel)
    _say("chart")
    # A kill while the image is built leaves no key behind.
    with ExitStack() as stack:
        key = stack.enter_context(signing()) if sign else None
        _chart(source, part, key)
    record = {
        "version": release.version,
        "commit": release.commit,
        "image": built.digest,
        "signedBy": key.fingerprint if key else None,
    }
    (part / RECORD).write_text(json.dumps(record, indent=2) + "\n")
    (part / CHECKSUMS).write_text(_checksums(part))
    return record


def _chart(source: Path, part: Path, key: Key | None) -> None:
    package = [helm(), "package", str(source / "charts/fairlead"), "--destination", str(part)]
    if key is None:
        run(package)
        return
    package += ["--sign", "--key", key.name, "--keyring", str(key.secret)]
    run([*package, "--passphrase-file", str(key.passphrase)])
    (chart,) = part.glob("*.tgz")
    run([helm(), "verify", "--keyring", str(key.public), str(chart)])
    # helm verify takes a keyring. That it is the right key is known from its fingerprint alone.
    shutil.copy(key.public, part / "fairlead-signing-key.gpg")


def _checksums(folder: Path) -> str:
    """As ``sha256sum`` writes and checks them."""
    return "".join(
        f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n"
        for file in sorted(folder.iterdir())
        if file.name != CHECKSUMS
    )


def helm() -> str:
    """The path of helm, which ``hack/helm`` builds once per machine."""
    return f"{tool('helm', 'FAIRLEAD_HELM')}/helm"


def tool(name: str, variable: str) -> str:
    """What a script of hack finds or builds, unless the environment names it.

    Raises:
        RefusedError: it cannot be had.
    """
    if given := os.environ.get(variable):
        return given
    script = ROOT / "hack" / name
    done = subprocess.run([str(script)], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise RefusedError(f"hack/{name} failed: see above")
    return done.stdout.strip()


def _say(what: str) -> None:
    print(f"release: {what}", file=sys.stderr)
