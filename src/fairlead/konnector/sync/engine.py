"""Synchronises the objects of one resource with their copies: watches, queue, and failures.

A change on either side puts the consumer's key of the object into one queue, so that only one
worker writes the object at a time. The worker takes a key, looks at both ends of the object, and
has a pass made over them.

Two mechanisms keep a pass from undoing or repeating its own work. A cache lags behind our writes,
so a pass looks at *expectations* first: the answers to our own writes, until the cache has shown
them. And each write comes back as an event of our own watch, the *echo*; it contains no news and
is dropped before the queue. The event may come before the answer, which alone identifies it as an
echo; so events of an object are held while a pass works on it. Without expectations a pass would
write twice; without the echo every write would cause one more pass.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import AsyncExitStack
from typing import NamedTuple

from fairlead.api.meta import Key
from fairlead.client.errors import ApiError, Conflict, NotServed
from fairlead.konnector.policies.steps import Pair
from fairlead.konnector.reports import RefusedObject, SyncFault
from fairlead.konnector.sync.ends import BothEnds, WatchedCollection
from fairlead.konnector.sync.passes import EngineContext, Passes, Policy
from fairlead.konnector.sync.versions import ServedVersions
from fairlead.runtime import Delta, Request, Result
from fairlead.runtime.controller.queue import Band


ABSENT_SECONDS = 5.0
"""First pause of all objects after an answer that the kind is not served, in seconds.

It is doubled each time that no watch fails meanwhile; else the watch's recovery ends it. A try
costs a request of each worker at most, since the first answer pauses all objects again. More
seconds hold objects up for longer after a proxy has answered 404 in the server's place; fewer ask
more often for a kind that is gone, until its watch fails.
"""
MOST_ABSENT_SECONDS = 300.0
"""Longest pause after the provider stopped serving the kind, in seconds.

Once a proxy's answers end, objects may wait for so long.
"""
SCOUT_SECONDS = 10.0
"""Interval between retries of one refused object, in seconds, regardless of back-offs.

It is the delay after a change that makes no event, such as of a quota; each try is one more write
that a provider may refuse, for each kind of each consumer.
"""
HURRIES_SECONDS = 5.0
"""Time in which a further success after a refusal retries no other objects, in seconds.

