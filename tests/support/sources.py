"""Python sources, read by tests that look at how something is written."""

from __future__ import annotations

import ast
import gc
from pathlib import Path


def parsed(path: Path) -> ast.Module:
    """Parse a module.

    No garbage is collected meanwhile: a finalizer that fails prints a traceback, for which Python
    parses a line, and its parser raises SystemError when it is entered twice
    (https://github.com/python/cpython/issues/106905).
    """
    source, enabled = path.read_text(encoding="utf-8"), gc.isenabled()
    gc.disable()
    try:
        return ast.parse(source)
    finally:
        if enabled:
            gc.enable()
