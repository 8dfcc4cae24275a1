"""Undoes the writes of a bind that did not come to its end.

A bind that fails or is stopped leaves neither rights nor an unused kubeconfig. Objects of an
earlier run that was killed count as its own while the binding owns no CRD: then it has no objects.
A binding with objects stays, and so do objects that other bindings use as well: kube-bind's CRDs
and the konnector's namespace.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fairlead.api.kubebind import (
    APISERVICEBINDINGBUNDLES,
    APISERVICEBINDINGS,
    APIServiceBinding,
    ClusterSecretKeyRef,
)
from fairlead.api.kubebind.conditions import READY, is_true
from fairlead.api.meta import Key, Object
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS
from fairlead.client import Client, ClientError, Conflict
from fairlead.client.lookups import WaitTimeout, find_custom, wait_for
from fairlead.konnector.commands.consumer_objects import (
    MANAGED_BY,
    MANAGER,
    delete,
    remove_roles,
    remove_secret,
    restore_role,
)
from fairlead.konnector.commands.request import Progress, withdraw
from fairlead.konnector.commands.unbind import bindings_of, impact


UNDO_SECONDS = 30.0
"""Seconds that undoing may take, most of which is waiting for a konnector."""
LET_GO_SECONDS = UNDO_SECONDS / 2
"""Seconds that a konnector may take to release a binding."""


class Written:
    """Writes of one run of bind, those in doubt included.

    Args:
        secret: the Secret for the provider's kubeconfig.
        bundle: name of the bundle that is to be, "" for none.
    """

    def __init__(self, secret: ClusterSecretKeyRef, bundle: str = "") -> None:
        self.secret = secret
        self.bundle = bundle
        self.begun = False
        """Whether a write to the consumer's cluster may have been made."""
        self.names: list[str] = []
        """Names of the wanted bindings."""
        self.uids: set[str] = set()
        """uids of the created bindings and the created bundle."""
        self.roles: list[Object] = []
        """Changed ClusterRoles, as they were before."""
        self.requests: list[Object] = []
        """APIServiceExportRequests that were created on the provider."""


@asynccontextmanager
async def undone_on_failure(
    client: Client, provider: Client, written: Written, progress: Progress
) -> AsyncIterator[None]:
    """Undo the writes if the block is left by an error, or is cancelled.

    Args:
        client: a client of the consumer's cluster.
        provider: with the consumer's credentials.
        written: filled by the block.
        progress: called with each undone write, and with each failure.
    """
    try:
        yield
    except BaseException:
        # Also on cancellation, as when a person stops the command.
        await _take_back(client, provider, written, progress)
        raise


async def _take_back(
    client: Client, provider: Client, written: Written, progress: Progress
) -> None:
    if not (written.names or written.begun):
        return
    progress("taking back what was written")
    try:
        async with asyncio.timeout(UNDO_SECONDS):
            await _Undo(client, written, progress).run()
            await _withdraw(provider, written, progress)
    except TimeoutError:
        progress(f"not everything was taken back within {UNDO_SECONDS:g} s: {_again(written)}")
    except ClientError as error:
        progress(f"not everything was taken back: {error}; {_again(written)}")


def _again(written: Written) -> str:
    names = " and ".join(f"`fairlead unbind {name}`" for name in written.names)
    return f"{names} removes what is left" if names else "binding again does it"


async def _withdraw(provider: Client, written: Written, progress: Progress) -> None:
    for request in written.requests:
        if await withdraw(provider, request):
            progress(f"withdrew the request {request.meta.name} from the provider")


class _Undo:
    """One pass over all possible writes of a run in the consumer's cluster."""

    def __init__(self, client: Client, written: Written, progress: Progress) -> None:
        self._client = client
        self._written = written
        self._progress = progress

    async def run(self) -> None:
        """Undo bindings first: a konnector needs its rights and the Secret to release them."""
        written = self._written
        if written.bundle:
            await self._remove_bundle(written.bundle)
        for name in written.names:
            if await self._remove_binding(name):
                await remove_roles(self._client, name, self._progress)
        for before in written.roles:
            await restore_role(self._client, before, self._progress)
        secret = Key(written.secret.namespace, written.secret.name)
        await remove_secret(self._client, secret, self._progress)

    async def _remove_bundle(self, name: str) -> None:
        """Delete the bundle with its bindings, unless one of them has objects."""
        found = await find_custom(self._client, APISERVICEBINDINGBUNDLES, name)
        if found is None or found.meta.uid not in self._written.uids:
            return
        owned = await bindings_of(self._client, found)
        # Each binding is looked at, for each one with objects is reported as kept.
        if any([await self._lives(one) for one in owned]):
            return
        await delete(self._client, APISERVICEBINDINGBUNDLES, found)
        self._progress(f"deleted {found.kind} {name}")
        for one in owned:
            await self._remove(one)

    async def _remove_binding(self, name: str) -> bool:
        """Delete a binding unless it is in use; return whether there is none left."""
        found = await find_custom(self._client, APISERVICEBINDINGS, name)
        if found is None:
            return True
        ours = found.meta.uid in self._written.uids
        unfinished = found.meta.labels.get(MANAGED_BY) == MANAGER and not await self._has_crds(
            found
        )
        if not (ours or unfinished) or await self._lives(found):
            return False
        return await self._remove(found)

    async def _lives(self, binding: Object) -> bool:
        """Whether a binding is Ready or has objects, so that it may be in use."""
        if is_true(binding.decode(APIServiceBinding).status.conditions, READY):
            return True
        name = binding.meta.name
        count = (await impact(self._client, name)).objects
        if count:
            number = "1 object was" if count == 1 else f"{count} objects were"
            self._progress(
                f"kept APIServiceBinding {name}, for {number} created meanwhile: "
                f"`fairlead unbind {name}` takes all of it back"
            )
        return bool(count)

    async def _has_crds(self, binding: Object) -> bool:
        crds = await self._client.list(CUSTOMRESOURCEDEFINITIONS, metadata_only=True)
        return any(crd.meta.owned_by(binding.meta.uid) for crd in crds.items)

    async def _remove(self, binding: Object) -> bool:
        """Delete a binding and wait until it is gone, which may need a konnector."""
        name, uid = binding.meta.name, binding.meta.uid
        try:
            await delete(self._client, APISERVICEBINDINGS, binding)
        except Conflict:
            return False

        def there(found: Object | None) -> str:
            return "" if found is None or found.meta.uid != uid else "it is there"

        try:
            await wait_for(
                self._client, APISERVICEBINDINGS, name, until=there, timeout=LET_GO_SECONDS
            )
        except WaitTimeout:
            self._progress(
                f"APIServiceBinding {name} waits for the konnector to let go of it: "
                f"`fairlead unbind {name}` goes on waiting, and removes its rights"
            )
            return False
        self._progress(f"deleted APIServiceBinding {name}")
        return True
