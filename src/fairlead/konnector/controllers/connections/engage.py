"""One provider connection: its client, its cluster and the controllers that work on it."""

from __future__ import annotations

import structlog

from fairlead.api.kubebind import FIELD_MANAGER
from fairlead.client import Bounds, Client
from fairlead.konnector.connections import RunningConnections
from fairlead.konnector.consumer import Consumer, Provider
from fairlead.konnector.controllers.apiservicebinding.controller import APIServiceBindingController
from fairlead.konnector.controllers.apiserviceexport.controller import APIServiceExportController
from fairlead.konnector.controllers.clusterbinding.controller import HeartbeatController
from fairlead.konnector.controllers.connections.health import HealthReporter
from fairlead.konnector.controllers.namespacelifecycle.controller import (
    NamespaceLifecycleController,
)
from fairlead.konnector.policies.work import ConnectionSpec
from fairlead.konnector.secrets import provider_config
from fairlead.runtime import Cluster, Engagement, Manager, strip_managed_fields


_log = structlog.get_logger(logger_name="fairlead.konnector.controllers.connections")


class ProviderConnection:
    """A provider that was joined: its client, and the tasks that work on its cluster."""

    def __init__(
        self,
        client: Client,
        provider: Provider,
        engagement: Engagement,
        connections: RunningConnections,
    ) -> None:
        self._client = client
        self._provider = provider
        self._engagement = engagement
        self._connections = connections

    @property
    def ended(self) -> bool:
        """Whether the provider's tasks have ended without :meth:`stop`."""
        return self._engagement.done.is_set()

    def join(self, spec: ConnectionSpec) -> None:
        """Replace the bindings and Secrets that use the connection."""
        self._provider.join(spec)

    async def stop(self) -> None:
        """Cancel the provider's tasks and close its client."""
        # Removed first, so that no controller begins to use it while it ends.
        self._connections.remove(self._provider)
        await self._engagement.stop()
        await self._client.close()


class ProviderConnector:
    """Joins providers as clusters of the manager."""

    def __init__(
        self,
        manager: Manager,
        consumer: Consumer,
        connections: RunningConnections,
        bounds: Bounds | None = None,
    ) -> None:
        self._manager = manager
        self._bounds = bounds
        self._consumer = consumer
        self._connections = connections

    async def __call__(self, identity: str, spec: ConnectionSpec) -> ProviderConnection:
        """Join a provider.

        Raises:
            ConfigError: the kubeconfig cannot be used.
        """
        config = provider_config(spec.kubeconfig)
        client = Client(
            config,
            user_agent="fairlead-konnector",
            field_manager=FIELD_MANAGER,
            metrics=self._manager.metrics.requests,
            bounds=self._bounds,
        )
        # The client outlives this call; :meth:`ProviderConnection.stop` closes it.
        await client.__aenter__()
        # The caches hold no managedFields: a policy that needs those of a copy reads it anew.
        cluster = Cluster(f"provider-{identity[:12]}", client, transform=strip_managed_fields)
        provider = Provider(identity, cluster, config.namespace, self._consumer, spec)
        engagement = await self._manager.engage(
            cluster,
            [
                # First, for it has to run when the export's controller gives it work.
                provider.syncers,
                HealthReporter(provider),
                HeartbeatController(provider),
                NamespaceLifecycleController(provider),
                APIServiceBindingController(provider),
                APIServiceExportController(provider),
            ],
        )
        self._connections.add(provider)
        return ProviderConnection(client, provider, engagement, self._connections)
