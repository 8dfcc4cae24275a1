"""Statuses of workloads, by what their controllers say of a rollout."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.api.meta import JSON
from fairlead.binding import bounds
from fairlead.binding.workloads.rollout import is_rolling, rollout_failure


def workload(
    *conditions: tuple[str, str, str], kind: str = "Deployment", text: str = "", **status: Any
) -> JSON:
    found: JSON = {"observedGeneration": 4, **status}
    if conditions:
        found["conditions"] = [
            {"type": type_, "status": state, "reason": reason, "message": text}
            for type_, state, reason in conditions
        ]
    return {"kind": kind, "metadata": {"generation": 4}, "spec": {"replicas": 3}, "status": found}


COMPLETE = ("Progressing", "True", "NewReplicaSetAvailable")
REFUSED = ("ReplicaFailure", "True", "FailedCreate")
LATE = ("Progressing", "False", "ProgressDeadlineExceeded")
STATUSLESS: JSON = {"kind": "Deployment", "metadata": {"generation": 1}, "spec": {}}


@pytest.mark.parametrize(
    ("body", "reason", "rolling"),
    [
        pytest.param(workload(COMPLETE), "", False, id="complete"),
        pytest.param(
            workload(COMPLETE, ("Available", "False", "MinimumReplicasUnavailable")),
            "", False, id="complete, and down since",
        ),
        pytest.param(
            workload(("Progressing", "True", "ReplicaSetUpdated")), "", True, id="going on"
        ),
        pytest.param(
            workload(("Progressing", "Unknown", "DeploymentPaused")), "", True, id="paused"
        ),
        pytest.param(workload(REFUSED, COMPLETE), "PodsRefused", True, id="refused"),
        pytest.param(workload(LATE), "RolloutStuck", True, id="late"),
        pytest.param(workload(LATE, REFUSED), "PodsRefused", True, id="refused, and late by that"),
        pytest.param(
            workload(("Progressing", "False", "ReplicaSetCreateError")),
            "RolloutStuck", True, id="its ReplicaSet is refused",
        ),
        pytest.param(
            workload(("ReplicaFailure", "False", "")), "", True, id="a failure that is over"
        ),
        pytest.param(
            workload(REFUSED, observedGeneration=3), "", True, id="said of an older spec"
        ),
        pytest.param(STATUSLESS, "", True, id="not seen by its controller"),
        pytest.param(workload(updatedReplicas=2), "", True, id="no deadline, and Pods lack"),
        pytest.param(workload(updatedReplicas=3), "", False, id="no deadline, and all Pods"),
        pytest.param(
            workload(REFUSED, kind="ReplicaSet"), "PodsRefused", True, id="a ReplicaSet refused"
        ),
        pytest.param(workload(kind="ReplicaSet", replicas=3), "", False, id="a whole ReplicaSet"),
        pytest.param(workload(kind="StatefulSet"), "", False, id="a kind without conditions"),
        pytest.param(
            workload(("Progressing", "False", "AsExpected"), kind="Rig"),
            "", False, id="a custom kind that is done",
        ),
        pytest.param(
            workload(("Stalled", "True", "Refused"), kind="Rig"),
            "RolloutStuck", True, id="a custom kind that is stalled",
        ),
        pytest.param(
            workload(("Ready", "False", "Starting"), kind="Rig"),
            "", True, id="a custom kind that is not ready",
        ),
        pytest.param(
            workload(
                conditions=[
                    "none",
                    {"type": "Ready", "status": None},
                    {"type": "ReplicaFailure", "status": "True", "lastTransitionTime": None},
                ]
            ),
            "PodsRefused", True, id="conditions without times, and others",
        ),
        pytest.param(workload(conditions="none"), "", True, id="conditions of another form"),
        pytest.param(
            {**workload(), "status": "none"}, "", True, id="a status of another form"
        ),
        pytest.param(
            workload(observedGeneration="4", kind="Rig"), "", False, id="no number of a generation"
        ),
    ],
)  # fmt: skip
def test_how_a_rollout_stands(body: JSON, reason: str, rolling: bool) -> None:
    failure = rollout_failure(body)
    assert (failure.reason if failure else "") == reason
    assert is_rolling(body) is rolling


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        pytest.param(
            'pods "web-" is forbidden: ValidatingAdmissionPolicy "p" denied request: no secrets',
            'pods "web-" is forbidden: ValidatingAdmissionPolicy "p" denied request: no secrets',
            id="a policy",
        ),
        pytest.param(
            'Pod "web-" is invalid: spec.containers[0].env[0].name: Invalid value: "s3cret": no',
            'Pod "web-" is invalid: spec.containers[0].env[0].name: Invalid ...',
            id="a value",
        ),
        pytest.param(
            'Pod in version "v1" cannot be handled: {"env": "s3cret"}',
            'Pod in version "v1" cannot be handled: ...',
            id="an object",
        ),
        pytest.param("the first\nand s3cret", "the first", id="further lines"),
    ],
)
def test_no_value_is_quoted(text: str, quoted: str) -> None:
    failure = rollout_failure(workload(REFUSED, text=text))
    assert failure is not None
    assert failure.text == f"ReplicaFailure is True, FailedCreate: {quoted}"


def test_a_quotation_is_short() -> None:
    failure = rollout_failure(workload(REFUSED, text="x" * 10_000))
    assert failure is not None
    assert len(failure.text) == bounds.TEXT_CHARACTERS
