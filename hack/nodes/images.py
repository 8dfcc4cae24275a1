"""Images without a registry: a Pod's first container, and others of one layer."""

from __future__ import annotations

import base64 as encoding
import gzip
import hashlib
import io
import platform
import shutil
import tarfile
from pathlib import Path
from typing import Any

from hack.image.oci import Layer, image, layout


PAUSE = "fairlead-pause"
TAG = "1"


def pause() -> bytes:
    """The archive of an image that waits: it holds the namespaces of a Pod."""
    busybox = Path(shutil.which("busybox") or "").read_bytes()
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        for name, content in (("bin/busybox", busybox),):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o755
            tar.addfile(entry, io.BytesIO(content))
    content = raw.getvalue()
    diff = hashlib.sha256(content).hexdigest()
    layer = Layer(gzip.compress(content, 1, mtime=0), diff, "busybox")
    run = {"Entrypoint": ["/bin/busybox", "sleep", "infinity"], "Labels": {"name": PAUSE}}
    return archive(layer, run, PAUSE, TAG)


def archive(layer: Layer, run: dict[str, Any], name: str, tag: str) -> bytes:
    """The archive of an image of one layer, as containerd imports it.

    Args:
        layer: its files.
        run: how its program is started: the configuration's member ``config``.
        name: its repository.
        tag: its tag.
    """
    architecture = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
    blobs = image([layer], architecture=architecture, run=run, created=0)
    found = io.BytesIO()
    with tarfile.open(fileobj=found, mode="w") as tar:
        for path, data in layout(blobs, name, tag).items():
            entry = tarfile.TarInfo(path)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return found.getvalue()


def base64(content: bytes) -> str:
    """The content as kubeconfigs have it."""
    return encoding.b64encode(content).decode()
