from __future__ import annotations

import pytest
from tests.unit.sandbox.auth.conftest import Plane, rule, settle

from fairlead.api import resource as names
from fairlead_sandbox.auth.bootstrap import cluster_role_bindings, cluster_roles
from fairlead_sandbox.objects.core import User
from fairlead_sandbox.requests.info import parse_request


BOB = User("bob", ("devs", "system:authenticated"))
ROBOT = User("system:serviceaccount:a:robot", ("system:serviceaccounts",))


async def test_rights_come_and_go_with_roles_and_bindings(plane: Plane) -> None:
    assert not plane.may(BOB, "get", "pods")
    plane.bind("reader", "User:bob")
    assert not plane.may(BOB, "get", "pods")
    plane.role("reader", rule("get", "pods"))
    assert plane.may(BOB, "get", "pods")
    plane.update(names.CLUSTERROLES, "reader", {"rules": [rule("get", "secrets")]})
    assert not plane.may(BOB, "get", "pods")
    assert plane.may(BOB, "get", "secrets")
    plane.update(names.CLUSTERROLEBINDINGS, "b-reader", {"subjects": []})
    assert not plane.may(BOB, "get", "secrets")
    group = {"kind": "Group", "name": "devs"}
    plane.update(names.CLUSTERROLEBINDINGS, "b-reader", {"subjects": [group]})
    assert plane.may(BOB, "get", "secrets")
    plane.remove(names.CLUSTERROLEBINDINGS, "b-reader")
    assert not plane.may(BOB, "get", "secrets")


@pytest.mark.parametrize(
    ("subject", "user"),
    [
        pytest.param("User:bob", BOB, id="user"),
        pytest.param("Group:devs", BOB, id="group"),
        pytest.param("ServiceAccount:a/robot", ROBOT, id="account"),
        pytest.param("ServiceAccount:robot", ROBOT, id="account of the binding's namespace"),
    ],
)
async def test_subjects(plane: Plane, subject: str, user: User) -> None:
    plane.role("reader", rule("get", "pods"), namespace="a")
    plane.bind("reader", subject, namespace="a", kind="Role")
    assert plane.may(user, "get", "pods", namespace="a")
    assert not plane.may(user, "get", "pods", namespace="b")
    assert not plane.may(user, "get", "pods")
    assert not plane.may(User("eve"), "get", "pods", namespace="a")


async def test_names(plane: Plane) -> None:
    plane.role("one", rule("get list", "pods", resourceNames=["x"]))
    plane.bind("one", "User:bob")
    assert plane.may(BOB, "get", "pods", name="x")
    assert not plane.may(BOB, "get", "pods", name="y")
    assert not plane.may(BOB, "list", "pods")
    assert plane.may(BOB, "list", "pods", selected_name="x")


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ({"fieldSelector": "metadata.name=x"}, "x"),
        ({"fieldSelector": "metadata.name==x,a=b"}, "x"),
        ({"fieldSelector": "metadata.name!=x"}, ""),
        ({"fieldSelector": "metadata.namespace=x"}, ""),
        ({}, ""),
    ],
)
def test_the_name_in_a_field_selector(query: dict[str, str], name: str) -> None:
    info = parse_request("GET", "/api/v1/namespaces/a/pods", query)
    assert info.selected_name == name
    assert parse_request("GET", "/api/v1/namespaces/a/pods/y", query).selected_name == ""


async def test_masters_may_everything(plane: Plane) -> None:
    assert plane.may(User("x", ("system:masters",)), "escalate", "roles")


