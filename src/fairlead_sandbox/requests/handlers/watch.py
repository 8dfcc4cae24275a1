"""GET with ``watch``: a stream of events from a version on.

An event is encoded once for all who watch the same version and form. What happened before the
request comes out of the log, what happens after it from the store, and no change is in both.
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
from fairlead_sandbox.requests.selection import parse_selection
from fairlead_sandbox.storage.log import ChangeType
from fairlead_sandbox.storage.records import Change, Record
from fairlead_sandbox.storage.store import StorageError


class Stream(Protocol):
    """The client's end of a watch."""

    async def write(self, data: bytes) -> None:
        """Send a part of the stream.

        Raises:
            OSError: the client is gone.
        """


class _Options(NamedTuple):
    after: int | None
    """The version to resume from; None starts with what is there."""
    timeout: float
    bookmarks: bool
    initial_end: bool


_log = logging.getLogger(__name__)

BATCH = 256
"""Events in one write."""
BATCH_BYTES = 256 * 1024
"""Bytes in one write, unless one event has more."""
BACKLOG = 20_000
"""Events that may wait for a slow client before its watch is ended."""
BACKLOG_BYTES = 64 * 1024 * 1024
"""Bytes of events that may wait for a slow client before its watch is ended."""


class Watch:
    """One watch request; ``stop`` ends it from outside."""

    def __init__(self, call: Call, bookmark_interval: float = 60.0) -> None:
        self._call = call
        self._selection = parse_selection(call.type, call.query, call.info.name)
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
        """The version that the beginning shows; it may be on its way to the disk."""

    def stop(self) -> None:
        """End the stream after what is pending."""
        self._stopped = True
        self._wakeup.set()

    def lose(self, times: int) -> None:
        """Leave out so many of the next events."""
        self._losing += times

    def push(self, data: bytes) -> None:
        """Put bytes into the stream."""
        self._pending.append(data)
        self._wakeup.set()

    async def run(self, stream: Stream) -> None:
        """Send events until the time is over, the client goes or :meth:`stop` is called."""
        store = self._call.core.store
        collection = store.collection(self._call.type.collection)
        # No await lies between looking at what is there and subscribing to what comes.
        beginning = self._beginning()
        collection.subscribers[self._on_change] = None
        collection.closers[self.stop] = None
        try:
            await store.settle(self._start)
            async for events in beginning:
                for batch in _batches(events):
                    await stream.write(batch)
            await self._follow(stream)
        except StorageError as error:
            # What the beginning shows was taken back, before any of it was sent.
            await stream.write(_error_event(errors.disk_full(str(error))))
        except errors.StatusError as error:
            await stream.write(_error_event(error))
        finally:
            collection.subscribers.pop(self._on_change, None)
            collection.closers.pop(self.stop, None)

    def _beginning(self) -> AsyncIterator[Iterable[bytes]]:
        """Yield the events before live ones, each encoded when it is sent.

        A slow client then holds no copies of them.
        """
        store, after = self._call.core.store, self._options.after
        if after is not None:
            return self._replayed(after, store.published)
        self._start = store.rv
        held = store.collection(self._call.type.collection)
        found = [one for one in held.list(self._namespace) if self._selection.matches(one)]
        return self._shown(found)

    async def _shown(self, records: list[Record]) -> AsyncIterator[Iterable[bytes]]:
        yield (self._encode("ADDED", record) for record in records)
        if self._options.initial_end:
            yield [self._bookmark(self._start, initial_end=True)]

    async def _replayed(self, after: int, until: int) -> AsyncIterator[Iterable[bytes]]:
        """The events in (after, until] out of the log.

        A version that has not happened yet comes from a server that was started anew: the client
        has to list again, and so if history is forgotten meanwhile.
        """
        store, name = self._call.core.store, self._call.type.collection
        while after != until:
            if not store.compacted <= after <= until:
                text = f"too old resource version: {after} ({store.compacted})"
                raise errors.expired(text)
            changes = store.history(name, after, until, BATCH)
            yield (data for change in changes if (data := self._event(change)) is not None)
            after = changes[-1].rv if len(changes) == BATCH else until

    def _on_change(self, change: Change) -> None:
        # The beginning has shown it from memory before it was published.
        if change.rv <= self._start or self._stopped:
            return
        try:
            data = self._event(change)
        except Exception:  # noqa: BLE001 - one watch must not keep a change from the others
            _log.exception("a watch cannot show %s", change.record.key)
            self.stop()
            return
        if data is None:
            return
        if self._losing:
            self._losing -= 1
            return
        self._pending_bytes += len(data)
        if len(self._pending) >= BACKLOG or self._pending_bytes > BACKLOG_BYTES:
            # The client is too slow: it may resume from the last event that it has read.
            self._pending.clear()
            self.stop()
            return
        self._pending.append(data)
        self._call.core.store.wakeups.add(self._wakeup)

    def _event(self, change: Change) -> bytes | None:
        """The event that this watch sees, if it sees one; leaving the selection is a DELETED."""
        record = change.record
        if self._namespace and record.key.namespace != self._namespace:
            return None
        type_: ChangeType = change.type
        if not self._selection.everything:
            before = change.old is not None and self._selection.matches(change.old)
            after = type_ != "DELETED" and self._selection.matches(record)
            if not before and not after:
                return None
            if before != after:
                type_ = "ADDED" if after else "DELETED"
        view = (type_, *self._view)
        data = change.encoded.get(view)
        if data is None:
            # An object that leaves the selection is shown as the watch has known it, with the
            # version of the change, from which the client resumes.
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
        # The client knows by this from where to go on, however long there was no event for it.
        if not self._stopped:
            self._push_bookmark()
            await self._send(stream)

    def _push_bookmark(self) -> None:
        if self._options.bookmarks:
            # It stands behind all pending events, so that nothing up to this version is still to
            # come.
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
    """The events, some together."""
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
    initial = query.get("sendInitialEvents", "") in {"true", "1"}
    bookmarks = query.get("allowWatchBookmarks", "") in {"true", "1"}
    try:
        seconds = parse_integer(query.get("timeoutSeconds", ""))
    except ValueError as error:
        raise errors.bad_request(str(error)) from None
    # As kube-apiserver does with its --min-request-timeout of 1800 s; watches that began together
    # do not end together.
    timeout = float(seconds) if seconds else random.uniform(1800, 3600)  # noqa: S311
    return _Options(
        # Version 0 asks for any state there is, which is the newest here.
        after=None if initial or not version else version,
        timeout=timeout,
        bookmarks=bookmarks,
        initial_end=initial and bookmarks,
    )
