"""The worker process: ``python -m fairlead_sandbox.worker``, jobs on stdin, results on stdout.

A worker runs the server's own request handlers on an empty control plane that holds only the
objects in the job, so the answer is the one that the server would compute. It stores nothing: the
server writes the resulting object, unless the stored object has changed since the job was sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import signal
import sys
from functools import lru_cache
from typing import BinaryIO

import msgspec

from fairlead.api.meta import JSON
from fairlead_sandbox import errors
from fairlead_sandbox.builtin import builtin_types, give_addresses
from fairlead_sandbox.controllers.crds import CRD_TYPE
from fairlead_sandbox.controllers.namespaces import check_namespace
from fairlead_sandbox.errors import StatusError
from fairlead_sandbox.objects.core import Core, User
from fairlead_sandbox.requests import workers
from fairlead_sandbox.requests.bodies import decode_body
from fairlead_sandbox.requests.calls import Call
from fairlead_sandbox.requests.info import RequestInfo
from fairlead_sandbox.requests.negotiation import Accept
from fairlead_sandbox.requests.router import Router
from fairlead_sandbox.requests.workers import Job, JobResult, WorkerFailure
from fairlead_sandbox.resources.custom import custom_types
from fairlead_sandbox.resources.registry import ResourceRegistry
from fairlead_sandbox.resources.types import ResourceType
from fairlead_sandbox.storage.log import Log
from fairlead_sandbox.storage.records import Change
from fairlead_sandbox.storage.store import ObjectStore
from fairlead_sandbox.webhooks.conversation import Unanswered


_log = logging.getLogger(__name__)

# The same numbers as in fairlead.garbage. The sandbox may import fairlead.api alone, which holds
# types of the API and nothing of the process, so the three numbers stand twice.
_COLLECTIONS = (50_000, 20, 50)
"""Thresholds of Python's garbage collector, in objects or collections per generation.

Decoding makes many objects and few cycles; the default thresholds triple its cost.
"""


# A worker compiles a definition once, not for each of its jobs.
@lru_cache(maxsize=8)
def _types(definition: bytes) -> list[ResourceType]:
    if definition:
        return custom_types(msgspec.json.decode(definition, type=JSON))
    return [*builtin_types(), CRD_TYPE]


def _type(job: Job) -> ResourceType:
    type_ = _registry(job).get(job.group, job.version, job.plural)
    if type_ is None:
        raise errors.no_such_resource()
    return type_


def _registry(job: Job) -> ResourceRegistry:
    return ResourceRegistry(_types(job.definition))


async def _write(job: Job) -> JobResult:
    type_ = _type(job)
    core = Core(ObjectStore(Log()), _registry(job))
    core.admission += [check_namespace(core), give_addresses(core)]
    for obj in job.objects:
        # Not through the store's own writes: those would give the objects new resourceVersions,
        # and would count them as changes of this job.
        core.store.collection(obj.collection).put(obj.record())
    changes: list[Change] = []
    core.store.observe(changes.append)
    # Without user, rights and form: the server checks the rights and encodes the answer.
    call = Call(
        core,
        type_,
        job.info or RequestInfo("", ""),
        job.query,
        Accept(),
        job.body,
        job.content_type,
        User(),
        job.user_agent,
        job.webhooks,
    )
    try:
        answer = await Router(core).handler(call)(call)
    except Unanswered as pending:
        stamp = job.webhooks.stamp if job.webhooks is not None else {}
        return JobResult(questions=list(pending.questions), stamp=stamp)
    result = JobResult(code=answer.code, warnings=list(answer.warnings), body=answer.body)
    for change in changes:
        result.change = "remove" if change.type == "DELETED" else "put"
        result.raws = [change.record.raw]
    return result


def _decode(job: Job) -> JobResult:
    kind = job.plural
    return JobResult(body=msgspec.json.encode(decode_body(job.content_type, job.body, kind)))


def _complete(job: Job) -> JobResult:
    type_ = _type(job)
    return JobResult(raws=[type_.completed(one.record()) for one in job.objects])


async def work(job: Job) -> JobResult:
    """Run a job; an error of any kind becomes a failure in the result."""
    try:
        match job.kind:
            case "write":
                return await _write(job)
            case "decode":
                return _decode(job)
            case "complete":
                return _complete(job)
    except StatusError as error:
        return JobResult(WorkerFailure.of(error))
    except RecursionError:
        return JobResult(WorkerFailure.of(errors.too_deep()))
    except MemoryError:
        return JobResult(WorkerFailure.of(errors.too_large("the request takes too much memory")))
    except Exception:  # noqa: BLE001 - the client gets an answer all the same
        _log.exception("a job of the worker failed")
        text = "the server could not answer; its log says why"
        return JobResult(WorkerFailure.of(errors.internal(text)))


def main() -> None:
    """Run jobs until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _limit_memory()
    gc.set_threshold(*_COLLECTIONS)
    decode = msgspec.msgpack.Decoder(Job).decode
    while message := _read(sys.stdin.buffer):
        # A server that was killed cannot end this process. The alarm does, should the job never
        # end; a living server kills the worker a second before.
        signal.alarm(int(workers.SECONDS) + 1)
        result = msgspec.msgpack.encode(asyncio.run(work(decode(message))))
        signal.alarm(0)
        # The server has gone and closed its end; stdin ends too, and with it the loop.
        with contextlib.suppress(BrokenPipeError):
            sys.stdout.buffer.write(workers.LENGTH.pack(len(result)) + result)
            sys.stdout.buffer.flush()


def _read(stream: BinaryIO) -> bytes:
    head = stream.read(workers.LENGTH.size)
    return stream.read(workers.LENGTH.unpack(head)[0]) if head else b""


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:
        return
    with contextlib.suppress(ValueError, OSError):
        # A bomb meets a MemoryError here, before the kernel has to choose a process to kill.
        resource.setrlimit(resource.RLIMIT_AS, (workers.MEMORY, workers.MEMORY))


if __name__ == "__main__":
    main()
