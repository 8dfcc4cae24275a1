from __future__ import annotations

import base64
import json
import time
from typing import Any

import pytest
from tests.unit.sandbox.auth.conftest import Plane, settle

from fairlead.api import resource as names
from fairlead.api.certificates import new_key
from fairlead.api.meta import Key
from fairlead_sandbox.auth.tokens import ISSUER, BoundObject, KeySigner, Signer, TokenError, Tokens
from fairlead_sandbox.storage.records import Record


@pytest.fixture
def signer() -> Signer:
    return KeySigner(new_key())


def test_claims_come_back(signer: Signer) -> None:
    assert signer.verify(signer.sign({"a": [1, "x"]})) == {"a": [1, "x"]}


def forged(token: str) -> list[str]:
    header, claims, signature = token.split(".")
    none = base64.urlsafe_b64encode(b'{"alg":"none"}').decode().rstrip("=")
    deep = base64.urlsafe_b64encode(b"[" * 100_000).decode()
    other = base64.urlsafe_b64encode(b'{"a":2}').decode().rstrip("=")
    return [
        f"{header}.{other}.{signature}",
        f"{none}.{claims}.",
        f"{none}.{claims}.{signature}",
        f"{header}.{claims}.{signature[:-4]}",
        f"{header}.{claims}",
        f"{header}.{claims}.é",
        f"{header}.{claims}.{signature}=",
        f"{header}.{claims}.\ud800",
        f"{deep}.{claims}.{signature}",
        "",
        ".",
        "..",
    ]


def test_forgeries_are_refused(signer: Signer) -> None:
    for token in forged(signer.sign({"a": 1})):
        with pytest.raises(TokenError):
            signer.verify(token)
    with pytest.raises(TokenError):
        signer.verify(KeySigner(new_key()).sign({"a": 1}))


@pytest.fixture
async def tokens(plane: Plane) -> Tokens:
    return Tokens(plane.core.store, plane.keys.signer)


@pytest.fixture
async def account(plane: Plane) -> Record:
    return plane.create(names.SERVICEACCOUNTS, {"metadata": {"name": "robot"}}, "a")


def issue(tokens: Tokens, account: Record, **more: Any) -> str:
    arguments: dict[str, Any] = {"audiences": [ISSUER], "seconds": 600, "bound": None} | more
    return tokens.issue(account, **arguments)[0]


async def test_who_a_token_is(tokens: Tokens, account: Record) -> None:
    token = issue(tokens, account)
    user = tokens.check(token).user
    assert user.name == "system:serviceaccount:a:robot"
    assert user.uid == account.meta.uid
    assert user.groups == (
        "system:serviceaccounts",
        "system:serviceaccounts:a",
        "system:authenticated",
    )
    claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    assert user.extra == {"authentication.kubernetes.io/credential-id": (f"JTI={claims['jti']}",)}


async def test_a_token_expires(
    tokens: Tokens, account: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = issue(tokens, account)
    tokens.check(token)
    later = time.time() + 601
    monkeypatch.setattr(time, "time", lambda: later)
    with pytest.raises(TokenError, match="expired"):
        tokens.check(token)


async def test_a_token_has_an_audience(tokens: Tokens, account: Record) -> None:
    token = issue(tokens, account, audiences=["x", "y"])
    with pytest.raises(TokenError, match=r'token audiences \["x" "y"\] is invalid'):
        tokens.check(token)
    assert tokens.check(token, ("y", "z")).audiences == ("x", "y")


async def test_a_token_goes_with_its_account(
    plane: Plane, tokens: Tokens, account: Record
) -> None:
    token = issue(tokens, account)
    tokens.check(token)
    plane.remove(names.SERVICEACCOUNTS, "robot", "a")
    with pytest.raises(TokenError, match="invalidated"):
        tokens.check(token)
    plane.create(names.SERVICEACCOUNTS, {"metadata": {"name": "robot"}}, "a")
    with pytest.raises(TokenError, match="invalidated"):
        tokens.check(token)


@pytest.mark.parametrize("resource", [names.SECRETS, names.PODS], ids=str)
async def test_a_token_goes_with_what_it_is_bound_to(
    plane: Plane, tokens: Tokens, account: Record, resource: Any
) -> None:
    containers = [{"name": "c", "image": "i"}]
    body: dict[str, Any] = {"metadata": {"name": "x"}}
    if resource is names.PODS:
        body["spec"] = {"containers": containers}
    held = plane.create(resource, body, "a")
    bound = BoundObject(resource.plural, Key("a", "x"), held.meta.uid)
    token = issue(tokens, account, bound=bound)
    user = tokens.check(token).user
    if resource is names.PODS:
        assert user.extra["authentication.kubernetes.io/pod-name"] == ("x",)
    plane.remove(resource, "x", "a")
    with pytest.raises(TokenError, match="invalidated"):
        tokens.check(token)


async def test_the_token_of_a_secret(plane: Plane, tokens: Tokens, account: Record) -> None:
    annotations = {"kubernetes.io/service-account.name": "robot"}
    body = {
        "metadata": {"name": "t", "annotations": annotations},
        "type": "kubernetes.io/service-account-token",
    }
    plane.create(names.SECRETS, body, "a")
    await settle()
    record = plane.get(names.SECRETS, "t", "a")
    assert record is not None
    data = record.to_dict()["data"]
    token = base64.b64decode(data["token"]).decode()
    assert tokens.check(token).user.name == "system:serviceaccount:a:robot"
    assert base64.b64decode(data["ca.crt"]) == plane.keys.ca_pem
    plane.update(names.SECRETS, "t", {"data": {"token": "eA=="}}, "a")
    with pytest.raises(TokenError, match="invalidated"):
        tokens.check(token)


async def test_a_token_secret_of_another_account_goes(plane: Plane, account: Record) -> None:
    annotations = {
        "kubernetes.io/service-account.name": "robot",
        "kubernetes.io/service-account.uid": "another",
    }
    body = {
        "metadata": {"name": "t", "annotations": annotations},
        "type": "kubernetes.io/service-account-token",
    }
    plane.create(names.SECRETS, body, "a")
    await settle()
    assert plane.get(names.SECRETS, "t", "a") is None


@pytest.mark.parametrize(
    "claims",
    [
        {},
        {"iss": ISSUER},
        {"iss": "kubernetes/serviceaccount"},
        {"iss": ISSUER, "kubernetes.io": "x"},
        {"iss": ISSUER, "kubernetes.io": {"namespace": "a", "serviceaccount": {}}},
    ],
)
async def test_signed_nonsense_is_refused(plane: Plane, tokens: Tokens, claims: Any) -> None:
    with pytest.raises(TokenError):
        tokens.check(plane.keys.signer.sign(claims))


async def test_the_ca_is_in_every_namespace_and_stays(plane: Plane) -> None:
    for change in (None, lambda: plane.remove(names.CONFIGMAPS, "kube-root-ca.crt", "a")):
        if change is not None:
            change()
            await settle()
        record = plane.get(names.CONFIGMAPS, "kube-root-ca.crt", "a")
        assert record is not None
        assert record.to_dict()["data"] == {"ca.crt": plane.keys.ca_pem.decode()}
    plane.update(names.CONFIGMAPS, "kube-root-ca.crt", {"data": {"x": "y"}}, "a")
    await settle()
    record = plane.get(names.CONFIGMAPS, "kube-root-ca.crt", "a")
    assert record is not None
    assert record.to_dict()["data"] == {"ca.crt": plane.keys.ca_pem.decode()}
