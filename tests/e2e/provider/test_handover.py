"""Handing a consumer over, on both control planes."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator

import pytest
from tests.support.planes import ControlPlane
from tests.support.provider import prepare

from fairlead.api.kubebind import ANNOTATION_AUTHOR
from fairlead.api.resource import NAMESPACES
from fairlead.client import Client, Conflict, parse_kubeconfig
from fairlead.provider.commands.consumers import find_consumer
from fairlead.provider.commands.handover import hand_over
from fairlead.provider.identity import OtherAuthorError
from fairlead.provider.invitation import invite


ANN, SHOP = "https://login.example.org/ann", "group:oidc:shop"


@pytest.fixture
async def admin(control_plane: ControlPlane) -> AsyncIterator[Client]:
    async with Client(parse_kubeconfig(control_plane.kubeconfig())) as client:
        await prepare(client, exports=["widgets.example.org"])
        yield client


@pytest.fixture
def name() -> str:
    return f"c-{uuid.uuid4().hex[:8]}"


async def bound(admin: Client, name: str, author: str) -> str:
    answer = await invite(admin, name=name, template="widgets", author=author)
    return str(answer["providerNamespace"])


async def test_s1_who_has_a_consumer_may_come_back_and_no_other(admin: Client, name: str) -> None:
    namespace = await bound(admin, name, ANN)
    assert await hand_over(admin, await find_consumer(admin, name), SHOP) == ANN
    with pytest.raises(OtherAuthorError, match="belongs to author group:oidc:shop"):
        await bound(admin, name, ANN)
    assert await bound(admin, name, SHOP) == namespace
    # By its namespace it is found, too; and back it goes.
    assert await hand_over(admin, await find_consumer(admin, namespace), ANN) == SHOP
    assert await bound(admin, name, ANN) == namespace


async def test_who_is_faster_with_a_consumer_wins(admin: Client, name: str) -> None:
    namespace = await bound(admin, name, ANN)
    read = await find_consumer(admin, name)
    labels = {"metadata": {"labels": {"changed": "meanwhile"}}}
    await admin.merge_patch(NAMESPACES, namespace, "", labels)
    with pytest.raises(Conflict):
        await hand_over(admin, read, SHOP)
    found = await admin.get(NAMESPACES, namespace)
    assert found.meta.annotations[ANNOTATION_AUTHOR] == ANN
