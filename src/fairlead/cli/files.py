"""Files that commands write."""

from __future__ import annotations

import os
from pathlib import Path


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, also where there was one before."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    with open(path, "w", opener=lambda name, _: os.open(name, flags, 0o600)) as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(text)
