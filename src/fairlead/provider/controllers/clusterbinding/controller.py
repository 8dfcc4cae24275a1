"""Watches ClusterBindings, and looks again when a heartbeat is due."""

from __future__ import annotations

from datetime import UTC, datetime

from fairlead.api.kubebind import CLUSTERBINDINGS
from fairlead.api.kubebind.conditions import status_events
from fairlead.provider.controllers.clusterbinding.reconcile import reconcile
from fairlead.provider.watches import Watches, terminal_when_invalid
from fairlead.runtime import Cluster, Controller, Request, Result, StatusWriter


NAME = "clusterbinding"


class ClusterBindingController:
    """Keeps the condition Healthy of each consumer."""

    def __init__(self, cluster: Cluster, watches: Watches) -> None:
        self._statuses = StatusWriter(
            cluster.client, CLUSTERBINDINGS, cluster.events(NAME), status_events
        )
        self._watches = watches
        self.controller = Controller(NAME, terminal_when_invalid(self.reconcile))
        self.controller.watch(watches.cluster_bindings, cluster=cluster.name)

    async def reconcile(self, key: Request) -> Result:
        """Judge one konnector by its last heartbeat."""
        binding = self._watches.cluster_bindings.get(key.namespace, key.name)
        if binding is None or binding.meta.deleting:
            return Result()
        plan = reconcile(binding, now=datetime.now(UTC))
        await self._statuses.write(binding, plan.status)
        return Result(plan.requeue_after)
