"""Binding from the consumer's side; the provider's answers are made by hand.

One server is both: the consumer's objects and the cluster namespace do not meet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from tests.unit.konnector.conftest import kubeconfig

from fairlead.api.kubebind import (
    APISERVICEBINDINGS,
    APISERVICEEXPORTREQUESTS,
    APISERVICEEXPORTS,
    CLUSTERBINDINGS,
    BindingResponse,
    decode_binding_response,
    new_binding_response,
)
from fairlead.api.meta import JSON
from fairlead.api.resource import CLUSTERROLES, CUSTOMRESOURCEDEFINITIONS, NAMESPACES, SECRETS
from fairlead.client import Client, NotFound
from fairlead.konnector.bind import BindError, bind
from fairlead.sandbox import Sandbox


RESOURCES = [{"group": "example.org", "resource": "things", "versions": ["v1"]}]
CLAIMS = [{"resource": "secrets", "selector": {"namedResources": [{"name": "a"}]}}]


def asking(resource: JSON, *claims: JSON) -> JSON:
    """A request for one resource."""
    return {
        "apiVersion": "kube-bind.io/v1alpha2",
        "kind": "APIServiceExportRequest",
        "metadata": {"name": "db"},
        "spec": {"resources": [resource], "permissionClaims": list(claims)},
    }


def anonymous(plane: Sandbox) -> str:
    """A kubeconfig without credentials: the server is open."""
    return kubeconfig(plane.url).replace("{token: t}", "{}")


def answer(plane: Sandbox, **given: Any) -> BindingResponse:
    request: JSON = {
        "apiVersion": "kube-bind.io/v1alpha2",
        "kind": "APIServiceExportRequest",
        "metadata": {"name": "db"},
        "spec": {"resources": RESOURCES, "permissionClaims": CLAIMS},
    }
    known: dict[str, Any] = {
        "kubeconfig": anonymous(plane).encode(),
        "requests": [request],
        "provider_namespace": "cluster-abc",
    }
    return decode_binding_response(msgspec.json.encode(new_binding_response(**known | given)))


@pytest.fixture
async def provider(client: Client, provider_kinds: None) -> Client:
    await client.create(
        NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "cluster-abc"}}
    )
    return client


async def export(client: Client, resources: list[JSON], claims: list[JSON]) -> None:
    spec = {
        "resources": resources,
        "permissionClaims": claims,
        "informerScope": "Namespaced",
        "isolation": "Prefixed",
    }
    body = {
        "apiVersion": "kube-bind.io/v1alpha2",
        "kind": "APIServiceExport",
        "metadata": {"name": "db", "namespace": "cluster-abc"},
        "spec": spec,
    }
    await client.create(APISERVICEEXPORTS, body)


async def decide(client: Client, **status: Any) -> None:
    """Answer the request once it is there."""
    async with asyncio.timeout(10):
        while True:
            try:
                await client.merge_patch(
                    APISERVICEEXPORTREQUESTS,
                    "db",
                    "cluster-abc",
                    {"status": status},
                    subresource="status",
                )
            except NotFound:
                await asyncio.sleep(0.01)
            else:
                return


@pytest.mark.parametrize(
    ("given", "message"),
    [
        pytest.param({"kubeconfig": b"{"}, "kubeconfig cannot be used", id="kubeconfig-broken"),
        pytest.param({"kubeconfig": b""}, "kubeconfig cannot be used", id="kubeconfig-missing"),
        pytest.param({"requests": []}, "has no requests", id="no-requests"),
        pytest.param(
            {"requests": [{"apiVersion": "a", "kind": "b", "spec": {"resources": RESOURCES}}]},
            "metadata.name",
            id="no-name",
        ),
        pytest.param(
            {"requests": [asking({"group": "", "resource": "secrets"})]},
            "db asks to bind secrets.core, a kind of Kubernetes",
            id="core-kinds",
        ),
        pytest.param(
            {
                "requests": [
                    asking({"group": "rbac.authorization.k8s.io", "resource": "clusterroles"})
                ]
            },
            "do not trust this invitation",
            id="protected-kinds",
        ),
        pytest.param(
            {
                "requests": [
                    asking(
                        RESOURCES[0],
                        {
                            "group": "rbac.authorization.k8s.io",
                            "resource": "clusterrolebindings",
                            "selector": {},
                        },
                    )
                ]
            },
            "cannot be claimed",
            id="claims-on-rights",
        ),
    ],
)
async def test_a_response_that_cannot_be_used_changes_nothing(
    client: Client, plane: Sandbox, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(BindError, match=message):
        await bind(client, answer(plane, **given), timeout=1)
    assert (await client.list(SECRETS, "kube-bind")).items == []
    roles = [role.meta.name for role in (await client.list(CLUSTERROLES)).items]
    assert not [name for name in roles if name.startswith("kube-bind-")]


async def test_a_refusal_of_the_provider_is_told(
    client: Client, provider: Client, plane: Sandbox
) -> None:
    task = asyncio.create_task(decide(provider, phase="Failed", terminalMessage="not for you"))
    with pytest.raises(BindError, match="not for you"):
        await bind(client, answer(plane), timeout=10)
    await task
    assert (await client.list(APISERVICEBINDINGS)).items == []


async def test_credentials_that_are_not_accepted_are_told(
    client: Client, provider: Client, plane: Sandbox
) -> None:
    old = answer(plane, kubeconfig=kubeconfig(plane.url).encode())
    with pytest.raises(BindError, match="does not accept the credentials") as refused:
        await bind(client, old, timeout=1)
    assert plane.url in str(refused.value)


async def test_a_provider_that_does_not_answer_is_told(
    client: Client, provider: Client, plane: Sandbox
) -> None:
    with pytest.raises(BindError, match="do its controllers run"):
        await bind(client, answer(plane), timeout=0.3)


@pytest.mark.parametrize(
    ("resources", "claims", "message"),
    [
        pytest.param(
            [{**RESOURCES[0], "resource": "others"}], CLAIMS, "others.example.org", id="resources"
        ),
        pytest.param(
            RESOURCES,
            [{"resource": "secrets", "selector": {"labelSelector": {}}}],
            "claims other objects than the invitation says",
            id="wider-claims",
        ),
    ],
)
async def test_an_export_of_something_else_is_not_bound(
    client: Client,
    provider: Client,
    plane: Sandbox,
    resources: list[JSON],
    claims: list[JSON],
    message: str,
) -> None:
    await export(provider, resources, claims)
    with pytest.raises(BindError, match=message):
        await bind(client, answer(plane), timeout=1)
    assert (await client.list(APISERVICEBINDINGS)).items == []


async def use_another_secret(client: Client) -> None:
    found = (await client.get(APISERVICEBINDINGS, "db")).to_dict()
    await client.delete(APISERVICEBINDINGS, "db")
    found["spec"]["kubeconfigSecretRef"]["name"] = "other"
    found["metadata"] = {"name": "db"}
    await client.create(APISERVICEBINDINGS, found)


async def delete_held(client: Client) -> None:
    held = {"metadata": {"finalizers": ["example.org/held"]}}
    await client.merge_patch(APISERVICEBINDINGS, "db", "", held)
    await client.delete(APISERVICEBINDINGS, "db")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(use_another_secret, "uses another kubeconfig Secret", id="other-secret"),
        pytest.param(delete_held, "is being deleted", id="being-deleted"),
    ],
)
async def test_a_binding_that_is_in_the_way_is_told(
    client: Client,
    provider: Client,
    plane: Sandbox,
    change: Callable[[Client], Awaitable[None]],
    message: str,
) -> None:
    await export(provider, RESOURCES, CLAIMS)
    with pytest.raises(BindError, match="no konnector has picked up"):
        await bind(client, answer(plane), timeout=0.3)
    await change(client)
    role = await client.get(CLUSTERROLES, "kube-bind-konnector-db")
    await client.merge_patch(CLUSTERROLES, role.meta.name, "", {"rules": []})
    with pytest.raises(BindError, match=message):
        await bind(client, answer(plane), timeout=1)
    assert not (await client.get(CLUSTERROLES, role.meta.name)).to_dict().get("rules")


async def test_what_binding_writes_and_that_it_says_so(
    client: Client, provider: Client, plane: Sandbox
) -> None:
    lines: list[str] = []
    await client.delete(CUSTOMRESOURCEDEFINITIONS, APISERVICEBINDINGS.group_resource)
    await export(provider, RESOURCES, CLAIMS)
    with pytest.raises(BindError, match="no konnector"):
        await bind(client, answer(plane), timeout=0.5, progress=lines.append)
    assert lines[0] == "installing kube-bind's CRDs"
    (stored,) = (await client.list(SECRETS, "kube-bind")).items
    assert f"created Secret kube-bind/{stored.meta.name}" in lines
    role = (await client.get(CLUSTERROLES, "kube-bind-konnector-db")).to_dict()
    assert role["metadata"]["labels"] == {"rbac.kube-bind.io/aggregate-to-konnector": "true"}
    found = (await client.get(APISERVICEBINDINGS, "db")).to_dict()
    assert found["spec"]["kubeconfigSecretRef"] == {
        "name": stored.meta.name,
        "namespace": "kube-bind",
        "key": "kubeconfig",
    }
    assert found["status"]["conditions"][0]["reason"] == "Pending"
    assert "token" not in " ".join(lines)


async def test_a_role_that_was_narrowed_is_restored(
    client: Client, provider: Client, plane: Sandbox
) -> None:
    await export(provider, RESOURCES, CLAIMS)
    with pytest.raises(BindError):
        await bind(client, answer(plane), timeout=0.3)
    name = "kube-bind-konnector-db"
    before = (await client.get(CLUSTERROLES, name)).to_dict()
    await client.update(CLUSTERROLES, {**before, "rules": []})
    lines: list[str] = []
    with pytest.raises(BindError):
        await bind(client, answer(plane), timeout=0.3, progress=lines.append)
    assert f"updated ClusterRole {name}" in lines
    assert (await client.get(CLUSTERROLES, name)).to_dict()["rules"] == before["rules"]


async def test_newer_credentials_in_the_secret_are_kept_if_they_work(
    client: Client, provider: Client, plane: Sandbox
) -> None:
    await export(provider, RESOURCES, CLAIMS)
    with pytest.raises(BindError):
        await bind(client, answer(plane), timeout=0.3)
    (stored,) = (await client.list(SECRETS, "kube-bind")).items
    newer = anonymous(plane) + "# newer"
    await client.merge_patch(
        SECRETS, stored.meta.name, "kube-bind", {"stringData": {"kubeconfig": newer}}
    )
    kept = await client.get(SECRETS, stored.meta.name, "kube-bind")
    await client.create(
        CLUSTERBINDINGS,
        {
            "apiVersion": "kube-bind.io/v1alpha2",
            "kind": "ClusterBinding",
            "metadata": {"name": "cluster", "namespace": "cluster-abc"},
            "spec": {
                "kubeconfigSecretRef": {"name": "kubeconfig", "key": "kubeconfig"},
                "providerPrettyName": "Acme",
            },
        },
    )
    with pytest.raises(BindError):
        await bind(client, answer(plane), timeout=0.3)
    assert (await client.get(SECRETS, stored.meta.name, "kube-bind")).raw == kept.raw
