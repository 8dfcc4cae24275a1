"""Binding from the consumer's side, between two servers; the test is provider and konnector."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import timedelta
from typing import Any
from unittest import mock

import msgspec
import pytest
from tests.integration.konnector.conftest import binding_body, kubeconfig
from tests.support.waiting import SECONDS

from fairlead.api.kubebind import (
    APISERVICEBINDINGBUNDLES,
    APISERVICEBINDINGS,
    APISERVICEEXPORTREQUESTS,
    APISERVICEEXPORTS,
    BOUNDSCHEMAS,
    CLUSTERBINDINGS,
    APIServiceBinding,
    BindingResponse,
    ConversionWebhook,
    decode_binding_response,
    new_binding_response,
    provider_crds,
)
from fairlead.api.meta import JSON, Object, OwnerReference
from fairlead.api.resource import (
    CLUSTERROLES,
    CUSTOMRESOURCEDEFINITIONS,
    NAMESPACES,
    SECRETS,
    Resource,
)
from fairlead.api.status import Status
from fairlead.api.timestamps import moment
from fairlead.client import AlreadyExists, Client, NotFound, ServerError, clocks, parse_kubeconfig
from fairlead.client.discovery import Discovery
from fairlead.client.lookups import wait_for
from fairlead.konnector.commands import undo
from fairlead.konnector.commands.accept import accept
from fairlead.konnector.commands.bind import BindError, bind, bind_bundle
from fairlead.konnector.commands.conversions import AcceptedWebhooks, remove_webhooks
from fairlead.konnector.commands.names import candidates, with_name
from fairlead.konnector.crds import established
from fairlead.runtime import install_crds
from fairlead_sandbox import Sandbox


THINGS = Resource("example.org", "v1", "things", "Thing")
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
        "identity": "shop",
    }
    return decode_binding_response(msgspec.json.encode(new_binding_response(**known | given)))


CLUSTER_BINDING: JSON = {
    "apiVersion": "kube-bind.io/v1alpha2",
    "kind": "ClusterBinding",
    "metadata": {"name": "cluster", "namespace": "cluster-abc"},
    "spec": {
        "kubeconfigSecretRef": {"name": "kubeconfig", "key": "kubeconfig"},
        "providerPrettyName": "Acme",
    },
}


@pytest.fixture
async def there() -> AsyncIterator[Sandbox]:
    """The provider's server."""
    async with Sandbox(name="provider", tls=False, rbac=False) as plane:
        yield plane


@pytest.fixture
async def provider(there: Sandbox) -> AsyncIterator[Client]:
    async with Client(parse_kubeconfig(there.kubeconfig())) as client:
        await install_crds(client, provider_crds())
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "cluster-abc"}}
        await client.create(NAMESPACES, body)
        await client.create(CLUSTERBINDINGS, CLUSTER_BINDING)
        yield client


@pytest.fixture(autouse=True)
def _slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is, a bind whose time is up says what was missing."""
    monkeypatch.setattr("fairlead.konnector.commands.readiness._LAST_WORD_SECONDS", SECONDS)
    monkeypatch.setattr(undo, "UNDO_SECONDS", SECONDS)


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


async def be_konnector(client: Client, but: str = "") -> None:
    """Make of each new binding what the konnector makes of it: a CRD, and Ready."""
    done: set[str] = set()
    while True:
        # Its own CRDs may be missing at first.
        with suppress(NotFound):
            for found in (await client.list(APISERVICEBINDINGS)).items:
                if not (found.meta.uid in done or found.meta.deleting or found.meta.name == but):
                    await live(client, found)
                    done.add(found.meta.uid)
        await asyncio.sleep(0.01)


async def first(client: Client) -> Object:
    """The binding, once it is there."""
    found = await wait_for(
        client,
        APISERVICEBINDINGS,
        "db",
        until=lambda one: "" if one is not None else "not there",
        timeout=SECONDS,
    )
    assert found is not None
    return found


async def live(client: Client, binding: Object) -> None:
    crd = things(binding.owner_reference(controller=True))
    with suppress(AlreadyExists):
        await client.create(CUSTOMRESOURCEDEFINITIONS, crd)
    types = ("SecretValid", "InformersSynced", "Connected", "SchemaInSync", "Heartbeating")
    status = {
        "boundSchemas": [{"group": "example.org", "resource": "things"}],
        "conditions": [{"type": type_, "status": "True"} for type_ in ("Ready", *types)],
    }
    with suppress(NotFound):
        name = binding.meta.name
        await client.merge_patch(
            APISERVICEBINDINGS, name, "", {"status": status}, subresource="status"
        )


def things(owner: OwnerReference | None = None) -> JSON:
    """A CRD, of a binding or of nobody."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "things.example.org",
            "ownerReferences": [msgspec.to_builtins(owner)] if owner else [],
        },
        "spec": {
            "group": "example.org",
            "names": {"plural": "things", "kind": "Thing"},
            "scope": "Namespaced",
            "versions": [{**version, "schema": {"openAPIV3Schema": schema}}],
        },
    }


async def bound(
    client: Client, response: BindingResponse, name: str = "", *, but: str = ""
) -> list[str]:
    """Bind where a konnector runs that ignores one binding; what was said meanwhile."""
    lines: list[str] = []
    konnector = asyncio.create_task(be_konnector(client, but))
    try:
        await bind(client, response, name=name, timeout=SECONDS, progress=lines.append)
    finally:
        konnector.cancel()
    return lines