Each of the retried objects is such a success, and would bring on all that are left once more. The
retries of 500 objects are spread over this time (:data:`_SPREAD_SECONDS`).
"""
_SPREAD_SECONDS = 0.01
"""Delay added per object when several are retried, in seconds, to spread the requests."""


class _Absence(NamedTuple):
    """Time since when the provider does not serve the kind, and its server's message.

    ``noticed`` is True once a watch has failed, too.
    """

    since: float
    message: str
    noticed: bool = False


class _Change(NamedTuple):
    """A watch event of one end, for the object with this ``key`` at that end.

    ``since`` is the time in seconds at which an event arrived that was held during a pass; None
    for one that was not held.
    """

    end: WatchedCollection
    key: Key
    delta: Delta
    since: float | None = None

    def echoes(self) -> bool:
        """Whether the change is our own write, which comes back from the watch.

        Also notes what the event proves of the object, so that it is asked once for each event.
        """
        expectations, new = self.end.expectations, self.delta.new
        if self.key not in expectations.written:
            return False
        # An event that is no echo also ends the wait for a created object: from here on the cache
        # decides whether the object exists.
        expectations.note_seen(self.key)
        # A deletion is never an echo: the absence needs a look, even if we deleted the object.
        return new is not None and expectations.echoes(new)


class Engine:
    """Synchronises the objects of one resource: a queue of keys, and workers that make passes.

    What it remembers of objects ends with :meth:`run`.
    """

    def __init__(self, ends: BothEnds, policy: Policy, context: EngineContext) -> None:
        self._ends = ends
        self._context = context
        self._metrics = context.metrics
        self._passes = Passes(ends, policy, context, self._hurry)
        self._controller = context.controller(
            context.name, self._reconcile, workers=context.workers
        )
        self._absence: _Absence | None = None
        self._patience = ABSENT_SECONDS
        # A key is in here exactly while a pass works on it; the queue gives a key to one worker at
        # a time.
        self._changes: dict[Key, list[_Change]] = {}
        self._scouted = float("-inf")
        self._hurried = float("-inf")
        self._versions = ServedVersions(ends.provider)

    async def run(self) -> None:
        """Watch both clusters and synchronise the objects until cancelled."""
        async with AsyncExitStack() as stack:
            stack.callback(self._context.report.clear)
            stack.callback(self._metrics.stopped)
            async with asyncio.TaskGroup() as group:
                # Beside the work and not within it: work that waits for a first list, which never
                # comes without the right to list, has to be reported all the same.
                group.create_task(self._look_after())
                group.create_task(self._work())

    async def _work(self) -> None:
        namespaces, ends = self._ends.namespaces, self._ends
        # An object whose namespace has no counterpart has no copy to wait for: that is known
        # only when all APIServiceNamespaces are.
        await namespaces.synced()
        await self._context.ready()
        self._metrics.queue(lambda: len(self._controller.queue))
        # The engine listens before the collections are listed, so that a namespace which is
        # assigned in between puts its objects into the queue, too.
        namespaces.listen(self._namespace_changed)
        try:
            async with asyncio.TaskGroup() as group:
                for end, handler, announce in (
                    (ends.consumer, self._consumer_changed, self._consumers_known),
                    (ends.provider, self._provider_changed, self._providers_known),
                ):
                    side = end.side
                    group.create_task(
                        end.run(
                            handler,
                            announce,
                            lambda lease, s=side: self._metrics.watch(lease, s),  # type: ignore[misc]
                        )
                    )
                group.create_task(self._controller.run())
        finally:
            namespaces.unlisten(self._namespace_changed)

    def _hurry(self) -> None:
        """Retry all failed objects at once, because the provider answers again."""
        self._controller.queue.hurry()

    def schema_changed(self) -> None:
        """Retry refused objects at once: they may be valid by the new schema."""
        self._hurry_refused(self._context.report.failures)

    def look_again(self) -> None:
        """Queue all objects: what passes have left alone may cross now."""
        self._enqueue_all("")

    def _hurry_refused(self, keys: Iterable[Key]) -> None:
        requests = [Request("", *key) for key in keys]
        self._controller.queue.hurry(requests, spread=_SPREAD_SECONDS * len(requests))

    def _scout(self) -> None:
        """Retry one refused object, each in its turn.

        No event tells that a schema, a webhook or a quota has changed on the provider, and the
        back-off of an object grows to minutes.
        """
        now = asyncio.get_running_loop().time()
        failures = self._context.report.failures
        if not failures or now - self._scouted < SCOUT_SECONDS:
            return
        self._scouted = now
        key = min(failures, key=lambda key: failures[key].tried)
        # The object's own retry stays in the queue: a failed try lengthens its back-off. Live
        # changes go first, as before all keys that no event has brought.
        self.enqueue(key, Band.INITIAL)

    def _retry_similar(self, pair: Pair, refused: RefusedObject) -> None:
        """Retry objects refused for the same reason, after a server accepted one of them."""
        generation = pair.consumer.meta.generation if pair.consumer is not None else 0
        now = asyncio.get_running_loop().time()
        # An object that was changed meanwhile proves nothing.
        if generation != refused.generation or now - self._hurried < HURRIES_SECONDS:
            return
        self._hurried = now
        failures = self._context.report.failures
        self._hurry_refused([key for key, one in failures.items() if one.reason == refused.reason])

    def enqueue(self, key: Key, band: Band = Band.LIVE) -> None:
        """Put an object into the queue; ``key`` is the consumer's."""
        self._controller.queue.add(Request("", *key), band)

    async def _look_after(self) -> None:
        """Poll the watches, since no event reports a failing watch."""
        while True:
            faults = [*self._context.faults(), *self._ends.consumer.faults()]
            watches = [
                SyncFault(self._passes.advised(fault.message, fault.cause), fault.cause)
                for fault in faults
            ]
            await self._versions.discover()
            # Faults are collected anew in each round, so that one that is over leaves the report.
            watches += [*self._passes.forbidden_steps(), *self._provider_faults()]
            watches += self._passes.unanswered()
            self._context.report.problem(watches)
            self._passes.count()
            self._believe_caches()
            self._scout()
            await asyncio.sleep(self._context.interval)

    def _believe_caches(self) -> None:
        """Queue the created objects that a watch has never shown."""
        for key in self._ends.consumer.expectations.overdue():
            self.enqueue(key)
        for target in self._ends.provider.expectations.overdue():
            if (source := self._ends.strategy.to_consumer(target)) is not None:
                self.enqueue(source)

    def _provider_faults(self) -> list[SyncFault]:
        faults = [
            SyncFault(f"on the provider: {fault.message}", fault.cause)
            for fault in self._ends.provider.faults()
        ]
        if faults and self._versions.others:
            faults = [SyncFault(self._versions.remedy())]
        absence = self._absence
        if absence is None:
            return faults
        if faults:
            self._absence = absence._replace(noticed=True)
            return faults
        waited = asyncio.get_running_loop().time() - absence.since
        # A watch that failed and works again has proved that the kind is served; if none has
        # failed, only time can tell.
        if absence.noticed or waited >= self._patience:
            self._resume(absence)
            return []
        return [SyncFault(f"on the provider: {absence.message}")]

    def _stop(self, error: NotServed) -> None:
        """Pause all objects until the watch of the kind works: they would all fail."""
        if self._absence is None:
            self._absence = _Absence(asyncio.get_running_loop().time(), str(error))

    def _resume(self, absence: _Absence) -> None:
        """Queue all objects after a pause; the next pause is longer if no watch had failed in it.

        Without a failed watch a proxy may have given the answer that began the pause.
        """
        self._absence = None
        longer = min(2 * self._patience, MOST_ABSENT_SECONDS)
        self._patience = ABSENT_SECONDS if absence.noticed else longer
        self._enqueue_all("")

    def _consumer_changed(self, delta: Delta) -> None:
        key = delta.object.key
        self._changed(_Change(self._ends.consumer, key, delta), key)

    def _provider_changed(self, delta: Delta) -> None:
        target = delta.object.key
        key = self._ends.strategy.to_consumer(target)
        if key is not None:
            self._changed(_Change(self._ends.provider, target, delta), key)

    def _changed(self, change: _Change, key: Key) -> None:
        """Hold a change while a pass works on its object: an event may precede its answer."""
        changes = self._changes.get(key)
        if changes is None:
            self._queue_unless_echo(change, key)
        else:
            changes.append(change._replace(since=self._metrics.now()))

    def _queue_unless_echo(self, change: _Change, key: Key) -> None:
        if change.echoes():
            return
        if change.delta.new is None:
            self._passes.deleted(key, change.end.side, change.delta.object)
        self.enqueue(key, Band.INITIAL if change.delta.initial else Band.LIVE)
        consumer = change.end is self._ends.consumer
        way = self._metrics.spec if consumer else self._metrics.status
        way.arrived(key, change.since)

    def _consumers_known(self, namespace: str) -> None:
        """Queue the copies without an object, of which no event tells, once all are listed."""
        self._enqueue_copies(namespace, alone=True)

    def _providers_known(self, namespace: str) -> None:
        """Queue the objects without a copy once the copies of a provider namespace are listed."""
        if not namespace or not self._ends.strategy.needs_namespace:
            self._enqueue_objects("", alone=True)
        elif mapped := self._ends.namespaces.consumer(namespace):
            self._enqueue_objects(mapped, alone=True)

    def _namespace_changed(self, consumer: str, _assigned: str) -> None:
        self._ends.consumer.mark()
        self._ends.provider.mark()
        # Writes into the former provider namespace never appear in the new one.
        self._ends.provider.expectations.clear()
        if self._ends.strategy.needs_namespace:
            self._enqueue_all(consumer)

    def _enqueue_all(self, namespace: str) -> None:
        """Queue all objects of a consumer namespace, and all copies in its provider namespace."""
        self._enqueue_objects(namespace)
        self._enqueue_copies(namespace)

    def _enqueue_objects(self, namespace: str, *, alone: bool = False) -> None:
        """Queue the objects of a consumer namespace; ``alone`` those without a copy."""
        for obj in self._ends.consumer.objects(namespace):
            target = self._ends.strategy.place(obj.key)[0] if alone else None
            if target is None or not self._ends.provider.has(target):
                self.enqueue(obj.key, Band.INITIAL)

    def _enqueue_copies(self, namespace: str, *, alone: bool = False) -> None:
        """Queue the copies of a consumer namespace; ``alone`` those without an object."""
        assigned = self._ends.namespaces.provider(namespace) if namespace else ""
        if assigned or not namespace:
            for obj in self._ends.provider.objects(assigned):
                key = self._ends.strategy.to_consumer(obj.key)
                if key is not None and not (alone and self._ends.consumer.has(key)):
                    self.enqueue(key, Band.INITIAL)

    async def _reconcile(self, request: Request) -> Result | None:
        key = Key(request.namespace, request.name)
        changes = self._changes[key] = list[_Change]()
        try:
            return await self._look_at(key)
        finally:
            # The entry is removed first, for a held change must reach the queue and not be held
            # again. It is removed also after a failure: a change that came meanwhile would be lost
            # otherwise.
            del self._changes[key]
            for change in changes:
                self._queue_unless_echo(change, key)

    async def _look_at(self, key: Key) -> Result | None:
        pair = self._ends.pair(key)
        # Leaving loses no change: the filled cache or the recovered watch queues all objects.
        if pair is None or self._absence is not None:
            return None
        refused = self._context.report.failures.get(key)
        try:
            result = await self._passes.run(pair)
        except Conflict:
            # A wrong expectation would replace the cache once more, and cause another conflict.
            self._ends.consumer.expectations.forget(key)
            if pair.target is not None:
                self._ends.provider.expectations.forget(pair.target)
            raise
        # This is no failure of the object, and so there is no back-off: each object of the
        # resource would make requests that fail alike.
        except NotServed as error:
            self._stop(error)
            return None
        except ApiError as error:
            self._passes.failed(pair, error)
            raise
        if refused is not None and key not in self._context.report.failures:
            self._retry_similar(pair, refused)
        return result
