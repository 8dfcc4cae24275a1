"""Compaction: history is kept for minutes and then deleted, as kube-apiserver does in etcd."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from fairlead_sandbox.storage.store import ObjectStore


class Retention(NamedTuple):
    """How much history is kept, and how fast older changes are deleted."""

    # kube-apiserver compacts etcd every five minutes by default (--etcd-compaction-interval).
    seconds: float = 300.0
    """Seconds for which history is kept, unless there are more than ``changes``."""
    changes: int = 50_000
    """Maximum number of changes that are kept, whatever their age."""
    tick: float = 0.5
    """Seconds between two steps."""
    step: int = 5_000
    """Maximum number of versions that one step deletes."""


class Compactor:
    """Deletes old history in small steps, so that no step holds the event loop for long."""

    def __init__(self, store: ObjectStore, retention: Retention | None = None) -> None:
        self._store = store
        self._retention = retention or Retention()
        self._target = store.compacted
        self._mark = store.published
        self._loop = asyncio.get_running_loop()
        self._marked = self._loop.time()
        self._timer = self._schedule()

    def stop(self) -> None:
        """End the compaction."""
        self._timer.cancel()

    def _schedule(self) -> asyncio.TimerHandle:
        return self._loop.call_later(self._retention.tick, self._tick)

    def _tick(self) -> None:
        store, retention = self._store, self._retention
        # Changes have no time of their own. The version that was the newest one period ago is old
        # enough now.
        if self._loop.time() - self._marked >= retention.seconds:
            self._target = max(self._target, self._mark)
            self._mark, self._marked = store.published, self._loop.time()
        # Under load the period alone would let the log grow by all changes of five minutes.
        self._target = max(self._target, store.published - retention.changes)
        if self._target > store.compacted:
            store.compact(min(self._target, store.compacted + retention.step))
        self._timer = self._schedule()
