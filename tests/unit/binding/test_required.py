"""What the specification demands and no other test has at its centre, one test for each."""

from __future__ import annotations

import ipaddress
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.unit.binding.cluster import KINDS, FakeCluster, content
from tests.unit.binding.objects import (
    SECRET_SERVICE,
    conditions,
    coreos_binding,
    crd,
    cronjob,
    database,
    deleted,
    deployment,
    message,
    meta,
    pod,
    secret,
    spec_binding,
)
from tests.unit.postgres.test_login_secret import ENDPOINT
from tests.unit.postgres.test_login_secret import spec as access_spec

from fairlead.api import postgresaccess
from fairlead.api.manifests import READ_VERBS
from fairlead.api.meta import JSON, object_from_dict
from fairlead.api.resource import DEPLOYMENTS, PODS
from fairlead.api.servicebinding.mapping import MappingSpec, mapping_crd, mapping_name
from fairlead.api.servicebinding.spec import servicebinding_crd
from fairlead.binding import manifests as binding_manifests
from fairlead.binding.contexts.base import InvalidBinding
from fairlead.binding.contexts.spec import SpecContext
from fairlead.binding.reads import Lookup, Read, ReadFailure, Snapshot
from fairlead.binding.workloads.operations import MappingError
from fairlead.binding.workloads.workload import build_template, parse_mapping
from fairlead.postgres import manifests as postgres_manifests
from fairlead.postgres.controllers.rules.login_secret import secret_values


def schema(crd: JSON, *path: str, version: int = 0) -> JSON:
    """The schema at a path; ``[]`` stands for the items of a list."""
    found: JSON = crd["spec"]["versions"][version]["schema"]["openAPIV3Schema"]
    for name in path:
        found = found["items"] if name == "[]" else found["properties"][name]
    return found


def mapping(*versions: JSON, name: str = "deployments.apps") -> JSON:
    return {
        "apiVersion": "servicebinding.io/v1",
        "kind": "ClusterWorkloadResourceMapping",
        "metadata": {"name": name},
        "spec": {"versions": list(versions)},
    }


def refused(cluster: FakeCluster, plural: str, code: Any) -> None:
    def refuse(read: Read) -> ReadFailure | None:
        if isinstance(read, Lookup) or read.resource.plural != plural:
            return None
        return ReadFailure(code, f"{plural}: {code}")

    cluster.refuse = refuse


# Provisioned Service


@pytest.fixture
def accesses() -> JSON:
    (found,) = [
        one for one in postgresaccess.crds() if one["spec"]["names"]["kind"] == "PostgresAccess"
    ]
    return found


def test_our_own_service_says_its_secret_in_status_binding(accesses: JSON) -> None:
    assert schema(accesses, "status", "binding", "name")["type"] == "string"
    assert set(schema(accesses, "status", "binding")["properties"]) == {"name"}


def test_the_secret_of_a_service_is_looked_for_in_its_namespace() -> None:
    elsewhere = secret("s1")
    elsewhere["metadata"]["namespace"] = "other"
    cluster = FakeCluster(objects=[deployment(), database(), elsewhere])
    binding = spec_binding()
    cluster.reconcile(binding)
    assert conditions(binding)["CollectionReady"] == ("False", "ErrorReadingSecret")
    cluster.set(secret())
    cluster.reconcile(binding)
    assert conditions(binding)["Ready"][0] == "True"


def test_entries_of_our_own_service_are_what_their_names_say() -> None:
    found = secret_values(access_spec(), ENDPOINT, "p:w/d").entries
    assert str(ipaddress.ip_address(found["host"])) == found["host"]
    assert 0 < int(found["port"]) < 65536
    uri = urlsplit(found["uri"])
    assert (uri.scheme, uri.hostname, uri.port) == ("postgresql", found["host"], 6432)
    assert (found["username"], found["password"]) == ("app", "p:w/d")
    assert (found["type"], found["provider"]) == ("postgresql", "fairlead")


def test_what_is_no_uri_or_certificate_has_another_name_in_our_own_service() -> None:
    found = secret_values(access_spec(), ENDPOINT, "pw").entries
    # A JDBC URL, a line of a password file, and a CA, which is nobody's client certificate.
    assert {"jdbc-uri", "pgpass"} <= found.keys()
    assert not {"certificates", "private-key"} & found.keys()


def test_a_service_is_opted_in_with_all_that_reading_it_takes() -> None:
    (role,) = [
        body
        for body in postgres_manifests.manifests(image="f")
        if body["metadata"].get("labels", {}).get("servicebinding.io/controller") == "true"
    ]
    for rule in role["rules"]:
        assert set(READ_VERBS) <= set(rule["verbs"])


