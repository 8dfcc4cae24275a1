from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.support.kubebind import NOW, NS, conditions, kube

from fairlead.api.kubebind import FINALIZER_NAMESPACE, Isolation
from fairlead.api.meta import JSON, Key, Object, object_from_dict
from fairlead.provider.controllers.namespace.reconcile import (
    NamespacePlan,
    NamespaceState,
    reconcile,
)
from fairlead.provider.namespaces import owner_of, usable
from fairlead.provider.options import ProviderOptions


KEY = Key(NS, "shop")
TARGET = f"{NS}-shop"


def service_namespace(
    namespace: str = "", *, name: str = "shop", finalizers: Sequence[str] = (FINALIZER_NAMESPACE,)
) -> Object:
    status = {"namespace": namespace} if namespace else {}
    return kube("APIServiceNamespace", name, status=status, finalizers=list(finalizers))


def namespace(
    name: str = TARGET,
    owner: str | None = f"{NS}/shop",
    *,
    deleting: bool = False,
    **annotations: str,
) -> Object:
    metadata: JSON = {"name": name, "annotations": dict(annotations)}
    if owner is not None:
        metadata["annotations"]["kube-bind.io/api-service-namespace"] = owner
    if deleting:
        metadata["deletionTimestamp"] = NOW
    return object_from_dict({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})


def plan(
    stored: Object,
    *there: Object,
    isolation: Isolation = "Prefixed",
    ungranted: Sequence[str] = (),
    full: bool = False,
) -> NamespacePlan:
    by_name = {item.meta.name: item for item in there}
    owned = [item for item in there if owner_of(item) == stored.key]
    state = NamespaceState(stored.key, stored, owned, by_name.get, ungranted, full)
    return reconcile(state, ProviderOptions(isolation=isolation), now=NOW)


def outcome(result: NamespacePlan) -> tuple[str, str]:
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
            ("", "ReservedNamespace"),
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
    assert not result.finalize
    assert outcome(result) == expected


def test_a_lost_namespace_is_made_again_under_the_name_that_was_announced() -> None:
    result = plan(service_namespace("kept"))
    assert result.create is not None
    assert result.create["metadata"]["name"] == "kept"
    assert outcome(result)[0] == "kept"


def test_a_name_that_no_namespace_can_have_is_told() -> None:
    result = plan(service_namespace(name="a.b", finalizers=()))
    assert result.create is None
    assert not result.finalize
    assert outcome(result) == ("", "InvalidNamespaceName")


def test_a_long_name_is_cut_to_what_a_namespace_may_have() -> None:
    result = plan(service_namespace(name="a" * 63))
    assert result.create is not None
    assert len(result.create["metadata"]["name"]) <= 63


@pytest.mark.parametrize(
    "there",
    [
        pytest.param([], id="to be made"),
        pytest.param([namespace()], id="ours"),
        pytest.param([namespace(deleting=True)], id="going"),
    ],
)
def test_no_namespace_is_used_before_the_finalizer_keeps_hold_of_it(there: list[Object]) -> None:
    assert plan(service_namespace(finalizers=["x/y"]), *there).finalize
    assert not plan(service_namespace(), *there).finalize


def test_a_namespace_that_is_not_ours_needs_no_finalizer() -> None:
    assert not plan(service_namespace(finalizers=()), namespace(owner=None)).finalize


IDENTITY = {"backend.kube-bind.io/identity": "someone"}
LEGACY = {"example-backend.kube-bind.io/identity": "someone"}


