"""One look at one object: step by step to where it should be, and told on the way.

A pass asks the policy for the next step, carries it out and asks again, until there is nothing
more to do. What a server refuses, and what needs a person, is told on the object once, not each
time that it is tried again; the binding's conditions and the metrics count it as long as it lasts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import NamedTuple, Protocol

import msgspec

from fairlead.api.kubebind.names import ANNOTATION_PROVIDER_UID
from fairlead.api.meta import Key, Object
from fairlead.client.errors import (
    ApiError,
    BadRequest,
    ClientError,
    Forbidden,
    Invalid,
    RequestTooLarge,
)
from fairlead.konnector.metrics import SyncLook, SyncMetrics
from fairlead.konnector.policies.copies import payload
from fairlead.konnector.policies.localkeys import INSTANCE, LocalMetadataKeys
from fairlead.konnector.policies.merge import BoundFields, CrossingFields
from fairlead.konnector.policies.steps import (
    COPY_DELETED,
    CROSSINGS,
    SYNC_FAILED,
    TERMINAL,
    WRITE_UNDONE,
    Apply,
    AskNamespace,
    ConfirmNamespace,
    Create,
    Done,
    InSync,
    Pair,
    Refuse,
    Replace,
    ReplaceStatus,
    Side,
    Step,
    StepOutcome,
    Wait,
)
from fairlead.konnector.reports import SyncFault, SyncReport
from fairlead.konnector.rights import remedy
from fairlead.konnector.sync.ends import BothEnds, Executor
from fairlead.konnector.sync.undone import UndoneWrites, contradicts, others
from fairlead.runtime import Controller, EventRecorder, Reconciler, Result


SILENT = 15.0
"""Time without an answer of the provider after which a binding reports it, in seconds."""
MOST_STEPS = 12
"""Largest number of steps in one pass, more than any object needs; to need more is a defect.

A new object needs five: finalizer, copy, annotations, status, and the end of the pass. A copy that
is there already may cost two questions to servers and one write more. Steps that undo one another
end here, and the error makes the object wait for its back-off.
"""
REFUSALS = (BadRequest, Forbidden, Invalid, RequestTooLarge)
"""Answers of a server that will not have this content, as against one that cannot answer now."""
LONG = 10.0
"""Time after which an object's wait for a deletion on the provider is reported, in seconds."""
REFUSED_ANEW = (
    "Its copy has to be created again, and an API server validates all fields of a new object. "
    "This object was stored before the schema became stricter, and a server accepts such a "
    "value only while it stays unchanged: change the fields that the server names to values "
    "that the schema allows"
)
"""Cause and remedy of a refusal that concerns only an object which is made anew.

Source: "Validation ratcheting" in the documentation of CustomResourceDefinitions.
"""


class Undone(Wait, frozen=True):
    """Wait before a write that was undone again and again on this side."""

    side: str = ""


class Policy(Protocol):
    """Decisions about the objects of one resource."""

    def next_step(self, pair: Pair) -> Step:
        """Return the next step for one object."""
        ...

    def outcome(self, side: Side, pair: Pair) -> StepOutcome | None:
        """Return the outcome for the end on this side; None if it has the wanted content."""
        ...


class MakeController(Protocol):
    """Makes controllers whose work is counted."""

    def __call__(self, name: str, reconcile: Reconciler, *, workers: int = 2) -> Controller:
        """Return a controller that runs when its ``run`` does."""
        ...


async def at_once() -> None:
    """Return at once: the default of ``EngineContext.ready``, for work that waits for nothing."""


