"""Heavy requests: a worker process works them out, and its result is written here.

Of the guards against heavy input the workers stop ``wide_json``, ``yaml_bodies`` and ``schemas``
of ``tests/support/bombs.py``: decoding, sorting and compiling hold the event loop for seconds
before a budget could count anything.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import msgspec

from fairlead.api.meta import JSON, Key
from fairlead_sandbox import errors
from fairlead_sandbox.errors import StatusError
from fairlead_sandbox.objects import writes
from fairlead_sandbox.objects.core import Core, Operation
from fairlead_sandbox.requests import answers
from fairlead_sandbox.requests.attempts import OutdatedError
from fairlead_sandbox.requests.bodies import is_yaml
from fairlead_sandbox.requests.calls import Answer, Call
from fairlead_sandbox.requests.handlers import patch, scale, write
from fairlead_sandbox.requests.workers import Job, JobResult, JobRunner, StoredObject
from fairlead_sandbox.resources.types import ResourceType
from fairlead_sandbox.storage.records import Record
from fairlead_sandbox.webhooks.conversation import Unanswered
from fairlead_sandbox.webhooks.hooks import COLLECTIONS


_log = logging.getLogger(__name__)

Handler = Callable[[Call], Awaitable[Answer]]

HEAVY = 64 * 1024
"""Maximum size of JSON that the event loop handles itself, in bytes; it takes some 50 ms."""
MAX_OPTIONS = 512 * 1024
"""Maximum body of a request that stores nothing (options, reviews, tokens), in bytes."""
_YAML, _PATCH = 10, 4
"""Measured cost of decoding YAML, and of applying a patch, per byte; storing JSON is 1."""
_JOB = 1024 * 1024
"""Size of the objects that one job fills with defaults, in bytes; the last one may exceed it."""
_NAMESPACES, _SERVICES = "namespaces", "services"
_DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
_WRITERS = frozenset({write.create, write.update, patch.patch, scale.update, scale.patch})


async def answer(call: Call, handler: Handler, workers: JobRunner) -> Answer:
    """Answer a call, by a worker process if it is heavy.

    Raises:
        StatusError: the call was refused, or takes too long or too much memory.
        OutdatedError: an object that the worker has read was changed meanwhile.
        Unanswered: webhooks have to be asked first.
    """
    if not _is_heavy(call, handler):
        return await handler(call)
    if handler in _WRITERS:
        return await _write(call, workers)
    if len(call.body) > MAX_OPTIONS:
        raise errors.too_large(f"limit is {MAX_OPTIONS}")
    job = Job("decode", plural=_kind(call), body=call.body, content_type=call.content_type)
    result = await workers.run(job)
    return await handler(replace(call, body=result.body, content_type="application/json"))


def _is_heavy(call: Call, handler: Handler) -> bool:
    factor = _YAML if is_yaml(call.content_type, call.body) else 1
    if handler not in _WRITERS:
        return len(call.body) * factor > HEAVY
    if call.info.verb == "patch":
        factor = max(factor, _PATCH)
    old = call.core.get(call.type, call.key)
    size = len(call.body) + (len(old.raw) if old is not None else 0)
    # A large schema is compiled before its first object is checked, which takes seconds; then a
    # small object is heavy too.
    return size * factor > HEAVY or len(_definition(call.core, call.type)) > HEAVY


def _kind(call: Call) -> str:
    """Return the kind that the body must have, for a request that stores nothing."""
    if call.info.verb in {"delete", "deletecollection"}:
        return "DeleteOptions"
    return "TokenRequest" if call.info.subresource == "token" else call.type.resource.kind


def _definition(core: Core, type_: ResourceType) -> bytes:
    """Return the stored CustomResourceDefinition of a type, b"" for a built-in one."""
    if not type_.custom:
        return b""
    record = core.store.collection(_DEFINITIONS).get(Key("", type_.collection))
    return record.raw if record is not None else b""


async def _write(call: Call, workers: JobRunner) -> Answer:
    old = call.core.get(call.type, call.key) if call.info.name else None
    helping = _helping(call)
    result = await workers.run(_job(call, old, helping))
    if result.questions and call.webhooks is not None:
        call.webhooks.stamp = result.stamp
        raise Unanswered(result.questions)
    # Other requests may have written meanwhile. The result holds only if the worker's input is
    # still current.
    if not _is_current(call, old) or helping != _helping(call):
        raise OutdatedError
    record = _commit(call, old, result)
    await call.core.store.settle(record.rv)
    return write.with_warnings(_shown(call, record, result), result.warnings)


def _helping(call: Call) -> list[tuple[str, Record]]:
    """Return the objects that admission reads: the namespace, Services for addresses, webhooks."""
    store = call.core.store
    namespace = store.collection(_NAMESPACES).get(Key("", call.key.namespace))
    helpers = [] if namespace is None else [(_NAMESPACES, namespace)]
    if call.type.collection == _SERVICES:
        helpers += [(_SERVICES, record) for record in store.collection(_SERVICES).list()]
    for name in COLLECTIONS if call.webhooks is not None else ():
        helpers += [(name, record) for record in store.collection(name).list()]
    return helpers


def _job(call: Call, old: Record | None, helping: Sequence[tuple[str, Record]]) -> Job:
    objects = [StoredObject.of(collection, record) for collection, record in helping]
    if old is not None:
        objects.append(StoredObject.of(call.type.collection, old))
    resource = call.type.resource
    return Job(
        "write",
        resource.group,
        resource.version,
        resource.plural,
        _definition(call.core, call.type),
        info=call.info,
        query=dict(call.query),
        body=call.body,
        content_type=call.content_type,
        user_agent=call.user_agent,
        objects=objects,
        webhooks=call.webhooks,
    )


def _is_current(call: Call, old: Record | None) -> bool:
    # Each write replaces the record, so the same record means an unchanged object.
    return not call.info.name or call.core.get(call.type, call.key) is old


def _commit(call: Call, old: Record | None, result: JobResult) -> Record:
    """Write a worker's result; the caller has checked that its input is still current."""
    core, type_ = call.core, call.type
    # A write that changes nothing makes no new resourceVersion, as in kube-apiserver.
    if old is not None and not result.change and not call.dry_run:
        return old
    body = msgspec.json.decode(result.raws[0] if result.change else result.body, type=JSON)
    key = Key(body["metadata"].get("namespace", ""), body["metadata"].get("name", ""))
    # The name in a POST stands in its body, which only the worker has decoded.
    if old is None and core.get(type_, key) is not None:
        raise errors.already_exists(type_.group_resource, key.name)
    verb = "create" if old is None else "update"
    # An apply that creates. The worker cannot check the right to create, because it has no roles.
    if verb == "create" and call.info.verb == "patch" and call.require is not None:
        call.require(verb)
    # The worker has no roles and bindings, so the check of escalation runs here.
    core.admit(Operation(verb, type_, key, body, old, call.info.subresource, call.user))
    match result.change:
        case "put":
            return writes.store(core, type_, key, body)
        case "remove":
            return core.store.remove(type_.collection, key, body)
    return type_.record(key, body)


