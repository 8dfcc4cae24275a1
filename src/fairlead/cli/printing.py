"""How commands print: plain lines that no name can steer, JSON, and explanations step by step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

import click
from rich.console import Console
from rich.text import Text

from fairlead.api.reasons.model import State
from fairlead.cli.texts import plain


_WIDE = 10_000
"""Characters of a line where nobody looks at the edge: nothing is wrapped for a program."""
_MARKS: Mapping[State, str] = {
    "ok": "ok",
    "failed": "FAILED",
    "waiting": "waiting",
    "unknown": "?",
}
STYLES: Mapping[State, str] = {
    "ok": "green",
    "failed": "red",
    "waiting": "yellow",
    "unknown": "dim",
}
"""How each state looks on a terminal."""


def console() -> Console:
    """Colours on a terminal alone, and there not with NO_COLOR; no statement is wrapped."""
    made = Console(highlight=False, soft_wrap=True)
    if not made.is_terminal:
        made.width = _WIDE
    return made


def note(lines: Iterable[str]) -> None:
    """What is not part of the answer, on standard error."""
    for line in lines:
        click.echo(f"note: {plain(line)}", err=True)


class ShownStep(Protocol):
    """One step of an explanation, and how it stands: ok, failed, waiting or unknown."""

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    @property
    def state(self) -> State:
        """Which of the four."""
        ...

    @property
    def reason(self) -> str:
        """A word, or "" where nothing is amiss."""
        ...

    @property
    def message(self) -> str:
        """A line about it."""
        ...


def verdict(out: Console, subject: str, *, ready: bool, reason: str, message: str) -> None:
    """Whether all is well, and if not, why."""
    text, style = ("ready", "green") if ready else (f"not ready: {plain(reason)}", "red")
    out.print(Text.assemble(f"{plain(subject)}: ", (text, style)))
    if not ready and message:
        out.print(Text(f"  {plain(message)}"))


def steps(out: Console, found: Iterable[ShownStep]) -> None:
    """A line for each step."""
    every = list(found)
    width = max((len(step.name) for step in every), default=0) + 2
    for step in every:
        mark, style = _MARKS[step.state], STYLES[step.state]
        reason = f"{plain(step.reason)}: " if step.reason else ""
        out.print(
            Text.assemble(
                f"  {step.name:<{width}}", (f"{mark:<9}", style), f"{reason}{plain(step.message)}"
            )
        )


def next_step(out: Console, text: str) -> None:
    """What helps, where something does."""
    if text:
        out.print(Text.assemble("\n", ("next: ", "bold"), plain(text)))
