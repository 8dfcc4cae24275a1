from __future__ import annotations

import msgspec
import pytest
from tests.contract.support import GROUP, WIDGETS
from tests.support.tiers import today

from fairlead.api.resource import CONFIGMAPS, DEPLOYMENTS
from fairlead.client import Client, NotFound, NotServed


WIDGET = (GROUP, "widgets", "Widget")


@pytest.mark.parametrize(
    ("api_version", "kind", "expected"),
    [
        pytest.param("v1", "ConfigMap", CONFIGMAPS, id="core"),
        pytest.param("apps/v1", "Deployment", DEPLOYMENTS, id="named-group"),
        pytest.param(f"{GROUP}/v1", "Widget", WIDGETS, id="custom"),
    ],
)
async def test_kinds_are_found(
    client: Client, widgets: None, api_version: str, kind: str, expected: object
) -> None:
    assert await client.discovery.resource_for(api_version, kind) == expected


async def test_an_unknown_kind_is_not_served(client: Client) -> None:
    with pytest.raises(NotServed):
        await client.discovery.resource_for("v1", "Nonsense")


async def test_the_storage_version_leads_a_group(client: Client, widgets: None) -> None:
    group = msgspec.json.decode(await client.request("GET", f"/apis/{GROUP}"))
    assert group["kind"] == "APIGroup"
    assert [version["version"] for version in group["versions"]] == ["v1", "v1beta1"]
    assert group["preferredVersion"]["groupVersion"] == f"{GROUP}/v1"


async def test_subresources_stand_beside_their_resource(client: Client, widgets: None) -> None:
    found = msgspec.json.decode(await client.request("GET", f"/apis/{GROUP}/v1"))
    by_name = {entry["name"]: entry for entry in found["resources"]}
    assert by_name["widgets"]["singularName"] == "widget"
    assert set(by_name["widgets"]["verbs"]) >= {"get", "list", "watch", "create", "patch"}
    assert sorted(by_name["widgets/status"]["verbs"]) == ["get", "patch", "update"]


@pytest.mark.parametrize("path", ["/api", "/apis", "/apis/apps", "/apis/apps/v1", "/api/v1"])
async def test_a_slash_at_the_end_changes_nothing(client: Client, path: str) -> None:
    assert await client.request("GET", f"{path}/") == await client.request("GET", path)


async def test_a_version_without_a_group_is_not_found(client: Client) -> None:
    with pytest.raises(NotFound):
        await client.request("GET", "/apis//v1")


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
async def test_health_is_ok(client: Client, path: str) -> None:
    assert await client.request("GET", path, accept="*/*") == b"ok"


async def test_the_version_is_told(client: Client) -> None:
    assert (await client.discovery.server_version()).startswith("v")


@today("no such documents")
@pytest.mark.parametrize("path", ["/api", "/apis"])
async def test_one_document_has_all_kinds(client: Client, widgets: None, path: str) -> None:
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    found = msgspec.json.decode(await client.request("GET", path, accept=accept))
    assert (found["kind"], found["apiVersion"]) == (
        "APIGroupDiscoveryList",
        "apidiscovery.k8s.io/v2",
    )
    by_group = {one["metadata"].get("name", ""): one for one in found["items"]}
    group, plural, kind = ("", "configmaps", "ConfigMap") if path == "/api" else WIDGET
    (version, *_) = by_group[group]["versions"]
    assert (version["version"], version["freshness"]) == ("v1", "Current")
    (entry,) = (one for one in version["resources"] if one["resource"] == plural)
    assert entry["responseKind"]["kind"] == kind
    assert (entry["scope"], entry["singularResource"]) == ("Namespaced", kind.lower())
    assert {*entry["verbs"]} >= {"get", "list", "watch", "create", "patch"}
