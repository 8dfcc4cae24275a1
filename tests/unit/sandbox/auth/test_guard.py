from __future__ import annotations

import base64

import pytest
from tests.unit.sandbox.auth.conftest import Plane, rule

from fairlead.api import resource as names
from fairlead_sandbox.auth.tokens import ISSUER
from fairlead_sandbox.errors import StatusError
from fairlead_sandbox.objects.core import User


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture
async def robot(plane: Plane) -> dict[str, str]:
    """The headers of a ServiceAccount."""
    account = plane.create(names.SERVICEACCOUNTS, {"metadata": {"name": "robot"}}, "a")
    token, _ = plane.guard._tokens.issue(account, [ISSUER], 600, None)
    return bearer(token)


async def test_nobody_is_anonymous(plane: Plane) -> None:
    for headers in ({}, {"Authorization": "Basic eDp5"}):
        user = await plane.ask(headers)
        assert (user.name, user.groups) == ("system:anonymous", ("system:unauthenticated",))


async def test_bearers(plane: Plane, robot: dict[str, str]) -> None:
    assert (await plane.ask(robot)).name == "system:serviceaccount:a:robot"
    assert "system:masters" in (await plane.ask(bearer(plane.keys.admin_token))).groups
    for token in ("", "nonsense", robot["Authorization"][7:-3], "\u00e9"):
        with pytest.raises(StatusError) as caught:
            await plane.ask(bearer(token))
        assert (caught.value.code, caught.value.message) == (401, "Unauthorized")


async def test_the_administrators_credentials(plane: Plane) -> None:
    credentials = plane.guard.credentials()
    assert set(credentials) == {"client-certificate-data", "client-key-data"}
    assert b"BEGIN CERTIFICATE" in base64.b64decode(credentials["client-certificate-data"])
    assert plane.guard.credentials() is credentials


@pytest.mark.parametrize(
    ("headers", "name", "groups"),
    [
        pytest.param({"Impersonate-User": "bob"}, "bob", ("system:authenticated",), id="user"),
        pytest.param(
            {"impersonate-user": "bob", "impersonate-group": "g"},
            "bob",
            ("g", "system:authenticated"),
            id="group",
        ),
        pytest.param(
            {"Impersonate-User": "system:serviceaccount:a:r"},
            "system:serviceaccount:a:r",
            ("system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated"),
            id="account",
        ),
        pytest.param(
            {"Impersonate-User": "system:anonymous"},
            "system:anonymous",
            ("system:unauthenticated",),
            id="anonymous",
        ),
        pytest.param(
            {"Impersonate-User": "x", "Impersonate-Group": "system:unauthenticated"},
            "x",
            ("system:unauthenticated",),
            id="not authenticated",
        ),
    ],
)
async def test_an_administrator_speaks_for_others(
    plane: Plane, headers: dict[str, str], name: str, groups: tuple[str, ...]
) -> None:
    user = await plane.ask(bearer(plane.keys.admin_token) | headers)
    assert (user.name, user.groups) == (name, groups)


async def test_uid_and_extra_are_taken_over(plane: Plane) -> None:
    headers = {
        "Impersonate-User": "bob",
        "Impersonate-Uid": "u",
        "Impersonate-Extra-Example.Org%2Fa": "x",
    }
    user = await plane.ask(bearer(plane.keys.admin_token) | headers)
    assert user == User("bob", ("system:authenticated",), "u", {"example.org/a": ("x",)})


ROBOT = 'User "system:serviceaccount:a:robot" cannot'
PART = 'in API group "authentication.k8s.io" at the cluster scope'


@pytest.mark.parametrize(
    ("headers", "text"),
    [
        pytest.param(
            {"Impersonate-User": "bob"},
            f'users.authentication.k8s.io "bob" is forbidden: {ROBOT} impersonate:user-info '
            f'resource "users" {PART}',
            id="user",
        ),
        pytest.param(
            {"Impersonate-User": "allowed", "Impersonate-Group": "dev"},
            f'groups.authentication.k8s.io "dev" is forbidden: {ROBOT} impersonate:user-info '
            f'resource "groups" {PART}',
            id="group",
        ),
        pytest.param(
            {"Impersonate-User": "legacy", "Impersonate-Group": "system:masters"},
            f'groups "system:masters" is forbidden: {ROBOT} impersonate resource "groups" in API '
            'group "" at the cluster scope',
            id="masters",
        ),
        pytest.param(
            {"Impersonate-User": "system:serviceaccount:b:x"},
            f'pods is forbidden: {ROBOT} impersonate-on:serviceaccount:list resource "pods" in '
            'API group "" at the cluster scope',
            id="account",
        ),
        pytest.param(
            {"Impersonate-User": "system:node:n"},
            f'pods is forbidden: {ROBOT} impersonate-on:arbitrary-node:list resource "pods" in '
            'API group "" at the cluster scope',
            id="node",
        ),
        pytest.param(
            {"Impersonate-User": "system:serviceaccount:b:x", "Impersonate-Uid": "u"},
            f'serviceaccounts "x" is forbidden: {ROBOT} impersonate resource "serviceaccounts" in '
            'API group "" in the namespace "b"',
            id="account and uid",
        ),
        pytest.param(
            {"Impersonate-User": "allowed", "Impersonate-Extra-A": "b"},
            f'userextras.authentication.k8s.io "b" is forbidden: {ROBOT} impersonate:user-info '
            f'resource "userextras/a" {PART}',
            id="extra",
        ),
        pytest.param(
            {"Impersonate-User": "allowed", "Impersonate-Uid": "b"},
            f'uids.authentication.k8s.io "b" is forbidden: {ROBOT} impersonate:user-info resource '
            f'"uids" {PART}',
            id="uid",
        ),
    ],
)
async def test_others_need_the_right(
    plane: Plane, robot: dict[str, str], headers: dict[str, str], text: str
) -> None:
    """By either way: for one verb on one resource, or for all that the user may."""
    plane.role(
        "act",
        rule("impersonate", "users", resourceNames=["legacy"]),
        rule("impersonate-on:user-info:list", "pods"),
        rule("impersonate:user-info", "users", "authentication.k8s.io", resourceNames=["allowed"]),
    )
    plane.bind("act", "ServiceAccount:a/robot", namespace="")
    for name in ("legacy", "allowed"):
        assert (await plane.ask(robot | {"Impersonate-User": name})).name == name
    with pytest.raises(StatusError) as caught:
        await plane.ask(robot | headers)
    assert (caught.value.code, caught.value.message) == (403, text)


async def test_groups_without_a_user_make_no_sense(plane: Plane) -> None:
    headers = bearer(plane.keys.admin_token) | {"Impersonate-Group": "g"}
    with pytest.raises(StatusError, match="without impersonating a user"):
        await plane.ask(headers)
