"""An API server's lists and watches in memory, with faults to order."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import NamedTuple

import msgspec

from fairlead.api.meta import JSON, Object, object_from_dict
from fairlead.api.resource import Resource
from fairlead.api.status import REASON_CODES, Status
from fairlead.client import ObjectList, WatchEvent
from fairlead.client.bounds import Intake
from fairlead.client.errors import ApiError, api_error
from fairlead.client.wire import EventType, Page, unchanged


WIDGETS = Resource("example.org", "v1", "widgets", "Widget")


def refusal(reason: str, message: str = "", *, retry_after: float | None = None) -> ApiError:
    """The error that a client raises for a Status of this reason."""
    status = Status("Failure", message or reason, reason, REASON_CODES[reason])
    return api_error(status, retry_after=retry_after)


def widget(
    name: str,
    version: int | str = 1,
    *,
    namespace: str = "ns",
    uid: str = "",
    labels: dict[str, str] | None = None,
    **fields: JSON,
) -> Object:
    """An object as a server would send it."""
    metadata: JSON = {
        "name": name,
        "namespace": namespace,
        "uid": uid or f"uid-{name}",
        "resourceVersion": str(version),
    }
    if labels:
        metadata["labels"] = labels
    body = {"apiVersion": "example.org/v1", "kind": "Widget", "metadata": metadata, **fields}
    return object_from_dict(body)


class Asked(NamedTuple):
    """A request that arrived."""

    verb: str
    at: float
    version: str = ""


class FakeServer:
    """Lists and watches one collection; every change has the next version."""

    def __init__(self) -> None:
        self.intake = Intake("fake", None)
        self.version = 0
        self.asked: list[Asked] = []
        self.open_watches = 0
        self.fault: dict[str, Callable[[], Exception]] = {}
        self.close_at_once = False
        self.pages = 0.0
        """Seconds between pages of one object each; 0 for a list in one piece."""
        self._losing = 0
        self._oldest = 0
        self._paged: list[Object] = []
        self._paged_version = 0
        self._once: dict[str, deque[Exception]] = defaultdict(deque)
        self._objects: dict[str, Object] = {}
        self._log: list[tuple[int, EventType, Object]] = []
        self._ends: list[Exception | None] = []
        self._changed = asyncio.Condition()
        self._generation = 0

    def fail_once(self, verb: str, *errors: Exception) -> None:
        """Answer the next requests of this verb so."""
        self._once[verb].extend(errors)

    async def put(self, name: str, *, uid: str = "") -> None:
        self.version += 1
        type_: EventType = "MODIFIED" if name in self._objects else "ADDED"
        self._objects[name] = widget(name, self.version, uid=uid)
        await self._say(type_, self._objects[name])

    async def delete(self, name: str) -> None:
        self.version += 1
        gone = self._objects.pop(name)
        await self._say("DELETED", widget(name, self.version, uid=gone.meta.uid))

    async def bookmark(self) -> None:
        self.version += 1
        await self._say("BOOKMARK", widget("", self.version, namespace="", uid="-"))

    def compact(self) -> None:
        """Forget the past: watches from before now get a 410."""
        self._oldest = self.version
        self._log.clear()

    async def end_watches(self, error: Exception | None = None) -> None:
        """Close every watch, cleanly or with an error."""
        self._generation += 1
        self._ends.append(error)
        async with self._changed:
            self._changed.notify_all()

    def count(self, verb: str) -> int:
        return sum(asked.verb == verb for asked in self.asked)

    async def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        limit: int = 500,
        metadata_only: bool = False,
        arrived: Callable[[Sequence[Object]], None] | None = None,
        transform: Callable[[Object], Object] = unchanged,
    ) -> ObjectList:
        self._ask("list")
        await asyncio.sleep(0)
        paged: dict[int, Object] = {}
        if self.pages and arrived is not None:
            for name in list(self._objects)[:-1]:
                one = self._objects[name]
                arrived([paged.setdefault(id(one), transform(msgspec.structs.replace(one)))])
                await asyncio.sleep(self.pages)
        # Each answer is decoded anew.
        here = self._objects.values()
        items = [paged.get(id(one)) or transform(msgspec.structs.replace(one)) for one in here]
        return ObjectList(items, str(self.version))

    async def page(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        limit: int,
        continue_: str = "",
        metadata_only: bool = False,
        transform: Callable[[Object], Object] = unchanged,
    ) -> Page:
        """One page of all objects as they are at its first."""
        self._ask("page")
        await asyncio.sleep(0)
        begin = int(continue_ or 0)
        if not begin:
            self._paged, self._paged_version = [*self._objects.values()], self.version
        items = [transform(one) for one in self._paged[begin : begin + limit]]
        more = begin + limit < len(self._paged)
        return Page(items, str(self._paged_version), str(begin + limit) if more else "")

    async def watch(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        resource_version: str,
        labels: str = "",
        fields: str = "",
        timeout_seconds: float | None = None,
        metadata_only: bool = False,
    ) -> AsyncGenerator[WatchEvent, None]:
        self._ask("watch", resource_version)
        if int(resource_version) < self._oldest:
            raise refusal("Expired", "too old resource version")
        self.open_watches += 1
        try:
            async for event in self._stream(int(resource_version), timeout_seconds or 600.0):
                yield event
        finally:
            self.open_watches -= 1

    async def _stream(self, version: int, seconds: float) -> AsyncGenerator[WatchEvent, None]:
        generation = self._generation
        deadline = asyncio.get_running_loop().time() + seconds
        while True:
            if generation != self._generation:
                error = self._ends[-1]
                if error is not None:
                    raise error
                return
            for number, type_, object_ in list(self._log):
                if number > version:
                    version = number
                    yield WatchEvent(type_, object_)
            if self.close_at_once:
                return
            try:
                async with asyncio.timeout_at(deadline), self._changed:
                    await self._changed.wait()
            except TimeoutError:
                return

    def _ask(self, verb: str, version: str = "") -> None:
        self.asked.append(Asked(verb, asyncio.get_running_loop().time(), version))
        if self._once[verb]:
            raise self._once[verb].popleft()
        if verb in self.fault:
            error = self.fault[verb]()
            raise error

    def lose(self, times: int = 1) -> None:
        """Tell nobody of so many of the next changes."""
        self._losing += times

    async def _say(self, type_: EventType, object_: Object) -> None:
        if self._losing:
            self._losing -= 1
            return
        self._log.append((self.version, type_, object_))
        async with self._changed:
            self._changed.notify_all()
