"""Answers the reads of a pass, from caches or from the server.

The object of a read is watched before it is read, so that no later change is missed.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import NamedTuple

import msgspec

from fairlead.api.meta import Object
from fairlead.api.servicebinding.mapping import CLUSTERWORKLOADRESOURCEMAPPINGS
from fairlead.binding import bounds
from fairlead.binding.cluster.dependencies import BindingDependencies
from fairlead.binding.cluster.fetching import fetch, review
from fairlead.binding.reads import (
    Answer,
    Get,
    ListAll,
    Lookup,
    Marked,
    Read,
    ReadFailure,
    RightsReview,
)
from fairlead.client import Client
from fairlead.runtime import Cluster, Delta, Request


# No watch shows a change of rights, so answers are cached for less time than by Kubernetes' own
# authorization webhook (5 minutes and 30 seconds): another pass may follow soon, and an author who
# was just given a right waits for it.
class Verdicts:
    """Asks whether users may do something; ``clock`` returns seconds."""

    def __init__(self, client: Client, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._verdicts: dict[bytes, tuple[bool, float]] = {}

    async def allowed(self, read: RightsReview) -> bool:
        """Whether the user may do it; no verdict counts as a refusal."""
        # Hashed, since a requester may be in many groups with long names.
        key = hashlib.blake2b(msgspec.json.encode(read), digest_size=16).digest()
        is_allowed, until = self._verdicts.get(key, (False, 0.0))
        if self._clock() < until:
            return is_allowed
        # Cached from the start of the review: the right may change before its answer.
        begun = self._clock()
        verdict = await review(self._client, read)
        self._verdicts.pop(key, None)
        if verdict is None:
            return False
        if len(self._verdicts) >= bounds.VERDICTS:
            del self._verdicts[next(iter(self._verdicts))]
        self._verdicts[key] = (
            verdict,
            begun + (bounds.ALLOWED_SECONDS if verdict else bounds.DENIED_SECONDS),
        )
        return verdict


class Mappings:
    """The workload mappings of one cluster, which every binding reads; clusters have few.

    A projection is removed by the paths in its record, independently of the mapping. So a change
    of a mapping only requires a new pass of its bindings.

    ``projected_by`` returns the bindings that read a mapping, ``enqueue`` requests a pass of
    one.
    """

    def __init__(
        self,
        cluster: Cluster,
        projected_by: Callable[[str], list[Request]],
        enqueue: Callable[[Request], None],
    ) -> None:
        self._informer = cluster.informer(CLUSTERWORKLOADRESOURCEMAPPINGS)
        self._projected_by = projected_by
        self._enqueue = enqueue

    async def start(self) -> None:
        """Subscribe to changes, and wait until all mappings are known."""
        self._informer.subscribe(self.changed)
        await self._informer.synced()

    def changed(self, delta: Delta) -> None:
        """Request a pass of the bindings that read a changed mapping."""
        old = delta.old.to_dict().get("spec") if delta.old else None
        new = delta.new.to_dict().get("spec") if delta.new else None
        if delta.initial or old == new:
            return
        for request in self._projected_by(delta.object.meta.name):
            self._enqueue(request)

    def answer(self, read: Get) -> Answer:
        """Return the mapping of a read."""
        missing = f'{read.resource.group_resource} "{read.name}" not found'
        return self._informer.get("", read.name) or ReadFailure("NotFound", missing)


def is_mapping(read: Get) -> bool:
    """Whether ``read`` is for a mapping."""
    return read.resource == CLUSTERWORKLOADRESOURCEMAPPINGS


class GivenAnswer(NamedTuple):
    """An answer; without ``watched`` later changes may be missed."""

    answer: Answer
    watched: bool = True


class Answers:
    """Answers the reads of the bindings of one API."""

    def __init__(
        self, client: Client, dependencies: BindingDependencies, mappings: Mappings
    ) -> None:
        self._client = client
        self._dependencies = dependencies
        self._mappings = mappings
        self._verdicts = Verdicts(client)

    async def give(self, request: Request, reads: Sequence[Read]) -> list[GivenAnswer]:
        """Answer independent reads: from caches, and the others concurrently, up to a limit.

        Raises:
            ConnectionFailed: the server is unavailable.
        """
        late = await self._dependencies.watch(request, reads)
        answers: dict[Read, Answer] = {}
        unanswered: list[Read] = []
        for read in reads:
            match read:
                # Discovery has almost all kinds: a task for each would only delay the pass.
                case Lookup():
                    answers[read] = await fetch(self._client, read)
                # One watch of all mappings serves all bindings.
                case Get(resource=resource) if resource == CLUSTERWORKLOADRESOURCEMAPPINGS:
                    answers[read] = self._mappings.answer(read)
                case Marked() if read not in late:
                    objects, written = self._dependencies.marked(request, read)
                    answers[read] = tuple(objects)
                    # The watch may not show our last write yet.
                    if written:
                        unanswered.append(read)
                case _:
                    unanswered.append(read)
        # A gather makes the pass wait a turn of the event loop even for no reads.
        for start in range(0, len(unanswered), bounds.READS_AT_ONCE):
            some = unanswered[start : start + bounds.READS_AT_ONCE]
            waiting = (self._ask(request, read, is_late=read in late) for read in some)
            answers.update(zip(some, await asyncio.gather(*waiting), strict=True))
        missed = {read for read in late if not (isinstance(read, Marked) and read.optional)}
        return [GivenAnswer(answers[read], read not in missed) for read in reads]

    def _ask(self, request: Request, read: Read, *, is_late: bool) -> Awaitable[Answer]:
        match read:
            case Marked() if not is_late:
                return self._marked(request, read)
            case ListAll() if not is_late:
                return self._list(read)
            case RightsReview():
                return self._verdicts.allowed(read)
            case Get():
                return self._get(request, read)
        return fetch(self._client, read)

    async def _get(self, request: Request, read: Get) -> Answer:
        """Answer by the server, so that the watch's event of this very state is no news."""
        self._dependencies.asking(request, read)
        version = ""
        try:
            answer = await fetch(self._client, read)
            if isinstance(answer, Object):
                version = answer.meta.resource_version
            return answer
        finally:
            self._dependencies.answered(request, read, version)

    async def _list(self, read: ListAll) -> Answer:
        """Answer a read of selected objects: a few one by one, many by a list.

        For a list the server scans all objects of the namespace.
        """
        objects = self._dependencies.selected(read)
        if not 0 < len(objects) <= bounds.SELECTED:
            return await fetch(self._client, read)
        reads = [Get(read.resource, read.namespace, one.meta.name) for one in objects]
        answers = await asyncio.gather(*(fetch(self._client, one) for one in reads))
        whole = [one for one in answers if isinstance(one, Object)]
        selected = tuple(one for one in whole if read.matcher.matches(one.meta.labels))
        # An object that was deleted since the watch showed it is not an error.
        refused = (one for one in answers if isinstance(one, ReadFailure) and not _is_gone(one))
        return next(refused, selected)

    async def _marked(self, request: Request, read: Marked) -> Answer:
        """Answer a read of marked objects from the watch's cache.

        Objects that this binding wrote are read from the server if the watch may lag behind.
        """
        marked, written = self._dependencies.marked(request, read)
        by_name = {item.meta.name: item for item in marked}
        for name in written:
            answer = await fetch(self._client, Get(read.resource, read.namespace, name))
            if isinstance(answer, Object) and read.matches(answer.meta):
                by_name[name] = answer
            elif isinstance(answer, Object) or _is_gone(answer):
                by_name.pop(name, None)
                if _is_gone(answer):
                    self._dependencies.is_gone(request, read, name)
        return tuple(by_name.values())


class BindingPass:
    """Answers the reads of one pass over one binding.

    It is ``blind`` if changes of its reads may be missed. Of the passes in a namespace that gave
    way only one continues at a time: ``turn`` holds the lock until the end of the pass.
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
        """Answer reads, and record whether all are watched; raises as :meth:`Answers.give`."""
        answers = await self._answers.give(self._request, reads)
        self.blind |= not all(one.watched for one in answers)
        return [one.answer for one in answers]

    async def give_way(self) -> None:
        """Let other passes work, and wait for earlier ones of the namespace that gave way.

        So a namespace with many expensive bindings delays itself and not the others.
        """
        if not self._is_held:
            self._is_held = True
            await self._turn.enter_async_context(self._lock)
        await asyncio.sleep(0)


def _is_gone(answer: Answer) -> bool:
    return isinstance(answer, ReadFailure) and answer.code == "NotFound"
