from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from tests.support.waiting import SECONDS

from fairlead.api.meta import JSON, Key
from fairlead_sandbox.storage.compaction import Compactor, Retention
from fairlead_sandbox.storage.log import Log
from fairlead_sandbox.storage.store import ObjectStore


def _body(name: str) -> JSON:
    return {"apiVersion": "v1", "metadata": {"name": name, "uid": name}}


@pytest.fixture
def store(request: pytest.FixtureRequest) -> Iterator[ObjectStore]:
    """With as many changes as the parameter says."""
    log = Log()
    made = ObjectStore(log)
    for _ in range(request.param):
        made.put("things", Key("", "a"), _body("a"))
    yield made
    log.close()


async def _until_compacted(store: ObjectStore, version: int) -> None:
    async with asyncio.timeout(SECONDS):
        while store.compacted < version:  # noqa: ASYNC110 - a timer does it
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("store", [3], indirect=True)
async def test_old_history_is_forgotten_in_time(store: ObjectStore) -> None:
    compactor = Compactor(store, Retention(seconds=0.001, tick=0.001))
    store.put("things", Key("", "a"), _body("a"))
    await _until_compacted(store, 4)
    compactor.stop()
    assert [change.rv for change in store.history("things", 0, 9, 100)] == [4]
    assert [record.rv for record in store.state("things", 4)] == [4]
    await store.close()


@pytest.mark.parametrize("store", [10], indirect=True)
async def test_too_much_history_is_forgotten_in_steps(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    assert [change.rv for change in store.history("things", 7, 10, 100)] == [8, 9, 10]
    await store.close()


@pytest.mark.parametrize("store", [3], indirect=True)
async def test_young_history_stays(store: ObjectStore) -> None:
    compactor = Compactor(store, Retention(tick=0.001))
    await asyncio.sleep(0.02)
    compactor.stop()
    assert store.compacted == 0
