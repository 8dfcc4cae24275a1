"""Worker processes: large requests are worked out there, while the event loop goes on.

:mod:`fairlead_sandbox.requests.heavy` tells which bombs need them.

Threads would not do: decoders and sorts hold Python's lock for seconds, and a thread cannot be
ended. Jobs and results travel as MessagePack over a process's pipes, each after its length;
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
"""Seconds that one job may take; a real server ends a request after 34 to 60."""
MEMORY = 2 << 30
"""Bytes of address space that a worker may have."""
LENGTH = struct.Struct("!I")
"""The head of each message: its size in bytes."""
_PROCESSES = 2
_WAITING = 32
"""Jobs that may wait for a process; each holds its request's body."""
_IDLE = 60.0
"""Seconds without a job after which a process is ended."""


class StoredObject(msgspec.Struct, array_like=True):
    """An object of the control plane that a job looks at."""

    collection: str
    namespace: str
    name: str
    rv: int
    raw: bytes

    @classmethod
    def of(cls, collection: str, record: Record) -> StoredObject:
        """The object as it is now."""
        return cls(collection, record.key.namespace, record.key.name, record.rv, record.raw)

    def record(self) -> Record:
        """The object as the store has it."""
        return Record(Key(self.namespace, self.name), self.rv, self.raw)


class Job(msgspec.Struct, array_like=True):
    """One piece of work.

    ``write`` is a whole request that creates or changes an object, ``decode`` makes JSON of a
    body, ``complete`` shows stored objects as a changed schema has them.
    """

    kind: Literal["write", "decode", "complete"]
    group: str = ""
    version: str = ""
    plural: str = ""
    definition: bytes = b""
    """The CustomResourceDefinition; b"" for a built-in kind."""
    info: RequestInfo | None = None
    query: dict[str, str] = {}
    body: bytes = b""
    content_type: str = ""
    user_agent: str = ""
    objects: list[StoredObject] = []
    webhooks: Conversation | None = None


class WorkerFailure(msgspec.Struct, array_like=True):
    """A StatusError on its way between processes."""

    code: int
    reason: str
    message: str
    details: JSON | None
    headers: dict[str, str]

    @classmethod
    def of(cls, error: StatusError) -> WorkerFailure:
        """The error as it is sent."""
        return cls(error.code, error.reason, error.message, error.details, error.headers)

    def error(self) -> StatusError:
        """The error to be raised."""
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
    """The change to be stored; "" for a dry run and for an object that stays the same."""
    raws: list[bytes] = []
    """The object to be stored, or the completed ones."""
    questions: list[Question] = []
    """Questions that admission webhooks have to answer before the job can be done."""
    stamp: dict[str, str] = {}
    """Generated metadata that the next attempt takes over."""


_decode_result = msgspec.msgpack.Decoder(JobResult).decode


class JobRunner(Protocol):
    """Has heavy requests worked out by :func:`fairlead_sandbox.worker.work`, wherever that is."""

    async def run(self, job: Job) -> JobResult:
        """Have a job done.

        Raises:
            StatusError: it failed, or is not done.
        """
        ...

    async def close(self) -> None:
        """End what is left of earlier jobs; there may be others after it."""
        ...


class Workers:
    """The worker processes of one control plane, started when they are first needed."""

    def __init__(self) -> None:
        self._idle: list[Process] = []
        self._slots = asyncio.Semaphore(_PROCESSES)
        self._waiting = 0
        self._timer: asyncio.TimerHandle | None = None
        self._ending: set[asyncio.Task[None]] = set()

    async def run(self, job: Job) -> JobResult:
        """Have a job done.

        Raises:
            StatusError: it failed, took too long or too much, or there are too many.
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
                # It may have died before it was asked, which says nothing of this job.
                pass
        try:
            return await self._exchanged(await _start(), message)
        except (asyncio.IncompleteReadError, ConnectionError):
            text = "working it out has ended the process that tried"
            raise errors.too_large(text) from None

    async def _exchanged(self, process: Process, message: bytes) -> JobResult:
        try:
            async with asyncio.timeout(SECONDS):
                result = await _exchange(process, message)
        except BaseException as error:
            # It still works on a job whose request has ended.
            await _end(process)
            if isinstance(error, TimeoutError):
                raise errors.too_slow(SECONDS) from None
            raise
        self._idle.append(process)
        self._rest()
        return result

    def _rest(self) -> None:
        """End the processes when nothing is to be done for a while."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(_IDLE, self._dismiss)

    def _dismiss(self) -> None:
        while self._idle:
            ending = asyncio.get_running_loop().create_task(_end(self._idle.pop()))
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)

    async def close(self) -> None:
        """End every process; jobs that are being done end with their requests."""
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
        # Ctrl-C is for the server, which ends its workers.
        start_new_session=True,
    )


async def _exchange(process: Process, message: bytes) -> JobResult:
    writer, reader = process.stdin, process.stdout
    if writer is None or reader is None or writer.is_closing():
        # uvloop's transports raise no error of a connection when they are closed already.
        raise ConnectionError("a worker has no pipes")
    writer.write(LENGTH.pack(len(message)))
    writer.write(message)
    await writer.drain()
    (size,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
    return _decode_result(await reader.readexactly(size))


async def _end(process: Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    # Also where the request that waited for it is cancelled, the process is waited for to its end.
    await asyncio.shield(process.communicate())