@asynccontextmanager
async def stopped(binding: Coroutine[Any, Any, object]) -> AsyncIterator[None]:
    """Bind while the block runs, and then be stopped, as by Ctrl-C."""
    task = asyncio.create_task(binding)
    try:
        yield
        assert not task.done(), task
    finally:
        task.cancel()
        await asyncio.wait([task])
    assert task.cancelled()


async def written(client: Client) -> set[str]:
    """What `fairlead bind` has written that is there: rights, Secrets, bindings, bundles."""
    roles = [one.meta.name for one in (await client.list(CLUSTERROLES)).items]
    found = {name for name in roles if name.startswith("kube-bind-")}
    for resource in (SECRETS, APISERVICEBINDINGS, APISERVICEBINDINGBUNDLES):
        namespace = "kube-bind" if resource == SECRETS else ""
        found |= {item.meta.name for item in (await client.list(resource, namespace)).items}
    return found


async def names(client: Client) -> set[str]:
    return {item.meta.name for item in (await client.list(APISERVICEBINDINGS)).items}


async def decide(client: Client, name: str = "db", **status: Any) -> Object:
    """Answer the request once it is there."""
    async with asyncio.timeout(SECONDS):
        while True:
            try:
                return await client.merge_patch(
                    APISERVICEEXPORTREQUESTS,
                    name,
                    "cluster-abc",
                    {"status": status},
                    subresource="status",
                )
            except NotFound:
                await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        pytest.param({"kubeconfig": b"{"}, "kubeconfig cannot be used", id="kubeconfig-broken"),
        pytest.param({"kubeconfig": b""}, "kubeconfig cannot be used", id="kubeconfig-missing"),
        pytest.param({"requests": []}, "has no requests", id="no-requests"),
        pytest.param(
            {"requests": [{**asking(RESOURCES[0]), "metadata": {}}]},
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
    client: Client, there: Sandbox, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(BindError, match=message):
        await bind(client, answer(there, **given), timeout=SECONDS)
    assert await written(client) == set()


async def test_a_kind_that_the_server_has_by_itself_is_not_bound(
    client: Client, there: Sandbox
) -> None:
    """A later Kubernetes may have groups that no list of ours names."""
    later = {"group": "later.k8s.io", "resource": "things"}
    with (
        mock.patch.object(Discovery, "versions_of", return_value=["v1"]),
        pytest.raises(BindError, match=r"serves by itself in v1.*do not trust this invitation"),
    ):
        await bind(client, answer(there, requests=[asking(later)]), timeout=SECONDS)
    assert await written(client) == set()


async def test_a_refusal_of_the_provider_is_told(
    client: Client, provider: Client, there: Sandbox
) -> None:
    task = asyncio.create_task(decide(provider, phase="Failed", terminalMessage="not for you"))
    with pytest.raises(BindError, match="not for you"):
        await bind(client, answer(there), timeout=SECONDS)
    await task
    assert await written(client) == set()
    # The refusal is the provider's record of it.
    assert (await provider.list(APISERVICEEXPORTREQUESTS, "cluster-abc")).items


async def test_credentials_that_are_not_accepted_are_told(
    client: Client, provider: Client, there: Sandbox
) -> None:
    old = answer(there, kubeconfig=kubeconfig(there.url).encode())
    with pytest.raises(BindError, match="does not accept the credentials") as refused:
        await bind(client, old, timeout=SECONDS)
    assert there.url in str(refused.value)


async def test_credentials_that_another_clock_refuses_are_told_with_the_difference(
    client: Client, provider: Client, there: Sandbox
) -> None:
    old = answer(there, kubeconfig=kubeconfig(there.url).encode())
    late = moment() + timedelta(hours=3)
    with (
        mock.patch.object(clocks, "moment", return_value=late),
        pytest.raises(BindError, match="the server's clock is about 3 hours behind"),
    ):
        await bind(client, old, timeout=SECONDS)


async def test_a_request_that_nobody_answers_is_withdrawn(
    client: Client, provider: Client, there: Sandbox
) -> None:
    lines: list[str] = []
    with pytest.raises(BindError, match="do its controllers run"):
        await bind(client, answer(there), timeout=0.3, progress=lines.append)
    assert lines[-1] == "withdrew the request db from the provider"
    assert await written(client) == set()
    assert (await provider.list(APISERVICEEXPORTREQUESTS, "cluster-abc")).items == []


async def test_a_request_that_was_there_before_stays(
    client: Client, provider: Client, there: Sandbox
) -> None:
    await offered(provider, APISERVICEEXPORTREQUESTS, "db", RESOURCES, CLAIMS)
    with pytest.raises(BindError, match="do its controllers run"):
        await bind(client, answer(there), timeout=0.3)
    assert (await provider.list(APISERVICEEXPORTREQUESTS, "cluster-abc")).items


async def test_the_silence_of_a_provider_that_always_answers_is_a_matter_of_its_controllers(
    client: Client, provider: Client, there: Sandbox
) -> None:
    pending = {"type": "Healthy", "status": "False", "reason": "FirstHeartbeatPending"}
    health = {"status": {"conditions": [pending]}}
    where = (CLUSTERBINDINGS, "cluster", "cluster-abc")
    await provider.merge_patch(*where, health, subresource="status")
    with pytest.raises(BindError, match="not answered yet: do its controllers run") as caught:
        await bind(client, answer(there), timeout=0.3)
    assert "upgrade" not in str(caught.value)


async def test_the_silence_of_an_original_may_be_its_refusal(
    client: Client, provider: Client, there: Sandbox
) -> None:
    request = asking(RESOURCES[0])
    request["spec"]["resources"] += OTHERS
    names = {"plural": "things", "kind": "Thing"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"type": "object"}}
    schema = {"group": "example.org", "names": names, "scope": "Namespaced"}
    body = {
        "apiVersion": "kube-bind.io/v1alpha2",
        "kind": "BoundSchema",
        "metadata": {"name": "things.example.org", "namespace": "cluster-abc"},
        "spec": {**schema, "informerScope": "Namespaced", "versions": [version]},
    }
    await provider.create(BOUNDSCHEMAS, body)
    with pytest.raises(BindError, match="written nothing into the request") as caught:
        await bind(client, answer(there, requests=[request]), timeout=0.3)
    assert "the provider has BoundSchemas, but none for others.example.org" in str(caught.value)
    assert "read its log, and to upgrade the provider" in str(caught.value)


