"""``python -m hack.landing``: run a landing, or say what it would run."""

from __future__ import annotations

import argparse
import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from hack.landing.contents import File, digest, git, is_clean, key_of, tracked
from hack.landing.record import Record, folder
from hack.landing.running import Outcome, Share, run
from hack.landing.table import (
    LIMIT_MINUTES,
    PARTS,
    SEEDS,
    SIMULATED,
    TENTHS,
    WHOLE_MINUTES,
    Part,
)


ROOT = Path(__file__).parents[2]
BEGUN = "FAIRLEAD_LANDING_BEGUN"
"""Environment variable with the second at which ``.ci/run`` began."""
SIDE_BY_SIDE = ("lint", "types", "site")
"""Parts of one process each, which run beside one another."""


class Landing:
    """One landing of a checkout: what has passed of its parts, and what comes of the rest."""

    def __init__(self, *, whole: bool) -> None:
        self.begun = float(os.environ.get(BEGUN) or time.time())
        self.record = Record(folder())
        self.files = tracked(ROOT)
        self.clean = is_clean(ROOT)
        self.commit = git(ROOT, "rev-parse", "--short", "HEAD").strip()
        self.tree = git(ROOT, "rev-parse", "HEAD^{tree}").strip() or "unknown"
        self.number = self.record.number(self.tree)
        self.wide = digest(self.files, SIMULATED)
        changed = not (self.clean and self.record.passed(self.wide))
        self.share = Share(self.number, SEEDS[1] if changed else SEEDS[0])
        self.all = whole
        self.outcomes: list[Outcome] = []

    @property
    def _copied(self) -> list[File] | None:
        return self.files if self.clean else None

    def key(self, part: Part, share: Share) -> str:
        """The key of a part with a share of its rows; "" where nothing is recorded."""
        if part.always or not self.clean:
            return ""
        return key_of(part, self.files, ROOT, share.key(part))

    def state(self, part: Part) -> str:
        """What a landing does with a part."""
        if part.repeats and not self.all:
            return "in the whole suite alone"
        key = "" if self.all else self.key(part, self.share)
        commit = self.record.passed(key) if key else ""
        if commit:
            return f"passed before with the same content ({commit})"
        if part.name == "simulation":
            return f"a share: {self.share.seeds} fixed seeds"
        if part.equal:
            return f"a share: tenth {self.number % TENTHS}"
        return "a share: all but rows that repeat others" if part.name == "apiserver" else "run"

    def plan(self) -> None:
        """Print what runs, part by part."""
        kind = "the whole suite" if self.all else "a landing"
        print(f"{kind} of {self.commit}, with {self.number} green ones before it on this machine")
        if not self.clean:
            print("the checkout has changes that are not committed: nothing of this is recorded")
        for part in PARTS:
            print(f"  {part.name:<11}{self.state(part):<52}  {part.title}")
        print(flush=True)

    def run(self) -> None:
        """Run what a landing runs."""
        parts = [
            part
            for part in PARTS
            if not part.repeats and not self.state(part).startswith("passed")
        ]
        beside = [part for part in parts if part.name in SIDE_BY_SIDE]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for outcome, text in pool.map(_aside, beside):
                print(f"== {outcome.part}\n{text}", flush=True)
                self.outcomes.append(outcome)
        for part in parts:
            if part not in beside:
                self.run_part(part, self.share)

    def run_rest(self) -> None:
        """Run what a landing leaves to the whole suite, and what it has not run again."""
        done = {outcome.part for outcome in self.outcomes}
        for part in PARTS:
            if part.name not in done:
                self.run_part(part, self.share)
            if part.name == "simulation" or part.equal or part.name == "apiserver":
                self.run_part(part, self.share._replace(rest=True))

    def run_part(self, part: Part, share: Share) -> None:
        """Run one part and note it when it has passed."""
        print(f"== {part.name}{' (the rest)' if share.rest else ''}", flush=True)
        # A checkout that is changed while it is tested proves nothing.
        key = self.key(part, share)
        outcome = run(part, share, ROOT, self._copied)
        self.outcomes.append(outcome)
        if outcome.proves and key and is_clean(ROOT):
            self.record.add(key, self.commit, part.name)
            if part.name == "simulation" and share.seeds == SEEDS[1] and not share.rest:
                self.record.add(self.wide, self.commit, part.name)

    @property
    def failed(self) -> bool:
        """Whether a part has failed."""
        return any(not outcome.passed for outcome in self.outcomes)

    @property
    def minutes_left(self) -> float:
        """Minutes until a landing is stopped."""
        return LIMIT_MINUTES - (time.time() - self.begun) / 60

    def end(self) -> int:
        """Print what came of all parts; 1 when one failed."""
        print(f"\n{'part':<12}{'':<8}{'seconds':>8}{'tests':>7}")
        for outcome in self.outcomes:
            word = "passed" if outcome.passed else "FAILED"
            tests = "" if outcome.ran is None else str(outcome.ran)
            print(f"{outcome.part:<12}{word:<8}{outcome.seconds:>8.0f}{tests:>7}")
            for reason in outcome.lacking:
                print(f"{'':<12}not recorded: {reason}")
        print(f"{(time.time() - self.begun) / 60:.1f} minutes")
        if not self.failed and self.clean and is_clean(ROOT):
            self.record.land(self.tree, self.commit, self.number)
        return 1 if self.failed else 0


def _aside(part: Part) -> tuple[Outcome, str]:
    """Run a part that is one process, and give back what it prints."""
    begun = time.monotonic()
    done = subprocess.run(
        ["make", *part.targets],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return Outcome(part.name, time.monotonic() - begun, not done.returncode), done.stdout


def main() -> int:
    """Run a landing, or the whole suite."""
    parser = argparse.ArgumentParser(prog="python -m hack.landing", description=__doc__)
    parser.add_argument("--whole", action="store_true", help="run everything")
    parser.add_argument("--plan", action="store_true", help="say what would run, and run nothing")
    parser.add_argument("parts", nargs="*", help="these parts alone, which is no landing")
    given = parser.parse_args()
    landing = Landing(whole=given.whole)
    if given.parts:
        for part in PARTS:
            if part.name in given.parts:
                landing.run_part(part, landing.share)
        landing.clean = False
        return landing.end()
    landing.plan()
    if given.plan:
        return 0
    begins_whole = landing.record.whole_is_due
    if begins_whole and not given.whole:
        print("an earlier landing had no time for the whole suite: this one begins with it")
        landing.all = True
        landing.record.begin_whole()
    landing.run()
    if landing.all:
        landing.run_rest()
    elif landing.number and landing.number % TENTHS == 0 and not landing.failed:
        if landing.minutes_left < WHOLE_MINUTES:
            print(
                f"{landing.minutes_left:.0f} of {LIMIT_MINUTES} minutes are left: the whole suite "
                "does not begin, and the next landing begins with it"
            )
            landing.record.put_off_whole()
        else:
            landing.run_rest()
    return landing.end()


if __name__ == "__main__":
    raise SystemExit(main())
