# ruff: noqa: ASYNC240  the files are small and local
from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from tests.support import realplane
from tests.support.realplane import PlaneError, RealPlane, missing_assets


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the plane's temporary folder goes."""
    path = tmp_path / "tmp"
    path.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(path))
    return path


def fake(folder: Path, name: str, body: str) -> None:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


async def test_a_program_that_dies_is_quoted(tmp_path: Path, folder: Path) -> None:
    fake(tmp_path / "bin", "etcd", "echo no such option >&2; exit 7")
    with pytest.raises(PlaneError, match=r"(?s)etcd ended with 7.*no such option"):
        await RealPlane(tmp_path / "bin").start()
    assert list(folder.iterdir()) == []


async def test_a_program_that_never_gets_ready_is_killed(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(realplane, "START_TIMEOUT", 0.5)
    fake(tmp_path / "bin", "etcd", f"echo $$ >{tmp_path}/pid; exec sleep 60")
    with pytest.raises(PlaneError, match=r"not ready within 0\.5 s"):
        await RealPlane(tmp_path / "bin").start()
    assert not Path("/proc", (tmp_path / "pid").read_text().strip()).exists()
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("present", "reason"),
    [
        pytest.param(None, "KUBEBUILDER_ASSETS is not set", id="unset"),
        pytest.param([], "lacks etcd, kube-apiserver, kube-controller-manager", id="empty"),
        pytest.param(realplane.PROGRAMS, "", id="complete"),
    ],
)
def test_missing_assets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, present: list[str] | None, reason: str
) -> None:
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    if present is not None:
        monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
        for name in present:
            fake(tmp_path, name, "")
    found = missing_assets()
    assert reason in found
    assert bool(found) == bool(reason)