@pytest.mark.parametrize("former", [True, False], ids=["former", "today-s"])
async def test_a_version_that_a_former_provider_cannot_take_is_told_before_it_is_asked_for(
    client: Client, provider: Client, there: Sandbox, former: bool
) -> None:
    if former:
        name = "boundschemas.kube-bind.io"
        crd = (await provider.get(CUSTOMRESOURCEDEFINITIONS, name)).to_dict()
        schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        versions = schema["properties"]["spec"]["properties"]["versions"]
        pattern = "^v[1-9][0-9]*([a-z]+[1-9][0-9]*)?$"
        versions["items"]["properties"]["name"]["pattern"] = pattern
        await provider.update(CUSTOMRESOURCEDEFINITIONS, crd)
    request = asking({**RESOURCES[0], "versions": ["v1", "v1storage"]})
    message = "allow no version v1storage: ask .* to upgrade" if former else "controllers run"
    lines: list[str] = []
    with pytest.raises(BindError, match=message):
        await bind(client, answer(there, requests=[request]), timeout=0.3, progress=lines.append)
    assert ("requested db from the provider" in lines) is not former


async def refused(client: Client) -> None:
    await offered(client, APISERVICEEXPORTREQUESTS, "db", RESOURCES, WIDER)
    await decide(client, phase="Failed", terminalMessage="never")


async def export_deleted(client: Client) -> None:
    await offered(client, APISERVICEEXPORTREQUESTS, "db", RESOURCES, CLAIMS)
    await decide(client, phase="Succeeded")


@pytest.mark.parametrize("before", [refused, export_deleted])
async def test_a_request_that_leads_to_nothing_any_more_is_made_anew(
    client: Client, provider: Client, there: Sandbox, before: Callable[[Client], Awaitable[None]]
) -> None:
    await before(provider)
    old = await provider.get(APISERVICEEXPORTREQUESTS, "db", "cluster-abc")

    async def answered() -> None:
        new = old
        async with asyncio.timeout(SECONDS):
            while new.meta.uid == old.meta.uid:
                await asyncio.sleep(0.01)
                with suppress(NotFound):
                    new = await provider.get(APISERVICEEXPORTREQUESTS, "db", "cluster-abc")
        (claim,) = new.to_dict()["spec"]["permissionClaims"]
        assert claim["selector"]["namedResources"]
        await export(provider, RESOURCES, CLAIMS)
        await decide(provider, phase="Succeeded")

    task = asyncio.create_task(answered())
    await bound(client, answer(there))
    await task
    assert await names(client) == {"db"}


@pytest.mark.parametrize(
    ("claims", "before", "remedy"),
    [
        pytest.param(CLAIMS, False, "bind it with --name old, or ask", id="unbound"),
        pytest.param(WIDER, False, "APIServiceExport old: ask the provider", id="others"),
        pytest.param(CLAIMS, True, "run `fairlead unbind old`, and ask", id="bound"),
    ],
)
async def test_what_is_exported_under_another_name_is_told_before_anything_is_asked_for(
    client: Client,
    provider: Client,
    there: Sandbox,
    claims: list[JSON],
    remedy: str,
    *,
    before: bool,
) -> None:
    if before:
        await export(provider, RESOURCES, CLAIMS, name="old")
        await bound(client, answer(there), name="old")
    else:
        await export(provider, RESOURCES, claims, name="old")
    with pytest.raises(BindError, match="to this cluster already") as caught:
        await bind(client, answer(there), name="new", timeout=SECONDS)
    assert remedy in str(caught.value)
    assert "namespace cluster-abc" in str(caught.value)
    assert (await provider.list(APISERVICEEXPORTREQUESTS, "cluster-abc")).items == []
    roles = [role.meta.name for role in (await client.list(CLUSTERROLES)).items]
    assert "kube-bind-konnector-new" not in roles


@pytest.mark.parametrize(
    ("kind", "resources", "claims", "message"),
    [
        pytest.param(
            APISERVICEEXPORTS, OTHERS, CLAIMS, "has the resources others.example.org", id="export"
        ),
        pytest.param(
            APISERVICEEXPORTREQUESTS,
            OTHERS,
            CLAIMS,
            "has the resources others.example.org",
            id="request",
        ),
        pytest.param(
            APISERVICEEXPORTREQUESTS, RESOURCES, WIDER, "claims other objects than", id="claims"
        ),
    ],
)
async def test_a_name_that_the_provider_uses_for_something_else_gets_a_number(
    client: Client,
    provider: Client,
    there: Sandbox,
    kind: Resource,
    resources: list[JSON],
    claims: list[JSON],
    message: str,
) -> None:
    await offered(provider, kind, "db", resources, claims)
    await export(provider, RESOURCES, CLAIMS, name="db-2")
    lines = await bound(client, answer(there))
    (told,) = [line for line in lines if "taken" in line]
    assert message in told
    assert told.endswith("using db-2")
    assert await names(client) == {"db-2"}
    roles = [role.meta.name for role in (await client.list(CLUSTERROLES)).items]
    assert "kube-bind-konnector-db-2" in roles
    assert "kube-bind-konnector-db" not in roles


