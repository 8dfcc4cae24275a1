"""The command line of the simulator."""

from __future__ import annotations

import argparse
import sys

from tests.sim.catalogue import SCENARIOS
from tests.sim.plans import make_plan
from tests.sim.running import Result, run_apart


def main(arguments: list[str] | None = None) -> int:
    """Run what the arguments ask for; 1 when a sentence was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim")
    parser.add_argument("--scenario", choices=sorted(SCENARIOS), default="kubebind")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--seeds", type=int, default=0)
    parser.add_argument("--trace", action="store_true")
    parser.add_argument("--yields", action="store_true")
    given = parser.parse_args(arguments)
    scenario = SCENARIOS[given.scenario]
    bad = 0
    first = int(given.seed)
    for number in range(first, first + max(1, given.seeds)):
        plan = make_plan(scenario.name, str(number), scenario.operations, scenario.faults)
        result = run_apart(scenario, plan, keeping=given.trace)
        if given.trace:
            print(result.table)
        print(_line(result))
        if given.yields:
            print(
                "    "
                + ", ".join(
                    f"{kind} {result.done.get(kind, 0)}/{count}"
                    for kind, count in sorted(result.tried.items())
                )
            )
        for text in result.violations:
            print(f"    {text}")
        bad += bool(result.violations)
        sys.stdout.flush()
    return 1 if bad else 0


def _line(result: Result) -> str:
    return (
        f"{result.plan.scenario} seed {result.plan.seed}: {len(result.plan.steps)} steps, "
        f"{result.simulated:.0f} s simulated in {result.seconds:.2f} s, "
        f"{result.messages} messages, {result.checksum}"
    )
