from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from hack.image.python import BuildError
from hack.releasing.checking import RefusedError, check, section
from hack.releasing.making import Made, make
from hack.releasing.pushing import _loopback, chart_digest, push
from hack.releasing.signing import KEY, PASSPHRASE, signing


CHANGELOG = """# Changelog

## Unreleased

### Added

- Something new.

## 0.2.0 - 2026-11-26

### Added

- The main job.

## 0.1.0

## [0.0.1] - 2025-01-01

- First.
"""


HELM = "application/vnd.cncf.helm.chart"
CHART = {"mediaType": f"{HELM}.content.v1.tar+gzip", "digest": "sha256:c"}
SIGNATURE = {"mediaType": f"{HELM}.provenance.v1.prov", "digest": "sha256:9"}


def git(folder: Path, *arguments: str) -> None:
    author = ("-c", "user.name=Tests", "-c", "user.email=tests@example.org")
    subprocess.run(["git", *author, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    write(folder, "pyproject.toml", '[project]\nversion = "0.2.0"\n')
    write(folder, "CHANGELOG.md", CHANGELOG)
    write(folder, "charts/fairlead/Chart.yaml", "version: 0.2.0\nappVersion: 0.2.0\n")
    git(folder, "init", "--quiet")
    commit(folder)
    return folder


def write(folder: Path, name: str, text: str) -> None:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def commit(folder: Path) -> None:
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "a change")


@pytest.mark.parametrize(
    ("version", "text"),
    [
        ("0.2.0", "### Added\n\n- The main job."),
        ("0.1.0", ""),
        ("0.0.1", "- First."),
        ("0.2", ""),
        ("3.0.0", ""),
    ],
)
def test_the_changelog_has_a_section_for_each_version(version: str, text: str) -> None:
    assert section(CHANGELOG, version) == text


def test_a_commit_that_has_all_is_released(repository: Path) -> None:
    found = check(repository)
    assert (found.version, found.changes) == ("0.2.0", "### Added\n\n- The main job.")
    # As where it is made from a tag.
    git(repository, "tag", "--annotate", "--message", "0.2.0", "v0.2.0")
    assert check(repository) == found


def test_a_development_version_is_refused(repository: Path) -> None:
    write(repository, "pyproject.toml", '[project]\nversion = "0.2.0.dev1"\n')
    commit(repository)
    with pytest.raises(RefusedError, match=r"project\.version 0\.2\.0\.dev1 is no release's"):
        check(repository)


@pytest.mark.parametrize("name", ["CHANGELOG.md", "new.py"])
def test_a_dirty_tree_is_refused(repository: Path, name: str) -> None:
    write(repository, name, "changed")
    with pytest.raises(RefusedError, match=rf"the tree has 1 changes, such as {name}: commit"):
        check(repository)


def test_a_version_that_is_another_commit_is_refused(repository: Path) -> None:
    git(repository, "tag", "v0.2.0")
    write(repository, "new.py", "")
    commit(repository)
    with pytest.raises(RefusedError, match=r"version 0\.2\.0 exists: tag v0\.2\.0 is another"):
        check(repository)


def test_a_chart_of_another_version_is_refused(repository: Path) -> None:
    write(repository, "charts/fairlead/Chart.yaml", "appVersion: 0.1.0\n")
    commit(repository)
    with pytest.raises(RefusedError, match=r"Chart\.yaml is of 0\.1\.0, not of 0\.2\.0: python"):
        check(repository)


@pytest.mark.parametrize("heading", ["## Unreleased", "## 0.2.1", "## 0.2.0 - soon"])
def test_a_missing_section_is_refused(repository: Path, heading: str) -> None:
    text = CHANGELOG.replace("## 0.2.0 - 2026-11-26", heading)
    write(repository, "CHANGELOG.md", text)
    commit(repository)
    with pytest.raises(RefusedError, match=r"has no section 0\.2\.0 with any change"):
        check(repository)


def test_a_chart_needs_a_key_unless_it_is_said(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(KEY, raising=False)
    with pytest.raises(RefusedError, match=f"set {KEY} to a private key .* or say --unsigned"):
        make(repository, check(repository), tmp_path / "dist", sign=True)
    assert not list((tmp_path / "dist").glob("*fairlead*"))


def test_a_key_that_is_none_is_said_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, "not a key at all")
    monkeypatch.setenv(PASSPHRASE, "secret words")
    with pytest.raises(RefusedError) as caught, signing():
        pass
    assert KEY in str(caught.value)
    assert "not a key" not in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_release_of_another_commit_is_not_replaced(repository: Path, tmp_path: Path) -> None:
    write(tmp_path, "dist/fairlead-0.2.0/release.json", '{"commit": "0123456789abcdef"}')
    with pytest.raises(RefusedError, match=r"0\.2\.0 exists: .* is of commit 0123456789ab;"):
        make(repository, check(repository), tmp_path / "dist", sign=False)


def test_a_release_that_was_changed_is_not_taken(repository: Path, tmp_path: Path) -> None:
    release = check(repository)
    write(tmp_path, "dist/fairlead-0.2.0/release.json", f'{{"commit": "{release.commit}"}}')
    write(tmp_path, "dist/fairlead-0.2.0/SHA256SUMS", "of other files\n")
    with pytest.raises(RefusedError, match="files are not those of SHA256SUMS"):
        make(repository, release, tmp_path / "dist", sign=False)


@pytest.fixture
def made(tmp_path: Path) -> Made:
    write(tmp_path, "release/fairlead-0.2.0.tgz", "chart")
    write(tmp_path, "release/fairlead-0.2.0-image-amd64.tar", "image")
    return Made(tmp_path / "release", {"version": "0.2.0", "image": "sha256:ours"})


def crane(tmp_path: Path, body: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A registry that answers so; what is asked is written down."""
    file, calls = tmp_path / "crane", tmp_path / "calls"
    file.write_text(f'#!/bin/sh\necho "$@" >> {calls}\n{body}\n')
    file.chmod(0o755)
    monkeypatch.setenv("FAIRLEAD_CRANE", str(file))
    return calls


def test_a_version_that_a_registry_has_is_not_replaced(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = crane(tmp_path, "echo sha256:theirs", monkeypatch)
    with pytest.raises(RefusedError, match=r"fairlead:0\.2\.0 is sha256:theirs, and this is"):
        push(made, "registry.example.com")
    assert calls.read_text() == "digest registry.example.com/fairlead:0.2.0\n"


def test_nothing_is_pushed_if_the_chart_is_another(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = json.dumps({"layers": [{**CHART, "digest": "sha256:theirs"}]})
    body = f"""[ "$1" = digest ] && {{ echo "404 Not Found" >&2; exit 1; }}
echo '{manifest}'"""
    calls = crane(tmp_path, body, monkeypatch)
    with pytest.raises(RefusedError, match=r"charts/fairlead:0\.2\.0 is sha256:theirs"):
        push(made, "registry.example.com/team")
    assert "push" not in calls.read_text()


def test_a_registry_that_does_not_answer_is_said(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crane(tmp_path, "echo 'Error: connection refused' >&2; exit 1", monkeypatch)
    with pytest.raises(RefusedError, match=r"fairlead:0\.2\.0: Error: connection refused"):
        push(made, "registry.example.com")


@pytest.mark.parametrize(
    ("registry", "loopback"),
    [
        ("127.0.0.1:5000/team", True),
        ("localhost:5000", True),
        ("[::1]:5000", True),
        ("registry.example.com", False),
        ("10.0.0.1:5000", False),
    ],
)
def test_loopback_alone_is_spoken_to_without_tls(registry: str, loopback: bool) -> None:
    assert _loopback(registry) is loopback


def test_a_step_that_fails_is_named(repository: Path, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"^python\S* failed: "):
        make(repository, check(repository), tmp_path / "dist", sign=False)
    assert not (tmp_path / "dist/fairlead-0.2.0").exists()


@pytest.mark.parametrize(
    ("layers", "digest"),
    [
        pytest.param([CHART], "sha256:c", id="unsigned"),
        pytest.param([CHART, SIGNATURE], "sha256:c", id="before its signature"),
        pytest.param([SIGNATURE, CHART], "sha256:c", id="after its signature"),
        pytest.param([SIGNATURE], "no chart", id="a signature alone"),
        pytest.param([], "no chart", id="nothing"),
    ],
)
def test_a_chart_is_found_among_the_layers(layers: list[dict[str, str]], digest: str) -> None:
    assert chart_digest(json.dumps({"layers": layers})) == digest
