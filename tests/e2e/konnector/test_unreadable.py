"""Objects of a provider that do not fit their types, beside a provider whose objects do."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest
import structlog
from aiohttp import web
from tests.e2e.konnector.test_oversized import lead_to
from tests.support.fakeserver import Answer, FakeServer, chunks, respond
from tests.support.konnector import WIDGETS, World, neighbour, widget
from tests.support.waiting import gone, when

from fairlead.api.kubebind import (
    APISERVICEBINDINGS,
    APISERVICEEXPORTREQUESTS,
    APISERVICEEXPORTS,
    APISERVICENAMESPACES,
    BOUNDSCHEMAS,
    CLUSTERBINDINGS,
    crd_name,
)
from fairlead.api.meta import JSON
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS, Resource


MANY = 100


@pytest.mark.parametrize(
    "spoiled",
    [pytest.param(APISERVICEEXPORTS, id="export"), pytest.param(BOUNDSCHEMAS, id="schema")],
)
async def test_what_cannot_be_read_is_told_once_at_its_binding(
    world: World, stack: AsyncExitStack, spoiled: Resource
) -> None:
    one = await world.konnector()
    link = await world.bound()
    liar = await neighbour(world)
    await one.stop()
    listed: dict[str, Answer] = {}
    for resource in (APISERVICEEXPORTS, BOUNDSCHEMAS, CLUSTERBINDINGS):
        found = (await world.provider.list(resource, liar.cluster_namespace)).items
        items = [item.to_dict() for item in found]
        if resource == spoiled:
            items = [{**item, "spec": None} for item in items]
            items += [_named(items[0], f"n{number}") for number in range(MANY)]
        if resource == CLUSTERBINDINGS:
            items = [{**item, "spec": []} for item in items]
        listed[resource.plural] = respond({"metadata": {"resourceVersion": "7"}, "items": items})
    listed[APISERVICENAMESPACES.plural] = respond(
        {
            "metadata": {"resourceVersion": "7"},
            "items": [{"metadata": {"name": f"n{n}"}, "status": 1} for n in range(MANY)],
        }
    )
    nothing = respond({"metadata": {"resourceVersion": "7"}, "items": []})

    async def answer(request: web.Request) -> web.StreamResponse:
        if "watch" in request.query:
            return await chunks(then=asyncio.Event())(request)
        return await listed.get(request.path.rpartition("/")[2], nothing)(request)

    server = await stack.enter_async_context(FakeServer().elsewhere(answer))
    await lead_to(world, liar.name, server.url)
    with structlog.testing.capture_logs() as logs:
        await one.start()
        told = await liar.condition(
            "Connected", lambda found: found.get("reason") == "ProviderObjectInvalid"
        )
        await liar.condition("Heartbeating", lambda found: found.get("status") == "False")
        await world.consumer.create(WIDGETS, widget())
        there = await link.provider_namespace()
        await when(world.provider, WIDGETS, "blue", there, until=bool)
        await link.says(Ready="True")
    assert f"{spoiled.kind} {liar.cluster_namespace}/" in told["message"]
    assert "cannot be read: spec: it must be an object, not null" in told["message"]
    assert not [line for line in logs if line.get("exc_info")]
    assert len([line for line in logs if "cannot be read" in str(line)]) <= 2


def _named(item: JSON, name: str) -> JSON:
    return {**item, "metadata": {"name": name, "uid": name, "resourceVersion": "1"}}


async def test_a_provider_without_the_schema_of_a_bound_kind_holds_no_object(world: World) -> None:
    await world.konnector(unbind_timeout=0.5)
    link = await world.bound()
    await world.consumer.create(WIDGETS, widget())
    there = await link.provider_namespace()
    await when(world.provider, WIDGETS, "blue", there, until=bool)
    kind = crd_name(WIDGETS.plural, WIDGETS.group)
    # Without its request a schema is not made again.
    await world.provider.delete(APISERVICEEXPORTREQUESTS, link.name, link.cluster_namespace)
    await gone(world.provider, APISERVICEEXPORTREQUESTS, link.name, link.cluster_namespace)
    await world.provider.delete(BOUNDSCHEMAS, kind, link.cluster_namespace)
    await link.condition("Connected", lambda one: one.get("reason") == "BoundSchemaFetchFailed")
    await world.consumer.delete(APISERVICEBINDINGS, link.name)
    await gone(world.consumer, APISERVICEBINDINGS, link.name)
    await gone(world.consumer, CUSTOMRESOURCEDEFINITIONS, kind)
