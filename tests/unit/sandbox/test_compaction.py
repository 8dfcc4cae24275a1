from __future__ import annotations

import asyncio

from fairlead.api.meta import JSON, Key
from fairlead.sandbox.compaction import Compactor
from fairlead.sandbox.log import Log
from fairlead.sandbox.store import Store


def _body(name: str) -> JSON:
    return {"apiVersion": "v1", "metadata": {"name": name, "uid": name}}


async def test_history_is_kept_for_one_interval_and_then_forgotten() -> None:
    store = Store(Log())
    for _ in range(3):
        store.put("things", Key("", "a"), _body("a"))
    compactor = Compactor(store, interval=0.001)
    store.put("things", Key("", "a"), _body("a"))
    async with asyncio.timeout(10):
        while store.compacted < 4:  # noqa: ASYNC110 - a timer does it
            await asyncio.sleep(0.001)
    compactor.stop()
    assert [change.rv for change in store.history("things", 0, 9)] == [4]
    assert [record.rv for record in store.state("things", 4)] == [4]
    await store.close()


async def test_what_nobody_wrote_since_is_not_compacted_again() -> None:
    store = Store(Log())
    compactor = Compactor(store, interval=0.001)
    await asyncio.sleep(0.01)
    compactor.stop()
    assert store.compacted == 0
