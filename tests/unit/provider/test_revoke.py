from __future__ import annotations

from typing import Any

import pytest

from fairlead.api.meta import JSON, Key, Object, object_from_dict
from fairlead.api.resource import CLUSTERROLES, ROLES
from fairlead.provider.commands.consumers import UnknownConsumerError, choose
from fairlead.provider.commands.revoke import belonging
from fairlead.provider.commands.revoke.inventory import Inventory


NS = "kube-bind-1"
IDENTITY = "backend.kube-bind.io/identity"
OWNER = "kube-bind.io/api-service-namespace"
COPY = "kube-bind.io/cluster-namespace"


def obj(name: str, kind: str = "Namespace", **parts: Any) -> Object:
    metadata = {"name": name, **parts.pop("metadata", {})}
    return object_from_dict({"apiVersion": "v1", "kind": kind, "metadata": metadata, **parts})


def annotated(name: str, **annotations: str) -> Object:
    known = {"identity": IDENTITY, "owner": OWNER, "copy": COPY}
    given = {known[key]: value for key, value in annotations.items()}
    return obj(name, metadata={"annotations": given})


SHOP, ZOO = annotated("kube-bind-1", identity="shop"), annotated("kube-bind-2", identity="zoo")


@pytest.mark.parametrize("name", ["shop", "kube-bind-1"])
def test_a_consumer_is_found_by_identity_and_by_namespace(name: str) -> None:
    assert choose([annotated("other"), ZOO, SHOP], name) is SHOP


@pytest.mark.parametrize(
    ("namespaces", "name", "message"),
    [
        pytest.param(
            [SHOP, ZOO], "bar", "consumer bar does not exist; there are: shop, zoo", id="unknown"
        ),
        pytest.param([SHOP, ZOO], "Shop", r"did you mean shop\?", id="nearly"),
        pytest.param([annotated("shop")], "shop", "there are none", id="no consumer's namespace"),
        pytest.param(
            [SHOP, annotated("shop", identity="other")],
            "shop",
            "give the cluster namespace, one of kube-bind-1, shop",
            id="one's identity is another's namespace",
        ),
    ],
)
def test_a_name_that_means_nobody_is_refused(
    namespaces: list[Object], name: str, message: str
) -> None:
    with pytest.raises(UnknownConsumerError, match=message):
        choose(namespaces, name)


@pytest.mark.parametrize(
    ("owner", "ours"),
    [
        pytest.param(f"{NS}/shop", True, id="ours"),
        pytest.param(f"{NS}1/shop", False, id="another's that begins alike"),
        pytest.param(f"{NS}/", False, id="no name"),
        pytest.param(NS, False, id="no slash"),
        pytest.param("", False, id="nobody's"),
    ],
)
def test_provider_namespaces_are_those_whose_annotation_says_so(owner: str, ours: bool) -> None:
    one = annotated(f"{NS}-shop", owner=owner)
    assert belonging.provider_namespaces([one], NS) == ([one] if ours else [])


def binding(*subjects: tuple[str, str, str], **role: str) -> Object:
    ref = {"kind": "Role", "name": "kube-binder-resources-widgets", **role}
    listed = [dict(zip(("kind", "namespace", "name"), one, strict=True)) for one in subjects]
    return obj("b", "RoleBinding", metadata={"namespace": "n"}, roleRef=ref, subjects=listed)


BINDER = ("ServiceAccount", NS, "kube-binder")


@pytest.mark.parametrize(
    ("subjects", "named", "left"),
    [
        pytest.param([BINDER], True, None, id="the consumer alone"),
        pytest.param(
            [("ServiceAccount", "kube-bind-2", "kube-binder")], False, 1, id="another consumer"
        ),
        pytest.param([("ServiceAccount", NS, "default")], False, 1, id="another account"),
        pytest.param([("User", NS, "kube-binder")], False, 1, id="no account"),
        pytest.param([BINDER, ("User", "", "ann")], True, 1, id="shared with somebody"),
        pytest.param([], False, 0, id="nobody"),
    ],
)
def test_bindings_of_rights_lose_the_consumer_alone(
    subjects: list[tuple[str, str, str]], named: bool, left: int | None
) -> None:
    one = binding(*subjects)
    body = belonging.without_subject(one, NS)
    assert belonging.names(one, NS) is named
    assert (None if body is None else len(body["subjects"])) == left


