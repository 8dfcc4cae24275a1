"""Every edge of kube-bind's APIServiceBindings document."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fairlead.api.kubebind import (
    ANNOTATION_BOUND_BY,
    APIServiceBinding,
    APIServiceExport,
    APIServiceExportRequest,
    BindingStatus,
    BoundSchemaSpec,
    GroupResource,
    SchemaVersion,
    crd_from_bound_schema,
)
from fairlead.api.kubebind.conditions import KubeBindCondition, get_condition
from fairlead.api.meta import JSON, Object, OwnerReference, object_from_dict
from fairlead.konnector.controllers.apiservicebinding.reconcile import (
    BindingPlan,
    BindingState,
    changed_claims,
    failure,
    reconcile,
    status,
)


NOW = "2026-01-01T00:00:00Z"
OWNER = OwnerReference(
    "kube-bind.io/v1alpha2", "APIServiceBinding", "things", "uid-1", controller=True
)
SCHEMA = msgspec.convert(
    {
        "informerScope": "Namespaced",
        "group": "example.org",
        "names": {"kind": "Thing", "plural": "things"},
        "scope": "Namespaced",
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"type": "object"}}
        ],
    },
    BoundSchemaSpec,
)
BINDING: JSON = {
    "metadata": {"name": "things", "uid": "uid-1"},
    "spec": {"kubeconfigSecretRef": {"name": "k", "namespace": "kube-bind", "key": "kubeconfig"}},
}
EXPORT: JSON = {
    "spec": {
        "resources": [{"group": "example.org", "resource": "things", "versions": ["v1"]}],
        "permissionClaims": [{"resource": "secrets", "selector": {}}],
        "informerScope": "Namespaced",
        "isolation": "Prefixed",
    }
}
REQUEST: JSON = {"spec": {"resources": EXPORT["spec"]["resources"]}}


def crd(owner: OwnerReference = OWNER, *, established: bool = True, **metadata: Any) -> Object:
    body = crd_from_bound_schema(SCHEMA, owner=owner)
    body["metadata"] |= metadata
    state = "True" if established else "False"
    body["status"] = {"conditions": [{"type": "Established", "status": state}]}
    return object_from_dict(body)


def state(**given: Any) -> BindingState:
    known: dict[str, Any] = {
        "binding": msgspec.convert(BINDING, APIServiceBinding),
        "owner": OWNER,
        "export": msgspec.convert(EXPORT, APIServiceExport),
        "request": None,
        "schemas": {"things.example.org": SCHEMA},
        "crds": {"things.example.org": crd()},
        "provider_name": "Acme",
        "converged": lambda wanted, found: True,
    }
    return BindingState(**{**known, **given})


def request(**found: Any) -> APIServiceExportRequest:
    return msgspec.convert({**REQUEST, "status": found}, APIServiceExportRequest)


def connected(plan: BindingPlan) -> KubeBindCondition:
    assert plan.connected is not None
    return plan.connected


def conditions(
    given: BindingState, plan: BindingPlan, *failures: Any
) -> dict[str, tuple[str, str]]:
    result = status(given, plan, list(failures), now=NOW)
    return {item.type: (item.status, item.reason) for item in result.conditions}


CRD_NAME = "things.example.org"
FOREIGN = {CRD_NAME: crd(msgspec.structs.replace(OWNER, uid="another"))}
NO_SCHEMA: dict[str, Any] = {"schemas": {}, "crds": {}}
NO_EXPORT: dict[str, Any] = {"export": None, "crds": {}}
NO_CRD: dict[str, Any] = {"crds": {}}
DIFFERS: dict[str, Any] = {"converged": lambda wanted, found: False}
SYNCED = ("True", "")
WAITING = ("False", "CustomResourceDefinitionNotEstablished")


@pytest.mark.parametrize(
    ("looks", "written", "connected", "in_sync"),
    [
        pytest.param([{"ours": False}], [], None, None, id="binding-owned-no-stop"),
        pytest.param(
            [{**NO_EXPORT, "request": request(phase="Failed")}],
            [],
            ("False", "APIServiceExportFailed"),
            None,
            id="export-absent-request-failed-yes",
        ),
        pytest.param(
            [{**NO_EXPORT, "request": request(phase="Pending")}],
            [],
            ("False", "APIServiceExportNotFound"),
            None,
            id="export-absent-request-failed-no",
        ),
        pytest.param(
            [NO_EXPORT],
            [],
            ("False", "APIServiceExportNotFound"),
            None,
            id="export-absent-request-absent",
        ),
        pytest.param(
            [NO_SCHEMA],
            [],
            ("False", "BoundSchemaFetchFailed"),
            None,
            id="export-present-schemas-fetched-no",
        ),
        pytest.param(
            [NO_CRD], ["create"], SYNCED, WAITING, id="schemas-fetched-yes-crd-absent-create"
        ),
        pytest.param(
            [{"crds": FOREIGN}],
            [],
            ("False", "ForeignCustomResourceDefinition"),
            None,
            id="crd-present-owned-no",
        ),
        pytest.param([DIFFERS], ["update"], SYNCED, SYNCED, id="crd-present-owned-yes-update"),
        pytest.param([{}], [], SYNCED, SYNCED, id="crd-present-owned-yes-nothing-to-update"),
        pytest.param(
            [NO_CRD, {}], [], SYNCED, SYNCED, id="crd-created-present-at-the-second-look"
        ),
        pytest.param(
            [NO_CRD, {"crds": FOREIGN}],
            [],
            ("False", "ForeignCustomResourceDefinition"),
            WAITING,
            id="crd-created-by-another-at-the-second-look",
        ),
        pytest.param([{}, NO_CRD], ["create"], SYNCED, WAITING, id="crd-gone-at-the-second-look"),
        pytest.param(
            [{}, {"export": None}],
            [],
            ("False", "APIServiceExportNotFound"),
            SYNCED,
            id="export-gone-at-the-second-look",
        ),
        pytest.param(
            [{}, {"schemas": {}}],
            [],
            ("False", "BoundSchemaFetchFailed"),
            SYNCED,
            id="schema-gone-at-the-second-look",
        ),
        pytest.param(
            [{}, {"ours": False}], [], SYNCED, SYNCED, id="binding-owned-no-at-the-second-look"
        ),
        pytest.param(
            [NO_EXPORT, NO_CRD], ["create"], SYNCED, WAITING, id="export-there-at-the-second-look"
        ),
    ],
)
def test_the_edges_of_the_flowchart(
    looks: list[dict[str, Any]],
    written: list[str],
    connected: tuple[str, str] | None,
    in_sync: tuple[str, str] | None,
) -> None:
    """Several looks follow one another, each with the status that the last one left."""
    stored = BindingStatus()
    for given in looks:
        body = {**BINDING, "status": msgspec.to_builtins(stored)}
        found = state(binding=msgspec.convert(body, APIServiceBinding), **given)
        plan = reconcile(found)
        stored = status(found, plan, [], now=NOW)
    said = {item.type: (item.status, item.reason) for item in stored.conditions}
    assert ["update" if write.old else "create" for write in plan.writes] == written
    assert said.get("Connected") == connected
    assert said.get("SchemaInSync") == in_sync
    reached = any(look.get("ours", True) for look in looks)
    assert stored.provider_pretty_name == ("Acme" if reached else "")
    assert ("Ready" in said) == reached


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        pytest.param({"request": None}, "APIServiceExportNotFound", id="no-request"),
        pytest.param(
            {"request": request(phase="Pending")}, "APIServiceExportNotFound", id="pending"
        ),
        pytest.param(
            {"request": request(phase="Failed", terminalMessage="no such schema")},
            "APIServiceExportFailed",
            id="failed",
        ),
    ],
)
def test_without_an_export_it_is_not_connected(given: dict[str, Any], reason: str) -> None:
    found = state(export=None, **given)
    plan = reconcile(found)
    assert plan.writes == []
    assert conditions(found, plan) == {
        "Ready": ("False", reason),
        "Connected": ("False", reason),
    }


def test_the_providers_refusal_is_told() -> None:
    found = state(export=None, request=request(phase="Failed", terminalMessage="no such schema"))
    assert "no such schema" in connected(reconcile(found)).message


@pytest.mark.parametrize("held", [["abc-shop"], ["abc-till", "abc-shop"], []])
def test_without_an_export_the_namespaces_that_still_hold_objects_are_told(
    held: list[str],
) -> None:
    told = connected(reconcile(state(export=None, retained=held)))
    assert told.reason == "APIServiceExportNotFound"
    # Who reads it by kubectl has no other advice.
    assert "`fairlead bind` with" in told.message
    assert ", ".join(sorted(held)) in told.message
    assert ("still holds synced objects" in told.message) is bool(held)


def test_a_missing_schema_ends_it() -> None:
    found = state(schemas={})
    plan = reconcile(found)
    assert plan.writes == []
    assert connected(plan).reason == "BoundSchemaFetchFailed"
    assert "things.example.org" in connected(plan).message


@pytest.mark.parametrize(
    ("resource", "group", "plural"),
    [
        pytest.param({"group": "example.org", "resource": "things"}, "", "secrets", id="swapped"),
        pytest.param({"group": "core", "resource": "secrets"}, "", "secrets", id="core-is-core"),
    ],
)
def test_a_schema_that_describes_another_resource_is_refused(
    resource: JSON, group: str, plural: str
) -> None:
    names = msgspec.structs.replace(SCHEMA.names, plural=plural)
    swapped = msgspec.structs.replace(SCHEMA, group=group, names=names)
    export = {"spec": {**EXPORT["spec"], "resources": [resource]}}
    name = f"{resource['resource']}.{resource['group']}"
    plan = reconcile(
        state(export=msgspec.convert(export, APIServiceExport), schemas={name: swapped}, crds={})
    )
    assert plan.writes == []
    assert connected(plan).reason == "BoundSchemaFetchFailed"


def test_claims_that_were_widened_later_are_not_followed() -> None:
    first = state()
    accepted = status(first, reconcile(first), [], now=NOW)
    binding = msgspec.convert(
        {**BINDING, "status": msgspec.to_builtins(accepted)}, APIServiceBinding
    )
    wider = [{"resource": "secrets", "selector": {"labelSelector": {}}}]
    export = {"spec": {**EXPORT["spec"], "permissionClaims": wider}}
    later = state(binding=binding, export=msgspec.convert(export, APIServiceExport))
    result = status(later, reconcile(later), [], now=NOW)
    assert result.permission_claims == accepted.permission_claims
    assert "bind again" in changed_claims(later)
    assert changed_claims(first) == ""


def exporting(group: str, plural: str) -> dict[str, Any]:
    """State in which the provider exports another resource beside the first."""
    resources = [*EXPORT["spec"]["resources"], {"group": group, "resource": plural}]
    names = msgspec.structs.replace(SCHEMA.names, plural=plural)
    other = msgspec.structs.replace(SCHEMA, group=group, names=names)
    return {
        "export": msgspec.convert(
            {"spec": {**EXPORT["spec"], "resources": resources}}, APIServiceExport
        ),
        "schemas": {"things.example.org": SCHEMA, f"{plural}.{group}": other},
    }


def test_the_name_of_a_provider_is_cut() -> None:
    given = state(provider_name="x" * 5000)
    assert len(status(given, reconcile(given), [], now=NOW).provider_pretty_name) == 256


def test_an_export_without_end_brings_no_crd() -> None:
    resources = [{"group": "example.org", "resource": f"t{number}"} for number in range(65)]
    body = {"spec": {**EXPORT["spec"], "resources": resources}}
    plan = reconcile(state(export=msgspec.convert(body, APIServiceExport)))
    assert plan.writes == []
    told = connected(plan)
    assert told.reason == "ProviderObjectInvalid"
    assert "has 65 resources, and a binding takes at most 64" in told.message


def test_resources_that_were_added_later_are_not_followed() -> None:
    wider = exporting("cert-manager.io", "issuers")
    first = state()
    accepted = status(first, reconcile(first), [], now=NOW)
    binding = msgspec.convert(
        {**BINDING, "status": msgspec.to_builtins(accepted)}, APIServiceBinding
    )
    later = state(binding=binding, **wider)
    plan = reconcile(later)
    assert plan.writes == []
    assert connected(plan).reason == "APIServiceExportChanged"
    assert status(later, plan, [], now=NOW).bound_schemas == accepted.bound_schemas
    assert [write.name for write in reconcile(state(**wider)).writes] == [
        "issuers.cert-manager.io"
    ]


@pytest.mark.parametrize("group", ["kube-bind.io", "apps", "rbac.authorization.k8s.io"])
def test_no_provider_brings_the_kinds_of_the_cluster_itself(group: str) -> None:
    plan = reconcile(state(**exporting(group, "anything")))
    assert plan.writes == []
    assert connected(plan).reason == "ForeignCustomResourceDefinition"
    assert [item.name for item in plan.bound] == ["things.example.org"]


def test_an_absent_crd_is_created_for_the_binding() -> None:
    found = state(crds={})
    (write,) = reconcile(found).writes
    assert write.old is None
    assert write.body == crd_from_bound_schema(SCHEMA, owner=OWNER)


@pytest.mark.parametrize(
    ("owner", "reason"),
    [
        pytest.param(
            msgspec.structs.replace(OWNER, uid="older"),
            "ForeignCustomResourceDefinition",
            id="other-uid",
        ),
        pytest.param(
            msgspec.structs.replace(OWNER, name="others"),
            "ForeignCustomResourceDefinition",
            id="other-name",
        ),
    ],
)
def test_a_foreign_crd_is_left_alone(owner: OwnerReference, reason: str) -> None:
    found = state(crds={"things.example.org": crd(owner)}, converged=lambda wanted, found: False)
    plan = reconcile(found)
    assert plan.writes == []
    assert conditions(found, plan)["Connected"] == ("False", reason)


@pytest.mark.parametrize("by", [OWNER.name, "others"])
def test_a_crd_that_a_backup_left_without_its_owner_is_taken_up_by_its_binding(by: str) -> None:
    body = crd(ownerReferences=[], annotations={ANNOTATION_BOUND_BY: by}).to_dict()
    plan = reconcile(state(crds={"things.example.org": object_from_dict(body)}))
    owners = [write.body["metadata"]["ownerReferences"] for write in plan.writes]
    assert owners == ([[msgspec.to_builtins(OWNER)]] if by == OWNER.name else [])


def test_a_crd_of_an_older_konnector_says_from_now_on_whose_it_is() -> None:
    body = crd(annotations={}).to_dict()
    (write,) = reconcile(state(crds={"things.example.org": object_from_dict(body)})).writes
    assert write.body["metadata"]["annotations"] == {ANNOTATION_BOUND_BY: OWNER.name}


def test_an_owned_crd_that_differs_is_updated_and_keeps_its_metadata() -> None:
    old = crd(labels={"mine": "kept"})
    found = state(crds={"things.example.org": old}, converged=lambda wanted, found: False)
    (write,) = reconcile(found).writes
    assert write.old is old
    assert write.body["metadata"]["labels"] == {"mine": "kept"}
    assert write.body["spec"] == crd_from_bound_schema(SCHEMA)["spec"]


NEWER = msgspec.structs.replace(
    SCHEMA, versions=[msgspec.structs.replace(SCHEMA.versions[0], name="v2")]
)


def storing(*versions: str) -> Object:
    """The consumer's CRD as it was made of v1, with objects stored in these versions."""
    body = crd().to_dict()
    body["status"]["storedVersions"] = list(versions)
    return object_from_dict(body)


