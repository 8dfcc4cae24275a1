"""The front door, put together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

from aiohttp import web

from fairlead.portal.http.introduction import Introduction
from fairlead.portal.http.server import application
from fairlead.portal.http.serving import PortalServer
from fairlead.portal.options import ServeOptions
from fairlead.runtime import Cluster, Manager, Runnable


@runtime_checkable
class Routed(Protocol):
    """A part that answers requests."""

    def routes(self) -> list[web.RouteDef]:
        """Its routes, below the root."""
        ...


@runtime_checkable
class Awaited(Protocol):
    """A part that the server is not ready without."""

    @property
    def name(self) -> str:
        """What /readyz calls it."""
        ...

    def not_ready(self) -> str:
        """Say why it cannot do its work; "" when it can."""
        ...


@runtime_checkable
class _Running(Protocol):
    @property
    def name(self) -> str: ...

    async def run(self) -> None: ...


def build(
    manager: Manager, cluster: Cluster, options: ServeOptions, parts: Iterable[object] = ()
) -> PortalServer:
    """Add the front door to a manager that has not been started.

    A part may have ``routes()``, which are served; ``name`` and ``run()``, by which it runs as
    long as the server does; and ``name`` and ``not_ready()``, which /readyz asks. It takes its
    informers before this is called.

    Raises:
        OSError: a file of the certificate cannot be read.
        ValueError: the certificate cannot be used.
    """
    found: Sequence[object] = (Introduction(options), *parts)
    routes = [route for part in found if isinstance(part, Routed) for route in part.routes()]

    async def started() -> None:
        # Those that are there by now: one that joins later is its owner's to wait for.
        for informer in list(cluster.informers()):
            await informer.synced.wait()

    server = PortalServer(options, application(options, routes), started=started)
    manager.add_cluster(cluster)
    for part in (*found, server):
        if isinstance(part, Awaited):
            manager.add_ready_check(part.name, part.not_ready)
        if isinstance(part, _Running):
            _run(manager, part)
    return server


def _run(manager: Manager, part: Runnable) -> None:
    # Replicas share what they know by the API server: each of them works.
    manager.add(part, leader_only=False)


async def run_all(manager: Manager, cluster: Cluster, options: ServeOptions) -> None:
    """Make all parts, and add the front door with them to a manager.

    Raises:
        OSError: a file that a flag names cannot be read.
        ValueError: a flag's value cannot be used.
    """
    # The seam: sessions, sign-in and the handshake's routes are made here, in this order, and
    # handed over as parts.
    build(manager, cluster, options)
