"""Services of kinds without namespaces, on which no right in a namespace is one."""

from __future__ import annotations

import json

import pytest
from tests.unit.binding.cluster import KINDS, FakeCluster
from tests.unit.binding.objects import (
    conditions,
    coreos_binding,
    deployment,
    message,
    secret,
    spec_binding,
)

from fairlead.api.meta import JSON
from fairlead.api.servicebinding.common import REQUESTER_ANNOTATION


CRD = "CustomResourceDefinition"


def vault() -> JSON:
    """Any object without a namespace will do: a CRD is one that the controllers read."""
    metadata = {"name": "vaults.x.io", "annotations": {"service.binding/pw": "path={.spec.group}"}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": CRD,
        "metadata": metadata,
        "spec": {"group": "top-secret", "names": {}, "versions": []},
    }


def bound(api: str, **annotations: str) -> JSON:
    if api == "spec":
        service = {"apiVersion": "apiextensions.k8s.io/v1", "kind": CRD, "name": "vaults.x.io"}
        binding = spec_binding(service=service)
    else:
        reference = {
            "group": "apiextensions.k8s.io",
            "version": "v1",
            "kind": CRD,
            "name": "vaults.x.io",
        }
        binding = coreos_binding(services=[reference])
    binding["metadata"].setdefault("annotations", {}).update(annotations)
    return binding


@pytest.mark.parametrize("api", ["spec", "coreos"])
def test_nobody_has_them_read_with_the_controllers_rights(api: str) -> None:
    made = FakeCluster(KINDS, [vault(), secret(), deployment()])
    made.cross_namespace = False
    binding = bound(api)
    made.reconcile(binding)
    assert conditions(binding)["CollectionReady"] == ("False", "ErrorReadingServices")
    assert "which is in no namespace" in message(binding, "CollectionReady")
    assert "top-secret" not in str(made.objects[("deployments", "ns", "web")])
    assert not [one for one in made.of("secrets") if one["metadata"]["name"] != "s1"]


def test_whoever_asks_is_asked_about_in_no_namespace() -> None:
    made = FakeCluster(KINDS, [vault(), secret(), deployment()])
    requester = json.dumps({"username": "eve", "groups": []})
    binding = bound("coreos", **{REQUESTER_ANNOTATION: requester})
    made.reconcile(binding)
    (asked,) = [one for one in made.reviews if one.name == "vaults.x.io"]
    assert (asked.user, asked.namespace) == ("eve", "")
