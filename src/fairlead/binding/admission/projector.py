"""The projector: binds workloads on creation, since Jobs and Pods are immutable later.

It runs the controllers' pipeline with the created workload as the only one, and writes nothing:
the API server stores the workload with projection and record, as if the controllers had written
them. It uses a binding when its Secret has been collected, even without any workload so far.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial

import msgspec

from fairlead.api.conditions import get_condition, stored_conditions
from fairlead.api.meta import JSON, Object, object_from_dict
from fairlead.api.patch import create_json_patch
from fairlead.api.resource import SECRETS, Resource
from fairlead.api.selectors import SelectorError
from fairlead.api.servicebinding.common import COLLECTION_READY, MAPPING_ANNOTATION
from fairlead.api.servicebinding.mapping import CLUSTERWORKLOADRESOURCEMAPPINGS
from fairlead.binding import bounds
from fairlead.binding.apis import Api, coreos_api, spec_api
from fairlead.binding.cluster.answering import is_mapping
from fairlead.binding.cluster.fetching import fetch
from fairlead.binding.contexts.base import BaseContext, InvalidBinding, part
from fairlead.binding.options import BindingOptions
from fairlead.binding.reads import (
    Answer,
    Get,
    ListAll,
    Marked,
    Read,
    ReadFailure,
    Snapshot,
    TooManyReadsError,
)
from fairlead.binding.services.service import label_selector
from fairlead.binding.workloads.records import read_kinds
from fairlead.binding.workloads.workload import FIXED
from fairlead.client import ClientError
from fairlead.runtime import Cluster, Informer
from fairlead.runtime.admission.server import (
    ALLOWED,
    AdmissionRequest,
    UnansweredError,
    Verdict,
)


_NEEDLESS = ("unbind", "unbind_leftovers", "drop_superseded")
"""Stages about existing workloads, which a review skips."""
_REFERENCES = {"servicebinding": "workload", "servicebinding-coreos": "application"}
_INDEX = "workloads"


class Projector:
    """Reviews the creation of workloads, in every replica."""

    def __init__(self, cluster: Cluster, options: BindingOptions) -> None:
        self._client = cluster.client
        self._mappings = cluster.informer(CLUSTERWORKLOADRESOURCEMAPPINGS)
        self._bindings: list[tuple[Api, Informer]] = []
        for api in (spec_api(), coreos_api(options)):
            informer = cluster.informer(api.resource)
            informer.add_index(_INDEX, partial(_selected_by, api))
            builder = api.builder.without(*_NEEDLESS)
            self._bindings.append((msgspec.structs.replace(api, builder=builder), informer))

    def not_ready(self) -> str:
        """Return why no workload can be bound; "" if they can."""
        informers = [self._mappings, *(informer for _, informer in self._bindings)]
        synced = all(informer.has_synced for informer in informers)
        return "" if synced else "the webhook has not read all bindings yet"

    async def review(self, request: AdmissionRequest) -> Verdict:
        """Return the workload with all ready bindings that select it.

        Raises:
            UnansweredError: a read of a binding failed or took too long.
        """
        if request.object is None or not request.namespace or request.sub_resource:
            return ALLOWED
        if reason := self.not_ready():
            raise UnansweredError(reason)
        workload = _Created(request, request.object)
        candidates = await self._candidates(workload)
        if not candidates:
            return ALLOWED
        try:
            async with asyncio.timeout(bounds.REVIEW_SECONDS):
                return await self._bound(workload, candidates)
        except TimeoutError:
            text = f"bindings of {workload} could not be read within {bounds.REVIEW_SECONDS:g} s"
            raise UnansweredError(text) from None
        except ClientError as error:
            raise UnansweredError(f"bindings of {workload} could not be read: {error}") from None

    async def _candidates(self, workload: _Created) -> list[tuple[Api, Object]]:
        """Return the bindings that select the workload, the oldest first."""
        # Collected before the loop yields, for the index may change meanwhile.
        bindings = [
            (api, binding)
            for api, informer in self._bindings
            for key in workload.keys
            for binding in informer.by_index(_INDEX, key)
            if not binding.meta.deleting
        ]
        candidates: list[tuple[Api, Object]] = []
        for api, binding in bindings:
            if workload.is_selected_by(api, binding):
                candidates.append((api, binding))
            # Yield: there may be many bindings with long selectors.
            await asyncio.sleep(0)
        return sorted(candidates, key=lambda candidate: _rank(candidate[1]))

    async def _bound(self, workload: _Created, bindings: Sequence[tuple[Api, Object]]) -> Verdict:
        # In order: each binding sees the items of those before it.
        before, warnings = workload.body, []
        for api, binding in bindings:
            try:
                workload.body = await self._projected(workload, api, binding)
            except _CannotBindYetError as reason:
                if workload.is_fixed:
                    name = f"ServiceBinding {binding.meta.name}"
                    # One by one: clients show little of a long warning.
                    warnings += [
                        (
                            f"{name} cannot bind yet, and {workload} cannot be changed after its"
                            " creation: create it again when the binding is ready"
                        ),
                        f"{name}: {reason}",
                    ]
        return Verdict(patch=create_json_patch(before, workload.body), warnings=warnings)

    async def _projected(self, workload: _Created, api: Api, binding: Object) -> JSON:
        """Return the workload's body with the binding.

        Raises:
            _CannotBindYetError: the text is the reason.
            UnansweredError: a read had no answer.
        """
        if not _is_collected(api, binding):
            # The creator may have waited for the binding, and our watch may lag: read it.
            meta = binding.meta
            fresh = await fetch(self._client, Get(api.resource, meta.namespace, meta.name))
            if not isinstance(fresh, Object):
                raise _CannotBindYetError("it does not exist any more")
            if not _is_collected(api, fresh):
                raise _CannotBindYetError(_missing(fresh))
            binding = fresh
        item = object_from_dict(workload.body)
        try:
            responder = _Answers(lambda read: self._answer(workload, item, read))
            context = await api.builder.run(binding, Snapshot(responder))
        # A broken binding must not keep workloads from being created.
        except (InvalidBinding, TooManyReadsError, msgspec.ValidationError) as error:
            raise _CannotBindYetError(str(error)) from None
        # A read had no answer: the failurePolicy decides whether the workload is created unbound.
        if context.flow.error and context.reader.snapshot.unclear:
            raise UnansweredError(
                f"the bindings of {workload} could not be read: {context.flow.error}"
            )
        if context.flow.error:
            raise _CannotBindYetError(context.flow.error)
        if not context.secret:
            raise _CannotBindYetError("its service has no Secret yet")
        if not _is_secret_its_own(context):
            raise _CannotBindYetError(f"Secret {context.secret} does not belong to the binding")
        changed = context.changed_workloads()
        return next((one.body for one in changed if one.original is item), workload.body)

    async def _answer(self, workload: _Created, item: Object, read: Read) -> Answer:
        match read:
            case Get() if is_mapping(read):
                missing = f'{read.resource.group_resource} "{read.name}" not found'
                return self._mappings.get("", read.name) or ReadFailure("NotFound", missing)
            case Get(spec_only=True) if workload.is_of(read.resource):
                mine = workload.name and read.name == workload.name
                return (
                    item if mine else ReadFailure("NotFound", f"{read.name} is not being created")
                )
            case ListAll():
                mine = workload.is_of(read.resource) and read.matcher.matches(item.meta.labels)
                return (item,) if mine else ()
            case Marked() if read.optional or read.annotation:
                # Leftovers of earlier passes are the controllers' task.
                return ()
        return await fetch(self._client, read)


class _CannotBindYetError(Exception):
    """A binding cannot be put onto a workload that is created; the text is the reason."""


class _Answers:
    """Answers the reads of one pass, each by a request."""

    def __init__(self, answer: Callable[[Read], Awaitable[Answer]]) -> None:
        self._answer = answer

    async def answers(self, reads: Sequence[Read]) -> Sequence[Answer]:
        answers = await asyncio.gather(*map(self._answer, reads))
        await self.give_way()
        return answers

    async def give_way(self) -> None:
        """Let other reviews work."""
        await asyncio.sleep(0)


class _Created:
    """A workload that is being created; str() is its name in warnings."""

    def __init__(self, request: AdmissionRequest, body: JSON) -> None:
        self._kind, self._plural = request.kind, request.resource.resource
        self.namespace = request.namespace
        metadata = {**(body.get("metadata") or {}), "namespace": self.namespace}
        # Without a uid, since an object with one counts as existing and immutable.
        metadata.pop("uid", None)
        self.body: JSON = {**body, "metadata": metadata}
        self.name: str = metadata.get("name") or ""
        self._called: str = self.name or metadata.get("generateName") or ""
        self._labels: dict[str, str] = metadata.get("labels") or {}

    @property
    def keys(self) -> Iterator[str]:
        """Yield the index keys of bindings that may select the workload."""
        # A binding refers to its workloads by kind or by plural.
        for kind in (self._kind.kind, self._plural):
            for name in dict.fromkeys((self.name, "")):
                yield _key(self.namespace, self._kind.group, kind, name)

    @property
    def is_fixed(self) -> bool:
        """Whether the workload will be immutable, so that it can only be bound now."""
        return (self._kind.group, self._plural) in FIXED

    def is_of(self, resource: Resource) -> bool:
        """Whether the workload is of ``resource``, in the version of the request."""
        mine = (self._kind.group, self._kind.version, self._plural)
        return mine == (resource.group, resource.version, resource.plural)

    def is_selected_by(self, api: Api, binding: Object) -> bool:
        """Whether ``binding``, which was found by a key, selects the workload."""
        kind = api.kind(binding)
        if kind is None or kind.version not in {"", self._kind.version}:
            return False
        reference = part(binding, "spec", _REFERENCES[api.name])
        if reference.get("name"):
            return bool(reference["name"] == self.name)
        try:
            return label_selector(_selector(reference)).matches(self._labels)
        except SelectorError:
            return False

    def __str__(self) -> str:
        return f"{self._kind.kind} {self._called}"


def _selected_by(api: Api, binding: Object) -> list[str]:
    """Return the index key of a binding: its workload's kind, and the name if given."""
    kind = api.kind(binding)
    if kind is None:
        return []
    reference = part(binding, "spec", _REFERENCES[api.name])
    name = reference.get("name") or ""
    return [_key(binding.meta.namespace, kind.group, kind.plural or kind.kind, str(name))]


