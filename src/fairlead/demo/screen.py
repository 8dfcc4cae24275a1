"""Display of a story: live lines on a terminal, plain lines elsewhere, none for JSON."""

from __future__ import annotations

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.status import Status
from rich.table import Table
from rich.text import Text

from fairlead.demo.steps import StoryReport, StoryStep


class SilentScreen:
    """Shows no output; for ``--json``."""

    def started(self, step: StoryStep) -> None:
        """Ignore the step."""

    def saw(self, step: StoryStep, line: str) -> None:
        """Ignore the evidence."""

    def finished(self, step: StoryStep) -> None:
        """Ignore the end."""


class PlainScreen:
    """Prints a line for each step and each piece of evidence, for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def started(self, step: StoryStep) -> None:
        """Name the step."""
        self._print(step.name)

    def saw(self, step: StoryStep, line: str) -> None:
        """Show the evidence below the step."""
        self._print(f"    {line}")

    def finished(self, step: StoryStep) -> None:
        """Say how the step ended and how long it took."""
        if step.ok:
            self._print(f"  ok, {step.seconds:.2f} s")
        else:
            self._print(f"  FAILED after {step.seconds:.2f} s: {step.detail}")

    def _print(self, line: str) -> None:
        # As Text, for rich would take brackets in a plain string as markup.
        self._console.print(Text(line), soft_wrap=True)


class LiveScreen:
    """A spinner with the running step and its latest evidence; finished steps stay above it."""

    def __init__(self, console: Console, *, spin: bool = True) -> None:
        self._console = console
        self._spin = spin
        self._lines: list[str] = []
        self._status: Status | None = None

    def started(self, step: StoryStep) -> None:
        """Show the spinner with the step."""
        self._lines = []
        if self._spin:
            self._status = self._console.status(Text(step.name, style="bold"))
            self._status.start()

    def saw(self, step: StoryStep, line: str) -> None:
        """Show the evidence beside the spinner, and later below the finished step."""
        self._lines.append(line)
        if self._status is not None:
            self._status.update(Text(step.name, style="bold") + Text(f"  {line}", style="dim"))

    def finished(self, step: StoryStep) -> None:
        """Replace the spinner by the step, its duration and its evidence."""
        if self._status is not None:
            self._status.stop()
            self._status = None
        name, seconds = (
            Text(step.name, style="bold"),
            Text(f"  {step.seconds:.2f} s", style="cyan"),
        )
        self._console.print(Text.assemble(_mark(ok=step.ok), " ", name, seconds))
        for line in self._lines:
            self._console.print(_below(Text(line, style="dim")))
        if not step.ok:
            self._console.print(_below(Text(step.detail, style="red")))


def screen_for(console: Console) -> LiveScreen | PlainScreen:
    """Return a live screen on a terminal whose encoding has the signs, else a plain one."""
    live = console.is_terminal and not console.is_dumb_terminal
    return LiveScreen(console) if live and _has_signs(console) else PlainScreen(console)


def summary(report: StoryReport, console: Console) -> Table:
    """Return the table of steps and times that ends the story."""
    signs = _has_signs(console)
    table = Table(title="A database in one cluster, an app in another", title_justify="left")
    table.add_column("", width=1)
    table.add_column("step")
    table.add_column("seconds", justify="right")
    for step in report.steps:
        table.add_row(_mark(ok=step.ok, signs=signs), step.name, f"{step.seconds:.2f}")
    table.add_section()
    table.add_row("", "all", f"{sum(step.seconds for step in report.steps):.2f}")
    return table


def _mark(*, ok: bool, signs: bool = True) -> Text:
    if ok:
        return Text("✔" if signs else "+", style="green")
    return Text("✘" if signs else "x", style="red")


def _below(line: Text) -> RenderableType:
    """Return a line of evidence that stays indented if the terminal wraps it."""
    return Padding(line, (0, 0, 0, 4), expand=False)


def _has_signs(console: Console) -> bool:
    return console.encoding.startswith("utf")
