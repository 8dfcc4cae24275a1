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
from fairlead.provider.commands.consumers import (
    UnknownConsumerError,
    find_consumer,
    find_consumers,
    find_owned,
)
from fairlead.provider.commands.handover import hand_over, hand_over_each
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


async def test_one_refusal_does_not_hold_up_the_other_consumers(admin: Client, name: str) -> None:
    author, other = f"https://login.example.org/{name}", f"https://login.example.org/other-{name}"
    first, second, third = [await bound(admin, f"{name}-{n}", author) for n in range(3)]
    kept = await bound(admin, f"{name}-kept", other)
    namespaces = await find_owned(admin, author)
    assert sorted(one.meta.name for one in namespaces) == sorted([first, second, third])
    labels = {"metadata": {"labels": {"changed": "meanwhile"}}}
    await admin.merge_patch(NAMESPACES, second, "", labels)
    handed: dict[str, str] = {}
    failures = await hand_over_each(
        admin, namespaces, SHOP, lambda one, former: handed.update({one.meta.name: former})
    )
    assert handed == {first: author, third: author}
    (failure,) = failures
    assert f"namespace/{second} keeps its owner" in failure
    assert [one.meta.name for one in await find_owned(admin, author)] == [second]
    assert [one.meta.name for one in await find_owned(admin, other)] == [kept]


async def test_all_names_are_known_before_anything_is_handed_over(
    admin: Client, name: str
) -> None:
    namespace = await bound(admin, name, ANN)
    (found,) = await find_consumers(admin, [name, namespace])
    assert found.meta.name == namespace
    with pytest.raises(UnknownConsumerError, match=f"{name}-missing"):
        await find_consumers(admin, [name, f"{name}-missing"])
    with pytest.raises(UnknownConsumerError, match="author"):
        await find_owned(admin, f"https://login.example.org/none-{name}")


async def test_who_is_faster_with_a_consumer_wins(admin: Client, name: str) -> None:
    namespace = await bound(admin, name, ANN)
    read = await find_consumer(admin, name)
    labels = {"metadata": {"labels": {"changed": "meanwhile"}}}
    await admin.merge_patch(NAMESPACES, namespace, "", labels)
    with pytest.raises(Conflict):
        await hand_over(admin, read, SHOP)
    found = await admin.get(NAMESPACES, namespace)
    assert found.meta.annotations[ANNOTATION_AUTHOR] == ANN
