"""Controllers' work after changes, done between requests and in the order of the changes.

A controller of the control plane is a function of one change. It runs on the event loop after the
write that caused it, never inside of it, so that every observer sees changes in the order of
their resourceVersions.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Hashable
from time import monotonic
from typing import Any, TypeVar

from fairlead_sandbox.storage.records import Change
from fairlead_sandbox.storage.store import ObjectStore, StorageError


_log = logging.getLogger(__name__)

T = TypeVar("T")
H = TypeVar("H", bound=Hashable)

TURN = 0.02
"""Seconds of controllers' work, after which requests get a turn of the event loop."""
MANY = 200
"""Maximum number of objects that a controller writes in one turn, in some 20 ms."""


class Reactor:
    """Hands each published change to every controller, one after another."""

    def __init__(self) -> None:
        self._controllers: list[Callable[[Change], None]] = []
        self._queue: deque[Change] = deque()
        self._later: dict[tuple[Any, Callable[[Any], None]], None] = {}
        self._scheduled = False

    def add(self, controller: Callable[[Change], None]) -> None:
        """Call ``controller`` with every change from now on."""
        self._controllers.append(controller)

    def watch(self, store: ObjectStore) -> None:
        """Observe a store; after a failure of its disk, hand out all its objects again.

        A failure takes changes back without an event, so controllers' own writes may be lost.
        """

        def resync() -> None:
            for collection in store.collections():
                for record in collection.list():
                    self.observe(Change(collection.name, "MODIFIED", record, record))

        store.observe(self.observe)
        store.on_recovery(resync)

    def observe(self, change: Change) -> None:
        """Queue a change for all controllers."""
        self._queue.append(change)
        self._schedule()

    def later(self, item: H, work: Callable[[H], None]) -> None:
        """Run ``work`` on an item once, after the queued changes.

        The same work on the same item is merged. Work of many steps calls this for each next step,
        so that requests get turns in between.
        """
        self._later[item, work] = None
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._drain)

    def _drain(self) -> None:
        self._scheduled = False
        end = monotonic() + TURN
        # Changes go before work that was put off: when many changes ask for the same work, it is
        # done once after all of them.
        while (self._queue or self._later) and monotonic() < end:
            if self._queue:
                change = self._queue.popleft()
                for controller in self._controllers:
                    _do(change.record.key, controller, change)
            else:
                item, work = next(iter(self._later))
                del self._later[item, work]
                _do(item, work, item)
        if self._queue or self._later:
            self._schedule()


def _do(item: Hashable, work: Callable[[T], None], argument: T) -> None:
    try:
        work(argument)
    except StorageError as error:
        _log.warning("a controller cannot store its change for %s: %s", item, error)
    except Exception:  # noqa: BLE001 - one bad object must not stop the others
        _log.exception("a controller failed for %s", item)