@pytest.mark.parametrize(
    ("stored", "schema", "kept"),
    [
        pytest.param(["v1"], NEWER, ["v1"], id="removed-and-stored"),
        pytest.param(["v1", "v2"], NEWER, ["v1"], id="both-stored"),
        pytest.param(["v2"], NEWER, [], id="migrated"),
        pytest.param([], NEWER, [], id="nothing-stored"),
        pytest.param(["v1"], SCHEMA, [], id="served-again"),
    ],
)
def test_a_version_stays_in_the_crd_as_long_as_objects_may_be_stored_in_it(
    stored: list[str], schema: BoundSchemaSpec, kept: list[str]
) -> None:
    found = state(
        crds={CRD_NAME: storing(*stored)},
        schemas={CRD_NAME: schema},
        converged=lambda wanted, found: False,
    )
    plan = reconcile(found)
    (write,) = plan.writes
    versions = {one["name"]: one for one in write.body["spec"]["versions"]}
    assert list(versions) == [schema.versions[0].name, *kept]
    for name in kept:
        assert (versions[name]["served"], versions[name]["storage"]) == (False, False)
    said = conditions(found, plan)
    assert said["Ready"] == ("True", "")
    assert said.get("VersionsRemoved") == (("True", "StoredVersions") if kept else None)
    (told,) = plan.removed or [""]
    if kept:
        assert "no longer has version v1 of things.example.org" in told
        assert '"storedVersions":["v2"]' in told
        assert "kubectl get things.example.org -A -o json | kubectl replace -f -" in told


