"""A consumer and a provider under load, whose konnector, servers and ways can be broken."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

from tests.support import countingplanes
from tests.support.countingplanes import Plane
from tests.support.e2e import Runner, link, programs
from tests.support.konnector import Link, providing
from tests.support.line import Line
from tests.support.load import SHOPS, Load, richer_crd, thing
from tests.support.process import config_file
from tests.support.provider import WIDGETS
from tests.support.realplane import RealPlane
from tests.support.waiting import SECONDS, idle, when

from fairlead.api.resource import LEASES
from fairlead.client import Client, parse_kubeconfig
from fairlead.konnector.manifests import NAME
from fairlead.runtime import install_crds


WINDOW = 0.5
"""So many seconds without a write are taken for rest."""


class RealSide:
    """A real control plane that a test may restart."""

    def __init__(self, real: RealPlane, admin: Client) -> None:
        self.admin = admin
        self.url = real.url
        self._real = real

    async def restart(self) -> None:
        """The API server is killed and comes back with its data."""
        await self._real.restart_apiserver()


Side = Plane | RealSide


class SyncWorld:
    """Two clusters with a binding; its konnector is not running yet."""

    def __init__(self, consumer: Side, provider: Side, uplink: Line) -> None:
        self.consumer = consumer
        self.provider = provider
        self.uplink = uplink
        """What the konnector reaches the provider over."""
        self.konnector = Runner(programs(())[NAME], consumer.admin, cluster="consumer")
        self.link: Link
        self.load: Load
        self.sound = False
        """Whether the invariants held at the end of the last test."""
        self._probes = 0

    async def begin(self) -> None:
        """Bind, plant what is not ours, and leave the konnector running."""
        await self.konnector.install()
        await self.konnector.start()
        self.link = await link(
            self.consumer.admin, self.provider.admin, "widgets", line=self.uplink
        )
        await self.link.bind()
        self.load = Load(self.consumer.admin, self.provider.admin, self.link, seed=7)
        await self.load.begin()

    @property
    def planes(self) -> list[Plane]:
        """Those sides that count what they are asked."""
        return [one for one in (self.consumer, self.provider) if isinstance(one, Plane)]

    @property
    def provider_plane(self) -> Plane:
        assert isinstance(self.provider, Plane)
        return self.provider

    @property
    def consumer_plane(self) -> Plane:
        assert isinstance(self.consumer, Plane)
        return self.consumer

    async def kubeconfig(self, folder: Path) -> Path:
        """A file with which a konnector of its own process speaks to the consumer."""
        content = config_file(await self.konnector.identity())
        return await asyncio.to_thread(_written, folder, content)

    async def carries(self) -> None:
        """Wait until a new object has a copy: some konnector works."""
        self._probes += 1
        name = f"probe-{self._probes}"
        await self.consumer.admin.create(WIDGETS, thing(name, SHOPS[0]))
        there = self.load.there[SHOPS[0]]
        await when(self.provider.admin, WIDGETS, name, there, until=bool)

    async def check(self, *, relist: bool = True) -> None:
        """Both sides get alike, nothing foreign was touched, and then nothing is written.

        With ``relist`` all have to list everything again, and still nothing is written. Without
        it Leases may be renewed.
        """
        await self.load.check()
        if relist and len(self.planes) == 2:
            await countingplanes.steady(*self.planes)
        else:
            await at_rest(*self.planes)
        await self.load.check()
        self.sound = not self.konnector.ended.is_set()

    @property
    def provider_watches(self) -> int:
        """How many watches run on the provider."""
        return self.provider_plane.watched().total()

    def requests(self) -> int:
        """What was asked of both sides beside the load, since the traffic was forgotten."""
        return sum(one.traffic.count() for one in self.planes) - self.load.asked.total()

    def forget(self) -> None:
        """Count requests from now on."""
        self.load.asked.clear()
        for one in self.planes:
            one.traffic.seen.clear()


def _written(folder: Path, content: str) -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / "kubeconfig"
    file.write_text(content)
    return file


async def at_rest(*planes: Plane) -> None:
    """Wait until nothing but Leases has been written for a while."""
    async with asyncio.timeout(SECONDS):
        known = [-1]
        while (now := [_writes(one) for one in planes]) != known:
            known = now
            await idle(WINDOW)


def _writes(plane: Plane) -> int:
    return sum(resource != LEASES.plural for _, resource, _ in plane.traffic.writes())


@contextlib.asynccontextmanager
async def sync_world(real: str = "") -> AsyncIterator[SyncWorld]:
    """Two clusters, sandboxes but for the side that is named, bound and with a konnector."""
    async with AsyncExitStack() as stack:
        sides: dict[str, Side] = {}
        for name in ("provider", "consumer"):
            entering = _real() if name == real else countingplanes.plane(name)
            sides[name] = await stack.enter_async_context(entering)
        provider = sides["provider"]
        await stack.enter_async_context(providing(provider.admin))
        await install_crds(provider.admin, [richer_crd()])
        url = provider.url if isinstance(provider, RealSide) else provider.sandbox.url
        uplink = await stack.enter_async_context(Line(url))
        world = SyncWorld(sides["consumer"], provider, uplink)
        stack.push_async_callback(world.konnector.kill)
        await world.begin()
        yield world


@contextlib.asynccontextmanager
async def _real() -> AsyncIterator[Side]:
    async with (
        RealPlane() as real,
        Client(parse_kubeconfig(await real.kubeconfig())) as admin,
    ):
        yield RealSide(real, admin)
