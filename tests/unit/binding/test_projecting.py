"""The stages that project and unproject: one row for each way a stage can end."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from tests.unit.binding.cluster import KINDS, FakeCluster, content
from tests.unit.binding.objects import (
    SECRET_SERVICE,
    conditions,
    coreos_binding,
    deleted,
    deployment,
    edited,
    message,
    meta,
    pod,
    secret,
    spec_binding,
)

from fairlead.api.meta import JSON
from fairlead.binding.reads import Marked, Read, ReadFailure
from fairlead.binding.workloads.workload import Workload


BOUND = ("True", "ApplicationsBound")
VOLUME = {"name": "sb", "secret": {"secretName": "s1"}}
MOUNT = {"name": "sb", "mountPath": "/bindings/sb"}
ROOT = {"name": "SERVICE_BINDING_ROOT", "value": "/bindings"}


def bound(*workloads: JSON, binding: JSON | None = None) -> tuple[FakeCluster, JSON]:
    cluster = FakeCluster(objects=[secret(), *(workloads or [deployment()])])
    made = binding or spec_binding(service=SECRET_SERVICE)
    cluster.reconcile(made)
    return cluster, made


def container(cluster: FakeCluster, position: int = 0, name: str = "web") -> JSON:
    found: JSON = pod(cluster.get("deployments", name))["containers"][position]
    return found


@pytest.mark.parametrize(
    ("env", "path", "after"),
    [
        pytest.param(None, "/bindings/sb", [ROOT], id="no root: the default is set"),
        pytest.param(
            [{"name": "A", "value": "1"}],
            "/bindings/sb",
            [{"name": "A", "value": "1"}, ROOT],
            id="others stay before it",
        ),
        pytest.param(
            [{"name": "SERVICE_BINDING_ROOT", "value": "/x/"}], "/x/sb", None, id="its own root"
        ),
        pytest.param(
            [
                {"name": "SERVICE_BINDING_ROOT", "value": "/one"},
                {"name": "OTHER", "value": "/no"},
                {"name": "SERVICE_BINDING_ROOT", "value": "/two"},
            ],
            "/two/sb",
            None,
            id="twice: programs see the last one",
        ),
        pytest.param(
            [{"name": "SERVICE_BINDING_ROOT", "value": "//x/../y"}], "/y/sb", None, id="cleaned"
        ),
    ],
)
def test_files_are_mounted_below_the_root(
    env: list[JSON] | None, path: str, after: list[JSON] | None
) -> None:
    workload = deployment(containers=[{"name": "app"} | ({"env": env} if env else {})])
    cluster, binding = bound(workload)
    assert container(cluster)["volumeMounts"] == [{"name": "sb", "mountPath": path}]
    assert container(cluster)["env"] == (after or env)
    assert pod(cluster.get("deployments", "web"))["volumes"] == [VOLUME]
    assert conditions(binding)["InjectionReady"] == ("True", "ApplicationUpdated")


def test_a_root_from_elsewhere_is_an_error() -> None:
    source = {"configMapKeyRef": {"name": "c", "key": "k"}}
    env = [{"name": "SERVICE_BINDING_ROOT", "valueFrom": source}]
    cluster, binding = bound(deployment(containers=[{"name": "app", "env": env}]))
    assert conditions(binding)["InjectionReady"] == ("False", "Error")
    assert "literal value" in message(binding, "Ready")
    assert "volumes" not in pod(cluster.get("deployments", "web"))


@pytest.mark.parametrize(
    ("root", "said"),
    [
        pytest.param([{}], "not an absolute path", id="none"),
        pytest.param([{"value": ""}], "not an absolute path", id="empty"),
        pytest.param([{"value": "x"}], "not an absolute path", id="relative"),
        pytest.param([{"value": "../.."}], "not an absolute path", id="above"),
        pytest.param([{"value": " /bindings"}], "not an absolute path", id="blank"),
        pytest.param([{"value": 5}], "not an absolute path", id="a number"),
        pytest.param([{"value": "/a/$(A)"}], "literal value", id="another variable in it"),
        pytest.param([{"value": "$(A)/b"}], "not an absolute path", id="another variable"),
        pytest.param([{"value": "/a$$b"}], "literal value", id="what is escaped"),
        pytest.param(
            [{"value": "/one"}, {"value": ""}], "not an absolute path", id="the last one"
        ),
    ],
)
def test_a_root_that_programs_see_elsewhere_is_an_error(root: list[JSON], said: str) -> None:
    env = [{"name": "SERVICE_BINDING_ROOT", **value} for value in root]
    web = deployment(containers=[{"name": "app", "env": env}])
    cluster, binding = bound(web, deployment("other"))
    assert conditions(binding)["InjectionReady"] == ("False", "Error")
    assert said in message(binding, "Ready")
    assert cluster.get("deployments", "web") == web
    neighbour = spec_binding(service=SECRET_SERVICE, workload={"name": "other"})
    neighbour["metadata"] |= {"name": "neighbour", "uid": "neighbour"}
    cluster.reconcile(neighbour)
    assert conditions(neighbour)["Ready"] == BOUND


def test_a_root_that_the_binding_asks_for_itself_is_said_of_the_binding() -> None:
    asked = [{"name": "SERVICE_BINDING_ROOT", "key": "password"}]
    cluster, binding = bound(binding=spec_binding(service=SECRET_SERVICE, env=asked))
    assert conditions(binding)["InjectionReady"] == ("False", "Error")
    assert message(binding, "Ready").startswith("spec.env: SERVICE_BINDING_ROOT says where")
    assert cluster.get("deployments", "web") == deployment()
    # The binding beside it, which takes its own root, is bound all the same.
    other = spec_binding(service=SECRET_SERVICE)
    other["metadata"] |= {"name": "other", "uid": "other"}
    cluster.reconcile(other)
    assert conditions(other)["Ready"] == BOUND
    assert container(cluster)["env"] == [ROOT]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        pytest.param([], [True, True], id="no filter"),
        pytest.param(["a"], [True, False], id="one"),
        pytest.param(["b", "zzz"], [False, True], id="unknown names are ignored"),
        pytest.param(["zzz"], [False, False], id="none matches"),
    ],
)
def test_containers_are_filtered_by_name(names: list[str], expected: list[bool]) -> None:
    binding = spec_binding(service=SECRET_SERVICE, workload={"name": "web", "containers": names})
    cluster, binding = bound(
        deployment(containers=[{"name": "a"}, {"name": "b"}]), binding=binding
    )
    found = [bool(container(cluster, n).get("volumeMounts")) for n in range(2)]
    assert found == expected
    assert bool(pod(cluster.get("deployments", "web")).get("volumes")) is any(expected)
    assert conditions(binding)["Ready"] == BOUND


def test_a_mapping_without_names_is_not_filtered() -> None:
    mapping = {
        "apiVersion": "servicebinding.io/v1",
        "kind": "ClusterWorkloadResourceMapping",
        "metadata": {"name": "deployments.apps"},
        "spec": {
            "versions": [
                {"version": "*", "containers": [{"path": ".spec.template.spec.containers[*]"}]}
            ]
        },
    }
    workload = {"name": "web", "containers": ["zzz"]}
    binding = spec_binding(service=SECRET_SERVICE, workload=workload)
    cluster, _ = bound(deployment(), mapping, binding=binding)
    assert container(cluster)["volumeMounts"] == [MOUNT]


@pytest.mark.parametrize(
    ("binding", "after"),
    [
        pytest.param(
            spec_binding(service=SECRET_SERVICE, env=[{"name": "PW", "key": "password"}]),
            {
                "env": [
                    {
                        "name": "PW",
                        "valueFrom": {"secretKeyRef": {"name": "s1", "key": "password"}},
                    },
                    ROOT,
                ],
                "volumeMounts": [MOUNT],
            },
            id="single entries",
        ),
        pytest.param(
            coreos_binding(
                services=[{"group": "", "version": "v1", "kind": "Secret", "name": "s1"}],
                bindAsFiles=False,
                namingStrategy="none",
            ),
            {"envFrom": [{"secretRef": {"name": "s1"}}]},
            id="the whole Secret",
        ),
    ],
)
def test_environment(binding: JSON, after: JSON) -> None:
    cluster, _ = bound(binding=binding)
    assert container(cluster) == {"name": "app", **after}


@pytest.mark.parametrize(
    ("spec", "content_", "direct"),
    [
        pytest.param({}, {"type": "postgresql", "password": "pw"}, True, id="as it is"),
        pytest.param({"type": "t"}, {"type": "t", "password": "pw"}, False, id="type"),
        pytest.param(
            {"provider": "p"},
            {"type": "postgresql", "password": "pw", "provider": "p"},
            False,
            id="provider",
        ),
    ],
)
def test_the_secret_is_copied_only_when_it_has_to_be(
    spec: JSON, content_: JSON, direct: bool
) -> None:
    cluster, binding = bound(binding=spec_binding(service=SECRET_SERVICE, **spec))
    name = binding["status"]["binding"]["name"]
    assert (name == "s1") is direct
    assert content(cluster.get("secrets", name)) == content_
    if not direct:
        (owner,) = cluster.get("secrets", name)["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"]) == ("ServiceBinding", "uid-sb")


@pytest.mark.parametrize(
    ("objects", "binding", "injection", "ready"),
    [
        pytest.param(
            [secret()],
            spec_binding(service=SECRET_SERVICE),
            ("False", "ApplicationNotFound"),
            ("False", "ProcessingError"),
            id="no workload",
        ),
        pytest.param(
            [secret(), deployment(labels={"a": "b"})],
            spec_binding(
                service=SECRET_SERVICE, workload={"selector": {"matchLabels": {"a": "c"}}}
            ),
            ("False", "ApplicationNotFound"),
            ("False", "ProcessingError"),
            id="nothing matches",
        ),
        pytest.param(
            [secret(), deployment()],
            spec_binding(
                service=SECRET_SERVICE,
                workload={"selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}},
            ),
            ("False", "ApplicationNotFound"),
            ("False", "ProcessingError"),
            id="selector is wrong",
        ),
        pytest.param(
            [secret(password="pw"), deployment()],
            spec_binding(service=SECRET_SERVICE),
            ("False", "RequiredBindingNotFound"),
            ("False", "ProcessingError"),
            id="no type",
        ),
        pytest.param(
            [secret(), deployment()],
            coreos_binding(
                application={},
                services=[{"group": "", "version": "v1", "kind": "Secret", "name": "s1"}],
            ),
            ("False", "EmptyApplication"),
            BOUND,
            id="no application",
        ),
        pytest.param(
            [secret(), deployment(volumes=[]) | {"spec": {"template": {"spec": {}}}}],
            spec_binding(service=SECRET_SERVICE),
            ("False", "Error"),
            ("False", "ProcessingError"),
            id="no containers",
        ),
    ],
)
def test_what_keeps_a_binding_from_being_projected(
    objects: list[JSON], binding: JSON, injection: tuple[str, str], ready: tuple[str, str]
) -> None:
    cluster = FakeCluster(objects=objects)
    cluster.reconcile(binding)
    assert conditions(binding)["InjectionReady"] == injection
    assert conditions(binding)["Ready"] == ready


def test_the_secret_is_named_even_without_a_workload() -> None:
    cluster = FakeCluster(objects=[secret()])
    binding = spec_binding(service=SECRET_SERVICE, type="t")
    cluster.reconcile(binding)
    name = binding["status"]["binding"]["name"]
    assert content(cluster.get("secrets", name))["type"] == "t"


def test_an_entry_that_no_secret_can_have_is_an_error() -> None:
    body = secret()
    service = {"group": "", "version": "v1", "kind": "Secret", "name": "s1"}
    binding = coreos_binding(
        services=[service], namingStrategy="{{ .name }} of mine", bindAsFiles=True
    )
    cluster = FakeCluster(objects=[body, deployment()])
    cluster.reconcile(binding)
    assert conditions(binding)["CollectionReady"] == ("False", "ErrorPersistingSecret")
    assert cluster.get("deployments", "web") == deployment()


@pytest.mark.parametrize(
    ("name", "volume"),
    [
        pytest.param("plain", "plain", id="legal"),
        pytest.param("my.db", "my-db-", id="with a dot"),
        pytest.param("a" * 70, "a" * 54 + "-", id="too long"),
    ],
)
def test_the_volume_has_a_legal_name_and_the_directory_the_bindings(
    name: str, volume: str
) -> None:
    cluster, _ = bound(binding=spec_binding(service=SECRET_SERVICE, name=name))
    (mount,) = container(cluster)["volumeMounts"]
    assert mount["mountPath"] == f"/bindings/{name}"
    assert mount["name"].startswith(volume)
    assert len(mount["name"]) <= 63
    assert (mount["name"] == name) is (name == "plain")


def test_unbinding_takes_away_what_was_projected_and_nothing_else() -> None:
    own = {"name": "mine", "secret": {"secretName": "s1"}}
    mine = {"name": "mine", "mountPath": "/mine"}
    theirs = {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s1", "key": "password"}}}
    first = {"name": "app", "env": [theirs], "volumeMounts": [mine]}
    workload = deployment(containers=[first], volumes=[own])
    binding = spec_binding(service=SECRET_SERVICE, env=[{"name": "PW", "key": "password"}])
    cluster, binding = bound(workload, binding=binding)
    assert len(container(cluster)["env"]) == 3
    deleted(binding)
    made = cluster.reconcile(binding)
    assert made.flow.error == ""
    assert container(cluster) == {"name": "app", "env": [theirs], "volumeMounts": [mine]}
    assert pod(cluster.get("deployments", "web"))["volumes"] == [own]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        pytest.param("gone", "", id="workload is gone"),
        pytest.param("forbidden", "cannot unbind: no", id="workload may not be read"),
        pytest.param("mapping", "", id="mapping is broken: the record knows"),
    ],
)
def test_what_cannot_be_unbound_keeps_the_binding_unless_it_is_gone(
    change: str, error: str
) -> None:
    cluster, binding = bound()
    deleted(binding)
    if change == "gone":
        cluster.delete(deployment())
    elif change == "forbidden":
        cluster.refuse = lambda _: ReadFailure("Forbidden", "no")
    else:
        broken = {"version": "*", "volumes": ".a["}
        cluster.set(
            {
                "apiVersion": "servicebinding.io/v1",
                "kind": "ClusterWorkloadResourceMapping",
                "metadata": {"name": "deployments.apps"},
                "spec": {"versions": [broken]},
            }
        )
    made = cluster.reconcile(binding)
    assert made.flow.error.startswith(error)
    assert bool(made.flow.error) is bool(error)
    if change == "mapping":
        assert pod(cluster.get("deployments", "web"))["volumes"] == []


def test_a_relabelled_workload_is_unbound() -> None:
    binding = spec_binding(
        service=SECRET_SERVICE, workload={"selector": {"matchLabels": {"a": "b"}}}
    )
    one, two = (deployment(name, labels={"a": "b"}) for name in ("one", "two"))
    own = deployment("own", volumes=[{**VOLUME, "secret": {"secretName": "other"}}])
    cluster, binding = bound(one, two, own, binding=binding)
    cluster.get("deployments", "one")["metadata"]["labels"] = {}
    cluster.reconcile(binding)
    assert pod(cluster.get("deployments", "one"))["volumes"] == []
    assert pod(cluster.get("deployments", "two"))["volumes"] == [VOLUME]
    assert cluster.get("deployments", "own") == own


@pytest.mark.parametrize(
    "refused", [pytest.param(False, id="listed"), pytest.param(True, id="list is refused")]
)
def test_another_name_unbinds_the_former_workload(refused: bool) -> None:
    cluster, binding = bound(deployment(), deployment("other"))

    def refuse(read: Read) -> ReadFailure | None:
        return ReadFailure("Forbidden", "no") if refused and isinstance(read, Marked) else None

    cluster.refuse = refuse
    edited(binding, workload={"apiVersion": "apps/v1", "kind": "Deployment", "name": "other"})
    cluster.reconcile(binding)
    assert pod(cluster.get("deployments", "other"))["volumes"] == [VOLUME]
    assert bool(pod(cluster.get("deployments", "web"))["volumes"]) is refused
    assert conditions(binding)["Ready"] == BOUND


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(
            {"type": "t", "env": [{"name": "PW", "key": "password"}]},
            {"env": []},
            [ROOT],
            id="a variable is dropped",
        ),
        pytest.param(
            {"type": "t", "env": [{"name": "PW", "key": "password"}]},
            {"env": [{"name": "PX", "key": "password"}]},
            ["SERVICE_BINDING_ROOT", "PX"],
            id="a variable is renamed",
        ),
    ],
)
def test_edited_variables(before: JSON, after: JSON, expected: list[Any]) -> None:
    cluster, binding = bound(binding=spec_binding(service=SECRET_SERVICE, **before))
    edited(binding, **after)
    cluster.reconcile(binding)
    env = container(cluster)["env"]
    names = [item["name"] for item in env]
    assert names == [item["name"] if isinstance(item, dict) else item for item in expected]


def test_a_renamed_binding_moves_its_directory() -> None:
    binding = spec_binding(service=SECRET_SERVICE, type="t", name="old")
    cluster, binding = bound(binding=binding)
    edited(binding, name="new")
    cluster.reconcile(binding)
    assert [item["name"] for item in container(cluster)["volumeMounts"]] == ["new"]
    assert [item["name"] for item in pod(cluster.get("deployments", "web"))["volumes"]] == ["new"]


def test_a_mode_by_default_is_no_change_and_another_secret_keeps_it() -> None:
    cluster, binding = bound()
    (volume,) = pod(cluster.get("deployments", "web"))["volumes"]
    volume["secret"]["defaultMode"] = 0o644
    assert cluster.reconcile(binding).changed_workloads() == []
    cluster.set(secret("s2"))
    edited(binding, service={**SECRET_SERVICE, "name": "s2"})
    cluster.reconcile(binding)
    (volume,) = pod(cluster.get("deployments", "web"))["volumes"]
    assert volume["secret"] == {"secretName": "s2", "defaultMode": 0o644}


def test_a_narrowed_filter_unmounts_the_others() -> None:
    workload = deployment(containers=[{"name": "a"}, {"name": "b"}])
    cluster, binding = bound(workload)
    narrowed = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "containers": ["a"]}
    edited(binding, workload=narrowed)
    cluster.reconcile(binding)
    assert [bool(container(cluster, n)["volumeMounts"]) for n in range(2)] == [True, False]


def test_two_bindings_share_a_workload_without_moving_each_other() -> None:
    cluster, first = bound()
    second = spec_binding(service=SECRET_SERVICE)
    second["metadata"] = meta("other", generation=1)
    cluster.reconcile(second)
    for binding in (first, second, first):
        assert cluster.reconcile(binding).changed_workloads() == []


def test_one_workload_that_fails_keeps_no_other_from_being_bound() -> None:
    names = ("a", "b", "c")
    a, b, c = (deployment(name, labels={"x": "y"}) for name in names)
    for bad in (a, c):
        pod(bad)["containers"][0]["volumeMounts"] = "none"
    binding = spec_binding(
        service=SECRET_SERVICE, workload={"selector": {"matchLabels": {"x": "y"}}}
    )
    cluster, binding = bound(a, b, c, binding=binding)
    assert conditions(binding)["InjectionReady"] == ("False", "Error")
    assert conditions(binding)["Ready"] == ("False", "ProcessingError")
    told = message(binding, "Ready")
    assert ["Deployment ns/a" in told, "Deployment ns/c" in told] == [True, True]
    assert pod(cluster.get("deployments", "b"))["volumes"] == [VOLUME]
    assert [cluster.get("deployments", name) for name in ("a", "c")] == [a, c]
    deleted(binding)
    assert cluster.reconcile(binding).flow.error == ""
    assert pod(cluster.get("deployments", "b"))["volumes"] == []


def test_the_old_mapping_in_the_annotation_is_where_it_is_unbound() -> None:
    """As the original operator's webhook leaves it, whose projections have no record."""
    template = '{"spec": {"versions": [{"version": "*", "volumes": ".spec.disks"}]}}'
    workload = deployment(containers=[{"name": "app", "volumeMounts": [MOUNT]}])
    workload["spec"]["disks"] = [VOLUME]
    cluster = FakeCluster(objects=[secret(), workload])
    binding = spec_binding(
        service=SECRET_SERVICE, annotations={"servicebinding.io/mapping": template}
    )
    binding["status"] = {"binding": {"name": "s1"}}
    made = cluster.reconcile(binding)
    assert made.flow.retry
    assert made.changes.annotation
    assert cluster.get("deployments", "web")["spec"]["disks"] == []
    assert container(cluster)["volumeMounts"] == []
    assert binding["metadata"]["annotations"] == {}