def test_what_is_said_of_removed_versions_goes_with_them() -> None:
    before = state(crds={CRD_NAME: storing("v1")}, schemas={CRD_NAME: NEWER})
    first = status(before, reconcile(before), [], now=NOW)
    body = {**BINDING, "status": msgspec.to_builtins(first)}
    binding = msgspec.convert(body, APIServiceBinding)
    assert get_condition(first.conditions, "VersionsRemoved") is not None
    later = state(binding=binding, crds={CRD_NAME: storing("v2")}, schemas={CRD_NAME: NEWER})
    assert "VersionsRemoved" not in conditions(later, reconcile(later))
    # Without an export nothing is known of it.
    gone = state(binding=binding, export=None)
    assert "VersionsRemoved" in conditions(gone, reconcile(gone))


def test_a_kind_that_is_served_in_no_version_is_told_and_left_alone() -> None:
    version = msgspec.structs.replace(SCHEMA.versions[0], served=False)
    schema = msgspec.structs.replace(SCHEMA, versions=[version])
    found = state(schemas={CRD_NAME: schema}, converged=lambda wanted, found: False)
    plan = reconcile(found)
    assert plan.writes == []
    assert connected(plan).reason == "NoVersionServed"
    assert "(it has v1): its administrator has to serve one" in connected(plan).message


