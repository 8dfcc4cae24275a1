"""Work that follows from changes, done between requests and in their order.

A controller of the control plane is a function of one change. It runs on the loop after the
change was answered, never inside the write that caused it, so that every observer sees changes in
the order of their versions.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from time import monotonic

from fairlead.sandbox.storage.records import Change
from fairlead.sandbox.storage.store import ObjectStore, StorageError


_log = logging.getLogger(__name__)

TURN = 0.02
"""Seconds of work after which requests have their turn."""


class Reactor:
    """Hands each published change to every controller, one after another."""

    def __init__(self) -> None:
        self._controllers: list[Callable[[Change], None]] = []
        self._queue: deque[Change] = deque()
        self._scheduled = False

    def add(self, controller: Callable[[Change], None]) -> None:
        """Call ``controller`` with every change from now on."""
        self._controllers.append(controller)

    def watch(self, store: ObjectStore) -> None:
        """Take the changes of a store, and all that is in it once its disk can be written again.

        What a controller wrote meanwhile may have been taken back, and nobody has told it.
        """

        def resync() -> None:
            for collection in store.collections():
                for record in collection.list():
                    self.observe(Change(collection.name, "MODIFIED", record, record))

        store.observe(self.observe)
        store.on_recovery(resync)

    def observe(self, change: Change) -> None:
        """Take a change."""
        self._queue.append(change)
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._drain)

    def _drain(self) -> None:
        end = monotonic() + TURN
        while self._queue and monotonic() < end:
            self._hand_out(self._queue.popleft())
        self._scheduled = bool(self._queue)
        if self._scheduled:
            asyncio.get_running_loop().call_soon(self._drain)

    def _hand_out(self, change: Change) -> None:
        for controller in self._controllers:
            try:
                controller(change)
            except StorageError as error:
                _log.warning("a controller cannot write for %s: %s", change.record.key, error)
            except Exception:  # noqa: BLE001 - one bad object must not stop the others
                _log.exception("a controller failed on %s", change.record.key)
