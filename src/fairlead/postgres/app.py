"""The PostgresAccess operator, put together."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from fairlead.api.postgresaccess import crds
from fairlead.client import Client
from fairlead.postgres.controllers.access.controller import AccessController
from fairlead.postgres.controllers.servers.controller import ServerController
from fairlead.postgres.controllers.servers.sources import EndpointSources
from fairlead.postgres.controllers.settings import Settings
from fairlead.postgres.controllers.singleton import SingletonController
from fairlead.postgres.controllers.watches import (
    AccessWatches,
    relabelled,
    rewritten,
    server_turned,
)
from fairlead.postgres.database.connections.attempts import Attempts
from fairlead.postgres.database.connections.rooms import SessionRooms
from fairlead.postgres.metrics import PostgresMetrics
from fairlead.postgres.options import PostgresOptions
from fairlead.runtime import Cluster, Controller, Manager
from fairlead.runtime import install_crds as _install_crds


_RESOLVERS = 64
"""DNS lookups that run at the same time."""


def controllers(
    cluster: Cluster,
    options: PostgresOptions | None = None,
    metrics: PostgresMetrics | None = None,
) -> list[Controller]:
    """Return all controllers, ready to run; they share their informers."""
    counted = metrics or PostgresMetrics()
    flags = options or PostgresOptions()
    watches = AccessWatches(cluster, flags)
    # Settings hear of a Controller first, so that no other controller works with the old ones.
    settings = Settings(flags, watches.controllers)
    sources = EndpointSources(cluster.client, settings, watches)
    attempts = Attempts()
    rooms = SessionRooms(lambda: settings.latest.max_connections_per_server)
    accesses = AccessController(cluster, watches, settings, sources, counted, attempts, rooms)
    accesses.watch(watches.servers, watches.accesses_of_server, predicate=server_turned)
    accesses.watch(watches.credentials, watches.accesses_of_credentials, predicate=rewritten)
    accesses.watch(watches.namespaces, watches.accesses_of_namespace, predicate=relabelled)
    accesses.watch(watches.controllers, watches.every_access, predicate=settings.turned)
    return [
        SingletonController(cluster, watches, flags).controller,
        ServerController(cluster, watches, flags, sources, counted, attempts, rooms).controller,
        accesses.controller,
    ]


async def build(
    manager: Manager, cluster: Cluster, options: PostgresOptions | None = None
) -> None:
    """Add the operator's controllers to a manager that has not been started."""
    # Names are looked up in threads, so that a silent name server delays no other lookup.
    resolvers = ThreadPoolExecutor(_RESOLVERS, "resolver")
    asyncio.get_running_loop().set_default_executor(resolvers)
    manager.add_cluster(cluster)
    metrics = PostgresMetrics()
    manager.metrics.registry.register(metrics)
    for controller in controllers(cluster, options, metrics):
        manager.add(controller)


async def install_crds(client: Client, *, exported: bool = False) -> None:
    """Create or update the group's CRDs, and wait until they are served.

    Args:
        client: the cluster's client.
        exported: label PostgresAccess so that kube-bind's provider may export it.

    Raises:
        CRDError: one was not established in time.
        ApiError: the server refused.
    """
    await _install_crds(client, crds(exported=exported))