def sized(name: str, *fields: str, how: str = "served") -> SchemaVersion:
    properties = {field: {"type": "string"} for field in fields}
    return SchemaVersion(
        name=name,
        served="served" in how,
        storage="stored" in how,
        schema={"type": "object", "properties": properties},
    )


def schema(*versions: SchemaVersion) -> BoundSchemaSpec:
    return msgspec.structs.replace(SCHEMA, versions=list(versions))


def made_of(spec: BoundSchemaSpec, *stored: str) -> Object:
    body = crd_from_bound_schema(spec, owner=OWNER)
    conditions = [{"type": "Established", "status": "True"}]
    body["status"] = {"conditions": conditions, "storedVersions": list(stored)}
    return object_from_dict(body)


BETA, V1 = sized("v1beta1", "a"), sized("v1", "a", "size", how="served stored")
SEVERAL = schema(BETA, V1)
UNSERVED = schema(BETA, sized("v1", "a", "size", how="stored"))
MOVED = schema(sized("v1beta1", "a", "size"), sized("v1", "a", how="served stored"))


@pytest.mark.parametrize(
    ("wanted", "found", "told"),
    [
        pytest.param(UNSERVED, None, "v1beta1 lacks .size of v1", id="new"),
        pytest.param(UNSERVED, made_of(SEVERAL, "v1"), "v1beta1 lacks .size of v1", id="bound"),
        pytest.param(
            MOVED,
            made_of(schema(sized("v1beta1", "a", "size", how="served stored")), "v1beta1"),
            "in this cluster v1 lacks .size of v1beta1",
            id="the-storage-version-moves-to-less",
        ),
        pytest.param(
            MOVED,
            made_of(MOVED, "v1beta1", "v1"),
            "in this cluster v1 lacks .size of v1beta1",
            id="it-has-moved-to-less",
        ),
        pytest.param(MOVED, made_of(MOVED, "v1"), "", id="it-has-moved-and-all-is-migrated"),
        pytest.param(
            schema(sized("v1", "a", how="served stored")),
            made_of(schema(V1), "v1"),
            "v1 lacks .size of itself as it was",
            id="a-field-goes",
        ),
        pytest.param(
            SEVERAL,
            made_of(schema(sized("v1beta1", "a", how="served stored")), "v1beta1"),
            "",
            id="the-storage-version-moves-to-more",
        ),
    ],
)
def test_no_crd_is_written_that_takes_fields_from_objects(
    wanted: BoundSchemaSpec, found: Object | None, told: str
) -> None:
    crds = {CRD_NAME: found} if found is not None else {}
    plan = reconcile(state(schemas={CRD_NAME: wanted}, crds=crds, **DIFFERS))
    assert bool(plan.writes) == (not told)
    assert connected(plan).reason == ("FieldsLost" if told else "")
    assert told in connected(plan).message


