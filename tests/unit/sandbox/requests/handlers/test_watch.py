from __future__ import annotations

import asyncio
import gc
from typing import Any

import aiohttp
import pytest
from tests.unit.sandbox.api import CONFIGMAPS, CRDS, TABLE, WIDGETS, Api, configmap, crd, widget

from fairlead_sandbox import Sandbox
from fairlead_sandbox.http.server import WatchStream
from fairlead_sandbox.requests import answers
from fairlead_sandbox.requests.handlers import watch as module
from fairlead_sandbox.storage.records import Change


async def _version(api: Api, path: str = CONFIGMAPS) -> str:
    return str((await api.get(path)).body["metadata"]["resourceVersion"])


@pytest.mark.parametrize("asked", ["true", "True", ""])
async def test_bookmarks_tell_how_far_the_watch_is(api: Api, asked: str) -> None:
    version = await _version(api)
    params = {"resourceVersion": version, "allowWatchBookmarks": asked, "timeoutSeconds": "1"}
    async with api.watch(CONFIGMAPS, **params) as events:
        await api.post("/api/v1/namespaces/default/secrets", {"metadata": {"name": "elsewhere"}})
        (bookmark,) = await events.rest()
    assert bookmark["type"] == "BOOKMARK"
    assert bookmark["object"]["kind"] == "ConfigMap"
    assert int(bookmark["object"]["metadata"]["resourceVersion"]) == int(version) + 1


@pytest.mark.parametrize("asked", ["true", "TRUE"])
async def test_initial_events_end_with_a_marked_bookmark(api: Api, asked: str) -> None:
    await api.post(CONFIGMAPS, configmap("a"))
    params = {
        "sendInitialEvents": asked,
        "timeoutSeconds": "5",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
    }
    async with api.watch(CONFIGMAPS, **params) as events:
        found = [await events.next()]
        while found[-1]["type"] != "BOOKMARK":
            found.append(await events.next())
    names = [event["object"]["metadata"]["name"] for event in found[:-1]]
    assert "a" in names
    assert found[-1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_a_version_of_another_life_is_gone(api: Api) -> None:
    async with api.watch(CONFIGMAPS, resourceVersion="999999") as events:
        (event,) = await events.rest()
    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")


async def test_more_events_than_a_batch_arrive_once_each(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH", 2)
    version = await _version(api)
    for index in range(5):
        await api.post(CONFIGMAPS, configmap(f"a{index}"))
    async with api.watch(CONFIGMAPS, resourceVersion=version) as events:
        await api.post(CONFIGMAPS, configmap("a5"))
        names = [(await events.next())["object"]["metadata"]["name"] for _ in range(6)]
    assert names == [f"a{index}" for index in range(6)]


async def test_history_that_is_forgotten_while_it_is_sent_ends_the_watch(
    sandbox: Sandbox, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH", 2)
    version = await _version(api)
    for index in range(5):
        await api.post(CONFIGMAPS, configmap(f"a{index}"))
    store = sandbox.core.store
    history = store.history

    def forgetting(name: str, after: int, until: int, limit: int) -> list[Change]:
        found = history(name, after, until, limit)
        store.compact(until)
        return found

    monkeypatch.setattr(store, "history", forgetting)
    async with api.watch(CONFIGMAPS, resourceVersion=version) as events:
        found = await events.rest()
    assert [event["type"] for event in found] == ["ADDED", "ADDED", "ERROR"]
    assert found[-1]["object"]["reason"] == "Expired"


async def test_a_client_that_does_not_read_holds_no_copies(
    sandbox: Sandbox, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH", 1)
    for index in range(20):
        await api.post(CONFIGMAPS, {**configmap(f"a{index}"), "data": {"text": "x" * 100_000}})
    made: list[int] = []
    encode = answers.encode

    def counting(*args: Any) -> bytes:
        made.append(1)
        return bytes(encode(*args))

    monkeypatch.setattr(answers, "encode", counting)
    blocked, go_on = asyncio.Event(), asyncio.Event()

    async def write(stream: WatchStream, data: bytes) -> None:
        blocked.set()
        await go_on.wait()

    monkeypatch.setattr(WatchStream, "write", write)
    async with api.watch(CONFIGMAPS, timeoutSeconds="1"):
        await blocked.wait()
        assert len(made) == 1
        go_on.set()


async def test_nothing_is_left_of_a_watch_that_is_over(sandbox: Sandbox, api: Api) -> None:
    held = sandbox.core.store.collection("configmaps")
    for _ in range(3):
        async with api.watch(CONFIGMAPS, resourceVersion="0") as events:
            await api.post(CONFIGMAPS, {"metadata": {"generateName": "a-"}})
            await events.next()
            assert held.subscribers
    async with asyncio.timeout(30):
        while held.subscribers or held.closers or sandbox.faults._watches:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    gc.collect()
    assert not [one for one in gc.get_objects() if isinstance(one, module.Watch)]


async def test_tables_can_be_watched(sandbox: Sandbox, api: Api) -> None:
    version = await _version(api)
    await api.post(CONFIGMAPS, configmap("a"))
    params = {"watch": "1", "resourceVersion": version}
    async with (
        aiohttp.ClientSession(sandbox.url) as session,
        session.get(CONFIGMAPS, params=params, headers={"Accept": TABLE}) as response,
    ):
        line = await response.content.readline()
    assert b'"kind":"Table"' in line
    assert b'"cells":["a",1,' in line


async def test_a_client_that_does_not_read_is_let_go(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BACKLOG", 0)
    version = await _version(api)
    async with api.watch(CONFIGMAPS, resourceVersion=version) as events:
        await api.post(CONFIGMAPS, configmap("a"))
        assert await events.rest() == []


async def test_a_changed_crd_ends_watches_too(api: Api) -> None:
    await api.post(CRDS, crd())
    version = await _version(api, WIDGETS)
    async with api.watch(WIDGETS, resourceVersion=version) as events:
        await api.patch(f"{CRDS}/widgets.example.org", {"spec": {"names": {"shortNames": ["w"]}}})
        assert await events.rest() == []


async def test_watches_end_with_their_crd(api: Api) -> None:
    await api.post(CRDS, crd())
    await api.post(WIDGETS, widget("a"))
    version = await _version(api, WIDGETS)
    async with api.watch(WIDGETS, resourceVersion=version) as events:
        await api.delete(f"{CRDS}/widgets.example.org")
        found = await events.rest()
    assert [event["type"] for event in found] == ["DELETED"]
    assert (await api.get(WIDGETS)).code == 404


async def test_stopping_the_server_ends_watches() -> None:
    sandbox = Sandbox(tls=False, rbac=False)
    await sandbox.start()
    async with Api(sandbox.url) as api, api.watch(CONFIGMAPS, resourceVersion="1") as events:
        await sandbox.stop()
        assert all(event["type"] == "ADDED" for event in await events.rest())
    await sandbox.close()
