"""Writes the changes of a context, in an order in which each projection has a record.

The Secret is written first, then the workloads that refer to it, then the status. A workload gets
its record and its projection in one write, so an interrupted pass leaves no unknown projection.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from fairlead.api.conditions import Condition, Event, get_condition, stored_conditions, turned
from fairlead.api.meta import JSON, Object
from fairlead.api.patch import apply_merge_patch, create_merge_patch
from fairlead.api.resource import SECRETS, Resource
from fairlead.api.servicebinding.common import (
    COLLECTION_READY,
    ITEMS_LEFT,
    MAPPING_ANNOTATION,
    PROCESSING_ERROR,
    READY,
    ROLLOUT_FAILING,
)
from fairlead.api.timestamps import now
from fairlead.binding import bounds
from fairlead.binding.cluster.fetching import grants
from fairlead.binding.cluster.refusals import refusal_text
from fairlead.binding.contexts.base import BaseContext
from fairlead.binding.contexts.outcome import BindingSecret, invalid_status, secret_body
from fairlead.binding.expressions.fixedpath import read
from fairlead.binding.reads import Answer, Get, ReadFailure
from fairlead.binding.workloads.records import RECORDED_ANNOTATION, marks
from fairlead.binding.workloads.workload import Workload
from fairlead.client import AlreadyExists, ApiError, Client, Conflict, Forbidden, NotFound
from fairlead.runtime import EventRecorder, StatusWriter, commit


ENTRIES_HIDDEN = "EntriesHidden"
"""Reason of the Event about entries that a later service's entries hide."""


Stored: TypeAlias = dict[tuple[Resource, str], Object]
"""Objects that were stored exactly as wanted, by resource and name."""


