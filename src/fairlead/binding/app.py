"""Assembly of the binding controllers."""

from __future__ import annotations

from time import monotonic

from fairlead.api.servicebinding.spec import crds
from fairlead.binding.apis import coreos_api, spec_api
from fairlead.binding.bindablekinds import BindableKindsController
from fairlead.binding.cluster.pacing import workload_pace
from fairlead.binding.controller import BindingController
from fairlead.binding.metrics import BindingMetrics
from fairlead.binding.options import AdmissionOptions, BindingOptions
from fairlead.client import Client
from fairlead.runtime import Cluster, Manager
from fairlead.runtime import install_crds as _install_crds


def controllers(
    cluster: Cluster,
    options: BindingOptions | None = None,
    metrics: BindingMetrics | None = None,
) -> list[BindingController]:
    """Return the controllers of both Service Binding APIs, which share informers."""
    chosen, counted = options or BindingOptions(), metrics or BindingMetrics()
    # Shared, since a workload may have bindings of both APIs.
    pace = workload_pace(monotonic)
    return [
        BindingController(cluster, spec_api(), chosen, counted, pace),
        BindingController(cluster, coreos_api(chosen), chosen, counted, pace),
    ]


async def build(
    manager: Manager,
    cluster: Cluster,
    options: BindingOptions | None = None,
    webhooks: AdmissionOptions | None = None,
) -> None:
    """Add the binding controllers, and webhooks if any, to a manager before it is started."""
    manager.add_cluster(cluster)
    if webhooks is not None:
        # Imported here, since the package for certificates is an extra.
        from fairlead.binding.admission import serving

        await serving.add(manager, cluster, webhooks, options)
    metrics = BindingMetrics()
    manager.metrics.registry.register(metrics)
    for controller in controllers(cluster, options, metrics):
        manager.add(controller)
    manager.add(BindableKindsController(cluster))


async def install_crds(client: Client) -> None:
    """Create or update the CRDs of both APIs, and wait until they are served.

    Raises:
        CRDError: a CRD was not established in time.
        ApiError: the server refused.
    """
    await _install_crds(client, crds())
