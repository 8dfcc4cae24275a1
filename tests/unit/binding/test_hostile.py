"""Whatever users write: no crash, and no change outside what is mapped."""

from __future__ import annotations

import base64
import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.binding.cluster import FakeCluster
from tests.unit.binding.objects import (
    SECRET_SERVICE,
    conditions,
    coreos_binding,
    database,
    deleted,
    deployment,
    message,
    meta,
    secret,
    spec_binding,
)
from tests.unit.binding.test_required import mapping

from fairlead.api.meta import JSON, object_from_dict
from fairlead.api.servicebinding.common import LONGEST_MESSAGE
from fairlead.binding.contexts.base import InvalidBinding
from fairlead.binding.contexts.coreos import CoreosContext
from fairlead.binding.contexts.outcome import invalid_status
from fairlead.binding.contexts.spec import SpecContext
from fairlead.binding.reads import ListAll, Snapshot
from fairlead.binding.workloads.records import RECORD_PREFIX


COREOS_SECRET = {"group": "", "version": "v1", "kind": "Secret", "name": "s1"}
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-5, 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)
SLOW = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def not_broken(*bindings: JSON) -> None:
    for binding in bindings:
        assert "panic occurred" not in message(binding, "Ready")


# Workloads

NAMES = ("name", "env", "volumeMounts", "envFrom", "image", "volumes", "containers", "x")
FRAGMENTS = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=4)
PODS = st.fixed_dictionaries(
    {},
    optional={
        "containers": st.lists(FRAGMENTS, max_size=2) | VALUES,
        "initContainers": st.lists(FRAGMENTS, max_size=2) | VALUES,
        "volumes": st.lists(FRAGMENTS, max_size=2) | VALUES,
        "other": VALUES,
    },
)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "template": st.fixed_dictionaries({}, optional={"spec": PODS, "metadata": VALUES}),
        "replicas": VALUES,
        "list": st.lists(FRAGMENTS, max_size=2),
    },
)
MAPPINGS = st.none() | st.fixed_dictionaries(
    {"version": st.sampled_from(["*", "v1", "v2"])},
    optional={
        "containers": st.lists(
            st.fixed_dictionaries(
                {"path": st.sampled_from([".spec.list[*]", ".spec..containers[*]", ".spec"])},
                optional={
                    "name": st.sampled_from([".name", ".image"]),
                    "env": st.sampled_from([".x.env", ".env"]),
                    "volumeMounts": st.sampled_from([".x.mounts", ".volumeMounts"]),
                },
            ),
            max_size=2,
        ),
        "volumes": st.sampled_from([".spec.volumes", ".spec.template.spec.volumes"]),
    },
)


def _without(value: Any, added: set[str]) -> Any:
    """What was there before: without what refers to the binding, and without what is empty."""
    if isinstance(value, dict):
        found = {key: _without(item, added) for key, item in value.items()}
        return {key: item for key, item in found.items() if item not in (None, [], {})}
    if isinstance(value, list):
        kept = [item for item in value if not _is_added(item, added)]
        return [_without(item, added) for item in kept]
    return value


def _is_added(item: Any, added: set[str]) -> bool:
    if not isinstance(item, dict):
        return False
    name = item.get("name")
    named = isinstance(name, str) and name in {*added, "SERVICE_BINDING_ROOT"}
    return named or item.get("secretRef") == {"name": "s1"}


@SLOW
@given(spec=SPECS, template=MAPPINGS, coreos=st.booleans(), files=st.booleans())
def test_nothing_changes_but_what_is_mapped(
    spec: JSON, template: JSON | None, coreos: bool, files: bool
) -> None:
    workload = {**deployment(), "spec": spec}
    objects = [secret(), workload, *([mapping(template)] if template else [])]
    cluster = FakeCluster(objects=objects)
    if coreos:
        binding = coreos_binding(
            services=[COREOS_SECRET], bindAsFiles=files, namingStrategy="none"
        )
    else:
        env = [{"name": "ZZ", "key": "password"}]
        binding = spec_binding(service=SECRET_SERVICE, env=env)
    before = copy.deepcopy(workload)
    cluster.reconcile(binding)
    not_broken(binding)
    bound = copy.deepcopy(cluster.get("deployments", "web"))
    if binding["status"]["conditions"][-1]["status"] != "True":
        assert bound == before
    notes = bound["metadata"].pop("annotations", {})
    assert all(key.startswith(RECORD_PREFIX) for key in notes)
    assert bound["metadata"] == before["metadata"]
    added = {"sb", "ZZ"}
    assert _without(bound["spec"], added) == _without(before["spec"], added)
    # A second pass finds everything as it is, and unbinding takes everything away.
    assert cluster.reconcile(binding).changed_workloads() == []
    deleted(binding)
    assert cluster.reconcile(binding).flow.error == ""
    after = cluster.get("deployments", "web")
    assert RECORD_PREFIX not in str(after["metadata"])
    assert _without(after, {""}) == _without(before, {""})