async def test_an_export_of_something_else_than_was_asked_for_is_not_bound(
    client: Client, provider: Client, there: Sandbox
) -> None:
    """The provider answers a request with an export that claims more."""

    async def cheat() -> None:
        await decide(provider)
        await export(provider, RESOURCES, WIDER)
        await decide(provider, phase="Succeeded")

    task = asyncio.create_task(cheat())
    with pytest.raises(BindError, match="claims other objects than the invitation"):
        await bind(client, answer(there), timeout=SECONDS)
    await task
    assert await names(client) == set()


def missing(found: Object | None) -> str:
    return "it is there" if found is not None else ""


async def use_another_secret(client: Client) -> None:
    found = (await client.get(APISERVICEBINDINGS, "db")).to_dict()
    await client.delete(APISERVICEBINDINGS, "db")
    await wait_for(
        client, CUSTOMRESOURCEDEFINITIONS, "things.example.org", until=missing, timeout=SECONDS
    )
    found["spec"]["kubeconfigSecretRef"]["name"] = "other"
    found["metadata"] = {"name": "db"}
    await client.create(APISERVICEBINDINGS, found)


async def delete_held(client: Client) -> None:
    held = {"metadata": {"finalizers": ["example.org/held"]}}
    await client.merge_patch(APISERVICEBINDINGS, "db", "", held)
    await client.delete(APISERVICEBINDINGS, "db")


async def test_a_binding_that_is_being_deleted_is_waited_for(
    client: Client, provider: Client, there: Sandbox
) -> None:
    await export(provider, RESOURCES, CLAIMS)
    await bound(client, answer(there))
    await delete_held(client)
    role = await client.get(CLUSTERROLES, "kube-bind-konnector-db")
    await client.merge_patch(CLUSTERROLES, role.meta.name, "", {"rules": []})
    with pytest.raises(BindError, match="APIServiceBinding db is being deleted"):
        await bind(client, answer(there), timeout=SECONDS)
    assert not (await client.get(CLUSTERROLES, role.meta.name)).to_dict().get("rules")
    assert await names(client) == {"db"}


async def test_an_export_that_is_being_deleted_is_waited_for(
    client: Client, provider: Client, there: Sandbox
) -> None:
    await export(provider, RESOURCES, CLAIMS)
    held = {"metadata": {"finalizers": ["example.org/held"]}}
    await provider.merge_patch(APISERVICEEXPORTS, "db", "cluster-abc", held)
    await provider.delete(APISERVICEEXPORTS, "db", "cluster-abc")
    with pytest.raises(BindError, match="APIServiceExport db is being deleted"):
        await bind(client, answer(there), timeout=SECONDS)


async def test_a_request_that_is_being_deleted_is_waited_for(
    client: Client, provider: Client, there: Sandbox
) -> None:
    await refused(provider)
    held = {"metadata": {"finalizers": ["example.org/held"]}}
    await provider.merge_patch(APISERVICEEXPORTREQUESTS, "db", "cluster-abc", held)
    with pytest.raises(BindError, match="APIServiceExportRequest db is being deleted"):
        await bind(client, answer(there), timeout=SECONDS)


async def test_a_binding_of_another_provider_keeps_its_name_and_its_rights(
    client: Client, provider: Client, there: Sandbox
) -> None:
    await export(provider, RESOURCES, CLAIMS)
    await bound(client, answer(there))
    await use_another_secret(client)
    role = await client.get(CLUSTERROLES, "kube-bind-konnector-db")
    await client.merge_patch(CLUSTERROLES, role.meta.name, "", {"rules": []})
    await provider.delete(APISERVICEEXPORTS, "db", "cluster-abc")
    await export(provider, RESOURCES, CLAIMS, name="db-2")
    lines = await bound(client, answer(there), but="db")
    assert (
        "the name db is taken (APIServiceBinding db uses another kubeconfig Secret): using db-2"
        in lines
    )
    assert await names(client) == {"db", "db-2"}
    assert not (await client.get(CLUSTERROLES, role.meta.name)).to_dict().get("rules")


async def test_the_name_of_the_first_time_is_found_again(
    client: Client, provider: Client, there: Sandbox
) -> None:
    """Even when the name that was wanted has become free meanwhile."""
    await export(provider, OTHERS, CLAIMS)
    await export(provider, RESOURCES, CLAIMS, name="db-2")
    await bound(client, answer(there))
    written = {item.meta.name: item.raw for item in (await client.list(CLUSTERROLES)).items}
    await provider.delete(APISERVICEEXPORTS, "db", "cluster-abc")
    lines = await bound(client, answer(there))
    assert [line for line in lines if "created" in line or "updated" in line] == []
    assert "it is already bound as db-2: using that name" in lines
    assert await names(client) == {"db-2"}
    again = {item.meta.name: item.raw for item in (await client.list(CLUSTERROLES)).items}
    assert again == written


