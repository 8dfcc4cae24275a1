"""API servers and programs of ours as processes: their memory, their CPU and their metrics.

All keep their data below one folder, on one disk.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from pathlib import Path
from typing import NamedTuple

import aiohttp
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample
from tests.support.process import config_file
from tests.support.realplane import RealPlane, free_ports

from bench.sizes import PAUSE_SECONDS
from fairlead.client import ClusterConfig, parse_kubeconfig
from fairlead.client.connection import build_ssl_context


TICKS = os.sysconf("SC_CLK_TCK")
"""Units of CPU time of a second, as the kernel tells it."""

_READY_SECONDS = 60.0
_LOOK_SECONDS = 0.02


def resident(pid: int) -> int:
    """Read the bytes of memory that a process holds."""
    pages = int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def peak(pid: int) -> int:
    """Read the most bytes of memory that a process has held so far."""
    lines = Path(f"/proc/{pid}/status").read_text("utf-8").splitlines()
    fields = next(line.split() for line in lines if line.startswith("VmHWM:"))
    return int(fields[1]) << 10


def cpu(pid: int) -> float:
    """Read the seconds of CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


class Scrape:
    """Metrics of a program at one time."""

    def __init__(self, text: str) -> None:
        families: list[Metric] = list(text_string_to_metric_families(text))
        self._samples = [sample for family in families for sample in family.samples]

    def samples(self, name: str, **labels: str) -> list[Sample]:
        """Find the samples of this name that have these labels, and maybe others."""
        return [
            sample
            for sample in self._samples
            if sample.name == name and labels.items() <= sample.labels.items()
        ]

    def total(self, name: str, **labels: str) -> float:
        """Add up the samples of this name that have these labels, and maybe others."""
        return sum(sample.value for sample in self.samples(name, **labels))

    @property
    def requests(self) -> float:
        """Requests to the API server, watches too."""
        return self.total("rest_client_requests_total")

    @property
    def writes(self) -> float:
        """Requests other than GET, without those that renew a Lease."""
        return self.requests - self.total("rest_client_requests_total", method="GET")


class Program:
    """``fairlead NAME run`` as a process; it can be stopped and started again.

    ``verb`` is another word than ``run``.
    """

    def __init__(
        self, name: str, config: ClusterConfig, folder: Path, *flags: str, verb: str = "run"
    ) -> None:
        self._name = name
        self._verb = verb
        self._flags = flags
        self._file = folder / f"{name}-{verb}.kubeconfig"
        self._log = folder / f"{name}-{verb}.log"
        self._file.touch(mode=0o600)
        self._file.write_text(config_file(config))
        self._process: asyncio.subprocess.Process | None = None
        self._url = ""

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def resident_at_rest(self) -> int:
        """Read the bytes of memory that it holds once its last burst of work is over."""
        await asyncio.sleep(PAUSE_SECONDS)
        return self.resident()

    def resident(self) -> int:
        """Read the bytes of memory that it holds."""
        return resident(self.pid)

    def peak(self) -> int:
        """Read the most bytes of memory that it has held since it was started."""
        return peak(self.pid)

    def cpu(self) -> float:
        """Read the seconds of CPU that it has used."""
        return cpu(self.pid)

    async def start(self) -> None:
        """Start it and wait until it says that it is ready."""
        address = f"127.0.0.1:{free_ports(1)[0]}"
        self._url = f"http://{address}"
        flags = [
            f"--health-probe-bind-address={address}",
            "--metrics-bind-address=",
            *self._flags,
        ]
        command = os.environ.get(f"BENCH_{self._name.upper()}", f"{sys.executable} -m fairlead")
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *command.split(),
                *(self._name, self._verb, "--kubeconfig", str(self._file), *flags),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        await self.until(lambda: self._answers("/readyz"))

    @property
    def is_running(self) -> bool:
        """Whether it has been started and has not ended."""
        return self._process is not None and self._process.returncode is None

    async def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            process.terminate()
            await process.wait()

    async def kill(self) -> None:
        """End it as a node that is lost does: it finishes nothing."""
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()

    async def metrics(self) -> Scrape:
        async with aiohttp.ClientSession() as session, session.get(f"{self._url}/metrics") as got:
            return Scrape(await got.text())

    async def until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        """Look again and again; the log is shown when the program ends or takes too long."""
        try:
            async with asyncio.timeout(_READY_SECONDS):
                while not await holds():
                    if self._process is None or self._process.returncode is not None:
                        raise RuntimeError(f"{self._name} ended: {self._tail()}")
                    await asyncio.sleep(_LOOK_SECONDS)
        except TimeoutError:
            raise RuntimeError(f"{self._name} is not ready: {self._tail()}") from None

    async def _answers(self, path: str) -> bool:
        try:
            async with aiohttp.ClientSession() as session, session.get(self._url + path) as got:
                return got.status == 200
        except aiohttp.ClientConnectionError:
            return False

    def _tail(self) -> str:
        return self._log.read_text(errors="replace")[-2000:]


@asynccontextmanager
async def running(
    name: str, config: ClusterConfig, folder: Path, *flags: str, verb: str = "run"
) -> AsyncIterator[Program]:
    """Run a program until the context is left."""
    program = Program(name, config, folder, *flags, verb=verb)
    try:
        await program.start()
        yield program
    finally:
        await program.stop()


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
        return sum(map(resident, self.pids))

    def cpu(self) -> float:
        """Read the seconds of CPU that its processes have used."""
        return sum(map(cpu, self.pids))


@contextmanager
def scratch() -> Iterator[Path]:
    """Make a folder for data, until the context is left."""
    with tempfile.TemporaryDirectory(prefix="bench-", dir=Path(__file__).parent) as folder:
        yield Path(folder)


def control_plane(
    kind: str, folder: Path, *, fsync: bool = True
) -> AbstractAsyncContextManager[Plane]:
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
