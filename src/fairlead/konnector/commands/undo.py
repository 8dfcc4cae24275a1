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
from fairlead.api.meta import Object
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS, SECRETS
from fairlead.client import Client, ClientError, Conflict
from fairlead.client.lookups import find, find_custom, list_all
from fairlead.konnector.commands.consumer_objects import (
    MANAGED_BY,
    MANAGER,
    ChangedRole,
    delete,
    remove_roles,
    remove_secret,
    restore_role,
)
from fairlead.konnector.commands.estate import Estate
from fairlead.konnector.commands.readiness import Deadline, WaitOptions
from fairlead.konnector.commands.request import Progress, withdraw
from fairlead.konnector.commands.unbind import UnbindError, await_end, bindings_of, impact


UNDO_SECONDS = 30.0
"""Seconds that undoing may take, most of which is waiting for a konnector."""
LET_GO_SECONDS = UNDO_SECONDS / 2
"""Seconds that a konnector may take to release a binding."""


class Written:
    """Writes of one run of bind, including writes whose answer never came.

    Args:
        secret: the Secret for the provider's kubeconfig.
        bundle: name of the bundle that is to be, "" for none.
    """

    def __init__(self, secret: ClusterSecretKeyRef, bundle: str = "") -> None:
        self.secret = secret
        self.bundle = bundle
        self.begun = False
        """Whether the run may have written to the consumer's cluster."""
        self.names: list[str] = []
        """Names of the wanted bindings."""
        self.uids: set[str] = set()
        """uids of the created bindings and the created bundle."""
        self.roles: list[ChangedRole] = []
        """Changed ClusterRoles."""
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
    progress("removing what was written")
    try:
        async with asyncio.timeout(UNDO_SECONDS):
            await _Undo(client, written, progress).run()
            await _withdraw(provider, written, progress)
    except TimeoutError:
        progress(f"not everything was removed within {UNDO_SECONDS:g} s: {_again(written)}")
    except ClientError as error:
        progress(f"not everything was removed: {error}; {_again(written)}")


def _again(written: Written) -> str:
    names = " and ".join(f"`fairlead unbind {name}`" for name in written.names)
    return f"{names} removes what is left" if names else "bind again to remove the rest"


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
        self._estate = Estate(client, progress)

    async def run(self) -> None:
        """Name the owners of rights and Secret, delete all bindings, and only then wait.

        Rights and Secret go after the bindings: a konnector needs them to release these.
        """
        written = self._written
        leaving = [*await self._bundled(), *await self._bindings()]
        await self._estate.bequeath(leaving)
        deleted = [one for one in leaving if await self._delete(one)]
        there = {one.meta.name for one in await list_all(self._client, APISERVICEBINDINGS)}
        for obj in deleted:
            if obj.kind == APISERVICEBINDINGS.kind and await self._gone(obj):
                await self._estate.remove_roles(obj.meta.name)
                there.discard(obj.meta.name)
        for name in written.names:
            if name not in there:
                await remove_roles(self._client, name, self._progress)
        for changed in written.roles:
            await restore_role(self._client, changed, self._progress)
        await self._estate.remove_secrets()
        ref = written.secret
        # One that was written before there was a binding.
        secret = await find(self._client, SECRETS, ref.name, ref.namespace)
        if secret is not None and not self._estate.has(secret):
            await remove_secret(self._client, secret, self._progress)

    async def _bundled(self) -> list[Object]:
        """Return the bundle with its bindings, or nothing if one of them has objects."""
        name = self._written.bundle
        bundle = await find_custom(self._client, APISERVICEBINDINGBUNDLES, name) if name else None
        # A bundle of an earlier run may be in use, although nothing is bound by it yet.
        if bundle is None or bundle.meta.uid not in self._written.uids:
            return []
        owned = await bindings_of(self._client, bundle)
        # Each binding is looked at, for each one with objects is reported as kept.
        return [] if any([await self._lives(one) for one in owned]) else [bundle, *owned]

    async def _bindings(self) -> list[Object]:
        """Return the unused bindings that this run or a killed one has made."""
        leaving: list[Object] = []
        for name in self._written.names:
            binding = await find_custom(self._client, APISERVICEBINDINGS, name)
            # A bundle's binding goes with the bundle, which would make it again.
            if binding is None or binding.meta.controller() is not None:
                continue
            ours = binding.meta.uid in self._written.uids
            labelled = binding.meta.labels.get(MANAGED_BY) == MANAGER
            unfinished = labelled and not await self._has_crds(binding)
            if (ours or unfinished) and not await self._lives(binding):
                leaving.append(binding)
        return leaving

    async def _lives(self, binding: Object) -> bool:
        """Whether a binding is Ready or has objects, so that it may be in use."""
        if is_true(binding.decode(APIServiceBinding).status.conditions, READY):
            return True
        name = binding.meta.name
        count = (await impact(self._client, name)).objects
        if count:
            number = "1 object was" if count == 1 else f"{count} objects were"
            self._progress(
                f"kept APIServiceBinding {name}, for {number} created meanwhile: `fairlead "
                f"unbind {name}` removes everything"
            )
        return bool(count)

    async def _has_crds(self, binding: Object) -> bool:
        crds = await self._client.list(CUSTOMRESOURCEDEFINITIONS, metadata_only=True)
        return any(crd.meta.owned_by(binding.meta.uid) for crd in crds.items)

    async def _delete(self, obj: Object) -> bool:
        """Whether an object of this uid existed and is deleted now."""
        bundle = obj.kind == APISERVICEBINDINGBUNDLES.kind
        resource = APISERVICEBINDINGBUNDLES if bundle else APISERVICEBINDINGS
        try:
            await delete(self._client, resource, obj)
        # Another object has the name by now, which is not this run's.
        except Conflict:
            return False
        if bundle:
            self._progress(f"deleted {obj.kind} {obj.meta.name}")
        return True

    async def _gone(self, binding: Object) -> bool:
        """Whether a deleted binding is gone in time; a konnector may have to let go of it."""
        namespace = self._written.secret.namespace
        waiting = WaitOptions(self._client, Deadline(LET_GO_SECONDS), self._progress, namespace)
        try:
            await await_end(waiting, binding, self._estate)
        except UnbindError as error:
            self._progress(str(error))
            return False
        return True