async def test_a_name_of_ones_own_is_that_of_the_request_too(
    client: Client, provider: Client, there: Sandbox
) -> None:
    async with stopped(bind(client, answer(there), name="mine", timeout=SECONDS)):
        request = await decide(provider, "mine")
    assert request.to_dict()["spec"]["resources"] == RESOURCES
    await export(provider, RESOURCES, CLAIMS, name="mine")
    await bound(client, answer(there), name="mine")
    assert await names(client) == {"mine"}


@pytest.mark.parametrize(
    ("requests", "name", "message"),
    [
        pytest.param(2, "mine", "has several: db, db", id="several-requests"),
        pytest.param(1, "Not/aName", "cannot be the name of an object", id="no-name"),
    ],
)
async def test_names_that_cannot_be_given(
    there: Sandbox, requests: int, name: str, message: str
) -> None:
    request = asking(RESOURCES[0])
    with pytest.raises(ValueError, match=message):
        with_name(answer(there, requests=[request] * requests), name)


def test_a_name_that_the_provider_has_chosen_for_the_binding_is_used(there: Sandbox) -> None:
    response = msgspec.structs.replace(answer(there), binding_name="chosen")
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
    client: Client, provider: Client, there: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.konnector.commands.names.ATTEMPTS", 2)
    await export(provider, OTHERS, CLAIMS)
    await export(provider, OTHERS, CLAIMS, name="db-2")
    with pytest.raises(BindError, match=r"all names from db to db-2 are taken; .* --name"):
        await bind(client, answer(there), timeout=SECONDS)


async def test_what_binding_writes_and_that_it_says_so(
    client: Client, provider: Client, there: Sandbox
) -> None:
    crd = APISERVICEBINDINGS.group_resource
    await client.delete(CUSTOMRESOURCEDEFINITIONS, crd)
    await wait_for(
        client,
        CUSTOMRESOURCEDEFINITIONS,
        crd,
        until=lambda one: "there" if one else "",
        timeout=SECONDS,
    )
    await export(provider, RESOURCES, CLAIMS)
    lines = await bound(client, answer(there))
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
    assert "token" not in " ".join(lines)


async def test_a_role_that_was_narrowed_is_restored(
    client: Client, provider: Client, there: Sandbox
) -> None:
    await export(provider, RESOURCES, CLAIMS)
    await bound(client, answer(there))
    name = "kube-bind-konnector-db"
    before = (await client.get(CLUSTERROLES, name)).to_dict()
    await client.update(CLUSTERROLES, {**before, "rules": []})
    lines = await bound(client, answer(there))
    assert f"updated ClusterRole {name}" in lines
    assert (await client.get(CLUSTERROLES, name)).to_dict()["rules"] == before["rules"]


@pytest.mark.parametrize("works", [True, False])
async def test_newer_credentials_in_the_secret_are_kept_if_they_work(
    client: Client, provider: Client, there: Sandbox, *, works: bool
) -> None:
    await export(provider, RESOURCES, CLAIMS)
    await bound(client, answer(there))
    (stored,) = (await client.list(SECRETS, "kube-bind")).items
    newer = (anonymous(there) if works else kubeconfig(there.url)) + "# newer"
    data = {"stringData": {"kubeconfig": newer, "other": "kept"}}
    kept = await client.merge_patch(SECRETS, stored.meta.name, "kube-bind", data)
    await bound(client, answer(there))
    found = (await client.get(SECRETS, stored.meta.name, "kube-bind")).to_dict()["data"]
    assert (found["kubeconfig"] == kept.to_dict()["data"]["kubeconfig"]) == works
    assert found["other"] == kept.to_dict()["data"]["other"]


@pytest.mark.parametrize("leads", ["here", "elsewhere"])
async def test_what_the_originals_kubectl_bind_has_bound_is_found_again(
    client: Client, provider: Client, there: Sandbox, leads: str
) -> None:
    await export(provider, RESOURCES, CLAIMS)
    marked = {"kube-bind.io/provider-kubeconfig": "true"}
    content = anonymous(there)
    if leads == "elsewhere":
        content = content.replace("cluster-abc", "cluster-xyz")
    secret = {"metadata": {"name": "kubeconfig-x7k2p", "labels": marked}}
    await client.create(SECRETS, secret | {"stringData": {"kubeconfig": content}}, "kube-bind")
    await bound(client, answer(there))
    names = {found.meta.name for found in (await client.list(SECRETS, "kube-bind")).items}
    assert (names == {"kubeconfig-x7k2p"}) == (leads == "here")
    binding = (await client.get(APISERVICEBINDINGS, "db")).to_dict()
    used = binding["spec"]["kubeconfigSecretRef"]["name"]
    assert (used == "kubeconfig-x7k2p") == (leads == "here")


async def test_a_bind_that_no_konnector_picks_up_leaves_nothing(
    client: Client, provider: Client, there: Sandbox
) -> None:
    await export(provider, RESOURCES, CLAIMS)
    lines: list[str] = []
    with pytest.raises(BindError, match=r"\(waited 0.5 s\): there is no sign of a konnector"):
        await bind(client, answer(there), timeout=0.5, progress=lines.append)
    assert "created ClusterRole kube-bind-konnector-db" in lines
    (early,) = [line for line in lines if line.startswith("no konnector has picked it up yet")]
    assert "start `fairlead konnector run`" in early
    assert await written(client) == set()
    assert await bound(client, answer(there))


STEPS = ["Secret", *4 * ["ClusterRole"], "APIServiceBinding"]


