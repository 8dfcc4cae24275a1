"""What a client builds from a list and a watch is what is there, however busy the server is."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path

import pytest
from tests.unit.sandbox.api import CONFIGMAPS, Api, configmap

from fairlead.api.meta import JSON
from fairlead_sandbox import Sandbox


WRITERS = 6
WRITES = 40


async def _write(api: Api, number: int) -> None:
    """Create, change and delete some objects, each of which no other writer touches."""
    choice = random.Random(number)
    alive: set[str] = set()
    for step in range(WRITES):
        name = f"w{number}-{choice.randrange(6)}"
        if name not in alive:
            assert (await api.post(CONFIGMAPS, configmap(name))).code == 201
            alive.add(name)
        elif choice.random() < 0.3:
            assert (await api.delete(f"{CONFIGMAPS}/{name}")).code == 200
            alive.remove(name)
        else:
            reply = await api.patch(f"{CONFIGMAPS}/{name}", {"data": {"k": str(step)}})
            assert reply.code == 200


async def _mirror(api: Api, *, initial: bool) -> dict[str, JSON]:
    """The objects as a reflector sees them, until it has seen the one named ``end``."""
    seen: dict[str, JSON] = {}
    params = {}
    if not initial:
        body = (await api.get(CONFIGMAPS)).body
        seen = {item["metadata"]["name"]: item for item in body["items"]}
        params = {"resourceVersion": body["metadata"]["resourceVersion"]}
    last = int(params.get("resourceVersion", 0))
    async with api.watch(CONFIGMAPS, **params) as events:
        started = bool(params)
        while "end" not in seen:
            event = await events.next()
            item = event["object"]
            name = item["metadata"]["name"]
            version = int(item["metadata"]["resourceVersion"])
            if event["type"] == "ADDED":
                assert name not in seen, "an object appeared twice"
            else:
                started = True
                assert name in seen, "an object changed that never appeared"
            if started:
                assert version > last, "an event came late or twice"
                last = version
            if event["type"] == "DELETED":
                del seen[name]
            else:
                seen[name] = item
    return seen


@pytest.mark.parametrize("kept", ["memory", "file"])
async def test_mirrors_agree_with_the_server(tmp_path: Path, kept: str) -> None:
    data = tmp_path if kept == "file" else None
    async with Sandbox(tls=False, rbac=False, data=data) as sandbox, Api(sandbox.url) as api:
        mirrors: list[asyncio.Task[dict[str, JSON]]] = []
        async with asyncio.TaskGroup() as group:
            writers = [group.create_task(_write(api, number)) for number in range(WRITERS)]
            for index in range(6):
                await api.get(CONFIGMAPS)
                mirrors.append(group.create_task(_mirror(api, initial=index % 2 == 0)))
            await asyncio.gather(*writers)
            await api.post(CONFIGMAPS, configmap("end"))
        body = (await api.get(CONFIGMAPS)).body
    expected = {item["metadata"]["name"]: item for item in body["items"]}
    for mirror in mirrors:
        assert json.dumps(mirror.result(), sort_keys=True) == json.dumps(expected, sort_keys=True)
