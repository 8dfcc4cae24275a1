from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.support.kubebind import NOW, NS, conditions, kube

from fairlead.api.kubebind import Isolation
from fairlead.api.meta import JSON, Key, Object, object_from_dict
from fairlead.provider.namespace.reconcile import Plan, State, owner_of, reconcile


KEY = Key(NS, "shop")
TARGET = f"{NS}-shop"


def service_namespace(namespace: str = "", *, deleting: bool = False) -> Object:
    status = {"namespace": namespace} if namespace else {}
    metadata: JSON = {"deletionTimestamp": NOW, "finalizers": ["x/y"]} if deleting else {}
    return kube("APIServiceNamespace", "shop", status=status, **metadata)


def namespace(
    name: str = TARGET, owner: str | None = f"{NS}/shop", *, deleting: bool = False
) -> Object:
    metadata: JSON = {"name": name}
    if owner is not None:
        metadata["annotations"] = {"kube-bind.io/api-service-namespace": owner}
    if deleting:
        metadata["deletionTimestamp"] = NOW
    return object_from_dict({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})


def plan(
    stored: Object | None,
    *there: Object,
    isolation: Isolation = "Prefixed",
    ungranted: Sequence[str] = (),
) -> Plan:
    by_name = {item.meta.name: item for item in there}
    owned = [item for item in there if owner_of(item) == KEY]
    return reconcile(State(KEY, stored, owned, by_name.get, ungranted), isolation, now=NOW)


def outcome(result: Plan) -> tuple[str, str]:
    """The namespace that is announced, and the reason why it is not."""
    assert result.status is not None
    status = result.status["status"]
    return status.get("namespace", ""), conditions(result.status)["NamespaceReady"].get(
        "reason", ""
    )


@pytest.mark.parametrize(
    ("isolation", "name"),
    [("Prefixed", TARGET), ("Namespaced", TARGET), ("None", "shop")],
)
def test_a_missing_namespace_is_made_under_the_name_of_its_isolation(
    isolation: Isolation, name: str
) -> None:
    result = plan(service_namespace(), isolation=isolation)
    assert result.create == {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": name,
            "annotations": {"kube-bind.io/api-service-namespace": f"{NS}/shop"},
        },
    }
    assert outcome(result) == ("", "NamespacePending")


@pytest.mark.parametrize(
    ("stored", "there", "ungranted", "expected"),
    [
        pytest.param(service_namespace(), namespace(), [], (TARGET, ""), id="ours"),
        pytest.param(
            service_namespace(),
            namespace(),
            ["widgets"],
            ("", "PermissionsPending"),
            id="ours, rights missing",
        ),
        pytest.param(
            service_namespace(TARGET),
            namespace(),
            ["widgets"],
            (TARGET, ""),
            id="announced stays announced",
        ),
        pytest.param(
            service_namespace(),
            namespace(owner=None),
            [],
            ("", "ForeignNamespace"),
            id="without annotation",
        ),
        pytest.param(
            service_namespace(),
            namespace(owner="other/shop"),
            [],
            ("", "ForeignNamespace"),
            id="another consumer's",
        ),
        pytest.param(
            service_namespace(TARGET),
            namespace(owner="other/shop"),
            [],
            ("", "ForeignNamespace"),
            id="no longer ours",
        ),
        pytest.param(
            service_namespace("kube-system"),
            namespace("kube-system", owner=None),
            [],
            ("", "ForeignNamespace"),
            id="a status that points elsewhere",
        ),
        pytest.param(
            service_namespace(TARGET),
            namespace(deleting=True),
            [],
            ("", "NamespaceTerminating"),
            id="going",
        ),
        pytest.param(
            service_namespace(),
            namespace("handed-over"),
            [],
            ("handed-over", ""),
            id="ours under another name",
        ),
    ],
)
def test_a_namespace_is_announced_only_when_it_is_ours_and_usable(
    stored: Object, there: Object, ungranted: list[str], expected: tuple[str, str]
) -> None:
    result = plan(stored, there, ungranted=ungranted)
    assert result.create is None
    assert result.delete == []
    assert outcome(result) == expected


def test_a_lost_namespace_is_made_again_under_the_name_that_was_announced() -> None:
    result = plan(service_namespace("kept"))
    assert result.create is not None
    assert result.create["metadata"]["name"] == "kept"
    assert outcome(result)[0] == "kept"


def test_a_name_that_no_namespace_can_have_is_told() -> None:
    key = Key(NS, "a.b")
    stored = kube("APIServiceNamespace", "a.b", status={})
    result = reconcile(State(key, stored, [], lambda _: None, ()), "Prefixed", now=NOW)
    assert result.create is None
    assert outcome(result) == ("", "InvalidNamespaceName")


def test_a_long_name_is_cut_to_what_a_namespace_may_have() -> None:
    long = "a" * 63
    stored = kube("APIServiceNamespace", long, status={})
    result = reconcile(State(Key(NS, long), stored, [], lambda _: None, ()), "Prefixed", now=NOW)
    assert result.create is not None
    assert len(result.create["metadata"]["name"]) <= 63


def test_only_what_belongs_to_the_deleted_one_is_deleted() -> None:
    ours, foreign = namespace(), namespace("foreign", owner="other/shop")
    assert plan(None, ours, foreign) == Plan(delete=[ours])
    assert plan(None, namespace(owner=None)) == Plan()
    assert plan(None, namespace(deleting=True)) == Plan()


def test_one_that_is_going_is_left_alone() -> None:
    assert plan(service_namespace(deleting=True), namespace()) == Plan()


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (None, None),
        ("", None),
        ("no-slash", None),
        ("/shop", None),
        (f"{NS}/", None),
        (f"{NS}/shop", KEY),
    ],
)
def test_the_annotation_names_the_owner(annotation: str | None, expected: Key | None) -> None:
    assert owner_of(namespace(owner=annotation)) == expected