class EngineContext(msgspec.Struct, frozen=True, kw_only=True):
    """Dependencies of an engine: its binding, its report, and its metrics.

    ``name`` is the controller's.
    ``interval`` is the seconds between looks at the watches; it costs no request.
    ``failed`` is the reason of Events of objects that could not be synchronised, ``denied`` where
    a right is missing, "" for the same. ``remedy`` says who gives a right of this cluster that is
    missing, "" for the command that does. ``faults`` are why something of the consumer that
    decisions depend on is not known, and ``ready`` waits until decisions can be made. ``fields``
    are those that cross.
    """

    name: str
    binding: str
    report: SyncReport
    metrics: SyncMetrics
    events: EventRecorder
    controller: MakeController
    workers: int
    interval: float
    failed: str = SYNC_FAILED
    denied: str = ""
    remedy: str = ""
    faults: Callable[[], Iterable[SyncFault]] = tuple
    ready: Callable[[], Awaitable[None]] = at_once
    fields: CrossingFields = BoundFields()


class _Waiting(NamedTuple):
    """Start of an object's wait for a deletion, and the finalizers that were reported."""

    since: float
    reported: str = ""


class Passes:
    """The passes of one run of an engine, and what they remember of its objects.

    ``speaks`` is called when the provider answers after a long silence.
    """

    def __init__(
        self,
        ends: BothEnds,
        policy: Policy,
        context: EngineContext,
        speaks: Callable[[], None] = lambda: None,
    ) -> None:
        self._speaks = speaks
        self._ends = ends
        self._policy = policy
        self._context = context
        self._report = context.report
        self._executor = Executor(ends, policy.outcome, context.fields)
        self._waiting: dict[Key, _Waiting] = {}
        self._unanswered: dict[Key, float] = {}
        self._undone = UndoneWrites(fields=context.fields)
        self._altered: set[Key] = set()
        self._in_sync: set[Key] = set()
        self._deleted: dict[Key, tuple[Side, str]] = {}

    def deleted(self, key: Key, side: Side, obj: Object) -> None:
        """Note that the object on this side is gone, with the marks that it had.

        It is forgotten when the next pass ends, which either makes the object anew or not.
        """
        self._deleted[key] = side, _marks(obj)

    def forbidden_steps(self) -> list[SyncFault]:
        """Return the steps that the consumer's server forbids altogether, as faults.

        They are forgotten once no object fails for want of a right.
        """
        if not any(one.forbidden for one in self._report.failures.values()):
            # Each of these objects has been written since, or has gone and is never tried again.
            self._executor.forbidden_steps.clear()
        return [
            SyncFault(self.advised(str(step), step), step)
            for step in self._executor.forbidden_steps.values()
        ]

    def unanswered(self) -> list[SyncFault]:
        """Return a fault if a write to the provider has had no answer for :data:`SILENT` seconds.

        Its watches may work all the same.

        A repeated change counts from the first try, or the fault would come and go with each try.
        """
        if not any(map(_long_ago, self._unanswered.values())):
            return []
        # Without a number, whose changes would each write the condition.
        return [
            SyncFault(
                f"the provider has not answered writes of {self._report.kind} objects for "
                f"{SILENT:g} s or longer: check its API server, and the webhooks that it calls"
            )
        ]

    def count(self) -> None:
        """Update report and metrics with the numbers of objects in sync and in trouble."""
        report = self._report
        for key in self._undone.calmed() - self._altered:
            report.rewritten.pop(key, None)
        report.in_sync = len(self._in_sync)
        self._context.metrics.counted(
            in_sync=report.in_sync,
            conflicts=len(report.conflicts),
            failing=len(report.failures),
        )

    def advised(self, message: str, cause: Exception | None) -> str:
        """Return the message, with the remedy if the consumer's server refuses a right."""
        if isinstance(cause, Forbidden) and cause.lacks_right:
            return f"{message}. {self._context.remedy or remedy(self._context.binding)}"
        return message

    def failed(self, pair: Pair, error: ApiError) -> None:
        """Count an object as refused, and record an Event unless one tells of this refusal."""
        generation = pair.consumer.meta.generation if pair.consumer is not None else 0
        here = error.server == self._ends.consumer.client.config.server
        advice = "" if here or not _is_refused_anew(pair, error) else REFUSED_ANEW
        if self._report.failed(pair.key, error, generation, ours=here, advice=advice):
            # The remedy for a missing right is for the consumer's server alone: no ClusterRole
            # there gives rights on the provider.
            ours = any(error is forbidden for forbidden in self._executor.forbidden_steps.values())
            message = self.advised(error.message, error if ours else None)
            message = f"{message}. {advice}" if advice else message
            denied = self._context.denied if isinstance(error, Forbidden) else ""
            reason = denied or self._context.failed
            self._tell(pair.consumer, reason, message)

    async def run(self, pair: Pair) -> Result | None:
        """Carry out all possible steps; the result tells when to look again.

        Raises:
            ClientError: a server refused or cannot be reached.
        """
        self._in_sync.discard(pair.key)
        refusal: ApiError | None = None
        with self._context.metrics.looking(pair.key) as pass_look:
            for _ in range(MOST_STEPS):
                step = self._policy.next_step(pair)
                if seconds := self._undone.pause(pair, step):
                    step = self._paced(step, pair, seconds)
                if isinstance(step, TERMINAL):
                    self._unanswered.pop(pair.key, None)
                    if not isinstance(step, Undone):
                        self._deleted.pop(pair.key, None)
                    if isinstance(step, Undone):
                        await self._blame(step, pair)
                    result = self._rest(step, pair, pass_look, well=refusal is None)
                    if refusal is not None:
                        raise refusal
                    return result
                try:
                    after = await self._carry_out(step, pair, pass_look)
                except REFUSALS as error:
                    if refusal is not None or not _is_change_of_leaving(step, pair):
                        raise
                    # A change that the provider refuses must not keep the object from going, nor
                    # its status from coming back. It is told once all else is done.
                    refusal, after = error, self._settled(pair)
                if after is None:
                    if refusal is None:
                        self._report.well(pair.key)
                    return None
                pair = after
            raise RuntimeError(
                f"not settled after {MOST_STEPS} steps: the last was {type(step).__name__}"
            )

    def _settled(self, pair: Pair) -> Pair:
        """Return the pair as if the copy's stored content were the wanted one."""
        now = self._policy.outcome("provider", pair)
        if now is None:
            return pair
        return pair.knowing(outcomes={**pair.outcomes, "provider": now})

    def _paced(self, step: Step, pair: Pair, seconds: float) -> Step:
        """Return the step to take while a write that was undone again and again waits."""
        side = _side(step)
        if side == "provider" and (settled := self._settled(pair)) is not pair:
            # The status still comes back, and a deletion goes on.
            rest = self._policy.next_step(settled)
            if not isinstance(rest, TERMINAL) and not self._undone.pause(pair, rest):
                return rest
        return Undone(f"{side} end to stay as it is written", seconds, side)

    async def _blame(self, step: Undone, pair: Pair) -> None:
        """Report once the writer that undoes our writes to an object, by its managedFields."""
        if pair.key in self._report.rewritten:
            return
        side: Side = "consumer" if step.side == "consumer" else "provider"
        end, place, manager = self._ends.at(side), pair.place(side), ""
        # Noted before the question: another pass may come meanwhile, and need not ask as well.
        self._report.rewritten[pair.key] = ""
        if place is not None:
            with suppress(ClientError):
                obj = await end.client.get(end.resource, place.name, place.namespace)
                manager = others(obj, end.client.field_manager)
        whose = "this object" if side == "consumer" else f"its copy {place} on the provider"
        by = f"field manager {manager}" if manager else "a writer that managedFields do not name"
        self._report.rewritten[pair.key] = by
        self._tell(
            pair.consumer,
            WRITE_UNDONE,
            f"{by} undoes the konnector's writes to {whose} again and again, and the konnector "
            "writes ever less often: make one of the two stop",
        )

    def _blame_deletion(self, pair: Pair, side: Side, marks: str) -> None:
        """Report once that a copy is deleted again and again, with what it told of its tool.

        No server records in an object who deletes it.
        """
        if pair.key in self._report.rewritten:
            return
        where = "this cluster" if side == "consumer" else "the provider's cluster"
        by = (
            f"another writer deletes its copy, which had {marks}"
            if marks
            else "another writer deletes its copy"
        )
        self._report.rewritten[pair.key] = by
        tool = (
            f"It had {marks}: the program that manages objects with them deletes it; make that "
            "program ignore the copy"
            if marks
            else "Nothing on it names a delivery program"
        )
        self._tell(
            pair.consumer,
            COPY_DELETED,
            f"another writer deletes the copy {pair.place(side)} in "
            f"{where} again and again, and each new copy lacks what the former one had. "
            f"{tool}. The audit log of {where} names who deletes it",
        )

    async def _carry_out(self, step: Step, pair: Pair, pass_look: SyncLook) -> Pair | None:
        """Carry out a step and return the pair of objects after it.

        Until the provider answers, the object counts as unanswered.
        """
        if isinstance(step, AskNamespace | ConfirmNamespace) or _side(step) == "provider":
            self._unanswered.setdefault(pair.key, asyncio.get_running_loop().time())
        try:
            after = await self._executor.carry_out(step, pair)
        except ApiError:
            # A refusal is an answer, too; a server that cannot be reached gives none.
            self._heard(pair.key)
            raise
        self._heard(pair.key)
        side, marks = self._deleted.get(pair.key, (None, ""))
        deleted = side is not None and isinstance(step, Create | Apply) and step.side == side
        again = self._undone.wrote(pair, step, deleted=deleted)
        if again and deleted and side is not None and after is not None:
            self._blame_deletion(after, side, marks)
        crossing = isinstance(step, Create | Apply | Replace) and step.side == "provider"
        if crossing and after is not None:
            self._look_for_change(after)
        # Only steps between the ends count as written: our finalizer on the consumer's object does
        # not show that the provider accepts our writes.
        if isinstance(step, CROSSINGS):
            self._report.wrote()
        _crossed(step, pass_look)
        return after

    def _look_for_change(self, pair: Pair) -> None:
        """Report once that the provider's server stores other values than we wrote."""
        consumer, copy = pair.consumer, pair.provider
        changed = pair.key in self._ends.provider.outcomes and (
            consumer is not None
            and copy is not None
            and contradicts(
                pair.content("consumer", self._context.fields.payload).value,
                pair.content("provider", payload).value,
            )
        )
        if not changed:
            self._unaltered(pair.key)
            return
        if pair.key in self._altered:
            return
        self._altered.add(pair.key)
        self._report.rewritten[pair.key] = "the provider's admission"
        self._tell(
            consumer,
            "WriteChanged",
            f"the provider stores other values in its copy {pair.target} than this object has: "
            "a webhook of the provider changes them; ask the provider's team, or set the same "
            "values here",
        )

    def _unaltered(self, key: Key) -> None:
        """Forget the report of an altered copy, which is as written now, or gone."""
        if key in self._altered:
            self._altered.discard(key)
            self._report.rewritten.pop(key, None)

    def _heard(self, key: Key) -> None:
        """Record an answer of the provider; after a long silence retry the unanswered objects."""
        since = self._unanswered.pop(key, None)
        if since is not None and _long_ago(since):
            self._speaks()

    def _rest(self, step: Step, pair: Pair, pass_look: SyncLook, *, well: bool) -> Result | None:
        """Record how a pass ended, and return when to look at the object again.

        ``well`` tells whether no server refused a part of it.
        """
        if isinstance(step, Refuse):
            if self._report.left_alone(pair.key, step.reason):
                self._tell(pair.consumer, step.reason, step.message)
            return None
        if well:
            self._report.well(pair.key)
        if isinstance(step, Wait):
            pass_look.unfinished()
            if pair.provider is not None and pair.provider.meta.deleting:
                result = self._wait(pair, pair.provider)
                # No event brings a write on that was put off.
                return result if step.seconds is None else Result(step.seconds)
            return Result(step.seconds)
        if isinstance(step, Done):
            self._waiting.pop(pair.key, None)
        if isinstance(step, InSync):
            self._in_sync.add(pair.key)
            if pair.key in self._altered and self._policy.outcome("provider", pair) is None:
                self._unaltered(pair.key)
        # Without both ends, no outcome has to be remembered.
        if pair.consumer is None and pair.provider is None:
            self._unaltered(pair.key)
            self._undone.forget(pair.key)
            self._report.rewritten.pop(pair.key, None)
            self._ends.consumer.outcomes.pop(pair.key, None)
            self._ends.provider.outcomes.pop(pair.key, None)
        return None

    def _wait(self, pair: Pair, provider: Object) -> Result:
        """Report a deletion on the provider that takes long, once."""
        now = asyncio.get_running_loop().time()
        waiting = self._waiting.setdefault(pair.key, _Waiting(now))
        if now - waiting.since < LONG:
            return Result(LONG)
        finalizers = ", ".join(provider.meta.finalizers) or "none"
        # Reported again after a finalizer was removed, for then another one is awaited.
        if waiting.reported != finalizers:
            self._waiting[pair.key] = _Waiting(waiting.since, finalizers)
            self._tell(
                pair.consumer,
                "DeletionPending",
                f"waiting until {provider.kind} {provider.key} on the provider is gone; it is "
                f"being deleted and has these finalizers: {finalizers}",
            )
        # From here on the watch shows each change; another look by the clock would find nothing
        # new.
        return Result()

    def _tell(self, obj: Object | None, reason: str, message: str) -> None:
        if obj is not None:
            self._context.events.event(obj, "Warning", reason, message)


