"""What the sandbox has of its own about admission webhooks; the rest is in tests/contract."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.contract.support import configmap
from tests.support.waiting import when
from tests.support.webhooks import (
    MUTATING,
    VALIDATING,
    WebhookServer,
    add,
    configuration,
    deny,
    patch,
    rule,
)

from fairlead.api.meta import JSON
from fairlead.api.resource import (
    CONFIGMAPS,
    ENDPOINTS,
    NAMESPACES,
    SERVICEACCOUNTS,
    SERVICES,
)
from fairlead.client import ApiError, Client, Invalid, parse_kubeconfig
from fairlead_sandbox import Sandbox
from fairlead_sandbox.http import webhooks as caller
from fairlead_sandbox.requests import attempts


@pytest.fixture
async def client(sandbox: Sandbox) -> AsyncIterator[Client]:
    async with Client(parse_kubeconfig(sandbox.kubeconfig())) as made:
        yield made


@pytest.fixture
async def hooks() -> AsyncIterator[WebhookServer]:
    async with WebhookServer() as server:
        yield server


def by_service(hooks: WebhookServer, **more: Any) -> JSON:
    service = {"name": "hooks", "namespace": "default", "path": "/one", **more}
    return hooks.hook("/one", clientConfig={"service": service, "caBundle": hooks.bundle})


async def refusal(client: Client, hook: JSON) -> str:
    await client.create(VALIDATING, {"metadata": {"name": "a"}, "webhooks": [hook]})
    with pytest.raises(ApiError) as caught:
        await client.create(CONFIGMAPS, configmap("a"), "default")
    return caught.value.message


async def test_a_service_is_where_its_endpoints_are(client: Client, hooks: WebhookServer) -> None:
    ports = [{"name": "web", "port": 8443, "targetPort": "https"}]
    await client.create(
        SERVICES, {"metadata": {"name": "hooks"}, "spec": {"ports": ports}}, "default"
    )
    subset = {"addresses": [{"ip": "127.0.0.1"}], "ports": [{"name": "web", "port": hooks.port}]}
    await client.create(ENDPOINTS, {"metadata": {"name": "hooks"}, "subsets": [subset]}, "default")
    hook = by_service(hooks, port=8443)
    hooks.reviews["/one"] = deny(message="seen")
    assert "denied the request: seen" in await refusal(client, hook)


async def test_a_service_is_where_its_external_name_is(
    client: Client, hooks: WebhookServer
) -> None:
    spec = {"type": "ExternalName", "externalName": "127.0.0.1"}
    await client.create(SERVICES, {"metadata": {"name": "hooks"}, "spec": spec}, "default")
    hooks.reviews["/one"] = deny(message="seen")
    assert "denied the request: seen" in await refusal(client, by_service(hooks, port=hooks.port))


async def test_the_certificate_must_be_for_the_service(
    client: Client, hooks: WebhookServer
) -> None:
    spec = {"type": "ExternalName", "externalName": "127.0.0.1"}
    await client.create(SERVICES, {"metadata": {"name": "other"}, "spec": spec}, "default")
    message = await refusal(client, by_service(hooks, name="other", port=hooks.port))
    assert f'Post "https://other.default.svc:{hooks.port}/one?timeout=10s": tls: failed' in message
    assert hooks.seen == []


async def test_a_service_that_leads_nowhere(client: Client, hooks: WebhookServer) -> None:
    hook = by_service(hooks)
    assert 'service "hooks" not found' in await refusal(client, hook)
    await client.create(
        SERVICES, {"metadata": {"name": "hooks"}, "spec": {"ports": [{"port": 443}]}}, "default"
    )
    with pytest.raises(ApiError, match='no endpoints available for service "hooks"'):
        await client.create(CONFIGMAPS, configmap("a"), "default")


async def test_a_bundle_that_is_none_is_refused(client: Client, hooks: WebhookServer) -> None:
    hook = hooks.hook("/one", clientConfig={"url": hooks.url, "caBundle": "YQ=="})
    with pytest.raises(Invalid, match=r"clientConfig.caBundle: Invalid value: .*as PEM block"):
        await client.create(VALIDATING, {"metadata": {"name": "a"}, "webhooks": [hook]})


async def test_what_the_control_plane_writes_is_not_asked_about(
    client: Client, hooks: WebhookServer
) -> None:
    every = {**rule("*", resources="*/*"), "apiGroups": ["*"], "apiVersions": ["*"]}
    hook = hooks.hook("/one", rules=[every])
    await client.create(VALIDATING, {"metadata": {"name": "a"}, "webhooks": [hook]})
    await client.create(NAMESPACES, {"metadata": {"name": "new"}})
    await when(client, SERVICEACCOUNTS, "default", "new", until=bool)
    await client.delete(NAMESPACES, "new")
    await when(client, NAMESPACES, "new", until=lambda body: not body)
    assert [(asked["operation"], asked["name"]) for _, asked in hooks.seen] == [
        ("CREATE", "new"),
        ("DELETE", "new"),
    ]


async def test_a_write_has_so_much_time_for_all_its_webhooks(
    client: Client, hooks: WebhookServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "SECONDS", 0.2)

    async def hang(request: JSON) -> JSON:
        await asyncio.Event().wait()
        return {}

    message = await refusal(client, hooks.hook("/one", hang, timeoutSeconds=30))
    assert message == "Timeout: request did not complete within requested timeout 0.2s"


async def test_an_answer_has_so_many_bytes(
    client: Client, hooks: WebhookServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caller, "MOST_BYTES", 1000)
    hook = hooks.hook("/one", deny(message="x" * 2000))
    assert "the answer has more than 1000 bytes" in await refusal(client, hook)


async def test_a_changed_configuration_counts_at_once(
    client: Client, hooks: WebhookServer
) -> None:
    hook = hooks.hook("/one", deny(message="no"))
    await refusal(client, hook)
    await client.merge_patch(VALIDATING, "a", "", {"webhooks": [{**hook, "rules": []}]})
    await client.create(CONFIGMAPS, configmap("a"), "default")
    await client.delete(VALIDATING, "a")
    assert len(hooks.seen) == 1


async def test_what_a_patch_may_not_make_of_an_object(
    client: Client, hooks: WebhookServer
) -> None:
    bad = [
        patch({"op": "replace", "path": "", "value": []}),
        patch({"op": "replace", "path": "/metadata", "value": None}),
        patch({"op": "replace", "path": "/data", "value": 7}),
        patch(add("/metadata/namespace", "other")),
        patch({"op": "replace", "path": "/kind", "value": "Secret"}),
        patch({"op": "odd", "path": "/"}),
        patch({"path": 7}),
    ]
    hook = hooks.hook("/one")
    body = configuration(MUTATING, "a", "none", [hook])
    del body["webhooks"][0]["namespaceSelector"]
    await client.create(MUTATING, body)
    for review in bad:
        hooks.reviews["/one"] = review
        with pytest.raises(ApiError):
            await client.create(CONFIGMAPS, configmap("a"), "default")
    hooks.reviews["/one"] = patch()
    await client.create(CONFIGMAPS, configmap("a"), "default")
