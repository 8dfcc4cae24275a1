"""hack/clients/build, with stand-ins for the programs that it builds by."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from tests.support.waiting import SECONDS


FOLDER = Path(__file__).parents[3] / "hack" / "clients"
NEEDED = ("bash", "env", "dirname", "cat", "sha256sum", "cut", "mkdir", "flock", "rm", "mv", "cp")


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A PATH with the shell's own needs and nothing to build with."""
    folder = tmp_path / "tools"
    folder.mkdir()
    for name in NEEDED:
        places = (Path(place, name) for place in ("/usr/bin", "/bin"))
        (folder / name).symlink_to(next(place for place in places if place.exists()))
    # Go is looked for outside of PATH, too.
    stand_in(folder, "go", "exit 1")
    return folder


def stand_in(folder: Path, name: str, body: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/bash\n{body}\n")
    path.chmod(0o755)


def build(tools: Path, tmp_path: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(FOLDER / "build")],
        env={"PATH": str(tools), "HOME": str(tmp_path), **environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )


def built(done: subprocess.CompletedProcess[str]) -> set[str]:
    return {path.name for path in Path(done.stdout.strip()).iterdir() if path.is_dir()}


def test_the_given_folder_is_taken_if_it_is_one(tools: Path, tmp_path: Path) -> None:
    done = build(tools, tmp_path, FAIRLEAD_CLIENTS=str(tmp_path))
    assert (done.returncode, done.stdout) == (0, f"{tmp_path}\n")
    done = build(tools, tmp_path, FAIRLEAD_CLIENTS=str(tmp_path / "absent"))
    assert done.returncode == 1
    assert "absent is no folder; correct or unset it" in done.stderr


def test_a_client_that_cannot_be_built_is_left_out(tools: Path, tmp_path: Path) -> None:
    stand_in(tools, "node", "")
    stand_in(tools, "npm", "echo half > left; exit 1")
    done = build(tools, tmp_path)
    assert done.returncode == 0
    assert "building pgx failed, it is left out" in done.stderr
    assert "building node failed, it is left out" in done.stderr
    assert "there is no java: java is left out" in done.stderr
    assert built(done) == set()


def test_jars_of_another_content_are_refused(tools: Path, tmp_path: Path) -> None:
    stand_in(tools, "java", "")
    stand_in(tools, "javac", "")
    stand_in(tools, "mvn", 'for word; do folder="${word#*=}"; done; echo > "$folder/other.jar"')
    done = build(tools, tmp_path)
    assert "building java failed, it is left out" in done.stderr
    assert "java" not in built(done)


def test_an_earlier_build_is_taken_until_its_sources_change(tools: Path, tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    stand_in(tools, "go", f'echo "$@" >> {calls}')
    first = build(tools, tmp_path)
    assert built(first) == {"pgx"}
    assert build(tools, tmp_path).stdout == first.stdout
    assert len(calls.read_text().splitlines()) == 1


def test_no_file_names_a_registry() -> None:
    lock = json.loads((FOLDER / "node" / "package-lock.json").read_text())
    packages = {name: body for name, body in lock["packages"].items() if name}
    assert packages
    assert all(body["integrity"] and "resolved" not in body for body in packages.values())
