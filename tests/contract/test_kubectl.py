"""What a person sees of a control plane through kubectl: transcripts that hold on both planes.

The transcripts in ``kubectl/`` were recorded from the real server where it has what they show.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.contract.kubectl_files import FILES, event_of
from tests.support.kubectl import MISSING, Kubectl, Shell, Step, kubectls, parse_transcript
from tests.support.planes import ControlPlane
from tests.support.realplane import minor_version
from tests.support.tiers import OLD


TRANSCRIPTS = {
    path.stem: parse_transcript(path.read_text())
    for path in sorted(Path(__file__).with_name("kubectl").glob("*.txt"))
}
STAGE = (
    "create namespace NS",
    "config set-context --current --namespace=NS",
    "apply -f crd.yaml",
    "wait --for=condition=Established crd/gadgets.kubectl.example.org",
    "apply -f stage.yaml -f stage-gadget.yaml",
)


@pytest.fixture(scope="module", params=kubectls() or [None], ids=str)
def kubectl(request: pytest.FixtureRequest) -> Kubectl:
    found: Kubectl | None = request.param
    if found is None:
        pytest.skip(MISSING)
    return found


@pytest.fixture(scope="module")
def shell(
    kubectl: Kubectl, control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shell]:
    """A namespace with the objects that the transcripts read."""
    name = f"kubectl-{uuid.uuid4().hex[:8]}"
    shell = Shell(kubectl, control_plane.kubeconfig(), tmp_path_factory.mktemp("kubectl"), name)
    shell.write(FILES)
    for command in STAGE:
        done = shell.run(command)
        assert done.code == 0, done
    while shell.run("get configmap/kube-root-ca.crt serviceaccount/default").code:
        pass
    yield shell
    shell.run("delete namespace NS --wait=false")


def steps_for(name: str, shell: Shell, control_plane: ControlPlane) -> list[Step]:
    return [
        step
        for step in TRANSCRIPTS[name]
        if shell.kubectl.version >= step.since
        and not (step.sandbox_only and control_plane.is_real)
        and not (step.today_only and control_plane.is_real and minor_version() < OLD)
    ]


def test_reads(shell: Shell, control_plane: ControlPlane) -> None:
    steps = steps_for("reads", shell, control_plane)
    results = shell.run_all(step.command for step in steps)
    different = [text for step in steps if (text := step.differs(results[step.command]))]
    assert not different, "\n\n".join(different)


def test_events_are_part_of_a_description(shell: Shell) -> None:
    found = shell.run("get gadget stage -o jsonpath='{.metadata.uid}'", volatile=True)
    shell.write({"event.yaml": event_of("stage", found.out)})
    assert shell.run("create -f event.yaml").out == "event/described created"
    assert "Normal Tested AGE tester It is described" in shell.run("describe gg stage").out


def test_a_watch_shows_what_happens(shell: Shell) -> None:
    with shell.start("get configmaps --watch-only --output-watch-events") as watch:
        shell.run("create configmap passing")
        shell.run("delete configmap passing")
        lines = [watch.readline().split()[:2] for _ in range(3)]
    assert lines == [["EVENT", "NAME"], ["ADDED", "passing"], ["DELETED", "passing"]]


@pytest.mark.parametrize("name", [name for name in TRANSCRIPTS if name != "reads"])
def test_writes(shell: Shell, control_plane: ControlPlane, name: str) -> None:
    for step in steps_for(name, shell, control_plane):
        different = step.differs(shell.run(step.command, editor=step.editor))
        assert not different, different
