"""Coverage of objects by bindings: which one decides about a namespace."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.api.meta import JSON, Key, object_from_dict
from fairlead.konnector.v2.bindings.coverage import (
    BindingSummary,
    CopiesRecord,
    coverage,
    is_admitted,
    places,
    record_of,
    recorded_owner,
    recorded_places,
    stands_back,
    summary,
)


def one(name: str, namespace: str = "", **more: Any) -> BindingSummary:
    known: dict[str, Any] = {"connection": "acme", "apis": ("a",)}
    return BindingSummary(Key(namespace, name), **{**known, **more})


def connection(**metadata: Any) -> JSON:
    return {
        "apiVersion": "core.kbind.io/v1alpha1",
        "kind": "Connection",
        "metadata": {"name": "acme", **metadata},
        "spec": {"kubeconfigSecretRef": {"namespace": "kbind", "name": "acme"}},
    }


@pytest.mark.parametrize(
    ("bindings", "policies"),
    [
        pytest.param([], (None, None, None), id="none"),
        pytest.param([one("all")], ("Fail", "Fail", "Fail"), id="cluster-binding"),
        pytest.param([one("own", "shop")], ("Fail", None, None), id="binding-of-one-namespace"),
        pytest.param(
            [one("b"), one("a", conflict_policy="Adopt")],
            ("Adopt", "Adopt", "Adopt"),
            id="first-by-name",
        ),
        pytest.param(
            [one("a", "shop", conflict_policy="Adopt"), one("z")],
            ("Fail", "Fail", "Fail"),
            id="cluster-binding-before-bindings",
        ),
        pytest.param(
            [one("a", "shop", deleting=True), one("b", "shop", conflict_policy="Adopt")],
            ("Adopt", None, None),
            id="deleted-covers-nothing",
        ),
        pytest.param(
            [one("all", connection="other"), one("own", "store")],
            (None, "Fail", None),
            id="F14-of-another-connection-covers-nothing",
        ),
    ],
)
def test_policy(bindings: list[BindingSummary], policies: tuple[str | None, ...]) -> None:
    covered = coverage("acme", bindings)
    assert tuple(covered.policy(name) for name in ("shop", "store", "")) == policies
    assert bool(covered) == any(policies)


@pytest.mark.parametrize(
    ("annotations", "admitted"),
    [
        pytest.param({}, True, id="without-annotation"),
        pytest.param({"fairlead.dev/binding-namespaces": "store, shop"}, True, id="listed"),
        pytest.param({"fairlead.dev/binding-namespaces": "store"}, False, id="not-listed"),
        pytest.param({"fairlead.dev/binding-namespaces": ""}, False, id="none"),
    ],
)
def test_f3_a_connection_admits_bindings(annotations: JSON, *, admitted: bool) -> None:
    there = object_from_dict(connection(annotations=annotations))
    assert is_admitted(one("own", "shop"), there) == admitted
    assert is_admitted(one("all"), there)
    assert bool(coverage("acme", [one("own", "shop")], there)) == admitted


@pytest.mark.parametrize(
    ("status", "back"),
    [("True", True), ("False", False)],
)
def test_another_konnector_is_left_alone(status: str, *, back: bool) -> None:
    conditions = [{"type": "AnotherKonnector", "status": status}]
    body = {**connection(), "status": {"conditions": conditions}}
    assert stands_back(object_from_dict(body)) == back
    assert not stands_back(None)


def test_summary_has_each_api_once() -> None:
    spec = {
        "connectionRef": {"name": "acme"},
        "apis": [{"name": "b"}, {"name": "a"}, {"name": "b"}],
    }
    body = {
        "apiVersion": "core.kbind.io/v1alpha1",
        "kind": "Binding",
        "metadata": {"name": "own", "namespace": "shop"},
    }
    assert summary(object_from_dict({**body, "spec": spec})) == one("own", "shop", apis=("b", "a"))
    assert summary(object_from_dict(body)) is None


@pytest.mark.parametrize(
    ("bindings", "former", "namespaces"),
    [
        pytest.param(
            [one("own", "shop"), one("own", "store")], set(), {"shop", "store"}, id="own"
        ),
        pytest.param([one("own", "shop"), one("all")], set(), {""}, id="cluster-binding"),
        pytest.param([one("own", "shop", deleting=True)], set(), {"shop"}, id="copies-have-to-go"),
        pytest.param([one("own", "shop")], {"store"}, {"shop", "store"}, id="copies-elsewhere"),
        pytest.param([one("own", "shop")], {""}, {""}, id="copies-anywhere"),
        pytest.param(
            [one("own", "shop"), one("all", apis=("b",))],
            set(),
            {"shop"},
            id="cluster-binding-of-another-api",
        ),
        pytest.param([one("own", "shop", apis=("b",))], set(), set(), id="api-taken-out"),
        pytest.param(
            [one("own", "shop"), one("all", connection="other")],
            set(),
            {"shop"},
            id="of-another-connection",
        ),
    ],
)
def test_places(bindings: list[BindingSummary], former: set[str], namespaces: set[str]) -> None:
    assert places("a", "acme", bindings, frozenset(former)) == namespaces


@pytest.mark.parametrize(
    ("status", "recorded"),
    [
        pytest.param({}, {"b", "a", "z"}, id="never-reported"),
        pytest.param({"seen": 1}, {"b", "a", "z"}, id="changed-since"),
        pytest.param({"seen": 2}, {"b"}, id="as-listed"),
        pytest.param({"seen": 2, "bound": ["a"]}, {"b", "a"}, id="taken-out-with-copies-left"),
    ],
)
def test_what_a_status_tells_of_copies(status: JSON, recorded: set[str]) -> None:
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "AsExpected",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "observedGeneration": status.get("seen", 0),
    }
    body = {
        "apiVersion": "core.kbind.io/v1alpha1",
        "kind": "Binding",
        "metadata": {"name": "own", "namespace": "shop", "generation": 2},
        "spec": {"connectionRef": {"name": "acme"}, "apis": [{"name": "b"}]},
        "status": {
            "conditions": [ready] if "seen" in status else [],
            "boundAPIs": [{"name": name} for name in status.get("bound", [])],
        },
    }
    known = record_of(object_from_dict(body))
    assert known is not None
    assert {api for api in "baz" if recorded_places(api, [known])} == recorded
    assert recorded_places("b", [known]) == {"shop"}


def record(name: str, connection: str, *bound: str) -> CopiesRecord:
    return CopiesRecord(Key("", name), connection, frozenset(bound), frozenset(bound))


@pytest.mark.parametrize(
    ("records", "owner"),
    [
        pytest.param([], "", id="none"),
        pytest.param([record("all", "north")], "", id="not-bound"),
        pytest.param([record("all", "north", "a")], "north", id="bound"),
        pytest.param(
            [record("aaa", "south", "b"), record("all", "north", "a")], "north", id="not-the-first"
        ),
        pytest.param(
            [record("more", "south", "a"), record("all", "north", "a")], "north", id="by-name"
        ),
    ],
)
def test_where_objects_went_by_the_records(records: list[CopiesRecord], owner: str) -> None:
    assert recorded_owner("a", records) == owner
