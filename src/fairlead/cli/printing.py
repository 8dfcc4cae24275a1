"""Output of commands: plain lines without control characters, JSON, and explanations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import click
from rich.console import Console
from rich.text import Text

from fairlead.api.links import Link
from fairlead.api.reasons.model import State
from fairlead.cli.texts import plain


_WIDE = 10_000
"""Width of a line without a terminal, in characters, so that no line is wrapped."""
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
"""Color of each state on a terminal."""


def console() -> Console:
    """Return a console; it has colors on a terminal only, without NO_COLOR, and wraps no SQL."""
    out = Console(highlight=False, soft_wrap=True)
    if not out.is_terminal:
        out.width = _WIDE
    return out


def note(lines: Iterable[str]) -> None:
    """Print remarks on standard error, each as ``note: ...``."""
    for line in lines:
        click.echo(f"note: {plain(line)}", err=True)


def verdict(
    out: Console, subject: str, *, ready: bool, reason: str, message: str, works: bool = False
) -> None:
    """Print whether all is well, and if not, the reason.

    ``works`` says that the subject itself is Ready, and only another link is not.
    """
    text, style = ("ready", "green") if ready else (f"not ready: {plain(reason)}", "red")
    if works and not ready:
        text = f"ready, and the app keeps working; not ready: {plain(reason)}"
        style = "yellow"
    out.print(Text.assemble(f"{plain(subject)}: ", (text, style)))
    if not ready and message:
        out.print(Text(f"  {plain(message)}"))


def steps(out: Console, shown: Iterable[Link]) -> None:
    """Print a line for each step."""
    every = list(shown)
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
    """Print the remedy, if there is one."""
    if text:
        out.print(Text.assemble("\n", ("next: ", "bold"), plain(text)))
