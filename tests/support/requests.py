"""What a test does to the requests of a sandbox one by one, and who sent them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.support.countingplanes import WRITES, Plane
from tests.support.line import Line, Ports, ports

from fairlead.api.resource import LEASES
from fairlead_sandbox.errors import StatusError
from fairlead_sandbox.requests.info import RequestInfo


@contextlib.contextmanager
def hooked(plane: Plane, hook: Callable[[RequestInfo], None]) -> Iterator[None]:
    """Have each request of the block go through a hook, which may raise its answer."""
    before = plane.sandbox.faults.apply

    async def apply(info: RequestInfo) -> None:
        hook(info)
        await before(info)

    plane.sandbox.faults.apply = apply  # type: ignore[method-assign]
    try:
        yield
    finally:
        plane.sandbox.faults.apply = before  # type: ignore[method-assign]


@contextlib.contextmanager
def nth_write(plane: Plane, resource: str, number: int) -> Iterator[asyncio.Event]:
    """The event is set when so many writes of a resource have come, before the last is done."""
    met = asyncio.Event()
    seen = 0

    def hook(info: RequestInfo) -> None:
        nonlocal seen
        seen += info.verb in WRITES and info.resource == resource
        if seen == number:
            met.set()

    with hooked(plane, hook):
        yield met


@contextlib.contextmanager
def every_tenth_write_conflicts(*planes: Plane) -> Iterator[list[RequestInfo]]:
    """Refuse every tenth write of each plane with a 409; the requests that were refused."""
    refused: list[RequestInfo] = []

    def counter() -> Callable[[RequestInfo], None]:
        count = 0

        def hook(info: RequestInfo) -> None:
            nonlocal count
            count += info.verb in WRITES
            if info.verb in WRITES and count % 10 == 0:
                refused.append(info)
                raise StatusError(409, "Conflict", "injected fault: somebody was faster")

        return hook

    with contextlib.ExitStack() as stack:
        for plane in planes:
            stack.enter_context(hooked(plane, counter()))
        yield refused


Written = tuple[Ports, str, str, str]


@contextlib.contextmanager
def writers(line: Line, *planes: Plane) -> Iterator[list[Written]]:
    """Writes but those of Leases, with the senders' own connections, also by way of the line."""
    found: list[Written] = []
    with contextlib.ExitStack() as stack:
        for plane in planes:
            stack.enter_context(_noted(plane, line, found))
        yield found


@contextlib.contextmanager
def _noted(plane: Plane, line: Line, found: list[Written]) -> Iterator[None]:
    faults, sender = plane.sandbox.faults, (0, 0)
    before = faults.connected

    def connected(transport: asyncio.Transport) -> None:
        # Nothing is awaited between this and the hook: the request comes from here.
        nonlocal sender
        sender = line.origin(ports(transport, client="peername", server="sockname"))
        before(transport)

    def hook(info: RequestInfo) -> None:
        if info.verb in WRITES and info.resource != LEASES.plural:
            found.append((sender, info.verb, info.resource, info.name))

    faults.connected = connected  # type: ignore[method-assign]
    try:
        with hooked(plane, hook):
            yield
    finally:
        faults.connected = before  # type: ignore[method-assign]


def connections(pid: int) -> set[Ports]:
    """The TCP connections that a process of this machine has as a client."""
    folder = Path("/proc", str(pid), "fd")
    links = {str(one.readlink()) for one in folder.iterdir()}
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    rows = [line.split() for line in lines]
    mine = [row for row in rows if f"socket:[{row[9]}]" in links]
    return {(_port(local), _port(remote)) for _, local, remote, *_ in mine}


def _port(address: str) -> int:
    """The port of an address as the kernel writes it."""
    return int(address.rpartition(":")[2], 16)
