"""The konnector as a whole: everything added to a manager."""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.api import kbind
from fairlead.api.kubebind import consumer_crds
from fairlead.api.meta import JSON
from fairlead.client import Bounds, Client
from fairlead.konnector.connections import RunningConnections
from fairlead.konnector.consumer import Consumer
from fairlead.konnector.controllers.bindingsecret.controller import BindingSecretController
from fairlead.konnector.controllers.bundle.controller import BundleController
from fairlead.konnector.controllers.connections.controller import ConnectionsController
from fairlead.konnector.controllers.connections.engage import ProviderConnector
from fairlead.konnector.controllers.conversions.controller import ConversionsController
from fairlead.konnector.controllers.unbind.controller import UnbindController
from fairlead.konnector.options import DEFAULT_PROTOCOLS, Options
from fairlead.konnector.v2.bindings.controller import BindingsController
from fairlead.konnector.v2.connection.controller import ConnectionController
from fairlead.konnector.v2.providers import ConnectedProviders
from fairlead.konnector.v2.pulls import PulledAPIs
from fairlead.runtime import Cluster, Manager
from fairlead.runtime import install_crds as install


def crds(protocols: Sequence[str] = DEFAULT_PROTOCOLS) -> list[JSON]:
    """Return the CRDs of a consumer cluster in which the konnector serves these protocols."""
    return [
        *(consumer_crds() if "v1alpha2" in protocols else ()),
        *(kbind.crds() if "v2" in protocols else ()),
    ]


async def install_crds(client: Client, protocols: Sequence[str] = DEFAULT_PROTOCOLS) -> None:
    """Create or update the CRDs of a consumer cluster and wait until they are served.

    Raises:
        ClientError: the server refused, or did not serve them in time.
    """
    await install(client, crds(protocols))


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
        await install_crds(cluster.client, options.protocols)
    manager.add_cluster(cluster)
    consumer = Consumer(cluster, options, manager.metrics)
    if "v1alpha2" in options.protocols:
        connections = RunningConnections()
        manager.add(BindingSecretController(consumer))
        connector = ProviderConnector(manager, consumer, connections, bounds)
        manager.add(ConnectionsController(consumer, connector))
        manager.add(UnbindController(consumer, connections))
        manager.add(ConversionsController(consumer))
        manager.add(BundleController(consumer, connections))
    if "v2" in options.protocols:
        providers = ConnectedProviders()
        pulls = PulledAPIs(consumer, providers)
        manager.add(pulls)
        bound = BindingsController(consumer, providers)
        manager.add(ConnectionController(manager, consumer, providers, pulls, bound, bounds))
        manager.add(bound)
    return consumer
