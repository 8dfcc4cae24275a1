"""The controller of one Service Binding API: runs the pipeline, answers it, writes the outcome.

Level-triggered: a pass computes everything from what is there now and writes only what differs.
What it read is watched until the next pass, so nothing is polled; pauses are for what no watch
can announce, such as rights that are missing.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
from contextlib import AsyncExitStack
from time import monotonic
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from fairlead.api.conditions import Condition, get_condition
from fairlead.api.meta import JSON, Object, object_from_dict
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS, SECRETS, Resource
from fairlead.api.servicebinding.common import ERROR, INJECTION_READY, READY, WRITES_PACED
from fairlead.api.timestamps import moment, now, parse_time
from fairlead.binding.apis import Api
from fairlead.binding.cluster.answering import Answers, Pass
from fairlead.binding.cluster.committing import Committer, Stored, stored_conditions
from fairlead.binding.cluster.dependencies import Dependencies
from fairlead.binding.cluster.mappings import Mappings, is_mapping
from fairlead.binding.cluster.rivals import told
from fairlead.binding.contexts.base import BaseContext, InvalidBinding
from fairlead.binding.contexts.outcome import invalid_status
from fairlead.binding.handlers.projecting import persist
from fairlead.binding.handlers.unbinding import unbind_leftovers
from fairlead.binding.metrics import BindingMetrics
from fairlead.binding.options import BindingOptions
from fairlead.binding.pacing import (
    PATIENCE_SECONDS,
    Fights,
    Pace,
    Waits,
    pass_pace,
    workload_pace,
)
from fairlead.binding.pipeline import Pipeline
from fairlead.binding.reads import Get, Lookup, Read, Snapshot, TooManyReadsError
from fairlead.binding.workloads.records import (
    KINDS_ANNOTATION,
    kinds_text,
    read_kinds,
    record_key,
)
from fairlead.binding.workloads.workload import Workload
from fairlead.client import Conflict, NotFound
from fairlead.runtime import (
    Cluster,
    Controller,
    Delta,
    Request,
    Result,
    changed,
    delays,
    patch_metadata,
    remove_finalizer,
)
from fairlead.runtime.controller.controller import ControllerStats


COMPONENT = "fairlead-binding"

_ENDLESS_SECONDS = 300.0
"""Until a binding is looked at again whose pass has no end; only its own change is sooner."""

_LEFTOVERS = Pipeline([unbind_leftovers, persist])
"""What is done for a binding that contradicts itself."""

_CONFLICTS = 4
"""Times that a pass is repeated at once where others have written meanwhile."""
_CONFLICT_SECONDS = 0.05
"""Until it is, at most."""
_NEVER_SEEN = sys.maxsize
"""A version that no watch shows: the server is asked."""


def _content(binding: Object | None) -> Any:
    if binding is None:
        return None
    meta = binding.meta
    annotations = {name: meta.annotations[name] for name in meta.annotations}
    annotations.pop(KINDS_ANNOTATION, None)
    return meta.generation, meta.deletion_timestamp, annotations


_WANTED = changed(_content)
"""What we write ourselves, a status or the annotation of kinds, is no reason to look again."""


class BindingController:
    """Reconciles the bindings of one API in one cluster; ``controller`` is what to run."""

    def __init__(
        self,
        cluster: Cluster,
        api: Api,
        options: BindingOptions,
        metrics: BindingMetrics | None = None,
        pace: Pace | None = None,
    ) -> None:
        self.name = api.name
        self._cluster = cluster
        self._api = api
        self._pipeline = api.builder.build()
        self._metrics = metrics or BindingMetrics()
        self._events = cluster.events(COMPONENT)
        self._committer = Committer(cluster.client, api.resource, self._events, self._arrived)
        self._fights = Fights(_seconds)
        self._pace = pace or workload_pace(monotonic)
        self._passes = pass_pace(_seconds)
        self._waits = Waits(_seconds)
        self._versions: dict[Request, int] = {}
        self._contended: dict[Request, None] = {}
        """Requests whose last pass has ended in a conflict, in the order of their conflicts."""
        # No namespace waits for all that another one has.
        self.controller = Controller(
            api.name,
            self.reconcile,
            workers=options.workers,
            group=lambda request: (request.cluster, request.namespace),
        )
        self._evaluating: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._dependencies = Dependencies(cluster, self.controller.enqueue)
        self._bindings = cluster.informer(api.resource)
        self._crds = cluster.informer(CUSTOMRESOURCEDEFINITIONS, metadata_only=True)
        self._mappings = Mappings(cluster, self._projected_by, self.controller.enqueue)
        self._answers = Answers(cluster.client, self._dependencies, self._mappings)

    async def run(self) -> None:
        """Work until cancelled."""
        self.controller.watch(self._bindings, predicate=_WANTED, cluster=self._cluster.name)
        self._crds.subscribe(self._on_crd)
        await self._mappings.start()
        try:
            await self.controller.run()
        finally:
            await self._dependencies.close()

    def adopt(self, stats: ControllerStats) -> None:
        """Count into these numbers from now on."""
        self.controller.adopt(stats)

    def _on_crd(self, delta: Delta) -> None:
        # What was there at the start is what discovery has found.
        if delta.initial:
            return
        # The kind may be served in other versions, or not at all, from now on.
        self._cluster.client.discovery.invalidate()
        group = delta.object.meta.name.partition(".")[2]

        def concerned(read: Read) -> bool:
            return isinstance(read, Lookup) and read.group == group

        for request in self._dependencies.noted(concerned):
            self.controller.enqueue(request)

    def _projected_by(self, mapping: str) -> list[Request]:
        def concerned(read: Read) -> bool:
            return isinstance(read, Get) and is_mapping(read) and read.name == mapping

        return self._dependencies.noted(concerned)

    async def reconcile(self, request: Request) -> Result | None:
        """Bring one binding nearer to what its spec says.

        Raises:
            ClientError: the server is not there, or something changed meanwhile.
        """
        try:
            result = await self._repeated(request)
        except Conflict:
            self._contended[request] = None
            raise
        self._contended.pop(request, None)
        return result

    async def _repeated(self, request: Request) -> Result | None:
        # Where repeating has not helped, pauses that grow do: each pass asks for all it needs.
        for _ in range(0 if request in self._contended else _CONFLICTS):
            with contextlib.suppress(Conflict):
                return await self._reconcile(request)
            # What the watch shows is too old; others have written, and are not waited for.
            self._versions[request] = _NEVER_SEEN
            await asyncio.sleep(random.uniform(0, _CONFLICT_SECONDS))  # noqa: S311 - spreads
        return await self._reconcile(request)

    async def _reconcile(self, request: Request) -> Result | None:
        try:
            binding = self._seen(request) or await self._get(request)
        except NotFound:
            await self._forget(request)
            return None
        # Finalizers of others keep it; ours is done.
        if binding.meta.deleting and not self._api.held(binding):
            await self._forget(request)
            return None
        left = 0.0 if binding.meta.deleting else self._passes.left(request)
        if left:
            # What changes all the time is joined.
            return Result(requeue_after=left)
        self._passes.done(request)
        try:
            return await self._process(request, binding)
        except TooManyReadsError as error:
            return await self._endless(request, binding, error)
        except Conflict:
            # What the watch shows is too old.
            self._versions[request] = _NEVER_SEEN
            raise

    def _seen(self, request: Request) -> Object | None:
        """The binding as its watch shows it, unless that lags behind what we wrote ourselves."""
        found = self._bindings.get(request.namespace, request.name)
        # A watch that has broken off may lack the last change.
        if found is None or self._bindings.error:
            return None
        try:
            fresh = int(found.meta.resource_version) >= self._versions.get(request, 0)
        # Versions are numbers on every server that is known; the API only promises a string.
        except ValueError:
            return None
        return found if fresh else None

    async def _get(self, request: Request) -> Object:
        found = await self._cluster.client.get(self._api.resource, request.name, request.namespace)
        return self._wrote(request, found)

    def _wrote(self, request: Request, binding: Object) -> Object:
        """Note the version that the watch has to show before it is believed."""
        with contextlib.suppress(ValueError):
            self._versions[request] = int(binding.meta.resource_version)
        return binding

    async def _prepare(self, request: Request, context: BaseContext) -> None:
        """Note the finalizer and the kinds of workloads, before anything is projected.

        Or a binding could go, or turn to another kind, and leave its projection.
        """
        binding = context.binding
        fields: JSON = {}
        if self._api.finalizer not in binding.meta.finalizers:
            fields["finalizers"] = binding.meta.with_finalizer(self._api.finalizer)
        kinds = self._api.kinds(binding, found=context.reader.kind_is_read)
        if kinds is not None:
            fields["annotations"] = {KINDS_ANNOTATION: kinds}
        if fields:
            patched = await patch_metadata(
                self._cluster.client, self._api.resource, binding, fields
            )
            context.binding = self._wrote(request, patched)

    async def _note_kinds(self, binding: Object, context: BaseContext) -> Object:
        """Once all is projected as it should be, nothing of former kinds or without record is.

        What was made of workloads of a former kind, as ReplicaSets, may still read a Secret.
        """
        kind = self._api.kind(binding)
        if context.flow.error or kind is None or not context.reader.kind_is_read:
            return binding
        if context.changes.kept or read_kinds(binding.meta.annotations) == [kind]:
            return binding
        fields = {"annotations": {KINDS_ANNOTATION: kinds_text([kind])}}
        return await patch_metadata(self._cluster.client, self._api.resource, binding, fields)

    async def _process(self, request: Request, binding: Object) -> Result | None:
        if not binding.meta.deleting:
            binding = self._api.unnoted(binding)
        try:
            context, blind = await self._run(request, binding)
        except (InvalidBinding, msgspec.ValidationError) as error:
            return await self._unfit(request, binding, error)
        # Before the writes: what somebody else undoes each time is not written again at once, and
        # neither is what changes for ever.
        pause = await self._pause_for_fight(request, context) or await self._pause_for_pace(
            context
        )
        # Where reading has failed nobody knows what there is to take off: the binding stays.
        if context.meta.deleting and not context.flow.error:
            return await self._release(request, context)
        if not context.meta.deleting:
            await self._prepare(request, context)
        written = await self._write(request, context)
        self._metrics.passed(self.name, request, context)
        self._wrote(request, await self._note_kinds(written, context))
        # Last, when no workload names them any more: a Pod that starts in between would miss its
        # Secret.
        await self._committer.drop_superseded(context)
        await self._dependencies.settle(request, context.reader.snapshot.asked)
        self._tell_of_wait(request, binding, context)
        return self._next(request, context, blind=blind, pause=pause)

    async def _unfit(self, request: Request, binding: Object, error: Exception) -> Result | None:
        """Say what is wrong with a spec, and unbind what it does not select any more.

        Of one that does not even fit its type nobody knows what it selects.
        """
        left = ""
        if isinstance(error, InvalidBinding) and self._api.secret(binding):
            # One that is being deleted is not judged.
            leaving = {**binding.to_dict()}
            leaving["metadata"] = {**leaving["metadata"], "deletionTimestamp": now()}
            context, _ = await self._run(request, object_from_dict(leaving), _LEFTOVERS)
            # Nothing but what is taken off: of a spec like this nothing is projected.
            await self._committer.workloads(context)
            left = "; ".join(filter(None, [*context.refusals, context.flow.error]))
        text = f"{error}; {left}" if left else str(error)
        await self._committer.status(binding, invalid_status(binding, text, now()))
        self._metrics.invalid(self.name, request)
        self._waits.over(request)
        return Result(backoff=delays.NO_WATCH) if left else None

    async def _endless(self, request: Request, binding: Object, error: Exception) -> Result:
        """Say what a binding asks too much of, and leave it alone for long.

        None of what it asked for is watched: each change would have it ask for all of it again.
        """
        text = f"{error}; the next try is in {_ENDLESS_SECONDS:.0f} s, or when the binding changes"
        await self._committer.status(binding, invalid_status(binding, text, now()))
        self._metrics.endless(self.name, request)
        self._waits.over(request)
        await self._dependencies.settle(request, ())
        return Result(requeue_after=_ENDLESS_SECONDS)

    async def _run(
        self, request: Request, binding: Object, pipeline: Pipeline | None = None
    ) -> tuple[BaseContext, bool]:
        """Make one pass over a binding; also tell whether changes may go unseen."""
        lock = self._evaluating.setdefault(request.namespace, asyncio.Lock())
        async with AsyncExitStack() as turn:
            answering = Pass(self._answers, request, lock, turn)
            snapshot = Snapshot(answering)
            chosen = pipeline or self._pipeline
            context = await self._api.builder.run(binding, snapshot, chosen)
        return context, answering.blind

    async def _write(self, request: Request, context: BaseContext) -> Object:
        """Write the outcome; what comes back of it as it was wanted is no reason to look again."""
        namespace = context.meta.namespace
        places: list[tuple[Resource, str, str]] = []
        for workload in context.changed_workloads():
            self._dependencies.wrote(request, workload.resource, workload.original)
            places.append((workload.resource, namespace, workload.original.meta.name))
        if context.changes.secret:
            places.append((SECRETS, namespace, context.changes.secret.name))
        # Before the requests: a watch may show a write before its answer is here.
        for place in places:
            self._dependencies.writing(request, *place)
        stored: Stored = {}
        settled = False
        context.changes.arrived = False
        try:
            written = await self._committer.write(context, stored)
            settled = not context.flow.error
        finally:
            if context.changes.arrived:
                self._fights.arrived(request, _projected(context))
            for resource, _, name in places:
                found = stored.get((resource, name)) if settled else None
                # After an error the next pass has to see whatever is there.
                version = found.meta.resource_version if found else ""
                self._dependencies.stored(request, (resource, namespace, name), version)
        return written

    async def _release(self, request: Request, context: BaseContext) -> Result | None:
        """Write what unbinding changed; then let the binding go."""
        await self._committer.workloads(context)
        self._metrics.passed(self.name, request, context)
        if context.flow.error:
            # The finalizer stays as long as some workload may still have the projection.
            await self._committer.status(context.binding, context.status(now()))
            return Result(backoff=delays.NO_WATCH)
        held = self._api.held(context.binding)
        await remove_finalizer(self._cluster.client, self._api.resource, context.binding, *held)
        await self._forget(request)
        # For a moment the watch still shows the binding with its finalizer.
        self._versions[request] = _NEVER_SEEN
        return None

    async def _pause_for_fight(self, request: Request, context: BaseContext) -> float:
        """Seconds to wait when somebody keeps removing the projection; 0 to write now."""
        changed = context.changed_selected()
        if not changed or context.meta.deleting:
            return 0.0
        names = ", ".join(str(workload) for workload in changed)
        pause = self._fights.pause(request, _projected(context))
        if pause:
            who = told(changed, context.meta.uid, self._cluster.client.field_manager)
            text = (
                f"something else keeps changing {names} back; {who}; the next try is in "
                f"{pause:.0f} s"
            )
            await context.withhold(changed)
            context.flow.retry_processing(text, transient=True)
            context.set_condition(INJECTION_READY, "False", ERROR, text)
            context.close()
        return pause

    async def _pause_for_pace(self, context: BaseContext) -> float:
        """Seconds to wait before workloads that are changed all the time are changed again.

        A binding's first projection onto a workload comes at once, and so does all that is taken
        away.
        """
        if context.meta.deleting:
            return 0.0
        left = {
            id(workload): self._pace.left(_place(workload))
            for workload in context.changed_selected()
            if _is_known(context, workload)
        }
        held = [one for one in context.changed_selected() if left.get(id(one))]
        if not held:
            return 0.0
        names = ", ".join(str(workload) for workload in held)
        text = (
            f"{names} was changed so often by its bindings that it is changed once a minute at"
            " most for now: see whether one of them reads what its own write changes, as"
            " metadata.generation or metadata.resourceVersion, or what changes all the time"
        )
        await context.withhold(held)
        context.flow.retry_processing(text, transient=True)
        context.set_condition(INJECTION_READY, "False", WRITES_PACED, text)
        context.close()
        return max(left.values())

    def _arrived(self, context: BaseContext, workload: Workload) -> None:
        """Count what the server has taken; what it refused has changed nothing."""
        if any(workload is one for one in context.changed_selected()):
            context.changes.arrived = True
            if _is_known(context, workload):
                self._pace.done(_place(workload))

    def _next(
        self, request: Request, context: BaseContext, *, blind: bool, pause: float
    ) -> Result | None:
        if pause:
            return Result(requeue_after=pause)
        if not context.flow.error and (context.changes.annotation or _unfinished(context)):
            # The write itself is an echo and wakes nobody, so the pass after it is asked for.
            return Result(requeue_after=0.0)
        if blind or context.flow.transient:
            return Result(backoff=delays.NO_WATCH)
        left = self._waits.left(request)
        return Result(requeue_after=left) if left else None

    def _tell_of_wait(self, request: Request, binding: Object, context: BaseContext) -> None:
        """A Warning where what has not come yet stays away, or where something else is amiss now.

        What turns in the status has its Event already; this is about time passing.
        """
        condition = context.get_condition(READY)
        if condition is None:
            return
        before = get_condition(stored_conditions(binding), READY)
        same = before is not None and (before.status, before.reason) == (
            condition.status,
            condition.reason,
        )
        if context.flow.waiting:
            waited = _age(before) if before is not None and same else 0.0
            if self._waits.overdue(request, waited):
                late = f"still waiting after {PATIENCE_SECONDS:.0f} s: {condition.message}"
                self._events.event(binding, "Warning", condition.reason, late)
        elif self._waits.over(request) and same and condition.status != "True":
            self._events.event(binding, "Warning", condition.reason, condition.message)

    async def _forget(self, request: Request) -> None:
        self._metrics.gone(self.name, request)
        self._fights.forget(request)
        self._waits.over(request)
        self._versions.pop(request, None)
        await self._dependencies.settle(request, ())


def _unfinished(context: BaseContext) -> bool:
    """Whether former Secrets may go now that no workload has them any more, if nothing else has.

    Also whether all have records now, so that it can be told which Secrets are former ones.
    """
    unrecorded = context.kinds is None and bool(context.former_secret)
    former = bool(context.changes.superseded) or unrecorded
    return former and bool(context.changed_workloads())


def _projected(context: BaseContext) -> tuple[object, ...]:
    """What tells one projection from another: its binding, its Secret, and where it goes.

    Whoever changes the binding or its Secret wants another projection; that is no fight.
    """
    names = ", ".join(str(workload) for workload in context.changed_selected())
    return context.meta.generation, context.secret, names


def _is_known(context: BaseContext, workload: Workload) -> bool:
    """Whether the binding is on the workload already."""
    return record_key(context.meta.uid) in workload.original.meta.annotations


def _place(workload: Workload) -> tuple[str, ...]:
    meta, resource = workload.original.meta, workload.resource
    return resource.group, resource.plural, meta.namespace, meta.name


def _seconds() -> float:
    return asyncio.get_running_loop().time()


def _age(condition: Condition) -> float:
    """Seconds since a condition changed its status; 0 when it does not say."""
    try:
        changed = parse_time(condition.last_transition_time)
    except ValueError:
        return 0.0
    return max((moment() - changed).total_seconds(), 0.0)