class Committer:
    """Writes to one cluster for the bindings of one API.

    ``arrived`` is called with each workload that the server accepted.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource,
        recorder: EventRecorder,
        arrived: Callable[[BaseContext, Workload], None] = lambda *_: None,
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._arrived = arrived
        self._resource = resource
        self._statuses = StatusWriter(client, resource, recorder, ready_events)
        self._waiting = StatusWriter(client, resource, recorder, waiting_events)

    async def write(self, context: BaseContext, stored: Stored | None = None) -> Object:
        """Write Secret, workloads, annotations and status; return the binding after that.

        Refusals are reported in the status; ``stored`` receives the objects stored as wanted.

        Raises:
            Conflict: an object was changed meanwhile; repeat the pass.
            ClientError: the server is unavailable.
        """
        stored = {} if stored is None else stored
        workloads = context.changed_workloads()
        if not await self._secret(context, stored):
            # Pods with a reference to a missing Secret would not start.
            workloads = context.changed_leftovers()
        binding = context.binding
        await self._workloads(context, workloads, stored)
        if context.changes.annotation and not context.flow.error:
            binding = await self._without_annotation(binding)
        return await self.status(binding, context.status(now()), waiting=context.flow.waiting)

    async def delete_superseded(self, context: BaseContext) -> None:
        """Delete the Secrets that nothing reads any more, if that is allowed.

        A pass that changed workloads deletes none: a controller may have created objects from the
        former state meanwhile. A pass that withholds changes does, or each would leave a Secret.

        Raises:
            Conflict: a Secret was replaced meanwhile; repeat the pass.
        """
        if not context.changes.superseded or context.changed_workloads():
            return
        if context.flow.error and not context.changes.withheld:
            return
        with contextlib.suppress(Forbidden):
            await self._delete_secrets(context)

    async def workloads(self, context: BaseContext) -> None:
        """Write only the changed workloads; refusals are reported in the context."""
        await self._workloads(context, context.changed_workloads(), {})

    async def removals(self, context: BaseContext) -> None:
        """Write the workloads, then delete the Secrets that none needs; refusals as above.

        Raises:
            Conflict: an object was changed meanwhile; repeat the pass.
            ClientError: the server is unavailable.
        """
        await self.workloads(context)
        # A Pod that starts anew would miss the Secret.
        if context.flow.error:
            return
        try:
            await self._delete_secrets(context)
        except Forbidden as error:
            text = "; ".join([refusal_text(error), *grants(error, SECRETS, "delete")])
            context.flow.retry_processing(text, transient=True)

    async def _delete_secrets(self, context: BaseContext) -> None:
        for name, uid in context.changes.superseded:
            with contextlib.suppress(NotFound):
                await self._client.delete(SECRETS, name, context.meta.namespace, uid=uid)

    async def _workloads(
        self, context: BaseContext, workloads: Sequence[Workload], stored: Stored
    ) -> None:
        """Write each workload independently of the others (specification 1.1)."""
        conflicts: list[Conflict] = []
        for first in range(0, len(workloads), bounds.REQUESTS_AT_ONCE):
            some = workloads[first : first + bounds.REQUESTS_AT_ONCE]
            # Wait for all, so that no write is running after the end of the pass.
            done = await asyncio.gather(
                *(self._workload(context, workload, stored) for workload in some),
                return_exceptions=True,
            )
            self._tell_left(
                context, [one for one, end in zip(some, done, strict=True) if end is True]
            )
            for error in done:
                if isinstance(error, Conflict):
                    conflicts.append(error)
                elif isinstance(error, BaseException):
                    raise error
        if conflicts:
            raise conflicts[0]
        if not context.flow.error:
            self._tell_left(
                context,
                [
                    operations.workload
                    for operations, _ in context.changes.left
                    if isinstance(operations.workload, Workload)
                    and not operations.workload.changed
                ],
            )

    def _tell_left(self, context: BaseContext, written: Sequence[Workload]) -> None:
        """Record Events on workloads about what unbinding leaves there.

        No later pass can tell it: with the write the record is gone.
        """
        names = {id(workload) for workload in written}
        for operations, text in context.changes.left:
            workload = operations.workload
            if isinstance(workload, Workload) and id(workload) in names:
                self._recorder.event(workload.original, "Warning", ITEMS_LEFT, text)

    async def status(self, binding: Object, status: JSON, *, waiting: bool = False) -> Object:
        """Write a whole status if it differs, with an Event if Ready has changed.

        While the binding is ``waiting`` for a missing object the Event is not a Warning, since
        that is normal for a binding that is created together with its service.
        """
        writer = self._waiting if waiting else self._statuses
        return await writer.write(binding, {**binding.to_dict(), "status": status})

    async def refused(self, binding: Object, error: ApiError) -> Object:
        """Tell that the server refuses a change of the binding, as a policy may; return it.

        It is told in the status, and by an Event where that is refused too.
        """
        remedy: list[str] = []
        if isinstance(error, Forbidden):
            remedy = grants(error, self._resource, "update and patch")
        text = "; ".join([f"ServiceBinding was not updated: {refusal_text(error)}", *remedy])
        try:
            return await self.status(binding, invalid_status(binding, text, now()))
        except ApiError:
            self._recorder.event(binding, "Warning", PROCESSING_ERROR, text)
            return binding

    async def _without_annotation(self, binding: Object) -> Object:
        body = binding.to_dict()
        body["metadata"].get("annotations", {}).pop(MAPPING_ANNOTATION, None)
        return await commit(self._client, self._resource, binding, body)

    async def _secret(self, context: BaseContext, stored: Stored) -> bool:
        write = context.changes.secret
        if write is None:
            return True
        answer = context.reader.snapshot.stored(Get(SECRETS, write.namespace, write.name))
        try:
            stored[SECRETS, write.name] = await self._put(write, answer)
        except Conflict:
            raise
        except Forbidden as error:
            remedy = grants(error, SECRETS, "create and patch")
            context.secret_failed("; ".join([refusal_text(error), *remedy]))
        except ApiError as error:
            context.secret_failed(refusal_text(error))
        except SecretTaken as error:
            context.secret_failed(str(error))
        else:
            return True
        return False

    async def _put(self, write: BindingSecret, answer: Answer | None) -> Object:
        """Create or update the Secret; ``answer`` is the pass's answer about it."""
        body = secret_body(write)
        try:
            if isinstance(answer, ReadFailure) and answer.code == "NotFound":
                return await self._client.create(SECRETS, body, write.namespace)
            live = (
                answer
                if isinstance(answer, Object)
                else await self._client.get(SECRETS, write.name, write.namespace)
            )
        # Created meanwhile, or before a restart.
        except AlreadyExists:
            live = await self._client.get(SECRETS, write.name, write.namespace)
        except NotFound:
            try:
                return await self._client.create(SECRETS, body, write.namespace)
            # Deleted and created again during the pass: repeat it.
            except AlreadyExists as error:
                raise Conflict(error.status) from None
        # The name proves nothing: another user's Secret may have it.
        if _is_restored(live, body):
            owned = {**live.to_dict()["metadata"], "ownerReferences": _owners(body)}
            return await commit(self._client, SECRETS, live, {**live.to_dict(), "metadata": owned})
        if not live.meta.owned_by(write.owner.uid):
            raise SecretTaken(
                f"Secret {live.key} exists and does not belong to this binding: delete it, "
                "or give the binding another name"
            )
        merged: JSON = {**live.to_dict(), "data": body["data"]}
        return await commit(self._client, SECRETS, live, merged)

    async def _workload(self, context: BaseContext, workload: Workload, stored: Stored) -> bool:
        """Write one workload; return whether the server took it. Refusals are reported."""
        resource = workload.resource
        try:
            answer = await self._commit_on_present(workload)
            if lost := _lost_name(workload, answer) or _lost_items(workload, answer):
                # The write had no effect, so it counts neither as arrived nor as undone.
                context.workload_failed(lost)
                return False
            self._arrived(context, workload)
            if _holds(workload.body, answer):
                stored[resource, workload.original.meta.name] = answer
        except Conflict:
            raise
        # Deleted since it was read: repeat the pass without it.
        except NotFound as error:
            raise Conflict(error.status) from None
        except Forbidden as error:
            remedy = grants(error, resource, "get, list, watch, update and patch")
            text = refusal_text(error)
            if not remedy:
                text = f"{workload} was not updated: {text}"
            context.workload_failed(text, *remedy)
        except ApiError as error:
            context.workload_failed(f"{workload} was not updated: {refusal_text(error)}")
        # The change cannot be sent, for example another name of the object.
        except ValueError as error:
            context.workload_failed(f"{workload} cannot be updated: {error}")
        else:
            return True
        return False

    async def _commit_on_present(self, workload: Workload) -> Object:
        """Write a workload, also over a newer state that the pass would decide the same about.

        Raises:
            Conflict: it was changed in another way, or too often.
        """
        for _ in range(bounds.REBASES):
            try:
                return await self._commit(workload)
            except Conflict:
                meta = workload.original.meta
                present = await self._client.get(workload.resource, meta.name, meta.namespace)
                if not _rebase(workload, present):
                    raise
        return await self._commit(workload)

    async def _commit(self, workload: Workload) -> Object:
        """Patch a workload, or update it if only patching is forbidden.

        Roles for Service Binding Operator may grant update and not patch.
        """
        resource = workload.resource
        try:
            return await commit(self._client, resource, workload.original, workload.body)
        except Forbidden as forbidden:
            try:
                return await self._client.update(resource, workload.body)
            except Forbidden:
                raise forbidden from None