def _shown(call: Call, record: Record, result: JobResult) -> Answer:
    if call.info.subresource == "scale":
        if not result.change:
            return Answer(result.body)
        return Answer(msgspec.json.encode(scale.to_scale(call, record)))
    return answers.object_answer(call, record, result.code)


class Completion:
    """Adds defaults of a changed schema to stored objects, which kube-apiserver does at each read.

    A few small objects are completed at once, many or large ones by a worker.
    """

    def __init__(self, core: Core, workers: JobRunner) -> None:
        self._core = core
        self._workers = workers
        self._tasks: dict[asyncio.Task[None], None] = {}

    def __call__(self, type_: ResourceType) -> None:
        """Add defaults to the stored objects of a type; it must be of the storage version."""
        records = list(self._core.store.collection(type_.collection).list())
        size = sum(len(record.raw) for record in records)
        if not records:
            return
        if size + len(_definition(self._core, type_)) <= HEAVY:
            for record in records:
                # In place: kube-apiserver adds defaults at each read, without a new
                # resourceVersion.
                record.raw = type_.completed(record)
            return
        task = asyncio.get_running_loop().create_task(self._complete(type_, records))
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    async def _complete(self, type_: ResourceType, records: list[Record]) -> None:
        resource = type_.resource
        collection = self._core.store.collection(type_.collection)
        job = Job(
            "complete",
            resource.group,
            resource.version,
            resource.plural,
            _definition(self._core, type_),
        )
        while records:
            some = _some(records)
            job.objects = [StoredObject.of(type_.collection, record) for record in some]
            try:
                result = await self._workers.run(job)
            except StatusError as error:
                _log.error(
                    "objects of %s do not get the defaults of the changed schema: %s",
                    type_.collection,
                    error,
                )
                return
            for record, raw in zip(some, result.raws, strict=True):
                # An object that was written meanwhile was completed by its own write.
                if collection.get(record.key) is record:
                    record.raw = raw

    async def close(self) -> None:
        """Cancel running completions; the next start completes the objects that are left."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _some(records: list[Record]) -> list[Record]:
    """Remove the objects of one job, some :data:`_JOB` bytes, from the list; return them."""
    taken: list[Record] = []
    size = 0
    while records and size < _JOB:
        record = records.pop()
        size += len(record.raw)
        taken.append(record)
    return taken
