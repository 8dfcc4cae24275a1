"""Lets provider namespaces go, one look after the other, until nothing of the consumer remains."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from fairlead.api.kubebind.conditions import Condition
from fairlead.api.meta import Key, Object
from fairlead.api.resource import NAMESPACES
from fairlead.client import Client, NotFound
from fairlead.client.lookups import find
from fairlead.provider.namespace.leaving import Leaving, Plan, leave
from fairlead.provider.namespace.reconcile import belongs, usable
from fairlead.provider.namespace.remains import remains
from fairlead.provider.options import ProviderOptions
from fairlead.runtime import Backoff, BackoffPolicy


LOOK_AGAIN = BackoffPolicy(initial=5.0, maximum=60.0, factor=1.5)
"""Nobody tells when synced objects go: their kinds are not watched here."""


class Departure:
    """Asks the server, and it alone, what stands in the way of a provider namespace's end."""

    def __init__(self, client: Client, options: ProviderOptions) -> None:
        self._client = client
        self._options = options
        self._looks: dict[Key, Backoff] = {}
        self._told: dict[Key, tuple[str, str]] = {}

    async def proceed(self, key: Key, names: Iterable[str]) -> Plan:
        """Delete what may be deleted of the namespaces that belong to an APIServiceNamespace.

        Raises:
            ClientError: the server did not say what is there, or refused.
        """
        found = [one for name in sorted(set(names)) if (one := await self._find(key, name))]
        plan = leave(found)
        for namespace in plan.delete:
            await self._delete(namespace)
        return plan

    def again(self, key: Key, plan: Plan) -> float | None:
        """After how many seconds to look again; None when events will tell."""
        if not plan.held:
            self._looks.pop(key, None)
            return None
        backoff = self._looks.setdefault(key, Backoff(LOOK_AGAIN))
        return backoff.failed(asyncio.get_running_loop().time())

    def forget(self, key: Key) -> None:
        """The APIServiceNamespace is there to stay, or nothing of it is left."""
        self._looks.pop(key, None)
        self._told.pop(key, None)

    def news(self, key: Key, plan: Plan) -> list[tuple[Object, Condition]]:
        """The namespaces that are kept for another reason than when this was last asked."""
        if not plan.held:
            self._told.pop(key, None)
            return []
        state = (plan.held[0][0].meta.uid, plan.held[0][1].reason)
        if self._told.get(key) == state:
            return []
        self._told[key] = state
        return plan.held

    async def _find(self, key: Key, name: str) -> Leaving | None:
        """A namespace and what is in it, if it is there and ours."""
        namespace = await find(self._client, NAMESPACES, name)
        if namespace is None:
            return None
        if not belongs(namespace, key) or not usable(namespace, self._options):
            return None
        if namespace.meta.deleting:
            return Leaving(namespace, None)
        return Leaving(namespace, await remains(self._client, name, key.namespace))

    async def _delete(self, namespace: Object) -> None:
        """Delete a namespace that is as it was when it was found to be ours."""
        try:
            await self._client.delete(
                NAMESPACES,
                namespace.meta.name,
                uid=namespace.meta.uid,
                resource_version=namespace.meta.resource_version,
            )
        except NotFound:
            return
