"""Revoking a consumer: what it logs in with goes first, and all of it."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest
from tests.support.consumers import Consumer, consumer, secret
from tests.support.planes import ControlPlane
from tests.support.provider import prepare, running
from tests.support.waiting import SECONDS, when

from fairlead.api.meta import JSON
from fairlead.api.resource import NAMESPACES, ROLEBINDINGS, SECRETS, SERVICEACCOUNTS, Resource
from fairlead.client import Client, ClusterConfig, Forbidden, Unauthorized, parse_kubeconfig
from fairlead.provider.commands.consumers import find_consumer
from fairlead.provider.commands.revoke.work import lock_out, revoke


@pytest.fixture
async def admin(control_plane: ControlPlane) -> AsyncIterator[Client]:
    async with Client(parse_kubeconfig(control_plane.kubeconfig())) as client:
        await prepare(client, exports=["widgets.example.org"])
        yield client


class Recording(Client):
    """Notes what it deletes, and how much of that at a time."""

    def __init__(self, config: ClusterConfig) -> None:
        super().__init__(config)
        self.deleted: list[str] = []
        self.open = self.most = 0

    async def delete(self, resource: Resource, name: str, *args: Any, **more: Any) -> None:
        self.deleted.append(resource.plural)
        self.open += 1
        self.most = max(self.most, self.open)
        try:
            await super().delete(resource, name, *args, **more)
        finally:
            self.open -= 1


def token(name: str) -> JSON:
    """A Secret that the cluster fills in with a token that never expires."""
    annotations = {"kubernetes.io/service-account.name": "operator"}
    metadata = {"name": name, "annotations": annotations}
    return {"type": "kubernetes.io/service-account-token", "metadata": metadata}


async def login(admin: Client, stack: AsyncExitStack, namespace: str) -> Client:
    """What a consumer makes of its claim on Secrets."""
    filled = await when(
        admin, SECRETS, "mine", namespace, until=lambda body: "token" in body.get("data", {})
    )
    content = base64.b64decode(filled["data"]["token"]).decode()
    config = replace(admin.config, token=content, client_certificate=b"", client_key=b"")
    return await stack.enter_async_context(Client(config))


async def is_let_in(client: Client) -> bool:
    try:
        await client.list(NAMESPACES, limit=1)
    except Forbidden:
        return True
    except Unauthorized:
        return False
    return True


async def is_shut_out(client: Client) -> None:
    """Servers remember for some seconds that a token was good."""
    async with asyncio.timeout(SECONDS):
        while True:
            if not await is_let_in(client):
                return
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("keep", [False, True], ids=["all", "keep-data"])
async def test_no_token_that_a_consumer_made_stays(
    admin: Client, stack: AsyncExitStack, *, keep: bool
) -> None:
    namespaces: list[str] = []
    async with running(admin):
        teams = [await consumer(stack, admin) for _ in range(2)]
        for one in teams:
            await one.bind()
            namespaces.append(await one.provider_namespace("shop"))
            await admin.create(SERVICEACCOUNTS, {"metadata": {"name": "operator"}}, namespaces[-1])
            await one.client.create(SECRETS, token("mine"), namespaces[-1])
            await one.client.create(SECRETS, secret("blue-origin"), namespaces[-1])
        logins = [await login(admin, stack, namespace) for namespace in namespaces]
        assert [await is_let_in(one) for one in logins] == [True, True]
        await revoke(
            admin,
            await find_consumer(admin, teams[0].namespace),
            keep_data=keep,
            timeout=SECONDS,
            progress=lambda _: None,
        )
    await is_shut_out(logins[0])
    assert await is_let_in(logins[1])
    left, theirs = [
        {one.meta.name for one in (await admin.list(SECRETS, namespace)).items}
        for namespace in namespaces
    ]
    assert "mine" not in left
    assert ("blue-origin" in left) is keep
    assert theirs >= {"mine", "blue-origin"}


async def rights(admin: Client, team: Consumer) -> int:
    """How many bindings name a consumer."""
    found = 0
    for one in (await admin.list(ROLEBINDINGS)).items:
        subjects = one.to_dict().get("subjects") or []
        found += any(subject.get("namespace") == team.namespace for subject in subjects)
    return found


async def test_the_login_goes_before_any_of_many_rights(
    admin: Client, stack: AsyncExitStack
) -> None:
    async with running(admin):
        team, neighbour = await consumer(stack, admin), await consumer(stack, admin)
        for one in (team, neighbour):
            await one.bind()
            await one.provider_namespace("shop")
        for number in range(9):
            await team.provider_namespace(f"n{number}")
    # The controllers, which help, have stopped.
    theirs = await rights(admin, neighbour)
    async with Recording(admin.config) as client:
        await lock_out(client, await find_consumer(client, team.namespace), lambda _: None)
    login = client.deleted.index("serviceaccounts")
    # Old clusters make a token by themselves.
    assert set(client.deleted[:login]) == {"secrets"}
    assert client.deleted.count("rolebindings") > 20
    assert client.most > 5
    with pytest.raises(Unauthorized):
        await team.client.list(ROLEBINDINGS, team.namespace)
    assert await rights(admin, team) == 0
    assert await rights(admin, neighbour) == theirs
