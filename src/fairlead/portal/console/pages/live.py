"""Live pages: a stream per open page, which sends its content again after a change.

A change wakes only the streams of its topics. People with the same scope share one rendering. A
stream checks its viewer's rights at intervals, and ends when they are gone.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from fairlead.api.kubebind.wire import ErrorCode
from fairlead.api.meta import Object
from fairlead.api.resource import Resource
from fairlead.portal import bounds
from fairlead.portal.console.pages.rendering import Pages, digest
from fairlead.portal.console.pages.viewing import AskedPage, Topics, View
from fairlead.portal.http.errors import Refusal
from fairlead.runtime import Cluster, Delta, Informer


class PagePart(NamedTuple):
    """The live part of a page, with a digest to tell it from others.

    ``seconds`` is the time that rendering took, 0 if it was shared.
    """

    digest: str
    text: str
    seconds: float = 0.0


class Hub:
    """Wakes the streams that wait for a topic to change."""

    def __init__(self) -> None:
        self._clock = 0
        self._changed: dict[str, int] = {}
        self._waiting: dict[str, dict[Subscription, None]] = {}
        self._people: Counter[str] = Counter()
        self.closed = False

    def close(self) -> None:
        """End all streams: browsers reconnect to another replica."""
        self.closed = True
        for waiting in list(self._waiting.values()):
            for subscription in waiting:
                subscription.wake()

    def __len__(self) -> int:
        return self._people.total()

    def informer(
        self,
        cluster: Cluster,
        resource: Resource,
        *,
        topics: Callable[[Object], Topics] | None = None,
        **scope: Any,
    ) -> Informer:
        """Return an informer of a cluster whose changes wake the streams of their topics.

        ``topics`` returns an object's topics, by default its namespace. ``scope`` is passed on to
        :meth:`Cluster.informer`.
        """
        informer = cluster.informer(resource, **scope)

        def heard(delta: Delta) -> None:
            if topics is None:
                self.changed(delta.object.meta.namespace)
                return
            # Wake the former topics too: the object has left them.
            before = topics(delta.old) if delta.old is not None else ()
            now = topics(delta.new) if delta.new is not None else ()
            self.changed(*dict.fromkeys((*before, *now)))

        informer.subscribe(heard)
        return informer

    def changed(self, *topics: str) -> None:
        """Wake the streams of the topics."""
        self._clock += 1
        for topic in topics:
            if topic in self._waiting:
                self._changed[topic] = self._clock
                for subscription in self._waiting[topic]:
                    subscription.wake()

    def waits(self, topic: str) -> bool:
        """Whether a stream waits for ``topic``."""
        return topic in self._waiting

    def version(self, topics: Collection[str]) -> int:
        """Return the number of the last change of any of the topics."""
        return max((self._changed.get(topic, 0) for topic in topics), default=0)

    @contextmanager
    def subscribed(self, author: str) -> Iterator[Subscription]:
        """Open a stream of a person for the duration of the block.

        Raises:
            Refusal: too many streams are open.
        """
        if (
            self._people[author] >= bounds.STREAMS_OF_A_PERSON
            or len(self) >= bounds.STREAMS_IN_ALL
        ):
            raise Refusal(
                503,
                ErrorCode.INTERNAL_ERROR,
                "too many pages are open",
                retry_after=bounds.RIGHTS_SECONDS,
            )
        subscription = Subscription(self, author)
        self._people[author] += 1
        try:
            yield subscription
        finally:
            self._people[author] -= 1
            if not self._people[author]:
                del self._people[author]
            subscription.take(())

    def of(self, author: str) -> int:
        """Return the number of a person's open streams."""
        return self._people[author]

    def _move(
        self, subscription: Subscription, before: Collection[str], topics: Collection[str]
    ) -> None:
        for topic in set(before) - set(topics):
            waiting = self._waiting[topic]
            del waiting[subscription]
            if not waiting:
                del self._waiting[topic]
                # Without a stream the topic is forgotten, so that memory is bounded by the open
                # pages.
                self._changed.pop(topic, None)
        for topic in set(topics) - set(before):
            self._waiting.setdefault(topic, {})[subscription] = None
            # The present number: changes while no stream waited have to make the cached parts old.
            self._changed.setdefault(topic, self._clock)


