from __future__ import annotations

from tests.support.kubebind import NOW, OLD, conditions, kube

from fairlead.api.kubebind.conditions import false, true
from fairlead.provider.changes import with_status


STORED = kube(
    "APIServiceNamespace",
    status={
        "namespace": "ns",
        "other": 1,
        "conditions": [
            {"type": "Foreign", "status": "True", "lastTransitionTime": OLD},
            {"type": "Ready", "status": "True", "lastTransitionTime": OLD},
        ],
    },
)


def test_what_others_stored_stays() -> None:
    status = with_status(STORED, [true("Ours")], now=NOW)["status"]
    assert (status["namespace"], status["other"]) == ("ns", 1)
    found = conditions({"status": status})
    assert found["Foreign"]["lastTransitionTime"] == OLD
    assert found["Ours"]["lastTransitionTime"] == NOW
    assert found["Ready"]["lastTransitionTime"] == OLD


def test_a_field_is_set_or_removed() -> None:
    assert with_status(STORED, [], now=NOW, namespace="new")["status"]["namespace"] == "new"
    assert "namespace" not in with_status(STORED, [], now=NOW, namespace=None)["status"]


def test_without_a_summary_ready_is_nobodys_business() -> None:
    body = with_status(STORED, [false("Ours", "R", "m")], now=NOW, summary=False)
    assert conditions(body)["Ready"]["status"] == "True"
