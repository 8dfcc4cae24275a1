from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from tests.support.waiting import SECONDS


SCRIPT = Path(__file__).parents[3] / "hack" / "envtest"
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager")


def program(path: Path, body: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/bash\n{body}\n")
    path.chmod(0o755)


def assets(folder: Path, *names: str) -> Path:
    for name in names:
        program(folder / name)
    return folder


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A PATH with bash's own needs and nothing to build with; ``id`` says it is nobody."""
    folder = tmp_path / "tools"
    folder.mkdir()
    for name in ("env", "bash", "grep", "sed", "mkdir", "rm", "chmod", "flock"):
        found = next(
            Path(place, name) for place in ("/usr/bin", "/bin") if Path(place, name).exists()
        )
        (folder / name).symlink_to(found)
    program(folder / "id", "echo 1000")
    program(folder / "apt-get", "exit 1")
    return folder


def run(
    tools: Path, tmp_path: Path, *options: str, **environ: str
) -> subprocess.CompletedProcess[str]:
    given = {"PATH": str(tools), "HOME": str(tmp_path), **environ}
    return subprocess.run(
        [str(SCRIPT), *options],
        env=given,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )


class TestFinds:
    """A control plane that is there is printed, and nothing is built."""

    def test_the_given_folder(self, tools: Path, tmp_path: Path) -> None:
        folder = assets(tmp_path / "given", *PROGRAMS)
        done = run(tools, tmp_path, KUBEBUILDER_ASSETS=str(folder))
        assert (done.returncode, done.stdout) == (0, f"{folder}\n")

    @pytest.mark.parametrize("variable", ["HOME", "XDG_CACHE_HOME"])
    @pytest.mark.parametrize(
        ("options", "folder", "more"),
        [
            pytest.param((), "kubernetes-1.37.2/bin", ("kubectl",), id="today"),
            pytest.param(
                ("--nodes",),
                "kubernetes-1.37.2/bin",
                ("kubectl", "kubelet", "kube-proxy", "kube-scheduler"),
                id="nodes",
            ),
            pytest.param(("--oldest",), "envtest-1.20.2/bin", (), id="oldest"),
        ],
    )
    def test_an_earlier_build(
        self,
        tools: Path,
        tmp_path: Path,
        options: tuple[str, ...],
        folder: str,
        more: tuple[str, ...],
        variable: str,
    ) -> None:
        root = tmp_path / "root"
        below = f".cache/{folder}" if variable == "HOME" else folder
        built = assets(root / below, *PROGRAMS, *more)
        done = run(tools, tmp_path, *options, **{variable: str(root)})
        assert (done.returncode, done.stdout) == (0, f"{built}\n")

    def test_another_version(self, tools: Path, tmp_path: Path) -> None:
        built = assets(tmp_path / ".cache/kubernetes-1.34.4/bin", *PROGRAMS, "kubectl")
        done = run(tools, tmp_path, KUBERNETES_VERSION="1.34.4")
        assert (done.returncode, done.stdout) == (0, f"{built}\n")


class TestRefuses:
    """What is missing is said in one line on stderr, with what to do; stdout stays empty."""

    @pytest.mark.parametrize(
        ("present", "named"),
        [
            pytest.param((), "etcd kube-apiserver kube-controller-manager", id="nothing"),
            pytest.param(PROGRAMS[:2], "lacks kube-controller-manager;", id="one"),
        ],
    )
    def test_an_incomplete_folder(
        self, tools: Path, tmp_path: Path, present: tuple[str, ...], named: str
    ) -> None:
        folder = assets(tmp_path / "given", *present)
        done = run(tools, tmp_path, KUBEBUILDER_ASSETS=str(folder))
        assert (done.returncode, done.stdout) == (1, "")
        assert named in done.stderr
        assert len(done.stderr.splitlines()) == 1

    def test_an_unknown_option(self, tools: Path, tmp_path: Path) -> None:
        done = run(tools, tmp_path, "--newest")
        assert (done.returncode, done.stdout) == (2, "")
        assert "there is no option --newest" in done.stderr

    def test_building_without_modules(self, tools: Path, tmp_path: Path) -> None:
        program(tools / "go", "exit 1")
        done = run(tools, tmp_path)
        assert (done.returncode, done.stdout) == (1, "")
        assert "is the Go module proxy reachable?" in done.stderr
        assert not (tmp_path / ".cache/kubernetes-1.37.2/build").exists()

    def test_building_the_oldest_without_root(self, tools: Path, tmp_path: Path) -> None:
        done = run(tools, tmp_path, "--oldest")
        assert (done.returncode, done.stdout) == (1, "")
        assert "needs root" in done.stderr

    def test_building_the_oldest_without_apt(self, tools: Path, tmp_path: Path) -> None:
        (tools / "apt-get").unlink()
        done = run(tools, tmp_path, "--oldest")
        assert (done.returncode, done.stdout) == (1, "")
        assert "the oldest version is built on Debian" in done.stderr

    def test_building_the_oldest_without_network(self, tools: Path, tmp_path: Path) -> None:
        program(tools / "id", "echo 0")
        done = run(tools, tmp_path, "--oldest")
        assert (done.returncode, done.stdout) == (1, "")
        assert "is the network up?" in done.stderr


def test_is_executable() -> None:
    assert all(
        os.access(SCRIPT.with_name(name), os.X_OK) for name in ("envtest", "envtest-oldest")
    )
