"""The examples, each run by its one command as a reader runs it."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.image import ROOT
from tests.support.pages import fences_of, printed
from tests.support.waiting import SECONDS


EXAMPLES = sorted((ROOT / "examples").glob("[0-9]*"))
QUICK = {"01-login", "08-binding-library"}
"""Examples that `make test` runs; the others belong to `make matrix`."""
MARK = "FAIRLEAD_EXAMPLE_OF"
"""Variable by which the processes of one run are found."""
ENDED = "everything is stopped and removed"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A reader's environment, with Fairlead on PATH and a kubeconfig that no example may use."""
    ours = str(Path(sys.executable).parent)
    path = os.pathsep.join([ours, os.environ["PATH"]])
    return os.environ | {"PATH": path, "KUBECONFIG": "/nowhere", MARK: str(tmp_path)}


class Run:
    """An example that runs, in a process group as a terminal gives it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.seen = ""

    async def until(self, line: str) -> None:
        """Read until a line has this text."""
        assert self.process.stdout
        async with asyncio.timeout(SECONDS):
            while line not in self.seen:
                more = await self.process.stdout.readline()
                assert more, self.seen
                self.seen += more.decode()

    async def end(self) -> int:
        """Read to the end; return the exit code."""
        assert self.process.stdout
        self.seen += (await self.process.stdout.read()).decode()
        return await self.process.wait()

    def interrupt(self) -> None:
        os.killpg(self.process.pid, signal.SIGINT)


@pytest.fixture
async def started(environment: dict[str, str]) -> AsyncIterator[dict[str, Run]]:
    """Examples that a test has started, which are interrupted in any case."""
    runs: dict[str, Run] = {}
    yield runs
    for run in runs.values():
        if run.process.returncode is None:
            run.interrupt()
            await run.end()


async def start(
    started: dict[str, Run], environment: dict[str, str], name: str, *words: str
) -> Run:
    process = await asyncio.create_subprocess_exec(
        *(str(ROOT / "examples" / name / "run"), *words),
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    run = started[name] = Run(process)
    return run


def left(mark: str) -> list[str]:
    """The commands of processes that a run has left."""
    if not Path("/proc/self/environ").exists():
        return []
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append((folder / "cmdline").read_text())
        except OSError:
            continue
    return found


def names(folder: Path) -> set[str]:
    """The names of the files of a folder, if it is there."""
    return {path.name for path in folder.glob("*")}


async def all_end(mark: str) -> None:
    async with asyncio.timeout(SECONDS):
        while True:
            if not left(mark):
                return
            await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(folder.name, marks=[] if folder.name in QUICK else pytest.mark.extended)
        for folder in EXAMPLES
    ],
)
async def test_an_example_shows_what_its_readme_promises(
    name: str, started: dict[str, Run], environment: dict[str, str]
) -> None:
    run = await start(started, environment, name)
    assert await run.end() == 0, run.seen
    (promise, *_) = [
        fence
        for fence in fences_of(ROOT / "examples" / name / "README.md")
        if fence.language == "text"
    ]
    assert printed(promise.text, run.seen) == "", run.seen
    await all_end(environment[MARK])


@pytest.mark.extended
async def test_ctrl_c_stops_and_removes_everything(
    started: dict[str, Run], environment: dict[str, str]
) -> None:
    run = await start(started, environment, "01-login")
    await run.until("apply -f access.yaml")
    run.interrupt()
    assert await run.end() == 130
    assert run.seen.endswith(f"interrupted; {ENDED}\n")
    await all_end(environment[MARK])


@pytest.mark.extended
async def test_an_example_may_be_kept_running(
    started: dict[str, Run], environment: dict[str, str]
) -> None:
    run = await start(started, environment, "02-binding", "--keep")
    await run.until("; in another terminal: cd ")
    folder = Path(run.seen.strip().rpartition(" ")[2])
    assert "sandbox.kubeconfig" in names(folder)
    run.interrupt()
    assert await run.end() == 0
    assert run.seen.endswith(f"{ENDED}\n")
    assert names(folder) == set()
    await all_end(environment[MARK])


@pytest.mark.extended
async def test_an_example_that_fails_says_so(
    started: dict[str, Run], environment: dict[str, str], tmp_path: Path
) -> None:
    """An access with a grant that the sandbox's database does not have."""
    copy = tmp_path / "examples"
    shutil.copytree(ROOT / "examples", copy, ignore=shutil.ignore_patterns("__pycache__"))
    file = copy / "01-login" / "access.yaml"
    file.write_text(file.read_text().replace("CONNECT, SELECT", "CONNECT, FLY"))
    run = await start(started, environment, str(copy / "01-login"))
    assert await run.end() == 1
    assert "FLY" in run.seen.splitlines()[-1]
    assert run.seen.splitlines()[-1].startswith("  \u2718 ")
    await all_end(environment[MARK])
