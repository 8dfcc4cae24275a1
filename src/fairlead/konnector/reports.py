"""Faults of bindings, collected from the parts that notice them and shown in conditions.

One object's trouble does not make a binding unready. Objects that cannot be synchronised until a
person acts are told in the condition ``Conflicts``, objects that a server refuses in
``ObjectsFailing``; both are there while there are any. Only when nothing at all can be written,
:meth:`Reports.blocked` says so, and the binding is unready.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from fairlead.api.kubebind import APIServiceExport
from fairlead.api.kubebind.conditions import (
    CONFLICTS,
    OBJECTS_FAILING,
    OBJECTS_REWRITTEN,
    PERMISSIONS_GRANTED,
    REFUSED_HERE,
    KubeBindCondition,
    get_condition,
)
from fairlead.api.meta import Key, Object
from fairlead.client.errors import ApiError, ConnectionFailed, Forbidden, Invalid
from fairlead.konnector.policies import steps
from fairlead.konnector.rights import ADMISSION_REMEDY


SHOWN = 3
"""Largest number of messages or objects that a condition names."""
LASTING_SECONDS = 3.0
"""Time of refusals after which a failure is reported, in seconds.

By the delays of ``FAILED_PASS`` and ``REFUSED_WRITE`` the tenth write has failed by then. With
fewer seconds a refusal that passes by itself would write the condition twice; with more, people
look at objects that do not cross and find no reason.
"""
_MESSAGE_LIMIT = 500
"""Length to which a server's message is cut, in characters; some quote the whole object."""

_Place = tuple[str, Key]
"""Source of a report, and key of an object in it."""


class SyncFault(NamedTuple):
    """A fault in words, and the error that caused it."""

    message: str
    cause: Exception | None = None


class Problems:
    """Faults by binding and by source."""

    def __init__(self) -> None:
        self._faults: dict[str, dict[str, Sequence[SyncFault]]] = {}

    def report(self, binding: str, source: str, message: str) -> None:
        """Replace all faults of a source by one message; "" removes them."""
        self.replace(binding, source, [SyncFault(message)] if message else [])

    def replace(self, binding: str, source: str, faults: Sequence[SyncFault]) -> None:
        """Replace all faults of a source; an empty sequence removes them."""
        before = self._faults.setdefault(binding, {})
        if faults:
            before[source] = faults
        else:
            before.pop(source, None)

    def causes(self, binding: str) -> Iterator[Exception]:
        """Yield the errors that cause the faults of a binding."""
        for faults in self._faults.get(binding, {}).values():
            yield from (fault.cause for fault in faults if fault.cause is not None)

    def message(self, binding: str, *, said: Exception | None = None) -> str:
        """Return the faults of a binding as text, "" if there are none; of many, the first few.

        Equal faults are reported once, and faults with the cause ``said`` not at all.
        """
        faults = sorted(self._faults.get(binding, {}).items())
        alone: dict[str, None] = {}
        unreachable: dict[str, tuple[str, dict[str, None]]] = {}
        for message, cause in (fault for _, faults in faults for fault in faults):
            server = _server(cause)
            if said is not None and (str(said) in message or (server and server == _server(said))):
                continue
            what = message.removesuffix(f": {cause}")
            if server and what != message:
                # Each watch has failed in its own way, for one reason.
                unreachable.setdefault(server, (str(cause), {}))[1][what] = None
            else:
                alone[message] = None
        faults_alone = list(alone)
        faults_alone += [f"{_few(whats)}: {reason}" for reason, whats in unreachable.values()]
        return _few(faults_alone)


def _server(cause: Exception | None) -> str:
    return cause.server if isinstance(cause, ConnectionFailed) else ""


def _few(texts: Iterable[str]) -> str:
    shown = list(texts)
    more = [f"and {len(shown) - SHOWN} more"] if len(shown) > SHOWN else []
    return "; ".join(shown[:SHOWN] + more)


class RefusedObject(msgspec.Struct, frozen=True):
    """A server's answer to the last write of an object, and since when it refuses the object."""

    message: str
    reason: str
    generation: int
    """Generation of the consumer's object: after a change, a refusal counts as a new one."""
    since: float
    tried: float
    """Time of the last refusal."""
    forbidden: bool
    ours: bool = False
    """Whether the consumer's own server refuses it."""

    @property
    def invalid(self) -> bool:
        """Whether the object's schema refuses it.

        A policy may answer with 422 Invalid too, by another text: "is forbidden: ...".
        """
        return self.reason == Invalid.__name__ and " is invalid: " in self.message


