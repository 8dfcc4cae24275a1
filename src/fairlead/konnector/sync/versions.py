"""Versions in which a provider serves a kind that it does not serve in the bound one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from fairlead.client.errors import ClientError, NotFound
from fairlead.konnector.sync.ends import WatchedCollection


ASKED_SECONDS = 30.0
"""Seconds between questions about one kind."""


class ServedVersions:
    """Versions of the kind on the provider by discovery, while its watches find nothing.

    ``others`` are the served versions, none if the bound one is among them.
    """

    def __init__(self, end: WatchedCollection) -> None:
        self.others: Sequence[str] = ()
        self._end = end
        self._discovered = float("-inf")

    async def discover(self) -> None:
        """Ask discovery which versions are served, while a watch finds none.

        It is asked once in :data:`ASKED_SECONDS`.
        """
        if not any(isinstance(fault.cause, NotFound) for fault in self._end.faults()):
            self.others, self._discovered = (), float("-inf")
            return
        now = asyncio.get_running_loop().time()
        if now - self._discovered < ASKED_SECONDS:
            return
        self._discovered = now
        resource, discovery = self._end.resource, self._end.client.discovery
        # The cached answer about a group may be older than the change.
        discovery.invalidate()
        with suppress(ClientError):
            versions = await discovery.versions_of(resource.group, resource.plural)
            self.others = () if resource.version in versions else tuple(versions)

    def remedy(self) -> str:
        """Return the fault, and the remedy for the provider's administrator."""
        resource, namespace = self._end.resource, self._end.client.config.namespace
        name, version = resource.group_resource, resource.version
        return (
            f"the provider no longer serves version {version} of {name}, which is bound here, "
            f"but {', '.join(self.others)}: its administrator has to serve {version} again, or "
            f"to let this binding follow: after `kubectl delete boundschema {name} -n "
            f"{namespace}` on the provider, its controllers create the schema again from its "
            "CustomResourceDefinition"
        )
