"""Answers the reads of a pass: from what is known here already, else from the server.

Whatever a read is about is watched first, so that no change after the answer goes unseen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from fairlead.api.meta import Object
from fairlead.binding.cluster.dependencies import Dependencies
from fairlead.binding.cluster.fetching import fetch
from fairlead.binding.cluster.mappings import Mappings, is_mapping
from fairlead.binding.cluster.verdicts import Verdicts
from fairlead.binding.reads import Answer, Failure, Get, ListAll, Marked, Read, Review, Snapshot
from fairlead.client import Client
from fairlead.runtime import Request


_AT_ONCE = 32
"""Reads of one binding that a server is asked at the same time."""

_FEW = 16
"""Workloads of a selector that are read one by one, rather than listed."""


class Answers:
    """Answers the reads of the bindings of one API."""

    def __init__(self, client: Client, dependencies: Dependencies, mappings: Mappings) -> None:
        self._client = client
        self._dependencies = dependencies
        self._mappings = mappings
        self._verdicts = Verdicts(client)

    async def give(self, request: Request, reads: Sequence[Read], snapshot: Snapshot) -> bool:
        """Answer reads that do not depend on one another, but never too many at once.

        Returns False when changes of what they are about may go unseen for now.

        Raises:
            ConnectionFailed: the server cannot be reached.
        """
        free = asyncio.Semaphore(_AT_ONCE)

        async def one(read: Read) -> bool:
            async with free:
                return await self._answer(request, read, snapshot)

        return all(await asyncio.gather(*map(one, reads)))

    async def _answer(self, request: Request, read: Read, snapshot: Snapshot) -> bool:
        # All mappings are watched for all bindings, so that none needs a watch of its own.
        if isinstance(read, Get) and is_mapping(read):
            self._dependencies.note(request, read)
            snapshot.put(read, self._mappings.answer(read))
            return True
        if isinstance(read, Marked):
            return await self._marked(request, read, snapshot)
        if isinstance(read, ListAll):
            return await self._list(request, read, snapshot)
        watched = True
        if isinstance(read, Get):
            watched = await self._dependencies.join(request, read)
        else:
            self._dependencies.note(request, read)
        if isinstance(read, Review):
            snapshot.put(read, await self._verdicts.allowed(read))
        else:
            snapshot.put(read, await fetch(self._client, read))
        return watched

    async def _list(self, request: Request, read: ListAll, snapshot: Snapshot) -> bool:
        """A server looks at all of a kind to list a few, so a few are asked for by their names."""
        watched = await self._dependencies.join(request, read)
        found = self._dependencies.selected(read) if watched else []
        if not 0 < len(found) <= _FEW:
            snapshot.put(read, await fetch(self._client, read))
            return watched
        reads = [Get(read.resource, read.namespace, one.meta.name) for one in found]
        answers = await asyncio.gather(*(fetch(self._client, one) for one in reads))
        whole = [one for one in answers if isinstance(one, Object)]
        selected = tuple(one for one in whole if read.matcher.matches(one.meta.labels))
        # One that has gone since the watch showed it is selected no more, and no failure.
        refused = (one for one in answers if isinstance(one, Failure) and not _is_gone(one))
        snapshot.put(read, next(refused, selected))
        return watched

    async def _marked(self, request: Request, read: Marked, snapshot: Snapshot) -> bool:
        if not await self._dependencies.join(request, read):
            snapshot.put(read, await fetch(self._client, read))
            return read.optional
        found, written = self._dependencies.marked(request, read)
        known = {item.meta.name: item for item in found}
        # Our own write may be ahead of the watch: its place is read from the server.
        for name in written:
            answer = await fetch(self._client, Get(read.resource, read.namespace, name))
            if isinstance(answer, Object) and read.matches(answer.meta):
                known[name] = answer
            elif isinstance(answer, Object) or _is_gone(answer):
                known.pop(name, None)
        snapshot.put(read, tuple(known.values()))
        return True


def _is_gone(answer: Answer) -> bool:
    return isinstance(answer, Failure) and answer.code == "NotFound"
