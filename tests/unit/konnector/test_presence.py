"""What is said of a konnector that does not do what it is waited for, by the traces it leaves."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from fairlead.api.kubebind import ClusterBinding
from fairlead.api.meta import JSON, Object, object_from_dict
from fairlead.api.timestamps import format_micro_time, format_time
from fairlead.konnector.commands.presence import Traces, describe, stop_of


NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


def lease(seconds: float, holder: str = "konnector-a", **spec: Any) -> Object:
    """A Lease that was renewed so long ago."""
    renewed = format_micro_time(NOW - timedelta(seconds=seconds))
    known = {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 15}
    return thing("Lease", "kube-bind", spec={**known, **spec})


def deployment(ready: int | None) -> Object:
    return thing(
        "Deployment", "konnector", status={} if ready is None else {"readyReplicas": ready}
    )


def thing(kind: str, name: str, **body: Any) -> Object:
    metadata: JSON = {"name": name, "namespace": "kube-bind"}
    return object_from_dict({"apiVersion": "v1", "kind": kind, "metadata": metadata, **body})


def heartbeat(seconds: float | None) -> ClusterBinding:
    last = "" if seconds is None else format_time(NOW - timedelta(seconds=seconds))
    body = {
        "metadata": {"name": "cluster"},
        "spec": {
            "kubeconfigSecretRef": {"name": "k", "key": "k"},
            "providerPrettyName": "Acme",
        },
        "status": {"lastHeartbeatTime": last},
    }
    return msgspec.convert(body, ClusterBinding)


@pytest.mark.parametrize(
    ("traces", "expected"),
    [
        pytest.param(Traces(), "there is no sign of a konnector", id="nothing"),
        pytest.param(
            Traces(lease=lease(3)),
            "a konnector runs (Lease kube-bind/kube-bind was renewed 3s ago)",
            id="leads",
        ),
        pytest.param(
            Traces(lease=lease(7300)),
            "no konnector runs any more (Lease kube-bind/kube-bind was renewed 2h ago)",
            id="led",
        ),
        pytest.param(Traces(lease=lease(3, "")), "there is no sign", id="lease given back"),
        pytest.param(Traces(lease=lease(3, renewTime="soon")), "there is no sign", id="odd lease"),
        pytest.param(
            Traces(lease=lease(3, leaseDurationSeconds="x")), "there is no sign", id="broken lease"
        ),
        pytest.param(
            Traces(lease=lease(200), deployment=deployment(None)),
            "Deployment kube-bind/konnector has no Pod that is ready: see `kubectl -n kube-bind "
            "describe deployment konnector`",
            id="no pod",
        ),
        pytest.param(
            Traces(deployment=deployment(1)),
            "a konnector runs (Deployment kube-bind/konnector has",
            id="pod",
        ),
        pytest.param(
            Traces(heartbeat=heartbeat(40)),
            "a konnector ran 40s ago, by its last heartbeat",
            id="heartbeat",
        ),
        pytest.param(
            Traces(heartbeat=heartbeat(4000)),
            "no konnector has sent a heartbeat for 66m",
            id="old heartbeat",
        ),
        pytest.param(Traces(heartbeat=heartbeat(None)), "there is no sign", id="no heartbeat"),
        pytest.param(
            Traces(lease=lease(7300), heartbeat=heartbeat(40)),
            "a konnector ran 40s ago",
            id="one without a Lease",
        ),
    ],
)
def test_what_the_traces_tell(traces: Traces, expected: str) -> None:
    told = describe(traces, NOW)
    assert told.startswith(expected)
    assert "`" in told or "its log says why" in told
    assert "?" not in told


@pytest.mark.parametrize(
    ("traces", "expected"),
    [
        pytest.param(Traces(), "", id="no trace"),
        pytest.param(Traces(lease=lease(20)), "", id="leads"),
        pytest.param(Traces(lease=lease(40)), "no konnector has renewed Lease", id="killed"),
        pytest.param(
            Traces(lease=lease(40, "", leaseDurationSeconds=1)), "no konnector", id="given back"
        ),
        pytest.param(
            Traces(lease=lease(5, "", leaseDurationSeconds=1)), "", id="given back just now"
        ),
        pytest.param(Traces(lease=lease(40), deployment=deployment(1)), "", id="ready Pod"),
        pytest.param(
            Traces(lease=lease(40), deployment=deployment(0)), "has no ready Pod", id="no Pod"
        ),
        pytest.param(
            Traces(lease=lease(40), heartbeat=heartbeat(45)), "no konnector", id="last heartbeat"
        ),
        pytest.param(
            Traces(lease=lease(7200), heartbeat=heartbeat(60)), "", id="heartbeat from elsewhere"
        ),
        pytest.param(Traces(deployment=deployment(0)), "Deployment", id="scaled to none"),
        pytest.param(
            Traces(deployment=deployment(0), heartbeat=heartbeat(60)), "", id="it has just begun"
        ),
        pytest.param(Traces(lease=lease(3, renewTime="soon")), "", id="odd lease"),
    ],
)
def test_a_stop_is_known_from_its_own_cluster(traces: Traces, expected: str) -> None:
    stop = stop_of(traces, NOW)
    assert (stop is None) == (not expected)
    assert stop is None or expected in stop.message
    renewed = stop is not None and traces.lease is not None
    assert stop is None or bool(stop.since) == renewed
