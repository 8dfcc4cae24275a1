from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from tests.support.waiting import SECONDS


SCRIPT = Path(__file__).parents[3] / "hack" / "helm"
PINNED = dict(re.findall(r"^readonly (\w+)=(\S+)$", SCRIPT.read_text(), re.MULTILINE))
VERSIONS = f"{PINNED['helm']}-{PINNED['score']}"
PROGRAMS = ("helm", "kube-score")


def program(path: Path, body: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/bash\n{body}\n")
    path.chmod(0o755)


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A PATH with bash's own needs and nothing to build with."""
    folder = tmp_path / "tools"
    folder.mkdir()
    for name in ("env", "bash", "mkdir", "flock", "rm", "mv", "ln", "readlink"):
        found = next(
            Path(place, name) for place in ("/usr/bin", "/bin") if Path(place, name).exists()
        )
        (folder / name).symlink_to(found)
    return folder


def run(tools: Path, tmp_path: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    given = {"PATH": str(tools), "HOME": str(tmp_path), **environ}
    return subprocess.run(
        [str(SCRIPT)], env=given, capture_output=True, text=True, check=False, timeout=SECONDS
    )


def test_the_given_folder_is_taken(tools: Path, tmp_path: Path) -> None:
    folder = tmp_path / "given"
    for name in PROGRAMS:
        program(folder / name)
    done = run(tools, tmp_path, FAIRLEAD_HELM=str(folder))
    assert (done.returncode, done.stdout) == (0, f"{folder}\n")


def test_a_given_folder_has_to_have_both(tools: Path, tmp_path: Path) -> None:
    program(tmp_path / "given" / "helm")
    done = run(tools, tmp_path, FAIRLEAD_HELM=str(tmp_path / "given"))
    assert done.returncode == 1
    assert "lacks kube-score; correct or unset it" in done.stderr


@pytest.mark.parametrize("variable", ["HOME", "XDG_CACHE_HOME"])
def test_an_earlier_build_is_taken(tools: Path, tmp_path: Path, variable: str) -> None:
    root = tmp_path / "root"
    name = f"fairlead-helm-{VERSIONS}"
    folder = root / (f".cache/{name}" if variable == "HOME" else name) / "bin"
    for one in PROGRAMS:
        program(folder / one)
    (folder / "helm4").symlink_to(f"helm-{PINNED['helm4']}")
    done = run(tools, tmp_path, **{variable: str(root)})
    assert (done.returncode, done.stdout) == (0, f"{folder}\n")


def test_what_is_missing_is_built_and_nothing_else(tools: Path, tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    program(
        tools / "go",
        f'echo "$2" >> {calls}; mkdir -p "$GOBIN"; name="${{2##*/}}"; '
        'echo "#!/bin/sh" > "$GOBIN/${name%@*}"; chmod +x "$GOBIN/${name%@*}"',
    )
    (tools / "chmod").symlink_to("/bin/chmod")
    folder = tmp_path / ".cache" / f"fairlead-helm-{VERSIONS}" / "bin"
    program(folder / "helm")
    done = run(tools, tmp_path)
    assert (done.returncode, done.stdout) == (0, f"{folder}\n"), done.stderr
    assert re.fullmatch(
        r"github\.com/zegl/kube-score/\S+@v[\d.]+\nhelm\.sh/helm/v4/\S+@v[\d.]+\n",
        calls.read_text(),
    )
    assert (folder / "helm4").exists()


def test_a_build_that_fails_leaves_nothing_and_says_what_to_look_at(
    tools: Path, tmp_path: Path
) -> None:
    program(tools / "go", "exit 1")
    done = run(tools, tmp_path)
    assert done.returncode == 1
    assert "building helm failed: is the Go module proxy reachable?" in done.stderr
    assert done.stdout == ""
