"""A release made of a commit: all its files, and in a registry on loopback."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from email.parser import HeaderParser
from pathlib import Path
from zipfile import ZipFile

import pytest
from hack.image.building import version_of
from tests.support.containers import packages
from tests.support.helm import MISSING, program
from tests.support.image import ROOT


VERSION = version_of(ROOT)
NAME = f"fairlead-{VERSION}"
CRANE = os.environ.get("FAIRLEAD_CRANE") or ""
NO_CRANE = 'there is no crane: FAIRLEAD_CRANE="$(hack/crane)"'
pytestmark = [
    pytest.mark.extended,
    pytest.mark.skipif(not program("helm"), reason=MISSING),
    pytest.mark.skipif(not shutil.which("gpg"), reason="gpg is not installed"),
]


class Maker:
    """Makes releases, in a repository of this checkout's files and with a key of its own."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "repository"
        self.made = self.root / "dist" / NAME
        listed = said("git", "ls-files", "-z", cwd=ROOT).split("\0")
        for name in filter(None, listed):
            if (ROOT / name).exists():
                target = self.root / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, target, follow_symlinks=False)
        author = ("-c", "user.name=Tests", "-c", "user.email=tests@example.org")
        said("git", "init", "--quiet", cwd=self.root)
        said("git", "add", "--all", cwd=self.root)
        said("git", *author, "commit", "--quiet", "--message", "all", cwd=self.root)
        self.environment = {**os.environ, **key(folder), "FAIRLEAD_HELM": str(helm().parent)}

    def start(self, *flags: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [str(self.root / "hack/release"), *flags],
            env={**self.environment, "PYTHON": sys.executable, "PYTHONPATH": ""},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def release(self, *flags: str) -> str:
        with self.start(*flags) as process:
            out, err = process.communicate()
        assert process.returncode == 0, err
        return out


def said(*command: str | Path, cwd: Path | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def helm() -> Path:
    return Path(program("helm"))


def key(folder: Path) -> dict[str, str]:
    """A new key, as a release takes it from the environment."""
    with tempfile.TemporaryDirectory(prefix="fairlead-key-", dir="/tmp") as home:
        gpg = ("gpg", "--homedir", home, "--batch", "--quiet", "--pinentry-mode", "loopback")
        secret = ("--passphrase", "open sesame")
        name = "Fairlead's tests <tests@example.org>"
        said(*gpg, *secret, "--quick-gen-key", name, "rsa2048", "sign", "never")
        armored = said(*gpg, *secret, "--armor", "--export-secret-keys")
        said("gpgconf", "--homedir", home, "--kill", "gpg-agent")
    return {"FAIRLEAD_SIGNING_KEY": armored, "FAIRLEAD_SIGNING_PASSPHRASE": secret[1]}


@pytest.fixture(scope="module")
def maker(tmp_path_factory: pytest.TempPathFactory) -> Maker:
    """With a release that was killed once while the image was built, and said again."""
    packages()
    maker = Maker(tmp_path_factory.mktemp("release"))
    with maker.start() as process:
        assert process.stderr
        for line in process.stderr:
            if "image" in line:
                break
        process.kill()
    assert not maker.made.exists()
    assert list(maker.made.parent.glob(f".{NAME}.part/*.whl"))
    maker.release()
    return maker


def test_it_has_all_files_with_their_checksums(maker: Maker) -> None:
    found = {file.name for file in maker.made.iterdir()}
    (machine,) = re.findall(r"-image-(\w+)\.tar", " ".join(found))
    assert found == {
        *("SHA256SUMS", "release.json", "fairlead-signing-key.gpg", f"{NAME}-changes.md"),
        *(f"{NAME}-py3-none-any.whl", f"{NAME}.tar.gz", f"{NAME}.tgz", f"{NAME}.tgz.prov"),
        *(f"{NAME}-image-{machine}.tar", f"{NAME}-sbom-{machine}.cdx.json"),
        f"{NAME}-licences-{machine}.txt",
    }
    said("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=maker.made)
    assert len((maker.made / "SHA256SUMS").read_text().splitlines()) == len(found) - 1
    assert not list(maker.made.parent.glob(".fairlead*"))


def test_all_of_it_is_one_version_of_one_commit(maker: Maker) -> None:
    record = json.loads((maker.made / "release.json").read_text())
    commit = said("git", "rev-parse", "HEAD", cwd=maker.root).strip()
    assert (record["version"], record["commit"]) == (VERSION, commit)
    with ZipFile(maker.made / f"{NAME}-py3-none-any.whl") as wheel:
        metadata = wheel.read(f"{NAME}.dist-info/METADATA").decode()
    assert HeaderParser().parsestr(metadata)["Version"] == VERSION
    with tarfile.open(maker.made / f"{NAME}.tar.gz") as sdist:
        names = sdist.getnames()
    assert f"{NAME}/src/fairlead/__init__.py" in names
    (image,) = maker.made.glob("*-image-*.tar")
    with tarfile.open(image) as archive:
        digest = record["image"].removeprefix("sha256:")
        content = archive.extractfile(f"blobs/sha256/{digest}")
        assert content
        manifest = content.read()
    assert hashlib.sha256(manifest).hexdigest() == digest
    labels = json.loads(manifest)["annotations"]
    assert labels["org.opencontainers.image.revision"] == commit
    assert labels["org.opencontainers.image.version"] == VERSION
    changes = (maker.made / f"{NAME}-changes.md").read_text()
    assert "\n### Added\n" in changes
    assert changes.strip() in (ROOT / "CHANGELOG.md").read_text()


def test_its_chart_is_signed(maker: Maker, tmp_path: Path) -> None:
    chart, keyring = maker.made / f"{NAME}.tgz", maker.made / "fairlead-signing-key.gpg"
    told = said(helm(), "verify", "--keyring", keyring, chart)
    record = json.loads((maker.made / "release.json").read_text())
    assert record["signedBy"] in told
    spoiled = tmp_path / chart.name
    spoiled.write_bytes(chart.read_bytes() + b"more")
    shutil.copy(f"{chart}.prov", tmp_path)
    done = subprocess.run(
        [helm(), "verify", "--keyring", keyring, spoiled], capture_output=True, check=False
    )
    assert done.returncode != 0


def test_it_is_made_once(maker: Maker) -> None:
    before = {file: file.stat().st_mtime_ns for file in maker.made.iterdir()}
    maker.release("--unsigned")
    assert {file: file.stat().st_mtime_ns for file in maker.made.iterdir()} == before


@contextmanager
def registry() -> Iterator[str]:
    """Where a registry is on loopback, while the block runs."""
    process = subprocess.Popen(
        [CRANE, "registry", "serve", "--address", "127.0.0.1:0"],
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert process.stderr
            found = re.search(r"serving on port (\d+)", process.stderr.readline())
            assert found
            yield f"127.0.0.1:{found[1]}/team"
        finally:
            process.terminate()


@pytest.mark.skipif(not CRANE, reason=NO_CRANE)
def test_it_is_pushed_where_it_is_said_and_once(maker: Maker, tmp_path: Path) -> None:
    record = json.loads((maker.made / "release.json").read_text())
    with registry() as there:
        image, chart = f"{there}/fairlead:{VERSION}", f"{there}/charts/fairlead"
        for _ in range(2):
            told = maker.release("--push", there).splitlines()
            assert told[-2:] == [f"pushed {image}@{record['image']}", f"pushed oci://{chart}"]
        assert said(CRANE, "digest", image).strip() == record["image"]
        said(CRANE, "validate", "--remote", image)
        said(
            *(helm(), "pull", f"oci://{chart}", "--version", VERSION, "--plain-http", "--verify"),
            *("--keyring", maker.made / "fairlead-signing-key.gpg", "--destination", tmp_path),
        )
        pulled = (tmp_path / f"{NAME}.tgz").read_bytes()
        assert pulled == (maker.made / f"{NAME}.tgz").read_bytes()