def _rebase(workload: Workload, present: Object) -> bool:
    """Base a change on a newer state of the workload; return whether that was possible.

    It is where only the status, managed fields and annotations of others differ: nothing that a
    pass decides by.
    """
    old, new = workload.original, present
    if new.meta.resource_version == old.meta.resource_version or _decisive(old) != _decisive(new):
        return False
    change = create_merge_patch(_with_annotations(old.to_dict()), _with_annotations(workload.body))
    touched = (change.get("metadata") or {}).get("annotations") or {}
    before, after = old.meta.annotations, new.meta.annotations
    if any(before.get(name) != after.get(name) for name in [*touched, *marks(before)]):
        return False
    if set(marks(before)) != set(marks(after)):
        return False
    workload.original, workload.body = present, apply_merge_patch(present.to_dict(), change)
    return True


def _with_annotations(body: JSON) -> JSON:
    """Return a body that has annotations, so that a patch of the last one names it.

    Without them the patch would take away all annotations, those of others too.
    """
    meta = body["metadata"]
    return {**body, "metadata": {**meta, "annotations": meta.get("annotations") or {}}}


def _decisive(obj: Object) -> JSON:
    """Return the fields of a workload by which a pass decides, without annotations."""
    body, meta = obj.to_dict(), obj.meta
    fields = {name: value for name, value in body.items() if name not in {"metadata", "status"}}
    owners = body["metadata"].get("ownerReferences")
    facts = (meta.uid, meta.deletion_timestamp, meta.labels, owners)
    return {"metadata": facts, **fields}


def _lost_name(workload: Workload, stored: Object) -> str:
    """Return a message if the server did not store the Secret's name; else ""."""
    path = tuple(workload.secret_path.split("."))
    if not workload.secret_path or read(stored.to_dict(), path) == read(workload.body, path):
        return ""
    return (
        f"{workload} does not keep the Secret's name at .{workload.secret_path}: its schema has"
        " no such field, or another writer changes it back; correct"
        " spec.application.bindingPath.secretPath"
    )