@contextmanager
def failing(
    client: Client, monkeypatch: pytest.MonkeyPatch, step: int, error: BaseException
) -> Iterator[None]:
    """Let the so-manieth creation in the consumer's cluster end so, after it has happened."""
    create, count = client.create, 0

    async def created(resource: Resource, *args: Any, **more: Any) -> Object:
        nonlocal count
        made = await create(resource, *args, **more)
        if resource.kind in STEPS:
            count += 1
            if count == step:
                raise error
        return made

    with monkeypatch.context() as patched:
        patched.setattr(client, "create", created)
        yield


@pytest.mark.parametrize("step", range(1, len(STEPS) + 1))
@pytest.mark.parametrize("error", [ServerError, asyncio.CancelledError], ids=["500", "stopped"])
async def test_wherever_a_bind_ends_it_is_taken_back(
    client: Client,
    provider: Client,
    there: Sandbox,
    monkeypatch: pytest.MonkeyPatch,
    step: int,
    error: type[BaseException],
) -> None:
    await export(provider, RESOURCES, CLAIMS)
    fault = ServerError(Status(message="broken")) if error is ServerError else error()
    with failing(client, monkeypatch, step, fault), pytest.raises(error):
        await bind(client, answer(there), timeout=SECONDS)
    assert await written(client) == set()


class KilledError(BaseException):
    """Nothing can be done after this."""


@pytest.mark.parametrize("step", range(1, len(STEPS) + 1))
@pytest.mark.parametrize("then", ["bound", "failed"])
async def test_what_a_killed_bind_has_left_is_of_use_to_the_next_or_goes_with_it(
    client: Client,
    provider: Client,
    there: Sandbox,
    monkeypatch: pytest.MonkeyPatch,
    step: int,
    then: str,
) -> None:
    await export(provider, RESOURCES, CLAIMS)
    with monkeypatch.context() as patched:
        patched.setattr(undo, "_take_back", killed)
        with failing(client, monkeypatch, step, KilledError()), pytest.raises(KilledError):
            await bind(client, answer(there), timeout=SECONDS)
    assert len(await written(client)) == step
    if then == "failed":
        with pytest.raises(BindError, match="no konnector"):
            await bind(client, answer(there), timeout=0.3)
        assert await written(client) == set()
    else:
        await bound(client, answer(there))
        assert len(await written(client)) == len(STEPS)


async def killed(*_args: object) -> None:
    raise KilledError


