"""Every edge of kube-bind's APIServiceExports document."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fairlead.api.kubebind import APIServiceBinding, APIServiceExport, BoundSchema
from fairlead.api.meta import JSON, Object, object_from_dict
from fairlead.api.resource import Resource
from fairlead.konnector.apiserviceexport.reconcile import (
    Plan,
    State,
    SyncerSpec,
    reconcile,
)


NOW = "2026-01-01T00:00:00Z"
NAME = "things.example.org"
THINGS = Resource("example.org", "v2", "things", "Thing")


def export(*resources: str, **status: Any) -> APIServiceExport:
    body: JSON = {
        "metadata": {"name": "things"},
        "spec": {
            "resources": [
                {"group": "example.org", "resource": one} for one in resources or ("things",)
            ],
            "informerScope": "Namespaced",
            "isolation": "Prefixed",
        },
        "status": status,
    }
    return msgspec.convert(body, APIServiceExport)


def binding(*, in_sync: str | None = "True", deleting: bool = False) -> APIServiceBinding:
    ref = {"name": "k", "namespace": "kube-bind", "key": "kubeconfig"}
    conditions = [{"type": "SchemaInSync", "status": in_sync}] if in_sync else []
    claims = [{"resource": "secrets", "selector": {}}]
    metadata: JSON = {"name": "things", "uid": "uid-1"}
    if deleting:
        metadata["deletionTimestamp"] = NOW
    body: JSON = {
        "metadata": metadata,
        "spec": {"kubeconfigSecretRef": ref},
        "status": {"conditions": conditions, "permissionClaims": claims},
    }
    return msgspec.convert(body, APIServiceBinding)


def schema(
    *, served: tuple[bool, bool] = (False, True), status: bool = True, plural: str = "things"
) -> BoundSchema:
    subresources: JSON = {"status": {}} if status else {}
    versions = [
        {
            "name": name,
            "served": serves,
            "storage": name == "v1",
            "schema": {"type": "object"},
            "subresources": subresources,
        }
        for name, serves in zip(("v1", "v2"), served, strict=True)
    ]
    spec: JSON = {
        "informerScope": "Namespaced",
        "group": "example.org",
        "names": {"kind": "Thing", "plural": plural},
        "scope": "Namespaced",
        "versions": versions,
    }
    return msgspec.convert({"spec": spec}, BoundSchema)


def crd(*, uid: str = "uid-1", established: str = "True", deleting: bool = False) -> Object:
    owner = {"apiVersion": "a/v1", "kind": "APIServiceBinding", "name": "things", "uid": uid}
    metadata: JSON = {"name": NAME, "ownerReferences": [owner]}
    if deleting:
        metadata["deletionTimestamp"] = NOW
    conditions = [
        {"type": "Established", "status": established, "reason": "R", "message": "m"},
        {"type": "NamesAccepted", "status": "True"},
    ]
    status: JSON = {
        "conditions": conditions,
        "acceptedNames": {"kind": "Thing", "plural": "things"},
        "storedVersions": ["v2"],
    }
    spec: JSON = {
        "group": "example.org",
        "scope": "Namespaced",
        "names": {"plural": "things", "kind": "Thing"},
        "versions": [{"name": "v1", "served": False}, {"name": "v2", "served": True}],
    }
    body: JSON = {"apiVersion": "e/v1", "kind": "CustomResourceDefinition", "spec": spec}
    return object_from_dict({**body, "metadata": metadata, "status": status})


def planned(**given: Any) -> Plan:
    known: dict[str, Any] = {
        "name": "things",
        "export": export(),
        "binding": binding(),
        "schemas": {NAME: schema()},
        "crds": {NAME: crd()},
    }
    return reconcile(State(**{**known, **given}), now=NOW)


def conditions(plan: Plan) -> dict[str, tuple[str, str]]:
    assert plan.status is not None
    return {item.type: (item.status, item.reason) for item in plan.status.conditions}


def test_a_syncer_runs_in_the_first_served_version() -> None:
    assert planned().syncers == {
        NAME: SyncerSpec(
            resource=THINGS,
            scope="Namespaced",
            informer_scope="Namespaced",
            isolation="Prefixed",
            status_subresource=True,
        )
    }


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"export": None}, id="export-absent"),
        pytest.param({"binding": None}, id="binding-absent"),
        pytest.param({"schemas": {}}, id="schema-absent"),
        pytest.param({"crds": {}}, id="crd-absent"),
        pytest.param({"crds": {NAME: crd(established="False")}}, id="crd-not-served"),
        pytest.param({"crds": {NAME: crd(uid="other")}}, id="crd-of-another-binding"),
        pytest.param({"schemas": {NAME: schema(served=(False, False))}}, id="no-version-served"),
        pytest.param({"schemas": {NAME: schema(plural="secrets")}}, id="schema-of-another-kind"),
    ],
)
def test_no_syncer_and_no_claim_runs(given: dict[str, Any]) -> None:
    plan = planned(**given)
    assert plan.syncers == {}
    assert plan.claims == {}


@pytest.mark.parametrize(
    ("given", "released"),
    [
        pytest.param({"export": None}, [NAME], id="export-gone"),
        pytest.param({"export": None, "binding": None}, [], id="binding-gone-too"),
        pytest.param({"export": None, "crds": {NAME: crd(uid="x")}}, [], id="crd-of-another"),
        pytest.param({}, [], id="export-there"),
    ],
)
def test_objects_of_an_export_that_is_gone_wait_for_nobody(
    given: dict[str, Any], released: list[str]
) -> None:
    releases = planned(**given).releases
    assert list(releases) == released
    assert all(one.resource == THINGS for one in releases.values())


@pytest.mark.parametrize("established", ["True", "False"])
def test_a_syncer_goes_on_while_the_crd_is_being_deleted(established: str) -> None:
    dying = crd(established=established, deleting=True)
    plan = planned(binding=binding(deleting=True), crds={NAME: dying})
    assert plan.syncers.keys() == {NAME}


def test_a_lost_schema_does_not_stop_the_syncers_of_others() -> None:
    plan = planned(export=export("things", "others"))
    assert plan.syncers.keys() == {NAME}
    assert conditions(plan)["Connected"] == ("False", "BoundSchemasNotValid")


@pytest.mark.parametrize(
    ("given", "unbinding"),
    [
        pytest.param({}, False, id="bound"),
        pytest.param(
            {"binding": binding(deleting=True), "crds": {NAME: crd(deleting=True)}},
            False,
            id="objects-are-still-there",
        ),
        pytest.param({"binding": binding(deleting=True), "crds": {}}, True, id="objects-gone"),
    ],
)
def test_claims_end_after_the_objects(given: dict[str, Any], unbinding: bool) -> None:
    plan = planned(**given)
    assert {name: claim.unbinding for name, claim in plan.claims.items()} == {
        "secrets.core": unbinding
    }


def test_a_resource_without_status_has_none_to_bring_back() -> None:
    plan = planned(schemas={NAME: schema(status=False)})
    assert not plan.syncers[NAME].status_subresource


@pytest.mark.parametrize(
    ("given", "connected", "in_sync"),
    [
        pytest.param({}, ("True", ""), ("True", ""), id="all-well"),
        pytest.param(
            {"binding": None},
            ("False", "APIServiceBindingNotFound"),
            ("False", "NA"),
            id="binding-absent",
        ),
        pytest.param(
            {"binding": binding(in_sync=None)},
            ("True", ""),
            ("False", "Unknown"),
            id="binding-does-not-say",
        ),
        pytest.param(
            {"binding": binding(in_sync="False")}, ("True", ""), ("False", ""), id="not-in-sync"
        ),
        pytest.param(
            {"schemas": {}}, ("False", "BoundSchemasNotValid"), ("True", ""), id="schema-absent"
        ),
    ],
)
def test_the_provider_is_told(
    given: dict[str, Any], connected: tuple[str, str], in_sync: tuple[str, str]
) -> None:
    found = conditions(planned(**given))
    assert found["Connected"] == connected
    assert found["ConsumerInSync"] == in_sync
    assert "Ready" in found


def test_the_providers_own_conditions_stay_and_count() -> None:
    mine = {"type": "ProviderInSync", "status": "False", "severity": "Error", "reason": "Lost"}
    found = conditions(planned(export=export(conditions=[mine])))
    assert found["ProviderInSync"] == ("False", "Lost")
    assert found["Ready"] == ("False", "Lost")


@pytest.mark.parametrize(
    "status",
    [
        pytest.param(None, id="no-status"),
        pytest.param({"conditions": None, "storedVersions": None}, id="nulls"),
        pytest.param(
            {"conditions": [], "acceptedNames": {"kind": "", "plural": ""}, "storedVersions": []},
            id="empty-names",
        ),
    ],
)
def test_a_fresh_crd_has_nothing_to_say(status: JSON | None) -> None:
    fresh = object_from_dict({**crd().to_dict(), "status": status})
    result = planned(crds={NAME: fresh}).schema_status[NAME]
    assert result.accepted_names is None
    assert result.stored_versions == []
    assert result.conditions == []


def test_the_crds_conditions_are_copied_to_the_schema() -> None:
    status = planned(crds={NAME: crd(established="False")}).schema_status[NAME]
    assert status.stored_versions == ["v2"]
    assert status.accepted_names is not None
    assert status.accepted_names.plural == "things"
    assert [(item.type, item.status, item.severity) for item in status.conditions] == [
        ("Ready", "False", "Error"),
        ("Established", "False", "Error"),
        ("NamesAccepted", "True", ""),
    ]
