"""Pacing: when a pass or its writes wait, and when to warn of a missing object.

A write waits while another writer keeps undoing it, and while a workload changes too often for any
reason: a binding may depend on fields that its own write changes, and would roll out its workload
without end. :class:`Pauses` applies the other classes' rules to the passes of one controller.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from time import monotonic
from typing import Any

import msgspec

from fairlead.api.conditions import Condition, get_condition, stored_conditions
from fairlead.api.meta import Object
from fairlead.api.servicebinding.common import INJECTION_READY, READY, WRITE_UNDONE, WRITES_PACED
from fairlead.api.timestamps import moment, parse_time
from fairlead.binding import bounds
from fairlead.binding.contexts.base import BaseContext
from fairlead.binding.expressions.fixedpath import ProjectionError
from fairlead.binding.workloads.holdings import Holding
from fairlead.binding.workloads.operations import MappingError
from fairlead.binding.workloads.records import read_records, record_key, reference_key
from fairlead.binding.workloads.workload import Workload
from fairlead.runtime import EventRecorder


_APPLIES = {"kubectl-client-side-apply"}
"""Field managers that apply by updates."""


# A client that applies an atomic list owns the whole list, and drops items of others: with
# server-side apply by force, with client-side apply always. Lists of custom kinds are atomic
# unless their CRD says otherwise; lists of the built-in kinds merge by their keys.
def rivals_text(workloads: Sequence[Workload], uid: str, ours: str) -> str:
    """Return a message on the writers that removed a binding's projection.

    Args:
        workloads: the workloads without it.
        uid: the binding's uid.
        ours: the field manager of our own writes.
    """
    return "; ".join(dict.fromkeys(_rival(workload, uid, ours) for workload in workloads))


def _rival(workload: Workload, uid: str, ours: str) -> str:
    notes = workload.original.meta.annotations
    if reference_key(uid) in notes and record_key(uid) in notes:
        return (
            "the reference runtime of servicebinding.io projects the binding, too: run only one"
            " of the two"
        )
    manager, applies = _last(workload.original, ours)
    if not manager:
        return "metadata.managedFields shows the writer"
    if not applies:
        return f"it is {manager}: let it keep fields that it does not know"
    return (
        f"it is {manager}, which applies the object: if lists of containers, env, volumeMounts"
        " and volumes are atomic, a manager that applies one owns the whole list; set"
        f" x-kubernetes-list-type: map for them in the CRD of the kind, or let {manager} leave"
        " them alone"
    )


def _last(obj: Object, ours: str) -> tuple[str, bool]:
    """Return the last other manager that wrote an object, and whether it applies."""
    entries: list[dict[str, Any]] = obj.to_dict()["metadata"].get("managedFields") or []
    others = [
        entry
        for entry in entries
        if entry.get("manager") not in {None, ours} and not entry.get("subresource")
    ]
    # Times of managedFields are whole seconds of UTC, which compare as text.
    latest = max(others, key=lambda entry: str(entry.get("time", "")), default=None)
    if latest is None:
        return "", False
    manager = str(latest["manager"])
    return manager, latest.get("operation") == "Apply" or manager in _APPLIES


CALM_SECONDS = 2 * bounds.FIGHT_SECONDS
"""Time without a write after which a fight is over, in seconds."""


class Waits:
    """Tracks the bindings that wait for a missing object; ``clock`` returns seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._waits: dict[Hashable, tuple[float, bool]] = {}

    def overdue(self, key: Hashable, waited: float) -> bool:
        """Whether to warn of the wait of ``key`` now; True once for each wait.

        Args:
            key: the waiting binding.
            waited: seconds that it had waited before the first call.
        """
        now = self._clock()
        # If it was overdue at the program's start, the previous process has sent the warning.
        since, warned = self._waits.get(key) or (now - waited, waited >= bounds.PATIENCE_SECONDS)
        late = now - since >= bounds.PATIENCE_SECONDS
        self._waits[key] = since, late
        return late and not warned

    def left(self, key: Hashable) -> float:
        """Return the seconds until a warning is due; 0 after it."""
        since, warned = self._waits.get(key, (0.0, True))
        # Not 0, which would mean that no warning is due.
        return 0.0 if warned else max(since + bounds.PATIENCE_SECONDS - self._clock(), 0.001)

    def over(self, key: Hashable) -> bool:
        """End a wait; return whether there was one."""
        return self._waits.pop(key, None) is not None