def stateful(*claims: Any) -> JSON:
    body = deployment()
    body["kind"] = "StatefulSet"
    body["spec"]["volumeClaimTemplates"] = list(claims)
    return body


STATEFUL = {"apps/v1/StatefulSet": "statefulsets", **KINDS}
DISK: JSON = {"metadata": {"name": "sb"}, "spec": {}}


@pytest.mark.parametrize("before", [False, True], ids=["", "bound by an earlier version"])
def test_a_disk_of_the_bindings_name_is_in_the_way(
    monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    """Pods have the claim for the volume, and would mount the disk as credentials."""
    cluster = FakeCluster(STATEFUL, [secret(), stateful(None, {"metadata": None}, DISK)])
    workload = {"kind": "StatefulSet", "name": "web"}
    binding = spec_binding(service=SECRET_SERVICE, workload=workload)
    if before:
        with monkeypatch.context() as former:
            former.setattr(Workload, "claims", set())
            cluster.reconcile(binding)
    known = copy.deepcopy(cluster.get("statefulsets", "web"))
    cluster.reconcile(binding)
    assert conditions(binding)["InjectionReady"] == ("False", "Error")
    text = message(binding, "Ready")
    assert "StatefulSet ns/web has a volume sb of .spec.volumeClaimTemplates" in text
    assert cluster.get("statefulsets", "web") == known
    # A neighbour of another name is bound to the same workload.
    other = spec_binding(service=SECRET_SERVICE, workload=workload, name="other")
    other["metadata"] = meta("other", generation=1)
    cluster.reconcile(other)
    assert conditions(other)["Ready"] == BOUND
    edited(binding, name="renamed")
    cluster.reconcile(binding)
    assert conditions(binding)["Ready"] == BOUND
    web = cluster.get("statefulsets", "web")
    assert {one["name"] for one in pod(web)["volumes"]} == {"other", "renamed"}
    mounts = {one["mountPath"] for one in pod(web)["containers"][0]["volumeMounts"]}
    assert mounts == {"/bindings/other", "/bindings/renamed"}
    assert web["spec"]["volumeClaimTemplates"] == known["spec"]["volumeClaimTemplates"]
