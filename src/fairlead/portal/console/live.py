"""Live pages: one stream for each open page, which brings it anew when its content has changed.

A change wakes the streams of its topics alone. What people of one scope see is rendered once for
all of them. A stream asks again and again whether its viewer still may: it ends when not.
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
from fairlead.portal.console.rendering import Pages, digest
from fairlead.portal.console.viewing import Asked, Topics, View
from fairlead.portal.http.errors import Refusal
from fairlead.runtime import Cluster, Delta, Informer


LOOK_SECONDS = 4.0
"""Seconds after which a stream asks anew whether its viewer still may see the page."""
REST_SECONDS = 0.2
"""Seconds between two renderings for a stream, however many changes there are."""
SHARE = 4.0
"""All streams of a person rest for so many times what was rendered for them."""
STALE_SECONDS = 30
"""Seconds after which what nothing has changed is rendered again: time itself makes late."""
OF_A_PERSON = 30
"""Streams that a person may have open at a server."""
IN_ALL = 2000
"""Streams that may be open at a server."""
_KEPT = 256
"""Parts of pages that are kept."""


class Part(NamedTuple):
    """What a stream sends: the part of the page, and what tells it from others.

    ``seconds`` is what rendering it took, 0 for who had it from another.
    """

    digest: str
    text: str
    seconds: float = 0.0


class Hub:
    """Knows who waits for what to change."""

    def __init__(self) -> None:
        self._clock = 0
        self._changed: dict[str, int] = {}
        self._waiting: dict[str, dict[Subscription, None]] = {}
        self._people: Counter[str] = Counter()
        self.closed = False

    def close(self) -> None:
        """End all streams: their browsers come again, to another replica."""
        self.closed = True
        for waiting in list(self._waiting.values()):
            for one in waiting:
                one.wake()

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
        """A cluster's informer, each of whose changes wakes the streams of its topics.

        ``topics`` tells them of an object; without it, they are its namespace. ``scope`` is as
        :meth:`Cluster.informer` takes it.
        """
        found = cluster.informer(resource, **scope)

        def heard(delta: Delta) -> None:
            if topics is None:
                self.changed(delta.object.meta.namespace)
                return
            # What it was before is gone from where it was.
            before = topics(delta.old) if delta.old is not None else ()
            now = topics(delta.new) if delta.new is not None else ()
            self.changed(*dict.fromkeys((*before, *now)))

        found.subscribe(heard)
        return found

    def changed(self, *topics: str) -> None:
        """Wake the streams of these topics."""
        self._clock += 1
        for topic in topics:
            if topic in self._waiting:
                self._changed[topic] = self._clock
                for one in self._waiting[topic]:
                    one.wake()

    def waits(self, topic: str) -> bool:
        """Whether a stream waits for a topic to change."""
        return topic in self._waiting

    def version(self, topics: Collection[str]) -> int:
        """A number that grows with each change of these topics."""
        return max((self._changed.get(topic, 0) for topic in topics), default=0)

    @contextmanager
    def subscribed(self, author: str) -> Iterator[Subscription]:
        """A stream of a person, for as long as the block lasts.

        Raises:
            Refusal: there are too many.
        """
        if self._people[author] >= OF_A_PERSON or len(self) >= IN_ALL:
            raise Refusal(
                503, ErrorCode.INTERNAL_ERROR, "too many pages are open", retry_after=LOOK_SECONDS
            )
        found = Subscription(self, author)
        self._people[author] += 1
        try:
            yield found
        finally:
            self._people[author] -= 1
            if not self._people[author]:
                del self._people[author]
            found.take(())

    def of(self, author: str) -> int:
        """How many streams a person has open."""
        return self._people[author]

    def _move(self, one: Subscription, before: Collection[str], topics: Collection[str]) -> None:
        for topic in set(before) - set(topics):
            waiting = self._waiting[topic]
            del waiting[one]
            if not waiting:
                del self._waiting[topic]
                self._changed.pop(topic, None)
        for topic in set(topics) - set(before):
            self._waiting.setdefault(topic, {})[one] = None
            self._changed.setdefault(topic, self._clock)


class Subscription:
    """One stream's place at the hub."""

    def __init__(self, hub: Hub, author: str = "") -> None:
        self._hub = hub
        self._author = author
        self._topics: Collection[str] = ()
        self._awake = asyncio.Event()
        self._until = 0.0

    def wake(self) -> None:
        """Tell it that something has changed."""
        self._awake.set()

    def take(self, topics: Collection[str]) -> None:
        """Be woken for these topics from now on."""
        if topics != self._topics:
            self._hub._move(self, self._topics, topics)  # noqa: SLF001  two halves of one thing
            self._topics = topics

    @property
    def rests(self) -> bool:
        """Whether nothing is rendered for it yet, whatever has changed."""
        return self._until > asyncio.get_running_loop().time()

    def rest(self, seconds: float) -> float:
        """Rest after a rendering that took so long; returns for how many seconds.

        A person may have many pages open that cost much, and change what they show: others wait
        for the same event loop.
        """
        wanted = SHARE * seconds * self._hub.of(self._author)
        found = max(REST_SECONDS, min(wanted, STALE_SECONDS))
        self._until = asyncio.get_running_loop().time() + found
        return found

    async def wait(self) -> None:
        """Return when something has changed and it does not rest, or when it is time to look."""
        loop = asyncio.get_running_loop()
        look = loop.time() + LOOK_SECONDS
        try:
            async with asyncio.timeout_at(look):
                await self._awake.wait()
                if not self._hub.closed:
                    await asyncio.sleep(self._until - loop.time())
        except TimeoutError:
            return
        # A timer may be early by less than clocks tell apart.
        self._until = 0.0
        self._awake.clear()


class Live:
    """Parts of pages as they are now, each rendered once for all who see the same."""

    def __init__(self, pages: Pages, hub: Hub) -> None:
        self._pages = pages
        self._hub = hub
        self._parts: OrderedDict[Hashable, tuple[Hashable, asyncio.Task[Part]]] = OrderedDict()

    async def part(self, view: View, scope: Hashable, asked: Asked) -> Part:
        """The part of a page that is kept up to date."""
        key = (view.route, scope, asked)
        version = (self._hub.version(view.topics(scope)), int(time.time() / STALE_SECONDS))
        known = self._parts.get(key)
        if known is not None and known[0] == version and not _failed(known[1]):
            self._parts.move_to_end(key)
            return (await asyncio.shield(known[1]))._replace(seconds=0.0)
        task = asyncio.create_task(self._render(view, scope, asked))
        self._parts[key] = version, task
        self._parts.move_to_end(key)
        if len(self._parts) > _KEPT:
            self._parts.popitem(last=False)
        return await asyncio.shield(task)

    async def _render(self, view: View, scope: Hashable, asked: Asked) -> Part:
        begun = time.thread_time()
        values = await view.values(scope, asked)
        text = self._pages.part(view.template, values)
        return Part(digest(text), text, time.thread_time() - begun)


def _failed(task: asyncio.Task[Part]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


def message(part: Part) -> bytes:
    """A part as a message of a stream."""
    lines = [f"id: {part.digest}", *(f"data: {line}" for line in part.text.splitlines())]
    return "\n".join([*lines, "", ""]).encode()
