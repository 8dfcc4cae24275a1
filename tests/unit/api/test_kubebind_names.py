from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.kubebind import (
    bindable,
    cluster_namespace,
    identity_hash,
    resource_name,
    service_namespace,
    spec_hash,
)


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        ("example.org", True),
        ("access.k8s.delta10.nl", True),
        ("notk8s.io", True),
        ("", False),
        ("apps", False),
        ("rbac.authorization.k8s.io", False),
        ("k8s.io", False),
        ("storage.k8s.io", False),
        ("metrics.k8s.io", False),
        ("gateway.networking.k8s.io", True),
        ("snapshot.storage.k8s.io", True),
        ("node.kubernetes.io", False),
        ("kube-bind.io", False),
    ],
)
def test_whose_kinds_can_be_bound(group: str, expected: bool) -> None:
    assert bindable(group) is expected


@pytest.mark.parametrize(
    ("identity", "expected"),
    [("test-id-123", "37p3oxx6sh4fd"), ("test-id-456", "2wikse9fhn0m5")],
)
def test_identity_becomes_the_same_hash_as_in_kube_bind(identity: str, expected: str) -> None:
    assert identity_hash(identity) == expected
    assert cluster_namespace(identity, "kube-bind-") == f"kube-bind-{expected}"


def test_leading_zero_bytes_of_an_identity_become_leading_zeros(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Digest:
        @staticmethod
        def digest() -> bytes:
            return b"\0\0" + bytes([0, 0, 0, 0, 0, 35]) + b"rest"

    monkeypatch.setattr("hashlib.sha224", lambda data: Digest)
    assert identity_hash("any") == "0000000z"


@pytest.mark.parametrize(
    ("resource", "group", "expected"),
    [
        pytest.param("widgets", "example.org", "widgets.example.org", id="grouped"),
        pytest.param("secrets", "", "secrets.core", id="core"),
    ],
)
def test_resource_name(resource: str, group: str, expected: str) -> None:
    assert resource_name(resource, group) == expected


def test_service_namespace_joins_both_names() -> None:
    assert service_namespace("kube-bind-abc", "shop") == "kube-bind-abc-shop"


def test_long_service_namespaces_fit_and_stay_apart() -> None:
    first = service_namespace("kube-bind-37p3oxx6sh4fd", "a" * 62 + "x")
    second = service_namespace("kube-bind-37p3oxx6sh4fd", "a" * 62 + "y")
    assert first != second
    assert {len(first), len(second)} <= set(range(50, 64))


def test_a_cut_service_namespace_is_a_valid_label() -> None:
    name = service_namespace("kube-bind-37p3oxx6sh4fd", "b" * 28 + "-" * 5 + "b" * 30)
    assert "--" not in name[50:]
    assert len(name) <= 63


def test_spec_hash_ignores_the_order_of_keys_and_sees_every_value() -> None:
    assert spec_hash({"a": 1, "b": 2}) == spec_hash({"b": 2, "a": 1})
    assert spec_hash({"a": 1}) != spec_hash({"a": 2})


LABELS = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)


@given(cluster=LABELS.filter(lambda name: len(name) < 40), name=LABELS)
def test_every_service_namespace_is_a_valid_name(cluster: str, name: str) -> None:
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", service_namespace(cluster, name))
