"""The konnector as a whole: everything added to a manager."""

from __future__ import annotations

from fairlead.api.kubebind import consumer_crds
from fairlead.client import Bounds, Client
from fairlead.konnector.connections import RunningConnections
from fairlead.konnector.consumer import Consumer
from fairlead.konnector.controllers.bindingsecret.controller import BindingSecretController
from fairlead.konnector.controllers.bundle.controller import BundleController
from fairlead.konnector.controllers.connections.controller import ConnectionsController
from fairlead.konnector.controllers.connections.engage import ProviderConnector
from fairlead.konnector.controllers.conversions.controller import ConversionsController
from fairlead.konnector.controllers.unbind.controller import UnbindController
from fairlead.konnector.options import Options
from fairlead.runtime import Cluster, Manager
from fairlead.runtime import install_crds as install


async def install_crds(client: Client) -> None:
    """Create or update the CRDs of a consumer cluster and wait until they are served.

    Raises:
        ClientError: the server refused, or did not serve them in time.
    """
    await install(client, consumer_crds())


async def build(
    manager: Manager,
    cluster: Cluster,
    options: Options | None = None,
    bounds: Bounds | None = None,
) -> Consumer:
    """Add the konnector to a manager; ``cluster`` is the consumer's.

    Provider clusters join and leave by themselves; ``bounds`` are on what each of them answers.

    Raises:
        ClientError: the CRDs cannot be installed.
    """
    options = options or Options()
    if options.install_crds:
        await install_crds(cluster.client)
    manager.add_cluster(cluster)
    consumer = Consumer(cluster, options, manager.metrics)
    connections = RunningConnections()
    manager.add(BindingSecretController(consumer))
    connector = ProviderConnector(manager, consumer, connections, bounds)
    manager.add(ConnectionsController(consumer, connector))
    manager.add(UnbindController(consumer, connections))
    manager.add(ConversionsController(consumer))
    manager.add(BundleController(consumer, connections))
    return consumer
