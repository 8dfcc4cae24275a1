"""Bounds on what a server may answer, for each server that the user or the Pod has not named.

What a server sends is held in memory until it is whole: an answer until its end, an event of a
watch until its line is complete, a list until its last page. So each of them has a bound, in bytes
after decompression. Few answers and lines may be large at the same time, and lists count together:
a bound for each would be none for all.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol, Self

import aiohttp

from fairlead.api.meta import Object
from fairlead.client import limits
from fairlead.client.errors import AnswerTooLarge, Bound


@dataclass(frozen=True)
class Bounds:
    """Bounds of one server, in bytes after decompression.

    ``answer`` is for one answer, which of a list is one page, ``event`` for one line of a watch.
    ``objects`` is for the objects of all lists that are under way, and also for those of all
    caches: see :func:`cost`.
    """

    answer: int = 4 << 20
    event: int = 4 << 20
    objects: int = 256 << 20

    def within(self, memory: int) -> Bounds:
        """Return these bounds for a program with so many bytes of memory; 0 is without a limit.

        A cache is listed anew beside what it holds, and the other servers need room, too.
        """
        if not memory:
            return self
        return replace(self, objects=min(self.objects, memory * 3 // 10))


def cost(object_: Object) -> int:
    """Return how many bytes an object counts: its JSON, and what its metadata takes decoded."""
    meta = object_.meta
    entries = len(meta.labels) + len(meta.annotations)
    entries += len(meta.owner_references) + len(meta.finalizers)
    return len(object_.raw) + limits.OBJECT_BYTES + limits.ENTRY_BYTES * entries


class Chunks(Protocol):
    """Body of an answer, as it arrives."""

    async def readany(self) -> bytes:
        """Return the bytes that have arrived; b"" at the end."""
        ...


class Intake:
    """Accounts for what one client takes of its server.

    Without ``bounds`` the server is trusted. ``most`` bounds all answers together over the life of
    the client, None leaves that open.
    """

    def __init__(self, server: str, bounds: Bounds | None, most: int | None = None) -> None:
        self.bounds = bounds
        self.refused: Counter[Bound] = Counter()
        """Number of answers that were not taken, by the bound that they exceed."""
        self.slots = asyncio.Semaphore(limits.LARGE_AT_ONCE)
        self._server = server
        self._most = most
        self._taken = 0
        self._listed = 0
        self._excesses: dict[str, tuple[AnswerTooLarge, float]] = {}

    def body(self, content: aiohttp.StreamReader, *, unpacked: bool) -> Body:
        """Return a body that is read within the bounds; ``unpacked`` if it came compressed."""
        return Body(content, self, unpacked=unpacked)

    def growing(self, bound: Bound) -> Growing:
        """Return the account of one answer or line; for an untrusted server alone."""
        assert self.bounds is not None  # noqa: S101
        limit = self.bounds.answer if bound == "answer" else self.bounds.event
        return Growing(self, bound, limit)

    def arrived(self, count: int) -> None:
        """Count bytes of any answer.

        Raises:
            AnswerTooLarge: all answers together exceed ``most``.
        """
        self._taken += count
        if self._most is not None and self._taken > self._most:
            raise self.excess("all", self._most)

    def check_page(self, count: int) -> None:
        """Check the number of objects in an answer: one of two bytes takes hundreds when decoded.

        Raises:
            AnswerTooLarge: the objects take more than the bound of an answer.
        """
        if self.bounds is not None and count * limits.OBJECT_BYTES > max(
            self.bounds.answer, limits.LARGE_BYTES
        ):
            raise self.excess("answer", self.bounds.answer)

    @contextmanager
    def listing(self) -> Iterator[Listing]:
        """Account for the objects of one list, until it is handed over."""
        listing = Listing(self)
        try:
            yield listing
        finally:
            listing.restart()

    def listed(self, count: int) -> None:
        """Count bytes of the objects of lists that are under way; a negative number takes back.

        Raises:
            AnswerTooLarge: all lists together exceed their bound; nothing was counted.
        """
        if count > 0 and self.bounds is not None and self._listed + count > self.bounds.objects:
            raise self.excess("objects", self.bounds.objects)
        self._listed += count

    def excess(self, bound: Bound, limit: int) -> AnswerTooLarge:
        """Count an answer that is not taken; return the error."""
        self.refused[bound] += 1
        return AnswerTooLarge(self._server, bound, limit)

    def note(self, path: str, error: AnswerTooLarge | None) -> None:
        """Remember that what is read at a path is too large; None: that it is not."""
        if error is None:
            self._excesses.pop(path, None)
        elif path in self._excesses or len(self._excesses) < limits.EXCESSES:
            self._excesses[path] = (error, asyncio.get_running_loop().time())

    @property
    def noted(self) -> AnswerTooLarge | None:
        """The first error of a request whose last answer was too large; None without one."""
        if not self._excesses:
            return None
        since = asyncio.get_running_loop().time() - limits.EXCESS_SECONDS
        self._excesses = {
            path: excess for path, excess in self._excesses.items() if excess[1] > since
        }
        return next((error for error, _ in self._excesses.values()), None)


class Body:
    """Body of an answer, read within the bounds of an :class:`Intake`."""

    __slots__ = ("_content", "_intake", "_unpacked")

    def __init__(self, content: aiohttp.StreamReader, intake: Intake, *, unpacked: bool) -> None:
        self._content = content
        self._intake = intake
        self._unpacked = unpacked

    async def readany(self) -> bytes:
        """Return the bytes that have arrived; b"" at the end.

        Raises:
            AnswerTooLarge: with this chunk all answers exceed their bound.
        """
        chunk = await self._content.readany()
        self._intake.arrived(len(chunk))
        if self._unpacked:
            # A few bytes may unpack to very many, which are here without any wait: others go on.
            await asyncio.sleep(0)
        return chunk

    async def read(self, most: int = 0) -> bytes:
        """Return the whole body; ``most`` are its bytes from a trusted server, 0 for any number.

        Raises:
            AnswerTooLarge: the body exceeds a bound.
        """
        if self._intake.bounds is None:
            return await (self._read_up_to(most) if most else self._content.read())
        parts = []
        with self._intake.growing("answer") as growing:
            while chunk := await self.readany():
                await growing.take(len(chunk))
                parts.append(chunk)
            return b"".join(parts)

    async def _read_up_to(self, most: int) -> bytes:
        parts, size = [], 0
        while chunk := await self.readany():
            size += len(chunk)
            if size > most:
                raise self._intake.excess("answer", most)
            parts.append(chunk)
        return b"".join(parts)


class Growing:
    """Account of one answer or line that is held until it is whole.

    From ``LARGE_BYTES`` on it has one of the client's few places, and its reader waits for
    one. The reader that has a place waits for the server alone, so that places come back.
    """

    def __init__(self, intake: Intake, bound: Bound, limit: int) -> None:
        self._intake = intake
        self._bound = bound
        self._limit = limit
        self._size = 0
        self._placed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.clear()

    async def take(self, count: int) -> None:
        """Count bytes that have arrived, and wait for a place if they make it large.

        Raises:
            AnswerTooLarge: it exceeds its bound.
        """
        self._size += count
        if self._size > self._limit:
            raise self._intake.excess(self._bound, self._limit)
        if self._size > limits.LARGE_BYTES and not self._placed:
            await self._intake.slots.acquire()
            self._placed = True

    def clear(self) -> None:
        """Begin anew, since it is whole or was given up."""
        self._size = 0
        if self._placed:
            self._placed = False
            self._intake.slots.release()


class Listing:
    """Account of the objects of one list that is under way."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._size = 0

    def take(self, objects: list[Object]) -> None:
        """Count the objects of a page.

        Raises:
            AnswerTooLarge: with them the lists exceed their bound.
        """
        if self._intake.bounds is None:
            return
        # An empty page counts too, or a list that never ends would have no bound.
        size = limits.OBJECT_BYTES + sum(map(cost, objects))
        self._intake.listed(size)
        self._size += size

    def restart(self) -> None:
        """Take back all that was counted."""
        self._intake.listed(-self._size)
        self._size = 0
