"""What is said of a konnector that does not do what it is waited for, by the traces it leaves."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from fairlead.api.kubebind import ClusterBinding
from fairlead.api.meta import JSON, Object, object_from_dict
from fairlead.api.timestamps import format_micro_time, format_time
from fairlead.konnector.commands.presence import Traces, describe


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
            "no konnector has given a heartbeat for 66m",
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
