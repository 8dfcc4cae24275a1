"""Whatever happens in between, both sides end up alike."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from tests.support.konnector import WIDGETS, Link, World, secret, widget
from tests.support.waiting import SECONDS

from fairlead.api.resource import SECRETS, Resource
from fairlead.client import Client, ClientError


STEPS = 120
NAMES = [f"w{number}" for number in range(8)]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        world = World(stack)
        await world.start()
        yield world


class Chaos:
    """Changes on both sides and faults of both servers, as the dice say."""

    def __init__(self, world: World, namespace: str, seed: int) -> None:
        self._dice = random.Random(seed)
        self._world = world
        self._namespace = namespace

    async def step(self) -> None:
        name = self._dice.choice(NAMES)
        with contextlib.suppress(ClientError):
            await self._change(name)
        self._fault()

    async def _change(self, name: str) -> None:
        consumer, provider = self._world.consumer, self._world.provider
        match self._dice.randrange(10):
            case 0 | 1 | 2:
                await consumer.create(WIDGETS, widget(name, count=self._dice.randrange(50)))
            case 3 | 4:
                await consumer.delete(WIDGETS, name, "default")
            case 5 | 6:
                spec = {"count": self._dice.choice([None, 7, 9])}
                await consumer.merge_patch(WIDGETS, name, "default", {"spec": spec})
            case 7:
                await provider.delete(WIDGETS, name, self._namespace)
            case 8:
                made = {"status": {"made": self._dice.randrange(99)}}
                await provider.merge_patch(
                    WIDGETS, name, self._namespace, made, subresource="status"
                )
            case 9:
                await provider.create(SECRETS, secret(f"{name}-origin", self._namespace))

    def _fault(self) -> None:
        plane = self._dice.choice([self._world.provider_plane, self._world.consumer_plane])
        match self._dice.randrange(25):
            case 0:
                plane.faults.drop_watches()
            case 1:
                plane.faults.cut_event()
            case 2:
                plane.faults.compact()
                plane.faults.drop_watches()
            case 3 | 4:
                plane.faults.fail("*", "widgets", self._dice.choice([500, 409]), times=2)

    def end(self) -> None:
        self._world.provider_plane.faults.clear()
        self._world.consumer_plane.faults.clear()


async def contents(
    client: Client, resource: Resource, namespace: str, *fields: str
) -> dict[str, list[Any]]:
    found = (await client.list(resource, namespace)).items
    bodies = {obj.meta.name: obj.to_dict() for obj in found}
    return {name: [body.get(field) for field in fields] for name, body in bodies.items()}


async def difference(link: Link, namespace: str) -> str:
    """What is not alike on both sides, "" when all is."""
    mine = await contents(link.consumer, WIDGETS, "default", "spec", "status")
    theirs = await contents(link.provider, WIDGETS, namespace, "spec", "status")
    if mine != theirs:
        return f"widgets: {mine} and {theirs}"
    claimed = {f"{name}-origin" for name in mine}
    came = await contents(link.consumer, SECRETS, "default", "data")
    sent = await contents(link.provider, SECRETS, namespace, "data")
    wanted = {name: data for name, data in sent.items() if name in claimed}
    copies = {name: data for name, data in came.items() if name.endswith("-origin")}
    return "" if copies == wanted else f"secrets: {copies.keys()} and {wanted.keys()}"


async def test_both_sides_end_up_alike(world: World) -> None:
    konnector = await world.konnector()
    link = await world.bound()
    await world.consumer.create(WIDGETS, widget("first"))
    namespace = await link.provider_namespace()
    chaos = Chaos(world, namespace, seed=4)
    for number in range(STEPS):
        if number == STEPS // 3:
            await konnector.stop()
        if number == STEPS // 2:
            await konnector.start()
        await chaos.step()
    chaos.end()
    left = "not looked yet"
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(SECONDS):
            while left := await difference(link, namespace):  # noqa: ASYNC110  two servers
                await asyncio.sleep(0.1)
    assert left == ""
