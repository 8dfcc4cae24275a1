"""Whose things on a workload are: what is ours is known, what is not is left alone."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from tests.unit.binding.cluster import KINDS, FakeCluster, content
from tests.unit.binding.objects import (
    SECRET_SERVICE,
    conditions,
    coreos_binding,
    cronjob,
    deleted,
    deployment,
    edited,
    message,
    pod,
    secret,
    spec_binding,
)

from fairlead.api.meta import JSON
from fairlead.binding.reads import Get, Read, ReadFailure
from fairlead.binding.workloads.records import RECORD_PREFIX, RECORDED_ANNOTATION


BOUND = ("True", "ApplicationsBound")
ROOT = {"name": "SERVICE_BINDING_ROOT", "value": "/bindings"}
DIRECT = [{"group": "", "version": "v1", "kind": "Secret", "name": "s1"}]
ENV = [{"name": "X", "key": "password"}]
COLLIDING: dict[str, tuple[JSON, JSON]] = {
    "volume": ({}, {"volumes": [{"name": "sb", "emptyDir": {}}]}),
    "its own Secret": ({}, {"volumes": [{"name": "sb", "secret": {"secretName": "sb-deadbeef"}}]}),
    "mount": ({"volumeMounts": [{"name": "mine", "mountPath": "/bindings/sb"}]}, {}),
    "variable": ({"env": [{"name": "X", "value": "mine"}]}, {}),
    "variable of its own Secret": (
        {"env": [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "s2", "key": "password"}}}]},
        {},
    ),
}


def world(*objects: JSON) -> FakeCluster:
    kinds = {
        **KINDS,
        "servicebinding.io/v1/ServiceBinding": "servicebindings",
        "binding.operators.coreos.com/v1alpha1/ServiceBinding": "servicebindings",
    }
    return FakeCluster(kinds, [secret(), *objects])


def web(cluster: FakeCluster, name: str = "web") -> JSON:
    return cluster.get("deployments", name)


def app(cluster: FakeCluster, position: int = 0) -> JSON:
    found: JSON = pod(web(cluster))["containers"][position]
    return found


def files(**spec: Any) -> JSON:
    return spec_binding(service=SECRET_SERVICE, **spec)


def records(body: JSON) -> list[str]:
    annotations = body["metadata"].get("annotations") or {}
    return [key for key in annotations if key.startswith(RECORD_PREFIX)]


@pytest.mark.parametrize("what", COLLIDING)
def test_what_is_a_workloads_own_is_neither_replaced_nor_removed(what: str) -> None:
    more, spec = COLLIDING[what]
    own = deployment(containers=[{"name": "app", **more}])
    pod(own).update(spec)
    cluster, binding = world(own), files(env=ENV)
    for _ in range(2):
        cluster.reconcile(binding)
        assert web(cluster) == own
    assert conditions(binding)["InjectionReady"] == ("False", "Error")
    told = message(binding, "InjectionReady")
    assert "Deployment ns/web" in told
    assert "that does not belong to this binding: " in told
    deleted(binding)
    assert cluster.reconcile(binding).flow.error == ""
    assert web(cluster) == own


def test_what_uses_a_secret_that_looks_generated_is_not_ours() -> None:
    name = "sb-deadbeef"
    own = deployment(
        containers=[
            {
                "name": "app",
                "env": [{"name": "Y", "valueFrom": {"secretKeyRef": {"name": name, "key": "a"}}}],
                "envFrom": [{"secretRef": {"name": name}}],
                "volumeMounts": [{"name": "mine", "mountPath": "/mine"}],
            }
        ],
        volumes=[{"name": "mine", "secret": {"secretName": name}}],
    )
    cluster, binding = world(own), files(env=ENV)
    cluster.reconcile(binding)
    assert conditions(binding)["Ready"] == BOUND
    deleted(binding)
    cluster.reconcile(binding)
    assert app(cluster) == pod(own)["containers"][0]
    assert pod(web(cluster))["volumes"] == pod(own)["volumes"]
    assert records(web(cluster)) == []


def root_of(manager: str) -> JSON:
    """Return the entry of a field manager that owns the root of container app."""
    fields: JSON = {"f:env": {'k:{"name":"SERVICE_BINDING_ROOT"}': {".": {}, "f:value": {}}}}
    for field in ('k:{"name":"app"}', "f:containers", "f:spec", "f:template", "f:spec"):
        fields = {field: fields}
    return {"manager": manager, "operation": "Update", "fieldsV1": fields}


def owned_by(cluster: FakeCluster, *managers: str) -> None:
    web(cluster)["metadata"]["managedFields"] = [root_of(manager) for manager in managers]


def root(cluster: FakeCluster) -> list[JSON]:
    return [item for item in app(cluster).get("env", []) if item["name"] == ROOT["name"]]


def test_the_root_goes_with_the_last_binding_that_needs_it() -> None:
    cluster, first, second = world(deployment()), files(), files()
    second["metadata"] |= {"name": "second", "uid": "second"}
    cluster.reconcile(first)
    # The second one notes that the root is a binding's, too.
    cluster.reconcile(second)
    deleted(first)
    cluster.reconcile(first)
    assert root(cluster) == [ROOT]
    deleted(second)
    cluster.reconcile(second)
    assert root(cluster) == []


def test_the_root_goes_when_files_become_variables() -> None:
    cluster = world(deployment())
    service = {"group": "", "version": "v1", "kind": "Secret", "name": "s1"}
    binding = coreos_binding(services=[service], bindAsFiles=True)
    cluster.reconcile(binding)
    assert root(cluster) == [ROOT]
    edited(binding, bindAsFiles=False)
    cluster.reconcile(binding)
    assert root(cluster) == []


@pytest.mark.parametrize(
    ("own", "managers", "left"),
    [
        pytest.param([], ["fairlead"], [], id="ours alone"),
        pytest.param([], ["fairlead", "helm"], [ROOT], id="a chart's too"),
        pytest.param([ROOT], ["helm"], [ROOT], id="a chart's"),
        pytest.param([ROOT], [], [ROOT], id="nobody knows whose"),
        pytest.param([ROOT], ["fairlead"], [], id="of a former version"),
        pytest.param(
            [ROOT], ["fairlead", "helm"], [ROOT], id="of a former version, a chart's too"
        ),
    ],
)
def test_the_root_stays_where_another_manager_has_it(
    own: list[JSON], managers: list[str], left: list[JSON]
) -> None:
    cluster, binding = world(deployment(containers=[{"name": "app", "env": own}])), files()
    if own:
        owned_by(cluster, *managers)
    cluster.reconcile(binding)
    owned_by(cluster, *managers)
    assert cluster.reconcile(binding).changed_workloads() == []
    deleted(binding)
    context = cluster.reconcile(binding)
    assert root(cluster) == left
    both = {"fairlead", "helm"} <= {*managers}
    assert any("--force-conflicts" in text for text in context.left) == (both and not own)


def test_a_root_that_was_taken_and_given_back_gets_its_value_again() -> None:
    """Both owned the name, and the other one alone the value, which goes with it."""
    cluster, binding = world(deployment()), files()
    cluster.reconcile(binding)
    del root(cluster)[0]["value"]
    cluster.reconcile(binding)
    assert conditions(binding)["Ready"] == BOUND
    assert root(cluster) == [ROOT]
    root(cluster)[0]["value"] = "/etc/bound"
    cluster.reconcile(binding)
    assert [item["mountPath"] for item in app(cluster)["volumeMounts"]] == ["/etc/bound/sb"]
    deleted(binding)
    cluster.reconcile(binding)
    assert root(cluster) == [{**ROOT, "value": "/etc/bound"}]


def test_what_is_there_just_so_is_used_and_stays() -> None:
    variable = {"name": "X", "valueFrom": {"secretKeyRef": {"name": "s1", "key": "password"}}}
    volume = {"name": "sb", "secret": {"secretName": "s1", "defaultMode": 0o400}}
    own = deployment(containers=[{"name": "app", "env": [variable]}], volumes=[volume])
    cluster, binding = world(own), files(env=ENV)
    cluster.reconcile(binding)
    assert conditions(binding)["Ready"] == BOUND
    assert [item["mountPath"] for item in app(cluster)["volumeMounts"]] == ["/bindings/sb"]
    assert cluster.reconcile(binding).changed_workloads() == []
    deleted(binding)
    cluster.reconcile(binding)
    assert app(cluster) == {"name": "app", "env": [variable], "volumeMounts": []}
    assert pod(web(cluster))["volumes"] == [volume]


def test_a_variable_in_a_container_that_is_not_bound_stays() -> None:
    variable = {"name": "X", "valueFrom": {"secretKeyRef": {"name": "s1", "key": "password"}}}
    own = deployment(containers=[{"name": "a"}, {"name": "b", "env": [variable]}])
    binding = files(env=ENV, workload={"name": "web", "containers": ["a"]})
    cluster = world(own)
    cluster.reconcile(binding)
    assert variable in app(cluster)["env"]
    deleted(binding)
    cluster.reconcile(binding)
    assert app(cluster)["env"] == []
    assert app(cluster, 1) == {"name": "b", "env": [variable]}


@pytest.mark.parametrize("lost", [False, True], ids=["recorded", "record was lost"])
def test_what_somebody_put_in_our_place_is_theirs(lost: bool) -> None:
    cluster, binding = world(deployment()), files()
    cluster.reconcile(binding)
    theirs = {"name": "sb", "emptyDir": {}}
    pod(web(cluster))["volumes"][0] = theirs
    if lost:
        del web(cluster)["metadata"]["annotations"]
    cluster.reconcile(binding)
    assert conditions(binding)["InjectionReady"] == ("False", "Error")
    deleted(binding)
    cluster.reconcile(binding)
    assert pod(web(cluster))["volumes"] == [theirs]


def test_a_mount_of_our_volume_that_somebody_added_goes_with_it() -> None:
    """A server refuses a mount of a volume that is not there."""
    cluster, binding = world(deployment()), files()
    cluster.reconcile(binding)
    app(cluster)["volumeMounts"].append({"name": "sb", "mountPath": "/also"})
    assert cluster.reconcile(binding).changed_workloads() == []
    deleted(binding)
    cluster.reconcile(binding)
    assert app(cluster)["volumeMounts"] == []


def _filled_in(cluster: FakeCluster) -> None:
    """Add what policies, schemas with defaults and people add to any item of a workload."""
    for volume in pod(web(cluster)).get("volumes", []):
        volume |= {"csi": None}
        volume["secret"] |= {"optional": False, "items": [{"key": "password", "path": "pw"}]}
    for container in pod(web(cluster))["containers"]:
        for mount in container.get("volumeMounts", []):
            mount |= {"readOnly": True, "mountPropagation": "None", "subPath": "pw"}
        for variable in container.get("env", []):
            variable.setdefault("value", "")
            if "valueFrom" in variable:
                variable["valueFrom"]["fieldRef"] = None
                variable["valueFrom"]["secretKeyRef"]["optional"] = True
        for source in container.get("envFrom", []):
            source |= {"prefix": "", "configMapRef": None}
            source["secretRef"]["optional"] = False


@pytest.mark.parametrize("way", ["removed", "renamed", "another Secret", "record lost"])
@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: files(env=ENV), id="files and a variable"),
        pytest.param(
            lambda: coreos_binding(services=DIRECT, bindAsFiles=False, namingStrategy="none"),
            id="whole",
        ),
    ],
)
def test_fields_that_others_add_to_what_is_ours_leave_it_ours(make: Any, way: str) -> None:
    cluster, binding = world(deployment(), secret("s2")), make()
    cluster.reconcile(binding)
    _filled_in(cluster)
    settled = copy.deepcopy(web(cluster))
    for _ in range(2):
        assert cluster.reconcile(binding).changed_workloads() == []
        assert conditions(binding)["Ready"] == BOUND
    if way == "renamed":
        edited(binding, name="other")
    elif way == "another Secret" and "service" in binding["spec"]:
        edited(binding, service={**SECRET_SERVICE, "name": "s2"})
    elif way == "another Secret":
        edited(binding, services=[{**DIRECT[0], "name": "s2"}])
    elif way == "record lost":
        # As a binding from before notes.
        del web(cluster)["metadata"]["annotations"]
        binding["metadata"]["annotations"] = {}
    cluster.reconcile(binding)
    assert conditions(binding)["Ready"] == BOUND
    if way == "another Secret":
        assert pod(web(cluster)) == json.loads(json.dumps(pod(settled)).replace('"s1"', '"s2"'))
    deleted(binding)
    cluster.reconcile(binding)
    assert "s1" not in str(web(cluster))
    assert "s2" not in str(web(cluster))
    assert not app(cluster).get("volumeMounts")


def test_what_is_there_with_filled_in_defaults_is_used_and_stays() -> None:
    variable = {
        "name": "X",
        "valueFrom": {"secretKeyRef": {"name": "s1", "key": "password", "optional": False}},
    }
    mount = {"name": "sb", "mountPath": "/bindings/sb", "readOnly": True}
    volume = {"name": "sb", "secret": {"secretName": "s1", "optional": False}}
    own = deployment(
        containers=[{"name": "app", "env": [variable, ROOT], "volumeMounts": [mount]}],
        volumes=[volume],
    )
    cluster, binding = world(own), files(env=ENV)
    for _ in range(2):
        cluster.reconcile(binding)
        assert conditions(binding)["Ready"] == BOUND
    deleted(binding)
    cluster.reconcile(binding)
    assert web(cluster)["spec"] == own["spec"]


@pytest.mark.parametrize(
    ("volume", "mount"),
    [({}, {"subPath": "password"}), ({"items": [{"key": "password", "path": "p"}]}, {})],
    ids=["a mount of one file", "a volume of one file"],
)
def test_what_has_only_a_part_of_the_secret_is_in_the_way(volume: JSON, mount: JSON) -> None:
    own = deployment(
        containers=[
            {
                "name": "app",
                "volumeMounts": [{"name": "sb", "mountPath": "/bindings/sb", **mount}],
            }
        ],
        volumes=[{"name": "sb", "secret": {"secretName": "s1", **volume}}],
    )
    cluster, binding = world(own), files()
    cluster.reconcile(binding)
    assert web(cluster) == own
    assert "that does not belong to this binding" in message(binding, "InjectionReady")


def test_a_source_of_the_same_secret_with_a_prefix_is_another_writers() -> None:
    own = deployment(
        containers=[{"name": "app", "envFrom": [{"prefix": "DB_", "secretRef": {"name": "s1"}}]}]
    )
    cluster = world(own)
    binding = coreos_binding(services=DIRECT, bindAsFiles=False, namingStrategy="none")
    cluster.reconcile(binding)
    assert len(app(cluster)["envFrom"]) == 2
    deleted(binding)
    cluster.reconcile(binding)
    assert web(cluster)["spec"] == own["spec"]


def test_a_renamed_container_takes_what_is_ours_along() -> None:
    cluster, binding = world(deployment()), files(env=ENV)
    cluster.reconcile(binding)
    app(cluster)["name"] = "renamed"
    cluster.reconcile(binding)
    assert [item["name"] for item in app(cluster)["env"]] == ["X", "SERVICE_BINDING_ROOT"]
    deleted(binding)
    cluster.reconcile(binding)
    assert app(cluster) == {"name": "renamed", "env": [], "volumeMounts": []}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"group":"g","name":"n","secret":"s","containers":[{"path":".a["}]}',
        '{"group":"g","name":"n","secret":"s","a":' + "[" * 100_000,
    ],
    ids=["empty", "no JSON", "no object", "no path", "deep"],
)
def test_a_record_that_somebody_spoiled_is_none(text: str) -> None:
    cluster, binding = world(deployment()), files(env=ENV)
    cluster.reconcile(binding)
    before = copy.deepcopy(web(cluster))
    (key,) = records(before)
    web(cluster)["metadata"]["annotations"][key] = text
    cluster.reconcile(binding)
    assert conditions(binding)["Ready"] == BOUND
    assert pod(web(cluster)) == pod(before)


@pytest.mark.parametrize(
    ("make", "more"),
    [
        pytest.param(lambda: files(env=ENV), {}, id="files and a variable, its own Secret"),
        pytest.param(lambda: files(env=ENV, type="t"), {}, id="files and a variable, generated"),
        pytest.param(
            lambda: coreos_binding(services=DIRECT, bindAsFiles=False), {}, id="whole, generated"
        ),
        pytest.param(
            lambda: coreos_binding(services=DIRECT, bindAsFiles=False, namingStrategy="none"),
            {},
            id="whole, its own Secret",
        ),
    ],
)
def test_a_projection_without_a_record_is_taken_over_where_it_is_certain(
    make: Any, more: JSON
) -> None:
    """As earlier versions and the original operator left them."""
    cluster, binding = world(deployment()), make()
    cluster.reconcile(binding)
    # The root is the binding's where no other program has written it.
    web(cluster)["metadata"]["managedFields"] = [root_of("fairlead")]
    before = copy.deepcopy(web(cluster))
    bare = copy.deepcopy(before)
    for key in records(bare):
        del bare["metadata"]["annotations"][key]
    binding["metadata"]["annotations"] = {}
    cluster.set(bare)
    cluster.reconcile(binding)
    assert web(cluster) == before
    assert conditions(binding)["Ready"] == BOUND

    cluster.set(bare)
    deleted(binding)
    cluster.reconcile(binding)
    left = app(cluster)
    assert [item["name"] for item in left.get("env", [])] in ([], ["SERVICE_BINDING_ROOT"])
    assert not left.get("envFrom")
    assert not left.get("volumeMounts")
    assert not pod(web(cluster)).get("volumes")


def _lose_record(cluster: FakeCluster, way: str) -> None:
    notes = web(cluster)["metadata"]["annotations"]
    for key in records(web(cluster)):
        notes[key] = "{"
        if way == "lost":
            del notes[key]


@pytest.mark.parametrize("passes", [0, 1], ids=["deleted at once", "after a pass"])
@pytest.mark.parametrize("way", ["lost", "spoiled"])
def test_without_its_record_a_projection_of_a_secret_that_others_own_goes(
    way: str, passes: int
) -> None:
    """Name, path and Secret prove whose it is."""
    own = deployment(containers=[{"name": "app"}, {"name": "side"}])
    cluster, binding = world(own), files(env=ENV)
    cluster.reconcile(binding)
    before = copy.deepcopy(web(cluster))
    _lose_record(cluster, way)
    app(cluster)["env"].insert(0, {"name": "OWN", "value": "x"})
    for _ in range(passes):
        cluster.reconcile(binding)
        assert conditions(binding)["Ready"] == BOUND
        assert records(web(cluster)) == records(before)
    deleted(binding)
    assert not cluster.reconcile(binding).flow.error
    assert app(cluster) == {
        "name": "app",
        "env": [{"name": "OWN", "value": "x"}, ROOT],
        "volumeMounts": [],
    }
    assert app(cluster, 1) == {"name": "side", "env": [ROOT], "volumeMounts": []}
    assert pod(web(cluster))["volumes"] == []
    assert records(web(cluster)) == []


def _written_by(manager: str, fields: JSON) -> JSON:
    spec = {"f:spec": {"f:template": {"f:spec": {"f:volumes": fields}}}}
    return {"manager": manager, "operation": "Update", "fieldsV1": spec}


OF_SB: JSON = {'k:{"name":"sb"}': {".": {}, "f:name": {}}}


@pytest.mark.parametrize(
    ("writers", "goes"),
    [
        pytest.param([], True, id="managers that are not known"),
        pytest.param([_written_by("fairlead-binding", OF_SB)], True, id="ours"),
        pytest.param([_written_by("team", OF_SB)], False, id="another"),
        pytest.param(
            [_written_by("team", OF_SB), _written_by("fairlead-binding", OF_SB)], True, id="both"
        ),
        pytest.param(
            [_written_by("team", {'k:{"name":"own"}': {}})], True, id="another, of another volume"
        ),
        pytest.param([_written_by("team", {})], False, id="another, of the whole list"),
        pytest.param([_written_by("fairlead-binding", {})], True, id="ours, of the whole list"),
    ],
)
@pytest.mark.parametrize("passes", [0, 1], ids=["deleted at once", "after a pass"])
def test_without_a_record_a_volume_that_another_program_wrote_stays(
    writers: list[JSON], goes: bool, passes: int
) -> None:
    cluster, binding = world(deployment()), files(env=ENV)
    cluster.reconcile(binding)
    _lose_record(cluster, "lost")
    web(cluster)["metadata"]["managedFields"] = writers
    for _ in range(passes):
        # It is in the way now, since the mode that the binding asks for is another.
        binding["metadata"]["annotations"]["servicebinding.io/default-mode"] = "0400"
        cluster.reconcile(binding)
        assert conditions(binding)["Ready"][0] == ("True" if goes else "False")
    deleted(binding)
    cluster.reconcile(binding)
    assert [one["name"] for one in pod(web(cluster))["volumes"]] == ([] if goes else ["sb"])
    assert [item["name"] for item in app(cluster)["env"]][:-1] == ([] if goes else ["X"])


MINE = {"name": "mine", "secret": {"secretName": "s1"}}
ELSEWHERE = {"name": "sb", "mountPath": "/elsewhere/sb"}
PASSWORD = {"name": "Y", "valueFrom": {"secretKeyRef": {"name": "s1", "key": "password"}}}


@pytest.mark.parametrize(
    ("container", "volumes", "left"),
    [
        pytest.param({"env": [PASSWORD]}, [], [], id="another variable"),
        pytest.param({"envFrom": [{"secretRef": {"name": "s1"}}]}, [], [], id="all variables"),
        pytest.param(
            {"volumeMounts": [{"name": "mine", "mountPath": "/x"}]}, [MINE], [MINE], id="a volume"
        ),
        pytest.param(
            {"volumeMounts": [ELSEWHERE]},
            [{"name": "sb", "secret": {"secretName": "s1"}}],
            [{"name": "sb", "secret": {"secretName": "s1"}}],
            id="a second mount of the volume",
        ),
    ],
)
def test_without_its_record_what_only_has_the_same_secret_stays(
    container: JSON, volumes: list[JSON], left: list[JSON]
) -> None:
    own = deployment(containers=[{"name": "app", **container}], volumes=volumes)
    cluster, binding = world(own), files()
    cluster.reconcile(binding)
    _lose_record(cluster, "lost")
    deleted(binding)
    cluster.reconcile(binding)
    assert pod(web(cluster))["volumes"] == left
    kept = {key: value for key, value in app(cluster).items() if key in container}
    assert {**kept, "env": [one for one in app(cluster)["env"] if one != ROOT]} == {
        "env": [],
        **container,
    }


def test_what_a_binding_found_just_so_is_recorded_as_none_of_its_own() -> None:
    volume = {"name": "sb", "secret": {"secretName": "s1"}}
    mount = {"name": "sb", "mountPath": "/bindings/sb"}
    own = deployment(
        containers=[{"name": "app", "env": [ROOT], "volumeMounts": [mount]}], volumes=[volume]
    )
    cluster, binding = world(own), files()
    cluster.reconcile(binding)
    assert len(records(web(cluster))) == 1
    assert cluster.reconcile(binding).changed_workloads() == []
    deleted(binding)
    cluster.reconcile(binding)
    assert web(cluster)["spec"] == own["spec"]
    assert records(web(cluster)) == []


def test_a_relabelled_workload_without_a_record_is_unbound_too() -> None:
    binding = files(workload={"selector": {"matchLabels": {"a": "b"}}})
    cluster = world(deployment(labels={"a": "b"}))
    cluster.reconcile(binding)
    for key in records(web(cluster)):
        del web(cluster)["metadata"]["annotations"][key]
    binding["metadata"]["annotations"] = {}
    web(cluster)["metadata"]["labels"] = {}
    cluster.reconcile(binding)
    assert pod(web(cluster))["volumes"] == []


def rival(api: str = "servicebinding.io", **spec: Any) -> JSON:
    """A binding of the same directory that was created after ``sb``."""
    if api == "servicebinding.io":
        binding = files(name="sb", **spec)
    else:
        binding = coreos_binding(services=DIRECT, name="sb", bindAsFiles=True, **spec)
    binding["metadata"] |= {
        "name": "later",
        "uid": "uid-later",
        "creationTimestamp": "2026-02-02T00:00:00Z",
    }
    return binding


def first() -> JSON:
    binding = files(env=ENV)
    binding["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    return binding


@pytest.mark.parametrize("api", ["servicebinding.io", "binding.operators.coreos.com"])
@pytest.mark.parametrize("order", ["first comes first", "second comes first"])
def test_of_two_bindings_in_one_place_the_second_yields_and_names_the_first(
    api: str, order: str
) -> None:
    older, newer = first(), rival(api)
    cluster = world(deployment(), older, newer)
    turns = [older, newer] if order == "first comes first" else [newer, older]
    for binding in turns:
        cluster.reconcile(binding)
    settled = copy.deepcopy(web(cluster))
    assert records(settled) == [f"{RECORD_PREFIX}uid-sb"]
    for binding in [*turns, *turns]:
        assert cluster.reconcile(binding).changed_workloads() == []
    assert web(cluster) == settled
    assert conditions(older)["Ready"] == BOUND
    assert conditions(newer)["InjectionReady"] == ("False", "Error")
    told = message(newer, "InjectionReady")
    assert "belongs to ServiceBinding ns/sb of servicebinding.io, which was created first" in told

    deleted(older)
    cluster.reconcile(older)
    cluster.delete(older)
    cluster.reconcile(newer)
    assert conditions(newer)["Ready"] == BOUND
    assert [item["name"] for item in pod(web(cluster))["volumes"]] == ["sb"]


def test_who_takes_a_place_over_does_not_take_the_mode_that_another_has_asked_for() -> None:
    older, newer = first(), rival()
    newer["metadata"]["annotations"] = {"servicebinding.io/default-mode": "0400"}
    cluster = world(deployment(), older, newer)
    cluster.reconcile(newer)
    assert pod(web(cluster))["volumes"][0]["secret"]["defaultMode"] == 0o400
    cluster.reconcile(older)
    assert records(web(cluster)) == [f"{RECORD_PREFIX}uid-sb"]
    assert "defaultMode" not in pod(web(cluster))["volumes"][0]["secret"]


@pytest.mark.parametrize("gone", ["gone", "another of its name"])
def test_nobody_yields_to_a_binding_that_is_gone(gone: str) -> None:
    older, newer = first(), rival()
    cluster = world(deployment(), older, newer)
    cluster.reconcile(older)
    cluster.delete(older)
    if gone != "gone":
        older["metadata"]["uid"] = "uid-another"
        cluster.set(older)
    cluster.reconcile(newer)
    assert conditions(newer)["Ready"] == BOUND
    assert records(web(cluster)) == [f"{RECORD_PREFIX}uid-later"]
    assert [item["name"] for item in app(cluster)["env"]] == ["SERVICE_BINDING_ROOT"]


def test_a_binding_that_cannot_be_looked_at_counts_as_there() -> None:
    older, newer = first(), rival()
    cluster = world(deployment(), older)
    cluster.reconcile(older)

    def refuse(read: Read) -> ReadFailure | None:
        hidden = isinstance(read, Get) and read.resource.plural == "servicebindings"
        return ReadFailure("Forbidden", "no") if hidden else None

    cluster.refuse = refuse
    cluster.reconcile(newer)
    assert conditions(newer)["InjectionReady"] == ("False", "Error")


def test_two_bindings_of_one_secret_path_do_not_take_turns() -> None:
    older, newer = (
        coreos_binding(
            services=DIRECT,
            namingStrategy=strategy,
            application={"name": "web", "bindingPath": {"secretPath": "spec.secret"}},
            name=name,
            bindAsFiles=True,
        )
        for name, strategy in (("one", "none"), ("two", "uppercase"))
    )
    newer["metadata"] |= {"name": "z", "uid": "uid-z"}
    cluster = world(deployment(), older, newer)
    for binding in (newer, older, newer, older):
        cluster.reconcile(binding)
    assert web(cluster)["spec"]["secret"] == "s1"
    assert conditions(older)["Ready"] == BOUND
    assert "secretPath" in message(newer, "InjectionReady")


SELECTOR = {"selector": {"matchLabels": {"a": "b"}}}


@pytest.mark.parametrize("broken", ["", "service", "mapping"])
def test_the_only_workload_of_a_selector_is_unbound_when_it_is_relabelled(broken: str) -> None:
    """Whatever else is wrong by then."""
    cluster, binding = world(deployment(labels={"a": "b"})), files(workload=SELECTOR)
    cluster.reconcile(binding)
    if broken == "service":
        cluster.delete(secret())
    elif broken == "mapping":
        cluster.set(_mapping({"version": "*", "volumes": ".a["}))
    web(cluster)["metadata"]["labels"] = {}
    cluster.reconcile(binding)
    assert pod(web(cluster))["volumes"] == []
    assert records(web(cluster)) == []


@pytest.mark.parametrize("then", ["edited", "deleted"])
def test_a_workload_of_a_former_name_is_unbound_though_the_new_one_is_missing(then: str) -> None:
    cluster, binding = world(deployment()), files()
    cluster.reconcile(binding)
    edited(binding, workload={**binding["spec"]["workload"], "name": "missing"})
    if then == "deleted":
        deleted(binding)
    cluster.reconcile(binding)
    assert pod(web(cluster))["volumes"] == []
    if then == "edited":
        assert conditions(binding)["InjectionReady"] == ("False", "ApplicationNotFound")


@pytest.mark.parametrize("then", ["edited", "deleted"])
@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"name": "renamed"}, id="name"),
        pytest.param({"env": []}, id="env"),
        pytest.param({"service": {**SECRET_SERVICE, "name": "s2"}}, id="service"),
        pytest.param(
            {
                "workload": {
                    "apiVersion": "apps/v1",
                    "kind": "Deployment",
                    "name": "web",
                    "containers": ["b"],
                }
            },
            id="containers",
        ),
    ],
)
def test_an_edited_spec_leaves_nothing_of_the_former_one(change: JSON, then: str) -> None:
    own = deployment(containers=[{"name": "a"}, {"name": "b"}])
    cluster, binding = world(own, secret("s2")), files(env=ENV)
    cluster.reconcile(binding)
    edited(binding, **change)
    if then == "deleted":
        deleted(binding)
        cluster.reconcile(binding)
        for position, name in enumerate("ab"):
            expected = {"name": name, "env": [], "volumeMounts": []}
            assert app(cluster, position) == expected
        assert pod(web(cluster))["volumes"] == []
        return
    cluster.reconcile(binding)
    fresh = world(own, secret("s2"))
    anew = files(env=ENV)
    edited(anew, **change)
    fresh.reconcile(anew)
    for position in (0, 1):
        after, wanted = app(cluster, position), app(fresh, position)
        bare: JSON = (
            {"env": [], "volumeMounts": []} if "workload" in change and position == 0 else {}
        )
        assert _sorted(after) == _sorted({**wanted, **bare})
    assert pod(web(cluster))["volumes"] == pod(web(fresh))["volumes"]


def _sorted(container: JSON) -> JSON:
    return {**container, "env": sorted(container.get("env", []), key=lambda item: item["name"])}


def test_another_kind_of_workload_unbinds_the_former_kind() -> None:
    cron = cronjob()
    cluster, binding = world(deployment(), cron), files()
    cluster.reconcile(binding)
    workload = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "night"}
    edited(binding, workload=workload)
    cluster.reconcile(binding)
    assert pod(web(cluster))["volumes"] == []
    assert pod(cluster.get("cronjobs", "night"))["volumes"]


def test_a_former_kind_that_cannot_be_read_is_said_and_not_forgotten() -> None:
    cron = cronjob()
    cluster, binding = world(deployment(), cron), files()
    cluster.reconcile(binding)
    cluster.failing["list", "deployments"] = "no"
    workload = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "night"}
    edited(binding, workload=workload)
    made = cluster.reconcile(binding)
    assert made.flow.transient
    assert "no longer selected" in message(binding, "Ready")
    assert pod(cluster.get("cronjobs", "night"))["volumes"]


@pytest.mark.parametrize("name", ["...", "---", ".-."])
def test_a_name_of_punctuation_alone_gives_a_legal_volume_name(name: str) -> None:
    cluster, binding = world(deployment()), files(name=name)
    cluster.reconcile(binding)
    (volume,) = pod(web(cluster))["volumes"]
    assert volume["name"].startswith("binding-")
    assert app(cluster)["volumeMounts"][0]["mountPath"] == f"/bindings/{name}"


def _mapping(template: JSON) -> JSON:
    return {
        "apiVersion": "servicebinding.io/v1",
        "kind": "ClusterWorkloadResourceMapping",
        "metadata": {"name": "deployments.apps"},
        "spec": {"versions": [template]},
    }


def _generated(cluster: FakeCluster, binding: JSON, host: str) -> str:
    """Change the content, have it projected; the name of the Secret then."""
    cluster.set(secret(type="t", host=host))
    cluster.reconcile(binding)
    name = binding["status"]["binding"]["name"]
    cluster.get("secrets", name)["metadata"]["annotations"] = {RECORDED_ANNOTATION: "true"}
    return str(name)


REPLICAS = {**KINDS, "apps/v1/ReplicaSet": "replicasets"}


@pytest.mark.parametrize(
    "change", ["", "not recorded", "revision", "spoiled record", "list fails"]
)
def test_former_secrets_go_once_nothing_has_them_in_its_record(change: str) -> None:
    cluster, binding = FakeCluster(REPLICAS, [secret(), deployment()]), files(type="t")
    former = _generated(cluster, binding, host="a")
    copied = copy.deepcopy(web(cluster)["metadata"]["annotations"])
    cluster.set(secret(type="t", host="b"))
    made = cluster.reconcile(binding)
    # What alone has it is just being written, so that the next pass may find it free.
    assert made.changed_workloads()
    assert [name for name, _ in made.changes.superseded] == [former]
    if change == "not recorded":
        cluster.get("secrets", former)["metadata"]["annotations"] = {}
    elif change in {"revision", "spoiled record"}:
        revision = {"apiVersion": "apps/v1", "kind": "ReplicaSet"}
        annotations = copied if change == "revision" else dict.fromkeys(copied, "{")
        metadata = {"name": "web-1", "namespace": "ns", "annotations": annotations}
        cluster.set({**revision, "metadata": metadata})
    elif change == "list fails":
        cluster.failing["list", "replicasets"] = "no"
    names = [name for name, _ in cluster.reconcile(binding).changes.superseded]
    assert names == ([] if change else [former])


BELOW = {
    **REPLICAS,
    "apps/v1/StatefulSet": "statefulsets",
    "apps/v1/DaemonSet": "daemonsets",
    "apps/v1/ControllerRevision": "controllerrevisions",
    "batch/v1/Job": "jobs",
}


@pytest.mark.parametrize("kind", ["batch/v1/CronJob", "x.io/v1/AppConfig"])
@pytest.mark.parametrize("levels", [0, 1, 2])
@pytest.mark.parametrize("still", [True, False])
def test_former_secrets_stay_while_what_was_made_of_a_workload_names_them(
    kind: str, levels: int, still: bool
) -> None:
    api_version, _, name = kind.rpartition("/")
    workload = {"apiVersion": api_version, "kind": name, "name": "night"}
    custom = {**deployment("night"), "apiVersion": api_version, "kind": name}
    cluster = FakeCluster(BELOW, [secret(), cronjob() if name == "CronJob" else custom])
    binding = files(type="t", workload=workload)
    former = _generated(cluster, binding, host="a")
    owner = "uid-night"
    for level, made in enumerate(("Job", "ReplicaSet")[:levels], 1):
        body = deployment(f"made-{level}") | {"kind": made}
        body["apiVersion"] = "batch/v1" if made == "Job" else "apps/v1"
        reference = {"apiVersion": "v1", "kind": "X", "name": "x", "uid": owner}
        body["metadata"]["ownerReferences"] = [reference]
        if still and level == levels:
            pod(body)["volumes"] = [{"name": "sb", "secret": {"secretName": former}}]
        cluster.set(body)
        owner = body["metadata"]["uid"]
    _generated(cluster, binding, host="b")
    names = [name for name, _ in cluster.reconcile(binding).changes.superseded]
    # Of a custom kind without anything known below it nobody can tell.
    unknown = not levels and kind == "x.io/v1/AppConfig"
    assert names == ([] if (still and levels) or unknown else [former])


def test_what_is_made_of_many_workloads_is_read_at_once() -> None:
    """Each by itself came to thousands of reads, one after the other, and the pass to no end."""
    rounds = []
    for count in (2, 60):
        cluster = FakeCluster(BELOW, [secret()])
        for number in range(count):
            cluster.set(cronjob(f"night-{number}", labels={"app": "x"}))
        selector = {"matchLabels": {"app": "x"}}
        workload = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "", "selector": selector}
        binding = files(type="t", workload=workload)
        former = _generated(cluster, binding, host="a")
        for number in range(count * 4):
            owner = {
                "apiVersion": "v1",
                "kind": "X",
                "name": "x",
                "uid": f"uid-night-{number // 4}",
            }
            job = deployment(f"job-{number}") | {"apiVersion": "batch/v1", "kind": "Job"}
            job["metadata"]["ownerReferences"] = [owner]
            cluster.set(job)
        _generated(cluster, binding, host="b")
        cluster.rounds = 0
        names = [name for name, _ in cluster.reconcile(binding).changes.superseded]
        assert names == [former]
        rounds.append(cluster.rounds)
    assert rounds[0] == rounds[1]


def test_former_secrets_stay_where_what_is_made_of_a_workload_cannot_be_read() -> None:
    cron = cronjob()
    cluster = FakeCluster(BELOW, [secret(), cron])
    workload = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "night"}
    binding = files(type="t", workload=workload)
    _generated(cluster, binding, host="a")
    _generated(cluster, binding, host="b")
    cluster.failing["list", "jobs"] = "no"
    assert cluster.reconcile(binding).changes.superseded == []


def test_a_former_revision_of_a_deployment_is_no_workload_of_the_binding() -> None:
    """Its record is a copy; it is what a rollback goes back to."""
    cluster, binding = FakeCluster(REPLICAS, [secret(), deployment()]), files()
    cluster.reconcile(binding)
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "uid-web"}
    copied = copy.deepcopy(web(cluster))
    copied |= {"kind": "ReplicaSet"}
    copied["metadata"] |= {"name": "web-1", "ownerReferences": [{**owner, "controller": True}]}
    cluster.set(copied)
    workload = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "another"}
    edited(binding, workload=workload)
    cluster.reconcile(binding)
    assert pod(web(cluster))["volumes"] == []
    assert cluster.get("replicasets", "web-1") == copied


def test_a_workload_that_may_not_be_updated_keeps_no_other_from_being_bound() -> None:
    requester = {"servicebinding.io/requester": '{"username": "bob", "groups": []}'}
    binding = files(workload=SELECTOR, annotations=requester)
    one, two = (deployment(name, labels={"a": "b"}) for name in ("one", "two"))
    cluster = world(one, two)
    cluster.denied = [{"verb": "update", "name": "one"}]
    made = cluster.reconcile(binding)
    assert "cannot update application resource one" in message(binding, "Ready")
    assert made.flow.transient
    assert web(cluster, "one") == one
    assert pod(web(cluster, "two"))["volumes"]


def test_a_projection_that_is_not_whole_is_not_taken_for_ours() -> None:
    """The binding has projected this Secret, but nothing says that it was onto this workload."""
    variable = {"name": "X", "valueFrom": {"secretKeyRef": {"name": "s1", "key": "password"}}}
    mount = {"name": "sb", "mountPath": "/mine"}
    volume = {"name": "sb", "secret": {"secretName": "s1"}}
    own = deployment(
        containers=[{"name": "app", "env": [variable], "volumeMounts": [mount]}], volumes=[volume]
    )
    cluster, binding = world(own), files(env=ENV)
    binding["status"] = {"binding": {"name": "s1"}}
    deleted(binding)
    cluster.reconcile(binding)
    assert web(cluster) == own


def test_changed_content_is_rolled_out_though_its_digest_is_the_same() -> None:
    """``ab: c`` and ``a: bc`` are the same to the digest, which has no bounds in between."""
    cluster, binding = world(deployment(), secret(ab="c")), files(type="t")

    def projected() -> str:
        cluster.reconcile(binding)
        assert conditions(binding)["Ready"] == BOUND
        (volume,) = pod(web(cluster))["volumes"]
        return str(volume["secret"]["secretName"])

    first = projected()
    assert content(cluster.get("secrets", first)) == {"ab": "c", "type": "t"}
    cluster.set(secret(a="bc"))
    second = projected()
    assert second != first
    assert content(cluster.get("secrets", second)) == {"a": "bc", "type": "t"}
    # It has the name as long as it has the content, whatever becomes of the former Secret.
    assert projected() == second
    cluster.delete(cluster.get("secrets", first))
    assert projected() == second
    cluster.delete(cluster.get("secrets", second))
    assert projected() == second
    cluster.set(secret(ab="c"))
    assert projected() == first


def test_an_edited_secret_is_restored_under_its_name() -> None:
    cluster, binding = world(deployment(), secret()), files(type="t")
    cluster.reconcile(binding)
    name = binding["status"]["binding"]["name"]
    for data in ({"type": "eA=="}, {"type": "no base64"}, {}):
        cluster.get("secrets", name)["data"] = data
        cluster.reconcile(binding)
        assert binding["status"]["binding"]["name"] == name
        assert content(cluster.get("secrets", name)) == {"password": "pw", "type": "t"}
