"""Rights, marks and record of a consumer of kbind v2, as plans."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fairlead.api.kbind.names import LEASE_ACCOUNT_PREFIX
from fairlead.api.meta import JSON, Object, ObjectMeta, object_from_dict
from fairlead.konnector.manifests import NAME
from fairlead.konnector.options import DEFAULT_NAMESPACE
from fairlead.provider.v2.copies import KbindPlaces
from fairlead.provider.v2.invitation import KONNECTOR_ACCOUNT, KONNECTOR_NAMESPACE, file_of
from fairlead.provider.v2.reading import cluster_uids
from fairlead.provider.v2.record import (
    KbindInvitation,
    consumer_of,
    foreign,
    home_body,
    home_of,
    invitation_of,
    record_body,
    reserved,
    revocation_body,
)
from fairlead.provider.v2.rights import rights


HOME = home_of("shop")
API = "widgets.example.org"
INVITED = KbindInvitation(
    apis=(API,), namespaces=("shop",), connection="example.org", konnector_namespace="kube-bind"
)
UID = "core.kbind.io/consumer-cluster-uid"


def namespace(name: str, **metadata: Any) -> Object:
    body: JSON = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    body["metadata"] |= metadata
    return object_from_dict(body)


def granted(invitation: KbindInvitation) -> dict[tuple[str, str, str], JSON]:
    """The rights by kind, namespace and name."""
    return {
        (body["kind"], body["metadata"].get("namespace", ""), body["metadata"]["name"]): body
        for _, body in rights(HOME, invitation)
    }


def test_a_consumer_of_a_namespace_has_its_objects_there_and_reads_no_more_than_crds() -> None:
    plan = granted(INVITED)
    assert [(key, body.get("rules")) for key, body in plan.items()] == [
        (
            ("ClusterRole", "", "kbind-consumers"),
            [
                {
                    "apiGroups": [""],
                    "resources": ["namespaces"],
                    "verbs": ["get"],
                    "resourceNames": ["kube-system"],
                },
                {
                    "apiGroups": ["core.kcp.io"],
                    "resources": ["logicalclusters"],
                    "verbs": ["get"],
                    "resourceNames": ["cluster"],
                },
                {
                    "apiGroups": ["apiextensions.k8s.io"],
                    "resources": ["customresourcedefinitions"],
                    "verbs": ["get", "list", "watch"],
                },
            ],
        ),
        (
            ("Role", "kbind", "kbind-consumers"),
            [
                {
                    "apiGroups": ["coordination.k8s.io"],
                    "resources": ["leases"],
                    "verbs": ["get", "create", "update"],
                }
            ],
        ),
        (("ClusterRoleBinding", "", f"kbind-consumers.{HOME}"), None),
        (("RoleBinding", "kbind", f"kbind-consumers.{HOME}"), None),
        (
            ("Role", "shop", "kube-binder-kbind"),
            [
                {
                    "apiGroups": ["example.org"],
                    "resources": ["widgets"],
                    "verbs": ["get", "list", "watch", "create", "patch", "delete"],
                }
            ],
        ),
        (("RoleBinding", "shop", "kube-binder-kbind"), None),
    ]
    account = {"kind": "ServiceAccount", "name": "kube-binder", "namespace": HOME}
    bindings = [body for body in plan.values() if "subjects" in body]
    assert all(body["subjects"] == [account] for body in bindings)


@pytest.mark.parametrize(
    ("related", "verbs"),
    [
        ("secrets/FromProvider", ["get", "list", "watch"]),
        ("secrets/FromConsumer", ["get", "list", "watch", "create", "patch", "delete"]),
    ],
)
def test_related_resources_are_in_the_role_of_a_namespace(related: str, verbs: list[str]) -> None:
    plan = granted(msgspec.structs.replace(INVITED, related=(related,)))
    rule = plan["Role", "shop", "kube-binder-kbind"]["rules"][-1]
    assert rule == {"apiGroups": [""], "resources": ["secrets"], "verbs": verbs}


def test_a_whole_cluster_is_a_cluster_role_of_its_own_and_no_role() -> None:
    plan = granted(msgspec.structs.replace(INVITED, namespaces=(), whole_cluster=True))
    name = f"kube-binder-kbind.{HOME}"
    assert plan["ClusterRole", "", name]["rules"][-1] == {
        "apiGroups": [""],
        "resources": ["namespaces"],
        "verbs": ["create"],
    }
    assert plan["ClusterRoleBinding", "", name]["roleRef"]["name"] == name
    assert [key for key in plan if key[1] not in {"", "kbind"}] == []


def test_the_file_has_the_konnectors_rights_and_no_namespace() -> None:
    """A namespace in it would go, with all that it has, when the file is deleted."""
    assert [one["kind"] for one in file_of(INVITED, b"kubeconfig")] == [
        *("Secret", "Connection", "Role", "RoleBinding", "ClusterRole", "Binding")
    ]
    assert (KONNECTOR_ACCOUNT, KONNECTOR_NAMESPACE) == (NAME, DEFAULT_NAMESPACE)


def test_a_record_is_read_as_it_was_written_and_is_extended() -> None:
    record = object_from_dict(record_body(HOME, INVITED))
    assert invitation_of(record) == INVITED
    assert invitation_of(None) == KbindInvitation()
    more = KbindInvitation(apis=("gadgets.example.org", API), connection="other")
    extended = INVITED.extended(more)
    assert (extended.apis, extended.connection) == ((API, "gadgets.example.org"), "example.org")
    marked = invitation_of(object_from_dict(revocation_body(HOME, record)))
    assert marked == msgspec.structs.replace(INVITED, revoked=True)


@pytest.mark.parametrize("text", ["", "{", '{"apis": 1}'])
def test_a_record_that_was_edited_is_no_invitation_and_can_be_revoked(text: str) -> None:
    body = {**record_body(HOME, INVITED), "data": {"invitation.json": text}}
    record = object_from_dict(body)
    with pytest.raises(msgspec.ValidationError):
        invitation_of(record)
    assert invitation_of(object_from_dict(revocation_body(HOME, record))).revoked


def test_a_home_is_one_by_its_own_label_alone() -> None:
    assert consumer_of(object_from_dict(home_body("shop"))) == "shop"
    label = {"fairlead.dev/kbind-consumer": HOME}
    named = {"fairlead.dev/kbind-consumer-name": "shop"}
    assert consumer_of(namespace("shop", labels=label, annotations=named)) == ""


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        ({}, ""),
        ({"labels": {"fairlead.dev/kbind-consumer": HOME}}, ""),
        ({"labels": {"fairlead.dev/kbind-consumer": "other"}}, "home other"),
        ({"labels": {UID: "1"}}, ""),
        ({"labels": {UID: "2"}}, "konnector of cluster 2"),
        ({"annotations": {UID: "2"}}, "konnector of cluster 2"),
        ({"annotations": {"backend.kube-bind.io/identity": "zoo"}}, "v1alpha2"),
    ],
)
def test_marks_say_whose_a_namespace_is(metadata: dict[str, Any], reason: str) -> None:
    found = foreign(namespace("shop", **metadata), HOME, {"1"})
    assert (reason in found) if reason else found == ""


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("shop", ""),
        ("kube-anything", "cluster itself"),
        ("default", "cluster itself"),
        ("kbind", "Leases"),
        (HOME, "accounts of consumers"),
        ("konnectors", "konnector's own"),
        ("fairlead-provider", "controllers"),
    ],
)
def test_some_names_are_reserved(name: str, reason: str) -> None:
    found = reserved(name, konnector_namespace="konnectors")
    assert (reason in found) if reason else found == ""


@pytest.mark.parametrize(
    ("places", "namespace", "uid", "is_copy"),
    [
        (KbindPlaces(frozenset({"shop"}), False, frozenset()), "shop", "9", True),
        (KbindPlaces(frozenset({"shop"}), False, frozenset({"1"})), "store", "1", False),
        (KbindPlaces(frozenset(), True, frozenset({"1"})), "store", "1", True),
        (KbindPlaces(frozenset(), True, frozenset({"1"})), "store", "2", False),
        (KbindPlaces(frozenset(), True, frozenset()), "store", "", False),
    ],
)
def test_copies_are_told_by_namespace_or_by_cluster(
    places: KbindPlaces, namespace: str, uid: str, *, is_copy: bool
) -> None:
    marks = {UID: uid, "core.kbind.io/consumer-object-uid": "o"}
    meta = ObjectMeta(name="a", namespace=namespace, annotations=marks)
    assert places.has(meta) is is_copy
    assert not places.has(ObjectMeta(name="a", namespace=namespace))


def test_a_lease_of_another_name_tells_no_cluster() -> None:
    """Its writer could know the uid of another's cluster no more than its name."""

    def lease(name: str) -> Object:
        annotations = {UID: "1", f"{LEASE_ACCOUNT_PREFIX}{HOME}": ""}
        metadata = {"name": name, "namespace": "kbind", "annotations": annotations}
        return object_from_dict(
            {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
        )

    assert cluster_uids([lease("consumer-1")]) == {"1"}
    assert cluster_uids([lease("consumer-2")]) == set()
