"""Every edge of kube-bind's APIServiceExports document."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fairlead.api.kubebind import (
    APIServiceBinding,
    APIServiceExport,
    APIServiceExportRequest,
    BoundSchema,
    BoundSchemaStatus,
)
from fairlead.api.kubebind.conditions import REFUSED_HERE, KubeBindCondition, get_condition
from fairlead.api.meta import JSON, Object, object_from_dict
from fairlead.api.resource import Resource
from fairlead.konnector.controllers.apiserviceexport.reconcile import (
    SyncPlan,
    SyncState,
    reconcile,
)
from fairlead.konnector.policies.work import BoundSpec


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


def crd(
    *, uid: str = "uid-1", established: str = "True", deleting: bool = False, **more: str
) -> Object:
    """A CRD; ``more`` are further conditions by type."""
    owner = {"apiVersion": "a/v1", "kind": "APIServiceBinding", "name": "things", "uid": uid}
    metadata: JSON = {"name": NAME, "ownerReferences": [owner]}
    if deleting:
        metadata["deletionTimestamp"] = NOW
    conditions = [
        {"type": "Established", "status": established, "reason": "R", "message": "m"},
        {"type": "NamesAccepted", "status": "True"},
    ]
    conditions += [
        {"type": type_, "status": value, "reason": "R", "message": "m"}
        for type_, value in more.items()
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


def planned(**given: Any) -> SyncPlan:
    known: dict[str, Any] = {
        "name": "things",
        "export": export(),
        "binding": binding(),
        "schemas": {NAME: schema()},
        "crds": {NAME: crd()},
    }
    return reconcile(SyncState(**{**known, **given}), now=NOW)


def conditions(plan: SyncPlan) -> dict[str, tuple[str, str]]:
    assert plan.status is not None
    return {item.type: (item.status, item.reason) for item in plan.status.conditions}


def test_a_syncer_runs_in_the_served_resource_version() -> None:
    assert planned().syncers == {
        NAME: BoundSpec(
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
        pytest.param({"schemas": {}, "crds": {}}, id="schema-absent"),
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


LESS: JSON = {"type": "object"}
MORE: JSON = {"type": "object", "properties": {"size": {"type": "string"}}}


def versions(v1: JSON, v2: JSON, *, served: str, stored: str) -> list[JSON]:
    return [
        {
            "name": name,
            "served": name in served,
            "storage": name == stored,
            "schema": schema,
            "subresources": {"status": {}} if name == "v2" else {},
        }
        for name, schema in (("v1", v1), ("v2", v2))
    ]


def in_versions(there: list[JSON], here: list[JSON], *stored: str) -> SyncPlan:
    """The plan for a provider and a consumer with these versions."""
    spec = msgspec.to_builtins(schema().spec) | {"versions": there}
    body = crd().to_dict()
    body["spec"]["versions"] = [
        {**one, "schema": {"openAPIV3Schema": one["schema"]}} for one in here
    ]
    body["status"]["storedVersions"] = list(stored)
    bound = msgspec.convert({"spec": spec}, BoundSchema)
    return planned(schemas={NAME: bound}, crds={NAME: object_from_dict(body)})


FULL = versions(LESS, MORE, served="v1 v2", stored="v2")
OLD = versions(LESS, LESS, served="v1", stored="v1")
LOST = versions(LESS, MORE, served="v1", stored="v2")


@pytest.mark.parametrize(
    ("there", "here", "stored", "version"),
    [
        pytest.param(FULL, FULL, ["v2"], "v2", id="the-stored-one"),
        pytest.param(FULL, OLD, ["v1"], "", id="the-crd-does-not-have-it-yet"),
        pytest.param(OLD, OLD, ["v1"], "v1", id="the-only-one"),
        pytest.param(LOST, LOST, ["v2"], "", id="the-stored-one-is-not-served"),
        pytest.param(LOST, FULL, ["v2"], "", id="the-provider-does-not-serve-it"),
        pytest.param(OLD, FULL, ["v2"], "", id="the-provider-does-not-have-it"),
        pytest.param(
            versions(MORE, LESS, served="v1 v2", stored="v2"),
            versions(MORE, LESS, served="v1 v2", stored="v2"),
            ["v1", "v2"],
            "",
            id="objects-of-a-version-with-more",
        ),
    ],
)
def test_objects_are_written_in_the_version_that_takes_no_field(
    there: list[JSON], here: list[JSON], stored: list[str], version: str
) -> None:
    plan = in_versions(there, here, *stored)
    running = [one.resource.version for one in plan.syncers.values()]
    assert running == ([version] if version else [])
    assert [one.status_subresource for one in plan.syncers.values()] == [
        version == "v2" for _ in running
    ]
    assert plan.claims, "claims write nothing of the kind, and go on"


def asked(reason: str, phase: str = "Succeeded") -> APIServiceExportRequest:
    ready = {"type": "ExportsReady", "status": "False", "reason": reason, "message": "v1 lacks x"}
    spec: JSON = {"resources": [{"group": "example.org", "resource": "things"}]}
    status = {"phase": phase, "conditions": [ready]}
    return msgspec.convert({"spec": spec, "status": status}, APIServiceExportRequest)


@pytest.mark.parametrize(
    ("request_", "runs"),
    [
        pytest.param(asked("FieldsLost"), False, id="fields-lost"),
        pytest.param(asked("NotInvited"), True, id="another-reason"),
        pytest.param(asked("FieldsLost", "Pending"), True, id="of-a-new-request"),
        pytest.param(None, True, id="no-request"),
    ],
)
def test_nothing_is_written_while_the_provider_says_that_copies_lose_fields(
    request_: APIServiceExportRequest | None, *, runs: bool
) -> None:
    plan = planned(request=request_)
    assert bool(plan.syncers) == runs
    assert plan.claims


def test_an_object_is_let_go_in_the_version_that_takes_no_field() -> None:
    def released(found: list[JSON]) -> list[tuple[str, bool]]:
        body = crd().to_dict()
        body["spec"]["versions"] = [
            {**one, "schema": {"openAPIV3Schema": one["schema"]}} for one in found
        ]
        plan = planned(export=None, crds={NAME: object_from_dict(body)})
        return [(one.resource.version, one.lossy) for one in plan.releases.values()]

    assert released(FULL) == [("v2", False)]
    assert released(LOST) == [("v1", True)]


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


@pytest.mark.parametrize(
    ("served", "own", "exported", "read"),
    [
        pytest.param((False, True), ["v1"], [], ["v2"], id="removed"),
        pytest.param((True, True), ["v1"], [], ["v1"], id="served"),
        pytest.param((False, True), ["v1", "v2"], [], ["v2"], id="one-of-two"),
        pytest.param((False, True), [], ["v1"], ["v2"], id="those-of-the-export"),
        pytest.param((False, True), [], ["v2"], [], id="those-of-the-export-are-served"),
        pytest.param((False, True), [], [], [], id="none"),
        pytest.param((False, False), ["v1"], [], [], id="no-version-served"),
    ],
)
def test_referring_objects_are_read_in_versions_that_are_served(
    served: tuple[bool, bool], own: list[str], exported: list[str], read: list[str]
) -> None:
    """The versions of a claim are those of the day on which it was agreed to."""
    references = [
        {"group": "example.org", "resource": "things", "versions": own, "jsonPath": {"name": "a"}},
        {"group": "other.org", "resource": "things", "versions": ["v1"], "jsonPath": {}},
    ]
    known = binding(deleting=True)
    claims = [{"resource": "secrets", "selector": {"references": references}}]
    body = {**msgspec.to_builtins(known.status), "permissionClaims": claims}
    known.status = msgspec.convert(body, type(known.status))
    offered = export()
    resource = msgspec.structs.replace(offered.spec.resources[0], versions=exported)
    offered.spec = msgspec.structs.replace(offered.spec, resources=[resource])
    plan = planned(export=offered, binding=known, schemas={NAME: schema(served=served)})
    mine, others = next(iter(plan.claims.values())).claim.selector.references
    assert mine.versions == read
    assert others.versions == ["v1"]


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


@pytest.mark.parametrize("type_", ["ObjectsFailing", "Conflicts", "ObjectsRewritten"])
def test_the_provider_is_told_of_objects_that_do_not_cross(type_: str) -> None:
    fault = {"type": type_, "status": "True", "reason": "R", "message": "1 object"}
    told = binding()
    told.status.conditions.append(msgspec.convert(fault, KubeBindCondition))
    found = conditions(planned(binding=told))
    assert found[type_] == ("True", "R")
    assert found["Ready"] == ("True", "")
    # It goes when the binding has lost it.
    assert type_ not in conditions(planned(export=export(conditions=[fault])))


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        pytest.param(
            "1 object: Widget a/b; the first because the provider refuses it: no",
            "1 object: Widget a/b; the first because the provider refuses it: no",
            id="its-own-words",
        ),
        pytest.param(
            f"1 object cannot be written: Widget a/b; the first {REFUSED_HERE}policy x: no",
            "1 object cannot be written: Widget a/b; the first because the consumer's cluster"
            " refuses it",
            id="not-those-of-the-consumers-server",
        ),
    ],
)
def test_which_words_of_a_refusal_the_provider_reads(message: str, expected: str) -> None:
    fault = {"type": "ObjectsFailing", "status": "True", "reason": "R", "message": message}
    bound = binding()
    bound.status.conditions.append(msgspec.convert(fault, KubeBindCondition))
    plan = planned(binding=bound)
    assert plan.status is not None
    copied = get_condition(plan.status.conditions, "ObjectsFailing")
    assert copied is not None
    assert copied.message == expected


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


STOPPED: list[str] = []


@pytest.mark.parametrize(
    ("looks", "syncers", "connected", "in_sync"),
    [
        pytest.param([{"export": None}], STOPPED, None, None, id="export-absent-stop"),
        pytest.param(
            [{"binding": None}],
            STOPPED,
            ("False", "APIServiceBindingNotFound", "Info"),
            ("False", "NA", "Info"),
            id="export-present-binding-absent-stop-sync",
        ),
        pytest.param(
            [{}], [NAME], ("True", "", ""), ("True", "", ""), id="binding-present-schema-present"
        ),
        pytest.param(
            [{"schemas": {}}],
            STOPPED,
            ("False", "BoundSchemasNotValid", "Warning"),
            ("True", "", ""),
            id="binding-present-schema-absent-stop-sync",
        ),
        pytest.param(
            [{}, {"binding": None}],
            STOPPED,
            ("False", "APIServiceBindingNotFound", "Info"),
            ("False", "NA", "Info"),
            id="syncer-started-binding-absent-at-the-second-look",
        ),
        pytest.param(
            [{}, {"schemas": {}}],
            STOPPED,
            ("False", "BoundSchemasNotValid", "Warning"),
            ("True", "", ""),
            id="syncer-started-schema-absent-at-the-second-look",
        ),
        pytest.param(
            [{"binding": binding(in_sync="False")}],
            [NAME],
            ("True", "", ""),
            ("False", "", ""),
            id="binding-present-schemainsync-no",
        ),
        pytest.param(
            [{"binding": binding(in_sync=None)}],
            [NAME],
            ("True", "", ""),
            ("False", "Unknown", "Info"),
            id="binding-present-schemainsync-not-said",
        ),
    ],
)
def test_the_edges_of_the_flowchart(
    looks: list[dict[str, Any]],
    syncers: list[str],
    connected: tuple[str, str, str] | None,
    in_sync: tuple[str, str, str] | None,
) -> None:
    """Several looks follow one another, each with the status that the last one left."""
    stored: list[JSON] = []
    for given in looks:
        plan = planned(**{"export": export(conditions=stored), **given})
        stored = (
            [msgspec.to_builtins(one) for one in plan.status.conditions] if plan.status else []
        )
    found = {
        one["type"]: (one["status"], one.get("reason", ""), one.get("severity", ""))
        for one in stored
    }
    assert list(plan.syncers) == syncers
    assert found.get("Connected") == connected
    assert found.get("ConsumerInSync") == in_sync
    assert ("Ready" in found) == (connected is not None)


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


def test_a_condition_that_the_crd_has_no_more_goes_from_the_schema() -> None:
    before = planned(crds={NAME: crd(NonStructuralSchema="False")}).schema_status[NAME]
    old = msgspec.structs.replace(schema(), status=before)
    after = planned(schemas={NAME: old}).schema_status[NAME]
    assert [item.type for item in before.conditions] == [
        *("Ready", "Established", "NamesAccepted", "NonStructuralSchema")
    ]
    assert [item.type for item in after.conditions] == ["Ready", "Established", "NamesAccepted"]
    settled = msgspec.structs.replace(schema(), status=after)
    assert planned(schemas={NAME: settled}).schema_status[NAME] == after


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"crds": {}}, id="crd-gone"),
        pytest.param({"binding": None}, id="binding-gone"),
        pytest.param({"crds": {NAME: crd(uid="other")}}, id="crd-of-another-binding"),
    ],
)
def test_a_schema_without_a_crd_of_its_own_says_nothing(given: dict[str, Any]) -> None:
    before = planned()
    assert before.status is not None
    old = msgspec.structs.replace(schema(), status=before.schema_status[NAME])
    stored = [msgspec.to_builtins(one) for one in before.status.conditions]
    after = planned(**{"schemas": {NAME: old}, "export": export(conditions=stored), **given})
    assert after.schema_status[NAME] == BoundSchemaStatus()
    assert conditions(after).keys() == {"Ready", "Connected", "ConsumerInSync"}


OTHER = "others.example.org"


def several(**crds: Object) -> dict[str, Any]:
    """An export of two resources, the second of which is first in the alphabet."""
    both = {NAME: crd(), OTHER: crd()} | {
        {"things": NAME, "others": OTHER}[name]: one for name, one in crds.items()
    }
    return {
        "export": export("things", "others"),
        "schemas": {NAME: schema(), OTHER: schema(plural="others")},
        "crds": both,
    }


@pytest.mark.parametrize(
    ("crds", "established", "said"),
    [
        pytest.param({}, ("True", ""), "", id="all-true"),
        pytest.param(
            {"things": crd(established="False")}, ("False", "R"), f"{NAME}: m", id="one-false"
        ),
        pytest.param(
            {"things": crd(established="Unknown")}, ("Unknown", "R"), f"{NAME}: m", id="unknown"
        ),
        pytest.param(
            {"things": crd(established="False"), "others": crd(established="Unknown")},
            ("False", "R"),
            f"{NAME}: m",
            id="false-is-worse-than-unknown",
        ),
        pytest.param(
            {"things": crd(established="False"), "others": crd(established="False")},
            ("False", "R"),
            f"{OTHER}: m",
            id="the-first-of-equals",
        ),
    ],
)
def test_the_export_carries_the_worst_of_its_crds_conditions(
    crds: dict[str, Object], established: tuple[str, str], said: str
) -> None:
    plan = planned(**several(**crds))
    assert conditions(plan)["Established"] == established
    assert conditions(plan)["NamesAccepted"] == ("True", "")
    assert plan.status is not None
    (message,) = [one.message for one in plan.status.conditions if one.type == "Established"]
    assert message == said


def test_a_crds_fault_makes_the_export_unready() -> None:
    assert conditions(planned(crds={NAME: crd(established="False")}))["Ready"] == ("False", "R")


def stored(*types: str) -> list[JSON]:
    return [{"type": type_, "status": "True", "lastTransitionTime": NOW} for type_ in types]


@pytest.mark.parametrize(
    ("before", "left"),
    [
        pytest.param(["Terminating"], [], id="of-the-api-server"),
        pytest.param(["Established"], ["Established"], id="still-there"),
        pytest.param(["ProviderInSync"], ["ProviderInSync"], id="the-providers"),
        pytest.param(["PermissionsGranted"], ["PermissionsGranted"], id="the-providers-rbac"),
        pytest.param(["Made-Up"], ["Made-Up"], id="of-somebody-else"),
    ],
)
def test_conditions_that_no_crd_has_any_more_go(before: list[str], left: list[str]) -> None:
    found = conditions(planned(export=export(conditions=stored(*before)))).keys()
    ours = {"Ready", "Connected", "ConsumerInSync", "Established", "NamesAccepted"}
    assert found - ours == set(left) - ours


def test_an_odd_condition_goes_together_with_the_schemas() -> None:
    status = {"conditions": stored("Odd")}
    old = msgspec.convert(
        {"spec": msgspec.to_builtins(schema().spec), "status": status}, BoundSchema
    )
    plan = planned(export=export(conditions=stored("Odd")), schemas={NAME: old})
    assert "Odd" not in conditions(plan)
    assert "Odd" not in {one.type for one in plan.schema_status[NAME].conditions}


def test_a_crd_says_nothing_in_the_name_of_the_export() -> None:
    found = conditions(planned(crds={NAME: crd(Connected="False", ProviderInSync="False")}))
    assert found["Connected"] == ("True", "")
    assert "ProviderInSync" not in found


def test_the_syncers_and_claims_of_others_outlive_a_lost_schema() -> None:
    given = several()
    del given["schemas"][NAME]
    plan = planned(**given)
    assert plan.syncers.keys() == {OTHER}
    assert plan.claims.keys() == {"secrets.core"}


def test_a_settled_export_is_not_written() -> None:
    first = planned(**several())
    assert first.status is not None
    again = several()
    again["export"] = export(
        "things",
        "others",
        conditions=[msgspec.to_builtins(one) for one in first.status.conditions],
    )
    assert planned(**again).status == first.status
