"""What the ``run`` commands give to the programs that they start."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.process import config_file
from tests.unit.runtime.fakes import WIDGETS

from fairlead.api.meta import JSON, Object, object_from_dict
from fairlead.cli.running import RunOptions, run_program
from fairlead.client import Client, ClusterConfig
from fairlead.runtime import Cluster, Manager, ManagerError


async def _install(client: Client) -> None:
    raise AssertionError("nothing was to be installed")


def test_programs_keep_no_managed_fields(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(config_file(ClusterConfig(server="https://127.0.0.1:1", namespace="default")))
    kept: list[JSON] = []

    async def build(manager: Manager, cluster: Cluster) -> None:
        cluster.informer(WIDGETS)
        for shared in cluster.informers():
            shared.put(_object())
            kept.extend(found.to_dict() for found in shared.store)
        raise ManagerError("enough was seen")

    with pytest.raises(ManagerError, match="enough"):
        run_program("konnector", "default", _options(file), _install, build)
    assert [sorted(body["metadata"]) for body in kept] == [["name", "namespace"]]


def _object() -> Object:
    fields = [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}]
    metadata = {"name": "a", "namespace": "b", "managedFields": fields}
    return object_from_dict({"apiVersion": "v1", "kind": "Widget", "metadata": metadata})


def _options(file: Path) -> RunOptions:
    return RunOptions(
        kubeconfig=str(file),
        context=None,
        install_crds=False,
        health_address="",
        metrics_address="",
        leader_elect=False,
        lease_name="",
        log_format="json",
    )
