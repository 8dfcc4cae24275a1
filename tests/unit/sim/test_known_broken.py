"""A seed that is kept as known to be broken is reported, and refuses nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.sim import kept
from tests.sim.command import _Tally
from tests.sim.plans import Plan, Step
from tests.sim.running import Result


PLAN = Plan(scenario="binding", seed="7", steps=(Step("bind", 1.0, 1),))


def result(*violations: str) -> Result:
    return Result(
        plan=PLAN,
        violations=list(violations),
        checksum="",
        messages=0,
        simulated=0.0,
        seconds=0.0,
        tried={},
        done={},
    )


@pytest.mark.parametrize(
    ("violations", "excused", "bad", "counted"),
    [
        pytest.param((), False, 0, 0, id="holds"),
        pytest.param(("lost",), False, 1, 0, id="broken"),
        pytest.param(("lost",), True, 0, 1, id="known to be broken"),
        pytest.param((), True, 0, 0, id="known to be broken, and holds"),
    ],
)
def test_what_is_known_fails_nothing(
    violations: tuple[str, ...], excused: bool, bad: int, counted: int
) -> None:
    tally = _Tally()
    tally.add(result(*violations), excused=excused)
    assert (len(tally.bad), tally.excused) == (bad, counted)


def test_a_kept_plan_is_known_by_scenario_and_seed_while_it_has_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "FOLDER", tmp_path)
    kept.keep("mended", PLAN, "lost")
    assert kept.known_broken() == {}
    kept.keep("lost-record", PLAN, "lost", "not yet mended")
    assert kept.known_broken() == {("binding", "7"): "lost-record"}