class Subscription:
    """A stream's subscription at the hub."""

    def __init__(self, hub: Hub, author: str = "") -> None:
        self._hub = hub
        self._author = author
        self._topics: Collection[str] = ()
        self._awake = asyncio.Event()
        self._until = 0.0

    def wake(self) -> None:
        """Wake the stream after a change."""
        self._awake.set()

    def take(self, topics: Collection[str]) -> None:
        """Replace the topics that wake the stream; no topics end the subscription."""
        if topics != self._topics:
            self._hub._move(self, self._topics, topics)  # noqa: SLF001  two halves of one thing
            self._topics = topics

    @property
    def rests(self) -> bool:
        """Whether the stream still pauses after a rendering."""
        return self._until > asyncio.get_running_loop().time()

    def rest(self, seconds: float) -> float:
        """Pause after a rendering that took ``seconds``; return the length of the pause.

        Without it a person with many expensive pages could keep the event loop busy.
        """
        share = bounds.SHARE * seconds * self._hub.of(self._author)
        rest = max(bounds.STREAM_REST_SECONDS, min(share, bounds.STALE_SECONDS))
        self._until = asyncio.get_running_loop().time() + rest
        return rest

    async def wait(self) -> None:
        """Wait for a change and the end of the pause, or for the next check of rights."""
        loop = asyncio.get_running_loop()
        until = loop.time() + bounds.RIGHTS_SECONDS
        try:
            async with asyncio.timeout_at(until):
                await self._awake.wait()
                if not self._hub.closed:
                    await asyncio.sleep(self._until - loop.time())
        except TimeoutError:
            return
        # Timers may fire slightly early, so that the pause would not have ended.
        self._until = 0.0
        self._awake.clear()


class Live:
    """The live parts of pages, each rendered once for all viewers of the same scope."""

    def __init__(self, pages: Pages, hub: Hub) -> None:
        self._pages = pages
        self._hub = hub
        self._parts: OrderedDict[Hashable, tuple[Hashable, asyncio.Task[PagePart]]] = OrderedDict()

    async def part(self, view: View, scope: Hashable, page: AskedPage) -> PagePart:
        """Return the live part of a page."""
        key = (view.route, scope, page)
        # The time is part of the version: a heartbeat is late without any change.
        version = (self._hub.version(view.topics(scope)), int(time.time() / bounds.STALE_SECONDS))
        cached = self._parts.get(key)
        # A failed rendering is not shared: its next viewer renders anew.
        if cached is not None and cached[0] == version and not _failed(cached[1]):
            self._parts.move_to_end(key)
            return (await asyncio.shield(cached[1]))._replace(seconds=0.0)
        task = asyncio.create_task(self._render(view, scope, page))
        self._parts[key] = version, task
        self._parts.move_to_end(key)
        if len(self._parts) > bounds.RENDERED_PARTS:
            self._parts.popitem(last=False)
        return await asyncio.shield(task)

    async def _render(self, view: View, scope: Hashable, page: AskedPage) -> PagePart:
        # CPU time and not the time of waiting, for only CPU time holds up others.
        begun = time.thread_time()
        values = await view.values(scope, page)
        text = self._pages.part(view.template, values)
        return PagePart(digest(text), text, time.thread_time() - begun)


def _failed(task: asyncio.Task[PagePart]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


def message(part: PagePart) -> bytes:
    """Encode a part as a server-sent event."""
    # HTML standard, server-sent events: a browser that connects again sends the last id as
    # Last-Event-ID.
    lines = [f"id: {part.digest}", *(f"data: {line}" for line in part.text.splitlines())]
    return "\n".join([*lines, "", ""]).encode()
