"""API servers as processes, with the time to a first list.

All keep their data below one folder, on one disk.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from pathlib import Path
from typing import NamedTuple

import aiohttp
from tests.support.realplane import RealPlane

from bench import processes
from fairlead.client import ClusterConfig, parse_kubeconfig
from fairlead.client.connection import build_ssl_context


LISTED = "/api/v1/namespaces"


class Plane(NamedTuple):
    """A server that runs."""

    pids: list[int]
    admin: ClusterConfig
    """Credentials of system:masters."""
    ready: float = 0.0
    """Seconds from exec to its first authorized list."""

    def resident(self) -> int:
        """Read the bytes of memory that its processes hold."""
        return sum(map(processes.resident, self.pids))

    def cpu(self) -> float:
        """Read the seconds of CPU that its processes have used."""
        return sum(map(processes.cpu, self.pids))


@contextmanager
def scratch() -> Iterator[Path]:
    """Make a folder for data, until the context is left."""
    with tempfile.TemporaryDirectory(prefix="bench-", dir=Path(__file__).parent) as folder:
        yield Path(folder)


def plane(kind: str, folder: Path, *, fsync: bool = True) -> AbstractAsyncContextManager[Plane]:
    """Run a plane of a kind, "real" or "sandbox", that programs and bindings work on.

    ``fsync`` says whether the real one waits for the disk, which only times tell.
    """
    return _kube_controlled(folder, fsync=fsync) if kind == "real" else sandbox(folder)


@asynccontextmanager
async def kube_apiserver(folder: Path) -> AsyncIterator[Plane]:
    """Run kube-apiserver with etcd, which waits for the disk."""
    real = RealPlane(controllers=(), fsync=True, parent=folder, ready_path=LISTED)
    begun = time.monotonic()
    async with real:
        made = _real(real, time.monotonic() - begun)
        # Its own roles are still being written when it first answers.
        await _first_answer(made.admin, "/readyz")
        yield made


@asynccontextmanager
async def _kube_controlled(folder: Path, *, fsync: bool) -> AsyncIterator[Plane]:
    """Run the real server with kube-controller-manager, which programs and bindings need."""
    async with RealPlane(fsync=fsync, parent=folder) as real:
        yield _real(real)


def _real(real: RealPlane, ready: float = 0.0) -> Plane:
    return Plane(list(real.pids.values()), parse_kubeconfig(real.admin_kubeconfig()), ready)


@asynccontextmanager
async def program(folder: Path, *command: str) -> AsyncIterator[Plane]:
    """Run a server of ours that writes a kubeconfig and then the word "ready".

    ``{}`` in the command is its own folder.
    """
    async with AsyncExitStack() as stack:
        own = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=folder)))
        errors = stack.enter_context((own / "stderr").open("w+"))
        begun = time.monotonic()
        process = await asyncio.create_subprocess_exec(
            *(word.format(own) for word in command),
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            env=_environment(),
        )
        stack.push_async_callback(_stop, process)
        assert process.stdout is not None
        while (line := await process.stdout.readline()).strip() != b"ready":
            if not line:
                errors.seek(0)
                raise RuntimeError(f"{command[0]} ended before it was ready: {errors.read()}")
        admin = parse_kubeconfig((own / "sandbox.kubeconfig").read_bytes())
        await _first_answer(admin, LISTED)
        yield Plane([process.pid], admin, time.monotonic() - begun)


def _environment() -> dict[str, str]:
    """Copy ours, but programs may keep their bytecode, as installed ones do."""
    ours = dict(os.environ)
    ours.pop("PYTHONDONTWRITEBYTECODE", None)
    return ours


def sandbox(folder: Path, *options: str) -> AbstractAsyncContextManager[Plane]:
    """Run ``fairlead sandbox up``."""
    executable = Path(sys.executable).with_name("fairlead")
    return program(folder, str(executable), "sandbox", "up", "--dir", "{}", *options)


async def _first_answer(config: ClusterConfig, path: str) -> None:
    """Return once the server answers 200."""
    context = build_ssl_context(config)
    async with aiohttp.ClientSession(config.server) as session:
        while True:
            async with session.get(path, ssl=context) as answer:
                if answer.status == 200:
                    return
            await asyncio.sleep(0.02)


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.kill()
    await process.wait()
