"""Worker processes, which work out large requests while the event loop serves others.

:mod:`fairlead_sandbox.requests.heavy` names the bombs that need them. Threads would not do:
decoders and sorts hold Python's lock for seconds, and a thread cannot be ended. Jobs and results
travel as MessagePack over a process's pipes, each after its length;
:mod:`fairlead_sandbox.worker` is the other end.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import sys
from asyncio.subprocess import PIPE, Process
from typing import Literal, Protocol

import msgspec

from fairlead.api.meta import JSON, Key
from fairlead_sandbox import errors
from fairlead_sandbox.errors import StatusError
from fairlead_sandbox.requests.info import RequestInfo
from fairlead_sandbox.storage.records import Record
from fairlead_sandbox.webhooks.conversation import Conversation
from fairlead_sandbox.webhooks.reviews import Question


SECONDS = 30.0
"""Seconds that one job may take; kube-apiserver ends requests after 34 to 60."""
MEMORY = 2 << 30
"""Maximum address space of a worker, in bytes."""
LENGTH = struct.Struct("!I")
"""Head of each message on the pipes: its size in bytes."""
_PROCESSES = 2
"""Maximum number of worker processes."""
_WAITING = 32
"""Maximum number of jobs that wait for a process; each holds its request's body."""
_IDLE = 60.0
"""Seconds without a job, after which idle processes are ended."""


class StoredObject(msgspec.Struct, array_like=True):
    """A stored object that a job reads."""

    collection: str
    namespace: str
    name: str
    rv: int
    raw: bytes

    @classmethod
    def of(cls, collection: str, record: Record) -> StoredObject:
        """Return the record's present state for a job."""
        return cls(collection, record.key.namespace, record.key.name, record.rv, record.raw)

    def record(self) -> Record:
        """Return the object as a record of the store."""
        return Record(Key(self.namespace, self.name), self.rv, self.raw)


class Job(msgspec.Struct, array_like=True):
    """One job of a worker.

    ``write`` is a whole request that creates or changes an object, ``decode`` decodes a body to
    JSON, ``complete`` adds the defaults of a changed schema to stored objects.
    """

    kind: Literal["write", "decode", "complete"]
    group: str = ""
    version: str = ""
    plural: str = ""
    definition: bytes = b""
    """The CustomResourceDefinition as JSON; b"" for a built-in kind."""
    info: RequestInfo | None = None
    # Mutable defaults are safe here: msgspec copies empty ones for each struct.
    query: dict[str, str] = {}
    body: bytes = b""
    content_type: str = ""
    user_agent: str = ""
    objects: list[StoredObject] = []
    webhooks: Conversation | None = None


class WorkerFailure(msgspec.Struct, array_like=True):
    """A StatusError in the form that pipes carry."""

    code: int
    reason: str
    message: str
    details: JSON | None
    headers: dict[str, str]

    @classmethod
    def of(cls, error: StatusError) -> WorkerFailure:
        """Return the failure for an error."""
        return cls(error.code, error.reason, error.message, error.details, error.headers)

    def error(self) -> StatusError:
        """Return the error of the failure, to be raised in the server."""
        return StatusError(
            self.code, self.reason, self.message, details=self.details, headers=self.headers
        )


class JobResult(msgspec.Struct, array_like=True):
    """The outcome of a job."""

    failure: WorkerFailure | None = None
    code: int = 200
    warnings: list[str] = []
    body: bytes = b""
    """The body of the handler's answer, or the decoded body."""
    change: Literal["", "put", "remove"] = ""
    """Change to be stored; "" for a dry run, or if the object stays the same."""
    raws: list[bytes] = []
    """The object to be stored, or the completed objects, as JSON."""
    questions: list[Question] = []
    """Questions to admission webhooks; with answers to them the server sends the job again."""
    stamp: dict[str, str] = {}
    """Generated metadata, such as uid, that the next attempt must use again."""


_decode_result = msgspec.msgpack.Decoder(JobResult).decode


class JobRunner(Protocol):
    """Runs jobs by :func:`fairlead_sandbox.worker.work`, in any process."""

    async def run(self, job: Job) -> JobResult:
        """Run a job and return its result.

        Raises:
            StatusError: the job failed, or was not run.
        """
        ...

    async def close(self) -> None:
        """End running jobs; later ones may be run all the same."""
        ...


class Workers:
    """The worker processes of one control plane; each is started at need."""

    def __init__(self) -> None:
        self._idle: list[Process] = []
        self._slots = asyncio.Semaphore(_PROCESSES)
        self._waiting = 0
        self._timer: asyncio.TimerHandle | None = None
        self._ending: set[asyncio.Task[None]] = set()

    async def run(self, job: Job) -> JobResult:
        """Run a job in an idle or new process, and return its result.

        Raises:
            StatusError: the job failed, took too long or too much memory, or too many jobs wait.
        """
        if self._waiting >= _WAITING:
            raise errors.too_busy()
        self._waiting += 1
        try:
            await self._slots.acquire()
        finally:
            self._waiting -= 1
        try:
            result = await self._ask(msgspec.msgpack.encode(job))
        finally:
            self._slots.release()
        if result.failure is not None:
            raise result.failure.error()
        return result

    async def _ask(self, message: bytes) -> JobResult:
        if self._idle:
            try:
                return await self._exchanged(self._idle.pop(), message)
            except (asyncio.IncompleteReadError, ConnectionError):
                # An idle process may have died before this job, so the job is tried once more in
                # a new process.
                pass
        try:
            return await self._exchanged(await _start(), message)
        except (asyncio.IncompleteReadError, ConnectionError):
            # Most probably memory has run out in C code, where no MemoryError is raised, or the
            # kernel has killed the process.
            text = "the worker process died while it handled the request"
            raise errors.too_large(text) from None

    async def _exchanged(self, process: Process, message: bytes) -> JobResult:
        try:
            async with asyncio.timeout(SECONDS):
                result = await _exchange(process, message)
        except BaseException as error:
            # The process still works on the job, and its result would answer the next one.
            await _end(process)
            if isinstance(error, TimeoutError):
                raise errors.too_slow(SECONDS) from None
            raise
        # Back for the next job: starting Python and importing the sandbox takes tenths of a
        # second.
        self._idle.append(process)
        self._rest()
        return result

    def _rest(self) -> None:
        """End idle processes once no job has come for a while."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(_IDLE, self._dismiss)

    def _dismiss(self) -> None:
        while self._idle:
            ending = asyncio.get_running_loop().create_task(_end(self._idle.pop()))
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)

    async def close(self) -> None:
        """End the idle processes; the others end with their requests."""
        if self._timer is not None:
            self._timer.cancel()
        self._dismiss()
        await asyncio.gather(*self._ending)


async def _start() -> Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "fairlead_sandbox.worker",
        stdin=PIPE,
        stdout=PIPE,
        # A session of its own: Ctrl-C reaches only the server, which ends its workers.
        start_new_session=True,
    )


async def _exchange(process: Process, message: bytes) -> JobResult:
    writer, reader = process.stdin, process.stdout
    if writer is None or reader is None or writer.is_closing():
        # uvloop raises no ConnectionError for a write to a closed transport.
        raise ConnectionError("a worker has no pipes")
    writer.write(LENGTH.pack(len(message)))
    writer.write(message)
    await writer.drain()
    (size,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
    return _decode_result(await reader.readexactly(size))


async def _end(process: Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    # Shielded: a cancelled request must not leave the ended process unreaped (a zombie).
    await asyncio.shield(process.communicate())