async def test_reasons(plane: Plane) -> None:
    plane.role("reader", rule("get", "pods"))
    plane.bind("reader", "User:bob")
    plane.bind("reader", "ServiceAccount:robot", namespace="a")
    plane.bind("gone", "User:bob", namespace="a")
    info = parse_request("GET", "/api/v1/namespaces/a/pods/x", {})
    assert plane.guard.authorize(BOB, info).reason == (
        'RBAC: allowed by ClusterRoleBinding "b-reader" of ClusterRole "reader" to User "bob"'
    )
    assert plane.guard.authorize(ROBOT, info).reason == (
        'RBAC: allowed by RoleBinding "b-reader/a" of ClusterRole "reader" '
        'to ServiceAccount "robot/a"'
    )
    info = parse_request("GET", "/api/v1/namespaces/a/secrets/x", {})
    assert plane.guard.authorize(BOB, info).reason == (
        'RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found'
    )


async def test_paths(plane: Plane) -> None:
    for path, allowed in (("/version", True), ("/metrics", False), ("/api", False)):
        anonymous = User("system:anonymous", ("system:unauthenticated",))
        assert plane.guard.authorize(anonymous, parse_request("GET", path, {})).allowed is allowed
    assert plane.guard.authorize(BOB, parse_request("GET", "/apis/apps", {})).allowed


async def test_aggregation(plane: Plane) -> None:
    selector = {"matchLabels": {"into": "whole"}}
    body = {
        "metadata": {"name": "whole"},
        "aggregationRule": {"clusterRoleSelectors": [selector]},
        "rules": [rule("get", "overwritten")],
    }
    plane.create(names.CLUSTERROLES, body)
    plane.bind("whole", "User:bob")
    plane.role("part", rule("get", "pods"), labels={"into": "whole"})
    await settle()
    assert plane.may(BOB, "get", "pods")
    assert not plane.may(BOB, "get", "overwritten")
    plane.role("same", rule("get", "pods"), labels={"into": "whole"})
    await settle()
    record = plane.get(names.CLUSTERROLES, "whole")
    assert record is not None
    assert record.to_dict()["rules"] == [rule("get", "pods")]
    plane.remove(names.CLUSTERROLES, "part")
    plane.remove(names.CLUSTERROLES, "same")
    await settle()
    assert not plane.may(BOB, "get", "pods")


@pytest.mark.parametrize(
    ("role", "verb", "resource", "group", "allowed"),
    [
        ("view", "list", "pods", "", True),
        ("view", "get", "secrets", "", False),
        ("edit", "get", "secrets", "", True),
        ("edit", "create", "deployments", "apps", True),
        ("edit", "create", "roles", "rbac.authorization.k8s.io", False),
        ("admin", "create", "roles", "rbac.authorization.k8s.io", True),
        ("admin", "list", "pods", "", True),
        ("admin", "get", "nodes", "", False),
        ("cluster-admin", "get", "nodes", "", True),
        ("system:auth-delegator", "create", "tokenreviews", "authentication.k8s.io", True),
    ],
)
async def test_the_usual_roles(
    plane: Plane, role: str, verb: str, resource: str, group: str, allowed: bool
) -> None:
    plane.bind(role, "User:x")
    assert plane.may(User("x"), verb, resource, group=group) is allowed


def test_bootstrap_names_are_those_of_kubernetes() -> None:
    roles = {body["metadata"]["name"] for body in cluster_roles()}
    for body in cluster_role_bindings():
        assert body["roleRef"]["name"] in roles
        assert body["metadata"]["labels"] == {"kubernetes.io/bootstrapping": "rbac-defaults"}


async def test_without_rbac_everybody_may(make_plane: object) -> None:
    assert callable(make_plane)
    open_plane: Plane = make_plane(rbac=False)
    assert open_plane.may(User("x"), "delete", "nodes")
    assert (await open_plane.ask({})).groups[0] == "system:masters"


async def test_roles_that_were_stored_before_are_known(plane: Plane) -> None:
    from fairlead_sandbox.auth.authorizer import Rbac
    from fairlead_sandbox.auth.index import RbacIndex
    from fairlead_sandbox.auth.rules import RequestAttributes

    plane.role("reader", rule("get", "pods"))
    plane.bind("reader", "User:bob")
    again = Rbac(RbacIndex(plane.core.store))
    assert again.decide(BOB, RequestAttributes("get", "", "pods", "a")).allowed
