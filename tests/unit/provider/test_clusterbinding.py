from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from tests.support.kubebind import conditions, kube

from fairlead.api.timestamps import format_time
from fairlead.provider.controllers.clusterbinding.reconcile import reconcile


NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)


def beat(seconds_ago: float) -> str:
    return format_time(NOW - timedelta(seconds=seconds_ago))


@pytest.mark.parametrize(
    ("status", "expected", "severity", "wait"),
    [
        pytest.param({}, "FirstHeartbeatPending", "Info", None, id="never"),
        pytest.param(
            {"lastHeartbeatTime": beat(5)}, "HeartbeatIntervalMissing", "Info", None, id="interval"
        ),
        pytest.param(
            {"lastHeartbeatTime": beat(5), "heartbeatInterval": "5m0s"}, "", "", 595, id="fresh"
        ),
        pytest.param(
            {"lastHeartbeatTime": beat(599), "heartbeatInterval": "5m0s"}, "", "", 1, id="late"
        ),
        pytest.param(
            {"lastHeartbeatTime": beat(600), "heartbeatInterval": "5m0s"},
            "HeartbeatTimeout",
            "Error",
            30,
            id="too late",
        ),
        pytest.param(
            {"lastHeartbeatTime": beat(-9), "heartbeatInterval": "5m0s"}, "", "", 609, id="ahead"
        ),
        pytest.param(
            {"lastHeartbeatTime": beat(-60), "heartbeatInterval": "5m0s"},
            "HeartbeatTimeDrift",
            "Warning",
            30,
            id="too far ahead",
        ),
        pytest.param(
            {"lastHeartbeatTime": beat(-12), "heartbeatInterval": "5m0s"},
            "HeartbeatTimeDrift",
            "Warning",
            12,
            id="a little too far ahead",
        ),
        pytest.param(
            {"lastHeartbeatTime": "9999-12-31T23:59:59Z", "heartbeatInterval": "5m0s"},
            "HeartbeatTimeDrift",
            "Warning",
            None,
            id="beyond all clocks",
        ),
        pytest.param(
            {"lastHeartbeatTime": "9999-12-31T23:59:59-10:00", "heartbeatInterval": "5m0s"},
            "HeartbeatTimeDrift",
            "Warning",
            None,
            id="beyond all clocks in UTC",
        ),
    ],
)
def test_healthy(status: dict[str, str], expected: str, severity: str, wait: float | None) -> None:
    plan = reconcile(kube("ClusterBinding", "cluster", spec=SPEC, status=status), now=NOW)
    healthy = conditions(plan.status)["Healthy"]
    assert healthy["status"] == ("False" if expected else "True")
    assert healthy.get("reason", "") == expected
    assert healthy.get("severity", "") == severity
    assert plan.requeue_after == wait


SPEC = {
    "kubeconfigSecretRef": {"name": "kubeconfig", "key": "kubeconfig"},
    "providerPrettyName": "Us",
}


def test_ready_sums_up_what_the_konnector_says_too() -> None:
    failed = {
        "type": "SecretValid",
        "status": "False",
        "severity": "Warning",
        "reason": "ProviderSecretNotFound",
        "lastTransitionTime": beat(60),
    }
    status = {
        "lastHeartbeatTime": beat(5),
        "heartbeatInterval": "5m0s",
        "konnectorVersion": "v1",
        "conditions": [failed],
    }
    plan = reconcile(kube("ClusterBinding", "cluster", spec=SPEC, status=status), now=NOW)
    assert conditions(plan.status)["Ready"]["reason"] == "ProviderSecretNotFound"
    assert plan.status["status"]["konnectorVersion"] == "v1"
    assert conditions(plan.status)["SecretValid"] == failed
