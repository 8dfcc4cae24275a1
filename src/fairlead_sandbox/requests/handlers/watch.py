"""GET with ``watch``: a stream of events from a version on.

An event is encoded once for all watches of the same version and form. Changes before the request
are read from the log, later ones come from the store, and no change comes from both.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import NamedTuple, Protocol

import msgspec

from fairlead.api.meta import JSON
from fairlead_sandbox import errors
from fairlead_sandbox.requests import answers
from fairlead_sandbox.requests.calls import Call
from fairlead_sandbox.requests.handlers.read import parse_integer, parse_version
from fairlead_sandbox.requests.info import query_flag
from fairlead_sandbox.requests.selection import parse_selection
from fairlead_sandbox.storage.log import ChangeType
from fairlead_sandbox.storage.records import Change, Record
from fairlead_sandbox.storage.store import StorageError


class Stream(Protocol):
    """The connection that a watch writes to."""

    async def write(self, data: bytes) -> None:
        """Send a part of the stream.

        Raises:
            OSError: the client has gone.
        """


class _Options(NamedTuple):
    after: int | None
    """The version to resume after; None begins with ADDED events for all present objects."""
    timeout: float
    """Seconds after which the watch ends."""
    bookmarks: bool
    initial_end: bool
    """Whether a bookmark marks the end of the present objects (sendInitialEvents, KEP-3157)."""


_log = logging.getLogger(__name__)

BATCH = 256
"""Maximum number of events in one write."""
BATCH_BYTES = 256 * 1024
"""Size of events in bytes, from which on they are written; a single event may be larger."""
BACKLOG = 20_000
"""Maximum number of events that wait for a slow client; one more ends its watch."""
BACKLOG_BYTES = 64 * 1024 * 1024
"""Maximum size of events that wait for a slow client, in bytes; more ends its watch."""


class Watch:
    """One watch request; ``stop`` ends it from outside."""

    def __init__(self, call: Call, bookmark_interval: float = 60.0) -> None:
        self._call = call
        self._selection = parse_selection(call.type, call.query)
        self._options = _parse_options(call)
        self._namespace = call.info.namespace if call.type.resource.namespaced else ""
        self._pending: deque[bytes] = deque()
        self._pending_bytes = 0
        self._wakeup = asyncio.Event()
        self._include = call.query.get("includeObject", "")
        self._view = (
            call.type.resource.version,
            call.type.resource.group,
            call.accept,
            self._include,
        )
        self._bookmark_interval = bookmark_interval
        self._stopped = False
        self._losing = 0
        self._start = 0
        """Version of the objects that the watch begins with; it may not be stored yet."""

    def stop(self) -> None:
        """End the stream after the pending events."""
        self._stopped = True
        self._wakeup.set()

    def lose(self, times: int) -> None:
        """Leave out the next ``times`` events."""
        self._losing += times

    def push(self, data: bytes) -> None:
        """Add bytes to the stream."""
        self._pending.append(data)
        self._wakeup.set()

    async def run(self, stream: Stream) -> None:
        """Send events until the timeout, the client's disconnect or :meth:`stop`."""
        store = self._call.core.store
        collection = store.collection(self._call.type.collection)
        # No await between reading the present objects and subscribing to changes: a change in
        # between would be lost.
        beginning = self._beginning()
        collection.subscribers[self._on_change] = None
        collection.closers[self.stop] = None
        try:
            # The objects may be ahead of the disk. None is sent before it is stored, or a crash
            # could take back a state that a client has seen.
            await store.settle(self._start)
            async for events in beginning:
                for batch in _batches(events):
                    await stream.write(batch)
            await self._follow(stream)
        except StorageError as error:
            # The present objects included a change that was taken back; none of it was sent yet.
            await stream.write(_error_event(errors.disk_full(str(error))))
        except errors.StatusError as error:
            await stream.write(_error_event(error))
        finally:
            collection.subscribers.pop(self._on_change, None)
            collection.closers.pop(self.stop, None)

    def _beginning(self) -> AsyncIterator[Iterable[bytes]]:
        """Yield the events before live ones, each encoded only when it is sent.

        So a slow client holds no encoded copies of them.
        """
        store, after = self._call.core.store, self._options.after
        if after is not None:
            return self._replayed(after, store.published)
        self._start = store.rv
        collection = store.collection(self._call.type.collection)
        records = [one for one in collection.list(self._namespace) if self._selection.matches(one)]
        return self._shown(records)

    async def _shown(self, records: list[Record]) -> AsyncIterator[Iterable[bytes]]:
        yield (self._encode("ADDED", record) for record in records)
        if self._options.initial_end:
            yield [self._bookmark(self._start, initial_end=True)]

    async def _replayed(self, after: int, until: int) -> AsyncIterator[Iterable[bytes]]:
        """Yield the events of versions in (after, until] from the log.

        A version above the newest one comes from a control plane that was replaced. It gets 410,
        as do versions whose history is compacted meanwhile, so that the client lists again.
        """
        store, name = self._call.core.store, self._call.type.collection
        while after != until:
            if not store.compacted <= after <= until:
                # An event of type ERROR and no HTTP status: the head with its 200 is sent already.
                # client-go lists again after it.
                text = f"too old resource version: {after} ({store.compacted})"
                raise errors.expired(text)
            changes = store.history(name, after, until, BATCH)
            yield (data for change in changes if (data := self._event(change)) is not None)
            after = changes[-1].rv if len(changes) == BATCH else until

    def _on_change(self, change: Change) -> None:
        # The watch has begun with this version, which was in memory before it was published.
        if change.rv <= self._start or self._stopped:
            return
        try:
            data = self._event(change)
        except Exception:  # noqa: BLE001 - one watch must not keep a change from the others
            _log.exception("a watch cannot encode %s", change.record.key)
            self.stop()
            return
        if data is None:
            return
        if self._losing:
            self._losing -= 1
            return
        self._pending_bytes += len(data)
        if len(self._pending) >= BACKLOG or self._pending_bytes > BACKLOG_BYTES:
            # A slow client would fill the memory. It resumes from the last event that it read, or
            # lists again if that is compacted.
            self._pending.clear()
            self.stop()
            return
        self._pending.append(data)
        self._call.core.store.wakeups.add(self._wakeup)

    def _event(self, change: Change) -> bytes | None:
        """Return the event that this watch sends for a change, None if there is none.

        An object that enters the selection is ADDED, one that leaves it is DELETED.
        """
        record = change.record
        if self._namespace and record.key.namespace != self._namespace:
            return None
        type_: ChangeType = change.type
        if not self._selection.everything:
            before = change.old is not None and self._selection.matches(change.old)
            after = type_ != "DELETED" and self._selection.matches(record)
            if not before and not after:
                return None
            # kube-apiserver compares the states before and after the change with the selector, so
            # that a client's view of the selection stays whole (tests/contract/test_watch.py).
            if before != after:
                type_ = "ADDED" if after else "DELETED"
        view = (type_, *self._view)
        data = change.encoded.get(view)
        if data is None:
            # An object that leaves the selection is sent in its last selected state, but with the
            # version of the change, as kube-apiserver does: the client resumes from there.
            if type_ == "DELETED" and change.type != "DELETED" and change.old is not None:
                record = _with_version(change.old, record.rv)
            data = change.encoded[view] = self._encode(type_, record)
        return data

    def _encode(self, type_: ChangeType, record: Record) -> bytes:
        call = self._call
        body = answers.encode(call.type, record, call.accept, self._include)
        return b'{"type":"' + type_.encode() + b'","object":' + body + b"}\n"

    async def _follow(self, stream: Stream) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + self._options.timeout
        bookmark_at = loop.time() + self._bookmark_interval
        while True:
            await self._send(stream)
            moment = loop.time()
            if self._stopped or moment >= end:
                break
            if moment >= bookmark_at:
                bookmark_at = moment + self._bookmark_interval
                self._push_bookmark()
                continue
            self._wakeup.clear()
            if self._pending:
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(min(end, bookmark_at)):
                    await self._wakeup.wait()
        # A last bookmark, as kube-apiserver sends before a timeout: a client that got no event for
        # long resumes from it and not from a version that may be compacted.
        if not self._stopped:
            self._push_bookmark()
            await self._send(stream)

    def _push_bookmark(self) -> None:
        if self._options.bookmarks:
            # Behind all pending events: a bookmark promises that no event up to its version
            # follows.
            version = max(self._call.core.store.published, self._start)
            self._pending.append(self._bookmark(version))

    async def _send(self, stream: Stream) -> None:
        while self._pending:
            events, self._pending, self._pending_bytes = self._pending, deque(), 0
            for batch in _batches(events):
                await stream.write(batch)

    def _bookmark(self, version: int, *, initial_end: bool = False) -> bytes:
        metadata: JSON = {
            "resourceVersion": str(version),
            # Go writes an unset metav1.Time as null.
            "creationTimestamp": None,
        }
        if initial_end:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        resource = self._call.type.resource
        kind, api_version = resource.kind, resource.api_version
        if self._call.accept.form == "metadata":
            kind = "PartialObjectMetadata"
            api_version = f"meta.k8s.io/{self._call.accept.version}"
        body = {"kind": kind, "apiVersion": api_version, "metadata": metadata}
        return msgspec.json.encode({"type": "BOOKMARK", "object": body}) + b"\n"


