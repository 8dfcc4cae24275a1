"""kbind v2's kinds as a server enforces them: defaults, bounds and rules."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from tests.support.kbind import GoldenStatus, golden_statuses
from tests.support.tiers import today

from fairlead.api import kbind
from fairlead.api.kbind import BINDINGS, CLUSTERBINDINGS, CONNECTIONS, RelatedResource
from fairlead.api.kbind.rights import binding_roles, cluster_binding_roles
from fairlead.api.meta import JSON, Object
from fairlead.api.resource import Resource
from fairlead.client import Client, Invalid
from fairlead.runtime import install_crds


SECRET: JSON = {"namespace": "kbind", "name": "acme"}
RELATED: JSON = {"resource": "secrets", "direction": "FromProvider"}
SPECS: dict[Resource, JSON] = {
    CONNECTIONS: {"kubeconfigSecretRef": SECRET},
    CLUSTERBINDINGS: {
        "connectionRef": {"name": "acme"},
        "apis": [{"name": "widgets.acme.io"}],
        "relatedResources": [RELATED],
    },
    BINDINGS: {
        "connectionRef": {"name": "acme"},
        # A list of no kind: an entry may stand in it twice.
        "apis": [{"name": "widgets.acme.io"}, {"name": "widgets.acme.io"}],
        "relatedResources": [
            {
                **RELATED,
                "selector": {"names": ["a"], "labelSelector": {"matchLabels": {"a": "b"}}},
            }
        ],
    },
}
UID: JSON = {"remoteClusterUID": "5a0c"}
TIME = "2026-11-30T12:00:00Z"
CONDITION: JSON = {
    "type": "Ready",
    "status": "False",
    "reason": "Pending",
    "message": "",
    "lastTransitionTime": TIME,
}
API: JSON = {
    "name": "widgets.acme.io",
    "group": "acme.io",
    "resource": "widgets",
    "scope": "Namespaced",
    "versions": ["v1"],
}


@pytest.fixture
async def kinds(client: Client) -> None:
    await install_crds(client, kbind.crds())


def body(resource: Resource, namespace: str, **changes: Any) -> JSON:
    metadata = {"name": namespace, **({"namespace": namespace} if resource.namespaced else {})}
    spec = copy.deepcopy(SPECS[resource]) | changes
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": metadata,
        "spec": {name: value for name, value in spec.items() if value is not None},
    }


async def set_status(client: Client, resource: Resource, made: Object, **status: Any) -> JSON:
    place = (made.meta.name, made.meta.namespace)
    stored = await client.merge_patch(resource, *place, {"status": status}, subresource="status")
    result: JSON = stored.to_dict().get("status", {})
    return result


async def test_roles_of_bindings_are_accepted(client: Client, namespace: str) -> None:
    account = {"kind": "ServiceAccount", "name": "konnector", "namespace": namespace}
    apis, related = ["widgets.acme.io"], [RelatedResource(**RELATED)]
    for body in (
        *cluster_binding_roles(namespace, apis, related),
        *binding_roles("shop", namespace, apis, related, konnector=account),
    ):
        resource = await client.discovery.resource_for(body["apiVersion"], body["kind"])
        await client.create(resource, body, dry_run=True)


@pytest.mark.usefixtures("kinds")
@pytest.mark.parametrize(
    ("resource", "defaults"),
    [
        pytest.param(
            CONNECTIONS,
            {
                "kubeconfigSecretRef": {**SECRET, "key": "kubeconfig"},
                "schema": {"source": "Auto", "pullPolicy": "Bound", "updatePolicy": "Always"},
                "autoBind": False,
            },
            id="Connection",
        ),
        pytest.param(
            CLUSTERBINDINGS,
            {
                **SPECS[CLUSTERBINDINGS],
                "conflictPolicy": "Fail",
                "relatedResources": [{**RELATED, "group": ""}],
            },
            id="ClusterBinding",
        ),
        pytest.param(
            BINDINGS,
            {
                **SPECS[BINDINGS],
                "conflictPolicy": "Fail",
                "relatedResources": [{**SPECS[BINDINGS]["relatedResources"][0], "group": ""}],
            },
            id="Binding",
        ),
    ],
)
async def test_defaults(
    client: Client, namespace: str, resource: Resource, defaults: JSON
) -> None:
    made = await client.create(resource, body(resource, namespace), dry_run=True)
    assert made.to_dict()["spec"] == defaults


@pytest.mark.usefixtures("kinds")
@pytest.mark.parametrize(
    ("resource", "changes", "field"),
    [
        (CONNECTIONS, {"kubeconfigSecretRef": None}, "spec.kubeconfigSecretRef"),
        (CONNECTIONS, {"kubeconfigSecretRef": {**SECRET, "name": ""}}, "Ref.name"),
        (CONNECTIONS, {"kubeconfigSecretRef": {"name": "acme"}}, "Ref.namespace"),
        (CONNECTIONS, {"schema": {"source": "Swagger"}}, "schema.source"),
        (CONNECTIONS, {"schema": {"pullPolicy": "Some"}}, "schema.pullPolicy"),
        (CONNECTIONS, {"schema": {"updatePolicy": "Never"}}, "schema.updatePolicy"),
        (CONNECTIONS, {"autoBind": "yes"}, "spec.autoBind"),
        (CLUSTERBINDINGS, {"connectionRef": None}, "spec.connectionRef"),
        (CLUSTERBINDINGS, {"connectionRef": {"name": ""}}, "connectionRef.name"),
        (CLUSTERBINDINGS, {"apis": None}, "spec.apis"),
        (CLUSTERBINDINGS, {"apis": []}, "spec.apis"),
        (BINDINGS, {"apis": [{"name": ""}]}, "spec.apis[0].name"),
        (BINDINGS, {"conflictPolicy": "Replace"}, "spec.conflictPolicy"),
        (BINDINGS, {"relatedResources": [{**RELATED, "resource": "pods"}]}, "resource"),
        (BINDINGS, {"relatedResources": [{"resource": "secrets"}]}, "direction"),
        (BINDINGS, {"relatedResources": [{**RELATED, "direction": "Both"}]}, "direction"),
        (
            BINDINGS,
            {"relatedResources": [{**RELATED, "selector": {"names": ["a", "a"]}}]},
            "selector.names",
        ),
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
@pytest.mark.parametrize("resource", SPECS, ids=lambda resource: resource.kind)
async def test_a_spec_is_required(client: Client, namespace: str, resource: Resource) -> None:
    without = {name: part for name, part in body(resource, namespace).items() if name != "spec"}
    with pytest.raises(Invalid, match="spec: Required value"):
        await client.create(resource, without, dry_run=True)


@today("no CEL")
@pytest.mark.usefixtures("kinds")
async def test_a_connection_keeps_its_secret(client: Client, namespace: str) -> None:
    made = await client.create(CONNECTIONS, body(CONNECTIONS, namespace))
    for change in ({"name": "other"}, {"key": "other"}, {"namespace": "other"}):
        with pytest.raises(Invalid, match="kubeconfigSecretRef is immutable"):
            await client.merge_patch(
                CONNECTIONS, made.meta.name, "", {"spec": {"kubeconfigSecretRef": change}}
            )
    rest = {"schema": {"source": "CRD", "pullPolicy": "None"}, "autoBind": True}
    changed = await client.merge_patch(CONNECTIONS, made.meta.name, "", {"spec": rest})
    assert changed.to_dict()["spec"]["schema"] == {
        "source": "CRD",
        "pullPolicy": "None",
        "updatePolicy": "Always",
    }
    await client.delete(CONNECTIONS, made.meta.name)


@pytest.mark.usefixtures("kinds")
@pytest.mark.parametrize("resource", [CLUSTERBINDINGS, BINDINGS], ids=lambda one: one.kind)
async def test_a_binding_may_change_all_of_its_spec(
    client: Client, namespace: str, resource: Resource
) -> None:
    made = await client.create(resource, body(resource, namespace))
    spec: JSON = {
        "connectionRef": {"name": "other"},
        "apis": [{"name": "gadgets.acme.io"}],
        "conflictPolicy": "Adopt",
        "relatedResources": None,
    }
    place = (made.meta.name, made.meta.namespace)
    changed = await client.merge_patch(resource, *place, {"spec": spec})
    left = {name: value for name, value in spec.items() if value is not None}
    assert changed.to_dict()["spec"] == left
    await client.delete(resource, *place)


@today("no CEL")
@pytest.mark.usefixtures("kinds")
@pytest.mark.parametrize("field", ["remoteClusterUID", "localClusterUID"])
async def test_a_uid_stays_as_it_was_first_set(client: Client, namespace: str, field: str) -> None:
    """A transition rule: it holds while there is an old value that is not empty."""
    made = await client.create(CONNECTIONS, body(CONNECTIONS, namespace))
    assert await set_status(client, CONNECTIONS, made, **{field: ""}) == {field: ""}
    assert await set_status(client, CONNECTIONS, made, **{field: "5a0c"}) == {field: "5a0c"}
    for value in ("e2f4", ""):
        with pytest.raises(Invalid, match=f"{field} is immutable once set"):
            await set_status(client, CONNECTIONS, made, **{field: value})
    # The protocol's gap: the field goes, and comes back with any value.
    assert await set_status(client, CONNECTIONS, made, **{field: None}) == {}
    assert await set_status(client, CONNECTIONS, made, **{field: "e2f4"}) == {field: "e2f4"}
    await client.delete(CONNECTIONS, made.meta.name)


@pytest.mark.usefixtures("kinds")
@pytest.mark.parametrize("status", golden_statuses().values(), ids=golden_statuses())
async def test_a_status_of_each_state_is_stored_as_it_is(
    client: Client, namespace: str, status: GoldenStatus
) -> None:
    resource = next((one for one in SPECS if one.kind == status.kind), None)
    if resource is None:
        # The condition of a synchronised object, whose schema is the provider's.
        return
    made = await client.create(resource, body(resource, namespace))
    conditions = [
        {**CONDITION, "type": type_, "status": value, "reason": reason}
        for type_, value, reason in status.conditions
    ]
    more = {**UID, "exportedAPIs": [API]} if resource is CONNECTIONS else {}
    stored = await set_status(client, resource, made, conditions=conditions, **more)
    assert stored == {"conditions": conditions, **more}
    await client.delete(resource, made.meta.name, made.meta.namespace)


@pytest.mark.usefixtures("kinds")
@pytest.mark.parametrize(
    ("resource", "status", "field"),
    [
        (CONNECTIONS, {"conditions": [{**CONDITION, "status": "Maybe"}]}, "conditions[0].status"),
        (CONNECTIONS, {"conditions": [{**CONDITION, "reason": ""}]}, "conditions[0].reason"),
        (CONNECTIONS, {"conditions": [{**CONDITION, "reason": "a b"}]}, "conditions[0].reason"),
        (BINDINGS, {"conditions": [{"type": "Ready", "status": "True"}]}, "lastTransitionTime"),
        (CLUSTERBINDINGS, {"conditions": [CONDITION, CONDITION]}, "conditions[1]"),
        (CONNECTIONS, {"activeSchemaSource": "Auto"}, "activeSchemaSource"),
        (CONNECTIONS, {"exportedAPIs": [{**API, "versions": ["v1", "v1"]}]}, "versions"),
        (CONNECTIONS, {"exportedAPIs": [{**API, "scope": "Galaxy"}]}, "scope"),
        (CONNECTIONS, {"exportedAPIs": [{"name": "a.b"}]}, "exportedAPIs[0].group"),
        (BINDINGS, {"boundAPIs": [{"name": "a", "conflictCount": 1 << 31}]}, "conflictCount"),
        (CLUSTERBINDINGS, {"boundAPIs": [{"crdHash": "x"}]}, "boundAPIs[0].name"),
    ],
    ids=lambda value: value.kind if isinstance(value, Resource) else "",
)
async def test_bounds_of_a_status(
    client: Client, namespace: str, resource: Resource, status: JSON, field: str
) -> None:
    made = await client.create(resource, body(resource, namespace))
    with pytest.raises(Invalid) as refused:
        await set_status(client, resource, made, **status)
    assert field in str(refused.value)
    await client.delete(resource, made.meta.name, made.meta.namespace)
