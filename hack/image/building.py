"""The image as a whole: its layers, how it is started, and what is said of it."""

from __future__ import annotations

import tempfile
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from hack.image import debian, oci, python, sbom
from hack.image.debian import Apt, Package
from hack.image.keeping import cache, kept, key
from hack.image.parts import parts


ROOT = Path(__file__).parents[2]
USER = "65532:65532"
"""The user and group that the image's process is, as the manifests say as well."""

_MAKERS = [Path(__file__).with_name(f"{name}.py") for name in ("debian", "oci", "python")]
"""Modules that decide what a layer has in it."""


class Built(NamedTuple):
    """The files of an image that was built."""

    archive: Path
    """The image layout, as a tar archive."""
    bill: Path
    """CycloneDX, in JSON."""
    licences: Path
    digest: str
    """Of the image, with ``sha256:``."""


def version_of(source: Path) -> str:
    """The version that a tree of the repository has."""
    text = (source / "pyproject.toml").read_text()
    return str(tomllib.loads(text)["project"]["version"])


def build(
    source: Path,
    folder: Path,
    *,
    name: str = "fairlead",
    revision: str = "",
    epoch: int = 0,
    wheel: Path | None = None,
    packages: list[Package] | None = None,
) -> Built:
    """Build the image of a tree of the repository.

    Args:
        source: the tree.
        folder: gets the image, its bill of materials and its licences.
        name: the repository that it is to have in a registry or on a node.
        revision: the commit, for the label.
        epoch: when the image was made, in seconds since 1970; layers do not depend on it.
        wheel: the package, if it was built before.
        packages: Debian's, if they were fetched before.

    Raises:
        UnavailableError: Debian's packages cannot be fetched.
        BuildError: a step fails.
    """
    packages = Apt(cache() / "apt").packages() if packages is None else packages
    architecture = next(one.architecture for one in packages if one.name == "libc6")
    if architecture not in python.PLATFORMS:
        raise python.BuildError(f"there are no wheels for {architecture}: build on amd64 or arm64")
    version = version_of(source)
    folder.mkdir(parents=True, exist_ok=True)
    base = _debian(packages)
    needed = _requirements(source, base, architecture)
    with tempfile.TemporaryDirectory(prefix="fairlead-image-") as temporary:
        work = Path(temporary)
        own = _Rooted(work, f"fairlead {version}")
        own.root.mkdir()
        python.unpack(wheel or python.wheel(source, work / "wheel", epoch), base.python, own.root)
        python.compile_all(base.root, base.python, own.root, python.place(base.python))
        own.write()
        layers = [one.layer() for one in (base, needed, own)]
        found = parts(base.root, needed.root, own.root)
    blobs = oci.image(
        layers,
        architecture=architecture,
        run=_run(version, revision, epoch),
        created=epoch,
    )
    tag = version.replace("+", "-")
    stem = f"fairlead-{tag}"
    built = Built(
        folder / f"{stem}-image-{architecture}.tar",
        folder / f"{stem}-sbom-{architecture}.cdx.json",
        folder / f"{stem}-licences-{architecture}.txt",
        f"sha256:{blobs.digest}",
    )
    built.bill.write_text(
        sbom.cyclonedx(found, name=name, version=tag, digest=blobs.digest, created=epoch)
    )
    built.licences.write_text(sbom.licences(found))
    oci.archive(oci.layout(blobs, name, tag), built.archive)
    return built


class _Rooted(NamedTuple):
    """A layer with the files it is made of."""

    folder: Path
    comment: str

    @property
    def root(self) -> Path:
        return self.folder / "root"

    @property
    def python(self) -> str:
        """The name of the Python in /usr/bin of the lowest layer."""
        (found,) = (self.root / "usr/bin").iterdir()
        return found.name

    def write(self) -> None:
        made = oci.layer(self.root, self.comment)
        (self.folder / "blob").write_bytes(made.blob)
        (self.folder / "diff_id").write_text(made.diff_id)

    def layer(self) -> oci.Layer:
        blob, diff_id = self.folder / "blob", self.folder / "diff_id"
        return oci.Layer(blob.read_bytes(), diff_id.read_text(), self.comment)


def _debian(packages: list[Package]) -> _Rooted:
    comment = "Debian's Python"

    def make(folder: Path) -> None:
        made = _Rooted(folder, comment)
        made.root.mkdir()
        program = debian.unpack(packages, made.root)
        python.compile_all(made.root, program, made.root, f"usr/lib/{program}")
        made.write()

    name = key(*(f"{one.name} {one.version} {one.architecture}" for one in packages), *_MAKERS)
    return _Rooted(kept("debian", name, make), comment)


def _requirements(source: Path, base: _Rooted, architecture: str) -> _Rooted:
    pinned, comment = source / "requirements/image.txt", "requirements/image.txt"

    def make(folder: Path) -> None:
        made = _Rooted(folder, comment)
        made.root.mkdir()
        python.install(pinned, base.python, architecture, made.root)
        python.compile_all(base.root, base.python, made.root, python.place(base.python))
        made.write()

    name = key(base.folder.name, pinned, *_MAKERS)
    return _Rooted(kept("requirements", name, make), comment)


def _run(version: str, revision: str, epoch: int) -> dict[str, Any]:
    labels = {
        "title": "Fairlead",
        "description": "Services from the team that runs them to the app that needs them, "
        "across Kubernetes clusters",
        "licenses": "Apache-2.0",
        "version": version,
        "created": datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    if revision:
        labels["revision"] = revision
    return {
        "User": USER,
        "WorkingDir": "/",
        "Entrypoint": ["fairlead"],
        "Env": [
            "PATH=/usr/local/bin:/usr/bin",
            "PYTHONDONTWRITEBYTECODE=1",
            "PYTHONUNBUFFERED=1",
            f"SSL_CERT_FILE=/{debian.CERTIFICATES}",
        ],
        "Labels": {f"org.opencontainers.image.{name}": text for name, text in labels.items()},
    }
