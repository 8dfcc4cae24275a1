"""The current objects in memory, the log behind them, and their watches.

All methods run on one event loop, so a read never sees half of a write.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import monotonic

import msgspec

from fairlead.api.meta import JSON, Key
from fairlead_sandbox.storage.log import Log, LogRow
from fairlead_sandbox.storage.records import Change, Collection, Record


_log = logging.getLogger(__name__)


TURNS = 40
"""Turns of the event loop from the first change until the watches wake up."""


class StorageError(Exception):
    """A change could not be written to the disk, and was taken back."""


class ObjectTooLargeError(ValueError):
    """An object would exceed :data:`MAX_OBJECT`; the text has its size."""


MAX_OBJECT = 3 * 1024 * 1024
"""Maximum size of an object as JSON, in bytes; etcd takes 1.5 MiB of what may be protobuf."""
_PAUSE = 1.0
"""Seconds for which all writes are refused after a change could not be stored."""


class Wakeups:
    """Wakes watches together, after the requests that have arrived already.

    Under load every answer would otherwise be followed by a write to every watch. Waiting for
    turns of the event loop, and not for a time, costs next to nothing when the loop has no other
    work.
    """

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Event, None] = {}

    def add(self, wakeup: asyncio.Event) -> None:
        """Set the event some turns later, together with others."""
        if not self._waiting:
            self._turn(TURNS)
        self._waiting[wakeup] = None

    def _turn(self, left: int) -> None:
        if left:
            asyncio.get_running_loop().call_soon(self._turn, left - 1)
            return
        waiting, self._waiting = self._waiting, {}
        for wakeup in waiting:
            wakeup.set()


class ObjectStore:
    """All collections, and the one counter of resourceVersions.

    With a file, a change is published and answered once it is on disk. Changes made while the disk
    works share the next transaction. Changes that cannot be stored are taken back, so that readers
    see the state before them; their versions are not used again.
    """

    def __init__(self, log: Log) -> None:
        self.log = log
        # rv is the version of the newest change in memory, published that of the newest one on
        # disk. They differ while the disk works.
        self.rv = log.last()
        self.published = self.rv
        self.compacted = log.compacted()
        self._collections: dict[str, Collection] = {}
        self._observers: list[Callable[[Change], None]] = []
        self._pending: list[Change] = []
        self._flush: asyncio.Task[None] | None = None
        self._waiters: deque[tuple[int, asyncio.Future[None]]] = deque()
        self.wakeups = Wakeups()
        self.failure = ""
        """Why the last write to the disk failed; "" if it succeeded."""
        self._refused_until = 0.0
        # Versions that were taken back. A request may still wait for one that it has read.
        self._lost: list[range] = []
        self._recovery: list[Callable[[], None]] = []
        # One thread: appends and compaction share a connection and would only wait for its lock.
        self._thread = ThreadPoolExecutor(1, "fairlead-log") if log.durable else None
        for row in log.state(self.rv):
            key = Key(row.namespace, row.name)
            self.collection(row.collection).put(Record(key, row.rv, row.body))

    def collection(self, name: str) -> Collection:
        """Return the collection of this name, created at first use."""
        collection = self._collections.get(name)
        if collection is None:
            collection = self._collections[name] = Collection(name)
        return collection

    def collections(self) -> list[Collection]:
        """Return every collection that was ever used."""
        return list(self._collections.values())

    def observe(self, observer: Callable[[Change], None]) -> None:
        """Call ``observer`` with every change, in order, once it is published."""
        self._observers.append(observer)

    def on_recovery(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` when a write to the disk succeeds again after changes were lost."""
        self._recovery.append(listener)

    def put(self, collection: str, key: Key, body: JSON) -> Record:
        """Store an object and set its resourceVersion in ``body``.

        Raises:
            StorageError: an earlier change could not be stored.
            ObjectTooLargeError: the object exceeds :data:`MAX_OBJECT`.
        """
        self._check()
        # The counter grows only after the check of the size. The version of a refused object would
        # never be published, and readers would wait for it.
        body["metadata"]["resourceVersion"] = str(self.rv + 1)
        raw = msgspec.json.encode(body)
        if len(raw) > MAX_OBJECT:
            raise ObjectTooLargeError(
                f"the object would have {len(raw)} bytes with the fields that the server sets, "
                f"limit is {MAX_OBJECT}"
            )
        self.rv += 1
        record = Record(key, self.rv, raw)
        records = self.collection(collection)
        old = records.get(key)
        records.put(record)
        self._append(Change(collection, "MODIFIED" if old else "ADDED", record, old))
        return record

    def remove(self, collection: str, key: Key, body: JSON | None = None) -> Record:
        """Delete an object; ``body`` is its last state if that differs from the stored one."""
        self._check()
        records = self.collection(collection)
        old = records.objects[key]
        last = body or old.to_dict()
        self.rv += 1
        last["metadata"]["resourceVersion"] = str(self.rv)
        record = Record(key, self.rv, msgspec.json.encode(last))
        records.remove(key)
        self._append(Change(collection, "DELETED", record, old))
        return record

    def _check(self) -> None:
        # After the pause one write is tried: only that shows whether the disk works again.
        if self.failure and monotonic() < self._refused_until:
            raise StorageError(self.failure)

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
        batch: list[Change] = []
        try:
            while self._pending:
                # Changes made during a transaction wait for the next one: one fsync serves many.
                batch, self._pending = self._pending, []
                rows = [_row(change) for change in batch]
                await loop.run_in_executor(self._thread, self.log.append, rows)
                for change in batch:
                    self._publish(change)
                self._wake()
                self._recover()
        except (OSError, sqlite3.Error) as error:
            self._fail([*batch, *self._pending], error)
        finally:
            # No await between the last check of _pending and this line: a change in between would
            # have no task that writes it.
            self._flush = None

    def _wake(self) -> None:
        while self._waiters and self._waiters[0][0] <= self.published:
            future = self._waiters.popleft()[1]
            if not future.done():
                future.set_result(None)

    def _fail(self, lost: list[Change], error: Exception) -> None:
        """Take back the lost changes, and all that came after them."""
        _log.error("the log cannot be written: %s", error)
        self.failure = f"the disk cannot be written: {error}"
        self._refused_until = monotonic() + _PAUSE
        self._pending.clear()
        # Backwards: of several changes to one object, the oldest state must be put back last.
        for change in reversed(lost):
            records = self.collection(change.collection)
            if change.old is None:
                records.remove(change.record.key)
            else:
                records.put(change.old)
        # A new version, so that the state from now on has another resourceVersion than the lost
        # changes.
        self._lost.append(range(lost[0].rv, lost[-1].rv + 1))
        self.rv += 1
        self.published = self.rv
        while self._waiters:
            future = self._waiters.popleft()[1]
            if not future.done():
                future.set_exception(StorageError(self.failure))

    def _recover(self) -> None:
        if self.failure:
            _log.info("the log can be written again")
            self.failure = ""
            for listener in self._recovery:
                listener()

    def _publish(self, change: Change) -> None:
        self.published = change.rv
        for subscriber in tuple(self.collection(change.collection).subscribers):
            subscriber(change)
        for observer in self._observers:
            observer(change)

    async def settle(self, rv: int | None = None) -> None:
        """Return once every change up to ``rv`` (default: the newest) is stored and published.

        Raises:
            StorageError: a change could not be stored.
        """
        version = self.rv if rv is None else min(rv, self.rv)
        # Although newer versions are published, the version that the caller has read may be among
        # those that were taken back.
        if any(version in versions for versions in self._lost):
            raise StorageError(self.failure or "the disk could not be written for a while")
        if self.published >= version:
            return
        future = asyncio.get_running_loop().create_future()
        # The counter only grows, so the waiters are sorted by version and wake from the front.
        self._waiters.append((self.rv, future))
        await future

    def history(self, collection: str, after: int, until: int, limit: int) -> list[Change]:
        """Return the first published changes of a collection in (after, until] from the log."""
        events = []
        for row in self.log.changes(collection, after, until, limit):
            # A watch with a selector needs the state before, to tell ADDED and DELETED apart from
            # MODIFIED.
            previous = self.log.before(row) if row.type != "ADDED" else None
            old = _record(previous) if previous else None
            events.append(Change(collection, row.type, _record(row), old))
        return events

    def state(self, collection: str, rv: int) -> list[Record]:
        """Return the objects that a collection had at ``rv``, sorted by key."""
        records = [_record(row) for row in self.log.state(rv, collection)]
        return sorted(records, key=lambda record: record.key)

    def compact(self, rv: int | None = None) -> None:
        """Delete history up to ``rv``, by default all that is published."""
        # Set before the rows are deleted, so that no read uses history that is half deleted.
        self.compacted = self.published if rv is None else min(rv, self.published)
        if self._thread is None:
            self.log.compact(self.compacted)
        else:
            # On the thread of the log: no request waits for it.
            self._thread.submit(self._compact, self.compacted)

    def _compact(self, rv: int) -> None:
        try:
            self.log.compact(rv)
        except (OSError, sqlite3.Error) as error:
            _log.warning("old history cannot be deleted from the disk: %s", error)

    async def close(self) -> None:
        """Store pending changes and close the file; a log in memory stays usable."""
        try:
            with contextlib.suppress(StorageError):
                await self.settle()
        finally:
            if self._thread is not None:
                # The thread may still be compacting over the connection that is closed next.
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