def _marks(obj: Object) -> str:
    """Return the labels and annotations by which programs that deliver know an object.

    Values of annotations are left out: some hold the whole object.
    """
    marks = LocalMetadataKeys().marks(obj.meta.labels, obj.meta.annotations)
    labels = {INSTANCE: obj.meta.labels[INSTANCE]} if INSTANCE in obj.meta.labels else {}
    marks_listed = [f"label {name}={value}" for name, value in {**labels, **marks.labels}.items()]
    return ", ".join([*marks_listed, *(f"annotation {name}" for name in marks.annotations)])


def _long_ago(since: float) -> bool:
    return asyncio.get_running_loop().time() - since >= SILENT


def _is_refused_anew(pair: Pair, error: ApiError) -> bool:
    """Whether the provider's schema refuses to have a copy made of an object that had one.

    Here the same schema holds, and takes what the object has had before.
    """
    details = error.status.details
    return (
        isinstance(error, Invalid)
        and details is not None
        and pair.provider is None
        and pair.consumer is not None
        and details.kind == pair.consumer.kind
        and ANNOTATION_PROVIDER_UID in pair.consumer.meta.annotations
    )


def _is_change_of_leaving(step: Step, pair: Pair) -> bool:
    """Whether the step writes a copy of which either end is being deleted."""
    ends = (pair.consumer, pair.provider)
    leaving = any(end is not None and end.meta.deleting for end in ends)
    return leaving and isinstance(step, Apply | Replace) and step.side == "provider"


def _side(step: Step) -> str:
    side: str = getattr(step, "side", "")
    return side


def _crossed(step: Step, pass_look: SyncLook) -> None:
    match step:
        case Create(side="provider") | Apply(side="provider") | Replace(side="provider"):
            pass_look.spec_crossed()
        case Create() | Replace() | ReplaceStatus():
            pass_look.status_crossed()
        case AskNamespace():
            pass_look.unfinished()
