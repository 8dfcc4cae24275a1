"""Requests without end are refused, and a second consumer beside them gets what it asks for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
from tests.support.consumers import Consumer, consumer
from tests.support.planes import ControlPlane
from tests.support.provider import prepare, request_export, request_namespace, running
from tests.support.waiting import SECONDS, condition, gone

from fairlead.api.kubebind import (
    APISERVICEEXPORTREQUESTS,
    APISERVICEEXPORTS,
    APISERVICENAMESPACES,
    BOUNDSCHEMAS,
)
from fairlead.api.meta import JSON
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS, NAMESPACES
from fairlead.client import Client, Invalid, parse_kubeconfig
from fairlead.provider.app import install_crds
from fairlead.provider.options import ProviderOptions


@pytest.fixture
async def admin(control_plane: ControlPlane) -> AsyncIterator[Client]:
    async with Client(parse_kubeconfig(control_plane.kubeconfig())) as client:
        await prepare(client, exports=["widgets.example.org"])
        yield client


def greedy(request: JSON, name: str, **spec: list[JSON]) -> JSON:
    return request | {"metadata": {"name": name}, "spec": request["spec"] | spec}


MANY_NAMESPACES = [{"name": f"n{number}"} for number in range(101)]


@pytest.mark.edge
async def test_the_server_refuses_a_request_that_asks_for_too_much(
    admin: Client, stack: AsyncExitStack
) -> None:
    team = await consumer(stack, admin)
    request = team.response["requests"][0]
    resources = request["spec"]["resources"] * 65
    for spec in ({"namespaces": MANY_NAMESPACES}, {"resources": resources}):
        with pytest.raises(Invalid):
            await request_export(team.client, team.namespace, greedy(request, "greedy", **spec))


async def test_requests_of_older_versions_are_refused_and_keep_nobody_waiting(
    admin: Client, stack: AsyncExitStack
) -> None:
    team, neighbour = await consumer(stack, admin), await consumer(stack, admin)
    request = team.response["requests"][0]
    (one,) = request["spec"]["resources"]
    asked = {
        "TooManyResources": greedy(request, "many", resources=[one] * 5000),
        "DuplicateResource": greedy(request, "twice", resources=[one, one]),
        "TooManyNamespaces": greedy(request, "spaces", namespaces=MANY_NAMESPACES),
    }
    await _unbounded(admin)
    for body in asked.values():
        await _stored(team, body)
    async with running(admin):
        await neighbour.bind()
        await neighbour.granted()
        assert await neighbour.provider_namespace("shop")
        for reason, body in asked.items():
            failed = await team.when(
                APISERVICEEXPORTREQUESTS,
                body["metadata"]["name"],
                until=lambda body: body.get("status", {}).get("phase") == "Failed",
            )
            assert condition(failed, "Ready")["reason"] == reason
            await team.event(admin, reason)
        for kind in (APISERVICEEXPORTS, BOUNDSCHEMAS):
            assert (await team.client.list(kind, team.namespace)).items == []
        # Within the bounds it gets what it was invited to, as before.
        await team.bind()
    await install_crds(admin)
    for body in asked.values():
        await team.client.delete(
            APISERVICEEXPORTREQUESTS, body["metadata"]["name"], team.namespace
        )


async def test_beyond_its_limit_a_consumer_gets_no_namespace_until_it_gives_one_up(
    admin: Client, stack: AsyncExitStack
) -> None:
    team, neighbour = await consumer(stack, admin), await consumer(stack, admin)
    async with running(admin):
        await team.bind()
        made = {name: await team.provider_namespace(name) for name in ("a", "b", "c")}
    # The three that exist stay, and two more than the limit have to go before there is room.
    async with running(admin, ProviderOptions(namespaces_per_consumer=2)):
        for name in ("d", "e"):
            await request_namespace(team.client, team.namespace, name)
            body = await team.says(
                APISERVICENAMESPACES,
                "NamespaceReady",
                "NamespaceLimitReached",
                name=name,
                field="reason",
            )
            assert not body["status"].get("namespace")
        await team.event(admin, "NamespaceLimitReached")
        await neighbour.bind()
        assert await neighbour.provider_namespace("d")
        for name, namespace in made.items():
            body = (await team.client.get(APISERVICENAMESPACES, name, team.namespace)).to_dict()
            assert body["status"]["namespace"] == namespace
            assert condition(body, "NamespaceReady")["status"] == "True"
        await team.client.delete(APISERVICENAMESPACES, "a", team.namespace)
        await gone(admin, NAMESPACES, made["a"])
        assert not await _assigned(team, "d")
        await team.client.delete(APISERVICENAMESPACES, "b", team.namespace)
        await team.says(APISERVICENAMESPACES, "NamespaceReady", "True", name="d")
        assert not await _assigned(team, "e")
        # One that waits may go, too.
        await team.client.delete(APISERVICENAMESPACES, "e", team.namespace)
        await gone(team.client, APISERVICENAMESPACES, "e", team.namespace)
    there = {item.meta.name for item in (await admin.list(NAMESPACES)).items}
    assert f"{team.namespace}-e" not in there


async def _assigned(team: Consumer, name: str) -> str:
    body = (await team.client.get(APISERVICENAMESPACES, name, team.namespace)).to_dict()
    namespace: str = body["status"].get("namespace", "")
    return namespace


async def _stored(team: Consumer, request: JSON) -> None:
    """Have a request stored, as soon as the server goes by the new CRD."""
    async with asyncio.timeout(SECONDS):
        while True:
            try:
                await request_export(team.client, team.namespace, request)
            except Invalid:
                await asyncio.sleep(0.1)
            else:
                return


async def _unbounded(admin: Client) -> None:
    """The CRD of requests as it was before it had bounds."""
    name = f"{APISERVICEEXPORTREQUESTS.plural}.{APISERVICEEXPORTREQUESTS.group}"
    crd = (await admin.get(CUSTOMRESOURCEDEFINITIONS, name)).to_dict()
    for version in crd["spec"]["versions"]:
        spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        for field in ("resources", "namespaces"):
            assert spec[field].pop("maxItems")
    await admin.update(CUSTOMRESOURCEDEFINITIONS, crd)
