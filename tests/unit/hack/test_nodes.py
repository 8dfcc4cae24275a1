"""Clusters with nodes, as far as they are known before anything is made."""

from __future__ import annotations

import ipaddress
import os
import shutil
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hack.nodes import clusters, machine
from hack.nodes.clusters import MOST, ClusterError, Networks


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("", id="none"),
        pytest.param("Provider", id="capital"),
        pytest.param("-a", id="hyphen"),
        pytest.param("../a", id="path"),
        pytest.param("a" * 41, id="long"),
    ],
)
def test_a_name_that_no_node_can_have_is_refused(name: str) -> None:
    with pytest.raises(ClusterError, match="cannot be the name of a cluster"):
        clusters.up([name])


def test_no_two_clusters_share_an_address() -> None:
    found = [Networks(number) for number in range(1, MOST + 1)]
    nets = [ipaddress.ip_network(net) for one in found for net in (one.pods, one.services)]
    assert not any(one.overlaps(other) for one, other in combinations(nets, 2))
    assert len({one.node for one in found}) == MOST


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param({"user": 1000}, "only root can make clusters", id="nobody"),
        pytest.param(
            {"program": "runc"}, "these Debian packages are missing: runc", id="a program"
        ),
        pytest.param({"cgroups": False}, "there are no cgroups below", id="no cgroups"),
        pytest.param({"free": 9 << 30}, "GiB free, and clusters need 10", id="no disk"),
        pytest.param({}, "", id="nothing"),
    ],
)
def test_what_is_missing_is_named(
    change: dict[str, Any], reason: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for folder, file in (("cgroups", "cgroup.controllers"), ("cni", "ptp")):
        (tmp_path / folder).mkdir()
        if change.get(folder, True):
            (tmp_path / folder / file).touch()
    monkeypatch.setattr(os, "geteuid", lambda: change.get("user", 0))
    monkeypatch.setattr(machine, "CNI", tmp_path / "cni")
    monkeypatch.setattr(machine, "CGROUPS", tmp_path / "cgroups")
    monkeypatch.setattr(machine, "STATE", tmp_path / "state")
    absent = change.get("program")
    monkeypatch.setattr(shutil, "which", lambda name: "" if name == absent else name)
    usage = shutil.disk_usage(tmp_path)._replace(free=change.get("free", 20 << 30))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    found = machine.missing()
    assert reason in found if reason else found == ""
