"""The command line of the simulator."""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
from tests.sim import entropy
from tests.sim.catalogue import SCENARIOS, SHARES
from tests.sim.children import Pool
from tests.sim.kept import FOLDER, Kept, keep, kept, known_broken
from tests.sim.plans import Plan, make_plan
from tests.sim.running import Result
from tests.sim.shrinking import shrink


FIXED = 1
"""The first of the seeds that each landing runs, the same every day: chance refuses no landing."""
LAST_LINES = 60
"""Lines of the trace that a failure shows; ``--trace`` shows all."""


def main(arguments: list[str] | None = None) -> int:
    """Run what the arguments ask for; 1 when a sentence was broken."""
    given = _parser().parse_args(arguments)
    if given.seed:
        return _one(_plan(given.scenario or "kubebind", given.seed), given)
    if given.plan:
        known = kept()
        path = Path(given.plan)
        chosen = (
            msgspec.json.decode(path.read_bytes(), type=Kept)
            if path.exists()
            else known[given.plan]
        )
        return _one(chosen.plan, given)
    return _many(given)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.sim",
        description="Simulates the whole of Fairlead on virtual time: seeds decide what happens.",
    )
    parser.add_argument("--scenario", choices=sorted(SCENARIOS), help="one alone")
    parser.add_argument("--seed", default="", help="this seed alone")
    parser.add_argument("--plan", default="", help=f"a kept plan, by its name in {FOLDER.name}/")
    parser.add_argument("--seeds", type=int, default=200, help="how many, in all scenarios")
    parser.add_argument("--first", type=int, default=0, help="the first; default: of this day")
    parser.add_argument(
        "--fixed",
        action="store_const",
        const=FIXED,
        dest="first",
        help="the seeds that each landing runs, the same every day",
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--trace", action="store_true", help="print all that happened")
    parser.add_argument("--yields", action="store_true", help="print what the steps achieved")
    parser.add_argument("--no-shrink", action="store_true", help="leave failing plans as they are")
    parser.add_argument("--keep", default="", metavar="NAME", help="keep the shortest plan")
    parser.add_argument(
        "--broken",
        default="",
        metavar="REASON",
        help="why the plan that is kept stays broken for now: it is reported and fails nothing",
    )
    return parser


# --- one plan


def _one(plan: Plan, given: argparse.Namespace) -> int:
    with Pool() as pool:
        result = pool.run(plan, keeping=given.trace)
    if given.trace:
        print(result.table)
    print(_line(result))
    if given.yields:
        print(_yields(Counter(result.tried), Counter(result.done)))
    if result.violations:
        _fail(result, given)
    return 1 if result.violations else 0


def _plan(scenario: str, seed: str) -> Plan:
    chosen = SCENARIOS[scenario]
    return make_plan(scenario, seed, chosen.operations, chosen.faults)


def _line(result: Result) -> str:
    return (
        f"{result.plan.scenario} {result.plan.seed}: {len(result.plan.steps)} steps, "
        f"{result.simulated:.0f} s simulated in {result.seconds:.2f} s, "
        f"{result.messages} messages, {result.checksum}"
    )


def _fail(result: Result, given: argparse.Namespace) -> None:
    """Show what was broken: commit, seed, shortest plan, trace, and the sentence last."""
    plan = result.plan
    print(f"\nBROKEN at commit {_commit()}: {plan.scenario} seed {plan.seed}")
    with Pool() as pool:
        if not given.no_shrink:
            runs = itertools.count()

            def fails(one: Plan) -> bool:
                next(runs)
                return bool(pool.run(one).violations)

            plan = shrink(plan, fails)
            print(f"shortest plan, after {next(runs)} runs:")
        again = pool.run(plan, keeping=True)
    print(f"  delay {plan.delay} s, splits {plan.splits}, reordering {plan.reordering}")
    for step in plan.steps:
        print(f"  {step.at:9.3f}  {step.kind}")
    lines = again.table.splitlines()
    if len(lines) > LAST_LINES:
        print(f"the last {LAST_LINES} of {len(lines)} lines of the trace:")
    print("\n".join(lines[-LAST_LINES:]))
    for text in again.violations or result.violations:
        print(f"BROKEN: {text}")
    if given.keep:
        # A traceback below the first line names places of this machine.
        shows = (again.violations or result.violations)[0].splitlines()[0]
        print(f"kept: {keep(given.keep, plan, shows, given.broken).name}")


def _commit() -> str:
    found = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    return found.stdout.strip() or "unknown"


# --- many


class _Tally:
    """What came of the runs of one scenario."""

    def __init__(self) -> None:
        self.runs = 0
        self.bad: list[Result] = []
        self.excused = 0
        self.seconds = 0.0
        self.slowest = 0.0
        self.tried: Counter[str] = Counter()
        self.done: Counter[str] = Counter()

    def add(self, result: Result, *, excused: bool) -> None:
        """Count a run; what an excused one breaks is known and fails nothing."""
        self.runs += 1
        self.seconds += result.seconds
        self.slowest = max(self.slowest, result.figures.get("alike", 0.0))
        self.tried.update(result.tried)
        self.done.update(result.done)
        if result.violations and excused:
            self.excused += 1
        elif result.violations:
            self.bad.append(result)

    def poor(self, least: dict[str, float]) -> list[str]:
        """The operations that achieve too little to show anything."""
        return [
            f"{kind} has changed something in {self.done[kind]} of {self.tried[kind]} steps, "
            f"least {share:.0%}"
            for kind, share in least.items()
            if self.tried[kind] >= ENOUGH and self.done[kind] < share * self.tried[kind]
        ]


ENOUGH = 30
"""Steps of a kind from which on their yield says something."""


def _many(given: argparse.Namespace) -> int:
    begun = entropy.real_monotonic()
    first = given.first or int(time.strftime("%Y%m%d", time.gmtime())) * 100_000
    tallies: dict[str, _Tally] = {}
    plans = [one.plan for one in kept().values() if given.scenario in {None, one.plan.scenario}]
    broken = known_broken()
    print(f"{len(plans)} kept plans and {given.seeds} seeds from {first}, {given.jobs} at a time")
    every = itertools.chain(plans, _seeds(given, first))
    with Pool(given.jobs) as pool:
        for number, result in enumerate(pool.run_all(every), 1):
            name = broken.get((result.plan.scenario, result.plan.seed), "")
            tallies.setdefault(result.plan.scenario, _Tally()).add(result, excused=bool(name))
            if result.violations:
                print(f"{_line(result)}\n    {result.violations[0].splitlines()[0]}", flush=True)
            if name:
                state = "known to be broken" if result.violations else "holds: is it mended?"
                print(f"    {state} ({FOLDER.name}/{name}.json)", flush=True)
            if number % 500 == 0:
                print(f"{number} runs, {entropy.real_monotonic() - begun:.0f} s", flush=True)
    bad = False
    for name, tally in tallies.items():
        print(
            f"{name}: {tally.runs} runs, {len(tally.bad)} broken"
            f"{f' ({tally.excused} more are known to be)' if tally.excused else ''}, "
            f"{tally.seconds / tally.runs:.2f} s each, alike again after "
            f"{tally.slowest:.1f} simulated seconds at most"
        )
        if given.yields:
            print(_yields(tally.tried, tally.done))
        poor = tally.poor(SCENARIOS[name].least)
        for text in poor:
            print(f"{name}: {text}")
        bad = bad or bool(tally.bad or poor)
    print(f"{entropy.real_monotonic() - begun:.0f} s")
    for tally in tallies.values():
        for result in tally.bad[:1]:
            _fail(result, given)
    return 1 if bad else 0


def _seeds(given: argparse.Namespace, first: int) -> Iterator[Plan]:
    names = [given.scenario] if given.scenario else SHARES
    for number in range(given.seeds):
        yield _plan(names[number % len(names)], str(first + number))


def _yields(tried: Counter[str], done: Counter[str]) -> str:
    return "    " + ", ".join(f"{kind} {done[kind]}/{tried[kind]}" for kind in sorted(tried))
