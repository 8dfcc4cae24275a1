"""The small parts: names of Secrets, fixed paths, templates, Go's words for values."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.golang import text as gotext
from fairlead.api.golang.text import go_json, go_text
from fairlead.api.jsonpath import JSONPathError
from fairlead.api.meta import JSON
from fairlead.api.servicebinding.generated import is_generated
from fairlead.api.servicebinding.mapping import MappingContainer, MappingSpec, MappingTemplate
from fairlead.binding.expressions.fixedpath import (
    ProjectionError,
    ensure_list,
    fixed_path,
    read,
    write,
)
from fairlead.binding.manifests import manifests
from fairlead.binding.services.definitions import InvalidDefinition, parse_definition, registered
from fairlead.binding.services.items import Item, merge, secret_name
from fairlead.binding.workloads.operations import MappingError
from fairlead.binding.workloads.workload import build_template, parse_mapping
from fairlead_sandbox.schema.names import dns1123_subdomain


@pytest.mark.parametrize(
    ("content", "digest"),
    [
        ({"SECRET_PASSWORD": "bar", "SECRET_USERNAME": "foo"}, "0dc04c0c"),
        ({"DATABASE_I": "1"}, "7b096939"),
        ({"provider": "p", "type": "t", "u": "v"}, "5703b9a7"),
    ],
    ids=["two", "one", "three"],
)
def test_the_secrets_name_is_a_hash_of_its_content(content: dict[str, str], digest: str) -> None:
    encoded = {name: value.encode() for name, value in reversed(content.items())}
    assert secret_name("sb", encoded) == f"sb-{digest}"


@pytest.mark.parametrize(
    "binding",
    [
        pytest.param("b" * 244, id="longest with room"),
        pytest.param("b" * 253, id="longest"),
        pytest.param("b" * 234 + "." + "c" * 18, id="cut at a dot"),
    ],
)
def test_a_long_name_leaves_room_for_the_digest(binding: str) -> None:
    name = secret_name(binding, {"a": b"b"})
    assert len(name) <= 253
    assert not dns1123_subdomain(name)
    assert is_generated(name, binding)
    assert not is_generated(name, binding[:-1] + "x")
    assert not is_generated(binding, binding)


def test_of_items_with_one_name_the_last_counts() -> None:
    assert merge([Item("b", 1), Item("a", "x"), Item("b", True)]) == {"a": b"x", "b": b"true"}


@pytest.mark.parametrize(
    ("value", "text", "json"),
    [
        (None, "<nil>", "null"),
        (True, "true", "true"),
        (8080, "8080", "8080"),
        (1000000.0, "1e+06", "1000000"),
        (1.5, "1.5", "1.5"),
        (0.00001, "1e-05", "0.00001"),
        (1e-9, "1e-09", "1e-9"),
        (1e21, "1e+21", "1e+21"),
        (0.0, "0", "0"),
        (-2.5, "-2.5", "-2.5"),
        (2**63, "9.223372036854776e+18", "9223372036854776000"),
        (["a", 1, None], "[a 1 <nil>]", '["a",1,null]'),
        ({"b": 1, "a": {"c": "<"}}, "map[a:map[c:<] b:1]", '{"a":{"c":"\\u003c"},"b":1}'),
    ],
    ids=str,
)
def test_values_as_go_prints_them(value: Any, text: str, json: str) -> None:
    assert go_text(value) == text
    assert go_json(value) == json


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (".spec.env", ("spec", "env")),
        (".a['b'].c['d']", ("a", "b", "c", "d")),
        ("['name']", ("name",)),
        (".a\\.b", ("a.b",)),
    ],
)
def test_fixed_paths(expression: str, expected: tuple[str, ...]) -> None:
    assert fixed_path(expression) == expected


@pytest.mark.parametrize(
    "expression", [".a[0]", ".a[*]", "..a", ".a[?(@.b)]", "text", "1", "", ".a}{.b", ".a[", ".*"]
)
def test_what_is_no_fixed_path(expression: str) -> None:
    with pytest.raises(JSONPathError):
        fixed_path(expression)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param({"a": 1}, ".a is not an object", id="parent"),
        pytest.param({"a": {"b": {}}}, ".a.b is not a list", id="no list"),
        pytest.param({"a": {"b": ["x"]}}, "not an object", id="item"),
    ],
)
def test_lists_that_cannot_be_had(body: JSON, message: str) -> None:
    with pytest.raises(ProjectionError, match=message):
        ensure_list(body, ("a", "b"))


def test_missing_parents_are_made() -> None:
    body: JSON = {"a": None}
    ensure_list(body, ("a", "b")).append({})
    write(body, ("c", "d"), "x")
    assert body == {"a": {"b": [{}]}, "c": {"d": "x"}}
    assert read(body, ("a", "b", "c")) is None


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        pytest.param([], ".spec.template.spec.volumes", id="default"),
        pytest.param([("*", ".any")], ".any", id="any version"),
        pytest.param([("v2", ".two")], ".spec.template.spec.volumes", id="another version"),
        pytest.param([("*", ".any"), ("v1", ".one")], ".one", id="its own version"),
    ],
)
def test_the_mapping_of_a_version(versions: list[tuple[str, str]], expected: str) -> None:
    spec = MappingSpec([MappingTemplate(version=v, volumes=path) for v, path in versions])
    template = build_template(spec, "v1")
    assert template.volumes == tuple(expected[1:].split("."))
    assert [item.name for item in template.containers] == [("name",), ("name",)]


def test_a_containers_path_is_added() -> None:
    template = build_template(MappingSpec(), "v1", containers_path="spec.my.list")
    assert [item.expression for item in template.containers][2:] == [".spec.my.list[*]"]
    alone = MappingSpec(
        [MappingTemplate(version="*", containers=[MappingContainer(path=".spec.my.list[*]")])]
    )
    assert len(build_template(alone, "v1", containers_path="spec.my.list").containers) == 1


@pytest.mark.parametrize(
    "body",
    [
        {"spec": {"versions": "x"}},
        {"spec": {"versions": [{"version": "*", "volumes": ".a[0]"}]}},
        {"spec": {"versions": [{"version": "*", "containers": [{"path": ".a["}]}]}},
    ],
    ids=["type", "volumes", "containers"],
)
def test_mappings_that_cannot_be_used(body: JSON) -> None:
    with pytest.raises(MappingError):
        build_template(parse_mapping(body), "v1")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("service.binding/x", ""),
        ("service.bindingfoo", "x"),
        ("service.binding/x", "optional=true"),
        ("service.binding/x", "path=.spec"),
        ("service.binding/x", "path={.spec},objectType=Pod"),
        ("service.binding/x", "path={.spec},elementType=sliceOfMaps"),
    ],
)
def test_annotations_that_are_no_definitions(key: str, value: str) -> None:
    with pytest.raises(InvalidDefinition):
        parse_definition(key, value)


def test_other_annotations_mean_something_else() -> None:
    assert parse_definition("kubectl.kubernetes.io/x", "path={.a}") is None
    assert parse_definition("servicebinding.io/provisioned-service", "true") is None


@pytest.mark.parametrize(
    ("api_version", "kind", "known"),
    [
        ("psmdb.percona.com/v1", "PerconaServerMongoDB", True),
        ("postgresql.k8s.enterprisedb.io/v1", "Cluster", True),
        ("x.io/v1", "Cluster", False),
    ],
)
def test_the_registry(api_version: str, kind: str, known: bool) -> None:
    found = registered(api_version, kind)
    assert bool(found) is known
    for key, value in found.items():
        assert parse_definition(key, value) is not None


def test_the_roles_have_the_names_that_the_original_gave_them() -> None:
    bodies = {(body["kind"], body["metadata"]["name"]): body for body in manifests(image="f")}
    aggregated = bodies["ClusterRole", "service-binding-controller-role"]
    (selector,) = aggregated["aggregationRule"]["clusterRoleSelectors"]
    assert selector == {"matchLabels": {"servicebinding.io/controller": "true"}}
    binding = bodies["ClusterRoleBinding", "service-binding-controller-rolebinding"]
    assert binding["roleRef"]["name"] == "service-binding-controller-role"
    for who, target in (("editor", "edit"), ("viewer", "view")):
        role = bodies["ClusterRole", f"service-binding-{who}-role"]
        label = f"rbac.authorization.k8s.io/aggregate-to-{target}"
        assert role["metadata"]["labels"][label] == "true"
        verbs = {verb for rule in role["rules"] for verb in rule["verbs"]}
        assert ("delete" in verbs) is (who == "editor")


def test_the_manifests_give_no_right_too_many() -> None:
    bodies = manifests(namespace="here", image="fairlead")
    rules = [rule for body in bodies for rule in body.get("rules", [])]
    assert rules
    for rule in rules:
        words = {*rule["apiGroups"], *rule["resources"], *rule["verbs"]}
        assert not words & {"*", "escalate", "bind", "impersonate"}
    secrets = [rule for rule in rules if "secrets" in rule["resources"]]
    verbs = ["get", "list", "watch", "create", "patch", "delete"]
    assert [rule["verbs"] for rule in secrets] == [verbs]
    labelled = [
        body["metadata"]["name"]
        for body in bodies
        if body["metadata"]["labels"].get("servicebinding.io/controller") == "true"
    ]
    assert labelled == ["fairlead-binding-workloads"]
    (account,) = [body for body in bodies if body["kind"] == "ServiceAccount"]
    assert account["metadata"]["namespace"] == "here"


_TREES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=())),
    lambda below: st.lists(below, max_size=4) | st.dictionaries(st.text(), below, max_size=4),
)


@given(value=_TREES)
def test_json_at_once_is_json_member_by_member(value: Any) -> None:
    assert gotext.go_json(value) == gotext.json_by_member(value)
