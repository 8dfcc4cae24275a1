"""Waiting for an object: a look is taken however short the time is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from fairlead.api.meta import Object
from fairlead.api.resource import CONFIGMAPS
from fairlead.client import Client, limits, parse_kubeconfig
from fairlead.client.lookups import WaitTimeout, wait_for
from fairlead_sandbox import Sandbox


@pytest.fixture
async def plane() -> AsyncIterator[Sandbox]:
    async with Sandbox(name="lookups") as plane:
        yield plane


@pytest.fixture
async def client(plane: Sandbox) -> AsyncIterator[Client]:
    async with Client(parse_kubeconfig(plane.kubeconfig())) as client:
        yield client


def there(found: Object | None) -> str:
    return "" if found is not None else "it is not there"


@pytest.mark.parametrize("seconds", [0.0, -1.0, 0.05])
async def test_a_first_look_is_taken_however_short_the_time_is(
    client: Client, plane: Sandbox, seconds: float
) -> None:
    plane.faults.delay(0.2, "list", "configmaps")
    with pytest.raises(WaitTimeout, match="ConfigMap default/a: it is not there"):
        await wait_for(client, CONFIGMAPS, "a", "default", until=there, timeout=seconds)
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    await client.create(CONFIGMAPS, body, "default")
    assert await wait_for(client, CONFIGMAPS, "a", "default", until=there, timeout=seconds)


async def test_a_server_that_does_not_answer_is_not_waited_for_much_longer(
    client: Client, plane: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "ANSWER_SECONDS", 0.05)
    plane.faults.delay(600, "list", "configmaps")
    with pytest.raises(WaitTimeout, match=r"the server has not answered \(waited 0.05 s\)"):
        await wait_for(client, CONFIGMAPS, "a", "default", until=there, timeout=0.05)


async def test_what_comes_while_it_is_waited_for_is_found(client: Client) -> None:
    task = asyncio.create_task(
        wait_for(client, CONFIGMAPS, "a", "default", until=there, timeout=600)
    )
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    await client.create(CONFIGMAPS, body, "default")
    found = await task
    assert found is not None
    assert found.meta.name == "a"
