"""The folder of secret files and the Compose file that mounts them."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path


COMPOSE_FILE = "compose.yaml"
_IGNORE = "# Made by `fairlead binding compose`, which overwrites this folder.\n*\n"
"""Content of ``.gitignore`` in a generated folder, which keeps Secrets out of commits."""

_OURS = re.compile(r"[-a-z0-9]+-[0-9a-f]{8}")
"""Names of folders with a binding's files."""


class FolderError(ValueError):
    """The folder may not be written to; the text says why, and the remedy."""


def write(folder: Path, compose: str, files: Mapping[str, Mapping[str, bytes]]) -> None:
    """Write files to a folder that only its owner can enter, and delete other generated ones.

    The files themselves are readable by all, since containers mount them under other users. Files
    that the former Compose file mounts are kept until the next call, since containers may still
    use them; the Compose file is replaced atomically.

    Raises:
        FolderError: the folder has files that this function did not write.
        OSError: the folder cannot be written.
    """
    former = _former(folder)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    _put(folder / ".gitignore", _IGNORE.encode(), 0o600)
    for name, content in files.items():
        place = folder / name
        place.mkdir(mode=0o700, exist_ok=True)
        for key, value in content.items():
            _put(place / key, value, 0o444)
    # Last: until it is replaced, the former one mounts files that are all there.
    _put(folder / COMPOSE_FILE, compose.encode(), 0o600)
    for path in folder.iterdir():
        old = path.is_dir() and not path.is_symlink() and _OURS.fullmatch(path.name)
        if old and path.name not in files and f"/{path.name}/" not in former:
            shutil.rmtree(path)


def _former(folder: Path) -> str:
    """Return the content of the existing Compose file, "" without one."""
    if not folder.exists() and not folder.is_symlink():
        return ""
    if folder.is_symlink() or not folder.is_dir():
        raise FolderError(f"{folder} is not a folder: choose another one with --output-dir")
    ignore, file = folder / ".gitignore", folder / COMPOSE_FILE
    ours = ignore.is_file() and ignore.read_text(errors="replace") == _IGNORE
    if any(folder.iterdir()) and not ours:
        raise FolderError(
            f"{folder} has files that this command did not write: "
            "choose another folder with --output-dir"
        )
    return file.read_text(errors="replace") if file.is_file() else ""


def _put(path: Path, content: bytes, mode: int) -> None:
    """Replace a file atomically, and never readable by others before it has its mode."""
    # A key of a Secret has up to 253 characters, and the name of a file 255 bytes.
    new = path.with_name(f".{path.name[:200]}.new")
    new.unlink(missing_ok=True)
    # O_EXCL with O_NOFOLLOW: a link that was put there meanwhile is not written through.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with open(new, "wb", opener=lambda name, _: os.open(name, flags, 0o600)) as file:
        file.write(content)
        os.fchmod(file.fileno(), mode)
    new.replace(path)
