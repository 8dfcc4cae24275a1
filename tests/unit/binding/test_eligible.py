"""Which kinds may be a workload: decided on what the server knows, not on how it was asked for."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.binding.cluster import KINDS, FakeCluster
from tests.unit.binding.objects import (
    conditions,
    coreos_binding,
    database,
    deleted,
    deployment,
    message,
    secret,
    spec_binding,
)

from fairlead.api.meta import JSON
from fairlead.api.resource import Resource
from fairlead.api.servicebinding.mapping import mapping_name
from fairlead.binding.admission.requester import NO_USER
from fairlead.binding.contexts import reader
from fairlead.binding.manifests import manifests
from fairlead.binding.reads import Get, Read
from fairlead.binding.rights import Eligibility, eligibility


READ = {"get", "list", "watch"}


@pytest.mark.parametrize(
    ("group", "plural", "namespaced", "expected"),
    [
        pytest.param("apps", "deployments", True, "free", id="deployments"),
        pytest.param("apps", "statefulsets", True, "free", id="statefulsets"),
        pytest.param("apps", "daemonsets", True, "free", id="daemonsets"),
        pytest.param("batch", "cronjobs", True, "free", id="cronjobs"),
        pytest.param("batch", "jobs", True, "free", id="jobs"),
        pytest.param("", "pods", True, "free", id="pods"),
        pytest.param("apps.openshift.io", "deploymentconfigs", True, "free", id="openshift"),
        pytest.param("stable.example.com", "appconfigs", True, "free", id="custom"),
        pytest.param("serving.knative.dev", "services", True, "free", id="knative"),
        pytest.param("stable.example.com", "apps", False, "mapped", id="custom-of-the-cluster"),
        pytest.param("", "configmaps", True, "mapped", id="configmaps"),
        pytest.param("", "serviceaccounts", True, "mapped", id="serviceaccounts"),
        pytest.param("", "services", True, "mapped", id="services"),
        pytest.param("", "namespaces", False, "mapped", id="namespaces"),
        pytest.param("networking.k8s.io", "networkpolicies", True, "mapped", id="policies"),
        pytest.param("apps", "controllerrevisions", True, "mapped", id="revisions"),
        pytest.param("sparkoperator.k8s.io", "sparkapplications", True, "free", id="spark"),
        pytest.param("authorization.openshift.io", "roles", True, "never", id="openshift-roles"),
        pytest.param("policy", "poddisruptionbudgets", True, "mapped", id="budgets"),
        pytest.param("", "secrets", True, "never", id="secrets"),
        pytest.param("", "events", True, "never", id="events"),
        pytest.param("events.k8s.io", "events", True, "never", id="newer-events"),
        pytest.param("coordination.k8s.io", "leases", True, "never", id="leases"),
        pytest.param("servicebinding.io", "servicebindings", True, "never", id="bindings"),
        pytest.param(
            "binding.operators.coreos.com", "servicebindings", True, "never", id="coreos-bindings"
        ),
        pytest.param(
            "servicebinding.io", "clusterworkloadresourcemappings", False, "never", id="mappings"
        ),
        pytest.param(
            "binding.operators.coreos.com", "bindablekinds", False, "never", id="bindablekinds"
        ),
        pytest.param("rbac.authorization.k8s.io", "roles", True, "never", id="roles"),
        pytest.param("apiextensions.k8s.io", "anything", False, "never", id="apiextensions"),
        pytest.param("admissionregistration.k8s.io", "whatever", False, "never", id="admission"),
    ],
)
def test_kinds(group: str, plural: str, namespaced: bool, expected: Eligibility) -> None:
    assert eligibility(Resource(group, "v9", plural, "Kind", namespaced=namespaced)) == expected


def test_all_that_the_controllers_may_write_for_themselves_is_no_workload() -> None:
    """Whatever comes to be written there: the rights on workloads come by aggregation alone."""
    rendered = manifests(image="fairlead", webhooks=True)
    own = [one for one in rendered if one["kind"] in {"ClusterRole", "Role"}]
    own = [one for one in own if one["metadata"]["name"].startswith("fairlead-binding")]
    rules = [rule for one in own if not _aggregates(one) for rule in one["rules"]]
    written = {
        (group, plural.partition("/")[0])
        for rule in rules
        for group in rule["apiGroups"]
        for plural in rule["resources"]
        if set(rule["verbs"]) - READ
    }
    assert ("", "secrets") in written
    assert ("coordination.k8s.io", "leases") in written
    for group, plural in written:
        assert eligibility(Resource(group, "v1", plural, "Kind")) == "never"


def _aggregates(role: JSON) -> bool:
    labels = role["metadata"].get("labels") or {}
    return "servicebinding.io/controller" in labels or not role.get("rules")


def victim(kind: str, name: str = "victim") -> JSON:
    """An object with a template like a workload's, which its server would take."""
    return {**deployment(name), "apiVersion": "v1", "kind": kind}