@pytest.mark.parametrize(
    ("name", "says"),
    [
        pytest.param("default", "the cluster itself", id="default"),
        pytest.param("kube-system", "the cluster itself", id="kube-system"),
        pytest.param("kube-anything", "begin with kube-", id="kube-*"),
        pytest.param("fairlead-provider", "the provider itself", id="the provider's own"),
        pytest.param("cluster-other", "begin with cluster-", id="one for a cluster namespace"),
        pytest.param(NS, "cluster namespace of a consumer", id="the consumer's own"),
    ],
)
@pytest.mark.parametrize("owner", ["absent", None, "shared", "ours"])
def test_reserved_names_are_refused_there_or_not(name: str, says: str, owner: str | None) -> None:
    there = [] if owner == "absent" else [namespace(name, owner)]
    if owner == "ours":
        there = [namespace(name, f"{NS}/{name}")]
    stored = service_namespace(name=name, finalizers=())
    state = NamespaceState(stored.key, stored, [], {one.meta.name: one for one in there}.get, ())
    options = ProviderOptions(isolation="None", namespace_prefix="cluster-")
    result = reconcile(state, options, now=NOW)
    assert result.create is None
    assert not result.finalize
    assert outcome(result) == ("", "ReservedNamespace")
    assert says in conditions(result.status)["NamespaceReady"]["message"]
    assert not any(usable(one, options) for one in there)


@pytest.mark.parametrize("annotations", [IDENTITY, LEGACY], ids=["identity", "legacy"])
def test_a_cluster_namespace_is_nobodys_even_when_it_says_so(annotations: JSON) -> None:
    there = namespace("team", f"{NS}/team", **annotations)
    result = plan(service_namespace(name="team"), there, isolation="None")
    assert outcome(result) == ("", "ReservedNamespace")
    assert not usable(there, ProviderOptions())


@pytest.mark.parametrize(
    ("stored", "there", "isolation"),
    [
        pytest.param(service_namespace(), None, "None", id="free name"),
        pytest.param(service_namespace(), None, "Prefixed", id="prefixed"),
        pytest.param(service_namespace(TARGET), namespace(), "None", id="prefixed before"),
        pytest.param(service_namespace(name="default"), None, "Prefixed", id="default, prefixed"),
        pytest.param(
            service_namespace(name="kube-system"), None, "Namespaced", id="kube-system, prefixed"
        ),
    ],
)
def test_other_names_may_be_had(
    stored: Object, there: Object | None, isolation: Isolation
) -> None:
    result = plan(stored, *([there] if there else []), isolation=isolation)
    assert outcome(result)[1] != "ReservedNamespace"
    assert there is None or usable(there, ProviderOptions(isolation=isolation))


@pytest.mark.parametrize("isolation", ["Prefixed", "Namespaced"])
@pytest.mark.parametrize("name", ["default", "kube-system", "fairlead-provider", "other", "x-y"])
def test_a_prefix_leads_into_no_namespace_of_another_name(name: str, isolation: Isolation) -> None:
    result = plan(service_namespace(name=name), isolation=isolation)
    assert result.create is not None
    assert result.create["metadata"]["name"] == f"{NS}-{name}"


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


@pytest.mark.parametrize(
    ("stored", "there", "expected", "waits"),
    [
        pytest.param(
            service_namespace(finalizers=()), [], ("", "NamespaceLimitReached"), True, id="new"
        ),
        pytest.param(
            service_namespace(TARGET), [], ("", "NamespaceLimitReached"), True, id="gone again"
        ),
        pytest.param(service_namespace(), [namespace()], (TARGET, ""), False, id="exists"),
        pytest.param(
            service_namespace(TARGET), [namespace()], (TARGET, ""), False, id="announced"
        ),
        pytest.param(
            service_namespace(),
            [namespace(owner=None)],
            ("", "ForeignNamespace"),
            False,
            id="another's, which room would not help",
        ),
    ],
)
def test_beyond_the_limit_no_namespace_is_made_and_those_that_exist_stay(
    stored: Object, there: list[Object], expected: tuple[str, str], waits: bool
) -> None:
    result = plan(stored, *there, full=True)
    assert outcome(result) == expected
    assert result.waits is waits
    assert result.create is None
    # Without a namespace there is nothing to wait for at its end.
    assert not result.finalize


def test_who_reached_the_limit_is_told_what_either_side_can_do() -> None:
    result = plan(service_namespace(), full=True)
    condition = conditions(result.status or {})["NamespaceReady"]
    assert condition["severity"] == "Error"
    for part in (
        TARGET,
        "(1000)",
        "in the consumer's cluster, delete",
        "--namespaces-per-consumer",
    ):
        assert part in condition["message"]
