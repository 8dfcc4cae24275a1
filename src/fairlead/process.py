"""Start of a process: its event loop, its signals, its limits of open files and of memory."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import resource
import signal
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from fairlead import garbage


T = TypeVar("T")

INTERRUPTED = 130
"""Exit code after a second signal: 128 and the number of SIGINT, as shells have it."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run(main: Callable[[asyncio.Event], Coroutine[Any, Any, T]]) -> T:
    """Run ``main(stop)`` on a fast event loop to its end and return its result.

    SIGINT, SIGTERM and SIGHUP (the terminal was closed) set ``stop``, on which ``main`` should
    end; a second SIGINT or SIGTERM ends the process at once with code 130. An ignored SIGHUP, as
    under nohup, stays ignored.

    Raises:
        KeyboardInterrupt: ``main`` was stopped before it had a result.
    """
    garbage.relax()
    map_large_blocks()
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        try:
            return runner.run(_guarded(main))
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None


_M_MMAP_THRESHOLD = -3
_LARGE_BLOCK = 128 << 10
"""Bytes from which a block of memory is mapped by itself, as glibc has it at the start."""


def map_large_blocks() -> None:
    """Have glibc give back each large block of memory at once, and use its pages only as needed.

    After the first large block that is freed glibc would take others of that size from its heap.
    There they leave holes; and each TLS connection has a buffer of 256 KiB, mostly unused.
    Source: mallopt(3), M_MMAP_THRESHOLD.
    """
    # macOS and musl have no mallopt.
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE_BLOCK)


async def cancel_on(stop: asyncio.Event, work: Coroutine[Any, Any, T]) -> T:
    """Run ``work`` until it ends, or cancel it when ``stop`` is set.

    Raises:
        asyncio.CancelledError: it was stopped.
    """
    task, watcher = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({task, watcher}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        watcher.cancel()
        task.cancel()
        await asyncio.wait({task, watcher})
    return task.result()


async def _guarded(main: Callable[[asyncio.Event], Coroutine[Any, Any, T]]) -> T:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def signalled(number: signal.Signals) -> None:
        # A closing terminal sends SIGHUP twice, by the kernel and by the shell: not a second wish.
        if stop.is_set() and number != signal.SIGHUP:
            # Buffers are flushed by hand, for no exit handler runs after this.
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(Exception):
                    stream.flush()
            os._exit(INTERRUPTED)
        stop.set()

    numbers = [number for number in _SIGNALS if not _ignored_hangup(number)]
    for number in numbers:
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(number, signalled, number)
    try:
        return await main(stop)
    finally:
        for number in numbers:
            with contextlib.suppress(NotImplementedError):
                loop.remove_signal_handler(number)


def _ignored_hangup(number: signal.Signals) -> bool:
    return number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def raise_file_limit() -> int:
    """Raise the soft limit of open files to the hard one, and return it; 0 if there is none."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        # Some systems allow less than the hard limit says.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    return 0 if soft == resource.RLIM_INFINITY else soft


_CGROUPS = Path("/sys/fs/cgroup")


def memory_limit(cgroups: Path = _CGROUPS) -> int:
    """Return the memory limit of the container in bytes; 0 if there is none, or it is not known.

    Source: cgroup v2 (``memory.max``) and v1 (``memory.limit_in_bytes``, which has a number near
    2**63 without a limit).
    """
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        try:
            text = (cgroups / name).read_text().strip()
        except OSError:
            continue
        if text.isascii() and text.isdigit() and int(text) < 1 << 60:
            return int(text)
    return 0
