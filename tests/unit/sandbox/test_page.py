"""docs/reference/sandbox.md: what it tells of arguments, faults and controllers is true, and its
examples run."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hack.reference.sandbox import CONTROLLERS
from tests.support.image import ROOT
from tests.support.waiting import SECONDS

from fairlead_sandbox import Faults, Sandbox
from fairlead_sandbox.controllers.reactor import Reactor


PAGE = (ROOT / "docs" / "reference" / "sandbox.md").read_text()
IMPORTS = """\
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fairlead.client import Client, load_config
from fairlead.api.resource import NAMESPACES
from fairlead_sandbox import Sandbox


"""
USE = """

async def test_it(kubeconfig: Path) -> None:
    async with Client(load_config(str(kubeconfig))) as client:
        assert (await client.get(NAMESPACES, "default")).meta.name == "default"
"""


def first_cells(head: str) -> list[str]:
    """The first column of the table that has this head."""
    rows = PAGE.partition(f"| {head} |")[2].partition("\n\n")[0].splitlines()[2:]
    return [row.split("|")[1].strip() for row in rows]


def example(after: str) -> str:
    return PAGE.partition(after)[2].partition("```python\n")[2].partition("```")[0]


def test_the_page_has_each_argument_of_a_sandbox() -> None:
    told = [cell.strip("`") for cell in first_cells("argument of `Sandbox`")]
    assert told == list(inspect.signature(Sandbox).parameters)


def test_the_page_has_the_methods_of_faults_with_their_arguments() -> None:
    for name, given in re.findall(
        r"`(\w+)\(([^)]*)\)`", " ".join(first_cells("method of `Faults`"))
    ):
        taken = list(inspect.signature(getattr(Faults, name)).parameters)
        assert ["self", *filter(None, given.split(", "))] == taken, name


async def test_the_page_has_each_controller(monkeypatch: pytest.MonkeyPatch) -> None:
    found: set[type] = set()
    add = Reactor.add

    def noted(self: Reactor, controller: object) -> None:
        found.add(type(controller))
        add(self, controller)  # type: ignore[arg-type]

    monkeypatch.setattr(Reactor, "add", noted)
    async with Sandbox():
        assert found == CONTROLLERS.keys()


@pytest.mark.parametrize(
    ("text", "command"),
    [
        pytest.param(example("In Python:"), ["example.py"], id="program"),
        pytest.param(
            IMPORTS + example("As a fixture of pytest") + USE,
            [
                "-m",
                "pytest",
                "-q",
                "-o",
                "asyncio_mode=auto",
                "-p",
                "no:cacheprovider",
                "example.py",
            ],
            id="fixture",
        ),
    ],
)
def test_an_example_runs(tmp_path: Path, text: str, command: list[str]) -> None:
    (tmp_path / "example.py").write_text(text)
    done = subprocess.run(
        [sys.executable, *command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
