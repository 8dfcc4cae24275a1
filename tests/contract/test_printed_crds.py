"""What ``fairlead crds`` prints, given to kubectl on both control planes."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.support.kubectl import MISSING, Kubectl, Shell, kubectls
from tests.support.planes import ControlPlane
from tests.support.tiers import today

from fairlead.cli import main
from fairlead.cli.crds import GROUPS


@pytest.fixture(params=kubectls() or [None], ids=str)
def kubectl(request: pytest.FixtureRequest) -> Kubectl:
    found: Kubectl | None = request.param
    if found is None:
        pytest.skip(MISSING)
    return found


@pytest.mark.parametrize(
    "flags",
    [
        pytest.param((), id="rules", marks=today('unknown field "x-kubernetes-validations"')),
        pytest.param(("--without-rules",), id="without-rules"),
    ],
)
@pytest.mark.parametrize("verb", ["apply", "create"])
def test_printed_crds_are_accepted(
    control_plane: ControlPlane,
    kubectl: Kubectl,
    tmp_path: Path,
    verb: str,
    flags: tuple[str, ...],
) -> None:
    """Nothing is stored, for others use these kinds on the same servers: of `create` the names of
    those that are there already are all that is refused.
    """
    if kubectl.version < (1, 27) and not control_plane.is_real:
        pytest.skip("the sandbox answers kubectl 1.27 and newer")
    printed = CliRunner().invoke(main, ["crds", *flags]).output
    shell = Shell(kubectl, control_plane.kubeconfig(), tmp_path, "default")
    shell.write({"crds.yaml": printed})
    result = shell.run(f"{verb} -f crds.yaml --dry-run=server")
    refused = [line for line in result.err.splitlines() if "AlreadyExists" not in line]
    refused = [line for line in refused if not line.startswith("Warning: ")]
    assert refused == []
    assert len(result.out.splitlines()) + result.err.count("AlreadyExists") == sum(
        len(crds()) for crds in GROUPS.values()
    )
    assert printed.startswith("# For Kubernetes 1.23 and newer.") is not bool(flags)
