"""Two providers whose invitations have the same name, and names of a consumer's own."""

from __future__ import annotations

from contextlib import AsyncExitStack

import msgspec
import pytest
from tests.support.konnector import WIDGETS, World, invited, offer, providing, widget
from tests.support.provider import request_export
from tests.support.waiting import SECONDS, when

from fairlead.api.kubebind import (
    APISERVICEBINDINGS,
    APISERVICEEXPORTREQUESTS,
    APISERVICEEXPORTS,
)
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS
from fairlead.client import Client, parse_kubeconfig
from fairlead.konnector.commands.bind import BindError, bind


OTHERS = msgspec.structs.replace(WIDGETS, group="other.org")


async def bound(consumer: Client) -> set[str]:
    return {item.meta.name for item in (await consumer.list(APISERVICEBINDINGS)).items}


async def test_a_second_provider_gets_a_number_and_both_work(
    world: World, stack: AsyncExitStack
) -> None:
    await world.konnector()
    first = await world.bound()
    _, provider = await world.plane("other")
    await stack.enter_async_context(providing(provider, group="other.org"))
    second = await invited(world.consumer, provider, name="widgets", template="other.org")
    lines = await second.bind()
    (told,) = [line for line in lines if line.endswith("using widgets-2")]
    assert "APIServiceBinding widgets uses another kubeconfig Secret" in told
    assert await bound(world.consumer) == {"widgets", "widgets-2"}
    await world.consumer.create(WIDGETS, widget())
    await world.consumer.create(OTHERS, {**widget(), "apiVersion": "other.org/v1"})
    await when(world.provider, WIDGETS, "blue", await first.provider_namespace(), until=bool)
    await when(provider, OTHERS, "blue", await second.provider_namespace(), until=bool)
    again = await second.bind()
    assert [line for line in again if "created" in line or "requested" in line] == []
    assert await bound(world.consumer) == {"widgets", "widgets-2"}


async def test_a_second_invitation_of_one_provider_gets_a_number(world: World) -> None:
    await world.konnector()
    await offer(world.provider, "other.org")
    first = await invited(world.consumer, world.provider, identity="shop")
    second = await invited(world.consumer, world.provider, template="other.org", identity="shop")
    await first.bind()
    lines = await second.bind()
    assert any("has the resources widgets.example.org" in line for line in lines)
    exports = (await world.provider.list(APISERVICEEXPORTS, first.cluster_namespace)).items
    assert {item.meta.name for item in exports} == {"widgets", "widgets-2"}
    assert await bound(world.consumer) == {"widgets", "widgets-2"}


async def test_what_the_provider_waits_for_is_told_at_once_and_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.konnector()
    link = await invited(world.consumer, world.provider, identity="shop")
    exported = {"metadata": {"labels": {"kube-bind.io/exported": None}}}
    await world.provider.merge_patch(
        CUSTOMRESOURCEDEFINITIONS, WIDGETS.group_resource, "", exported
    )
    reason = "widgets.example.org is not exported"
    async with Client(parse_kubeconfig(link.response.kubeconfig)) as client:
        request = msgspec.to_builtins(link.response.requests[0])
        await request_export(client, link.cluster_namespace, request)
    # It is there when bind first looks, so that its time needs to be no longer than a look.
    await when(
        world.provider,
        APISERVICEEXPORTREQUESTS,
        link.name,
        link.cluster_namespace,
        until=lambda body: reason in str(body.get("status")),
    )
    lines: list[str] = []
    monkeypatch.setattr("fairlead.konnector.commands.readiness._LAST_WORD_SECONDS", SECONDS)
    with pytest.raises(BindError) as caught:
        await bind(world.consumer, link.response, timeout=0.5, progress=lines.append)
    assert len([line for line in lines if reason in line]) == 1
    assert str(caught.value).count(reason) == 1
