"""Steps that revoke a consumer: access first, then data, and the cluster namespace last."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial

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
from fairlead.client import Client, ClientError, Forbidden, NotFound
from fairlead.client.lookups import find
from fairlead.provider.commands.revoke import belonging
from fairlead.provider.commands.revoke.belonging import count
from fairlead.provider.commands.revoke.cluster import (
    Desk,
    Holding,
    Progress,
    UnseenError,
    each,
    forgotten,
)
from fairlead.provider.copies import CopyNamespaces, exported, places
from fairlead.provider.namespaces import identity_of
from fairlead.provider.tokens import TOKEN_TYPE, TokenSecret, token_secrets


_CLAIMABLE = (CONFIGMAPS, SECRETS, SERVICEACCOUNTS)
_OWN_KINDS = (APISERVICEEXPORTREQUESTS, APISERVICENAMESPACES)
"""Kinds that every consumer may write in its cluster namespace."""


class RevokeError(Exception):
    """Revoking is unfinished; the text names the obstacle and how to go on."""


class UnlookedError(RevokeError):
    """The access is removed, and data remains: objects of some kinds cannot be listed."""


async def lock_out(client: Client, consumer: Object, progress: Progress) -> None:
    """Remove a consumer's access, and no data, like the first step of :func:`revoke`.

    Raises:
        RevokeError: a part of the access could not be removed.
    """
    await _Revocation(Desk(client, progress), consumer, keep_data=True, force=False).lock_out()


async def revoke(
    client: Client,
    consumer: Object,
    *,
    keep_data: bool,
    timeout: float,  # noqa: ASYNC109
    progress: Progress,
    force: bool = False,
) -> None:
    """Remove a consumer from a provider's cluster, with its data or without.

    The provider's controllers may run at the same time or not at all. A second call finishes an
    interrupted one.

    Args:
        client: with an administrator's rights.
        consumer: its cluster namespace.
        keep_data: leave provider namespaces and copies, which then have no owner.
        timeout: limit in seconds.
        progress: called with each step.
        force: remove finalizers from objects of the kinds that the consumer could write, after
            some seconds; a consumer can add any number of finalizers to its objects.

    Raises:
        UnlookedError: the access is gone, and what is left is of kinds that cannot be listed.
        RevokeError: the time is up, or the access could not be taken away.
        ApiError: the server refused.
    """
    desk = Desk(client, progress)
    work = _Revocation(desk, consumer, keep_data=keep_data, force=force)
    try:
        async with asyncio.timeout(timeout):
            await work.run()
    except TimeoutError:
        waits = f" for {desk.waiting}" if desk.waiting else ""
        so_far = "has no access any more" if work.locked_out else "may still have access"
        raise RevokeError(
            f"{identity_of(consumer)} {so_far}, but revoking still waits{waits} "
            f"after {timeout:g} s: remove what holds it, and run the command again to continue"
            + ("" if force else "; --force takes finalizers off the consumer's objects")
        ) from None
    except UnseenError as error:
        raise work.unlooked(f"; still there: {error}") from None


class _Revocation:
    def __init__(self, desk: Desk, consumer: Object, *, keep_data: bool, force: bool) -> None:
        self._force = force
        self._exported: list[Resource] = []
        self._bound: frozenset[str] = frozenset()
        self._places = CopyNamespaces({}, {})
        self._desk = desk
        self._client = desk.client
        self._consumer = consumer
        self._name = consumer.meta.name
        self._keep = keep_data
        self._untaken: dict[str, str] = {}
        self.locked_out = False
        """Whether all access of the consumer is removed."""

    async def lock_out(self) -> None:
        """Remove all access that can be removed, even if a part of it fails."""
        with self._noted("the record that it is being revoked"):
            await self._mark()
        await self._take_access()
        if self._untaken:
            parts = "; ".join(f"{what}: {why}" for what, why in self._untaken.items())
            raise RevokeError(
                f"{identity_of(self._consumer)} may still have access, for not all of it could be "
                f"taken away ({parts}), and its data was not touched: fix that, or use other "
                "credentials, and run the command again to continue"
            )
        self.locked_out = True

    def unlooked(self, more: str = "") -> UnlookedError:
        """Return the error about kinds that cannot be listed, so that their objects remain."""
        kinds = "; ".join(f"{kind}: {why}" for kind, why in sorted(self._desk.unseen.items()))
        return UnlookedError(
            f"{identity_of(self._consumer)} has no access any more, but not all that it has could "
            f"be listed ({kinds}){more}: fix that kind, such as its conversion webhook, and "
            "run the command again to continue"
        )

    @contextmanager
    def _noted(self, what: str) -> Iterator[None]:
        """Record an error of one part of the access, so that the other parts are still removed."""
        try:
            yield
        except ClientError as error:
            self._untaken[what] = str(error)
        else:
            self._untaken.pop(what, None)

    async def run(self) -> None:
        await self.lock_out()
        await self._read_kinds()
        # From here on the provider's controllers go on if this process is killed. They delete
        # every object of the consumer: objects to keep must lose their owner before that is
        # recorded.
        if not self._keep:
            await self._clear(clearing=True)
        elif await self._unreleased():
            await self._clear(clearing=False)
        # A pending request would have its export made.
        await self._take_all(APISERVICEEXPORTREQUESTS)
        # Without the annotation of their owner, the controller of APIServiceNamespaces does not
        # delete the namespaces when their objects go.
        if self._keep:
            await self._release_namespaces()
        await self._take_service_namespaces()
        await self._copies()
        if self._own_unseen():
            raise self.unlooked()
        if self._keep and not await self._kept_here():
            await self._clear(clearing=True)
        # The exports tell which kinds the consumer could write, and therefore stay until then.
        await self._take_all(APISERVICEEXPORTS)
        await self._take_all(BOUNDSCHEMAS)
        # Controllers of older versions renew the rights until the exports are gone.
        await self._take_rights()
        await self._copies()
        if self._own_unseen():
            raise self.unlooked()
        await self._finish()

    async def _read_kinds(self) -> None:
        """Read the kinds that the consumer could write, while its exports still name them."""
        exports = (await self._client.list(APISERVICEEXPORTS, self._name)).items
        schemas = (await self._client.list(BOUNDSCHEMAS, self._name, metadata_only=True)).items
        self._bound = frozenset(schema.meta.name for schema in schemas)
        names = set[str]().union(*map(exported, exports))
        every = [await self._desk.kinds(namespaced=namespaced) for namespaced in (True, False)]
        self._exported = [kind for one in every for kind in one if kind.group_resource in names]
        self._places = places((await self._client.list(NAMESPACES)).items, exports)
        if self._force:
            own = (*self._exported, *belonging.claimed(exports), *_OWN_KINDS)
            self._desk.forced = frozenset(kind.group_resource for kind in own)

    async def _mark(self) -> None:
        """Mark the consumer as revoked: controllers and invitations grant it no access again."""
        stored = await find(self._client, CLUSTERBINDINGS, CLUSTER_BINDING_NAME, self._name)
        if stored is not None:
            await self._desk.change(CLUSTERBINDINGS, [stored], belonging.marked)
        # Servers take no new object into a namespace that is going.
        elif not self._consumer.meta.deleting and await self._has_exports():
            await self._client.create(CLUSTERBINDINGS, belonging.mark(self._name))

    async def _clear(self, *, clearing: bool) -> None:
        """Record for the controllers whether they delete the consumer's objects."""
        stored = await find(self._client, CLUSTERBINDINGS, CLUSTER_BINDING_NAME, self._name)
        if stored is not None:
            body = partial(belonging.marked, clearing=clearing)
            await self._desk.change(CLUSTERBINDINGS, [stored], body)
        elif clearing and await self._cluster_namespace() and not self._consumer.meta.deleting:
            mark = belonging.mark(self._name, clearing=True)
            await self._client.create(CLUSTERBINDINGS, mark)

    async def _has_exports(self) -> bool:
        page = await self._client.page(APISERVICEEXPORTS, self._name, limit=1)
        return bool(page.items)

    async def _take_access(self) -> None:
        """Delete the login, then the rights: the login is a few requests, rights may be many."""
        tokens: list[TokenSecret] = []
        dead = gone = 0
        with self._noted(f"the tokens in namespace {self._name}"):
            # Listed before the account goes, which takes its tokens with it.
            tokens = token_secrets((await self._client.list(SECRETS, self._name)).items)
            dead = await self._desk.delete(SECRETS, [token.secret for token in tokens])
        with self._noted(f"ServiceAccount {self._name}/{BINDER_NAME}"), suppress(NotFound):
            gone = await self._take_account()
        # Servers remember for some seconds that a token was good, but not what it may do.
        rights = await self._take_rights()
        dead += await self._take_other_tokens()
        if rights or dead or gone:
            bindings = count(rights, "binding of rights", "bindings of rights")
            self._say(f"access taken away: {bindings}, {count(dead, 'token')}")
        self._desk.waiting = "the server to forget the tokens"
        for token in tokens:
            if token.token and not self._untaken:
                await forgotten(self._client.config, token.token)
        self._desk.waiting = ""
        # While a server remembers the login or the rights, there may be new tokens.
        await self._take_other_tokens()

    async def _take_account(self) -> int:
        try:
            account = await self._client.get(SERVICEACCOUNTS, BINDER_NAME, self._name)
        except Forbidden:
            # A person may have the right to delete it without the right to read it.
            await self._client.delete(SERVICEACCOUNTS, BINDER_NAME, self._name)
            return 1
        return await self._desk.delete(SERVICEACCOUNTS, [account])

    async def _take_other_tokens(self) -> int:
        """Delete the tokens of other ServiceAccounts where the consumer could read or make them.

        The right to create Secrets in a namespace yields a token of any ServiceAccount there, and
        this token never expires.
        """
        taken = 0

        async def take_tokens(namespace: Object) -> None:
            nonlocal taken
            name = namespace.meta.name
            with self._noted(f"tokens of other ServiceAccounts in namespace {name}"):
                secrets = await self._client.list(
                    SECRETS, name, fields=f"type={TOKEN_TYPE}", metadata_only=True
                )
                taken += await self._desk.delete(SECRETS, secrets.items)

        with self._noted("tokens in the provider namespaces"):
            await each([self._consumer, *await self._provider_namespaces()], take_tokens)
        return taken

    async def _take_rights(self) -> int:
        """Delete every binding that names the consumer, and the roles made for it alone."""
        taken = 0
        for resource in (ROLEBINDINGS, CLUSTERROLEBINDINGS):

            async def take_right(binding: Object, resource: Resource = resource) -> None:
                nonlocal taken
                with self._noted(f"{resource.kind} {binding.key}"):
                    await self._take_binding(resource, binding)
                    taken += 1

            with self._noted(f"{resource.kind}s"):
                listed = (await self._client.list(resource)).items
                await each([one for one in listed if belonging.names(one, self._name)], take_right)
        return taken

    async def _take_binding(self, resource: Resource, binding: Object) -> None:
        kind, key = belonging.role_of(binding)
        others = belonging.without_subject(binding, self._name)
        if others is not None:
            await self._desk.change(
                resource, [binding], lambda subject: belonging.without_subject(subject, self._name)
            )
            return
        # The role first, for its binding leads to it when this is repeated.
        with self._noted(f"{kind.kind} {key}"), suppress(NotFound):
            role = await self._client.get(kind, key.name, key.namespace)
            if belonging.is_managed(role):
                await self._desk.delete(kind, [role])
        await self._desk.delete(resource, [binding])

    async def _take_all(self, resource: Resource) -> None:
        """Delete all objects of one of kube-bind's kinds in the cluster namespace."""
        objects = await self._desk.list(resource, self._name)
        if deleted := await self._desk.delete(resource, objects):
            self._say(f"deleting {count(deleted, resource.kind)}")
        await self._desk.gone(lambda: self._desk.list(resource, self._name), _themselves(resource))

    async def _take_service_namespaces(self) -> None:
        """Delete APIServiceNamespaces before their namespaces, which would be created again."""
        namespaces = await self._desk.list(APISERVICENAMESPACES, self._name)
        await self._desk.delete(APISERVICENAMESPACES, namespaces)
        if not self._keep:
            owned = await self._provider_namespaces()
            if await self._desk.delete(NAMESPACES, owned):
                names = ", ".join(sorted(one.meta.name for one in owned))
                self._say(f"deleting the provider namespaces with all that is in them: {names}")
            await self._desk.gone(self._going_namespaces, self._contents)
        await self._desk.gone(self._let_go, _themselves(APISERVICENAMESPACES))

    async def _going_namespaces(self) -> Sequence[Object]:
        """Delete the remaining provider namespaces, also one that a controller created again."""
        left = await self._provider_namespaces()
        await self._desk.delete(NAMESPACES, left)
        return left

    async def _let_go(self) -> Sequence[Object]:
        """Remove our finalizer from APIServiceNamespaces; return those that remain."""
        left = await self._desk.list(APISERVICENAMESPACES, self._name)
        await self._desk.delete(APISERVICENAMESPACES, left)
        objects = [one for one in left if FINALIZER_NAMESPACE in one.meta.finalizers]
        await self._desk.let_go(APISERVICENAMESPACES, objects, FINALIZER_NAMESPACE)
        return await self._desk.list(APISERVICENAMESPACES, self._name)

    async def _provider_namespaces(self) -> list[Object]:
        listed = (await self._client.list(NAMESPACES)).items
        return belonging.provider_namespaces(listed, self._name)

    async def _contents(self, namespaces: Sequence[Object]) -> Holding:
        """Return the objects whose finalizers delay the deletion of namespaces."""
        kinds = [*await self._desk.kinds(namespaced=True), *_CLAIMABLE]
        holding: list[tuple[Resource, Object]] = []
        self._desk.unseen.clear()
        for namespace in namespaces:
            for kind in kinds:
                if kind.group_resource not in self._desk.unseen:
                    objects = await self._desk.list_objects(kind, namespace.meta.name)
                    holding += [(kind, obj) for obj in objects if obj.meta.finalizers]
        return holding

    async def _release_namespaces(self) -> None:
        """Remove the consumer's marks from its provider namespaces, each after its copies."""
        owned = await self._provider_namespaces()
        kinds = [*await self._desk.kinds(namespaced=True), *_CLAIMABLE]
        for kind in kinds:
            if self._is_own(kind.group_resource):
                await self._desk.list_objects(kind)
        # Copies that keep their mark would be deleted with the namespaces that lose theirs.
        if self._own_unseen():
            raise self.unlooked()
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

    async def _unreleased(self) -> bool:
        """Whether objects to keep still have marks, by which the controllers would delete them."""
        if await self._provider_namespaces() or await self._kept_here():
            return True
        kinds = await self._desk.kinds(namespaced=False)
        return any([await self._own(kind) for kind in kinds]) or bool(self._desk.unseen)

    async def _release(self, kind: Resource, namespace: str = "") -> int:
        return await self._desk.change(
            kind,
            await self._own(kind, namespace),
            lambda obj: belonging.released(obj, self._consumer),
        )

    async def _copies(self) -> None:
        """Delete or release the consumer's objects that are in no provider namespace."""
        for kind in await self._desk.kinds(namespaced=False):
            if self._keep:
                if text := await self._release(kind):
                    self._say(f"what stays: {count(text, kind.kind)}")
                continue
            await self._take_copies(kind, partial(self._own, kind))
        if not self._keep:
            for kind in self._exported:
                if kind.namespaced:
                    await self._take_copies(
                        kind, partial(self._desk.list_objects, kind, self._name)
                    )

    async def _take_copies(
        self, kind: Resource, list_copies: Callable[[], Awaitable[list[Object]]]
    ) -> None:
        if deleted := await self._desk.delete(kind, await list_copies()):
            self._say(f"deleting {count(deleted, kind.kind)}")
        await self._desk.gone(list_copies, _themselves(kind))

    async def _own(self, kind: Resource, namespace: str = "") -> list[Object]:
        """Return the consumer's copies of a kind.

        Every consumer of a cluster-scoped kind may write the annotation of any object: while the
        exports are known, name and isolation have to agree with it.
        """
        objects = await self._desk.list_objects(kind, namespace)
        is_isolated = (self._name, kind.group, kind.plural) in self._places.isolations
        if is_isolated and not kind.namespaced:
            return [obj for obj in objects if self._places.whose(kind, obj.meta) == self._name]
        return [obj for obj in objects if belonging.is_copy(obj, self._name)]

    def _is_own(self, kind: str) -> bool:
        """Whether the consumer's exports or their schemas name a kind."""
        return kind in self._bound or kind in {one.group_resource for one in self._exported}

    def _own_unseen(self) -> bool:
        """Whether a kind that the consumer could write cannot be listed."""
        return any(map(self._is_own, self._desk.unseen))

    async def _finish(self) -> None:
        if self._keep and (texts := await self._kept_here()):
            await self._take_all(CLUSTERBINDINGS)
            secrets = await self._desk.list(SECRETS, self._name)
            await self._desk.delete(
                SECRETS, [one for one in secrets if one.meta.name == KUBECONFIG_NAME]
            )
            # The identity goes last: it is how a repetition finds the consumer.
            await self._desk.change(NAMESPACES, [self._consumer], belonging.without_identity)
            copies = count(texts, "copy", "copies")
            self._say(f"cluster namespace {self._name} stays, for it holds {copies}")
            return
        if await self._desk.delete(NAMESPACES, await self._cluster_namespace()):
            self._say(f"deleting the cluster namespace {self._name}")
        await self._desk.gone(self._cluster_namespace, self._contents)

    async def _kept_here(self) -> int:
        """Count the copies in the cluster namespace itself (isolation Namespaced).

        They keep their annotation, by which a repetition finds them.
        """
        kinds = await self._desk.kinds(namespaced=True)
        return sum([len(await self._own(kind, self._name)) for kind in kinds])

    async def _cluster_namespace(self) -> list[Object]:
        namespace = await find(self._client, NAMESPACES, self._name)
        return [namespace] if namespace and namespace.meta.uid == self._consumer.meta.uid else []

    def _say(self, line: str) -> None:
        self._desk.progress(line)


def _themselves(resource: Resource) -> Callable[[Sequence[Object]], Awaitable[Holding]]:
    """Return the ``holders`` of :meth:`Desk.gone` for objects that hold themselves."""

    async def holders(left: Sequence[Object]) -> Holding:
        return [(resource, obj) for obj in left]

    return holders
