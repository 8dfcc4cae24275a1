"""Keeps the objects of one resource and their copies in step: queue, watches and passes.

A change on either side puts the consumer's key of the object into one queue, so that nobody else
writes the same object at the same time. A pass looks at both ends of the object, asks the policy
for the next step, carries it out and asks again, until there is nothing more to do.

Two mechanisms keep a pass from undoing or repeating its own work. A cache lags behind what was
just written, so a pass looks at *expectations* first: the answers to our own writes, until the
cache has told of them. And each write comes back as an event of our own watch, the *echo*; it
says nothing new and is dropped before the queue. Without the first a pass would write twice,
without the second every write would cause one more pass.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import AsyncExitStack
from typing import Protocol

import msgspec

from fairlead.api.meta import Key, Object
from fairlead.client.errors import ApiError, Conflict, Forbidden
from fairlead.konnector.metrics import Pass, SyncMetrics
from fairlead.konnector.policies.steps import (
    TERMINAL,
    AskNamespace,
    Create,
    Done,
    InSync,
    Outcome,
    Pair,
    Refuse,
    Replace,
    ReplaceStatus,
    Side,
    Step,
    Wait,
)
from fairlead.konnector.reports import Report
from fairlead.konnector.rights import remedy
from fairlead.konnector.sync.collection import Collection, Fault
from fairlead.konnector.sync.execution import BothEnds, Executor
from fairlead.runtime import Controller, Delta, EventRecorder, Reconciler, Request, Result
from fairlead.runtime.expectations import LAG
from fairlead.runtime.queue import Band


LONG = 10.0
"""Seconds after which an object says that it waits for a deletion on the provider."""
_MOST_STEPS = 12
"""More than any object needs in one pass."""


class Policy(Protocol):
    """What is decided about the objects of one resource, and what that needs to be known."""

    @property
    def failed(self) -> str:
        """The reason of Events of objects that could not be synchronised."""
        ...

    def next_step(self, pair: Pair) -> Step:
        """What to do next about one object."""
        ...

    def outcome(self, side: Side, pair: Pair) -> Outcome | None:
        """What came of writing the end on this side; None where it is what was wanted."""
        ...

    def faults(self) -> Iterable[Fault]:
        """Why something of the consumer that decisions depend on is not known."""
        ...

    async def ready(self) -> None:
        """Wait until decisions can be made."""
        ...


class MakeController(Protocol):
    """Makes controllers whose work is counted."""

    def __call__(self, name: str, reconcile: Reconciler, *, workers: int = 2) -> Controller:
        """A controller that runs when its ``run`` does."""
        ...


class Surroundings(msgspec.Struct, frozen=True):
    """Where an engine works, and whom it tells what it sees.

    ``interval`` is the seconds between looks at the watches; it costs no request.
    """

    report: Report
    metrics: SyncMetrics
    events: EventRecorder
    controller: MakeController
    workers: int
    interval: float


class Engine:
    """One run of the synchronisation of one resource, and what it remembers."""

    def __init__(
        self, name: str, ends: BothEnds, policy: Policy, surroundings: Surroundings
    ) -> None:
        self._ends = ends
        self._policy = policy
        self._report = surroundings.report
        self._metrics = surroundings.metrics
        self._events = surroundings.events
        self._interval = surroundings.interval
        self._executor = Executor(ends, policy.outcome)
        self._controller = surroundings.controller(
            name, self._reconcile, workers=surroundings.workers
        )
        self._waiting: dict[Key, float] = {}
        self._in_sync: set[Key] = set()

    async def run(self) -> None:
        """Synchronise until cancelled."""
        async with AsyncExitStack() as stack:
            stack.callback(self._report.clear)
            stack.callback(self._metrics.stopped)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._look_after())
                group.create_task(self._work())

    async def _work(self) -> None:
        namespaces, ends = self._ends.namespaces, self._ends
        # An object whose namespace has no counterpart has no copy to wait for: that is known
        # only when all APIServiceNamespaces are.
        await namespaces.synced()
        await self._policy.ready()
        self._metrics.queue(lambda: len(self._controller.queue))
        namespaces.listen(self._namespace_changed)
        try:
            async with asyncio.TaskGroup() as group:
                for end, handler, known in (
                    (ends.consumer, self._consumer_changed, self._consumers_known),
                    (ends.provider, self._provider_changed, self._providers_known),
                ):
                    side = end.side
                    group.create_task(
                        end.run(
                            handler,
                            known,
                            lambda lease, s=side: self._metrics.watch(lease, s),  # type: ignore[misc]
                        )
                    )
                group.create_task(self._controller.run())
        finally:
            namespaces.unlisten(self._namespace_changed)

    def enqueue(self, key: Key, band: Band = Band.LIVE) -> None:
        """Have an object looked at; ``key`` is the consumer's."""
        self._controller.queue.add(Request("", *key), band)

    async def _look_after(self) -> None:
        """No event reports a failing watch, so the watches are polled."""
        while True:
            faults = [*self._policy.faults(), *self._ends.consumer.faults()]
            told = [self._advised(fault.message, fault.cause) for fault in faults]
            if self._executor.refused is not None:
                told.append(self._advised(self._executor.refused.message, self._executor.refused))
            told += [f"on the provider: {one.message}" for one in self._ends.provider.faults()]
            self._report.problem("; ".join(one for one in told if one))
            self._metrics.in_sync(len(self._in_sync))
            self._metrics.conflicts(self._report.conflicts())
            await asyncio.sleep(self._interval)

    def _advised(self, message: str, cause: Exception | None) -> str:
        """With what to do about it, when the consumer's server refuses a right."""
        if isinstance(cause, Forbidden):
            return f"{message}. {remedy(self._report.binding)}"
        return message

    def _consumer_changed(self, delta: Delta) -> None:
        if not _echoes(self._ends.consumer, delta):
            key = delta.object.key
            self._metrics.spec.arrived(key)
            self.enqueue(key, _band(delta))

    def _provider_changed(self, delta: Delta) -> None:
        if _echoes(self._ends.provider, delta):
            return
        key = self._ends.strategy.to_consumer(delta.object.key)
        if key is not None:
            self._metrics.status.arrived(key)
            self.enqueue(key, _band(delta))

    def _consumers_known(self, namespace: str) -> None:
        self._enqueue_all(namespace)

    def _providers_known(self, namespace: str) -> None:
        """Also objects of the consumer that have no copy were waiting for this."""
        if not namespace or not self._ends.strategy.needs_namespace:
            self._enqueue_all("")
        elif mapped := self._ends.namespaces.consumer(namespace):
            self._enqueue_all(mapped)

    def _namespace_changed(self, consumer: str, _assigned: str) -> None:
        self._ends.consumer.mark()
        self._ends.provider.mark()
        self._ends.provider.expectations.clear()
        if self._ends.strategy.needs_namespace:
            self._enqueue_all(consumer)

    def _enqueue_all(self, namespace: str) -> None:
        """All objects that one end or the other has for a namespace of the consumer."""
        for found in self._ends.consumer.objects(namespace):
            self.enqueue(found.key, Band.INITIAL)
        assigned = self._ends.namespaces.provider(namespace) if namespace else ""
        if assigned or not namespace:
            for found in self._ends.provider.objects(assigned):
                if (key := self._ends.strategy.to_consumer(found.key)) is not None:
                    self.enqueue(key, Band.INITIAL)

    async def _reconcile(self, request: Request) -> Result | None:
        pair = self._look(Key(request.namespace, request.name))
        if pair is None:
            return None
        consumers, providers = self._ends.consumer.expectations, self._ends.provider.expectations
        try:
            result = await self._pass(pair)
        except Conflict:
            consumers.forget(pair.key)
            if pair.target is not None:
                providers.forget(pair.target)
            raise
        except ApiError as error:
            refused = error if error is self._executor.refused else None
            message = self._advised(error.message, refused)
            self._tell(pair.consumer, self._policy.failed, message)
            raise
        unconfirmed = consumers.unconfirmed(pair.key) or providers.unconfirmed(pair.target)
        return Result(LAG) if unconfirmed else result

    def _look(self, key: Key) -> Pair | None:
        """What the caches say; None as long as one of them is not filled."""
        consumer, provider = self._ends.consumer, self._ends.provider
        target = self._ends.strategy.to_provider(key)
        if not consumer.ready(key.namespace):
            return None
        if target is not None and not provider.ready(target.namespace):
            return None
        namespaced = self._ends.strategy.needs_namespace
        outcomes = {
            end.side: found
            for end in (consumer, provider)
            if (found := end.outcomes.get(key)) is not None
        }
        return Pair(
            key=key,
            consumer=consumer.newest(key),
            provider=provider.newest(target) if target is not None else None,
            target=target,
            namespace_asked=not namespaced or self._ends.namespaces.asked(key.namespace),
            namespace_refusal=self._ends.namespaces.refusal(key.namespace),
            outcomes=outcomes,
        )

    async def _pass(self, pair: Pair) -> Result | None:
        """Do what can be done now; the result says when to look again.

        Raises:
            ClientError: a server refused or cannot be reached.
        """
        self._in_sync.discard(pair.key)
        with self._metrics.looking(pair.key) as look:
            for _ in range(_MOST_STEPS):
                step = self._policy.next_step(pair)
                self._note(pair, step)
                if isinstance(step, TERMINAL):
                    return self._rest(step, pair, look)
                after = await self._executor.carry_out(step, pair)
                _crossed(step, look)
                if after is None:
                    return None
                pair = after
            raise RuntimeError(f"{self._report.source} {pair.key} does not settle")

    def _rest(self, step: Step, pair: Pair, look: Pass) -> Result | None:
        """There is nothing more to do until something happens."""
        if isinstance(step, Wait):
            look.unfinished()
            deleting = pair.provider is not None and pair.provider.meta.deleting
            return self._wait(pair) if deleting else Result(step.seconds)
        if isinstance(step, Done):
            self._waiting.pop(pair.key, None)
        if isinstance(step, InSync):
            self._in_sync.add(pair.key)
        if pair.consumer is None and pair.provider is None:
            self._ends.consumer.outcomes.pop(pair.key, None)
            self._ends.provider.outcomes.pop(pair.key, None)
        return None

    def _note(self, pair: Pair, step: Step) -> None:
        """Keep the binding's list of conflicts, and tell the object of its own."""
        refused = step if isinstance(step, Refuse) else None
        name = f"{self._ends.consumer.resource.kind} {pair.key}"
        self._report.conflict(name, refused.reason if refused else "")
        if refused is not None:
            self._tell(pair.consumer, refused.reason, refused.message)

    def _wait(self, pair: Pair) -> Result:
        """A deletion over there that takes long is told on the object, once."""
        now = asyncio.get_running_loop().time()
        since = self._waiting.setdefault(pair.key, now)
        provider = pair.provider
        if now - since < LONG or provider is None:
            return Result(LONG)
        finalizers = ", ".join(provider.meta.finalizers) or "none"
        self._tell(
            pair.consumer,
            "DeletionPending",
            f"waiting until {provider.kind} {provider.key} on the provider is gone; it is being "
            f"deleted and has these finalizers: {finalizers}",
        )
        return Result()

    def _tell(self, obj: Object | None, reason: str, message: str) -> None:
        if obj is not None:
            self._events.event(obj, "Warning", reason, message)


def _echoes(end: Collection, delta: Delta) -> bool:
    """Whether a change is our own write, which comes back from the watch."""
    end.expectations.seen(delta.object.key)
    return delta.new is not None and end.expectations.echoes(delta.new)


def _band(delta: Delta) -> Band:
    return Band.INITIAL if delta.initial else Band.LIVE


def _crossed(step: Step, look: Pass) -> None:
    match step:
        case Create(side="provider") | Replace(side="provider"):
            look.spec_crossed()
        case Create() | Replace() | ReplaceStatus():
            look.status_crossed()
        case AskNamespace():
            look.unfinished()