def _selector(reference: JSON) -> JSON | None:
    selector = reference.get("selector", reference.get("labelSelector"))
    return selector if isinstance(selector, dict) else None


def _key(namespace: str, group: str, kind: str, name: str) -> str:
    return f"{namespace}/{group}/{kind}/{name}"


def _rank(binding: Object) -> tuple[str, str, str]:
    meta = binding.meta
    return meta.creation_timestamp or "", meta.name, meta.uid


def _is_collected(api: Api, binding: Object) -> bool:
    """Whether the controllers have collected the Secret for the binding's present spec.

    They also have to have noted finalizer and kinds, so that unbinding finds the projection.
    """
    meta, kind = binding.meta, api.kind(binding)
    if meta.deleting or MAPPING_ANNOTATION in meta.annotations:
        return False
    collected = get_condition(stored_conditions(binding.to_dict()), COLLECTION_READY)
    return (
        api.finalizer in meta.finalizers
        and kind in (read_kinds(meta.annotations) or ())
        and collected is not None
        and (collected.status, collected.observed_generation) == ("True", meta.generation)
        and bool(api.secret(binding))
    )


def _missing(binding: Object) -> str:
    """Why a binding is not collected, as far as its conditions say."""
    collected = get_condition(stored_conditions(binding.to_dict()), COLLECTION_READY)
    if collected is None or collected.status == "True" or not collected.message:
        return f"the controllers have not set {COLLECTION_READY} for its present spec"
    return collected.message


def _is_secret_its_own(context: BaseContext) -> bool:
    """Whether the Secret's name is the binding's or free; a new one may not exist yet."""
    write = context.changes.secret
    if write is None:
        return True
    there = context.reader.snapshot.stored(Get(SECRETS, write.namespace, write.name))
    return not isinstance(there, Object) or there.meta.owned_by(write.owner.uid)
