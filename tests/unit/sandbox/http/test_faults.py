from __future__ import annotations

import asyncio

import aiohttp
import pytest
from tests.unit.sandbox.api import CONFIGMAPS, Api, configmap

from fairlead_sandbox import Sandbox


@pytest.mark.parametrize(
    ("code", "reason"),
    [(409, "Conflict"), (410, "Expired"), (429, "TooManyRequests"), (500, "InternalError")],
)
async def test_requests_fail_as_often_as_asked(
    sandbox: Sandbox, api: Api, code: int, reason: str
) -> None:
    sandbox.faults.fail("create", "configmaps", code, times=2, retry_after=3)
    for _ in range(2):
        reply = await api.post(CONFIGMAPS, configmap("a"))
        assert (reply.code, reply.body["reason"]) == (code, reason)
        assert reply.headers["Retry-After"] == "3"
        assert (await api.get(CONFIGMAPS)).code == 200
    assert (await api.post(CONFIGMAPS, configmap("a"))).code == 201


async def test_failures_can_be_called_off(sandbox: Sandbox, api: Api) -> None:
    sandbox.faults.fail(times=-1)
    assert (await api.get(CONFIGMAPS)).code == 500
    assert (await api.get(CONFIGMAPS)).code == 500
    sandbox.faults.clear()
    assert (await api.get(CONFIGMAPS)).code == 200


async def test_a_delayed_request_lets_others_pass(sandbox: Sandbox, api: Api) -> None:
    sandbox.faults.delay(30, "list", "configmaps", times=1)
    slow = asyncio.create_task(api.get(CONFIGMAPS))
    assert (await api.get(f"{CONFIGMAPS}/none")).code == 404
    assert not slow.done()
    slow.cancel()
    with pytest.raises(asyncio.CancelledError):
        await slow


async def test_a_dropped_watch_breaks_off(sandbox: Sandbox, api: Api) -> None:
    async with api.watch(CONFIGMAPS, resourceVersion="1") as events:
        await api.post(CONFIGMAPS, configmap("a"))
        assert (await events.next())["object"]["metadata"]["name"] != ""
        assert sandbox.faults.drop_watches("secrets") == 0
        assert sandbox.faults.drop_watches("configmaps") == 1
        with pytest.raises(aiohttp.ClientError):
            await events.rest()


async def test_an_event_can_be_cut_in_the_middle(sandbox: Sandbox, api: Api) -> None:
    version = (await api.get(CONFIGMAPS)).body["metadata"]["resourceVersion"]
    async with api.watch(CONFIGMAPS, resourceVersion=version) as events:
        sandbox.faults.cut_event()
        await api.post(CONFIGMAPS, configmap("a"))
        with pytest.raises(aiohttp.ClientError):
            await events.response.content.readuntil(b"\n")


async def test_events_can_be_lost_without_a_word(sandbox: Sandbox, api: Api) -> None:
    version = (await api.get(CONFIGMAPS)).body["metadata"]["resourceVersion"]
    async with (
        api.watch(CONFIGMAPS, resourceVersion=version) as events,
        api.watch(CONFIGMAPS, resourceVersion=version) as others,
    ):
        assert sandbox.faults.lose("secrets") == 0
        assert sandbox.faults.lose("configmaps", times=2) == 2
        for name in ("a", "b", "c"):
            await api.post(CONFIGMAPS, configmap(name))
        for watch in (events, others):
            assert (await watch.next())["object"]["metadata"]["name"] == "c"


async def test_a_partition_cuts_everything_until_it_heals(sandbox: Sandbox, api: Api) -> None:
    async with api.watch(CONFIGMAPS, resourceVersion="1") as events:
        sandbox.faults.partition()
        with pytest.raises(aiohttp.ClientError):
            await events.rest()
    with pytest.raises(aiohttp.ClientError):
        await api.get(CONFIGMAPS)
    sandbox.faults.heal()
    assert (await api.get(CONFIGMAPS)).code == 200


async def test_compaction_makes_old_versions_expire(sandbox: Sandbox, api: Api) -> None:
    await api.post(CONFIGMAPS, configmap("a"))
    sandbox.faults.compact()
    async with api.watch(CONFIGMAPS, resourceVersion="1") as events:
        (event,) = await events.rest()
    assert event["object"]["message"].startswith("too old resource version: 1 (")
    reply = await api.get(f"{CONFIGMAPS}?resourceVersion=1&resourceVersionMatch=Exact&limit=1")
    assert (reply.code, reply.body["reason"]) == (410, "Expired")
    assert reply.message == "The resourceVersion for the provided list is too old."
