"""Whether the provider itself says that an export is gone."""

from __future__ import annotations

import asyncio
import math

from fairlead.api.kubebind import APISERVICEEXPORTS, CLUSTER_BINDING_NAME, CLUSTERBINDINGS
from fairlead.client.lookups import find
from fairlead.konnector.consumer import Provider


LOOKS = 2
"""So many in a row must find an export gone; ``interval`` seconds lie between them."""


class Absence:
    """The looks at the exports that one bundle misses."""

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._looks: dict[str, tuple[int, float]] = {}

    def keep(self, names: list[str]) -> None:
        """These are missed; whatever else was has been seen again, and begins anew."""
        self._looks = {name: found for name, found in self._looks.items() if name in names}

    async def confirmed(self, provider: Provider, name: str) -> bool:
        """Whether an export is gone for certain; a look that comes too soon does not count.

        Raises:
            ClientError: the provider says nothing about this export; the looks begin anew.
        """
        now = asyncio.get_running_loop().time()
        # The first look is due at any time: before all clocks.
        count, last = self._looks.get(name, (0, -math.inf))
        if now - last < self._interval:
            return False
        self._looks.pop(name, None)
        if not await self._gone(provider, name):
            return False
        self._looks[name] = (count + 1, now)
        return count + 1 >= LOOKS

    async def _gone(self, provider: Provider, name: str) -> bool:
        if await find(provider.client, APISERVICEEXPORTS, name, provider.namespace) is not None:
            return False
        # A cluster namespace that goes takes all exports with it: nobody has ended this one.
        tie = await provider.client.get(CLUSTERBINDINGS, CLUSTER_BINDING_NAME, provider.namespace)
        return not tie.meta.deleting
