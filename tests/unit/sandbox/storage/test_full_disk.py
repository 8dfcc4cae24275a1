"""A disk that is full: reads go on, writes say so, and all is well once there is room again."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from tests.support.waiting import SECONDS
from tests.unit.sandbox.api import CONFIGMAPS, Api, Reply, configmap

from fairlead_sandbox import Sandbox
from fairlead_sandbox.storage.records import Change


ROOM = 64
"""Pages of 4 KiB that are left on the disk."""


@pytest.fixture
async def kept(tmp_path: Path) -> AsyncIterator[Sandbox]:
    async with Sandbox(tls=False, rbac=False, data=tmp_path / "data") as sandbox:
        yield sandbox


@pytest.fixture
async def api(kept: Sandbox) -> AsyncIterator[Api]:
    async with Api(kept.url) as made:
        yield made


def leave(sandbox: Sandbox, pages: int | None) -> None:
    """Let SQLite find the disk full after some pages more; None is a disk of any size."""
    writer = sandbox.core.store.log._writer
    (used,) = writer.execute("PRAGMA page_count").fetchone()
    writer.execute(f"PRAGMA max_page_count = {used + pages if pages else 1 << 30}")


def large(name: str) -> dict[str, object]:
    return {**configmap(name), "data": {"text": "x" * 40_000}}


async def until(answer: Callable[[], Awaitable[Reply]], code: int) -> Reply:
    async with asyncio.timeout(SECONDS):
        while (reply := await answer()).code != code:  # noqa: ASYNC110 - the server changes
            await asyncio.sleep(0.05)
    return reply


async def test_reads_go_on_and_writes_say_507(kept: Sandbox, api: Api) -> None:
    await api.post(CONFIGMAPS, configmap("before"))
    leave(kept, ROOM)
    made: list[str] = []
    while (reply := await api.post(CONFIGMAPS, large(f"c{len(made)}"))).code == 201:
        made.append(f"c{len(made)}")
    assert (reply.code, reply.body["reason"]) == (507, "InsufficientStorage")
    assert reply.message == (
        "the change was not made: the disk cannot be written: database or disk is full"
    )
    change = {"data": {"text": "y" * 40_000}}
    changed = await api.send(
        "PATCH", f"{CONFIGMAPS}/before", change, kind="application/merge-patch+json"
    )
    assert changed.code == 507
    assert (await api.send("DELETE", f"{CONFIGMAPS}/before")).code == 507
    listed = await api.get(CONFIGMAPS)
    assert {item["metadata"]["name"] for item in listed.body["items"]} == {"before", *made}
    assert (await api.get(f"{CONFIGMAPS}/before")).body["data"] == configmap("before")["data"]
    assert (await api.get("/readyz")).code == 500

    leave(kept, None)
    await until(lambda: api.post(CONFIGMAPS, large("after")), 201)
    assert (await api.get("/readyz")).code == 200


async def test_what_controllers_could_not_do_is_done_later(
    kept: Sandbox, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    await api.post("/api/v1/namespaces", {"metadata": {"name": "going"}})
    await api.post("/api/v1/namespaces/going/configmaps", configmap("a"))
    store = kept.core.store
    append = store.log.append
    refused: list[object] = []

    def refuse(rows: object) -> None:
        refused.append(rows)
        raise sqlite3.OperationalError("database or disk is full")

    def fill(change: Change) -> None:
        if not refused and change.record.meta.deletion_timestamp:
            monkeypatch.setattr(store.log, "append", refuse)

    # The disk is full just when the namespace's content is to go.
    store.observe(fill)
    assert (await api.send("DELETE", "/api/v1/namespaces/going")).code == 200
    await until(lambda: api.get("/readyz"), 500)
    assert refused
    monkeypatch.setattr(store.log, "append", append)

    async def write_and_look() -> Reply:
        await api.post(CONFIGMAPS, {"metadata": {"generateName": "some-"}})
        return await api.get("/api/v1/namespaces/going")

    await until(write_and_look, 404)