class SyncReport:
    """Report of one source, the work on one resource or claim, about one binding's objects.

    ``kind`` names its objects for people. ``in_sync`` is the number of objects in sync. ``clock``
    is in seconds.
    """

    def __init__(
        self,
        problem: Callable[[Sequence[SyncFault]], None],
        kind: str,
        clock: Callable[[], float],
    ) -> None:
        self.problem = problem
        """Replaces all faults of this source; an empty sequence means that it is well again."""
        self.kind = kind
        self.in_sync = 0
        self.conflicts: dict[Key, str] = {}
        """Reasons of conflicts, by object."""
        self.failures: dict[Key, RefusedObject] = {}
        self.unwritten: set[Key] = set()
        """Objects whose copies must not be deleted."""
        self.rewritten: dict[Key, str] = {}
        """Writers that undo our writes, by object."""
        self._clock = clock
        self._written = float("-inf")

    def left_alone(self, key: Key, reason: str) -> bool:
        """Record that an object is left alone until a person acts; return whether that is new."""
        self.failures.pop(key, None)
        is_held = key in self.unwritten
        self.unwritten.discard(key)
        if reason == steps.COPY_HELD:
            self.conflicts.pop(key, None)
            self.unwritten.add(key)
            return not is_held
        if reason in steps.CONFLICTS:
            conflict = self.conflicts.get(key)
            self.conflicts[key] = reason
            return conflict != reason
        self.conflicts.pop(key, None)
        return True

    def failed(
        self, key: Key, error: ApiError, generation: int, *, ours: bool = False, advice: str = ""
    ) -> bool:
        """Record that a server refuses an object; return whether that is new.

        A refusal for the same reason of the same version of the object is not new. ``ours`` says
        that the consumer's own server refuses it; ``advice`` is told after its message.
        """
        failure = self.failures.get(key)
        refused = RefusedObject(
            message=". ".join(one for one in (str(error)[:_MESSAGE_LIMIT], advice) if one),
            reason=error.reason or type(error).__name__,
            generation=generation,
            since=failure.since if failure is not None else self._clock(),
            tried=self._clock(),
            forbidden=isinstance(error, Forbidden) and error.lacks_right,
            ours=ours,
        )
        self.failures[key] = refused
        return failure is None or (failure.reason, failure.generation) != (
            refused.reason,
            refused.generation,
        )

    def well(self, key: Key) -> None:
        """Remove an object's conflict, failure and held copy from the report."""
        self.unwritten.discard(key)
        self.conflicts.pop(key, None)
        self.failures.pop(key, None)

    def wrote(self) -> None:
        """Record the time of a write of one cluster's content that the other cluster accepted."""
        self._written = self._clock()

    def lasting(self) -> dict[Key, RefusedObject]:
        """Return the objects that servers have refused for long enough to report them."""
        before = self._clock() - LASTING_SECONDS
        return {key: one for key, one in self.failures.items() if one.since <= before}

    def blocked(self) -> bool:
        """Whether no write succeeds at all, as far as several objects have shown.

        No write has succeeded since the first of them failed; and none is in sync, or a right is
        missing and the objects are not at fault.
        """
        objects = self.lasting().values()
        return (
            len(objects) > 1
            and self._written < min(one.since for one in objects)
            and (not self.in_sync or all(one.forbidden for one in objects))
        )

    def clear(self) -> None:
        """Drop all that was reported."""
        self.problem([])
        self.in_sync = 0
        self.conflicts.clear()
        self.unwritten.clear()
        self.rewritten.clear()
        self.failures.clear()


