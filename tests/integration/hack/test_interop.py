"""hack/interop with our own programs in the place of the original's, by scripts that translate."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.extended
FAIRLEAD = f"{sys.executable} -m fairlead"

KONNECTOR = f'exec {FAIRLEAD} konnector run "$@"'
# Ours has no front end that could be turned off.
BACKEND = f'[ "$1" = --frontend-disabled ] && shift && exec {FAIRLEAD} provider run "$@"'
KUBECTL_BIND = """
import base64, json, pathlib, subprocess, sys
command, flags = sys.argv[1], dict(zip(sys.argv[2:], sys.argv[3:]))
file, kubeconfig = flags["-f"], flags["--kubeconfig"]
if command == "apiservice":
    response = {
        "apiVersion": "kube-bind.io/v1alpha2",
        "kind": "BindingResponse",
        "kubeconfig": base64.b64encode(
            pathlib.Path(flags["--remote-kubeconfig"]).read_bytes()
        ).decode(),
        "requests": [json.loads(pathlib.Path(file).read_text())],
        "providerNamespace": flags["--remote-namespace"],
    }
    file = file + ".response"
    pathlib.Path(file).write_text(json.dumps(response))
assert json.loads(pathlib.Path(flags["--config-file"]).read_text())["current"]
bind = [sys.executable, "-m", "fairlead", "bind", "-f", file, "--kubeconfig", kubeconfig]
print(subprocess.run(bind, capture_output=True, text=True).stderr)
"""


def script(path: Path, body: str, *, shell: str = "/bin/sh") -> str:
    path.write_text(f"#!{shell}\n{body}\n")
    path.chmod(0o755)
    return str(path)


def interop(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    kept = {key: os.environ[key] for key in ("PATH", "HOME", "TMPDIR") if key in os.environ}
    return subprocess.run(
        [sys.executable, "-m", "hack.interop", *arguments],
        cwd=ROOT,
        env=kept | environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_without_the_originals_programs_it_says_what_is_missing(tmp_path: Path) -> None:
    done = interop(KONNECTOR=str(tmp_path), BACKEND=script(tmp_path / "backend", "exit 1"))
    assert (done.returncode, done.stdout) == (2, "")
    first, second, _ = done.stderr.splitlines()
    assert first == f"KONNECTOR={tmp_path} is no program"
    assert second.startswith("KUBECTL_BIND is not set")


def test_a_program_that_ends_is_told_with_its_last_words(tmp_path: Path) -> None:
    broken = script(tmp_path / "konnector", "echo no flag for me; exit 3")
    done = interop(
        *("--part", "konnector", "--scope", "namespaced", "--isolation", "namespaced"),
        *("--timeout", "2", "--keep", str(tmp_path)),
        KONNECTOR=broken,
    )
    assert done.returncode == 1
    assert "no flag for me" in done.stderr
    assert "0 of 0" in done.stderr


@pytest.mark.parametrize(
    ("part", "variable", "body", "runs"),
    [
        pytest.param("konnector", "KONNECTOR", KONNECTOR, ["konnector"], id="konnector"),
        pytest.param("backend", "BACKEND", BACKEND, ["backend"], id="backend"),
        pytest.param(
            "cli", "KUBECTL_BIND", KUBECTL_BIND, ["cli deploy", "cli apiservice"], id="cli"
        ),
    ],
)
def test_our_own_programs_pass_in_place_of_the_originals(
    tmp_path: Path, part: str, variable: str, body: str, runs: list[str]
) -> None:
    shell = sys.executable if part == "cli" else "/bin/sh"
    program = script(tmp_path / variable, body, shell=shell)
    done = interop(
        *("--part", part, "--scope", "namespaced", "--isolation", "prefixed"),
        *("--kind", "namespaced", "--json", "--verbose", "--keep", str(tmp_path)),
        **{variable: program},
    )
    lines = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert [line["run"] for line in lines] == runs
    for line in lines:
        assert line["problem"] == ""
        assert len(line["outcomes"]) > 10