# Annotations and what they read

KEYS = st.sampled_from(
    ["service.binding", "service.binding/x", "service.binding/type", "service.binding/", "a/b"]
) | st.text(max_size=12).map(lambda text: f"service.binding{text}")
PATHS = st.sampled_from(
    ["{.spec.v}", "{.status}", "{.spec.v[*]}", "{..v}", "{.metadata.name}-{.spec.v}", "{", "{}"]
) | st.text(max_size=10)
OPTIONS = st.sampled_from(
    [
        *("optional=true", "objectType=Secret", "objectType=ConfigMap", "elementType=map"),
        *("elementType=sliceOfMaps", "elementType=sliceOfStrings", "sourceKey=k", "sourceValue=v"),
        *("objectType=", "elementType=string", "optional=yes", "sourceKey="),
    ]
)
DEFINITIONS = st.builds(
    lambda path, options: ",".join([f"path={path}", *options]),
    PATHS,
    st.lists(OPTIONS, max_size=4),
) | st.text(max_size=20)


@SLOW
@given(
    annotations=st.dictionaries(KEYS, DEFINITIONS, max_size=3),
    value=VALUES,
    coreos=st.booleans(),
)
def test_no_annotation_breaks_a_pass(
    annotations: dict[str, str], value: Any, coreos: bool
) -> None:
    service = database(v=value)
    service["metadata"]["annotations"] = annotations
    cluster = FakeCluster(objects=[secret(), service, deployment()])
    binding = coreos_binding() if coreos else spec_binding()
    cluster.reconcile(binding)
    not_broken(binding)
    if binding["status"]["conditions"][-1]["status"] != "True":
        assert cluster.get("deployments", "web") == deployment()


# Templates

TEMPLATES = st.lists(
    st.sampled_from(
        [
            *("{{", "}}", " .name ", " .db ", "|", " upper ", " json ", "(", ")", '"', "range"),
            *(" if ", " end ", " define ", " template ", "-", "$x :=", " . ", "printf", "%d"),
            *("index", " 1 ", "\\u0000", "\n", "{{ .type }}", "{{ .nothing }}", "/", "a"),
        ]
    )
    | st.text(max_size=3),
    max_size=8,
).map("".join)


@SLOW
@given(naming=TEMPLATES, value=TEMPLATES, name=st.text(max_size=5), files=st.booleans())
def test_no_template_breaks_a_pass(naming: str, value: str, name: str, files: bool) -> None:
    services = [{"group": "x.io", "version": "v1", "kind": "Database", "name": "db", "id": "db"}]
    cluster = FakeCluster(objects=[secret(), database(), deployment()])
    binding = coreos_binding(
        services=services,
        namingStrategy=naming,
        mappings=[{"name": name, "value": value}],
        bindAsFiles=files,
    )
    cluster.reconcile(binding)
    not_broken(binding)
    if binding["status"]["conditions"][-1]["status"] != "True":
        assert cluster.get("deployments", "web") == deployment()


# Bindings


@SLOW
@given(field=st.sampled_from(["spec", "status", "metadata"]), value=VALUES)
def test_no_binding_breaks_a_pass(field: str, value: Any) -> None:
    for make in (spec_binding, coreos_binding):
        body = make()
        if field == "metadata":
            annotations = {f"servicebinding.io/{name}": str(value) for name in ANNOTATIONS}
            body["metadata"]["annotations"] = annotations
        else:
            body[field] = value
        binding = object_from_dict(body)
        try:
            (SpecContext if make is spec_binding else CoreosContext)(
                binding, Snapshot(FakeCluster())
            )
        except (InvalidBinding, ValueError) as error:
            status = invalid_status(binding, str(error), "2026-01-01T00:00:00Z")
            assert status["conditions"][-1]["type"] == "Ready"
        deleted(body)
        context = FakeCluster(objects=[deployment()]).process(body)
        assert "panic" not in context.flow.error


ANNOTATIONS = ("requester", "mapping", "projected-kinds")


# What is in Secrets and on services


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(bytes(range(256)), id="every byte"),
        pytest.param(b"", id="empty"),
        pytest.param(b"\xff\xfe\x00", id="no text"),
        pytest.param(b"x" * (1024 * 1024 - len("postgresql")), id="as much as a Secret holds"),
    ],
)
@pytest.mark.parametrize("copied", [False, True], ids=["direct", "copied"])
def test_values_of_any_kind_reach_the_workload_byte_for_byte(value: bytes, copied: bool) -> None:
    body = secret(type="postgresql")
    body["data"]["blob"] = base64.b64encode(value).decode()
    cluster = FakeCluster(objects=[body, deployment()])
    override: JSON = {"type": "postgresql"} if copied else {}
    binding = spec_binding(service=SECRET_SERVICE, **override)
    cluster.reconcile(binding)
    assert message(binding, "Ready") == ""
    made = cluster.get("secrets", binding["status"]["binding"]["name"])
    assert base64.b64decode(made["data"]["blob"]) == value