class Fight(msgspec.Struct):
    """The writes of one content to one workload that others have undone, and the last write.

    ``record`` is the hash of the record that the last write left on the workload.
    """

    content: Hashable
    record: int
    last: float
    # A short list and not a deque, which takes 0.7 KiB.
    times: list[float]
    on: bool = False


class Fights:
    """Detects that another writer keeps undoing the same write.

    After that there is one write per window, until the fight is over. ``clock`` returns seconds.
    Each key is a binding on a workload. ``whole`` is the record of a projection of which nothing
    is missing, "" where something is: after a write it is the same until another writer undoes it.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._fights: OrderedDict[Hashable, Fight] = OrderedDict()
        """By key, the one that was written last at the end."""

    def __contains__(self, key: Hashable) -> bool:
        """Whether a write of this key has arrived lately."""
        return key in self._fights

    def pause(self, key: Hashable, content: Hashable, whole: str) -> float:
        """Return the seconds to wait before writing this content; 0 for none."""
        fight, now = self._fights.get(key), self._clock()
        if fight is None or not _is_undone(fight, content, whole):
            return 0.0
        if now - fight.last > CALM_SECONDS:
            fight.on = False
        while fight.times and now - fight.times[0] > bounds.FIGHT_SECONDS:
            fight.times.pop(0)
        fight.on = fight.on or len(fight.times) >= bounds.FIGHT_WRITES
        return max(bounds.FIGHT_SECONDS - (now - fight.last), 0.0) if fight.on else 0.0

    def arrived(self, key: Hashable, content: Hashable, whole: str, written: str) -> None:
        """Count a write of this content that the server accepted.

        Args:
            key: the binding and the workload.
            content: the identity of what is projected.
            whole: the record that was there before, as for :meth:`pause`.
            written: the record that is there now.
        """
        fight, now = self._fights.pop(key, None), self._clock()
        if fight is None or fight.content != content:
            fight = Fight(content, 0, now, [now])
        elif _is_undone(fight, content, whole):
            fight.times.append(now)
        fight.last, fight.record = now, hash(written)
        self._fights[key] = fight
        # A write of long ago is no part of a fight.
        while now - next(iter(self._fights.values())).last > CALM_SECONDS:
            self._fights.popitem(last=False)


def _is_undone(fight: Fight, content: Hashable, whole: str) -> bool:
    # Other content is a change of the binding, and other records are of another writer.
    return fight.content == content and (not whole or hash(whole) != fight.record)


class Pace:
    """Limits the rate of an action: a burst at once, then growing delays.

    Args:
        clock: returns seconds.
        burst: number of actions without a delay.
        first: first delay after the burst, in seconds; it doubles each time.
        most: longest delay, in seconds.
        rest: seconds after which one action is forgotten.
    """

    def __init__(
        self, clock: Callable[[], float], *, burst: int, first: float, most: float, rest: float
    ) -> None:
        self._clock = clock
        self._burst, self._first, self._most, self._rest = burst, first, most, rest
        self._paces: OrderedDict[Hashable, tuple[float, float, float]] = OrderedDict()

    def left(self, key: Hashable) -> float:
        """Return the seconds until the action is allowed; 0 for now."""
        _, _, due = self._paces.get(key, (0.0, 0.0, 0.0))
        return max(due - self._clock(), 0.0)

    def done(self, key: Hashable) -> None:
        """Count an action."""
        now = self._clock()
        count, last, _ = self._paces.pop(key, (0.0, now, 0.0))
        count = max(count - (now - last) / self._rest, 0.0) + 1
        over = min(count - self._burst, 30.0)
        pause = 0.0 if over < 0 else min(self._first * 2.0**over, self._most)
        self._paces[key] = (count, now, now + pause)
        # A forgotten key starts with a full burst.
        if len(self._paces) > bounds.PACED:
            self._paces.popitem(last=False)


def workload_pace(clock: Callable[[], float]) -> Pace:
    """Return the pace of changes to one workload, each of which rolls out its pods.

    Ten come at once, so that ordinary edits do not wait. A workload that changes without end comes
    to one rollout a minute: at shorter delays its pods would hardly start, and longer ones would
    hold back the change that ends it.
    """
    # The condition that `_for_pace` sets says "once a minute", which is ``most``.
    return Pace(clock, burst=10, first=5.0, most=60.0, rest=60.0)


def pass_pace(clock: Callable[[], float]) -> Pace:
    """Return the pace of passes over one binding: at last one per second.

    A service that changes all the time, as by a heartbeat in its status, would otherwise cost a
    pass for each change. The last change is seen at most a second late.
    """
    return Pace(clock, burst=20, first=0.5, most=1.0, rest=1.0)


class Pauses:
    """Decides for one controller when passes over a binding, and their writes, wait.

    ``recorder`` sends the warnings, ``ours`` is the field manager of our own writes. ``workloads``
    is the pace of changes to each workload, which the controllers of a cluster share.
    """

    def __init__(
        self,
        recorder: EventRecorder,
        ours: str,
        workloads: Pace | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.passes = pass_pace(clock)
        self.waits = Waits(clock)
        self._recorder = recorder
        self._ours = ours
        self._fights = Fights(clock)
        self._workloads = workloads or workload_pace(clock)

    async def before_write(self, context: BaseContext) -> float:
        """Withhold what may not be written yet; return the seconds until it may, 0 for now.

        Removals are always written at once.
        """
        changed = [] if context.meta.deleting else context.changed_selected()
        fought, paced = self._fought(context, changed), self._paced(context, changed)
        paced = {place: left for place, left in paced.items() if place not in fought}
        withheld = [one for one in changed if id(one) in fought or id(one) in paced]
        if not withheld:
            return 0.0
        texts = []
        if fought:
            some = [one for one in withheld if id(one) in fought]
            # Without the pause two writers would roll the workload out without end.
            texts.append(
                f"another writer keeps changing {_names(some)} back;"
                f" {rivals_text(some, context.meta.uid, self._ours)}; the next try is in"
                f" {max(fought.values()):.0f} s"
            )
        if paced:
            some = [one for one in withheld if id(one) in paced]
            texts.append(
                f"the bindings of {_names(some)} changed it so often that they now change it at"
                " most once a minute: check whether one of them reads a field that its own write"
                " changes, such as metadata.generation or metadata.resourceVersion, or a field"
                " that keeps changing"
            )
        await _withhold(
            context, withheld, WRITE_UNDONE if fought else WRITES_PACED, "; ".join(texts)
        )
        return max([*fought.values(), *paced.values()])

    def _fought(self, context: BaseContext, changed: Sequence[Workload]) -> dict[int, float]:
        """Return the pauses of workloads whose projection another writer keeps removing."""
        pauses = {
            id(workload): self._fights.pause(key, _content(context), _whole(context, workload))
            for workload in changed
            # Almost no workload is written twice in a short time.
            if (key := _key(context, workload)) in self._fights
        }
        return {place: pause for place, pause in pauses.items() if pause}

    def _paced(self, context: BaseContext, changed: Sequence[Workload]) -> dict[int, float]:
        """Return the pauses of workloads that change too often.

        A binding's first projection onto a workload is written at once.
        """
        pauses = {
            id(workload): self._workloads.left(_place(workload))
            for workload in changed
            if context.reader.record_key in workload.original.meta.annotations
        }
        return {place: pause for place, pause in pauses.items() if pause}

    def accepted(self, context: BaseContext, workload: Workload) -> None:
        """Count a write of a workload that the server accepted."""
        if any(workload is one.workload for one in context.changes.workloads):
            key = _key(context, workload)
            whole = _whole(context, workload) if key in self._fights else ""
            self._fights.arrived(key, _content(context), whole, _record(context, workload))
            if context.reader.record_key in workload.original.meta.annotations:
                self._workloads.done(_place(workload))

    def tell_of_wait(self, key: Hashable, binding: Object, context: BaseContext) -> None:
        """Send a Warning if an object stays missing, or if the wait ended with another problem.

        Changes of the status have their own Events; this is about elapsed time.
        """
        if not context.flow.waiting and not self.waits.over(key):
            return
        condition = context.get_condition(READY)
        if condition is None:
            return
        before = get_condition(stored_conditions(binding.to_dict()), READY)
        same = before is not None and (before.status, before.reason) == (
            condition.status,
            condition.reason,
        )
        if context.flow.waiting:
            waited = _age(before) if before is not None and same else 0.0
            if self.waits.overdue(key, waited):
                late = f"still waiting after {bounds.PATIENCE_SECONDS:.0f} s: {condition.message}"
                self._recorder.event(binding, "Warning", condition.reason, late)
        elif same and condition.status != "True":
            self._recorder.event(binding, "Warning", condition.reason, condition.message)

    def forget(self, key: Hashable) -> None:
        """Drop a deleted binding."""
        self.waits.over(key)


async def _withhold(
    context: BaseContext, workloads: Sequence[Workload], reason: str, text: str
) -> None:
    await context.withhold(workloads)
    context.flow.retry_processing(text, transient=True)
    context.set_condition(INJECTION_READY, "False", reason, text)
    context.close()


def _key(context: BaseContext, workload: Workload) -> tuple[str, str]:
    """Return the uids of binding and workload: an object that is made anew is another one."""
    return context.meta.uid, workload.original.meta.uid


def _content(context: BaseContext) -> tuple[object, ...]:
    """Return the identity of what is projected: generation, Secret, and its marked content.

    A change of the binding or its Secret makes another projection, which is no fight.
    """
    return context.meta.generation, context.secret, context.content_mark


def _record(context: BaseContext, workload: Workload) -> str:
    """Return the record that the write leaves on a workload."""
    annotations = workload.body["metadata"].get("annotations") or {}
    return str(annotations.get(context.reader.record_key, ""))


def _whole(context: BaseContext, workload: Workload) -> str:
    """Return the record of what a write replaces; "" if its projection is not whole.

    It is not where items are missing, or where the write restores what the record has.
    """
    notes = workload.original.meta.annotations
    text = notes.get(context.reader.record_key, "")
    record = read_records({context.reader.record_key: text}).get(context.meta.uid)
    if record is None or text == _record(context, workload):
        return ""
    try:
        return "" if Holding(workload.original.to_dict(), record).lost() else text
    # Each editor of a workload can write records: this one is none that a binding wrote.
    except (ProjectionError, MappingError):
        return ""


def _place(workload: Workload) -> tuple[str, ...]:
    meta, resource = workload.original.meta, workload.resource
    return resource.group, resource.plural, meta.namespace, meta.name


def _names(workloads: Sequence[Workload]) -> str:
    return ", ".join(str(workload) for workload in workloads)


def _age(condition: Condition) -> float:
    """Return the seconds since a condition changed its status; 0 without a valid time."""
    try:
        changed = parse_time(condition.last_transition_time)
    except ValueError:
        return 0.0
    return max((moment() - changed).total_seconds(), 0.0)
