"""Images without a registry: a Pod's first container, and others of one layer."""

from __future__ import annotations

import base64 as encoding
import platform
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hack.image import oci


PAUSE = "fairlead-pause"
TAG = "1"


def pause(target: Path) -> None:
    """Write the archive of an image that waits: it holds the namespaces of a Pod."""
    with tempfile.TemporaryDirectory() as folder:
        programs = Path(folder, "bin")
        programs.mkdir()
        shutil.copy(shutil.which("busybox") or "", programs / "busybox")
        run = {"Entrypoint": ["/bin/busybox", "sleep", "infinity"], "Labels": {"name": PAUSE}}
        write(Path(folder), run, PAUSE, TAG, target)


def write(root: Path, run: dict[str, Any], name: str, tag: str, target: Path) -> None:
    """Write the archive of an image of one layer, as containerd imports it.

    Args:
        root: its files.
        run: how its program is started: the configuration's member ``config``.
        name: its repository.
        tag: its tag.
        target: the archive.
    """
    architecture = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
    layer = oci.layer(root, name)
    blobs = oci.image([layer], architecture=architecture, run=run, created=0)
    oci.archive(oci.layout(blobs, name, tag), target)


def base64(content: bytes) -> str:
    """The content as kubeconfigs have it."""
    return encoding.b64encode(content).decode()