@pytest.mark.parametrize(
    "data",
    [
        pytest.param({"k": 1}, id="number"),
        pytest.param({"k": ["x"]}, id="list"),
        pytest.param({"k": "not base64!"}, id="not base64"),
        pytest.param("x", id="data is a string"),
        pytest.param([], id="data is a list"),
        pytest.param(None, id="data is null"),
        pytest.param({}, id="nothing"),
        pytest.param({"": "eA=="}, id="no key"),
        pytest.param({"a/b": "eA=="}, id="a path as key"),
        pytest.param({"..": "eA=="}, id="the parent as key"),
        pytest.param({"x" * 254: "eA=="}, id="a key too long"),
    ],
)
@pytest.mark.parametrize("copied", [False, True], ids=["direct", "copied"])
def test_a_secret_that_no_server_would_hold_is_said_and_not_projected(
    data: Any, copied: bool
) -> None:
    cluster = FakeCluster(objects=[{**secret(), "data": data}, deployment()])
    override: JSON = {"type": "postgresql"} if copied else {}
    binding = spec_binding(service=SECRET_SERVICE, **override)
    cluster.reconcile(binding)
    not_broken(binding)
    assert message(binding, "Ready")
    assert cluster.get("deployments", "web") == deployment()


_NO_NAMES: list[Any] = [None, 1, [], {}, True, "", "A/B", "x" * 300]


def test_a_null_entry_is_an_empty_one() -> None:
    body = secret(type="postgresql")
    body["data"]["k"] = None
    cluster = FakeCluster(objects=[body, deployment()])
    binding = spec_binding(service=SECRET_SERVICE, provider="p")
    cluster.reconcile(binding)
    made = cluster.get("secrets", binding["status"]["binding"]["name"])
    assert base64.b64decode(made["data"]["k"]) == b""


@pytest.mark.parametrize(
    "status",
    [
        *(None, "x", 1, [], {"binding": None}, {"binding": "x"}, {"binding": []}),
        *({"binding": {"name": name}} for name in _NO_NAMES),
    ],
    ids=str,
)
def test_a_status_of_any_kind_is_said(status: Any) -> None:
    service = {**database(binding=None), "status": status}
    cluster = FakeCluster(objects=[service, deployment()])
    for binding in (spec_binding(), coreos_binding()):
        cluster.reconcile(binding)
        not_broken(binding)
        assert message(binding, "Ready")
        assert cluster.get("deployments", "web") == deployment()


_TERM = {"key": "k", "operator": "NotIn", "values": ["x"]}
_LONG = {
    "terms": {"matchExpressions": [{**_TERM, "key": f"k{number}"} for number in range(101)]},
    "labels": {"matchLabels": {f"k{number}": "x" for number in range(101)}},
    "values": {"matchExpressions": [{**_TERM, "values": [f"v{number}" for number in range(101)]}]},
}


@pytest.mark.parametrize("what", _LONG)
@pytest.mark.parametrize("coreos", [False, True], ids=["spec", "coreos"])
def test_a_selector_that_is_too_long_is_said_and_not_looked_for(what: str, coreos: bool) -> None:
    service = {"group": "", "version": "v1", "kind": "Secret", "name": "s1"}
    binding = (
        coreos_binding(services=[service], application={"labelSelector": _LONG[what]})
        if coreos
        else spec_binding(service=SECRET_SERVICE, workload={"selector": _LONG[what]})
    )
    neighbour = spec_binding(service=SECRET_SERVICE)
    neighbour["metadata"] |= {"name": "other", "uid": "uid-other"}
    cluster = FakeCluster(objects=[secret(), deployment()])
    cluster.reconcile(binding)
    cluster.reconcile(neighbour)
    said = 'the term of "k" has more than 100 values' if what == "values" else "than 100 terms"
    assert said in message(binding, "Ready")
    assert said in message(binding, "InjectionReady")
    assert not any(
        isinstance(read, ListAll) for read in cluster.process(binding).reader.snapshot.reads
    )
    assert conditions(neighbour)["Ready"] == ("True", "ApplicationsBound")


def test_a_message_is_no_longer_than_a_condition_holds() -> None:
    names = [f"w{number}" for number in range(700)]
    workloads = [deployment(name, labels={"x": "y"}) for name in names]
    for body in workloads:
        body["metadata"] = meta(body["metadata"]["name"] + "n" * 60, labels={"x": "y"})
        body["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = "none"
    binding = spec_binding(
        service=SECRET_SERVICE, workload={"selector": {"matchLabels": {"x": "y"}}}
    )
    FakeCluster(objects=[secret(), *workloads]).reconcile(binding)
    assert len(message(binding, "Ready")) == LONGEST_MESSAGE
    told = invalid_status(object_from_dict(binding), "w" * 99999, "2026-01-01T00:00:00Z")
    assert max(len(one["message"]) for one in told["conditions"]) == LONGEST_MESSAGE
