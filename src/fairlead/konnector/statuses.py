"""Writes of APIServiceBindings' statuses by several controllers, without conflicts among them."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable

import msgspec

from fairlead.api.kubebind import APISERVICEBINDINGS, APIServiceBinding, BindingStatus
from fairlead.api.kubebind.conditions import KubeBindCondition, set_conditions, status_events
from fairlead.api.meta import JSON, Key, Object
from fairlead.api.timestamps import now
from fairlead.client import Client
from fairlead.client.errors import Conflict, NotFound
from fairlead.runtime import EventRecorder, Informer, StatusWriter
from fairlead.runtime.cache.expectations import Expectations


_ATTEMPTS = 5
"""Writes of one status that may lose to other writers in a row."""


def with_status(obj: Object, status: msgspec.Struct) -> JSON:
    """Return the object's body with a typed status over the stored one; unknown fields stay."""
    body = obj.to_dict()
    return {**body, "status": {**body.get("status", {}), **msgspec.to_builtins(status)}}


class BindingStatuses:
    """The one writer of APIServiceBindings' status in this process.

    What was written is remembered until the informer has seen it, so that two controllers that
    write after one another do not conflict.
    """

    def __init__(self, client: Client, bindings: Informer, events: EventRecorder) -> None:
        self._client = client
        self._bindings = bindings
        self._writer = StatusWriter(client, APISERVICEBINDINGS, events, status_events)
        self._expectations = Expectations()
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def update(
        self, name: str, change: Callable[[APIServiceBinding], BindingStatus]
    ) -> None:
        """Update a binding's status by ``change``; a binding that is gone is left alone.

        Raises:
            ClientError: the status cannot be written.
        """
        async with self._locks[name]:
            for _ in range(_ATTEMPTS):
                obj = self._expectations.newest(Key("", name), self._bindings.get("", name))
                if obj is None:
                    return
                try:
                    await self._write(obj, change)
                except Conflict:
                    await self._refresh(name)
                else:
                    return
            raise TimeoutError(f"status of APIServiceBinding {name} keeps changing")

    async def set(
        self, name: str, *conditions: KubeBindCondition, absent: Iterable[str] = ()
    ) -> None:
        """Set conditions of a binding and their summary; remove those of ``absent`` types.

        Raises:
            ClientError: the status cannot be written.
        """
        gone = frozenset(absent)

        def change(binding: APIServiceBinding) -> BindingStatus:
            old = binding.status
            remaining = [one for one in old.conditions if one.type not in gone]
            if not remaining and not conditions:
                return old
            new = set_conditions(remaining, *conditions, now=now(), summary=True)
            return msgspec.structs.replace(old, conditions=new)

        await self.update(name, change)

    async def _write(
        self, obj: Object, change: Callable[[APIServiceBinding], BindingStatus]
    ) -> None:
        body = with_status(obj, change(obj.decode(APIServiceBinding)))
        written = await self._writer.write(obj, body)
        if written is not obj:
            self._expectations.wrote(written)

    async def _refresh(self, name: str) -> None:
        try:
            # The cache may lack the version that the write has lost to: the version that was read
            # counts until then.
            self._expectations.wrote(await self._client.get(APISERVICEBINDINGS, name))
        except NotFound:
            self._expectations.forget(Key("", name))
