"""Answers the reads of a pass: from what is known here already, else from the server.

Whatever a read is about is watched first, so that no change after the answer goes unseen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import NamedTuple

from fairlead.api.meta import Object
from fairlead.binding.cluster.dependencies import Dependencies
from fairlead.binding.cluster.fetching import fetch
from fairlead.binding.cluster.mappings import Mappings, is_mapping
from fairlead.binding.cluster.verdicts import Verdicts
from fairlead.binding.reads import Answer, Failure, Get, ListAll, Marked, Read, Review
from fairlead.client import Client
from fairlead.runtime import Request


_AT_ONCE = 32
"""Reads of one binding that a server is asked at the same time."""

_FEW = 16
"""Workloads of a selector that are read one by one, rather than listed."""


class Given(NamedTuple):
    """An answer; not ``watched`` when changes of what it is about may go unseen for now."""

    answer: Answer
    watched: bool = True


class Answers:
    """Answers the reads of the bindings of one API."""

    def __init__(self, client: Client, dependencies: Dependencies, mappings: Mappings) -> None:
        self._client = client
        self._dependencies = dependencies
        self._mappings = mappings
        self._verdicts = Verdicts(client)

    async def give(self, request: Request, reads: Sequence[Read]) -> list[Given]:
        """Answer reads that do not depend on one another, but never too many at once.

        Raises:
            ConnectionFailed: the server cannot be reached.
        """
        free = asyncio.Semaphore(_AT_ONCE)

        async def one(read: Read) -> Given:
            async with free:
                return await self._answer(request, read)

        return await asyncio.gather(*map(one, reads))

    async def _answer(self, request: Request, read: Read) -> Given:
        # All mappings are watched for all bindings, so that none needs a watch of its own.
        if isinstance(read, Get) and is_mapping(read):
            self._dependencies.note(request, read)
            return Given(self._mappings.answer(read))
        if isinstance(read, Marked):
            return await self._marked(request, read)
        if isinstance(read, ListAll):
            return await self._list(request, read)
        watched = True
        if isinstance(read, Get):
            watched = await self._dependencies.join(request, read)
        else:
            self._dependencies.note(request, read)
        if isinstance(read, Review):
            return Given(await self._verdicts.allowed(read))
        return Given(await fetch(self._client, read), watched)

    async def _list(self, request: Request, read: ListAll) -> Given:
        """A server looks at all of a kind to list a few, so a few are asked for by their names."""
        watched = await self._dependencies.join(request, read)
        found = self._dependencies.selected(read) if watched else []
        if not 0 < len(found) <= _FEW:
            return Given(await fetch(self._client, read), watched)
        reads = [Get(read.resource, read.namespace, one.meta.name) for one in found]
        answers = await asyncio.gather(*(fetch(self._client, one) for one in reads))
        whole = [one for one in answers if isinstance(one, Object)]
        selected = tuple(one for one in whole if read.matcher.matches(one.meta.labels))
        # One that has gone since the watch showed it is selected no more, and no failure.
        refused = (one for one in answers if isinstance(one, Failure) and not _is_gone(one))
        return Given(next(refused, selected), watched)

    async def _marked(self, request: Request, read: Marked) -> Given:
        if not await self._dependencies.join(request, read):
            return Given(await fetch(self._client, read), watched=read.optional)
        found, written = self._dependencies.marked(request, read)
        known = {item.meta.name: item for item in found}
        # Our own write may be ahead of the watch: its place is read from the server.
        for name in written:
            answer = await fetch(self._client, Get(read.resource, read.namespace, name))
            if isinstance(answer, Object) and read.matches(answer.meta):
                known[name] = answer
            elif isinstance(answer, Object) or _is_gone(answer):
                known.pop(name, None)
        return Given(tuple(known.values()))


class Pass:
    """Answers the reads of one pass over one binding.

    It is ``blind`` where changes of what was read may go unseen for now. A pass that gives way
    goes on as the only one of its namespace that has: ``turn`` holds it until the pass is over.
    """

    def __init__(
        self, answers: Answers, request: Request, lock: asyncio.Lock, turn: AsyncExitStack
    ) -> None:
        self.blind = False
        self._answers = answers
        self._request = request
        self._lock = lock
        self._turn = turn
        self._is_held = False

    async def answers(self, reads: Sequence[Read]) -> Sequence[Answer]:
        """Answer reads, and note whether all are watched; raises as :meth:`Answers.give` does."""
        found = await self._answers.give(self._request, reads)
        self.blind |= not all(one.watched for one in found)
        return [one.answer for one in found]

    async def give_way(self) -> None:
        """Let others work; wait for those of the namespace that have given way before."""
        if not self._is_held:
            self._is_held = True
            await self._turn.enter_async_context(self._lock)
        await asyncio.sleep(0)


def _is_gone(answer: Answer) -> bool:
    return isinstance(answer, Failure) and answer.code == "NotFound"
