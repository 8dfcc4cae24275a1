"""Clusters with nodes, which all tests of a module share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hack.nodes.clusters import Cluster, ClusterError, built, down_where, up
from hack.nodes.machine import missing
from tests.support.containers import image


@pytest.fixture(scope="session")
def node_programs() -> None:
    """What a cluster with nodes consists of; who asks for it belongs to ``make cluster``."""
    if reason := missing():
        pytest.skip(reason)
    try:
        built()
    except ClusterError as error:
        pytest.skip(f"there are no programs of nodes: {error}")


def _is_running(pid: str) -> bool:
    """Whether the process is there; also for what is none, as the name of a person's cluster."""
    return not pid.isdecimal() or Path(f"/proc/{pid}").exists()


@pytest.fixture(scope="module")
def planes(node_programs: None) -> Iterator[list[Cluster]]:
    """Two clusters that have Fairlead's image: a provider's and a consumer's."""
    names = [f"{side}-{os.getpid()}" for side in ("provider", "consumer")]
    # A run that was killed has left its clusters.
    down_where(lambda name: not _is_running(name.rpartition("-")[2]))
    try:
        made = up(names)
        archive = image().built.archive
        for cluster in made:
            cluster.load(archive)
        yield made
    finally:
        down_where(names.__contains__)
