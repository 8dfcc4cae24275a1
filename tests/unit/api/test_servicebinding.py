"""The CRDs of both Service Binding APIs."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.support.schemafacts import printed

from fairlead.api.meta import JSON
from fairlead.api.servicebinding.coreos import CoreosServiceBinding, bindablekinds_crd, coreos_crd
from fairlead.api.servicebinding.mapping import mapping_crd
from fairlead.api.servicebinding.spec import ServiceBinding, crds, servicebinding_crd


def schema(crd: JSON, *path: str, version: int = 0) -> JSON:
    found: JSON = crd["spec"]["versions"][version]["schema"]["openAPIV3Schema"]
    for name in path:
        found = found["properties"][name]
    return found


def test_there_are_four() -> None:
    assert [crd["metadata"]["name"] for crd in crds()] == [
        "servicebindings.servicebinding.io",
        "clusterworkloadresourcemappings.servicebinding.io",
        "servicebindings.binding.operators.coreos.com",
        "bindablekinds.binding.operators.coreos.com",
    ]


@pytest.mark.parametrize("crd", [servicebinding_crd(), mapping_crd()], ids=["binding", "mapping"])
def test_three_versions_of_one_schema_are_served_and_v1_is_stored(crd: JSON) -> None:
    versions = crd["spec"]["versions"]
    facts = [(version["name"], version["served"], version["storage"]) for version in versions]
    assert facts == [("v1", True, True), ("v1beta1", True, False), ("v1alpha3", True, False)]
    assert [version.get("deprecated", False) for version in versions] == [False, True, True]
    for version in versions[1:]:
        assert version["deprecationWarning"].startswith(f"servicebinding.io/{version['name']} is")
    assert versions[0]["schema"] == versions[1]["schema"] == versions[2]["schema"]


@pytest.mark.parametrize(
    ("crd", "scope", "status"),
    [
        pytest.param(servicebinding_crd(), "Namespaced", True, id="binding"),
        pytest.param(mapping_crd(), "Cluster", False, id="mapping"),
        pytest.param(coreos_crd(), "Namespaced", True, id="coreos"),
        pytest.param(bindablekinds_crd(), "Cluster", False, id="bindable kinds"),
    ],
)
def test_scope_and_status(crd: JSON, scope: str, status: bool) -> None:
    assert crd["spec"]["scope"] == scope
    assert ("subresources" in crd["spec"]["versions"][0]) is status


@pytest.mark.parametrize(
    ("found", "required"),
    [
        pytest.param(schema(servicebinding_crd(), "spec"), ["workload", "service"], id="spec"),
        pytest.param(
            schema(servicebinding_crd(), "spec", "service"),
            ["apiVersion", "kind", "name"],
            id="service",
        ),
        pytest.param(
            schema(servicebinding_crd(), "spec", "workload"), ["apiVersion", "kind"], id="workload"
        ),
        pytest.param(
            schema(servicebinding_crd(), "status", "binding"), ["name"], id="status.binding"
        ),
        pytest.param(schema(coreos_crd(), "spec"), ["services", "application"], id="coreos spec"),
        pytest.param(schema(coreos_crd(), "status"), ["secret"], id="coreos status"),
    ],
)
def test_what_is_required(found: JSON, required: list[str]) -> None:
    assert sorted(found["required"]) == sorted(required)


def test_names_and_defaults_of_the_operators_own_api() -> None:
    crd = coreos_crd()
    assert crd["spec"]["names"]["shortNames"] == ["sbr", "sbrs"]
    assert (
        schema(crd, "spec", "bindAsFiles").items() >= {"type": "boolean", "default": True}.items()
    )
    assert schema(crd, "spec", "services")["minItems"] == 1
    conditions = schema(crd, "status", "conditions")
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]
    assert printed(crd) == ["Ready", "Reason", "Age"]
    assert printed(servicebinding_crd()) == ["Ready", "Reason", "(Secret)", "Age"]


def test_the_kind_of_a_workload_is_immutable() -> None:
    rule, _ = schema(servicebinding_crd(), "spec", "workload")["x-kubernetes-validations"]
    assert "oldSelf.kind" in rule["rule"]


def test_bindings_are_read_with_their_defaults() -> None:
    body = b"""{"metadata": {"name": "a"}, "spec": {"unknown": 1,
        "workload": {"apiVersion": "apps/v1", "kind": "Deployment", "selector": {}},
        "service": {"apiVersion": "v1", "kind": "Secret", "name": "s"}}}"""
    spec = msgspec.json.decode(body, type=ServiceBinding).spec
    assert (spec.name, spec.env, spec.workload.containers) == ("", [], [])
    assert spec.workload.selector is not None
    coreos = b"""{"metadata": {}, "spec": {"application": {"group": "apps", "version": "v1"},
        "services": [{"group": "", "version": "v1", "namespace": ""}]}}"""
    own = msgspec.json.decode(coreos, type=CoreosServiceBinding).spec
    assert own.bind_as_files
    assert own.services[0].namespace == ""
    assert own.application.label_selector is None


def test_the_status_of_bindable_kinds_is_a_list_of_kinds() -> None:
    crd = bindablekinds_crd()
    names = crd["spec"]["names"]
    assert (names["plural"], names["singular"]) == ("bindablekinds", "bindablekinds")
    (version,) = crd["spec"]["versions"]
    assert "additionalPrinterColumns" not in version
    assert "required" not in version["schema"]["openAPIV3Schema"]
    status = schema(crd, "status")
    assert status["type"] == "array"
    assert sorted(status["items"]["required"]) == ["group", "kind", "version"]


def rules_of(schema: Any) -> list[str]:
    """All rules in CEL of a schema."""
    if isinstance(schema, list):
        return [rule for one in schema for rule in rules_of(one)]
    if not isinstance(schema, dict):
        return []
    own = [one["rule"] for one in schema.get("x-kubernetes-validations") or ()]
    return own + [rule for one in schema.values() for rule in rules_of(one)]


def test_every_rule_compares_with_what_was_there() -> None:
    """Else what was stored before there was a rule could not lose its finalizers."""
    rules = rules_of(crds())
    assert len(rules) == 3 * 2 + 2 + 3
    assert all("oldSelf" in rule for rule in rules)
