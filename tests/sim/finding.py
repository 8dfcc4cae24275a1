"""``python -m tests.sim find``: the first seed that finds a planted fault, and its short plan."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Sequence
from pathlib import Path

import msgspec
from tests.sim import entropy
from tests.sim.catalogue import SCENARIOS
from tests.sim.children import Pool
from tests.sim.kept import Kept
from tests.sim.plans import Plan, make_plan
from tests.sim.planted import OPTION, PLANTED
from tests.sim.shrinking import shrink


FOLDER = Path(__file__).parent / "found"
"""Short plans that find planted faults: one JSON file for each."""

RUNS = 60
"""Runs in which a plan is made short."""

FEWEST = 12
"""Faults that kept plans have to find: to some of them a changed product gives another meaning."""


def main(arguments: Sequence[str]) -> int:
    """Look for planted faults; 1 when one is not found."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim find", description=__doc__)
    parser.add_argument("faults", nargs="*", help=f"some of {', '.join(PLANTED)}; default: all")
    parser.add_argument("--seeds", type=int, default=200, help="how many are tried")
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--kept", action="store_true", help="run the plans that are kept alone")
    given = parser.parse_args(arguments)
    names = given.faults or list(PLANTED)
    with Pool(given.jobs) as pool:
        if given.kept:
            found = [name for name in names if _found_again(name, pool)]
            print(f"{len(found)} of {len(names)} are found")
            return 0 if len(found) >= min(FEWEST, len(names)) else 1
        return 1 if [name for name in names if not _search(name, pool, given)] else 0


def _found_again(name: str, pool: Pool) -> bool:
    """Whether there is a kept plan of a fault, and it still finds it."""
    path = FOLDER / f"{name}.json"
    if not path.exists():
        print(f"{name}: no plan is kept")
        return False
    found = pool.run(msgspec.json.decode(path.read_bytes(), type=Kept).plan)
    print(f"{name}: {(found.violations or ['not found'])[0]}")
    return bool(found.violations)


def _search(name: str, pool: Pool, given: argparse.Namespace) -> bool:
    begun = entropy.real_monotonic()
    scenario = SCENARIOS[PLANTED[name].scenario]
    runs = itertools.count()

    def fails(plan: Plan) -> bool:
        next(runs)
        # What is found in the whole product, too, is another fault than the planted one.
        return bool(pool.run(plan).violations) and not pool.run(_whole(plan)).violations

    plan = None
    for number in range(given.first, given.first + given.seeds):
        made = make_plan(scenario.name, str(number), scenario.operations, scenario.faults)
        if fails(_planted(made, name)):
            plan = _planted(made, name)
            break
    if plan is None:
        print(f"{name}: not found in {given.seeds} seeds", flush=True)
        return False
    seconds = entropy.real_monotonic() - begun
    print(f"{name}: seed {plan.seed}, {seconds:.0f} s", flush=True)
    plan = shrink(plan, fails, most=RUNS)
    shows = pool.run(plan).violations[0]
    FOLDER.mkdir(exist_ok=True)
    text = msgspec.json.encode(Kept(shows=shows, plan=plan))
    (FOLDER / f"{name}.json").write_bytes(msgspec.json.format(text, indent=1) + b"\n")
    print(f"{name}: {next(runs)} runs: {[step.kind for step in plan.steps]}: {shows}", flush=True)
    return True


def _whole(plan: Plan) -> Plan:
    return msgspec.structs.replace(plan, options={})


def _planted(plan: Plan, name: str) -> Plan:
    return msgspec.structs.replace(plan, options={**plan.options, OPTION: name})
