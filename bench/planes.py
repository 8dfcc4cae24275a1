"""The API servers that are compared, each in processes of its own, with the time to a first list.

All keep their data below one folder, on one disk.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiohttp
from tests.support.realplane import RealPlane

from fairlead.client import ClusterConfig, parse_kubeconfig
from fairlead.client.connection import build_ssl_context


NEEDED = ("etcd", "kube-apiserver")
LISTED = "/api/v1/namespaces"
TICKS = os.sysconf("SC_CLK_TCK")


class Plane(ABC):
    """A server that runs; ``ready`` is the seconds from exec to its first authorized list."""

    ready = 0.0

    @property
    @abstractmethod
    def pids(self) -> list[int]:
        """Its processes."""

    @property
    @abstractmethod
    def admin(self) -> ClusterConfig:
        """The administrator's credentials."""

    def resident(self) -> int:
        """Bytes of memory that its processes hold."""
        page = os.sysconf("SC_PAGE_SIZE")
        return sum(int(_proc(pid, "statm").split()[1]) * page for pid in self.pids)

    def cpu(self) -> float:
        """Seconds of CPU that its processes have used."""
        ticks = 0
        for pid in self.pids:
            fields = _proc(pid, "stat").rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / TICKS


def _proc(pid: int, name: str) -> str:
    return Path(f"/proc/{pid}/{name}").read_text(encoding="utf-8")


class KubeApiServer(Plane):
    """kube-apiserver with etcd, which waits for the disk."""

    def __init__(self, real: RealPlane) -> None:
        self._real = real

    @property
    def pids(self) -> list[int]:
        """etcd and kube-apiserver."""
        return list(self._real.pids.values())

    @property
    def admin(self) -> ClusterConfig:
        """Of system:masters."""
        return parse_kubeconfig(self._real.admin_kubeconfig())


class Program(Plane):
    """A process that writes a kubeconfig and then the word "ready"."""

    def __init__(self, process: asyncio.subprocess.Process, kubeconfig: Path) -> None:
        self._process = process
        self._kubeconfig = kubeconfig

    @property
    def pids(self) -> list[int]:
        """The one process."""
        return [self._process.pid]

    @property
    def admin(self) -> ClusterConfig:
        """Of system:masters."""
        return parse_kubeconfig(self._kubeconfig.read_bytes())


@asynccontextmanager
async def kube_apiserver(folder: Path) -> AsyncIterator[Plane]:
    """The real server, until the context is left."""
    real = RealPlane(controllers=(), fsync=True, parent=folder, ready_path=LISTED)
    plane = KubeApiServer(real)
    begun = time.monotonic()
    async with real:
        plane.ready = time.monotonic() - begun
        # Its own roles are still being written when it first answers.
        await first_answer(plane.admin, "/readyz")
        yield plane


@asynccontextmanager
async def kube_controlled(folder: Path) -> AsyncIterator[Plane]:
    """The real server with kube-controller-manager, which programs and bindings need."""
    async with RealPlane(fsync=True, parent=folder) as real:
        yield KubeApiServer(real)


@asynccontextmanager
async def program(folder: Path, *command: str) -> AsyncIterator[Plane]:
    """A server of ours, until the context is left; ``{}`` in the command is its own folder."""
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
        plane = Program(process, own / "sandbox.kubeconfig")
        await first_answer(plane.admin, LISTED)
        plane.ready = time.monotonic() - begun
        yield plane


def _environment() -> dict[str, str]:
    """Ours, but programs may keep their bytecode, as installed ones do."""
    ours = dict(os.environ)
    ours.pop("PYTHONDONTWRITEBYTECODE", None)
    return ours


def sandbox(folder: Path, *options: str) -> AbstractAsyncContextManager[Plane]:
    """``fairlead sandbox up``."""
    executable = Path(sys.executable).with_name("fairlead")
    return program(folder, str(executable), "sandbox", "up", "--dir", "{}", *options)


def bare(folder: Path) -> AbstractAsyncContextManager[Plane]:
    """The limit: :mod:`bench.bare`."""
    return program(folder, sys.executable, "-m", "bench.bare", "{}")


async def first_answer(config: ClusterConfig, path: str) -> None:
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