async def test_what_works_already_outlives_a_bind_that_fails(
    client: Client, provider: Client, there: Sandbox
) -> None:
    """The binding is broken, its objects are there: they are worth more than tidiness."""
    await export(provider, RESOURCES, CLAIMS)
    await bound(client, answer(there))
    before = await written(client)
    broken = {"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "No"}]}}
    await client.merge_patch(APISERVICEBINDINGS, "db", "", broken, subresource="status")
    name = "kube-bind-konnector-db"
    narrow = await client.merge_patch(CLUSTERROLES, name, "", {"rules": []})
    with pytest.raises(BindError, match="not ready: No"):
        await bind(client, answer(there), timeout=0.3)
    assert await written(client) == before
    role = await client.get(CLUSTERROLES, name)
    assert role.to_dict().get("rules") == narrow.to_dict().get("rules")


async def test_objects_that_were_created_meanwhile_keep_their_binding(
    client: Client, provider: Client, there: Sandbox
) -> None:
    await export(provider, RESOURCES, CLAIMS)
    lines: list[str] = []

    async def used() -> None:
        """The konnector makes the CRD and then is unwell; somebody creates an object."""
        async with asyncio.timeout(SECONDS):
            await live(client, await first(client))
            broken = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
            await client.merge_patch(APISERVICEBINDINGS, "db", "", broken, subresource="status")
            body = {"apiVersion": "example.org/v1", "kind": "Thing", "metadata": {"name": "a"}}
            await wait_for(
                client,
                CUSTOMRESOURCEDEFINITIONS,
                "things.example.org",
                until=lambda crd: "" if crd is not None and established(crd) else "no",
                timeout=SECONDS,
            )
            await client.create(THINGS, body, "default")

    async with stopped(bind(client, answer(there), timeout=SECONDS, progress=lines.append)):
        await used()
    assert (await client.list(THINGS)).items
    assert "kube-bind-konnector-db" in await written(client)
    assert any("1 object was created meanwhile: `fairlead unbind db`" in line for line in lines)


async def hold(client: Client) -> Object:
    """Be a konnector that has work to do before the binding may go."""
    await first(client)
    held = {"metadata": {"finalizers": ["kubebind.io/unbind"]}}
    return await client.merge_patch(APISERVICEBINDINGS, "db", "", held)


async def test_a_binding_that_a_konnector_holds_is_waited_for_before_its_rights_go(
    client: Client, provider: Client, there: Sandbox
) -> None:
    """The konnector needs them, to let go in order."""
    await export(provider, RESOURCES, CLAIMS)
    seen: set[str] = set()

    async def let_go(found: Object) -> None:
        async with asyncio.timeout(SECONDS):
            while not found.meta.deleting:
                await asyncio.sleep(0.01)
                found = await client.get(APISERVICEBINDINGS, "db")
            seen.update(await written(client))
            await client.merge_patch(
                APISERVICEBINDINGS, "db", "", {"metadata": {"finalizers": None}}
            )

    async with stopped(bind(client, answer(there), timeout=SECONDS)):
        task = asyncio.create_task(let_go(await hold(client)))
    await task
    assert "kube-bind-konnector-db" in seen
    assert await written(client) == set()


async def test_a_konnector_that_does_not_let_go_keeps_its_rights(
    client: Client, provider: Client, there: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(undo, "LET_GO_SECONDS", 0.1)
    await export(provider, RESOURCES, CLAIMS)
    lines: list[str] = []

    async with stopped(bind(client, answer(there), timeout=SECONDS, progress=lines.append)):
        await hold(client)
    assert {"db", "kube-bind-konnector-db"} <= await written(client)
    assert any("run `fairlead unbind db` again to go on waiting" in line for line in lines)


@pytest.mark.parametrize("readable", [True, False], ids=["ClusterBinding", "kube-system"])
async def test_the_providers_own_cluster_is_refused(
    provider: Client, there: Sandbox, *, readable: bool
) -> None:
    await export(provider, RESOURCES, CLAIMS)
    if not readable:
        await provider.delete(CLUSTERBINDINGS, "cluster", "cluster-abc")
    with pytest.raises(BindError, match="this cluster is the provider's own"):
        await bind(provider, answer(there), timeout=SECONDS)
    crds = {found.meta.name for found in (await provider.list(CUSTOMRESOURCEDEFINITIONS)).items}
    assert APISERVICEBINDINGS.group_resource not in crds


@pytest.mark.parametrize(
    ("owner", "message"),
    [
        pytest.param(None, "belongs to no binding: delete it", id="nobody's"),
        pytest.param("other", r"an unknown provider .*: `fairlead unbind other`", id="other"),
    ],
)
async def test_a_crd_that_is_somebody_elses_is_told_before_anything_is_asked_for(
    client: Client, provider: Client, there: Sandbox, owner: str | None, message: str
) -> None:
    reference = None
    if owner:
        found = await client.create(APISERVICEBINDINGS, binding_body(owner))
        reference = found.owner_reference(controller=True)
    await client.create(CUSTOMRESOURCEDEFINITIONS, things(reference))
    before = await written(client)
    with pytest.raises(BindError, match=message):
        await bind(client, answer(there), timeout=SECONDS)
    assert await written(client) == before
    assert (await provider.list(APISERVICEEXPORTREQUESTS, "cluster-abc")).items == []


@pytest.mark.parametrize(
    ("server", "namespace", "told"),
    [
        pytest.param("", "cluster-xyz", "this same provider, with another invitation", id="same"),
        pytest.param("http://els.example", "cluster-abc", "another provider, http", id="other"),
    ],
)
async def test_a_second_invitation_of_a_provider_is_known_as_such(
    client: Client, provider: Client, there: Sandbox, server: str, namespace: str, told: str
) -> None:
    text = anonymous(there).replace("cluster-abc", namespace)
    if server:
        text = text.replace(there.url, server)
    ref = binding_body("other")["spec"]["kubeconfigSecretRef"]
    secret = {
        "metadata": {"name": ref["name"], "namespace": ref["namespace"]},
        "stringData": {ref["key"]: text},
    }
    await client.create(SECRETS, secret)
    found = await client.create(APISERVICEBINDINGS, binding_body("other"))
    await client.create(CUSTOMRESOURCEDEFINITIONS, things(found.owner_reference(controller=True)))
    with pytest.raises(BindError, match=f"binds it from {told}") as caught:
        await bind(client, answer(there), timeout=SECONDS)
    # One consumer of two servers may be one provider that was restored elsewhere.
    moved = f"to Secret {ref['namespace']}/{ref['name']}, key {ref['key']}, instead"
    assert (moved in str(caught.value)) is (namespace == "cluster-abc")


async def test_an_answer_without_requests_says_what_to_do(
    client: Client, provider: Client, there: Sandbox
) -> None:
    with pytest.raises(BindError, match=r"--request FILE, .* --bundle"):
        await bind(client, answer(there, requests=[]), timeout=SECONDS)


@pytest.mark.parametrize("asked", [True, False], ids=["and-a-request", "alone"])
async def test_a_bundle_binds_what_is_exported_and_rights_are_for_what_was_asked_for(
    client: Client, provider: Client, there: Sandbox, *, asked: bool
) -> None:
    await export(provider, RESOURCES, CLAIMS)
    await export(provider, OTHERS, CLAIMS, name="more")
    lines: list[str] = []

    async def be_bundler() -> None:
        while True:
            for found in (await client.list(APISERVICEBINDINGBUNDLES)).items:
                for name in ("db", "more"):
                    owner = msgspec.to_builtins(found.owner_reference(controller=True))
                    body = binding_body(name)
                    body["metadata"]["ownerReferences"] = [owner]
                    body["spec"] = found.to_dict()["spec"]
                    with suppress(AlreadyExists):
                        await client.create(APISERVICEBINDINGS, body)
                status = {"conditions": [{"type": "Synced", "status": "True"}]}
                await client.merge_patch(
                    APISERVICEBINDINGBUNDLES,
                    found.meta.name,
                    "",
                    {"status": status},
                    subresource="status",
                )
            await asyncio.sleep(0.01)

    tasks = [asyncio.create_task(be_bundler()), asyncio.create_task(be_konnector(client))]
    response = answer(there) if asked else answer(there, requests=[])
    try:
        name, names_ = await bind_bundle(client, response, timeout=SECONDS, progress=lines.append)
    finally:
        for task in tasks:
            task.cancel()
    assert (name, names_) == ("cluster-abc", ["db", "more"])
    roles = {one for one in await written(client) if one.startswith("kube-bind-konnector")}
    assert roles == ({"kube-bind-konnector-db"} if asked else set())
    told = [line for line in lines if "fairlead accept" in line]
    assert len(told) == (1 if asked else 2)


async def test_a_bundle_that_no_konnector_works_on_is_taken_back(
    client: Client, provider: Client, there: Sandbox
) -> None:
    await export(provider, RESOURCES, CLAIMS)
    with pytest.raises(BindError, match="APIServiceBindingBundle mine: no konnector has picked"):
        await bind_bundle(client, answer(there), name="mine", timeout=0.4)
    assert await written(client) == set()


async def test_a_server_that_hangs_ends_with_the_timeout(
    client: Client, provider: Client, there: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.konnector.commands.readiness._LAST_WORD_SECONDS", 0.1)
    there.faults.delay(60, "list", APISERVICEEXPORTS.plural)
    with pytest.raises(BindError, match=r"asking the provider for db: no answer within 0\.2 s"):
        await bind(client, answer(there), timeout=0.2)


WEBHOOK = "https://convert.example.org/things"


async def brings(provider: Client, url: str) -> None:
    """An export of things whose schema names a conversion webhook."""
    await export(provider, RESOURCES, CLAIMS)
    schema = things()["spec"]
    webhook = {"clientConfig": {"url": url}, "conversionReviewVersions": ["v1"]}
    body = {
        "apiVersion": BOUNDSCHEMAS.api_version,
        "kind": BOUNDSCHEMAS.kind,
        "metadata": {"name": "things.example.org", "namespace": "cluster-abc"},
        "spec": {
            **schema,
            "informerScope": "Namespaced",
            "conversion": {"strategy": "Webhook", "webhook": webhook},
        },
    }
    await provider.create(BOUNDSCHEMAS, body)


@pytest.mark.parametrize(
    ("named", "accepted", "message"),
    [
        pytest.param(WEBHOOK, [], f"give --conversion-webhook {WEBHOOK}", id="asked"),
        pytest.param(
            WEBHOOK, ["https://other.org"], f"give --conversion-webhook {WEBHOOK}", id="other"
        ),
        pytest.param(
            WEBHOOK,
            [WEBHOOK, "https://other.org"],
            f"those of the provider are {WEBHOOK}",
            id="one-more",
        ),
        pytest.param(
            "https://10.0.0.7",
            ["https://10.0.0.7"],
            "--conversion-allow-cidr allows",
            id="private",
        ),
        pytest.param(
            "https://169.254.169.254", ["https://169.254.169.254"], "metadata service", id="never"
        ),
    ],
)
async def test_a_conversion_webhook_that_is_not_accepted_is_told_before_anything_is_written(
    client: Client,
    provider: Client,
    there: Sandbox,
    named: str,
    accepted: list[str],
    message: str,
) -> None:
    await brings(provider, named)
    with pytest.raises(BindError) as refused:
        await bind(
            client, answer(there), timeout=SECONDS, webhooks=AcceptedWebhooks(tuple(accepted))
        )
    assert message in str(refused.value)
    assert await written(client) == set()


async def test_an_accepted_conversion_webhook_is_recorded_and_can_be_withdrawn(
    client: Client, provider: Client, there: Sandbox
) -> None:
    await brings(provider, WEBHOOK)
    lines: list[str] = []
    konnector = asyncio.create_task(be_konnector(client))
    try:
        await bind(
            client,
            answer(there),
            timeout=SECONDS,
            progress=lines.append,
            webhooks=AcceptedWebhooks((WEBHOOK,)),
        )
    finally:
        konnector.cancel()
    assert any("You trust host convert.example.org" in line for line in lines)
    assert f"accepted webhook {WEBHOOK} for things.example.org" in lines

    async def recorded() -> Any:
        found = await client.get(APISERVICEBINDINGS, "db")
        return found.decode(APIServiceBinding).status.conversion_webhooks

    known = ConversionWebhook(group="example.org", resource="things", url=WEBHOOK)
    assert await recorded() == [known]
    # Again, by accept and by bind: nothing is asked any more.
    await accept(client, "db", timeout=SECONDS, webhooks=AcceptedWebhooks((WEBHOOK,)))
    await accept(client, "db", timeout=SECONDS)
    await bind(client, answer(there), timeout=SECONDS)
    assert await recorded() == [known]
    with pytest.raises(BindError, match=r"other\.org: the accepted ones are https://convert"):
        await remove_webhooks(client, "db", ["https://other.org"])
    with pytest.raises(BindError, match="shop"):
        await remove_webhooks(client, "shop", [WEBHOOK])
    await remove_webhooks(client, "db", [WEBHOOK])
    assert await recorded() == []


async def test_a_record_that_the_crd_has_no_place_for_is_told(
    client: Client, provider: Client, there: Sandbox
) -> None:
    """The konnector of a former version has installed its CRDs."""
    name = APISERVICEBINDINGS.group_resource
    crd = (await client.get(CUSTOMRESOURCEDEFINITIONS, name)).to_dict()
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    del schema["properties"]["status"]["properties"]["conversionWebhooks"]
    await client.update(CUSTOMRESOURCEDEFINITIONS, crd)
    await brings(provider, WEBHOOK)
    with pytest.raises(BindError, match="is too old to record accepted webhooks"):
        await bind(client, answer(there), timeout=SECONDS, webhooks=AcceptedWebhooks((WEBHOOK,)))
    assert await written(client) == set()