# Workload Projection


@pytest.mark.parametrize(
    "name",
    ["a", "a.b-c", "0", "x" * 253, "-", "..."],
)
def test_binding_names_that_are_allowed(name: str) -> None:
    made = SpecContext(object_from_dict(spec_binding(name=name)), Snapshot(FakeCluster()))
    assert made.binding_name == name


@pytest.mark.parametrize(
    "name", ["A", "a_b", "a/b", "../a", "..", ".", "a b", "a\n", "ä", "x" * 254, "a\0"]
)
def test_binding_names_that_are_not_allowed(name: str) -> None:
    with pytest.raises((InvalidBinding, ValueError)):
        SpecContext(object_from_dict(spec_binding(name=name)), Snapshot(FakeCluster()))
    cluster = FakeCluster(objects=[secret(), deployment()])
    with pytest.raises((InvalidBinding, ValueError)):
        cluster.process(spec_binding(service=SECRET_SERVICE, name=name))
    assert cluster.get("deployments", "web") == deployment()


def test_workloads_are_opted_in_with_all_that_projecting_takes() -> None:
    (role,) = [
        body
        for body in binding_manifests.manifests(image="f")
        if body["metadata"].get("labels", {}).get("servicebinding.io/controller") == "true"
    ]
    granted = {name: set(rule["verbs"]) for rule in role["rules"] for name in rule["resources"]}
    for name in ("deployments", "statefulsets", "daemonsets", "replicasets", "cronjobs"):
        assert granted[name] >= {"get", "list", "watch", "update", "patch"}


# Service Binding


EXEMPLAR = {
    "spec.name": "string",
    "spec.type": "string",
    "spec.provider": "string",
    "spec.workload": "object apiVersion kind",
    "spec.workload.apiVersion": "string",
    "spec.workload.kind": "string",
    "spec.workload.name": "string",
    "spec.workload.selector": "object",
    "spec.workload.selector.matchLabels": "object",
    "spec.workload.selector.matchExpressions": "array",
    "spec.workload.containers": "array",
    "spec.workload.containers.[]": "string",
    "spec.service": "object apiVersion kind name",
    "spec.service.apiVersion": "string",
    "spec.service.kind": "string",
    "spec.service.name": "string",
    "spec.env": "array",
    "spec.env.[]": "object key name",
    "spec.env.[].name": "string",
    "spec.env.[].key": "string",
    "status.binding": "object name",
    "status.binding.name": "string",
    "status.conditions": "array",
    "status.conditions.[]": "object lastTransitionTime message reason status type",
    "status.observedGeneration": "integer",
}
"""Type and required fields of each field of the specification's own CRD."""


@pytest.mark.parametrize("path", EXEMPLAR)
def test_a_binding_has_the_fields_of_the_exemplar(path: str) -> None:
    for version in range(3):
        found = schema(servicebinding_crd(), *path.split("."), version=version)
        assert " ".join([found["type"], *sorted(found.get("required", []))]) == EXEMPLAR[path]


def test_a_binding_requires_no_more_than_the_exemplar() -> None:
    for version in range(3):
        assert "required" not in schema(servicebinding_crd(), version=version)
        assert schema(servicebinding_crd(), "spec", version=version)["required"] == [
            "workload",
            "service",
        ]
        assert "required" not in schema(servicebinding_crd(), "status", version=version)