SPEC = {"apiVersion": "v1", "name": "victim"}
WAYS: list[Any] = [
    pytest.param(
        lambda kind, _: spec_binding(workload={**SPEC, "kind": kind}), id="spec-by-its-kind"
    ),
    pytest.param(
        lambda _, plural: coreos_binding(
            application={"group": "", "version": "v1", "resource": plural, "name": "victim"}
        ),
        id="coreos-by-its-plural",
    ),
    pytest.param(
        lambda kind, _: coreos_binding(
            application={
                "group": "",
                "version": "v1",
                "resource": "",
                "kind": kind,
                "name": "victim",
                "bindingPath": {"secretPath": "data.password"},
            }
        ),
        id="coreos-by-its-kind-and-a-path",
    ),
    pytest.param(
        lambda kind, _: spec_binding(
            workload={"apiVersion": "v1", "kind": kind, "selector": {"matchLabels": {}}}
        ),
        id="spec-by-its-labels",
    ),
]
Made = Callable[[str, str], JSON]


def cluster(*objects: JSON) -> FakeCluster:
    return FakeCluster(KINDS, [database(), secret(), deployment(), *objects])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("kind", "plural"), [("Secret", "secrets"), ("ConfigMap", "configmaps")])
def test_what_is_no_workload_stays_as_it_is(way: Made, kind: str, plural: str) -> None:
    made = cluster(victim(kind))
    before = copy.deepcopy(made.get(plural, "victim"))
    binding, neighbour = way(kind, plural), spec_binding()
    neighbour["metadata"]["uid"] = neighbour["metadata"]["name"] = "neighbour"
    made.reconcile(binding)
    made.reconcile(neighbour)
    assert made.get(plural, "victim") == before
    assert conditions(binding)["InjectionReady"] == ("False", "WorkloadNotAllowed")
    assert conditions(binding)["Ready"][0] == "False"
    assert f"{kind} ({plural})" in message(binding, "InjectionReady")
    assert conditions(neighbour)["Ready"][0] == "True"
    assert made.get("deployments", "web")["spec"]["template"]["spec"]["volumes"]


def mapping(plural: str) -> JSON:
    name = mapping_name(Resource("", "v1", plural, "Kind"))
    return {
        "apiVersion": "servicebinding.io/v1",
        "kind": "ClusterWorkloadResourceMapping",
        "metadata": {"name": name},
        "spec": {"versions": [{"version": "*"}]},
    }


@pytest.mark.parametrize(
    ("kind", "plural", "expected"),
    [("Secret", "secrets", "False"), ("ConfigMap", "configmaps", "True")],
)
def test_an_administrator_maps_what_may_be_mapped(kind: str, plural: str, expected: str) -> None:
    made = cluster(victim(kind), mapping(plural))
    binding = spec_binding(workload={**SPEC, "kind": kind})
    made.reconcile(binding)
    assert conditions(binding)["InjectionReady"][0] == expected


def test_a_mapping_that_the_binding_brings_along_is_no_administrators() -> None:
    made = cluster(victim("ConfigMap"))
    text = '{"versions":[{"version":"*"}]}'
    binding = spec_binding(
        workload={**SPEC, "kind": "ConfigMap"},
        annotations={"servicebinding.io/mapping": text},
    )
    for _ in range(2):
        made.reconcile(binding)
    assert conditions(binding)["InjectionReady"] == ("False", "WorkloadNotAllowed")
    assert "volumes" not in made.get("configmaps", "victim")["spec"]["template"]["spec"]


@pytest.mark.parametrize("goes", ["", "binding", "service"])
@pytest.mark.parametrize("way", [WAYS[0], WAYS[1], WAYS[3]])
def test_what_was_projected_before_there_was_the_rule_is_taken_away(
    monkeypatch: pytest.MonkeyPatch, way: Made, goes: str
) -> None:
    made = cluster(victim("Secret"))
    binding = way("Secret", "secrets")
    with monkeypatch.context() as former:
        former.setattr(reader, "eligibility", lambda _: "free")
        made.reconcile(binding)
    assert "'secretName': 's1'" in str(made.get("secrets", "victim"))
    if goes == "binding":
        deleted(binding)
    if goes == "service":
        made.delete(database())
    made.reconcile(binding)
    after = made.get("secrets", "victim")
    assert "s1" not in str(after)
    assert not after["metadata"].get("annotations")
    if goes != "binding":
        assert conditions(binding)["InjectionReady"] == ("False", "WorkloadNotAllowed")


@pytest.mark.parametrize("api", ["spec", "coreos"])
def test_a_binding_that_nobody_has_asked_for_may_do_nothing(api: str) -> None:
    """The controllers have changed its spec for somebody who may not change it himself."""
    made = cluster()
    binding = spec_binding() if api == "spec" else coreos_binding()
    binding["metadata"]["annotations"] = {"servicebinding.io/requester": NO_USER}
    made.reconcile(binding)
    assert conditions(binding)["Ready"][0] == "False"
    assert "no user has requested its present content" in str(binding["status"])
    assert "volumes" not in made.get("deployments", "web")["spec"]["template"]["spec"]
    assert made.reviews == []


def test_what_is_no_workload_is_not_read() -> None:
    settings: JSON = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings", "namespace": "ns"},
    }
    cluster = FakeCluster(objects=[secret(), database(), settings])
    asked: list[Read] = []

    def noted(read: Read) -> None:
        asked.append(read)

    cluster.refuse = noted
    binding = spec_binding(workload={"apiVersion": "v1", "kind": "ConfigMap", "name": "settings"})
    cluster.reconcile(binding)
    assert conditions(binding)["InjectionReady"] == ("False", "WorkloadNotAllowed")
    names = [read.name for read in asked if isinstance(read, Get)]
    assert "db" in names
    assert "settings" not in names
