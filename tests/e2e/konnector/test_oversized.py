"""A provider whose answers have no end, beside one that works."""

from __future__ import annotations

import asyncio
import base64
import tracemalloc
from contextlib import AsyncExitStack
from typing import Any

import msgspec
import pytest
from aiohttp import web
from tests.support.fakeserver import Answer, FakeServer, chunks, respond
from tests.support.konnector import WIDGETS, World, neighbour, widget
from tests.support.oversized import MIB, WatchesWithoutEnd, explode, never_end
from tests.support.waiting import when

from fairlead.api.kubebind import APISERVICEBINDINGS, APISERVICEEXPORTS, BOUNDSCHEMAS
from fairlead.api.meta import JSON
from fairlead.api.resource import SECRETS
from fairlead.client import parse_kubeconfig
from fairlead.explain.explaining import explain
from fairlead.explain.targets import parse_target
from fairlead.konnector.options import DEFAULT_NAMESPACE
from fairlead.runtime import Request
from fairlead.runtime.controller.queue import WorkQueue


@pytest.mark.parametrize(
    ("answer", "bound"),
    [
        pytest.param(explode, "answer", id="gzip-bomb"),
        pytest.param(never_end, "answer", id="endless-body"),
        pytest.param(None, "event", id="endless-event"),
    ],
)
async def test_a_provider_whose_answers_have_no_end_is_told_of_alone(
    world: World, stack: AsyncExitStack, answer: Answer | None, bound: str
) -> None:
    one = await world.konnector()
    link = await world.bound()
    liar = await neighbour(world)
    await one.stop()
    config = parse_kubeconfig(world.kubeconfig("provider"))
    server = FakeServer().elsewhere(answer or WatchesWithoutEnd(config))
    await stack.enter_async_context(server)
    await lead_to(world, liar.name, server.url)
    tracemalloc.start()
    try:
        await one.start()
        told = await liar.condition(
            "InformersSynced", lambda found: found.get("status") == "False"
        )
        await world.consumer.create(WIDGETS, widget())
        there = await link.provider_namespace()
        await when(world.provider, WIDGETS, "blue", there, until=bool)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert told["reason"] == "AnswerTooLarge"
    assert server.url in told["message"]
    assert f"--provider-{bound}-limit" in told["message"]
    await link.says(Ready="True")
    assert most < 128 * MIB
    samples = {
        (sample.labels["bound"], sample.value > 0)
        for family in one.registry.collect()
        if family.name == "fairlead_answers_too_large"
        for sample in family.samples
    }
    assert (bound, True) in samples
    target = parse_target(f"apiservicebinding/{liar.name}")
    found = await explain(world.consumer, target, "default", "fairlead")
    assert "AnswerTooLarge" in str(msgspec.to_builtins(found))


async def lead_to(world: World, binding: str, url: str) -> None:
    """Have the kubeconfig of a binding name another server."""
    found = (await world.consumer.get(APISERVICEBINDINGS, binding)).to_dict()
    ref = found["spec"]["kubeconfigSecretRef"]
    secret = await world.consumer.get(SECRETS, ref["name"], ref["namespace"])
    assert ref["namespace"] == DEFAULT_NAMESPACE
    kubeconfig = base64.b64decode(secret.to_dict()["data"][ref["key"]])
    config: JSON = msgspec.yaml.decode(kubeconfig)
    for cluster in config["clusters"]:
        cluster["cluster"] = {"server": url}
    data = {ref["key"]: base64.b64encode(msgspec.json.encode(config)).decode()}
    await world.consumer.merge_patch(SECRETS, ref["name"], ref["namespace"], {"data": data})


async def test_many_objects_of_a_provider_are_queued_a_few_times_each(
    world: World, stack: AsyncExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each schema may concern each export: work for all pairs would leave no time for others."""
    many = 200
    one = await world.konnector()
    link = await world.bound()
    liar = await neighbour(world)
    await one.stop()
    listed: dict[str, Answer] = {}
    for resource in (APISERVICEEXPORTS, BOUNDSCHEMAS):
        known = (await world.provider.list(resource, liar.cluster_namespace)).items[0]
        items = [
            known.to_dict()
            | {"metadata": {"name": f"n{n}", "uid": f"u{n}", "resourceVersion": "1"}}
            for n in range(many)
        ]
        listed[resource.plural] = respond({"metadata": {"resourceVersion": "7"}, "items": items})
    nothing = respond({"metadata": {"resourceVersion": "7"}, "items": []})
    watched: set[str] = set()
    every = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        plural = request.path.rpartition("/")[2]
        if "watch" not in request.query:
            return await listed.get(plural, nothing)(request)
        watched.add(plural)
        if listed.keys() <= watched:
            every.set()
        return await chunks(then=asyncio.Event())(request)

    adds: list[Request] = []
    original = WorkQueue.add

    def add(queue: WorkQueue[Request], request: Request, *args: Any, **more: Any) -> None:
        if request.name.startswith("n"):
            adds.append(request)
        original(queue, request, *args, **more)

    monkeypatch.setattr(WorkQueue, "add", add)
    server = await stack.enter_async_context(FakeServer().elsewhere(answer))
    await lead_to(world, liar.name, server.url)
    await one.start()
    await every.wait()
    await world.consumer.create(WIDGETS, widget())
    there = await link.provider_namespace()
    await when(world.provider, WIDGETS, "blue", there, until=bool)
    assert many <= len(adds) < 20 * many
