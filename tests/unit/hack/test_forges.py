"""The pipelines of the usual forges: what they call is there, and only a tag is released."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml


ROOT = Path(__file__).parents[3]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
GITLAB = ROOT / ".gitlab-ci.yml"
RESERVED = {"workflow", "stages", "default", "variables"}
SECRETS = re.compile(r"secrets\.|FAIRLEAD_SIGNING|packages: write|contents: write")


def loaded(file: Path) -> Any:
    # YAML 1.1 takes the key "on" for true.
    return yaml.load(file.read_text(), Loader=yaml.BaseLoader)


def scripts(file: Path) -> Iterator[tuple[str, str]]:
    """Yield the shell of each step, by the name of its job."""
    if file == GITLAB:
        for name, job in jobs().items():
            yield from ((name, line) for line in job["script"])
        return
    for name, job in loaded(file)["jobs"].items():
        yield from ((name, step["run"]) for step in job["steps"] if "run" in step)


def jobs() -> dict[str, Any]:
    return {name: job for name, job in loaded(GITLAB).items() if name not in RESERVED}


CALLS = [
    pytest.param(script, id=f"{file.name} {job}: {script.splitlines()[0]}")
    for file in (*WORKFLOWS, GITLAB)
    for job, script in scripts(file)
]


@pytest.mark.parametrize("script", CALLS)
def test_what_a_pipeline_calls_is_there(script: str) -> None:
    plain = re.sub(r"\$\{\{.*?\}\}", "expression", script)
    done = subprocess.run(["bash", "-n", "-c", plain], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for line in plain.splitlines():
        program, *words = line.split() or [""]
        if program == "make":
            assert set(words) <= targets
        if program.startswith("hack/"):
            assert os.access(ROOT / program, os.X_OK)


def test_the_pipelines_test_and_release() -> None:
    for files in (WORKFLOWS, [GITLAB]):
        called = "\n".join(script for file in files for _, script in scripts(file))
        for words in ("make lint types", "make test", "make charts", "hack/release-tag"):
            assert words in called
    assert "hack/release --push" in (ROOT / "hack/release-tag").read_text()


def test_only_a_tag_is_released_and_has_secrets() -> None:
    for file in WORKFLOWS:
        workflow = loaded(file)
        is_release = "hack/release-tag" in file.read_text()
        assert ("tags" in workflow["on"].get("push", {})) == is_release
        if is_release:
            assert list(workflow["on"]) == ["push"]
            assert list(workflow["on"]["push"]) == ["tags"]
        else:
            assert not SECRETS.search(file.read_text())
            assert workflow["permissions"] == {"contents": "read"}
        # It runs code of a stranger's change with the secrets of the repository.
        assert "pull_request_target" not in workflow["on"]
        for job in workflow["jobs"].values():
            assert int(job["timeout-minutes"]) <= 90
    for job in jobs().values():
        rules = [rule["if"] for rule in job["rules"]]
        of_tags = [rule for rule in rules if rule == "$CI_COMMIT_TAG =~ /^v/"]
        assert bool(of_tags) == (job["stage"] == "release")
        assert job["stage"] in loaded(GITLAB)["stages"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param((), "usage: hack/release-tag TAG REGISTRY", id="no-tag"),
        pytest.param(("v0.2.0",), "usage: hack/release-tag TAG REGISTRY", id="no-registry"),
        pytest.param(
            ("v99.0.0", "localhost:1/team"), "tag v99.0.0 is not v", id="tag-of-another-version"
        ),
    ],
)
def test_a_tag_of_another_version_is_refused(arguments: tuple[str, ...], message: str) -> None:
    done = subprocess.run(
        [str(ROOT / "hack/release-tag"), *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert message in done.stderr
