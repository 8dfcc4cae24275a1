"""Writes of APIServiceBindings' statuses by several controllers, without conflicts among them."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable

import msgspec

from fairlead.api.kubebind import APISERVICEBINDINGS, APIServiceBinding, BindingStatus
from fairlead.api.kubebind.conditions import KubeBindCondition, set_conditions, status_events
from fairlead.api.meta import JSON, Key, Object
from fairlead.api.resource import Resource
from fairlead.api.timestamps import now
from fairlead.client import Client
from fairlead.client.errors import Conflict
from fairlead.client.lookups import find
from fairlead.runtime import EventRecorder, Informer, StatusWriter
from fairlead.runtime.cache.expectations import Expectations


_ATTEMPTS = 5
"""Writes of one status that may lose to other writers in a row."""


def with_status(obj: Object, status: msgspec.Struct) -> JSON:
    """Return the object's body with a typed status over the stored one; unknown fields stay."""
    body = obj.to_dict()
    return {**body, "status": {**body.get("status", {}), **msgspec.to_builtins(status)}}


def with_whole_status(obj: Object, status: msgspec.Struct) -> JSON:
    """Return the object's body with a typed status, of which an empty field keeps no former value.

    Unknown fields stay.
    """
    fields = {field.encode_name for field in msgspec.structs.fields(status)}
    body = obj.to_dict()
    others = {name: value for name, value in body.get("status", {}).items() if name not in fields}
    return {**body, "status": others | msgspec.to_builtins(status)}


async def refresh(written: Expectations, client: Client, resource: Resource, key: Key) -> None:
    """Have the server's version of an object count, to which a write has lost.

    The cache may lack it still: it counts until then.
    """
    latest = await find(client, resource, key.name, key.namespace)
    if latest is None:
        written.forget(key)
    else:
        written.wrote(latest)


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
                    key = Key("", name)
                    await refresh(self._expectations, self._client, APISERVICEBINDINGS, key)
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
