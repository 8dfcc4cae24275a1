from __future__ import annotations

import pytest
from tests.unit.sandbox.api import CRDS, Api, crd

from fairlead_sandbox.builtin import builtin_types
from fairlead_sandbox.requests.discovery import DiscoveryDocuments, version_priority
from fairlead_sandbox.resources.registry import ResourceRegistry


AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@pytest.mark.parametrize("version", ["v2", "v2beta1"])
async def test_aggregated_discovery_is_one_document(api: Api, version: str) -> None:
    await api.post(CRDS, crd())
    asked = f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
    reply = await api.get("/apis", accept=f"{asked},application/json")
    assert reply.headers["Content-Type"] == asked
    assert reply.body["apiVersion"] == f"apidiscovery.k8s.io/{version}"
    groups = {group["metadata"]["name"]: group for group in reply.body["items"]}
    (found,) = groups["example.org"]["versions"][0]["resources"]
    assert found["resource"] == "widgets"
    assert found["scope"] == "Namespaced"
    assert [one["subresource"] for one in found["subresources"]] == ["status", "scale"]
    assert found["subresources"][1]["responseKind"]["kind"] == "Scale"
    core = await api.get("/api", accept=asked)
    (group,) = core.body["items"]
    assert "secrets" in [one["resource"] for one in group["versions"][0]["resources"]]


async def test_plain_discovery_is_given_to_those_who_prefer_it(api: Api) -> None:
    asked = "application/json,application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    assert (await api.get("/apis", accept=asked)).body["kind"] == "APIGroupList"


async def test_a_crd_shows_at_once_and_goes_at_once(api: Api) -> None:
    assert (await api.get("/apis/example.org/v1")).code == 404
    await api.post(CRDS, crd())
    assert (await api.get("/apis/example.org/v1")).code == 200
    await api.delete(f"{CRDS}/widgets.example.org")
    assert (await api.get("/apis/example.org/v1")).code == 404


@pytest.mark.parametrize("accept", ["*/*", AGGREGATED])
@pytest.mark.parametrize("path", ["/api", "/apis", "/apis/apps", "/api/v1", "/apis/apps/v1"])
def test_slashes_at_the_end_lead_to_one_document_in_memory(path: str, accept: str) -> None:
    documents = DiscoveryDocuments(ResourceRegistry(builtin_types()))
    first, second = documents.answer(path, accept), documents.answer(f"{path}//", accept)
    assert first is not None
    assert second is not None
    assert first == second
    assert first.body is second.body


@pytest.mark.parametrize("path", ["//api", "//apis/apps/v1", "/apis//v1", "/api//v1", ""])
def test_slashes_elsewhere_lead_to_no_document(path: str) -> None:
    documents = DiscoveryDocuments(ResourceRegistry(builtin_types()))
    assert documents.answer(path, "*/*") is None


def test_stable_versions_come_first() -> None:
    versions = ["v1alpha1", "foo", "v1beta2", "v10", "v2", "v1beta1", "v11alpha2"]
    assert sorted(versions, key=version_priority) == [
        "v10",
        "v2",
        "v1beta2",
        "v1beta1",
        "v11alpha2",
        "v1alpha1",
        "foo",
    ]
