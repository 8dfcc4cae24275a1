"""Binding from the consumer's side; the provider's answers are made by hand.

One server is both: the consumer's objects and the cluster namespace do not meet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
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
from fairlead.api.resource import (
    CLUSTERROLES,
    CUSTOMRESOURCEDEFINITIONS,
    NAMESPACES,
    SECRETS,
    Resource,
)
from fairlead.client import Client, NotFound
from fairlead.konnector.commands.bind import BindError, bind
from fairlead.konnector.commands.names import candidates, with_name
from fairlead.sandbox import Sandbox


RESOURCES = [{"group": "example.org", "resource": "things", "versions": ["v1"]}]
CLAIMS = [{"resource": "secrets", "selector": {"namedResources": [{"name": "a"}]}}]
OTHERS = [{**RESOURCES[0], "resource": "others"}]
WIDER = [{"resource": "secrets", "selector": {"labelSelector": {}}}]


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


async def offered(
    client: Client, kind: Resource, name: str, resources: list[JSON], claims: list[JSON]
) -> None:
    """What the provider has under a name: an export, or a request for one."""
    spec: JSON = {"resources": resources, "permissionClaims": claims}
    if kind == APISERVICEEXPORTS:
        spec |= {"informerScope": "Namespaced", "isolation": "Prefixed"}
    body = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name, "namespace": "cluster-abc"},
        "spec": spec,
    }
    await client.create(kind, body)


async def export(
    client: Client, resources: list[JSON], claims: list[JSON], *, name: str = "db"
) -> None:
    await offered(client, APISERVICEEXPORTS, name, resources, claims)


async def bound_in_vain(client: Client, response: BindingResponse, name: str = "") -> list[str]:
    """Bind where no konnector runs: all is written; what was said meanwhile."""
    lines: list[str] = []
    with pytest.raises(BindError, match="no konnector has picked up"):
        await bind(client, response, name=name, timeout=0.3, progress=lines.append)
    return lines


async def names(client: Client) -> set[str]:
    return {item.meta.name for item in (await client.list(APISERVICEBINDINGS)).items}


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


async def test_a_provider_that_does_not_answer_is_told_and_nobody_has_rights_on_nothing(
    client: Client, provider: Client, plane: Sandbox
) -> None:
    with pytest.raises(BindError, match=r"do its controllers run.*binding again goes on waiting"):
        await bind(client, answer(plane), timeout=0.3)
    roles = [role.meta.name for role in (await client.list(CLUSTERROLES)).items]
    assert "kube-bind-konnector-db" not in roles


async def refused(client: Client) -> None:
    await offered(client, APISERVICEEXPORTREQUESTS, "db", RESOURCES, WIDER)
    await decide(client, phase="Failed", terminalMessage="never")


async def export_deleted(client: Client) -> None:
    await offered(client, APISERVICEEXPORTREQUESTS, "db", RESOURCES, CLAIMS)
    await decide(client, phase="Succeeded")


@pytest.mark.parametrize("before", [refused, export_deleted])
async def test_a_request_that_leads_to_nothing_any_more_is_made_anew(
    client: Client, provider: Client, plane: Sandbox, before: Callable[[Client], Awaitable[None]]
) -> None:
    await before(provider)
    old = await provider.get(APISERVICEEXPORTREQUESTS, "db", "cluster-abc")

    async def answered() -> None:
        new = old
        async with asyncio.timeout(10):
            while new.meta.uid == old.meta.uid:
                await asyncio.sleep(0.01)
                with suppress(NotFound):
                    new = await provider.get(APISERVICEEXPORTREQUESTS, "db", "cluster-abc")
        (claim,) = new.to_dict()["spec"]["permissionClaims"]
        assert claim["selector"]["namedResources"]
        await export(provider, RESOURCES, CLAIMS)
        await decide(provider, phase="Succeeded")

    task = asyncio.create_task(answered())
    with pytest.raises(BindError, match="no konnector has picked up"):
        await bind(client, answer(plane), timeout=2)
    await task
    assert await names(client) == {"db"}


@pytest.mark.parametrize(
    ("claims", "bound", "remedy"),
    [
        pytest.param(CLAIMS, False, "bind it with --name old, or have", id="unbound"),
        pytest.param(WIDER, False, "APIServiceExport old: have the provider", id="others"),
        pytest.param(CLAIMS, True, "`fairlead unbind old` and have", id="bound"),
    ],
)
async def test_what_is_exported_under_another_name_is_told_before_anything_is_asked_for(
    client: Client,
    provider: Client,
    plane: Sandbox,
    claims: list[JSON],
    remedy: str,
    *,
    bound: bool,
) -> None:
    if bound:
        await export(provider, RESOURCES, CLAIMS, name="old")
        await bound_in_vain(client, answer(plane), name="old")
    else:
        await export(provider, RESOURCES, claims, name="old")
    with pytest.raises(BindError, match="to this cluster already") as caught:
        await bind(client, answer(plane), name="new", timeout=1)
    assert remedy in str(caught.value)
    assert "namespace cluster-abc" in str(caught.value)
    assert (await provider.list(APISERVICEEXPORTREQUESTS, "cluster-abc")).items == []
    roles = [role.meta.name for role in (await client.list(CLUSTERROLES)).items]
    assert "kube-bind-konnector-new" not in roles


@pytest.mark.parametrize(
    ("kind", "resources", "claims", "message"),
    [
        pytest.param(APISERVICEEXPORTS, OTHERS, CLAIMS, "is of others.example.org", id="export"),
        pytest.param(
            APISERVICEEXPORTREQUESTS, OTHERS, CLAIMS, "is of others.example.org", id="request"
        ),
        pytest.param(
            APISERVICEEXPORTREQUESTS, RESOURCES, WIDER, "claims other objects than", id="claims"
        ),
    ],
)
async def test_a_name_that_the_provider_uses_for_something_else_gets_a_number(
    client: Client,
    provider: Client,
    plane: Sandbox,
    kind: Resource,
    resources: list[JSON],
    claims: list[JSON],
    message: str,
) -> None:
    await offered(provider, kind, "db", resources, claims)
    await export(provider, RESOURCES, CLAIMS, name="db-2")
    lines = await bound_in_vain(client, answer(plane))
    (told,) = [line for line in lines if "taken" in line]
    assert message in told
    assert told.endswith("using db-2")
    assert await names(client) == {"db-2"}
    roles = [role.meta.name for role in (await client.list(CLUSTERROLES)).items]
    assert "kube-bind-konnector-db-2" in roles
    assert "kube-bind-konnector-db" not in roles


async def test_an_export_of_something_else_than_was_asked_for_is_not_bound(
    client: Client, provider: Client, plane: Sandbox
) -> None:
    """The provider answers a request with an export that claims more."""

    async def cheat() -> None:
        await decide(provider)
        await export(provider, RESOURCES, WIDER)
        await decide(provider, phase="Succeeded")

    task = asyncio.create_task(cheat())
    with pytest.raises(BindError, match="claims other objects than the invitation says"):
        await bind(client, answer(plane), timeout=10)
    await task
    assert await names(client) == set()


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


async def test_a_binding_that_is_being_deleted_is_waited_for(
    client: Client, provider: Client, plane: Sandbox
) -> None:
    await export(provider, RESOURCES, CLAIMS)
    await bound_in_vain(client, answer(plane))
    await delete_held(client)
    role = await client.get(CLUSTERROLES, "kube-bind-konnector-db")
    await client.merge_patch(CLUSTERROLES, role.meta.name, "", {"rules": []})
    with pytest.raises(BindError, match="APIServiceBinding db is being deleted"):
        await bind(client, answer(plane), timeout=1)
    assert not (await client.get(CLUSTERROLES, role.meta.name)).to_dict().get("rules")
    assert await names(client) == {"db"}


async def test_an_export_that_is_being_deleted_is_waited_for(
    client: Client, provider: Client, plane: Sandbox
) -> None:
    await export(provider, RESOURCES, CLAIMS)
    held = {"metadata": {"finalizers": ["example.org/held"]}}
    await provider.merge_patch(APISERVICEEXPORTS, "db", "cluster-abc", held)
    await provider.delete(APISERVICEEXPORTS, "db", "cluster-abc")
    with pytest.raises(BindError, match="APIServiceExport db is being deleted"):
        await bind(client, answer(plane), timeout=1)


async def test_a_request_that_is_being_deleted_is_waited_for(
    client: Client, provider: Client, plane: Sandbox
) -> None:
    await refused(provider)
    held = {"metadata": {"finalizers": ["example.org/held"]}}
    await provider.merge_patch(APISERVICEEXPORTREQUESTS, "db", "cluster-abc", held)
    with pytest.raises(BindError, match="APIServiceExportRequest db is being deleted"):
        await bind(client, answer(plane), timeout=5)


async def test_a_binding_of_another_provider_keeps_its_name_and_its_rights(
    client: Client, provider: Client, plane: Sandbox
) -> None:
    await export(provider, RESOURCES, CLAIMS)
    await bound_in_vain(client, answer(plane))
    await use_another_secret(client)
    role = await client.get(CLUSTERROLES, "kube-bind-konnector-db")
    await client.merge_patch(CLUSTERROLES, role.meta.name, "", {"rules": []})
    await provider.delete(APISERVICEEXPORTS, "db", "cluster-abc")
    await export(provider, RESOURCES, CLAIMS, name="db-2")
    lines = await bound_in_vain(client, answer(plane))
    assert (
        "the name db is taken (APIServiceBinding db uses another kubeconfig Secret): using db-2"
        in lines
    )
    assert await names(client) == {"db", "db-2"}
    assert not (await client.get(CLUSTERROLES, role.meta.name)).to_dict().get("rules")


async def test_the_name_of_the_first_time_is_found_again(
    client: Client, provider: Client, plane: Sandbox
) -> None:
    """Even when the name that was wanted has become free meanwhile."""
    await export(provider, OTHERS, CLAIMS)
    await export(provider, RESOURCES, CLAIMS, name="db-2")
    await bound_in_vain(client, answer(plane))
    written = {item.meta.name: item.raw for item in (await client.list(CLUSTERROLES)).items}
    await provider.delete(APISERVICEEXPORTS, "db", "cluster-abc")
    lines = await bound_in_vain(client, answer(plane))
    assert [line for line in lines if "created" in line or "updated" in line] == []
    assert "it is bound as db-2 already: using that name" in lines
    assert await names(client) == {"db-2"}
    again = {item.meta.name: item.raw for item in (await client.list(CLUSTERROLES)).items}
    assert again == written


async def test_a_name_of_ones_own_is_that_of_the_request_too(
    client: Client, provider: Client, plane: Sandbox
) -> None:
    with pytest.raises(BindError, match="do its controllers run"):
        await bind(client, answer(plane), name="mine", timeout=0.5)
    asked = await provider.get(APISERVICEEXPORTREQUESTS, "mine", "cluster-abc")
    assert asked.to_dict()["spec"]["resources"] == RESOURCES
    await export(provider, RESOURCES, CLAIMS, name="mine")
    await bound_in_vain(client, answer(plane), name="mine")
    assert await names(client) == {"mine"}


@pytest.mark.parametrize(
    ("requests", "name", "message"),
    [
        pytest.param(2, "mine", "has several: db, db", id="several-requests"),
        pytest.param(1, "Not/aName", "cannot be the name of an object", id="no-name"),
    ],
)
async def test_names_that_cannot_be_given(
    plane: Sandbox, requests: int, name: str, message: str
) -> None:
    request = asking(RESOURCES[0])
    with pytest.raises(ValueError, match=message):
        with_name(answer(plane, requests=[request] * requests), name)


def test_a_name_that_the_provider_has_chosen_for_the_binding_is_used(plane: Sandbox) -> None:
    response = msgspec.structs.replace(answer(plane), binding_name="chosen")
    assert with_name(response, "").requests[0].metadata.name == "chosen"
    renamed = with_name(with_name(response, "mine"), "")
    assert renamed.requests[0].metadata.name == "mine"


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        pytest.param(set(), ["db", "db-2", "db-3"], id="in-order"),
        pytest.param({"db-3"}, ["db-3", "db", "db-2"], id="known-first"),
        pytest.param({"db-2", "db", "other"}, ["db", "db-2", "db-3"], id="known-in-order"),
    ],
)
def test_candidates(known: set[str], expected: list[str]) -> None:
    assert list(candidates("db", known))[:3] == expected


def test_a_long_name_is_cut_for_its_number() -> None:
    second = list(candidates("a" * 250 + ".bc", set()))[1]
    assert second == "a" * 250 + "-2"


async def test_a_name_is_looked_for_only_so_long(
    client: Client, provider: Client, plane: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.konnector.commands.names.ATTEMPTS", 2)
    await export(provider, OTHERS, CLAIMS)
    await export(provider, OTHERS, CLAIMS, name="db-2")
    with pytest.raises(BindError, match=r"all names from db to db-2 are taken; .* --name"):
        await bind(client, answer(plane), timeout=1)


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
