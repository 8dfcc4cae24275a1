"""The current objects in memory, the log behind them, and whoever watches them.

Everything here runs on one event loop, so that a read never sees half of a write.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import msgspec

from fairlead.api.meta import JSON, Key
from fairlead.sandbox.storage.log import Log, LogRow
from fairlead.sandbox.storage.records import Change, Collection, Record


_log = logging.getLogger(__name__)


TURNS = 40
"""So often the loop may take up other work between the first change and the wake-up."""


class StorageError(Exception):
    """A change could not be written to the disk; nothing is stored until a new start."""


class Wakeups:
    """Wakes watches together, once the requests that are here already have been worked on.

    Under load every answer would otherwise be followed by a write to every watch. Waiting for
    turns of the event loop, and not for a time, costs next to nothing when there is nothing else
    to do.
    """

    def __init__(self) -> None:
        self._waiting: set[asyncio.Event] = set()

    def add(self, wakeup: asyncio.Event) -> None:
        """Set the event soon, together with others."""
        if not self._waiting:
            self._turn(TURNS)
        self._waiting.add(wakeup)

    def _turn(self, left: int) -> None:
        if left:
            asyncio.get_running_loop().call_soon(self._turn, left - 1)
            return
        waiting, self._waiting = self._waiting, set()
        for wakeup in waiting:
            wakeup.set()


class ObjectStore:
    """All collections, and the one counter of versions.

    In a file, a change is published and answered once it is on disk; changes made while the disk
    works share the next transaction.
    """

    def __init__(self, log: Log) -> None:
        self.log = log
        self.rv = log.last()
        self.published = self.rv
        self.compacted = log.compacted()
        self._collections: dict[str, Collection] = {}
        self._observers: list[Callable[[Change], None]] = []
        self._pending: list[Change] = []
        self._flush: asyncio.Task[None] | None = None
        self._waiters: deque[tuple[int, asyncio.Future[None]]] = deque()
        self.wakeups = Wakeups()
        self.broken = False
        """Whether a change was lost; every later write is refused."""
        self._thread = ThreadPoolExecutor(1, "fairlead-log") if log.durable else None
        for row in log.state(self.rv):
            key = Key(row.namespace, row.name)
            self.collection(row.collection).put(Record(key, row.rv, row.body))

    def collection(self, name: str) -> Collection:
        """The collection of this name, made when new."""
        found = self._collections.get(name)
        if found is None:
            found = self._collections[name] = Collection(name)
        return found

    def collections(self) -> list[Collection]:
        """Every collection that was ever used."""
        return list(self._collections.values())

    def observe(self, observer: Callable[[Change], None]) -> None:
        """Call ``observer`` with every change, in order, once it is published."""
        self._observers.append(observer)

    def put(self, collection: str, key: Key, body: JSON) -> Record:
        """Store an object; its resourceVersion is set in ``body``.

        Raises:
            StorageError: an earlier change could not be stored.
        """
        self._check()
        self.rv += 1
        body["metadata"]["resourceVersion"] = str(self.rv)
        record = Record(key, self.rv, msgspec.json.encode(body))
        held = self.collection(collection)
        old = held.get(key)
        held.put(record)
        self._append(Change(collection, "MODIFIED" if old else "ADDED", record, old))
        return record

    def remove(self, collection: str, key: Key, body: JSON | None = None) -> Record:
        """Delete an object; ``body`` is its last state when that differs from what is stored."""
        self._check()
        held = self.collection(collection)
        old = held.objects[key]
        last = body or old.to_dict()
        self.rv += 1
        last["metadata"]["resourceVersion"] = str(self.rv)
        record = Record(key, self.rv, msgspec.json.encode(last))
        held.remove(key)
        self._append(Change(collection, "DELETED", record, old))
        return record

    def _check(self) -> None:
        if self.broken:
            raise StorageError("an earlier change could not be stored")

    def _append(self, change: Change) -> None:
        if self._thread is None:
            self.log.append([_row(change)])
            self._publish(change)
            return
        self._pending.append(change)
        if self._flush is None:
            self._flush = asyncio.get_running_loop().create_task(self._write())

    async def _write(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._pending:
                batch, self._pending = self._pending, []
                rows = [_row(change) for change in batch]
                await loop.run_in_executor(self._thread, self.log.append, rows)
                for change in batch:
                    self._publish(change)
                self._wake()
        except (OSError, sqlite3.Error) as error:
            self._fail(error)
        finally:
            self._flush = None

    def _wake(self) -> None:
        while self._waiters and self._waiters[0][0] <= self.published:
            future = self._waiters.popleft()[1]
            if not future.done():
                future.set_result(None)

    def _fail(self, error: Exception) -> None:
        """A write was lost: nothing that came after it may be taken for stored."""
        _log.error("the log cannot be written: %s", error)
        self.broken = True
        while self._waiters:
            future = self._waiters.popleft()[1]
            if not future.done():
                future.set_exception(StorageError(f"the change could not be stored: {error}"))

    def _publish(self, change: Change) -> None:
        self.published = change.rv
        for subscriber in tuple(self.collection(change.collection).subscribers):
            subscriber(change)
        for observer in self._observers:
            observer(change)

    async def settle(self, rv: int | None = None) -> None:
        """Return once every change up to ``rv`` (or made until now) is stored and published.

        Raises:
            StorageError: a change could not be stored.
        """
        wanted = self.rv if rv is None else min(rv, self.rv)
        if self.published >= wanted:
            return
        if self.broken:
            raise StorageError("an earlier change could not be stored")
        future = asyncio.get_running_loop().create_future()
        self._waiters.append((self.rv, future))
        await future

    def history(self, collection: str, after: int, until: int) -> Iterator[Change]:
        """The published changes of a collection in (after, until] out of the log."""
        for row in self.log.changes(collection, after, until):
            previous = self.log.before(row) if row.type != "ADDED" else None
            old = _record(previous) if previous else None
            yield Change(collection, row.type, _record(row), old)

    def state(self, collection: str, rv: int) -> list[Record]:
        """The objects that a collection had at ``rv``, in order."""
        records = [_record(row) for row in self.log.state(rv, collection)]
        return sorted(records, key=lambda record: record.key)

    def compact(self, rv: int | None = None) -> None:
        """Forget history up to ``rv``, by default all that is published."""
        self.compacted = self.published if rv is None else min(rv, self.published)
        self.log.compact(self.compacted)

    async def close(self) -> None:
        """Store what is pending and release the file; a log in memory stays usable."""
        try:
            if not self.broken:
                await self.settle()
        finally:
            if self._thread is not None:
                self._thread.shutdown()
                self.log.close()


def _row(change: Change) -> LogRow:
    record = change.record
    return LogRow(
        record.rv,
        change.collection,
        record.key.namespace,
        record.key.name,
        change.type,
        record.raw,
    )


def _record(row: LogRow) -> Record:
    return Record(Key(row.namespace, row.name), row.rv, row.body)
