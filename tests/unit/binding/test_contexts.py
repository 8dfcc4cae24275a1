"""What a binding may say, on whose behalf it reads, and how its status looks."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.unit.binding.cluster import NOW, FakeCluster
from tests.unit.binding.objects import (
    SECRET_SERVICE,
    conditions,
    coreos_binding,
    deleted,
    deployment,
    message,
    secret,
    spec_binding,
)

from fairlead.api.meta import JSON, object_from_dict
from fairlead.binding.contexts.base import InvalidBinding
from fairlead.binding.contexts.coreos import CoreosContext
from fairlead.binding.contexts.outcome import invalid_status
from fairlead.binding.contexts.spec import SpecContext
from fairlead.binding.pipeline import at_once
from fairlead.binding.reads import Snapshot


BOTH = {"name": "web", "selector": {}}
FOREIGN = {"group": "", "version": "v1", "kind": "Secret", "name": "s", "namespace": "other"}


def secret_path(path: str) -> JSON:
    return coreos_binding(application={"name": "web", "bindingPath": {"secretPath": path}})


@pytest.mark.parametrize(
    "path", ["", "spec.a", "data.password", "metadata.labels.a", "metadata.annotations.a"]
)
def test_a_secret_path_to_what_may_be_written_is_taken(path: str) -> None:
    assert make(secret_path(path)).workload_reference().secret_path == path


def make(binding: JSON, **options: Any) -> SpecContext | CoreosContext:
    """A context that is open."""
    body, snapshot = object_from_dict(binding), Snapshot(FakeCluster())
    if binding["apiVersion"].startswith("servicebinding.io/"):
        return SpecContext(body, snapshot)
    made = CoreosContext(body, snapshot, **options)
    at_once(made.open())
    return made


@pytest.mark.parametrize(
    ("binding", "text"),
    [
        pytest.param(spec_binding(workload=BOTH), "MUST NOT be defined", id="name and selector"),
        pytest.param(spec_binding(workload={}), "selects nothing", id="neither"),
        pytest.param(spec_binding(name=".."), "spec.name", id="parent directory"),
        pytest.param(
            coreos_binding(application={"name": "web", "labelSelector": {}}),
            "MUST NOT be defined",
            id="coreos: name and selector",
        ),
        pytest.param(coreos_binding(name="."), "spec.name", id="coreos: this directory"),
        pytest.param(
            coreos_binding(services=[FOREIGN]), "--cross-namespace", id="coreos: other namespace"
        ),
        *(
            pytest.param(secret_path(path), "secretPath .* has an empty step", id=f"path {path!r}")
            for path in (".", " ", ".spec.a", "spec..a", "spec.a.", "spec. .a")
        ),
        *(
            pytest.param(secret_path(path), "a binding may not write", id=f"path {path}")
            for path in (
                "status",
                "status.binding.name",
                "kind",
                "apiVersion",
                "metadata",
                "metadata.name",
                "metadata.namespace",
                "metadata.uid",
                "metadata.finalizers",
                "metadata.labels",
                "metadata.annotations",
                "metadata.annotations.a.b",
            )
        ),
        pytest.param(
            secret_path(".".join("a" * 101)), "secretPath .* more than 100 steps", id="steps"
        ),
    ],
)
def test_a_spec_that_contradicts_itself_is_refused_but_can_be_deleted(
    binding: JSON, text: str
) -> None:
    with pytest.raises(InvalidBinding, match=text):
        make(binding)
    status = invalid_status(object_from_dict(binding), "why", NOW)
    assert status["conditions"][0]["message"] == "why"
    assert status["conditions"][0]["observedGeneration"] == 1
    deleted(binding)
    make(binding)


def test_an_invalid_status_keeps_what_else_it_says() -> None:
    binding = coreos_binding()
    binding["status"] = {
        "secret": "s",
        "conditions": [{"type": "CollectionReady", "status": "True"}],
    }
    status = invalid_status(object_from_dict(binding), "why", NOW)
    assert status["secret"] == "s"
    assert [item["type"] for item in status["conditions"]] == ["CollectionReady", "Ready"]
    assert invalid_status(object_from_dict(coreos_binding()), "why", NOW)["secret"] == ""


def test_other_namespaces_are_read_when_that_was_allowed() -> None:
    made = make(coreos_binding(services=[FOREIGN]), cross_namespace=True)
    assert made.service_references()[0].namespace == "other"


REQUESTER = json.dumps({"username": "bob", "groups": ["devs"]})


@pytest.mark.parametrize(
    ("annotation", "denied", "reason"),
    [
        pytest.param(REQUESTER, {}, None, id="nothing is denied"),
        pytest.param(REQUESTER, {"resource": "secrets"}, "CollectionReady", id="secret"),
        pytest.param(REQUESTER, {"verb": "update"}, "InjectionReady", id="workload"),
        pytest.param("not json", {"resource": "secrets"}, None, id="malformed"),
        pytest.param("{}", {"resource": "secrets"}, None, id="without a user"),
    ],
)
def test_reads_are_checked_against_who_edited_the_binding(
    annotation: str, denied: JSON, reason: str | None
) -> None:
    cluster = FakeCluster(objects=[secret(), deployment()])
    cluster.denied = [denied] if denied else []
    binding = spec_binding(
        service=SECRET_SERVICE, annotations={"servicebinding.io/requester": annotation}
    )
    cluster.reconcile(binding)
    if reason:
        assert conditions(binding)[reason][0] == "False"
        assert cluster.get("deployments", "web") == deployment()
    else:
        assert conditions(binding)["Ready"][0] == "True"
    assert all(review.user == "bob" for review in cluster.reviews)


def test_unbinding_needs_nobodys_leave() -> None:
    cluster = FakeCluster(objects=[secret(), deployment()])
    annotations = {"servicebinding.io/requester": REQUESTER}
    binding = spec_binding(service=SECRET_SERVICE, annotations=annotations)
    cluster.reconcile(binding)
    deleted(binding)
    cluster.denied = [{"user": "bob"}]
    cluster.reconcile(binding)
    assert cluster.get("deployments", "web")["spec"]["template"]["spec"]["volumes"] == []


def test_the_status_of_the_specification() -> None:
    cluster = FakeCluster(objects=[secret(), deployment()])
    binding = spec_binding(service=SECRET_SERVICE)
    cluster.reconcile(binding)
    status = binding["status"]
    assert status["observedGeneration"] == 1
    assert status["binding"] == {"name": "s1"}
    for item in status["conditions"]:
        assert item["lastTransitionTime"] == NOW
        assert item["observedGeneration"] == 1
        assert item["reason"]
        assert "message" in item


def test_conditions_that_a_pass_does_not_reach_keep_what_they_said() -> None:
    cluster = FakeCluster(objects=[secret(), deployment()])
    binding = spec_binding(service=SECRET_SERVICE)
    cluster.reconcile(binding)
    cluster.delete(secret())
    cluster.reconcile(binding)
    assert conditions(binding)["Ready"] == ("False", "ProcessingError")
    assert conditions(binding)["InjectionReady"] == ("True", "ApplicationUpdated")
    assert binding["status"]["binding"] == {"name": "s1"}
    assert message(binding, "Ready") == (
        'secrets "s1" not found: spec.service asks for it in namespace ns;'
        " create it or correct the binding"
    )


def test_a_condition_without_a_time_spoils_no_other() -> None:
    binding = spec_binding(service=SECRET_SERVICE)
    binding["status"] = {
        "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": None},
            {"type": "Theirs", "status": "True", "reason": "Well", "lastTransitionTime": None},
            {"type": "Kept", "status": "True", "reason": "Well", "lastTransitionTime": "then"},
        ]
    }
    FakeCluster(objects=[secret(), deployment()]).reconcile(binding)
    times = {item["type"]: item["lastTransitionTime"] for item in binding["status"]["conditions"]}
    # Servers refuse a status with a condition that has none.
    assert (times["Ready"], times["Theirs"], times["Kept"]) == (NOW, NOW, "then")


def test_a_binding_that_is_deleted_does_not_become_ready() -> None:
    binding = spec_binding(service=SECRET_SERVICE)
    deleted(binding)
    FakeCluster().reconcile(binding)
    assert "Ready" not in conditions(binding)
