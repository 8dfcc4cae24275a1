"""Deletes objects for commands, waits for their end, and shows what is left and who holds it.

Taking away is the one work of which commands do a part themselves, with the rights of the person
who runs them. ``fairlead.api.remains`` has the words.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress

from fairlead.api.definitions import lossless_resource
from fairlead.api.kubebind import GROUP
from fairlead.api.meta import JSON, Object
from fairlead.api.remains import remaining_text
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS, NAMESPACES, Resource
from fairlead.client import Client, Conflict, NotFound, limits
from fairlead.client.lookups import Unseen, look_at
from fairlead.runtime.writes import commit, remove_finalizer


Progress = Callable[[str], None]


class Removal:
    """Operations on the cluster that report their progress.

    ``waiting`` names the objects that are being waited for. ``unseen`` has the errors of kinds
    whose last list failed, by plural and group.
    """

    def __init__(self, client: Client, progress: Progress) -> None:
        self.client = client
        self.progress = progress
        self.waiting = ""
        self._since = 0.0
        self._shown = ""
        self.unseen: dict[str, str] = {}
        self._reported: dict[str, str] = {}
        self._lossy: dict[str, str] = {}

    async def kinds(self, *, namespaced: bool) -> list[Resource]:
        """Return all served custom resources, whether they are exported or not."""
        kinds: list[Resource] = []
        for crd in (await self.client.list(CUSTOMRESOURCEDEFINITIONS)).items:
            resource, why = lossless_resource(crd)
            if resource and why:
                self._lossy[resource.group_resource] = f"objects would lose fields: {why}"
            if resource and resource.group != GROUP and resource.namespaced == namespaced:
                kinds.append(resource)
        return sorted(kinds)

    async def list_objects(self, resource: Resource, namespace: str = "") -> list[Object]:
        """Return the objects of a kind.

        [] if the list failed, and fewer where a write would take fields from some; ``unseen``
        records both.
        """
        kind = resource.group_resource
        try:
            found_objects = await look_at(self.client, resource, namespace)
        except Unseen as error:
            return self._left(kind, f"not checked: {error}", error.why)
        if why := self._lossy.get(kind):
            # Their controllers need the fields, to take away what is behind an object. One that
            # goes with its last finalizer has no use for them.
            going = [
                obj for obj in found_objects if obj.meta.deleting and len(obj.meta.finalizers) == 1
            ]
            if len(going) < len(found_objects):
                return self._left(kind, f"left alone: {kind}: {why}", why) + going
        self.unseen.pop(kind, None)
        return found_objects

    def _left(self, kind: str, message: str, why: str) -> list[Object]:
        if self._reported.get(kind) != why:
            self.progress(message)
        self._reported[kind] = self.unseen[kind] = why
        return []

    async def list(self, resource: Resource, namespace: str = "") -> list[Object]:
        """Return the metadata of all objects of a kind; [] if the kind is not served any more."""
        try:
            return (await self.client.list(resource, namespace, metadata_only=True)).items
        except NotFound:
            return []

    async def going(self) -> set[str]:
        """Return the names of the namespaces that are being deleted."""
        return {one.meta.name for one in await self.list(NAMESPACES) if one.meta.deleting}

    async def delete(self, resource: Resource, objects: Iterable[Object]) -> int:
        """Delete these very objects; return how many of them were not being deleted yet."""
        due = [obj for obj in objects if not obj.meta.deleting]

        async def delete_object(obj: Object) -> None:
            meta = obj.meta
            with suppress(NotFound, Conflict):
                await self.client.delete(resource, meta.name, meta.namespace, uid=meta.uid)

        await each(due, delete_object)
        return len(due)

    async def change(
        self,
        resource: Resource,
        objects: Iterable[Object],
        body: Callable[[Object], JSON | None],
    ) -> int:
        """Write objects with a body made from their fresh state; return the number of writes.

        An object for which ``body`` returns None is not written.
        """
        changed = 0

        async def change_object(obj: Object) -> None:
            nonlocal changed
            new = body(obj)
            if new is not None:
                written = await commit(self.client, resource, obj, new)
                # An unchanged body sends no request.
                changed += written is not obj

        await self._each_fresh(resource, objects, change_object)
        return changed

    async def let_go(self, resource: Resource, objects: Iterable[Object], *finalizers: str) -> int:
        """Remove finalizers from objects, deleted or not; return how many had one."""
        number = 0

        async def release(obj: Object) -> None:
            nonlocal number
            number += await remove_finalizer(self.client, resource, obj, *finalizers)

        await self._each_fresh(resource, objects, release)
        return number

    async def _each_fresh(
        self,
        resource: Resource,
        objects: Iterable[Object],
        write: Callable[[Object], Awaitable[None]],
    ) -> None:
        """Apply a write to the fresh state of each object, again after a conflict."""

        async def delete_fresh(obj: Object) -> None:
            while True:
                try:
                    await write(await self.client.get(resource, obj.meta.name, obj.meta.namespace))
                except Conflict:
                    continue
                except NotFound:
                    # It was deleted, perhaps between the read and the write.
                    pass
                return

        await each(list(objects), delete_fresh)

    async def gone(self, list_objects: Callable[[], Awaitable[Sequence[Object]]]) -> None:
        """Wait until ``list_objects`` finds no objects; report those left after some seconds."""
        while left := await list_objects():
            await self.wait(remaining_text(left))
        self.waiting = ""

    async def wait(self, text: str) -> None:
        """Wait a moment for what a text names; report it once it has been awaited for a while."""
        now = asyncio.get_running_loop().time()
        # ``waiting`` has the text at once: a timeout may come at any moment.
        if not self.waiting:
            self._since = now
        self.waiting = text
        if now - self._since > limits.QUIET_REMOVAL_SECONDS and text != self._shown:
            self._shown = text
            self.progress(f"waiting for {text}")
        await asyncio.sleep(limits.REMOVAL_PAUSE_SECONDS)


async def each(objects: Sequence[Object], act: Callable[[Object], Awaitable[None]]) -> None:
    """Call ``act`` for each object, several at a time; a failure does not stop the others.

    Raises:
        Exception: the first that failed did so with it.
    """
    free = asyncio.Semaphore(limits.REMOVALS_AT_ONCE)

    async def guarded(obj: Object) -> None:
        async with free:
            await act(obj)

    results = await asyncio.gather(*map(guarded, objects), return_exceptions=True)
    # A failure of one object does not keep the others from being done.
    for result in results:
        if result is not None:
            raise result
