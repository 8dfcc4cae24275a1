"""Somebody who has nothing to do with programs, and notes each change that a server tells of."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fairlead.api.meta import Key, Object
from fairlead.api.resource import Resource
from fairlead.client import Client


class Witness:
    """All versions of all objects of one resource, since it began to look."""

    def __init__(self, client: Client, resource: Resource) -> None:
        self.seen: defaultdict[Key, list[Object]] = defaultdict(list)
        self._client = client
        self._resource = resource

    async def run(self, version: str) -> None:
        """Note everything until cancelled."""
        while True:
            async for event in self._client.watch(self._resource, resource_version=version):
                version = event.object.meta.resource_version
                if event.type != "BOOKMARK":
                    self.seen[event.object.key].append(event.object)

    def uids(self, key: Key) -> set[str]:
        """The objects that there were of a name; more than one where it was made anew."""
        return {one.meta.uid for one in self.seen[key]}


@asynccontextmanager
async def witness(client: Client, resource: Resource) -> AsyncIterator[Witness]:
    """One that looks as long as the block lasts."""
    found = Witness(client, resource)
    version = (await client.list(resource)).resource_version
    async with asyncio.TaskGroup() as group:
        task = group.create_task(found.run(version))
        try:
            yield found
        finally:
            task.cancel()
