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

from fairlead.sandbox.storage.records import Change


_log = logging.getLogger(__name__)


class Reactor:
    """Hands each published change to every controller, one after another."""

    def __init__(self) -> None:
        self._controllers: list[Callable[[Change], None]] = []
        self._queue: deque[Change] = deque()
        self._scheduled = False

    def add(self, controller: Callable[[Change], None]) -> None:
        """Call ``controller`` with every change from now on."""
        self._controllers.append(controller)

    def observe(self, change: Change) -> None:
        """Take a change; to be given to :meth:`ObjectStore.observe`."""
        self._queue.append(change)
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._drain)

    def _drain(self) -> None:
        self._scheduled = False
        while self._queue:
            change = self._queue.popleft()
            for controller in self._controllers:
                try:
                    controller(change)
                except Exception:  # noqa: BLE001 - one bad object must not stop the others
                    _log.exception("a controller failed on %s", change.record.key)
