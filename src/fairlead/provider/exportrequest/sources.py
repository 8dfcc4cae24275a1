"""The CRDs that requests ask for: as watched, and now and then as the server has them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from fairlead.api.kubebind import LABEL_EXPORTED
from fairlead.api.meta import Object
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS
from fairlead.client import Client
from fairlead.client.lookups import find
from fairlead.provider.watches import Watches
from fairlead.runtime import Request


class Sources:
    """Finds CRDs that are labelled for export.

    Watches tell of every change at once. Requests that follow their CRDs do not rely on it: every
    ``interval`` seconds the server itself is asked.
    """

    def __init__(self, client: Client, watches: Watches, interval: float) -> None:
        self._client = client
        self._watches = watches
        self._interval = interval
        self._looked: dict[Request, float] = {}
        self._fetched: dict[str, Object] = {}

    async def find(self, key: Request, names: Iterable[str], *, follow: bool) -> dict[str, Object]:
        """The CRDs of these names, by name.

        Raises:
            ClientError: it was time to ask the server, which gave no answer.
        """
        wanted = list(names)
        if follow and self._due(key):
            for name in wanted:
                await self._fetch(name)
        found: dict[str, Object] = {}
        for name in wanted:
            cached = self._watches.crds.get("", name)
            if (newest := self._newest(name, cached)) is not None:
                found[name] = newest
        return found

    def forget(self, key: Request) -> None:
        """The request is gone."""
        self._looked.pop(key, None)

    def _due(self, key: Request) -> bool:
        """Whether to ask the server; what the watch listed at first needs no second look."""
        now = asyncio.get_running_loop().time()
        if now - self._looked.setdefault(key, now) < self._interval:
            return False
        self._looked[key] = now
        return True

    async def _fetch(self, name: str) -> None:
        found = await find(self._client, CUSTOMRESOURCEDEFINITIONS, name)
        if found is None:
            self._fetched.pop(name, None)
        else:
            self._fetched[name] = found

    def _newest(self, name: str, cached: Object | None) -> Object | None:
        """What was fetched, where the watch has not come as far."""
        fetched = self._fetched.get(name)
        if cached is None or fetched is None or fetched.meta.uid != cached.meta.uid:
            return cached
        if fetched.meta.generation <= cached.meta.generation:
            del self._fetched[name]
            return cached
        return fetched if fetched.meta.labels.get(LABEL_EXPORTED) == "true" else None
