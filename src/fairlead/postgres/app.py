"""The PostgresAccess operator, put together."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import structlog

from fairlead.api.meta import Object
from fairlead.api.postgresaccess import POSTGRESACCESSES, PostgresAccess, crds
from fairlead.api.postgresaccess.server import POSTGRESSERVERS, PostgresServer
from fairlead.client import Client
from fairlead.postgres import bounds
from fairlead.postgres.controllers.access.controller import AccessController
from fairlead.postgres.controllers.large import cached
from fairlead.postgres.controllers.rules.desired import GROUPS_REMEDY, SHARED_GROUPS
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


_log = structlog.get_logger(logger_name="fairlead.postgres")


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
    resolvers = ThreadPoolExecutor(bounds.RESOLVERS, "resolver")
    asyncio.get_running_loop().set_default_executor(resolvers)
    manager.add_cluster(cluster)
    metrics = PostgresMetrics()
    manager.metrics.registry.register(metrics)
    for controller in controllers(cluster, options, metrics):
        manager.add(controller)
    manager.add(GroupsWarning(cluster))


class GroupsWarning:
    """Logs at start which accesses and servers use ``groups: Shared``, which is deprecated."""

    name = "groups-warning"

    def __init__(self, cluster: Cluster) -> None:
        self._accesses = cluster.informer(POSTGRESACCESSES, transform=cached)
        self._servers = cluster.informer(POSTGRESSERVERS)

    async def run(self) -> None:
        """Wait for the caches, and log once."""
        await self._accesses.synced()
        await self._servers.synced()
        accesses = [str(one.key) for one in self._accesses.list() if _status_group(one)]
        servers = [one.meta.name for one in self._servers.list() if _shares(one)]
        if accesses or servers:
            _log.warning(
                f"{SHARED_GROUPS}, and the next minor version removes it; {GROUPS_REMEDY}",
                servers=servers[: bounds.START_NAMED],
                accesses=accesses[: bounds.START_NAMED],
                total=len(accesses),
            )


def _status_group(access: Object) -> str:
    decoded = access.try_decode(PostgresAccess)
    return decoded.status.group if decoded is not None else ""


def _shares(server: Object) -> bool:
    decoded = server.try_decode(PostgresServer)
    return decoded is not None and decoded.spec.groups == "Shared"


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