@pytest.mark.parametrize(
    ("found", "what"),
    [
        pytest.param(None, "things.example.org is not bound", id="new"),
        pytest.param(
            made_of(SEVERAL, "v1"), "does not write to objects and their copies", id="old"
        ),
    ],
)
def test_what_becomes_of_a_kind_without_a_lossless_version(
    found: Object | None, what: str
) -> None:
    crds = {CRD_NAME: found} if found is not None else {}
    given = state(schemas={CRD_NAME: UNSERVED}, crds=crds)
    plan = reconcile(given)
    assert what in connected(plan).message
    lost = ("False", "FieldsLost")
    said = conditions(given, plan)
    assert (said["Connected"], said["SchemaInSync"], said["Ready"]) == (lost, lost, lost)


def test_what_the_provider_says_of_lost_fields_is_repeated() -> None:
    lost = {"type": "ExportsReady", "status": "False", "reason": "FieldsLost", "message": "of v1"}
    plan = reconcile(state(request=request(phase="Succeeded", conditions=[lost])))
    assert connected(plan).reason == "FieldsLost"
    assert (
        connected(plan).message
        == "the konnector writes nothing, since the provider reports: of v1"
    )


@pytest.mark.parametrize(
    ("running", "written"),
    [
        pytest.param({}, True, id="nothing-is-written"),
        pytest.param({CRD_NAME: "v1beta1"}, False, id="in-a-version-that-becomes-lossy"),
        pytest.param({CRD_NAME: "v1"}, True, id="in-one-that-stays-lossless"),
        pytest.param({"others.example.org": "v1beta1"}, True, id="of-another-kind"),
    ],
)
def test_a_crd_waits_until_nothing_is_written_in_a_version_that_loses_fields_by_it(
    running: dict[str, str], written: bool
) -> None:
    found = made_of(schema(sized("v1beta1", "a", how="served stored")), "v1beta1")
    given = state(schemas={CRD_NAME: SEVERAL}, crds={CRD_NAME: found}, running=running, **DIFFERS)
    plan = reconcile(given)
    assert (bool(plan.writes), plan.stopping) == (written, not written)


