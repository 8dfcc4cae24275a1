"""Construction of the provider's controllers, their manager and their CRDs."""

from __future__ import annotations

from fairlead.api.kubebind import provider_crds
from fairlead.client import Client
from fairlead.provider.controllers.bindableresources.controller import BindableResourcesController
from fairlead.provider.controllers.clearing.controller import ClearingController
from fairlead.provider.controllers.clusterbinding.controller import ConsumerHealthController
from fairlead.provider.controllers.export.controller import ExportController
from fairlead.provider.controllers.exportrequest.controller import RequestController
from fairlead.provider.controllers.namespace.controller import NamespaceController
from fairlead.provider.controllers.rbac.controller import RbacController
from fairlead.provider.metrics import ConsumerMetrics
from fairlead.provider.options import InviteOptions, ProviderOptions
from fairlead.provider.watches import ProviderWatches
from fairlead.runtime import Cluster, Controller, Manager
from fairlead.runtime import install_crds as _install_crds


def controllers(
    cluster: Cluster,
    options: ProviderOptions | None = None,
    invitations: InviteOptions | None = None,
) -> list[Controller]:
    """Return all controllers of a provider's cluster, ready to run; they share their informers.

    ``invitations`` are the options for consumers that ask by a BindableResourcesRequest.
    """
    chosen = options or ProviderOptions()
    watches = ProviderWatches(cluster)
    return [
        RequestController(cluster, watches, chosen).controller,
        ExportController(cluster, watches, chosen).controller,
        RbacController(cluster, watches, chosen).controller,
        NamespaceController(cluster, watches, chosen).controller,
        ConsumerHealthController(cluster, watches, chosen).controller,
        ClearingController(cluster, watches, chosen).controller,
        BindableResourcesController(cluster, invitations or InviteOptions()).controller,
    ]


async def build(
    manager: Manager,
    cluster: Cluster,
    options: ProviderOptions | None = None,
    invitations: InviteOptions | None = None,
) -> None:
    """Add a provider's controllers to a manager that has not been started."""
    manager.add_cluster(cluster)
    for controller in controllers(cluster, options, invitations):
        manager.add(controller)
    consumers = ConsumerMetrics(cluster)
    manager.metrics.registry.register(consumers)
    manager.add(consumers)


async def install_crds(client: Client) -> None:
    """Create or update the CRDs of a provider's cluster, and wait until they are served.

    Raises:
        CRDError: a CRD was not established in time.
        ApiError: the server refused.
    """
    await _install_crds(client, provider_crds())
