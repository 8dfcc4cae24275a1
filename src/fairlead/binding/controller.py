"""The controller of one Service Binding API: the way from a watch event to written workloads.

The steps of one event, each with the module where to read on:

1. :meth:`BindingController.reconcile` takes the binding from the watch, or from the server while
   the watch lags behind our own writes (``_seen``, ``_get``).
2. A pass (``_process``) makes a context, which reads what the binding names in up to three rounds
   of concurrent requests: kinds, rights, objects (``contexts/reader``). The stages run over it in
   the order of ``builders``: unbind workloads that are not selected any more; gather bindings from
   a Provisioned Service, from a direct Secret reference and by binding definitions; choose or
   create the binding Secret; find the workloads; check for required entries; project environment
   variables, files and the mark of the content; settle each workload; choose the Secrets of former
   content to delete; and persist, which hands the decisions over. Bindings of
   binding.operators.coreos.com alone also gather from owned resources, generate entries by
   mappings, adjust their names, and write the Secret's name at a ``secretPath``.
3. A write waits if another writer keeps undoing it, or if it comes too often (``cluster/pacing``).
4. The finalizer is added and the kind of workloads noted (``_prepare``): from here on unbinding
   finds what is projected. Where both are there, a first projection asks for the binding again.
5. The Secret is written, then the workloads that name it, then the status
   (``cluster/committing``).
6. Secrets of former content are deleted, and the objects that the pass read stay watched until the
   next pass (``cluster/dependencies``). Changes of a workload's status count while its rollout may
   still fail (``workloads/rollout``).

Beside these steps: passes over one binding are spaced out before step 2 (``pacing.pass_pace``). A
deleted binding goes to ``_release`` after step 3, an invalid one to ``_unfit``, and one with too
many reads to ``_endless``. Passes are also requested by changes of CRDs (``_on_crd``), of mappings
(``_projected_by``) and of read objects (``cluster/dependencies``).

A pass is level-triggered: it computes everything from the present state and writes only
differences. Nothing is polled; a pass is only repeated after a delay if no watch can show the
change, such as for missing rights.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
from contextlib import AsyncExitStack
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from fairlead.api.meta import JSON, Object, object_from_dict
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS, SECRETS, Resource
from fairlead.api.status import Status
from fairlead.api.timestamps import now
from fairlead.binding import bounds
from fairlead.binding.apis import Api
from fairlead.binding.cluster.answering import Answers, BindingPass, Mappings, is_mapping
from fairlead.binding.cluster.committing import Committer, Stored
from fairlead.binding.cluster.dependencies import BindingDependencies
from fairlead.binding.cluster.pacing import Pace, Pauses
from fairlead.binding.contexts.base import BaseContext, InvalidBinding, ServicesRefused
from fairlead.binding.contexts.outcome import invalid_status, is_collected, refused_status
from fairlead.binding.contexts.protocol import in_one
from fairlead.binding.handlers.projecting import persist
from fairlead.binding.handlers.unbinding import drop_secrets, unbind, unbind_leftovers
from fairlead.binding.metrics import BindingMetrics
from fairlead.binding.options import BindingOptions
from fairlead.binding.pipeline import Pipeline, Stage
from fairlead.binding.reads import Get, Lookup, Read, Snapshot, TooManyReadsError
from fairlead.binding.workloads.records import (
    KINDS_ANNOTATION,
    kinds_text,
    read_kinds,
)
from fairlead.client import ApiError, Conflict, Forbidden, Invalid, NotFound
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


_LEFTOVERS = Pipeline([unbind_leftovers, persist])
"""The pipeline of a contradictory binding."""

_WITHDRAWAL = Pipeline(
    [
        unbind,
        Stage("drop_secrets", drop_secrets, always=True),
        Stage("persist", persist, always=True),
    ]
)
"""The pipeline of a changed binding whose services are refused."""

_KEPT = "what it has projected stays as it is until its spec changes"


_NEVER_SEEN = sys.maxsize
"""A version larger than any that a watch shows, so that the server is asked."""


def _content(binding: Object | None) -> Any:
    if binding is None:
        return None
    meta = binding.meta
    annotations = {name: meta.annotations[name] for name in meta.annotations}
    annotations.pop(KINDS_ANNOTATION, None)
    return meta.generation, meta.deletion_timestamp, annotations


_WANTED = changed(_content)
"""Predicate that ignores our own writes: status and the annotation of kinds."""


class BindingController:
    """Reconciles the bindings of one API in one cluster, by ``controller``."""

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
        events = cluster.events(COMPONENT)
        self._pauses = Pauses(events, cluster.client.field_manager, pace)
        self._committer = Committer(cluster.client, api.resource, events, self._pauses.accepted)
        self._versions: dict[Request, int] = {}
        self._contended: dict[Request, None] = {}
        """Requests whose last pass ended in a conflict, in order."""
        # Fair between namespaces: one with many bindings must not delay the others.
        self.controller = Controller(
            api.name,
            self.reconcile,
            workers=options.workers,
            group=lambda request: (request.cluster, request.namespace),
        )
        self._evaluating: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._dependencies = BindingDependencies(
            cluster,
            self.controller.enqueue,
            lambda request: self.controller.enqueue(request, after=bounds.ROLLOUT_SECONDS),
        )
        self._bindings = cluster.informer(api.resource)
        self._crds = cluster.informer(CUSTOMRESOURCEDEFINITIONS, metadata_only=True)
        self._mappings = Mappings(cluster, self._projected_by, self.controller.enqueue)
        self._answers = Answers(cluster.client, self._dependencies, self._mappings)

    async def run(self) -> None:
        """Work until canceled."""
        self.controller.watch(self._bindings, predicate=_WANTED, cluster=self._cluster.name)
        self._crds.subscribe(self._on_crd)
        await self._mappings.start()
        try:
            await self.controller.run()
        finally:
            await self._dependencies.close()

    async def reconcile(self, request: Request) -> Result | None:
        """Reconcile one binding.

        Raises:
            ClientError: the server is unavailable, or an object was changed meanwhile.
        """
        # Immediate repetitions only once; then the growing delays of the work queue apply.
        left = 0 if request in self._contended else bounds.CONFLICTS
        while True:
            try:
                result = await self._reconcile(request)
            except Conflict:
                # The watch lags behind another writer: read the binding from the server.
                self._versions[request] = _NEVER_SEEN
                if not left:
                    self._contended[request] = None
                    raise
            else:
                self._contended.pop(request, None)
                return result
            left -= 1
            await asyncio.sleep(random.uniform(0, bounds.CONFLICT_SECONDS))  # noqa: S311 - spreads

    async def _reconcile(self, request: Request) -> Result | None:
        cached = self._cached(request)
        try:
            binding = cached or await self._get(request)
        except NotFound:
            await self._forget(request)
            return None
        # Our finalizer is removed, and others' keep the binding.
        if binding.meta.deleting and not self._api.our_finalizers(binding):
            await self._forget(request)
            return None
        left = 0.0 if binding.meta.deleting else self._pauses.passes.left(request)
        if left:
            # Frequent changes are combined into one pass.
            return Result(requeue_after=left)
        self._pauses.passes.done(request)
        try:
            return await self._process(request, binding, is_cached=cached is not None)
        except TooManyReadsError as error:
            return await self._endless(request, binding, error)
        # Refused workloads and Secrets are in the context: this is about the binding itself.
        except (Forbidden, Invalid) as error:
            self._remember_version(request, await self._committer.refused(binding, error))
            raise

    def _cached(self, request: Request) -> Object | None:
        """Return the cached binding, None if the cache lags behind our own writes."""
        binding = self._bindings.get(request.namespace, request.name)
        # A broken watch may lack the last change.
        if binding is None or self._bindings.error:
            return None
        try:
            fresh = int(binding.meta.resource_version) >= self._versions.get(request, 0)
        # resourceVersions are numbers on all known servers, but the API only promises a string.
        except ValueError:
            return None
        return binding if fresh else None

    async def _get(self, request: Request) -> Object:
        binding = await self._cluster.client.get(
            self._api.resource, request.name, request.namespace
        )
        return self._remember_version(request, binding)

    def _remember_version(self, request: Request, binding: Object) -> Object:
        """Record the version that the cache has to reach before it is used."""
        with contextlib.suppress(ValueError):
            self._versions[request] = int(binding.meta.resource_version)
        return binding

    async def _process(
        self, request: Request, binding: Object, *, is_cached: bool
    ) -> Result | None:
        """Make one pass over a binding, and write its result.

        These are steps 2 to 6 at the head of this module.
        """
        if not binding.meta.deleting:
            binding = self._api.without_forged_kinds(binding)
        # Step 2: all reads and decisions.
        try:
            context, blind = await self._run(request, binding)
        except (InvalidBinding, msgspec.ValidationError) as error:
            return await self._unfit(request, binding, error)
        # Step 3: a rollout that would be undone, or that repeats itself, is not started again.
        pause = await self._pauses.before_write(context)
        # After a failed read the projections are unknown, so the binding keeps its finalizer.
        if context.meta.deleting and not context.flow.error:
            return await self._release(request, context)
        # Before the write: its rollout may fail at once.
        self._dependencies.follow(
            request, [(one.resource, one.original) for one in context.rolling()]
        )
        # Steps 4 and 5.
        if not context.meta.deleting:
            await self._prepare(request, context)
            if is_cached and context.binding is binding and context.first_projections():
                await self._check_present(request, binding)
        written = await self._write(request, context)
        self._metrics.passed(self.name, request, context, written)
        self._remember_version(request, await self._note_kinds(written, context))
        # Step 6, when no workload names the Secrets: a Pod that starts earlier would miss its own.
        await self._committer.delete_superseded(context)
        await self._dependencies.keep_only(request, context.reader.snapshot.reads)
        self._pauses.tell_of_wait(request, binding, context)
        return self._next(request, context, blind=blind, pause=pause)

    async def _run(
        self, request: Request, binding: Object, pipeline: Pipeline | None = None
    ) -> tuple[BaseContext, bool]:
        """Make one pass over a binding; also return whether changes may be missed."""
        lock = self._evaluating.setdefault(request.namespace, asyncio.Lock())
        async with AsyncExitStack() as turn:
            answering = BindingPass(self._answers, request, lock, turn)
            snapshot = Snapshot(answering)
            context = await self._api.builder.run(binding, snapshot, pipeline or self._pipeline)
        return context, answering.blind

    async def _prepare(self, request: Request, context: BaseContext) -> None:
        """Add the finalizer and note the kinds of workloads, before anything is projected.

        Otherwise a binding could be deleted, or change its kind, and leave its projection.
        """
        binding = context.binding
        fields: JSON = {}
        if self._api.finalizer not in binding.meta.finalizers:
            fields["finalizers"] = binding.meta.with_finalizer(self._api.finalizer)
        kinds = context.kinds_to_note()
        if kinds is not None:
            fields["annotations"] = {KINDS_ANNOTATION: kinds}
        if fields:
            patched = await patch_metadata(
                self._cluster.client, self._api.resource, binding, fields
            )
            context.binding = self._remember_version(request, patched)

    async def _check_present(self, request: Request, binding: Object) -> None:
        """Check that the server has the binding, before a workload gets its first projection.

        Of one that is gone nothing would take the projection away again: a watch may be behind the
        pass of another replica, or of the former process, that let the binding go.

        Raises:
            Conflict: the binding is gone, is being deleted, or is another of its name.
        """
        try:
            present = await self._get(request)
        except NotFound as error:
            raise Conflict(error.status) from None
        if present.meta.uid != binding.meta.uid or present.meta.deleting:
            text = (
                f"{self._api.resource.group_resource} {binding.meta.key} is being deleted, or was"
                " created again"
            )
            raise Conflict(Status(message=text, code=409))

    async def _write(self, request: Request, context: BaseContext) -> Object:
        """Write the result, and have its own echoes in the watches start no pass."""
        namespace = context.meta.namespace
        places: list[tuple[Resource, str, str]] = []
        for workload in context.changed_workloads():
            meta = workload.original.meta
            places.append((workload.resource, namespace, meta.name))
            self._dependencies.expect_newer(request, places[-1], meta.resource_version)
        if context.changes.secret:
            name = context.changes.secret.name
            places.append((SECRETS, namespace, name))
            if not isinstance(context.reader.snapshot.stored(Get(*places[-1])), Object):
                # A pass that comes before the watch shows it would miss it among the former ones.
                self._dependencies.expect_newer(request, places[-1], "")
        # Recorded before the requests: a watch may show a write before its answer.
        for place in places:
            self._dependencies.writing(request, *place)
        stored: Stored = {}
        succeeded = False
        try:
            written = await self._committer.write(context, stored)
            succeeded = not context.flow.error
        finally:
            # What was read again after a 409 is older in the watch than that.
            for workload in context.changed_workloads():
                meta = workload.original.meta
                place = (workload.resource, namespace, meta.name)
                self._dependencies.expect_newer(request, place, meta.resource_version)
            for resource, _, name in places:
                obj = stored.get((resource, name)) if succeeded else None
                # After an error the next pass has to see the actual state.
                version = obj.meta.resource_version if obj else ""
                self._dependencies.stored(request, (resource, namespace, name), version)
        return written

    async def _note_kinds(self, binding: Object, context: BaseContext) -> Object:
        """Reduce the noted kinds to the present one after a successful pass.

        Former kinds stay noted while objects of their workloads, such as ReplicaSets, may read a
        Secret.
        """
        kind = context.reference.lookup
        if context.flow.error or not context.reader.kind_is_read:
            return binding
        if context.changes.keeps_secrets or read_kinds(binding.meta.annotations) == [kind]:
            return binding
        fields = {"annotations": {KINDS_ANNOTATION: kinds_text([kind])}}
        # Kinds that stay noted cost unbinding some reads, and nothing else.
        with contextlib.suppress(Forbidden, Invalid):
            return await patch_metadata(self._cluster.client, self._api.resource, binding, fields)
        return binding

    def _next(
        self, request: Request, context: BaseContext, *, blind: bool, pause: float
    ) -> Result | None:
        if pause:
            return Result(requeue_after=pause)
        if not context.flow.error and (context.changes.annotation or _unfinished(context)):
            # Our own write starts no pass, so the next one is requested here.
            return Result(requeue_after=0.0)
        if blind or context.flow.transient:
            return Result(backoff=delays.NO_WATCH)
        left = self._pauses.waits.left(request)
        return Result(requeue_after=left) if left else None

    async def _release(self, request: Request, context: BaseContext) -> Result | None:
        """Write what unbinding changed; then let the binding go."""
        await self._committer.workloads(context)
        if context.flow.error:
            # The finalizer stays as long as some workload may still have the projection.
            written = await self._committer.status(context.binding, context.status(now()))
            self._metrics.passed(self.name, request, context, written)
            return Result(backoff=delays.NO_WATCH)
        self._metrics.passed(self.name, request, context, None)
        if context.left:
            # Clients that wait for the end of the binding can read it; Events say it afterwards. A
            # status that cannot be written must not hold the binding up.
            with contextlib.suppress(ApiError):
                context.binding = await self._committer.status(
                    context.binding, context.status(now())
                )
        finalizers = self._api.our_finalizers(context.binding)
        await remove_finalizer(
            self._cluster.client, self._api.resource, context.binding, *finalizers
        )
        await self._forget(request)
        # For a moment the watch still shows the binding with its finalizer.
        self._versions[request] = _NEVER_SEEN
        return None

    async def _unfit(self, request: Request, binding: Object, error: Exception) -> Result | None:
        """Report an invalid spec, and unbind workloads that it no longer selects.

        A spec that does not fit its type has no known selection, so nothing is unbound. Refused
        services lose their whole projection, unless the spec is that of which it was made.
        """
        left, has_projection = "", bool(self._api.secret(binding))
        is_refused = isinstance(error, ServicesRefused) and has_projection
        changed = is_refused and not is_collected(binding)
        if isinstance(error, InvalidBinding) and has_projection:
            left = await self._remove(request, binding, _WITHDRAWAL if changed else _LEFTOVERS)
        stays_refused = is_refused and not changed
        text = in_one([str(error), _KEPT if stays_refused else "", left])
        if is_refused:
            status = refused_status(binding, text, now(), withdrawn=changed and not left)
        else:
            status = invalid_status(binding, text, now())
        await self._committer.status(binding, status)
        self._metrics.invalid(self.name, request)
        self._pauses.waits.over(request)
        return Result(backoff=delays.NO_WATCH) if left else None

    async def _remove(self, request: Request, binding: Object, pipeline: Pipeline) -> str:
        """Remove projections of a binding that is not projected; return what is in the way."""
        # A binding that is being deleted is not validated.
        leaving = {**binding.to_dict()}
        leaving["metadata"] = {**leaving["metadata"], "deletionTimestamp": now()}
        context, _ = await self._run(request, object_from_dict(leaving), pipeline)
        # Only removals are written: an invalid spec is not projected.
        await self._committer.removals(context)
        return in_one([*context.refusals, context.flow.error])

    async def _endless(self, request: Request, binding: Object, error: Exception) -> Result:
        """Report a binding with too many reads, and delay it for long.

        Its reads are not watched: each change would start the same reads again.
        """
        after = f"{bounds.ENDLESS_SECONDS:.0f} s"
        text = f"{error}; the next try is in {after}, or when the binding changes"
        await self._committer.status(binding, invalid_status(binding, text, now()))
        self._metrics.endless(self.name, request)
        self._pauses.waits.over(request)
        await self._dependencies.keep_only(request, ())
        return Result(requeue_after=bounds.ENDLESS_SECONDS)

    async def _forget(self, request: Request) -> None:
        self._metrics.gone(self.name, request)
        self._pauses.forget(request)
        self._versions.pop(request, None)
        await self._dependencies.keep_only(request, ())

    def adopt(self, stats: ControllerStats) -> None:
        """Use these statistics from now on."""
        self.controller.adopt(stats)

    def _on_crd(self, delta: Delta) -> None:
        # Discovery already has the CRDs of the first list.
        if delta.initial:
            return
        # The served versions of the kind may have changed.
        self._cluster.client.discovery.invalidate()
        group = delta.object.meta.name.partition(".")[2]

        def concerned(read: Read) -> bool:
            return isinstance(read, Lookup) and read.group == group

        for request in self._dependencies.unwatched_readers(concerned):
            self.controller.enqueue(request)

    def _projected_by(self, mapping: str) -> list[Request]:
        def concerned(read: Read) -> bool:
            return isinstance(read, Get) and is_mapping(read) and read.name == mapping

        return self._dependencies.unwatched_readers(concerned)


def _unfinished(context: BaseContext) -> bool:
    """Whether another pass is needed to delete former Secrets after the workloads were written.

    It is also needed when all projections just got records, which former Secrets are found by.
    """
    unrecorded = context.kinds is None and bool(context.former_secret)
    former = bool(context.changes.superseded) or unrecorded
    return former and bool(context.changed_workloads())
