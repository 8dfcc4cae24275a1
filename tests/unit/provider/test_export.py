from __future__ import annotations

from unittest import mock

import pytest
from tests.support.kubebind import NOW, bound_schema, conditions, export, kube, resource

from fairlead.api.kubebind.conditions import true
from fairlead.api.meta import Object, object_from_dict
from fairlead.provider.controllers.export.reconcile import (
    ExportPlan,
    adopted,
    annotated,
    conditioned,
    reconcile,
)
from fairlead.provider.watches import crd_names, schema_names


def schemas(*items: Object) -> dict[str, Object]:
    return {item.meta.name: item for item in items}


def test_all_schemas_there_means_in_sync_and_hashed() -> None:
    plan = reconcile(export(), schemas(bound_schema()))
    assert plan.condition == true("ProviderInSync")
    assert len(plan.source_spec_hash) == 64


def test_a_resource_that_is_named_many_times_is_one() -> None:
    many = export(resources=[resource()] * 1000)
    with mock.patch.object(Object, "decode", autospec=True, side_effect=Object.decode) as decode:
        plan = reconcile(many, schemas(bound_schema()))
    assert decode.call_count == 2
    assert plan == reconcile(export(), schemas(bound_schema()))
    assert len(plan.adopt) == 1
    assert schema_names(many) == ["widgets.example.org"]
    assert crd_names(many) == ["widgets.example.org"]


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        pytest.param({}, "widgets.example.org does not exist yet", id="missing"),
        pytest.param(
            schemas(kube("BoundSchema", "widgets.example.org")), "is not valid", id="invalid"
        ),
    ],
)
def test_a_schema_that_is_not_there_is_told(stored: dict[str, Object], message: str) -> None:
    plan = reconcile(export(), stored)
    assert plan.source_spec_hash == ""
    assert plan.condition is not None
    assert plan.condition.reason == "BoundSchemaMissing"
    assert plan.condition.severity == "Error"
    assert message in plan.condition.message


def owned(uid: str = "uid-widgets", name: str = "widgets", plural: str = "widgets") -> Object:
    body = bound_schema(plural, owner=name).to_dict()
    body["metadata"]["ownerReferences"][0]["uid"] = uid
    return object_from_dict(body)


@pytest.mark.parametrize(
    ("stored", "reason", "message"),
    [
        pytest.param(owned(), "", "", id="our own"),
        pytest.param(bound_schema(), "", "", id="nobody's"),
        pytest.param(
            owned("uid-first", "first"),
            "BoundSchemaConflict",
            "BoundSchema widgets.example.org belongs to APIServiceExport first",
            id="another export's",
        ),
        pytest.param(
            owned("uid-old"),
            "BoundSchemaMissing",
            "belongs to a deleted export of this name",
            id="that of one of this name before",
        ),
    ],
)
def test_a_second_export_of_a_resource_is_told(stored: Object, reason: str, message: str) -> None:
    plan = reconcile(export(), schemas(stored))
    assert plan.condition is not None
    assert plan.condition.reason == reason
    assert message in plan.condition.message
    assert plan.condition.severity == ("Error" if reason else "")
    assert plan.adopt == ([stored] if stored.meta.controller() is None else [])


@pytest.mark.parametrize(
    ("stored", "gone", "reason"),
    [
        pytest.param(owned(), ["widgets.example.org"], "SchemaNotFound", id="its CRD is deleted"),
        pytest.param(owned(), [], "", id="its CRD is back"),
        pytest.param(
            owned("uid-first", "first"),
            *(["widgets.example.org"], "BoundSchemaConflict"),
            id="the schema is another's too",
        ),
    ],
)
def test_an_export_without_its_crd_says_so_and_keeps_its_schema(
    stored: Object, gone: list[str], reason: str
) -> None:
    plan = reconcile(export(), schemas(stored), gone)
    assert plan.condition is not None
    assert plan.condition.reason == reason
    assert all(name in plan.condition.message for name in gone if reason == "SchemaNotFound")
    # The consumer goes on by the schema that it has bound.
    assert plan.source_spec_hash == reconcile(export(), schemas(stored)).source_spec_hash


def test_an_export_with_a_conflict_takes_nothing() -> None:
    both = export(resources=[resource(), resource("gadgets")])
    plan = reconcile(both, schemas(bound_schema(), owned("uid-first", "first", "gadgets")))
    assert plan.condition is not None
    assert plan.condition.reason == "BoundSchemaConflict"
    assert plan.adopt == []


def test_an_adopted_schema_keeps_its_other_owners() -> None:
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "u"}
    body = bound_schema().to_dict()
    body["metadata"]["ownerReferences"] = [other]
    owners = adopted(object_from_dict(body), export())["metadata"]["ownerReferences"]
    assert owners[0] == other
    assert (owners[1]["uid"], owners[1]["controller"]) == ("uid-widgets", True)


def test_the_hash_follows_every_spec_and_no_status() -> None:
    both = export(resources=[resource(), resource("gadgets")])
    gadgets = bound_schema("gadgets")
    first = reconcile(both, schemas(bound_schema(), gadgets)).source_spec_hash
    body = bound_schema().to_dict()
    with_status = kube(
        "BoundSchema", "widgets.example.org", spec=body["spec"], status={"storedVersions": ["v1"]}
    )
    assert reconcile(both, schemas(with_status, gadgets)).source_spec_hash == first
    changed = bound_schema(scope="Cluster")
    assert reconcile(both, schemas(changed, gadgets)).source_spec_hash != first


def test_an_export_that_is_going_is_left_alone() -> None:
    going = kube(
        "APIServiceExport",
        spec=export().to_dict()["spec"],
        deletionTimestamp=NOW,
        finalizers=["x/y"],
    )
    assert reconcile(going, {}) == ExportPlan()


def test_conditions_of_others_stay_and_there_is_no_summary() -> None:
    stored = kube(
        "APIServiceExport",
        status={
            "conditions": [{"type": "Connected", "status": "True", "lastTransitionTime": NOW}]
        },
    )
    body = conditioned(stored, true("ProviderInSync"), now=NOW)
    assert set(conditions(body)) == {"Connected", "ProviderInSync"}


def test_the_hash_is_an_annotation_among_others() -> None:
    stored = kube("APIServiceExport", annotations={"a": "b"})
    assert annotated(stored, "123")["metadata"]["annotations"] == {
        "a": "b",
        "kube-bind.io/source-spec-hash": "123",
    }
