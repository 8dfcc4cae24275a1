"""hack/interop with our own programs in the place of the original's, by scripts that translate."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hack.interop.browser import NAME, PASSWORD


ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.extended
FAIRLEAD = f"{sys.executable} -m fairlead"

KONNECTOR = f'exec {FAIRLEAD} konnector run "$@"'
KONNECTOR_V2 = f'exec {FAIRLEAD} konnector run --protocols v2 --leader-elect=false "$@"'
# Ours has no front end that could be turned off, and its front door is a program of its own, which
# is told by files and roles who may come.
BACKEND = f"""
import asyncio, json, os, pathlib, signal, subprocess, sys
from fairlead.api.resource import CLUSTERROLEBINDINGS, CLUSTERROLES
from fairlead.client import Client, load_config
from fairlead.portal.identity.embedded.passwords import PasswordHash

OURS = [sys.executable, "-m", "fairlead", "provider"]
words = [word for word in sys.argv[1:] if word != "--frontend-disabled"]
flags = dict(zip(words[::2], words[1::2]))
both = {{"--consumer-scope", "--isolation", "--namespace-prefix", "--external-address"}}
run = [*OURS, "run", *(word for name in both & flags.keys() for word in (name, flags[name]))]
if len(words) < len(sys.argv[1:]):
    os.execv(run[0], run)

people = pathlib.Path(os.environ["HOME"], "people.json")
person = {{"name": {NAME!r}, "password": PasswordHash.of({PASSWORD!r}).line}}
people.write_text(json.dumps({{"people": [person]}}))
group = "rbac.authorization.k8s.io"
named = {{"metadata": {{"name": "bind"}}}}
rule = {{"apiGroups": ["kube-bind.io"], "resources": ["*"], "verbs": ["bind"]}}
subject = {{"apiGroup": group, "kind": "User", "name": "oidc:" + {NAME!r}}}
role = {{"apiGroup": group, "kind": "ClusterRole", "name": "bind"}}

async def let_in():
    async with Client(load_config()) as client:
        await client.create(CLUSTERROLES, named | {{"rules": [rule]}})
        await client.create(
            CLUSTERROLEBINDINGS, named | {{"roleRef": role, "subjects": [subject]}}
        )

asyncio.run(let_in())
serve = [*OURS, "serve", "--namespace", "default", "--oidc-people-file", str(people)]
serve += (word for name in flags.keys() - both for word in (name, flags[name]))
children = [subprocess.Popen(run), subprocess.Popen(serve)]
signal.signal(signal.SIGTERM, lambda *_: [child.terminate() for child in children])
sys.exit(max(child.wait() for child in children))
"""
KUBECTL_BIND = """
from fairlead.cli.frontdoor.kubectl_bind import main
main(prog_name="kubectl bind")
"""


def script(path: Path, body: str, *, shell: str = "/bin/sh") -> str:
    path.write_text(f"#!{shell}\n{body}\n")
    path.chmod(0o755)
    return str(path)


def interop(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    kept = {
        key: os.environ[key]
        for key in ("PATH", "HOME", "TMPDIR", "PYTHONPATH")
        if key in os.environ
    }
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
    first, second, third, _ = done.stderr.splitlines()
    assert first == f"KONNECTOR={tmp_path} is no program"
    assert second.startswith("KUBECTL_BIND is not set")
    assert third.startswith("KONNECTOR_V2 is not set")


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
        pytest.param("backend", "BACKEND", BACKEND, ["backend", "backend door"], id="backend"),
        pytest.param(
            "cli",
            "KUBECTL_BIND",
            KUBECTL_BIND,
            ["cli deploy", "cli apiservice", "cli door"],
            id="cli",
        ),
    ],
)
def test_our_own_programs_pass_in_place_of_the_originals(
    tmp_path: Path, part: str, variable: str, body: str, runs: list[str]
) -> None:
    shell = "/bin/sh" if part == "konnector" else sys.executable
    program = script(tmp_path / variable, body, shell=shell)
    done = interop(
        *("--part", part, "--scope", "namespaced", "--isolation", "prefixed"),
        *("--kind", "namespaced", "--json", "--verbose", "--keep", str(tmp_path)),
        *("--record", str(tmp_path)),
        **{variable: program},
    )
    lines = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert [line["run"] for line in lines] == runs
    for line in lines:
        assert line["problem"] == ""
        assert len(line["outcomes"]) > 10
    for name in runs:
        if name.endswith("door"):
            kept = (tmp_path / f"{name.replace(' ', '-')}.jsonl").read_text()
            assert '"path": "/api/bind"' in kept
            assert "127.0.0.1:" not in kept.replace("127.0.0.1:<port>", "")


def test_our_own_konnector_passes_in_place_of_the_originals_of_kbind_v2(tmp_path: Path) -> None:
    program = script(tmp_path / "konnector", KONNECTOR_V2)
    done = interop("--part", "kbind", "--json", "--verbose", KONNECTOR_V2=program)
    assert done.returncode == 0, done.stderr
    runs = {line["run"]: len(line["outcomes"]) for line in json.loads(done.stdout)}
    assert runs == {
        "kbind original after ours": 3,
        "kbind ours after original": 3,
        "kbind beside": 2,
    }
