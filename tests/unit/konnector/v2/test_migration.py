"""Every reason for which a binding of v1alpha2 does not fit kbind v2, and each write of a move."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fairlead.api.definitions import crd_spec
from fairlead.api.kbind import schema_hash
from fairlead.api.kubebind import APIServiceExport, APIServiceExportRequest, binding_of_crd
from fairlead.api.meta import JSON, Key, Object, object_from_dict
from fairlead.konnector.policies.merge import transferred
from fairlead.konnector.v2.bindings.coverage import BindingSummary
from fairlead.konnector.v2.bindings.crds import is_made
from fairlead.konnector.v2.migration import (
    Marks,
    MigrationPlan,
    MigrationState,
    handed_over,
    is_handed_over,
    object_patch,
    plan,
    provider_rights,
    provider_roles,
)


API = "widgets.acme.io"
OWNER: JSON = {
    "apiVersion": "kube-bind.io/v1alpha2",
    "kind": "APIServiceBinding",
    "name": "db",
    "uid": "b-1",
    "controller": True,
}
FIELDS = ("spec", "status", "metadata", "apiVersion", "kind")


def version(name: str = "v1", *fields: str, storage: bool = True, **spec: Any) -> JSON:
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    properties: JSON = dict.fromkeys((*FIELDS, *fields), anything) | spec
    schema = {"openAPIV3Schema": {"type": "object", "properties": properties}}
    return {"name": name, "served": True, "storage": storage, "schema": schema}


def crd(
    *versions: JSON, scope: str = "Namespaced", stored: list[str] | None = None, **more: Any
) -> Object:
    metadata: JSON = {
        "name": API,
        "uid": "c-1",
        "resourceVersion": "1",
        "ownerReferences": more.pop("owners", [OWNER]),
        "annotations": {"kube-bind.io/bound-by": "db", "note": "x"},
        "labels": more.pop("labels", {}),
    }
    spec: JSON = {
        "group": "acme.io",
        "names": {"plural": "widgets", "kind": "Widget"},
        "scope": scope,
        "versions": list(versions) or [version()],
        **more,
    }
    return object_from_dict(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": metadata,
            "spec": spec,
            "status": {
                "conditions": [{"type": "Established", "status": "True"}],
                "storedVersions": stored or ["v1"],
            },
        }
    )


def offered(*versions: JSON, **more: Any) -> Object:
    labels = more.pop("labels", {"core.kbind.io/exported": "true"})
    return crd(*versions, labels=labels, owners=[], **more)


def binding(status: JSON | None = None, **metadata: Any) -> Object:
    bound = {"boundSchemas": [{"group": "acme.io", "resource": "widgets"}]}
    ref = {"namespace": "kube-bind", "name": "k", "key": "kubeconfig"}
    return object_from_dict(
        {
            "apiVersion": "kube-bind.io/v1alpha2",
            "kind": "APIServiceBinding",
            "metadata": {"name": "db", "uid": "b-1", "resourceVersion": "1", **metadata},
            "spec": {"kubeconfigSecretRef": ref},
            "status": bound | (status or {}),
        }
    )


def export(isolation: str = "None", scope: str = "Cluster") -> APIServiceExport:
    body = {
        "metadata": {"name": "db"},
        "spec": {
            "resources": [{"group": "acme.io", "resource": "widgets"}],
            "isolation": isolation,
            "informerScope": scope,
        },
    }
    return msgspec.convert(body, APIServiceExport)


def request(policy: str) -> APIServiceExportRequest:
    body = {
        "metadata": {"name": "db"},
        "spec": {
            "resources": [{"group": "acme.io", "resource": "widgets"}],
            "schemaUpdatePolicy": policy,
        },
    }
    return msgspec.convert(body, APIServiceExportRequest)


def assigned(name: str, target: str) -> Object:
    body = {"metadata": {"name": name, "namespace": "kb-1"}, "status": {"namespace": target}}
    return object_from_dict(body)


def state(**changed: Any) -> MigrationState:
    known: dict[str, Any] = {
        "binding": binding(),
        "export": export(),
        "request": request("Always"),
        "crds": {API: crd()},
        "offered": {API: offered()},
    }
    return MigrationState(**{**known, **changed})


def claim(resource: str = "secrets", **selector: Any) -> JSON:
    return {"permissionClaims": [{"group": "", "resource": resource, "selector": selector}]}


REFERENCE = {"group": "acme.io", "resource": "widgets", "jsonPath": {"name": "spec.secret"}}
WEBHOOK = {"group": "acme.io", "resource": "widgets", "url": "https://c.example.org"}
STRICT: dict[str, Any] = {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}
RICH: dict[str, Any] = {
    "spec": {
        "type": "object",
        "properties": {"size": {"type": "integer"}, "colour": {"type": "string"}},
    }
}
BUNDLE = {
    "apiVersion": "kube-bind.io/v1alpha2",
    "kind": "APIServiceBindingBundle",
    "name": "team",
    "uid": "u",
    "controller": True,
}


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        pytest.param({}, "", id="fits"),
        pytest.param({"namespaces": [assigned("shop", "shop")]}, "", id="equal-namespaces"),
        pytest.param({"export": export("Prefixed")}, "", id="isolation-of-namespaced-kinds"),
        pytest.param({"namespaces": [assigned("shop", "")]}, "", id="not-assigned-yet"),
        pytest.param({"offered": {}}, "", id="crds-that-may-not-be-read"),
        pytest.param({"export": None}, "has no APIServiceExport db", id="no-export"),
        pytest.param(
            {"namespaces": [assigned("shop", "kb-1-shop"), assigned("web", "web")]},
            "(shop is kb-1-shop there)",
            id="other-namespaces",
        ),
        pytest.param(
            {"namespaces": [assigned(f"n{one}", f"kb-n{one}") for one in range(9)]},
            "n2 is kb-n2 there and 6 more)",
            id="many-other-namespaces",
        ),
        pytest.param(
            {"crds": {API: crd(scope="Cluster")}, "export": export("Prefixed"), "offered": {}},
            "isolation Prefixed gives its copies other names",
            id="prefixed",
        ),
        pytest.param(
            {"crds": {API: crd(scope="Cluster")}, "export": export("Namespaced"), "offered": {}},
            "isolation Namespaced gives its copies other names",
            id="namespaced",
        ),
        pytest.param(
            {"crds": {API: crd(scope="Cluster")}, "offered": {API: offered(scope="Cluster")}},
            "",
            id="cluster-scoped-with-equal-names",
        ),
        pytest.param(
            {"crds": {API: crd(scope="Cluster")}},
            "is Namespaced at the provider and Cluster here",
            id="other-scope",
        ),
        pytest.param(
            {"binding": binding(claim(references=[REFERENCE]))},
            "it claims secrets that objects refer to",
            id="claim-by-reference",
        ),
        pytest.param(
            {"binding": binding(claim("serviceaccounts"))},
            "it claims serviceaccounts.core, and kbind v2 copies only Secrets and ConfigMaps",
            id="claim-of-another-kind",
        ),
        pytest.param(
            {"binding": binding(claim(namedResources=[{"name": "tls"}]))},
            "it claims secrets by labels or names",
            id="claim-by-name",
        ),
        pytest.param(
            {"binding": binding({"conversionWebhooks": [WEBHOOK]})},
            "webhook https://c.example.org converts widgets.acme.io",
            id="accepted-webhook",
        ),
        pytest.param(
            {"offered": {API: offered(conversion={"strategy": "Webhook"})}},
            "the provider converts widgets.acme.io by a webhook",
            id="webhook-of-the-provider",
        ),
        pytest.param(
            {"binding": binding(ownerReferences=[BUNDLE])},
            "APIServiceBindingBundle team created APIServiceBinding db",
            id="bundle",
        ),
        pytest.param(
            {"binding": binding(deletionTimestamp="2026-01-01T00:00:00Z")},
            "is being deleted",
            id="deleted",
        ),
        pytest.param(
            {"binding": binding({"boundSchemas": []}), "crds": {}},
            "has bound nothing yet",
            id="nothing-bound",
        ),
        pytest.param({"connection": True}, "Connection db already exists", id="connection"),
        pytest.param({"hold": "uid 7"}, "copies of APIServiceBinding db are held", id="held"),
        pytest.param({"crds": {}}, f"CustomResourceDefinition {API} does not exist", id="no-crd"),
        pytest.param(
            {"crds": {API: crd(owners=[{**OWNER, "name": "other", "uid": "b-2"}])}},
            f"CustomResourceDefinition {API} belongs to APIServiceBinding other",
            id="shared-api",
        ),
        pytest.param(
            {"others": [BindingSummary(Key("", "x"), "acme", (API,))]},
            f"ClusterBinding x of kbind v2 lists {API} already",
            id="bound-by-kbind-v2",
        ),
        pytest.param(
            {"others": [BindingSummary(Key("web", "x"), "acme", (API,))]},
            f"Binding web/x of kbind v2 lists {API} already",
            id="bound-by-kbind-v2-in-a-namespace",
        ),
        pytest.param(
            {"crds": {API: crd(version("v1", "data", "immutable"))}},
            "have data, immutable beside spec",
            id="other-members",
        ),
        pytest.param(
            {"crds": {API: crd(stored=["v1beta1", "v1"])}},
            "may be stored in v1beta1 here, and kbind v2 serves only v1",
            id="stored-versions",
        ),
        pytest.param(
            {"crds": {API: crd(stored=["v1beta1", "v1"])}, "request": request("Never")},
            "",
            id="stored-versions-of-a-crd-that-stays",
        ),
        pytest.param(
            {"offered": {API: offered(version("v2"))}, "request": request("Never")},
            "no version of widgets.acme.io is served in both clusters",
            id="no-common-version",
        ),
        pytest.param(
            {
                "crds": {API: crd(version(**RICH))},
                "offered": {API: offered(version(**STRICT))},
            },
            "would lose fields: this cluster's v1 lacks .spec.colour",
            id="lost-fields",
        ),
    ],
)
def test_reasons_why_a_binding_does_not_fit(changed: dict[str, Any], reason: str) -> None:
    result = plan(state(**changed))
    text = "; ".join(result.misfits)
    assert (reason in text) if reason else not text


def test_all_reasons_are_told_at_once() -> None:
    result = plan(
        state(
            connection=True,
            namespaces=[assigned("shop", "kb-shop")],
            binding=binding(claim(references=[REFERENCE])),
        )
    )
    assert len(result.misfits) == 3


@pytest.mark.parametrize(
    ("changed", "places", "update_policy"),
    [
        pytest.param({}, [""], "Always", id="everywhere"),
        pytest.param({"request": request("Never")}, [""], "Once", id="schema-stays"),
        pytest.param({"request": None}, [""], "Once", id="no-request"),
        pytest.param(
            {
                "export": export(scope="Namespaced"),
                "namespaces": [assigned("web", "web"), assigned("shop", "shop")],
            },
            ["shop", "web"],
            "Always",
            id="namespaces",
        ),
        pytest.param(
            {"export": export(scope="Namespaced")}, [""], "Always", id="no-namespace-yet"
        ),
        pytest.param(
            {
                "export": export(scope="Namespaced"),
                "crds": {API: crd(scope="Cluster")},
                "offered": {API: offered(scope="Cluster")},
            },
            [""],
            "Always",
            id="cluster-scoped",
        ),
    ],
)
def test_the_objects_that_a_binding_becomes(
    changed: dict[str, Any], places: list[str], update_policy: str
) -> None:
    result = plan(state(**changed))
    assert not result.misfits
    assert (list(result.places), result.schema.update_policy) == (places, update_policy)
    assert result.schema.pull_policy == "Bound"


def test_versions_that_are_not_served_any_more_are_noted() -> None:
    both = [version(), version("v1beta1", storage=False)]
    result = plan(state(crds={API: crd(*both)}, offered={API: offered(*both)}))
    assert not result.misfits
    assert f"only version v1 of {API} is served, and no longer v1beta1" in result.notes


def test_crds_without_their_label_are_named() -> None:
    assert plan(state(offered={API: offered(labels={})})).unlabelled == [API]
    assert plan(state()).unlabelled == []


def test_the_steps_name_what_is_written() -> None:
    steps = MigrationPlan(name="db", apis=[API], places=["shop"]).steps("kube-bind")
    text = "\n".join(steps)
    for part in ("Secret kube-bind/db-kubeconfig", "Binding shop/db", "Connection db", API):
        assert part in text


def test_a_crd_changes_hands_as_if_kbind_v2_had_made_it() -> None:
    before = crd()
    after = object_from_dict(handed_over(before, "db"))
    assert is_made(after)
    assert binding_of_crd(after.meta) == ""
    assert after.meta.annotations["core.kbind.io/schema-hash"] == schema_hash(
        before.to_dict()["spec"]
    )
    assert after.meta.annotations["note"] == "x"
    assert after.to_dict()["spec"] == before.to_dict()["spec"]
    assert after.meta.resource_version == before.meta.resource_version
    assert is_handed_over(after, "db")
    assert not is_handed_over(after, "other")
    assert not is_handed_over(before, "db")


def test_other_owners_of_a_crd_stay() -> None:
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "o"}
    after = handed_over(crd(owners=[OWNER, other]), "db")
    assert after["metadata"]["ownerReferences"] == [other]


MARKS = Marks(cluster_namespace="kb-1", cluster_uid="cluster-1")
OBJECT: JSON = {
    "metadata": {
        "name": "blue",
        "namespace": "shop",
        "uid": "o-1",
        "resourceVersion": "5",
        "finalizers": ["x/other", "kubebind.io/syncer"],
        "annotations": {"kube-bind.io/provider-uid": "p-1", "kube-bind.io/provider-namespace": ""},
    }
}


def changed_object(**metadata: Any) -> Object:
    return object_from_dict({"metadata": {**OBJECT["metadata"], **metadata}})


def copy(annotations: JSON | None = None, **metadata: Any) -> Object:
    marks = {
        "kube-bind.io/cluster-namespace": "kb-1",
        "kube-bind.io/consumer-namespace": "shop",
        "kube-bind.io/consumer-uid": "o-1",
        "mine": "y",
    }
    return object_from_dict(
        {
            "metadata": {
                "name": "blue",
                "namespace": "shop",
                "uid": "p-1",
                "resourceVersion": "9",
                "annotations": marks if annotations is None else annotations,
                **metadata,
            }
        }
    )


@pytest.mark.parametrize(
    "annotations",
    [
        pytest.param({}, id="no-marks"),
        pytest.param({"kube-bind.io/consumer-uid": "o-1"}, id="no-consumer"),
        pytest.param({"kube-bind.io/cluster-namespace": "kb-1"}, id="let-go"),
        pytest.param(
            {"kube-bind.io/cluster-namespace": "kb-2", "kube-bind.io/consumer-uid": "o-1"},
            id="another-consumer's",
        ),
        pytest.param(
            {"kube-bind.io/cluster-namespace": "kb-1", "kube-bind.io/consumer-uid": "o-2"},
            id="another-object's",
        ),
    ],
)
def test_what_v1alpha2_has_not_proved_is_not_taken_over(annotations: JSON) -> None:
    assert MARKS.copy_patch(changed_object(), copy(annotations)) is None


def test_a_copy_is_marked_in_one_write_with_its_version() -> None:
    owners = [
        {"apiVersion": "v1", "kind": "Namespace", "name": "kb-1", "uid": "n-1"},
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "kb-1", "uid": "n-2"},
    ]
    patch = MARKS.copy_patch(changed_object(), copy(ownerReferences=owners))
    assert patch is not None
    metadata = patch["metadata"]
    assert [owner["uid"] for owner in metadata.pop("ownerReferences")] == ["n-2"]
    assert metadata == {
        "uid": "p-1",
        "resourceVersion": "9",
        "labels": {"core.kbind.io/managed": "true"},
        "annotations": {
            "kube-bind.io/cluster-namespace": None,
            "kube-bind.io/consumer-namespace": None,
            "kube-bind.io/consumer-uid": None,
            "core.kbind.io/consumer-cluster-uid": "cluster-1",
            "core.kbind.io/consumer-object-uid": "o-1",
        },
    }


@pytest.mark.parametrize(
    ("metadata", "finalizers", "annotations"),
    [
        pytest.param({}, ["x/other", "core.kbind.io/syncer"], {}, id="finalizer"),
        pytest.param(
            {"deletionTimestamp": "2026-01-01T00:00:00Z"}, ["x/other"], {}, id="being-deleted"
        ),
        pytest.param(
            {"finalizers": ["kubebind.io/syncer", "core.kbind.io/syncer"]},
            ["core.kbind.io/syncer"],
            {},
            id="both",
        ),
        pytest.param({"finalizers": []}, None, {}, id="without-a-copy"),
        pytest.param(
            {"annotations": {"kube-bind.io/deletion-policy": "Orphan"}},
            ["x/other", "core.kbind.io/syncer"],
            {"core.kbind.io/deletion-policy": "Orphan"},
            id="orphan",
        ),
    ],
)
def test_an_object_gets_the_marks_of_kbind_v2(
    metadata: JSON, finalizers: list[str] | None, annotations: JSON
) -> None:
    patch = object_patch(changed_object(**metadata))
    assert patch is not None
    assert patch["metadata"].get("finalizers") == finalizers
    former = {"kube-bind.io/provider-uid": None, "kube-bind.io/provider-namespace": None}
    expected = annotations if "annotations" in metadata else {**former, **annotations}
    assert patch["metadata"]["annotations"] == expected
    assert (patch["metadata"]["uid"], patch["metadata"]["resourceVersion"]) == ("o-1", "5")


def test_an_object_that_is_marked_is_not_written_again() -> None:
    done = {
        "finalizers": ["core.kbind.io/syncer"],
        "annotations": {
            "kube-bind.io/deletion-policy": "Orphan",
            "core.kbind.io/deletion-policy": "Orphan",
        },
    }
    assert object_patch(changed_object(**done)) is None


def entry(manager: str, operation: str, fields: JSON, **more: Any) -> JSON:
    return {
        "manager": manager,
        "operation": operation,
        "apiVersion": "acme.io/v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
        **more,
    }


UID: JSON = {"f:annotations": {"f:kube-bind.io/consumer-uid": {}}}
OURS: JSON = {"f:labels": {"f:x": {}}}


@pytest.mark.parametrize(
    ("entries", "spec", "others"),
    [
        pytest.param(
            [entry("kube-bind.io", "Update", {"f:spec": {"f:a": {}}, "f:data": {}})],
            {"f:a": {}},
            [],
            id="ours",
        ),
        pytest.param(
            [
                entry("konnector", "Update", {"f:metadata": UID, "f:spec": {"f:a": {}}}),
                entry("kube-bind.io", "Apply", {"f:spec": {"f:b": {}}}),
            ],
            {"f:a": {}, "f:b": {}},
            [],
            id="the-originals",
        ),
        pytest.param(
            [
                entry("kube-bind.io", "Update", {"f:spec": {"f:a": {}}}),
                entry("operator", "Update", {"f:spec": {"f:b": {}}}),
                entry("kube-bind.io", "Update", {"f:status": {}}, subresource="status"),
            ],
            {"f:a": {}},
            ["operator", "kube-bind.io"],
            id="others-stay",
        ),
        pytest.param(
            [
                entry("kube-bind.io", "Update", {"f:spec": {"f:a": {}}}),
                entry("kbind-konnector", "Apply", {"f:spec": {"f:b": {}}}),
            ],
            {"f:a": {}, "f:b": {}},
            [],
            id="applied-before",
        ),
        pytest.param([entry("operator", "Update", {"f:spec": {}})], None, [], id="none-of-ours"),
        pytest.param([], None, [], id="no-fields-tracked"),
    ],
)
def test_the_spec_changes_its_field_manager(
    entries: list[JSON], spec: JSON | None, others: list[str]
) -> None:
    managers = transferred({"metadata": {"managedFields": entries}}, "kbind-konnector", OURS)
    if spec is None:
        assert managers is None
        return
    assert managers is not None
    assert (managers[0]["manager"], managers[0]["operation"]) == ("kbind-konnector", "Apply")
    assert managers[0]["fieldsV1"] == {"f:metadata": OURS, "f:spec": spec}
    assert [one["manager"] for one in managers[1:]] == others


def test_rights_at_the_provider_are_those_of_the_roles() -> None:
    resource = crd_spec(crd()).readable()
    assert resource is not None
    whole = [str(right) for right in provider_rights([resource], [""])]
    assert "patch widgets.acme.io" in whole
    assert "create namespaces" in whole
    placed = [str(right) for right in provider_rights([resource], ["shop"])]
    assert "patch widgets.acme.io in namespace shop" in placed
    assert "create namespaces" not in placed
    roles = provider_roles("x", "system:serviceaccount:kb-1:c", [resource], ["shop"])
    kinds = [(role["kind"], role["metadata"].get("namespace", "")) for role in roles]
    assert ("Role", "shop") in kinds
    assert ("Role", "kbind") in kinds
    subjects = [role["subjects"] for role in roles if "subjects" in role]
    assert subjects[0] == [{"kind": "ServiceAccount", "namespace": "kb-1", "name": "c"}]
    named = provider_roles("x", "ada", [resource], [""])
    assert named[1]["subjects"][0]["name"] == "ada"
