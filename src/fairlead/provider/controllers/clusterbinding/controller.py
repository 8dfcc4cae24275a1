"""Watches ClusterBindings, and judges each again when its next heartbeat is due."""

from __future__ import annotations

from collections.abc import Iterator

import structlog

from fairlead.api.kubebind import CLUSTER_BINDING_NAME, CLUSTERBINDINGS
from fairlead.api.kubebind.conditions import (
    PERMISSIONS_GRANTED,
    is_true,
    status_events,
    stored_conditions,
)
from fairlead.api.meta import Key, Object
from fairlead.api.timestamps import moment
from fairlead.client.lookups import find
from fairlead.provider.controllers.clusterbinding.reconcile import reconcile
from fairlead.provider.konnectors import shortcoming, unwatchable
from fairlead.provider.options import ProviderOptions
from fairlead.provider.watches import ProviderWatches, in_turns
from fairlead.runtime import Cluster, Delta, Request, Result, StatusWriter


NAME = "clusterbinding"

_log = structlog.get_logger(__name__)


class ConsumerHealthController:
    """Keeps the condition Healthy of each consumer, and warns of konnectors that lack rights."""

    def __init__(
        self, cluster: Cluster, watches: ProviderWatches, options: ProviderOptions
    ) -> None:
        self._options = options
        self._cluster = cluster.name
        self._client = cluster.client
        self._statuses = StatusWriter(
            cluster.client, CLUSTERBINDINGS, cluster.events(NAME), status_events
        )
        self._watches = watches
        self._messages: dict[Key, str] = {}
        self.controller = in_turns(NAME, self.reconcile)
        self.controller.watch(watches.cluster_bindings, cluster=cluster.name)
        self.controller.watch(watches.exports, self._from_export)

    async def reconcile(self, key: Request) -> Result:
        """Judge one konnector by its last heartbeat."""
        binding = self._watches.cluster_bindings.get(key.namespace, key.name)
        if binding is None or binding.meta.deleting:
            self._messages.pop(Key(key.namespace, key.name), None)
            return Result()
        plan = reconcile(binding, now=moment())
        await self._statuses.write(binding, plan.status)
        if not self._options.original_konnectors:
            await self._warn(binding)
        return Result(plan.requeue_after)

    async def _warn(self, binding: Object) -> None:
        """Log the rights that an original konnector lacks, once and again after a change.

        The server is asked who wrote the heartbeat, since caches keep no managedFields; and only
        where the answer matters.
        """
        exports = [one for one in self._settled(binding) if unwatchable(one, self._granted)]
        warnings: list[str] = []
        if exports:
            meta = binding.meta
            live = await find(self._client, CLUSTERBINDINGS, meta.name, meta.namespace)
            if live is not None:
                warnings = [shortcoming(live, export, self._granted) for export in exports]
        message = "; ".join(filter(None, warnings))
        # Each heartbeat leads here again.
        if message and message != self._messages.get(binding.key):
            _log.warning(
                "a konnector lacks rights", consumer=binding.meta.namespace, problem=message
            )
        self._messages[binding.key] = message

    def _settled(self, binding: Object) -> list[Object]:
        """Return the consumer's exports whose rights are granted; others may follow soon."""
        exports = self._watches.exports.list(binding.meta.namespace)
        return [one for one in exports if is_true(stored_conditions(one), PERMISSIONS_GRANTED)]

    def _granted(self, name: str) -> bool:
        return self._watches.cluster_role_bindings.get("", name) is not None

    def _from_export(self, delta: Delta) -> Iterator[Request]:
        yield Request(self._cluster, delta.object.meta.namespace, CLUSTER_BINDING_NAME)
