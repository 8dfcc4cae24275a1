"""Where tests keep what they throw away: in memory, where there is enough of it.

To make a database of PostgreSQL is to copy 300 files: on a disk that costs twelve times as much,
nearly all of it in the kernel, and the suite makes thousands.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


MEMORY = Path("/dev/shm")
"""The folder that Linux keeps in memory."""
LEAST_BYTES = 4 << 30
"""The free memory, in bytes, that a run of all workers fits into with room to spare."""


def use_memory() -> None:
    """Have this process and those that it starts make temporary files in memory.

    Nothing changes where TMPDIR is set, or where the folder is too small or has no programs run
    from it, as in most containers.
    """
    if "TMPDIR" not in os.environ and _is_fit(MEMORY):
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None


def _is_fit(folder: Path) -> bool:
    if not (folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)):
        return False
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize >= LEAST_BYTES and not found.f_flag & os.ST_NOEXEC
