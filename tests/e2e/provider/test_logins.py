"""Revoking a consumer: what it logs in with goes first, and all of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from tests.support.consumers import Consumer, consumer
from tests.support.planes import ControlPlane
from tests.support.provider import prepare, running

from fairlead.api.resource import ROLEBINDINGS, Resource
from fairlead.client import Client, ClusterConfig, Unauthorized, parse_kubeconfig
from fairlead.provider.commands.consumers import find_consumer
from fairlead.provider.commands.revoke.work import lock_out


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