def test_a_binding_without_spec_says_so_and_can_be_deleted() -> None:
    body = spec_binding()
    del body["spec"]
    with pytest.raises(ValueError, match="spec"):
        SpecContext(object_from_dict(body), Snapshot(FakeCluster()))
    body["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z"
    assert FakeCluster(objects=[deployment()]).process(body).flow.error == ""


@pytest.mark.parametrize("coreos", [False, True], ids=["spec", "coreos"])
def test_a_projection_is_taken_away_though_the_spec_fits_its_type_no_more(coreos: bool) -> None:
    direct = {"group": "", "version": "v1", "kind": "Secret", "name": "s1"}
    made = coreos_binding(services=[direct]) if coreos else spec_binding(service=SECRET_SERVICE)
    cluster = FakeCluster(objects=[secret(), deployment()])
    cluster.reconcile(made)
    assert pod(cluster.get("deployments", "web"))["volumes"]
    made["spec"] = {"services": 1, "workload": []}
    made["status"] = {"conditions": "x"}
    made["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z"
    context = cluster.process(made)
    assert context.flow.error == ""
    (workload,) = context.changed_workloads()
    assert pod(workload.body)["volumes"] == []


def test_containers_are_a_list_of_strings() -> None:
    found = schema(servicebinding_crd(), "spec", "workload", "containers")
    assert (found["type"], found["items"]) == ("array", {"type": "string"})
    for wrong in ("app", [1], {"a": "b"}, [None]):
        workload = {"name": "web", "containers": wrong}
        with pytest.raises(ValueError, match="containers"):
            SpecContext(object_from_dict(spec_binding(workload=workload)), Snapshot(FakeCluster()))


@pytest.mark.parametrize("entry", [{"name": "X"}, {"key": "host"}, {}, "X", None])
def test_a_variable_has_a_name_and_a_key(entry: Any) -> None:
    required = schema(servicebinding_crd(), "spec", "env", "[]")["required"]
    assert sorted(required) == ["key", "name"]
    with pytest.raises(ValueError, match="env"):
        SpecContext(object_from_dict(spec_binding(env=[entry])), Snapshot(FakeCluster()))


def test_a_variable_reads_an_entry_that_is_there_or_none_is_projected() -> None:
    cluster = FakeCluster(objects=[secret(), deployment()])
    binding = spec_binding(service=SECRET_SERVICE, env=[{"name": "X", "key": "nothing"}])
    cluster.reconcile(binding)
    assert cluster.get("deployments", "web") == deployment()
    assert "'nothing'" in message(binding, "Ready")


@pytest.mark.parametrize(
    "objects",
    [
        pytest.param([], id="nothing is there"),
        pytest.param([secret()], id="no workload"),
        pytest.param([secret(), deployment()], id="bound"),
        pytest.param([secret(password="x"), deployment()], id="no type"),
    ],
)
def test_every_pass_leaves_conditions_with_ready_among_them(objects: list[JSON]) -> None:
    binding = spec_binding(service=SECRET_SERVICE)
    FakeCluster(objects=objects).reconcile(binding)
    for condition in binding["status"]["conditions"]:
        assert condition.keys() >= {"type", "status", "lastTransitionTime", "reason", "message"}
        assert condition["status"] in {"True", "False", "Unknown"}
    assert {"Ready", "ServiceAvailable"} <= conditions(binding).keys()


@pytest.mark.parametrize(
    "objects",
    [
        pytest.param([], id="fails"),
        pytest.param([secret(), deployment()], id="bound"),
    ],
)
def test_every_status_is_of_the_generation_that_was_looked_at(objects: list[JSON]) -> None:
    binding = spec_binding(service=SECRET_SERVICE)
    for generation in (3, 7):
        binding["metadata"]["generation"] = generation
        FakeCluster(objects=objects).reconcile(binding)
        assert binding["status"]["observedGeneration"] == generation


# Reconciler


def test_the_secret_that_the_service_names_is_a_volume_of_the_workload() -> None:
    cluster = FakeCluster(objects=[secret("login"), database(binding="login"), deployment()])
    cluster.reconcile(spec_binding())
    (volume,) = pod(cluster.get("deployments", "web"))["volumes"]
    assert volume["secret"] == {"secretName": "login"}


@pytest.mark.parametrize(("field", "value"), [("type", "mysql"), ("provider", "acme")])
def test_an_override_wins_over_secret_and_annotations(field: str, value: str) -> None:
    own = database(binding="s1")
    own["metadata"]["annotations"] = {f"service.binding/{field}": "annotated"}
    cluster = FakeCluster(
        objects=[secret(type="postgresql", provider="x"), own, crd(), deployment()]
    )
    override: JSON = {field: value}
    binding = spec_binding(**override)
    cluster.reconcile(binding)
    made = cluster.get("secrets", binding["status"]["binding"]["name"])
    assert content(made)[field] == value


@pytest.mark.parametrize(
    ("objects", "refuse", "status"),
    [
        pytest.param([database(), secret()], None, "True", id="there, with a Secret"),
        pytest.param([], None, "False", id="not there"),
        pytest.param([], ("databases", "Forbidden"), "False", id="not to be told: forbidden"),
        pytest.param([], ("databases", "Error"), "False", id="not to be told: server fails"),
        pytest.param([database(binding=None)], None, "Unknown", id="there, without a Secret"),
    ],
)
def test_a_service_is_available_when_it_is_there_and_exposes_a_secret(
    objects: list[JSON], refuse: tuple[str, str] | None, status: str
) -> None:
    cluster = FakeCluster(objects=[deployment(), *objects])
    if refuse:
        refused(cluster, *refuse)
    binding = spec_binding()
    cluster.reconcile(binding)
    found = conditions(binding)["ServiceAvailable"]
    assert found[0] == status
    assert status == "True" or message(binding, "ServiceAvailable")


def test_a_secret_is_taken_for_what_a_service_names() -> None:
    bound: list[JSON] = []
    for service in (None, SECRET_SERVICE):
        cluster = FakeCluster(objects=[secret(), database(), deployment()])
        binding = spec_binding(service=service)
        cluster.reconcile(binding)
        assert binding["status"]["binding"] == {"name": "s1"}
        bound.append(pod(cluster.get("deployments", "web")))
    assert bound[0] == bound[1]


# Workload Resource Mapping


MAPPING_EXEMPLAR = {
    "spec": "object",
    "spec.versions": "array",
    "spec.versions.[]": "object version",
    "spec.versions.[].version": "string",
    "spec.versions.[].annotations": "string",
    "spec.versions.[].volumes": "string",
    "spec.versions.[].containers": "array",
    "spec.versions.[].containers.[]": "object path",
    "spec.versions.[].containers.[].path": "string",
    "spec.versions.[].containers.[].name": "string",
    "spec.versions.[].containers.[].env": "string",
    "spec.versions.[].containers.[].volumeMounts": "string",
}


@pytest.mark.parametrize("path", MAPPING_EXEMPLAR)
def test_a_mapping_has_the_fields_of_the_exemplar(path: str) -> None:
    for version in range(3):
        found = schema(mapping_crd(), *path.split("."), version=version)
        wanted = MAPPING_EXEMPLAR[path]
        assert " ".join([found["type"], *sorted(found.get("required", []))]) == wanted


def test_a_mapping_is_named_after_plural_and_group() -> None:
    assert mapping_name(DEPLOYMENTS) == "deployments.apps"
    # No object can be named "pods.", as a core kind's would be called to the letter.
    assert mapping_name(PODS) == "pods"


def test_what_a_mapping_leaves_out_is_where_a_pod_template_has_it() -> None:
    pod_spec = ("spec", "template", "spec")
    for found in (
        build_template(MappingSpec(), "v1"),
        build_template(parse_mapping(mapping({"version": "*"})), "v1"),
    ):
        assert found.annotations == ("spec", "template", "metadata", "annotations")
        assert found.volumes == (*pod_spec, "volumes")
        assert [one.expression for one in found.containers] == [
            ".spec.template.spec.containers[*]",
            ".spec.template.spec.initContainers[*]",
        ]
        for container in found.containers:
            assert (container.env, container.volume_mounts) == (("env",), ("volumeMounts",))


def test_a_mapping_may_say_where_annotations_are() -> None:
    given = mapping({"version": "*", "annotations": ".metadata['pods'].notes"})
    assert build_template(parse_mapping(given), "v1").annotations == ("metadata", "pods", "notes")


@pytest.mark.parametrize("field", ["annotations", "volumes", "name", "env", "volumeMounts"])
@pytest.mark.parametrize(
    "path",
    [
        *("text", "1", "1.5", "true", ".a[*]", ".*", "..a", ".a[0]", ".a[0:1]", ".a[?(@.b)]"),
        *(".a['b','c']", ".a}{.b", "$", "@", "{.a}", ".a["),
    ],
)
def test_a_fixed_path_has_field_steps_alone(field: str, path: str) -> None:
    containers = [{"path": ".spec.list[*]"}]
    version: JSON = {"version": "*", "containers": containers}
    (version if field in {"annotations", "volumes"} else containers[0])[field] = path
    with pytest.raises(MappingError):
        build_template(parse_mapping(mapping(version)), "v1")


def night(*, coreos: bool) -> JSON:
    """Return a binding of a Secret to the CronJob night."""
    if not coreos:
        workload = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "night"}
        return spec_binding(service=SECRET_SERVICE, workload=workload)
    service = {"group": "", "version": "v1", "kind": "Secret", "name": "s1"}
    application = {"group": "batch", "version": "v1", "resource": "cronjobs", "name": "night"}
    return coreos_binding(services=[service], application=application, bindAsFiles=True)


@pytest.mark.parametrize("coreos", [False, True], ids=["spec", "coreos"])
def test_a_cronjob_is_bound_by_the_template_of_its_jobs(coreos: bool) -> None:
    binding, cluster = night(coreos=coreos), FakeCluster(objects=[secret(), cronjob()])
    cluster.reconcile(binding)
    assert conditions(binding)["Ready"][0] == "True"
    bound = cluster.get("cronjobs", "night")
    assert bound["spec"].keys() == {"jobTemplate"}
    assert pod(bound)["volumes"] == [{"name": "sb", "secret": {"secretName": "s1"}}]
    assert pod(bound)["containers"][0]["volumeMounts"]
    deleted(binding)
    cluster.reconcile(binding)
    assert pod(cluster.get("cronjobs", "night"))["volumes"] == []


@pytest.mark.parametrize("coreos", [False, True], ids=["spec", "coreos"])
def test_a_mapping_of_the_cluster_wins_over_built_in_paths(coreos: bool) -> None:
    path = ".spec.jobTemplate.spec.template.spec"
    containers = [{"path": f"{path}.sidecars[*]", "name": ".name"}]
    version = {"version": "v1", "containers": containers, "volumes": f"{path}.disks"}
    body = cronjob()
    pod(body)["sidecars"] = [{"name": "side"}]
    cluster = FakeCluster(objects=[secret(), body, mapping(version, name="cronjobs.batch")])
    cluster.reconcile(night(coreos=coreos))
    bound = pod(cluster.get("cronjobs", "night"))
    assert bound["disks"] == [{"name": "sb", "secret": {"secretName": "s1"}}]
    assert bound["sidecars"][0]["volumeMounts"]
    assert bound["containers"] == pod(cronjob())["containers"]


def test_a_pod_template_has_no_spec_around_it() -> None:
    body = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": meta("web")}
    body |= {"template": deployment()["spec"]["template"]}
    workload = {"apiVersion": "v1", "kind": "PodTemplate", "name": "web"}
    cluster = FakeCluster({**KINDS, "v1/PodTemplate": "podtemplates"}, [secret(), body])
    cluster.reconcile(spec_binding(service=SECRET_SERVICE, workload=workload))
    bound = cluster.get("podtemplates", "web")
    assert bound["template"]["spec"]["volumes"]
    assert "spec" not in bound


def test_every_match_of_a_path_is_a_container() -> None:
    paths = [{"path": ".spec..sidecars[*]"}, {"path": ".spec.only"}]
    body = deployment()
    body["spec"] = {
        "only": {"name": "one"},
        "a": {"sidecars": [{"name": "x"}, {"name": "y"}]},
        "b": {"sidecars": [{"name": "z"}]},
    }
    cluster = FakeCluster(
        objects=[secret(), body, mapping({"version": "v1", "containers": paths})]
    )
    cluster.reconcile(spec_binding(service=SECRET_SERVICE))
    spec = cluster.get("deployments", "web")["spec"]
    found = [spec["only"], *spec["a"]["sidecars"], *spec["b"]["sidecars"]]
    assert [len(one["volumeMounts"]) for one in found] == [1, 1, 1, 1]


def test_a_name_path_is_what_containers_are_filtered_by() -> None:
    named = {"path": ".spec.list[*]", "name": ".meta.title"}
    body = deployment()
    body["spec"] = {"list": [{"meta": {"title": "a"}}, {"meta": {"title": "b"}}, {}]}
    cluster = FakeCluster(
        objects=[secret(), body, mapping({"version": "v1", "containers": [named]})]
    )
    workload = {"name": "web", "containers": ["a"]}
    cluster.reconcile(spec_binding(service=SECRET_SERVICE, workload=workload))
    found = cluster.get("deployments", "web")["spec"]["list"]
    assert [bool(one.get("volumeMounts")) for one in found] == [True, False, False]


def test_missing_values_at_fixed_paths_are_made_and_all_else_stays() -> None:
    paths = {
        "version": "*",
        "volumes": ".spec.storage['all'].volumes",
        "containers": [
            {"path": ".spec.list[*]", "env": ".run.env", "volumeMounts": ".run['mounts']"}
        ],
    }
    body = deployment()
    body["spec"] = {"list": [{"image": "i", "run": None}], "other": [1, {"a": None}], "n": 0}
    cluster = FakeCluster(objects=[secret(), body, mapping(paths)])
    cluster.reconcile(spec_binding(service=SECRET_SERVICE))
    spec = cluster.get("deployments", "web")["spec"]
    assert spec == {
        "list": [
            {
                "image": "i",
                "run": {
                    "env": [{"name": "SERVICE_BINDING_ROOT", "value": "/bindings"}],
                    "mounts": [{"name": "sb", "mountPath": "/bindings/sb"}],
                },
            }
        ],
        "other": [1, {"a": None}],
        "n": 0,
        "storage": {"all": {"volumes": [{"name": "sb", "secret": {"secretName": "s1"}}]}},
    }
