from __future__ import annotations

import re
from typing import Any

import pytest
from tests.unit.sandbox.auth.conftest import RBAC, Plane, binding, rule

from fairlead.api import resource as names
from fairlead.api.meta import JSON
from fairlead_sandbox.errors import StatusError
from fairlead_sandbox.objects.core import User


BOB = User("bob", ("devs", "system:authenticated"))
HEAD = (
    'user "bob" (groups=["devs" "system:authenticated"]) is attempting to grant RBAC permissions'
)


@pytest.fixture
async def bobs(plane: Plane) -> Plane:
    """Bob may read pods."""
    plane.role("bobs", rule("get", "pods"))
    plane.bind("bobs", "User:bob")
    return plane


def role(*rules: JSON, **more: Any) -> JSON:
    return {"metadata": {"name": "r"}, "rules": list(rules), **more}


async def test_a_role_within_ones_own(bobs: Plane) -> None:
    bobs.create(names.ROLES, role(rule("get", "pods")), "a", BOB)


async def test_a_role_beyond_ones_own(bobs: Plane) -> None:
    with pytest.raises(StatusError) as caught:
        bobs.create(names.ROLES, role(rule("get", "secrets")), "a", BOB)
    assert caught.value.code == 403
    assert caught.value.message == (
        f'roles.{RBAC} "r" is forbidden: {HEAD} not currently held:\n'
        '{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}'
    )


async def test_a_right_in_a_namespace_is_none_elsewhere(bobs: Plane) -> None:
    bobs.role("more", rule("get", "secrets"), namespace="a")
    bobs.bind("more", "User:bob", namespace="a", kind="Role")
    bobs.create(names.ROLES, role(rule("get", "secrets")), "a", BOB)
    for resource, namespace in ((names.ROLES, "b"), (names.CLUSTERROLES, "")):
        with pytest.raises(StatusError, match="not currently held"):
            bobs.create(resource, role(rule("get", "secrets")), namespace, BOB)


async def test_what_stays_the_same_is_not_asked_about(bobs: Plane) -> None:
    bobs.role("r", rule("get", "secrets"))
    labels = {"metadata": {"name": "r", "labels": {"a": "b"}}}
    bobs.update(names.CLUSTERROLES, "r", labels, user=BOB)
    with pytest.raises(StatusError, match="not currently held"):
        bobs.update(names.CLUSTERROLES, "r", {"rules": [rule("list", "secrets")]}, user=BOB)


async def test_aggregation_takes_an_administrator(bobs: Plane) -> None:
    aggregation = {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}
    body = role(aggregationRule=aggregation)
    text = "must have cluster-admin privileges to use the aggregationRule"
    with pytest.raises(StatusError, match=text):
        bobs.create(names.CLUSTERROLES, body, user=BOB)
    bobs.bind("cluster-admin", "User:carol")
    bobs.create(names.CLUSTERROLES, body, user=User("carol"))


async def test_escalate_lifts_the_rule(bobs: Plane) -> None:
    bobs.role("lift", rule("escalate", "roles", RBAC, resourceNames=["r"]))
    bobs.bind("lift", "User:bob")
    bobs.create(names.ROLES, role(rule("*", "*", "*")), "a", BOB)
    other = role(rule("*", "*")) | {"metadata": {"name": "other"}}
    with pytest.raises(StatusError, match="not currently held"):
        bobs.create(names.ROLES, other, "a", BOB)


async def test_masters_and_the_control_plane_are_free(bobs: Plane) -> None:
    bobs.create(names.ROLES, role(rule("*", "*")), "a", User("x", ("system:masters",)))
    bobs.create(names.ROLES, role(rule("*", "*")), "b")


@pytest.mark.parametrize(
    ("kind", "target", "text"),
    [
        pytest.param("Role", "within", "", id="within"),
        pytest.param("Role", "beyond", "not currently held", id="beyond"),
        pytest.param("ClusterRole", "view", "not currently held", id="cluster role"),
        pytest.param("Role", "nope", f'rolebindings.{RBAC} "nope" not found', id="missing"),
        pytest.param(
            "ClusterRole", "nope", f'rolebindings.{RBAC} "nope" not found', id="missing cluster"
        ),
    ],
)
async def test_bindings(bobs: Plane, kind: str, target: str, text: str) -> None:
    bobs.role("within", rule("get", "pods"), namespace="a")
    bobs.role("beyond", rule("get", "secrets"), namespace="a")
    body = binding("b", kind, target, "User:bob")
    if not text:
        bobs.create(names.ROLEBINDINGS, body, "a", BOB)
        return
    with pytest.raises(StatusError, match=re.escape(text)):
        bobs.create(names.ROLEBINDINGS, body, "a", BOB)


async def test_bind_lifts_the_rule(bobs: Plane) -> None:
    bobs.role("lift", rule("bind", "clusterroles", RBAC, resourceNames=["view"]))
    bobs.bind("lift", "User:bob")
    bobs.create(names.ROLEBINDINGS, binding("b", "ClusterRole", "view", "User:x"), "a", BOB)
    body = binding("c", "ClusterRole", "edit", "User:x")
    with pytest.raises(StatusError, match="not currently held"):
        bobs.create(names.ROLEBINDINGS, body, "a", BOB)


async def test_a_binding_may_be_relabelled_but_not_widened(bobs: Plane) -> None:
    bobs.create(names.ROLEBINDINGS, binding("b", "ClusterRole", "view", "User:x"), "a")
    labels = {"metadata": {"name": "b", "namespace": "a", "labels": {"a": "b"}}}
    bobs.update(names.ROLEBINDINGS, "b", labels, "a", BOB)
    wider = {"subjects": [{"kind": "User", "name": "bob"}]}
    with pytest.raises(StatusError, match="not currently held"):
        bobs.update(names.ROLEBINDINGS, "b", wider, "a", BOB)


async def test_missing_roles_are_told(bobs: Plane) -> None:
    bobs.bind("nope", "User:bob", namespace="a")
    with pytest.raises(StatusError, match=re.escape("; resolution errors: [clusterrole.")):
        bobs.create(names.ROLES, role(rule("get", "secrets")), "a", BOB)
