"""The current objects in memory, the log behind them, and their watches.

Everything here runs on one event loop, so that a read never sees half of a write.
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
"""Turns of the event loop between the first change and the wake-up of watches."""


class StorageError(Exception):
    """A change could not be written to the disk, and was taken back."""


class ObjectTooLargeError(ValueError):
    """An object would be larger than what is stored; the text says how large."""


MAX_OBJECT = 3 * 1024 * 1024
"""Bytes of the largest object as JSON; etcd takes 1.5 MiB of what is often stored more tightly."""
_PAUSE = 1.0
"""Seconds between a change that could not be stored and the next that is tried."""


class Wakeups:
    """Wakes watches together, once the requests that are here already have been worked on.

    Under load every answer would otherwise be followed by a write to every watch. Waiting for
    turns of the event loop, and not for a time, costs next to nothing when there is nothing else
    to do.
    """

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Event, None] = {}

    def add(self, wakeup: asyncio.Event) -> None:
        """Set the event soon, together with others."""
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
    """All collections, and the one counter of versions.

    In a file, a change is published and answered once it is on disk; changes made while the disk
    works share the next transaction. Those that cannot be stored are taken back, so that readers
    see what was there before; their versions are not used again.
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
        self.failure = ""
        """Why the disk cannot be written; "" when it can, as far as is known."""
        self._refused_until = 0.0
        self._lost: list[range] = []
        self._recovery: list[Callable[[], None]] = []
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

    def on_recovery(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` when the disk can be written again after some changes were lost."""
        self._recovery.append(listener)

    def put(self, collection: str, key: Key, body: JSON) -> Record:
        """Store an object; its resourceVersion is set in ``body``.

        Raises:
            StorageError: an earlier change could not be stored.
            ObjectTooLargeError: there is more of it than is stored.
        """
        self._check()
        # The counter moves only when the object is known to fit: the version of one that does not
        # would never be published, and readers would wait for it.
        body["metadata"]["resourceVersion"] = str(self.rv + 1)
        raw = msgspec.json.encode(body)
        if len(raw) > MAX_OBJECT:
            raise ObjectTooLargeError(
                f"the object would have {len(raw)} bytes with what the server notes in it, limit "
                f"is {MAX_OBJECT}"
            )
        self.rv += 1
        record = Record(key, self.rv, raw)
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
        # After the pause a write is let through again: only one that is tried shows whether the
        # disk works.
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
                # What is written meanwhile waits for the next transaction: one fsync serves many.
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
            # No await lies between the last look at what is pending and this, so that no change is
            # left behind without a task.
            self._flush = None

    def _wake(self) -> None:
        while self._waiters and self._waiters[0][0] <= self.published:
            future = self._waiters.popleft()[1]
            if not future.done():
                future.set_result(None)

    def _fail(self, lost: list[Change], error: Exception) -> None:
        """A change was lost: it is taken back, and so are those that came after it."""
        _log.error("the log cannot be written: %s", error)
        self.failure = f"the disk cannot be written: {error}"
        self._refused_until = monotonic() + _PAUSE
        self._pending.clear()
        # Backwards, so that of several changes to one object the oldest state is put back last.
        for change in reversed(lost):
            held = self.collection(change.collection)
            if change.old is None:
                held.remove(change.record.key)
            else:
                held.put(change.old)
        # A version of its own tells what is seen from now on from what was seen of the lost ones.
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
        """Return once every change up to ``rv`` (or made until now) is stored and published.

        Raises:
            StorageError: a change could not be stored.
        """
        wanted = self.rv if rv is None else min(rv, self.rv)
        # Newer versions may have been published since, and yet what the caller has read was taken
        # back.
        if any(wanted in versions for versions in self._lost):
            raise StorageError(self.failure or "the disk could not be written for a while")
        if self.published >= wanted:
            return
        future = asyncio.get_running_loop().create_future()
        # In the order of versions, since the counter only grows: writers wake from the front.
        self._waiters.append((self.rv, future))
        await future

    def history(self, collection: str, after: int, until: int, limit: int) -> list[Change]:
        """The first published changes of a collection in (after, until] out of the log."""
        found = []
        for row in self.log.changes(collection, after, until, limit):
            # A watch with a selector has to know whether the object matched before.
            previous = self.log.before(row) if row.type != "ADDED" else None
            old = _record(previous) if previous else None
            found.append(Change(collection, row.type, _record(row), old))
        return found

    def state(self, collection: str, rv: int) -> list[Record]:
        """The objects that a collection had at ``rv``, in order."""
        records = [_record(row) for row in self.log.state(rv, collection)]
        return sorted(records, key=lambda record: record.key)

    def compact(self, rv: int | None = None) -> None:
        """Forget history up to ``rv``, by default all that is published."""
        # Set before the rows go, so that no read asks for history that may be half gone.
        self.compacted = self.published if rv is None else min(rv, self.published)
        if self._thread is None:
            self.log.compact(self.compacted)
        else:
            # No request waits for this, so the disk may take its time.
            self._thread.submit(self._compact, self.compacted)

    def _compact(self, rv: int) -> None:
        try:
            self.log.compact(rv)
        except (OSError, sqlite3.Error) as error:
            _log.warning("history is not forgotten on the disk: %s", error)

    async def close(self) -> None:
        """Store what is pending and release the file; a log in memory stays usable."""
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
