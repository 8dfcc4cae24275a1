"""What builds keep for those that follow, outside the repository, by the content it is made of."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


_KEPT = 2
"""Results of one kind that stay: that of a release, and that of what is worked on beside it."""


def cache() -> Path:
    """The folder for it: Debian's packages, layers and images."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "fairlead-image"


def key(*content: str | bytes | Path) -> str:
    """The name of what is made of this content; of a folder all files count, and their names."""
    whole = hashlib.sha256()
    for one in content:
        for piece in _pieces(one):
            whole.update(hashlib.sha256(piece).digest())
    return whole.hexdigest()[:24]


def _pieces(one: str | bytes | Path) -> Iterator[bytes]:
    if isinstance(one, Path):
        files = [one] if one.is_file() else sorted(file for file in one.rglob("*"))
        for file in files:
            if file.is_file() and "__pycache__" not in file.parts:
                yield str(file.relative_to(one.parent)).encode()
                yield file.read_bytes()
    else:
        yield one.encode() if isinstance(one, str) else one


def kept(kind: str, name: str, make: Callable[[Path], None]) -> Path:
    """The folder of one result, which ``make`` fills unless an earlier call has.

    A build that is killed leaves nothing that counts, and several at once make it once.
    """
    parent = cache() / kind
    folder = parent / name
    parent.mkdir(parents=True, exist_ok=True)
    with locked(parent / "lock"):
        if not folder.is_dir():
            part = parent / "part"
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir()
            make(part)
            part.rename(folder)
        os.utime(folder)
        others = [one for one in parent.iterdir() if one.is_dir()]
        others.sort(key=lambda one: one.stat().st_mtime, reverse=True)
        for old in others[_KEPT:]:
            shutil.rmtree(old, ignore_errors=True)
    return folder


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Keep other builds waiting while the block runs."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
