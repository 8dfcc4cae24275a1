"""What goes wrong with a rule, when it is compiled and when it runs."""

from __future__ import annotations


class CompileError(ValueError):
    """The rule is no CEL, or outside the subset; the text says where and why."""

    def __init__(self, message: str, position: int = 0) -> None:
        super().__init__(f"ERROR: <input>:1:{position + 1}: {message}")


class CelError(Exception):
    """A rule failed while it ran, in CEL's words (``no such key: x``)."""
