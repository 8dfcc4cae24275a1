"""An image as files, by the OCI image specification 1.1: layers, configuration, layout.

https://github.com/opencontainers/image-spec
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import stat
import tarfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple


_OCI = "application/vnd.oci.image"


class Layer(NamedTuple):
    """One layer, as its blob."""

    blob: bytes
    diff_id: str
    """The digest of the tar archive that is compressed in the blob."""
    comment: str


class Blobs(NamedTuple):
    """All that an image consists of, by digests without ``sha256:``."""

    contents: dict[str, bytes]
    digest: str
    """Of the manifest, which is the image's."""
    config: str
    layers: list[str]


def layer(root: Path, comment: str) -> Layer:
    """Make the layer of a folder.

    It is the same for the same files, whenever and by whom they were written: entries are sorted,
    have no time and belong to root. Layers whose files stay are then those of the image before.
    """
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(root.rglob("*"), key=lambda path: path.relative_to(root).parts):
            _add(tar, path, str(path.relative_to(root)))
    raw = archive.getvalue()
    return Layer(gzip.compress(raw, 6, mtime=0), _digest(raw), comment)


def _add(tar: tarfile.TarFile, path: Path, name: str) -> None:
    found = path.lstat()
    entry = tarfile.TarInfo(name)
    if stat.S_ISLNK(found.st_mode):
        entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, str(path.readlink()), 0o777
        tar.addfile(entry)
    elif stat.S_ISDIR(found.st_mode):
        entry.type = tarfile.DIRTYPE
        entry.mode = 0o1777 if found.st_mode & stat.S_ISVTX else 0o755
        tar.addfile(entry)
    else:
        entry.size = found.st_size
        entry.mode = 0o755 if found.st_mode & stat.S_IXUSR else 0o644
        with path.open("rb") as file:
            tar.addfile(entry, file)


def image(layers: list[Layer], *, architecture: str, run: dict[str, Any], created: int) -> Blobs:
    """Put layers together.

    Args:
        layers: the lowest first.
        architecture: as Debian and Go call it.
        run: how the program is started: the configuration's member ``config``.
        created: seconds since the epoch.
    """
    when = datetime.fromtimestamp(created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    contents: dict[str, bytes] = {}

    def put(content: bytes, kind: str) -> dict[str, Any]:
        digest = _digest(content)
        contents[digest] = content
        return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(content)}

    found = [put(one.blob, f"{_OCI}.layer.v1.tar+gzip") for one in layers]
    config = {
        "architecture": architecture,
        "os": "linux",
        "created": when,
        "config": run,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{one.diff_id}" for one in layers]},
        "history": [{"created": when, "comment": one.comment} for one in layers],
    }
    described = put(_json(config), f"{_OCI}.config.v1+json")
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{_OCI}.manifest.v1+json",
        "config": described,
        "layers": found,
        "annotations": run["Labels"],
    }
    put(_json(manifest), manifest["mediaType"])
    return Blobs(
        contents,
        _digest(_json(manifest)),
        _digest(_json(config)),
        [_digest(one.blob) for one in layers],
    )


def full_name(name: str) -> str:
    """The name of a repository with its registry, which is Docker Hub's where it names none.

    Source: https://github.com/distribution/reference, whose rule a kubelet follows.
    """
    first, slash, _ = name.partition("/")
    if slash and (first == "localhost" or {".", ":"} & {*first}):
        return name
    return f"docker.io/{name}" if slash else f"docker.io/library/{name}"


def layout(blobs: Blobs, name: str, tag: str) -> dict[str, bytes]:
    """The files of an image layout, by their paths.

    ``manifest.json`` is no part of it: Docker before 25 and what is made like it look there.

    Args:
        blobs: the image's.
        name: its repository. A short one is written in full for containerd, which else imports
            the image under a name of its own making; a kubelet looks for the full name.
        tag: its tag.
    """
    annotations = {
        "org.opencontainers.image.ref.name": tag,
        "io.containerd.image.name": f"{full_name(name)}:{tag}",
    }
    index = {
        "schemaVersion": 2,
        "mediaType": f"{_OCI}.index.v1+json",
        "manifests": [
            {
                "mediaType": f"{_OCI}.manifest.v1+json",
                "digest": f"sha256:{blobs.digest}",
                "size": len(blobs.contents[blobs.digest]),
                "annotations": annotations,
            }
        ],
    }
    docker = [
        {
            "Config": f"blobs/sha256/{blobs.config}",
            "RepoTags": [f"{name}:{tag}"],
            "Layers": [f"blobs/sha256/{digest}" for digest in blobs.layers],
        }
    ]
    return {
        "oci-layout": _json({"imageLayoutVersion": "1.0.0"}),
        "index.json": _json(index),
        "manifest.json": _json(docker),
        **{f"blobs/sha256/{digest}": blobs.contents[digest] for digest in sorted(blobs.contents)},
    }


def archive(files: dict[str, bytes], target: Path) -> None:
    """Write a layout as one tar archive, at once or not at all."""
    part = target.with_name(f".{target.name}.part")
    with tarfile.open(part, "w", format=tarfile.PAX_FORMAT) as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o644
            tar.addfile(entry, io.BytesIO(content))
    part.rename(target)


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
