"""Takes back what a bind by kbind v2 has written that did not come to its end.

Objects of an earlier run that was killed count as its own while nothing has been synchronised by
them. A binding with objects stays, and so does a Connection that another binding names. Roles go
after their binding, for the konnector needs them to release it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fairlead.api.kbind import Connection
from fairlead.api.kbind.bindfile import BindFile, key_of, secret_key
from fairlead.api.kbind.names import CLUSTERBINDINGS, CONNECTIONS
from fairlead.api.meta import JSON, Key, Object
from fairlead.api.resource import SECRETS
from fairlead.client import Client, ClientError, Conflict
from fairlead.client.lookups import find
from fairlead.konnector.commands.consumer_objects import (
    MANAGED_BY,
    MANAGER,
    ChangedRole,
    delete,
    restore_role,
)
from fairlead.konnector.commands.readiness import Deadline, WaitOptions
from fairlead.konnector.commands.request import BindError, Progress
from fairlead.konnector.commands.undo import LET_GO_SECONDS, UNDO_SECONDS
from fairlead.konnector.commands.v2.estate import (
    has_crds,
    impact,
    naming,
    remove_roles,
    remove_secret,
    users_of,
)
from fairlead.konnector.commands.v2.plan import RESOURCES
from fairlead.konnector.commands.v2.targets import KbindTarget, target_of
from fairlead.konnector.commands.v2.waiting import until_gone


class BindWrites:
    """Writes of one run, including those whose answer never came."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self.file: BindFile | None = None
        """The objects that are written; None before the first write."""
        self.uids: set[str] = set()
        """uids of created objects."""
        self.roles: list[ChangedRole] = []
        """Roles that were there, and were changed."""


@asynccontextmanager
async def undone_on_failure(
    client: Client, written: BindWrites, progress: Progress
) -> AsyncIterator[None]:
    """Take the writes back if the block is left by an error, or is cancelled."""
    try:
        yield
    except BaseException:
        # Also on cancellation, as when a person stops the command.
        if written.file is not None:
            await _take_back(client, written, written.file, progress)
        raise


async def _take_back(
    client: Client, written: BindWrites, file: BindFile, progress: Progress
) -> None:
    progress("removing what was written")
    targets = [
        KbindTarget(RESOURCES[body["kind"]], key_of(body))
        for body in (*file.bindings, *file.connections)
    ]
    commands = " and ".join(f"`fairlead unbind {target.text}`" for target in targets)
    again = f"{commands} removes what is left"
    try:
        async with asyncio.timeout(UNDO_SECONDS):
            await _Undo(client, written, file, progress).run()
    except TimeoutError:
        progress(f"not everything was removed within {UNDO_SECONDS:g} s: {again}")
    except ClientError as error:
        progress(f"not everything was removed: {error}; {again}")


class _Undo:
    """One pass over all possible writes of a run."""

    def __init__(
        self, client: Client, written: BindWrites, file: BindFile, progress: Progress
    ) -> None:
        self._client = client
        self._written = written
        self._file = file
        self._progress = progress

    async def run(self) -> None:
        bindings = [await self._delete_binding(body) for body in self._file.bindings]
        connections = [await self._delete_connection(body) for body in self._file.connections]
        bindings += [await self._automatic(body) for body in self._file.connections]
        for target, obj in (*bindings, *connections):
            if obj is None or await self._is_gone(target, obj):
                await remove_roles(self._client, target, self._progress)
        for (_, obj), body in zip(connections, self._file.connections, strict=True):
            if obj is not None:
                await self._remove_secret(secret_key(body))
        for changed in self._written.roles:
            await restore_role(self._client, changed, self._progress)

    async def _delete_binding(self, body: JSON) -> tuple[KbindTarget, Object | None]:
        """Delete a binding that is not in use; None if it is not there, else the object."""
        target = KbindTarget(RESOURCES[body["kind"]], key_of(body))
        obj = await find(self._client, target.resource, target.key.name, target.key.namespace)
        if obj is None or not await self._is_ours(obj) or await self._lives(obj):
            return target, obj
        await self._delete(obj)
        return target, obj

    async def _delete_connection(self, body: JSON) -> tuple[KbindTarget, Object | None]:
        target = KbindTarget(CONNECTIONS, key_of(body))
        obj = await find(self._client, CONNECTIONS, target.key.name)
        if obj is None or not await self._is_ours(obj):
            return target, obj
        others = await naming(self._client, [target.key.name])
        # The ClusterBinding of autoBind goes with its Connection.
        if all(one.meta.deleting or one.meta.controller() is not None for one in others):
            await self._delete(obj)
        return target, obj

    async def _automatic(self, connection: JSON) -> tuple[KbindTarget, Object | None]:
        """Return the ClusterBinding that a konnector makes for a Connection with autoBind."""
        target = KbindTarget(CLUSTERBINDINGS, key_of(connection))
        return target, await find(self._client, CLUSTERBINDINGS, target.key.name)

    async def _is_ours(self, obj: Object) -> bool:
        """Whether this run has made an object, or one that was killed before it was in use."""
        if obj.meta.uid in self._written.uids:
            return True
        if obj.meta.labels.get(MANAGED_BY) != MANAGER:
            return False
        if obj.kind == CONNECTIONS.kind:
            return not obj.decode(Connection).status.remote_cluster_uid
        return not await has_crds(self._client, obj)

    async def _lives(self, binding: Object) -> bool:
        """Whether a binding has objects, so that it may be in use."""
        count = (await impact(self._client, [binding])).copies
        if count:
            number = "1 object was" if count == 1 else f"{count} objects were"
            self._progress(
                f"kept {binding.kind} {binding.key}, for {number} synchronised meanwhile: "
                f"`fairlead unbind {target_of(binding).text}` removes everything"
            )
        return bool(count)

    async def _delete(self, obj: Object) -> None:
        try:
            await delete(self._client, RESOURCES[obj.kind], obj)
        except Conflict:
            # Another object has the name by now, which is not this run's.
            return

    async def _is_gone(self, target: KbindTarget, obj: Object) -> bool:
        """Whether an object that was deleted is gone in time; a konnector may hold it."""
        place, name = target.key
        current = await find(self._client, target.resource, name, place)
        if current is None or current.meta.uid != obj.meta.uid:
            return current is None
        if not current.meta.deleting:
            return False
        waiting = WaitOptions(
            self._client, Deadline(LET_GO_SECONDS), self._progress, self._written.namespace
        )
        try:
            await until_gone(waiting, target, obj.meta.uid)
        except BindError as error:
            self._progress(str(error))
            return False
        return True

    async def _remove_secret(self, key: Key) -> None:
        """Delete the Secret of a Connection that is gone."""
        secret = await find(self._client, SECRETS, key.name, key.namespace)
        if secret is not None and not await users_of(self._client, key):
            await remove_secret(self._client, secret, self._progress)
