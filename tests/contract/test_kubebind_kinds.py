"""kube-bind's kinds as a server enforces them: defaults, bounds and rules."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.support.tiers import today

from fairlead.api.kubebind import (
    APISERVICEBINDINGBUNDLES,
    APISERVICEBINDINGS,
    APISERVICEEXPORTREQUESTS,
    APISERVICEEXPORTS,
    APISERVICEEXPORTTEMPLATES,
    BINDABLERESOURCESREQUESTS,
    BOUNDSCHEMAS,
    CLUSTERBINDINGS,
    CLUSTERS,
    COLLECTIONS,
    consumer_crds,
    provider_crds,
)
from fairlead.api.meta import JSON
from fairlead.api.resource import Resource
from fairlead.client import Client, Invalid
from fairlead.runtime import install_crds


SECRET: JSON = {"name": "k", "namespace": "kube-bind", "key": "kubeconfig"}
WIDGETS: JSON = {"group": "example.org", "resource": "widgets", "versions": ["v1"]}
CLAIM: JSON = {"resource": "secrets", "selector": {"namedResources": [{"name": "a"}]}}
VERSION: JSON = {"name": "v1", "storage": True, "schema": {"type": "object", "x-any": {"a": 1}}}
SPECS: dict[Resource, JSON] = {
    APISERVICEBINDINGS: {"kubeconfigSecretRef": SECRET},
    APISERVICEBINDINGBUNDLES: {"kubeconfigSecretRef": SECRET},
    APISERVICEEXPORTS: {
        "resources": [WIDGETS],
        "permissionClaims": [CLAIM],
        "informerScope": "Namespaced",
        "isolation": "Prefixed",
        "clusterScopedIsolation": "Prefixed",
    },
    APISERVICEEXPORTREQUESTS: {
        "resources": [WIDGETS],
        "permissionClaims": [CLAIM],
        "namespaces": [{"name": "shop"}],
        "parameters": {"anything": {"at": "all"}},
    },
    APISERVICEEXPORTTEMPLATES: {"scope": "whatever", "resources": [WIDGETS]},
    BOUNDSCHEMAS: {
        "informerScope": "Cluster",
        "group": "example.org",
        "names": {"kind": "Widget", "plural": "widgets"},
        "scope": "Namespaced",
        "versions": [VERSION],
        "conversion": {"strategy": "None"},
    },
    CLUSTERBINDINGS: {
        "kubeconfigSecretRef": {"name": "kubeconfig", "key": "kubeconfig"},
        "providerPrettyName": "Acme",
    },
    BINDABLERESOURCESREQUESTS: {
        "templateRef": {"name": "widgets"},
        "clusterIdentity": {"identity": "me"},
        "author": "me",
    },
    COLLECTIONS: {"templates": [{"name": "widgets"}]},
    CLUSTERS: {},
}


@pytest.fixture
async def kinds(client: Client) -> None:
    await install_crds(client, consumer_crds() + provider_crds())


def body(resource: Resource, namespace: str, **changes: Any) -> JSON:
    name = "cluster" if resource == CLUSTERBINDINGS else f"{namespace}-{resource.plural}"
    metadata = {"name": name, **({"namespace": namespace} if resource.namespaced else {})}
    spec = copy.deepcopy(SPECS[resource]) | changes
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": metadata,
        "spec": {name: value for name, value in spec.items() if value is not None},
    }


@pytest.mark.usefixtures("kinds")
@pytest.mark.parametrize("resource", SPECS, ids=lambda resource: resource.kind)
async def test_a_whole_object_is_accepted(
    client: Client, namespace: str, resource: Resource
) -> None:
    made = await client.create(resource, body(resource, namespace))
    found = made.to_dict()["spec"]
    for name, value in SPECS[resource].items():
        assert contains(found[name], value)
    await client.delete(resource, made.meta.name, made.meta.namespace)


def contains(found: Any, given: Any) -> bool:
    """Whether nothing of what was given is missing; a server adds defaults."""
    if isinstance(given, dict):
        return all(name in found and contains(found[name], given[name]) for name in given)
    if isinstance(given, list):
        pairs = zip(found, given, strict=True)
        return all(contains(one, other) for one, other in pairs)
    return bool(found == given)


@pytest.mark.usefixtures("kinds")
@pytest.mark.parametrize(
    ("resource", "at", "value"),
    [
        pytest.param(APISERVICEEXPORTS, ["spec", "permissionClaims", 0, "group"], "", id="group"),
        pytest.param(
            APISERVICEEXPORTREQUESTS, ["spec", "schemaUpdatePolicy"], "Never", id="request-policy"
        ),
        pytest.param(APISERVICEEXPORTREQUESTS, ["status", "phase"], "Pending", id="request-phase"),
        pytest.param(
            APISERVICEEXPORTTEMPLATES,
            ["spec", "schemaUpdatePolicy"],
            "Never",
            id="template-policy",
        ),
        pytest.param(BOUNDSCHEMAS, ["spec", "versions", 0, "served"], True, id="served"),
        pytest.param(BINDABLERESOURCESREQUESTS, ["status", "phase"], "Pending", id="bind-phase"),
    ],
)
async def test_defaults(
    client: Client, namespace: str, resource: Resource, at: list[Any], value: Any
) -> None:
    made = await client.create(resource, body(resource, namespace))
    found: Any = made.to_dict()
    for step in at:
        found = found[step]
    assert found == value
    await client.delete(resource, made.meta.name, made.meta.namespace)


@pytest.mark.usefixtures("kinds")
@pytest.mark.parametrize(
    ("resource", "changes", "field"),
    [
        (APISERVICEBINDINGS, {"kubeconfigSecretRef": None}, "spec.kubeconfigSecretRef"),
        (APISERVICEBINDINGS, {"kubeconfigSecretRef": {**SECRET, "name": ""}}, "Ref.name"),
        (APISERVICEBINDINGBUNDLES, {"kubeconfigSecretRef": {"name": "k"}}, "Ref.namespace"),
        (APISERVICEEXPORTS, {"resources": []}, "spec.resources"),
        (APISERVICEEXPORTS, {"resources": [{"group": "a_b", "resource": "cd"}]}, "group"),
        (APISERVICEEXPORTS, {"resources": [{"resource": "x"}]}, "should match"),
        (APISERVICEEXPORTS, {"permissionClaims": [{"resource": "secrets"}]}, "selector"),
        (APISERVICEEXPORTS, {"isolation": "Other"}, "spec.isolation"),
        (APISERVICEEXPORTS, {"informerScope": None}, "spec.informerScope"),
        (APISERVICEEXPORTREQUESTS, {"schemaUpdatePolicy": "Later"}, "schemaUpdatePolicy"),
        (APISERVICEEXPORTTEMPLATES, {"scope": None}, "spec.scope"),
        (APISERVICEEXPORTTEMPLATES, {"resources": []}, "spec.resources"),
        (BOUNDSCHEMAS, {"versions": []}, "spec.versions"),
        (BOUNDSCHEMAS, {"versions": [{**VERSION, "name": "1st"}]}, "should match"),
        (BOUNDSCHEMAS, {"versions": [VERSION, VERSION]}, "versions[1]"),
        (CLUSTERBINDINGS, {"providerPrettyName": ""}, "providerPrettyName"),
        (BINDABLERESOURCESREQUESTS, {"author": None}, "spec.author"),
        (COLLECTIONS, {"templates": []}, "spec.templates"),
    ],
    ids=lambda value: value.kind if isinstance(value, Resource) else "",
)
async def test_bounds(
    client: Client, namespace: str, resource: Resource, changes: JSON, field: str
) -> None:
    with pytest.raises(Invalid) as refused:
        await client.create(resource, body(resource, namespace, **changes), dry_run=True)
    assert field in str(refused.value)


@pytest.mark.usefixtures("kinds")
async def test_a_binding_says_no_bound_schema_or_some(client: Client, namespace: str) -> None:
    made = await client.create(APISERVICEBINDINGS, body(APISERVICEBINDINGS, namespace))
    with pytest.raises(Invalid, match=r"status\.boundSchemas"):
        await client.merge_patch(
            APISERVICEBINDINGS,
            made.meta.name,
            "",
            {"status": {"boundSchemas": []}},
            subresource="status",
        )
    await client.delete(APISERVICEBINDINGS, made.meta.name)


@today("no CEL")
@pytest.mark.usefixtures("kinds")
@pytest.mark.parametrize(
    ("resource", "field", "value"),
    [
        (APISERVICEBINDINGS, "kubeconfigSecretRef", {**SECRET, "name": "other"}),
        (APISERVICEBINDINGBUNDLES, "kubeconfigSecretRef", {**SECRET, "key": "other"}),
        (CLUSTERBINDINGS, "kubeconfigSecretRef", {"name": "x", "key": "y"}),
        (APISERVICEEXPORTS, "resources", [{**WIDGETS, "versions": ["v2"]}]),
        (APISERVICEEXPORTS, "permissionClaims", []),
        (APISERVICEEXPORTS, "informerScope", "Cluster"),
        (APISERVICEEXPORTS, "isolation", "None"),
        (APISERVICEEXPORTS, "clusterScopedIsolation", "None"),
        (APISERVICEEXPORTREQUESTS, "parameters", {"anything": "else"}),
        (APISERVICEEXPORTREQUESTS, "resources", [WIDGETS, WIDGETS]),
        (APISERVICEEXPORTREQUESTS, "permissionClaims", [{**CLAIM, "resource": "configmaps"}]),
        (APISERVICEEXPORTREQUESTS, "namespaces", []),
        (APISERVICEEXPORTREQUESTS, "schemaUpdatePolicy", "Always"),
    ],
    ids=lambda value: value.kind if isinstance(value, Resource) else "",
)
async def test_what_never_changes(
    client: Client, namespace: str, resource: Resource, field: str, value: Any
) -> None:
    made = await client.create(resource, body(resource, namespace))
    labelled = {"metadata": {"labels": {"a": "b"}}}
    await client.merge_patch(resource, made.meta.name, made.meta.namespace, labelled)
    with pytest.raises(Invalid, match=f"{field} is immutable"):
        await client.merge_patch(
            resource, made.meta.name, made.meta.namespace, {"spec": {field: value}}
        )
    await client.delete(resource, made.meta.name, made.meta.namespace)


@pytest.mark.usefixtures("kinds")
async def test_an_optional_field_may_come_and_go(client: Client, namespace: str) -> None:
    """A rule about old and new runs only where there are both."""
    made = await client.create(
        APISERVICEEXPORTS, body(APISERVICEEXPORTS, namespace, permissionClaims=None)
    )
    place = (made.meta.name, made.meta.namespace)
    for claims in ([CLAIM], None):
        patch = {"spec": {"permissionClaims": claims}}
        await client.merge_patch(APISERVICEEXPORTS, *place, patch)
    await client.delete(APISERVICEEXPORTS, *place)


@pytest.mark.usefixtures("kinds")
async def test_a_template_may_change_its_policy(client: Client, namespace: str) -> None:
    template = APISERVICEEXPORTTEMPLATES
    made = await client.create(template, body(template, namespace))
    patch = {"spec": {"schemaUpdatePolicy": "Always"}}
    changed = await client.merge_patch(template, made.meta.name, "", patch)
    assert changed.to_dict()["spec"]["schemaUpdatePolicy"] == "Always"
    await client.delete(template, made.meta.name)


def renamed(made: JSON) -> JSON:
    return {**made, "metadata": {**made["metadata"], "name": "other"}}


def converted(**conversion: Any) -> Callable[[JSON], JSON]:
    return lambda made: {**made, "spec": {**made["spec"], "conversion": conversion}}


@today("no CEL")
@pytest.mark.usefixtures("kinds")
@pytest.mark.parametrize(
    ("resource", "change", "message"),
    [
        pytest.param(
            CLUSTERBINDINGS, renamed, "cluster binding name should be cluster", id="one-name"
        ),
        pytest.param(
            BOUNDSCHEMAS,
            converted(strategy="Webhook"),
            "Webhook must be specified if strategy=Webhook",
            id="webhook-missing",
        ),
        pytest.param(
            BOUNDSCHEMAS,
            converted(strategy="None", webhook={"clientConfig": {"url": "https://x"}}),
            "Webhook must be specified if strategy=Webhook",
            id="webhook-too-many",
        ),
    ],
)
async def test_rules(
    client: Client,
    namespace: str,
    resource: Resource,
    change: Callable[[JSON], JSON],
    message: str,
) -> None:
    with pytest.raises(Invalid, match=message):
        await client.create(resource, change(body(resource, namespace)), dry_run=True)


@pytest.mark.usefixtures("kinds")
@pytest.mark.parametrize("resource", SPECS, ids=lambda resource: resource.kind)
async def test_status_has_an_endpoint_of_its_own(
    client: Client, namespace: str, resource: Resource
) -> None:
    made = await client.create(resource, body(resource, namespace))
    condition = {"type": "Ready", "status": "False", "reason": "Because", "message": "not yet"}
    if resource != BINDABLERESOURCESREQUESTS:
        condition["severity"] = "Info"
    patch = {"status": {"conditions": [condition]}}
    place = (made.meta.name, made.meta.namespace)
    ignored = await client.merge_patch(resource, *place, patch)
    assert "conditions" not in ignored.to_dict().get("status", {})
    stored = await client.merge_patch(resource, *place, patch, subresource="status")
    assert stored.to_dict()["status"]["conditions"] == [condition]
    broken = msgspec.json.decode(msgspec.json.encode(patch))
    broken["status"]["conditions"][0]["status"] = "Maybe"
    with pytest.raises(Invalid, match="Maybe"):
        await client.merge_patch(resource, *place, broken, subresource="status")
    await client.delete(resource, *place)
