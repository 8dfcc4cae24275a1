"""What all definitions of one binding may look at, and that others work meanwhile."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from tests.unit.binding.cluster import KINDS, FakeCluster
from tests.unit.binding.objects import (
    conditions,
    coreos_binding,
    crd,
    database,
    deployment,
    message,
    secret,
    spec_binding,
)

from fairlead.api.jsonpath import BudgetExhausted, JSONPath
from fairlead.api.meta import JSON
from fairlead.api.servicebinding.common import REQUESTER_ANNOTATION
from fairlead.binding import bounds
from fairlead.binding.contexts.base import InvalidBinding
from fairlead.binding.expressions.gotemplate import Template
from fairlead.binding.pipeline import at_once
from fairlead.binding.services.evaluations import Evaluations


FILTER = 'path={.spec.many[?(@.name=="%s")].value}'


def service(filters: int, *, members: int, **more: str) -> JSON:
    """A service with so many definitions, each of which goes through so many members."""
    many = [{"name": f"n{number}", "value": f"v{number}"} for number in range(members)]
    body = database(many=many)
    annotations = {
        f"service.binding/x{number}": FILTER % f"n{number}" for number in range(filters)
    }
    body["metadata"]["annotations"] = {"service.binding/type": "postgresql", **annotations, **more}
    return body


def bound(api: str) -> JSON:
    return spec_binding() if api == "spec" else coreos_binding()


@pytest.mark.parametrize("api", ["spec", "coreos"])
def test_all_definitions_of_a_binding_have_one_budget(api: str) -> None:
    made = FakeCluster(KINDS, [service(200, members=9_000), secret(), deployment(), crd()])
    binding = bound(api)
    made.reconcile(binding)
    assert conditions(binding)["CollectionReady"] == ("False", "ErrorReadingBinding")
    text = message(binding, "CollectionReady")
    assert "read more than 2,000,000 values together" in text
    assert "filter and descend in fewer of them" in text
    assert "volumes" not in made.get("deployments", "web")["spec"]["template"]["spec"]
    # A neighbour's, of as many definitions that look at one value each.
    plain = {f"service.binding/p{number}": "path={.metadata.name}" for number in range(3_000)}
    made.set(service(0, members=1, **plain))
    other = bound(api)
    made.reconcile(other)
    assert conditions(other)["Ready"][0] == "True"


def of_lists(count: int, option: str, **more: Any) -> JSON:
    """A service with so many definitions, each of the same long list or large object."""
    annotations = {
        f"service.binding/x{number}": f"path={{.spec.long}},{option}" for number in range(count)
    }
    body = database(**more)
    body["metadata"]["annotations"] = {"service.binding/type": "postgresql", **annotations}
    return body


@pytest.mark.parametrize(
    ("service", "expected"),
    [
        pytest.param(
            of_lists(1_000, "elementType=sliceOfStrings", long=["v"] * 9_000),
            "collects more than 20,000 entries",
            id="entries",
        ),
        pytest.param(
            of_lists(1_000, "elementType=sliceOfStrings", long=[[1] * 90] * 100),
            "read more than 2,000,000 values together",
            id="members that are no entries",
        ),
        pytest.param(
            of_lists(3, "elementType=map", long={"n" * 700_000: {"a": "1", "b": "2", "c": "3"}}),
            "names of more than 4,194,304 characters",
            id="names",
        ),
        pytest.param(
            of_lists(
                1_000, "elementType=sliceOfStrings,sourceValue=v", long=[{"v": ["x" * 99_999]}]
            ),
            "more than 1048576 bytes together",
            id="values",
        ),
        pytest.param(
            of_lists(
                1_000,
                "elementType=sliceOfMaps,sourceKey=k,sourceValue=v",
                long=[{"k": ["x" * 99_999], "v": "w"}],
            ),
            "names of more than 4,194,304 characters",
            id="keys",
        ),
        pytest.param(
            of_lists(1_000, "elementType=string", long="x" * 99_999),
            "values of more than 8,388,608 bytes",
            id="texts",
        ),
    ],
)
def test_what_becomes_of_the_values_is_bounded_too(service: JSON, expected: str) -> None:
    made = FakeCluster(KINDS, [service, secret(), deployment(), crd()])
    binding = spec_binding()
    tracemalloc.start()
    made.reconcile(binding)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert any(expected in one["message"] for one in binding["status"]["conditions"])
    assert most < 64 * 1024 * 1024


def test_printed_text_counts_too() -> None:
    body = {"metadata": {"name": "db"}, "spec": {"text": "x" * 500_000}}
    made = Evaluations(FakeCluster().give_way)
    for number in range(15):
        at_once(made.values(f"{number} {{.spec.text}}", body))
    with pytest.raises(BudgetExhausted, match="read more than 2,000,000 values together"):
        at_once(made.values("16 {.spec.text}", body))


@pytest.mark.parametrize("nested", ["lists", "objects"])
def test_a_value_that_is_nested_too_deeply_to_be_printed_is_told(nested: str) -> None:
    deep: Any = "v"
    for _ in range(600):
        deep = [deep] if nested == "lists" else {"a": deep}
    kind = "elementType=sliceOfStrings,sourceValue=v"
    body = of_lists(1, kind)
    body["spec"] = {"long": [{"v": [deep]}]}
    made = FakeCluster(KINDS, [database(), secret(), deployment(), crd()])
    made.objects["databases", "ns", body["metadata"]["name"]] = body
    binding = spec_binding()
    made.reconcile(binding)
    conditions = binding["status"]["conditions"]
    assert any("is nested too deeply" in one["message"] for one in conditions)


@pytest.mark.parametrize("optional", ["", ",optional=true"])
def test_a_budget_that_is_used_up_is_told_for_optional_ones_too(
    monkeypatch: pytest.MonkeyPatch, optional: str
) -> None:
    monkeypatch.setattr(bounds, "VALUES", 50)
    last = {"service.binding/z": f"{FILTER % 'n1'}{optional}"}
    made = FakeCluster(KINDS, [service(0, members=40, **last), secret(), deployment(), crd()])
    binding = spec_binding()
    made.reconcile(binding)
    assert "together" in message(binding, "CollectionReady")


def test_each_definition_is_evaluated_once_in_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[str] = []
    find = JSONPath.find

    def counted(self: JSONPath, value: Any, *rest: Any) -> Any:
        if ".many" in self.template:
            found.append(self.template)
        return find(self, value, *rest)

    monkeypatch.setattr(JSONPath, "find", counted)
    monkeypatch.setattr(bounds, "VALUES_AT_ONCE", 10)
    reading = {
        f"service.binding/s{number}": f"path={{.spec.many[{number}].name}},objectType=Secret"
        for number in range(5)
    }
    logins = [secret(f"n{number}", password="v") for number in range(5)]
    objects = [service(8, members=20, **reading), secret(), deployment(), crd(), *logins]
    made = FakeCluster(KINDS, objects)
    binding = spec_binding()
    made.reconcile(binding)
    assert conditions(binding)["Ready"][0] == "True"
    assert len(found) == len(set(found)) == 8 + 5


def test_others_work_after_some_values() -> None:
    many = [{"name": f"n{number}", "value": "v"} for number in range(6_000)]
    body = {"metadata": {"name": "db"}, "spec": {"many": many}}
    cluster = FakeCluster()
    made = Evaluations(cluster.give_way)
    first, *others = [f'{{.spec.many[?(@.name=="n{number}")].value}}' for number in range(6)]
    assert at_once(made.values(first, body)) == ["v"]
    assert cluster.ways_given == 0
    for number, path in enumerate(others, 1):
        assert at_once(made.values(path, body)) == ["v"]
        assert cluster.ways_given == number
    assert at_once(made.values(first, body)) == ["v"]


def test_a_secret_that_many_definitions_name_is_decoded_once() -> None:
    named = {
        f"service.binding/a{number}": "path={.spec.s},objectType=Secret,sourceValue=k"
        for number in range(3_000)
    }
    body = database(s="big")
    body["metadata"]["annotations"] = named
    objects = [body, secret("big", k="v" * 700_000), secret(), deployment(), crd()]
    made = FakeCluster(KINDS, objects)
    binding = spec_binding()
    tracemalloc.start()
    made.reconcile(binding)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "values of more than 8,388,608 bytes" in message(binding, "CollectionReady")
    assert most < 64 * 1024 * 1024


def test_services_that_are_one_object_are_in_memory_once() -> None:
    large = database(many=[{"name": f"n{number}"} for number in range(9_000)])
    reference = {"group": "x.io", "version": "v1", "kind": "Database", "name": "db"}
    made = FakeCluster(KINDS, [large, secret(), deployment(), crd()])
    binding = coreos_binding(services=[reference] * 20)
    made.reconcile(binding)
    assert conditions(binding)["CollectionReady"][0] == "True"
    binding = coreos_binding(services=[reference] * 200)
    tracemalloc.start()
    made.reconcile(binding)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "more than 4194304 bytes together" in message(binding, "CollectionReady")
    assert most < 32 * 1024 * 1024


@pytest.mark.parametrize(
    ("binding", "expected"),
    [
        pytest.param(
            coreos_binding(
                services=[{"group": "", "version": "v1", "kind": "Secret", "name": "s"}] * 201
            ),
            "spec.services has more than 200 services",
            id="services",
        ),
        pytest.param(
            spec_binding(env=[{"name": f"V{number}", "key": "k"} for number in range(501)]),
            "spec.env has more than 500 variables",
            id="variables",
        ),
    ],
)
def test_a_binding_of_too_many_is_refused(binding: JSON, expected: str) -> None:
    made = FakeCluster(KINDS, [database(), secret(), deployment(), crd()])
    with pytest.raises(InvalidBinding, match=expected):
        made.reconcile(binding)


def test_a_requester_larger_than_any_may_do_nothing() -> None:
    """Each question about its rights would name all its groups."""
    binding = spec_binding()
    groups = [f"group-{number}" for number in range(2_000)]
    requester = json.dumps({"username": "bob", "groups": groups})
    binding["metadata"].setdefault("annotations", {})[REQUESTER_ANNOTATION] = requester
    made = FakeCluster(KINDS, [database(), secret(), deployment(), crd()])
    made.reconcile(binding)
    assert conditions(binding)["Ready"][0] == "False"
    assert made.reviews == []


def test_what_mappings_and_names_render_is_rendered_once_in_a_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rendered: list[str] = []
    render = Template.render

    def counted(self: Template, data: Any, *rest: Any) -> str:
        text = render(self, data, *rest)
        rendered.append(text)
        return text

    monkeypatch.setattr(Template, "render", counted)
    reference = {"group": "x.io", "version": "v1", "kind": "Database", "name": "db", "id": "svc"}
    made = FakeCluster(KINDS, [database(), secret(), deployment(), crd()])
    binding = coreos_binding(
        services=[reference],
        mappings=[{"name": "whole", "value": "{{ json .svc.spec }}"}],
        namingStrategy="x_{{ .name }}",
    )
    made.reconcile(binding)
    assert conditions(binding)["Ready"][0] == "True"
    assert len(rendered) == len(set(rendered))


def noted(record: JSON, *, containers: int = 1, env: int = 0) -> JSON:
    """A workload on which somebody has noted a record, of no binding."""
    body = deployment()
    body["metadata"]["annotations"] = {"projection.servicebinding.io/x": json.dumps(record)}
    source = {"secretKeyRef": {"name": "s", "key": "k"}}
    variables = [{"name": f"V{number}", "valueFrom": source} for number in range(env)]
    body["spec"]["template"]["spec"]["containers"] = [
        {"name": f"c{number}", "image": "i", "env": variables} for number in range(containers)
    ]
    return body


WILD = ",".join(["*"] * 12)


@pytest.mark.parametrize(
    ("workload", "binding"),
    [
        pytest.param(
            noted(
                {
                    "group": "servicebinding.io",
                    "name": "x",
                    "secret": "s",
                    "containers": [
                        {
                            "path": f".spec.template.spec.containers[{WILD}].env[{WILD}].x{n}",
                            "env": ["env"],
                            "volumeMounts": ["volumeMounts"],
                        }
                        for n in range(1_000)
                    ],
                },
                containers=20,
                env=40,
            ),
            # What the record is about is looked for where something is in the way.
            spec_binding(env=[{"name": "V1", "key": "password"}]),
            id="a record of costly paths",
        ),
        pytest.param(
            noted({}, containers=400, env=400),
            spec_binding(env=[{"name": f"W{number}", "key": "password"} for number in range(500)]),
            id="many variables in many containers",
        ),
    ],
)
def test_what_is_gone_through_of_workloads_is_bounded(workload: JSON, binding: JSON) -> None:
    made = FakeCluster(KINDS, [database(), secret(), workload, crd()])
    made.reconcile(binding)
    assert conditions(binding)["InjectionReady"][0] == "False"
    assert "selects too many workloads" in message(binding, "InjectionReady")
    other = noted({}, containers=30, env=50)
    made.set(other)
    neighbour = spec_binding(
        env=[{"name": f"W{number}", "key": "password"} for number in range(50)]
    )
    made.reconcile(neighbour)
    assert conditions(neighbour)["Ready"][0] == "True"