def _lost_items(workload: Workload, stored: Object) -> str:
    """Return a message if the server did not store what was added to the workload; else ""."""
    before, after = workload.original.to_dict(), stored.to_dict()
    for part in _parts(workload.body):
        path = _lost(workload.body[part], before.get(part), after.get(part), f".{part}")
        if path:
            return (
                f"{workload} does not keep {path}: its schema has no such field, or a policy or"
                " webhook removes it; correct the ClusterWorkloadResourceMapping of its kind, or"
                " the policy"
            )
    return ""


def _lost(written: Any, before: Any, stored: Any, path: str) -> str:
    """Return the first path that was added to ``before`` and is not ``stored``; else ""."""
    if isinstance(written, dict):
        before, stored = (one if isinstance(one, dict) else {} for one in (before, stored))
        for name, value in written.items():
            inner = f"{path}.{name}"
            # Servers drop what is empty.
            if not stored.get(name) and not before.get(name) and value:
                return inner
            if path_lost := _lost(value, before.get(name), stored.get(name), inner):
                return path_lost
    elif isinstance(written, list):
        # Something else may have changed the order.
        stored_items, former_items = _by_name(stored), _by_name(before)
        for name, value in _by_name(written).items():
            inner = f"{path}[{name}]"
            if name not in stored_items and name not in former_items:
                return inner
            if name in stored_items and (
                path_lost := _lost(value, former_items.get(name), stored_items[name], inner)
            ):
                return path_lost
    return ""


def _by_name(items: Any) -> dict[str, JSON]:
    """Return the items of a list that have names, if each has another; else {}."""
    entries = items if isinstance(items, list) else []
    named = {one["name"]: one for one in entries if isinstance(one, dict) and one.get("name")}
    return named if len(named) == len(entries) else {}


def _parts(body: JSON) -> set[str]:
    """Return the top-level members that people and controllers write."""
    return body.keys() - {"status", "metadata", "apiVersion", "kind"}


def _holds(target: JSON, stored: Object) -> bool:
    """Whether the workload was stored as wanted, apart from defaults that servers add."""
    body = stored.to_dict()
    # Annotations contain the record, which a webhook must not have changed.
    annotations = target["metadata"].get("annotations") or {}
    return annotations == stored.meta.annotations and all(
        _contains(body.get(part), target[part]) for part in _parts(target)
    )


def _contains(whole: Any, part: Any) -> bool:
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(
            _contains(whole.get(name), value) for name, value in part.items()
        )
    if isinstance(part, list) and isinstance(whole, list):
        return len(whole) == len(part) and all(map(_contains, whole, part))
    # Servers drop empty lists.
    return bool(whole == part) or (not whole and not part)


def ready_events(old: Object, new: Object) -> list[Event]:
    """Return the Events about a binding's changed status."""
    before, after = (stored_conditions(binding.to_dict()) for binding in (old, new))
    events = turned(before, after, READY, good="the service is bound to the workload")
    return [*events, *_hidden_events(before, after), *_rollout_events(before, after)]


def _rollout_events(before: list[Condition], after: list[Condition]) -> list[Event]:
    """Return the Event about a rollout that has begun to fail, or fails for another reason."""
    old, new = get_condition(before, ROLLOUT_FAILING), get_condition(after, ROLLOUT_FAILING)
    if new is None or (old is not None and old.reason == new.reason):
        return []
    return [Event("Warning", new.reason, new.message)]


def _hidden_events(before: list[Condition], after: list[Condition]) -> list[Event]:
    """Return the Event about hidden entries, if these have changed."""
    old, new = get_condition(before, COLLECTION_READY), get_condition(after, COLLECTION_READY)
    if new is None or new.status != "True" or not new.message:
        return []
    if old is not None and (old.status, old.message) == (new.status, new.message):
        return []
    return [Event("Warning", ENTRIES_HIDDEN, new.message)]


def waiting_events(old: Object, new: Object) -> list[Event]:
    """Return the Events about a binding that waits for a missing object."""
    before, after = (stored_conditions(binding.to_dict()) for binding in (old, new))
    turns = turned(before, after, READY)
    waiting = [Event("Normal", "Waiting", event.message) for event in turns]
    return [*waiting, *_hidden_events(before, after), *_rollout_events(before, after)]


class SecretTaken(Exception):  # noqa: N818 (a finding)
    """Another Secret has the name of the binding's intermediate Secret."""


def _is_restored(live: Object, body: JSON) -> bool:
    """Whether the Secret was restored from a backup without its owner, with equal content."""
    if live.meta.owner_references or RECORDED_ANNOTATION not in live.meta.annotations:
        return False
    return bool(live.to_dict().get("data") == body["data"])


def _owners(body: JSON) -> list[JSON]:
    references: list[JSON] = body["metadata"]["ownerReferences"]
    return references
