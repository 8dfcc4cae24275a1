"""The examples of the library run, and say what they are for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


EXAMPLES = Path(__file__).parents[3] / "examples" / "08-binding-library"
EXPECTED = {
    "objects_in_memory.py": [
        "CollectionReady True DataCollected",
        "InjectionReady True ApplicationUpdated",
        "Ready True ApplicationsBound",
        "ServiceAvailable True ResolvedBindingSecret",
        "Deployment shop/orders mounts /bindings/db",
    ],
    "own_handler.py": [
        "complete postgresql://a%20b:a%20b@db.example/a%20b",
        "lacking no username, password, host, database for the URI yet",
    ],
    "own_context.py": [
        "orders bound",
        "missing no process is named missing",
        "files: /run/bindings/db/host /run/bindings/db/type",
        "orders unbound",
        "files:",
    ],
}


@pytest.mark.parametrize("file", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_an_example_prints_what_it_shows(file: str) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / file], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(done.stdout.splitlines()) == sorted(EXPECTED[file])
