"""The command line: which parts, on which planes, in which combinations."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import hack.interop
import msgspec
import structlog
from hack.interop.checks import Outcome
from hack.interop.programs import PARTS, ProgramError, missing
from hack.interop.recorder import Recording
from hack.interop.runs import RUNS
from hack.interop.world import Setting, World
from tests.support.realplane import missing_assets

from fairlead.api.kbind.names import LEASE_SECONDS
from fairlead.client import ClientError


_SCOPES = ("namespaced", "cluster")
_KINDS = ("namespaced", "cluster-scoped")
_ISOLATIONS = ("prefixed", "none", "namespaced")


class Line(msgspec.Struct, frozen=True):
    """What came of one run; ``problem`` says why there are no checks, "" if there are."""

    run: str
    setting: Setting
    outcomes: list[Outcome]
    problem: str = ""

    @property
    def passed(self) -> int:
        """How many checks hold."""
        return sum(1 for outcome in self.outcomes if not outcome.problem)

    @property
    def ok(self) -> bool:
        """Whether all hold."""
        return not self.problem and self.passed == len(self.outcomes)

    def text(self) -> str:
        """For people."""
        failed = [outcome.check for outcome in self.outcomes if outcome.problem]
        told = self.problem or ", ".join(failed) or "-"
        return f"{self.setting.title(self.run)}: {self.passed} of {len(self.outcomes)}; {told}"


def main() -> int:
    """Run what was asked for: 0 all holds, 1 something does not, 2 something is missing."""
    chosen = _arguments()
    lacking = missing(chosen.part or list(PARTS), os.environ)
    if chosen.plane == "real" and (why := missing_assets()):
        lacking.append(why)
    if lacking:
        for line in lacking:
            print(line, file=sys.stderr)
        print("see hack/interop/__init__.py; --part runs a part alone", file=sys.stderr)
        return 2
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    lines = asyncio.run(_all(chosen))
    if chosen.json:
        print(json.dumps([msgspec.to_builtins(line) for line in lines], indent=2))
    return 0 if all(line.ok for line in lines) else 1


async def _all(chosen: argparse.Namespace) -> list[Line]:
    lines = []
    for setting in _settings(chosen):
        for name, run in RUNS[setting.part].items():
            line = await _one(name, run, setting, chosen)
            print(line.text(), file=sys.stderr, flush=True)
            if chosen.verbose:
                for outcome in line.outcomes:
                    if outcome.problem:
                        print(f"  {outcome.check}: {outcome.problem}", file=sys.stderr)
            lines.append(line)
    return lines


async def _one(
    name: str, run: hack.interop.runs.Run, setting: Setting, chosen: argparse.Namespace
) -> Line:
    folder = Path(tempfile.mkdtemp(prefix="interop-", dir=chosen.keep or None))
    file = Path(chosen.record, f"{name.replace(' ', '-')}.jsonl")
    record = Recording(file) if chosen.record else None
    outcomes: list[Outcome] = []
    try:
        async with AsyncExitStack() as stack:
            world = World(setting, stack, folder, record)
            await world.start()
            outcomes = await run(world)
    except (ProgramError, ClientError, TimeoutError) as error:
        return Line(name, setting, outcomes, f"{type(error).__name__}: {error}")
    return Line(name, setting, outcomes)


def _settings(chosen: argparse.Namespace) -> Iterator[Setting]:
    for part in chosen.part or PARTS:
        if part == "kbind":
            # A provider of kbind v2 has no options, and names are the same on both sides.
            setting = _setting(chosen, part, "cluster", "none", namespaced=True)
            # Ours stands back for the duration of a Lease after another konnector.
            patience = max(chosen.timeout, 2.0 * LEASE_SECONDS)
            yield msgspec.structs.replace(setting, timeout=patience)
            continue
        for scope in chosen.scope or _SCOPES:
            for isolation in chosen.isolation or _ISOLATIONS:
                for namespaced in (kind == "namespaced" for kind in chosen.kind or _KINDS):
                    if not namespaced and isolation == "namespaced":
                        # Nothing keeps cluster-scoped objects apart by namespaces.
                        continue
                    yield _setting(chosen, part, scope, isolation, namespaced=namespaced)


def _setting(
    chosen: argparse.Namespace, part: str, scope: str, isolation: str, *, namespaced: bool
) -> Setting:
    return Setting(
        part=part,
        scope=scope,
        isolation=isolation,
        namespaced=namespaced,
        plane=chosen.plane,
        original_konnectors=chosen.original_konnectors,
        timeout=chosen.timeout,
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "hack.interop",
        description=hack.interop.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--part", action="append", choices=PARTS, help="default: all")
    parser.add_argument("--plane", choices=("sandbox", "real"), default="sandbox")
    parser.add_argument("--scope", action="append", choices=_SCOPES, help="default: both")
    parser.add_argument("--isolation", action="append", choices=_ISOLATIONS, help="default: all")
    parser.add_argument("--kind", action="append", choices=_KINDS, help="default: both")
    parser.add_argument(
        "--original-konnectors", action="store_true", help="start our provider with it"
    )
    parser.add_argument("--timeout", type=float, default=30.0, help="seconds for one check")
    parser.add_argument("--keep", default="", metavar="DIR", help="where logs are left")
    parser.add_argument(
        "--record", default="", metavar="DIR", help="where what is said at front doors is kept"
    )
    parser.add_argument("--verbose", action="store_true", help="say why a check failed")
    parser.add_argument("--json", action="store_true", help="print all outcomes, as JSON")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
