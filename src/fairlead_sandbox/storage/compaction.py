"""History is kept for a while and then forgotten, as kube-apiserver does with etcd's."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from fairlead_sandbox.storage.store import ObjectStore


class Retention(NamedTuple):
    """Limits of the history that is kept, and the pace at which older changes are forgotten."""

    seconds: float = 300.0
    """Seconds for which history is kept, unless there are more than ``changes``."""
    changes: int = 50_000
    """Changes that are kept at most; the oldest of more go sooner."""
    tick: float = 0.5
    """Seconds between two steps."""
    step: int = 5_000
    """Changes that are looked at in one step."""


class Compactor:
    """Forgets, a step at a time, what is older than the retention allows."""

    def __init__(self, store: ObjectStore, retention: Retention | None = None) -> None:
        self._store = store
        self._retention = retention or Retention()
        self._target = store.compacted
        self._mark = store.published
        self._loop = asyncio.get_running_loop()
        self._marked = self._loop.time()
        self._timer = self._schedule()

    def stop(self) -> None:
        """Compact no more."""
        self._timer.cancel()

    def _schedule(self) -> asyncio.TimerHandle:
        return self._loop.call_later(self._retention.tick, self._tick)

    def _tick(self) -> None:
        store, retention = self._store, self._retention
        # Changes carry no time: what was the newest version one period ago is old enough by now.
        if self._loop.time() - self._marked >= retention.seconds:
            self._target = max(self._target, self._mark)
            self._mark, self._marked = store.published, self._loop.time()
        self._target = max(self._target, store.published - retention.changes)
        if self._target > store.compacted:
            store.compact(min(self._target, store.compacted + retention.step))
        self._timer = self._schedule()
