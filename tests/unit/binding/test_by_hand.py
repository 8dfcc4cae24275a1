"""What somebody has put onto a workload by hand, just as a binding would."""

from __future__ import annotations

import copy
import json

import pytest
from tests.unit.binding.cluster import KINDS, FakeCluster
from tests.unit.binding.objects import conditions, deployment, secret, spec_binding

from fairlead.api.meta import JSON
from fairlead.api.servicebinding.common import REQUESTER_ANNOTATION
from fairlead.binding.reads import Read, ReadFailure, RightsReview
from fairlead.binding.workloads.records import KINDS_ANNOTATION


SERVICE = {"apiVersion": "v1", "kind": "Secret", "name": "s1"}
EVE = {REQUESTER_ANNOTATION: json.dumps({"username": "eve", "groups": []})}


def by_hand(name: str = "web") -> JSON:
    body = deployment()
    body["metadata"]["name"] = name
    pod = body["spec"]["template"]["spec"]
    pod["volumes"] = [{"name": "sb", "secret": {"secretName": "s1"}}]
    pod["containers"][0]["volumeMounts"] = [{"name": "sb", "mountPath": "/bindings/sb"}]
    pod["containers"][0]["env"] = [
        {"name": "SERVICE_BINDING_ROOT", "value": "/bindings"},
        {"name": "PW", "valueFrom": {"secretKeyRef": {"name": "s1", "key": "password"}}},
    ]
    return body


def binding(**annotations: str) -> JSON:
    body = spec_binding(service=SERVICE, env=[{"name": "PW", "key": "password"}])
    body["metadata"].setdefault("annotations", {}).update(annotations)
    return body


def going(body: JSON) -> JSON:
    body["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z"
    return body


def not_to_update(read: Read) -> ReadFailure | None:
    refused = isinstance(read, RightsReview) and read.verb == "update"
    return ReadFailure("Denied", "no") if refused else None


def test_it_is_used_and_stays_when_the_binding_goes() -> None:
    made = FakeCluster(KINDS, [by_hand(), secret()])
    body = binding()
    for _ in range(2):
        made.reconcile(body)
        assert conditions(body)["Ready"][0] == "True"
    before = copy.deepcopy(made.get("deployments", "web"))
    made.reconcile(going(body))
    after = made.get("deployments", "web")
    assert after["spec"] == before["spec"] == by_hand()["spec"]


def test_it_stays_when_a_binding_goes_whose_requester_may_not_update_it() -> None:
    made = FakeCluster(KINDS, [by_hand(), secret()])
    made.refuse = not_to_update
    body = binding(**EVE)
    made.reconcile(body)
    assert conditions(body)["Ready"][0] == "False"
    made.reconcile(going(body))
    assert made.get("deployments", "web") == by_hand()


@pytest.mark.parametrize("note", ["x", "[]", None])
def test_it_stays_on_workloads_that_the_requester_may_not_update(note: str | None) -> None:
    """However the note of what was projected is spoiled."""
    made = FakeCluster(KINDS, [by_hand("web"), by_hand("web2"), secret()])
    body = binding(**EVE)
    made.reconcile(body)
    made.refuse = not_to_update
    if note is None:
        del body["metadata"]["annotations"][KINDS_ANNOTATION]
    else:
        body["metadata"]["annotations"][KINDS_ANNOTATION] = note
    made.reconcile(body)
    assert made.get("deployments", "web2") == by_hand("web2")
    made.reconcile(going(body))
    assert made.get("deployments", "web2") == by_hand("web2")