def _batches(events: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the events joined into batches of at most BATCH events."""
    batch: list[bytes] = []
    size = 0
    for data in events:
        batch.append(data)
        size += len(data)
        if len(batch) >= BATCH or size >= BATCH_BYTES:
            yield b"".join(batch)
            batch.clear()
            size = 0
    if batch:
        yield b"".join(batch)


def _with_version(record: Record, version: int) -> Record:
    body = record.to_dict()
    body["metadata"]["resourceVersion"] = str(version)
    return Record(record.key, version, msgspec.json.encode(body))


def _error_event(error: errors.StatusError) -> bytes:
    return b'{"type":"ERROR","object":' + error.body() + b"}\n"


def _parse_options(call: Call) -> _Options:
    query = call.query
    version = parse_version(query.get("resourceVersion", ""))
    initial = query_flag(query, "sendInitialEvents")
    bookmarks = query_flag(query, "allowWatchBookmarks")
    try:
        seconds = parse_integer(query.get("timeoutSeconds", ""))
    except ValueError as error:
        raise errors.bad_request(str(error)) from None
    # kube-apiserver's --min-request-timeout is 1800 s, and it chooses a random time up to twice
    # that, so that watches which began together do not end together.
    # timeoutSeconds=0 counts as unset.
    timeout = float(seconds) if seconds else random.uniform(1800, 3600)  # noqa: S311
    return _Options(
        # Version 0 asks for any state that the server has; here that is the newest.
        after=None if initial or not version else version,
        timeout=timeout,
        bookmarks=bookmarks,
        initial_end=initial and bookmarks,
    )
