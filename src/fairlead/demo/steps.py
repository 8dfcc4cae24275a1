"""Steps of the story: their evidence, durations and failures."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import msgspec


class StoryError(Exception):
    """A step of the story has failed; the text has the expected and the actual state."""


class StoryStep(msgspec.Struct):
    """One step; ``detail`` is its evidence, or the reason of its failure."""

    name: str
    ok: bool = False
    seconds: float = 0.0
    detail: str = ""


class StoryReport(msgspec.Struct):
    """The output of ``fairlead demo --json``; ``seconds`` of all steps add up to the story's."""

    steps: list[StoryStep] = []

    @property
    def ok(self) -> bool:
        """Whether there is a step and all steps have succeeded."""
        return bool(self.steps) and all(step.ok for step in self.steps)

    def to_json(self) -> bytes:
        """Return ``{"steps": [{"name", "ok", "seconds", "detail"}], "ok": bool}`` as JSON."""
        steps = [
            {
                "name": step.name,
                "ok": step.ok,
                "seconds": round(step.seconds, 3),
                "detail": step.detail,
            }
            for step in self.steps
        ]
        return msgspec.json.encode({"steps": steps, "ok": self.ok})


class Screen(Protocol):
    """Display of a story while it runs."""

    def started(self, step: StoryStep) -> None:
        """Show the start of a step."""

    def saw(self, step: StoryStep, line: str) -> None:
        """Show a line of evidence."""

    def finished(self, step: StoryStep) -> None:
        """Show the end of a step, good or bad."""


class Narrator:
    """Runs steps one after another, times them and tells the screen."""

    def __init__(self, screen: Screen, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.report = StoryReport(steps=[])
        self._screen = screen
        self._clock = clock

    @contextmanager
    def step(self, name: str) -> Iterator[Callable[[str], None]]:
        """Time the block as one step; the yielded function takes a line of evidence.

        Raises:
            StoryError: re-raised after the step is recorded as failed; any other exception too.
        """
        step = StoryStep(name)
        lines: list[str] = []
        self.report.steps.append(step)
        self._screen.started(step)
        start = self._clock()

        def saw(line: str) -> None:
            lines.append(line)
            self._screen.saw(step, line)

        try:
            yield saw
            step.ok = True
        except BaseException as error:
            # Cancellation too: the step that Ctrl-C ends is in the report.
            lines.append(_reason(error))
            raise
        finally:
            step.seconds = self._clock() - start
            step.detail = "; ".join(lines)
            self._screen.finished(step)


def _reason(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):
        return _reason(error.exceptions[0])
    if isinstance(error, asyncio.CancelledError):
        return "interrupted"
    return str(error) or type(error).__name__


def expect(holds: object, otherwise: str) -> None:
    """Check a condition of a step.

    Raises:
        StoryError: ``holds`` is false; ``otherwise`` is the message.
    """
    if not holds:
        raise StoryError(otherwise)
