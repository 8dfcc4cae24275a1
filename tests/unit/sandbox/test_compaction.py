from __future__ import annotations

import asyncio

import pytest

from fairlead.api.meta import JSON, Key
from fairlead.sandbox.compaction import Compactor, Retention
from fairlead.sandbox.log import Log
from fairlead.sandbox.store import Store


def _body(name: str) -> JSON:
    return {"apiVersion": "v1", "metadata": {"name": name, "uid": name}}


def _store(changes: int) -> Store:
    store = Store(Log())
    for _ in range(changes):
        store.put("things", Key("", "a"), _body("a"))
    return store


async def _until_compacted(store: Store, version: int) -> None:
    async with asyncio.timeout(10):
        while store.compacted < version:  # noqa: ASYNC110 - a timer does it
            await asyncio.sleep(0.001)


async def test_old_history_is_forgotten_in_time() -> None:
    store = _store(3)
    compactor = Compactor(store, Retention(seconds=0.001, tick=0.001))
    store.put("things", Key("", "a"), _body("a"))
    await _until_compacted(store, 4)
    compactor.stop()
    assert [change.rv for change in store.history("things", 0, 9)] == [4]
    assert [record.rv for record in store.state("things", 4)] == [4]
    await store.close()


async def test_too_much_history_is_forgotten_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    store = _store(10)
    versions: list[int | None] = []
    compact = store.compact

    def noted(version: int | None = None) -> None:
        versions.append(version)
        compact(version)

    monkeypatch.setattr(store, "compact", noted)
    compactor = Compactor(store, Retention(changes=3, step=4, tick=0.001))
    await _until_compacted(store, 7)
    compactor.stop()
    assert versions == [4, 7]
    assert [change.rv for change in store.history("things", 7, 10)] == [8, 9, 10]
    await store.close()


async def test_young_history_stays() -> None:
    store = _store(3)
    compactor = Compactor(store, Retention(tick=0.001))
    await asyncio.sleep(0.02)
    compactor.stop()
    assert store.compacted == 0
