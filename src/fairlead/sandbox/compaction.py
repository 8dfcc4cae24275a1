"""History is kept for a while and then forgotten, as kube-apiserver does with etcd's."""

from __future__ import annotations

import asyncio

from fairlead.sandbox.store import Store


INTERVAL = 300.0
"""Seconds between compactions; history is kept for at least as long."""


class Compactor:
    """Forgets, each time, what was already there the time before."""

    def __init__(self, store: Store, interval: float = INTERVAL) -> None:
        self._store = store
        self._interval = interval
        self._mark = store.published
        self._timer = self._schedule()

    def stop(self) -> None:
        """Compact no more."""
        self._timer.cancel()

    def _schedule(self) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(self._interval, self._compact)

    def _compact(self) -> None:
        if self._mark > self._store.compacted:
            self._store.compact(self._mark)
        self._mark = self._store.published
        self._timer = self._schedule()