class Reports:
    """Faults of all bindings of a consumer; ``clock`` is in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.problems = Problems()
        """Faults of a binding's watches and writes."""
        self.refusals = Problems()
        """Requests of a binding's provider that are refused."""
        self._reports: dict[str, dict[str, SyncReport]] = {}
        self._conflicting = _Named()
        self._failing = _Named()
        self._undone = _Named()

    def of(self, binding: str, source: str, kind: str) -> SyncReport:
        """Return a new report of one source about one binding, which replaces its last one."""

        def problem(faults: Sequence[SyncFault]) -> None:
            self.problems.replace(binding, source, faults)

        report = SyncReport(problem, kind, self._clock)
        self._reports.setdefault(binding, {})[source] = report
        return report

    def conflicts(self, binding: str) -> KubeBindCondition | None:
        """Return the condition about a binding's objects in conflict; None without one."""
        conflicts = {
            (source, key): f"{report.kind} {key} ({reason})"
            for source, report in self._of(binding)
            for key, reason in report.conflicts.items()
        }
        shown = self._conflicting.choose(binding, conflicts)
        if not conflicts:
            return None
        reasons = Counter(
            reason for _, report in self._of(binding) for reason in report.conflicts.values()
        )
        number = "1 object is" if len(conflicts) == 1 else f"{len(conflicts)} objects are"
        message = f"{number} not synchronised: {shown}; an Event of each says what to do"
        # The most frequent reason, and of equally frequent ones always the same.
        reason = min(reasons, key=lambda reason: (-reasons[reason], reason))
        return KubeBindCondition(CONFLICTS, "True", reason=reason, message=message)

    def failing(self, binding: str) -> KubeBindCondition | None:
        """Return the condition about a binding's objects that servers refuse; None without one."""
        failures = {
            (source, key): (f"{report.kind} {key}", failure)
            for source, report in self._of(binding)
            for key, failure in report.lasting().items()
        }
        names = {key: name for key, (name, _) in failures.items()}
        shown = self._failing.choose(binding, names)
        if not failures:
            return None
        _, first = failures[self._failing.first(binding)]
        number = "1 object cannot" if len(failures) == 1 else f"{len(failures)} objects cannot"
        why = f"because the provider refuses it: {first.message}"
        if first.ours:
            # A role or the object's schema is told by the message itself.
            admission = not (first.forbidden or first.invalid)
            remedy = f". {ADMISSION_REMEDY}" if admission else ""
            why = f"{REFUSED_HERE}{first.message}{remedy}"
        return KubeBindCondition(
            OBJECTS_FAILING,
            "True",
            reason=first.reason,
            message=f"{number} be written: {shown}; the first {why}",
        )

    def rewritten(self, binding: str) -> KubeBindCondition | None:
        """Return the condition about objects whose writes are undone; None without one."""
        rewritten = {
            (source, key): f"{report.kind} {key} ({who})"
            for source, report in self._of(binding)
            for key, who in report.rewritten.items()
            if who
        }
        shown = self._undone.choose(binding, rewritten)
        if not rewritten:
            return None
        number = "1 object" if len(rewritten) == 1 else f"{len(rewritten)} objects"
        message = (
            f"others undo the konnector's writes to {number} again and again: {shown}; an "
            "Event of each says where"
        )
        return KubeBindCondition(
            OBJECTS_REWRITTEN, "True", reason=steps.WRITE_UNDONE, message=message
        )

    def invalid(self, binding: str) -> bool:
        """Whether a server refuses an object of a binding because of its schema."""
        return any(
            failure.invalid
            for _, report in self._of(binding)
            for failure in report.lasting().values()
        )

    def blocked(self, binding: str) -> str:
        """Return why no write of a resource succeeds at all, "" if one does."""
        texts = []
        for source, report in self._of(binding):
            if report.blocked():
                objects = report.lasting()
                texts.append(
                    f"every write for {source} fails ({len(objects)} objects); "
                    f"{next(iter(objects.values())).message}"
                )
        return "; ".join(texts)

    def forget(self, binding: str) -> None:
        """Drop all reports about a binding that is gone."""
        self._reports.pop(binding, None)
        self._conflicting.forget(binding)
        self._failing.forget(binding)
        self._undone.forget(binding)

    def _of(self, binding: str) -> list[tuple[str, SyncReport]]:
        return sorted(self._reports.get(binding, {}).items())


class _Named:
    """Objects that a condition names: the former ones, as long as they are in it.

    New ones are chosen by name. So a condition does not change because of a new object that comes
    before the named ones.
    """

    def __init__(self) -> None:
        self._named: dict[str, list[_Place]] = {}

    def choose(self, binding: str, texts: Mapping[_Place, str]) -> str:
        """Return the names of the first few objects, and how many more there are."""
        places = [place for place in self._named.get(binding, []) if place in texts]
        if len(places) < SHOWN:
            others = (place for place in texts if place not in places)
            places += sorted(others, key=lambda place: texts[place])
        self._named[binding] = places[:SHOWN]
        names = [texts[place] for place in places[:SHOWN]]
        more = [f"and {len(texts) - SHOWN} more"] if len(texts) > SHOWN else []
        return ", ".join(names + more)

    def first(self, binding: str) -> _Place:
        """Return the object that a binding's condition names first."""
        return self._named[binding][0]

    def forget(self, binding: str) -> None:
        """Drop the names that were chosen for a binding that is gone."""
        self._named.pop(binding, None)


def ungranted(export: Object | None) -> str:
    """Return the message that the provider lacks rights for an export's objects; else ""."""
    parsed = export.try_decode(APIServiceExport) if export is not None else None
    if export is None or parsed is None:
        return ""
    granted = get_condition(parsed.status.conditions, PERMISSIONS_GRANTED)
    if granted is None or granted.status != "False":
        return ""
    return (
        "the provider cannot grant the konnector all the rights that it needs there: the "
        f"provider's administrator sees why in condition {PERMISSIONS_GRANTED} of "
        f"APIServiceExport {export.meta.name}"
    )
