"""Revokes a consumer: its access goes first, then its data, and its cluster namespace last."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import msgspec

from fairlead.api.kubebind import (
    APISERVICEEXPORTREQUESTS,
    APISERVICEEXPORTS,
    APISERVICENAMESPACES,
    BINDER_NAME,
    BOUNDSCHEMAS,
    CLUSTER_BINDING_NAME,
    CLUSTERBINDINGS,
    FINALIZER_NAMESPACE,
    KUBECONFIG_NAME,
)
from fairlead.api.meta import Object
from fairlead.api.resource import (
    CLUSTERROLEBINDINGS,
    CONFIGMAPS,
    NAMESPACES,
    ROLEBINDINGS,
    SECRETS,
    SERVICEACCOUNTS,
    Resource,
)
from fairlead.client import Client, NotFound
from fairlead.client.lookups import find
from fairlead.provider.commands.copies import Places, count_copies, places, served
from fairlead.provider.commands.revoke import belonging
from fairlead.provider.commands.revoke.belonging import count, provider_namespaces
from fairlead.provider.commands.revoke.cluster import (
    GRACE_SECONDS,
    Desk,
    Holding,
    Progress,
    forgotten,
)
from fairlead.provider.namespaces import identity_of
from fairlead.provider.tokens import token_secrets


class Inventory(msgspec.Struct, frozen=True):
    """A consumer in numbers; ``objects`` counts its copies of exported kinds."""

    identity: str
    namespace: str
    exports: int
    namespaces: int
    objects: int

    def text(self, *, keep_data: bool, force: bool = False) -> str:
        """One sentence that says what will happen."""
        copies, namespaces = count(self.objects, "object"), count(self.namespaces, "namespace")
        data = f"{copies} and {namespaces}"
        end = f"{data} stay, and are nobody's" if keep_data else f"{data} are deleted for ever"
        forced = (
            f"; finalizers that are still on its objects after {GRACE_SECONDS:g} s are taken off, "
            "and what their owners would have cleaned up stays behind"
        )
        return (
            f"{self.identity} ({self.namespace}) loses its access and "
            f"{count(self.exports, 'export')}; {end}{forced if force else ''}"
        )


async def inventory(client: Client, consumer: Object) -> Inventory:
    """What a consumer has.

    Raises:
        ApiError: the server refused.
    """
    name = consumer.meta.name
    exports = (await client.list(APISERVICEEXPORTS, name)).items
    namespaces = (await client.list(NAMESPACES)).items
    copies = await count_copies(client, exports, places(namespaces, exports))
    owned = provider_namespaces(namespaces, name)
    return Inventory(identity_of(consumer), name, len(exports), len(owned), copies[name])


_CLAIMABLE = (CONFIGMAPS, SECRETS, SERVICEACCOUNTS)
_OWN_KINDS = (APISERVICEEXPORTREQUESTS, APISERVICENAMESPACES)
"""What every consumer may write in its cluster namespace."""


class RevokeError(Exception):
    """Revoking has not come to its end; says what it waits for and how to go on."""


async def revoke(
    client: Client,
    consumer: Object,
    *,
    keep_data: bool,
    timeout: float,  # noqa: ASYNC109
    progress: Progress,
    force: bool = False,
) -> None:
    """Take a consumer away from a provider's cluster, with its data or without.

    Works beside the provider's controllers and without them. Doing it again finishes what was
    interrupted.

    Args:
        client: with an administrator's rights.
        consumer: its cluster namespace.
        keep_data: leave provider namespaces and copies, which become nobody's.
        timeout: in seconds.
        progress: is told each step.
        force: take finalizers off objects of the kinds that the consumer could write, if they
            are still there after a while: a consumer can put as many there as it likes.

    Raises:
        RevokeError: the time is up.
        ApiError: the server refused.
    """
    desk = Desk(client, progress)
    work = _Revocation(desk, consumer, keep_data=keep_data, force=force)
    try:
        async with asyncio.timeout(timeout):
            await work.run()
    except TimeoutError:
        waits = f" for {desk.waiting}" if desk.waiting else ""
        raise RevokeError(
            f"{identity_of(consumer)} has no access any more, but revoking still waits{waits} "
            f"after {timeout:g} s: remove what holds it, and say the same again to go on"
            + ("" if force else "; --force takes finalizers off the consumer's objects")
        ) from None


class _Revocation:
    def __init__(self, desk: Desk, consumer: Object, *, keep_data: bool, force: bool) -> None:
        self._force = force
        self._exported: list[Resource] = []
        self._places = Places({}, {})
        self._desk = desk
        self._client = desk.client
        self._consumer = consumer
        self._name = consumer.meta.name
        self._keep = keep_data

    async def run(self) -> None:
        await self._look()
        await self._mark()
        await self._take_access()
        # One that is still pending would have its export made.
        await self._take_all(APISERVICEEXPORTREQUESTS)
        # Once no annotation says whose they are, the controller of APIServiceNamespaces does not
        # delete them when those go.
        if self._keep:
            await self._release_namespaces()
        await self._take_service_namespaces()
        await self._copies()
        # What the consumer could write is known by its exports, which therefore stay until then.
        await self._take_all(APISERVICEEXPORTS)
        await self._take_all(BOUNDSCHEMAS)
        # Controllers of older versions keep the rights up until the exports are gone.
        await self._take_rights()
        await self._copies()
        await self._finish()

    async def _look(self) -> None:
        """Learn what the consumer could write, as long as its exports say so."""
        exports = (await self._client.list(APISERVICEEXPORTS, self._name)).items
        self._exported = await served(self._client, exports)
        self._places = places((await self._client.list(NAMESPACES)).items, exports)
        if self._force:
            own = (*self._exported, *belonging.claimed(exports), *_OWN_KINDS)
            self._desk.forced = frozenset(kind.group_resource for kind in own)

    async def _mark(self) -> None:
        """Have no controller give back what is taken away, nor anybody invite it meanwhile."""
        stored = await find(self._client, CLUSTERBINDINGS, CLUSTER_BINDING_NAME, self._name)
        if stored is not None:
            await self._desk.change(CLUSTERBINDINGS, [stored], belonging.marked)
        # Servers take no new object into a namespace that is going.
        elif self._exported and not self._consumer.meta.deleting:
            await self._client.create(CLUSTERBINDINGS, belonging.mark(self._name))

    async def _take_access(self) -> None:
        """Rights first: servers remember for some seconds that a token was good."""
        rights = await self._take_rights()
        tokens = token_secrets((await self._client.list(SECRETS, self._name)).items)
        dead = await self._desk.delete(SECRETS, [token.secret for token in tokens])
        accounts = await self._desk.list(SERVICEACCOUNTS, self._name)
        binder = [account for account in accounts if account.meta.name == BINDER_NAME]
        gone = await self._desk.delete(SERVICEACCOUNTS, binder)
        if rights or dead or gone:
            bindings = count(rights, "binding of rights", "bindings of rights")
            self._say(f"access taken away: {bindings}, {count(dead, 'token')}")
        self._desk.waiting = "the server to forget the tokens"
        for token in tokens:
            if token.token:
                await forgotten(self._client.config, token.token)
        self._desk.waiting = ""

    async def _take_rights(self) -> int:
        """Every binding that names the consumer, and the roles that were made for it alone."""
        taken = 0
        for resource in (ROLEBINDINGS, CLUSTERROLEBINDINGS):
            for binding in (await self._client.list(resource)).items:
                if belonging.names(binding, self._name):
                    await self._take_binding(resource, binding)
                    taken += 1
        return taken

    async def _take_binding(self, resource: Resource, binding: Object) -> None:
        kind, key = belonging.role_of(binding)
        others = belonging.without_subject(binding, self._name)
        if others is not None:
            await self._desk.change(
                resource, [binding], lambda found: belonging.without_subject(found, self._name)
            )
            return
        try:
            role = await self._client.get(kind, key.name, key.namespace)
        except NotFound:
            pass
        else:
            # First, for the binding is what leads to it when this has to be done again.
            if belonging.is_managed(role):
                await self._desk.delete(kind, [role])
        await self._desk.delete(resource, [binding])

    async def _take_all(self, resource: Resource) -> None:
        """All objects of one of kube-bind's kinds in the cluster namespace."""
        found = await self._desk.list(resource, self._name)
        if deleted := await self._desk.delete(resource, found):
            self._say(f"deleting {count(deleted, resource.kind)}")
        await self._desk.gone(lambda: self._desk.list(resource, self._name), _themselves(resource))

    async def _take_service_namespaces(self) -> None:
        """They go first, for one that stays would have its namespace made again."""
        found = await self._desk.list(APISERVICENAMESPACES, self._name)
        await self._desk.delete(APISERVICENAMESPACES, found)
        if not self._keep:
            owned = await self._provider_namespaces()
            if await self._desk.delete(NAMESPACES, owned):
                names = ", ".join(sorted(one.meta.name for one in owned))
                self._say(f"deleting the provider namespaces with all that is in them: {names}")
            await self._desk.gone(self._going_namespaces, self._contents)
        await self._desk.gone(self._let_go, _themselves(APISERVICENAMESPACES))

    async def _going_namespaces(self) -> Sequence[Object]:
        """Those still there; a controller may have made one again a moment before."""
        left = await self._provider_namespaces()
        await self._desk.delete(NAMESPACES, left)
        return left

    async def _let_go(self) -> Sequence[Object]:
        """APIServiceNamespaces that are left, once nothing of ours holds them."""
        left = await self._desk.list(APISERVICENAMESPACES, self._name)
        await self._desk.delete(APISERVICENAMESPACES, left)
        held = [one for one in left if FINALIZER_NAMESPACE in one.meta.finalizers]
        await self._desk.let_go(APISERVICENAMESPACES, held, FINALIZER_NAMESPACE)
        return await self._desk.list(APISERVICENAMESPACES, self._name)

    async def _provider_namespaces(self) -> list[Object]:
        listed = (await self._client.list(NAMESPACES)).items
        return belonging.provider_namespaces(listed, self._name)

    async def _contents(self, namespaces: Sequence[Object]) -> Holding:
        """What keeps namespaces from going: objects in them that have finalizers."""
        kinds = [*await self._desk.kinds(namespaced=True), *_CLAIMABLE]
        holding: list[tuple[Resource, Object]] = []
        for namespace in namespaces:
            for kind in kinds:
                found = await self._desk.list(kind, namespace.meta.name)
                holding += [(kind, obj) for obj in found if obj.meta.finalizers]
        return holding

    async def _release_namespaces(self) -> None:
        """Provider namespaces become nobody's, the namespace itself after what is in it."""
        owned = await self._provider_namespaces()
        kinds = [*await self._desk.kinds(namespaced=True), *_CLAIMABLE]
        copies = 0
        for namespace in owned:
            for kind in kinds:
                copies += await self._release(kind, namespace.meta.name)
        # The namespaces are found by this annotation when revoking is done again after an
        # interruption, so it goes only when all copies in them are released.
        await self._desk.change(NAMESPACES, owned, belonging.without_owner)
        if owned:
            names = ", ".join(sorted(one.meta.name for one in owned))
            self._say(f"what stays, {count(copies, 'copy', 'copies')} in: {names}")

    async def _release(self, kind: Resource, namespace: str = "") -> int:
        return await self._desk.change(
            kind,
            await self._own(kind, namespace),
            lambda obj: belonging.released(obj, self._consumer),
        )

    async def _copies(self) -> None:
        """The consumer's objects that are in no provider namespace."""
        for kind in await self._desk.kinds(namespaced=False):
            if self._keep:
                if kept := await self._release(kind):
                    self._say(f"what stays: {count(kept, kind.kind)}")
                continue
            await self._take_copies(kind, partial(self._own, kind))
        if not self._keep:
            for kind in self._exported:
                if kind.namespaced:
                    await self._take_copies(kind, partial(self._desk.list, kind, self._name))

    async def _take_copies(
        self, kind: Resource, look: Callable[[], Awaitable[list[Object]]]
    ) -> None:
        if deleted := await self._desk.delete(kind, await look()):
            self._say(f"deleting {count(deleted, kind.kind)}")
        await self._desk.gone(look, _themselves(kind))

    async def _own(self, kind: Resource, namespace: str = "") -> list[Object]:
        """The consumer's copies of a kind, by more than their own word where more is known."""
        found = await self._desk.list(kind, namespace)
        known = (self._name, kind.group, kind.plural) in self._places.isolations
        if known and not kind.namespaced:
            return [obj for obj in found if self._places.whose(kind, obj.meta) == self._name]
        return [obj for obj in found if belonging.is_copy(obj, self._name)]

    async def _finish(self) -> None:
        if self._keep and (kept := await self._kept_here()):
            await self._take_all(CLUSTERBINDINGS)
            secrets = await self._desk.list(SECRETS, self._name)
            await self._desk.delete(
                SECRETS, [one for one in secrets if one.meta.name == KUBECONFIG_NAME]
            )
            # The identity goes last: a consumer is found by it, and this may have to be done
            # again.
            await self._desk.change(NAMESPACES, [self._consumer], belonging.without_identity)
            copies = count(kept, "copy", "copies")
            self._say(f"cluster namespace {self._name} stays, for it holds {copies}")
            return
        if await self._desk.delete(NAMESPACES, await self._cluster_namespace()):
            self._say(f"deleting the cluster namespace {self._name}")
        await self._desk.gone(self._cluster_namespace, self._contents)

    async def _kept_here(self) -> int:
        """How many copies are in the cluster namespace itself (isolation Namespaced).

        They keep their annotation, which is how they are known when this is done again.
        """
        kinds = await self._desk.kinds(namespaced=True)
        return sum([len(await self._own(kind, self._name)) for kind in kinds])

    async def _cluster_namespace(self) -> list[Object]:
        found = await find(self._client, NAMESPACES, self._name)
        return [found] if found and found.meta.uid == self._consumer.meta.uid else []

    def _say(self, line: str) -> None:
        self._desk.progress(line)


def _themselves(resource: Resource) -> Callable[[Sequence[Object]], Awaitable[Holding]]:
    """That objects hold themselves, by their finalizers."""

    async def holders(left: Sequence[Object]) -> Holding:
        return [(resource, obj) for obj in left]

    return holders
