"""Writes the reference: ``python -m hack.reference docs/reference``."""

from __future__ import annotations

import sys
from pathlib import Path

from hack.reference.pages import write


if __name__ == "__main__":
    write(Path(sys.argv[1]))