def test_the_role_of_a_binding_is_where_the_binding_is_or_the_clusters() -> None:
    name = "kube-binder-resources-widgets"
    assert belonging.role_of(binding()) == (ROLES, Key("n", name))
    assert belonging.role_of(binding(kind="ClusterRole")) == (CLUSTERROLES, Key("", name))


@pytest.mark.parametrize(
    ("name", "label", "managed"),
    [
        pytest.param("kube-binder-claims-widgets", "fairlead-provider", True, id="ours"),
        pytest.param("kube-binder", "fairlead-provider", False, id="shared by all consumers"),
        pytest.param("kube-binder-claims-widgets", "helm", False, id="another program's"),
        pytest.param("view", "fairlead-provider", False, id="another name"),
    ],
)
def test_roles_go_when_they_were_made_for_the_consumer(
    name: str, label: str, managed: bool
) -> None:
    labels = {"app.kubernetes.io/managed-by": label}
    assert belonging.is_managed(obj(name, "Role", metadata={"labels": labels})) is managed


def copy(**metadata: Any) -> Object:
    annotations = {COPY: NS, "kube-bind.io/consumer-uid": "u", "own": "a"}
    return obj("c", "Widget", metadata={"annotations": annotations, **metadata}, spec={"a": 1})


@pytest.mark.parametrize(
    ("metadata", "kept"),
    [
        pytest.param({}, {}, id="bare"),
        pytest.param({"ownerReferences": [{"uid": "ns"}]}, {}, id="owned by the consumer"),
        pytest.param(
            {"ownerReferences": [{"uid": "ns"}, {"uid": "factory"}]},
            {"ownerReferences": [{"uid": "factory"}]},
            id="owned by another too",
        ),
        pytest.param(
            {"labels": {"kube-bind.io/owner": "consumer", "app": "x"}},
            {"labels": {"app": "x"}},
            id="claimed from the consumer",
        ),
        pytest.param(
            {"labels": {"kube-bind.io/owner": "provider"}},
            {"labels": {"kube-bind.io/owner": "provider"}},
            id="the provider's own",
        ),
        pytest.param({"finalizers": ["f"]}, {"finalizers": ["f"]}, id="finalizers of others"),
    ],
)
def test_a_copy_that_stays_is_nobodys(metadata: JSON, kept: JSON) -> None:
    owners = metadata.get("ownerReferences", [])
    full = [{"apiVersion": "v1", "kind": "K", "name": "n", **owner} for owner in owners]
    one = copy(**metadata | ({"ownerReferences": full} if full else {}))
    body = belonging.released(one, obj(NS, metadata={"uid": "ns"}))
    assert body["spec"] == {"a": 1}
    assert body["metadata"].pop("annotations") == {"kube-bind.io/consumer-uid": "u", "own": "a"}
    left = body["metadata"].get("ownerReferences", [])
    assert [owner["uid"] for owner in left] == [
        owner["uid"] for owner in kept.get("ownerReferences", [])
    ]
    for field in ("labels", "finalizers"):
        assert body["metadata"].get(field, {}) == kept.get(field, {})


@pytest.mark.parametrize(
    ("keep", "text"),
    [
        (False, "shop (ns) loses its access and 1 export; 7 objects and 2 namespaces are deleted"),
        (True, "shop (ns) loses its access and 1 export; 7 objects and 2 namespaces stay"),
    ],
)
def test_the_question_counts(keep: bool, text: str) -> None:
    assert Inventory("shop", "ns", 1, 2, 7).text(keep_data=keep).startswith(text)
