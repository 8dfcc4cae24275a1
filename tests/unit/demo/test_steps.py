from __future__ import annotations

import asyncio
import io
import json

import pytest
from rich.console import Console

from fairlead.demo.screen import LiveScreen, PlainScreen, SilentScreen, screen_for, summary
from fairlead.demo.steps import Narrator, Screen, StoryError, StoryReport, StoryStep, expect


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.5
        return self.now


def told(*, fail: bool, screen: str = "plain") -> tuple[StoryReport, str]:
    out = io.StringIO()
    console = Console(file=out, width=100, force_terminal=screen == "live")
    shown: Screen = LiveScreen(console) if screen == "live" else PlainScreen(console)
    narrator = Narrator(shown, clock=Clock())
    with narrator.step("one") as saw:
        saw("evidence")
        saw("more [bold]evidence")
    if fail:
        with pytest.raises(StoryError), narrator.step("two"):
            expect([], "the sum is wrong")
    return narrator.report, out.getvalue()


def test_a_story_that_holds_is_ok() -> None:
    report, _ = told(fail=False)
    assert json.loads(report.to_json()) == {
        "steps": [
            {"name": "one", "ok": True, "seconds": 1.5, "detail": "evidence; more [bold]evidence"}
        ],
        "ok": True,
    }


def test_a_step_that_does_not_hold_says_why() -> None:
    report, _ = told(fail=True)
    assert not report.ok
    assert report.steps[-1] == StoryStep("two", ok=False, seconds=1.5, detail="the sum is wrong")


def test_no_story_is_not_ok() -> None:
    assert not StoryReport().ok


def test_the_reason_is_found_inside_a_group() -> None:
    narrator = Narrator(SilentScreen())
    with pytest.raises(ExceptionGroup), narrator.step("one"):
        raise ExceptionGroup("several", [StoryError("the first")])
    assert narrator.report.steps[0].detail == "the first"


@pytest.mark.parametrize("screen", ["plain", "live"])
def test_screens_show_steps_evidence_times_and_failures(screen: str) -> None:
    _, shown = told(fail=True, screen=screen)
    for text in ("one", "evidence", "more [bold]evidence", "1.50 s", "the sum is wrong"):
        assert text in shown


def test_the_story_ends_with_a_table_of_steps_and_times() -> None:
    report, _ = told(fail=True)
    out = io.StringIO()
    console = Console(file=out, width=100)
    console.print(summary(report, console))
    shown = out.getvalue()
    assert "✔" in shown
    assert "✘" in shown
    assert "3.00" in shown


def test_a_terminal_without_our_signs_gets_plain_letters() -> None:
    report, _ = told(fail=True)
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    console = Console(file=out, width=100, force_terminal=True, color_system=None)
    assert isinstance(screen_for(console), PlainScreen)
    console.print(summary(report, console))
    out.seek(0)
    assert "| + | one" in out.read()


@pytest.mark.parametrize(
    ("environ", "screen"),
    [
        pytest.param({"TERM": "xterm"}, LiveScreen, id="a terminal"),
        pytest.param({"TERM": "dumb"}, PlainScreen, id="a dumb terminal"),
    ],
)
def test_only_a_terminal_that_can_redraw_is_live(
    environ: dict[str, str], screen: type[Screen]
) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, _environ=environ)
    assert isinstance(screen_for(console), screen)


def test_evidence_is_wrapped_at_words_and_stays_indented() -> None:
    out = io.StringIO()
    screen = LiveScreen(Console(file=out, width=30, color_system=None), spin=False)
    with Narrator(screen).step("one") as saw:
        saw("the credentials cannot be read: Forbidden")
    assert [line.rstrip() for line in out.getvalue().splitlines()[1:]] == [
        "    the credentials cannot be",
        "    read: Forbidden",
    ]


def test_an_interrupted_step_says_so() -> None:
    narrator = Narrator(SilentScreen())
    with pytest.raises(asyncio.CancelledError), narrator.step("one"):
        raise asyncio.CancelledError
    assert narrator.report.steps[0].detail == "interrupted"