@pytest.mark.parametrize(
    ("found", "converged"),
    [
        pytest.param(crd(), True, id="nothing-changed"),
        pytest.param(crd(deletionTimestamp=NOW), False, id="being-deleted"),
    ],
)
def test_a_crd_is_not_written_without_need(found: Object, converged: bool) -> None:
    given = state(crds={"things.example.org": found}, converged=lambda wanted, found: converged)
    assert reconcile(given).writes == []


@pytest.mark.parametrize(
    ("created", "reason"),
    [
        pytest.param(True, "CustomResourceDefinitionCreateFailed", id="create"),
        pytest.param(False, "CustomResourceDefinitionUpdateFailed", id="update"),
    ],
)
def test_a_refused_write_is_told(created: bool, reason: str) -> None:
    found = state()
    refused = failure(created=created, name="things.example.org", message="because")
    assert conditions(found, reconcile(found), refused)["Connected"] == ("False", reason)


@pytest.mark.parametrize(
    ("crds", "in_sync"),
    [
        pytest.param({"things.example.org": crd()}, ("True", ""), id="established"),
        pytest.param(
            {"things.example.org": crd(established=False)},
            ("False", "CustomResourceDefinitionNotEstablished"),
            id="not-established",
        ),
        pytest.param({}, ("False", "CustomResourceDefinitionNotEstablished"), id="just-created"),
    ],
)
def test_schema_in_sync_follows_the_crd(crds: dict[str, Object], in_sync: tuple[str, str]) -> None:
    found = state(crds=crds)
    result = conditions(found, reconcile(found))
    assert result["Connected"] == ("True", "")
    assert result["SchemaInSync"] == in_sync
    assert result["Ready"] == in_sync


def test_the_status_names_what_is_bound() -> None:
    found = state()
    result = status(found, reconcile(found), [], now=NOW)
    assert result.bound_schemas == [GroupResource(group="example.org", resource="things")]
    assert [claim.resource for claim in result.permission_claims] == ["secrets"]
    assert result.provider_pretty_name == "Acme"


def test_what_was_bound_stays_named_when_the_export_goes() -> None:
    before = state()
    kept = status(before, reconcile(before), [], now=NOW)
    binding = msgspec.convert({**BINDING, "status": msgspec.to_builtins(kept)}, APIServiceBinding)
    gone = state(binding=binding, export=None, provider_name="")
    result = status(gone, reconcile(gone), [], now=NOW)
    assert result.bound_schemas == kept.bound_schemas
    assert result.permission_claims == kept.permission_claims
    assert result.provider_pretty_name == "Acme"


def test_a_binding_that_stays_broken_keeps_its_transition_time() -> None:
    found = state(crds={"things.example.org": crd(msgspec.structs.replace(OWNER, uid="x"))})
    first = status(found, reconcile(found), [], now=NOW)
    again = msgspec.structs.replace(
        found,
        binding=msgspec.convert(
            {**BINDING, "status": msgspec.to_builtins(first)}, APIServiceBinding
        ),
    )
    second = status(again, reconcile(again), [], now="2026-02-02T00:00:00Z")
    connected = get_condition(second.conditions, "Connected")
    assert connected is not None
    assert connected.last_transition_time == NOW
